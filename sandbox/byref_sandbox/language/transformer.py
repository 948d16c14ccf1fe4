# ruff: noqa: N802, N815
"""The compiler's part of the language: it changes Python's syntax tree so that every risky step goes through a guard."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from RestrictedPython.transformer import RestrictingNodeTransformer

from byref_sandbox.code.awaiting import Awaited
from byref_sandbox.language import names
from byref_sandbox.language.templates import refused_attribute

# Guards are among the builtins, under names that no code can spell.
GETATTR, PRIVATE, DUNDER, WRITABLE = ".getattr", ".private", ".dunder", ".writable"
IMPORT, IMPORT_ALL = ".import", ".import_all"
TYPE, USER_CLASSES, VALUE, LOOK_UP = ".type", ".user_classes", ".value", ".look_up"
READABLE, DEEPCOPY, HELPER = ".readable", ".deepcopy", ".helper"
AWAITED, AWAITABLE = ".awaited", ".awaitable"

_Scope = Literal["module", "class", "function", "expression"]
_N = TypeVar("_N", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Problem:
    """One construct that is refused."""

    line: int | None
    message: str
    hint: str | None = None


class Transformer(RestrictingNodeTransformer):
    """RestrictedPython's default-deny transformer, widened to the language analysts write.

    Guarded are attributes by name, stores into attributes, imports, class patterns and class bodies. Iteration, subscripts, calls and
    in-place operators stay as they are: they reach nothing that a guard would refuse, and loops consist of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[Problem] = []
        self.has_value = False
        self.shows_value = True
        """Whether the value of a last expression is the code's."""
        self.awaited = Awaited()
        """Where the code awaits what calls return."""
        self._scope: _Scope = "module"
        self._string_annotations = False

    def visit(self, node: ast.AST) -> Any:
        """Visit a node. A refused one stays in the tree, so that the node that holds it can still be checked."""
        visited = super().visit(node)
        return node if visited is None else visited

    # Allowed as they are: what they hold is visited, and nothing else has to be asked. RestrictedPython refuses some of these, and calls
    # `guard_iter` for loops; but nothing that can be iterated over yields what cannot be had otherwise.
    guard_iter = visit_Subscript = visit_With = visit_TryStar = RestrictingNodeTransformer.node_contents_visit
    visit_AsyncFor = visit_AsyncWith = RestrictingNodeTransformer.node_contents_visit
    visit_Match = visit_match_case = visit_MatchSequence = visit_MatchOr = (
        RestrictingNodeTransformer.node_contents_visit
    )

    # Reporting -----------------------------------------------------------------------------------------------------------------

    def error(self, node: ast.AST, info: str, hint: str | None = None) -> None:
        """Note a refusal."""
        self.problems.append(Problem(getattr(node, "lineno", None), info, hint or None))

    def not_allowed(self, node: ast.AST) -> None:
        """Refuse a construct as a whole."""
        self.error(node, f"{type(node).__name__} is not available")

    # Names ---------------------------------------------------------------------------------------------------------------------

    def check_name(self, node: ast.AST, name: str | None, allow_magic_methods: bool = False) -> None:
        """Refuse to bind a dunder name where Python gives it a meaning."""
        if name is None or not names.is_dunder(name):
            return
        allowed = (
            names.CLASS_DUNDERS
            if self._scope == "class"
            else names.MODULE_DUNDERS
            if self._scope == "module"
            else frozenset()
        )
        if name not in allowed:
            self.error(node, f"{name!r} cannot be defined", names.why_refused(name))
        elif name in ("__match_args__", "__slots__"):
            self.error(node, f"{name} must be assigned a literal tuple of strings")
        elif name in _WRAPPED_METHODS and not (isinstance(node, ast.FunctionDef) and not node.decorator_list):
            self.error(
                node, f"{name} must be a plain method", f"write it out: def {name}(self, …), without a decorator"
            )

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load):
            if node.id == "__name__":
                return ast.copy_location(ast.Constant("__main__"), node)
            if names.is_dunder(node.id) and node.id != "__debug__":
                known = _READABLE[self._scope]
                if node.id not in known:
                    self.error(node, f"{node.id!r} is not available", names.why_refused(node.id))
        else:
            self.check_name(node, node.id)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg is not None and names.is_dunder(node.arg):
            self.error(node, f"{node.arg!r} is not available as a keyword argument")
        return self.node_contents_visit(node)

    def _visit_names(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        for name in node.names:
            if names.is_dunder(name):
                self.error(node, f"{name!r} cannot be defined", names.why_refused(name))
        return node

    visit_Global = visit_Nonlocal = _visit_names

    def _visit_binding(self, node: ast.ExceptHandler | ast.MatchStar | ast.MatchAs) -> ast.AST:
        self.check_name(node, node.name)
        return self.node_contents_visit(node)

    visit_ExceptHandler = visit_MatchStar = visit_MatchAs = _visit_binding

    # Attributes and items ------------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name, load = node.attr, isinstance(node.ctx, ast.Load)
        if names.is_dunder(name):
            if name not in (names.READ_DUNDERS if load else names.WRITTEN_DUNDERS):
                why = names.why_refused if load else names.why_not_set
                self.error(node, f"attribute {name!r} is not available", why(name))
            elif load:
                return self._call(node, DUNDER, self.visit(node.value), ast.Constant(name))
        elif name in names.REFUSED_ATTRIBUTES:
            self.error(node, f"attribute {name!r} is not available", names.why_refused(name))
        node.value = self.visit(node.value)
        if not load:
            node.value = self._checked(node.value, WRITABLE, name)
        elif name.startswith("_"):
            node.value = self._checked(node.value, PRIVATE, name)
        elif name in names.CHECKED_ATTRIBUTES and not _harmless_template(node):
            return self._call(node, GETATTR, node.value, ast.Constant(name))
        return node

    def _checked(self, value: ast.expr, guard: str, name: str) -> ast.expr:
        """Return an expression for `value` itself if it is an instance of a class that the code defined, else for what the guard returns."""
        call = self._call(value, guard, value, ast.Constant(name))
        if not isinstance(value, ast.Name):
            return call
        # Written out here, this test costs a third of a call of the guard, and methods use `self._x` everywhere.
        of_user = ast.Compare(self._call(value, TYPE, _load(value.id)), [ast.In()], [_load(USER_CLASSES)])
        return _at(value, ast.IfExp(of_user, _load(value.id), call))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == names.FRAME_HELPER:
            node.func = self._call(node.func, HELPER, node.func)
        is_awaited, given = id(node) in self.awaited.calls, id(node) in self.awaited.given
        self.node_contents_visit(node)
        if is_awaited:
            node.func = self._call(node.func, AWAITED, node.func)
        if given and node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = self._call(node.args[0], AWAITED, node.args[0])
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        is_name = isinstance(node.value, ast.Name | ast.Subscript | ast.Call)
        self.node_contents_visit(node)
        if is_name:
            node.value = self._call(node.value, AWAITABLE, node.value)
        return node

    # Statements ----------------------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return node if self._lists_names(node, node.targets) else self.node_contents_visit(node)

    def _lists_names(self, node: ast.Assign | ast.AnnAssign, targets: list[ast.expr]) -> bool:
        """Whether this assigns a class's `__match_args__` or `__slots__`; its value is then replaced by a literal tuple that was checked."""
        match self._scope, targets, node.value:
            case "class", [ast.Name(id="__match_args__" | "__slots__" as name)], ast.expr() as value:
                listed = _literal_names(value, names.is_ordinary if name == "__match_args__" else names.may_be_slot)
                if listed is None:
                    self.error(node, f"{name} must be a literal tuple of ordinary attribute names")
                else:
                    node.value = _at(value, ast.Tuple([ast.Constant(each) for each in listed], ast.Load()))
                return True
        return False

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        visited = self.node_contents_visit(node)
        if isinstance(node.target, ast.Attribute) and node.target.attr in names.CHECKED_ATTRIBUTES:
            node.target.value = self._checked(
                node.target.value, READABLE, node.target.attr
            )  # `x.a += 1` reads the attribute as well
        return visited

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if isinstance(node.target, ast.Name) and node.target.id in names.REFUSED_ATTRIBUTES:
            self.error(node, f"{node.target.id!r} cannot be a field")
        node.annotation = self._annotation(node.annotation)
        if not self._lists_names(node, [node.target]):
            node.target = self.visit(node.target)
            node.value = node.value and self.visit(node.value)
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self._string_annotations = any(
            isinstance(s, ast.ImportFrom) and s.module == "__future__" and any(a.name == "annotations" for a in s.names)
            for s in node.body
        )
        node.body = self._block(node.body)
        if self.shows_value and node.body and isinstance(node.body[-1], ast.Expr):
            last = node.body[-1]
            node.body[-1] = _at(last, ast.Assign([ast.Name(VALUE, ast.Store())], last.value))
            self.has_value = True
        return node

    def visit_Expression(self, node: ast.Expression) -> ast.AST:
        with self._inside("expression"):
            node.body = self.visit(node.body)
        return node

    # Functions and classes -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _inside(self, scope: _Scope) -> Iterator[None]:
        outer, self._scope = self._scope, scope
        try:
            yield
        finally:
            self._scope = outer

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        block: list[ast.stmt] = []
        for statement in body:
            visited = self.visit(statement)
            block.extend(visited if isinstance(visited, list) else [visited] if visited is not None else [])
        return block or [ast.Pass()]

    def _annotation(self, node: ast.expr) -> ast.expr:
        if self._string_annotations:
            return _at(node, ast.Constant(ast.unparse(node)))
        visited: ast.expr = self.visit(node)
        return visited

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.check_name(node, node.name)
        self._visit_parameters(node)
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        if self._scope == "class" and node.name in _WRAPPED_METHODS:
            node.decorator_list = [_at(node, _load(_WRAPPED_METHODS[node.name]))]
        node.args = self.visit(node.args)
        node.returns = node.returns and self._annotation(node.returns)
        with self._inside("function"):
            node.body = self._block(node.body)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def _visit_parameters(self, node: Any) -> None:
        """Visit `[T: bound]`, from Python 3.12 on. What stands in there is evaluated on request, in a function of its own."""
        for parameter in getattr(node, "type_params", ()):
            self.check_name(parameter, parameter.name)
            with self._inside("expression"):
                for part in ("bound", "default_value"):
                    if getattr(parameter, part, None) is not None:
                        setattr(parameter, part, self.visit(getattr(parameter, part)))

    def visit_TypeAlias(self, node: Any) -> ast.AST:
        node.name = self.visit(node.name)
        self._visit_parameters(node)
        with self._inside("expression"):
            node.value = self.visit(node.value)
        return node  # type: ignore[no-any-return]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self.visit(node.args)
        with self._inside("function"):
            node.body = self.visit(node.body)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        if names.is_dunder(node.arg):
            self.error(node, f"{node.arg!r} cannot be a parameter")
        node.annotation = node.annotation and self._annotation(node.annotation)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.check_name(node, node.name)
        self._visit_parameters(node)
        for part in ("decorator_list", "bases", "keywords"):
            setattr(node, part, [self.visit(child) for child in getattr(node, part)])
        with self._inside("class"):
            node.body = self._block(node.body)
        return node

    # Imports -------------------------------------------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        self._refuse_lazy(node)
        return [
            self._bind_import(node, a.asname or a.name.split(".")[0], a.name, None, a.asname is not None)
            for a in node.names
        ]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
        self._refuse_lazy(node)
        if node.module == "__future__":
            return ast.copy_location(ast.Pass(), node)
        if node.level:
            self.error(
                node, "relative imports are not available", "there is no package: define what you need in the code"
            )
        elif node.names[0].name == "*":
            if self._scope != "module":
                self.error(node, "import * is only allowed at the top level", "import the names you use")
            # Not an expression, which could be taken for the value of the code.
            return _at(node, ast.If(self._call(node, IMPORT_ALL, ast.Constant(node.module)), [ast.Pass()], []))
        return [self._bind_import(node, a.asname or a.name, node.module or "", a.name, True) for a in node.names]

    def _refuse_lazy(self, node: ast.Import | ast.ImportFrom) -> None:
        if getattr(node, "is_lazy", 0):
            self.error(node, "lazy imports are not available", "use a plain import statement")

    def _bind_import(self, node: ast.stmt, name: str, module: str, attribute: str | None, leaf: bool) -> ast.stmt:
        self.check_name(node, name)
        call = self._call(node, IMPORT, ast.Constant(module), ast.Constant(attribute), ast.Constant(leaf))
        return _at(node, ast.Assign([ast.Name(name, ast.Store())], call))

    # match ---------------------------------------------------------------------------------------------------------------------

    def visit_MatchSingleton(self, node: ast.MatchSingleton) -> ast.AST:
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        # The grammar allows numbers, strings and dotted names only. A dotted name must stay one, so no guard can be called here.
        self._plain_path(node.value)
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        self.check_name(node, node.rest)
        for key in node.keys:
            self._plain_path(key)
        node.patterns = [self.visit(p) for p in node.patterns]
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        self._plain_path(node.cls)
        for name in node.kwd_attrs:
            if not names.is_ordinary(name):
                self.error(
                    node, f"attribute {name!r} cannot be used in a pattern", "capture the object and test it in an if"
                )
        node.patterns = [self.visit(p) for p in node.patterns]
        node.kwd_patterns = [self.visit(p) for p in node.kwd_patterns]
        return node

    def _plain_path(self, node: ast.expr) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and not names.is_ordinary(part.attr):
                self.error(
                    node,
                    f"attribute {part.attr!r} cannot be used in a pattern",
                    "assign it to a variable before the match",
                )
            elif isinstance(part, ast.Name):
                self.visit_Name(part)

    # Building ------------------------------------------------------------------------------------------------------------------

    def _call(self, at: ast.AST, guard: str, *arguments: ast.expr) -> ast.expr:
        return _at(at, ast.Call(_load(guard), list(arguments), []))


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _at(place: ast.AST, node: _N) -> _N:
    """Return `node` with the position of `place`. Nodes inside it get theirs in the end (`fix_missing_locations`)."""
    return ast.copy_location(node, place)


def _harmless_template(node: ast.Attribute) -> bool:
    """Whether this is the `format` of a literal that names only ordinary attributes."""
    template = node.value.value if isinstance(node.value, ast.Constant) else None
    return type(template) is str and node.attr in ("format", "format_map") and refused_attribute(template) is None


def _literal_names(node: ast.expr, may_be: Callable[[str], bool]) -> list[str] | None:
    """Return the names that a literal lists, of a dict its keys; None if it is no literal, or lists a name that it may not."""
    try:
        listed = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    found: list[Any] = [listed] if type(listed) is str else [*listed] if type(listed) in (tuple, list, dict) else [None]
    return found if all(type(name) is str and may_be(name) for name in found) else None


_WRAPPED_METHODS = {"__getattr__": LOOK_UP, "__deepcopy__": DEEPCOPY}
"""Methods that libraries call with objects which code must not have, and the wrapper that stands between."""
_READABLE: dict[_Scope, frozenset[str]] = {
    "module": names.MODULE_DUNDERS,
    "class": names.CLASS_DUNDERS,
    "function": names.MODULE_DUNDERS | {"__class__"},
    "expression": names.MODULE_DUNDERS,
}
"""Dunder names that code may read in each scope. In a method `__class__` is the class in which it was written."""
