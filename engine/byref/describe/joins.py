"""Joins: values of one place that are all among the keys of another, as `orders[].customer_id` are among `customers[].id`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from byref.describe.paths import Each, Path
from byref.describe.rows import Entries

_FIRST: Final = 8
"""Values that are looked up before all are."""
_PAIRS: Final = 4_000
"""Maximum pairs of places that are compared; if there are more, none is."""
_FEWEST: Final = 3
"""Keys that another place joins are at least so many, as are the distinct values that do, unless a name says that they belong together."""
_LARGE: Final = 100_000
"""Numbers below this are counts as well as ids: they join only if a name says so."""
_GENERIC: Final = {
    "id",
    "ids",
    "key",
    "keys",
    "name",
    "number",
    "code",
    "value",
    "url",
    "data",
    "item",
    "items",
    "type",
    "ref",
}
"""Words that say nothing about what they belong to."""
_WORDS: Final = re.compile(r"[A-Za-z][a-z]*|[A-Z]+(?![a-z])|[0-9]+")


@dataclass(slots=True, eq=False)
class Keys:
    """The values of a place that may refer to others, or be referred to: those of a column, or the keys of maps."""

    path: Path
    values: Sequence[Any]
    """Strings, or integers; of several maps, the keys that any of them has."""
    distinct: AbstractSet[Any] | None
    """The values as a set if others may refer to them: all are known, and no two are equal. Else None."""
    table: Path
    """The path of the records that the column is of."""
    is_of_maps: bool = False
    """Whether they are the keys of maps."""
    maps: Sequence[dict[str, Any] | Entries] | None = None
    """All maps whose keys they are; None for a column, or if only some were read."""


@dataclass(frozen=True, slots=True)
class Join:
    """All values of `source` are among those of `target`; if `is_equal`, each map of the source has exactly these keys."""

    source: Keys
    target: Keys
    is_equal: bool


def joins(several: Sequence[Keys]) -> Iterator[Join]:
    """Yield at most one join for each of these, to the place that suits it best."""
    targets = [keys for keys in several if keys.distinct is not None and len(keys.distinct) >= _FEWEST]
    if len(targets) * len(several) > _PAIRS:
        return
    words: dict[Keys, tuple[AbstractSet[str], AbstractSet[str]]] = {}

    def related(source: Keys, target: Keys) -> bool:
        for one in (source, target):
            if one not in words:
                words[one] = _words(one.path, 1), _words(one.path, 2)
        return not words[source][0].isdisjoint(words[target][1])

    for source in several:
        found: list[tuple[bool, int, Keys]] = []
        for target in targets:
            if _may_join(source, target):
                assert target.distinct is not None
                is_related = related(source, target)
                if (is_related or _is_telling(source.values)) and _joins(source, target.distinct):
                    found.append((not is_related, len(target.distinct), target))
        if found:
            target = min(found, key=lambda one: one[:2])[2]
            is_equal = source.maps is not None and all(one.keys() == target.distinct for one in source.maps)
            yield Join(source, target, is_equal)


def _may_join(source: Keys, target: Keys) -> bool:
    """Tell whether some of the values are found, and whether it would be news that all are."""
    known = target.distinct
    assert known is not None
    if source is target or not source.values or source.values[0] not in known or type(source.values[0]) is bool:
        return False
    if source.distinct is not None:
        if source.table == target.table and not source.is_of_maps and not target.is_of_maps:
            return False  # two names of one record
        if len(source.distinct) == len(known) and len(source.path) < len(target.path):
            return False  # it is said the other way round
    return all(value in known for value in source.values[:: -(-len(source.values) // _FIRST)])


def _joins(source: Keys, known: AbstractSet[Any]) -> bool:
    return all(value in known for value in source.values) if source.distinct is None else source.distinct <= known


def _is_telling(values: Sequence[Any]) -> bool:
    """Tell whether values are found among keys for no other reason than that they refer to them."""
    distinct = set(values[:1_000])
    if len(distinct) < _FEWEST:
        return False
    if type(values[0]) is int:
        return bool(min(distinct) >= _LARGE)
    return not all(len(value) < 2 or (value.isdecimal() and len(value) < 6) for value in distinct)


def _words(path: Path, names: int) -> AbstractSet[str]:
    """Return what the last names on a path speak of: `customer` for `customers[].customer_id`."""
    last = [step for step in path if not isinstance(step, Each)][-names:]
    words = {word.lower() for name in last for word in _WORDS.findall(name[:80])}
    return {_singular(word) for word in words} - _GENERIC


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending, kept in (
        ("sses", "ss"),
        ("uses", "us"),
        ("ches", "ch"),
        ("xes", "x"),
        ("ss", "ss"),
        ("us", "us"),
        ("s", ""),
    ):
        if word.endswith(ending):
            return word[: -len(ending)] + kept
    return word
