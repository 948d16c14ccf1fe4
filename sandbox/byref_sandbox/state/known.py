"""Objects that a graph never contains by value: objects of the language and of libraries, which each process has under a name."""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import operator
import platform
import sys
import typing
import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow
from blake3 import blake3

from byref_sandbox.code.libraries import LIBRARIES, PARTS
from byref_sandbox.code.words import words
from byref_sandbox.contents import Versions
from byref_sandbox.language.calling import HostFunction, functions_of
from byref_sandbox.language.facades import Facade
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.policy import Language
from byref_sandbox.state import drawings, helpers, settings
from byref_sandbox.state.builders import BUILDERS, FUNCTIONS

FORMAT: Final = 1
"""Version of the streams and of the header. A reader accepts no other."""

TAKEN_APART: Final = {
    "_collections_abc": "_CallableGenericAlias",
    "builtins": "object bytearray complex range slice map filter zip enumerate reversed",
    "collections": "deque OrderedDict Counter defaultdict ChainMap UserDict UserList",
    "byref_sandbox.language.dispatching": "SingleDispatch SingleDispatchMethod",
    "byref_sandbox.language.eventloop": "Future Task",
    "byref_sandbox.language.logs": "Filter Formatter Handler NullHandler",
    "byref_sandbox.language.executors": "Executor ThreadPoolExecutor ProcessPoolExecutor Future",
    "byref_sandbox.language.spreadsheets": "ExcelFile",
    "byref_sandbox.language.waiting": "_Gathered",
    "byref_sandbox.language.locks": """Queue PriorityQueue LifoQueue Lock Event Semaphore BoundedSemaphore Condition Barrier
        _Waiters""",
    "configparser": "Interpolation BasicInterpolation ExtendedInterpolation",
    "calendar": "Calendar TextCalendar HTMLCalendar",
    "contextlib": "closing nullcontext suppress",
    "csv": "DictWriter",
    "datetime": "datetime date time timedelta timezone",
    "dateutil.relativedelta": "relativedelta",
    "dateutil.rrule": "rrule rruleset weekday",
    "dateutil.tz": "tzutc tzoffset",
    "decimal": "Decimal Context",
    "fractions": "Fraction",
    "difflib": "Differ Match SequenceMatcher",
    "functools": "partial",
    "io": "StringIO BytesIO",
    "ipaddress": "IPv4Address IPv6Address IPv4Network IPv6Network IPv4Interface IPv6Interface",
    "json": "JSONEncoder",
    "logging": "LogRecord",
    "operator": "itemgetter",
    "pathlib": "PurePosixPath PureWindowsPath",
    "random": "Random",
    "re": "Pattern",
    "statistics": "NormalDist",
    "string": "Template",
    "textwrap": "TextWrapper",
    "time": "struct_time",
    "types": "GenericAlias UnionType",
    "typing": "_GenericAlias _LiteralGenericAlias _CallableGenericAlias _AnnotatedAlias _ConcatenateGenericAlias",
    "typing ": "_UnionGenericAlias" if sys.version_info < (3, 14) else "",  # since then a union is a types.UnionType
    "urllib.parse": "ParseResult SplitResult DefragResult ParseResultBytes SplitResultBytes DefragResultBytes",
    "uuid": "UUID",
    "warnings": "WarningMessage",
    "xml.etree.ElementTree": "Element QName",
    "zipfile": "ZipInfo",
    "numpy": "dtype matrix recarray poly1d vectorize",
    "numpy.char": "chararray",
    "numpy.ma": "MaskedArray",
    "numpy.polynomial": "Polynomial Chebyshev Legendre Hermite HermiteE Laguerre",
    "numpy.random": "Generator PCG64 PCG64DXSM MT19937 Philox SFC64 RandomState SeedSequence",
    "numpy.random.bit_generator": "SeedSequence",
    "pandas": """DataFrame Series Index RangeIndex MultiIndex DatetimeIndex PeriodIndex TimedeltaIndex CategoricalIndex
        IntervalIndex Timestamp Timedelta Period Interval Categorical CategoricalDtype DatetimeTZDtype StringDtype
        PeriodDtype IntervalDtype SparseDtype Int8Dtype Int16Dtype Int32Dtype Int64Dtype UInt8Dtype UInt16Dtype
        UInt32Dtype UInt64Dtype Float32Dtype Float64Dtype BooleanDtype ArrowDtype Flags NamedAgg Grouper""",
    "pandas.core.arrays": """BooleanArray FloatingArray IntegerArray DatetimeArray TimedeltaArray PeriodArray IntervalArray
        SparseArray StringArray ArrowExtensionArray ArrowStringArray NumpyExtensionArray""",
    "pandas.core.arrays.string_": "StringArray StringDtype",
    "pandas.core.arrays.string_arrow": "ArrowStringArray",
    "pandas.core.dtypes.dtypes": "NumpyEADtype",
    "pandas.core.flags": "Flags",
    "pandas.core.groupby.generic": "DataFrameGroupBy SeriesGroupBy",
    "pandas.core.groupby.grouper": "Grouping",
    "pandas.core.groupby.ops": "BaseGrouper BinGrouper",
    "pandas.core.resample": """DatetimeIndexResampler PeriodIndexResampler TimedeltaIndexResampler TimeGrouper
        DatetimeIndexResamplerGroupBy PeriodIndexResamplerGroupBy TimedeltaIndexResamplerGroupBy DatetimeIndexResamplerGroupby
        PeriodIndexResamplerGroupby TimedeltaIndexResamplerGroupby""",
    "pandas.core.window.ewm": "ExponentialMovingWindow ExponentialMovingWindowGroupBy ExponentialMovingWindowGroupby",
    "pandas.core.window.expanding": "Expanding ExpandingGroupBy ExpandingGroupby",
    "pandas.core.window.rolling": "Rolling Window RollingGroupBy RollingGroupby",
    "pandas.core.indexers.objects": "GroupByIndexer GroupbyIndexer FixedForwardWindowIndexer VariableOffsetWindowIndexer",
    "pandas._libs.sparse": "IntIndex BlockIndex",
    "pandas.core.internals.blocks": "NumpyBlock ExtensionBlock DatetimeLikeBlock NDArrayBackedExtensionBlock DatetimeTZBlock",
    "pandas.core.internals.managers": "BlockManager SingleBlockManager",
    "pandas.io.formats.printing": "PrettyDict",
    "pandas.tseries.frequencies": "BaseOffset",
    "pandas.tseries.holiday": "Holiday",
    "pyarrow.lib": """ChunkedArray Buffer ResizableBuffer DataType DictionaryType ListType LargeListType StructType MapType
        TimestampType DurationType Decimal128Type Time32Type Time64Type Field NullArray BooleanArray StringArray
        LargeStringArray StringViewArray BinaryArray LargeBinaryArray Int8Array Int16Array Int32Array Int64Array
        UInt8Array UInt16Array UInt32Array UInt64Array FloatArray DoubleArray HalfFloatArray Date32Array Date64Array
        TimestampArray DurationArray Time32Array Time64Array Decimal128Array DictionaryArray ListArray LargeListArray
        StructArray""",
}
"""Types whose instances are taken apart by their own `__reduce_ex__`. Exactly these types: a subclass may be the code's."""

