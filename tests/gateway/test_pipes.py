"""A client at pipes: its messages are weighed, and answers to it are written chunk by chunk."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from byref.gateway import messages, pipes
from byref.jsonscan import chunks

VALUES: dict[str, Any] = {
    "text": "näme 😀 \x00\n" * 2_000,
    "records": [{"id": number, "name": "x" * 20, "price": number / 3, "note": None} for number in range(500)],
    "members": {f"key {number}": [number, {"of": "y" * 50}] for number in range(300)},
    "one long among many": [*range(1_000), "z" * 20_000, *range(1_000), {"deep": [{"er": "z" * 20_000}]}],
    "a long key": {"k" * 20_000: 1, "b": {}},
    "numbers": [10**30, -1.5, True, 1e300] * 1_000,
    "half of a pair": ["\ud800" * 5_000, {"a": "\udfff"}],
    "nothing": [[], {}, "", None] * 3_000,
}


def answer(value: Any, id: int = 7) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=id, result={"first": 1, "value": value})


@pytest.mark.parametrize("name", VALUES)
def test_a_message_is_the_same_chunk_by_chunk(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 4_000)
    pieces = list(messages.pieces_of(answer(VALUES[name])))
    assert json.loads(b"".join(pieces)) == {"jsonrpc": "2.0", "id": 7, "result": {"first": 1, "value": VALUES[name]}}
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 8 * chunks.CHUNK


def test_what_is_long_is_known_without_looking_at_all_of_it() -> None:
    assert not messages.is_long(answer("short"))
    assert not messages.is_long(answer([{"a": 1}] * 100))
    for value in ("x" * 40_000, ["x" * 400] * 100, {str(number): 0 for number in range(4_000)}, [[]] * 10_000_000):
        assert messages.is_long(answer(value))


class Pipes:
    """Both ends of a client's pipes."""

    def __init__(self) -> None:
        self.given, self.to_give = os.pipe()
        self.to_take, self.taken = os.pipe()
        self.lines: list[bytes] = []

    def give(self, data: bytes) -> None:
        with os.fdopen(self.to_give, "wb") as file:
            file.write(data)

    def take(self) -> None:
        with os.fdopen(self.to_take, "rb") as file:
            self.lines += file

    def served(self, sent: list[Any]) -> list[Any]:
        """What is received while messages are sent."""
        found: list[Any] = []

        async def work() -> None:
            async with pipes.client_messages(self.given, self.taken) as (received, to_send), to_send:
                for message in sent:
                    await to_send.send(SessionMessage(message))
                async with received:
                    async for item in received:
                        found.append(item)
            os.close(self.taken)

        taking = threading.Thread(target=self.take)
        taking.start()
        asyncio.run(work())
        taking.join(30)
        os.close(self.given)
        return found


