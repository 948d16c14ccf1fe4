"""What of Python's own modules, and of the libraries that code has, further modules may use: everything that is listed here."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from byref_sandbox.code.survey import REACHES
from byref_sandbox.code.words import words

OWN_LIBRARIES: Final = words(
    "numpy pandas pyarrow dateutil pytz tabulate matplotlib mpl_toolkits pylab cycler typing_extensions six"
)
"""Packages that the language has walls for, or that are as Python's own: they are not followed."""
WHOLE: Final = words("""__future__ math cmath itertools collections collections.abc heapq bisect statistics numbers fractions decimal datetime
    calendar time zoneinfo re textwrap unicodedata difflib html html.entities html.parser json csv base64 binascii hashlib hmac secrets
    random struct zlib ipaddress abc contextlib enum dataclasses ast queue pprint reprlib keyword shlex fnmatch graphlib array urllib.parse
    email.utils errno stat token colorsys sched copy functools operator typing typing_extensions string codecs uuid warnings numpy
    numpy.linalg numpy.fft numpy.random numpy.char numpy.strings numpy.ma numpy.exceptions numpy.dtypes
    pandas numpy.typing dateutil.parser dateutil.relativedelta dateutil.rrule dateutil.easter pytz tabulate six json.decoder json.encoder""")
"""Modules of which every public name that is no module is harmless, apart from those in `_EXCEPT`."""
_EXCEPT: Final = words("""operator.attrgetter operator.methodcaller functools.singledispatch functools.singledispatchmethod
    functools.wraps functools.update_wrapper typing.get_type_hints typing.ForwardRef typing.evaluate_forward_ref
    typing_extensions.get_type_hints typing_extensions.evaluate_forward_ref typing_extensions.get_annotations
    typing_extensions.ForwardRef string.Formatter codecs.open codecs.register codecs.register_error codecs.unregister uuid.uuid1
    uuid.getnode dataclasses.make_dataclass dataclasses.dataclass enum.global_enum contextlib.chdir copy.dispatch_table
    warnings.formatwarning warnings.showwarning warnings.warn_explicit warnings.filters warnings.onceregistry
    email.utils.make_msgid zoneinfo.reset_tzpath shlex.shlex hashlib.file_digest pytz.open_resource pytz.resource_exists
    six.moves six.exec_ six.get_unbound_function six.get_function_globals six.get_function_code six.get_function_closure
    six.get_method_function six.get_method_self six.get_function_defaults numpy.test numpy.show_config numpy.fromregex
    numpy.setbufsize pandas.eval pandas.test pandas.show_versions pandas.ExcelFile pandas.HDFStore""")
_PROGRAMS: Final = ("main", "test")
"""Functions that some modules of Python have for themselves: they read files and run what is given."""
_PARTS: Final[Mapping[str, str]] = {
    "types": """SimpleNamespace MappingProxyType GeneratorType CoroutineType AsyncGeneratorType NoneType EllipsisType NotImplementedType
        UnionType MethodType BuiltinFunctionType GenericAlias BuiltinMethodType DynamicClassAttribute""",
    "sys": """maxsize version version_info hexversion platform byteorder float_info int_info implementation maxunicode getsizeof intern
        getrecursionlimit getdefaultencoding float_repr_style""",
    "os": "environ getenv linesep sep name PathLike fspath pathsep extsep altsep curdir pardir urandom fsdecode fsencode",
    "os.path": """basename dirname join split splitext splitdrive normpath sep commonprefix commonpath isabs pardir curdir extsep altsep
        pathsep""",
    "io": "StringIO BytesIO TextIOBase RawIOBase BufferedIOBase IOBase UnsupportedOperation SEEK_SET SEEK_CUR SEEK_END",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "threading": "local Lock RLock get_ident",
    "_thread": "get_ident",
    "timeit": "default_timer",
    "weakref": "ref WeakKeyDictionary WeakValueDictionary WeakSet proxy WeakMethod ReferenceType",
    "inspect": """Signature Parameter isclass isfunction ismethod isgenerator isgeneratorfunction iscoroutinefunction
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
BUILTINS: Final = frozenset(dir(builtins)) - words("""open eval exec compile __import__ __build_class__ __loader__ __spec__ input
    breakpoint globals locals vars help exit quit memoryview getattr setattr delattr""")
_KINDS: Final = {name: kind for kind, names in REACHES.items() for name in names.split()}
_TOPS: Final = frozenset({name.partition(".")[0] for name in _KINDS} - OWN_LIBRARIES)
"""Modules that reach something, which other modules may have imported."""
_OF_LIBRARIES: Final = words("""lib core compat io os sys ctypeslib f2py testing util tests plotting errors api arrays rec ma char strings fft
    linalg polynomial random dtypes exceptions matlib typing version emath mtrand bit_generator helper extras mrecords defchararray
    tzinfo tzfile lazy reference""")
"""Parts of numpy, pandas and their like that are modules, which hold more than numbers."""
_NAMED_LIKE_MODULES: Final = words("array copy select")
"""Their functions whose names are those of modules of Python."""
_READERS: Final = "read_"
"""How pandas' functions that read files begin."""


def known_kind(use: str) -> str | None:
    """What a dotted name is known to reach."""
    parts = use.split(".")
    return next((kind for cut in range(len(parts), 0, -1) if (kind := _KINDS.get(".".join(parts[:cut])))), None)


def is_harmless_at_import(use: str) -> bool:
    """Whether a dotted name may be used in the statements that run when a module is imported."""
    return any(use == fine or use.startswith(f"{fine}.") for fine in _AT_IMPORT)


def kind_of_foreign(use: str) -> str | None:
    """What a dotted name reaches that is not of the packages that were read; None where it is harmless."""
    parts = use.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module, name = ".".join(parts[:cut]), parts[cut]
        is_part = name in _PARTS.get(module, "").split()
        if is_part or module in WHOLE:
            # Of what a harmless class or function has, methods are judged by their names alone.
            is_fine = is_part or (
                f"{module}.{name}" not in _EXCEPT
                and name != "*"
                and not name.startswith("_")
                and name not in _PROGRAMS
                and not (module == "pandas" and name.startswith(_READERS))
                and known_kind(use) is None
            )
            if is_fine and not _leads_to_module(module, tuple(parts[cut:])):
                return None
            return known_kind(use) or "the interpreter's inside"
    return known_kind(use) or (
        "a module as a value" if use in sys.stdlib_module_names else "what is not known to be harmless"
    )


@cache
def _leads_to_module(module: str, steps: tuple[str, ...]) -> bool:
    """Whether one of these attributes, each of the one before, is a module: `json.codecs`, `enum.Enum.x`."""
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        first, *others = steps
        is_module = first in _OF_LIBRARIES or (first in sys.stdlib_module_names and first not in _NAMED_LIKE_MODULES)
        return is_module or not _TOPS.isdisjoint(others)
    held: Any = importlib.import_module(module)
    path = module
    for step in steps:
        held, path = inspect.getattr_static(held, step, None), f"{path}.{step}"
        if isinstance(held, type(sys)) and path not in WHOLE:
            return True
    return False
