"""Groups the elements of an array, or the values of a map, by what reading them would teach; one of each group is parsed.

Records that differ in what they lack, in the order of their keys or in the lengths of their lists still have few forms: 15,000 of one
published list have 53. The compiled part reads the text of all of them, in a fifth of the time that a parser takes, and gives each
element a number for its form: its keys, the kinds of its values, and how many objects its arrays hold. So the schema and its counts
are exactly those of the whole array.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from byref.describe.columns import WIDE_KEYS, Inference
from byref.describe.nodes import Node, merge, places
from byref.jsonscan import peek
from byref.jsonscan.marks import compiled
from byref.jsonscan.parsing import parse

_PIECE: Final = 1 << 16
"""Bytes that are read at once; the last element may be longer."""
_LONGEST: Final = 1 << 20
"""Most bytes of an element: it is read, and parsed as a sample, with the interpreter's lock held."""
_LONGEST_OF_MAP: Final = 1 << 16
"""Most bytes of a member of a map: of other objects, that is where most are given up."""
_EACH: Final = 1 << 11
_MEMBER: Final = 1 << 6
"""What a group costs, and each member of its example, beside the example's bytes: in bytes that a parser reads in the same time."""

_MANY: Final = 2 * WIDE_KEYS
"""Fewest members of a map. Then all of its keys are folded; and of fewer values, what is said of all of them is worth more than the time."""
_TRIED: Final = 1 << 17
"""Bytes of an object that are read before it is given up as no map; what its groups may cost beside half of what was read."""
available: Final = compiled is not None
"""Whether byref was installed with its compiled part, without which there are no groups."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The elements of an array, or the members of a map."""

    end: int
    """The place of the closing bracket."""
    count: int
    places: Sequence[tuple[int, int]]
    """Where some of them begin and end, about `_PIECE` apart, the first one included."""
    examples: Sequence[Any]
    """A value of each group, in the order in which they come."""
    cost: int
    """What it cost to learn from the examples, in bytes that a parser reads in the same time."""
    node: Node
    """The schema of all of them, in which no key is folded."""


def read(text: bytes, start: int, most: int, keys: list[bytes] | None = None) -> Groups:
    """Read the elements of an array, the first of which begins at `start`; the text is UTF-8. `most` is the most that it may cost.

    With `keys` they are the members of an object, the JSON of whose keys is added to these.

    Raises peek.Unreadable where the text is better parsed: it is not JSON, has a key twice in one object below, too few of its
    elements are alike, or it is no map.
    """
    assert compiled is not None
    secret, longest = secrets.randbits(64), _LONGEST if keys is None else _LONGEST_OF_MAP
    counts: dict[int, int] = {}
    found: list[tuple[int, int, int]] = []
    places_: list[tuple[int, int]] = []
    at, cost, members, has_ended, known = start, 0, 0, 0, 0
    while not has_ended:
        begin, piece = at, compiled.forms(text, at, at + _PIECE, longest, secret, counts, found, keys)
        if piece is None:
            raise peek.Unreadable("an element was expected")
        at, end, its, has_ended = piece
        places_.append((begin, end))
        members += its
        cost += sum(_EACH + _MEMBER * its + end - first for first, end, its in found[known:])
        known = len(found)
        if cost > most:
            raise peek.Unreadable("too few elements are alike")
        if keys is not None and (has_ended or at - start > _TRIED):
            # Most objects are no maps, so it is given up early: as if what follows were like what was read.
            share = 1.0 if has_ended else (at - start) / (len(text) - start)
            has_scalars = text[found[0][0]] not in b"[{"
            if has_scalars or len(keys) < _MANY * share or cost > _TRIED + (at - start) // 2:
                raise peek.Unreadable("it is no map")
    examples: Any = parse(b"[%s]" % b",".join(text[first:end] for first, end, _ in found))
    inference = Inference(fold=False, plain=True)
    node = merge(dict(zip(map(inference.read, examples), counts.values(), strict=True)))
    # Of a key that an object has twice the parser keeps one, so that other objects of the group need not be like the example.
    if sum(one.count(key) for one in places(node) for key in one.members) != members:
        raise peek.Unreadable("a key is repeated")
    return Groups(at, sum(counts.values()), places_, examples, cost, node)
