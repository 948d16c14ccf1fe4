"""What a further module that a host allows (`Sandbox(modules=…)`) reaches, and which of its functions and classes code may have.

The rules are stricter than those of a survey, whose findings people look through: nobody looks through these. Of Python's own modules
only what `harmless` lists is harmless, a module may not be handed on as a value, a name that is bound twice counts as both, and names
that are put together while the code runs count as all names (`uses`). The packages that a module imports are followed as it is. Nothing
is imported or run.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import io
import keyword
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Final

from byref_sandbox.code.harmless import (
    BUILTINS,
    OWN_LIBRARIES,
    WHOLE,
    is_harmless_at_import,
    kind_of_foreign,
    known_kind,
)
from byref_sandbox.code.libraries import LIBRARIES, PARTS
from byref_sandbox.code.source import UNPARSED, parsed
from byref_sandbox.code.survey import METHODS, Scope, Survey, dotted_name, imports_of, modules_of, origin_of
from byref_sandbox.code.uses import Reader, at_import, empty_typing, literal_import
from byref_sandbox.code.words import words

_TAKEN: Final = OWN_LIBRARIES | words("IPython nest_asyncio byref byref_sandbox plt") | {*LIBRARIES, *PARTS}
_PICKLING: Final = words("__reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __getnewargs_ex__")
"""Methods that pickle asks for, which code does not have, and `copy`."""
_COPYING: Final = ("copy.copy", "copy.deepcopy", "copy.replace")
_SOURCES: Final = ("utf-8", "utf-8-sig", "iso-8859-1")
"""Encodings of sources that are read; another could make a comment a statement."""
_OF_CLASSES: Final = ("__init_subclass__", "__set_name__")
"""Methods that are called when a class is made."""
_WORST: Final = ("there is no", "reach out", "the network", "threads or processes", "files", "code made of text")
"""In which order reasons are told."""
_MAX_FILES: Final = 300
_MAX_BYTES: Final = 20 << 20
_MAX_MEANINGS: Final = 1_000
"""What one name is followed to."""
_MAX_STEPS: Final = 20
_TOP: Final = "<import>"
"""Stands for the statements that run when a module is imported, where others are named by function."""

LOOKED_AT: Final[Mapping[str, str]] = {
    "toolz._signatures:create_signature_registry": "imports the modules of a table of its own",
    "toolz._signatures:<import>": "a table of functions by their modules, which is not given out",
    "toolz.curried.operator:<import>": "makes its names of those of operator; each is looked at when it is loaded",
    "toolz.functoolz:Compose._combined_annotations": "its options name the form of annotations, and no more",
    "toolz.functoolz:excepts.__doc__": "its template is its own",
    "toolz.itertoolz:groupby": "the object of a method of its own list",
    "toolz.dicttoolz:merge_with": "the object of a method of its own list",
    "humanize.number:scientific": "its template is its own, and holds a number",
    "slugify.slugify:_transliterate": "calls the function unidecode of a module that is loaded, and no other",
    "slugify._legacy:_transliterate": "calls the function unidecode of a module that is loaded, and no other",
}
"""Functions of well-known packages that reach something themselves and are harmless as they are used: each was read. What they
call is followed as of others."""
READ: Final[Mapping[str, frozenset[str]]] = {
    "humanize.number": frozenset(
        {
            "d0b61a7d271265257a8c5894d2f97b16d8c17d2257319ed93f490bd62519910c",  # 4.12.3
            "a167beddb325c167fa201c8cd14cb353242397f63a39abd45cd7a3fe403006e5",  # 4.15.0
            "2ab61afb03ab23f183a94dc1693edec660652211bdafcf2efb4bf8752122e6fb",  # 4.17.0
        }
    ),
    "slugify._legacy": frozenset(
        {
            "3a75db994fcfdbe0404f192533bbbff830f145c50eb03790002ca97f353dbcf2",  # 9.2.0
        }
    ),
    "slugify.slugify": frozenset(
        {
            "6b3adda579f7ddf50abda67b5ab8238f525502b69b42553c63b26b1c8311c41d",  # 9.2.0
        }
    ),
    "toolz._signatures": frozenset(
        {
            "448d86b55352c98c977e7e6f7d73aac87c1789b9471752f9a4f8c01e96c25392",  # 1.0.0, 1.1.0
            "3e64c279860119baa807cade3940daa1e9bd8e121de29f626b7116f869807061",  # 1.2.0
        }
    ),
    "toolz.curried.operator": frozenset(
        {
            "9a2162b162cedd3795152fe9c27699752c386531e136b2f3faf19273efbb891a",  # 1.0.0
            "6f700bd66102db994ec0917ef184fc7074341e8fe1822da3bca614278740ee1f",  # 1.1.0, 1.2.0
        }
    ),
    "toolz.dicttoolz": frozenset(
        {
            "b04f3094634b7b385d9a446a07681073149bc1b3baf9cfb84956d8fb2163ba81",  # 1.0.0, 1.1.0, 1.2.0
        }
    ),
    "toolz.functoolz": frozenset(
        {
            "79c820560c1d9dd22a5dd1c3776f268260709080ec19433a61847a64c2fcc336",  # 1.0.0
            "46715ca6e2a9745f6bae7f5762e1be088265cc97b3575ce444455733e211fb85",  # 1.1.0
            "029b6879a9f4256e4c97a83619fa0953f3f6aaefcc738175150ac6c685e3cf66",  # 1.2.0
        }
    ),
    "toolz.itertoolz": frozenset(
        {
            "c67632e16d243e9d2020fe1b2db25176f7f164cade484b70352c54d28ac18e66",  # 1.0.0
            "648edb0b45df62329a7745d87844de649447046b846819291e6cb3fd7cc8f0da",  # 1.1.0
            "93e4d79bc7c6d68250657846454303ba95c0694c9ef165cb7a8e0bdf150711c6",  # 1.2.0
        }
    ),
}
"""SHA-256 of the modules in which those functions were read, by version. In any other text of them nothing is exempt."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found out about a module."""

    name: str
    refused: tuple[str, ...]
    """Why code may not have it; empty if it may."""
    allowed: tuple[str, ...] = ()
    """Names of its functions and classes that reach nothing, as far as the text tells."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By name of the others: what it reaches, and through what."""
    reached: Mapping[str, str] = field(default_factory=dict)
    """The same by function, class and method (`module:Class.method`), of all packages that were read."""
    places: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """All functions, classes and methods that were read, with the lines where they begin."""
    modules: tuple[str, ...] = ()
    """Modules that were read: what it imports, and what its functions import."""
    libraries: tuple[str, ...] = ()
    """Libraries of `byref[science]` that it imports."""
    folders: tuple[str, ...] = ()
    """Folders in which it and what it imports were found."""

    def report(self) -> str:
        """All of it as a text, for people."""
        lines = [f"{self.name}: {'refused' if self.refused else 'allowed'}"]
        lines += [f"  {why}" for why in self.refused]
        if self.allowed:
            lines.append(f"  names that reach nothing: {' '.join(self.allowed)}")
        lines += [f"  left out: {name} reaches {why}" for name, why in self.left_out.items()]
        return "\n".join(lines)


