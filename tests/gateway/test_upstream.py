"""Servers that die, never start or never end; errors and lists of one server; and a gateway that is ended by its client, a
signal, or force."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_kit import Heard, Place, eventually, free_port, soon, text_of
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification

from byref.gateway import http, listing
from byref.gateway.channel import Unavailable
from byref.gateway.config import ServerConfig, parse_config
from byref.gateway.conversation import OTHERS_SECONDS
from byref.gateway.http import http_server
from byref.gateway.messages import WINDOW_NOTIFICATIONS, Allowance
from byref.gateway.upstream import FRESH_SECONDS, Upstream

RAW = str(Path(__file__).parent / "raw_server.py")


MODES = pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.slow)])


def raw(behaviour: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [RAW, behaviour]}


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


@MODES
def test_a_server_that_dies_says_so_and_comes_back(place: Place, mode: str) -> None:
    config = place.write({"north": place.shop("north"), "south": place.shop("south")})

    async def work() -> None:
        async with place.client("--config", config, mode=mode) as client:
            await client.list_tools()
            during = await client.call_tool("north__die", {})
            assert during.is_error
            assert "'north'" in text_of(during) and "exited with code 3" in text_of(during)
            assert "unknown" in text_of(during) and "restarted" in text_of(during)
            after = await client.call_tool("north__whoami", {})
            assert after.is_error and "'north'" in text_of(after) and "exited with code 3" in text_of(after)
            assert text_of(await client.call_tool("south__whoami", {})) == "south"
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert "north__whoami" in listed
            assert await answers(client, "north__whoami", "north")

    asyncio.run(work())


async def answers(client: Client, tool: str, text: str) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if text_of(await client.call_tool(tool, {})) == text:
            return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.slow
def test_a_server_that_is_back_is_told_what_the_client_had_said(place: Place) -> None:
    config = place.write({"north": place.shop("north")})

    async def work() -> None:
        async with place.client("--config", config, heard=(heard := Heard())) as client:
            await client.list_tools()
            await client.session.subscribe_resource("shop://north/about")
            await client.session.set_logging_level("error")
            place.notes.write_text("")
            await client.call_tool("die", {})
            assert await answers(client, "whoami", "north")
            assert await eventually(lambda: "north level error" in place.notes.read_text())
            assert await eventually(lambda: "north subscribed shop://north/about" in place.notes.read_text())
            assert await eventually(lambda: "notifications/tools/list_changed" in heard.told)

    with pytest.warns(Warning):
        asyncio.run(work())


@pytest.mark.slow
@MODES
def test_servers_that_cannot_start_do_not_keep_the_others_down(place: Place, mode: str) -> None:
    servers = {
        "missing": {"command": "/nowhere/no-such-program"},
        "mute": raw("silent"),
        "deaf": raw("deaf"),
        "flood": raw("flood"),
        "closed": {"url": "http://127.0.0.1:9/mcp"},
        "good": place.shop("good"),
    }
    config = place.write(servers, start_timeout=8)

    async def work() -> None:
        began = time.monotonic()
        async with place.client("--config", config, mode=mode) as client:
            assert text_of(await client.call_tool("whoami", {})) == "good"
            assert time.monotonic() - began < 40
            await client.list_tools()
            assert await eventually(lambda: "did not answer the handshake" in place.errors(), 15)

    asyncio.run(work())
    errors = place.errors()
    assert "Traceback" not in errors
    assert "'missing'" in errors and "No such file" in errors
    assert "'mute'" in errors and "did not answer the handshake within 8 s" in errors
    assert "'deaf'" in errors and "'closed'" in errors
    assert "lines that are no messages" in errors


@pytest.mark.slow
def test_a_slow_server_does_not_delay_the_others_and_is_told_of(place: Place) -> None:
    config = place.write({"guide": raw("guide"), "late": raw("late"), "mute": raw("silent")})
    heard = Heard()

    async def work() -> None:
        async with place.client("--config", config, heard=heard) as client:
            began = time.monotonic()
            assert client.instructions is not None and "## guide\n> Mind the gap." in client.instructions
            assert [tool.name for tool in (await client.list_tools()).tools].count("guide__raw") == 1
            assert time.monotonic() - began < OTHERS_SECONDS + 1
            assert await eventually(lambda: "notifications/tools/list_changed" in heard.told, 15)
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"guide__raw", "late__raw"} <= set(names)

    asyncio.run(work())


@pytest.mark.slow
def test_a_server_that_ignores_all_ends_when_the_gateway_is_killed(place: Place) -> None:
    config = place.write({"stubborn": raw("stubborn")})
    with by_hand(place, "--config", config) as (ask, process):
        ask("tools/list", {})
        servers = children_of(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(15)
        assert any(is_alive(pid) for pid in servers)
        assert soon(lambda: not any(is_alive(pid) for pid in servers), 15)


@pytest.mark.slow
def test_a_name_that_is_gone_says_whose_it_was(place: Place) -> None:
    config = place.write({"fickle": raw("fickle")})
    with by_hand(place, "--config", config) as (ask, _):
        assert ask("tools/list", {})["result"]["tools"][0]["name"] == "first"
        time.sleep(FRESH_SECONDS + 0.5)
        assert ask("tools/list", {})["result"]["tools"][0]["name"] == "second"
        assert "'fickle' had it" in ask("tools/call", {"name": "first"})["error"]["message"]
        assert "had it" not in ask("tools/call", {"name": "never"})["error"]["message"]


@pytest.mark.slow
def test_of_a_resource_that_nobody_has_the_likeliest_server_says_why(place: Place) -> None:
    config = place.write({"shelf": raw("shelf"), "other": raw("bare")})
    with by_hand(place, "--config", config) as (ask, _):
        ask("resources/list", {})
        error = ask("resources/read", {"uri": "shelf://gone"})["error"]
        assert error == {"code": -32002, "message": "no shelf://gone", "data": {"uri": "shelf://gone", "by": "shelf"}}
        assert ask("resources/read", {"uri": "else://gone"})["error"]["data"]["by"] == "shelf"


@pytest.mark.slow
def test_garbage_between_messages_is_passed_over(place: Place) -> None:
    config = place.write({"noisy": raw("garbage")})

    async def work() -> None:
        async with place.client("--config", config) as client:
            assert text_of(await client.call_tool("raw", {"a": 1})).startswith('{"name": "raw"')

    asyncio.run(work())
    assert "[noisy] (stdout) Listening on port 0" in place.errors()
    assert "Listening on port 499" not in place.errors()


@pytest.mark.slow
def test_lists_without_end_are_cut(place: Place) -> None:
    config = place.write({"endless": raw("endless"), "circle": raw("circle"), "nonsense": raw("nonsense")})

    async def work() -> list[str]:
        async with place.client("--config", config) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    names = asyncio.run(work())
    assert names.count("round") == 1
    assert 50 <= sum(name.startswith("t") for name in names) <= 100
    assert "they do not end" in place.errors() and "their pages go in a circle" in place.errors()


def test_evil_names_and_schemas_are_made_harmless(place: Place) -> None:
    config = place.write({"evil": raw("evil"), "sound": place.shop("sound")})

    async def work() -> Any:
        async with place.client("--config", config) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(work())
    names = [tool.name for tool in tools]
    assert len(set(names)) == len(names)
    assert all(0 < len(name) <= 64 and name.replace("-", "_").isascii() for name in names)
    assert all(name.replace("-", "").replace("_", "").isalnum() or set(name) <= {"_", "-"} for name in names)
    assert {"a_b", "evil__artifact_jq", "evil__code_interpreter", "artifact_jq", "whoami"} <= set(names)
    assert all(tool.input_schema.get("type") == "object" for tool in tools)
    assert "no_schema" not in names and "schema_is_text" not in names
    assert all(tool.description != "I am not byref's" for tool in tools if tool.name == "artifact_jq")


@pytest.mark.slow
def test_schemas_that_go_in_circles_end_nobody(place: Place) -> None:
    config = place.write({"circles": raw("circles"), "sound": raw("plain")})

    async def work() -> None:
        async with place.client("--config", config) as client:
            schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            assert list(schemas["own"]["properties"]) == ["y"]
            assert schemas["other"] == {"type": "object"}
            for name in sorted({"own", "other", "deep", "id", "draft"} & schemas.keys()):
                assert '"a $b"' in text_of(await client.call_tool(name, {"x": "a $b"}))
            assert text_of(await client.call_tool("raw", {}))

    asyncio.run(work())
    assert "panicked" not in place.errors()


@pytest.mark.slow
def test_a_message_without_end_ends_its_server_alone(place: Place) -> None:
    config = place.write({"huge": raw("huge"), "sound": place.shop("sound")})

    async def work() -> None:
        async with place.client("--config", config) as client:
            result = await client.call_tool("raw", {})
            assert result.is_error and "more than 256 MB" in text_of(result)
            assert text_of(await client.call_tool("whoami", {})) == "sound"

    asyncio.run(work())


@MODES
def test_a_server_without_a_handshake_asks_any_client(place: Place, mode: str) -> None:
    config = place.write({"modern": raw("modern")})

    async def work() -> None:
        async with place.client("--config", config, mode=mode, heard=(heard := Heard())) as client:
            assert "order" in [tool.name for tool in (await client.list_tools()).tools]
            assert text_of(await client.call_tool("order", {})) == '{"size": "XL"}'
            assert heard.asked[0].message == "[server modern] Which size?"

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("rude", lambda answer: "no message of this protocol" in answer["error"]["message"]),
        ("torn", lambda answer: answer["result"]["content"][0]["text"] == "half \ufffd of a pair"),
    ],
)
def test_an_answer_that_is_none_or_no_text_ends_nothing(place: Place, kind: str, read: Callable[[Any], bool]) -> None:
    with by_hand(place, "--config", place.write({kind: raw(kind)})) as (ask, _):
        ask("tools/list", {})
        assert read(ask("tools/call", {"name": "raw", "arguments": {}}))
        assert ask("ping", {})["result"] == {}


@pytest.mark.slow
def test_a_method_that_nobody_knows_is_its_servers(place: Place) -> None:
    config = place.write({"shop": place.shop("shop"), "odd": raw("odd")})
    with by_hand(place, "--config", config) as (ask, _):
        assert ask("vendor/thing", {"a": 1})["result"] == {"vendor": {"a": 1}}
        assert ask("vendor/other", {})["error"]["code"] == -32601


@pytest.mark.slow
def test_what_no_sdk_knows_passes(place: Place) -> None:
    """Beside the content, where a client need not look; of the content it becomes text."""
    config = place.write({"odd": raw("odd")})
    with by_hand(place, "--config", config) as (ask, _):
        listed = ask("tools/list", {})["result"]["tools"]
        assert any(tool["name"] == "raw" for tool in listed)
        result = ask("tools/call", {"name": "raw", "arguments": {}})["result"]
    assert result == {
        "content": [{"type": "text", "text": '{"type": "hologram", "depth": 3}'}, {"type": "text", "text": "seen"}],
        "structuredContent": {"list": [None, 1.0, 12345678901234567890]},
        "extra": {"kept": None},
        "_meta": {"k": None},
    }


@pytest.mark.slow
def test_old_clients_get_no_blocks_that_they_do_not_know(place: Place) -> None:
    config = place.write({"old": raw("old"), "shop": place.shop("shop")})
    with by_hand(place, "--config", config, version="2024-11-05") as (ask, _):
        ask("tools/list", {})
        result = ask("tools/call", {"name": "raw", "arguments": {}})["result"]
        assert [block["type"] for block in result["content"]] == ["text", "text"]
        stored = ask("tools/call", {"name": "list_users", "arguments": {"count": 5000}})["result"]
        assert [block["type"] for block in stored["content"]] == ["text"]


class by_hand:
    """A client that is nothing but lines."""

    def __init__(self, place: Place, *words: str, version: str = "2025-11-25") -> None:
        self._command, self._place, self._version, self._next = place.own_command(*words), place, version, 0

    def __enter__(self) -> Any:
        log = (self._place.folder / "stderr").open("a")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=log, text=True, cwd=self._place.folder
        )
        log.close()
        about = {"name": "hand", "version": "1"}
        hello = {"protocolVersion": self._version, "capabilities": {}, "clientInfo": about}
        assert self._ask("initialize", hello)["result"]["protocolVersion"] == self._version
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self._ask, self.process

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(15)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _ask(self, method: str, params: Any) -> Any:
        assert self.process.stdout is not None
        self._next += 1
        self._send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self._next and "method" not in message:
                return message
        raise AssertionError("the gateway has ended")


@pytest.mark.parametrize(
    "how",
    [*(pytest.param(how, marks=pytest.mark.slow) for how in ("eof", "sigterm", "sigint")), "sigkill"],
)
def test_servers_end_with_the_gateway(place: Place, how: str) -> None:
    config = place.write({"north": {**raw("plain"), "env": {"SHOP_NOTES": str(place.notes)}}})
    with by_hand(place, "--config", config) as (ask, process):
        ask("tools/list", {})
        servers = children_of(process.pid)
        assert len(servers) >= 1
        assert process.stdin is not None
        if how == "eof":
            process.stdin.close()
        else:
            process.send_signal(getattr(signal, how.upper()))
        process.wait(15)
        assert process.returncode == (-signal.SIGKILL if how == "sigkill" else 0)
        assert soon(lambda: not any(is_alive(pid) for pid in servers), 10)
    assert place.noted("eof")


def test_a_call_is_cancelled_when_the_client_leaves(place: Place) -> None:
    config = place.write({"north": place.shop("north")})

    async def work() -> None:
        async with place.client("--config", config) as client:
            await client.list_tools()
            asyncio.get_running_loop().create_task(client.call_tool("slow", {"seconds": 60}))
            assert await eventually(lambda: place.notes.exists() and "slow began" in place.notes.read_text())

    asyncio.run(work())
    assert place.noted("slow cancelled")


@pytest.mark.slow
def test_what_servers_say_to_stderr_is_passed_on_bounded_and_harmless(place: Place) -> None:
    config = place.write({"north": place.shop("north")})

    async def work() -> None:
        async with place.client("--config", config) as client:
            await client.call_tool("stderr", {"lines": 5000})

    asyncio.run(work())
    lines = [line for line in place.errors().splitlines() if line.startswith("[north] line")]
    assert lines[0] == "[north] line 0 �[31mred"
    assert 100 <= len(lines) <= 400
    assert "lines left out" in place.errors()


class Nobody:
    """A client that servers ask and tell nothing."""

    def __init__(self) -> None:
        self.capabilities: dict[str, Any] = {}
        self.info = {"name": "nobody", "version": "1"}

    async def on_request(self, upstream: Upstream, method: str, params: Any, about: object) -> dict[str, Any]:
        return {}

    async def on_notification(self, upstream: Upstream, method: str, params: Any) -> None: ...

    async def on_started(self, upstream: Upstream) -> None: ...


def configured(**server: Any) -> ServerConfig:
    return parse_config({"mcpServers": {"it": server}}).servers[0]


def running(behaviour: str) -> AbstractAsyncContextManager[Upstream]:
    return started(configured(command=sys.executable, args=["-S", RAW, behaviour]))


@asynccontextmanager
async def started(server: ServerConfig) -> AsyncIterator[Upstream]:
    upstream = Upstream(server, Nobody(), Allowance("it"), start_timeout=20)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(upstream.run)
        with anyio.fail_after(20):
            await upstream.settled.wait()
        yield upstream
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("code", [-32000, -32001, -32603])
def test_an_error_of_the_servers_is_the_servers_whatever_its_code(code: int) -> None:
    """The SDK uses two of the codes for a connection that is gone and for an answer that did not come in time."""

    async def main() -> None:
        async with running(f"busy{code}") as upstream:
            with anyio.fail_after(0.9), pytest.raises(MCPError, match=r"^too busy$") as caught:
                await upstream.request("tools/call", {"name": "raw", "arguments": {}}, timeout=20)
            assert (caught.value.code, caught.value.data) == (code, {"httpStatus": 404})
            assert upstream.is_ready and upstream.lives == 1
            with pytest.raises(MCPError, match="Method not found"):
                await upstream.request("vendor/other")
        async with running(f"closed{code}") as upstream:
            with pytest.raises(Unavailable, match="refused the handshake: too busy"):
                await upstream.request("tools/list")

    asyncio.run(main())


def test_a_connection_that_is_gone_and_a_late_answer_are_told_as_such() -> None:
    async def main() -> None:
        async with running("exits") as upstream:
            with pytest.raises(Unavailable, match=r"went away during the call \(it exited with code 3\)"):
                await upstream.request("tools/call", {"name": "raw"})
        async with running("hangs") as upstream:
            with pytest.raises(Unavailable, match=r"did not answer within 0\.1 s"):
                await upstream.request("tools/call", {"name": "raw"}, timeout=0.1)

    asyncio.run(main())


def test_large_arguments_are_named_as_what_a_server_may_have_died_of() -> None:
    async def main() -> None:
        async with running("exits") as upstream:
            told = (
                r"is unknown\. Its arguments were 9 MB; many servers read no more than 10 MB: hand on less\. [^:]+\.$"
            )
            with pytest.raises(Unavailable, match=told):
                await upstream.request("tools/call", {"name": "raw", "arguments": {"text": "ä" * 4_500_000}})

    asyncio.run(main())


def test_a_call_to_an_address_where_nobody_is_any_more_was_not_sent() -> None:
    async def main() -> None:
        port = free_port()
        async with (
            await asyncio.start_server(flawed, "127.0.0.1", port) as server,
            started(configured(type="http", url=f"http://127.0.0.1:{port}/mcp")) as upstream,
        ):
            server.close()
            with pytest.raises(Unavailable, match=r"\(ConnectError.*\); the call was never sent\. A new connection"):
                await upstream.request("tools/call", {"name": "raw"})

    asyncio.run(main())


def test_an_answer_that_is_done_with_takes_no_room_from_the_next_one() -> None:
    async def main() -> None:
        async with running("echo") as upstream:
            text = json.dumps({"content": [{"type": "text", "text": json.dumps([{"a": 1}] * 10_000)}]})
            result = await upstream.request("tools/call", {"name": "raw", "arguments": {"result": text}})
            assert len(text) < upstream._allowance.used
            await anyio.sleep(0.1)  # nobody but this test may hold it now, although no other message has come
            assert upstream._allowance.used and result["content"]
            del result
            assert upstream._allowance.used == 0

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


@pytest.mark.slow
def test_progress_counts_as_what_a_server_tells() -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def main() -> None:
        async with running("eager") as upstream:
            await upstream.request("tools/call", {"name": "raw"}, on_progress=note)
            await anyio.sleep(0.1)
            assert 0 < len(seen) <= WINDOW_NOTIFICATIONS

    asyncio.run(main())


async def flawed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request at an address; a call in the way that its tool's name says."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
    asked = json.loads(await reader.readexactly(length) or b"{}")
    id, method = asked.get("id"), asked.get("method")
    status, answer = 200 if id is not None else 202 if method else 405, {"jsonrpc": "2.0", "id": id, "result": {}}
    if method == "initialize":
        about = {"name": "flawed", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": about}
    match asked["params"]["name"] if method == "tools/call" else None:
        case "drops":
            writer.close()
            return
        case "forgets":
            status = 404
        case "confuses":
            answer["id"] = id + 1
        case "writes":
            answer["id"] = str(id)
        case "fails":
            answer = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "no"}}
    body = json.dumps(answer).encode()
    kind = b"content-type: application/json\r\nmcp-session-id: s"
    writer.write(
        b"HTTP/1.1 %d -\r\nconnection: close\r\ncontent-length: %d\r\n%s\r\n\r\n%s" % (status, len(body), kind, body)
    )
    await writer.drain()
    writer.close()


@asynccontextmanager
async def at_address() -> AsyncIterator[Upstream]:
    port = free_port()
    async with (
        await asyncio.start_server(flawed, "127.0.0.1", port),
        started(configured(type="http", url=f"http://127.0.0.1:{port}/mcp")) as upstream,
    ):
        yield upstream


def test_a_call_without_an_answer_tells_what_is_known_of_it() -> None:
    """The loss of its HTTP connection ends no other; a server does nothing for a session that it has forgotten."""

    async def main() -> None:
        async with at_address() as upstream:
            with pytest.raises(Unavailable, match=r"lost its connection \(.+\); whether .+ is unknown\.$"):
                await upstream.request("tools/call", {"name": "drops"})
            assert upstream.is_ready and upstream.lives == 1
            told = r"\(its session is over \(HTTP 404\)\); the call had no effect\. A new connection is being made"
            with pytest.raises(Unavailable, match=told):
                await upstream.request("tools/call", {"name": "forgets"})
            assert not upstream.is_ready

    asyncio.run(main())


def test_an_answer_with_the_id_of_another_is_none() -> None:
    """With its own id as text it is one, and so is an error without an id."""

    async def main() -> None:
        async with at_address() as upstream:
            with pytest.raises(MCPError, match="has the id of another request"):
                await upstream.request("tools/call", {"name": "confuses"})
            assert await upstream.request("tools/call", {"name": "writes"}) == {}
            with pytest.raises(MCPError, match=r"^no$"):
                await upstream.request("tools/call", {"name": "fails"})

    asyncio.run(main())


class Site:
    """A server at an address whose streams end at once, say nothing that can be taken up, and now and then tell something."""

    def __init__(self, tells_at: int, refuses_at: dict[int, int]) -> None:
        self.opened, self._tells_at, self._refuses_at = 0, tells_at, refuses_at

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        status, body = 202, b""
        if head.startswith(b"get"):
            self.opened += 1
            status = self._refuses_at.get(self.opened, 200)
            if self.opened == self._tells_at:
                body = b'data: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n'
        kind = b"content-type: text/event-stream\r\n" if status == 200 else b""
        writer.write(b"HTTP/1.1 %d -\r\nconnection: close\r\n%s\r\n%s" % (status, kind, body))
        await writer.drain()
        writer.close()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("refuses_at", "steady", "opened", "paused"),
    [
        ({}, 10.0, 8, [2, 4, 8, 16, 30, 30, 30]),
        ({3: 502, 4: 503, 5: 500}, 10.0, 8, [2, 4, 8, 16, 30, 30, 30]),
        ({}, 0.0, 8, [1] * 7),
        ({1: 405}, 10.0, 1, []),
        ({1: 500}, 10.0, 1, []),
        ({2: 404}, 10.0, 2, [2]),
    ],
    ids=["ended soon", "an error on the way", "lasted", "there is none", "it cannot", "it is gone"],
)
def test_a_stream_that_others_end_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, refuses_at: dict[int, int], steady: float, opened: int, paused: list[float]
) -> None:
    """What the server says by itself comes by it for as long as the connection is there."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(http.anyio, "sleep", sleep)
    monkeypatch.setattr(http, "STEADY_SECONDS", steady)

    async def main() -> None:
        site, port = Site(8, refuses_at), free_port()
        server = await asyncio.start_server(site.serve, "127.0.0.1", port)
        config = configured(type="http", url=f"http://127.0.0.1:{port}/mcp")
        async with server, http_server(config, Allowance("it")) as channel:
            begun = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
            await channel.sent.send(SessionMessage(begun))
            with anyio.move_on_after(20 if opened == 8 else 0.3):
                told = await channel.received.receive()
                assert told.message.method == "notifications/tools/list_changed"
            assert site.opened == opened
        assert pauses[: len(paused)] == paused and len(pauses) <= opened

    asyncio.run(main())


