"""`byref mcp` as clients see it: the official client over real stdio and real HTTP, and bytes that no client would send."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from forking import FORKS
from mcp import types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

import byref
import byref.cli
import byref.engine
import byref.policy
from byref.adapters import mcp as adapter
from byref.adapters.mcp import content as mcp_content
from byref_sandbox import Sandbox

ROWS = [{"id": number, "name": f"user {number}", "score": number % 7} for number in range(3000)]
USERS = {"total": 3000, "next_cursor": "abc", "users": ROWS}
MODERN = "2026-07-28"
TENANTS = {"acme": "acme-token-1", "globex": ["globex-token-1", "globex-token-2"]}
WORDS = ("-m", "byref.cli", "mcp", "--db", "mcp.db")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


# Clients


@asynccontextmanager
async def over_stdio(
    folder: Path, *words: str, mode: str = "auto", told: list[Any] | None = None
) -> AsyncIterator[Client]:
    command, *arguments = FORKS.command(*WORDS)
    started = StdioServerParameters(command=command, args=[*arguments, *words], env=dict(os.environ), cwd=folder)
    with (folder / "stderr").open("a") as log:
        async with Client(stdio_client(started, log), mode=mode, message_handler=_listening(told)) as client:
            yield client


@asynccontextmanager
async def over_http(
    url: str,
    *,
    token: str | None = None,
    session: str | None = None,
    mode: str = "auto",
    told: list[Any] | None = None,
    name: str = "test",
) -> AsyncIterator[Client]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    headers |= {} if session is None else {"x-byref-session": session}
    known = types.Implementation(name=name, version="1")
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, message_handler=_listening(told), client_info=known) as client:
            yield client


def _listening(told: list[Any] | None) -> Callable[[Any], Any]:
    async def handler(message: Any) -> None:
        if told is not None:
            told.append(message)

    return handler


@contextmanager
def inside(tmp_path: Path, **settings: Any) -> Iterator[Any]:
    """The server without a process of its own."""
    with byref.Engine(f"sqlite:///{tmp_path / 'mcp.db'}") as engine:
        yield adapter.server(engine, **settings)


class Served(NamedTuple):
    url: str
    process: subprocess.Popen[str]
    folder: Path


@contextmanager
def served(folder: Path, *words: str, place: str = "127.0.0.1:0", **environment: str) -> Iterator[Served]:
    """`byref mcp --http` on a free port."""
    process = subprocess.Popen(
        FORKS.command(*WORDS, "--http", place, *words),
        cwd=folder,
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield Served(found[0], process, folder)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without tokens."""
    with served(tmp_path_factory.mktemp("alone")) as server:
        yield server


@pytest.fixture(scope="module")
def two_tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With tokens of two tenants."""
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "tokens.json").write_text(json.dumps(TENANTS))
    with served(folder, "--tokens", "tokens.json") as server:
        yield server


def link_of(result: Any) -> types.ResourceLink:
    (found,) = [block for block in result.content if isinstance(block, types.ResourceLink)]
    return found


async def put(client: Client, output: object = None, tool: str = "list_users") -> Any:
    result = await client.call_tool("process_output", {"output": USERS if output is None else output, "tool": tool})
    assert not result.is_error
    return result


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def refused(asked: Any) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await asked
    return caught.value


def engine_at(folder: Path) -> byref.Engine:
    return byref.Engine(f"sqlite:///{folder / 'mcp.db'}", create=False)


# Over stdio


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a database that clients over stdio share, each in a process of its own."""
    return tmp_path_factory.mktemp("stdio")


