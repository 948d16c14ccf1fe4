"""How coroutines of the code run beside each other and wait for one another: what `asyncio` has for it, over the loop of the language."""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, Final, Self

from byref_sandbox.language import eventloop
from byref_sandbox.language.calling import awaited
from byref_sandbox.language.eventloop import (
    CancelledError,
    Future,
    Handle,
    InvalidStateError,
    Loop,
    Task,
    ensure_future,
    get_event_loop,
    iscoroutine,
)
from byref_sandbox.language.locks import (
    Barrier,
    BoundedSemaphore,
    BrokenBarrierError,
    Condition,
    Event,
    LifoQueue,
    Lock,
    PriorityQueue,
    Queue,
    QueueEmpty,
    QueueFull,
    QueueShutDown,
    Semaphore,
)

FIRST_COMPLETED: Final = "FIRST_COMPLETED"
FIRST_EXCEPTION: Final = "FIRST_EXCEPTION"
ALL_COMPLETED: Final = "ALL_COMPLETED"


def run(main: Coroutine[Any, Any, Any], *, debug: object = None, loop_factory: object = None) -> Any:
    """Run a coroutine to its end and return its result."""
    if not iscoroutine(main):
        raise ValueError(f"a coroutine was expected, got {main!r}")
    return get_event_loop()._run(main)


class Runner:
    """Runs several coroutines one after the other."""

    def __init__(self, *, debug: object = None, loop_factory: object = None) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def run(self, coro: Coroutine[Any, Any, Any], *, context: object = None) -> Any:
        """Run a coroutine to its end and return its result."""
        return run(coro)

    def get_loop(self) -> Loop:
        """Return the loop."""
        return get_event_loop()

    def close(self) -> None:
        """Do nothing: the loop ends with the run."""


def create_task(coro: Coroutine[Any, Any, Any], *, name: object = None, context: Any = None) -> Task:
    """Run a coroutine beside the others."""
    return get_event_loop().create_task(coro, name=name, context=context)


def current_task(loop: object = None) -> Task | None:
    """Return the task that runs."""
    return get_event_loop()._current


def all_tasks(loop: object = None) -> set[Task]:
    """Return the tasks that have not ended."""
    return set(get_event_loop()._tasks)


def isfuture(obj: object) -> bool:
    """Whether it is a future or a task."""
    return isinstance(obj, Future)


async def sleep(delay: float, result: Any = None) -> Any:
    """Let the others run, and go on after so many seconds."""
    if delay <= 0:
        await _Turn()
        return result
    loop = get_event_loop()
    future = loop.create_future()
    handle = loop.call_later(delay, _set_result, future, result)
    try:
        return await future
    finally:
        handle.cancel()


class _Turn:
    """Awaits the next turn of the loop."""

    def __await__(self) -> Generator[None]:
        yield


def _set_result(future: Future, result: Any = None) -> None:
    if not future.done():
        future.set_result(result)


