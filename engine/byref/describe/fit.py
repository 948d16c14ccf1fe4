"""The JSON Schema of a node: whole, or generalised until it fits a budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from byref.describe.jsontext import compact, encodable
from byref.describe.maps import fold, overlap
from byref.describe.nodes import ARRAY, BOOLEAN, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, STRING, Node, merge
from byref.describe.room import example_shares, shares
from byref.describe.search import ENOUGH, most_within

_TYPES: Final = (
    (BOOLEAN, "boolean"),
    (INTEGER, "integer"),
    (NULL, "null"),
    (NUMBER, "number"),
    (STRING, "string"),
)
_SINGLE: Final = dict(_TYPES)
_ALIKE: Final = 4
"""Minimum members of one kind that may be folded into one shape."""
_STUB: Final = 18
"""Characters of the smallest schema worth showing, `{"type":"string"}`."""
_NOTE: Final = 40
"""Characters reserved for the `description` that names omissions."""
_NAMED: Final = 60
"""Maximum characters of the keys that are named as examples of folded ones."""
GUESS: Final = 4
"""Characters of a schema per token for the first try; measuring corrects it."""
_MOST: Final = 3
"""No schema has as many times more characters per token: one that is larger than this allows cannot fit and is not rendered."""

_Json = dict[str, Any]


class _Candidate(NamedTuple):
    schema: _Json
    tokens: int

    @classmethod
    def of(cls, schema: _Json, measure: Callable[[str], int]) -> _Candidate:
        return cls(schema, measure(compact(schema)))


def render(node: Node, *, required: bool = True) -> _Json:
    """Return the schema of all values of the node, as genson writes it; folded keys become `additionalProperties`.

    Without `required` it does not say which keys every object has.
    """
    name = _SINGLE.get(node.kinds)
    if name is not None:
        return {"type": name}
    types = _types(node)
    shapes: list[_Json] = []
    for kind in _containers(node):
        shape = _render_array(node, required) if kind is ARRAY else _render_object(node, required)
        if len(shape) == 1:
            types.append(shape["type"])
        else:
            shapes.append(shape)
    return _combine(types, shapes)


def fit(
    node: Node,
    budget: int,
    measure: Callable[[str], int],
    *,
    head: _Json,
    is_terse: bool = False,
    guess: int = GUESS,
    enough: float = ENOUGH,
    whole: int = 0,
) -> _Json:
    """Return the most detailed schema of at most `budget` tokens; a complete schema begins with the members of `head`.

    A terse schema says which keys are required only if all of it fits. `guess` is about how many characters a token has;
    a schema that takes `enough` of the budget, a share, is detailed enough. One that has about `whole` characters or fewer is
    not cut, whatever the budget.
    Keys with lone surrogates are folded, because strict JSON text cannot hold them. Raises ValueError if not even `{}` fits.
    """
    try:
        return _fit(node, budget, measure, head, is_terse, guess, enough, whole)
    except UnicodeEncodeError:
        return _fit(_encodable(node), budget, measure, {}, is_terse, guess, enough, whole)


def _fit(
    node: Node,
    budget: int,
    measure: Callable[[str], int],
    head: _Json,
    is_terse: bool,
    guess: int,
    enough: float,
    whole: int,
) -> _Json:
    fitting = _Fitting(required=not is_terse)
    # Rendering and counting tokens are slow for huge schemas, so an estimate in characters decides whether to try at all.
    size = fitting.size(node)
    most = _MOST * guess * budget
    if size <= max(most, whole):
        full = {**head, **render(node)}
        if size <= whole or measure(compact(full)) <= budget:
            return full
    high = min(size, most)
    found = most_within(
        budget,
        room=min(guess * budget, high),
        high=high,
        make=lambda room: _Candidate.of(fitting.cut(node, room), measure),
        whole=lambda _: False,
        enough=enough,
    )
    if found is not None:
        return found.schema
    for schema in (fitting.cut(node, 0), {}):
        if measure(compact(schema)) <= budget:
            return schema
    raise ValueError(f"a budget of {budget} tokens holds no schema at all; give at least 50")


def _encodable(node: Node) -> Node:
    """Fold, at every level, keys that hold lone surrogates."""
    node = fold(node, [key for key in node.members if encodable(key) != key])
    for key, member in node.members.items():
        node.members[key] = _encodable(member)
    if node.items is not None:
        node.items = _encodable(node.items)
    if node.rest is not None:
        node.rest = _encodable(node.rest)
    return node


class _Fitting:
    """The state of one fitting: the sizes of nodes, and nodes with folded keys, are computed once and shared by all tries."""

    def __init__(self, *, required: bool) -> None:
        self._with_required = required
        self._sizes: dict[Node, int] = {}
        self._folded: dict[Node, Node] = {}

    def size(self, node: Node) -> int:
        """Estimate how many characters the node's schema takes as compact JSON."""
        known = self._sizes.get(node)
        if known is not None:
            return known
        size = _STUB + 9 * (node.kinds & ~CONTAINER).bit_count()
        if node.items is not None:
            size += 26 + self.size(node.items)
        if node.kinds & OBJECT:
            size += 33
            for key, member in node.members.items():
                size += len(key) + 4
                size += self.size(member) if member.kinds & CONTAINER else _STUB + 9 * member.kinds.bit_count()
            if self._with_required and node.required:  # of a map these may be a hundred thousand
                size += sum(map(len, node.required)) + 3 * len(node.required)
            if node.rest is not None:
                size += 25 + _NOTE + _NAMED + self.size(node.rest)
        self._sizes[node] = size
        return size

    def cut(self, node: Node, room: int) -> _Json:
        """Return a schema of the node in about `room` characters."""
        if self.size(node) <= room:
            return render(node, required=self._with_required)
        types = _types(node)
        shapes: list[_Json] = []
        containers = _containers(node)
        room -= 9 * len(types)
        granted = shares(len(containers), room, lambda i, _: self._size_of(node, containers[i]))
        for kind, share in zip(containers, granted, strict=True):
            shape = self._cut_array(node, share) if kind is ARRAY else self._cut_object(node, share)
            if len(shape) == 1:
                types.append(shape["type"])
            else:
                shapes.append(shape)
        return _combine(types, shapes)

    def _size_of(self, node: Node, kind: int) -> int:
        if kind is ARRAY:
            return 26 + (self.size(node.items) if node.items is not None else 0)
        return self.size(node) - (26 + self.size(node.items) if node.items is not None else 0)

    def _cut_array(self, node: Node, room: int) -> _Json:
        if node.items is None or not node.items.kinds:
            return {"type": "array"}
        left = room - 26
        if left >= _STUB:
            return {"type": "array", "items": self.cut(node.items, left)}
        return {"type": "array", "description": "items not shown"} if left >= 10 else {"type": "array"}

    def _cut_object(self, node: Node, room: int) -> _Json:
        if self._size_of(node, OBJECT) <= room:
            return _render_object(node, self._with_required)
        # First members that share a shape become one; only then members are left out, because that loses more.
        node = self._fold_alike(node)
        if self._size_of(node, OBJECT) <= room:
            return _render_object(node, self._with_required)
        keys = list(node.members)
        left = room - 33
        if left < _NOTE // 2:
            return {"type": "object"}
        required = self._required(node, left)
        left -= sum(len(key) + 3 for key in required)
        rest, rest_keys = node.rest, node.rest_keys
        shown = keys
        if sum(len(key) + 4 + _STUB for key in keys) > left:
            left -= _NOTE
            shown = list(_affordable(keys, left - (left // 3 if rest is not None else 0)))
            required = []
            cut = fold(node, keys[len(shown) :])
            rest, rest_keys = cut.rest, cut.rest_keys
        elif rest is not None:
            left -= _NOTE
        asking = [node.members[key] for key in shown]
        if rest is not None:
            asking.append(rest)
        left -= sum(len(key) + 4 for key in shown)
        granted = example_shares(len(asking), left, lambda i, _: self.size(asking[i]), few=_ALIKE - 1)
        schema: _Json = {"type": "object"}
        if shown:
            schema["properties"] = {
                key: self.cut(node.members[key], share) for key, share in zip(shown, granted, strict=False)
            }
        if required:
            schema["required"] = required
        if rest is not None:
            if granted[-1] >= _STUB:
                schema["additionalProperties"] = self.cut(rest, granted[-1] - 25)
            schema["description"] = _describe(rest_keys, named=granted[-1] > 2 * _NAMED, more=bool(shown))
        return schema

    def _required(self, node: Node, room: int) -> list[str]:
        if not self._with_required:
            return []
        # The list of required keys repeats their names, so it is shown only if it takes at most a quarter of the room.
        names = sorted((node.required or set()) & node.members.keys())
        return names if 4 * sum(len(key) + 3 for key in names) <= room else []

    def _fold_alike(self, node: Node) -> Node:
        """Fold members that share a shape, if that saves at least half of their size."""
        known = self._folded.get(node)
        if known is not None:
            return known
        groups: dict[int, list[str]] = defaultdict(list)
        # A key that each of several objects has is the name of a field; a key that only some have may be data.
        names = node.required or set() if node.objects > 1 else set()
        for key, member in node.members.items():
            if member.kinds in (ARRAY, OBJECT) and key not in names:
                groups[member.kinds].append(key)
        folded = node
        for keys in groups.values():
            if len(keys) < _ALIKE or not overlap([node.members[key] for key in keys]):
                continue
            members = [node.members[key] for key in keys]
            merged = _rest_of(node, keys) or merge(members)
            if 2 * self.size(merged) <= sum(map(self.size, members)):
                folded = fold(folded, keys, merged if folded is node and node.rest is None else None)
        self._folded[node] = folded
        return folded


def _rest_of(node: Node, keys: Sequence[str]) -> Node | None:
    """Return the members of these keys as one place, if the node as a map has just these folded."""
    mapped = node.as_map
    return mapped.rest if mapped is not None and node.rest is None and list(mapped.rest_keys) == keys else None


def _types(node: Node) -> list[str]:
    kinds = node.kinds
    if kinds & NUMBER:
        kinds &= ~INTEGER
    return [name for kind, name in _TYPES if kinds & kind]


def _containers(node: Node) -> list[int]:
    found = [kind for kind in (OBJECT, ARRAY) if node.kinds & kind]
    return found[::-1] if node.arrays_first else found


def _combine(types: list[str], shapes: list[_Json]) -> _Json:
    if types:
        shapes.insert(0, {"type": types[0] if len(types) == 1 else sorted(types)})
    if len(shapes) == 1:
        return shapes[0]
    return {"anyOf": shapes} if shapes else {}


def _render_array(node: Node, required: bool) -> _Json:
    if node.items is None or not node.items.kinds:
        return {"type": "array", **_below(node)}
    return {"type": "array", "items": render(node.items, required=required)}


def _render_object(node: Node, required: bool) -> _Json:
    schema: _Json = {"type": "object", **_below(node)}
    if node.members:
        properties = {}
        for key, member in node.members.items():
            properties[key] = render(member, required=required)
        schema["properties"] = properties
    if node.required and required:
        names = node.required if node.rest is None else node.required & node.members.keys()
        if names:
            schema["required"] = sorted(names)
    if node.rest is not None:
        schema["additionalProperties"] = render(node.rest, required=required)
        schema["description"] = _describe(node.rest_keys, named=True, more=bool(node.members))
    return schema


def _below(node: Node) -> _Json:
    """Return the members by which a schema says that containers were not read because they nest too deeply."""
    return {"description": "nested too deeply to be described"} if node.is_cut else {}


def _describe(keys: dict[str, None], *, named: bool, more: bool) -> str:
    text = f"{len(keys):,} {'more ' if more else ''}{'key' if len(keys) == 1 else 'keys'}"
    if not named:
        return text
    names, room = [], _NAMED
    for key in islice(keys, 8):
        room -= len(key) + 2
        if room < 0:
            break
        names.append(encodable(key))
    if not names:
        return text
    return f"{text}: {', '.join(names)}" + (", ..." if len(names) < len(keys) else "")


def _affordable(keys: Iterable[str], room: int) -> Iterable[str]:
    for key in keys:
        room -= len(key) + 4 + _STUB
        if room < 0:
            return
        yield key
