"""Names of objects that the code itself makes. Changing such an object changes nothing that the code was given.

The names are found from the text alone, whatever the order in which it runs: every binding of such a name is to something new.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from byref_sandbox.code.words import words

METHODS: Final = words(
    "append add extend insert update setdefault sort reverse remove discard clear pop popleft appendleft"
)
"""These methods change the object that they are called on, and nothing else."""
_MAKERS: Final = words("list dict set sorted Counter defaultdict str int float bool len round range")
"""These calls return something new, whatever their arguments are."""
_PLACES: Final = words("loc iloc at iat")
"""What is stored at one of these of a table is in that table."""
_IDENTIFIER: Final = re.compile(r"\w+")
_FACTORIES: Final = words("list dict set int float str")
_NEW: Final = (
    *(ast.Constant, ast.JoinedStr, ast.BinOp, ast.Compare),
    *(ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp),
)


class Fresh(NamedTuple):
    """The objects that may be changed: the values of `names`; for `with_members` the values' members as well."""

    names: frozenset[str]
    with_members: frozenset[str]

    def is_own(self, node: ast.expr) -> bool:
        """Tell whether the code itself made a value."""
        if isinstance(node, ast.Attribute) and node.attr in _PLACES:
            node = node.value
            return isinstance(node, ast.Name) and node.id in self.names
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Subscript):
            return isinstance(node.value, ast.Name) and node.value.id in self.with_members
        default = _default(node)
        return default is not None and default in self.with_members


def fresh_names(statements: Collection[Sequence[ast.AST]], given: Collection[str], scalars: Collection[str]) -> Fresh:
    """Find the names of what code makes anew, from the nodes of its statements. `given` are the names of what it is given, `scalars`
    those of values that nothing can change in place.
    """
    nodes = [node for statement in statements for node in statement]
    bound = Counter(name for node in nodes for name in bound_names(node))
    imported = Counter(
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "collections"
        for alias in node.names
        if alias.asname is None
    )
    makers = frozenset(name for name in _MAKERS - frozenset(given) if bound[name] == imported[name])
    new: Counter[str] = Counter()
    made = set(scalars)
    mixed = set(scalars)
    """Names of values that may contain something that is not new."""
    sliced: set[str] = set()
    """Names that may be bound to a list. Something that is not new can replace a slice of a list."""
    known: set[int] = set()
    """Nodes that store something new, and calls that make something new."""
    for node in nodes:
        for target, value in _assigned(node):
            if isinstance(target, ast.Name) and _is_new(value, makers):
                new[target.id] += 1
                made.add(target.id)
                sliced.update(() if _is_keyed(value) else (target.id,))
                mixed.update(() if _has_new_members(value, makers) else (target.id,))
            elif isinstance(target, ast.Subscript) and _is_new(value, makers):
                known.add(id(target))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            new[node.target.id] += 1
            mixed.add(node.target.id)
        elif isinstance(node, ast.AugAssign):
            known.add(id(node.target))
        elif isinstance(node, ast.Call) and _default(node) is not None and _is_new(node.args[1], makers):
            known.add(id(node.func))
    for node in nodes:
        if (name := _stored_into(node)) is not None and (id(node) not in known or name in sliced):
            mixed.add(name)
    others = frozenset(given).difference(scalars, bound_first(statements) & made)
    names = frozenset(name for name in made if new[name] == bound[name]) - others
    return Fresh(names, names - mixed)


def bound_first(statements: Iterable[Sequence[ast.AST]]) -> set[str]:
    """Return the names that the top level binds before anything else mentions them, from the nodes of its statements.

    Texts mention names as well: `df("orders")`.
    """
    found: set[str] = set()
    seen: set[str] = set()
    for nodes in statements:
        mentioned = Counter(node.id for node in nodes if isinstance(node, ast.Name))
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                mentioned.update(_IDENTIFIER.findall(node.value))
        for target, _ in _assigned(nodes[0]):
            if isinstance(target, ast.Name) and target.id not in seen and mentioned[target.id] == 1:
                found.add(target.id)
        seen.update(mentioned)
    return found


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.asname or node.name
    elif isinstance(node, ast.FunctionDef):
        yield node.name


def _stored_into(node: ast.AST) -> str | None:
    """Return the name of the value into which a node stores something, or may store something."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
        return node.value.id
    if isinstance(node, ast.Attribute) and node.attr in METHODS and isinstance(node.value, ast.Name):
        return node.value.id
    return None


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                if len(target.elts) == len(node.value.elts):
                    yield from zip(target.elts, node.value.elts, strict=True)
            elif len(node.targets) == 1 or isinstance(node.value, ast.Constant):
                yield target, node.value


def _is_new(node: ast.expr, makers: frozenset[str]) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "copy" and not node.args  # with an argument it may be a function of a module
    return isinstance(node, _NEW) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers
    )


def _has_new_members(node: ast.expr, makers: frozenset[str]) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "defaultdict" and len(node.args) == 1:
            [made] = node.args
            return isinstance(made, ast.Name) and made.id in _FACTORIES & makers
        return not node.args
    if isinstance(node, ast.Dict):
        return all(
            key is not None and _is_new(value, makers) for key, value in zip(node.keys, node.values, strict=True)
        )
    if isinstance(node, ast.List):
        return all(_is_new(value, makers) for value in node.elts)
    if isinstance(node, ast.DictComp):
        return _is_new(node.value, makers)
    return isinstance(node, ast.ListComp) and _is_new(node.elt, makers)


def _is_keyed(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("dict", "defaultdict", "Counter")
    return isinstance(node, ast.Dict | ast.DictComp)


def _default(node: ast.AST) -> str | None:
    """Return the name on which `setdefault` is called with a default."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault"
    if is_call and len(node.args) == 2 and isinstance(node.func.value, ast.Name):  # type: ignore[attr-defined]
        return str(node.func.value.id)  # type: ignore[attr-defined]
    return None
