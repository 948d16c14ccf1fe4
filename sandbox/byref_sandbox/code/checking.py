"""What a further module that a host allows (`Sandbox(modules=…)`) reaches, and which of its functions and classes code may have.

The rules are stricter than those of a survey, whose findings people look through: nobody looks through these. Of Python's own modules
only what stands in the tables below is harmless, a module may not be handed on as a value, and names that are put together while the
code runs count as all names. The packages that a module imports are followed as it is. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Final

from byref_sandbox.code.libraries import LIBRARIES, PARTS
from byref_sandbox.code.source import UNPARSED, parsed
from byref_sandbox.code.survey import METHODS, REACHES, Scope, Survey, dotted_name, imports_of, modules_of, origin_of
from byref_sandbox.code.words import words

_OWN_LIBRARIES: Final = words(
    "numpy pandas pyarrow dateutil pytz tabulate matplotlib mpl_toolkits pylab cycler typing_extensions six"
)
"""Packages that the language has walls for, or that are as Python's own: they are not followed."""
_TAKEN: Final = _OWN_LIBRARIES | words("IPython nest_asyncio byref byref_sandbox plt") | {*LIBRARIES, *PARTS}

_WHOLE: Final = words("""__future__ math cmath itertools collections collections.abc heapq bisect statistics numbers fractions decimal datetime
    calendar time zoneinfo re textwrap unicodedata difflib html html.entities html.parser json csv base64 binascii hashlib hmac secrets
    random struct zlib ipaddress abc contextlib enum dataclasses ast queue pprint reprlib keyword shlex fnmatch graphlib array urllib.parse
    email.utils errno stat token colorsys sched timeit copy functools operator typing typing_extensions string codecs uuid warnings numpy
    pandas numpy.typing dateutil.parser dateutil.relativedelta dateutil.rrule dateutil.easter pytz tabulate six json.decoder json.encoder""")
"""Modules of which every public name that is no module is harmless, apart from those in `_EXCEPT`."""
_EXCEPT: Final = words("""operator.attrgetter operator.methodcaller functools.singledispatch functools.singledispatchmethod typing.get_type_hints
    typing.ForwardRef typing_extensions.get_type_hints typing_extensions.evaluate_forward_ref typing_extensions.get_annotations
    typing_extensions.ForwardRef string.Formatter codecs.open codecs.register uuid.uuid1 uuid.getnode dataclasses.make_dataclass
    shlex.shlex hashlib.file_digest pytz.open_resource pytz.resource_exists six.moves six.exec_ six.get_unbound_function
    six.get_function_globals six.get_function_code six.get_function_closure six.get_method_function""")
_PARTS: Final[Mapping[str, str]] = {
    "types": """SimpleNamespace MappingProxyType GeneratorType CoroutineType AsyncGeneratorType NoneType EllipsisType NotImplementedType
        UnionType MethodType BuiltinFunctionType GenericAlias BuiltinMethodType DynamicClassAttribute""",
    "sys": """maxsize version version_info hexversion platform byteorder float_info int_info implementation maxunicode getsizeof intern
        getrecursionlimit stdout stderr getdefaultencoding float_repr_style""",
    "os": "environ getenv linesep sep name PathLike fspath pathsep extsep altsep curdir pardir urandom fsdecode fsencode",
    "os.path": """basename dirname join split splitext splitdrive normpath sep commonprefix commonpath isabs pardir curdir extsep altsep
        pathsep""",
    "io": "StringIO BytesIO TextIOBase RawIOBase BufferedIOBase IOBase UnsupportedOperation SEEK_SET SEEK_CUR SEEK_END",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "threading": "local Lock RLock get_ident",
    "weakref": "ref WeakKeyDictionary WeakValueDictionary WeakSet proxy WeakMethod ReferenceType",
    "inspect": """signature Signature Parameter isclass isfunction ismethod isgenerator isgeneratorfunction iscoroutinefunction
        isasyncgenfunction isawaitable iscoroutine isbuiltin isroutine ismodule isabstract cleandoc getdoc""",
    "logging": "getLogger NullHandler DEBUG INFO WARNING ERROR CRITICAL NOTSET Logger",
    "gettext": "NullTranslations",
    "locale": "localeconv getlocale format_string atof atoi delocalize str",
    "http": "HTTPStatus HTTPMethod",
    "platform": "python_version python_version_tuple python_implementation system machine",
    "traceback": "format_exc format_exception format_exception_only",
    "annotationlib": "Format annotations_to_string type_repr",
    "importlib.metadata": "version PackageNotFoundError",
    "xml.etree.ElementTree": "Element SubElement Comment QName fromstring XML tostring iselement indent ParseError",
    "gzip": "compress decompress",
    "bz2": "compress decompress",
    "lzma": "compress decompress LZMAError",
    "dateutil.tz": "UTC tzutc tzoffset",
}
"""Of other modules, the harmless names."""
_AT_IMPORT: Final = words(
    "functools.singledispatch functools.singledispatchmethod dataclasses.make_dataclass pkgutil.get_data warnings"
)
"""What is harmless in statements that run when the module is imported, and not in functions, where code says what it is called with."""
_BUILTINS: Final = frozenset(dir(builtins)) - words("""open eval exec compile __import__ __build_class__ __loader__ __spec__ input
    breakpoint globals locals vars help exit quit memoryview getattr setattr delattr""")
