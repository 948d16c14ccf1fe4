"""An array that passes by slice by slice."""

from __future__ import annotations

from collections import deque
from typing import Any

from byref.describe.rows import Rows
from byref.describe.schema import Elements, TooDeep
from byref.describe.shape import Elements as Kinds
from byref.skim import sizes
from byref.skim.sampling import Sampling


class Stretch:
    """What is kept and learnt of an array; as long as nothing was dropped, that is all of it."""

    def __init__(self, depth: int) -> None:
        self.size = 0
        """Bytes of the elements that are kept."""
        self._count = 0
        self._head: list[Any] = []
        self._head_size = 0
        self._tail: deque[tuple[list[Any], int]] = deque()
        self._tail_count = 0
        self._samples = Sampling[Any](sizes.ITEM_SAMPLES)
        self._slices = 0
        self._elements = Elements(depth)
        self._kinds = Kinds()

    def add(self, items: list[Any], size: int) -> None:
        """Take the next elements, at least one, of so many bytes."""
        self._count += len(items)
        self._elements.add(items)
        self._kinds.add(items)
        self.size += size
        if not _is_end(len(self._head), self._head_size):
            self._head += items
            self._head_size += size
            return
        self._tail.append((items, size))
        self._tail_count += len(items)
        while True:
            items, size = self._tail[0]
            if not _is_end(self._tail_count - len(items), self.size - self._head_size - size):
                break
            self._tail.popleft()
            self._tail_count -= len(items)
            self._drop(items, size)

    def _drop(self, items: list[Any], size: int) -> None:
        self.size -= size
        if size > sizes.SMALL * len(items):
            return
        if self._slices % self._samples.step == 0:
            self._samples.offer(items[len(items) // 2])
        self._slices += 1

    def shorten(self, most: int) -> None:
        """Keep about so many bytes, of one element at each end at least."""
        if self.size <= most:
            return
        tail = [item for items, _ in self._tail for item in items]
        if not tail:
            middle = -(-len(self._head) // 2)
            self._head, tail = self._head[:middle], self._head[middle:]
        if not tail:
            return
        share = most / self.size
        self._head = self._head[: max(1, int(len(self._head) * share))]
        tail = tail[-max(1, int(len(tail) * share)) :]
        self.size, self._head_size = most, max(most // 2, 1)
        self._tail = deque([(tail, most // 2)])

    def value(self) -> list[Any] | Rows:
        """Return the array, abridged if something was dropped. Raises TooDeep if an element was."""
        node, folded = self._elements.end()
        tail = [item for items, _ in self._tail for item in items]
        if len(self._head) + len(tail) == self._count:
            return self._head + tail
        samples = self._samples.samples or self._head[-1:]
        return Rows(self._count, self._head, tail, samples, self._kinds.kind, node, folded)


__all__ = ["Stretch", "TooDeep"]


def _is_end(count: int, size: int) -> bool:
    """Tell whether so many elements of so many bytes are enough of an end: two at least, unless they are huge."""
    return size >= sizes.END and (count > 1 or size >= sizes.ENDS // 4)
