"""The modules code may import: facades that hold allow-listed names, never a real module."""

from __future__ import annotations

import abc
import array
import ast
import base64
import binascii
import bisect
import calendar
import cmath
import collections
import collections.abc
import contextlib
import copy
import csv
import dataclasses
import datetime
import decimal
import difflib
import enum
import fractions
import functools
import hashlib
import heapq
import html
import io
import itertools
import json
import keyword
import math
import numbers
import operator
import pprint
import random
import re
import statistics
import string
import sys
import textwrap
import time
import types
import typing
import unicodedata
import urllib.parse
import uuid
import warnings
import zlib
import zoneinfo
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from byref_sandbox import frames, names
from byref_sandbox.guards import Facade, Guards, stand_in
from byref_sandbox.refusal import NotAllowed

UNNAMED_MODULE = "byref_sandbox.code"
"""What generated methods are told their module is: one that does not exist, so their globals are empty."""

_NUMPY_HIDDEN = frozenset(
    [
        "load",
        "save",
        "savez",
        "savez_compressed",
        "savetxt",
        "fromfile",
        "fromregex",
        "memmap",
        "DataSource",
        "lib",
        "ctypeslib",
        "f2py",
        "test",
        "testing",
        "core",
        "show_config",
        "show_runtime",
        "get_include",
        "info",
        "source",
        "bmat",
        "nditer",
        "nested_iters",
        "from_dlpack",
        "seterrcall",
        "geterrcall",
        "setbufsize",
        "getbufsize",
        "rec",
        "typing",
        "exceptions",
        "dtypes",
        "distutils",
        "matlib",
        "flatiter",
        "recarray",
        "record",
    ]
)
_PANDAS_HIDDEN = frozenset(
    [
        "HDFStore",
        "ExcelFile",
        "ExcelWriter",
        "eval",
        "to_pickle",
        "test",
        "show_versions",
        "plotting",
        "io",
        "core",
        "compat",
        "util",
        "testing",
        "arrays",
        "api",
        "errors",
        "offsets",
        "tseries",
    ]
)


def public(module: ModuleType, listed: Iterable[str] | None = None) -> dict[str, object]:
    """The names of a module that are public and no modules themselves."""
    found = listed if listed is not None else (n for n in dir(module) if not n.startswith("_"))
    return {n: getattr(module, n) for n in found if hasattr(module, n) and type(getattr(module, n)) is not ModuleType}


