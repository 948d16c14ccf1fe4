"""Modules that models import and that are not there, and what to use instead."""

from __future__ import annotations

import importlib.util

from byref_sandbox.code.libraries import LIBRARIES, PARTS

_FILES = "of files, open(), pathlib, os, zipfile and pandas reach those that code has written"
_NETWORK = "there is no network"
_PROCESSES = (
    "threads and processes are not available: a plain loop does the same here, and concurrent.futures runs as one"
)
_NUMBERS = "use numpy and pandas"
_DATABASE = "no database is in reach: use pandas (merge, groupby, query), or sqlite3 in memory"
_NOT_INSTALLED = "not installed here (byref[science])"
_PLOTS = "use matplotlib.pyplot, or frame.plot()"
NO_PLOTS = (
    "plots need matplotlib, which is not installed here (byref[plots]): give the numbers, they are shown as a table"
)
_HAS_PLOTS = importlib.util.find_spec("matplotlib") is not None  # runs cannot look

_INSTEAD = {
    "fileinput tarfile filecmp mmap": _FILES,
    "requests urllib3 httpx aiohttp socket ssl ftplib smtplib websocket websockets boto3 botocore paramiko selenium telnetlib": _NETWORK,
    "subprocess multiprocessing threading joblib pexpect psutil signal": _PROCESSES,
    "trio anyio": "asyncio is there, and runs coroutines without threads, sockets and processes",
    "sqlalchemy duckdb psycopg2 psycopg pymysql mysql pymongo redis peewee pandasql": _DATABASE,
    "sklearn": f"scikit-learn is {_NOT_INSTALLED}; {_NUMBERS}: np.linalg.lstsq and np.polyfit fit, .corr() correlates, sample() splits",
    "scipy": f"scipy is {_NOT_INSTALLED}; {_NUMBERS}: statistics.NormalDist, np.percentile, np.polyfit and .corr() go a long way",
    "statsmodels patsy": f"statsmodels is {_NOT_INSTALLED}; {_NUMBERS}: np.linalg.lstsq and np.polyfit fit, rolling() and ewm() smooth",
    "torch tensorflow keras xgboost lightgbm transformers nltk spacy numba cupy jax": _NUMBERS,
    "sympy mpmath": f"sympy is {_NOT_INSTALLED}; {_NUMBERS}: np.polynomial has roots, derivatives and integrals",
    "networkx": f"networkx is {_NOT_INSTALLED}; use dicts of sets, and collections.deque for what is next",
    "matplotlib mpl_toolkits pylab": NO_PLOTS,
    "seaborn": f"seaborn is {_NOT_INSTALLED}; {_PLOTS}",
    "plotly bokeh altair plotnine pygal": _PLOTS,
    "polars dask modin pyspark vaex cudf pyarrow": "use pandas",
    "pickle marshal shelve dill cloudpickle dbm": "use json or copy.deepcopy(); names assigned at top level are kept by themselves",
    "openpyxl xlrd xlsxwriter docx PyPDF2 pypdf": _FILES,
    "yaml": "PyYAML is not installed here (byref[tables]): take its lines apart with re and str.split(), or have the tool return JSON",
    "toml": "use json or tomllib",
    "bs4 lxml": "use html.parser.HTMLParser, xml.etree.ElementTree.fromstring() or re",
    "orjson ujson simplejson": "use json",
    "prettytable rich texttable": "print(frame.to_markdown()), or return the DataFrame",
    "tqdm": "loop without it",
    "ipywidgets": "print() or return the value",
    "pydantic attr attrs": "use dataclasses",
    "more_itertools": "use itertools",
    "arrow pendulum dateparser": "use datetime, dateutil or pd.to_datetime()",
    "locale": "use f'{value:,.2f}'",
    "argparse getpass optparse": "nobody is there to answer: put the values into the code",
    "dis gc importlib pkgutil ctypes cffi builtins code codeop runpy weakref tracemalloc sysconfig site pip": "the interpreter itself is not available",
    "platform resource getopt atexit faulthandler": "the system is not available",
    "unittest pytest doctest": "use assert",
}
_PARTS = {
    "urllib.request urllib.error http.client http.server xmlrpc.client": _NETWORK,
    "pyarrow.parquet pyarrow.csv pyarrow.feather pandas.io": _FILES,
    "pyarrow.compute": "use pandas",
    "xml.dom xml.sax": "use xml.etree.ElementTree.fromstring()",
}
_INSTALLED = frozenset(name for name in (*LIBRARIES, *PARTS) if importlib.util.find_spec(name) is not None)
"""Libraries that are loaded where code names them."""
_BY_NAME = {name: hint for listed, hint in (_INSTEAD | _PARTS).items() for name in listed.split()}
_ABOUT_DATA = frozenset({_FILES, _NETWORK, _DATABASE})


def instead_of(module: str) -> tuple[str, bool] | None:
    """Return what to use instead of a module, and whether to add where the data is; None of an unknown module."""
    first, second = (*module.split("."), "")[:2]
    hint = _BY_NAME.get(f"{first}.{second}") or _BY_NAME.get(first)
    if hint is None:
        return None
    if first in _INSTALLED:
        return f"{first} is installed: write `import {first}` in the same code, which loads it", False
    return hint if _HAS_PLOTS else hint.replace(_PLOTS, NO_PLOTS), hint in _ABOUT_DATA
