"""What the statements of a module use, by Python's rules of scopes: dotted names, methods of unknown objects, and what looks inside.

A use is a dotted name (`json.dumps`), `self.x` for a method of the same class, `?x` for a method or attribute of an object whose class the
text does not tell, `.x` for one that reaches files whatever the class, or a reason after `!`.
"""

from __future__ import annotations

import ast
import builtins
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from byref_sandbox.code.survey import METHODS, dotted_name, imports_of
from byref_sandbox.code.words import words

_INSIDE: Final = words("""__globals__ __builtins__ __code__ __closure__ __subclasses__ __bases__ __base__ __mro__ mro __getattribute__
    __reduce__ __reduce_ex__ __loader__ __spec__ __import__ __self__ __func__ __dict__ __setattr__ __delattr__ __traceback__ f_globals
    f_locals f_builtins f_back f_code gi_frame gi_code cr_frame cr_code ag_frame ag_code tb_frame tb_next tb_lasti co_code modules
    exec_module load_module import_module func_globals with_traceback __path__ __annotations__ __annotate__ __forward_code__
    __array_interface__ __array_struct__ __dataclass_fields__ _evaluate evaluate from_callable _convert_ _convert""")
"""Attributes that lead inside the interpreter, or run text, of whatever object."""
_ON_SELF: Final = words(
    "__dict__ __setattr__ __delattr__ __reduce__ __reduce_ex__ __getattribute__ __mro__ __self__ __func__"
)
"""Of these attributes, those that are harmless of its own object in a method that only Python calls."""
_FILES: Final = METHODS | words(
    "to_json to_html to_latex to_markdown to_xml to_orc to_clipboard to_gbq to_iceberg dump savefig"
)
"""Methods that reach files of objects whose class is not known."""
_BY_TEXT: Final = words("query eval agg aggregate apply transform")
"""Methods of tables that take texts for expressions, or for names of other methods."""
_UNSAFE: Final = _INSIDE | _FILES | _BY_TEXT | {"format", "format_map"}
_OF_THE_MODULE: Final = words("__path__ __package__ __spec__ __loader__ __builtins__ __name__ __getattr__")
"""Names by which a module changes what Python takes it for, and what it is made of."""
_OF_OBJECTS: Final = words("__array_interface__ __array_struct__ __match_args__")
"""Names in a class by which compiled code reads memory, and patterns read attributes."""
_OF_EVERY_MODULE: Final = words(
    "__name__ __file__ __doc__ __all__ __class__ __qualname__ __module__ __debug__ __version__"
)
_SET_ON_FUNCTIONS: Final = words("__defaults__ __kwdefaults__ __code__")
_TYPE_MAY_BE: Final = (ast.Attribute, ast.Compare, ast.FormattedValue)
_STREAMS: Final = ("sys.stdout", "sys.stderr")
_COPIES: Final[Mapping[str, int]] = {"functools.wraps": 1, "functools.update_wrapper": 2, "inspect.signature": 1}
"""Functions that are harmless with so many arguments: further ones name attributes, or have texts evaluated."""
DATACLASS: Final = "dataclasses.dataclass"
"""Is harmless for a class that is defined under it: the names of its fields are part of the code that it makes."""
_TEXT: Final = ("<text>",)
"""What a name stands for that is bound to texts of the source alone."""
_COMPREHENSIONS: Final = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
_FUNCTIONS: Final = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FIELDS: Final = words("__annotations__ __annotate__")
"""Names in a class by which it says more of its fields than its statements."""
_PRIVATE: Final = re.compile(rf"[.\[](?:_(?!_(?:class|name|qualname|doc|module)__)|(?:{'|'.join(_INSIDE)})\b)")
"""An attribute in a template."""
_BUILTIN_NAMES: Final = frozenset(dir(builtins)) | {"__builtins__"}

Known = Mapping[str, tuple[str, ...] | None]
"""By name of functions around: None for a variable, else what was imported under that name."""
Meanings = Callable[[str], tuple[str, ...]]
"""What a name of the module may stand for, through all modules that hand it on."""