class Modules:
    """Facades by import name."""

    def __init__(self, guards: Guards) -> None:
        self.facades: dict[str, Facade] = {}
        self._guards = guards
        self._plain()
        self._guarded()
        self._classes()
        self._numpy()
        self._pandas()

    def available(self) -> list[str]:
        """Names of the modules, without their submodules."""
        return sorted(name for name in self.facades if "." not in name)

    def load(self, module: str, attribute: str | None, leaf: bool) -> object:
        """What an import statement binds; ImportError names what there is."""
        facade = self.facades.get(module)
        if facade is None:
            raise ModuleNotFoundError(f"No module named {module!r} in the sandbox", name=module)
        if attribute is None:
            return facade if leaf else self.facades[module.partition(".")[0]]
        submodule = self.facades.get(f"{module}.{attribute}")
        if submodule is not None:
            return submodule
        if attribute not in facade.__dict__ or names.is_dunder(attribute):
            try:
                getattr(facade, attribute)
            except NotAllowed as refusal:
                raise ImportError(f"cannot import name {attribute!r} from {module!r}: {refusal}", name=module) from None
            except AttributeError:
                pass
            raise ImportError(f"cannot import name {attribute!r} from {module!r}", name=module)
        return facade.__dict__[attribute]

    def _add(
        self,
        name: str,
        attributes: dict[str, object],
        real: ModuleType | None = None,
        hints: dict[str, str] | None = None,
    ) -> Facade:
        hidden = [n for n in dir(real) if not n.startswith("_")] if real is not None else []
        facade = self.facades[name] = Facade(name, attributes, hidden, hints)
        return facade

    def _take(self, module: ModuleType, listed: str, **own: object) -> Facade:
        return self._add(
            module.__name__, {**{n: getattr(module, n) for n in listed.split() if hasattr(module, n)}, **own}, module
        )

    # Modules taken as they are, by name ------------------------------------------------------------------------------------------

    def _plain(self) -> None:
        for module in (math, cmath, itertools):
            self._add(module.__name__, public(module), module)
        for module in (statistics, heapq, numbers):
            self._add(module.__name__, public(module, module.__all__), module)
        self._take(
            re,
            """compile search match fullmatch split findall finditer sub subn escape purge error PatternError Pattern Match NOFLAG
            I IGNORECASE M MULTILINE S DOTALL X VERBOSE A ASCII U UNICODE RegexFlag""",
        )
        self._take(json, "dumps loads dump load JSONDecodeError JSONEncoder JSONDecoder")
        self._take(datetime, "date datetime time timedelta timezone tzinfo UTC MINYEAR MAXYEAR")
        self._take(
            random,
            """Random random uniform randint choice choices sample shuffle seed gauss normalvariate lognormvariate betavariate
            expovariate gammavariate paretovariate weibullvariate vonmisesvariate randrange triangular getrandbits randbytes binomialvariate""",
        )
        self._take(
            decimal,
            """Decimal getcontext setcontext localcontext Context ROUND_HALF_UP ROUND_HALF_EVEN ROUND_DOWN ROUND_UP ROUND_FLOOR
            ROUND_CEILING ROUND_HALF_DOWN ROUND_05UP DecimalException InvalidOperation DivisionByZero Inexact Rounded Overflow Underflow""",
        )
        self._take(fractions, "Fraction")
        self._take(
            string,
            """ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation printable whitespace capwords
            Template""",
        )
        self._take(textwrap, "dedent indent fill wrap shorten TextWrapper")
        self._take(bisect, "bisect bisect_left bisect_right insort insort_left insort_right")
        self._take(copy, "copy deepcopy replace Error")
        self._take(
            time,
            """time perf_counter monotonic time_ns perf_counter_ns monotonic_ns process_time strftime strptime localtime gmtime mktime
            asctime ctime sleep struct_time""",
        )
        self._take(
            unicodedata,
            "normalize category name lookup combining numeric decimal digit bidirectional east_asian_width is_normalized",
        )
        self._take(
            calendar,
            """month_name month_abbr day_name day_abbr monthrange monthcalendar isleap leapdays weekday weekheader month calendar
            timegm setfirstweekday firstweekday MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY Calendar TextCalendar""",
        )
        self._take(hashlib, "md5 sha1 sha224 sha256 sha384 sha512 sha3_256 sha3_512 blake2b blake2s new")
        self._take(
            base64,
            "b64encode b64decode b32encode b32decode b16encode b16decode b85encode b85decode urlsafe_b64encode urlsafe_b64decode",
        )
        self._take(binascii, "hexlify unhexlify crc32 b2a_hex a2b_hex Error")
        self._take(zlib, "crc32 adler32 compress decompress error")
        self._take(uuid, "UUID uuid3 uuid4 uuid5 NAMESPACE_DNS NAMESPACE_URL NAMESPACE_OID NAMESPACE_X500")
        self._take(io, "StringIO BytesIO")
        self._take(array, "array typecodes")
        self._take(
            csv,
            """reader writer DictReader DictWriter QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC QUOTE_STRINGS QUOTE_NOTNULL Error
            Dialect excel excel_tab unix_dialect Sniffer""",
        )
        self._take(difflib, "get_close_matches SequenceMatcher ndiff unified_diff context_diff Differ")
        self._take(html, "escape unescape")
        self._take(keyword, "iskeyword issoftkeyword kwlist")
        self._take(ast, "literal_eval")
        self._take(
            contextlib,
            """contextmanager suppress closing nullcontext ExitStack ContextDecorator AbstractContextManager
            redirect_stdout""",
            redirect_stdout=_redirect_stdout,
        )
        self._take(
            urllib.parse,
            "urlparse urlsplit urlunparse urlunsplit urljoin parse_qs parse_qsl quote quote_plus unquote unquote_plus urlencode",
        )
        self._add("urllib", {"parse": self.facades["urllib.parse"]}, hints={"request": "there is no network"})
        zones = frozenset(zoneinfo.available_timezones())
        self._take(zoneinfo, "ZoneInfo ZoneInfoNotFoundError", available_timezones=lambda: set(zones))
        self._add("__future__", {})

    # Modules some of whose functions would reach around the guards ---------------------------------------------------------------

    def _guarded(self) -> None:
        guards = self._guards
        own = {"attrgetter": self._attrgetter, "methodcaller": self._methodcaller}
        listed = [n for n in operator.__all__ if n not in ("attrgetter", "methodcaller")]
        self._add("operator", {**public(operator, listed), **own}, operator)
        self._take(functools, "reduce partial lru_cache cache cmp_to_key cached_property", wraps=self._wraps,
                   total_ordering=self._own_class(functools.total_ordering))  # fmt: skip
        abstract = self._add("collections.abc", public(collections.abc, collections.abc.__all__))
        self._take(
            collections,
            "Counter defaultdict OrderedDict deque ChainMap UserDict UserList",
            abc=abstract,
            namedtuple=self._namedtuple,
        )
        self._take(pprint, "pformat pp pprint")
        self._take(
            warnings,
            "filterwarnings simplefilter warn resetwarnings",
            catch_warnings=lambda record=False: warnings.catch_warnings(record=bool(record)),
        )
        self._take(types, "SimpleNamespace MappingProxyType", SimpleNamespace=_namespace)
        output = Facade("sys.stdout", {"write": lambda text: sys.stdout.write(str(text)), "flush": lambda: None})
        self._add("sys", {**public(sys, ["maxsize", "float_info", "byteorder", "version", "version_info", "getsizeof", "getrecursionlimit", "platform"]),
                          "stdout": output, "stderr": output, "exit": _exit, "setrecursionlimit": sys.setrecursionlimit}, sys)  # fmt: skip
        self._take(
            typing,
            """Any AnyStr Callable ClassVar Collection Container Counter DefaultDict Deque Dict Final FrozenSet Generator Generic
            Hashable Iterable Iterator List Literal Mapping MutableMapping MutableSequence MutableSet NamedTuple NewType NoReturn Never
            Optional OrderedDict ParamSpec Protocol Required NotRequired Self Sequence Set Sized SupportsFloat SupportsInt Text Tuple Type TypeAlias TypeVar
            TypedDict Union Annotated cast overload final override no_type_check TYPE_CHECKING assert_never""",
        )
        guards.bases.update({object, int, float, str, bytes, list, dict, tuple, set, frozenset, abc.ABC, json.JSONEncoder, typing.Generic, typing.Protocol,
                             typing.NamedTuple, typing.TypedDict, collections.OrderedDict, collections.defaultdict, collections.Counter,
                             collections.deque, collections.UserDict, collections.UserList, contextlib.ContextDecorator,
                             contextlib.AbstractContextManager, datetime.tzinfo, datetime.date, datetime.datetime, string.Template,
                             *(getattr(collections.abc, n) for n in collections.abc.__all__)})  # fmt: skip

    def _attrgetter(self, *paths: str) -> Callable[[Any], Any]:
        """operator.attrgetter by the rules of the language."""
        for path in paths:
            if type(path) is not str:
                raise TypeError("attribute name must be a string")

        def one(value: Any, path: str) -> Any:
            for name in path.split("."):
                value = self._guards.getattr(value, name)
            return value

        if len(paths) == 1:
            return lambda value: one(value, paths[0])
        return lambda value: tuple(one(value, path) for path in paths)

    def _methodcaller(self, name: str, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """operator.methodcaller by the rules of the language."""
        return lambda value: self._guards.getattr(value, name)(*arguments, **options)

    def _own_class(self, decorate: Callable[[type], type]) -> Callable[[type], type]:
        def decorator(cls: type) -> type:
            if not self._guards.is_user_class(cls):
                raise NotAllowed("only classes defined in the code can be decorated so")
            module = cls.__module__
            cls.__module__ = UNNAMED_MODULE
            try:
                made: type = self._guards.adopt(decorate(cls))
            finally:
                cls.__module__ = module
            made.__module__ = module
            return made

        return decorator

    def _wraps(self, wrapped: Any, *_: Any, **__: Any) -> Callable[[Any], Any]:
        """functools.wraps: the name and the docstring go over."""

        def decorator(wrapper: Any) -> Any:
            for name in ("__name__", "__qualname__", "__doc__"):
                text = self._guards.getattr(wrapped, name, None)
                if type(text) is str:
                    self._guards.setattr(wrapper, name, text)
            return wrapper

        return decorator

    def _namedtuple(
        self,
        typename: str,
        field_names: str | Iterable[str],
        *,
        rename: bool = False,
        defaults: Iterable[Any] | None = None,
    ) -> type:
        fields = (
            field_names.replace(",", " ").split() if type(field_names) is str else [str(name) for name in field_names]
        )
        for field in fields:
            if type(field) is not str or field in names.REFUSED_ATTRIBUTES:
                raise NotAllowed(f"{str(field)!r} cannot be a field")
        made = collections.namedtuple(str(typename), fields, rename=bool(rename), defaults=defaults, module="__main__")  # type: ignore[misc]
        return self._guards.adopt(made)  # type: ignore[no-any-return]

    # Classes to inherit from -------------------------------------------------------------------------------------------------------

    def _classes(self) -> None:
        guards = self._guards
        guards.abc_meta = stand_in(abc.ABCMeta, "use class Name(ABC)")
        self._take(abc, "ABC abstractmethod", ABCMeta=guards.abc_meta)

        def dataclass(cls: type | None = None, **options: Any) -> Any:
            make = self._own_class(dataclasses.dataclass(**{name: bool(value) for name, value in options.items()}))
            return make if cls is None else make(cls)

        self._take(
            dataclasses,
            "field asdict astuple replace fields is_dataclass FrozenInstanceError KW_ONLY MISSING",
            dataclass=dataclass,
        )

        class Meta(enum.EnumMeta):
            """Members made by a call have ordinary names, and the class counts as the code's."""

            def __call__(cls, value: Any, names: Any = None, **options: Any) -> Any:  # type: ignore[override]
                if names is None:
                    return super().__call__(value, **options)
                made = super().__call__(
                    str(value), _member_names(names), **{k: v for k, v in options.items() if k == "start"}
                )
                return guards.adopt(made)

        made: dict[str, object] = {}
        for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"):
            real: Any = getattr(enum, name)
            space = Meta.__prepare__(name, (real,))
            space["__module__"] = "enum"
            made[name] = Meta(name, (real,), space)
            guards.enum_classes.add(made[name])  # type: ignore[arg-type]
        self._take(enum, "auto unique", **made)

    # numpy and pandas ----------------------------------------------------------------------------------------------------------------

    def _numpy(self) -> None:
        def part(name: str, module: ModuleType, listed: Iterable[str] | None = None) -> Facade:
            kept = {k: v for k, v in public(module, listed).items() if k not in _NUMPY_HIDDEN}
            return self._add(f"numpy.{name}", kept, module)

        everything = {
            k: v for k, v in public(np, np.__all__).items() if k not in _NUMPY_HIDDEN and not k.startswith("_")
        }
        for name in ("linalg", "fft", "polynomial", "strings", "emath", "ma"):
            module: ModuleType = getattr(np, name)
            everything[name] = part(name, module, getattr(module, "__all__", None))
        everything["char"] = part("char", np.char, [n for n in np.char.__all__ if n != "compare_chararrays"])
        everything["random"] = part(
            "random", np.random, [n for n in np.random.__all__ if n not in ("set_state", "get_state")]
        )
        everything["exceptions"] = part("exceptions", np.exceptions, np.exceptions.__all__)
        tricks = self._add("numpy.lib.stride_tricks", {"sliding_window_view": np.lib.stride_tricks.sliding_window_view})
        everything["lib"] = self._add("numpy.lib", {"stride_tricks": tricks})
        array_class = stand_in(np.ndarray, "use np.array(), np.zeros() or np.empty()")
        everything["ndarray"] = self._guards.stand_ins[np.ndarray] = array_class
        for name in ("loadtxt", "genfromtxt"):
            everything[name] = frames.reader(getattr(np, name), f"np.{name}")
        everything["__version__"] = np.__version__
        self._add("numpy", everything, np)

    def _pandas(self) -> None:
        everything = {
            k: v for k, v in public(pd, pd.__all__).items() if k not in _PANDAS_HIDDEN and not k.startswith("read_")
        }
        kinds = self._add("pandas.api.types", public(pd.api.types), pd.api.types)
        everything["api"] = self._add("pandas.api", {"types": kinds})
        everything["errors"] = self._add("pandas.errors", public(pd.errors, pd.errors.__all__))
        everything["offsets"] = self._add("pandas.tseries.offsets", public(pd.offsets, pd.offsets.__all__))
        everything["tseries"] = self._add(
            "pandas.tseries", {"offsets": everything["offsets"], "frequencies": self._frequencies()}
        )
        everything["testing"] = self._add(
            "pandas.testing", public(pd.testing, ["assert_frame_equal", "assert_series_equal", "assert_index_equal"])
        )
        everything["arrays"] = self._add("pandas.arrays", public(pd.arrays, pd.arrays.__all__))
        for name in ("read_csv", "read_json", "read_table", "read_fwf"):
            everything[name] = frames.reader(getattr(pd, name), f"pd.{name}")
        for name in ("pivot_table", "crosstab"):
            everything[name] = frames.pivot(getattr(pd, name), name)
        for name in ("set_option", "get_option", "reset_option", "option_context"):
            everything[name] = _display_options(getattr(pd, name), name)
        everything["options"] = Facade(
            "pandas.options", {"display": pd.options.display, "mode": Facade("pandas.options.mode", {})}
        )
        everything["__version__"] = pd.__version__
        self._add("pandas", everything, pd)

    def _frequencies(self) -> Facade:
        from pandas.tseries import frequencies

        return self._add("pandas.tseries.frequencies", public(frequencies, ["to_offset", "infer_freq"]))


def _display_options(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        flat: list[Any] = []
        for argument in arguments:
            flat.extend([x for pair in argument.items() for x in pair] if type(argument) is dict else [argument])
        for key in flat[::2] if name != "get_option" else flat[:1]:
            if type(key) is not str or not re.fullmatch(
                r"(display\.|max_|min_rows|precision|width|chop|expand|float_format|mode\.copy)[a-z_.]*", key
            ):
                raise NotAllowed(
                    f"pd.{name}({str(key)[:60]!r}) is not available", "only display.* options can be changed"
                )
        return function(*flat, **options)

    return call


def _member_names(members: Any) -> Any:
    if type(members) is str:
        members = members.replace(",", " ").split()
    pairs = (
        list(members.items())
        if type(members) is dict
        else [m if type(m) in (tuple, list) else (m, None) for m in members]
    )
    for pair in pairs:
        if type(pair[0]) is not str or not pair[0].isidentifier() or pair[0].startswith("_"):
            raise NotAllowed(f"{str(pair[0])!r} cannot be a member's name")
    return [p[0] for p in pairs] if all(p[1] is None for p in pairs) else [(p[0], p[1]) for p in pairs]


def _namespace(*arguments: Any, **attributes: Any) -> types.SimpleNamespace:
    for mapping in arguments:
        attributes = {**dict(mapping), **attributes}
    for name in attributes:
        if names.is_dunder(name):
            raise NotAllowed(f"{name!r} cannot be an attribute")
    return types.SimpleNamespace(**attributes)


@contextlib.contextmanager
def _redirect_stdout(target: Any) -> Iterator[Any]:
    if type(target) is not io.StringIO:
        raise NotAllowed("redirect_stdout() needs an io.StringIO")
    with contextlib.redirect_stdout(target):
        yield target


def _exit(status: object = None) -> None:
    raise SystemExit(status)
