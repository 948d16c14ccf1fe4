"""Nodes: the kinds of value seen at each place of a parsed JSON value. `users[].id` is one place: the ids of all users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

NULL: Final = 1
BOOLEAN: Final = 2
INTEGER: Final = 4
NUMBER: Final = 8
STRING: Final = 16
ARRAY: Final = 32
OBJECT: Final = 64
CONTAINER: Final = ARRAY | OBJECT
SIMPLE: Final = NULL | BOOLEAN | INTEGER | STRING
"""Kinds that the Python type decides alone. A float is not among them, since it has to be checked for NaN and infinities."""


class Node:
    """The observations at one place: the kinds of its values, the items of its arrays, and the members of its objects."""

    __slots__ = (
        "arrays_first",
        "as_map",
        "counts",
        "is_cut",
        "is_sampled",
        "items",
        "kinds",
        "members",
        "objects",
        "required",
        "rest",
        "rest_keys",
    )

    def __init__(self) -> None:
        self.kinds = 0
        self.arrays_first = False
        """Whether an array was seen before any object."""
        self.is_cut = False
        """Whether containers at this place were skipped because they nest too deeply."""
        self.objects = 0
        """The number of objects seen."""
        self.counts: dict[str, int] | None = None
        """How many of the objects have each member; None while all objects have all members."""
        self.is_sampled = False
        """Whether further objects were matched by an expression and not counted."""
        self.as_map: Node | None = None
        """What `maps.as_map` found, once it has looked: by then all is observed."""
        self.items: Node | None = None
        self.members: dict[str, Node] = {}
        self.required: set[str] | None = None
        """Keys that every object has; None before the first object."""
        self.rest: Node | None = None
        """The values of all folded keys, as one place; None if no key was folded."""
        self.rest_keys: dict[str, None] = {}

    @property
    def is_single(self) -> bool:
        """Whether one object is all that is at this place."""
        return self.objects == 1 and not self.is_sampled

    def count(self, key: str) -> int:
        """Return how many of the objects that were seen have a member."""
        return self.objects if self.counts is None else self.counts.get(key, 0)

    def counted(self, known: int) -> dict[str, int]:
        """Return the counts of the members, to be changed; the first `known` members were in all objects if there are none yet."""
        if self.counts is None:
            self.counts = dict.fromkeys(islice(self.members, known), self.objects)
        return self.counts

    def fold(self, keys: Iterable[str], rest: Node | None = None) -> None:
        """Move the values of `keys` into one common place, `rest`, which is merged of them if it is not given."""
        nodes = [] if self.rest is None else [self.rest]
        for key in keys:
            if self.counts is not None:
                self.counts.pop(key, None)
            self.rest_keys[key] = None
            node = self.members.pop(key, None)
            if node is not None:
                nodes.append(node)
        self.rest = rest or (merge(nodes) if nodes else Node())


def places(node: Node) -> Iterator[Node]:
    """Yield the place and all places below it."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending += one.members.values()
        pending += (below for below in (one.items, one.rest) if below is not None)


def cut_at(node: Node) -> str | None:
    """Return the path to the first place, breadth first, whose containers were not read; None if there is none."""
    pending: list[tuple[Node, tuple[str, ...]]] = [(node, ())]
    for one, path in pending:
        if one.is_cut:
            return "".join(path)
        pending += ((member, (*path, f".{key}")) for key, member in one.members.items())
        pending += (
            (below, (*path, mark)) for below, mark in ((one.items, "[]"), (one.rest, ".*")) if below is not None
        )
    return None


def copied(node: Node) -> Node:
    """Return a copy whose members and counts can be changed; it shares the places below it."""
    made = Node()  # `copy.copy` takes five times as long
    made.kinds, made.arrays_first, made.is_cut, made.is_sampled = (
        node.kinds,
        node.arrays_first,
        node.is_cut,
        node.is_sampled,
    )
    made.objects, made.required = node.objects, node.required
    made.counts = None if node.counts is None else dict(node.counts)
    made.items, made.rest = node.items, node.rest
    made.members, made.rest_keys = dict(node.members), dict(node.rest_keys)
    return made


def own(node: Node) -> Node:
    """Return a copy that shares no part with another place, so that more can be read into it."""
    made = copied(node)
    made.items = None if node.items is None else own(node.items)
    made.rest = None if node.rest is None else own(node.rest)
    for key, member in node.members.items():
        made.members[key] = own(member)
    return made


Merged = dict[tuple[tuple[Node, int], ...], Node]
"""What nodes were merged to, by these and by how often each of them was there."""


def merge(nodes: Iterable[Node], known: Merged | None = None) -> Node:
    """Return one node with the observations of all nodes. They are not changed, but the result may share parts of them.

    Equal places share one node, so that many of them are merged at once, and what is `known` is not merged again.
    """
    return _merged(Counter(nodes), {} if known is None else known)


def _merged(nodes: Mapping[Node, int], known: Merged) -> Node:
    if len(nodes) == 1 and 1 in nodes.values():
        return next(iter(nodes))
    kinds = 0
    for node in nodes:
        kinds |= node.kinds
    if not kinds & CONTAINER:  # so are most places, and there is nothing else to say of them
        for node in nodes:
            if node.kinds == kinds:
                return node
    key = tuple(nodes.items())
    if (found := known.get(key)) is not None:
        return found
    merged = known[key] = Node()
    merged.kinds = kinds
    below: dict[str, dict[Node, int]] = {}
    items: dict[Node, int] = {}
    rests: dict[Node, int] = {}
    had_containers = are_counted = False
    for node, times in nodes.items():
        if not had_containers:
            merged.arrays_first, had_containers = node.arrays_first, bool(node.kinds & CONTAINER)
        merged.is_cut |= node.is_cut
        merged.is_sampled |= node.is_sampled
        if node.items is not None:
            items[node.items] = items.get(node.items, 0) + times
        merged.objects += node.objects * times
        if node.rest_keys:
            merged.rest_keys.update(node.rest_keys)
        if node.rest is not None:
            rests[node.rest] = rests.get(node.rest, 0) + times
        for name, member in node.members.items():
            if (met := below.get(name)) is None:
                below[name] = {member: times}
            else:
                met[member] = met.get(member, 0) + times
        are_counted = are_counted or bool(node.objects and node.counts is not None)
        if node.required is not None:
            merged.required = node.required if merged.required is None else merged.required & node.required
    if are_counted or any(node.objects and len(node.members) < len(below) for node in nodes):
        merged.counts = counts = dict.fromkeys(below, 0)
        for node, times in nodes.items():
            for name in node.members:
                counts[name] += times * (node.objects if node.counts is None else node.counts.get(name, 0))
    if items:
        merged.items = _merged(items, known)
    for name, members in below.items():
        if name in merged.rest_keys:
            for member, times in members.items():
                rests[member] = rests.get(member, 0) + times
            if merged.counts is not None:
                del merged.counts[name]
        elif len(members) == 1 and not (member := next(iter(members))).kinds & CONTAINER:  # as most are
            merged.members[name] = member
        else:
            merged.members[name] = _merged(members, known)
    if rests:
        merged.rest = _merged(rests, known)
    return merged
