"""JSON text in memory, described without parsing most of it.

Of a long array the first elements are parsed. What was learnt of them becomes an expression (`matcher`), and RE2 matches the text
with it as far as elements are like that. The first one that is not is parsed, the expression is made anew with it, and so on to
the end of the array. So every element was either parsed or matched, and the schema is that of the whole value, exactly.

The time is bounded by `costs`: when too much was parsed one by one, or compiled in vain, the text is given up and parsed whole.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from byref.describe.columns import Inference, TooDeep, may_be_folded
from byref.describe.nodes import OBJECT, Node, places
from byref.describe.rows import Rows
from byref.describe.schema import Schema, infer
from byref.describe.shape import Elements
from byref.jsonscan import peek
from byref.jsonscan.costs import LOST, Allowance
from byref.jsonscan.matcher import Irregular, Matcher
from byref_sandbox import jsontext

LEAST: Final = 1 << 19
"""Bytes of the shortest text that is worth it."""
_WINDOW: Final = 1 << 16
"""Bytes matched by one call of RE2."""
_END: Final = 1 << 16
"""Bytes of an array's elements that are parsed at its start and at its end, at least."""
_OUTSIDE: Final = 1 << 16
"""Bytes outside of long arrays that are parsed, with `_EACH` for each value there; a text with more is parsed whole."""
_EACH: Final = 64
_LEVELS: Final = 3
"""Objects that a long array may be nested in."""
_FIRST: Final = 32
"""Elements parsed before the first expression is made."""
_MOST_AT_ONCE: Final = 64
"""Elements parsed behind one that does not match: one the first time, twice as many each time, up to so many."""
_BYTES_AT_ONCE: Final = 1 << 15
"""Bytes of such elements, though there be fewer."""
_SAMPLES: Final = 16
"""Elements between the ends that are kept, about."""


@dataclass(frozen=True, slots=True)
class Described:
    """JSON text, described."""

    outline: object
    """The value, in which `Rows` stand for long arrays."""
    schema: Schema


def describe_text(text: bytes, line_feeds: int | None = None) -> Described | None:
    """Describe an object or array in UTF-8 of which most is long arrays of records that are alike; else return None.

    The schema is that of the whole value, exactly. None, too, is returned for what is no JSON: the parser says why. Give
    `line_feeds`, how many the text has, where that is known: then fewer are counted.
    """
    if len(text) < LEAST:
        return None
    try:
        with jsontext.collector_paused():
            value = _Reading(text, line_feeds).root()
            return None if value is None else Described(value, infer(value, plain=True))
    except (peek.Unreadable, Irregular, TooDeep, jsontext.NotJSON, RecursionError):
        return None


