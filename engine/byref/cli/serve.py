"""The verb `serve`: the HTTP API, for programs in any language."""

from __future__ import annotations

import asyncio
import socket
from argparse import Namespace

from byref.adapters.common.extras import missing
from byref.aio import AsyncEngine
from byref.cli import opening, output

try:
    from starlette.applications import Starlette

    from byref import service
    from byref.cli import connections
except ImportError as error:
    raise missing("byref serve", "uvicorn", "serve") from error

LEAVE_SECONDS = 60.0
"""Seconds for requests in progress to be answered after a signal: more than a run of code takes."""


def serve(options: Namespace) -> int:
    """Serve the HTTP API until a signal comes."""
    asyncio.run(_serve(options))
    return 0


async def _serve(options: Namespace) -> None:
    with connections.listening(options.host, options.port) as sock, connections.many_files():
        async with AsyncEngine(**opening.engine_arguments(options)) as engine:
            app = service.app(engine)
            connections.collect_seldom()
            host = f"[{options.host}]" if ":" in options.host else options.host
            output.note(f"byref: serving http://{host}:{sock.getsockname()[1]}/v1")
            await _Server(app).serve([sock])


class _Server(connections.Server):
    """A server that answers what it has accepted before it ends."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(app, leave_seconds=LEAVE_SECONDS)
        self._stopping: asyncio.Event = app.state.stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of events, which would last, and wait for the rest."""
        self._stopping.set()
        await super().shutdown(sockets)