_INSIDE: Final = words("""__globals__ __builtins__ __code__ __closure__ __subclasses__ __bases__ __base__ __mro__ mro __getattribute__
    __reduce__ __reduce_ex__ __loader__ __spec__ __import__ __self__ __func__ __dict__ __setattr__ __delattr__ __traceback__ f_globals
    f_locals f_builtins f_back f_code gi_frame gi_code cr_frame cr_code ag_frame ag_code tb_frame tb_next tb_lasti co_code modules
    exec_module load_module import_module func_globals with_traceback""")
"""Attributes that lead inside the interpreter, of whatever object."""
_ON_SELF: Final = words(
    "__dict__ __setattr__ __delattr__ __reduce__ __reduce_ex__ __getattribute__ __mro__ __self__ __func__"
)
"""Of these attributes, those that are harmless where the object is `self`, `cls` or `super()`."""
_PICKLING: Final = words("__reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __getnewargs_ex__")
"""Methods that pickle asks for, which code does not have."""
_OF_CLASSES: Final = ("__init_subclass__", "__set_name__")
"""Methods that are called when a class is made."""
_TYPE_MAY_BE: Final = (ast.Attribute, ast.Compare, ast.FormattedValue)
_KINDS: Final = {name: kind for kind, names in REACHES.items() for name in names.split()}
_WORST: Final = ("there is no", "reach out", "the network", "threads or processes", "files", "code made of text")
"""In which order reasons are told."""
_MAX_FILES: Final = 300
_MAX_BYTES: Final = 20 << 20
_TOP: Final = "<import>"
"""Stands for the statements that run when a module is imported, where others are named by function."""

