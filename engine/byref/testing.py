"""A provider's client without a model, for tests of a host's loop and for trying one out: its turns are written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

Call = Mapping[str, Any]
"""What a model calls: `name` and `input`."""
Turn = Call | Sequence[Call] | Callable[[list[Any]], str]
"""One call, several at once, or a function from the messages to the answer."""


class ScriptedClient:
    """Stands in for `anthropic.Anthropic()`: calls the tools it was told to, and answers out of their results.

    `client.messages.create(…)` takes the next of the turns. Calls are numbered `toolu_1`, `toolu_2`, …; usage is made up.

    Raises:
        AssertionError: a message does not answer each call of the message before it, which the API refuses as well; or
            there are no more turns.
    """

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self._ids = count(1)
        self.messages = self

    def create(
        self, *, messages: list[Any], tools: Sequence[Any], model: str, max_tokens: int, system: str = ""
    ) -> SimpleNamespace:
        """Answer as Anthropic's Messages API does."""
        _see_that_calls_are_answered(messages)
        assert self._turns, "the script has no more turns"
        turn = self._turns.pop(0)
        if callable(turn):
            blocks = [SimpleNamespace(type="text", text=turn(messages))]
        else:
            calls = [turn] if isinstance(turn, Mapping) else turn
            blocks = [SimpleNamespace(type="tool_use", id=f"toolu_{next(self._ids)}", **call) for call in calls]
        usage = {"input_tokens": len(str(messages)) // 4, "output_tokens": 20, "cache_read_input_tokens": 0}
        return SimpleNamespace(
            id=f"msg_{len(messages)}",
            content=blocks,
            stop_reason="end_turn" if callable(turn) else "tool_use",
            usage=usage,
            model=model,
        )


class AsyncScriptedClient:
    """The same, awaited: stands in for `anthropic.AsyncAnthropic()`."""

    def __init__(self, *turns: Turn) -> None:
        self._client, self.messages = ScriptedClient(*turns), self

    async def create(self, **request: Any) -> SimpleNamespace:
        """Answer as `ScriptedClient` does."""
        return self._client.create(**request)


def _see_that_calls_are_answered(messages: list[Any]) -> None:
    """Each call of an assistant's message is answered in the message after it, which is the user's."""
    for before, message in zip(messages, [*messages[1:], {}], strict=True):
        if before["role"] == "assistant":
            called = [block.id for block in before["content"] if block.type == "tool_use"]
            answers = message.get("content") or []
            answered = [block["tool_use_id"] for block in answers if isinstance(block, dict)]
            assert not called or (message["role"] == "user" and answered == called), f"{called} answered by {message}"
