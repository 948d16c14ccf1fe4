"""Records gathered from many places inside a JSON value, as one list: the pulls of all repositories, the lines of all orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple

_MANY: Final = 32
"""An object with more values that are objects is a map, as different as they are."""
_FEW: Final = 4
KEY_COLUMN: Final = "key"
"""The column with the keys of a map, in the table of its records."""


class Every(NamedTuple):
    """A step of a path that leads to every value of a map, or to every item of an array."""

    of: Literal["*", "[]"]
    """`*`: the values of a map; `[]`: the items of an array."""
    column: str = ""
    """A member that each record gets and that says which value it is from: the map's key, or the item's position. Empty: none."""
    by: str = ""
    """The member of the item whose value stands in the column instead of the position. Empty: the position."""
    cells: Sequence[str] = ()
    """Names of the cells of each item, where the items are arrays: each then leads to an object of its cells by these names."""
    skip: int = 0
    """Items at the beginning that are left out: a row that names the columns."""

    @property
    def terse(self) -> list[Any]:
        """The fields as JSON holds them, without the last ones where they are as they are by default."""
        fields: list[Any] = [*self]
        while fields[3:] and fields[-1] == Every._field_defaults[Every._fields[len(fields) - 1]]:
            fields.pop()
        return fields

    @classmethod
    def of_terse(cls, fields: Sequence[Any]) -> Every:
        """Return the step whose fields `terse` gave, as JSON gives them back."""
        of, column, by = fields[:3]
        return cls(of, column, by, tuple(fields[3]) if len(fields) > 3 else (), fields[4] if len(fields) > 4 else 0)


Step = str | int | Every


def gathering(path: Sequence[Any]) -> int:
    """Return how many steps of a path, from its start, lead to a list of records: those up to the last `Every`; 0 without one."""
    return max((at for at, step in enumerate(path, 1) if isinstance(step, list | tuple)), default=0)


def gathered(value: object, path: Sequence[Any]) -> list[Any]:
    """Return the records at a path with `Every` steps, which may also be lists with the same fields, as JSON has them.

    A record is the very object inside the value, or, where steps have columns, a copy with these members before its own; a
    member of its own of the same name stays. Where the path ends early, or leads to no object, there is no record.
    """
    found: list[tuple[dict[str, Any], Any]] = [({}, value)]
    for step in path:
        if isinstance(step, list | tuple):
            found = [each for above, one in found for each in _below(above, one, Every.of_terse(step))]
        else:
            found = [(above, one[step]) for above, one in found if type(one) is dict and step in one]
    return [{**above, **record} if above else record for above, record in found if type(record) is dict]


def _below(above: dict[str, Any], value: object, step: Every) -> list[tuple[dict[str, Any], Any]]:
    of, column, by, cells, skip = step
    if of == "*":
        if type(value) is not dict:
            return []
        return [({**above, column: key} if column else above, one) for key, one in value.items()]
    if type(value) is not list:
        return []
    if cells:
        return [(above, dict(zip(cells, row, strict=False))) for row in islice(value, skip, None) if type(row) is list]
    if not column:
        return [(above, one) for one in value]
    if not by:
        return [({**above, column: at}, one) for at, one in enumerate(value)]
    return [({**above, column: one[by]}, one) for one in value if type(one) is dict and by in one]


def is_map_of_records(value: object) -> bool:
    """Tell whether an object's keys are data and its values records: all are objects, and they are many, or alike.

    `{"ann": {"age": 7}, "bob": {"age": 8}}` is such a map, `{"user": {"name": "ann"}, "address": {"city": "Rome"}}` is none.
    Records are alike if each key is in two of them on the average, if most of their members have common keys, or if there are
    four or more, all with one key in common.
    """
    if type(value) is not dict or len(value) < 2 or not all(type(record) is dict for record in value.values()):
        return False
    counts = Counter(chain.from_iterable(value.values()))
    if not counts or len(value) > _MANY:
        return bool(counts)
    members = sum(counts.values())
    common = sum(count for count in counts.values() if 2 * count > len(value))
    in_all = len(value) >= _FEW and max(counts.values()) == len(value)
    return 2 * len(counts) <= members or 2 * common > members or in_all


def records_of(value: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of a map as a list: copies with the map's key in a first column, which is named as no member is."""
    taken = {name for record in value.values() for name in record if name.startswith(KEY_COLUMN)}
    column = unlike(KEY_COLUMN, taken)
    return [{column: key, **record} for key, record in value.items()]


def unlike(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken: the name itself, or with a number behind it."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