@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.slow)])
def test_a_big_output_comes_back_by_reference_and_all_of_it_can_be_worked_on(folder: Path, mode: str) -> None:
    words = ["--session", "project"] if mode == "legacy" else []
    told: list[Any] = []

    async def main() -> None:
        async with over_stdio(folder, *words, mode=mode, told=told) as client:
            assert client.protocol_version == (HANDSHAKE_PROTOCOL_VERSIONS[-1] if mode == "legacy" else MODERN)
            assert client.server_info is not None
            assert client.server_info.name == "byref"
            assert client.server_capabilities.resources is not None
            assert client.server_capabilities.resources.list_changed
            assert "process_output" in (client.instructions or "")
            assert (await client.list_resources()).resources == []
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[0] == "process_output"
            assert {"code_interpreter", "artifact_jq", "artifact_grep", "artifact_read", "store_artifact"} < set(names)
            result = await put(client)
            envelope = result.structured_content
            assert json.loads(text_of(result)) == envelope
            assert list(envelope["variables"]) == ["list_users", "users"]
            link = link_of(result)
            assert (link.name, link.mime_type) == ("list_users", "application/json")
            (contents,) = (await client.read_resource(link.uri)).contents
            assert isinstance(contents, types.TextResourceContents)
            assert json.loads(contents.text) == USERS
            assert len(contents.text.encode()) == link.size
            (listed,) = (await client.list_resources()).resources
            assert (listed.uri, listed.size, listed.name) == (link.uri, link.size, "list_users")
            ran = await client.call_tool("code_interpreter", {"code": "print('aside'); sum(u['score'] for u in users)"})
            assert (text_of(ran), ran.is_error) == (f"aside\n{sum(row['score'] for row in ROWS)}", False)
            found = await client.call_tool("artifact_jq", {"artifact_id": "users", "expression": ".[2999].name"})
            assert text_of(found) == '"user 2999"'

    asyncio.run(main())
    assert (folder / "stderr").read_text() == ""
    changes = [message for message in told if isinstance(message, types.ResourceListChangedNotification)]
    assert len(changes) == (1 if mode == "legacy" else 0)  # unasked notices are of the older protocols


def test_links_may_be_left_out_for_clients_that_refuse_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with over_stdio(tmp_path, "--no-links") as client:
            put_in = await put(client)
            ran = await client.call_tool("store_artifact", {"value": "$users", "name": "kept"})
            assert not ran.is_error
            assert [block.type for result in (put_in, ran) for block in result.content] == ["text", "text"]
            assert len((await client.list_resources()).resources) == 2

    asyncio.run(main())


def test_a_session_goes_on_in_another_process_if_it_is_named(folder: Path) -> None:
    async def main() -> None:
        async with over_stdio(folder, "--session", "project") as client:
            (listed,) = [one for one in (await client.list_resources()).resources if one.name == "list_users"]
            assert json.loads(await read(client, listed.uri)) == USERS
            found = await client.call_tool("artifact_jq", {"artifact_id": "users", "expression": "length"})
            assert text_of(found) == "3000"

    asyncio.run(main())
    with byref.Engine(f"sqlite:///{folder / 'mcp.db'}", create=False) as engine:
        ids = {info.id for info in engine.sessions()}
        assert "project" in ids
        assert all(re.fullmatch("mcp-[0-9a-f]{16}", id_) for id_ in ids - {"project"})


def speak(process: subprocess.Popen[bytes], *messages: dict[str, Any] | bytes) -> None:
    assert process.stdin
    for message in messages:
        process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def request(id_: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def initialize(version: str) -> dict[str, Any]:
    client = {"name": "by hand", "version": "0"}
    return request(0, "initialize", protocolVersion=version, capabilities={}, clientInfo=client)


def answer(process: subprocess.Popen[bytes], id_: int) -> dict[str, Any]:
    """The answer to a request; everything before it is JSON-RPC too."""
    assert process.stdout
    for line in process.stdout:
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if message.get("id") == id_ and "method" not in message:
            return message
    raise AssertionError("the server has gone")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is not forked."""
    pipe = subprocess.PIPE
    started = subprocess.Popen([sys.executable, *WORDS], cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe)
    yield started
    started.kill()
    started.wait()
    for stream in (started.stdin, started.stdout, started.stderr):
        assert stream
        with contextlib.suppress(BrokenPipeError):
            stream.close()


CODE = {"name": "code_interpreter", "arguments": {"code": "import time\nwhile True: time.sleep(0.1)"}}


def children(pid: int) -> set[int]:
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found |= {int(status.parent.name), *children(int(status.parent.name))}
    return found


def gone(pids: set[int]) -> bool:
    """Whether the processes have ended; what only waits for its parent to look has."""
    alive = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                alive.add(pid)
    return not alive


@pytest.mark.slow  # a gateway's end is a quick test of tests/gateway/test_upstream.py
@pytest.mark.parametrize("how", ["eof", "sigterm"])
def test_nothing_is_left_when_the_client_leaves_in_the_midst_of_a_call(
    process: subprocess.Popen[bytes], how: str
) -> None:
    speak(process, initialize("2025-06-18"), {"jsonrpc": "2.0", "method": "notifications/initialized"})
    answer(process, 0)
    speak(process, request(1, "tools/call", **CODE))
    until = time.monotonic() + 30
    while len(children(process.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    working = children(process.pid)
    assert working
    began = time.monotonic()
    if how == "eof":
        assert process.stdin
        process.stdin.close()
    else:
        process.terminate()
    assert process.wait(10) == 0
    assert time.monotonic() - began < 5
    while not gone(working) and time.monotonic() < began + 10:
        time.sleep(0.05)
    assert gone(working)


@contextmanager
def by_hand(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A connection over stdio that is initialized."""
    pipe = subprocess.PIPE
    with subprocess.Popen(FORKS.command(*WORDS), cwd=folder, stdin=pipe, stdout=pipe, bufsize=0) as process:
        watch = threading.Timer(60, process.kill)  # else who reads an answer that never comes would wait for ever
        watch.start()
        try:
            speak(process, initialize("2025-06-18"), {"jsonrpc": "2.0", "method": "notifications/initialized"})
            answer(process, 0)
            yield process
        finally:
            watch.cancel()
            process.kill()


def test_what_a_client_sends_is_weighed_before_anything_is_made_of_it(folder: Path) -> None:
    with by_hand(folder) as process:
        deep: Any = 0
        for _ in range(300):
            deep = [deep]
        speak(process, request(1, "tools/call", name="process_output", arguments={"output": deep}))
        refused = answer(process, 1)["error"]
        assert (refused["code"], "more than 200 levels" in refused["message"]) == (types.INVALID_REQUEST, True)
        speak(process, request(2, "tools/call", name="process_output", arguments={"output": "still here"}))
        assert answer(process, 2)["result"]["content"][0]["text"] == "still here"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["eof", "sigterm"])
