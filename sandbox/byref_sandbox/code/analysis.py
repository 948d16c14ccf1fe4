"""Finds, before Python code runs, the names that it reads and assigns, and the tables that it makes. The host imports this
module.

It uses only the standard library, and never raises, whatever the code is.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import inf
from typing import Final, NamedTuple, Self

from byref_sandbox.code.source import UNPARSED, parsed, strip_dollars

FRAME: Final = "df"
MAX_SOURCE_CHARS: Final = 200_000
"""Longer code is not run, and not parsed, because that could take the host seconds; a plain scan finds the names of definitions of
earlier runs that are longer than this altogether."""
_MAX_NESTING: Final = 200
"""More deeply nested code is not parsed: CPython's parser gives up at 200 open brackets, and up to there the C stack is safe."""
_MAX_TEMPLATE_CHARS: Final = 10_000
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
_QUERY_VARIABLE: Final = re.compile(r"@\s*([^\W\d]\w*)")
_BY_NAME: Final = frozenset({"globals", "locals", "vars", "eval"})
"""If code uses one of these names, any string in it may name a variable."""
_NAMESPACES: Final = _BY_NAME | {"exec", "dir"}
"""If code uses one of these names, it may read any name in a way that cannot be seen."""
_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}|%\(\w+\)[sd]|%[0-9]*[sdi]")
"""Matches what a template puts other text in place of."""
_CONSTRUCTOR: Final = "DataFrame"
_PANDAS: Final = frozenset({"pd", "pandas", _CONSTRUCTOR})
"""Names that stand for pandas and its DataFrame, unless the code binds them otherwise."""
INFERENCE: Final = ("infer_string", "string_storage")
"""Options that change what pandas makes of text."""
_LOOKING: Final = frozenset({"len", "print", "type", "str", "repr", "bool", "isinstance"})
"""Functions that change nothing of plain data, and whose result holds no part of it."""
_PARTS: Final = frozenset({"keys", "values", "items", "get"})
FAMILIAR: Final = _PANDAS | _LOOKING
"""Names that must stand for what they always do, for the code to do what it seems to."""


class Uses(NamedTuple):
    """The names in code. The names that it reads are a superset: variables are bound only if they are found here, so a name
    that is not found would be missing.
    """

    names: frozenset[str]
    """Names that the code may read: identifiers, and names inside short strings (`df("users")`, `.query("a > @limit")`)."""
    assigned: frozenset[str]
    """Names that the code binds, by any statement; empty for code that cannot be parsed."""
    tables: frozenset[str]
    """Names of which the code makes DataFrames: `df("users")` or `df(users)`."""
    only_tables: frozenset[str]
    """Names that the code uses only as tables, so that their values need not be decoded."""
    imports: frozenset[str] = frozenset()
    """Packages from which the code imports."""
    only_constructed: frozenset[str] = frozenset()
    """Names that it hands to `pd.DataFrame(orders)`, besides `df`, and uses in no other way: nor need their values be decoded."""
    only_looked_at: frozenset[str] = frozenset()
    """Names that it hands to `pd.DataFrame` and otherwise only looks at, as in `len(orders)`: nothing changes their values."""
    may_read_all: bool = False
    """Whether the code may read any name, in a way that cannot be seen: `globals()`."""
    may_read_any: bool = False
    """Whether it may read data by a name that it computes: `globals()[f"orders_{year}"]`, `df(f"orders_{year}")`. It then needs
    what it does not name; not so for `"orders" in globals()`."""


class Analysed(str):
    """Python code with its analysis, which is made once, when it is first needed.

    It is a str, so that it can be passed wherever code is expected; functions that know this class use its analysis. In the
    code, `$name` means `name`.
    """

    @classmethod
    def of(cls, source: str) -> Self:
        """Return the code itself if it is analysed already."""
        return source if isinstance(source, cls) else cls(source)

    @classmethod
    def scanned(cls, source: str) -> Self:
        """Return code that is not to be parsed."""
        made = cls(source)
        vars(made)["tree"] = None
        return made

    @classmethod
    def of_statement(cls, statement: ast.stmt) -> Self:
        """Return the code of one statement that is parsed already."""
        made = cls(ast.unparse(statement))
        vars(made)["tree"] = ast.Module([statement], [])
        return made

    @classmethod
    def joined(cls, texts: Collection[Self]) -> Self:
        """Return several codes as one, whose tree is made of theirs."""
        made = cls("\n".join(texts))
        trees = [text.tree for text in texts]
        vars(made)["tree"] = (
            None if None in trees else ast.Module([each for tree in trees if tree for each in tree.body], [])
        )
        vars(made)["statements"] = [statement for text in texts for statement in text.statements]
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """Pickle the code without its tree, which is large and can be made again."""
        return type(self), (str(self),)

    @cached_property
    def plain(self) -> str:
        """The code without the `$` before names."""
        return strip_dollars(str(self))

    @cached_property
    def tree(self) -> ast.Module | None:
        """The code's syntax tree; None if the code is broken, hostile or huge."""
        if len(self) > MAX_SOURCE_CHARS or _nesting(self) > _MAX_NESTING:
            return None
        try:
            return parsed(self.plain)
        except UNPARSED:
            return None

    @cached_property
    def statements(self) -> list[list[ast.AST]]:
        """The nodes of each statement at the top level, which is the first of them. Walking takes longer than most that is done on the way."""
        return [] if self.tree is None else [list(ast.walk(statement)) for statement in self.tree.body]

    @cached_property
    def uses(self) -> Uses:
        """The names in the code. If there is no tree, every identifier may be a value."""
        try:
            if self.tree is not None:
                return _Found(self.tree, self.statements).uses()
        except UNPARSED:
            pass
        names = frozenset(_IDENTIFIER.findall(self[:MAX_SOURCE_CHARS]))
        return Uses(names, frozenset(), frozenset(), frozenset(), may_read_all=True)


