"""A service in this process, and clients of it that need no socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx

from byref import AsyncEngine
from byref.cli import connections
from byref.service import app, auth

Talk = Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]


class House:
    """A service in this process, and the event loop that it runs on."""

    def __init__(self, engine: AsyncEngine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine, self.loop, self.app = engine, loop, app(engine)

    def token(self, tenant: str, *rights: str) -> str:
        return auth.create(self.engine.database, tenant=tenant, name="test", rights=rights or auth.RIGHTS)

    def client(self, token: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url="http://byref/v1",
            headers={"Authorization": f"Bearer {token}"},
        )

    def talk(self, token: str, talk: Talk) -> Any:
        async def work() -> Any:
            async with self.client(token) as client:
                return await talk(client)

        return self.loop.run_until_complete(work())


@asynccontextmanager
async def served(house: House) -> AsyncIterator[str]:
    """Serve at a port of this machine, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = connections.Server(house.app, leave_seconds=1)
        running = asyncio.ensure_future(server.serve([sock]))
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
