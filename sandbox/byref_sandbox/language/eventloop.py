"""The event loop of the language: it runs coroutines of the code one after the other, and waits for nothing but the clock.

It does what `asyncio`'s loop does with futures and tasks, but has no sockets, files, threads, processes or signals, and nothing of it
leads to any: all attributes without an underscore may be used by code. There is one loop a run.
"""

from __future__ import annotations

import contextlib
import contextvars
import heapq
import inspect
import itertools
import sys
import time
import types
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Final, Protocol, TypeGuard

BACKGROUND_SECONDS: Final = 2.0
"""Tasks that nobody awaited go on for so long when the code has ended, as they would between two cells of a notebook."""
_DEADLOCK: Final = "deadlock: what is awaited is never set, put or released, since no other task is left to do it"
_MAX_TOLD: Final = 20
"""The most tasks of whose errors a run tells that nobody looked at them."""


class CancelledError(BaseException):
    """The future or task was cancelled."""


class InvalidStateError(Exception):
    """The future has a result already, or has none yet."""


class Outside(Protocol):
    """Completes futures from outside of the code: what a future waits for may be done by the host, say.

    It makes such a future by `Loop.create_future`, and completes it within `wait`. All calls are of the thread that runs the code.
    """

    def begun(self, func: Callable[..., Any], arguments: Sequence[Any]) -> Future | None:
        """Call what works outside; None: it does not, and is not called."""

    def finish(self) -> None:
        """Wait for what the code does not leave behind when it ends."""

    def is_busy(self) -> bool:
        """Whether there are futures that it has still to complete."""

    def wait(self, seconds: float | None) -> None:
        """Complete those futures whose results are there; if there are none, wait for the first, but at most so long."""


class Handle:
    """A call that the loop has still to make."""

    def __init__(self, call: Callable[..., object], arguments: tuple[Any, ...], when: float = 0.0) -> None:
        self._call = call
        self._arguments = arguments
        self._when = when
        self._is_cancelled = False

    def cancel(self) -> None:
        """Do not make the call."""
        self._is_cancelled = True

    def cancelled(self) -> bool:
        """Whether it will not be made."""
        return self._is_cancelled

    def when(self) -> float:
        """Return the time at which it is made, by the clock of the loop."""
        return self._when


