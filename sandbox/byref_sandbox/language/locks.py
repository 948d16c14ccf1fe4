"""What coroutines of the code share with each other: locks, events and queues of `asyncio`, over the loop of the language."""

from __future__ import annotations

import collections
import heapq
import types
from collections.abc import Callable
from typing import Any

from byref_sandbox.language.eventloop import CancelledError, Future, get_event_loop


class _Waiters:
    """Tasks that wait until one of them is let in."""

    def __init__(self) -> None:
        self._waiters: collections.deque[Future] = collections.deque()

    async def _wait(self) -> None:
        future = get_event_loop().create_future()
        self._waiters.append(future)
        try:
            await future
        finally:
            self._waiters.remove(future)

    def _wake(self, count: int = 1) -> None:
        for future in self._waiters:
            if count <= 0:
                break
            if not future.done():
                future.set_result(None)
                count -= 1

    def __repr__(self) -> str:
        return f"<asyncio.{type(self).__name__}>"


class _Entered(_Waiters):
    """A lock for `async with`."""

    async def acquire(self) -> bool:
        """Wait until it is free."""
        raise NotImplementedError

    def release(self) -> None:
        """Give it free."""

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_error: object) -> None:
        self.release()


class Semaphore(_Entered):
    """Lets so many tasks in at a time."""

    def __init__(self, value: int = 1) -> None:
        super().__init__()
        if value < 0:
            raise ValueError("Semaphore initial value must be >= 0")
        self._value = value

    def locked(self) -> bool:
        """Whether a task that comes now has to wait."""
        return self._value == 0 or any(not future.cancelled() for future in self._waiters)

    async def acquire(self) -> bool:
        """Wait until there is room."""
        if not self.locked():
            self._value -= 1
            return True
        future = get_event_loop().create_future()
        self._waiters.append(future)
        try:
            await future
        except CancelledError:
            if not future.cancelled():  # it was let in, and is cancelled in the same turn
                self._value += 1
            raise
        finally:
            self._waiters.remove(future)
            self._pass_on()
        return True

    def release(self) -> None:
        """Make room for one more."""
        self._value += 1
        self._pass_on()

    def _pass_on(self) -> None:
        for future in self._waiters:
            if self._value > 0 and not future.done():
                self._value -= 1
                future.set_result(True)