_PARTS: Final = {
    "builtins": "iter",
    "copyreg": "_reconstructor",
    "dateutil.tz.tz": "tzutc tzoffset",
    "functools": "reduce partialmethod cached_property _gt_from_lt _le_from_lt _ge_from_lt _ge_from_le _lt_from_le _gt_from_le",
    "functools ": "_lt_from_gt _ge_from_gt _le_from_gt _le_from_ge _gt_from_ge _lt_from_ge",
    "operator": "getitem or_",
    "re": "_compile",
    "struct": "Struct",
    "typing": "_overload_dummy",
    "types": "NoneType CellType MethodType MappingProxyType SimpleNamespace EllipsisType NotImplementedType",
    "uuid": "SafeUUID",
    "numpy": "ndarray",
    "numpy._core.multiarray": "scalar _reconstruct",
    "numpy._core.numeric": "_frombuffer",
    "numpy.ma.core": "_mareconstruct",
    "numpy.random._pickle": "__generator_ctor __bit_generator_ctor __randomstate_ctor",
    "numpy.random.bit_generator": "__pyx_unpickle_SeedSequence",
    "pandas._libs.arrays": "__pyx_unpickle_NDArrayBacked",
    "pandas._libs.internals": "_unpickle_block BlockPlacement",
    "pandas._libs.tslibs.nattype": "_nat_unpickle",
    "pandas._libs.tslibs.timedeltas": "_timedelta_unpickle",
    "pandas._libs.tslibs.timestamps": "_unpickle_timestamp",
    "pandas.core.indexes.base": "_new_Index",
    "pandas.core.indexes.datetimes": "_new_DatetimeIndex",
    "pandas.core.indexes.interval": "_new_IntervalIndex",
    "pandas.core.indexes.period": "_new_PeriodIndex",
    "pandas.core.indexes.timedeltas": "_new_TimedeltaIndex",
    "pyarrow.lib": "chunked_array type_for_alias _restore_array py_buffer string large_string string_view list_ large_list",
    "pyarrow.lib ": """struct map_ dictionary timestamp duration decimal128 time32 time64 field null bool_ int8 int16 int32
        int64 uint8 uint16 uint32 uint64 float16 float32 float64 utf8 binary large_binary date32 date64""",
}
"""Functions and classes that the results of these `__reduce_ex__` name. None of them makes code or opens anything."""

