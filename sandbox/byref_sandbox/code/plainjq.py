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
import re
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import Final

from byref_sandbox.code.picks import (
    CALLS,
    ITEMS,
    SAME,
    WORDS,
    Filter,
    NotPlain,
    Pick,
    collected,
    constant,
    either,
    item_at,
    joint,
    member,
    object_of,
    operated,
    optional,
    piped,
    single,
    sliced,
)

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


def compiled(program: str) -> Filter:
    """Return a program as a function of decoded JSON that yields its outputs; raises NotPlain."""
    return parsed(program).run


def parsed(program: str) -> Pick:
    """Return a program with the parts of its input that it needs; raises NotPlain."""
    if len(program) > MAX_PROGRAM_CHARS:
        raise NotPlain
    parser = _Parser(program)
    first = parser.value()
    pick = parser.listed(first) if parser.next == "," else piped(parser.chained(first))
    parser.end()
    return pick


def is_plain(program: str) -> bool:
    """Tell whether a program is one that is answered here, if the data allows."""
    try:
        compiled(program)
    except NotPlain:
        return False
    return True


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
            lambda need: reduce(joint, [pick.needs(need) for pick in picks]),
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
            left, last = operated(sign, left, right), precedence

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
            picks = [constant(text[1:-1] if kind == "quoted" else _number(text))]
        elif self.take("."):
            picks = [SAME]
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
        return piped(picks)

    def _call(self, name: str) -> Pick:
        if self.take("("):
            arguments = [self._argument()]
            while self.take(";"):
                arguments.append(self._argument())
            self._expect(")")
            make = CALLS.get((name, len(arguments)))
            if make is None or (max(map(len, arguments)) > 1 and not name.endswith("_by")):
                raise NotPlain
            return make(*arguments)
        if name not in WORDS:
            raise NotPlain
        return WORDS[name]

    def _argument(self) -> list[Pick]:
        first = self.value()
        if self.next != ",":
            return [piped(self.chained(first))]
        picks = [first]  # a comma binds more tightly than a pipe, which is left to jq here
        while self.take(","):
            picks.append(self.value())
        return picks

    def _if(self) -> Pick:
        condition = self._piped()
        self._expect("then", "word")
        then = self._piped()
        if self.take("elif", "word"):
            return either(condition, then, self._if())
        self._expect("else", "word")
        otherwise = self._piped()
        self._expect("end", "word")
        return either(condition, then, otherwise)

    def _array(self) -> Pick:
        if self.take("]"):
            return single(lambda _: [], lambda _: {})
        first = self.value()
        if self.next != ",":
            pick = piped(self.chained(first))
        else:
            self._make()
            pick = self.listed(first)
        self._expect("]")
        return collected(pick)

    def _object(self) -> Pick:
        self._make()
        members: list[tuple[str, Pick]] = []
        while True:
            kind, text = self._tokens.pop()
            if kind != "word" and not (kind == "quoted" and text[0] == '"'):
                raise NotPlain
            name = text.strip('"')
            pick = self._pick() if self.take(":") else member(name)
            if pick.get is None:
                raise NotPlain  # jq would make an object for each combination
            members.append((name, pick))
            if not self.take(","):
                break
        self._expect("}")
        return object_of(members)

    def _make(self) -> None:
        if self._has_maker:
            raise NotPlain  # each could contain the one before several times
        self._has_maker = True

    def _piped(self) -> Pick:
        return piped(self.chained(self.value()))

    def _chain(self, closing: str) -> Pick:
        pick = self._piped()
        self._expect(closing)
        return pick

    def _suffix(self) -> Pick | None:
        kind, text = self._tokens[-1]
        if kind == "field" or (kind == "quoted" and text[0] == "."):
            self._tokens.pop()
            pick = member(text[2:-1] if kind == "quoted" else text[1:])
        elif self.take("["):
            pick = self._index()
        else:
            return None
        return optional(pick) if self.take("?") else pick

    def _index(self) -> Pick:
        kind, text = self._tokens[-1]
        if self.take("]"):
            return ITEMS
        if kind == "quoted" and text[0] == '"':
            self._tokens.pop()
            self._expect("]")
            return member(text[1:-1])
        start = self._position()
        if self.take(":"):
            end = self._position()
            self._expect("]")
            if start is None and end is None:
                raise NotPlain
            if self.next == "?":
                raise NotPlain  # of a text there is a slice, too
            return single(lambda value: sliced(value, start, end), lambda need: need)
        self._expect("]")
        if start is None:
            raise NotPlain
        return item_at(start)

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
    if type(number) is float and Decimal(text) != Decimal(repr(number)):
        raise NotPlain  # jq compares its digits
    return number
