"""One call of each public method of pandas' objects over columns of each kind: as a program that plain Python and the sandbox both run.

A program holds the calls of one owner (a Series, its `.str`, a group-by) over one kind of column and gives, for each, what came
back in every detail that a user sees, or the class of the error.
"""

from __future__ import annotations

import io
import warnings
from typing import Any, Final

import numpy as np
import pandas as pd

from byref_sandbox.code.words import words
from byref_sandbox.language.names import FILE_METHODS

KINDS: Final = {
    "object text": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'], dtype=object)",
    "str": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'])",
    "string": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'], dtype='string')",
    "int64": "pd.Series([3, 1, 2, 5, 1, 4])",
    "float64": "pd.Series([3.5, 1, None, 5, 1, 4])",
    "bool": "pd.Series([True, False, True, True, False, False])",
    "Int64": "pd.array([3, 1, None, 5, 1, 4], dtype='Int64')",
    "Float64": "pd.array([3.5, 1, None, 5, 1, 4], dtype='Float64')",
    "boolean": "pd.array([True, False, None, True, False, False], dtype='boolean')",
    "category": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'], dtype='category')",
    "ordered": "pd.Categorical([3, 1, None, 5, 1, 4], ordered=True)",
    "datetime": "pd.to_datetime(['2024-03-01 10:30', '2024-01-31', None, '2025-12-24', '2024-01-31', '1999-01-01'], format='ISO8601')",
    "datetime tz": "pd.to_datetime(['2024-03-01', '2024-01-31', None, '2025-12-24', '2024-01-31', '1999-01-01']).tz_localize('Europe/Paris')",
    "timedelta": "pd.to_timedelta([3, 1, None, 5, 1, 4], unit='h')",
    "period": "pd.PeriodIndex(['2024-03', '2024-01', None, '2025-12', '2024-01', '1999-01'], freq='M')",
    "interval": "pd.arrays.IntervalArray.from_tuples([(3, 4), (1, 2), None, (5, 6), (1, 2), (4, 5)])",
    "sparse": "pd.arrays.SparseArray([3.0, 0, 0, 5, 0, 4], fill_value=0)",
    "mixed": "pd.Series([3, 'a', None, 2.5, 'a', (1,)], dtype=object)",
    "arrow int": "pd.array([3, 1, None, 5, 1, 4], dtype='int64[pyarrow]')",
    "arrow double": "pd.array([3.5, 1, None, 5, 1, 4], dtype='double[pyarrow]')",
    "arrow bool": "pd.array([True, False, None, True, False, False], dtype='bool[pyarrow]')",
    "arrow string": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'], dtype='string[pyarrow]')",
    "arrow text": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'], dtype=pd.ArrowDtype(pa.string()))",
    "arrow large text": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'], dtype=pd.ArrowDtype(pa.large_string()))",
    "arrow decimal": "pd.Series([D('3.10'), D('1'), None, D('5.55'), D('1'), D('4')], dtype=pd.ArrowDtype(pa.decimal128(10, 2)))",
    "arrow date": "pd.Series([d(2024, 3, 1), d(2024, 1, 31), None, d(2025, 12, 24), d(2024, 1, 31), d(1999, 1, 1)], dtype=pd.ArrowDtype(pa.date32()))",
    "arrow timestamp": "pd.Series(pd.to_datetime(['2024-03-01', '2024-01-31', None, '2025-12-24', '2024-01-31', '1999-01-01']), dtype=pd.ArrowDtype(pa.timestamp('us')))",
    "arrow timestamp tz": "pd.Series(pd.to_datetime(['2024-03-01', '2024-01-31', None, '2025-12-24', '2024-01-31', '1999-01-01'], utc=True), dtype=pd.ArrowDtype(pa.timestamp('us', 'UTC')))",
    "arrow duration": "pd.Series(pd.to_timedelta([3, 1, None, 5, 1, 4], unit='h'), dtype=pd.ArrowDtype(pa.duration('us')))",
    "arrow time": "pd.Series([at(3), at(1), None, at(5), at(1), at(4)], dtype=pd.ArrowDtype(pa.time64('us')))",
    "arrow binary": "pd.Series([b'b', b'a', None, b'c', b'a', b'Z'], dtype=pd.ArrowDtype(pa.binary()))",
    "arrow list": "pd.Series([[3], [1, 2], None, [], [1, 2], [4]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))",
    "arrow struct": "pd.Series([{'k': 3}, {'k': 1}, None, {'k': 5}, {'k': 1}, {'k': 4}], dtype=pd.ArrowDtype(pa.struct([('k', pa.int64())])))",
    "arrow dictionary": "pd.Series(['b', 'a', None, 'c d', 'a', 'Z'], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))",
}
"""Six values each, two of them equal and, where the kind has it, one missing."""

