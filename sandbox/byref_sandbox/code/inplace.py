"""Finds which of the data that code names is changed in place, from the code's text alone, so that the cost does not depend on
the data.

The result is a guess that is good enough for a note in a reply. It follows names through assignments, loops, copies and the
code's own functions.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from byref_sandbox.code.analysis import FRAME, Analysed
from byref_sandbox.code.source import UNPARSED

_METHODS: Final = frozenset(
    {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "update", "setdefault"}
)
_OF_TABLES: Final = frozenset({"insert", "pop", "update"})
"""Those of them that a DataFrame has: any other fails."""
_FUNCTIONS: Final = frozenset(
    {
        "heappush",
        "heappop",
        "heapify",
        "heapreplace",
        "heappushpop",
        "shuffle",
        "insort",
        "insort_left",
        "insort_right",
        "setitem",
        "delitem",
    }
)
"""Functions that change their first argument."""
_COPIES: Final = frozenset({"list", "tuple", "set", "dict", "sorted", "reversed", "iter", "filter", "copy", "values"})
"""Methods and functions that make a new container of the same members."""
_PAIRS: Final = frozenset({"enumerate", "zip", "items"})
"""Methods that make tuples of the members."""
_MEMBERS: Final = frozenset({"next", "max", "min", "choice", "get", "pop", "setdefault"})
"""Methods that return one of the members."""
_FRESH: Final = (ast.List, ast.ListComp, ast.Set, ast.SetComp, ast.Dict, ast.DictComp)
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_CHARS: Final = 100_000
_MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 50
_MAX_PASSES: Final = 4
_MAX_ORIGINS: Final = 32
_RETURN: Final = "return"


class Changed(NamedTuple):
    """What code changes: a variable, or the DataFrame that `df` makes of it."""

    name: str
    is_table: bool = False


class _Origin(NamedTuple):
    of: Changed
    depth: int = 0
    """The number of containers made by the code that are around the part that belongs to `of`."""

    def inside(self, levels: int) -> _Origin:
        return self._replace(depth=max(0, self.depth - levels))


_Origins = frozenset[_Origin]
_NONE: Final = _Origins()


def changed_in_place(
    code: str, sources: Collection[str], names: Collection[str], *, is_named_apart: bool = True
) -> dict[Changed, int]:
    """Return which of the named data the code changes in place, with the first line that does so; 0 means in definitions of
    earlier runs.

    A table to which the code gives a name is kept under that name: with `is_named_apart` its changes are not those of the data.
    The result is empty for code that cannot be parsed, or is huge.
    """
    found: dict[Changed, int] = {}
    if not names or len(code) + sum(map(len, sources)) > _MAX_CHARS:
        return found
    trees = [Analysed.of(text).tree for text in (code, *sources)]
    modules = [tree for tree in trees if tree is not None]
    if len(modules) < len(trees):
        return {}
    try:
        for changed, line in _Text(modules, frozenset(names), is_named_apart=is_named_apart).changes():
            found[changed] = min(line, found.get(changed, line))
    except UNPARSED:
        return {}
    return found


class _Scope:
    """The names of a function, or of the top level."""

    def __init__(self, parent: _Scope | None = None) -> None:
        self.parent = parent
        self.own: dict[str, _Origins] = {}


class _Binding(NamedTuple):
    scope: _Scope
    """The scope that the name belongs to."""
    name: str
    value: ast.expr
    seen_from: _Scope
    levels: int
    """The number of levels inside the value at which the bound part is: 1 for the item of a loop."""


class _Text:
    def __init__(self, modules: list[ast.Module], names: frozenset[str], *, is_named_apart: bool) -> None:
        self._names, self._is_named_apart = names, is_named_apart
        self._top = _Scope()
        self._functions: dict[str, tuple[_Scope, list[str]]] = {}
        self._bindings: list[_Binding] = []
        self._nodes: list[tuple[ast.AST, _Scope, bool]] = []
        self._read(modules)

    def _read(self, modules: list[ast.Module]) -> None:
        waiting: list[tuple[ast.AST, _Scope, bool]] = [
            (module, self._top, number == 0) for number, module in enumerate(modules)
        ]
        while waiting:
            node, scope, is_code = waiting.pop()
            self._nodes.append((node, scope, is_code))
            if len(self._nodes) > _MAX_NODES:
                raise ValueError("huge")
            inner = self._function(node, scope) if isinstance(node, _FUNCTION) else scope
            waiting.extend((child, inner, is_code) for child in ast.iter_child_nodes(node))
        for node, scope, _ in self._nodes:
            self._bind(node, scope)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> _Scope:
        inner = _Scope(scope)
        given = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        outer = {n for each in node.body if isinstance(each, ast.Global | ast.Nonlocal) for n in each.names}
        bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - outer
        inner.own = dict.fromkeys((*given, *bound), _NONE)
        self._functions[node.name] = inner, given
        return inner

    def _bind(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(target, node.value, scope, 0)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind_target(node.target, node.value, scope, 0)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind_target(node.target, node.iter, scope, 1)
        elif isinstance(node, ast.Return) and node.value is not None:
            self._bindings.append(_Binding(scope, _RETURN, node.value, scope, 0))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            self._bind_arguments(node, node.func.id, scope)

    def _bind_target(self, target: ast.expr, value: ast.expr, scope: _Scope, levels: int) -> None:
        if isinstance(target, ast.Name):
            self._bindings.append(_Binding(_owner(scope, target.id), target.id, value, scope, levels))
        elif isinstance(target, ast.Tuple | ast.List):
            together = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) and not levels
            for number, part in enumerate(target.elts):
                if together:
                    assert isinstance(value, ast.Tuple | ast.List)
                    self._bind_target(part, value.elts[number], scope, 0)
                else:
                    self._bind_target(part, value, scope, levels + 1)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, value, scope, levels)

    def _bind_arguments(self, call: ast.Call, name: str, scope: _Scope) -> None:
        if name in ("map", "filter") and len(call.args) > 1 and isinstance(call.args[0], ast.Name | ast.Lambda):
            function, *lists = call.args
            if isinstance(function, ast.Lambda):
                pairs = zip([argument.arg for argument in function.args.args], lists, strict=False)
                self._bindings.extend(_Binding(scope, parameter, each, scope, 1) for parameter, each in pairs)
            elif isinstance(function, ast.Name) and function.id in self._functions:
                inner, given = self._functions[function.id]
                self._bindings.extend(_Binding(inner, p, each, scope, 1) for p, each in zip(given, lists, strict=False))
        elif name in self._functions:
            inner, given = self._functions[name]
            for parameter, argument in zip(given, call.args, strict=False):
                self._bindings.append(_Binding(inner, parameter, argument, scope, 0))
            for keyword in call.keywords:
                if keyword.arg in given:
                    self._bindings.append(_Binding(inner, str(keyword.arg), keyword.value, scope, 0))

    def changes(self) -> Iterator[tuple[Changed, int]]:
        """Yield everything that is changed, with its line."""
        for _ in range(_MAX_PASSES):
            if not sum(map(self._learn, self._bindings)):
                break
        for node, scope, is_code in self._nodes:
            for value in _changed(node, self._names):
                for origin in self._origins(value, scope, 0):
                    if not origin.depth:
                        yield origin.of, getattr(node, "lineno", 0) if is_code else 0

    def _learn(self, binding: _Binding) -> bool:
        """Note where a binding's value comes from; tell whether that was new."""
        found = self._origins(binding.value, binding.seen_from, 0)
        if self._is_named_apart and not binding.levels:
            found = _Origins(origin for origin in found if not origin.of.is_table)
        known = binding.scope.own.get(binding.name, _NONE)
        new = known | {origin.inside(binding.levels) for origin in found}
        if len(new) > _MAX_ORIGINS or new == known:
            return False
        binding.scope.own[binding.name] = new
        return True

    def _origins(self, node: ast.expr, scope: _Scope, depth: int) -> _Origins:
        """Return the data of which a value may be a part."""
        if depth > _MAX_DEPTH:
            return _NONE
        if isinstance(node, ast.Name):
            return self._of_name(node.id, scope)
        if isinstance(node, ast.Attribute | ast.Starred | ast.NamedExpr | ast.Await):
            return self._origins(node.value, scope, depth + 1)
        if isinstance(node, ast.Subscript):
            found = self._origins(node.value, scope, depth + 1)
            return _within(found) if isinstance(node.slice, ast.Slice) else _Origins(one.inside(1) for one in found)
        if isinstance(node, ast.Call):
            return self._of_call(node, scope, depth)
        if isinstance(node, ast.IfExp):
            return self._all((node.body, node.orelse), scope, depth)
        if isinstance(node, ast.BoolOp):
            return self._all(node.values, scope, depth)
        if isinstance(node, ast.BinOp):
            return _within(self._all((node.left, node.right), scope, depth))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return _within(self._all(node.elts, scope, depth))
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return _within(self._origins(node.elt, scope, depth + 1))
        if isinstance(node, ast.DictComp):
            return _within(self._origins(node.value, scope, depth + 1))
        if isinstance(node, ast.Dict):
            return _within(self._all(node.values, scope, depth))
        return _NONE

    def _all(self, nodes: Iterable[ast.expr], scope: _Scope, depth: int) -> _Origins:
        return _NONE.union(*(self._origins(node, scope, depth + 1) for node in nodes))

    def _of_name(self, name: str, scope: _Scope) -> _Origins:
        owner = _owner(scope, name)
        found = owner.own.get(name, _NONE)
        return found | {_Origin(Changed(name))} if owner.parent is None and name in self._names else found

    def _of_call(self, node: ast.Call, scope: _Scope, depth: int) -> _Origins:
        if isinstance(node.func, ast.Name):
            name, given = node.func.id, node.args
            if name == FRAME and given:
                return self._table(given[0], scope, depth)
            if name in self._functions:
                return self._functions[name][0].own.get(_RETURN, _NONE)
        elif isinstance(node.func, ast.Attribute):
            name = node.func.attr
            is_module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("copy", "random")
            given = node.args if is_module else [node.func.value]
        else:
            return _NONE
        if name not in _COPIES | _PAIRS | _MEMBERS:
            return _NONE
        found = self._all(given, scope, depth)
        if name in _MEMBERS:
            return _Origins(origin.inside(1) for origin in found)
        found = _Origins(origin for origin in found if not origin.of.is_table)
        return _within(_within(found)) if name in _PAIRS else _within(found)

    def _table(self, node: ast.expr, scope: _Scope, depth: int) -> _Origins:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.removeprefix("$")
            return _Origins({_Origin(Changed(name, True))}) if name in self._names else _NONE
        found = self._origins(node, scope, depth + 1)
        return _Origins(one._replace(of=one.of._replace(is_table=True)) for one in found if not one.depth)


def _owner(scope: _Scope, name: str) -> _Scope:
    """Return the scope to which a name belongs that is used in the given scope."""
    while scope.parent is not None and name not in scope.own:
        scope = scope.parent
    return scope


def _within(origins: _Origins) -> _Origins:
    """Return the origins of a new container that contains something with these origins."""
    return _Origins(origin._replace(depth=origin.depth + 1) for origin in origins)


def _changed(node: ast.AST, names: Collection[str]) -> Iterator[ast.expr]:
    """Yield the values that a node changes, judged by the node's form."""
    if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        # a number is replaced by assignment, not changed in place
        if node.target.id in names or isinstance(node.value, _FRESH):
            yield ast.Name(node.target.id, ast.Load())
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if name in _FUNCTIONS and node.args:
            yield node.args[0]
        elif isinstance(node.func, ast.Attribute) and (
            name in (_OF_TABLES if _is_table(node.func.value) else _METHODS) or _is_inplace(node)
        ):
            yield node.func.value


def _is_table(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == FRAME


def _is_inplace(call: ast.Call) -> bool:
    return any(
        keyword.arg == "inplace" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
        for keyword in call.keywords
    )
