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
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from byref import service
    from byref.cli import connections
    from byref.service.problems import RETRY, Problem
except ImportError as error:
    raise missing("byref serve", "uvicorn", "serve") from error

LEAVE_SECONDS = 60.0
"""Seconds for requests in progress to be answered after a signal: more than a run of code takes."""
REFUSAL_SECONDS = 1.0
"""Seconds for clients to be told that their requests have no answer."""
CLOSE_SECONDS = 5.0
"""Seconds for what was not answered in time to be rolled back."""


def serve(options: Namespace) -> int:
    """Serve the HTTP API until a signal comes."""
    asyncio.run(_serve(options))
    return 0


async def _serve(options: Namespace) -> None:
    with connections.listening(options.host, options.port) as sock, connections.many_files():
        engine = AsyncEngine(**opening.engine_arguments(options))
        try:
            app = service.app(await engine.open())
            connections.collect_seldom()
            host = f"[{options.host}]" if ":" in options.host else options.host
            output.note(f"byref: serving http://{host}:{sock.getsockname()[1]}/v1")
            await _Server(app).serve([sock])
        finally:
            await engine._close(CLOSE_SECONDS)


class _Server(connections.Server):
    """A server that answers what it has accepted before it ends."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(_answering(app), leave_seconds=LEAVE_SECONDS)
        self._stopping: asyncio.Event = app.state.stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of events, which would last, and wait for the rest."""
        self._stopping.set()
        await super().shutdown(sockets)
        if cancelled := [*self.server_state.tasks]:
            await asyncio.wait(cancelled, timeout=REFUSAL_SECONDS)


def _answering(app: ASGIApp) -> ASGIApp:
    """Return an application whose requests that are cancelled, because the time to stop is over, are answered all the same."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await app(scope, receive, sent)
        except asyncio.CancelledError:
            if has_begun or scope["type"] != "http":
                raise
            said = "the server has stopped, and the request has no answer yet: send it again, under the same ids"
            await Problem(503, "stopped", said, RETRY).response(scope, receive, send)

    return answered