async def to_thread(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call it at once; there are no threads. A function of the host works meanwhile."""
    called = awaited(func)
    return called(*args, **kwargs) if called is func else await called(*args, **kwargs)


# Several at once ---------------------------------------------------------------------------------------------------------------


class _Gathered(Future):
    """The results of several futures. To cancel it is to cancel them."""

    def __init__(self, children: list[Future], loop: Loop) -> None:
        super().__init__(loop=loop)
        self._children = children
        self._is_asked_to_end = False

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        cancelled = [child.cancel(msg) for child in self._children]
        self._is_asked_to_end = self._is_asked_to_end or any(cancelled)
        return any(cancelled)


_Gathered.__name__ = "_GatheringFuture"


def gather(*coros_or_futures: Any, return_exceptions: bool = False) -> Future:
    """Run all, and await the list of their results."""
    loop = get_event_loop()
    known: dict[int, Future] = {}
    for each in coros_or_futures:
        if id(each) not in known:  # a coroutine that is named twice runs once
            known[id(each)] = ensure_future(each)
    children = [known[id(each)] for each in coros_or_futures]
    outer = _Gathered(children, loop)
    if not children:
        outer.set_result([])
        return outer
    left = len(known)

    def child_done(child: Future) -> None:
        nonlocal left
        left -= 1
        if outer.done():
            if not child.cancelled():
                child.exception()  # somebody has looked at it
            return
        if not return_exceptions and not outer._is_asked_to_end:
            error = _error_of(child)
            if error is not None:
                outer._complete(None, error)
                return
        if left:
            return
        if outer._is_asked_to_end:
            outer._complete(None, CancelledError())
            return
        errors = map(_error_of, children)
        outer.set_result(
            [child._result if error is None else error for child, error in zip(children, errors, strict=True)]
        )

    for child in known.values():
        child.add_done_callback(child_done)
    return outer


def _error_of(future: Future) -> BaseException | None:
    return future._cancelled_error() if future.cancelled() else future.exception()


async def wait(
    fs: Iterable[Future], *, timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> tuple[set[Future], set[Future]]:
    """Wait for tasks; return those that are done and those that are not."""
    if isinstance(fs, Future) or iscoroutine(fs):
        raise TypeError(f"expect a list of futures, not {type(fs).__name__}")
    waited = set(fs)
    if not waited:
        raise ValueError("Set of Tasks/Futures is empty.")
    if return_when not in (FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED):
        raise ValueError(f"Invalid return_when value: {return_when}")
    if any(iscoroutine(each) for each in waited):
        raise TypeError("Passing coroutines is forbidden, use tasks explicitly.")
    waited = {ensure_future(each) for each in waited}

    def is_enough() -> bool:
        done = [each for each in waited if each.done()]
        return len(done) == len(waited) or (
            return_when != ALL_COMPLETED
            and any(
                return_when == FIRST_COMPLETED or (not each.cancelled() and each._error is not None) for each in done
            )
        )

    if not is_enough():
        loop = get_event_loop()
        waiter = loop.create_future()

        def check(_future: Future) -> None:
            if is_enough():
                _set_result(waiter)

        for each in waited:
            each.add_done_callback(check)
        handle = None if timeout is None else loop.call_later(timeout, _set_result, waiter)
        try:
            await waiter
        finally:
            if handle is not None:
                handle.cancel()
            for each in waited:
                each.remove_done_callback(check)
    done = {each for each in waited if each.done()}
    return done, waited - done


async def wait_for(fut: Awaitable[Any], timeout: float | None) -> Any:
    """Await it, but not longer than so many seconds; then it is cancelled, and TimeoutError is raised."""
    if timeout is not None and timeout <= 0:
        future = ensure_future(fut)
        if future.done():
            return future.result()
        future.cancel()
        try:
            return await future
        except CancelledError as error:
            raise TimeoutError from error
    async with Timeout(None if timeout is None else get_event_loop().time() + timeout):
        return await fut


def shield(arg: Awaitable[Any]) -> Future:
    """Await it so that a cancelled wait does not cancel it."""
    inner = ensure_future(arg)
    if inner.done():
        return inner
    outer = get_event_loop().create_future()

    def inner_done(inner: Future) -> None:
        if outer.done():
            if not inner.cancelled():
                inner.exception()
        elif inner.cancelled():
            outer.cancel()
        else:
            outer._complete(inner._result, inner.exception())

    inner.add_done_callback(inner_done)
    return outer


def as_completed(fs: Iterable[Any], *, timeout: float | None = None) -> _AsCompleted:
    """Return an iterator of awaitables; each gives the next result that is there."""
    if isinstance(fs, Future) or iscoroutine(fs):
        raise TypeError(f"expect an iterable of futures, not {type(fs).__name__}")
    return _AsCompleted({ensure_future(each) for each in set(fs)}, timeout)


class _AsCompleted:
    def __init__(self, waited: set[Future], timeout: float | None) -> None:
        self._left = len(waited)
        self._done = Queue()
        self._timer = None if timeout is None else get_event_loop().call_later(timeout, self._stop)
        self._is_late = False
        for each in waited:
            each.add_done_callback(self._done.put_nowait)

    def _stop(self) -> None:
        self._is_late = True
        self._done.put_nowait(None)

    async def _next(self) -> Future:
        if self._is_late and self._done.empty():
            raise TimeoutError
        future: Future | None = await self._done.get()
        if future is None:
            self._done.put_nowait(None)
            raise TimeoutError
        return future

    async def _next_result(self) -> Any:
        return (await self._next()).result()

    def __iter__(self) -> Iterator[Awaitable[Any]]:
        return self

    def __next__(self) -> Awaitable[Any]:
        if not self._left:
            raise StopIteration
        self._left -= 1
        return self._next_result()

    def __aiter__(self) -> AsyncIterator[Future]:
        return self

    async def __anext__(self) -> Future:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return await self._next()


class Timeout:
    """Cancels the task that is inside when its time comes; `async with` then raises TimeoutError."""

    def __init__(self, when: float | None) -> None:
        self._when = when
        self._task: Task | None = None
        self._handle: Handle | None = None
        self._is_expired = False
        self._cancels = 0

    def when(self) -> float | None:
        """Return its time, by the clock of the loop."""
        return self._when

    def reschedule(self, when: float | None) -> None:
        """Set another time."""
        self._when = when
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None if when is None else get_event_loop().call_at(when, self._expire)

    def expired(self) -> bool:
        """Whether its time has come."""
        return self._is_expired

    def _expire(self) -> None:
        assert self._task is not None
        self._is_expired = True
        self._task.cancel()

    async def __aenter__(self) -> Self:
        self._task = current_task()
        if self._task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self._cancels = self._task.cancelling()
        self.reschedule(self._when)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if not self._is_expired or self._task is None:
            return
        is_own = self._task.uncancel() <= self._cancels
        if is_own and kind is not None and issubclass(kind, CancelledError):
            raise TimeoutError from error


def timeout(delay: float | None) -> Timeout:
    """Return a context that ends after so many seconds."""
    return Timeout(None if delay is None else get_event_loop().time() + delay)


def timeout_at(when: float | None) -> Timeout:
    """Return a context that ends at a time of the loop's clock."""
    return Timeout(when)


class TaskGroup:
    """Tasks that are awaited together. If one of them fails, the others are cancelled, and a group of errors is raised."""

    def __init__(self) -> None:
        self._parent: Task | None = None
        self._tasks: set[Task] = set()
        self._errors: list[Exception] = []
        self._is_ending = self._is_aborting = self._has_cancelled_parent = False
        self._all_done: Future | None = None

    async def __aenter__(self) -> Self:
        if self._parent is not None:
            raise RuntimeError("TaskGroup has already been entered")
        self._parent = current_task()
        if self._parent is None:
            raise RuntimeError("TaskGroup cannot determine the parent task")
        return self

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: Any = None) -> Task:
        """Run a coroutine as one of the group."""
        if self._parent is None or (self._is_ending and not self._tasks) or self._is_aborting:
            if isinstance(coro, types.CoroutineType):
                coro.close()
            state = "has not been entered" if self._parent is None else "is finished or shutting down"
            raise RuntimeError(f"TaskGroup {state}")
        task = create_task(coro, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _abort(self) -> None:
        self._is_aborting = True
        for task in self._tasks:
            task.cancel()

    def _task_done(self, task: Task) -> None:
        self._tasks.discard(task)
        if self._all_done is not None and not self._tasks:
            _set_result(self._all_done)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        assert isinstance(error, Exception) and self._parent is not None
        self._errors.append(error)
        if not self._is_aborting and not self._parent.done():
            self._abort()
            if not self._is_ending:
                self._has_cancelled_parent = True
                self._parent.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._is_ending = True
        assert self._parent is not None
        cancelled = error if isinstance(error, CancelledError) else None
        if self._has_cancelled_parent and self._parent.uncancel() == 0:
            cancelled = None
        if kind is not None and not self._is_aborting:
            self._abort()
        while self._tasks:
            self._all_done = get_event_loop().create_future()
            try:
                await self._all_done
            except CancelledError as late:
                if not self._is_aborting:
                    cancelled = late
                    self._abort()
        if cancelled is not None and not self._errors:
            raise cancelled
        if isinstance(error, Exception):
            self._errors.append(error)
        if self._errors:
            raise ExceptionGroup("unhandled errors in a TaskGroup", self._errors)


def names() -> dict[str, object]:
    """Return the names of `asyncio`."""
    own: list[Any] = [
        *(run, Runner, create_task, current_task, all_tasks, ensure_future, isfuture, iscoroutine, get_event_loop),
        *(sleep, to_thread, gather, wait, wait_for, shield, as_completed, timeout, timeout_at, Timeout, TaskGroup),
        *(Lock, Event, Condition, Semaphore, BoundedSemaphore, Barrier, BrokenBarrierError),
        *(Queue, PriorityQueue, LifoQueue, QueueEmpty, QueueFull, QueueShutDown),
        *(Future, Task, Handle, CancelledError, InvalidStateError),
    ]
    for each in own:
        each.__module__ = "asyncio"
    Loop.__module__ = eventloop.Outside.__module__ = "asyncio"
    return {each.__name__: each for each in own} | {
        "TimeoutError": TimeoutError,
        "FIRST_COMPLETED": FIRST_COMPLETED,
        "FIRST_EXCEPTION": FIRST_EXCEPTION,
        "ALL_COMPLETED": ALL_COMPLETED,
        "get_running_loop": get_event_loop,
        "new_event_loop": get_event_loop,
        "set_event_loop": lambda loop: None,
        "AbstractEventLoop": Loop,
        "iscoroutinefunction": inspect.iscoroutinefunction,
    }
