"""A provider's client without a model and without HTTP: it plays a script of turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

Call = Mapping[str, Any]
"""A tool call of the model, with the keys `name` and `input`."""
Turn = Call | Sequence[Call] | Callable[[list[Any]], str]
"""One call, several at once, or a function from the messages to the answer."""


class ScriptedClient:
    """Stands in for `anthropic.Anthropic()`: it calls the tools of its script, and answers from their results.

    `client.messages.create(…)` plays the next turn. Calls are numbered `toolu_1`, `toolu_2`, …; usage is invented.

    Raises:
        AssertionError: a message does not answer each call of the message before it, which the API refuses as well; or
            there are no more turns.
    """

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self._ids = count(1)
        self.messages = self

    def create(
        self, *, messages: list[Any], model: str, max_tokens: int, tools: Sequence[Any] = (), system: str = ""
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
    """Stands in for `anthropic.AsyncAnthropic()`: like `ScriptedClient`, but awaited."""

    def __init__(self, *turns: Turn) -> None:
        self._client, self.messages = ScriptedClient(*turns), self

    async def create(self, **request: Any) -> SimpleNamespace:
        """Answer as `ScriptedClient` does."""
        return self._client.create(**request)


def _see_that_calls_are_answered(messages: list[Any]) -> None:
    """Assert that the user's message after each assistant's message answers all its calls, in order."""
    for before, message in zip(messages, [*messages[1:], {}], strict=True):
        if before["role"] == "assistant":
            called = [block.id for block in before["content"] if block.type == "tool_use"]
            answers = message.get("content") or []
            answered = [block["tool_use_id"] for block in answers if isinstance(block, dict)]
            assert not called or (message["role"] == "user" and answered == called), f"{called} answered by {message}"