def test_a_client_that_does_not_read_its_answer_keeps_no_process(folder: Path, how: str) -> None:
    with by_hand(folder) as process:
        value = {"name": f"text_{how}", "value": "x" * 1_000_000}
        speak(process, request(1, "tools/call", name="store_artifact", arguments=value))
        answer(process, 1)
        speak(process, request(2, "resources/read", uri=f"byref://artifact/text_{how}"))
        time.sleep(1)  # until the pipe is full
        if how == "eof":
            assert process.stdin
            process.stdin.close()
        else:
            process.terminate()
        assert process.wait(10) == 0


@pytest.mark.slow
def test_garbage_is_survived(process: subprocess.Popen[bytes]) -> None:
    garbage = (
        b"\x00\xff not JSON\n",
        b"[" * 5_000 + b"\n",
        b"{}\n",
        b'{"jsonrpc": "2.0", "id": 7, "method": 8}\n',
        json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}).encode()
        + b"\n",
        b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"process_output","arguments":{"output":"\\ud800"}}}\n',
    )
    speak(process, *garbage, initialize("2025-06-18"), {"jsonrpc": "2.0", "method": "notifications/initialized"})
    answer(process, 0)
    speak(process, *garbage)
    speak(process, request(1, "tools/call", name="process_output", arguments={"output": "x" * 8_000_000}))
    assert "truncated" in answer(process, 1)["result"]["content"][0]["text"]
    speak(process, request(2, "tools/call", name=7), request(3, "no/such", x=1), request(4, "resources/read", uri={}))
    assert [answer(process, id_)["error"]["code"] for id_ in (2, 3, 4)] == [-32602, -32601, -32602]


# What is asked


@pytest.mark.slow
def test_templates_give_lines_and_jq(tmp_path: Path) -> None:
    async def main() -> None:
        tools = ["artifact_jq", "store_artifact"]
        with inside(tmp_path, tools=tools) as server:
            async with Client(server) as client:
                found = (await client.list_resource_templates()).resource_templates
                assert [one.name for one in found] == ["artifact", "lines", "jq"]
                log = "\n".join(f"line {number}" for number in range(1, 20_001))
                stored = await client.call_tool("store_artifact", {"name": "log", "value": log})
                link = link_of(stored)
                assert (link.name, link.size) == ("log", len(log))
                lines = f"{link.uri}/lines/19999-30000"
                (contents,) = (await client.read_resource(lines)).contents
                assert isinstance(contents, types.TextResourceContents)
                assert (contents.text, contents.uri) == ("line 19999\nline 20000", lines)
                assert await read(client, "byref://artifact/log/lines/1-1") == "line 1"
                users = link_of(await put(client)).uri
                assert await read(client, f"{users}/jq?expression=.users%20%7C%20map(.score)%20%7C%20add") == str(
                    sum(row["score"] for row in ROWS)
                )
                wrong = await refused(client.read_resource(f"{users}/jq?expression=.users%20%7C"))
                assert "syntax error" in wrong.error.message
                wrong = await refused(client.read_resource(f"{link.uri}/jq?expression=."))
                assert "not JSON" in wrong.error.message

    asyncio.run(main())


