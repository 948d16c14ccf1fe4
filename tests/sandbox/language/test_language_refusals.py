"""What models reach for and do not find: each reply names the construct and its line, and says what to use instead."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from byref_sandbox.language.policy import Language, Refused
from byref_sandbox.outcome import Failure

NO_PLOTS = (
    "plots need matplotlib, which is not installed here (byref[plots]): give the numbers, they are shown as a table"
)
MODULES = [
    ("import os", "files, processes and the environment are not available; the data is in: orders, users"),
    ("import os.path", "files, processes and the environment are not available; the data is in: orders, users"),
    ("import shutil", "files are not available; the data is in: orders, users"),
    ("import glob", "files are not available; the data is in: orders, users"),
    ("import tempfile", "files are not available; the data is in: orders, users"),
    ("import zipfile", "files are not available; the data is in: orders, users"),
    ("import requests", "there is no network; the data is in: orders, users"),
    ("import urllib.request", "there is no network; the data is in: orders, users"),
    ("from urllib.request import urlopen", "there is no network; the data is in: orders, users"),
    ("import httpx", "there is no network; the data is in: orders, users"),
    ("import socket", "there is no network; the data is in: orders, users"),
    ("import smtplib", "there is no network; the data is in: orders, users"),
    ("import boto3", "there is no network; the data is in: orders, users"),
    ("import subprocess", "threads and processes are not available: a plain loop does the same here"),
    ("import threading", "threads and processes are not available: a plain loop does the same here"),
    ("import multiprocessing", "threads and processes are not available: a plain loop does the same here"),
    (
        "from concurrent.futures import ThreadPoolExecutor",
        "threads and processes are not available: a plain loop does the same here",
    ),
    ("import asyncio", "async code is not available: call functions plainly"),
    (
        "import sqlite3",
        "databases are not available: use pandas (merge, groupby, query); the data is in: orders, users",
    ),
    (
        "import sqlalchemy",
        "databases are not available: use pandas (merge, groupby, query); the data is in: orders, users",
    ),
    ("import duckdb", "databases are not available: use pandas (merge, groupby, query); the data is in: orders, users"),
    (
        "import psycopg2",
        "databases are not available: use pandas (merge, groupby, query); the data is in: orders, users",
    ),
    (
        "from sklearn.linear_model import LinearRegression",
        "use numpy and pandas: np.linalg.lstsq and np.polyfit fit, .corr() correlates, sample() splits",
    ),
    (
        "import scipy.stats",
        "use numpy and pandas: statistics.NormalDist, np.percentile, np.polyfit and .corr() go a long way",
    ),
    (
        "from scipy import stats",
        "use numpy and pandas: statistics.NormalDist, np.percentile, np.polyfit and .corr() go a long way",
    ),
    (
        "import statsmodels.api as sm",
        "use numpy and pandas: np.linalg.lstsq and np.polyfit fit, rolling() and ewm() smooth",
    ),
    ("import torch", "use numpy and pandas"),
    ("import networkx", "use numpy and pandas"),
    ("import matplotlib.pyplot as plt", NO_PLOTS),
    ("import seaborn as sns", "use matplotlib.pyplot, or frame.plot()"),
    ("import plotly.express as px", "use matplotlib.pyplot, or frame.plot()"),
    ("import polars as pl", "use pandas"),
    ("import pyarrow.parquet", "files are not available; the data is in: orders, users"),
    ("import pickle", "use json or copy.deepcopy(); names assigned at top level are kept by themselves"),
    ("import joblib", "threads and processes are not available: a plain loop does the same here"),
    ("import pytz", "use zoneinfo.ZoneInfo"),
    (
        "import yaml",
        "there is no parser of YAML here: take its lines apart with re and str.split(), or have the tool return JSON",
    ),
    ("import openpyxl", "files are not available; the data is in: orders, users"),
    ("from bs4 import BeautifulSoup", "use html.parser.HTMLParser, xml.etree.ElementTree.fromstring() or re"),
    ("import tqdm", "loop without it"),
    ("import ipywidgets", "print() or return the value"),
    ("import inspect", "the interpreter itself is not available"),
    ("import importlib", "the interpreter itself is not available"),
    ("import ctypes", "the interpreter itself is not available"),
    ("import gc", "the interpreter itself is not available"),
    ("import argparse", "nobody is there to answer: put the values into the code"),
    ("import pandas.io.sql", "files are not available; the data is in: orders, users"),
]

REPLIES = [
    (
        'open("users.csv")',
        "NotAllowed",
        1,
        "open() is not available: there are no files here",
        "the data is in: orders, users",
    ),
    (
        "from IPython.display import HTML",
        "ImportError",
        1,
        "cannot import name 'HTML' from 'IPython.display': IPython.display.HTML is not available; use print()",
        "IPython.display has: display",
    ),
    (
        "x = 1\n!pip install scikit-learn",
        "NotAllowed",
        2,
        "'sklearn' cannot be installed: there is no network",
        "use numpy and pandas: np.linalg.lstsq and np.polyfit fit, .corr() correlates, sample() splits",
    ),
    (
        "!ls -la",
        "NotAllowed",
        1,
        "!ls is not available: this is Python alone, without IPython and a shell",
        "leave the line out; the data is already bound as variables",
    ),
    (
        "users\n%%bash\nls",
        "NotAllowed",
        2,
        "%%bash is not available: this is Python alone, without IPython and a shell",
        "leave the line out; the data is already bound as variables",
    ),
    (
        "pd.Series([1]).values.setflags(write=True)",
        "NotAllowed",
        1,
        "setflags(write=True) is not available: the array is read-only",
        "use .copy(): a copy can be written to",
    ),
    (
        "pd.Series([1]).values[0] = 2",
        "ValueError",
        1,
        "assignment destination is read-only",
        "the array belongs to a table: take a .copy() first, or assign to the column",
    ),
    (
        "pd.to_datetime(['2024-01-01']).tz_localize('dateutil//etc/passwd')",
        "NotAllowed",
        1,
        "the time zone 'dateutil//etc/passwd' is not available",
        "name the zone alone: 'Europe/Oslo'",
    ),
    (
        "users.to_string(float_format='{0.__class__}')",
        "NotAllowed",
        1,
        "attribute '__class__' is not available in a format string",
        "use '{:.2f}'",
    ),
    ("async def main(): pass", "NotAllowed", 1, "async functions are not available", "use a plain function"),
    ("await f()", "NotAllowed", 1, "await is not available", "call the function plainly"),
    (
        'users.plot(kind="bar")',
        "NotAllowed",
        1,
        ".plot is not available",
        NO_PLOTS,
    ),
    ("users.hist()", "NotAllowed", 1, ".hist is not available", NO_PLOTS),
    ("users.boxplot()", "NotAllowed", 1, ".boxplot is not available", NO_PLOTS),
    (
        'users.style.format("{:.2f}")',
        "NotAllowed",
        1,
        ".style is not available",
        "return the numbers; they are shown as a table",
    ),
    (
        'eval("1 + 1")',
        "NotAllowed",
        1,
        "eval() is not available",
        "write the expression directly, or use ast.literal_eval() for literals",
    ),
    ('exec("x = 1")', "NotAllowed", 1, "exec() is not available", "write the code directly"),
    ('compile("1", "", "eval")', "NotAllowed", 1, "compile() is not available", "write the code directly"),
    ('__import__("os")', "NotAllowed", 1, "'__import__' is not available", "use an import statement"),
    ("__builtins__", "NotAllowed", 1, "'__builtins__' is not available", "builtins are available by their names"),
    ("__file__", "NotAllowed", 1, "'__file__' is not available", "there is no file; the data is bound as variables"),
    (
        'input("name?")',
        "NotAllowed",
        1,
        "input() is not available: nobody is there to answer",
        "put the value into the code",
    ),
    ("breakpoint()", "NotAllowed", 1, "breakpoint() is not available", "use print()"),
    ("help(len)", "NotAllowed", 1, "help() is not available", "dir(value) names what a value has"),
    ('memoryview(b"a")', "NotAllowed", 1, "memoryview() is not available", "use bytes or bytearray"),
    (
        'pd.read_csv("users.csv")',
        "NotAllowed",
        1,
        "pd.read_csv() of a path or address is not available: there are no files here",
        "text can be read with pd.read_csv(io.StringIO(text)); the data is in: orders, users",
    ),
    (
        'pd.read_csv("https://example.com/a.csv")',
        "NotAllowed",
        1,
        "pd.read_csv() of a path or address is not available: there are no files here",
        "text can be read with pd.read_csv(io.StringIO(text)); the data is in: orders, users",
    ),
    (
        'pd.read_excel("users.xlsx")',
        "NotAllowed",
        1,
        "pandas.read_excel is not available",
        "spreadsheets cannot be read here: have the tool return JSON or CSV; the data is in: orders, users",
    ),
    (
        'pd.read_parquet("users.parquet")',
        "NotAllowed",
        1,
        "pandas.read_parquet is not available",
        "Parquet cannot be read here: have the tool return JSON or CSV; the data is in: orders, users",
    ),
    (
        'pd.read_sql("select 1", None)',
        "NotAllowed",
        1,
        "pandas.read_sql is not available: there are no files here",
        "the data is in: orders, users",
    ),
    (
        'pd.read_json("users.json")',
        "NotAllowed",
        1,
        "pd.read_json() of a path or address is not available: there are no files here",
        "text can be read with pd.read_json(io.StringIO(text)); the data is in: orders, users",
    ),
    (
        'pd.read_pickle("users.pkl")',
        "NotAllowed",
        1,
        "pandas.read_pickle is not available: there are no files here",
        "the data is in: orders, users",
    ),
    (
        'pd.read_html("https://example.com")',
        "NotAllowed",
        1,
        "pandas.read_html is not available",
        "html.parser.HTMLParser takes HTML apart, xml.etree.ElementTree.fromstring(text) what is well-formed; the data is in: orders, users",
    ),
    (
        'pd.ExcelWriter("out.xlsx")',
        "NotAllowed",
        1,
        "pandas.ExcelWriter is not available",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        'users.to_excel("out.xlsx")',
        "NotAllowed",
        1,
        ".to_excel() is not available: there are no files here",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        'users.to_parquet("out.parquet")',
        "NotAllowed",
        1,
        ".to_parquet() is not available: there are no files here",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        'users.to_pickle("out.pkl")',
        "NotAllowed",
        1,
        ".to_pickle() is not available: there are no files here",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        'users.to_sql("users", None)',
        "NotAllowed",
        1,
        ".to_sql() is not available: there are no files here",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        "users.to_clipboard()",
        "NotAllowed",
        1,
        ".to_clipboard() is not available: there are no files here",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        'np.load("a.npy")',
        "NotAllowed",
        1,
        "numpy.load is not available: there are no files here",
        "the data is in: orders, users",
    ),
    (
        'np.save("a.npy", np.array([1]))',
        "NotAllowed",
        1,
        "numpy.save is not available: there are no files here",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        'np.loadtxt("a.txt")',
        "NotAllowed",
        1,
        "np.loadtxt() of a path or address is not available: there are no files here",
        "text can be read with np.loadtxt(io.StringIO(text)); the data is in: orders, users",
    ),
    (
        'np.array([1]).tofile("a")',
        "NotAllowed",
        1,
        ".tofile() is not available: there are no files here",
        "assign the value to a name at top level: it is kept for later calls",
    ),
    (
        'np.memmap("a")',
        "NotAllowed",
        1,
        "numpy.memmap is not available",
        "there are no files here: use np.zeros() or np.array()",
    ),
    (
        "np.nditer([1])",
        "NotAllowed",
        1,
        "numpy.nditer is not available",
        "use np.ndenumerate(array), array.flat or np.broadcast()",
    ),
    (
        "import sys\nsys.argv",
        "NotAllowed",
        2,
        "sys.argv is not available",
        "there is no command line: put the values into the code",
    ),
    ("import sys\nsys.path", "NotAllowed", 2, "sys.path is not available", "use an import statement"),
    ("import sys\nsys.modules", "NotAllowed", 2, "sys.modules is not available", "use an import statement"),
    (
        "import sys\nsys.stdin.read()",
        "NotAllowed",
        2,
        "sys.stdin is not available",
        "nobody is there to answer: put the values into the code",
    ),
    (
        "from math import *",
        "NotAllowed",
        1,
        '"from ... import *" is not available',
        "import the names you use from 'math'",
    ),
    (
        "from . import helpers",
        "NotAllowed",
        1,
        "relative imports are not available",
        "there is no package: define what you need in the code",
    ),
    ('type("X", (), {})', "NotAllowed", 1, "type() with three arguments is not available", "use a class statement"),
    (
        "class M(type):\n    pass",
        "NotAllowed",
        1,
        "a class cannot inherit from 'type'",
        "inherit from object, your own classes, exceptions or builtin containers",
    ),
    (
        "from abc import ABC\nclass A(metaclass=lambda *a: 1):\n    pass",
        "NotAllowed",
        2,
        "metaclasses are not available",
        "use __init_subclass__ or a class decorator",
    ),
    (
        "class A:\n    def __getattribute__(self, name):\n        return 1",
        "NotAllowed",
        2,
        "'__getattribute__' cannot be defined",
        "define __getattr__ instead",
    ),
    (
        "class A:\n    def __del__(self):\n        pass",
        "NotAllowed",
        2,
        "'__del__' cannot be defined",
        "use a context manager instead",
    ),
    (
        "class A:\n    def __reduce__(self):\n        return 1",
        "NotAllowed",
        2,
        "'__reduce__' cannot be defined",
        "use copy.copy() or copy.deepcopy()",
    ),
    (
        "().__class__.__bases__",
        "NotAllowed",
        1,
        "attribute '__bases__' is not available",
        "use isinstance() or issubclass()",
    ),
    (
        "int.__subclasses__()",
        "NotAllowed",
        1,
        "attribute '__subclasses__' is not available",
        "keep a list of your classes yourself",
    ),
    ("(lambda: 0).__globals__", "NotAllowed", 1, "attribute '__globals__' is not available", "use plain variables"),
    ("(lambda: 0).__code__", "NotAllowed", 1, "attribute '__code__' is not available", "call the function"),
    ("(x for x in []).gi_frame", "NotAllowed", 1, "attribute 'gi_frame' is not available", None),
    (
        '"{0.__class__}".format(1)',
        "NotAllowed",
        1,
        "attribute '__class__' is not available in a format string",
        "use an f-string",
    ),
    (
        "users._mgr",
        "NotAllowed",
        1,
        "attribute '_mgr' of 'DataFrame' is not available",
        "names that begin with _ are internal; use the public ones",
    ),
    (
        'import json\njson.load(open("a.json"))',
        "NotAllowed",
        2,
        "open() is not available: there are no files here",
        "the data is in: orders, users",
    ),
    (
        "pd.eval(\"__import__('os')\")",
        "NotAllowed",
        1,
        "only methods can be called inside pd.eval()",
        "compute it before and use @name",
    ),
    (
        'users.groupby("id").agg("to_pickle")',
        "NotAllowed",
        1,
        "'to_pickle' is not a function name that agg(), apply() or transform() may use",
        "pass a lambda",
    ),
    (
        'users.eval("a = [x for x in b]")',
        "NotAllowed",
        1,
        "ListComp is not available inside eval()",
        "use df[df[column] > value] instead",
    ),
    (
        'pd.set_option("io.excel.xlsx.reader", "x")',
        "NotAllowed",
        1,
        "pd.set_option('io.excel.xlsx.reader') is not available",
        "only these options can be changed: display.*, mode.*, future.*",
    ),
    (
        "len.__self__",
        "NotAllowed",
        1,
        "attribute '__self__' is not available",
        "keep the object in a variable of your own",
    ),
    ('globals()["__builtins__"] = {}', "NotAllowed", 1, "'__builtins__' cannot be the name of a variable", None),
    (
        "math.pi = 3",
        "NotAllowed",
        1,
        "attribute 'pi' of module math cannot be set",
        "set attributes on objects of your own classes only",
    ),
    ("int.real = 1", "TypeError", 1, "cannot set 'real' attribute of immutable type 'int'", None),
    ("def f(__class__): pass", "NotAllowed", 1, "'__class__' cannot be a parameter", None),
]


@pytest.fixture(scope="module")
def language() -> Language:
    return Language()


def reply(language: Language, code: str) -> Failure:
    variables = {"users": pd.DataFrame({"id": [1]}), "orders": [1]}
    try:
        program = language.compile(code)
    except Refused as refused:
        return refused.failure
    with pytest.raises(BaseException) as caught:
        language.run(program, variables, io.StringIO())
    return language.explain(caught.value, program, variables)


def test_there_are_enough() -> None:
    assert len({code for code, *_ in [*MODULES, *REPLIES]}) >= 100


@pytest.mark.parametrize(("code", "hint"), MODULES, ids=[code for code, _ in MODULES])
def test_a_module_that_is_not_there(language: Language, code: str, hint: str) -> None:
    failed = reply(language, code)
    module = code.split()[1]
    assert (failed.kind, failed.line, failed.hint) == ("ModuleNotFoundError", 1, hint)
    assert failed.message in {f"No module named {name!r} in the sandbox" for name in (module, module.split(".")[0])}


@pytest.mark.parametrize(("code", "kind", "line", "message", "hint"), REPLIES, ids=[code for code, *_ in REPLIES])
def test_a_construct_that_is_not_there(
    language: Language, code: str, kind: str, line: int, message: str, hint: str | None
) -> None:
    failed = reply(language, code)
    assert (failed.kind, failed.line, failed.message, failed.hint) == (kind, line, message, hint)


def test_every_module_named_in_a_hint_is_there(language: Language) -> None:
    for code in (
        "posixpath",
        "pathlib",
        "zoneinfo",
        "tomllib",
        "html.parser",
        "xml.etree.ElementTree",
        "dateutil",
        "ast",
    ):
        language.run(language.compile(f"import {code}"), {}, io.StringIO())


def test_no_module_that_is_there_is_said_not_to_be(language: Language) -> None:
    from byref_sandbox.language.missing import instead_of

    there = [name for name in language._modules.facades if name not in ("numpy", "pandas", "pyarrow", "numpy.typing")]
    assert [name for name in there if instead_of(name) is not None] == []
