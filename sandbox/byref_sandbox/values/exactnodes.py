"""The nodes that `exact` writes values as, and the tables of functions that write and read each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from byref_sandbox.jsontext import encodable
from byref_sandbox.outcome import TOO_DEEP

NUMPY_KINDS: Final = "biufcmMSU"
"""Kinds of dtypes whose arrays are written as their bytes: none of them holds addresses."""
_MAX_DEPTH: Final = 200
_INT64: Final = 2**63

WRITERS: Final[dict[type, Callable[[Any, int], Any]]] = {}
"""Writers by exact type."""
FAMILIES: Final[dict[type, Callable[[Any, int], Any]]] = {}
"""Writers by base class, for values whose exact type has none."""
READERS: Final[dict[str, Callable[..., Any]]] = {}
"""Readers by tag."""


class NotExact(ValueError):
    """The value is more than data; the message says what it is."""


# A node is None, bool, a 64-bit int, a finite or infinite float, str, bytes, or [tag, content…].


def node(value: Any, depth: int) -> Any:
    """Return the node of a value; raise NotExact. `depth` counts the containers around it."""
    kind = type(value)
    if value is None or kind in (bool, float, bytes):
        return value
    if kind is str:
        is_utf8 = value.isascii() or encodable(value) is value
        return value if is_utf8 else ["surrogates", value.encode("utf-8", "surrogatepass")]
    if kind is int:
        return value if -_INT64 <= value < _INT64 else ["int", hex(value)]
    if depth > _MAX_DEPTH:
        raise NotExact(TOO_DEEP)
    write = WRITERS.get(kind)
    if write is not None:
        return write(value, depth + 1)
    if isinstance(value, np.generic) and value.dtype.kind in NUMPY_KINDS:
        return ["scalar", value.dtype.str, value.tobytes()]
    for base, write_any in FAMILIES.items():
        if isinstance(value, base):
            return write_any(value, depth + 1)
    name: str = type.__dict__["__name__"].__get__(kind)
    raise NotExact(f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name[:60]}")


def value_of(node: Any) -> Any:
    """Return the value of a node; raise LookupError, TypeError or ValueError of one that `node` did not make."""
    if type(node) is not list:
        return node
    return READERS[node[0]](*node[1:])


def nodes(values: Any, depth: int) -> list[Any]:
    """Return the nodes of several values."""
    return [node(value, depth) for value in values]


def pairs(value: Any, depth: int) -> list[Any]:
    """Return the nodes of a mapping as a flat list: key, value, key, value…"""
    return [node(part, depth) for item in value.items() for part in item]


def from_pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    """Return the keys and values of a list that `pairs` made."""
    values = [value_of(node) for node in flat]
    return list(zip(values[::2], values[1::2], strict=True))
