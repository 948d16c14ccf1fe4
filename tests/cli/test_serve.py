"""The end of `byref serve`: what is answered, what has to be sent again, and how long it takes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import byref
from byref import db, service
from byref.cli import serve
from byref.service import auth

SLOW = {"name": "slow", "parameters": {"type": "object", "properties": {}}, "timeout": 60}


@pytest.mark.slow
def test_a_server_that_stops_answers_whom_it_keeps_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for a client goes on with the next server; an upload has to be sent again."""
    monkeypatch.setattr(serve, "LEAVE_SECONDS", 1.0)
    url = f"sqlite:///{tmp_path}/chat.db"
    db.upgrade(url)
    code = {"name": "code_interpreter", "arguments": {"code": "slow()"}, "call_id": "c1"}

    async def rows(over: asyncio.Event) -> AsyncIterator[bytes]:
        while not over.is_set():
            yield b"a,b\n"
            await asyncio.sleep(0.05)

    async def stopped(engine: byref.AsyncEngine, head: dict[str, str]) -> list[httpx.Response]:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            server = serve._Server(service.app(engine))
            running, over = asyncio.ensure_future(server.serve([sock])), asyncio.Event()
            base = f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
            async with httpx.AsyncClient(base_url=base, headers=head, timeout=30) as client:
                assert (await client.put("/sessions/chat", json={"functions": [SLOW]})).status_code == 200
                upload = client.post(
                    "/sessions/chat/outputs?tool=t", headers={"Content-Type": "text/csv"}, content=rows(over)
                )
                waiting = [
                    asyncio.ensure_future(one) for one in (client.post("/sessions/chat/call", json=code), upload)
                ]
                assert (await client.post("/calls/take", json={"worker": "w"})).json()
                server.should_exit = True
                run = await waiting[0]
                over.set()  # httpx reads the answer behind the last piece
                answers = [run, await waiting[1]]
            await running
            return answers

    async def work() -> None:
        engine = byref.AsyncEngine(url, jail="language-only")
        await engine.open()
        token = auth.create(engine.database, tenant="acme", name="t", rights=auth.RIGHTS)
        async with asyncio.timeout(40):  # the function has a minute
            for answer in await stopped(engine, {"Authorization": f"Bearer {token}"}):
                assert (answer.status_code, answer.json()["type"]) == (503, "urn:byref:stopped"), answer.text
                assert answer.headers["Retry-After"]
            await engine._close(0.5)
        async with byref.AsyncEngine(url, jail="language-only") as again:
            session = await again.session("chat", tenant="acme", create=False)
            assert [entry for entry in await session.ledger() if entry.kind != "call"] == []

    asyncio.run(work())
