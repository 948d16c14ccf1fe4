"""Servers and clients of both eras of the protocol: whoever asks gets an answer, whichever way there is."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from forking import FORKS
from gateway_kit import Heard, Held, Place, eventually, free_port, serving, text_of
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

ERAS = str(Path(__file__).parent / "era_server.py")
RAW = str(Path(__file__).parent / "raw_server.py")
MODES = ["legacy", pytest.param("auto", marks=pytest.mark.slow)]
WAYS = [
    ("stdio", "legacy"),
    ("http", "auto"),
    *(pytest.param(way, marks=pytest.mark.slow) for way in (("stdio", "auto"), ("http", "legacy"))),
]


def asker(place: Place) -> dict[str, Any]:
    command, *args = FORKS.command(ERAS)
    return {"command": command, "args": args, "env": {"SHOP_NOTES": str(place.notes)}}


class Asking:
    """A client before a gateway before one server that asks."""

    def __init__(self, held: Held, heard: Heard, place: Place) -> None:
        self.held, self.heard, self.place = held, heard, place

    def ran(self, tool: str) -> list[str]:
        """The processes that a tool ran in, one for each run."""
        return [line.split()[0] for line in self.place.notes.read_text().splitlines() if line.split()[1] == tool]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    port, notes = free_port(), tmp_path_factory.mktemp("eras") / "notes"
    with serving(FORKS.command(ERAS, "--http", str(port)), port, env={**os.environ, "SHOP_NOTES": str(notes)}):
        yield f"http://127.0.0.1:{port}/mcp", notes


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def asking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, address: tuple[str, Path]
) -> Iterator[Asking]:
    carrier, mode = request.param
    place, heard = Place(tmp_path_factory.mktemp("asking")), Heard()
    if carrier == "http":
        place.notes.symlink_to(address[1])
    config = place.write({"eras": asker(place) if carrier == "stdio" else {"url": address[0]}})
    with Held(lambda: place.client("--config", config, mode=mode, heard=heard)) as held:
        yield Asking(held, heard, place)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("tool", ["by_answer", "by_request", "by_either"])
def test_a_tool_asks_the_user_whichever_way_it_asks(asking: Asking, tool: str) -> None:
    for _ in range(2):
        asking.heard.asked.clear()
        assert text_of(asking.held.call(tool)) == "accept XL"
        assert [asked.message for asked in asking.heard.asked] == ["[server eras] Which size?"]


def test_a_tool_asks_for_several_things_at_once(asking: Asking) -> None:
    asking.heard.asked.clear()
    assert text_of(asking.held.call("all_at_once")) == "XL two file:///tmp/root"
    assert len(asking.heard.asked) == 3


@pytest.mark.quick_cases(1)
def test_a_tool_asks_several_times(asking: Asking) -> None:
    asking.heard.asked.clear()
    assert text_of(asking.held.call("in_rounds", {"rounds": 5})) == "5 rounds"
    assert [asked.message for asked in asking.heard.asked] == [
        f"[server eras] Round {number}?" for number in range(1, 6)
    ]


@pytest.mark.quick_cases(1)
def test_a_tool_may_have_no_answer_yet(asking: Asking) -> None:
    assert text_of(asking.held.call("not_yet")) == "now"


@pytest.mark.quick_cases(1)
def test_a_prompt_and_a_resource_ask(asking: Asking) -> None:
    async def work(client: Client) -> Any:
        return await client.get_prompt("asking_prompt"), await client.read_resource("eras://north/size")

    prompt, read = asking.held.run(work)
    assert prompt.messages[0].content.text == "Size XL"
    assert read.contents[0].text == "north XL"


def test_an_error_after_a_question_is_the_servers(asking: Asking) -> None:
    with pytest.raises(MCPError, match="not today") as caught:
        asking.held.call("fails")
    assert caught.value.error.code == -32050 and caught.value.error.data == {"why": "closed"}


def test_what_the_client_can_do_is_told(asking: Asking) -> None:
    assert (
        text_of(asking.held.call("able")) == text_of(asking.held.call("able_by_answer")) == "elicitation roots sampling"
    )


def test_it_is_learned_once_how_a_tool_asks(asking: Asking) -> None:
    asking.held.call("by_answer")
    before = len(asking.ran("by_answer"))
    asking.held.call("by_answer")
    assert len(asking.ran("by_answer")) == before + 2  # the question, and the answer


def test_what_asks_nothing_stays_where_it_was(asking: Asking) -> None:
    first = asking.held.call("plain") and asking.ran("plain")[-1]
    asking.held.call("by_answer")
    assert asking.held.call("plain") and asking.ran("plain")[-1] == first


def test_an_argument_goes_into_a_header_too(asking: Asking) -> None:
    async def listed(client: Client) -> Any:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    tool = asking.held.run(listed)["in_region"]
    assert tool.input_schema["properties"]["region"]["x-mcp-header"] == "Region"
    assert text_of(asking.held.call("in_region", {"region": "north", "ids": [1, 2]})).startswith("north 2 ")


def test_a_server_at_an_address_tells_of_changes_as_servers_of_2026_do(asking: Asking) -> None:
    """A process would have to be started twice for it."""
    uri, client = "eras://north/size", asking.held.client
    assert client is not None
    if "url" not in (asking.place.folder / "mcp.json").read_text():
        return

    async def told(client: Client) -> set[str]:
        asking.heard.told.clear()
        await client.session.subscribe_resource(uri)
        for tool, arguments in (("change", {}), ("touch", {"uri": uri}), ("touch", {"uri": "eras://south/size"})):
            await client.call_tool(tool, arguments)
        expected = {"notifications/tools/list_changed", "notifications/resources/updated"}
        assert await eventually(lambda: expected <= set(asking.heard.told))
        assert asking.heard.told.count("notifications/resources/updated") == 1
        await client.session.unsubscribe_resource(uri)
        await client.call_tool("touch", {"uri": uri})
        await client.call_tool("change", {})
        assert await eventually(lambda: asking.heard.told.count("notifications/tools/list_changed") >= 2)
        assert asking.heard.told.count("notifications/resources/updated") == 1
        return {tool.name for tool in (await client.list_tools()).tools}

    async def listened(client: Client) -> set[str]:
        async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as events:
            await client.call_tool("touch", {"uri": uri})
            await client.call_tool("change", {})
            found = []
            async for event in events:
                found.append(event)
                if ResourceUpdated(uri) in found and ToolsListChanged() in found:
                    break
        return {tool.name for tool in (await client.list_tools()).tools}

    if client.protocol_version == "2026-07-28":
        assert "new_one" in asking.held.run(listened)
    else:
        with pytest.warns(Warning):
            assert "new_one" in asking.held.run(told)


@pytest.mark.slow
def test_an_old_client_subscribes_at_a_server_without_a_handshake(place: Place) -> None:
    config = place.write({"modern": {"command": sys.executable, "args": [RAW, "modern"]}})

    async def work() -> None:
        async with place.client("--config", config, heard=(heard := Heard())) as client:
            for _ in range(2):
                heard.told.clear()
                await client.session.subscribe_resource("shelf://new")
                assert await eventually(lambda: "notifications/resources/updated" in heard.told)
                await client.session.unsubscribe_resource("shelf://new")

    with pytest.warns(Warning):
        asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_second_connection_that_ends_is_opened_again(place: Place, mode: str) -> None:
    config = place.write({"eras": asker(place)})

    async def work() -> None:
        async with place.client("--config", config, mode=mode, heard=Heard()) as client:
            assert text_of(await client.call_tool("by_answer", {})) == "accept XL"
            ended = await client.call_tool("end", {})
            assert ended.is_error and "exited with code 3" in text_of(ended) and "unknown" in text_of(ended)
            assert text_of(await client.call_tool("plain", {})) == "plain"
            assert await answered(client, "by_answer") == "accept XL"
            # The first one, too.
            assert (await client.call_tool("end_plainly", {})).is_error
            assert text_of(await client.call_tool("by_answer", {})) == "accept XL"
            assert await answered(client, "by_request") == "accept XL"

    asyncio.run(work())


async def answered(client: Client, tool: str) -> str:
    """What a tool says once its server is there again."""
    until = time.monotonic() + 10
    while (result := await client.call_tool(tool, {})).is_error and time.monotonic() < until:
        await asyncio.sleep(0.1)
    return text_of(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param("hides-and-hangs", marks=pytest.mark.slow),
        "hides-and-refuses",
        pytest.param("hides-and-exits", marks=pytest.mark.slow),
        pytest.param("hides-and-is-old", marks=pytest.mark.slow),
    ],
)
def test_a_server_of_the_handshake_alone_is_left_in_peace(place: Place, behaviour: str) -> None:
    """It is asked once, not for long, and nothing of its waits meanwhile."""
    env = {"SHOP_NOTES": str(place.notes)}
    server = {"command": sys.executable, "args": [RAW, behaviour], "env": env}
    config = place.write({"old": server}, start_timeout=2)

    async def refused(client: Client) -> None:
        with pytest.raises(MCPError, match="Handler returned an invalid result"):
            await client.call_tool("raw", {})

    async def work() -> None:
        async with place.client("--config", config, heard=Heard()) as client:
            assert text_of(await client.call_tool("sound", {})) == "sound"
            began = time.monotonic()
            asked = asyncio.create_task(refused(client))
            for _ in range(5):
                assert text_of(await client.call_tool("sound", {})) == "sound"
                await asyncio.sleep(0.02)
            await asked
            assert time.monotonic() - began < 8
            began = time.monotonic()
            await refused(client)
            assert time.monotonic() - began < 1

    asyncio.run(work())
    notes = place.notes.read_text().split()
    assert notes.count("discover") == 1 and notes.count("initialize") == 1 and notes.count("call") == 2


@pytest.mark.slow
def test_who_gives_up_waiting_for_a_second_connection_gets_it_the_next_time(place: Place) -> None:
    config = place.write({"eras": asker(place)})

    async def work() -> None:
        async with place.client("--config", config, heard=Heard()) as client:
            await client.call_tool("plain", {})
            with anyio.move_on_after(0.02):
                await client.call_tool("by_answer", {})
            assert text_of(await client.call_tool("by_answer", {})) == "accept XL"

    asyncio.run(work())
    assert place.notes.read_text().count(" started") == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_cannot_answer_is_not_asked(place: Place, mode: str) -> None:
    config = place.write({"eras": asker(place)})

    async def work() -> None:
        async with place.client("--config", config, mode=mode) as client:
            for tool in ("able", "able_by_answer"):
                assert text_of(await client.call_tool(tool, {})) == ""
            with pytest.raises(MCPError, match=r"not support|did not say"):
                await client.call_tool("by_request", {})

    asyncio.run(work())


Opens = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, address: tuple[str, Path]) -> Iterator[Opens]:
    """Clients of a gateway that serves HTTP, one session for all, before the server at an address."""
    place, port = Place(tmp_path_factory.mktemp("served")), free_port()
    config = place.write({"eras": {"url": address[0]}})
    command = place.command("--config", config, "--http", f"127.0.0.1:{port}", "--session", "shared")

    @asynccontextmanager
    async def opened(**callbacks: Any) -> AsyncIterator[Client]:
        async with httpx2.AsyncClient(timeout=httpx2.Timeout(30)) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
            async with Client(transport, mode="auto", **callbacks) as client:
                yield client

    with serving(command, port):
        yield opened


def test_clients_of_one_session_are_told_apart_by_what_they_can_do(served: Opens) -> None:
    """Since 2026 each request says it."""
    heard = Heard()
    some = {"elicitation_callback": heard.elicitation}

    async def work() -> list[str]:
        found = []
        for callbacks in (heard.callbacks(), some, {}):
            async with served(**callbacks) as client:
                assert client.protocol_version == "2026-07-28"
                found.append(text_of(await client.call_tool("able_by_answer", {})))
        async with served(**some) as client:
            assert "XL" in text_of(await client.call_tool("by_request", {}))
        return found

    assert asyncio.run(work()) == ["elicitation roots sampling", "elicitation", ""]


def test_headers_that_say_something_else_than_the_call_are_refused(served: Opens) -> None:
    async def work() -> None:
        async with served() as client:
            arguments = {"region": "north", "ids": [1]}
            await client.list_tools()
            assert text_of(await client.call_tool("in_region", arguments)).startswith("north 1 ")
            client.session._x_mcp_header_maps.clear()
            with pytest.raises(MCPError, match="Mcp-Param-Region header is missing") as caught:
                await client.call_tool("in_region", arguments)
            assert caught.value.error.code == types.HEADER_MISMATCH

    asyncio.run(work())