def _nesting(source: str) -> int:
    """Return an upper bound of the nesting of brackets and unary operators; those inside strings count too."""
    depth = deepest = 0
    for char in re.findall(r"[\[({\])}]", source):
        depth = depth + 1 if char in "[({" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return max(deepest, max(map(len, re.findall(r"(?:[-+~]\s*|not\s+)+", source)), default=0) // 2)


class _Found:
    """Collects names while all nodes are visited once."""

    def __init__(self, tree: ast.Module, statements: list[list[ast.AST]]) -> None:
        self.tree = tree
        self.statements = statements
        self.named: set[str] = set()
        self.read: list[tuple[str, ast.Name]] = []
        self.assigned: set[str] = set()
        self.imports: set[str] = set()
        self.texts: list[str] = []
        self.by_text: set[str] = set()
        """Names of tables, written as text: `df("users")`."""
        self.by_name: list[tuple[str, ast.Name]] = []
        """Names of tables, written as names: `df(users)`."""
        self.inside: set[str] = set()
        """Texts anywhere in the arguments of `df`."""
        self.computed: list[ast.expr] = []
        """Arguments of `df` that are no text."""
        self.is_computed = False
        """Whether the code computes a table's name. If so, any short string in it may be that name."""
        self.is_opaque = False
        """Whether the code rebinds `df`, or reads names in ways that cannot be seen."""
        self.constructed: list[tuple[str, ast.Name]] = []
        """Names that stand alone in `pd.DataFrame(orders)`."""
        self.is_other = False
        """Whether a familiar name may stand for something else, or the code may change what pandas infers."""
        for node in itertools.chain.from_iterable(statements):
            self._look_at(node)
            self._look_for_pandas(node)
        self.replaced = _replaced(statements, {id(node) for _, node in self.constructed})

    def uses(self) -> Uses:
        names = frozenset(self.named | self.inside | set(self._quoted()))
        assigned, imports, none = frozenset(self.assigned), frozenset(self.imports), frozenset[str]()
        constructed, looked_at = self._constructed()
        reads_all = not self.named.isdisjoint(_NAMESPACES)
        reads_any = (reads_all and self._looks_up_any()) or self._computes_table()
        if FRAME not in names:
            return Uses(names, assigned, none, none, imports, constructed, looked_at, reads_all, reads_any)
        short = frozenset(text for text in self.texts if text.isidentifier()) if self.is_computed else none
        names |= short
        tables = frozenset(self.by_text).union(name for name, _ in self.by_name)
        if self.is_opaque:
            return Uses(
                names | tables,
                assigned,
                tables,
                none,
                imports,
                constructed - tables,
                looked_at - tables,
                reads_all,
                reads_any,
            )
        values = self._values()
        quoted = names - self.named - self.by_text  # in the text of a query, for example
        only_tables = tables - values - short - quoted
        return Uses(
            names | tables,
            assigned,
            tables | short,
            only_tables,
            imports,
            constructed - short,
            looked_at - short,
            reads_all,
            reads_any,
        )

    def _looks_up_any(self) -> bool:
        """Whether it uses a namespace otherwise than for a name that is written there: `globals()["orders"]`."""
        nodes = [*itertools.chain.from_iterable(self.statements)]
        by_name = {id(node) for node in map(_namespace_of, nodes) if node is not None}
        return any(isinstance(node, ast.Name) and node.id in _NAMESPACES and id(node) not in by_name for node in nodes)

    def _computes_table(self) -> bool:
        """Whether what it hands to `df` may be a name that it has put together."""
        given = [
            one
            for one in self.computed
            if isinstance(
                one, ast.Name | ast.Call | ast.Subscript | ast.BinOp | ast.JoinedStr | ast.IfExp | ast.NamedExpr
            )
            and not (isinstance(one, ast.Name) and one.id not in self.assigned)
        ]
        if any(isinstance(one, ast.BinOp | ast.JoinedStr) for one in given):
            return True
        return bool(given) and any(map(_makes_name, itertools.chain.from_iterable(self.statements)))

    def _values(self, *more: tuple[str, ast.Name]) -> set[str]:
        """Names that are read elsewhere than in `df(orders)` and in these places."""
        arguments = {id(node) for _, node in (*self.by_name, *more)}
        return {name for name, node in self.read if id(node) not in arguments}

    def _constructed(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return `only_constructed` and `only_looked_at`."""
        if self.is_other or not self.constructed or not self.named.isdisjoint(_NAMESPACES):
            return frozenset(), frozenset()
        names = {name for name, _ in self.constructed} - set(self._quoted())
        names -= self.assigned - self.replaced
        used = self._values(*self.constructed) - self.replaced
        looks = _looks(self.tree) if names & used else set()
        elsewhere = self._values(*self.constructed, *((name, node) for name, node in self.read if id(node) in looks))
        return frozenset(names - used), frozenset((names & used) - elsewhere)

    def _quoted(self) -> Iterator[str]:
        """Return the names inside texts."""
        by_name = not self.named.isdisjoint(_BY_NAME)
        for text in self.texts:
            if by_name and len(text) <= _MAX_TEMPLATE_CHARS:
                yield from _IDENTIFIER.findall(text)
            elif "@" in text:
                yield from _QUERY_VARIABLE.findall(text)

    def _look_at(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.named.add(node.id)
            if isinstance(node.ctx, ast.Load):
                self.read.append((node.id, node))
            elif isinstance(node.ctx, ast.Store):
                self.assigned.add(node.id)
            self.is_opaque |= node.id in _NAMESPACES
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.texts.append(node.value)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == FRAME:
                for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                    self._table(argument)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                self.read.append((node.target.id, node.target))
        elif isinstance(node, ast.arg):
            self.assigned.add(node.arg)
            self.is_opaque |= node.arg == FRAME
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            self.assigned.add(node.name)
            self.is_opaque |= node.name == FRAME
        elif isinstance(node, ast.Import):
            self.imports.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            self.imports.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call | ast.Subscript | ast.BinOp):
            # A DataFrame cannot be called. A function of this name could be, with an object in place of the undecoded value.
            self.is_opaque |= any(isinstance(n, ast.Name) and n.id == FRAME for t in node.targets for n in ast.walk(t))

    def _look_for_pandas(self, node: ast.AST) -> None:
        """Note calls of `pd.DataFrame` with nothing but a name, and what else its names could stand for."""
        if isinstance(node, ast.Call) and _is_constructor(node.func) and len(node.args) == 1 and not node.keywords:
            if isinstance(node.args[0], ast.Name):
                self.constructed.append((node.args[0].id, node.args[0]))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            where = node.module if isinstance(node, ast.ImportFrom) else None
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                is_same = (
                    (where, alias.name) == ("pandas", _CONSTRUCTOR) if name == _CONSTRUCTOR else alias.name == "pandas"
                )
                self.is_other |= name in FAMILIAR and not is_same
        elif isinstance(node, ast.Attribute):
            self.is_other |= node.attr in INFERENCE
        elif isinstance(node, ast.Constant):
            self.is_other |= isinstance(node.value, str) and any(option in node.value for option in INFERENCE)
        elif not isinstance(node, ast.alias):
            bound = node.id if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else _named_by(node)
            self.is_other |= bound in FAMILIAR

    def _table(self, argument: ast.expr) -> None:
        self.inside.update(
            part.value for part in ast.walk(argument) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            self.by_text.add(argument.value.removeprefix("$"))
            return
        if isinstance(argument, ast.Name):
            self.by_name.append((argument.id, argument))
        self.computed.append(argument)
        self.is_computed = True


def _namespace_of(node: ast.AST) -> ast.Name | None:
    """The name `globals`, say, in an expression that looks up a name which is written there, or nothing of the session's."""
    match node:
        case ast.Compare(
            left=ast.Constant(),
            ops=[ast.In() | ast.NotIn()],
            comparators=[ast.Call(func=ast.Name() as function, args=[], keywords=[])],
        ):
            return function
        case ast.Subscript(value=ast.Call(func=ast.Name() as function, args=[], keywords=[]), slice=ast.Constant()):
            return function
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name() as function, args=[], keywords=[]), attr="get" | "pop" | "setdefault"
            ),
            args=[ast.Constant(), *_],
        ):
            return function
        case ast.Call(func=ast.Name(id="vars" | "dir") as function, args=[_]):
            return function  # the attributes of an object
    return None


