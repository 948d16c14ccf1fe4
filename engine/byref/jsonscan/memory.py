"""JSON text in memory, described without parsing most of it.

The elements of a long array, or the values of a map, are grouped by what they would teach, and one of each group is parsed (`groups`).

Where byref was installed without a compiler, the first elements are parsed. What was learnt of them becomes a regular expression
(`matcher`), and RE2 matches the text with it until an element differs. That element is parsed, a new expression is made that accepts
it too, and so on to the end of the array. So every element was either parsed or matched. `costs` bounds the time.

Either way the schema is exactly that of the whole value. If too much would have to be parsed one by one, this module gives up, and the
text is parsed whole.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final

from byref.describe.columns import Inference, TooDeep, may_be_folded
from byref.describe.maps import folded
from byref.describe.nodes import ARRAY, CONTAINER, OBJECT, Node, places
from byref.describe.paths import ITEM, Path
from byref.describe.rows import Entries, Rows
from byref.describe.schema import Schema, infer
from byref.describe.shape import Elements
from byref.describe.tables import MANY_ITEMS, id_names
from byref.jsonscan import chunks, groups, inside, peek
from byref.jsonscan.costs import LOST, Allowance
from byref.jsonscan.matcher import Irregular, Matcher
from byref.jsonscan.parsing import parse
from byref_sandbox import jsontext

LEAST: Final = 1 << 19
"""Minimum bytes of a text: a shorter one is parsed faster than matched."""
_WINDOW: Final = 1 << 16
"""Most bytes matched by one call of RE2."""
_END: Final = 1 << 16
"""Minimum bytes of elements that are kept as values at each end of an array, for the preview."""
_OUTSIDE: Final = 1 << 16
"""Most bytes outside of long arrays, with `_EACH` added for each value there; a text with more is parsed whole."""
_EACH: Final = 64
_LEARNT: Final = 1 << 18
"""Minimum of what the groups of all arrays may cost, in bytes that a parser reads in the same time."""
_OF_TEXT, _OF_VALUE = 0.7, 0.25
"""What they may cost of a longer text, as a share of its bytes. One that was written from a value need not be parsed, so there is less to
be spared.
"""
_TRIES: Final = 32
"""Objects that are read as maps, until they turn out to be short or to have too many forms."""
_LEVELS: Final = 3
"""Most objects that a long array may be nested in."""
_FIRST: Final = 32
"""Elements parsed before the first expression is made."""
_MOST_AT_ONCE: Final = 64
"""Most elements parsed where one does not match. The first time it is one, then twice as many each time."""
_BYTES_AT_ONCE: Final = 1 << 15
"""Most bytes of such elements."""
_SAMPLES: Final = 16
"""Approximate number of elements that are kept from between the ends."""
_BLANKS: Final = b" \t\n\r"
_SPENT: Final = "too few elements are alike"


@dataclass(frozen=True, slots=True)
class Described:
    """JSON text, described."""

    outline: object
    """The value, in which `Rows` stand for long arrays, and `Entries` for long maps."""
    schema: Schema


def describe_text(text: bytes, line_feeds: int | None = None) -> Described | None:
    """Describe an object or array in UTF-8 that consists mostly of long arrays or maps of similar records; return None for other text.

    The schema is exactly that of the whole value. The result is also None for text that is not JSON: the caller then parses it,
    and the parser says why. `line_feeds` is the number of line feeds in a text that was written from a value; it saves counting.
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
    """Reads a text down to its long arrays and maps. Raises `peek.Unreadable` if the text has to be parsed instead."""

    def __init__(self, text: bytes, line_feeds: int | None) -> None:
        self._text = text
        self._line_feeds = line_feeds
        self._at = 0
        self._outside = 0
        self._left = max(int(len(text) * (_OF_TEXT if line_feeds is None else _OF_VALUE)), _LEARNT)
        """What the groups of all arrays may still cost (`Groups.cost`)."""
        self._allowance = Allowance(len(text) * LOST)
        self._tries = _TRIES
        self._is_gain = False

    def root(self) -> object:
        """Return the value; None if it has no long array or map, so that nothing was gained over parsing it."""
        self._at = len(codecs.BOM_UTF8) if self._text.startswith(codecs.BOM_UTF8) else 0
        self._skip()
        value = self._value(_LEVELS)
        self._skip()
        if self._at < len(self._text):
            raise peek.Unreadable("text stands behind the value")
        return value if self._is_gain else None

    def _value(self, levels: int) -> object:
        opening = self._text[self._at : self._at + 1]
        if opening == b"[":
            return self._array(_LEVELS - levels + 1)
        if opening == b"{" and levels:
            return self._map() or self._object(levels - 1)
        return self._other()

    def _map(self) -> Entries | None:
        """Return an object if it is a long map; None, and go nowhere, if it is not."""
        start = peek.after_blanks(self._text, self._at + 1)
        if not groups.available or not self._tries or len(self._text) - start < LEAST:
            return None
        self._tries -= 1
        try:
            found = groups.read(self._text, start, self._left, encoded := list[bytes]())
        except peek.Unreadable:
            return None
        self._left -= found.cost
        keys = _keys(encoded)
        cut = _cut(self._text, start, found.end, [place for place, _ in found.places], b"{%s}")
        if cut is None or len(keys) < found.count or not _are_readable(found.node) or not found.node.kinds & CONTAINER:
            return None
        # A record inside of a list inside of the map is told where it is from by what tells the list's elements apart, in all of them.
        if any(path.count(ITEM) > 1 for path in inside.wanted(found.node)[0]):
            return None
        head, tail, inner = cut
        ends, some = dict(found.places), dict(head)
        for place in inner:
            some.update(_span(self._text, place, ends[place], b"{%s}"))
        some.update(tail)
        node = Node()
        node.kinds, node.objects, node.rest = OBJECT, 1, folded(found.node)
        node.rest_keys, node.required = keys, set(keys)
        begin, end = self._at, found.end + 1
        self._at, self._is_gain = end, True
        return Entries(node, head, some, lambda: parse(self._text[begin:end]))

    def _object(self, levels: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._step(b"{")
        if self._comes(b"}"):
            return members
        while True:
            key = self._other()
            # A repeated key is left to the parser, which keeps its last value.
            if type(key) is not str or key in members:
                raise peek.Unreadable("a key is repeated, or is no string")
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
            raise peek.Unreadable("too much stands outside of long arrays")
        self._at = end
        return value

    def _array(self, depth: int) -> object:
        begin = self._at + 1
        start = peek.after_blanks(self._text, begin)
        if self._text[start : start + 1] in (b'"', b"]"):  # of strings most is told by their values
            return self._other()
        if groups.available:
            value, end = self._grouped(start)
        else:
            reading = _Array(self._text, start, depth, self._line_feeds, self._allowance)
            value, end = reading.read(), reading.at
        self._at = end + 1
        if type(value) is Rows:
            self._is_gain = True
        else:
            self._outside += self._at - begin + _EACH
        return value

    def _grouped(self, start: int) -> tuple[list[Any] | Rows, int]:
        """Return an array whose first element begins at `start`, and the place of its closing bracket. Raises Unreadable."""
        text = self._text
        found = groups.read(text, start, self._left)
        self._left -= found.cost
        cut = _cut(text, start, found.end, [place for place, _ in found.places])
        if cut is None:
            few: list[Any] = _span(text, start, found.end)
            return few, found.end
        if not _are_readable(found.node):
            raise peek.Unreadable("they are neither objects, nor rows of scalars, nor scalars")
        head, tail, inner = cut
        ends = dict(found.places)
        samples: list[Any] = [jsontext.decode(text[place : ends[place]]) for place in inner]
        kind = Elements()
        kind.add(found.examples)
        node = folded(found.node)
        rows = Rows(
            found.count,
            head,
            tail,
            samples,
            kind.kind,
            node,
            folded=node is not found.node,
            unfolded=found.node,
            inside=lambda path: 0,
            ids=_ids(text, found),
        )
        return rows, found.end

    def _skip(self) -> None:
        self._at = peek.after_blanks(self._text, self._at)

    def _comes(self, bracket: bytes) -> bool:
        if self._text[self._at : self._at + 1] != bracket:
            return False
        self._at += 1
        return True

    def _step(self, mark: bytes) -> None:
        if not self._comes(mark):
            raise peek.Unreadable(f"{mark.decode()} was expected")
        self._skip()


def _keys(encoded: list[bytes]) -> dict[str, None]:
    """Return keys, of which there may be a million, from their JSON, which is freed."""
    keys: dict[str, None] = {}
    for at in range(0, len(encoded), chunks.ITEMS):
        some: Any = jsontext.decode(b"[%s]" % b",".join(encoded[at : at + chunks.ITEMS]))
        keys.update(dict.fromkeys(some))
    encoded.clear()
    return keys


def _are_readable(node: Node) -> bool:
    """Tell whether elements are such as envelopes describe without having all: all objects, all arrays without objects, or scalars."""
    if not node.kinds & CONTAINER or node.kinds == OBJECT:
        return True
    below: Node | None = node if node.kinds == ARRAY else None
    while below is not None and below.kinds & CONTAINER == ARRAY:
        below = below.items
    return below is not None and not below.kinds & CONTAINER


def _ids(text: bytes, found: groups.Groups) -> tuple[str, frozenset[Any]] | None:
    """Return `Rows.ids`, if records may have tables inside of them."""
    if found.count > MANY_ITEMS or not inside.wanted(found.node)[0]:
        return None
    if (name := _id_name(found.node, found.examples)) is None:
        return None
    begins = [place for place, _ in found.places]
    try:
        counter = inside.Counter(found.node, (), name)
        for begin, end in pairwise([*begins, found.end]):
            counter.count(text[begin:end].rstrip(_BLANKS).removesuffix(b","))
    except ValueError:
        return None
    return _unique(name, counter.values)


class _Array:
    """Reads the elements of an array by regular expressions. Afterwards `at` is the place of its closing bracket."""

    def __init__(self, text: bytes, start: int, depth: int, line_feeds: int | None, allowance: Allowance) -> None:
        self._text = text
        self._depth = depth
        self._line_feeds = line_feeds
        self._start = self.at = start
        self._seen: list[Any] = []
        """The elements that were parsed."""
        self._matched: list[tuple[int, int, bytes]] = []
        """Where matched elements begin and end, and the marker that counts them."""
        self._ids: tuple[str, frozenset[Any]] | None = None
        """See `Rows.ids`."""
        self._places: list[int] = []
        """Places at which elements begin, at most about `_WINDOW` apart: the ends and the samples are cut there."""
        self._lines = True
        """Whether each element so far was a line. Then line feeds are counted, which is faster than counting a marker."""
        self._node = Node()
        self._inference = Inference(fold=True, plain=True)
        self._alone = 0
        """Bytes of the elements that were parsed."""
        self._allowance = allowance

    def read(self) -> list[Any] | Rows:
        """Read all elements. Raises Unreadable or Irregular if parsing the text whole is faster, or the only exact way."""
        has_ended, wanted = self._parse(_FIRST), 1
        was_lines = self._lines
        while not has_ended:
            self._match(self._matcher())
            has_ended = self._parse(wanted)
            wanted = min(2 * wanted, _MOST_AT_ONCE)
            # Elements that matched as lines were not counted by a marker. If a later one is not a line, their number is unknown.
            if was_lines and not self._lines:
                raise peek.Unreadable("not each element is a line")
        # Which keys are folded depends on which objects are read at once. The parser reads all of them at once, so its schema
        # could differ from this one.
        if self._inference.folded or any(map(may_be_folded, places(self._node))):
            raise peek.Unreadable("some keys may be data")
        return self._value()

    def _matcher(self) -> Matcher:
        self._allowance.looked_at(self._alone)
        if self._inference.folded or self._inference.is_cut:
            raise peek.Unreadable("some keys are data, or nest too deeply")
        if self._allowance.is_spent:
            raise peek.Unreadable(_SPENT)
        most = self._allowance.longest_expression
        matcher = Matcher(self._node, self._seen, self._colon, lines=self._lines, most=most)
        self._allowance.compiled(matcher.size)
        return matcher

    @cached_property
    def _colon(self) -> bytes:
        """The colon of the first element with its blanks. Expressions accept only this form: an encoder writes all colons alike."""
        return peek.colon_at(self._text, self._start) if self._node.kinds == OBJECT else b":"

    def _match(self, matcher: Matcher) -> None:
        """Move `at` forward over all elements that match."""
        while self.at < len(self._text):
            end = matcher.run(self._text, self.at, min(self.at + _WINDOW, len(self._text)))
            if end == self.at:
                return
            self._allowance.matched(end - self.at)
            self._places.append(self.at)
            self._matched.append((self.at, end, matcher.marker))
            self.at = end if self._lines else peek.after_blanks(self._text, end)

    def _parse(self, most: int) -> bool:
        """Parse up to `most` elements one by one and learn from them; return whether the array ended."""
        new, begin = list[Any](), self.at
        self._places.append(self.at)
        if self._allowance.is_spent:
            raise peek.Unreadable(_SPENT)
        while True:
            value, end = peek.value_at(self._text, self.at)
            new.append(value)
            mark = peek.after_blanks(self._text, end)
            has_ended = self._text[mark : mark + 1] == b"]"
            if not has_ended and self._text[mark : mark + 1] != b",":
                raise peek.Unreadable("a comma was expected")
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
        """Tell whether an element has no line feed inside and exactly one behind it, after its comma."""
        behind = self._text[end:following]
        return behind in ((b"\n", b"") if has_ended else (b",\n",)) and self._text.find(b"\n", start, end) < 0

    def _counts(self) -> dict[Path, int]:
        """Return how many objects there are at places inside of matched elements; `()` are the elements."""
        wanted, _ = inside.wanted(self._node)
        counts: Counter[Path] = Counter()
        if wanted and self._matched:
            try:
                name = _id_name(self._node, self._seen)
                counter = inside.Counter(self._node, wanted, name)
                text = memoryview(self._text)  # so that the elements are copied only once
                for start, end, _ in self._matched:
                    counts.update(counter.count(text[start : self._text.rindex(b",", start, end)]))
                self._ids = _unique(name, counter.values, self._seen)
            except ValueError:
                counts.clear()
        if not counts:
            counts[()] = (
                self._line_count - len(self._seen)
                if self._lines
                else sum(self._text.count(marker, start, end) for start, end, marker in self._matched)
            )
        return counts

    @property
    def _line_count(self) -> int:
        """The number of elements, if each is a line. The last one has a line feed before the closing bracket, or none."""
        return self._feeds(self._start, self.at) + (self._text[self.at - 1 : self.at] != b"\n")

    def _feeds(self, start: int, end: int) -> int:
        """Count the line feeds between two places. If the rest of the text is shorter, count there and subtract from the total."""
        if self._line_feeds is None or 2 * (end - start) < len(self._text):
            return self._text.count(b"\n", start, end)
        return self._line_feeds - self._text.count(b"\n", 0, start) - self._text.count(b"\n", end)

    def _value(self) -> list[Any] | Rows:
        cut = _cut(self._text, self._start, self.at, self._places)
        if cut is None:
            few: list[Any] = _span(self._text, self._start, self.at)
            return few
        head, tail, inner = cut
        samples = [peek.value_at(self._text, place)[0] for place in inner]
        for place in places(self._node):
            place.is_sampled = True
        kinds = Elements()
        kinds.add(self._seen)  # an expression accepts a single number of keys only if all parsed elements had it
        counts = self._counts()
        return Rows(
            counts[()] + len(self._seen),
            head,
            tail,
            samples,
            kinds.kind,
            self._node,
            folded=False,
            inside=partial(inside.objects, self._node, counts),
            ids=self._ids,
        )


def _id_name(node: Node, some: Sequence[Any]) -> str | None:
    """Return the member that is most likely to tell elements apart: it does so of some of them."""
    names = id_names(node) if node.kinds == OBJECT else ()
    return next((name for name in names if _unique(name, (), some) is not None), None)


def _unique(name: str | None, values: Sequence[Any], more: Sequence[Any] = ()) -> tuple[str, frozenset[Any]] | None:
    """Return a member with its values, these and those of more elements, if they are few and all different."""
    if name is None or len(values) > MANY_ITEMS:
        return None
    values = [*values, *(one[name] for one in more)]
    ids = frozenset(values)
    return (name, ids) if len(ids) == len(values) else None


def _cut(
    text: bytes, start: int, end: int, places: Sequence[int], brackets: bytes = b"[%s]"
) -> tuple[Any, Any, list[int]] | None:
    """Return the first and the last elements of an array, and where some between them begin; None if the ends are all of it.

    Elements begin at the `places`: there it may be cut.
    """
    head_end = next((place for place in places if place - start >= _END), end)
    tail_start = next((place for place in reversed(places) if end - place >= _END), start)
    if tail_start <= head_end:
        return None
    inner = [place for place in places if head_end <= place < tail_start]
    inner = inner[:: -(-len(inner) // _SAMPLES)]
    return _span(text, start, head_end, brackets), _span(text, tail_start, end, brackets), inner


def _span(text: bytes, start: int, end: int, brackets: bytes = b"[%s]") -> Any:
    return jsontext.decode(brackets % text[start:end].rstrip(_BLANKS).removesuffix(b","))
