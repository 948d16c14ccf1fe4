"""A host's asynchronous transaction, joined by work on another thread.

Each unit of work goes to the host's event loop and runs there by `run_sync`, as SQLAlchemy has it: nothing but statements.
What it has to compute in between comes back to the thread that sent it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session
from sqlalchemy.util import await_only

from byref.conversation.scope import AsyncHost
from byref.errors import ConfigurationError

logger = logging.getLogger("byref")

T = TypeVar("T")

AsyncTransaction = AsyncSession | AsyncConnection | async_scoped_session[Any]

GRACE_SECONDS = 1.0
"""How long a unit of work may go on once its caller is cancelled: longer only while it waits for somebody's lock."""


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
            self._turn = _turns.setdefault(host, threading.Lock())

    async def call(self, submit: Callable[[Callable[[], T]], Future[T]], work: Callable[[], T]) -> T:
        """Run `work` on another thread, by `submit`, with its units of work in the host's transaction.

        When it is cancelled, a unit that is running is finished or rolled back first, and no other one begins; then what
        it has said by `on_leave` is done.
        """
        call = _Call(self._host, asyncio.get_running_loop())

        def called() -> T:
            _here.set(call)
            return work()

        try:
            return await asyncio.wrap_future(submit(called))
        except asyncio.CancelledError:
            await call.leave()
            await self._undo(submit, call)
            raise

    async def _undo(self, submit: Callable[[Callable[[], Any]], Future[Any]], call: _Call) -> None:
        """Do what is to be done after a call that was left, on another thread: its own may be at work for long."""

        def work() -> None:
            for undo in call.undoing:
                undo()

        if not call.undoing:
            return
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self.call(submit, work)
        except Exception:
            logger.warning("byref left what a cancelled call had staged to the next sweep", exc_info=True)

    def on_leave(self, work: Callable[[], None]) -> None:
        """Have work done, on some thread, if the caller of this call leaves."""
        call = _here.get()
        assert call is not None
        call.undoing.append(work)

    def run(self, unit: Callable[[Session | Connection], T]) -> T:
        """Run a unit of work on the loop of the call that this thread works for."""
        call = _here.get()
        if call is None or call.host is not self._host:
            raise ConfigurationError(
                "this session joined a transaction on an event loop: read its data by `await session.value(…)`"
            )
        with self._turn, call.begun():
            return call.run(unit)

    def compute(self, work: Callable[[], T]) -> T:
        """Run work of a unit on the thread that the unit came from."""
        call = _here.get()
        assert call is not None
        return call.compute(work)


class _Call:
    """One awaited call, as its thread and its event loop see it."""

    def __init__(self, host: AsyncSession | AsyncConnection, loop: asyncio.AbstractEventLoop) -> None:
        self.host = host
        self.undoing: list[Callable[[], None]] = []
        """What is to be done if it is left."""
        self._loop = loop
        self._lock = threading.Lock()
        self._is_left = False
        self._unit: Future[None] | None = None
        self._running: asyncio.Future[Any] | None = None
        self._errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        """What the unit has to compute; None: it has ended."""

    @contextmanager
    def begun(self) -> Iterator[None]:
        """On the call's thread: a unit of work, unless the caller is gone."""
        with self._lock:
            if self._is_left:
                raise asyncio.CancelledError
            unit = self._unit = Future()
        try:
            yield
        finally:
            unit.set_result(None)

    def run(self, unit: Callable[[Session | Connection], T]) -> T:
        """On the call's thread: have the loop run a unit, do what it asks for, and return or raise what it did."""

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
        """On the loop, in a unit: await what the call's thread computes."""
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
        """On the loop: let no other unit begin, and wait for the one that has; cancel what it waits for too long."""
        with self._lock:
            self._is_left = True
            unit = self._unit
        while unit is not None and not unit.done():
            with suppress(asyncio.CancelledError):  # cancelled a second time: there is no more grace
                await asyncio.wait({asyncio.wrap_future(unit)}, timeout=GRACE_SECONDS)
            if not unit.done() and self._running is not None:
                self._running.cancel()


_here: ContextVar[_Call | None] = ContextVar("byref_call", default=None)
"""The call that is worked for."""
_guard = threading.Lock()
_turns: WeakKeyDictionary[AsyncSession | AsyncConnection, threading.Lock] = WeakKeyDictionary()
"""SQLAlchemy's sessions and connections do one thing at a time."""