LOOKED_AT: Final[Mapping[str, str]] = {
    "toolz._signatures:create_signature_registry": "imports the modules of a table of its own",
    "toolz._signatures:<import>": "a table of functions by their modules, which is not given out",
    "toolz.curried.operator:<import>": "makes its names of those of operator; each is looked at when it is loaded",
    "toolz.functoolz:excepts.__doc__": "its template is its own",
    "toolz.itertoolz:groupby": "the object of a method of its own list",
    "toolz.dicttoolz:merge_with": "the object of a method of its own list",
    "humanize.number:scientific": "its template is its own, and holds a number",
    "slugify.slugify:_transliterate": "calls the function unidecode of a module that is loaded, and no other",
    "slugify._legacy:_transliterate": "calls the function unidecode of a module that is loaded, and no other",
    "typeguard._decorators:instrument": "compiles a function's own source, when it is imported",
}
"""Functions of well-known packages that reach something and are harmless as they are used: each was read."""


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
    places: frozenset[str] = frozenset()
    """All functions, classes and methods that were read."""
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
        super().__init__([], LOOKED_AT)
        self._name = name
        self._trees: dict[str, tuple[ast.Module, str]] = {}
        self._refused: list[str] = []
        self._libraries: set[str] = set()
        self._folders: dict[str, None] = {}
        self._missing: set[str] = set()
        """Modules that are not there, by the first word of their names: nothing is reached through them."""
        self._bytes = 0
        self._read_all(_above(name))
        self._loaded = tuple(self._trees)
        # What its functions import is there only if it is of the same package and harmless to import.
        inside = name.partition(".")[0]
        of_functions = [module for module in self._imported if module.partition(".")[0] == inside]
        refused, self._refused = self._refused, []
        self._read_all((part for module in of_functions for part in _above(module)), inside)
        self._refused = refused
        self._hand_on_all()
        self._look_inside()
        self._methods: dict[str, list[str]] = {}
        """Places of methods by their names, and of special methods by the places of their classes."""
        for place in self._scopes:
            owner, _, method = place.rpartition(".")
            is_special = method.startswith("__") and ":" in owner
            if not is_special or method not in _PICKLING:
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
        if top in sys.stdlib_module_names or top in _OWN_LIBRARIES:
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
            tree = parsed(text.decode("utf-8-sig"))
        except (*UNPARSED, OSError):
            self._refused.append(f"the source of {module} cannot be read")
            return set()
        folder = Path(origin).parent
        if top == module:
            self._folders[str(folder.parent if spec.submodule_search_locations else folder)] = None
        package = module if spec.submodule_search_locations else module.rpartition(".")[0]
        if b"TYPE_CHECKING" in text:
            _without_typing(tree)
        self._trees[module] = (tree, package)
        self._take_names(tree, module, package)
        found: set[str] = set()
        for node in _at_import(tree, into_classes=True):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= modules_of(node, package)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._imported |= modules_of(node, package) - found
            elif isinstance(node, ast.Call) and (literal := _literal_import(node)):
                self._imported.add(literal)
        return found

    def _hand_on_all(self) -> None:
        super()._hand_on_all()
        for module, origins in self._stars.items():
            for origin in origins:
                held: Iterable[str] = self._names.get(origin, ())
                if origin in _WHOLE and origin.partition(".")[0] in sys.stdlib_module_names:
                    held = dir(importlib.import_module(origin))
                for name in held:
                    self._names[module].setdefault(name, f"{origin}.{name}")

    def _take_names(self, tree: ast.Module, module: str, package: str) -> None:
        names = self._names.setdefault(module, {})
        for node in _at_import(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names.update(imports_of(node, package))
                if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                    self._stars.setdefault(module, []).append(origin_of(node, package))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names[node.name] = f"{module}.{node.name}"
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.setdefault(node.id, f"{module}.{node.id}")

    def _look_inside(self) -> None:
        """Enter what each function, class and module uses."""
        for module, (tree, package) in self._trees.items():
            top = self._scopes[f"{module}:{_TOP}"] = Scope(module, _TOP, 0)
            for origin in self._stars.get(module, ()):
                if origin not in self._names and origin not in _WHOLE:
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
            self._enter(tree.body, module, "", top, _Reader(self, module, package))

    def _enter(self, body: list[ast.stmt], module: str, prefix: str, top: Scope, reader: _Reader) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                scope = self._scopes[f"{module}:{prefix}{node.name}"] = Scope(module, prefix + node.name, node.lineno)
                reader.read_function(node, scope.uses)
                for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
                    reader.read(part, top.uses)
                    reader.read(part, scope.uses)
            elif isinstance(node, ast.ClassDef):
                scope = self._scopes[f"{module}:{prefix}{node.name}"] = Scope(
                    module, prefix + node.name, node.lineno, is_class=True
                )
                scope.bases = [found for base in node.bases if (found := self._meant(dotted_name(base), module))]
                for part in (*node.bases, *(each.value for each in node.keywords)):
                    reader.read(part, scope.uses)
                for part in (*node.decorator_list, *(each.value for each in node.keywords)):
                    reader.read(part, top.uses)
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
                self._enter(inner, module, prefix, top, reader)
            elif (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Lambda)
                and isinstance(node.targets[0], ast.Name)
            ):
                name = prefix + node.targets[0].id
                scope = self._scopes[f"{module}:{name}"] = Scope(module, name, node.lineno)
                reader.read(node.value, scope.uses)
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                reader.read(node, top.uses)

    # What is reached -----------------------------------------------------------------------------------------------------------

    def _reason(self, use: str, scope: Scope) -> str | None:
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
            return None if use.split(".")[1] in _BUILTINS else _known_kind(use) or "the interpreter's inside"
        if any(use == own or use.startswith(f"{own}.") for own in self._names):
            return None  # a value of the package's own, or something of it
        if scope.name == _TOP and any(use == fine or use.startswith(f"{fine}.") for fine in _AT_IMPORT):
            return None
        return _kind_of_foreign(use)

    def _steps(self, scope: Scope) -> Iterator[str]:
        yield from super()._steps(scope)
        if scope.is_class:
            yield from self._methods.get(scope.place, ())
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
            frozenset(self._scopes),
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


