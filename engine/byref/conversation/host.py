"""Join a host's asynchronous transaction from work on another thread.

Each unit of work is sent to the host's event loop and runs there by SQLAlchemy's `run_sync`, so it should only execute
statements: longer computations in between are sent back to the thread that the unit came from.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from byref.conversation.scope import AsyncHost
from byref.errors import ConfigurationError

try:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.util import await_only
except ImportError as error:
    raise ConfigurationError("asyncio in SQLAlchemy needs greenlet: pip install 'byref[async]'") from error

logger = logging.getLogger("byref")

T = TypeVar("T")

AsyncTransaction = AsyncSession | AsyncConnection | async_scoped_session[Any]

GRACE_SECONDS = 1.0
"""How long a running unit of work may continue after its caller was cancelled, before it is cancelled too."""
STEPS = 5
"""Steps of the event loop after which calls that are cancelled together all know it, also where each is within `wait_for`."""


class EventLoopHost(AsyncHost):
    """Runs the units of work of calls that are awaited on an event loop, one at a time per host transaction."""

    def __init__(self, host: AsyncTransaction) -> None:
        if isinstance(host, async_scoped_session):
            host = host()
        if not isinstance(host, AsyncSession | AsyncConnection):
            raise ConfigurationError(
                f"db: a sqlalchemy AsyncSession or AsyncConnection was expected, not {type(host).__name__}"
            )
        if isinstance(host, AsyncConnection) and host.sync_connection is None:
            raise ConfigurationError("db: the AsyncConnection is not open yet; use `async with engine.connect()`")
        self._host = host
        with _guard:
            self._shared = _shared.setdefault(host, _Shared())

    async def call(self, submit: Callable[[Callable[[], T]], Future[T]], work: Callable[[], T]) -> T:
        """Run `work` on another thread, by `submit`, with its units of work in the host's transaction.

        If it is cancelled, a running unit is first finished or rolled back, and no other one begins; then the work given to
        `on_leave` is done. Calls that are cancelled together end together.
        """
        call = _Call(self._host, asyncio.get_running_loop())
        try:
            return await asyncio.wrap_future(submit(partial(call.do, work)))
        except asyncio.CancelledError:
            await self._leave(submit, call)
            raise

    async def _leave(self, submit: Callable[[Callable[[], Any]], Future[Any]], call: _Call) -> None:
        gone = asyncio.get_running_loop().create_future()
        self._shared.leaving.add(gone)
        try:
            for _ in range(STEPS):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
            await call.leave()
            await self._undo(submit, call)
        finally:
            gone.set_result(None)
            self._shared.leaving.discard(gone)
            # `gather` ends with the first of its calls, and the host may close the transaction then: nobody may be at it any more.
            while self._shared.leaving:
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([*self._shared.leaving])

    async def _undo(self, submit: Callable[[Callable[[], Any]], Future[Any]], call: _Call) -> None:
        """Do the `on_leave` work of a cancelled call, on another thread: the call's own may stay busy for long."""

        def work() -> None:
            for undo in call.undoing:
                undo()

        if not call.undoing:
            return
        undo = _Call(self._host, asyncio.get_running_loop())
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await asyncio.wrap_future(submit(partial(undo.do, work)))
        except Exception:
            logger.warning("byref left what a cancelled call had staged to the next sweep", exc_info=True)
        finally:
            await undo.leave()

    def on_leave(self, work: Callable[[], None]) -> None:
        """Have work done, on some thread, if this call is cancelled."""
        call = _here.get()
        assert call is not None
        call.undoing.append(work)

    def run(self, unit: Callable[[Session | Connection], T]) -> T:
        """Run a unit of work on the event loop of the call that this thread works for."""
        call = _here.get()
        if call is None or call.host is not self._host:
            raise ConfigurationError(
                "this session joined a transaction on an event loop: read its data by `await session.value(…)`"
            )
        with self._shared.turn, call.begun():
            return call.run(unit)

    def compute(self, work: Callable[[], T]) -> T:
        """From within a unit, run work on the thread that the unit came from."""
        call = _here.get()
        assert call is not None
        return call.compute(work)


@dataclass(slots=True)
class _Shared:
    """What the calls of one host transaction have in common."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    """SQLAlchemy's sessions and connections allow no concurrent use."""
    leaving: set[asyncio.Future[None]] = field(default_factory=set)
    """Cancelled calls that have not ended; used on the event loop alone."""


class _Call:
    """One awaited call, shared between its thread and its event loop."""

    def __init__(self, host: AsyncSession | AsyncConnection, loop: asyncio.AbstractEventLoop) -> None:
        self.host = host
        self.undoing: list[Callable[[], None]] = []
        """The work to do if the call is cancelled."""
        self._loop = loop
        self._lock = threading.Lock()
        self._is_left = False
        self._unit: Future[None] | None = None
        self._running: asyncio.Future[Any] | None = None
        self._errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        """Computations that the unit sends to the call's thread; None: the unit has ended."""

    def do(self, work: Callable[[], T]) -> T:
        """Do work for this call, on the present thread."""
        _here.set(self)
        return work()

    @contextmanager
    def begun(self) -> Iterator[None]:
        """On the call's thread: mark a unit as running; CancelledError if the call was cancelled."""
        with self._lock:
            if self._is_left:
                raise asyncio.CancelledError
            unit = self._unit = Future()
        try:
            yield
        finally:
            unit.set_result(None)

    def run(self, unit: Callable[[Session | Connection], T]) -> T:
        """On the call's thread: let the loop run a unit, do the computations that it sends, and return or raise its result."""

        def begin() -> None:
            self._running = asyncio.ensure_future(self.host.run_sync(unit))
            self._running.add_done_callback(lambda _: self._errands.put(None))

        self._loop.call_soon_threadsafe(begin)
        while (errand := self._errands.get()) is not None:
            errand()
        assert self._running is not None
        result: T = self._running.result()
        return result

    def compute(self, work: Callable[[], T]) -> T:
        """On the loop, in a unit: send work to the call's thread and await its result."""
        answer: Future[T] = Future()

        def errand() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:  # noqa: BLE001  the unit's to handle
                answer.set_exception(error)

        self._errands.put(errand)
        result: T = await_only(asyncio.wrap_future(answer))
        return result

    async def leave(self) -> None:
        """On the loop: let no other unit begin, and wait for the running one; cancel it if it takes too long."""
        with self._lock:
            self._is_left = True
            unit = self._unit
        while unit is not None and not unit.done():
            with suppress(asyncio.CancelledError):  # cancelled a second time: there is no more grace
                await asyncio.wait({asyncio.wrap_future(unit)}, timeout=GRACE_SECONDS)
            if not unit.done() and self._running is not None:
                self._running.cancel()


_here: ContextVar[_Call | None] = ContextVar("byref_call", default=None)
"""The call that this thread works for."""
_guard = threading.Lock()
_shared: WeakKeyDictionary[AsyncSession | AsyncConnection, _Shared] = WeakKeyDictionary()
