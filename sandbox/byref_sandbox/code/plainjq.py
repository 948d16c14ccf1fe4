"""jq programs that pick, filter, order, count and add, answered from decoded data without jq.

That is faster, since data is decoded once for many programs, and exact where jq rounds integers beyond 2**53. The grammar covers what
most programs are made of. Every other program is left to jq, and so is every case in which jq fails or in which its answer is not
plainly known: a comparison of two objects, a sum beyond 2**53, a negative zero.

    program  = chain | value { "," value }
    chain    = value { "|" value }
    value    = pick { operator pick }           with jq's precedence; each side gives one output
    operator = "//" | "or" | "and" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "+" | "-" | "*" | "/"
    pick     = ( "." | field | number | '"any text"' | "(" chain ")" | "[" [ value { "," value } | chain ] "]" | object | call
                 | "if" chain "then" chain { "elif" chain "then" chain } "else" chain "end" ) { ( field | index ) [ "?" ] }
    call     = name [ "(" chain { ( "," | ";" ) chain } ")" ]
    object   = "{" member { "," member } "}"
    member   = ( name | '"any name"' ) [ ":" pick ]
    field    = ".name" | '."any name"'
    index    = "[]" | "[3]" | "[2:5]" | '["any name"]'

A program has one object or list of values at most, each member of which is a pick of one output. So nothing in it multiplies data: an
answer is never larger than what it is made of times the picks of a program.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain, groupby, islice
from typing import Any, Final, NamedTuple

EXACT = 2**53
"""From this size on, not every integer is a 64-bit float."""
MAX_PROGRAM_CHARS = 400
"""A longer program is left to jq."""
_MAX_NESTING: Final = 60
_MAX_DIGITS: Final = 15
"""Digits of a position, with its sign."""

HAS_NAN = 'any(..; type == "number" and isnan)'
"""A jq program that tells whether its input contains NaN, which jq writes as null."""
_MAKES_NAN = re.compile(
    "[-+*/%]|nan|inf|add|tonumber|fromjson|sqrt|pow|exp|log|sin|cos|tan|gamma|rem|fma|ldexp|scalb|[jy][01n]"
)

NOT_PLAIN = "NotPlain"
"""The kind of the failure that means: leave this program to jq."""

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


_TOKEN = re.compile(
    r"""(?: (?P<recurse>\.\.) | (?P<field>\.[A-Za-z_][A-Za-z0-9_]*) | (?P<quoted>\.?"[^"\\\0\ud800-\udfff]*")
          | (?P<number>-?[0-9]{1,40}(?:\.[0-9]{1,40})?)(?![.0-9eE]) | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
          | (?P<sign>\?//=?|//=?|[=!<>+*/%|-]=|[.|,:;()\[\]{}?<>+*/-]) ) [ \t\r\n]*""",
    re.VERBOSE,
)
"""A token, as long as jq's own lexer makes it. `..` is one token: otherwise `.."name"`, which jq refuses, would be read as a
dot and a field."""
_PRECEDENCE: Final = {
    "//": 1, "or": 2, "and": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6,
}  # fmt: skip
_COMPARED: Final = 4


class NotPlain(Exception):
    """The program has other parts, or the data has not the expected form: jq answers, or says what is wrong."""


def compiled(program: str) -> Filter:
    """Return a program as a function of decoded JSON that yields its outputs; raises NotPlain."""
    return parsed(program).run


def parsed(program: str) -> Pick:
    """Return a program with the parts of its input that it needs; raises NotPlain."""
    if len(program) > MAX_PROGRAM_CHARS:
        raise NotPlain
    parser = _Parser(program)
    first = parser.value()
    pick = parser.listed(first) if parser.next == "," else _piped(parser.chained(first))
    parser.end()
    return pick


def is_plain(program: str) -> bool:
    """Tell whether a program is one that is answered here, if the data allows."""
    try:
        compiled(program)
    except NotPlain:
        return False
    return True


def has_rounded(value: object) -> bool:
    """Tell whether jq may have rounded a number of its output: an integer of a size at which not every integer is a float."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
        elif type(item) is int and not -EXACT < item < EXACT:
            return True
    return False


def may_make_nan(program: str) -> bool:
    """Tell whether a jq program may compute NaN from data without NaN. Most cannot, and searching the data costs time."""
    return _MAKES_NAN.search(program) is not None


def has_not_finite(value: object) -> bool:
    """Tell whether a value contains NaN or an infinity, for which JSON has null; the value may contain itself."""
    left = [value]
    seen = set[int]()
    while left:
        item = left.pop()
        if isinstance(item, dict | list):
            if id(item) not in seen:
                seen.add(id(item))
                left.extend(item.values() if isinstance(item, dict) else item)
        elif type(item) is float and not math.isfinite(item):
            return True
    return False


class _Parser:
    """A parser over the tokens of one short program."""

    def __init__(self, program: str) -> None:
        self._has_maker = False
        self._nesting = 0
        self._tokens: list[tuple[str, str]] = []
        at = len(program) - len(program.lstrip(" \t\r\n"))
        while at < len(program):
            token = _TOKEN.match(program, at)
            if token is None:
                raise NotPlain
            self._tokens.append((token.lastgroup or "", token[token.lastgroup or 0]))
            at = token.end()
        self._tokens.append(("end", ""))
        self._tokens.reverse()

    @property
    def next(self) -> str:
        """Return the next token's text."""
        return self._tokens[-1][1]

    def take(self, text: str, kind: str = "sign") -> bool:
        """If the next token is this sign, or word, consume it and return True."""
        found = self._tokens[-1] == (kind, text)
        if found:
            self._tokens.pop()
        return found

    def end(self) -> None:
        """Refuse tokens behind the program."""
        if self._tokens[-1][0] != "end":
            raise NotPlain

    def listed(self, first: Pick) -> Pick:
        """Parse further values behind commas: outputs one after another."""
        picks = [first]
        while self.take(","):
            picks.append(self.value())
        return Pick(
            lambda value: chain.from_iterable(pick.run(value) for pick in picks),
            lambda need: reduce(_both, [pick.needs(need) for pick in picks]),
        )

    def chained(self, first: Pick) -> list[Pick]:
        """Parse further values behind pipes."""
        picks = [first]
        while self.take("|"):
            picks.append(self.value())
        return picks

    def value(self, least: int = 1) -> Pick:
        """Parse picks with operators between them, of at least this precedence."""
        left, last = self._pick(), 0
        while True:
            kind, sign = self._tokens[-1]
            precedence = _PRECEDENCE.get(sign, 0) if kind in ("sign", "word") else 0
            if precedence < least:
                return left
            if precedence == last == _COMPARED:
                raise NotPlain  # jq has no chains of comparisons
            self._tokens.pop()
            right = self.value(precedence if sign == "//" else precedence + 1)
            left, last = _joined(sign, left, right), precedence

    def _pick(self) -> Pick:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise NotPlain
        kind, text = self._tokens[-1]
        picks: list[Pick]
        if kind == "field" or (kind == "quoted" and text[0] == "."):
            picks = []
        elif kind in ("quoted", "number"):
            self._tokens.pop()
            picks = [_constant(text[1:-1] if kind == "quoted" else _number(text))]
        elif self.take("."):
            picks = [_SAME]
        elif self.take("("):
            picks = [self._chain(")")]
        elif self.take("["):
            picks = [self._array()]
        elif self.take("{"):
            picks = [self._object()]
        elif kind == "word":
            self._tokens.pop()
            picks = [self._if() if text == "if" else self._call(text)]
        else:
            raise NotPlain
        while (suffix := self._suffix()) is not None:
            picks.append(suffix)
        self._nesting -= 1
        return _piped(picks)

    def _call(self, name: str) -> Pick:
        if self.take("("):
            arguments = [[self._piped()]]
            while (is_next := self.take(";")) or self.take(","):
                if is_next:
                    arguments.append([])
                arguments[-1].append(self._piped())
            self._expect(")")
            make = _CALLS.get((name, len(arguments)))
            if make is None or (max(map(len, arguments)) > 1 and not name.endswith("_by")):
                raise NotPlain
            return make(*arguments)
        if name not in _WORDS:
            raise NotPlain
        return _WORDS[name]

    def _if(self) -> Pick:
        condition = self._piped()
        self._expect("then", "word")
        then = self._piped()
        if self.take("elif", "word"):
            return _either(condition, then, self._if())
        self._expect("else", "word")
        otherwise = self._piped()
        self._expect("end", "word")
        return _either(condition, then, otherwise)

    def _array(self) -> Pick:
        if self.take("]"):
            return _one(lambda _: [], lambda _: {})
        first = self.value()
        if self.next != ",":
            pick = _piped(self.chained(first))
        else:
            self._make()
            pick = self.listed(first)
        self._expect("]")
        return _collected(pick)

    def _object(self) -> Pick:
        self._make()
        members: list[tuple[str, Pick]] = []
        while True:
            kind, text = self._tokens.pop()
            if kind != "word" and not (kind == "quoted" and text[0] == '"'):
                raise NotPlain
            name = text.strip('"')
            pick = self._pick() if self.take(":") else _member(name)
            if pick.get is None:
                raise NotPlain  # jq would make an object for each combination
            members.append((name, pick))
            if not self.take(","):
                break
        self._expect("}")
        return _made(members)

    def _make(self) -> None:
        if self._has_maker:
            raise NotPlain  # each could contain the one before several times
        self._has_maker = True

    def _piped(self) -> Pick:
        return _piped(self.chained(self.value()))

    def _chain(self, closing: str) -> Pick:
        pick = self._piped()
        self._expect(closing)
        return pick

    def _suffix(self) -> Pick | None:
        kind, text = self._tokens[-1]
        if kind == "field" or (kind == "quoted" and text[0] == "."):
            self._tokens.pop()
            pick = _member(text[2:-1] if kind == "quoted" else text[1:])
        elif self.take("["):
            pick = self._index()
        else:
            return None
        return _optional(pick) if self.take("?") else pick

    def _index(self) -> Pick:
        kind, text = self._tokens[-1]
        if self.take("]"):
            return _ITEMS
        if kind == "quoted" and text[0] == '"':
            self._tokens.pop()
            self._expect("]")
            return _member(text[1:-1])
        start = self._position()
        if self.take(":"):
            end = self._position()
            self._expect("]")
            if start is None and end is None:
                raise NotPlain
            if self.next == "?":
                raise NotPlain  # of a text there is a slice, too
            return _one(lambda value: _slice(value, start, end), lambda need: need)
        self._expect("]")
        if start is None:
            raise NotPlain
        return _item_at(start)

    def _position(self) -> int | None:
        kind, text = self._tokens[-1]
        if kind != "number" or "." in text or len(text) > _MAX_DIGITS:
            return None
        return int(self._tokens.pop()[1])

    def _expect(self, text: str, kind: str = "sign") -> None:
        if not self.take(text, kind):
            raise NotPlain


def _number(text: str) -> float:
    number = float(text) if "." in text else int(text)
    if text[0] == "-" and (type(number) is float or not number):
        raise NotPlain  # jq computes it, and writes -0 and -1 for -0.0 and -1.0
    return number


def _both(one: Need, other: Need) -> Need:
    """Return the union of two needs."""
    if isinstance(one, list) and isinstance(other, list):
        return [_both(one[0], other[0])]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        shared = one.keys() & other.keys()
        return {**one, **other, **{name: _both(one[name], other[name]) for name in shared}}
    return None


def _one(get: Get, needs: Callable[[Need], Need]) -> Pick:
    return Pick(lambda value: (get(value),), needs, get)


def _whole(get: Get) -> Pick:
    return _one(get, lambda _: None)


def _constant(value: object) -> Pick:
    return _one(lambda _: value, lambda _: {})


def _get(pick: Pick) -> Get:
    """Return the function of a pick of one output; raises NotPlain for others, whose outputs jq would combine."""
    if pick.get is None:
        raise NotPlain
    return pick.get


def _piped(picks: Sequence[Pick]) -> Pick:
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

    return _one(get, needs)


def _optional(pick: Pick) -> Pick:
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


def _collected(pick: Pick) -> Pick:
    """Return the outputs as an array."""
    return _one(
        lambda value: list(pick.run(value)),
        lambda need: pick.needs(need[0] if isinstance(need, list) else None),
    )


def _made(members: list[tuple[str, Pick]]) -> Pick:
    """Return an object. A member that is not needed, or is replaced by a later one of the same name, is still computed from all
    of its data, because computing it may fail.
    """
    last = dict(members)
    gets = [(name, _get(pick)) for name, pick in members]

    def get(value: Any) -> dict[str, Any]:
        return {name: of(value) for name, of in gets}

    def needs(need: Need) -> Need:
        of = need if isinstance(need, Mapping) else {}
        return reduce(_both, [pick.needs(of.get(name) if pick is last[name] else None) for name, pick in members])

    return _one(get, needs)


def _member(name: str) -> Pick:
    def get(value: Any) -> Any:
        if type(value) is dict:
            return value.get(name)
        if value is not None:
            raise NotPlain
        return None

    return _one(get, lambda need: {name: need})


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


def _item_at(index: int) -> Pick:
    return _one(lambda value: _item(value, index), lambda need: [need])


def _item(value: Any, index: int) -> Any:
    if value is None:
        return None
    return value[index] if -len(_list(value)) <= index < len(value) else None


def _slice(value: Any, start: int | None, end: int | None) -> Any:
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


def _joined(sign: str, left: Pick, right: Pick) -> Pick:
    """Return the pick of an operator between two."""

    def needs(need: Need) -> Need:
        return _both(left.needs(need if sign == "//" else None), right.needs(need if sign == "//" else None))

    if sign == "//":
        return _alternative(left, right)
    one, other = _get(left), _get(right)
    if sign == "and":
        return _one(lambda value: _is_true(one(value)) and _is_true(other(value)), needs)
    if sign == "or":
        return _one(lambda value: _is_true(one(value)) or _is_true(other(value)), needs)
    of = _ARITHMETIC.get(sign) or _COMPARISONS[sign]
    return _one(lambda value: of(one(value), other(value)), needs)


def _alternative(left: Pick, right: Pick) -> Pick:
    def run(value: Any) -> Iterable[Any]:
        return [output for output in left.run(value) if _is_true(output)] or right.run(value)

    def needs(need: Need) -> Need:
        return _both(left.needs(None), right.needs(need))

    if left.get is None or right.get is None:
        return Pick(run, needs)
    one, other = left.get, right.get

    def get(value: Any) -> Any:
        output = one(value)
        return output if _is_true(output) else other(value)

    return _one(get, needs)


def _either(condition: Pick, then: Pick, otherwise: Pick) -> Pick:
    holds = _get(condition)

    def needs(need: Need) -> Need:
        return reduce(_both, [condition.needs(None), then.needs(need), otherwise.needs(need)])

    if then.get is None or otherwise.get is None:
        return Pick(lambda value: (then if _is_true(holds(value)) else otherwise).run(value), needs)
    one, other = then.get, otherwise.get
    return _one(lambda value: one(value) if _is_true(holds(value)) else other(value), needs)


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
    if not -EXACT < number < EXACT or (not number and math.copysign(1, number) < 0):
        raise NotPlain
    return int(number) if number.is_integer() else number


def _arithmetic(of: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    def compute(one: Any, other: Any) -> Any:
        if type(one) not in (int, float) or type(other) not in (int, float):
            raise NotPlain
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
        if type(value) is not float or not -EXACT < value < EXACT:
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
        lambda need: _both(condition.needs(None), need),
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
            return [reduce(_both, [pick.needs(None) for pick in picks], need)]

        return _one(lambda value: of(_ordered(value, keys)), needs)

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
    return _one(lambda value: of(map(_is_true, pick.run(value))), lambda _: pick.needs(None))


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
    if type(value) is int and -EXACT < value < EXACT:
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

_SAME = _one(lambda value: value, lambda need: need)
_ITEMS = Pick(_items, lambda need: [need])
_WORDS: Final[dict[str, Pick]] = {
    "true": _constant(True),
    "false": _constant(False),
    "null": _constant(None),
    "empty": Pick(lambda _: (), lambda _: {}),
    "length": _whole(_length),
    "keys": _whole(_keys),
    "not": _whole(lambda value: not _is_true(value)),
    "type": _whole(_type),
    "add": _whole(_sum),
    "any": _quantified(any, _ITEMS),
    "all": _quantified(all, _ITEMS),
    "first": _item_at(0),
    "last": _item_at(-1),
    "reverse": _one(lambda value: _list(value)[::-1], lambda need: need),
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
    **{name: _BY[name]([_SAME]) for name in ("sort", "unique", "min", "max")},
}
_CALLS: Final[dict[tuple[str, int], Callable[..., Pick]]] = {
    ("map", 1): lambda of: _collected(_piped([_ITEMS, *of])),
    ("select", 1): lambda of: _select(*of),
    ("add", 1): lambda of: _piped([_collected(*of), _WORDS["add"]]),
    ("any", 1): lambda of: _quantified(any, _piped([_ITEMS, *of])),
    ("all", 1): lambda of: _quantified(all, _piped([_ITEMS, *of])),
    ("any", 2): lambda of, condition: _quantified(any, _piped([*of, *condition])),
    ("all", 2): lambda of, condition: _quantified(all, _piped([*of, *condition])),
    ("first", 1): lambda of: _first(*of),
    ("last", 1): lambda of: _last(*of),
    ("limit", 2): lambda count, of: _limit(*count, *of),
    ("has", 1): lambda of: _has(*of),
    ("join", 1): lambda of: _join(*of),
    ("startswith", 1): lambda of: _with_text(str.startswith, *of),
    ("endswith", 1): lambda of: _with_text(str.endswith, *of),
    ("contains", 1): lambda of: _with_text(operator.contains, *of),
    ("with_entries", 1): lambda of: _piped(
        [_WORDS["to_entries"], _collected(_piped([_ITEMS, *of])), _WORDS["from_entries"]]
    ),
    **{(f"{name}_by", 1): make for name, make in _BY.items()},
}