class _Reader:
    """Notes what expressions and statements of one module use, by Python's rules of scopes."""

    def __init__(self, survey: _Strict, module: str, package: str) -> None:
        self._survey = survey
        self._module = module
        self._package = package
        self._texts = _texts(survey._trees[module][0].body)
        """Names of the module that stand for texts of its own."""

    def read_function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        uses: set[str],
        outer: Mapping[str, str | None] | None = None,
    ) -> None:
        known = {**(outer or {}), **_own_names(node, self._package)}
        for part in [node.body] if isinstance(node, ast.Lambda) else node.body:
            self.read(part, uses, known)

    def read(
        self, node: ast.AST, uses: set[str], known: Mapping[str, str | None] | None = None, above: ast.AST | None = None
    ) -> None:
        """Add what a node uses. `known` are names of functions around it: None for a variable, else what was imported."""
        known = known or {}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for part in (
                *getattr(node, "decorator_list", ()),
                *node.args.defaults,
                *filter(None, node.args.kw_defaults),
            ):
                self.read(part, uses, known)
            self.read_function(node, uses, known)
            return
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
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
        if isinstance(node, ast.Call) and self._is_harmless_call(node, uses, known, above):
            return
        for child in ast.iter_child_nodes(node):
            self.read(child, uses, known, node)

    def _is_harmless_call(
        self, node: ast.Call, uses: set[str], known: Mapping[str, str | None], above: ast.AST | None
    ) -> bool:
        """Read a call whose function is harmless with these arguments; False of any other."""
        name = self._meaning(node.func.id, known) if isinstance(node.func, ast.Name) else None
        if isinstance(node.func, ast.Attribute) and (dotted := dotted_name(node.func)):
            first, _, rest = dotted.partition(".")
            meant = self._meaning(first, known)
            name = f"{meant}.{rest}" if meant else None
        if name in ("builtins.getattr", "builtins.hasattr", "builtins.delattr", "builtins.setattr"):
            if len(node.args) > 1 and _has_prefix(node.args[1]) and name[9] in "gh":
                for argument in (node.args[0], *node.args[2:]):
                    self.read(argument, uses, known, node)
                return True
            if len(node.args) > 1 and _is_plain_name(node.args[1]) and (name[9] in "gh" or _is_self(node.args[0])):
                if name == "builtins.hasattr" and dotted_name(node.args[0]):
                    return True
                named = ast.Attribute(node.args[0], node.args[1].value, ast.Load())  # type: ignore[attr-defined]
                for argument in (named, *node.args[2:]):
                    self.read(argument, uses, known, node)
                return True
            if name != "builtins.hasattr":
                uses.add("!the interpreter's inside: attributes by names that are made while it runs")
        elif name in ("operator.attrgetter", "operator.methodcaller"):
            return bool(node.args) and all(map(_is_plain_name, node.args[: None if name.endswith("getter") else 1]))
        elif name == "builtins.type" and len(node.args) == 1 and not node.keywords:
            is_fine = isinstance(above, _TYPE_MAY_BE) or (
                isinstance(above, ast.Call) and (above.func is node or _is_asking(above))
            )
            if not is_fine:
                uses.add("!the interpreter's inside: classes of values as values")
            self.read(node.args[0], uses, known, node)
            return True
        elif name == "builtins.object.__setattr__":
            return bool(node.args) and _is_self(node.args[0])
        elif name is not None and name.endswith("import_module") and (literal := _literal_import(node)):
            uses.add(literal)
            return False
        return False

    def _note(
        self,
        node: ast.Attribute | ast.Name,
        dotted: str,
        uses: set[str],
        known: Mapping[str, str | None],
        above: ast.AST | None,
    ) -> None:
        first, _, rest = dotted.partition(".")
        steps = rest.split(".") if rest else []
        is_self = first in ("self", "cls", "mcs", "mcls") and known.get(first, "") is None
        for number, step in enumerate(steps):
            if step in _INSIDE and not (is_self and number == 0 and step in _ON_SELF):
                uses.add(f"!the interpreter's inside: .{step}")
            if step in METHODS:
                uses.add(f".{step}")
            is_text = number == 0 and (known[first] == _TEXT if first in known else first in self._texts)
            if step in ("format", "format_map") and not is_text:
                uses.add("!the interpreter's inside: templates that read attributes")
        meant = self._meaning(first, known)
        if is_self and steps:
            uses.add(f"self.{steps[0]}")
        unknown = (
            steps[1:] if is_self else steps if meant is None or meant.startswith(f"{self._module}.") else steps[1:]
        )
        uses.update(f"?{step}" for step in unknown if not step.startswith("__"))
        if meant is None or meant == _TEXT:
            return
        full = f"{meant}.{rest}" if rest else meant
        if isinstance(node.ctx, ast.Load):
            uses.add(full)
        elif rest and full.partition(".")[0] not in self._survey._names:
            uses.add(f"!the interpreter's inside: it changes {full}")

    def _note_attribute(self, node: ast.Attribute, uses: set[str]) -> None:
        is_super = (
            isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
        )
        if node.attr in _INSIDE and not (is_super and node.attr in _ON_SELF):
            uses.add(f"!the interpreter's inside: .{node.attr}")
        if node.attr in METHODS:
            uses.add(f".{node.attr}")
        if not node.attr.startswith("__"):
            uses.add(f"?{node.attr}")
        is_text = isinstance(node.value, ast.Constant) and not _PRIVATE.search(str(node.value.value))
        if node.attr in ("format", "format_map") and not is_text:
            uses.add("!the interpreter's inside: templates that read attributes")
        if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Call) and not is_super:
            uses.add("!the interpreter's inside: it changes what a call returns")

    def _meaning(self, name: str, known: Mapping[str, str | None]) -> str | None:
        if name in known:
            return known[name]
        names = self._survey._names[self._module]
        if name in names:
            return names[name]
        if name in _BUILTIN_NAMES:
            return f"builtins.{name}"
        return None