OWNERS: Final = {
    "Series": "s()",
    "DataFrame": "f()",
    "numbers": "f()[['s', 'n']]",
    "in time": "t()",
    "frame in time": "t().to_frame()",
    "in levels": "f().set_index(['g', 'n'])['s']",
    "Index": "pd.Index(s())",
    "MultiIndex": "pd.MultiIndex.from_arrays([s(), g])",
    "SeriesGroupBy": "f().groupby('g')['s']",
    "DataFrameGroupBy": "f().groupby('g')",
    "groups of it": "f().groupby('s')['n']",
    "Rolling": "s().rolling(2)",
    "Rolling frame": "f()[['s', 'n']].rolling(2, min_periods=1)",
    "Expanding": "s().expanding()",
    "EWM": "s().ewm(span=2)",
    "Resampler": "t().resample('2D')",
    "str": "s().str",
    "dt": "s().dt",
    "cat": "s().cat",
    "list": "s().list",
    "struct": "s().struct",
}
_HEAD: Final = """
import datetime, decimal, io, warnings
import pyarrow as pa
warnings.simplefilter("ignore")
D, d, at = decimal.Decimal, datetime.date, datetime.time
g = ["x", "y", "x", "y", "y", "x"]
column = {column}
def s():
    return pd.Series(column, name="s").copy()
def f():
    return pd.DataFrame({{"g": g, "s": s(), "n": [1, 2, 3, 4, 5, 6]}})
def t():
    return pd.Series(column, name="s", index=pd.date_range("2024-01-01", periods=6, freq="D")).copy()
v = [one for one in s().tolist() if one is not None][0]
def told(value, depth=0):
    kind = type(value).__name__
    if isinstance(value, pd.DataFrame):
        columns = [told(value.iloc[:, number], depth + 1) for number in range(value.shape[1])]
        return [kind, told(value.index, depth + 1), told(value.columns, depth + 1), columns]
    if isinstance(value, pd.Series):
        return [kind, str(value.dtype), str(value.name), told(value.index, depth + 1), told(list(value), depth + 1)]
    if isinstance(value, pd.Index):
        return [kind, str(value.dtype), str(value.names), told(list(value), depth + 1)]
    if kind == "ndarray":
        return [kind, str(value.dtype), str(value.shape), told(value.tolist(), depth + 1)]
    if isinstance(value, pd.api.extensions.ExtensionArray if {plain} else pd.Categorical) or kind.endswith("Array"):
        return [kind, str(value.dtype), told(list(value), depth + 1)]
    if isinstance(value, dict):
        return [kind, [[told(key, depth + 1), told(one, depth + 1)] for key, one in value.items()]]
    if isinstance(value, (list, tuple)) or kind in ("generator", "zip", "map", "list_iterator", "set", "frozenset"):
        return [kind, [told(one, depth + 1) for one in value]] if depth < 8 else [kind]
    if isinstance(value, (str, bytes, int, float, bool, complex, D, d, at, datetime.timedelta, pd.Timestamp, pd.Timedelta, pd.Period, pd.Interval)):
        return [kind, str(value)]
    if value is None or value is pd.NA or value is pd.NaT or kind.endswith("Dtype") or kind in ("slice", "range"):
        return [kind, str(value)]
    return [kind, str(value) if kind.startswith(("int", "uint", "float", "bool", "datetime64", "timedelta64", "str_")) else ""]
def attempt(call):
    try:
        return told(call())
    except Exception as error:
        return ["error", type(error).__name__]
found = {{}}
"""
ARGUMENTS: Final = {
    "add_prefix": "'p'", "add_suffix": "'p'", "align": "s().iloc[:3]", "asfreq": "'D'", "asof": "2", "astype": "str",
    "at_time": "'10:00'", "between": "v, v", "between_time": "'09:00', '11:00'", "case_when": "[(s().isna(), 1)]",
    "combine": "s(), lambda one, two: one", "compare": "s().iloc[::-1].reset_index(drop=True)", "droplevel": "0", "fillna": "v",
    "get": "0", "isin": "[v]", "mask": "s().isna()", "where": "s().notna()", "pipe": "lambda value: value.shape if hasattr(value, 'shape') else 1",
    "pop": "0", "reorder_levels": "[0]", "repeat": "2", "resample": "'D'", "rolling": "2", "searchsorted": "v", "set_axis": "list('abcdef')",
    "take": "[2, 0]", "tz_convert": "'UTC'", "tz_localize": "'UTC'", "xs": "0", "apply": "lambda value: str(value)",
    "transform": "lambda value: value", "map": "lambda value: str(value)", "agg": "['min', 'max']", "aggregate": "'max'", "groupby": "g",
    "sample": "n=2, random_state=0", "replace": "v, v", "reindex": "[5, 0]", "rename": "'z'", "rename_axis": "'z'", "round": "1",
    "drop": "[0]", "shift": "1", "unstack": "", "swaplevel": "", "head": "2", "tail": "2", "nlargest": "2", "nsmallest": "2",
    "quantile": "0.5", "to_frame": "", "pct_change": "", "clip": "v, v", "explode": "", "truncate": "1, 3", "filter": "[0, 1]",
    "to_period": "'M'", "to_markdown": "", "get_group": "'x'", "add_categories": "['new']", "remove_categories": "[v]",
    "rename_categories": "lambda value: str(value) + '!'", "reorder_categories": "list(reversed(s().cat.categories))", "set_categories": "[v]",
    "field": "'k'", "as_unit": "'s'", "ceil": "'D'", "floor": "'D'", "strftime": "'%Y-%m %H'", "delete": "0", "insert": "0, v",
    "get_indexer": "[v]", "get_indexer_for": "[v]", "get_indexer_non_unique": "[v]", "get_level_values": "0", "get_loc": "v",
    "get_slice_bound": "v, 'left'", "putmask": "s().isna().to_numpy(), v", "set_names": "'z'", "item": "", "asof_locs": "pd.Index(s()), s().notna().to_numpy()",
    "center": "5, '*'", "contains": "'a'", "count": "", "decode": "'utf-8'", "encode": "'utf-8'", "endswith": "'a'", "extract": "'(a)'",
    "extractall": "'(a)'", "find": "'a'", "findall": "'a'", "fullmatch": "'a'", "index": "'a'", "join": "'-'", "ljust": "5", "match": "'a'",
    "normalize": "'NFC'", "pad": "5", "removeprefix": "'a'", "removesuffix": "'a'", "rfind": "'a'", "rindex": "'a'", "rjust": "5",
    "startswith": "'a'", "translate": "{97: 'x'}", "wrap": "2", "zfill": "5", "slice": "0, 1", "slice_replace": "0, 1, '!'", "cat": "sep='-'",
    "indexer_at_time": "'10:30'", "indexer_between_time": "'09:00', '11:00'", "snap": "'D'", "interpolate": "", "nearest": "",
    "memory_usage": "", "info": "buf=io.StringIO()", "rank": "", "set_flags": "", "value_counts": "", "to_latex": "", "to_xarray": "", "ewm": "span=2",
}  # fmt: skip
_BINARY: Final = words(
    """add sub mul div divide multiply subtract truediv floordiv mod pow radd rsub rmul rdiv rtruediv rfloordiv rmod rpow eq ne lt gt
le ge divmod rdivmod combine_first corr cov dot equals reindex_like update append difference identical intersection is_ join
symmetric_difference union equal_levels"""
)
_OF_THEIR_OWN: Final = ("Index", "MultiIndex", "DataFrame", "numbers", "in time", "frame in time", "in levels")
BY_OWNER: Final = {
    "DataFrame": {
        "align": "f()", "combine": "f(), lambda one, two: one", "compare": "f().iloc[::-1].reset_index(drop=True)", "corrwith": "f()",
        "eval": "'n + 1'", "query": "'n > 2'", "explode": "'s'", "insert": "0, 'z', s()", "isetitem": "0, s()", "isin": "[v, 1]", "join": "f(), rsuffix='r'",
        "map": "lambda value: str(value)", "mask": "f().isna()", "where": "f().notna()", "merge": "f(), on='s'", "nlargest": "2, 's'", "nsmallest": "2, 's'",
        "pop": "'s'", "set_axis": "list('abcdef')", "set_index": "'s'", "sort_values": "'s'", "assign": "z=s()", "drop_duplicates": "'s'",
        "duplicated": "'s'", "filter": "['s']", "get": "'s'", "groupby": "'s'", "melt": "id_vars='g'", "pivot": "index='n', columns='g', values='s'",
        "pivot_table": "index='g', values='s', aggfunc='max'", "rename": "columns={'s': 'z'}", "reindex": "[5, 0]", "select_dtypes": "exclude='number'",
        "corr": "numeric_only=True", "cov": "numeric_only=True", "value_counts": "['s']", "describe": "include='all'", "drop": "columns='n'",
        "apply": "lambda column: column.nunique()", "transform": "lambda column: column", "agg": "{'s': ['min', 'max'], 'n': 'sum'}", "aggregate": "{'s': 'max'}",
        "to_dict": "'records'", "select": "'s'", "fillna": "{'s': v}", "replace": "{'s': {v: v}}", "quantile": "numeric_only=True", "round": "1",
        "stack": "", "unstack": "", "info": "buf=io.StringIO()", "clip": "upper=v", "dot": "f()[['n']]", "boxplot": "", "hist": "", "asof": "2",
        "update": "f()", "append": "f()",
    },
    "numbers": {
        "corrwith": "f()['n']", "dot": "f()['n']", "sort_values": "'n'", "nlargest": "2, 'n'", "nsmallest": "2, 'n'", "set_index": "'n'", "eval": "'n + 1'",
        "query": "'n > 2'", "explode": "'s'", "insert": "0, 'z', s()", "isetitem": "0, s()", "join": "f(), rsuffix='r'", "merge": "f(), on='s'", "pop": "'s'",
        "combine": "f()[['s', 'n']], lambda one, two: one", "compare": "f()[['s', 'n']].iloc[::-1].reset_index(drop=True)", "drop": "columns='n'",
        "mask": "f()[['s', 'n']].isna()", "where": "f()[['s', 'n']].notna()", "clip": "v, v", "update": "f()", "pivot_table": "index='n', values='s', aggfunc='max'",
        "groupby": "'s'", "filter": "['s']", "get": "'s'", "melt": "id_vars='n'", "pivot": "index='n', columns='s'", "rename": "columns={'s': 'z'}", "select": "'s'",
        "assign": "z=s()", "isin": "[v, 1]", "select_dtypes": "include='number'", "agg": "['min', 'max']", "xs": "0",
    },
    "in time": {"xs": "pd.Timestamp('2024-01-02')", "drop": "pd.Timestamp('2024-01-02')", "reindex_like": "t()", "asof": "pd.Timestamp('2024-01-03')", "at_time": "'00:00'", "between_time": "'00:00', '01:00'", "truncate": "'2024-01-02', '2024-01-03'", "first_valid_index": "", "mask": "t().isna()", "where": "t().notna()", "align": "t().iloc[:3]", "update": "t()", "get": "pd.Timestamp('2024-01-02')", "pop": "pd.Timestamp('2024-01-02')", "compare": "t().shift(1)"},
    "frame in time": {"xs": "pd.Timestamp('2024-01-02')", "asof": "pd.Timestamp('2024-01-03')", "at_time": "'00:00'", "between_time": "'00:00', '01:00'", "truncate": "'2024-01-02', '2024-01-03'", "sort_values": "'s'", "groupby": "'s'", "to_timestamp": "", "nlargest": "2, 's'", "eval": "'s'", "query": "'s == s'", "set_index": "'s'", "explode": "'s'", "pop": "'s'", "get": "'s'", "drop": "columns='s'"},
    "in levels": {"xs": "'x'", "droplevel": "'n'", "reorder_levels": "['n', 'g']", "swaplevel": "", "unstack": "'g'", "groupby": "'g'", "get": "('x', 1)", "pop": "('x', 1)", "drop": "'x'", "reindex": "[('x', 1)]", "truncate": "", "set_axis": "list('abcdef')", "mask": "f().set_index(['g', 'n'])['s'].isna()", "where": "f().set_index(['g', 'n'])['s'].notna()"},
    "MultiIndex": {
        "get_loc": "(v, 'x')", "isin": "[(v, 'x')]", "reorder_levels": "[1, 0]", "rename": "['a', 'b']", "set_names": "['a', 'b']", "set_levels": "[['p', 'q']], level=[1]",
        "set_codes": "[0, 0, 0, 0, 0, 0], level=1", "get_loc_level": "'x', level=1", "get_locs": "[[v]]", "insert": "0, (v, 'x')", "drop": "[(v, 'x')]",
        "searchsorted": "(v, 'x')", "fillna": "v", "get_indexer": "[(v, 'x')]", "get_indexer_for": "[(v, 'x')]", "from_arrays": "[g, s()]",
        "from_frame": "f()[['g', 's']]", "from_product": "[[1, 2], s()]", "from_tuples": "list(zip(g, s()))", "to_frame": "", "swaplevel": "", "truncate": "",
        "where": "s().notna().to_numpy()", "map": "lambda key: str(key)",
    },
    "Index": {"where": "s().notna().to_numpy()", "groupby": "g", "drop": "[v]", "rename": "'z'", "truncate": "", "round": "", "map": "lambda value: str(value)", "reindex": "[v]"},
    "SeriesGroupBy": {"rolling": "2", "resample": "'D'", "filter": "lambda one: len(one) > 1", "apply": "lambda one: one.iloc[0]", "corr": "f()['n']", "cov": "f()['n']", "fillna": "v", "quantile": "", "head": "1", "tail": "1", "agg": "['min', 'max', 'first', 'nunique']", "transform": "'max'"},
    "DataFrameGroupBy": {"rolling": "2", "resample": "'D'", "filter": "lambda one: len(one) > 1", "apply": "lambda one: one['s'].iloc[0]", "corrwith": "f()['n']", "corr": "numeric_only=True", "cov": "numeric_only=True", "quantile": "numeric_only=True", "agg": "{'s': ['min', 'max'], 'n': 'sum'}", "aggregate": "low=('s', 'min'), high=('s', 'max')", "transform": "'min'", "head": "1", "tail": "1"},
    "groups of it": {"get_group": "v", "filter": "lambda one: len(one) > 1", "corr": "f()['n']", "cov": "f()['n']", "apply": "lambda one: one.sum()", "transform": "'sum'", "quantile": ""},
    "Rolling": {"apply": "lambda window: len(window)", "corr": "", "cov": "", "quantile": "0.5"},
    "Rolling frame": {"apply": "lambda window: len(window)", "corr": "", "cov": "", "quantile": "0.5", "agg": "{'n': 'max'}", "aggregate": "'sum'"},
    "Expanding": {"apply": "lambda window: len(window)", "corr": "", "cov": "", "quantile": "0.5"},
    "EWM": {"corr": "", "cov": "", "agg": "['mean', 'std']", "aggregate": "'mean'"},
    "Resampler": {"apply": "lambda one: len(one)", "transform": "'max'", "get_group": "pd.Timestamp('2024-01-01')", "asfreq": "", "fillna": "'ffill'", "agg": "['min', 'max']"},
    "str": {"get": "0", "replace": "'a', 'x'", "repeat": "2", "count": "'a'", "index": "''", "rindex": "''", "split": "' '", "rsplit": "' '", "join": "'-'", "normalize": "'NFC'", "isalnum": ""},
    "dt": {"round": "'D'", "asfreq": "'D'", "normalize": "", "tz_convert": "'UTC'", "tz_localize": "'America/New_York'"},
    "list": {"len": "", "flatten": ""},
    "struct": {"explode": ""},
}  # fmt: skip
LEFT_OUT: Final = FILE_METHODS | words(
    """plot hist boxplot style to_clipboard from_arrow from_dict from_records attrs flags array view ravel
    memory_usage info sparse list struct str dt cat online T"""
)
"""What writes files, figures, other owners, constructors, the memory of the machine, and what an object is made of."""


