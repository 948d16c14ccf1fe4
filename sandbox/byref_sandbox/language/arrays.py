"""numpy's ways to look at memory, in a form that reaches no further than the array."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from byref_sandbox.code.words import words
from byref_sandbox.language.evaluation import is_variable
from byref_sandbox.language.inspecting import is_own_frame
from byref_sandbox.language.refusal import NotAllowed


class _AnyRecordArray(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, np.recarray)


class RecordArray(np.recarray[Any, Any], metaclass=_AnyRecordArray):
    """`np.recarray`, but not over memory that is there: it would use any bytes as addresses of objects."""

    def __new__(  # type: ignore[misc]
        cls,
        shape: Any,
        dtype: Any = None,
        buf: object = None,
        offset: int = 0,
        strides: object = None,
        *,
        order: Any = "C",
        **description: Any,
    ) -> np.recarray[Any, Any]:
        """Return a new array of its own memory."""
        if buf is not None or strides is not None or offset:
            raise NotAllowed("recarray() over a buffer is not available", "use np.frombuffer() and .view(np.recarray)")
        known = {name: description.pop(name, None) for name in ("formats", "names", "titles", "byteorder")}
        made: np.recarray[Any, Any] = np.recarray(
            shape, dtype, aligned=bool(description.pop("aligned", False)), order=order, **known
        )
        return made


RecordArray.__name__ = RecordArray.__qualname__ = "recarray"
RecordArray.__module__ = "numpy"


def new_array(
    shape: Any, dtype: Any = float, buffer: object = None, offset: int = 0, strides: object = None, order: Any = None
) -> Any:
    """`np.ndarray`, but over memory that is there only as `frombuffer` is, and without strides."""
    if buffer is not None and strides is None and not np.dtype(dtype).hasobject:
        lengths = tuple(map(operator.index, shape if isinstance(shape, tuple | list) else (shape,)))
        return frombuffer(buffer, dtype, math.prod(lengths), operator.index(offset)).reshape(
            lengths, order=order or "C"
        )
    if buffer is not None or strides is not None or offset:
        raise NotAllowed("ndarray() over memory of objects, or with strides, is not available", "use np.frombuffer()")
    return np.empty(shape, dtype, order or "C")


def record_array(
    obj: Any,
    dtype: Any = None,
    shape: Any = None,
    offset: int = 0,
    strides: object = None,
    formats: Any = None,
    names: Any = None,
    titles: Any = None,
    aligned: bool = False,
    byteorder: Any = None,
    copy: bool = True,
) -> Any:
    """`np.rec.array` of lists and arrays. It would use bytes, and what a file holds, as addresses of objects."""
    if not isinstance(obj, list | tuple | np.ndarray | None) or strides is not None or offset:
        raise NotAllowed(
            f"np.rec.array() of a {type(obj).__name__} is not available", "use a list of tuples, or np.frombuffer()"
        )
    return np.rec.array(
        obj, dtype, shape, formats=formats, names=names, titles=titles, aligned=aligned, byteorder=byteorder, copy=copy
    )


def matrix_of_blocks(obj: Any, ldict: Any = None, gdict: Any = None) -> Any:
    """`np.bmat`. The names in a text are those of the dicts, else variables of the code that calls this."""
    if isinstance(obj, str):
        frame = sys._getframe(1)
        if gdict is None and not is_own_frame(frame.f_globals):
            raise NotAllowed("np.bmat() of a text must be called directly", "use a list of lists")
        spaces = (
            (dict(frame.f_locals), frame.f_globals) if gdict is None else (ldict, gdict)
        )  # no dict, since Python 3.13
        obj = [
            [_variable(name, spaces) for name in row.replace(",", " ").split()] for row in str.__str__(obj).split(";")
        ]
    elif not isinstance(obj, list | tuple | np.ndarray):
        raise TypeError(f"np.bmat() takes a text, a list or an array, not {type(obj).__name__}")
    return np.bmat(obj)


def _variable(name: str, spaces: tuple[Any, ...]) -> Any:
    for space in spaces:
        if isinstance(space, dict) and is_variable(name) and name in space:
            return space[name]
    raise NameError(f"name {name!r} is not defined", name=name)


def is_field(value: Any, name: str) -> bool:
    """Whether an attribute is a field of a record or of an array of records, and nothing else."""
    if type(value) not in (np.recarray, np.record, RecordArray) or value.dtype.names is None:
        return False
    return name in value.dtype.names and not hasattr(np.recarray, name) and not hasattr(np.record, name)


def set_state(method: Callable[..., Any], _name: str = "") -> Callable[..., Any]:
    """`np.random.set_state`, which would take a place outside of the generator's numbers."""

    def call(state: Any) -> None:
        if isinstance(state, dict):
            inner = state["state"]
            parts = (
                state["bit_generator"],
                inner["key"],
                inner["pos"],
                state.get("has_gauss", 0),
                state.get("gauss", 0.0),
            )
        else:
            parts = (*state, *(0, 0.0)[len(state) - 3 :])
        name, given, at, has_gauss, gauss = parts
        key, place = np.array(given, np.uint32), operator.index(at)
        if str(name) != "MT19937" or key.shape != (624,) or not 0 <= place <= 624:
            raise NotAllowed("this is no state of MT19937", "use what get_state() returned")
        method(("MT19937", key, place, int(has_gauss), float(gauss)))

    return call


