"""How code uses the variables it names: as the value itself, or only as the DataFrame that `df` makes of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

from byref_sandbox.code.source import UNPARSED, free_names, parsed, strip_dollars

FRAME: Final = "df"
_NAMESPACES: Final = frozenset({"globals", "locals", "vars", "eval", "exec", "dir"})
"""Where these are named, any name may be read in a way that cannot be seen."""
_MAX_PARSED_CHARS: Final = 1_000_000


class Uses(NamedTuple):
    """Names that code may use: a superset, for what is missed would be missing."""

    names: frozenset[str]
    tables: frozenset[str]
    """Those it makes DataFrames of: `df("users")` or `df(users)`."""
    only_tables: frozenset[str]
    """Those it uses in no other way: their value need not be made."""


def uses_of(source: str) -> Uses:
    """What can be told before the code runs; of broken or hostile code that every name may be a value."""
    names = free_names(source)
    if FRAME not in names or len(source) > _MAX_PARSED_CHARS:
        return Uses(names, frozenset(), frozenset())
    try:
        tree = parsed(strip_dollars(source))
        found = _Found()
        for node in ast.walk(tree):
            found.look_at(node)
    except UNPARSED:
        return Uses(names, frozenset(), frozenset())
    if found.computed:
        names |= found.texts
    tables = frozenset(found.by_text) | frozenset(name for name, _ in found.by_name)
    if found.is_opaque:
        return Uses(names | tables, tables, frozenset())
    arguments = {id(node) for _, node in found.by_name}
    values = {name for name, node in found.read if id(node) not in arguments}
    quoted = names - found.named - found.by_text  # in the text of a query, say
    only = tables - values - (found.texts if found.computed else set()) - quoted
    return Uses(names | tables, tables | (found.texts if found.computed else frozenset()), frozenset(only))


class _Found:
    """What one look at every node gathers."""

    def __init__(self) -> None:
        self.by_text: set[str] = set()
        self.by_name: list[tuple[str, ast.Name]] = []
        self.read: list[tuple[str, ast.Name]] = []
        self.named: set[str] = set()
        self.texts: set[str] = set()
        """Short string constants: with `df(name)` for a computed name, any of them may be one."""
        self.computed = False
        self.is_opaque = False

    def look_at(self, node: ast.AST) -> None:
        """Note what a node says of names."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == FRAME:
            for argument in _arguments(node):
                self._table(argument)
        elif isinstance(node, ast.Name):
            self.named.add(node.id)
            if isinstance(node.ctx, ast.Load):
                self.read.append((node.id, node))
            self.is_opaque |= node.id in _NAMESPACES
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.read.append((node.target.id, node.target))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            self.texts.add(node.value)
        elif isinstance(node, ast.arg):
            self.is_opaque |= node.arg == FRAME
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            self.is_opaque |= node.name == FRAME
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call | ast.Subscript | ast.BinOp):
            # A DataFrame cannot be called; a function under this name could, with what stands in for a value.
            self.is_opaque |= any(isinstance(n, ast.Name) and n.id == FRAME for t in node.targets for n in ast.walk(t))

    def _table(self, argument: ast.expr) -> None:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            self.by_text.add(argument.value.removeprefix("$"))
        elif isinstance(argument, ast.Name):
            self.by_name.append((argument.id, argument))
            self.computed = True
        else:
            self.computed = True


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)
