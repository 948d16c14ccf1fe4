"""Describes an array of a stream, chunk by chunk, in bounded memory.

The chunks at its two ends are kept. A chunk between is parsed, learnt from and dropped. If an expression matches a whole chunk, the
chunk is only counted, because it would teach nothing new.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from byref.describe.nodes import OBJECT, Node, places
from byref.describe.paths import Path
from byref.describe.rows import Rows
from byref.describe.schema import Elements, TooDeep
from byref.describe.shape import Elements as Kinds
from byref.jsonscan import inside, peek, sizes
from byref.jsonscan.costs import PASSING, Allowance
from byref.jsonscan.matcher import Irregular, Matcher
from byref.jsonscan.sampler import Sampler
from byref_sandbox import jsontext


@dataclass(slots=True)
class _Chunk:
    """Some elements: parsed, or as text with a comma before each. Text is parsed only if its values are needed."""

    items: list[Any] | bytes
    count: int
    size: int

    @property
    def values(self) -> list[Any]:
        if isinstance(self.items, bytes):
            values = jsontext.decode(b"[0%s]" % self.items)  # the 0 gives the first comma a left neighbour
            assert isinstance(values, list)
            self.items = values[1:]
        return self.items

    @property
    def sample(self) -> Any:
        if isinstance(self.items, bytes):
            value, _ = peek.value_at(self.items, _first(self.items))
            return value
        return self.items[len(self.items) // 2]


class ArrayScan:
    """Keeps the ends and samples of an array, and what was learnt of its elements. A short array is kept whole."""

    def __init__(self, depth: int) -> None:
        self.size = 0
        """Bytes of the elements that are kept."""
        self._count = 0
        self._head: list[Any] = []
        self._head_size = 0
        self._tail: deque[_Chunk] = deque()
        self._tail_count = 0
        self._samples = Sampler[Any](sizes.ITEM_SAMPLES)
        self._dropped = 0
        """Number of dropped chunks that could give a sample; every `step`-th of them does."""
        self._elements = Elements(depth)
        self._kinds = Kinds()
        self._seen: list[Any] = []
        """Elements that give the next expression its orders of keys: the first ones, and each that did not match before."""
        self._matcher: Matcher | None = None
        self._allowance = Allowance(PASSING)
        self._inside: Counter[Path] | None = Counter()
        """The number of objects at places inside of matched elements; None if text was not read for it."""
        self._matched = 0
        """Number of matched elements."""
        self._counter: inside.Counter | None = None
        self._uncounted: set[Path] = set()
        """Places that matched elements may have objects at, and that are not counted."""

    def add(self, items: list[Any], size: int) -> None:
        """Add the next elements, at least one; their text has `size` bytes."""
        self._elements.add(items)
        self._kinds.add(items)
        self._matcher = None  # it does not know what was just learnt
        if _is_end(len(self._head), self._head_size):
            self._take(_Chunk(items, len(items), size))
            return
        self._count += len(items)
        self.size += size
        self._head += items
        self._head_size += size
        self._seen = self._head[: sizes.SEEN]

    def match(self, text: bytes) -> bool:
        """Add the text of the next elements, each with a comma before it, if all of them match; else return False.

        After False the caller has to parse the elements and call `add`. The first that did not match goes into the next expression.
        """
        if self._allowance.is_spent or not _is_end(len(self._head), self._head_size):
            return False
        try:
            start = _first(text)
            self._matcher = self._matcher or self._make_matcher(text, start)
            data = b"%s," % text[start:]  # the expression wants the comma behind each element, the text has it before
            end = self._matcher.run(data, 0, len(data))
            count = data.count(self._matcher.marker, 0, end)
            if end < len(data):
                self._allowance.mismatched(len(text))
                self._seen.append(peek.value_at(text, peek.after_blanks(data, end) + start)[0])
                return False
        except (Irregular, peek.Unreadable):
            self._allowance.spend()
            return False
        self._allowance.matched(len(text))
        self._matched += count
        if self._inside is not None and self._counter is not None:
            try:
                self._inside.update(self._counter.count(text[start:]))
            except ValueError:
                self._inside = None
        self._take(_Chunk(text, count, len(text)))
        return True

    def _make_matcher(self, text: bytes, start: int) -> Matcher:
        node = self._elements.known()
        if node is None:
            raise Irregular("what was learnt of the elements is no exact description")
        colon = peek.colon_at(text, start) if node.kinds == OBJECT else b":"
        matcher = Matcher(node, self._seen, colon, lines=False)
        self._allowance.compiled(matcher.size)
        self._make_counter(node)
        return matcher

    def _wanted(self, node: Node) -> list[Path]:
        """Return the places inside of elements to count from now on: those that had no objects in elements matched without counting."""
        wanted, known = inside.wanted(node)
        places = [path for path in wanted if path not in self._uncounted]
        self._uncounted |= known.difference(places)
        return places

    def _make_counter(self, node: Node) -> None:
        places = self._wanted(node)
        try:
            self._counter = inside.Counter(node, places) if places and self._inside is not None else None
        except ValueError:
            self._inside = None

    def _take(self, chunk: _Chunk) -> None:
        self._count += chunk.count
        self.size += chunk.size
        self._tail.append(chunk)
        self._tail_count += chunk.count
        # Drop chunks from the front as long as the rest is still enough of an end.
        while True:
            first = self._tail[0]
            if not _is_end(self._tail_count - first.count, self.size - self._head_size - first.size):
                break
            self._tail.popleft()
            self._tail_count -= first.count
            self._drop(first)

    def _drop(self, dropped: _Chunk) -> None:
        self.size -= dropped.size
        if dropped.size > sizes.SMALL * dropped.count:
            return  # samples of large elements would take too much memory
        if self._dropped % self._samples.step == 0:
            try:
                self._samples.offer(dropped.sample)
            except peek.Unreadable:  # this element is much longer than the others, so it is no example of them
                return
        self._dropped += 1

    def shorten(self, most: int) -> None:
        """Keep about `most` bytes, and at least one element at each end."""
        if self.size <= most:
            return
        tail = [item for one in self._tail for item in one.values]
        if not tail:
            middle = -(-len(self._head) // 2)
            self._head, tail = self._head[:middle], self._head[middle:]
        if not tail:
            return
        share = most / self.size
        self._head = self._head[: max(1, int(len(self._head) * share))]
        tail = tail[-max(1, int(len(tail) * share)) :]
        self.size, self._head_size = most, max(most // 2, 1)
        self._tail = deque([_Chunk(tail, len(tail), most // 2)])

    def value(self) -> list[Any] | Rows:
        """Return the array, as `Rows` if something was dropped. Raises TooDeep if an element nests too deeply."""
        node, folded = self._elements.end()
        tail = [item for one in self._tail for item in one.values]
        if len(self._head) + len(tail) == self._count:
            return self._head + tail
        if self._matched:
            for place in places(node):
                place.is_sampled = True
        samples = self._samples.samples or self._head[-1:]
        counts: dict[Path, int] = {(): self._matched}
        if self._inside is not None:
            counts |= {path: self._inside[path] for path in self._wanted(node)}
        counted = partial(inside.objects, node, counts)
        return Rows(self._count, self._head, tail, samples, self._kinds.kind, node, folded, counted)


__all__ = ["ArrayScan", "TooDeep"]


def _is_end(count: int, size: int) -> bool:
    """Tell whether so many elements of so many bytes are enough of an end; a single element is enough only if it is huge."""
    return size >= sizes.END and (count > 1 or size >= sizes.ENDS // 4)


def _first(text: bytes) -> int:
    """Return the place at which the first element of a chunk begins, behind its comma."""
    return peek.after_blanks(text, peek.after_blanks(text, 0) + 1)
