"""Maps among the objects of a value: objects whose keys are data, like ids, dates or names, so that one shape describes all values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from byref.describe.columns import FEW_OBJECTS, MAP_KEYS, WIDE_KEYS
from byref.describe.nodes import ARRAY, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, Node, copied

_ALIKE: Final = 4
"""Minimum members of one shape that make a map; two, if all keys look like data."""
_SCALARS: Final = 8
"""Minimum scalar members of one kind that make a map, if most keys look like data."""
_MANY: Final = 32
"""Scalar members of one kind from which on a single object is a map, whatever its keys are."""
_RARE: Final = 16
"""Minimum scalar members of one kind that make a map, if only some of several objects have each."""
_LONG_KEY: Final = 40


def as_map(node: Node) -> Node:
    """Return the node with members that are data folded into one place, `rest`; the node itself if there are none.

    Values that share a shape are data, unless their keys belong to each of several objects, as the names of fields do.
    """
    if node.as_map is None:
        node.as_map = _as_map(node)
    return node.as_map


def _as_map(node: Node) -> Node:
    if not node.members:
        return node
    required = node.required or frozenset[str]()
    alike: defaultdict[int, list[str]] = defaultdict(list)
    for key, member in node.members.items():
        if node.is_single or key not in required or looks_like_data(key):
            kinds = member.kinds & ~NULL
            alike[NUMBER if kinds and not kinds & ~(INTEGER | NUMBER) else kinds].append(key)
    folded = [
        key
        for kinds, keys in alike.items()
        for key in (keys if _are_data(node, kinds, keys) else [key for key in keys if _is_one_more(node, key)])
    ]
    return fold(node, folded) if folded else node


def _is_one_more(node: Node, key: str) -> bool:
    """Tell whether a member, an array or object, is one more value of the map whose other keys were folded while reading.

    It was not folded then because it is of a map with few keys, or because its key is in most of several maps.
    """
    rest, member = node.rest, node.members[key]
    while rest is not None and rest.kinds & ~NULL == member.kinds & ~NULL == ARRAY and member.items is not None:
        rest, member = rest.items, member.items
    if rest is None or not rest.kinds & ~NULL == member.kinds & ~NULL == OBJECT:
        return False
    return 2 * len(member.members.keys() & rest.members.keys()) > len(member.members)


def fold(node: Node, keys: Sequence[str], rest: Node | None = None) -> Node:
    """Return a copy of the node with these keys folded; `rest` is what becomes of them, if that is known."""
    folded = copied(node)
    if keys:
        folded.fold(keys, rest)
    return folded


def folded(node: Node, known: dict[Node, Node] | None = None) -> Node:
    """Return a node that was read without folding as it would be if all its objects had been read at once with folding.

    It is the node itself where no key is folded. Equal places share one node, so what is `known` is not folded again.
    """
    known = {} if known is None else known
    if (found := known.get(node)) is not None:
        return found
    keys = _rare(node)
    one = fold(node, keys) if keys else node
    items, rest = (None if below is None else folded(below, known) for below in (one.items, one.rest))
    members = {key: folded(member, known) for key, member in one.members.items()}
    if items is not one.items or rest is not one.rest or any(members[key] is not one.members[key] for key in members):
        one = copied(one)
        one.items, one.rest, one.members = items, rest, members
    known[node] = one
    return one


def _rare(node: Node) -> list[str]:
    """Return the keys to fold: `Inference._foldable` decides the same of the objects that it reads at once."""
    if len(node.members) <= MAP_KEYS:
        return []
    few = FEW_OBJECTS if len(node.members) > WIDE_KEYS else 1
    rare = [key for key in node.members if node.objects <= few or 2 * node.count(key) <= node.objects]
    if len(rare) > WIDE_KEYS:
        return rare
    of_kind = {kind: [key for key in rare if node.members[key].kinds & CONTAINER == kind] for kind in (OBJECT, ARRAY)}
    return [key for keys in of_kind.values() if len(keys) > MAP_KEYS for key in keys]


def overlap(nodes: Sequence[Node]) -> bool:
    """Tell whether the nodes may share a shape: folding them would save at least half of the keys directly below them.

    It is a quick test, made before the nodes are merged.
    """
    while nodes and all(node.items is not None for node in nodes):
        nodes = [node.items for node in nodes if node.items is not None]
    keys = [key for node in nodes for key in node.members]
    rests = sum(node.rest is not None for node in nodes)
    if not keys and not rests:  # columns, say: a list of numbers, one of texts, one of lists
        kinds = {node.kinds & ~NULL for node in nodes}
        return len({NUMBER if kind and not kind & ~(INTEGER | NUMBER) else kind for kind in kinds} - {0}) <= 1
    return 2 * (len(set(keys)) + (rests > 0)) <= max(len(keys) + rests, 2)


def looks_like_data(key: str) -> bool:
    """Tell whether a key is rather an id, a date, a version, a path or a text than the name of a field."""
    if len(key) > _LONG_KEY:
        return True
    if key.replace("_", "").isalpha():  # as the names of most fields are
        return False
    return key[:1].isdigit() or "/" in key or "@" in key or ":" in key or sum(map(str.isdigit, key)) > 2


def _has_scalars(node: Node) -> bool:
    """Tell whether a place has only arrays, and only scalars in these, so that no shape is shared: lists with names are fields."""
    return node.kinds & ~NULL == ARRAY and (node.items is None or not node.items.kinds & CONTAINER)


def _are_data(node: Node, kinds: int, keys: Sequence[str]) -> bool:
    like_data = sum(map(looks_like_data, keys))
    if node.rest is not None and kinds and kinds == node.rest.kinds & ~NULL and 2 * like_data >= len(keys):
        return True
    if kinds in (ARRAY, OBJECT) and not all(_has_scalars(node.members[key]) for key in keys):
        return len(keys) >= (2 if like_data == len(keys) else _ALIKE) and overlap([node.members[key] for key in keys])
    if not kinds or len(keys) < 2:
        return False
    return (
        like_data == len(keys)
        or (len(keys) >= _SCALARS and 2 * like_data > len(keys))
        or (node.is_single and len(keys) >= _MANY)
        or (not node.is_single and len(keys) >= _RARE and len(keys) >= 2 * len(node.required or ()))
    )