async def read(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


def test_resources_are_whole_or_refused_with_the_way_to_them(tmp_path: Path) -> None:
    async def main() -> None:
        with inside(tmp_path, tools=["artifact_grep", "artifact_read"], session="one") as server:
            with engine_at(tmp_path) as engine:
                session = engine.session("one")
                image = session.store_artifact(PNG, name="dot.png", content_type="image/png")
                large = session.store_artifact("x" * mcp_content.MAX_RESOURCE_BYTES + "\n" + "y" * 100)
                surrogate = session.store_artifact("\ud800 \U0001f600", name="\ud800")
            async with Client(server) as client:
                (contents,) = (await client.read_resource(mcp_content.uri_of(image))).contents
                assert isinstance(contents, types.BlobResourceContents)
                assert (base64.b64decode(contents.blob), contents.mime_type) == (PNG, "image/png")
                assert await read(client, mcp_content.uri_of(surrogate)) == "\ufffd \U0001f600"
                message = (await refused(client.read_resource(mcp_content.uri_of(large)))).error.message
                assert "3,145,829 bytes, at most 3,145,728" in message
                assert "byref://artifact/{id}/lines/{first}-{last}" in message
                assert "artifact_read" in message
                assert await read(client, f"{mcp_content.uri_of(large)}/lines/2-2") == "y" * 100
                assert (
                    "too large"
                    in (await refused(client.read_resource(f"{mcp_content.uri_of(large)}/lines/1-2"))).error.message
                )
                assert (
                    "no lines"
                    in (await refused(client.read_resource(f"{mcp_content.uri_of(image)}/lines/1-2"))).error.message
                )
                sizes = {one.name: one.size for one in (await client.list_resources()).resources}
                assert sizes == {"dot.png": len(PNG), large.id: large.payload.size, "\ufffd": surrogate.payload.size}

    asyncio.run(main())


URIS = [
    "byref://artifact/",
    "byref://artifact/art_aaaaaaaaaaaa",
    "byref://artifact/..%2F..%2Fetc%2Fpasswd",
    "byref://artifact/%00",
    "byref://artifact/log/lines/0-1",
    "byref://artifact/log/lines/2-1",
    "byref://artifact/log/lines/9-9",
    "byref://artifact/log/lines/1-" + "9" * 5_000,
    "byref://artifact/log/lines/-1-1",
    "byref://artifact/log/lines/\u0661-\u0662",
    "byref://artifact/log/jq?expression=" + "(" * 9_000,
    "byref://artifact/" + "a" * 1_000_000,
    "file:///etc/passwd",
    "http://127.0.0.1/",
    "",
    "\ud800",
]


@pytest.mark.slow
def test_hostile_requests_are_answered_and_the_next_one_is_too(tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("no_such_tool", {}),
        ("x" * 100_000, {}),
        ("\ud800", {"\ud800": "\ud800"}),
        ("artifact_read", {"artifact_id": {}}),
        ("artifact_read", {"artifact_id": "log", "start_line": "x" * 1_000_000}),
        ("artifact_grep", {"artifact_id": "log", "pattern": "(" * 1_000_000}),
        ("artifact_jq", {"artifact_id": {"a": {"b": None}}, "expression": 10**40}),
        ("code_interpreter", {"code": "1 +"}),
        ("code_interpreter", {}),
        ("process_output", {}),
        ("process_output", {"output": 1, "tool": 7}),
        ("process_output", {"output": 1, "tool": "t", "path": "/etc/passwd"}),
        ("process_output", {"output": 1, "is_error": "yes"}),
    ]

    async def main() -> None:
        with inside(tmp_path, tools=byref.policy.TOOL_NAMES) as server:
            async with Client(server, mode="legacy") as client:
                await client.call_tool("store_artifact", {"name": "log", "value": "one\ntwo"})
                for name, arguments in calls:
                    result = await client.call_tool(name, arguments)
                    assert result.is_error, name[:50]
                    assert 0 < len(text_of(result)) < 20_000
                    result.model_dump_json(by_alias=True)  # as a transport does
                for uri in URIS:
                    error = (await refused(client.read_resource(uri))).error
                    assert error.code == types.INVALID_PARAMS, uri[:50]
                    assert 0 < len(error.message) < 2_000
                for cursor in ("", "0", "-1", "art_aaaaaaaaaaaa", "x" * 100_000):
                    assert "cursor" in (await refused(client.list_resources(cursor=cursor))).error.message
                deep: Any = "leaf"
                for _ in range(100):
                    deep = {"d": [deep]}
                for output in (deep, "\ud800", 10**400, None, True, "", {"": {"": ""}}, [{"type": "resource"}]):
                    result = await client.call_tool("process_output", {"output": output})
                    assert not result.is_error
                    result.model_dump_json(by_alias=True)  # as a transport does
                assert await read(client, "byref://artifact/log") == "one\ntwo"

    asyncio.run(main())


@pytest.mark.slow
def test_the_list_of_resources_is_given_in_pages(tmp_path: Path) -> None:
    async def main() -> None:
        with inside(tmp_path, session="one") as server:
            with engine_at(tmp_path) as engine:
                session = engine.session("one")
                made = [session.store_artifact(f"text {number}").id for number in range(2 * adapter.PAGE + 1)]
            async with Client(server) as client:
                pages, cursor = [], None
                while True:
                    page = await client.list_resources(cursor=cursor)
                    pages.append([one.name for one in page.resources])
                    if (cursor := page.next_cursor) is None:
                        break
                assert [len(page) for page in pages] == [adapter.PAGE, adapter.PAGE, 1]
                assert [name for page in pages for name in page] == made

    asyncio.run(main())


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_a_client_gets_what_its_version_of_the_protocol_knows(alone: Served, version: str) -> None:
    with httpx2.Client(headers=ACCEPT, timeout=30) as http:
        greeted = http.post(alone.url, json=initialize(version))
        assert messages(greeted)[-1]["result"]["protocolVersion"] == version
        headers = {"mcp-session-id": greeted.headers["mcp-session-id"], "mcp-protocol-version": version}
        http.post(alone.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        output = {"output": USERS, "tool": "list_users"}
        asked = request(1, "tools/call", name="process_output", arguments=output)
        result = messages(http.post(alone.url, json=asked, headers=headers))[-1]["result"]
    kinds = [block["type"] for block in result["content"]]
    new = version >= "2025-06-18"
    assert kinds == (["text", "resource_link"] if new else ["text"])
    assert ("structuredContent" in result) is new


ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

ENVELOPE = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
"""What a request of the protocol without connections says of its client."""


def messages(response: httpx2.Response) -> list[dict[str, Any]]:
    """What a POST is answered with, be it JSON or a stream of events."""
    if response.headers["content-type"].startswith("application/json"):
        return [response.json()]
    data = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line.startswith("data:")]
    return [json.loads(one) for one in data if one]


# Over HTTP


@pytest.mark.slow
@pytest.mark.parametrize("mode", [pytest.param("auto", marks=pytest.mark.slow), "legacy"])
def test_clients_without_a_header_have_sessions_of_their_own(alone: Served, mode: str) -> None:
    async def main() -> None:
        async with over_http(alone.url, mode=mode) as first, over_http(alone.url, mode=mode) as other:
            assert first.protocol_version == HANDSHAKE_PROTOCOL_VERSIONS[-1]
            uri = link_of(await put(first)).uri
            assert json.loads(await read(first, uri)) == USERS
            await not_found(other, uri)

    asyncio.run(main())


@pytest.mark.slow
def test_a_header_names_the_session_under_any_version(alone: Served) -> None:
    async def main() -> None:
        async with (
            over_http(alone.url, session="chat-1") as new,
            over_http(alone.url, session="chat-1", mode="legacy") as old,
            over_http(alone.url, session="chat-2") as other,
            over_http(alone.url, mode=MODERN, name="nobody") as nameless,
        ):
            assert (new.protocol_version, other.protocol_version) == (MODERN, MODERN)
            uri = link_of(await put(new)).uri
            assert json.loads(await read(old, uri)) == USERS
            assert text_of(await old.call_tool("code_interpreter", {"code": "len(users)"})) == "3000"
            await not_found(other, uri)
            await not_found(nameless, uri)

    asyncio.run(main())
    with engine_at(alone.folder) as engine:
        names = {info.id for info in engine.sessions()}
        assert {"chat-1", "chat-2", "mcp-client-nobody"} <= names
        assert engine.session("chat-1").variable("users").value() == ROWS


@pytest.mark.slow
def test_many_clients_at_once_are_served_each_from_its_own(alone: Served) -> None:
    async def one(number: int) -> None:
        async with over_http(alone.url, session=f"many-{number}", mode=["auto", "legacy"][number % 2]) as client:
            rows = [{"owner": number, "n": n} for n in range(3_000)]
            await asyncio.gather(*(put(client, rows, f"rows_{part}") for part in range(3)))
            code = "{row['owner'] for row in [*rows_0, *rows_1, *rows_2]}, len(rows_2)"
            ran = await client.call_tool("code_interpreter", {"code": code})
            assert text_of(ran) == f"[[{number}],3000]"

    async def main() -> None:
        await asyncio.gather(*map(one, range(6)))

    asyncio.run(main())


async def not_found(client: Client, uri: str) -> None:
    """Nothing of another session's is found by resource, template, tool, code or list."""
    id_ = uri.rpartition("/")[2]
    for guessed in (uri, f"{uri}/lines/1-2", f"{uri}/jq?expression=.", "byref://artifact/users"):
        error = (await refused(client.read_resource(guessed))).error
        assert (error.code, "no artifact" in error.message) == (types.INVALID_PARAMS, True)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("artifact_read", {"artifact_id": id_}),
        ("artifact_grep", {"artifact_id": id_.replace("art_", "art:"), "pattern": "user"}),
        ("artifact_jq", {"artifact_id": id_, "expression": "."}),
        ("artifact_jq", {"artifact_id": "users", "expression": "."}),
        ("code_interpreter", {"code": "users"}),
    ]
    for name, arguments in asked:
        reply = await client.call_tool(name, arguments)
        assert reply.is_error
        assert "user 1" not in text_of(reply)
    assert id_ not in text_of(await client.call_tool("list_artifacts", {}))
    assert id_ not in {one.uri.rpartition("/")[2] for one in (await client.list_resources()).resources}
    assert "cursor" in (await refused(client.list_resources(cursor=id_))).error.message