@pytest.mark.parametrize(("behaviour", "most"), [("dripping", 5), ("stuffed", 3)])
def test_a_list_that_does_not_end_is_cut(behaviour: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By time, where each page comes soon; by size, where what is long on each is of no use."""
    monkeypatch.setattr(listing, "MAX_READ_BYTES", 4 << 20)

    async def work() -> None:
        async with running(behaviour) as server:
            began = time.monotonic()
            found = await listing.listed(server, "resources", 1.0 if behaviour == "dripping" else 30.0)
            assert 1 <= len(found.items) <= most
            assert time.monotonic() - began < 5

    asyncio.run(work())


def test_a_list_with_an_error_on_a_later_page_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if the server reports changes; and a list that was whole stays when the next one is not."""
    monkeypatch.setattr("byref.gateway.upstream.FRESH_SECONDS", 0.0)

    async def work() -> None:
        async with running("halting") as server:
            assert [tool["name"] for tool in server.known("tools")] == ["a"]
            assert [tool["name"] for tool in await server.items("tools")] == ["a", "b"]
            server.forget("tools")
            assert [tool["name"] for tool in await server.items("tools")] == ["a", "b"]

    asyncio.run(work())
    said = "server 'it': its tools could not be listed to the end, after 1 of them: database is locked"
    assert [message for message in caplog.messages if "tools" in message] == [said] * 2


def test_a_page_with_more_than_there_is_room_for_is_cut_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listing, "MAX_ITEMS", 3)

    async def work() -> None:
        async with running("evil") as server:
            assert len(server.known("tools")) == 3

    asyncio.run(work())
    assert (
        "server 'it': of its tools the first 3 are used: there is room for 3, and for 16 MB of them" in caplog.messages
    )
