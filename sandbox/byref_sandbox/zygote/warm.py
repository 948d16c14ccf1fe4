"""Warming up: in the root zygote libraries do once what they do on first use.

A run can neither import nor read a file, and has one thread. So whatever a library would load later is loaded here, and whatever it
would hand to a pool of threads is put on the thread that asks.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import pkgutil
import warnings
import zoneinfo
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyarrow import compute

from byref_sandbox.code.words import words

_CODECS: Final = words("""idna punycode latin_1 ascii utf_7 utf_8_sig utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be unicode_escape
    raw_unicode_escape cp1250 cp1251 cp1252 cp1253 cp1254 cp437 cp850 cp037 iso8859_1 iso8859_2 iso8859_5 iso8859_7 iso8859_9
    iso8859_15 mac_roman koi8_r gbk gb18030 big5 shift_jis cp932 euc_jp euc_kr hex_codec base64_codec rot_13""")
_MODULES: Final = (
    "_strptime",
    *(f"encodings.{name}" for name in sorted(_CODECS)),
    "unicodedata",
    "numpy.polynomial",
    "numpy.ma",
    "pyarrow.compute",
    "pandas.io.json",
    "pandas.io.formats.csvs",
    "pandas.io.formats.html",
    "pandas.io.formats.string",
    "pandas.io.formats.info",
    "pandas.plotting",
    "pandas.api.typing",
    "pandas.core.arrays.arrow.extension_types",
)

_EVERYDAY: Final = """
import datetime, json, math, re, statistics, random, collections, itertools, string, decimal, fractions
frame = pd.DataFrame({"a": [1, 2, 3], "g": ["x", "y", "x"], "d": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-05"])})
frame["m"] = frame["d"].dt.to_period("M").astype(str)
frame["s"] = frame["d"].dt.strftime("%b %d")
frame["u"] = frame["g"].str.upper()
frame.groupby("g").agg(s=("a", "sum"), n=("a", "count")).reset_index().sort_values("s")
frame.groupby("g")["a"].transform("mean")
frame.pivot_table(index="g", columns="m", values="a", aggfunc="sum")
frame.merge(frame, on="g")
frame.describe().to_string()
frame.to_dict("records"), frame.to_json(), frame.to_csv(), frame.to_html()
frame.resample("ME", on="d")["a"].sum()
frame.query("a > 1"), frame.eval("a + 1")
frame.apply(lambda row: row["a"], axis=1)
pd.json_normalize([{"a": {"b": 1}}])
pd.cut(frame["a"], 2), pd.qcut(frame["a"], 2), pd.get_dummies(frame["g"])
frame.rolling(2)["a"].mean() if False else frame["a"].rolling(2).mean()
frame["d"].dt.tz_localize("UTC").dt.tz_convert("America/New_York").astype(str)
frame["d"].dt.day_name(), frame["d"].dt.isocalendar()
frame.corr(numeric_only=True), frame["g"].value_counts(), frame["a"].quantile([0.5])
pd.concat([frame, frame]).drop_duplicates(), frame.set_index("d").loc["2024-01"]
frame["g"].astype("category").cat.codes, frame["g"].str.extract("(x)"), frame["g"].str.contains("x")
pd.date_range("2024-01-01", periods=3, freq="ME"), pd.Timedelta("1 day"), pd.Timestamp("2024-01-01 12:00", tz="UTC")
pd.to_numeric(pd.Series(["1", "x"]), errors="coerce"), pd.to_datetime(pd.Series(["2024-01-01T00:00:00Z"]), format="ISO8601")
datetime.datetime.strptime("2024-01-02", "%Y-%m-%d").strftime("%A")
datetime.datetime.now(datetime.timezone.utc).isoformat()
statistics.median([1, 2]), re.sub("a", "b", "a"), random.Random(0).random(), decimal.Decimal("1.10") + 1
np.linalg.inv(np.eye(2)), np.random.default_rng(0).normal(size=3), np.percentile([1, 2], 50), np.polyfit([1, 2], [1, 2], 1)
str(frame), repr(frame["a"]), f"{1234.5:,.2f}"
print(frame)
"""


def warm(language: Any) -> None:
    """Import what code may use, and run everyday analytics: plainly, and under `language`."""
    import numpy
    import pandas

    methods = importlib.import_module("pandas.core.methods")  # which ones there are differs between versions
    for name in (*_MODULES, *(f"{methods.__name__}.{part.name}" for part in pkgutil.iter_modules(methods.__path__))):
        importlib.import_module(name)
    ast.unparse(ast.Constant(1))  # newer versions of Python load what it takes then
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    _group_on_this_thread(pyarrow.lib)
    zones = zoneinfo.available_timezones()
    _load_arrow_zones(zones)
    with contextlib.suppress(ImportError):  # Jinja or tabulate was uninstalled: pandas says so when it is needed
        _load_formats(pandas)
    with contextlib.suppress(ImportError):
        importlib.import_module("byref_sandbox.run.templatebody").templates.warm()
    _keep_zones(zones)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = {"pd": pandas, "np": numpy, "print": lambda *_values: None}
        exec(compile(_EVERYDAY, "<warm>", "exec"), space)
        language.run(language.compile("import pandas as pd, numpy as np\n" + _EVERYDAY), {}, io.StringIO())
        _write_and_read_values(pandas)


def _write_and_read_values(pandas: Any) -> None:
    """Write values of every kind of column, with their types, and read them and a table of JSON: each kind imports something."""
    from byref_sandbox.values import exact, shown, tables, values

    days = pandas.date_range("2024-01-01", periods=2, freq="D")
    frame = pandas.DataFrame(
        {
            "integers": pandas.array([1, None], "Int64"),
            "floats": pandas.array([1.5, None], "Float64"),
            "truth": pandas.array([True, None], "boolean"),
            "text": pandas.array(["a", None], "string"),
            "zone": days.tz_localize("Europe/Paris"),
            "period": days.to_period("M"),
            "interval": pandas.interval_range(0, 2),
            "category": pandas.Categorical(["x", "y"]),
            "duration": days - days[0],
            "object": [{"a": 1}, None],
        },
        index=days,
    )
    for value in (frame, frame["text"], frame.set_index(["integers", "text"]), frame.describe(include="all")):
        exact.decode(exact.encode(value))
        shown.present(value)
        values.keep(value)
    tables.from_json(
        b'[{"a":1,"b":"2024-01-01","c":"2024-01-01T00:00:00Z","d":null,"e":[1],"f":true,"g":"x","h":1.5}]', ()
    )


def _group_on_this_thread(lib: Any) -> None:
    """Have Arrow group on the thread that asks: pandas has it group text, decimals and dates, and a run has no other thread.

    pandas could be told not to use Arrow, but its own way knows no `min_count` and rounds decimals.
    """
    importlib.import_module("pyarrow.acero")
    threaded = lib.TableGroupBy

    class GroupBy(threaded):  # type: ignore[misc, valid-type]
        def __init__(self, table: Any, keys: Any, use_threads: bool = True) -> None:
            super().__init__(table, keys, use_threads=False)

    lib.TableGroupBy = GroupBy


def _load_formats(pandas: Any) -> None:
    """Use `to_latex` and `to_markdown`: Jinja reads a template on first use, and later would look whether its file has changed."""
    frame = pandas.DataFrame({"text": ["a"], "number": [1.5]})
    frame.to_latex(), frame.to_latex(longtable=True)
    importlib.import_module("pandas.io.formats.style").Styler.env.auto_reload = False
    frame.to_markdown()


def _keep_zones(names: Iterable[str]) -> None:
    """Have zones made of files that are read now. Making all would take longer, and twice: pandas also asks the class written in Python."""
    common: Any = importlib.import_module("zoneinfo._common")
    find = importlib.import_module("zoneinfo._tzpath").find_tzfile
    stored = {}
    for name in names:
        path = find(name)
        if path is not None:
            stored[name] = Path(path).read_bytes()
        else:
            with common.load_tzdata(name) as file:
                stored[name] = file.read()

    def load(key: str) -> io.BytesIO:
        if key not in stored:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(stored[key])

    common.load_tzdata = load
    zoneinfo.reset_tzpath(to=())  # then both classes ask `load_tzdata`


def _load_arrow_zones(zones: Iterable[str]) -> None:
    """Use each time zone: Arrow has its own database, reads a zone on first use, and ends the process where it cannot."""
    moment = pyarrow.array([0], pyarrow.timestamp("s"))
    for zone in sorted(zones):
        with contextlib.suppress(pyarrow.ArrowInvalid):  # a zone that its database lacks
            compute.assume_timezone(moment, zone)
