"""Agno's agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from agno.agent import Agent
from agno.media import Image
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.tools import tool
from agno.tools.function import ToolResult
from drivers.base import MADE, MODEL, Driver, Heard, Read, Talk, call_id

from byref.adapters.agno import ByrefTools


@dataclass
class Scripted(Model):
    """Answers by how many answers there are in this run, so that one model serves conversations at once."""

    id: str = MODEL
    turns: list[Any] = field(default_factory=list)
    requests: list[list[Message]] = field(default_factory=list)
    offered: list[list[str]] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: {"input_tokens": 2_000, "output_tokens": 30})

    def _next(self, messages: list[Message], tools: Any) -> ModelResponse:
        self.requests.append(list(messages))
        self.offered.append([tool["function"]["name"] for tool in tools or []])
        before = sum(message.role == "assistant" and not message.from_history for message in messages)
        turn = self.turns[before]
        response = ModelResponse(role="assistant", response_usage=MessageMetrics(**self.usage))
        if isinstance(turn, str):
            response.content = turn
        else:
            response.tool_calls = [
                {
                    "id": call_id(before, n),
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for n, (name, arguments) in enumerate(turn)
            ]
        return response

    def invoke(self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any) -> ModelResponse:
        return self._next(messages, tools)

    async def ainvoke(self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any) -> ModelResponse:
        return self._next(messages, tools)

    def invoke_stream(
        self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any
    ) -> Iterator[ModelResponse]:
        yield self._next(messages, tools)

    async def ainvoke_stream(
        self, *args: Any, messages: list[Message], tools: Any = None, **kwargs: Any
    ) -> AsyncIterator[ModelResponse]:
        yield self._next(messages, tools)

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


class Agno(Driver):
    """One toolkit for all agents."""

    modes = ("sync", "async", "stream", "sync stream")
    knows_calls = False
    knows_schemas = False
    ends_runs = False

    def adapter(self) -> ByrefTools:
        return ByrefTools(
            self.engine,
            tenant=lambda context: f"{self.prefix}{context.user_id}",
            policy=self.policy,
            code_functions=self.code_functions,
        )

    def picture(self, data: bytes, text: str) -> Any:
        return ToolResult(content=text, images=[Image(content=data)])

    def talk_here(self, talk: Talk) -> Heard:
        agent = self._agent(talk, "sync")
        return self._heard(agent, agent.run("Go", session_id=talk.name, user_id=talk.user))

    async def talk(self, talk: Talk, mode: str) -> Heard:
        agent, whose = self._agent(talk, mode), {"session_id": talk.name, "user_id": talk.user}
        last: Any = None
        if mode == "async":
            last = await agent.arun("Go", **whose)
        elif mode == "stream":
            async for last in agent.arun("Go", stream=True, yield_run_output=True, **whose):
                pass
        else:
            for last in agent.run("Go", stream=True, yield_run_output=True, **whose):
                pass
        return self._heard(agent, last)

    def _agent(self, talk: Talk, mode: str) -> Agent:
        usage = {"input_tokens": talk.tokens, "output_tokens": MADE}
        tools = [tool(name=one.__name__, description=one.__name__)(one) for one in talk.tools]
        model = Scripted(turns=[*talk.turns, "Done."], usage=usage)
        if talk.bare:
            return Agent(model=model, tools=tools, telemetry=False)
        record = self.by.record if "sync" in mode.split() else self.by.arecord
        return Agent(
            model=model, tools=[*tools, self.by], tool_hooks=[self.by.hook], post_hooks=[record], telemetry=False
        )

    def _heard(self, agent: Agent, output: Any) -> Heard:
        model: Any = agent.model
        reads = {
            one.tool_call_id: Read(one.content, str(one.content), bool(one.tool_call_error))
            for one in output.messages
            if one.role == "tool"
        }
        written = {one.tool_call_id: one.tool_args for one in output.tools or ()}
        images = [image.get_content_bytes() for message in model.requests[-1] for image in message.images or ()]
        return Heard(str(output.content), reads, written, list(map(set, model.offered)), images)
