"""`array.array` as the language has it: indexes and values become plain numbers before C code sees them.

The real one looks at its length, then calls a value's `__index__` or `__float__`, then writes. If that method shortens the array, the
write goes to memory that is no longer the array's.
"""

from __future__ import annotations

import array as real
import operator
from collections.abc import Callable, Iterable, MutableSequence
from typing import Any

import numpy as np


def _handed_on(name: str) -> Any:
    return lambda self: getattr(self._items, name)()


def _compared_by(compare: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: compare(self._items, other._items) if type(other) is array else NotImplemented


class array(MutableSequence[Any]):  # noqa: N801
    """A list of numbers of one kind."""

    __slots__ = ("_exact", "_items")

    def __init__(self, typecode: str, initializer: Any = (), /) -> None:
        code = str.__str__(typecode)
        self._items: real.array[Any] = real.array(code)
        self._exact: Callable[[Any], Any] = _PLAIN.get(code, operator.index)
        if isinstance(initializer, bytes | bytearray):
            self._items.frombytes(bytes(initializer))
        else:
            self.extend(initializer)

    @property
    def typecode(self) -> str:
        """The letter of the numbers' kind."""
        return self._items.typecode

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return self._items.itemsize

    def _made(self, items: real.array[Any]) -> array:
        made = array(self.typecode)
        made._items = items
        return made

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        found = self._items[_plain_index(index)]
        return self._made(found) if isinstance(found, real.array) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        plain = _plain_index(index)
        if isinstance(plain, slice):
            if type(value) is not array:
                raise TypeError(f"can only assign array (not {type(value).__name__!r}) to array slice")
            self._items[plain] = value._items
        else:
            exact = self._exact(value)
            self._items[plain] = exact

    def __delitem__(self, index: Any) -> None:
        plain = _plain_index(index)
        del self._items[plain]

    def insert(self, index: Any, value: Any) -> None:
        """Insert a number before an index."""
        place, exact = operator.index(index), self._exact(value)
        self._items.insert(place, exact)

    def append(self, value: Any) -> None:
        """Add a number at the end."""
        exact = self._exact(value)
        self._items.append(exact)

    def extend(self, values: Iterable[Any]) -> None:
        """Add numbers at the end."""
        if type(values) is array:
            self._items.extend(values._items)  # of another kind: a TypeError
        else:
            self.fromlist(list(values))

    def fromlist(self, values: list[Any]) -> None:
        """Add the numbers of a list at the end, all or none."""
        exact = real.array(self.typecode, [self._exact(value) for value in values])
        self._items.extend(exact)

    def frombytes(self, data: Any) -> None:
        """Add numbers from their bytes."""
        self._items.frombytes(bytes(data))

    # These take nothing from the code, so the real ones do it.
    tolist, tobytes, tounicode = _handed_on("tolist"), _handed_on("tobytes"), _handed_on("tounicode")
    byteswap, reverse, __repr__ = _handed_on("byteswap"), _handed_on("reverse"), _handed_on("__repr__")
    __bytes__ = tobytes

    def index(self, *arguments: Any) -> int:
        """Return the index of the first such value."""
        return int(self.tolist().index(*arguments))

    def count(self, value: Any) -> int:
        """Return how often a value occurs."""
        return int(self.tolist().count(value))

    def __add__(self, other: Any) -> array:
        return self._made(self._items + other._items) if type(other) is array else NotImplemented

    def __mul__(self, times: Any) -> array:
        return self._made(self._items * operator.index(times))

    __rmul__ = __mul__

    def __imul__(self, times: Any) -> array:
        count = operator.index(times)
        self._items *= count
        return self

    def __iadd__(self, values: Iterable[Any]) -> array:  # type: ignore[misc]
        if type(values) is not array:
            raise TypeError(f"can only extend with array (not {type(values).__name__!r})")
        self.extend(values)
        return self

    __eq__, __lt__, __le__ = _compared_by(operator.eq), _compared_by(operator.lt), _compared_by(operator.le)
    __gt__, __ge__ = _compared_by(operator.gt), _compared_by(operator.ge)
    __hash__ = None  # type: ignore[assignment]

    def __copy__(self, _memo: object = None) -> array:
        return self._made(self._items[:])

    __deepcopy__ = __copy__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._items, dtype=dtype)


def _plain_index(index: Any) -> int | slice:
    if isinstance(index, slice):
        return slice(*(None if n is None else operator.index(n) for n in (index.start, index.stop, index.step)))
    return operator.index(index)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"array item must be a unicode character, not {type(value).__name__}")
    return str.__str__(value)


_PLAIN: dict[str, Callable[[Any], Any]] = {"f": float, "d": float, "u": _text, "w": _text}
array.__module__ = "array"
