"""What the parts of a plain jq program do with decoded data: they pick, filter, order, count and add (`plainjq` has the grammar).

A part is made of smaller ones, as `Pick`. Whatever jq would answer in a way that is not plainly known, or would fail at, is NotPlain.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain, groupby, islice
from typing import Any, Final, NamedTuple

EXACT_BELOW = 2**53
"""From this size on, not every integer is a 64-bit float."""

Get = Callable[[Any], Any]
Filter = Callable[[Any], Iterable[Any]]

Need = Mapping[str, Any] | list[Any] | None
"""The parts of a value that are needed: some members of an object, each with its own need; the items of an array (`[need]`); or
everything (None)."""


class Pick(NamedTuple):
    """A program, or a part of one, that only picks, filters, orders, counts and adds."""

    run: Filter
    """A function from decoded JSON to the outputs."""
    needs: Callable[[Need], Need]
    """A function from the parts that are needed of each output to the parts that are needed of the input."""
    get: Get | None = None
    """A function from decoded JSON to the output, if there is exactly one for every input."""


class NotPlain(Exception):
    """The program has other parts, or the data has not the expected form: jq answers, or says what is wrong."""


def joint(one: Need, other: Need) -> Need:
    """Return the union of two needs."""
    if isinstance(one, list) and isinstance(other, list):
        return [joint(one[0], other[0])]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        shared = one.keys() & other.keys()
        return {**one, **other, **{name: joint(one[name], other[name]) for name in shared}}
    return None


def single(get: Get, needs: Callable[[Need], Need]) -> Pick:
    """Return the pick of exactly one output."""
    return Pick(lambda value: (get(value),), needs, get)


def _whole(get: Get) -> Pick:
    return single(get, lambda _: None)


def constant(value: object) -> Pick:
    """Return the pick of this value, whatever the input is."""
    return single(lambda _: value, lambda _: {})


def _get(pick: Pick) -> Get:
    """Return the function of a pick of one output; raises NotPlain for others, whose outputs jq would combine."""
    if pick.get is None:
        raise NotPlain
    return pick.get


def piped(picks: Sequence[Pick]) -> Pick:
    """Return picks one after the other, each of the outputs of the one before."""
    if len(picks) == 1:
        return picks[0]

    def run(value: Any) -> Iterable[Any]:
        values: Iterable[Any] = (value,)
        for pick in picks:
            values = map(pick.get, values) if pick.get is not None else chain.from_iterable(map(pick.run, values))
        return values

    def needs(need: Need) -> Need:
        return reduce(lambda wanted, pick: pick.needs(wanted), reversed(picks), need)

    gets = [pick.get for pick in picks if pick.get is not None]
    if len(gets) < len(picks):
        return Pick(run, needs)

    def get(value: Any) -> Any:
        for one in gets:
            value = one(value)
        return value

    return single(get, needs)


def optional(pick: Pick) -> Pick:
    """Return the outputs, or none where the value is not one that has such parts."""

    def run(value: Any) -> Iterable[Any]:
        if type(value) not in (dict, list):
            if value is None and pick.get is not None:
                return (None,)
            return ()
        try:
            return pick.run(value)
        except NotPlain:
            return ()

    return Pick(run, pick.needs)


def collected(pick: Pick) -> Pick:
    """Return the outputs as an array."""
    return single(
        lambda value: list(pick.run(value)),
        lambda need: pick.needs(need[0] if isinstance(need, list) else None),
    )


def object_of(members: list[tuple[str, Pick]]) -> Pick:
    """Return an object. A member that is not needed, or is replaced by a later one of the same name, is still computed from all
    of its data, because computing it may fail.
    """
    last = dict(members)
    gets = [(name, _get(pick)) for name, pick in members]

    def get(value: Any) -> dict[str, Any]:
        return {name: of(value) for name, of in gets}

    def needs(need: Need) -> Need:
        of = need if isinstance(need, Mapping) else {}
        return reduce(joint, [pick.needs(of.get(name) if pick is last[name] else None) for name, pick in members])

    return single(get, needs)


def member(name: str) -> Pick:
    """Return the pick of an object's member; of null it is null."""

    def get(value: Any) -> Any:
        if type(value) is dict:
            return value.get(name)
        if value is not None:
            raise NotPlain
        return None

    return single(get, lambda need: {name: need})


def _items(value: Any) -> Iterable[Any]:
    if type(value) is dict:
        return value.values()
    return _list(value)


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise NotPlain
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise NotPlain
    return value