_TEXT_DTYPES: Final = {storage: pd.StringDtype(storage, np.nan) for storage in ("pyarrow", "python")}
"""The dtypes of pandas' own columns of text, which are one object each in a stream: for their NaN all would be written twice."""
_SINGLE: Final[Mapping[str, object]] = {
    "missing": dataclasses.MISSING,
    "kw_only": dataclasses.KW_ONLY,
    "field_factory": getattr(dataclasses, "_HAS_DEFAULT_FACTORY", dataclasses.MISSING),
    "nat": pd.NaT,
    "na": pd.NA,
    "no_default": pd.api.extensions.no_default,
    "not_implemented": NotImplemented,
    "ellipsis": ...,
    "masked": np.ma.masked,
    "nomask": np.ma.nomask,
    "any": typing.Any,
    **{f"text in {storage}": dtype for storage, dtype in _TEXT_DTYPES.items()},
    "utc": importlib.import_module("datetime").timezone.utc,
}
MATPLOTLIB: Final = "matplotlib"
_LIBRARIES: Final[Mapping[str, str]] = {
    **{name: name for name in LIBRARIES},
    **PARTS,
    **dict.fromkeys((MATPLOTLIB, "mpl_toolkits", "pylab", "cycler"), MATPLOTLIB),
}
"""By the first word of a name."""
_TEXT_AND_NUMBERS: Final = frozenset(
    {str, int, float, complex, bool, bytes, dict, list, tuple, set, frozenset, type(None)}
)


