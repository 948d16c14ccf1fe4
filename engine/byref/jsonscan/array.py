"""An array that passes by slice by slice."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from byref.describe.nodes import OBJECT
from byref.describe.rows import Rows
from byref.describe.schema import Elements, TooDeep
from byref.describe.shape import Elements as Kinds
from byref.jsonscan import peek, sizes
from byref.jsonscan.matcher import Irregular, Matcher
from byref.jsonscan.sampler import Sampler
from byref_sandbox import jsontext


@dataclass(slots=True)
class _Slice:
    """Some elements, or the text of some, each with a comma before it."""

    items: list[Any] | bytes
    count: int
    size: int

    @property
    def values(self) -> list[Any]:
        if isinstance(self.items, bytes):
            values = jsontext.decode(b"[0%s]" % self.items)
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
    """What is kept and learnt of an array; as long as nothing was dropped, that is all of it."""

    def __init__(self, depth: int) -> None:
        self.size = 0
        """Bytes of the elements that are kept."""
        self._count = 0
        self._head: list[Any] = []
        self._head_size = 0
        self._tail: deque[_Slice] = deque()
        self._tail_count = 0
        self._samples = Sampler[Any](sizes.ITEM_SAMPLES)
        self._slices = 0
        self._elements = Elements(depth)
        self._kinds = Kinds()
        self._seen: list[Any] = []
        """Elements that tell what an expression of the others has to be like."""
        self._regular: Matcher | None = None
        self._to_lose = float(sizes.TO_LOSE)
        """Bytes that might be parsed in the time that expressions may still take in vain."""

    def add(self, items: list[Any], size: int) -> None:
        """Take the next elements, at least one, of so many bytes."""
        self._elements.add(items)
        self._kinds.add(items)
        self._regular = None
        if _is_end(len(self._head), self._head_size):
            self._take(_Slice(items, len(items), size))
            return
        self._count += len(items)
        self.size += size
        self._head += items
        self._head_size += size
        self._seen = self._head[: sizes.SEEN]

    def leap(self, text: bytes) -> bool:
        """Take the next elements, each with a comma before it, without parsing them, if they are like those before.

        Where they are not, they are to be parsed and added: the first that is different is noted then.
        """
        if self._to_lose < 0 or not _is_end(len(self._head), self._head_size):
            return False
        try:
            start = _first(text)
            self._regular = self._regular or self._expression(text, start)
            data = b"%s," % text[start:]
            end = self._regular.run(data, 0, len(data))
            count = data.count(self._regular.marker, 0, end)
            if end < len(data):
                self._to_lose -= sizes.LOST_OF_MATCHED * len(text)
                self._seen.append(peek.value_at(text, peek.after_blanks(data, end) + start)[0])
                return False
        except (Irregular, peek.Unreadable):
            self._to_lose = -1
            return False
        self._to_lose += sizes.LOST_OF_MATCHED * len(text)
        self._take(_Slice(text, count, len(text)))
        return True

    def _expression(self, text: bytes, start: int) -> Matcher:
        node = self._elements.known()
        if node is None:
            raise Irregular("maps were folded")
        colon = peek.colon_at(text, start) if node.kinds == OBJECT else b":"
        regular = Matcher(node, self._seen, colon, lines=False)
        self._to_lose -= sizes.COST * regular.size + sizes.COST_ONCE
        return regular

    def _take(self, taken: _Slice) -> None:
        self._count += taken.count
        self.size += taken.size
        self._tail.append(taken)
        self._tail_count += taken.count
        while True:
            first = self._tail[0]
            if not _is_end(self._tail_count - first.count, self.size - self._head_size - first.size):
                break
            self._tail.popleft()
            self._tail_count -= first.count
            self._drop(first)

    def _drop(self, dropped: _Slice) -> None:
        self.size -= dropped.size
        if dropped.size > sizes.SMALL * dropped.count:
            return
        if self._slices % self._samples.step == 0:
            try:
                self._samples.offer(dropped.sample)
            except peek.Unreadable:  # longer than others: no example of them
                return
        self._slices += 1

    def shorten(self, most: int) -> None:
        """Keep about so many bytes, of one element at each end at least."""
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
        self._tail = deque([_Slice(tail, len(tail), most // 2)])

    def value(self) -> list[Any] | Rows:
        """Return the array, abridged if something was dropped. Raises TooDeep if an element was."""
        node, folded = self._elements.end()
        tail = [item for one in self._tail for item in one.values]
        if len(self._head) + len(tail) == self._count:
            return self._head + tail
        samples = self._samples.samples or self._head[-1:]
        return Rows(self._count, self._head, tail, samples, self._kinds.kind, node, folded)


__all__ = ["ArrayScan", "TooDeep"]


def _is_end(count: int, size: int) -> bool:
    """Tell whether so many elements of so many bytes are enough of an end: two at least, unless they are huge."""
    return size >= sizes.END and (count > 1 or size >= sizes.ENDS // 4)


def _first(text: bytes) -> int:
    """Where the first element begins, behind its comma."""
    return peek.after_blanks(text, peek.after_blanks(text, 0) + 1)