def item_at(index: int) -> Pick:
    """Return the pick of an array's item; of null, and beyond the ends, it is null."""
    return single(lambda value: _item(value, index), lambda need: [need])


def _item(value: Any, index: int) -> Any:
    if value is None:
        return None
    return value[index] if -len(_list(value)) <= index < len(value) else None


def sliced(value: Any, start: int | None, end: int | None) -> Any:
    """Return the items of an array from one place up to another; of null it is null."""
    return None if value is None else _list(value)[start:end]


def _length(value: Any) -> int:
    if value is None:
        return 0
    if type(value) not in (dict, list, str):
        raise NotPlain
    return len(value)


def _keys(value: Any) -> list[Any]:
    return sorted(value) if type(value) is dict else list(range(len(_list(value))))


def _is_true(value: Any) -> bool:
    return value is not None and value is not False


_RANKS: Final[dict[type, int]] = {type(None): 0, bool: 1, int: 3, float: 3, str: 4, list: 5, dict: 6}


def _rank(value: Any) -> tuple[int, Any]:
    """Return what orders a value among others, as jq does: null, false, true, numbers, text by its characters."""
    rank = _RANKS.get(type(value), 5)
    if rank > 4 or value != value:
        raise NotPlain  # arrays, objects, and NaN, which is below all numbers and no number's equal
    return rank, value


def operated(sign: str, left: Pick, right: Pick) -> Pick:
    """Return the pick of an operator between two."""

    def needs(need: Need) -> Need:
        return joint(left.needs(need if sign == "//" else None), right.needs(need if sign == "//" else None))

    if sign == "//":
        return _alternative(left, right)
    one, other = _get(left), _get(right)
    if sign == "and":
        return single(lambda value: _is_true(one(value)) and _is_true(other(value)), needs)
    if sign == "or":
        return single(lambda value: _is_true(one(value)) or _is_true(other(value)), needs)
    of = _ARITHMETIC.get(sign) or _COMPARISONS[sign]
    return single(lambda value: of(one(value), other(value)), needs)


def _alternative(left: Pick, right: Pick) -> Pick:
    def run(value: Any) -> Iterable[Any]:
        return [output for output in left.run(value) if _is_true(output)] or right.run(value)

    def needs(need: Need) -> Need:
        return joint(left.needs(None), right.needs(need))

    if left.get is None or right.get is None:
        return Pick(run, needs)
    one, other = left.get, right.get

    def get(value: Any) -> Any:
        output = one(value)
        return output if _is_true(output) else other(value)

    return single(get, needs)


def either(condition: Pick, then: Pick, otherwise: Pick) -> Pick:
    """Return one pick where a condition holds, else the other."""
    holds = _get(condition)

    def needs(need: Need) -> Need:
        return reduce(joint, [condition.needs(None), then.needs(need), otherwise.needs(need)])

    if then.get is None or otherwise.get is None:
        return Pick(lambda value: (then if _is_true(holds(value)) else otherwise).run(value), needs)
    one, other = then.get, otherwise.get
    return single(lambda value: one(value) if _is_true(holds(value)) else other(value), needs)


def _equals(one: Any, other: Any) -> bool:
    kind, other_kind = type(one), type(other)
    if kind is other_kind and kind not in (list, dict, float):
        return bool(one == other)
    rank, other_rank = _RANKS.get(kind, 5), _RANKS.get(other_kind, 5)
    if rank != other_rank:
        return False
    if rank > 4 and one and other:
        raise NotPlain
    if one != one or other != other:
        raise NotPlain
    return bool(one == other)


def _is_less(one: Any, other: Any) -> bool:
    rank, other_rank = _RANKS.get(type(one), 5), _RANKS.get(type(other), 5)
    if rank != other_rank:
        return rank < other_rank
    return _rank(one) < _rank(other)


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equals,
    "!=": lambda one, other: not _equals(one, other),
    "<": _is_less,
    ">": lambda one, other: _is_less(other, one),
    "<=": lambda one, other: not _is_less(other, one),
    ">=": lambda one, other: not _is_less(one, other),
}


def _computed(number: float) -> float:
    """Return a number that jq has computed with floats as jq writes it: without a fraction, as an integer."""
    if not -EXACT_BELOW < number < EXACT_BELOW or (not number and math.copysign(1, number) < 0):
        raise NotPlain
    return int(number) if number.is_integer() else number


def _is_rounded(number: float) -> bool:
    """Whether jq computes with another number, since a float does not hold each integer of that size."""
    return type(number) is int and not -EXACT_BELOW < number < EXACT_BELOW


