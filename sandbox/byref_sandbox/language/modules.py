"""The modules that code may import: facades that hold allow-listed names, never a real module."""

from __future__ import annotations

import _csv
import abc
import collections
import collections.abc
import contextlib
import csv
import dataclasses
import enum
import functools
import importlib
import io
import logging
import operator
import re
import sys
import traceback
import types
import typing
import warnings
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from byref_sandbox.language import clock, copying, executors, getters, logs, names, typed, waiting
from byref_sandbox.language.allowed import BASES, HINTS, TAKEN, WHOLE
from byref_sandbox.language.databases import sqlite_names
from byref_sandbox.language.dispatching import SingleDispatch, SingleDispatchMethod
from byref_sandbox.language.facades import Facade, stand_in
from byref_sandbox.language.files import Files
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.inspecting import annotations_of, is_own_frame, own_namespace, plain_hint
from byref_sandbox.language.packed import packed_names, text_of_bytes
from byref_sandbox.language.paths import path_class
from byref_sandbox.language.patterns import regex_names
from byref_sandbox.language.readers import reader_names
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.language.signatures import Prepare, inspect_names, timeit_names
from byref_sandbox.language.system import system_names
from byref_sandbox.language.yamls import yaml_names

_real_csv_reader = _csv.reader
MAX_RECURSION = 50_000
"""Deeper recursion could overflow the C stack, which ends the process without an error message."""
GENERATED_MODULE = "byref_sandbox.code"
"""The module of generated methods. It is empty, so their globals give nothing away."""


