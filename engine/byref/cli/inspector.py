"""The verb `inspect`: the inspector's pages, for the person at this machine."""

from __future__ import annotations

import asyncio
import webbrowser
from argparse import Namespace
from typing import Any

from byref.adapters.common.extras import missing
from byref.aio import AsyncEngine
from byref.cli import opening, output
from byref.conversation import lifecycle
from byref_sandbox import Sandbox

try:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from byref.cli import connections
    from byref.service import Grant
    from byref.service.inspector import Inspector, OneTimeLink
except ImportError as error:
    raise missing("byref inspect", "uvicorn", "serve") from error

HOST = "127.0.0.1"
LEAVE_SECONDS = 2.0
"""Seconds for pages in progress after a signal."""


def inspect(options: Namespace) -> int:
    """Serve the inspector until a signal comes."""
    tenant = lifecycle.check_id("--tenant", str(options.tenant))
    asyncio.run(_serve(options, opening.arguments_to_read(options), tenant))
    return 0


async def _serve(options: Namespace, arguments: dict[str, Any], tenant: str) -> None:
    with connections.listening(HOST, options.port) as sock, connections.many_files():
        # The sandbox is never started, because nothing is run.
        async with AsyncEngine(**arguments, interpreter=Sandbox()) as engine:
            link = OneTimeLink(Grant(tenant, frozenset({"inspect", "content"})))
            app = Starlette(routes=[Mount("/inspect", app=Inspector(engine, link))])
            connections.collect_seldom()
            url = f"http://{HOST}:{sock.getsockname()[1]}/inspect/{link.path}"
            output.text(url)
            output.note("the link opens the inspector in one browser, once; Ctrl-C ends it")
            if options.open:
                await asyncio.to_thread(webbrowser.open, url)
            await connections.Server(app, leave_seconds=LEAVE_SECONDS).serve([sock])
