"""A host's asynchronous transaction, joined by work on another thread.

A unit of work runs on the thread that does the rest of the work, in a greenlet; only what SQLAlchemy awaits there is
awaited on the host's event loop. So the loop does no work of ours, and the host's driver never leaves its loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from greenlet import getcurrent, greenlet
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session

from byref.errors import ConfigurationError
from byref.scope import HostBridge

T = TypeVar("T")

AsyncHost = AsyncSession | AsyncConnection | async_scoped_session[Any]

GRACE_SECONDS = 1.0
"""How long a unit of work may go on once its caller is cancelled: longer only while it waits for somebody's lock."""


class AsyncBridge(HostBridge):
    """Runs the units of work of calls that are awaited on an event loop, one at a time per host transaction."""

    def __init__(self, host: AsyncHost) -> None:
        if isinstance(host, async_scoped_session):
            host = host()
        if not isinstance(host, AsyncSession | AsyncConnection):
            raise ConfigurationError(
                f"db: a sqlalchemy AsyncSession or AsyncConnection was expected, not {type(host).__name__}"
            )
        self._host = host
        with _guard:
            self._turn = _turns.setdefault(host, threading.Lock())
        self._thread = threading.local()

    async def call(self, submit: Callable[[Callable[[], T]], Future[T]], work: Callable[[], T]) -> T:
        """Run `work` on another thread, by `submit`, with its units of work in the host's transaction.

        When it is cancelled, a unit that is running is finished or rolled back first, and no other one begins.
        """
        call = _Call(asyncio.get_running_loop())

        def called() -> T:
            self._thread.call = call
            try:
                return work()
            finally:
                self._thread.call = None

        try:
            return await asyncio.wrap_future(submit(called))
        except asyncio.CancelledError:
            await call.leave()
            raise

    def run(self, unit: Callable[[Session | Connection], T]) -> T:
        """Run a unit of work; its caller's loop awaits what it awaits."""
        call: _Call | None = getattr(self._thread, "call", None)
        if call is None:
            raise ConfigurationError(
                "this session joined a transaction on an event loop: read its data by `await session.value(…)`"
            )
        with self._turn, call.begun():
            if isinstance(self._host, AsyncConnection):
                inside: Session | Connection | None = self._host.sync_connection
                if inside is None:
                    raise ConfigurationError("db: the AsyncConnection is not open; use `async with engine.connect()`")
            else:
                call.wait_for(self._host.connection())  # the host's pool is used on the loop alone
                inside = self._host.sync_session
            return call.drive(unit, inside)


class _Unit(greenlet):
    """Where SQLAlchemy may await."""

    __sqlalchemy_greenlet_provider__ = True


class _Call:
    """One awaited call, as its thread and its event loop see it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._is_left = False
        self._unit: Future[None] | None = None
        self._awaited: asyncio.Future[Any] | None = None

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

    def drive(self, unit: Callable[[Session | Connection], T], inside: Session | Connection) -> T:
        """On the call's thread: run a unit, handing over to the loop what it awaits."""
        worker = _Unit(unit)
        worker.gr_context = getcurrent().gr_context
        result: Any = worker.switch(inside)
        while not worker.dead:
            try:
                answer = self.wait_for(result)
            except BaseException as error:  # noqa: BLE001  the unit's to handle
                result = worker.throw(error)
            else:
                result = worker.switch(answer)
        unit_result: T = result
        return unit_result

    def wait_for(self, awaitable: Awaitable[Any]) -> Any:
        """On the call's thread: have the loop await something, and return or raise what becomes of it."""
        answer: Future[Any] = Future()

        def begin() -> None:
            self._awaited = asyncio.ensure_future(awaitable)
            self._awaited.add_done_callback(settle)

        def settle(done: asyncio.Future[Any]) -> None:
            if done.cancelled():
                answer.set_exception(asyncio.CancelledError())
            elif (error := done.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result())

        self._loop.call_soon_threadsafe(begin)
        return answer.result()

    async def leave(self) -> None:
        """On the loop: let no other unit begin, and wait for the one that has; cancel what it waits for too long."""
        with self._lock:
            self._is_left = True
            unit = self._unit
        while unit is not None and not unit.done():
            with suppress(asyncio.CancelledError):  # cancelled a second time: there is no more grace
                await asyncio.wait({asyncio.wrap_future(unit)}, timeout=GRACE_SECONDS)
            if not unit.done() and self._awaited is not None:
                self._awaited.cancel()


_guard = threading.Lock()
_turns: WeakKeyDictionary[AsyncSession | AsyncConnection, threading.Lock] = WeakKeyDictionary()
"""SQLAlchemy's sessions and connections do one thing at a time."""
