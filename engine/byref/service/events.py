"""Server-sent events: a session's new steps, from whatever process they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress

from sqlalchemy import Connection, select
from starlette.requests import Request
from starlette.responses import Response

from byref.adapters.common.shares import Shares
from byref.aio import AsyncEngine, AsyncSession
from byref.artifacts.store import batched
from byref.db.tables import SessionRow
from byref.errors import ByrefError, SessionGone, StorageFailure
from byref.service import records
from byref.service.placed import PlacedResponse

POLL_SECONDS = 0.5
"""Between two looks at the database: the steps may be another process's."""
QUIET_SECONDS = 15.0
"""After so long without a step a comment is sent, so that proxies keep the connection."""
STREAM_SECONDS = 300.0
"""After so long a stream ends, and clients connect again by themselves: rights are looked at anew."""
MAX_STREAMS = 500
"""Streams at once of one process, which tenants share."""
KEPT_STREAMS = 10
"""Streams that each tenant may have when the others have taken all."""
PAGE = 100

_places = Shares(MAX_STREAMS, several=True, kept=KEPT_STREAMS)


class EventStream(PlacedResponse):
    """Server-sent events; a Problem if the tenant has no place left."""

    def __init__(self, said: AsyncIterator[bytes], headers: Mapping[str, str], places: Shares, tenant: str) -> None:
        about = {**headers, "Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
        super().__init__(said, 200, about, places, tenant, "streams are open")


class News:
    """The last steps of sessions. Whoever waits for one shares one look at the database with all others; used on one event loop."""

    def __init__(self, engine: AsyncEngine, stopping: asyncio.Event) -> None:
        self._engine, self._stopping = engine, stopping
        self._rows = set[int]()
        self._next: asyncio.Task[dict[int, int] | None] | None = None

    async def last(self, row: int) -> int:
        """Wait for the next look, and return the number of a session's last step.

        Raises:
            SessionGone: the session was deleted.
            StorageFailure: the database is away.
        """
        self._rows.add(row)
        if self._next is None:
            self._next = asyncio.create_task(self._look())
        found = await asyncio.shield(self._next)  # others wait for it, too
        if found is None:
            raise StorageFailure("the last steps of sessions cannot be read")
        if row not in found:
            raise SessionGone
        return found[row]

    async def _look(self) -> dict[int, int] | None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), POLL_SECONDS)
        rows, self._rows, self._next = self._rows, set(), None
        try:
            return await asyncio.to_thread(self._engine.database.read, lambda connection: _last_steps(connection, rows))
        except ByrefError:
            return None


def _last_steps(connection: Connection, rows: Collection[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for some in batched(rows):
        query = select(SessionRow.id, SessionRow.next_step).where(SessionRow.id.in_(some), ~SessionRow.is_deleted)
        found |= {row.id: row.next_step - 1 for row in connection.execute(query)}
    return found


def stream(
    session: AsyncSession, request: Request, tenant: str, *, after: int, news: News, stopping: asyncio.Event
) -> Response:
    """Return the response that tells of each step behind `after`, or behind the last that the client has seen."""
    seen = request.headers.get("Last-Event-ID", "")
    if seen.isascii() and seen.isdecimal() and len(seen) < 19:
        after = int(seen)
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return EventStream(_events(session, after, news, stopping), headers, _places, tenant)


async def _events(session: AsyncSession, after: int, news: News, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    yield b": byref\n\n"  # the client knows at once that it is connected
    row, end = session._session._scope.row, time.monotonic() + STREAM_SECONDS
    told = time.monotonic()
    last, read = 0, -1  # the session's last step, and which one that was when the ledger was read
    while not stopping.is_set() and time.monotonic() < end:
        try:
            if read == last:
                last = await news.last(row)
            steps = await session.ledger(after=after, limit=PAGE) if read != last else []
        except SessionGone:
            yield b"event: gone\ndata: {}\n\n"
            return
        except ByrefError:  # the database is away: the client comes back later
            return
        for entry in steps:
            data = records.encoded(records.record(entry, records.Entry))
            name = b"id: %d\nevent: step" % entry.step if entry.kind != "call" else b"event: call"
            yield name + b"\ndata: " + data + b"\n\n"
            after, told = entry.step if entry.kind != "call" else after, time.monotonic()
        if len(steps) < PAGE:
            read = last
        if time.monotonic() - told >= QUIET_SECONDS:
            yield b": quiet\n\n"
            told = time.monotonic()