def _arithmetic(of: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    def compute(one: Any, other: Any) -> Any:
        if type(one) not in (int, float) or type(other) not in (int, float):
            raise NotPlain
        if _is_rounded(one) or _is_rounded(other):
            if of not in (operator.add, operator.sub) or type(one) is not type(other):
                raise NotPlain
            return of(one, other)  # exact, where jq's answer is of other numbers
        try:
            return _computed(of(float(one), float(other)))
        except (OverflowError, ZeroDivisionError):
            raise NotPlain from None

    return compute


_added = _arithmetic(operator.add)
_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda one, other: other if one is None else one if other is None else _added(one, other),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(operator.truediv),
}


def _sum(value: Any) -> Any:
    values = [item for item in _items(value) if item is not None]
    if len(values) < 2:
        return values[0] if values else None
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        if any(map(_is_rounded, values)):
            if kinds != {int}:
                raise NotPlain
            return sum(values)
        try:
            return _computed(reduce(operator.add, map(float, values)))  # one after the other, as jq does
        except OverflowError:
            raise NotPlain from None
    if kinds == {str}:
        return "".join(values)
    if kinds == {list}:
        return list(chain.from_iterable(values))
    raise NotPlain


def _rounding(of: Callable[[float], float]) -> Get:
    def get(value: Any) -> Any:
        if type(value) is int:
            return value
        if type(value) is not float or not -EXACT_BELOW < value < EXACT_BELOW:
            raise NotPlain
        rounded = of(value)
        if not rounded and value < 0:
            raise NotPlain  # jq has a negative zero
        return int(rounded)

    return get


def _round(value: float) -> float:
    whole = math.trunc(value)
    return whole + math.copysign(1, value) if abs(value - whole) >= 0.5 else whole


def _select(condition: Pick) -> Pick:
    holds = _get(condition)
    return Pick(
        lambda value: (value,) if _is_true(holds(value)) else (),
        lambda need: joint(condition.needs(None), need),
    )


def _of_type(*kinds: type) -> Pick:
    return Pick(lambda value: (value,) if type(value) in kinds else (), lambda _: None)


def _ordered(value: Any, keys: Sequence[Get]) -> list[tuple[Any, Any]]:
    """Return the items of an array by their keys, each behind its key."""
    items = _list(value)
    ranked: list[tuple[Any, Any]]
    if len(keys) == 1:
        ranked = [(_rank(keys[0](item)), item) for item in items]
    else:
        ranked = [(tuple(_rank(key(item)) for key in keys), item) for item in items]
    ranked.sort(key=operator.itemgetter(0))
    return ranked


def _by(of: Callable[[list[tuple[Any, Any]]], Any], depth: int) -> Callable[[Sequence[Pick]], Pick]:
    """Return what makes a pick of an array by its items' keys; their needs are this many arrays below an output's."""

    def make(picks: Sequence[Pick]) -> Pick:
        keys = [_get(pick) for pick in picks]

        def needs(need: Need) -> Need:
            for _ in range(depth):
                need = need[0] if isinstance(need, list) else None
            return [reduce(joint, [pick.needs(None) for pick in picks], need)]

        return single(lambda value: of(_ordered(value, keys)), needs)

    return make


def _groups(ranked: list[tuple[Any, Any]]) -> list[list[Any]]:
    return [[item for _, item in group] for _, group in groupby(ranked, operator.itemgetter(0))]


def _largest(ranked: list[tuple[Any, Any]]) -> Any:
    return ranked[-1][1] if ranked else None


_BY: Final = {
    "sort": _by(lambda ranked: [item for _, item in ranked], 1),
    "group": _by(_groups, 2),
    "unique": _by(lambda ranked: [group[0] for group in _groups(ranked)], 1),
    "min": _by(lambda ranked: ranked[0][1] if ranked else None, 0),
    "max": _by(_largest, 0),
}


def _first(pick: Pick) -> Pick:
    return Pick(lambda value: islice(pick.run(value), 1), pick.needs)


def _last(pick: Pick) -> Pick:
    return Pick(lambda value: list(pick.run(value))[-1:], pick.needs)


def _limit(count: Pick, pick: Pick) -> Pick:
    most = _get(count)(None)
    if type(most) is not int or most < 1 or count.needs(None) != {}:
        raise NotPlain
    return Pick(lambda value: islice(pick.run(value), most), pick.needs)


def _quantified(of: Callable[[Iterable[bool]], bool], pick: Pick) -> Pick:
    return single(lambda value: of(map(_is_true, pick.run(value))), lambda _: pick.needs(None))


