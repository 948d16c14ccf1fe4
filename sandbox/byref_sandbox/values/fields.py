"""The fields of dataclasses and of attrs' objects, as `asdict` has them: msgspec leaves some out, and writes what is no field."""

from __future__ import annotations

import dataclasses
import inspect
import operator
import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import Any, Final

_CONTAINERS: Final = frozenset({dict, defaultdict, OrderedDict, list, tuple, set, frozenset})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_FEW: Final = 40
"""Parts of a value that are looked at, and members of each."""
_ALIKE: Final = 4
"""Objects of one class that are looked at before others of it are passed over."""
_NONE: Final = object()


def fields_of(value: object) -> dict[str, object] | None:
    """Return the fields of a dataclass or of an attrs object that are set; None of any other value."""
    kind: Any = type(value)
    if _is_attrs(kind):
        names = [one.name for one in kind.__attrs_attrs__]
    elif _has_fields(kind):
        names = [one.name for one in dataclasses.fields(kind)]
    else:
        return None
    held = getattr(value, "__dict__", {})
    found = {name: held[name] if name in held else _not_held(value, name) for name in names}
    return {name: member for name, member in found.items() if member is not _NONE}


def _not_held(value: object, name: str) -> object:
    """Return a field that is in a slot, or the default of its class; what other descriptors would get (from a database, say) is left."""
    there = inspect.getattr_static(type(value), name, _NONE)
    if isinstance(there, types.MemberDescriptorType):
        return getattr(value, name, _NONE)
    return _NONE if hasattr(type(there), "__get__") else there


def first_parts(value: object) -> Iterator[Any]:
    """Yield some of the first containers of a value, of the first objects with fields, and of the first moments."""
    kind: type = type(value)
    is_container = kind in _CONTAINERS or issubclass(kind, OrderedDict)
    is_looked_into = is_container or kind is datetime or _has_fields(kind)
    pending: list[Any] = [value] if is_looked_into else []
    seen: Counter[type] = Counter()
    for _ in range(_FEW):
        if not pending:
            return
        one = pending.pop()
        yield one
        kind = type(one)
        members: Iterable[Any] = one
        if issubclass(kind, dict):
            members = dict.values(one)
        elif kind not in _CONTAINERS:
            members = (fields_of(one) or {}).values()
        for member in islice(members, _FEW):
            if (kind := type(member)) in _SCALARS:
                continue
            if kind in _CONTAINERS or issubclass(kind, OrderedDict):
                pending.append(member)
            elif kind is datetime:
                yield member
            elif seen[kind] < _ALIKE and _has_fields(kind):
                seen[kind] += 1
                pending.append(member)


def _is_attrs(kind: type) -> bool:
    return isinstance(getattr(kind, "__attrs_attrs__", None), tuple)  # a metaclass may answer to any name


def _has_fields(kind: type) -> bool:
    return isinstance(getattr(kind, "__dataclass_fields__", None), dict) or _is_attrs(kind)


def with_whole_minutes(moment: datetime) -> datetime:
    """Return the same moment, in UTC where its offset has seconds, as in all zones once: hardly anything reads these, and msgspec drops them."""
    offset = moment.utcoffset()
    return moment if offset is None or offset.seconds % 60 == 0 else moment.astimezone(UTC)


def is_misread(value: object) -> bool:
    """Tell whether msgspec would write other members of an object than its fields, another order, or another moment."""
    if isinstance(value, datetime):
        return with_whole_minutes(value) is not value
    if isinstance(
        value, OrderedDict
    ):  # `move_to_end` changes its order, but not that of the dict beneath, which msgspec reads
        return any(map(operator.is_not, OrderedDict.__iter__(value), dict.__iter__(value)))
    if type(value) in _CONTAINERS or (found := fields_of(value)) is None:
        return False
    slots = (name for base in type(value).__mro__ for name in base.__dict__.get("__slots__", ()))
    written = {*getattr(value, "__dict__", {}), *slots}
    if _is_attrs(type(value)):
        return {name for name in written if not name.startswith("_")} != found.keys()
    return not found.keys() <= written


def as_written(value: object) -> object:
    """Return a value of which msgspec writes what it is: with dictionaries for the objects in it where it would not."""
    return opened(value) if any(map(is_misread, first_parts(value))) else value


def opened(value: object) -> object:
    """Return dataclasses and attrs objects as dictionaries of what they hold, which may be arrays and tables, dictionaries in their
    order, and moments `with_whole_minutes`.
    """
    if (found := fields_of(value)) is not None:
        return {name: opened(member) for name, member in found.items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(map(opened, value))
    if type(value) is set or type(value) is frozenset:
        members = list(map(opened, value))
        try:
            return type(value)(members)
        except TypeError:  # it held objects, which are dictionaries now
            return members
    if isinstance(value, OrderedDict) or (type(value) in _CONTAINERS and isinstance(value, dict)):
        items = OrderedDict.items(value) if isinstance(value, OrderedDict) else value.items()
        return {key: opened(member) for key, member in items}
    if isinstance(value, datetime):
        return with_whole_minutes(value)
    return value.value if isinstance(value, Enum) else value
