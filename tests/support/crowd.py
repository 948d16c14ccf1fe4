"""Many conversations at once through one instance of an adapter: tasks of several loops, threads, cancellations, errors."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from byref import Session

PRIMES = [number for number in range(1_009, 1_300) if all(number % each for each in range(2, 36))]
"""Tokens of a request: usage of one conversation that is counted in another is divisible by neither's."""


@dataclass(eq=False)
class Chat:
    """A conversation of a user, and what its model calls: its own tool, then another with the data of the first."""

    user: str
    name: str
    tokens: int
    calls: list[list[tuple[str, dict[str, Any]]]]
    fate: Literal["", "cancelled", "raises"] = ""
    started: threading.Event = field(default_factory=threading.Event)
    heard: list[str] = field(default_factory=list)

    @property
    def stamp(self) -> str:
        """What is in all of its data, and in no other's."""
        return f"<{self.user}|{self.name}>"

    def mine(self) -> dict[str, Any]:
        """The data of this conversation, from a tool that is a plain function."""
        self.started.set()
        time.sleep(0.01)
        if self.fate == "raises":
            raise RuntimeError(f"no data of {self.stamp}")
        return {"owner": self.stamp, "rows": [{"n": number, "of": self.stamp} for number in range(1000)]}

    async def amine(self) -> dict[str, Any]:
        """The same, from one that is a coroutine."""
        if self.fate == "cancelled":
            self.started.set()
            await asyncio.sleep(60)
        await asyncio.sleep(0.01)
        return self.mine()

    def echo(self, data: Any) -> str:
        """Note whose data it was given."""
        self.heard.append(data["owner"])
        return f"heard of {data['owner']}"


Talk = Callable[[Chat], Coroutine[Any, Any, Any]]


def crowd(
    talk: Talk,
    talk_here: Callable[[Chat], Any],
    session_of: Callable[[Chat], Session],
    *,
    many: int,
    counts: bool = True,
) -> None:
    """Let conversations go on at once, `many` of each kind; `talk_here` is `talk` without a loop.

    Nothing of one reaches another: no data, no text, no usage, unless its scripted model counts for itself. One that was cancelled goes on.
    """
    code = [("code_interpreter", {"code": "mine['owner']"})] if many > 1 else []
    calls: list[list[tuple[str, dict[str, Any]]]] = [[("mine", {})], [("echo", {"data": "$mine"}), *code]]
    tokens = iter(PRIMES)

    def chat(user: str, name: str, fate: Any = "") -> Chat:
        return Chat(user, name, next(tokens), calls, fate)

    loops: list[list[Chat]] = [[], []]
    plain: list[Chat] = []
    for n in range(many):
        twice = chat("eve", f"c{n}")
        loops[0] += [chat("ann", f"a{n}"), chat("ann", f"b{n}", "cancelled"), chat("bob", f"b{n}", "raises"), twice]
        loops[1].append(Chat("eve", f"c{n}", twice.tokens, calls))
        plain.append(chat("bob", f"a{n}"))
        if many > 1:
            loops[1] += [chat("ann", f"d{n}"), chat("eve", f"d{n}", "cancelled")]
            plain.append(chat("ann", f"e{n}"))

    async def go_on(chats: list[Chat]) -> None:
        tasks = [asyncio.ensure_future(talk(one)) for one in chats]
        for task, one in zip(tasks, chats, strict=True):
            if one.fate == "cancelled":
                while not one.started.is_set() and not task.done():
                    await asyncio.sleep(0.005)
                task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for one, end in zip(chats, ends, strict=True):
            if not one.fate and isinstance(end, BaseException):
                raise end

    with ThreadPoolExecutor(1 + len(plain)) as pool:
        ended = [pool.submit(lambda: asyncio.run(go_on(loops[1]))), *(pool.submit(talk_here, one) for one in plain)]
        asyncio.run(go_on(loops[0]))
        for each in ended:
            each.result()
    chats = [*loops[0], *loops[1], *plain]
    stamps = {one.stamp for one in chats}
    assert all(one.started.is_set() for one in chats)
    for one in chats:
        session, same = session_of(one), [each for each in chats if each.stamp == one.stamp]
        held = [json.dumps(artifact.value) for artifact in session.artifacts()]
        read = [f"{entry.content}{entry.arguments}" for entry in session.ledger()]
        found = {stamp for stamp in stamps if any(stamp in text for text in (*held, *read))}
        usage = session.usage()
        assert not counts or usage.input_tokens is None or usage.input_tokens % one.tokens == 0, (one, usage)
        if one.fate:
            assert found <= {one.stamp} and one.heard == []
            assert usage.requests <= (1 if one.fate == "cancelled" else 3)
        else:
            assert (found, one.heard) == ({one.stamp}, [one.stamp]), read
            assert usage.requests == 3 * len(same)
            assert 1 <= sum("owner" in text for text in held) <= len(same)  # one where calls have ids
            replies = [entry.content for entry in session.ledger() if entry.kind == "reply"]
            assert all(one.stamp in str(reply) for reply in replies), replies
            assert len(code) <= len(replies) <= len(same) * len(code), replies  # the same call is one reply
    again = [Chat(one.user, one.name, one.tokens, calls) for one in chats if one.fate == "cancelled"]
    asyncio.run(go_on(again))
    for one in again:
        replies = [entry.content for entry in session_of(one).ledger() if entry.kind == "reply"]
        assert (one.heard, len(replies)) == ([one.stamp], len(code)), "it goes on"
        assert all(one.stamp in str(reply) for reply in replies), replies