class Known:
    """The objects of one language that a stream may name, and the types that it may take apart. It is made once per process.

    Nothing in it changes after it is made, so it may be made before a fork.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.guards: Guards = language._guards
        by_name = _found(TAKEN_APART)
        by_name |= {f"dtypes:{kind.__name__}": kind for kind in map(type, map(np.dtype, np.typecodes["All"]))}
        by_name |= {f"offsets:{name}": found for name, found in vars(pd.offsets).items() if isinstance(found, type)}
        iterators: tuple[object, ...] = (iter([]), iter(()), iter(""), iter(range(0)), reversed([]))
        by_name |= {f"iterators:{type(each).__name__}": type(each) for each in iterators}
        self.taken_apart = frozenset(kind for kind in by_name.values() if isinstance(kind, type))
        """Types that are taken apart by their own `__reduce_ex__`."""
        drawn = drawings.names() if {"matplotlib.pyplot", *LIBRARIES} & language._modules.facades.keys() else {}
        self.drawn = frozenset(kind for kind in drawn.values() if isinstance(kind, type))
        """Classes that figures and models consist of; empty until their library is loaded."""
        self.figures = frozenset(
            kind for name, kind in drawn.items() if name.startswith(drawings.PREFIX) and isinstance(kind, type)
        )
        """Those of figures, which hold methods of each other."""
        self.helpers = helpers.codes()
        """The code of functions that a library makes of those of the code, and the name of what makes them."""
        self.settings = settings.before()
        logging: Any = language._modules.facades["logging"]
        paths: Any = language._modules.facades["pathlib"]
        self.taken_apart |= self.drawn | {logging.StreamHandler, paths.Path}
        by_name |= drawn | _found(_PARTS)
        for name, facade in language._modules.facades.items():
            by_name |= _of_facade(name, facade)
        by_name |= {f"builtins:{n}": v for n, v in language.builtins.items() if n[0] not in "._" and callable(v)}
        by_name |= {
            f"errors:{n}": v for n, v in vars(builtins).items() if isinstance(v, type) and issubclass(v, BaseException)
        }
        by_name |= {f"bases:{base.__module__}.{base.__qualname__}": base for base in self._bases()}
        by_name |= {f"single:{name}": one for name, one in _SINGLE.items()}
        self.by_name: Mapping[str, Any] = by_name
        # If an object has several names, the first one counts.
        self.names: Mapping[int, str] = {id(v): n for n, v in reversed(by_name.items()) if v is not None}
        self.versions = Versions(
            FORMAT,
            f"{platform.python_implementation()} {platform.python_version()} {sys.byteorder}",
            np.__version__,
            pd.__version__,
            pyarrow.__version__,
            blake3("\n".join(BUILDERS).encode()).hexdigest(length=16),
        )

    def library_of(self, name: str) -> str | None:
        """The library that is loaded only when code needs it, and without which nothing has this name."""
        if name.startswith((drawings.PREFIX, "pandas.plotting")):
            return MATPLOTLIB
        top = name.partition(":")[0].partition(".")[0]
        found: str | None = _LIBRARIES.get(top) or self.language.allowed.get(top)
        return found

    def _bases(self) -> list[Any]:
        return [base for base in (*self.guards.bases, *self.guards.enum_classes) if isinstance(base, type)]


def text_dtype(value: Any) -> Any:
    """Return the one object that stands for a dtype of text; any other value as it is."""
    return _TEXT_DTYPES[value.storage] if type(value) is pd.StringDtype and value.na_value is not pd.NA else value


def name_of_function(function: HostFunction) -> str:
    """Return the name by which a stream knows a function of the host."""
    return FUNCTIONS + function.name


def known_functions(space: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the functions of the host that a run has, by the names by which streams know them."""
    return {name_of_function(one): one for one in functions_of(space).values()}


def _of_facade(name: str, facade: Facade) -> dict[str, Any]:
    """Yield a module of the language and its contents, except texts and numbers."""
    inside = {f"{name}.{n}": v for n, v in vars(facade).items() if type(v) not in _TEXT_AND_NUMBERS}
    return {f"{name}:": facade, **inside}


def _found(listed: Mapping[str, str]) -> dict[str, Any]:
    """Return objects of modules by `module:name`, without those that this version of a library lacks."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings(action="ignore"):  # a deprecated name warns when it is read
        for module, names in listed.items():
            try:
                held = importlib.import_module(module.strip())
            except ImportError:
                continue
            for name in sorted(words(names)):
                try:
                    found[f"{module.strip()}:{name}"] = operator.attrgetter(name)(held)
                except AttributeError:
                    continue
    return found