class BoundedSemaphore(Semaphore):
    """A semaphore that cannot be released more often than it was acquired."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self._bound = value

    def release(self) -> None:
        """Make room for one more; raise ValueError."""
        if self._value >= self._bound:
            raise ValueError("BoundedSemaphore released too many times")
        super().release()


class Lock(Semaphore):
    """Lets one task in at a time."""

    def __init__(self) -> None:
        super().__init__(1)

    def release(self) -> None:
        """Let the next one in."""
        if self._value:
            raise RuntimeError("Lock is not acquired.")
        super().release()


class Event(_Waiters):
    """Tasks wait until it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Let all go on that wait for it."""
        self._is_set = True
        self._wake(len(self._waiters))

    def clear(self) -> None:
        """Have tasks wait for it again."""
        self._is_set = False

    async def wait(self) -> bool:
        """Wait until it is set."""
        if not self._is_set:
            await self._wait()
        return True


class Condition(_Entered):
    """A lock whose owners wait for others to notify them."""

    def __init__(self, lock: Lock | None = None) -> None:
        super().__init__()
        self._lock = lock if isinstance(lock, Lock) else Lock()

    def locked(self) -> bool:
        """Whether a task is inside."""
        return self._lock.locked()

    async def acquire(self) -> bool:
        """Wait until it is free."""
        return await self._lock.acquire()

    def release(self) -> None:
        """Let the next one in."""
        self._lock.release()

    async def wait(self) -> bool:
        """Leave it, wait to be notified, and enter it again."""
        if not self.locked():
            raise RuntimeError("cannot wait on un-acquired lock")
        self.release()
        try:
            await self._wait()
        finally:
            await self.acquire()
        return True

    async def wait_for(self, predicate: Callable[[], Any]) -> Any:
        """Wait until a function says so."""
        while not (result := predicate()):
            await self.wait()
        return result

    def notify(self, n: int = 1) -> None:
        """Let so many go on that wait."""
        if not self.locked():
            raise RuntimeError("cannot notify on un-acquired lock")
        self._wake(n)

    def notify_all(self) -> None:
        """Let all go on that wait."""
        self.notify(len(self._waiters))


class BrokenBarrierError(RuntimeError):
    """The barrier was aborted or reset while a task waited."""


class Barrier:
    """Tasks wait until there are so many of them."""

    def __init__(self, parties: int) -> None:
        if parties < 1:
            raise ValueError("parties must be >= 1")
        self._parties = parties
        self._inside: list[Future] = []
        self._is_broken = False

    parties = property(lambda self: self._parties)
    n_waiting = property(lambda self: len(self._inside))
    broken = property(lambda self: self._is_broken)

    async def wait(self) -> int:
        """Wait for the others; return which of them this one is."""
        if self._is_broken:
            raise BrokenBarrierError("Barrier aborted")
        place, future = len(self._inside), get_event_loop().create_future()
        self._inside.append(future)
        if len(self._inside) == self._parties:
            self._let_go(None)
        await future
        return place

    def _let_go(self, error: Exception | None) -> None:
        inside, self._inside = self._inside, []
        for future in inside:
            if not future.done():
                future._complete(None, error)

    async def reset(self) -> None:
        """Send those away that wait."""
        self._let_go(BrokenBarrierError("Barrier aborted"))

    async def abort(self) -> None:
        """Break it."""
        self._is_broken = True
        await self.reset()

    async def __aenter__(self) -> int:
        return await self.wait()

    async def __aexit__(self, *_error: object) -> None: ...


class QueueEmpty(Exception):
    """There is nothing in the queue."""


class QueueFull(Exception):
    """There is no room in the queue."""


class QueueShutDown(Exception):
    """The queue takes nothing more."""


class Queue:
    """Tasks put things in, others get them out, first in, first out."""

    def __init__(self, maxsize: int = 0) -> None:
        self._maxsize = maxsize
        self._items: Any = collections.deque()
        self._getters, self._putters, self._all_done = _Waiters(), _Waiters(), Event()
        self._unfinished = 0
        self._is_shut = False
        self._all_done.set()

    maxsize = property(lambda self: self._maxsize)
    __class_getitem__: Any = classmethod(types.GenericAlias)

    def _take(self) -> Any:
        return self._items.popleft()

    def _store(self, item: Any) -> None:
        self._items.append(item)

    def qsize(self) -> int:
        """Return how many things are in it."""
        return len(self._items)

    def empty(self) -> bool:
        """Whether nothing is in it."""
        return not self._items

    def full(self) -> bool:
        """Whether nothing more goes in."""
        return 0 < self._maxsize <= len(self._items)

    def put_nowait(self, item: Any) -> None:
        """Put something in; raise QueueFull."""
        if self._is_shut:
            raise QueueShutDown
        if self.full():
            raise QueueFull
        self._store(item)
        self._unfinished += 1
        self._all_done.clear()
        self._getters._wake()

    def get_nowait(self) -> Any:
        """Get something out; raise QueueEmpty."""
        if self.empty():
            raise QueueShutDown if self._is_shut else QueueEmpty
        item = self._take()
        self._putters._wake()
        return item

    async def put(self, item: Any) -> None:
        """Put something in when there is room."""
        while self.full() and not self._is_shut:
            try:
                await self._putters._wait()
            except CancelledError:
                if not self.full():
                    self._putters._wake()
                raise
        self.put_nowait(item)

    async def get(self) -> Any:
        """Get something out when there is something."""
        while self.empty() and not self._is_shut:
            try:
                await self._getters._wait()
            except CancelledError:
                if not self.empty():
                    self._getters._wake()
                raise
        return self.get_nowait()

    def task_done(self) -> None:
        """Say that something is done that was got out."""
        if self._unfinished <= 0:
            raise ValueError("task_done() called too many times")
        self._unfinished -= 1
        if not self._unfinished:
            self._all_done.set()

    async def join(self) -> None:
        """Wait until all is done that was put in."""
        await self._all_done.wait()

    def shutdown(self, immediate: bool = False) -> None:
        """Take nothing more in."""
        self._is_shut = True
        while immediate and not self.empty():
            self._take()
            self.task_done()
        for waiters in (self._getters, self._putters):
            waiters._wake(len(waiters._waiters))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} maxsize={self._maxsize} size={self.qsize()}>"


class PriorityQueue(Queue):
    """A queue of which the smallest thing comes out first."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        self._items = []

    def _take(self) -> Any:
        return heapq.heappop(self._items)

    def _store(self, item: Any) -> None:
        heapq.heappush(self._items, item)


class LifoQueue(Queue):
    """A queue of which the last thing comes out first."""

    def _take(self) -> Any:
        return self._items.pop()