@pytest.mark.parametrize("session", [pytest.param(None, marks=pytest.mark.slow), "shared"])
def test_tenants_are_kept_apart(two_tenants: Served, session: str | None) -> None:
    async def main() -> None:
        async with (
            over_http(two_tenants.url, token="acme-token-1", session=session) as acme,
            over_http(two_tenants.url, token="globex-token-1", session=session) as globex,
            over_http(two_tenants.url, token="globex-token-2", session=session) as colleague,
        ):
            uri = link_of(await put(acme)).uri
            await not_found(globex, uri)
            theirs = link_of(await put(globex, [{"name": "user 1"}] * 3000, "theirs")).uri
            assert len(json.loads(await read(globex, theirs))) == 3000
            assert "no artifact" in (await refused(acme.read_resource(theirs))).error.message
            if session:
                assert len(json.loads(await read(colleague, theirs))) == 3000
            else:
                await not_found(colleague, theirs)

    asyncio.run(main())


def test_a_connection_is_of_the_tenant_that_opened_it(two_tenants: Served) -> None:
    with httpx2.Client(headers=ACCEPT, timeout=30) as http:
        acme, globex = ({"authorization": f"Bearer {token}"} for token in ("acme-token-1", "globex-token-1"))
        greeted = http.post(two_tenants.url, json=initialize("2025-06-18"), headers=acme)
        connection = {"mcp-session-id": greeted.headers["mcp-session-id"]}
        listed = request(1, "resources/list")
        assert http.post(two_tenants.url, json=listed, headers=acme | connection).status_code == 200
        assert http.post(two_tenants.url, json=listed, headers=globex | connection).status_code == 404
        # Under the protocol without connections the header of one says nothing.
        modern = {"mcp-protocol-version": MODERN, "mcp-method": "resources/list"}
        response = http.post(
            two_tenants.url, json=request(2, "resources/list", _meta=ENVELOPE), headers=globex | connection | modern
        )
        assert messages(response)[-1]["result"]["resources"] == []
        for wrong in (
            {},
            {"authorization": "Bearer no"},
            {"authorization": "Basic YTpi"},
            {"authorization": "acme-token-1"},
        ):
            assert http.post(two_tenants.url, json=listed, headers=connection | wrong).status_code == 401
            assert http.get(two_tenants.url, headers=connection | wrong).status_code == 401
            assert http.delete(two_tenants.url, headers=connection | wrong).status_code == 401