class _Reading:
    """Reads a text down to its long arrays. Raises `peek.Unreadable` where the text is to be parsed instead."""

    def __init__(self, text: bytes, line_feeds: int | None) -> None:
        self._text = text
        self._line_feeds = line_feeds
        self._at = 0
        self._outside = 0
        self._allowance = Allowance(len(text) * LOST)
        self._has_rows = False

    def root(self) -> object:
        """Return the value; None if all of it was parsed, so that nothing was gained."""
        self._at = len(codecs.BOM_UTF8) if self._text.startswith(codecs.BOM_UTF8) else 0
        self._skip()
        value = self._value(_LEVELS)
        self._skip()
        if self._at < len(self._text):
            raise peek.Unreadable
        return value if self._has_rows else None

    def _value(self, levels: int) -> object:
        opening = self._text[self._at : self._at + 1]
        if opening == b"[":
            return self._array(_LEVELS - levels + 1)
        if opening == b"{" and levels:
            return self._object(levels - 1)
        return self._other()

    def _object(self, levels: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._step(b"{")
        if self._comes(b"}"):
            return members
        while True:
            key = self._other()
            if type(key) is not str or key in members:
                raise peek.Unreadable
            self._skip()
            self._step(b":")
            members[key] = self._value(levels)
            self._skip()
            if self._comes(b"}"):
                return members
            self._step(b",")

    def _other(self) -> object:
        value, end = peek.value_at(self._text, self._at)
        self._outside += end - self._at + _EACH
        if self._outside > _OUTSIDE:
            raise peek.Unreadable
        self._at = end
        return value

    def _array(self, depth: int) -> object:
        begin = self._at + 1
        reading = _Array(self._text, begin, depth, self._line_feeds, self._allowance)
        if not reading.may_be_regular:
            return self._other()
        value = reading.read()
        self._at = reading.at + 1
        if type(value) is Rows:
            self._has_rows = True
        else:
            self._outside += self._at - begin + _EACH
        return value

    def _skip(self) -> None:
        self._at = peek.after_blanks(self._text, self._at)

    def _comes(self, bracket: bytes) -> bool:
        if self._text[self._at : self._at + 1] != bracket:
            return False
        self._at += 1
        return True

    def _step(self, mark: bytes) -> None:
        if not self._comes(mark):
            raise peek.Unreadable
        self._skip()


class _Array:
    """The elements of an array; `at` is where it ends, once they were read."""

    def __init__(self, text: bytes, start: int, depth: int, line_feeds: int | None, allowance: Allowance) -> None:
        self._text = text
        self._depth = depth
        self._line_feeds = line_feeds
        self._start = self.at = peek.after_blanks(text, start)
        self._seen: list[Any] = []
        """The elements that were parsed."""
        self._marked = 0
        """How many were matched, counted by their marker."""
        self._places: list[int] = []
        """Where some of the elements begin, at most about `_WINDOW` apart."""
        self._lines = True
        """Whether each element so far was a line; then they are counted by their line feeds, which is faster."""
        self._node = Node()
        self._inference = Inference(fold=True, plain=True)
        self._alone = 0
        """Bytes of the elements that were parsed."""
        self._allowance = allowance

    @property
    def may_be_regular(self) -> bool:
        """Whether there may be an expression, by the first element: of strings there is none, for no marker is in each."""
        return self._text[self.at : self.at + 1] not in (b'"', b"]")

    def read(self) -> list[Any] | Rows:
        """Read them all. Raises Unreadable and Irregular where that is not worth it."""
        has_ended, wanted = self._parse(_FIRST), 1
        was_lines = self._lines
        while not has_ended:
            self._match(self._matcher())
            has_ended = self._parse(wanted)
            wanted = min(2 * wanted, _MOST_AT_ONCE)
            if was_lines and not self._lines:  # those that were matched before are not counted
                raise peek.Unreadable
        # Which keys are folded depends on which objects are read at once. The parser reads all of them at once, so that the
        # schema would be another one.
        if self._inference.folded or any(map(may_be_folded, places(self._node))):
            raise peek.Unreadable
        return self._value()

    def _matcher(self) -> Matcher:
        self._allowance.looked_at(self._alone)
        if self._inference.folded or self._inference.is_cut or self._allowance.is_spent:
            raise peek.Unreadable
        most = self._allowance.longest_expression
        matcher = Matcher(self._node, self._seen, self._colon, lines=self._lines, most=most)
        self._allowance.compiled(matcher.size)
        return matcher

    @cached_property
    def _colon(self) -> bytes:
        """The first element's, with the blanks around it. Expressions have that one: an encoder writes all of them alike."""
        return peek.colon_at(self._text, self._start) if self._node.kinds == OBJECT else b":"

    def _match(self, matcher: Matcher) -> None:
        """Go on as far as elements match."""
        while self.at < len(self._text):
            end = matcher.run(self._text, self.at, min(self.at + _WINDOW, len(self._text)))
            if end == self.at:
                return
            self._allowance.matched(end - self.at)
            self._places.append(self.at)
            if not self._lines:
                self._marked += self._text.count(matcher.marker, self.at, end)
            self.at = end if self._lines else peek.after_blanks(self._text, end)

    def _parse(self, most: int) -> bool:
        """Parse some elements one by one and learn what they are like; return whether the last was among them."""
        new, begin = list[Any](), self.at
        self._places.append(self.at)
        if self._allowance.is_spent:
            raise peek.Unreadable
        while True:
            value, end = peek.value_at(self._text, self.at)
            new.append(value)
            mark = peek.after_blanks(self._text, end)
            has_ended = self._text[mark : mark + 1] == b"]"
            if not has_ended and self._text[mark : mark + 1] != b",":
                raise peek.Unreadable
            following = mark if has_ended else peek.after_blanks(self._text, mark + 1)
            self._lines = self._lines and self._is_line(self.at, end, following, has_ended=has_ended)
            self.at = following
            if has_ended or len(new) == most or following - begin >= _BYTES_AT_ONCE:
                break
        self._alone += self.at - begin
        self._allowance.parsed_alone(self.at - begin, len(new))
        self._seen += new
        self._inference.add(self._node, new, self._depth)
        return has_ended

    def _is_line(self, start: int, end: int, following: int, *, has_ended: bool) -> bool:
        """Whether an element has one line feed behind it, and none in it."""
        behind = self._text[end:following]
        return behind in ((b"\n", b"") if has_ended else (b",\n",)) and self._text.find(b"\n", start, end) < 0

    @property
    def _count(self) -> int:
        if not self._lines:
            return self._marked + len(self._seen)
        return self._feeds(self._start, self.at) + (self._text[self.at - 1 : self.at] != b"\n")

    def _feeds(self, start: int, end: int) -> int:
        """Line feeds between two places; where there are fewer bytes outside of these, those there are counted instead."""
        if self._line_feeds is None or 2 * (end - start) < len(self._text):
            return self._text.count(b"\n", start, end)
        return self._line_feeds - self._text.count(b"\n", 0, start) - self._text.count(b"\n", end)

    def _value(self) -> list[Any] | Rows:
        head_end = next((place for place in self._places if place - self._start >= _END), self.at)
        tail_start = next((place for place in reversed(self._places) if self.at - place >= _END), self._start)
        if tail_start <= head_end:
            return self._span(self._start, self.at)
        head, tail = self._span(self._start, head_end), self._span(tail_start, self.at)
        inner = [place for place in self._places if head_end <= place < tail_start]
        inner = inner[:: -(-len(inner) // _SAMPLES)]
        samples = [peek.value_at(self._text, place)[0] for place in inner]
        kinds = Elements()
        kinds.add(self._seen)  # others are alike in how many keys they have only if these are
        return Rows(self._count, head, tail, samples, kinds.kind, self._node, folded=False)

    def _span(self, start: int, end: int) -> list[Any]:
        text = self._text[start:end].rstrip(b" \t\n\r").removesuffix(b",")
        values = jsontext.decode(b"[%s]" % text)
        assert isinstance(values, list)
        return values