def _with_text(of: Callable[[str, str], bool], argument: Pick) -> Pick:
    """Return a test of a text with another one."""
    get = _get(argument)
    return _whole(lambda value: of(_text(value), _text(get(value))))


def _has(key: Pick) -> Pick:
    get = _get(key)

    def has(value: Any) -> bool:
        if type(value) is not dict:
            raise NotPlain
        return _text(get(value)) in value

    return _whole(has)


def _join(separator: Pick) -> Pick:
    get = _get(separator)

    def join(value: Any) -> str:
        return _text(get(value)).join("" if item is None else _text(item) for item in _list(value))

    if separator.needs(None) != {}:
        raise NotPlain  # a text of the data between all items would multiply it
    return _whole(join)


def _entries(value: Any) -> list[dict[str, Any]]:
    if type(value) is not dict:
        raise NotPlain
    return [{"key": key, "value": member} for key, member in value.items()]


def _from_entries(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for entry in _list(value):
        if type(entry) is not dict or entry.keys() != {"key", "value"}:
            raise NotPlain
        made[_text(entry["key"])] = entry["value"]
    return made


def _tostring(value: Any) -> str:
    if type(value) is int and -EXACT_BELOW < value < EXACT_BELOW:
        return str(value)
    return _text(value)


_TYPES: Final[dict[type, str]] = {
    type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip


def _type(value: Any) -> str:
    if type(value) not in _TYPES:
        raise NotPlain
    return _TYPES[type(value)]


_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

SAME = single(lambda value: value, lambda need: need)
ITEMS = Pick(_items, lambda need: [need])
WORDS: Final[dict[str, Pick]] = {
    "true": constant(True),
    "false": constant(False),
    "null": constant(None),
    "empty": Pick(lambda _: (), lambda _: {}),
    "length": _whole(_length),
    "keys": _whole(_keys),
    "not": _whole(lambda value: not _is_true(value)),
    "type": _whole(_type),
    "add": _whole(_sum),
    "any": _quantified(any, ITEMS),
    "all": _quantified(all, ITEMS),
    "first": item_at(0),
    "last": item_at(-1),
    "reverse": single(lambda value: _list(value)[::-1], lambda need: need),
    "to_entries": _whole(_entries),
    "from_entries": _whole(_from_entries),
    "tostring": _whole(_tostring),
    "ascii_downcase": _whole(lambda value: _text(value).translate(_LOWER)),
    "ascii_upcase": _whole(lambda value: _text(value).translate(_UPPER)),
    "floor": _whole(_rounding(math.floor)),
    "ceil": _whole(_rounding(math.ceil)),
    "round": _whole(_rounding(_round)),
    "values": Pick(lambda value: () if value is None else (value,), lambda _: None),
    "nulls": _of_type(type(None)),
    "booleans": _of_type(bool),
    "numbers": _of_type(int, float),
    "strings": _of_type(str),
    "arrays": _of_type(list),
    "objects": _of_type(dict),
    "iterables": _of_type(list, dict),
    "scalars": _of_type(type(None), bool, int, float, str),
    **{name: _BY[name]([SAME]) for name in ("sort", "unique", "min", "max")},
}
CALLS: Final[dict[tuple[str, int], Callable[..., Pick]]] = {
    ("map", 1): lambda of: collected(piped([ITEMS, *of])),
    ("select", 1): lambda of: _select(*of),
    ("add", 1): lambda of: piped([collected(*of), WORDS["add"]]),
    ("any", 1): lambda of: _quantified(any, piped([ITEMS, *of])),
    ("all", 1): lambda of: _quantified(all, piped([ITEMS, *of])),
    ("any", 2): lambda of, condition: _quantified(any, piped([*of, *condition])),
    ("all", 2): lambda of, condition: _quantified(all, piped([*of, *condition])),
    ("first", 1): lambda of: _first(*of),
    ("last", 1): lambda of: _last(*of),
    ("limit", 2): lambda count, of: _limit(*count, *of),
    ("has", 1): lambda of: _has(*of),
    ("join", 1): lambda of: _join(*of),
    ("startswith", 1): lambda of: _with_text(str.startswith, *of),
    ("endswith", 1): lambda of: _with_text(str.endswith, *of),
    ("contains", 1): lambda of: _with_text(operator.contains, *of),
    ("with_entries", 1): lambda of: piped([WORDS["to_entries"], collected(piped([ITEMS, *of])), WORDS["from_entries"]]),
    **{(f"{name}_by", 1): make for name, make in _BY.items()},
}
