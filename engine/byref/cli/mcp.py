"""The verb that serves other programs' models: mcp."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from argparse import Namespace
from datetime import timedelta

from byref.adapters import mcp as adapter
from byref.adapters.common.extras import missing
from byref.cli import opening
from byref.cli.parser import Default
from byref.engine import Engine
from byref.gateway.config import MAX_RESULT_BYTES
from byref.policy import Policy

try:
    from mcp.server.stdio import stdio_server

    from byref.cli import serving
    from byref.cli.serving import Place
except ImportError as error:
    raise missing("byref mcp", "mcp", "mcp") from error

POLICY = Policy(
    headroom_percentage=1.0,
    max_threshold_bytes=MAX_RESULT_BYTES,
    ledger_ttl=timedelta(days=30),
    tools=(*Policy().tools, "list_artifacts", "store_artifact"),
)
"""A server never learns how full the context of its client's model is; and nobody comes to delete its sessions."""
IDLE_SECONDS = 24 * 3600.0
"""After its last request a client's connection (`Mcp-Session-Id`) is forgotten."""
MAX_BODY_BYTES = 4 << 20


def mcp(options: Namespace) -> int:
    """Serve the Model Context Protocol until the client leaves, or until a signal."""
    place = serving.place_of(options)
    # Threads cannot be stopped: whatever still runs on one when the client has left gets no more than this.
    last = threading.Timer(serving.LEAVE_SECONDS, os._exit, (0,))
    last.daemon = True
    with opening.engine_to_write(options, POLICY) as engine:
        try:
            if place is None:
                asyncio.run(_serve_stdio(engine, options, last))
            else:
                asyncio.run(_serve_http(engine, options, place, last))
        finally:
            last.cancel()
    return 0


async def _serve_stdio(engine: Engine, options: Namespace, last: threading.Timer) -> None:
    named = None if isinstance(options.session, Default) else options.session
    session = named or f"mcp-{secrets.token_hex(8)}"
    server = adapter.server(engine, tenant=options.tenant, session=session, model=options.model)
    for kind in serving.SIGNALS:
        asyncio.get_running_loop().add_signal_handler(kind, _leave, engine, last)
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client has gone without a word
    finally:
        last.start()
        engine.close()


def _leave(engine: Engine, last: threading.Timer) -> None:
    """End at once: the thread that reads standard input is inside a call that only the client could end."""
    last.start()
    try:
        engine.close()
    finally:
        os._exit(0)


async def _serve_http(engine: Engine, options: Namespace, place: Place, last: threading.Timer) -> None:
    server = adapter.server(
        engine,
        tenant=adapter.tenant_of_token if place.tenants else options.tenant,
        session=None if isinstance(options.session, Default) else options.session,
        model=options.model,
    )
    try:
        await serving.serve(server, place, idle_seconds=IDLE_SECONDS, max_body_bytes=MAX_BODY_BYTES)
    finally:
        last.start()
        engine.close()