def check_all(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of modules, each once; raise ValueError, which says why, of one that code may not have."""
    if not isinstance(names, str) and isinstance(names, Iterable):
        names = tuple(names)
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"modules={names!r:.100}: expected a list of names, as ['humanize']")
    found = [check(str.__str__(name)) for name in dict.fromkeys(names)]
    if faults := [_fault(one) for one in found if one.refused]:
        raise ValueError("; ".join(faults))
    tops = [one.name.partition(".")[0] for one in found]
    if twice := {top for top in tops if tops.count(top) > 1}:
        raise ValueError(f"modules={[*names]!r:.200}: of {', '.join(sorted(twice))} only one part can be named")
    return tuple(one.name for one in found)


def _fault(one: Checked) -> str:
    safe = f"; these of its names reach nothing: {', '.join(one.allowed[:20])}" if one.allowed else ""
    return f"the module {one.name!r:.100} cannot be allowed: {'; '.join(one.refused[:3])}{safe}"


@cache
def check(name: str) -> Checked:
    """Return what a module reaches; what cannot be found or read is refused."""
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
        return Checked(name, (f"{name!r:.100} is no name of a module",))
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return Checked(name, ("it comes with Python, and code has of that what is harmless",))
    if top in _TAKEN:
        return Checked(name, ("code has it, or its name, already",))
    if any(part.startswith("_") for part in name.split(".")):
        return Checked(name, ("names that begin with _ are internal",))
    survey = _Strict(name)
    return survey.checked()


def _spec(name: str) -> ModuleSpec | None:
    """Find a module without importing what is above it."""
    path: Iterable[str] | None = None
    spec = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        if count > 1 and path is None:
            return None
        spec = _found(".".join(parts[:count]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _found(name: str, path: Iterable[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            if find is not None and (spec := find(name, None if path is None else list(path))) is not None:
                return spec  # type: ignore[no-any-return]
        except (ImportError, ValueError):
            continue
    return None


class _Strict(Survey):
    """Reads a module and all that it imports, and tells what that reaches by the strict rules."""

    def __init__(self, name: str) -> None:
        super().__init__([])
        self._name = name
        self._trees: dict[str, tuple[ast.Module, str]] = {}
        self._also: dict[str, dict[str, list[str]]] = {}
        """By module, what its names stood for before they were bound again."""
        self._lines: dict[str, set[int]] = {}
        self._refused: list[str] = []
        self._libraries: set[str] = set()
        self._folders: dict[str, None] = {}
        self._missing: set[str] = set()
        """Modules that are not there, by the first word of their names: nothing is reached through them."""
        self._bytes = 0
        self._as_read: set[str] = set()
        """Modules whose text is one of `READ`."""
        self._read_all(_above(name))
        self._loaded = tuple(self._trees)
        # What its functions import is there only if it is of the same package and harmless to import.
        inside = name.partition(".")[0]
        of_functions = [module for module in self._imported if module.partition(".")[0] == inside]
        refused, self._refused = self._refused, []
        self._read_all((part for module in of_functions for part in _above(module)), inside)
        self._refused = refused
        self._hand_on_all()
        try:
            self._look_inside()
        except RecursionError:
            self._refused.append("its source is nested too deeply to be read")
        self._pickling: list[str] = []
        self._methods: dict[str, list[str]] = {}
        """Places of methods by their names, and of special methods by the places of their classes."""
        for place in self._scopes:
            owner, _, method = place.rpartition(".")
            is_special = method.startswith("__") and ":" in owner
            if is_special and method in _PICKLING:
                self._pickling.append(place)
            else:
                self._methods.setdefault(owner if is_special else method, []).append(place)
            if method in _OF_CLASSES:
                self._methods.setdefault(method, []).append(place)

    # Reading -------------------------------------------------------------------------------------------------------------------

    def _read_all(self, first: Iterable[str], inside: str | None = None) -> None:
        """Read modules and what they import, of one package if it is given; what their functions import is only noted."""
        waiting = dict.fromkeys(first)
        wanted = {*waiting}
        seen = {*self._trees}
        while waiting:
            module = next(iter(waiting))
            del waiting[module]
            if module in seen:
                continue
            seen.add(module)
            if len(self._trees) > _MAX_FILES or self._bytes > _MAX_BYTES:
                self._refused.append(f"it imports more than {_MAX_FILES} modules or {_MAX_BYTES >> 20} MB of source")
                return
            for found in self._look(module, is_wanted=module in wanted):
                if inside is None or found.partition(".")[0] == inside:
                    waiting.update(dict.fromkeys(_above(found)))

    def _look(self, module: str, *, is_wanted: bool) -> set[str]:
        """Read one module, and return the names that it imports: of modules, or of what is in them."""
        top, _, rest = module.partition(".")
        library = PARTS.get(top, top)
        if library in LIBRARIES:
            self._libraries.add(library)
            return set()
        if top in sys.stdlib_module_names or top in OWN_LIBRARIES:
            return set()
        spec = _spec(module)
        if spec is None:
            if not rest:
                self._missing.add(module)
            if is_wanted:
                self._refused.append(f"there is no module {module!r:.100}")
            return set()
        origin = spec.origin
        if origin is None or not Path(origin).is_file():
            if is_wanted or origin is not None:
                self._refused.append(f"{module} has no source file")
            return set()
        if origin.endswith(tuple(EXTENSION_SUFFIXES)):
            self._refused.append(f"{module} is compiled, so nobody sees what it reaches")
            return set()
        if not origin.endswith(".py"):
            self._refused.append(f"{module} has no source file")
            return set()
        try:
            text = Path(origin).read_bytes()
            self._bytes += len(text)
            if hashlib.sha256(text).hexdigest() in READ.get(module, ()):
                self._as_read.add(module)
            encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
            if encoding not in _SOURCES:
                raise ValueError(encoding)
            tree = parsed(text.decode("utf-8-sig" if encoding == "utf-8" else encoding))
        except (*UNPARSED, OSError):
            self._refused.append(f"the source of {module} cannot be read")
            return set()
        folder = Path(origin).parent
        if top == module:
            self._folders[str(folder.parent if spec.submodule_search_locations else folder)] = None
        package = module if spec.submodule_search_locations else module.rpartition(".")[0]
        if b"TYPE_CHECKING" in text:
            empty_typing(tree)
        self._trees[module] = (tree, package)
        self._take_names(tree, module, package)
        found: set[str] = set()
        for node in at_import(tree, into_classes=True):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= modules_of(node, package)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._imported |= modules_of(node, package) - found
            elif isinstance(node, ast.Call) and (literal := literal_import(node)):
                self._imported.add(literal)
        return found

    def _hand_on_all(self) -> None:
        """Enter what modules import by a star: all names of the other module, for `__all__` may name any."""
        changed = True
        while changed:
            changed = False
            for module, origins in self._stars.items():
                for origin in origins:
                    held: Iterable[str] = self._names.get(origin, ())
                    if _is_known_star(origin):
                        held = dir(importlib.import_module(origin))
                    for name in [*held]:
                        if not name.startswith("__") and self._bind(module, name, f"{origin}.{name}", is_star=True):
                            changed = True

    def _bind(self, module: str, name: str, meant: str, *, is_star: bool = False) -> bool:
        """Have a name stand for something more; tell whether it did not before. What it stood for first counts, too."""
        names = self._names.setdefault(module, {})
        also = self._also.setdefault(module, {}).setdefault(name, [])
        if names.get(name) == meant or meant in also:
            return False
        if name not in names:
            names[name] = meant
        elif is_star:
            also.append(meant)
        else:
            also.append(names[name])
            names[name] = meant
        return True

    def _meanings(self, module: str, name: str) -> tuple[str, ...]:
        names = self._names[module]
        if name not in names and f"{module}.{name}" in self._trees:
            return (f"{module}.{name}",)  # importing a part of a package binds its name in the package
        return (names[name], *self._also.get(module, {}).get(name, ())) if name in names else ()

    def _expanded(self, dotted: str) -> tuple[str, ...]:
        """What a dotted name may lead to through modules that hand names on, and itself."""
        found: dict[str, None] = {dotted: None}
        waiting = [dotted]
        while waiting and len(found) < _MAX_MEANINGS:
            parts = waiting.pop().split(".")
            if len(parts) > _MAX_STEPS:
                continue
            for cut in range(len(parts) - 1, 0, -1):
                module, name = ".".join(parts[:cut]), parts[cut]
                if module not in self._names:
                    continue
                meanings = self._meanings(module, name)
                if not meanings and "__getattr__" in self._names[module]:
                    meanings = (f"{module}.__getattr__",)
                new = [".".join([meant, *parts[cut + 1 :]]) for meant in meanings]
                waiting += [one for one in new if one not in found]
                found.update(dict.fromkeys(new))
                break
        return tuple(found)

    def _is_own(self, dotted: str) -> bool:
        return any(dotted == own or dotted.startswith(f"{own}.") for own in self._names)

    def _take_names(self, tree: ast.Module, module: str, package: str) -> None:
        names = self._names.setdefault(module, {})
        for node in at_import(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name, meant in imports_of(node, package).items():
                    self._bind(module, name, meant)
                if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                    self._stars.setdefault(module, []).append(origin_of(node, package))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._bind(module, node.name, f"{module}.{node.name}")
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.setdefault(node.id, f"{module}.{node.id}")

    def _look_inside(self) -> None:
        """Enter what each function, class and module uses."""
        for module, (tree, package) in self._trees.items():
            top = self._scope(module, _TOP, ast.Pass(lineno=0))
            for origin in self._stars.get(module, ()):
                if origin not in self._names and not _is_known_star(origin):
                    top.uses.add(f"{origin}.*")
            for meant in self._names[module].values():
                owner, _, name = meant.rpartition(".")
                if (
                    owner in self._trees
                    and owner != module
                    and name not in self._names[owner]
                    and meant not in self._trees
                ):
                    top.uses.add(f"{owner}.__getattr__")
            is_open = any(
                origin not in self._names and not _is_known_star(origin) for origin in self._stars.get(module, ())
            )
            meanings = functools.partial(self._meanings, module)
            reader = Reader(tree, module, package, meanings, self._expanded, self._is_own, is_open=is_open)
            self._enter(tree.body, module, "", top, reader)

    def _scope(self, module: str, name: str, node: ast.stmt, *, is_class: bool = False) -> Scope:
        """The scope of a function or class; of two of one name, of which either may be meant, one for both."""
        place = f"{module}:{name}"
        lines = self._lines.setdefault(place, set())
        lines.update(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
        found = self._scopes.setdefault(place, Scope(module, name, node.lineno))
        found.is_class = found.is_class or is_class
        return found

    def _enter(self, body: list[ast.stmt], module: str, prefix: str, top: Scope, reader: Reader) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                scope = self._scope(module, prefix + node.name, node)
                if prefix:
                    reader.note_method(node.name, top.uses)
                reader.read_function(node, scope.uses, is_method=bool(prefix))
                reader.read_head(node, top.uses)
                reader.read_head(node, scope.uses)
            elif isinstance(node, ast.ClassDef):
                scope = self._scope(module, prefix + node.name, node, is_class=True)
                scope.bases += [found for base in node.bases if (found := self._meant(dotted_name(base), module))]
                for part in (*node.bases, *(each.value for each in node.keywords)):
                    reader.read(part, scope.uses)
                reader.read_class_head(node, top.uses)
                top.uses.update(f"?{method}" for method in _OF_CLASSES)
                self._enter(node.body, module, f"{prefix}{node.name}.", top, reader)
                for statement in node.body:  # an attribute of the class is handed on with it
                    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                        reader.read(statement, scope.uses)
            elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
                inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
                inner += [statement for handler in getattr(node, "handlers", []) for statement in handler.body]
                for value in (getattr(node, name, None) for name in ("test", "iter", "target")):
                    if value is not None:
                        reader.read(value, top.uses)
                for item in getattr(node, "items", []):
                    reader.read(item, top.uses)
                for handler in getattr(node, "handlers", []):
                    reader.read_type(handler.type, top.uses)
                self._enter(inner, module, prefix, top, reader)
            elif (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Lambda)
                and isinstance(node.targets[0], ast.Name)
            ):
                scope = self._scope(module, prefix + node.targets[0].id, node)
                self._lines[scope.place].add(node.value.lineno)
                reader.read(node.value, scope.uses)
                reader.read_head(node.value, top.uses)
                for target in node.targets:
                    reader.read(target, top.uses)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                if prefix:
                    reader.read_import(node, top.uses)
            else:
                reader.read(node, top.uses)

    # What is reached -----------------------------------------------------------------------------------------------------------

    def _reason(self, use: str, scope: Scope) -> str | None:
        if scope.place in LOOKED_AT and scope.module in self._as_read:
            return None
        if use.startswith("!"):
            return use[1:]
        kind = self._kind(use, scope)
        return None if kind is None else f"{kind}: {use}"

    def _kind(self, use: str, scope: Scope) -> str | None:
        if use.startswith("."):
            return "files" if use[1:] in METHODS else None
        if use.startswith(("self.", "?")) or self._place_of(use) is not None or use.partition(".")[0] in self._missing:
            return None
        if use in self._names:
            return "the interpreter's inside"  # a module as a value: all that it imports would be in reach
        if use.startswith("builtins."):
            return None if use.split(".")[1] in BUILTINS else known_kind(use) or "the interpreter's inside"
        if self._is_own(use):
            return None  # a value of the package's own, or something of it: what it stands for is used as well
        if scope.name == _TOP and is_harmless_at_import(use):
            return None
        return kind_of_foreign(use)

    def _steps(self, scope: Scope) -> Iterator[str]:
        yield from super()._steps(scope)
        if scope.is_class:
            yield from self._methods.get(scope.place, ())
        if not scope.uses.isdisjoint(_COPYING):
            yield from self._pickling
        # Whose method it is, nobody knows: it may be any of that name.
        for use in scope.uses:
            if use.startswith("?"):
                yield from (place for place in self._methods.get(use[1:], ()) if place != scope.place)

    def checked(self) -> Checked:
        """Return what was found."""
        reached = self._follow()
        refused = [*self._refused]
        for module in self._loaded:
            if why := reached.get(f"{module}:{_TOP}"):
                refused.append(
                    f"importing it reaches {why} in {module}" if module not in why else f"importing it reaches {why}"
                )
        allowed, left_out = [], {}
        for name in self._public():
            place = self._place_of(f"{self._name}.{name}")
            if place is None:
                continue
            if place in reached:
                left_out[name] = reached[place]
            else:
                allowed.append(name)
        has_parts = any(module.startswith(f"{self._name}.") for module in self._loaded)
        if not (refused or allowed or left_out or has_parts):
            refused.append(f"it has no function and no class: name a part of it, as '{self._name}.part'")
        if left_out and len(left_out) >= len(allowed):
            first = "; ".join(f"{name} reaches {why}" for name, why in [*left_out.items()][:3])
            refused.insert(
                0, f"{len(left_out)} of its {len(left_out) + len(allowed)} functions and classes reach out: {first}"
            )
        refused.sort(key=lambda why: next((n for n, kind in enumerate(_WORST) if kind in why), len(_WORST)))
        return Checked(
            self._name,
            tuple(dict.fromkeys(refused)),
            tuple(allowed),
            left_out,
            reached,
            {place: frozenset(lines) for place, lines in self._lines.items()},
            tuple(module for module in self._trees if module in self._loaded or f"{module}:{_TOP}" not in reached),
            tuple(name for name in LIBRARIES if name in self._libraries),
            tuple(self._folders),
        )

    def _public(self) -> list[str]:
        names = self._names.get(self._name, {})
        return sorted(name for name in names if not name.startswith("_") and name != "*")


def _above(name: str) -> list[str]:
    """A module and the packages that it is in."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _is_known_star(origin: str) -> bool:
    """Whether the names that a module of Python's own gives by a star are known."""
    return origin in WHOLE and origin.partition(".")[0] in sys.stdlib_module_names