def test_the_session_header_is_taken_once_and_as_an_id(alone: Served) -> None:
    modern = {"mcp-protocol-version": MODERN, "mcp-method": "resources/list"}
    asked = request(1, "resources/list", _meta=ENVELOPE)
    with httpx2.Client(timeout=30) as http:

        def error(*named: str) -> str:
            headers = [*ACCEPT.items(), *modern.items(), *(("x-byref-session", name) for name in named)]
            return str(messages(http.post(alone.url, json=asked, headers=headers))[-1]["error"]["message"])

        assert error("a", "b") == "x-byref-session is given more than once"
        assert "1 to 512 bytes" in error("x" * 513)


def test_lone_surrogates_are_taken_and_never_sent(alone: Served) -> None:
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "process_output"}
    records = [{"\ud800": "\ud800", "n": number} for number in range(5_000)]
    with httpx2.Client(headers=ACCEPT | headers, timeout=30) as http:
        for arguments, failed in (
            ({"output": "\ud800 x"}, False),
            ({"output": records, "tool": "\ud800"}, False),
            ({"output": 1, "\ud800": 1}, True),
            ({"\ud800": 1}, True),
        ):
            asked = request(1, "tools/call", name="process_output", arguments=arguments, _meta=ENVELOPE)
            result = messages(http.post(alone.url, content=json.dumps(asked)))[-1]["result"]
            assert result["isError"] is failed
            json.dumps(result, ensure_ascii=False).encode()


