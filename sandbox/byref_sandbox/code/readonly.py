"""Code that changes nothing it is given. This is decided from the text alone, and only if every part of the code is known to be
harmless.

A known part leaves the objects that it works on as they were. A part that is not known counts as one that may change something.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Final, TypeGuard

from byref_sandbox.code.analysis import Analysed
from byref_sandbox.code.fresh import METHODS, Fresh, bound_names, fresh_names
from byref_sandbox.code.words import words

_NODES: Final = (
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.If, ast.For, ast.Pass, ast.Break, ast.Continue),
    *(ast.Name, ast.Constant, ast.Subscript, ast.Slice, ast.Attribute, ast.Call, ast.keyword, ast.Starred),
    *(ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.comprehension, ast.Lambda, ast.arguments, ast.arg, ast.IfExp, ast.NamedExpr, ast.JoinedStr),
    *(ast.FormattedValue, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Import, ast.ImportFrom, ast.alias),
    *(ast.AugAssign, ast.While, ast.FunctionDef, ast.Return),
    *(ast.operator, ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context),
)
_MODULES: Final = words("collections datetime itertools json math pandas re statistics")
_NAMES: Final = words("""abs all any bool dict enumerate filter float frozenset int isinstance len list max min print range repr
    reversed round set sorted str sum tuple type zip map df pd math statistics json re datetime itertools collections
    Counter defaultdict""")
"""Names that code may use besides its own names and those of what it was given."""
_ATTRIBUTES: Final = words("""abs agg aggregate apply assign astype between bfill capitalize cat ceil center clip
    columns combine_first concat contains copy corr count cov crosstab cumcount cummax cummin cumprod cumsum cut
    DataFrame date date_range day day_name dayofweek dayofyear days describe diff div dot drop_duplicates droplevel
    dropna dt dtype dtypes dumps duplicated empty endswith eq ewm exp expanding explode extract extractall ffill
    fillna filter find findall first floor floordiv fmean format fromisoformat fullmatch ge get get_dummies group
    groupby groups gt head hour iat idxmax idxmin iloc index interpolate isalpha isdigit isin isna isnan isnull
    isnumeric isocalendar isoformat items join keys kurt last le ljust loads loc log log10 lower lstrip lt map mask
    match max mean median melt merge microsecond min minute mod mode month month_name most_common mul NA NaT ne ngroup
    nlargest normalize notna notnull nsmallest nth nunique partition pct_change pi pivot pivot_table pow prod qcut
    quantile quarter rank reindex removeprefix removesuffix rename rename_axis replace resample reset_index rjust
    rolling round rpartition rsplit rstrip sample search second select_dtypes sem Series set_axis set_index shape
    shift size skew slice sort_index sort_values split sqrt stack startswith std stdev str strftime strip strptime sub
    sum swapcase swaplevel T tail Timedelta timedelta Timestamp title to_datetime to_dict to_list to_numeric to_period
    to_timedelta to_timestamp tolist total_seconds transform transpose truediv tz_convert tz_localize unique unstack
    upper value_counts values var weekday where xs year zfill""")
_MORE: Final = re.compile(r"[@(\[]|(?<![<>!=])=(?!=)")
"""Text in an expression of `query` that could call, name, take out or assign something."""
_KEYWORDS: Final = words("inplace out")
"""With one of these keyword arguments, a call that is otherwise harmless changes an object."""


def is_read_only(source: str, given: Collection[str], scalars: Collection[str] = ()) -> bool:
    """Tell whether code that is given variables of these names is known to change nothing in them.

    `scalars` are the names of values in which nothing can be changed in place.
    """
    code = Analysed.of(source)
    if code.tree is None:
        return False
    nodes = [node for statement in code.statements for node in statement]
    names = _NAMES.union(given, *map(bound_names, nodes))
    queries = {id(node.func) for node in nodes if _is_query(node)}
    fresh = fresh_names(code.statements, given, scalars)
    return all(isinstance(node, _NODES) and (id(node) in queries or _is_known(node, names, fresh)) for node in nodes)


def _is_query(node: ast.AST) -> TypeGuard[ast.Call]:
    """Tell whether a node is a call of `query` whose expression calls nothing and names no variable."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "query":
        return False
    [text] = node.args if len(node.args) == 1 else [node]
    return isinstance(text, ast.Constant) and isinstance(text.value, str) and not _MORE.search(text.value)


def _is_known(node: ast.AST, names: frozenset[str], fresh: Fresh) -> bool:
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Store) or node.id in names
    if isinstance(node, ast.Attribute):
        is_reading = node.attr in _ATTRIBUTES or (node.attr in METHODS and fresh.is_own(node.value))
        return isinstance(node.ctx, ast.Load) and is_reading
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) or (isinstance(node.ctx, ast.Store) and fresh.is_own(node.value))
    if isinstance(node, ast.AugAssign):
        return fresh.is_own(node.target)
    if isinstance(node, ast.FunctionDef):
        return not node.decorator_list
    if isinstance(node, ast.keyword):
        return node.arg is not None and node.arg not in _KEYWORDS
    if isinstance(node, ast.Import):
        return all(alias.name in _MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in _MODULES and not node.level and all(alias.name in _NAMES for alias in node.names)
    return True