def test_what_a_client_sends_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is too much is answered; an answer that is too much is an error; the next message is taken."""
    monkeypatch.setattr(messages, "MAX_PARTS", 50_000)
    monkeypatch.setattr(pipes, "MAX_MESSAGE_BYTES", 1 << 20)
    many, deep, long = b"1," * 60_000, b"[" * 300, b"x" * (3 << 20)
    lines = [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"x":[%s1]}}' % many,
        b'{"method":"tools/call","params":{"x":%s1%s},"jsonrpc":"2.0","id":3}' % (deep, b"]" * 300),
        b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"x":"%s"}}' % long,
        b'{"jsonrpc":"2.0","id":5,"result":{"x":[%s1]}}' % many,
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"x":[%s1]}}' % many,
        b"\r",
        b"",
        b'{"jsonrpc":"2.0","id":6,"method":"ping"}',
    ]
    ends = Pipes()
    giving = threading.Thread(target=ends.give, args=(b"\n".join(lines),))
    giving.start()
    found = ends.served([])
    giving.join()
    requests = [item.message for item in found if isinstance(item, SessionMessage)]
    assert [(type(one), one.id) for one in requests] == [(JSONRPCRequest, 1), (JSONRPCError, 5), (JSONRPCRequest, 6)]
    assert "the client sent more than 50,000 arrays" in requests[1].error.message
    assert len(found) == len(requests)
    refused = {error["id"]: error["error"] for error in map(json.loads, ends.lines)}
    assert {id: error["code"] for id, error in refused.items()} == {2: -32600, 3: -32600, 4: -32600}
    for id, told in {2: "50,000 arrays", 3: "200 levels", 4: "more than 1 MB"}.items():
        assert told in refused[id]["message"]


@pytest.mark.parametrize(
    ("line", "id", "code", "told"),
    [
        (b"no JSON", None, -32700, "no JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', None, -32700, "no JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"x":"\xff', None, -32700, "no JSON"),
        (b"[" * 1_000, None, -32600, "batches"),
        (b'{"a":' * 3_000, None, -32700, "no JSON"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, -32600, "batches"),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600, "no message"),
        (b'{"jsonrpc":"2.0","id":1.5,"method":5}', None, -32600, "no message"),
        (b'{"id":null}', None, -32600, "no message"),
        (b'"%s"' % (b"x" * 100_000), None, -32600, "no message"),
    ],
)
def test_a_line_that_is_no_message_is_answered(line: bytes, id: int | None, code: int, told: str) -> None:
    ends = Pipes()
    giving = threading.Thread(target=ends.give, args=(line,))
    giving.start()
    assert ends.served([]) == []
    giving.join()
    [refused] = map(json.loads, ends.lines)
    assert (refused["id"], refused["error"]["code"]) == (id, code) and told in refused["error"]["message"]


PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
NO_MORE = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}\n'
LISTEN = b'{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen"}\n'


@pytest.mark.parametrize("signalled", [False, True])
@pytest.mark.parametrize("is_answered", [False, True])
def test_requests_are_answered_when_the_client_has_closed_its_end(signalled: bool, is_answered: bool) -> None:
    """Those that are withdrawn, and streams without end, are not waited for; for the others the time is bounded."""
    ends = Pipes()
    os.write(ends.to_give, PING % 1 + PING % 2 + NO_MORE % 2 + LISTEN % 3)
    if not signalled:
        os.close(ends.to_give)

    async def work() -> None:
        leaving = anyio.Event()
        seconds = 30.0 if is_answered else 0.05
        around = pipes.client_messages(ends.given, ends.taken, leaving, seconds)
        async with around as (received, to_send), to_send, received:
            for _ in range(4):
                await received.receive()
            if signalled:
                leaving.set()
            with anyio.move_on_after(0.3 if is_answered else 20) as scope:
                with pytest.raises(anyio.EndOfStream):
                    await received.receive()
            assert scope.cancelled_caught == is_answered
            if is_answered:
                await to_send.send(SessionMessage(answer("late", 1)))
                with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
                    await received.receive()
        os.close(ends.taken)

    asyncio.run(work())
    ends.take()
    assert [json.loads(line)["id"] for line in ends.lines] == ([1] if is_answered else [])
    os.close(ends.given)
    if signalled:
        os.close(ends.to_give)


def test_long_and_short_messages_are_lines_in_their_order() -> None:
    ends = Pipes()
    values = ["short", "long " * 500_000, ["ü" * 10] * 20_000, "short again"]
    giving = threading.Thread(target=ends.give, args=(b"",))
    giving.start()
    ends.served([answer(value) for value in values])
    giving.join()
    assert [json.loads(line)["result"]["value"] for line in ends.lines] == values


@pytest.mark.slow
def test_nobody_waits_while_a_long_message_is_written() -> None:
    ends = Pipes()
    gaps: list[float] = []

    def take() -> None:
        while os.read(ends.to_take, 1 << 20):
            pass

    async def work() -> None:
        async with pipes.client_messages(ends.given, ends.taken) as (received, to_send):

            async def tick() -> None:
                while True:
                    began = time.monotonic()
                    await asyncio.sleep(0.001)
                    gaps.append(time.monotonic() - began)

            ticking = asyncio.create_task(tick())
            async with to_send, received:
                await to_send.send(SessionMessage(answer(["x" * (200 << 20), ["y" * 100] * 500_000])))
                await to_send.send(SessionMessage(answer("short")))
            os.close(ends.to_give)
            while to_send.statistics().open_receive_streams:
                await asyncio.sleep(0.01)
            ticking.cancel()
        os.close(ends.taken)

    taking = threading.Thread(target=take)
    taking.start()
    asyncio.run(work())
    taking.join(60)
    assert len(gaps) > 20
    assert max(gaps) < 0.2
