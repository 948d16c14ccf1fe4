"""What the contract of adapters needs of a framework: an agent with a scripted model, and what that model read."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from byref import Engine, Policy, Session

Calls = list[tuple[str, dict[str, Any]]]

MODEL = "gpt-4o"
"""Every scripted model's name."""
MADE = 10
"""Tokens of each of its answers."""


@dataclass
class Talk:
    """One message of a user's, and what the model answers: calls, turn by turn, then "Done."."""

    tools: list[Callable[..., Any]]
    """The host's, as plain functions or coroutine functions."""
    turns: list[Calls]
    user: str = "ann"
    name: str = "chat"
    tokens: int = 1_000
    """Of each request."""
    bare: bool = False
    """Without byref: how the framework does by itself."""

    @property
    def calls(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Every call by its id."""
        return {call_id(turn, n): call for turn, calls in enumerate(self.turns) for n, call in enumerate(calls)}


def call_id(turn: int, n: int) -> str:
    """The id of the n-th call of a turn."""
    return f"call_{turn}_{n}"


@dataclass
class Read:
    """What the model read of a call."""

    raw: Any
    """In the framework's own form."""
    text: str
    is_error: bool | None = None
    """None: the framework does not say."""


@dataclass
class Heard:
    """What came of a talk."""

    answer: str
    reads: dict[str, Read]
    """By the ids of calls."""
    written: dict[str, Any]
    """The arguments of calls as the transcript has them."""
    offered: list[set[str]] = field(default_factory=list)
    """Names of tools, by request."""
    images: list[bytes] = field(default_factory=list)
    """Those that the model was shown last."""

    def __getitem__(self, id: str) -> Read:
        return self.reads[id]


class Driver(ABC):
    """A framework with one instance of its adapter in it, for any number of conversations; for any thread.

    The tenant of a conversation is its user with `prefix` in front.
    """

    modes: ClassVar[tuple[str, ...]] = ("sync", "async", "stream")
    knows_calls: ClassVar[bool] = True
    """Whether the framework tells an adapter the ids of calls."""
    knows_schemas: ClassVar[bool] = True
    """Whether it tells an adapter the schemas of tools."""
    answers_errors: ClassVar[bool] = False
    """Whether byref answers a call with a tool's exception where the framework would end the run."""
    tells_in_code: ClassVar[bool] = True
    """Whether code reads the text of a tool's exception: else its framework says only that there was one."""
    ends_runs: ClassVar[bool] = True
    """Whether an exception of byref's ends a run: else it is the call's answer."""
    goes_on_ended: ClassVar[bool] = True
    """Whether a run is answered to its end though its conversation has ended."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy | None = None,
        *,
        prefix: str = "",
        code_functions: Sequence[str] = (),
    ) -> None:
        self.engine, self.policy, self.prefix, self.code_functions = engine, policy, prefix, code_functions
        self.by = self.adapter()

    @abstractmethod
    def adapter(self) -> Any:
        """Make the instance."""

    @abstractmethod
    async def talk(self, talk: Talk, mode: str) -> Heard:
        """Hold a talk on a loop."""

    @abstractmethod
    def picture(self, data: bytes, text: str) -> Any:
        """An image and a text beside it, as tools of the framework return them."""

    def talk_here(self, talk: Talk) -> Heard:
        """Hold a talk on this thread, which has no loop."""
        return asyncio.run(self.talk(talk, "async"))

    def ran(self, talk: Talk, mode: str = "async") -> Heard:
        """Hold a talk in one of the `modes`."""
        return self.talk_here(talk) if mode == "sync" else asyncio.run(self.talk(talk, mode))

    def session_name(self, talk: Any) -> str:
        """The id of byref's session of a talk."""
        return str(talk.name)

    def session(self, talk: Any) -> Session:
        """byref's session of a talk, or of whatever else has a user and a name."""
        return self.engine.session(self.session_name(talk), tenant=f"{self.prefix}{talk.user}")
