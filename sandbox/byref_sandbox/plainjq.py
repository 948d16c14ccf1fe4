"""The jq programs that only pick: answered from decoded data, exactly, where jq rounds integers beyond 2**53.

The grammar is what the paths of most programs are made of; all else is jq's own:

    program  = pick { "|" pick } | pick { "," pick }
    pick     = ( "." | field | "length" | "keys" | "map(" chain ")" | "[" chain "]" ) { field | index }
    chain    = pick { "|" pick }
    field    = ".name" | '."any name"'
    index    = "[]" | "[3]" | "[2:5]" | '["any name"]'

Nothing in it multiplies data, so that an answer is never larger than what it is made of times the picks of a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

EXACT = 2**53
"""From here on, not every integer is a 64-bit float."""
MAX_PROGRAM_CHARS = 200
"""A longer one is not looked at, which bounds the nesting too."""

NOT_PLAIN = "NotPlain"
"""The kind of failure of a run that has to be left to jq."""

Filter = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""\s*(?: (?P<field>\.[A-Za-z_][A-Za-z0-9_]*) | (?P<quoted>\.?"[^"\\]*") | (?P<number>-?[0-9]{1,15})
             | (?P<word>[a-z]+) | (?P<sign>[.|,:()\[\]]) )\s*""",
    re.VERBOSE | re.ASCII,
)


class NotPlain(Exception):
    """The program is more than a pick, or the data is not as it expects: jq answers, or says what is wrong."""


def compiled(program: str) -> Filter:
    """Return a program as a function of decoded JSON that yields its outputs; NotPlain."""
    if len(program) > MAX_PROGRAM_CHARS:
        raise NotPlain
    parser = _Parser(program)
    filters = [parser.pick()]
    if parser.next == ",":
        while parser.take(","):
            filters.append(parser.pick())
        parser.end()
        return lambda value: chain.from_iterable(pick(value) for pick in filters)
    while parser.take("|"):
        filters.append(parser.pick())
    parser.end()
    return _piped(filters)


def is_plain(program: str) -> bool:
    """Tell whether a program only picks."""
    try:
        compiled(program)
    except NotPlain:
        return False
    return True


def has_rounded(value: object) -> bool:
    """Tell whether jq may have rounded a number of its output: an integer that not every float can be."""
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


class _Parser:
    """Recursive descent over the tokens of one short program."""

    def __init__(self, program: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
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
        """The next token's text."""
        return self._tokens[-1][1]

    def take(self, text: str) -> bool:
        """Step over the next token if it is this sign."""
        found = self._tokens[-1] == ("sign", text)
        if found:
            self._tokens.pop()
        return found

    def end(self) -> None:
        """Refuse what follows the program."""
        if self._tokens[-1][0] != "end":
            raise NotPlain

    def pick(self) -> Filter:
        """Parse a pick."""
        kind, text = self._tokens[-1]
        filters: list[Filter]
        if kind == "field" or (kind == "quoted" and text[0] == "."):
            filters = []
        elif self.take("."):
            filters = [_same]
            if self._tokens[-1][0] == "field":
                raise NotPlain  # `..name`
        elif self.take("["):
            inner = self._chain("]")
            filters = [lambda value: iter([list(inner(value))])]
        elif kind == "word":
            self._tokens.pop()
            filters = [self._word(text)]
        else:
            raise NotPlain
        while (suffix := self._suffix()) is not None:
            filters.append(suffix)
        return _piped(filters)

    def _word(self, word: str) -> Filter:
        if word == "map" and self.take("("):
            inner = self._chain(")")
            return lambda value: iter([list(chain.from_iterable(map(inner, _items(value))))])
        if word == "length":
            return lambda value: iter([_length(value)])
        if word == "keys":
            return lambda value: iter([_keys(value)])
        raise NotPlain

    def _chain(self, closing: str) -> Filter:
        filters = [self.pick()]
        while self.take("|"):
            filters.append(self.pick())
        self._expect(closing)
        return _piped(filters)

    def _suffix(self) -> Filter | None:
        kind, text = self._tokens[-1]
        if kind == "field" or (kind == "quoted" and text[0] == "."):
            self._tokens.pop()
            return _member(text[2:-1] if kind == "quoted" else text[1:])
        return self._index() if self.take("[") else None

    def _index(self) -> Filter:
        kind, text = self._tokens[-1]
        if self.take("]"):
            return _items
        if kind == "quoted" and text[0] == '"':
            self._tokens.pop()
            self._expect("]")
            return _member(text[1:-1])
        start = self._number()
        if self.take(":"):
            end = self._number()
            self._expect("]")
            if start is None and end is None:
                raise NotPlain
            return lambda value: iter([_slice(value, start, end)])
        self._expect("]")
        if start is None:
            raise NotPlain
        return lambda value: iter([_item(value, start)])

    def _number(self) -> int | None:
        return int(self._tokens.pop()[1]) if self._tokens[-1][0] == "number" else None

    def _expect(self, sign: str) -> None:
        if not self.take(sign):
            raise NotPlain


def _same(value: Any) -> Iterator[Any]:
    yield value


def _piped(filters: list[Filter]) -> Filter:
    def run(value: Any) -> Iterator[Any]:
        values: Iterator[Any] = iter([value])
        for each in filters:
            values = chain.from_iterable(map(each, values))
        return values

    return run


def _member(name: str) -> Filter:
    def get(value: Any) -> Iterator[Any]:
        if value is not None and type(value) is not dict:
            raise NotPlain
        yield None if value is None else value.get(name)

    return get


def _items(value: Any) -> Iterator[Any]:
    if type(value) is dict:
        return iter(value.values())
    if type(value) is not list:
        raise NotPlain
    return iter(value)


def _item(value: Any, index: int) -> Any:
    if value is None:
        return None
    if type(value) is not list:
        raise NotPlain
    return value[index] if -len(value) <= index < len(value) else None


def _slice(value: Any, start: int | None, end: int | None) -> Any:
    if value is None:
        return None
    if type(value) is not list:
        raise NotPlain
    return value[start:end]


def _length(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, dict | list | str):
        raise NotPlain
    return len(value)


def _keys(value: Any) -> list[Any]:
    if type(value) is dict:
        return sorted(value)
    if type(value) is not list:
        raise NotPlain
    return list(range(len(value)))
