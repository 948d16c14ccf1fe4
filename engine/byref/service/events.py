"""Server-sent events: a session's new steps, from whatever process they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from byref.adapters.common.shares import Shares
from byref.aio import AsyncSession
from byref.errors import ByrefError, SessionGone
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


def stream(
    open_session: Callable[[], Awaitable[AsyncSession]],
    request: Request,
    tenant: str,
    *,
    after: int,
    stopping: asyncio.Event,
) -> Response:
    """Return the response that tells of each step behind `after`, or behind the last that the client has seen."""
    seen = request.headers.get("Last-Event-ID", "")
    if seen.isascii() and seen.isdecimal() and len(seen) < 19:
        after = int(seen)
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return EventStream(_events(open_session, after, stopping), headers, _places, tenant)


async def _events(
    open_session: Callable[[], Awaitable[AsyncSession]], after: int, stopping: asyncio.Event
) -> AsyncIterator[bytes]:
    yield b": byref\n\n"  # the client knows at once that it is connected
    end = time.monotonic() + STREAM_SECONDS
    told = time.monotonic()
    while not stopping.is_set() and time.monotonic() < end:
        try:
            session = await open_session()
            steps = await session.ledger(after=after, limit=PAGE)
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
        if len(steps) >= PAGE:
            continue
        if time.monotonic() - told >= QUIET_SECONDS:
            yield b": quiet\n\n"
            told = time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), POLL_SECONDS)
