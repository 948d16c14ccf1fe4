"""`array.array` as the language has it: indexes and values are plain numbers before C code sees them.

The real one asks a value for its `__index__` or `__float__` between looking at its own length and writing: code that runs there and
shortens the array has it write to memory that is no longer its own.
"""

from __future__ import annotations

import array as real
import operator
from collections.abc import Callable, Iterable, MutableSequence
from typing import Any

import numpy as np


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
        """The letter of the kind."""
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

    def tolist(self) -> list[Any]:
        """The numbers as a list."""
        return self._items.tolist()

    def tobytes(self) -> bytes:
        """The bytes of the numbers."""
        return self._items.tobytes()

    def tounicode(self) -> str:
        """The text of an array of characters."""
        return self._items.tounicode()

    def byteswap(self) -> None:
        """Turn the bytes of each number around."""
        self._items.byteswap()

    def reverse(self) -> None:
        """Turn the order around."""
        self._items.reverse()

    def index(self, *arguments: Any) -> int:
        """Where a value is first."""
        return self.tolist().index(*arguments)

    def count(self, value: Any) -> int:
        """How often a value is there."""
        return self.tolist().count(value)

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

    def _compared(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        return compare(self._items, other._items) if type(other) is array else NotImplemented

    def __eq__(self, other: object) -> Any:
        return self._compared(other, operator.eq)

    def __lt__(self, other: object) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: object) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: object) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: object) -> Any:
        return self._compared(other, operator.ge)

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> array:
        return self._made(self._items[:])

    def __deepcopy__(self, _memo: object) -> array:
        return self._made(self._items[:])

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._items, dtype=dtype)

    def __repr__(self) -> str:
        return repr(self._items)


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