_PRIVATE: Final = re.compile(r"[.\[]_(?!_(?:class|name|qualname|doc|module)__)")
"""An attribute in a template."""
_BUILTIN_NAMES: Final = frozenset(dir(builtins)) | {"__builtins__"}


def _own_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, package: str) -> dict[str, str | None]:
    """Names that a function binds: None for variables, for imports what they stand for."""
    names: dict[str, str | None] = {}
    imported: dict[str, str] = {}
    elsewhere: set[str] = set()
    arguments = node.args
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    variables = {argument.arg for argument in listed if argument is not None}
    names.update(dict.fromkeys(variables))
    waiting: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Global | ast.Nonlocal):
            elsewhere.update(part.names)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            imported.update(imports_of(part, package))
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[part.name] = None
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names[part.id] = None
        elif isinstance(part, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and part.name:
            names[part.name] = None
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | _COMPREHENSIONS):
            waiting.extend(ast.iter_child_nodes(part))
    texts = {} if isinstance(node, ast.Lambda) else dict.fromkeys(_texts(node.body) - variables, _TEXT)
    return {name: meant for name, meant in {**names, **texts, **imported}.items() if name not in elsewhere}


def _texts(body: Iterable[ast.stmt]) -> set[str]:
    """Names that are bound in these statements only, and to nothing but texts that stand in the source."""
    found: set[str] = set()
    others: list[str] = []
    for node in body:
        inner = [*ast.walk(node)]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
            inner = []
        others += [each.id for each in inner if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)]
        others += [argument.arg for argument in inner if isinstance(argument, ast.arg)]
    return found.difference(others)


