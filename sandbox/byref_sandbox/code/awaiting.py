"""Which calls of a program are awaited: there a function of the host gives an awaitable, elsewhere its result.

A call is awaited if its value goes straight to `await` or into a function of asyncio: as the operand, inside a list or comprehension,
through a name or a container to which it is assigned or added, or as what a function returns whose own calls are all awaited. This
is found in the text, before the code runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

_TAKES: Final = frozenset(
    {
        *("gather", "wait", "wait_for", "create_task", "ensure_future", "shield", "as_completed"),
        "run_until_complete",
    }
)
"""Functions and methods of asyncio that take awaitables."""
_ADDS: Final = frozenset({"append", "add", "extend", "insert", "appendleft", "setdefault", "put_nowait"})
"""Methods that put what they are given into a container."""
_MAPS: Final = frozenset({"map", "starmap"})
"""Functions that call what they are given first."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Scope = ast.AST
_Name = tuple[int, str]
"""A name in a scope, which is known by its id."""


@dataclass(slots=True)
class Awaited:
    """Nodes of a tree, by their ids."""

    calls: set[int] = field(default_factory=set)
    """Calls whose value is awaited."""
    given: set[int] = field(default_factory=set)
    """Calls of `map`, say, whose first argument is called where the value is awaited."""


def awaited_in(tree: ast.AST) -> Awaited:
    """Find the calls of a program whose values are awaited."""
    return _Finder(tree).found


class _Finder:
    def __init__(self, tree: ast.AST) -> None:
        self.found = Awaited()
        awaits: list[tuple[ast.expr, _Scope]] = []
        self._assigned: dict[_Name, list[tuple[ast.expr, _Scope]]] = {}
        """What is assigned to each name, or added to what it stands for."""
        self._functions: dict[_Name, _Function] = {}
        self._called: dict[_Name, list[ast.Call]] = {}
        self._outer: dict[int, _Scope] = {}
        nodes = [*_in_scopes(tree, tree, self._outer)]
        if not any(isinstance(node, ast.Await | ast.Call | ast.AsyncFor) for node, _ in nodes):
            return
        for node, scope in nodes:
            self._bind(node, scope)
        for node, scope in nodes:
            if isinstance(node, ast.Await):
                awaits.append((node.value, scope))
            elif isinstance(node, ast.Call):
                if _takes(node):
                    awaits += ((argument, scope) for argument in _arguments(node))
                if isinstance(node.func, ast.Name):
                    self._called.setdefault(self._name(node.func.id, scope), []).append(node)
        if not awaits:
            return
        seen: set[int] = set()
        done: set[_Name] = set()
        work = awaits
        while work:
            node, scope = work.pop()
            if id(node) not in seen:
                seen.add(id(node))
                work += self._through(node, scope, done)
            if not work:
                work = list(self._returned())

    def _bind(self, node: ast.AST, scope: _Scope) -> None:
        """Note what names stand for."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._functions[id(scope), node.name] = node
                self._assigned.setdefault((id(scope), node.name), [])
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, scope)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
                | ast.AugAssign(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.AsyncFor(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
            ):
                self._assign(target, value, scope)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if attribute in _ADDS:
                for argument in node.args:
                    self._add(name, argument, scope)

    def _assign(self, target: ast.expr, value: ast.expr, scope: _Scope) -> None:
        match target:
            case ast.Name(id=name):
                self._assigned.setdefault((id(scope), name), []).append((value, scope))
                if isinstance(value, ast.Lambda):
                    self._functions[id(scope), name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(parts)
                for part, one in zip(parts, values, strict=False):
                    self._assign(part, one, scope)
            case ast.Subscript(value=ast.Name(id=name)):
                self._add(name, value, scope)

    def _add(self, name: str, value: ast.expr, scope: _Scope) -> None:
        # The container may be of an outer scope, whose assignment is perhaps not known yet: so it is noted for all of them.
        at: _Scope | None = scope
        while at is not None:
            self._assigned.setdefault((id(at), name), []).append((value, scope))
            at = self._outer.get(id(at))

    def _name(self, name: str, scope: _Scope) -> _Name:
        """Return the name in the innermost scope that binds it."""
        at: _Scope | None = scope
        while at is not None:
            if (id(at), name) in self._assigned:
                return id(at), name
            at = self._outer.get(id(at))
        return id(scope), name

    def _through(self, node: ast.expr, scope: _Scope, done: set[_Name]) -> Iterator[tuple[ast.expr, _Scope]]:
        """Note that the value of an expression is awaited, and yield the expressions from which it comes."""
        match node:
            case ast.Call():
                self.found.calls.add(id(node))
                if _last_name(node.func) in _MAPS:
                    self.found.given.add(id(node))
                elif _last_name(node.func) in ("list", "tuple", "set", "iter", "reversed", "zip", "enumerate"):
                    yield from ((argument, scope) for argument in node.args)
                elif isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "items", "pop", "copy"):
                    yield node.func.value, scope
            case ast.Name(id=name):
                key = self._name(name, scope)
                if key not in done:
                    done.add(key)
                    yield from self._assigned.get(key, ())
            case ast.Starred(value=value) | ast.Subscript(value=value) | ast.NamedExpr(value=value):
                yield value, scope
            case ast.IfExp(body=body, orelse=orelse):
                yield from ((body, scope), (orelse, scope))
            case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
                yield from ((value, scope) for value in values)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield from ((left, scope), (right, scope))
            case ast.ListComp(elt=value) | ast.SetComp(elt=value) | ast.GeneratorExp(elt=value):
                yield value, node
            case ast.DictComp(value=value):
                yield value, node
            case ast.Dict(values=values):
                yield from ((value, scope) for value in values)

    def _returned(self) -> Iterator[tuple[ast.expr, _Scope]]:
        """Yield what functions return all of whose calls are awaited."""
        for name, function in self._functions.items():
            calls = self._called.get(name, ())
            if isinstance(function, ast.AsyncFunctionDef) or not calls:
                continue
            if all(id(call) in self.found.calls for call in calls) and id(function) not in self.found.given:
                self.found.given.add(id(function))  # each function once; it is no call, so nobody else looks for it
                if isinstance(function, ast.Lambda):
                    yield function.body, function
                else:
                    yield from ((value, function) for value in _returns(function))


def _in_scopes(node: ast.AST, scope: _Scope, outer: dict[int, _Scope]) -> Iterator[tuple[ast.AST, _Scope]]:
    """Yield each node below another one with the function or comprehension that it is in."""
    stack: list[tuple[ast.AST, _Scope]] = [(node, scope)]
    while stack:
        at, within = stack.pop()
        if at is not node:
            yield at, within
        inner = within
        if isinstance(at, _Function | ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            outer[id(at)] = within
            inner = at
        stack += ((child, inner) for child in ast.iter_child_nodes(at))


def _returns(function: ast.FunctionDef) -> Iterator[ast.expr]:
    stack: list[ast.AST] = [*function.body]
    while stack:
        node = stack.pop()
        if isinstance(node, _Function | ast.ClassDef):
            continue
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            yield node.value
        stack += ast.iter_child_nodes(node)


def _takes(call: ast.Call) -> bool:
    name = _last_name(call.func)
    is_run = name == "run" and isinstance(call.func, ast.Attribute) and _last_name(call.func.value) == "asyncio"
    return is_run or name in _TAKES


def _arguments(call: ast.Call) -> Iterable[ast.expr]:
    return (*call.args, *(keyword.value for keyword in call.keywords))


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