class Loop:
    """Runs callbacks and tasks in the order in which they became ready. Where all of them wait for each other, the one that is waited
    for gets a RuntimeError.

    `outside` is asked whenever the loop has nothing to do, and between its turns while it is busy.
    """

    def __init__(self, outside: Outside | None = None) -> None:
        self._outside = outside
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = itertools.count()
        self._names = itertools.count(1)
        self._tasks: dict[Task, None] = {}
        self._failed: list[Task] = []
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()
        self._current: Task | None = None
        self._depth = 0

    # What code may do with it --------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the time by the loop's clock, in seconds."""
        return time.monotonic()

    def call_soon(self, callback: Callable[..., object], *arguments: Any, context: object = None) -> Handle:
        """Call it in the next turn."""
        handle = Handle(callback, arguments)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *arguments: Any, context: object = None
    ) -> Handle:
        """Call it after so many seconds."""
        return self.call_at(self.time() + delay, callback, *arguments)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: Any, context: object = None) -> Handle:
        """Call it at a time of the loop's clock."""
        handle = Handle(callback, arguments, when)
        heapq.heappush(self._timers, (float(when), next(self._numbers), handle))
        return handle

    def create_future(self) -> Future:
        """Return a future that nobody has completed."""
        return Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: Any = None) -> Task:
        """Run a coroutine beside the others. A call of a function of the host is under way already."""
        if self._outside is not None and isinstance(coro, Future):
            return coro  # type: ignore[return-value]
        return Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: object, func: Callable[..., Any], *arguments: Any) -> Future:
        """Call it at once; there are no threads. A function of the host works meanwhile."""
        future = self.create_future()
        try:
            if self._outside is not None and (begun := self._outside.begun(func, arguments)) is not None:
                return begun
            future.set_result(func(*arguments))
        except Exception as error:  # noqa: BLE001  whatever the code raises
            future.set_exception(error)
        return future

    def run_until_complete(self, future: Awaitable[Any]) -> Any:
        """Run until a future or coroutine is done, and return its result. It may be called while the loop is running."""
        main = ensure_future(future, loop=self)
        with self._running():
            while not main.done():
                if self._has_work():
                    self._turn()
                else:
                    main._stop_waiting(RuntimeError(_DEADLOCK))
        return main.result()

    def run_forever(self) -> None:
        """Run until nothing is left to do."""
        with self._running():
            while self._has_work():
                self._turn()

    def is_running(self) -> bool:
        """Whether it runs callbacks at the moment."""
        return self._depth > 0

    def is_closed(self) -> bool:
        """Whether it was closed, which has no effect here."""
        return False

    def stop(self) -> None:
        """Do nothing: the loop ends when nothing is left to do."""

    def close(self) -> None:
        """Do nothing: the loop ends with the run."""

    async def shutdown_asyncgens(self) -> None:
        """Close all asynchronous generators that have not ended."""
        for generator in list(self._generators):
            await generator.aclose()

    # What the language does with it --------------------------------------------------------------------------------------------

    def _run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end, then cancel the tasks that it began and has not awaited: `asyncio.run`."""
        before, generators = dict(self._tasks), set(self._generators)
        try:
            return self.run_until_complete(self.create_task(main))
        finally:
            left = [task for task in self._tasks if task not in before]
            for task in left:
                task.cancel()
            with self._running():
                while self._has_work() and not all(task.done() for task in left):
                    self._turn()
            for generator in set(self._generators) - generators:
                self.run_until_complete(generator.aclose())

    def _finish(self) -> None:
        """Let tasks go on that the code left, for a bounded time; tell of those that go on longer, and of errors that nobody saw."""
        end = self.time() + BACKGROUND_SECONDS
        with self._running():
            while self._tasks and self._has_work() and self._next_in() < max(0.0, end - self.time()):
                self._turn(max(0.0, end - self.time()))
        if self._outside is not None:
            self._outside.finish()
        if self._tasks and self._has_work():
            names = ", ".join(task.get_name() for task in itertools.islice(self._tasks, _MAX_TOLD))
            tell(f"stopped, since the code has ended without awaiting them: {names}")
        for task in self._failed:
            if not task._is_seen:
                error = task._error
                tell(f"Task exception was never retrieved: {task.get_name()}: {type(error).__name__}: {error}")

    @contextlib.contextmanager
    def _running(self) -> Generator[None]:
        self._depth += 1
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._generators.add, self._close_soon)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            self._depth -= 1

    def _close_soon(self, generator: AsyncGenerator[Any, Any]) -> None:
        # Within the finalizer of the generator no code may run.
        self.call_soon(lambda: self.create_task(_closed(generator)))

    def _is_busy_outside(self) -> bool:
        return self._outside is not None and self._outside.is_busy()

    def _has_work(self) -> bool:
        return bool(self._ready or self._live_timers() or self._is_busy_outside())

    def _live_timers(self) -> list[tuple[float, int, Handle]]:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers

    def _next_in(self) -> float:
        """Return how many seconds from now something is to be done."""
        if self._ready or self._is_busy_outside():
            return 0.0
        return max(0.0, self._live_timers()[0][0] - self.time())

    def _turn(self, most: float | None = None) -> None:
        """Make all calls that are due; if there are none, wait for the first, but at most so long. There must be work."""
        timers = self._live_timers()
        seconds = 0.0 if self._ready else max(0.0, timers[0][0] - self.time()) if timers else None
        if most is not None:
            seconds = most if seconds is None else min(seconds, most)
        if self._outside is not None and self._outside.is_busy():
            self._outside.wait(seconds)
        elif seconds:
            time.sleep(seconds)
        now = self.time()
        while timers and timers[0][0] <= now:
            self._ready.append(heapq.heappop(timers)[2])
        for _ in range(len(self._ready)):
            if not self._ready:  # a callback that runs the loop itself makes calls of this turn
                break
            handle = self._ready.popleft()
            if not handle.cancelled():
                try:
                    handle._call(*handle._arguments)
                except Exception as error:  # noqa: BLE001  whatever a callback raises
                    tell(f"Exception in callback: {type(error).__name__}: {error}")


async def _closed(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()


def tell(text: str) -> None:
    """Say something to the model, apart from the output."""
    if sys.stderr is not None:
        sys.stderr.write(f"asyncio: {text}\n")


_loop: contextvars.ContextVar[Loop | None] = contextvars.ContextVar("loop", default=None)


def begin(outside: Outside | None = None) -> None:
    """Begin a run: it has a loop of its own, which is made when something asks for it."""
    _loop.set(Loop(outside) if outside is not None else None)


def has_outside() -> bool:
    """Whether something outside of the code may complete futures."""
    loop = _loop.get()
    return loop is not None and loop._outside is not None


def get_event_loop() -> Loop:
    """Return the loop of the run."""
    loop = _loop.get()
    if loop is None:
        loop = Loop()
        _loop.set(loop)
    return loop


def finish() -> None:
    """Let tasks of the run go on that its code left."""
    loop = _loop.get()
    if loop is not None:
        loop._finish()


class Future:
    """A result that will be there later. `await` gives it, or raises its error."""

    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __init__(self, *, loop: Loop | None = None) -> None:
        self._loop = loop if type(loop) is Loop else get_event_loop()
        self._callbacks: list[Callable[[Any], object]] = []
        self._is_done = False
        self._is_cancelled = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_seen = False
        self._message: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a later run needs of one that is done."""
        if not self._is_done:
            raise TypeError("a task or future that has not ended: await it")
        return self.__dict__ | dict.fromkeys(("_loop", "_coro", "_context", "_waits_for"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _loop=get_event_loop())

    def get_loop(self) -> Loop:
        """Return its loop."""
        return self._loop

    def done(self) -> bool:
        """Whether it has a result or an error, or was cancelled."""
        return self._is_done

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._is_cancelled

    def result(self) -> Any:
        """Return the result, or raise the error."""
        if (error := self.exception()) is not None:
            raise error.with_traceback(error.__traceback__)
        return self._result

    def exception(self) -> BaseException | None:
        """Return the error; raise CancelledError or InvalidStateError."""
        if self._is_cancelled:
            raise self._cancelled_error()
        if not self._is_done:
            raise InvalidStateError("Result is not set.")
        self._is_seen = True
        return self._error

    def set_result(self, result: Any) -> None:
        """Complete it with a result."""
        self._complete(result, None)

    def set_exception(self, exception: Any) -> None:
        """Complete it with an error."""
        if isinstance(exception, type) and issubclass(exception, BaseException):
            exception = exception()
        if not isinstance(exception, BaseException) or isinstance(exception, StopIteration):
            raise TypeError("an exception other than StopIteration was expected")
        self._complete(None, exception)

    def cancel(self, msg: Any = None) -> bool:
        """Cancel it; tell whether that could be done."""
        if self._is_done:
            return False
        self._is_cancelled, self._message = True, msg
        self._complete(None, None)
        return True

    def add_done_callback(self, fn: Callable[[Any], object], *, context: object = None) -> None:
        """Have it called with this future when that is done."""
        if self._is_done:
            self._loop.call_soon(fn, self)
        else:
            self._callbacks.append(fn)

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Take back a callback; return how often it was there."""
        left = [each for each in self._callbacks if each != fn]
        removed = len(self._callbacks) - len(left)
        self._callbacks = left
        return removed

    def _complete(self, result: Any, error: BaseException | None) -> None:
        if self._is_done:
            raise InvalidStateError("invalid state")
        self._is_done, self._result, self._error = True, result, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._loop.call_soon(callback, self)

    def _stop_waiting(self, error: BaseException) -> None:
        """Raise an error where this waits for something that never comes."""
        raise error

    def _cancelled_error(self) -> CancelledError:
        return CancelledError() if self._message is None else CancelledError(self._message)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._is_done:
            yield self
        if not self._is_done:
            raise RuntimeError("await wasn't used with future")
        return self.result()

    __iter__ = __await__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._about()}>"

    def _about(self) -> str:
        if not self._is_done:
            return "pending"
        if self._is_cancelled:
            return "cancelled"
        return f"finished result={self._result!r}" if self._error is None else f"finished exception={self._error!r}"


class Task(Future):
    """A coroutine that runs beside others."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        loop: Loop | None = None,
        name: object = None,
        context: Any = None,
        eager_start: bool = False,
    ) -> None:
        if not iscoroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        super().__init__(loop=loop)
        self._coro = coro
        self._called = getattr(coro, "__qualname__", type(coro).__name__)
        self._context = contextvars.copy_context()
        self._name = f"Task-{next(self._loop._names)}" if name is None else str(name)
        self._must_cancel = False
        self._cancels = 0
        self._waits_for: Future | None = None
        self._loop._tasks[self] = None
        self._loop.call_soon(self._step)

    def get_name(self) -> str:
        """Return its name."""
        return self._name

    def set_name(self, value: object) -> None:
        """Name it."""
        self._name = str(value)

    def get_coro(self) -> Coroutine[Any, Any, Any]:
        """Return its coroutine."""
        return self._coro

    def set_result(self, result: Any) -> None:
        """Raise RuntimeError: the coroutine gives the result."""
        raise RuntimeError("Task does not support set_result operation")

    def set_exception(self, exception: Any) -> None:
        """Raise RuntimeError: the coroutine raises the error."""
        raise RuntimeError("Task does not support set_exception operation")

    def cancel(self, msg: Any = None) -> bool:
        """Have CancelledError raised in the coroutine; tell whether it had not ended."""
        if self._is_done:
            return False
        self._cancels += 1
        if self._waits_for is not None and self._waits_for.cancel(msg):
            return True
        self._must_cancel, self._message = True, msg
        return True

    def cancelling(self) -> int:
        """Return how many requests to cancel it there are."""
        return self._cancels

    def uncancel(self) -> int:
        """Take back one request to cancel it."""
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def _step(self, error: BaseException | None = None) -> None:
        """Run the coroutine up to the next thing that it has to wait for."""
        if self._must_cancel:
            if not isinstance(error, CancelledError):
                error = self._cancelled_error()
            self._must_cancel = False
        self._waits_for = None
        outer, self._loop._current = self._loop._current, self
        resume = self._coro.throw if error is not None else self._coro.send
        try:
            waits_for = self._context.run(resume, error)  # type: ignore[arg-type]
        except StopIteration as end:
            if self._must_cancel:  # it was cancelled in its last step
                self._end_cancelled(self._message)
            else:
                self._end(end.value, None)
        except CancelledError as end:
            self._end_cancelled(end.args[0] if end.args else None)
        except Exception as end:  # noqa: BLE001  whatever the code raises. Limits and exits are no `Exception`: they end the run.
            if len(self._loop._failed) < _MAX_TOLD:
                self._loop._failed.append(self)
            self._end(None, end)
        else:
            self._wait_for(waits_for)
        finally:
            self._loop._current = outer

    def _end(self, result: Any, error: BaseException | None) -> None:
        del self._loop._tasks[self]
        self._complete(result, error)

    def _end_cancelled(self, message: Any) -> None:
        self._is_cancelled, self._message = True, message
        self._end(None, None)

    def _wait_for(self, waits_for: object) -> None:
        if isinstance(waits_for, Future) and waits_for is not self:
            waits_for.add_done_callback(self._wake)
            self._waits_for = waits_for
            if self._must_cancel and waits_for.cancel(self._message):
                self._must_cancel = False
        elif waits_for is None:
            self._loop.call_soon(self._step)
        else:
            what = "cannot await on itself" if waits_for is self else f"got bad yield: {waits_for!r}"
            self._loop.call_soon(self._step, RuntimeError(f"Task {what}"))

    def _stop_waiting(self, error: BaseException) -> None:
        """Raise an error in the coroutine, so that it names the line that waits."""
        if self._waits_for is None:  # it runs at the moment, and waits for itself
            raise error
        self._waits_for.remove_done_callback(self._wake)
        self._step(error)

    def _wake(self, future: Future) -> None:
        try:
            future.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001  whatever the code has put in
            self._step(error)
        else:
            self._step()

    def _about(self) -> str:
        about = super()._about()
        state, _, rest = about.partition(" ")
        return f"{state} name={self._name!r} coro=<{self._called}()>{' ' + rest if rest else ''}"


def iscoroutine(obj: object) -> bool:
    """Whether it is a coroutine."""
    return isinstance(obj, types.CoroutineType | Coroutine)


def is_unawaited(value: Any) -> TypeGuard[types.CoroutineType[Any, Any, Any]]:
    """Whether it is a coroutine that nobody has begun to await."""
    return type(value) is types.CoroutineType and inspect.getcoroutinestate(value) == inspect.CORO_CREATED


def ensure_future(coro_or_future: Any, *, loop: Loop | None = None) -> Future:
    """Return the future itself, or the task of an awaitable."""
    if isinstance(coro_or_future, Future):
        return coro_or_future
    loop = loop if type(loop) is Loop else get_event_loop()
    if iscoroutine(coro_or_future):
        return loop.create_task(coro_or_future)
    if inspect.isawaitable(coro_or_future):
        return loop.create_task(_awaited(coro_or_future))
    if loop._outside is not None:  # what a function of the host has returned where nothing awaited it
        future = loop.create_future()
        future.set_result(coro_or_future)
        return future
    raise TypeError("An asyncio.Future, a coroutine or an awaitable is required")


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