def public(module: types.ModuleType, listed: Iterable[str] | None = None) -> dict[str, Any]:
    """Return what a module has under its public names, or the listed ones, without modules."""
    found = listed if listed is not None else (n for n in dir(module) if not n.startswith("_"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a deprecated name warns when it is read
        members = {n: getattr(module, n) for n in found if hasattr(module, n)}
    return {n: member for n, member in members.items() if type(member) is not types.ModuleType}


class Modules:
    """Facades of the standard library by import name; numpy and pandas are added to them."""

    def __init__(self, guards: Guards, files: Files, prepare: Prepare) -> None:
        self.facades: dict[str, Facade] = {}
        self._guards = guards
        self._files = files
        self._prepare = prepare
        sys.modules.setdefault(GENERATED_MODULE, types.ModuleType(GENERATED_MODULE))
        vars(csv)["reader"] = _csv_reader  # DictReader and Sniffer find it there
        own = self._functions() | self._classes() | self._of_files()
        for name in WHOLE:
            module = importlib.import_module(name)
            self.add(name, public(module, getattr(module, "__all__", None)), module)
        for name, listed in TAKEN.items():
            module = importlib.import_module(name)
            self.add(name, public(module, listed.split()) | own.pop(name, {}), module, HINTS.get(name))
        for name, attributes in own.items():
            self.add(name, attributes, importlib.import_module(name), HINTS.get(name))
        self.add("__future__", {})
        self.add("asyncio", waiting.names(), hints=HINTS["asyncio"])
        # Notebooks ask it to let loops run inside of loops, which they may here.
        self.add("regex", regex_names(vars(self.facades["re"])))
        with contextlib.suppress(ImportError):
            self.add("yaml", yaml_names(), importlib.import_module("yaml"))
        self.add("nest_asyncio", {"apply": lambda loop=None: None})
        self.add("concurrent.futures", executors.names())
        logger = self._guards.replace(logs.Logger, "use logging.getLogger(name)")
        found = logs.logging_names(self._files, self._guards.is_stream) | {"Logger": logger}
        self.add("logging", found, logging)
        guards.writable_attributes[logs.Logger] = frozenset({"propagate", "disabled"})
        guards.bases.update(found[name] for name in logs.BASES)
        self.add("IPython.display", {"display": _display}, hints=_SHOWN_BY)
        self.add("traceback", logs.traceback_names(self._guards.is_stream), traceback)
        nested = [name for name in self.facades if "." in name]
        for name in nested:
            package, _, part = name.rpartition(".")
            if package not in self.facades:
                self.add(package, {})
                if "." in package:
                    nested.append(package)
            self.facades[package].__dict__[part] = self.facades[name]
        for name, listed in BASES.items():
            guards.bases.update(public(importlib.import_module(name), listed.split()).values())

    def add(
        self,
        name: str,
        attributes: Mapping[str, object],
        real: types.ModuleType | None = None,
        hints: Mapping[str, str] | None = None,
    ) -> Facade:
        """Make and return a facade. Public names of `real` that it lacks are refused by name."""
        hidden = [n for n in dir(real) if not n.startswith("_")] if real is not None else []
        facade = self.facades[name] = Facade(name, attributes, hidden, hints)
        return facade

    def load(self, module: str, attribute: str | None, leaf: bool) -> object:
        """Return what an import statement binds; raise ImportError of a name that is not there."""
        top = module.partition(".")[0]
        facade = self.facades.get(module)
        if facade is None:
            missing = module if top in self.facades else top
            raise ModuleNotFoundError(f"No module named {missing!r} in the sandbox", name=missing)
        if attribute is None:
            return facade if leaf else self.facades[top]
        if attribute in facade.__dict__ and not names.is_dunder(attribute):
            return facade.__dict__[attribute]  # also where a module of that name is in the package, as in Python
        submodule = self.facades.get(f"{module}.{attribute}")
        if submodule is not None:
            return submodule
        try:
            getattr(facade, attribute)
        except NotAllowed as refusal:
            raise ImportError(f"cannot import name {attribute!r} from {module!r}: {refusal}", name=module) from None
        except AttributeError:
            pass
        raise ImportError(f"cannot import name {attribute!r} from {module!r}", name=module)

    def load_all(self, module: str) -> None:
        """Do `from module import *` in the code that calls this: bind what the module lists in `__all__`, or its public names."""
        facade = self.load(module, None, True)
        held = {n: v for n, v in vars(facade).items() if not n.startswith("_") and type(v) is not Facade}
        listed = getattr(sys.modules.get(module), "__all__", None)
        if isinstance(listed, list | tuple):
            held = {name: vars(facade)[name] for name in listed if name in vars(facade) and not name.startswith("_")}
        space = sys._getframe(1).f_globals
        assert is_own_frame(space)
        space.update(held)

    # Functions that would reach around the guards ----------------------------------------------------------------------------

    def _functions(self) -> dict[str, dict[str, object]]:
        abstract = self.add("collections.abc", public(collections.abc, collections.abc.__all__))
        zones = frozenset(zoneinfo.available_timezones())
        rules = importlib.import_module("dateutil.rrule").rrulestr

        def zone(name: str | None = None) -> zoneinfo.ZoneInfo | None:
            """Return a zone by its name; dateutil's own function would read a file."""
            return zoneinfo.ZoneInfo(str.__str__(name)) if isinstance(name, str) and name in zones else None

        output = Facade(
            "sys.stdout",
            {
                "write": lambda text: sys.stdout.write(str(text)),
                "writelines": lambda lines: sys.stdout.writelines(map(str, lines)),
                "flush": lambda: None,
                "isatty": lambda: False,
                "encoding": "utf-8",
            },
        )
        errors = Facade("sys.stderr", {"write": lambda text: sys.stderr.write(str(text)), "flush": lambda: None})
        function = self._guards.replace(types.FunctionType, make=_no_function)
        getters = {"attrgetter": self._attrgetter, "methodcaller": self._methodcaller}
        return {
            "operator": public(operator, operator.__all__) | getters,
            "copy": {"deepcopy": copying.deepcopy},
            "functools": {
                "wraps": self._wraps,
                "update_wrapper": lambda wrapper, wrapped, *_, **__: self._wraps(wrapped)(wrapper),
                "total_ordering": self._of_user_class(functools.total_ordering),
                "singledispatch": SingleDispatch,
                "singledispatchmethod": SingleDispatchMethod,
            },
            "collections": {"namedtuple": self._namedtuple, "abc": abstract},
            "typing": {
                "get_origin": self._get_origin,
                "get_args": self._get_args,
                "Type": self._guards.type,
                "NamedTuple": self._named_tuple(),
                "TypedDict": self._typed_dict(),
            },
            "zoneinfo": {
                "available_timezones": lambda: set(zones),
                # The real class's cache compares keys while it is changed, so a key must be a plain text.
                "ZoneInfo": self._guards.replace(
                    zoneinfo.ZoneInfo, make=lambda key: zoneinfo.ZoneInfo(str.__str__(key))
                ),
            },
            "csv": {"reader": csv.reader},
            "time": clock.time_names(),
            "sys": {
                "stdout": output,
                "stderr": errors,
                "exit": _exit,
                "getdefaultencoding": lambda: "utf-8",
                "getfilesystemencoding": lambda: "utf-8",
                "intern": lambda string: sys.intern(str.__str__(string)),
                "getrefcount": lambda value: sys.getrefcount(value),
                "exc_info": _exc_info,
                "executable": "",
                "setrecursionlimit": _set_recursion_limit,
                "getrecursionlimit": lambda: sys.getrecursionlimit(),
                "getsizeof": lambda value, *default: sys.getsizeof(value, *default),
            },
            "types": {
                "SimpleNamespace": self._guards.replace(types.SimpleNamespace, make=_simple_namespace),
                "FunctionType": function,
                "LambdaType": function,
            },
            "dateutil.rrule": {"rrulestr": lambda s, **options: rules(s, **{**options, "tzids": zone})},
            "dateutil.tz": {"gettz": zone},
            "warnings": {"catch_warnings": lambda record=False: warnings.catch_warnings(record=bool(record))},
            "contextlib": {
                "redirect_stdout": self._redirect(contextlib.redirect_stdout),
                "redirect_stderr": self._redirect(contextlib.redirect_stderr),
            },
            "array": {"array": typed.array},
            "inspect": inspect_names(self._guards),
            "timeit": timeit_names(self._prepare),
        }

    def _of_files(self) -> dict[str, dict[str, object]]:
        """Return the names of modules that work on files: on those of the run, and on no others."""
        return {
            "io": {
                "open": lambda *arguments, **options: self._files.open(*arguments, **options),
                "TextIOWrapper": self._guards.replace(
                    io.TextIOWrapper, make=functools.partial(text_of_bytes, self._files)
                ),
            },
            "codecs": {
                "open": lambda filename, mode="r", *arguments, **options: self._files.open(
                    filename, mode.replace("b", ""), -1, *arguments, **options
                )
            },
            "pathlib": {"Path": path_class(self._files)},
            "sqlite3": sqlite_names(self._files, self._guards),
            **system_names(self._files),
            **packed_names(self._files, self._guards),
            **reader_names(self._files, self._guards),
        }

    def _redirect(self, real: Any) -> Callable[[Any], Any]:
        """Return `redirect_stdout` or `redirect_stderr`, into what print() may print into."""

        @contextlib.contextmanager
        def redirected(new_target: Any) -> Iterator[Any]:
            if type(new_target) is Facade or not self._guards.is_stream(new_target):
                raise NotAllowed(f"{real.__name__}() needs an io.StringIO, or a file opened as text")
            with real(new_target):
                yield new_target

        redirected.__name__ = redirected.__qualname__ = real.__name__
        return redirected

    def _get_origin(self, hint: Any) -> Any:
        """typing.get_origin() by the rules of the language."""
        return self._part_of_hint(typing.get_origin(hint))

    def _get_args(self, hint: Any) -> tuple[Any, ...]:
        """typing.get_args() by the rules of the language."""
        return tuple(map(self._part_of_hint, typing.get_args(hint)))

    def _part_of_hint(self, part: Any) -> Any:
        if type(part) is list:  # the arguments of a Callable
            return list(map(self._part_of_hint, part))
        return self._guards.in_place_of(part) if issubclass(type(part), type) else plain_hint(part)

    def _attrgetter(self, *paths: str) -> getters.AttributeGetter:
        """operator.attrgetter by the rules of the language."""
        return getters.AttributeGetter(self._guards.getattr, paths)

    def _methodcaller(self, name: str, /, *arguments: Any, **options: Any) -> getters.MethodCaller:
        """operator.methodcaller by the rules of the language."""
        return getters.MethodCaller(self._guards.getattr, name, arguments, options)

    def _wraps(self, wrapped: Any, *_: Any, **__: Any) -> Callable[[Any], Any]:
        """functools.wraps: copies the name and the docstring."""

        def decorator(wrapper: Any) -> Any:
            for name in ("__name__", "__qualname__", "__doc__"):
                text = self._guards.getattr(wrapped, name, None)
                if type(text) is not str:
                    continue
                if self._guards.is_user_class(type(wrapper)):
                    object.__setattr__(wrapper, name, str(text))
                else:
                    self._guards.setattr(wrapper, name, text)
            return wrapper

        return decorator

    def _of_user_class(self, decorate: Callable[[Any], Any]) -> Callable[[type], Any]:
        def decorator(cls: type) -> Any:
            if not self._guards.is_user_class(cls):
                raise NotAllowed("only classes defined in the code can be decorated so")
            module = cls.__module__
            cls.__module__ = GENERATED_MODULE
            try:
                made = self._guards.adopt(decorate(cls))
            finally:
                cls.__module__ = module
            made.__module__ = module
            return made

        return decorator

    def _namedtuple(
        self,
        typename: str,
        field_names: str | Iterable[str],
        *,
        rename: bool = False,
        defaults: Iterable[Any] | None = None,
        module: object = None,  # the class is the code's own, whatever is given
    ) -> Any:
        fields = field_names.replace(",", " ").split() if type(field_names) is str else [*map(str, field_names)]
        _check_fields(fields)
        make: Any = collections.namedtuple
        return self._guards.adopt(
            make(str(typename), fields, rename=bool(rename), defaults=defaults, module="__main__")
        )

    def _named_tuple(self) -> Any:
        """Return typing.NamedTuple, whose classes count as the code's."""

        def make(typename: str, fields: Any = None, /, **more: Any) -> Any:
            hints = [(str(name), hint) for name, hint in (more.items() if fields is None else fields)]
            _check_fields(name for name, _ in hints)
            made: Any = vars(typing)["NamedTuple"](str(typename), hints)
            made.__module__ = "__main__"
            return self._guards.adopt(made)

        return self._as_base(make, typing.NamedTuple)

    def _typed_dict(self) -> Any:
        """Return typing.TypedDict, whose classes count as the code's."""

        def make(typename: str, fields: Any = (), /, *, total: bool = True, **more: Any) -> Any:
            hints = {str(name): hint for name, hint in {**dict(fields), **more}.items()}
            made: Any = vars(typing)["TypedDict"](str(typename), hints, total=bool(total))
            made.__module__ = "__main__"
            return self._guards.adopt(made)

        return self._as_base(make, typing.TypedDict)

    def _as_base(self, make: Any, real: Any) -> Any:
        """Return a function that makes classes, from which a class can inherit as from the real one."""
        make.__name__, make.__qualname__, make.__module__, make.__doc__ = (
            real.__name__,
            real.__name__,
            "typing",
            real.__doc__,
        )
        make.__mro_entries__ = lambda _bases: real.__mro_entries__((real,))
        self._guards.bases.add(make)
        return make

    # Classes to inherit from, decorators of classes ---------------------------------------------------------------------------

    def _classes(self) -> dict[str, dict[str, object]]:
        self._guards.abc_meta = stand_in(abc.ABCMeta, "use class Name(ABC)")

        def dataclass(cls: type | None = None, **options: Any) -> Any:
            real = dataclasses.dataclass(**{name: bool(value) for name, value in options.items()})

            def decorate(decorated: Any) -> Any:
                """Have hints that are text looked up in the code: dataclasses would look in the module of generated methods."""
                hints = annotations_of(decorated)
                if not any(type(hint) is str for hint in hints.values()):
                    return real(decorated)
                space = own_namespace()
                decorated.__annotations__ = {name: _looked_up(hint, space) for name, hint in hints.items()}
                made = real(decorated)
                decorated.__annotations__ = made.__annotations__ = hints
                return made

            make = self._of_user_class(decorate)
            return make if cls is None else make(cls)

        return {
            "abc": {"ABCMeta": self._guards.abc_meta},
            "dataclasses": {"dataclass": dataclass, "make_dataclass": self._make_dataclass},
            "enum": self._enumerations(),
        }

    def _make_dataclass(self, cls_name: str, fields: Iterable[Any], **options: Any) -> Any:
        """dataclasses.make_dataclass without bases and namespace."""
        specified = [tuple(field) if type(field) in (tuple, list) else (field,) for field in fields]
        for field in specified:
            name = field[0]
            if type(name) is not str or names.is_dunder(name) or name in names.REFUSED_ATTRIBUTES:
                raise NotAllowed(f"{str(name)!r} cannot be a field")
        if {"bases", "namespace", "module"} & options.keys():
            raise NotAllowed("make_dataclass() takes fields only", "write a class and decorate it with @dataclass")
        flags: dict[str, Any] = {name: bool(value) for name, value in options.items()}
        whole: list[Any] = [field if len(field) > 1 else (field[0], Any) for field in specified]
        made = dataclasses.make_dataclass(str(cls_name), whole, **flags)
        made.__module__ = "__main__"
        return self._guards.adopt(made)

    def _enumerations(self) -> dict[str, object]:
        guards = self._guards

        class Meta(enum.EnumMeta):
            """Members made by a call have ordinary names, and the class counts as the code's."""

            def __call__(cls, value: Any, names: Any = None, **options: Any) -> Any:
                if names is None:
                    return super().__call__(value, **options)
                if (mixed_in := options.get("type")) is not None:
                    guards._check_bases(str(value), (mixed_in, cls), ())
                options["module"] = "__main__"
                return guards.adopt(super().__call__(str(value), _member_names(names), **options))

        made: dict[str, object] = {}
        for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"):
            real: Any = getattr(enum, name)
            space = Meta.__prepare__(name, (real,))
            space["__module__"] = "enum"
            cls = Meta(name, (real,), space)
            guards.enum_classes.add(cls)
            made[name] = cls
        return made


def _csv_reader(lines: Iterable[str], *arguments: Any, **options: Any) -> Any:
    """csv.reader() over a generator, which cannot be entered twice: a reader that is used while it asks for a line would go on with state that the inner use has freed."""
    return _real_csv_reader((line for line in lines), *arguments, **options)


def _display(*values: object, **_options: object) -> None:
    """IPython's `display`: print each value on lines of its own."""
    print(*values, sep="\n")


_SHOWN_BY = dict.fromkeys(("HTML", "Markdown", "Image", "JSON", "Math", "Latex", "clear_output"), "use print()")


def _no_function(*_arguments: object, **_options: object) -> Any:
    raise NotAllowed("FunctionType() cannot be called", "use def or lambda")


def _member_names(members: Any) -> Any:
    if type(members) is str:
        members = members.replace(",", " ").split()
    if isinstance(members, Mapping):
        members = [(name, members[name]) for name in members]
    members = [tuple(member) if type(member) is list else member for member in members]
    for member in members:
        name = member[0] if type(member) is tuple and member else member
        if type(name) is not str or not name.isidentifier() or name.startswith("_"):
            raise NotAllowed(f"{str(name)!r} cannot be a member's name")
    return members


def _looked_up(hint: Any, space: Mapping[str, Any]) -> Any:
    """Return the ClassVar, InitVar or KW_ONLY that a type hint of a dataclass names by text, otherwise the hint."""
    named = _HINT.match(hint) if type(hint) is str else None
    if named is None:
        return hint
    owner = space.get(named[1])
    held = space if named[1] is None else vars(owner) if type(owner) is Facade else {}
    found = held.get(named[2])
    return found if any(found is each for each in _NO_FIELDS) else hint


_HINT = re.compile(r"(?:\s*(\w+)\s*\.)?\s*(\w+)")
"""The name that begins a type hint. Dataclasses evaluate no more of it either."""
_NO_FIELDS = (typing.ClassVar, dataclasses.InitVar, dataclasses.KW_ONLY)


def _check_fields(fields: Iterable[str]) -> None:
    for field in fields:
        if type(field) is not str or field in names.REFUSED_ATTRIBUTES:
            raise NotAllowed(f"{str(field)!r} cannot be a field")


def _simple_namespace(*mappings: Any, **attributes: Any) -> types.SimpleNamespace:
    for mapping in mappings:
        attributes = {**dict(mapping), **attributes}
    attributes = {str.__str__(name): value for name, value in attributes.items()}
    for name in attributes:
        if names.is_dunder(name):
            raise NotAllowed(f"{name!r} cannot be an attribute")
    return types.SimpleNamespace(**attributes)


class Recursion:
    """How deep calls may be as the code has said: around the code the interpreter has other limits."""

    limit = 0
    """0: the code has not said it."""


recursion: Final = Recursion()


def _set_recursion_limit(limit: int) -> None:
    bounded = min(operator.index(limit), MAX_RECURSION)
    sys.setrecursionlimit(bounded)
    recursion.limit = bounded


def _exc_info() -> tuple[Any, Any, None]:
    """Return class and object of the error being handled. Its traceback would lead to frames."""
    error = sys.exception()
    return (None, None, None) if error is None else (type(error), error, None)


def _exit(status: object = None) -> None:
    raise SystemExit(status)