def _makes_name(node: ast.AST) -> bool:
    """Whether an expression puts a text together that could be a name: `f"orders_{year}"`, but not `f"{year}: {total}"`."""
    match node:
        case ast.JoinedStr(values=parts):
            texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        case (
            ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Add() | ast.Mod())
            | ast.BinOp(op=ast.Add(), right=ast.Constant(value=str() as text))
            | ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format" | "join"))
        ):
            texts = [_PLACEHOLDER.sub("", text)]
        case _:
            return False
    return bool(texts) and all(re.fullmatch(r"\w+", str(text)) for text in texts)


def _is_constructor(function: ast.expr) -> bool:
    """Whether it is written as pandas' DataFrame."""
    if isinstance(function, ast.Attribute):
        return function.attr == _CONSTRUCTOR and isinstance(function.value, ast.Name) and function.value.id in _PANDAS
    return isinstance(function, ast.Name) and function.id == _CONSTRUCTOR


def _named_by(node: ast.AST) -> str | None:
    """The name that a node other than ast.Name binds."""
    if isinstance(node, ast.arg):
        return node.arg
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    return name if isinstance(name, str) else None


def _looks(tree: ast.Module) -> set[int]:
    """The names, as ids of their nodes, of which the code takes parts only to show or count them.

    What `len`, `print` and the like return holds no part of what they are given.
    """
    above = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found: set[int] = set()
    for name in ast.walk(tree):
        node: ast.AST = name
        if not isinstance(name, ast.Name) or not isinstance(name.ctx, ast.Load):
            continue
        while isinstance(parent := above[id(node)], ast.Subscript | ast.Attribute) and isinstance(parent.ctx, ast.Load):
            if isinstance(parent, ast.Attribute):
                call = above[id(parent)]
                if parent.attr not in _PARTS or not isinstance(call, ast.Call) or call.func is not parent:
                    break
                node = call
            elif parent.value is node:
                node = parent
            else:
                break
        is_argument = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _LOOKING
        if isinstance(parent, ast.Expr | ast.FormattedValue) or is_argument:
            found.add(id(name))
    return found