def head(kind: str, *, plain: bool) -> str:
    """What a program begins with: the column, and how what comes back is told."""
    return _HEAD.format(column=KINDS[kind], plain=plain)


def calls(owner: str, kind: str) -> dict[str, str]:
    """The calls of an owner over a kind of column, by name; empty where it has no such accessor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space: dict[str, Any] = {"pd": pd, "np": np}
        exec(head(kind, plain=True), space)
        try:
            found = eval(OWNERS[owner], space)
        except Exception:  # no such accessor, no such window
            return {}
        given: dict[str, str] = {}
        for name in dir(type(found)):
            if name.startswith("_") or name in LEFT_OUT:
                continue
            if not callable(getattr(type(found), name, None)):
                given[name] = f"{OWNERS[owner]}.{name}"
            else:
                same = OWNERS[owner] if owner in _OF_THEIR_OWN else "s()"
                arguments = BY_OWNER.get(owner, {}).get(name, same if name in _BINARY else ARGUMENTS.get(name, ""))
                given[name] = f"{OWNERS[owner]}.{name}({arguments})"
    return given


def program(owner: str, kind: str, *, plain: bool = False) -> str:
    """Code whose value is what each call gives, by name."""
    lines = [f"found[{name!r}] = attempt(lambda: {call})" for name, call in calls(owner, kind).items()]
    return "\n".join([head(kind, plain=plain), *lines, "found"])


def plainly(code: str) -> dict[str, Any]:
    """The value of a program in plain Python."""
    space: dict[str, Any] = {"pd": pd, "np": np, "io": io}
    with warnings.catch_warnings():
        exec(code, space)
    found: dict[str, Any] = space["found"]
    return found