def test_other_web_pages_are_refused(alone: Served) -> None:
    with httpx2.Client(headers=ACCEPT, timeout=30) as http:
        port = httpx2.URL(alone.url).port
        for headers, status in (
            ({"host": "evil.example"}, 421),
            ({"host": f"evil.example:{port}"}, 421),
            ({"origin": "https://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": f"http://127.0.0.1:{port}"}, 200),
            ({"host": f"localhost:{port}"}, 200),
        ):
            assert http.post(alone.url, json=initialize("2025-06-18"), headers=headers).status_code == status, headers
        assert http.post(alone.url, content=b"x" * (5 << 20)).status_code == 413
        assert http.post(alone.url, content=b"{").status_code == 400
        assert http.get(alone.url.replace("/mcp", "/")).status_code == 404


@pytest.mark.slow
def test_half_open_connections_do_not_keep_the_server_from_answering_or_ending(tmp_path: Path) -> None:
    with served(tmp_path) as server, contextlib.ExitStack() as open_:
        url = httpx2.URL(server.url)
        halves = [open_.enter_context(socket.create_connection((url.host, url.port))) for _ in range(20)]
        for half in halves:
            half.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")

        async def main() -> None:
            told: list[Any] = []
            async with over_http(server.url, mode="legacy", told=told) as client:
                await put(client)
                async with asyncio.timeout(10):
                    while not any(isinstance(one, types.ResourceListChangedNotification) for one in told):
                        await asyncio.sleep(0.05)
                server.process.send_signal(signal.SIGTERM)

        with contextlib.suppress(BaseExceptionGroup, MCPError):  # the client's stream is cut
            asyncio.run(main())
        assert server.process.wait(10) == 0
        assert server.process.stdout
        assert server.process.stdout.read() == ""


def test_a_listener_hears_of_its_own_session_alone(alone: Served) -> None:
    async def main() -> None:
        async with over_http(alone.url, session="heard") as client, over_http(alone.url, session="other") as other:
            heard: list[Any] = []

            async def listen() -> None:
                async with client.listen(resources_list_changed=True) as events:
                    ready.set()
                    async for event in events:
                        heard.append(event)
                        return

            ready = asyncio.Event()
            listening = asyncio.create_task(listen())
            await ready.wait()
            await put(other)
            await asyncio.sleep(0.3)
            assert heard == []
            await put(client)
            await asyncio.wait_for(listening, 10)
            assert heard == [ResourcesListChanged()]

    asyncio.run(main())


@pytest.mark.slow
def test_a_cancelled_call_ends_and_the_session_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(byref.engine, "Sandbox", Sandbox)  # its own, which ends with the engine, and with it the run

    async def main() -> None:
        heard: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            heard.append(done)

        with inside(tmp_path, session="one") as server:
            async with Client(server, mode="legacy") as client:
                slow = client.call_tool("code_interpreter", CODE["arguments"], progress_callback=progress)  # type: ignore[arg-type]
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(slow, 2)
                assert len(heard) >= 2
                assert heard == sorted(heard)
                assert text_of(await client.call_tool("process_output", {"output": "still here"})) == "still here"

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 20


# Mounted