def _bound_by(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that nodes other than ast.Name bind."""
    for node in nodes:
        name = (node.asname or node.name.partition(".")[0]) if isinstance(node, ast.alias) else _named_by(node)
        if name is not None:
            yield name


def _replaced(statements: list[list[ast.AST]], constructed: set[int]) -> frozenset[str]:
    """Names of which the first statement that has them puts what it makes of them in their place: `orders = pd.DataFrame(orders)`.

    What the code reads under such a name later is no longer what it was given. `constructed` are the arguments in such calls.
    """
    seen: set[str] = set()
    replaced: set[str] = set()
    for nodes in statements:
        statement = nodes[0]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id not in seen:
                inside = [node for node in names if node.id == target.id and node is not target]
                if inside and all(id(node) in constructed for node in inside):
                    replaced.add(target.id)
        seen.update(node.id for node in names)
        seen.update(_bound_by(nodes))
    return frozenset(replaced)


def definitions_of(
    programs: Mapping[bytes, str],
    definitions: Mapping[str, bytes],
    names: Collection[str] | None = None,
    *,
    room: float = inf,
) -> Iterator[Analysed]:
    """Statements that define functions and classes, in the order of their programs: of each of the names the last one.

    `programs` are texts by digest, `definitions` names with the digest of the program that defines them. Without `names` these are
    all, and what the programs import. Programs beyond the first `room` characters are not parsed, and come whole.
    """
    of: dict[bytes, set[str]] = {}
    for name, program in definitions.items():
        if names is None or name in names:
            of.setdefault(program, set()).add(name)
    for program, text in programs.items():
        wanted = of.get(program, set())
        if names is not None and not wanted:
            continue
        room -= len(text)
        if room < 0:
            yield Analysed.scanned(text)
            continue
        # A run may have forged the text: what is too long or too deep to be parsed has no tree.
        tree = Analysed(text).tree
        statements = [*_statements(tree.body)] if tree is not None else []
        if names is None:
            wanted.update(name for name, one in statements if isinstance(one, ast.Import | ast.ImportFrom))
        last = {name: statement for name, statement in statements if name in wanted}
        for statement in last.values():
            with contextlib.suppress(RecursionError):
                yield Analysed.of_statement(statement)


def _statements(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Statements that bind a name, in a block and those inside it, but for those of functions and classes."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
                continue
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, statement
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name.partition(".")[0], statement) for alias in aliases)
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))