class Reader:
    """Notes what expressions and statements of one module use.

    `meanings` says what a name of the module may stand for, `expanded` what a dotted name may, `is_own` whether a dotted name is of the
    packages that are read, and `is_open` whether a star gives the module names that are not known.
    """

    def __init__(
        self,
        tree: ast.Module,
        module: str,
        package: str,
        meanings: Meanings,
        expanded: Meanings,
        is_own: Callable[[str], bool],
        *,
        is_open: bool,
    ) -> None:
        self._module = module
        self._package = package
        self._meanings, self._expanded, self._is_own = meanings, expanded, is_own
        self._texts = _texts(tree.body)
        """Names of the module that stand for texts of its own."""
        self._bound = _bound(tree)
        self._is_open = is_open
        self._is_lazy = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(a.name == "annotations" for a in node.names)
            for node in tree.body
        )
        """Whether annotations are not evaluated."""
        self._self = ""
        """The name of the own object, in a method that only Python calls."""

    def read_function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        uses: set[str],
        outer: Known | None = None,
        *,
        is_method: bool = False,
    ) -> None:
        """Add what a function uses; `is_method` of one that stands in a class."""
        own, elsewhere = _own_names(node, self._package)
        known = {**{name: meant for name, meant in (outer or {}).items() if name not in elsewhere}, **own}
        before = self._self
        self._self = _own_object(node) if is_method else "" if before in own else before
        for part in [node.body] if isinstance(node, ast.Lambda) else node.body:
            self.read(part, uses, known)
        self._self = before

    def read_head(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, uses: set[str], known: Known | None = None
    ) -> None:
        """Add what is evaluated where a function is defined."""
        arguments = node.args
        for part in (*getattr(node, "decorator_list", ()), *arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.read(part, uses, known)
        if not self._is_lazy:
            listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            for annotation in (*(one.annotation for one in listed if one is not None), getattr(node, "returns", None)):
                self.read_type(annotation, uses, known)

    def read_type(self, node: ast.expr | None, uses: set[str], known: Known | None = None) -> None:
        """Add what naming a class runs: of an annotation, a base class, an error that is caught. Foreign classes are only named."""
        if node is None:
            return
        found: set[str] = set()
        self.read(node, found, known)
        is_run = any(
            isinstance(part, ast.Call | ast.NamedExpr | ast.Await | _COMPREHENSIONS) for part in ast.walk(node)
        )
        uses.update(found if is_run else (use for use in found if use[0] in "!?" or self._is_own(use)))

    def read_class_head(self, node: ast.ClassDef, uses: set[str], known: Known | None = None) -> None:
        """Add what is evaluated where a class is defined."""
        for base in node.bases:
            self.read_type(base, uses, known)
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self._only(called, known or {}) != DATACLASS or decorator is not node.decorator_list[-1]:
                self.read(decorator, uses, known)
            elif any(isinstance(part, ast.Name) and part.id in _FIELDS for part in ast.walk(node)):
                uses.add("!code made of text: fields of a class by other names")
            elif isinstance(decorator, ast.Call):
                for part in (*decorator.args, *(each.value for each in decorator.keywords)):
                    self.read(part, uses, known)
        for keyword in node.keywords:
            self.read(keyword.value, uses, known)

    def read_import(self, node: ast.Import | ast.ImportFrom, uses: set[str]) -> None:
        """Add what an import in a class makes an attribute of it."""
        for meant in imports_of(node, self._package).values():
            uses.update(self._expanded(meant))

    def read(self, node: ast.AST, uses: set[str], known: Known | None = None, above: ast.AST | None = None) -> None:
        """Add what a node uses. `known` are names of functions around it."""
        known = known or {}
        if isinstance(node, _FUNCTIONS):
            self.read_head(node, uses, known)
            self.note_method(getattr(node, "name", ""), uses)
            self.read_function(node, uses, known)
            return
        if isinstance(node, ast.ClassDef):
            self.read_class_head(node, uses, known)
            for statement in node.body:
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    self.read_import(statement, uses)
                self.read(statement, uses, known, node)
            return
        if isinstance(node, _COMPREHENSIONS):
            bound = {n.id for each in node.generators for n in ast.walk(each.target) if isinstance(n, ast.Name)}
            self.read(node.generators[0].iter, uses, known, node)  # Python evaluates it outside
            known = {**known, **dict.fromkeys(bound)}
        if isinstance(node, ast.Attribute | ast.Name) and (dotted := dotted_name(node)) is not None:
            self._note(node, dotted, uses, known, above)
            return
        if isinstance(node, ast.Attribute):
            self._note_attribute(node, uses)
            self.read(node.value, uses, known, node)
            return
        if isinstance(node, ast.MatchClass):
            self._note_steps(node.kwd_attrs, uses)
        elif isinstance(node, ast.Assign) and _is_match_args(node):
            return
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            for meant in self._meant(node.value, known):
                if meant.partition(".")[0] != "builtins" and not self._is_own(meant) and "." in meant:
                    uses.add(f"!the interpreter's inside: it changes {meant}")
        elif isinstance(node, ast.Call) and self._is_harmless_call(node, uses, known, above):
            return
        for child in ast.iter_child_nodes(node):
            self.read(child, uses, known, node)

    def _is_harmless_call(self, node: ast.Call, uses: set[str], known: Known, above: ast.AST | None) -> bool:
        """Read a call whose function is harmless with these arguments; False of any other."""
        name = self._only(node.func, known)
        given = (*node.args, *(each.value for each in node.keywords))
        if name in ("builtins.getattr", "builtins.hasattr", "builtins.delattr", "builtins.setattr"):
            if len(node.args) > 1 and _has_prefix(node.args[1]) and name[9] in "gh":
                for argument in (node.args[0], *node.args[2:]):
                    self.read(argument, uses, known, node)
                return True
            if len(node.args) > 1 and _is_text(node.args[1]) and (name[9] in "gh" or _is_self(node.args[0])):
                if name == "builtins.hasattr" and dotted_name(node.args[0]):
                    return True
                named = ast.Attribute(node.args[0], node.args[1].value, ast.Load())  # type: ignore[attr-defined]
                for argument in (named, *node.args[2:]):
                    self.read(argument, uses, known, node)
                return True
            if name != "builtins.hasattr":
                uses.add("!the interpreter's inside: attributes by names that are made while it runs")
        elif name in ("operator.attrgetter", "operator.methodcaller"):
            names = node.args[: None if name.endswith("getter") else 1]
            if names and all(map(_is_safe_name, names)):
                for argument in given:
                    self.read(argument, uses, known, node)
                return True
        elif name == "builtins.type" and len(node.args) == 1 and not node.keywords:
            is_fine = isinstance(above, _TYPE_MAY_BE) or (
                isinstance(above, ast.Call) and (above.func is node or _is_asking(above))
            )
            if not is_fine:
                uses.add("!the interpreter's inside: classes of values as values")
            self.read(node.args[0], uses, known, node)
            return True
        elif name == "builtins.object.__setattr__":
            if self._is_own_object(node.args[:1]):
                for argument in given[1:]:
                    self.read(argument, uses, known, node)
                return True
        elif name is not None and name in _COPIES:
            is_fine = len(node.args) <= _COPIES[name] and not any(isinstance(each, ast.Starred) for each in node.args)
            if is_fine and {each.arg for each in node.keywords} <= {"follow_wrapped"}:
                for argument in given:
                    self.read(argument, uses, known, node)
                return True
        elif name == "builtins.print":
            for argument in (*node.args, *(each.value for each in node.keywords if not self._is_stream(each, known))):
                self.read(argument, uses, known, node)
            return True
        elif name is not None and name.startswith(tuple(f"{stream}." for stream in _STREAMS)):
            if name.rpartition(".")[2] in ("write", "flush", "isatty") and name.count(".") == 2:
                for argument in given:
                    self.read(argument, uses, known, node)
                return True
        elif name is not None and name.endswith("import_module") and (literal := literal_import(node)):
            uses.add(literal)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _BY_TEXT and _is_function(node.args[:1]):
            uses.add(f"?{node.func.attr}")
            for argument in (node.func.value, *given):
                self.read(argument, uses, known, node)
            return True
        return False

    def _is_stream(self, keyword: ast.keyword, known: Known) -> bool:
        return keyword.arg == "file" and self._only(keyword.value, known) in _STREAMS

    def _note(
        self, node: ast.Attribute | ast.Name, dotted: str, uses: set[str], known: Known, above: ast.AST | None
    ) -> None:
        first, _, rest = dotted.partition(".")
        steps = rest.split(".") if rest else []
        is_self = first in ("self", "cls", "mcs", "mcls") and known.get(first, ()) is None
        meanings = self._of(first, known)
        is_load = isinstance(node.ctx, ast.Load)
        for number, step in enumerate(steps):
            is_own = number == 0 and (is_self or any(map(self._is_own, meanings)))
            if number == 0 and first == self._self and step in _ON_SELF:
                continue
            is_text = number == 0 and (known[first] == _TEXT if first in known else first in self._texts)
            is_of_python = number == 0 and bool(meanings) and not is_own and meanings != _TEXT
            self._note_step(step, uses, is_own=is_own or is_of_python, is_text=is_text)
        if not is_load and steps and steps[-1] in _SET_ON_FUNCTIONS:
            uses.add(f"!the interpreter's inside: it changes {steps[-1]}")
        self._note_name(first, uses, is_load=is_load or bool(steps))
        is_unbound = not self._is_open and first not in known and not meanings
        if is_unbound and first not in self._bound | _OF_EVERY_MODULE:
            uses.add(f"!the interpreter's inside: the name {first}, which nothing binds")
        if is_self and steps:
            uses.add(f"self.{steps[0]}")
        for meant in meanings or (None,):
            unknown = steps[1:] if is_self or (meant is not None and not self._is_variable(meant)) else steps
            uses.update(f"?{step}" for step in unknown if not step.startswith("__"))
        if meanings == _TEXT:
            return
        for meant in meanings:
            for full in self._expanded(f"{meant}.{rest}" if rest else meant):
                if is_load:
                    uses.add(full)
                elif rest and not self._is_own(full):
                    uses.add(f"!the interpreter's inside: it changes {full}")

    def _is_variable(self, meant: str) -> bool:
        return meant.startswith(f"{self._module}.")

    def _note_name(self, name: str, uses: set[str], *, is_load: bool = False) -> None:
        """Note a name that is bound or, if `is_load`, read."""
        is_only_read = is_load and name in ("__name__", "__package__", "__getattr__")
        if (name in _OF_OBJECTS and not is_load) or (name in _OF_THE_MODULE and not is_only_read):
            uses.add(f"!the interpreter's inside: {name}")

    def note_method(self, name: str, uses: set[str]) -> None:
        """Note a method that compiled code takes for a place in memory."""
        if name in _OF_OBJECTS:
            uses.add(f"!the interpreter's inside: {name}")

    def _note_step(self, step: str, uses: set[str], *, is_own: bool = False, is_text: bool = False) -> None:
        if step in _INSIDE:
            uses.add(f"!the interpreter's inside: .{step}")
        if step in METHODS:
            uses.add(f".{step}")
        elif not is_own and step in _FILES:
            uses.add(f"!files: .{step}")
        if not is_own and step in _BY_TEXT:
            uses.add(f"!code made of text: .{step}")
        if step in ("format", "format_map") and not is_text:
            uses.add("!the interpreter's inside: templates that read attributes")

    def _note_steps(self, steps: Iterable[str], uses: set[str]) -> None:
        for step in steps:
            self._note_step(step, uses)
            uses.add(f"?{step}")

    def _note_attribute(self, node: ast.Attribute, uses: set[str]) -> None:
        value = node.value
        is_super = (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id == "super"
            and not value.args
            and not value.keywords
        )
        is_text = isinstance(value, ast.Constant) and _is_harmless_template(str(value.value))
        if not (is_super and self._self and node.attr in _ON_SELF):
            self._note_step(node.attr, uses, is_own=is_super, is_text=is_text)
        if not node.attr.startswith("__"):
            uses.add(f"?{node.attr}")
        if not isinstance(node.ctx, ast.Load) and isinstance(value, ast.Call) and not is_super:
            uses.add("!the interpreter's inside: it changes what a call returns")

    def _is_own_object(self, given: list[ast.expr]) -> bool:
        return bool(given) and isinstance(given[0], ast.Name) and given[0].id == self._self

    def _only(self, node: ast.expr, known: Known) -> str | None:
        """The one dotted name that an expression stands for, if it does."""
        found = self._meant(node, known)
        return found[0] if len(found) == 1 else None

    def _meant(self, node: ast.expr, known: Known) -> tuple[str, ...]:
        if (dotted := dotted_name(node)) is None:
            return ()
        first, _, rest = dotted.partition(".")
        return tuple(f"{meant}.{rest}" if rest else meant for meant in self._of(first, known))

    def _of(self, name: str, known: Known) -> tuple[str, ...]:
        """What a name may stand for; nothing of a variable, and of what nothing binds."""
        if name in known:
            return known[name] or ()
        return self._meanings(name) or ((f"builtins.{name}",) if name in _BUILTIN_NAMES else ())


def _own_object(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> str:
    """The first argument of a method that only Python calls, if the method does not bind it again."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    name = getattr(node, "name", "")
    if not arguments or not (name.startswith("__") and name.endswith("__")) or isinstance(node, ast.Lambda):
        return ""
    own = arguments[0].arg
    return "" if any(own in _bound_by(part) for each in node.body for part in ast.walk(each)) else own


def _own_names(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, package: str
) -> tuple[dict[str, tuple[str, ...] | None], set[str]]:
    """Names that a function binds, and those that it says are bound elsewhere: at the top, or in a function around it."""
    names: dict[str, tuple[str, ...] | None] = {}
    imported: dict[str, tuple[str, ...]] = {}
    top: set[str] = set()
    outer: set[str] = set()
    arguments = node.args
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    variables = {argument.arg for argument in listed if argument is not None}
    names.update(dict.fromkeys(variables))
    waiting: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Global):
            top.update(part.names)
        elif isinstance(part, ast.Nonlocal):
            outer.update(part.names)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            for name, meant in imports_of(part, package).items():
                imported[name] = (*imported.get(name, ()), meant)
        else:
            names.update(dict.fromkeys(_bound_by(part)))
        if not isinstance(part, _FUNCTIONS | ast.ClassDef | _COMPREHENSIONS):
            waiting.extend(ast.iter_child_nodes(part))
    texts = {} if isinstance(node, ast.Lambda) else dict.fromkeys(_texts(node.body) - variables, _TEXT)
    own = {name: meant for name, meant in {**names, **texts, **imported}.items() if name not in top | outer}
    return own, top


def _bound_by(node: ast.AST) -> Iterator[str]:
    """Names that a node itself binds, apart from imports."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield from [node.name] if node.name else []
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _bound(tree: ast.Module) -> set[str]:
    """All names that are bound anywhere in a module, by whatever statement."""
    found: set[str] = set()
    for node in ast.walk(tree):
        found.update(_bound_by(node))
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif type(node).__name__ in ("TypeVar", "ParamSpec", "TypeVarTuple"):
            found.add(str(vars(node)["name"]))
    return found


def _texts(body: Iterable[ast.stmt]) -> set[str]:
    """Names that are bound in these statements only, and to nothing but texts of the source that name no internal attribute."""
    found: set[str] = set()
    others: set[str] = set()
    for node in body:
        inner = [*ast.walk(node)]
        text = node.value.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else None
        names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
        if isinstance(text, str) and _is_harmless_template(text) and len(names) == len(vars(node)["targets"]):
            found.update(names)
            continue
        for each in inner:
            others.update(_bound_by(each))
            if isinstance(each, ast.arg):
                others.add(each.arg)
            elif isinstance(each, ast.alias):
                others.add(each.asname or each.name.partition(".")[0])
            elif isinstance(each, ast.Global | ast.Nonlocal):
                others.update(each.names)
    return found - others


def at_import(tree: ast.Module, *, into_classes: bool = False) -> Iterator[ast.AST]:
    """Nodes that are not inside of functions and, unless asked for, classes, with the definitions of those."""
    waiting: list[ast.AST] = [*reversed(tree.body)]
    while waiting:
        node = waiting.pop()
        yield node
        is_closed = isinstance(node, _FUNCTIONS | _COMPREHENSIONS)
        if not is_closed and (into_classes or not isinstance(node, ast.ClassDef)):
            waiting.extend(reversed([*ast.iter_child_nodes(node)]))


def empty_typing(tree: ast.Module) -> None:
    """Empty `if TYPE_CHECKING:`, which never runs, where that name is Python's own, or False."""
    flags = {"TYPE_CHECKING": "TYPE_CHECKING", "typing": "typing.TYPE_CHECKING"}
    false = {
        id(target)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is False
        for target in node.targets
    }
    for node in ast.walk(tree):
        bound = [] if id(node) in false else [*_bound_by(node)]
        if isinstance(node, ast.arg):
            bound.append(node.arg)
        elif isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING" and not isinstance(node.ctx, ast.Load):
            bound += flags
        elif isinstance(node, ast.Import | ast.ImportFrom):
            is_real = isinstance(node, ast.ImportFrom) and not node.level and node.module in _TYPINGS
            for alias in node.names:
                is_fine = is_real if isinstance(node, ast.ImportFrom) else alias.name == "typing"
                if alias.name == "*":
                    bound += () if is_real else flags
                elif not (is_fine and alias.asname in (None, alias.name)):
                    bound.append(alias.asname or alias.name)
        for name in bound:
            flags.pop(name, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and dotted_name(node.test) in flags.values():
            node.body = [ast.copy_location(ast.Pass(), node)]


_TYPINGS: Final = ("typing", "typing_extensions")


def literal_import(node: ast.Call) -> str | None:
    """The module that `import_module("…")` names."""
    name = (dotted_name(node.func) or "").rpartition(".")[2]
    if name == "import_module" and node.args and isinstance(node.args[0], ast.Constant):
        found = node.args[0].value
        if isinstance(found, str) and all(map(str.isidentifier, found.split("."))):
            return found
    return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not _INSIDE & {*node.value.split(".")}


def _is_safe_name(node: ast.expr) -> bool:
    return _is_text(node) and not _UNSAFE & {*node.value.split(".")}  # type: ignore[attr-defined]


def _is_match_args(node: ast.Assign) -> bool:
    """Whether it says, in so many words, which attributes a pattern reads, and none leads inside."""
    is_it = all(isinstance(target, ast.Name) and target.id == "__match_args__" for target in node.targets)
    return is_it and isinstance(node.value, ast.Tuple | ast.List) and all(map(_is_safe_name, node.value.elts))


def _is_function(given: list[ast.expr]) -> bool:
    """Whether a method gets a function, or a name that is one of these."""
    if not given:
        return False
    return isinstance(given[0], ast.Lambda) or (_is_safe_name(given[0]) and str(vars(given[0])["value"]).isidentifier())


def _has_prefix(node: ast.expr) -> bool:
    """Whether a name that is put together begins with a text, and no attribute that leads inside begins so: `visit_…`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        node = node.left
    elif isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    else:
        return False
    begins = node.value.partition("%")[0] if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return bool(begins.strip("_")) and not any(name.startswith(begins) or begins.startswith(name) for name in _UNSAFE)


def _is_harmless_template(text: str) -> bool:
    """Whether `str.format` reads no internal attribute for a text."""
    try:
        fields = [part for _, name, spec, _ in string.Formatter().parse(text) for part in (name, spec) if part]
    except ValueError:
        return True  # it raises this
    return not any(map(_PRIVATE.search, fields))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_asking(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in (
        "isinstance",
        "issubclass",
        "repr",
        "str",
        "id",
        "hash",
        "super",
    )