def test_a_host_says_which_tenant_and_session_a_request_is_for(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[str] = []

        def session(context: adapter.Context) -> str:
            seen.append(context.method)
            return "chat-42"

        with inside(tmp_path, tenant=lambda context: "acme", session=session) as server:
            async with Client(server) as client:
                await put(client)
        assert "tools/call" in seen
        with engine_at(tmp_path) as engine:
            assert [info.id for info in engine.sessions("acme")] == ["chat-42"]

    asyncio.run(main())


def test_a_request_of_nobody_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with inside(tmp_path, tenant=lambda context: {}["secret"]) as server:
            async with Client(server, mode="legacy") as client:
                for asked in (
                    client.list_tools(),
                    client.list_resources(),
                    client.call_tool("process_output", {"output": 1}),
                ):
                    error = (await refused(asked)).error
                    assert (error.code, "secret" in error.message) == (types.INVALID_REQUEST, False)
        with inside(tmp_path, tenant=adapter.tenant_of_token) as server:
            async with Client(server) as client:
                assert "bearer token" in (await refused(client.list_tools())).error.message

    asyncio.run(main())
    assert "KeyError" in caplog.text


def test_what_fails_inside_is_logged_and_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with byref.Engine(f"sqlite:///{tmp_path / 'mcp.db'}") as engine:
            server = adapter.server(engine, session="one")
            with engine.session("one") as session:
                artifact = session.store_artifact("text")
                async with Client(server) as client:
                    await read(client, mcp_content.uri_of(artifact))
                    session.end()
                    assert "ended" in (await refused(client.call_tool("process_output", {"output": 1}))).error.message
                    engine.database.close()
                    for file in tmp_path.glob("mcp.db*"):
                        file.unlink()
                    (tmp_path / "mcp.db").write_bytes(b"no database" * 1000)
                    error = (await refused(client.list_resources())).error
                    assert (error.code, str(tmp_path) in error.message) == (types.INTERNAL_ERROR, False)

    asyncio.run(main())
    assert "byref could not answer a request" in caplog.text


def test_tokens_are_checked() -> None:
    verifier = adapter.BearerTokens({"secret": "acme"})
    token = asyncio.run(verifier.verify_token("secret"))
    assert token is not None
    assert token.client_id == "acme"
    assert asyncio.run(verifier.verify_token("secre")) is None
    for wrong in ({}, {"": "acme"}, {"a b ": "acme"}, {"\n": "acme"}, {"größe": "acme"}):
        with pytest.raises(byref.ConfigurationError):
            adapter.BearerTokens(wrong)
    with pytest.raises(byref.InvalidId):
        adapter.BearerTokens({"secret": ""})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tokens", "t.json"], "go with --http"),
        (["--http", "nowhere"], "expected HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "expected HOST:PORT"),
        (["--http", "0.0.0.0:0"], "clients need --tokens"),
        (["--http", "0.0.0.0:0", "--tokens", "good.json"], "--allow-host"),
        (["--http", "127.0.0.1:0", "--tokens", "none.json"], "cannot read --tokens"),
        (["--http", "127.0.0.1:0", "--tokens", "list.json"], "expected JSON"),
        (["--http", "127.0.0.1:0", "--tokens", "twice.json"], "one token is both"),
        (["--http", "127.0.0.1:0", "--tokens", "number.json"], "expected text"),
        (["--http", "127.0.0.1:0", "--tokens", "revoked.json"], "'acme' has no token"),
        (["--http", "127.0.0.1:0", "--tokens", "empty.json"], "'acme' has no token"),
        (["--http", "256.0.0.1:0", "--tokens", "good.json"], "cannot listen"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    contents = {"good": TENANTS, "list": [], "twice": {"a": "x", "b": "x"}, "number": {"a": 7}}
    for name, content in (contents | {"revoked": {"acme": []}, "empty": {"acme": ""}}).items():
        Path(f"{name}.json").write_text(json.dumps(content))
    assert byref.cli.main(["mcp", *words]) in (1, 2)
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_table_too_big_to_be_stored_as_json_is_read_as_records(chat: byref.Session) -> None:
    chat.run("big = pd.DataFrame({'a': range(200_001)})")
    place = f"byref://artifact/{chat.variable('big').artifact.id}"
    whole, lines = mcp_content.read(chat, place), mcp_content.read(chat, f"{place}/lines/2-3")
    assert isinstance(whole, types.TextResourceContents)
    assert (whole.mime_type, json.loads(whole.text)[-1]) == ("application/json", {"a": 200_000})
    assert isinstance(lines, types.TextResourceContents)
    assert lines.text == '{"a":0},\n{"a":1},'