class Iterator:
    """`np.nditer`. The real one stays behind it and is never closed: views that it gave out look at memory which it holds."""

    __slots__ = ("_it",)

    def __init__(
        self,
        op: Any,
        flags: Any = (),
        op_flags: Any = None,
        op_dtypes: Any = None,
        order: Any = "K",
        casting: Any = "safe",
        op_axes: Any = None,
        itershape: Any = None,
        buffersize: int = 0,
    ) -> None:
        wanted = [str.__str__(flag) for flag in flags]
        each = [[str.__str__(flag) for flag in one] for one in (_nested(op_flags))]
        refused = sorted({*wanted, *itertools.chain.from_iterable(each)} - _ITERATOR_FLAGS)
        if refused:
            raise NotAllowed(f"np.nditer() with {refused[0]!r} is not available", "leave the flag out")
        parts = [
            np.asarray(part) if part is not None else None for part in (op if isinstance(op, list | tuple) else [op])
        ]
        if "buffered" in wanted and any(part is not None and part.dtype.hasobject for part in parts):
            raise NotAllowed("np.nditer() with 'buffered' of objects is not available", "leave the flag out")
        if op_dtypes is not None and any(np.dtype(kind).hasobject for kind in _nested(op_dtypes) if kind is not None):
            raise NotAllowed("np.nditer() of objects by op_dtypes is not available", "use array.astype(object)")
        options = {"op_dtypes": op_dtypes, "op_axes": op_axes, "itershape": itershape}
        given: Any = {name: value for name, value in options.items() if value is not None}
        make: Any = np.nditer
        self._it: Any = make(
            parts, wanted, each or None, order=order, casting=casting, buffersize=operator.index(buffersize), **given
        )

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        return next(self._it)

    def __getitem__(self, index: Any) -> Any:
        return self._it[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._it[index] = value

    def __len__(self) -> int:
        return len(self._it)

    def __getattr__(self, name: str) -> Any:
        if name not in _ITERATOR_ATTRIBUTES:
            raise AttributeError(f"'nditer' object has no attribute {name!r}", name=name)
        return getattr(self._it, name)

    def copy(self) -> Iterator:
        """Return another iterator that goes on from here."""
        made: Iterator = object.__new__(Iterator)
        made._it = self._it.copy()
        return made

    def __enter__(self) -> Iterator:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing is to be written back: no operand is a copy."""

    def close(self) -> None:
        """The same."""


Iterator.__name__ = Iterator.__qualname__ = "nditer"
Iterator.__module__ = "numpy"
_ITERATOR_FLAGS = words("""c_index f_index multi_index external_loop common_dtype grow_inner ranged reduce_ok refs_ok zerosize_ok buffered
    readonly readwrite writeonly allocate no_broadcast no_subtype nbo aligned contig""")
"""Without `copy`, `updateifcopy` and `delay_bufalloc`: nothing is left to be written when an iterator is closed."""
_ITERATOR_ATTRIBUTES = words("""finished has_index has_multi_index index iterindex iternext iterrange itersize itviews multi_index ndim
    nop operands reset shape value dtypes""")


def _nested(given: Any) -> list[Any]:
    """Return what is given for each operand as a list: one for all may be given alone."""
    if given is None:
        return []
    parts = list(given) if isinstance(given, list | tuple) else [given]
    return [parts] if parts and isinstance(parts[0], str) and parts[0] in _ITERATOR_FLAGS else parts


def check_buffer(buffer: Any, what: str) -> None:
    """Raise NotAllowed of a buffer of objects: bytes that are written there would be used as addresses."""
    array = buffer if isinstance(buffer, np.ndarray) else np.asarray(memoryview(buffer))
    if array.dtype.hasobject:
        raise NotAllowed(f"{what} of objects is not available", "use array.tolist(), or np.array(list, dtype=...)")


def frombuffer(buffer: Any, *arguments: Any, **options: Any) -> Any:
    """`np.frombuffer`, but not of buffers of objects."""
    check_buffer(buffer, "frombuffer()")
    return np.frombuffer(buffer, *arguments, **options)


def chararray(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return `np.char.chararray` over memory of its own."""

    def make(shape: Any, itemsize: int = 1, unicode: bool = False, *, order: Any = "C") -> Any:
        return real(shape, itemsize, unicode, order=order)

    return make


def resize(method: Callable[..., Any], _name: str) -> Callable[..., Any]:
    """`array.resize`, but only of an array that one variable holds and nothing else: any other holder would point to freed memory.

    numpy's own check accepts one more holder, which may be a view.
    """

    def call(*shape: Any, refcheck: bool = True) -> None:
        lengths = [tuple(map(operator.index, n)) if isinstance(n, tuple | list) else operator.index(n) for n in shape]
        frame = sys._getframe(1)
        array = method.__self__  # type: ignore[attr-defined]
        references = sys.getrefcount(array)
        if references > _OF_ONE_VARIABLE or not _is_held(array, frame):
            raise NotAllowed(
                "this array cannot be resized: more than one variable holds it", "use np.resize(array, shape)"
            )
        method(*lengths, refcheck=False)

    return call


def check_reshaped(array: Any, references: int, frame: types.FrameType) -> None:
    """Raise NotAllowed unless one variable of `frame` holds an array and nothing else: an index over it would keep its old length."""
    most = _OF_ONE_VARIABLE_SET if not _BORROWS else 1 if _is_fast(array, frame) else 2
    if references > most or not _is_held(array, frame):
        raise NotAllowed(
            "the shape of this array cannot be set: more than one variable holds it", "use array.reshape(shape)"
        )


def _is_held(array: Any, frame: types.FrameType) -> bool:
    spaces = (frame.f_globals, frame.f_locals)
    return is_own_frame(frame.f_globals) and any(value is array for space in spaces for value in space.values())


def _is_fast(array: Any, frame: types.FrameType) -> bool:
    """Whether a local variable of a function holds an array: one that no inner function shares."""
    code = frame.f_code
    return any(frame.f_locals.get(name) is array for name in {*code.co_varnames} - {*code.co_cellvars})


_BORROWS = sys.version_info >= (3, 14)
"""Whether Python calls a function with a local variable of the caller without counting a reference of the argument's own.

Other variables still count twice: once themselves, once as the argument. C code that calls back counts as well, so whoever
is called back by what works on the array sees one reference more, whichever variable leads there.
"""
_OF_ONE_VARIABLE = 3 if _BORROWS else 4
"""References to an array while `resize` runs: of the variable, the method, the local name, and the count itself."""
_OF_ONE_VARIABLE_SET = 4
"""References to an array whose attribute is set: of the variable, the caller, the check, and the count itself."""


def as_strided(
    x: Any,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    subok: bool = False,
    writeable: bool = True,
) -> Any:
    """`np.lib.stride_tricks.as_strided` within the memory of `x`; raise NotAllowed beyond it, and of arrays of objects."""
    array = np.array(x, copy=None, subok=False)
    if array.dtype.hasobject:
        raise NotAllowed("as_strided() of objects is not available", "use slices")
    lengths = array.shape if shape is None else tuple(operator.index(n) for n in shape)
    steps = array.strides if strides is None else tuple(operator.index(n) for n in strides)
    if len(lengths) != len(steps) or min(lengths, default=0) < 0:
        raise ValueError("shape and strides must be of the same length, and no length negative")
    start = array.__array_interface__["data"][0]
    first, end = np.lib.array_utils.byte_bounds(array)
    reach = [(n - 1) * step for n, step in zip(lengths, steps, strict=True)]
    before = start + sum(min(0, distance) for distance in reach)
    after = start + sum(max(0, distance) for distance in reach) + array.itemsize
    if 0 not in lengths and (before < first or after > end):
        raise NotAllowed("as_strided() cannot look beyond its array", "use np.lib.stride_tricks.sliding_window_view()")
    return np.lib.stride_tricks.as_strided(array, lengths, steps, writeable=bool(writeable))


# Memory that compiled code trusts ------------------------------------------------------------------------------------------


MEMORY: dict[str, Callable[[Any], Any]] = {}
"""Functions that return what code gets of a value's attribute, by the attribute's name."""


def _of(*kinds: type) -> Callable[[Callable[[Any, Any], Any]], Callable[[Any], Any]]:
    """Enter a function in MEMORY under its own name, which is an attribute's.

    It gets a value of these kinds and its attribute, and returns what code gets. Values of other kinds have the attribute as it is.
    """

    def enter(replace: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        def had(value: Any) -> Any:
            found = getattr(value, replace.__name__)
            return replace(value, found) if isinstance(value, kinds) else found

        MEMORY[replace.__name__] = had
        return had

    return enter


@_of(np.ndarray)
def setflags(value: Any, method: Any) -> Any:
    """`array.setflags`, but it makes nothing writable: pandas gives out its own arrays as read-only views."""

    def call(write: Any = None, align: Any = None, uic: Any = None) -> None:
        if write and not value.flags.writeable:
            raise NotAllowed("setflags(write=True) is not available: the array is read-only", _COPY)
        method(write=None if write is None else bool(write), align=align, uic=uic)

    return call


class ArrayFlags:
    """`array.flags`, but it makes nothing writable either: the real one can be set by items."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any] | np.generic) -> None:
        self._array = array

    @property
    def writeable(self) -> bool:
        """Whether the array may be written to; setting it is `setflags`."""
        return bool(self._array.flags.writeable)

    @writeable.setter
    def writeable(self, value: object) -> None:
        setflags(self._array)(write=value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._array.flags, name)

    def __getitem__(self, key: Any) -> Any:
        return self._array.flags[key]

    def __setitem__(self, key: str, value: object) -> None:
        if key not in ("W", "WRITEABLE"):
            raise NotAllowed(f"flags[{str(key)[:60]!r}] cannot be set", "set flags.writeable, or copy the array")
        self.writeable = value

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._array.flags)


@_of(np.ndarray, np.generic)
def flags(value: Any, _real: Any) -> Any:
    """`array.flags` as `ArrayFlags`."""
    return ArrayFlags(value)


@_of(np.ndarray)
def base(value: Any, found: Any) -> Any:
    """`array.base`, unless the array is a read-only view of one that is not."""
    if found is not None and not isinstance(found, np.ndarray | bytes):
        return None  # an iterator, whose views look at memory that it holds
    if isinstance(found, np.ndarray) and found.flags.writeable > value.flags.writeable:
        raise NotAllowed(".base of a read-only array is not available", _COPY)
    return found


@_of(np.ufunc)
def at(_ufunc: Any, method: Any) -> Any:
    """`ufunc.at`, with a check whether the array may be written to, which numpy forgets."""

    def call(a: Any, indices: Any, *b: Any) -> None:
        if isinstance(a, np.ndarray) and not a.flags.writeable:
            raise ValueError("output array is read-only")
        method(a, indices, *b)

    return call


@_of(object)
def from_codes(value: Any, make: Any) -> Any:
    """`pd.Categorical.from_codes`, but it copies the codes and always checks them."""
    if not issubclass(value if isinstance(value, type) else type(value), pd.Categorical):
        return make

    def call(codes: Any, categories: Any = None, ordered: Any = None, dtype: Any = None, validate: bool = True) -> Any:
        return make(codes, categories=categories, ordered=ordered, dtype=dtype).copy()

    return call


def multi_index(*arguments: Any, **options: Any) -> pd.MultiIndex:
    """`pd.MultiIndex`, but it copies the codes and always checks them."""
    given = _MULTI_INDEX.bind(*arguments, **options).arguments
    return pd.MultiIndex(**{**given, "codes": _own_codes(given.get("codes")), "verify_integrity": True})


@_of(pd.MultiIndex)
def set_codes(_index: Any, method: Any) -> Any:
    """`index.set_codes`, but it always checks the codes."""

    def call(codes: Any, *, level: Any = None, verify_integrity: bool = True) -> Any:
        made = method(_own_codes(codes), level=level)
        lengths = [len(part) for part in made.codes]
        if len(set(lengths)) > 1:  # pandas checks only the levels that are set
            raise ValueError(f"Unequal code lengths: {lengths}")
        return made

    return call


@_of(pd.MultiIndex)
def set_levels(_index: Any, method: Any) -> Any:
    """`index.set_levels`, but it always checks the codes."""

    def call(levels: Any, *, level: Any = None, verify_integrity: bool = True) -> Any:
        return method(levels, level=level)

    return call


@_of(pd.MultiIndex)
def codes(_index: Any, found: Any) -> Any:
    """`index.codes` as a new list of views: the real list, and the shapes of its arrays, could be changed."""
    return type(found)(part.view() for part in found)


@_of(pd.MultiIndex)
def levels(_index: Any, found: Any) -> Any:
    """`index.levels` as a new list."""
    return type(found)(found)


def _own_codes(codes: Any) -> Any:
    if isinstance(codes, np.ndarray):
        return np.array(codes)
    if not pd.api.types.is_list_like(codes):
        return codes
    # Copied twice: an object with `__array__` may hold on to the array that it returns.
    return [part if isinstance(part, int | np.integer) else np.array(part).copy() for part in codes]


_MULTI_INDEX = inspect.signature(pd.MultiIndex)
_COPY = "use .copy(): a copy can be written to"
