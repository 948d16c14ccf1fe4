"""HTTP on both sides: servers at addresses, of both kinds, and a gateway that serves several clients over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from forking import FORKS
from gateway_kit import SHOP, Heard, Place, eventually, free_port, serving, text_of
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


class Addresses:
    """A gateway that serves HTTP, before one server that speaks streamable HTTP and one that speaks SSE."""

    def __init__(self, place: Place, url: str, config: str) -> None:
        self.place, self.url, self.config = place, url, config

    @asynccontextmanager
    async def client(self, mode: str = "legacy", heard: Heard | None = None, **headers: str) -> AsyncIterator[Client]:
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        async with httpx2.AsyncClient(headers=given, timeout=httpx2.Timeout(30, read=60)) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=mode, **(heard.callbacks() if heard else {})) as client:
                yield client


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    place = Place(tmp_path_factory.mktemp("http"))
    one, two, three = free_port(), free_port(), free_port()
    env = {**os.environ, "SHOP_NOTES": str(place.notes), "SECRET": "s3cret-value"}
    config = place.write(
        {
            "near": {
                "type": "http",
                "url": f"http://127.0.0.1:{one}/mcp",
                "headers": {"Authorization": "Bearer ${SECRET}"},
            },
            "far": {"url": f"http://127.0.0.1:{two}/sse"},
            "here": place.shop("here"),
        }
    )
    tokens = place.folder / "tokens.json"
    tokens.write_text(json.dumps({"acme": "acme-token", "globex": "globex-token"}))
    command = place.command("--config", config, "--http", f"127.0.0.1:{three}", "--tokens", str(tokens))
    with (
        serving(FORKS.command(SHOP, "near", "--http", str(one)), one, env=env),
        serving(FORKS.command(SHOP, "far", "--sse", str(two)), two, env=env),
        (place.folder / "stderr").open("w") as log,
        serving(command, three, env=env, log=log),
    ):
        yield Addresses(place, f"http://127.0.0.1:{three}/mcp", config)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.slow)])
def test_servers_at_addresses_and_processes_side_by_side(addresses: Addresses, mode: str) -> None:
    heard = Heard()

    async def work() -> None:
        async with addresses.client(mode, heard, authorization="Bearer acme-token") as client:
            for name in ("near", "far", "here"):
                assert text_of(await client.call_tool(f"{name}__whoami", {})) == name
            big = await client.call_tool("near__list_users", {"count": 20_000})
            names = [name for name in big.structured_content["byref"]["variables"] if name.startswith("users")]
            for name in ("far", "here"):
                given = {"ids": {"$var": names[0], "jq": "map(.id)"}}
                assert text_of(await client.call_tool(f"{name}__sum_ids", given)).startswith("20000 ids")
            assert text_of(await client.call_tool("far__sample", {})) == "toy: two"
            assert text_of(await client.call_tool("near__elicit", {})) == 'accept: {"size": "XL"}'
            seen: list[float] = []

            async def progress(done: float, total: float | None, message: str | None) -> None:
                seen.append(done)

            await client.call_tool("near__slow", {"seconds": 0.3}, progress_callback=progress)
            assert len(seen) > 2

    asyncio.run(work())


class Patient(Heard):
    """Answers once it is let."""

    async def elicitation(self, context: Any, params: Any) -> Any:
        await self.may_answer.wait()
        return await super().elicitation(context, params)


@pytest.mark.slow
def test_a_question_is_of_the_call_on_whose_stream_it_comes(addresses: Addresses) -> None:
    """It does not end with a newer call, which has nothing to do with it."""
    heard = Patient()

    async def work() -> None:
        heard.may_answer = asyncio.Event()
        async with addresses.client("legacy", heard, authorization="Bearer acme-token") as client:
            asking = asyncio.create_task(client.call_tool("near__elicit", {"after": 0.2}))
            await asyncio.sleep(0.1)
            assert text_of(await client.call_tool("near__slow", {"seconds": 0.6})) == "slept"
            heard.may_answer.set()
            assert text_of(await asking) == 'accept: {"size": "XL"}'

    asyncio.run(work())


@pytest.mark.slow
def test_clients_have_conversations_of_their_own(addresses: Addresses) -> None:
    async def work() -> None:
        async with (
            addresses.client(authorization="Bearer acme-token") as one,
            addresses.client(authorization="Bearer acme-token") as other,
        ):
            await one.call_tool("here__list_users", {"count": 5000})
            given = {"ids": {"$var": "users", "jq": "map(.id)"}}
            assert text_of(await one.call_tool("here__sum_ids", given)).startswith("5000 ids")
            assert (await other.call_tool("here__sum_ids", given)).is_error

    asyncio.run(work())


@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.slow)])
def test_a_named_session_is_its_tenants_alone(addresses: Addresses, mode: str) -> None:
    named = {"x_byref_session": f"chat-{mode}"}
    given = {"ids": {"$var": "users", "jq": "map(.id)"}}

    async def work() -> None:
        async with addresses.client(mode, authorization="Bearer acme-token", **named) as client:
            await client.call_tool("here__list_users", {"count": 5000})
        async with addresses.client(mode, authorization="Bearer acme-token", **named) as client:
            assert text_of(await client.call_tool("here__sum_ids", given)).startswith("5000 ids")
        async with addresses.client(mode, authorization="Bearer globex-token", **named) as client:
            assert (await client.call_tool("here__sum_ids", given)).is_error

    asyncio.run(work())


def test_nobody_comes_in_without_a_token(addresses: Addresses) -> None:
    answer = httpx2.post(addresses.url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert answer.status_code == 401


@pytest.mark.slow
def test_the_servers_of_a_client_end_with_its_connection(addresses: Addresses) -> None:
    async def work() -> None:
        addresses.place.notes.write_text("")
        async with addresses.client(authorization="Bearer globex-token") as client:
            assert text_of(await client.call_tool("here__whoami", {})) == "here"
        assert await eventually(lambda: "here eof" in addresses.place.notes.read_text(), 10)

    asyncio.run(work())


def test_no_secret_is_in_any_log(addresses: Addresses) -> None:
    assert "s3cret" not in (addresses.place.folder / "stderr").read_text()


@pytest.mark.slow
def test_a_server_that_comes_back_at_its_address_is_found_again(place: Place) -> None:
    port = free_port()
    command = FORKS.command(SHOP, "near", "--http", str(port))
    config = place.write({"near": {"url": f"http://127.0.0.1:{port}/mcp"}})

    async def work() -> None:
        async with place.client("--config", config) as client:
            with serving(command, port, env=dict(os.environ)):
                assert await answers(client)
            gone = await client.call_tool("whoami", {})
            assert gone.is_error and "'near'" in text_of(gone)
            with serving(command, port, env=dict(os.environ)):
                assert await answers(client)

    async def answers(client: Client) -> bool:
        async def asked() -> Any:
            try:
                return text_of(await client.call_tool("whoami", {}))
            except Exception:
                return ""

        for _ in range(100):
            if await asked() == "near":
                return True
            await asyncio.sleep(0.2)
        return False

    asyncio.run(work())


def test_a_refusal_is_told_with_its_status(place: Place) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        config = place.write({"shut": {"type": "http", "url": f"http://127.0.0.1:{port}/mcp?key=s3cret"}})
        async with server, place.client("--config", config) as client:
            await client.list_tools()

    asyncio.run(work())
    assert "'shut'" in place.errors() and "HTTP 401" in place.errors() and "s3cret" not in place.errors()


ASKED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}},
}


def posted(addresses: Addresses, content: bytes, **headers: str) -> httpx2.Response:
    given = {**ASKED, "authorization": "Bearer acme-token", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return httpx2.post(addresses.url, content=content, headers=given, timeout=30)


@pytest.mark.parametrize("name", ["x" * 600, ""])
def test_a_sessions_name_that_is_none_is_refused_with_the_cause(addresses: Addresses, name: str) -> None:
    refused = posted(addresses, json.dumps(HELLO).encode(), x_byref_session=name)
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "x-byref-session" in message and "512 bytes" in message


@pytest.mark.slow
def test_a_body_may_have_64_mb(addresses: Addresses) -> None:
    refused = posted(addresses, b" " * ((64 << 20) + 1))
    assert refused.status_code == 413
    message = refused.json()["error"]["message"]
    assert "64 MB" in message and "by reference" in message
    assert posted(addresses, b" " * (5 << 20) + json.dumps(HELLO).encode()).status_code == 200


@pytest.mark.slow
def test_preflights_of_pages_of_this_machine_are_answered(addresses: Addresses) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "mcp-session-id,authorization"}
    for origin, status in (
        ("http://localhost:6274", 200),
        ("https://evil.example", 400),
        ("http://localhost.evil", 400),
    ):
        answer = httpx2.options(addresses.url, headers={"origin": origin, **asked})
        assert answer.status_code == status
        assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)
    answer = posted(addresses, json.dumps(HELLO).encode(), origin="http://localhost:6274")
    assert answer.headers["access-control-allow-origin"] == "http://localhost:6274"
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"].lower()
