"""Server-sent events for a page that is open: that a session has new steps, not what is in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from sqlalchemy import Connection, select
from starlette.responses import Response

from byref.adapters.common.shares import Shares
from byref.db.database import Database
from byref.db.tables import SessionRow
from byref.errors import ByrefError
from byref.service.events import EventStream

POLL_SECONDS = 1.0
QUIET_SECONDS = 15.0
"""After so long without a step a comment is sent, so that proxies keep the connection."""
STREAM_SECONDS = 300.0
"""After so long a stream ends, and the browser connects again: rights are looked at anew."""
MAX_STREAMS = 200
"""Streams at once of one process, which tenants share."""
KEPT_STREAMS = 10
"""Streams that each tenant may have when the others have taken all."""

_places = Shares(MAX_STREAMS, several=True, kept=KEPT_STREAMS)


def stream(
    database: Database, tenant: str, session_row: int, after: int, headers: dict[str, str], stopping: asyncio.Event
) -> Response:
    """Return the response that tells the number of the last step, whenever there are steps behind `after`."""
    said = _events(lambda: database.ask(lambda c: _last(c, session_row)), after, stopping)
    return EventStream(said, headers, _places, tenant)


def _last(connection: Connection, session_row: int) -> int | None:
    query = select(SessionRow.next_step - 1).where(SessionRow.id == session_row, ~SessionRow.is_deleted)
    return connection.execute(query).scalar_one_or_none()


async def _events(last: Callable[[], int | None], after: int, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    yield b": byref\n\n"
    end = time.monotonic() + STREAM_SECONDS
    told = time.monotonic()
    while not stopping.is_set() and time.monotonic() < end:
        try:
            step = await asyncio.to_thread(last)
        except ByrefError:  # the database is away: the browser comes back later
            return
        if step is None:
            return
        if step > after:
            yield b"event: step\ndata: %d\n\n" % step
            after, told = step, time.monotonic()
        elif time.monotonic() - told >= QUIET_SECONDS:
            yield b": quiet\n\n"
            told = time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), POLL_SECONDS)
