"""`concurrent.futures` without threads and processes: each call is made at once, when it is submitted.

A function of the host works meanwhile, so of those there are several at once, as many as the executor has workers.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Self

from byref_sandbox.language.calling import HostFunction, unwrapped

FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED = "FIRST_COMPLETED", "FIRST_EXCEPTION", "ALL_COMPLETED"

_WORKERS: Final = 32
"""Of an executor that does not say how many, as in Python."""


class CancelledError(Exception):
    """The future was cancelled."""


class InvalidStateError(Exception):
    """The future has a result already."""


class BrokenExecutor(RuntimeError):
    """The executor cannot be used any more."""


class Future:
    """The result of a call that has been made, or that a function of the host is at."""

    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __init__(self) -> None:
        self._is_done = self._is_cancelled = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] = []
        self._wait: Callable[[float | None], object] | None = None
        """Waits for functions of the host; None: none is at this."""

    def result(self, timeout: float | None = None) -> Any:
        """Return the result, or raise the error."""
        if (error := self.exception(timeout)) is not None:
            raise error
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error; raise TimeoutError of a future that nobody has completed."""
        self._join(timeout)
        if self._is_cancelled:
            raise CancelledError
        if not self._is_done:
            if self._wait is not None:
                raise TimeoutError
            raise TimeoutError("nobody completes this future: there are no threads")
        return self._error

    def done(self) -> bool:
        """Whether it is complete."""
        return self._is_done

    def running(self) -> bool:
        """Whether a function of the host is at it."""
        return self._wait is not None

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._is_cancelled

    def cancel(self) -> bool:
        """Cancel it; tell whether that could be done. A call that is under way cannot be."""
        if not self._is_done and self._wait is None:
            self._is_cancelled = True
            self._complete(None, None)
        return self._is_cancelled

    def set_result(self, result: Any) -> None:
        """Complete it with a result."""
        self._complete(result, None)

    def set_exception(self, exception: BaseException | None) -> None:
        """Complete it with an error."""
        self._complete(None, exception)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Have it called with this future when that is done, which may be now."""
        if self._is_done:
            fn(self)
        else:
            self._callbacks.append(fn)

    def _join(self, timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        while self._wait is not None and (left := _left(until)) != 0:
            self._wait(left)

    def _complete(self, result: Any, error: BaseException | None) -> None:
        if self._is_done:
            raise InvalidStateError("the future is done")
        self._is_done, self._result, self._error, self._wait = True, result, error, None
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __repr__(self) -> str:
        state = "cancelled" if self._is_cancelled else "finished" if self._is_done else "pending"
        state = "running" if self.running() else state
        return f"<Future state={state}>"


class Executor:
    """Makes calls at once, one after the other; those of functions of the host beside each other."""

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        **_options: object,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._is_shut = False
        self._workers = max_workers or _WORKERS
        self._busy: list[Future] = []
        """Those that functions of the host are at."""
        if initializer is not None:
            initializer(*initargs)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Call it; the future holds what it returned or raised."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        try:
            if (host := unwrapped(fn)) is not None:
                self._begin(future, host[0], (*host[1], *args), {**host[2], **kwargs})
                return future
            result = fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever the code raises. Limits and exits are no `Exception`: they end the run.
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    def _begin(self, future: Future, function: HostFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        while len(self._busy) >= self._workers:
            _wait_for_one(self._busy, None)
            self._busy = [each for each in self._busy if each.running()]
        future._wait = function.complete(future, *args, **kwargs)
        self._busy.append(future)

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """Call it with each item; the results come in the order of the items."""
        until = None if timeout is None else time.monotonic() + timeout
        futures = [self.submit(fn, *arguments) for arguments in zip(*iterables)]  # noqa: B905  of different lengths, as in Python
        return (future.result(_left(until)) for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls."""
        self._is_shut = True
        for future in self._busy if wait else ():
            future._join(None)
        self._busy = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()


class ThreadPoolExecutor(Executor):
    """Makes calls without threads."""


class ProcessPoolExecutor(Executor):
    """Makes calls without processes."""


class DoneAndNotDoneFutures(NamedTuple):
    """What `wait` returns."""

    done: set[Future]
    not_done: set[Future]


def as_completed(fs: Iterable[Future], timeout: float | None = None) -> Iterator[Future]:
    """Yield the futures, those that are done first."""
    until = None if timeout is None else time.monotonic() + timeout
    pending = [*dict.fromkeys(fs)]
    count = len(pending)
    while pending:
        done = [future for future in pending if future.done()]
        pending = [future for future in pending if not future.done()]
        yield from done
        if not done and not _wait_for_one(pending, until):
            raise TimeoutError(f"{len(pending)} (of {count}) futures unfinished")


def wait(fs: Iterable[Future], timeout: float | None = None, return_when: str = ALL_COMPLETED) -> DoneAndNotDoneFutures:
    """Return the futures that are done once all are, or the first is, and the others."""
    until = None if timeout is None else time.monotonic() + timeout
    futures = set(fs)
    while True:
        done = {future for future in futures if future.done()}
        pending = futures - done
        failed = any(not future.cancelled() and future.exception() is not None for future in done)
        is_enough = {FIRST_COMPLETED: bool(done), FIRST_EXCEPTION: failed}.get(return_when, False)
        if is_enough or not pending or not _wait_for_one(pending, until):
            return DoneAndNotDoneFutures(done, pending)


def _wait_for_one(pending: Iterable[Future], until: float | None) -> bool:
    """Wait for what functions of the host are at; return False if they are at none of these, or the time is over."""
    wait_for = next((future._wait for future in pending if future._wait is not None), None)
    if wait_for is None or (left := _left(until)) == 0:
        return False
    wait_for(left)
    return True


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def names() -> dict[str, object]:
    """Return the names of `concurrent.futures`."""
    own: tuple[Any, ...] = (
        *(Executor, ThreadPoolExecutor, ProcessPoolExecutor, Future, as_completed, wait),
        *(CancelledError, InvalidStateError, BrokenExecutor),
    )
    for each in own:
        each.__module__ = "concurrent.futures"
    constants = {each: each for each in (FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED)}
    return {each.__name__: each for each in own} | constants | {"TimeoutError": TimeoutError}