_TEXT: Final = "<text>"
"""What a name stands for that is bound to texts of the source alone."""


_COMPREHENSIONS: Final = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def _at_import(tree: ast.Module, *, into_classes: bool = False) -> Iterator[ast.AST]:
    """Nodes that are not inside of functions and, unless asked for, classes, with the definitions of those."""
    waiting: list[ast.AST] = [*reversed(tree.body)]
    while waiting:
        node = waiting.pop()
        yield node
        is_closed = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | _COMPREHENSIONS)
        if not is_closed and (into_classes or not isinstance(node, ast.ClassDef)):
            waiting.extend(reversed([*ast.iter_child_nodes(node)]))


def _without_typing(tree: ast.Module) -> None:
    """Empty `if TYPE_CHECKING:`, which never runs, where the name has its usual value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "TYPE_CHECKING" and not isinstance(node.ctx, ast.Load):
            is_false = any(
                isinstance(each, ast.Assign) and node in each.targets and getattr(each.value, "value", None) is False
                for each in tree.body
            )
            if not is_false:
                return
        if isinstance(node, ast.alias) and "TYPE_CHECKING" in (node.name, node.asname) and node.asname is not None:
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and (dotted_name(node.test) or "") in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            node.body = [ast.copy_location(ast.Pass(), node)]


def _literal_import(node: ast.Call) -> str | None:
    """The module that `import_module("…")` names."""
    name = (dotted_name(node.func) or "").rpartition(".")[2]
    if name == "import_module" and node.args and isinstance(node.args[0], ast.Constant):
        found = node.args[0].value
        if isinstance(found, str) and all(map(str.isidentifier, found.split("."))):
            return found
    return None


def _is_plain_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not _INSIDE & {*node.value.split(".")}


def _has_prefix(node: ast.expr) -> bool:
    """Whether a name that is put together begins with a text, and no attribute that leads inside begins so: `visit_…`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        node = node.left
    elif isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    else:
        return False
    begins = node.value.partition("%")[0] if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return bool(begins.strip("_")) and not any(name.startswith(begins) for name in _INSIDE)


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


def _known_kind(use: str) -> str | None:
    parts = use.split(".")
    return next((kind for cut in range(len(parts), 0, -1) if (kind := _KINDS.get(".".join(parts[:cut])))), None)


def _kind_of_foreign(use: str) -> str | None:
    """What a dotted name reaches that is not of the packages that were read; None where it is harmless."""
    parts = use.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module, name = ".".join(parts[:cut]), parts[cut]
        # Of what a harmless class or function has, methods are judged by their names alone.
        if name in _PARTS.get(module, "").split():
            return None
        if module in _WHOLE:
            is_fine = f"{module}.{name}" not in _EXCEPT and not name.startswith("_") and _known_kind(use) is None
            return None if is_fine and not _is_module(module, name) else _known_kind(use) or "the interpreter's inside"
    return _known_kind(use) or (
        "a module as a value" if use in sys.stdlib_module_names else "what is not known to be harmless"
    )


@cache
def _is_module(module: str, name: str) -> bool:
    """Whether an attribute of a module of Python's own is a module: `json.codecs`."""
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return name in _OF_LIBRARIES or (name in sys.stdlib_module_names and (top, name) != ("numpy", "random"))
    held = getattr(importlib.import_module(module), name, None)
    return isinstance(held, type(sys)) and f"{module}.{name}" not in _WHOLE


_OF_LIBRARIES: Final = words("lib core compat io os sys ctypeslib f2py testing util tests plotting errors api arrays")
"""Parts of numpy and pandas that hold more than numbers."""
