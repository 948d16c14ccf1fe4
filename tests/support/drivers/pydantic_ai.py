"""Pydantic AI's agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from drivers.base import MADE, MODEL, Driver, Heard, Read, Talk, call_id
from pydantic_ai import Agent, BinaryContent, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from byref.adapters.pydantic_ai import Byref


class PydanticAI(Driver):
    """One capability for all agents."""

    def adapter(self) -> Byref[Any]:
        return Byref(
            self.engine,
            tenant=lambda ctx: f"{self.prefix}{ctx.deps}",
            policy=self.policy,
            code_functions=self.code_functions,
        )

    def picture(self, data: bytes, text: str) -> Any:
        return [BinaryContent(data, media_type="image/png"), text]

    def talk_here(self, talk: Talk) -> Heard:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())  # `run_sync` takes it, and leaves it open
        try:
            agent, offered = self._agent(talk)
            result = agent.run_sync("Go", deps=talk.user, conversation_id=talk.name)
        finally:
            loop.close()
            asyncio.set_event_loop(None)
        return self._heard(result, result.output, offered)

    async def talk(self, talk: Talk, mode: str) -> Heard:
        agent, offered = self._agent(talk)
        whose: dict[str, Any] = {"deps": talk.user, "conversation_id": talk.name}
        if mode == "async":
            result: Any = await agent.run("Go", **whose)
            return self._heard(result, result.output, offered)
        async with agent.run_stream("Go", **whose) as streamed:
            async for answer in streamed.stream_text():
                pass
        return self._heard(streamed, answer, offered)

    def _agent(self, talk: Talk) -> tuple[Agent[Any, Any], list[set[str]]]:
        offered: list[set[str]] = []

        def turn(messages: list[ModelMessage], info: AgentInfo) -> list[ToolCallPart]:
            offered.append({tool.name for tool in info.function_tools})
            before = sum(isinstance(message, ModelResponse) for message in messages)
            calls = talk.turns[before] if before < len(talk.turns) else []
            return [ToolCallPart(name, arguments, call_id(before, n)) for n, (name, arguments) in enumerate(calls)]

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            usage = RequestUsage(input_tokens=talk.tokens, output_tokens=MADE)
            return ModelResponse(parts=turn(messages, info) or [TextPart("Done.")], usage=usage)

        async def stream(
            messages: list[ModelMessage], info: AgentInfo
        ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
            calls = turn(messages, info)
            if not calls:
                yield "Done."
            for n, one in enumerate(calls):
                yield {n: DeltaToolCall(one.tool_name, one.args_as_json_str(), tool_call_id=one.tool_call_id)}

        model = FunctionModel(answer, stream_function=stream, model_name=MODEL)
        tools = [Tool(one, takes_ctx=False) for one in talk.tools]
        by = [] if talk.bare else [self.by]
        return Agent(model, tools=tools, capabilities=by, deps_type=str), offered

    def _heard(self, result: Any, answer: str, offered: list[set[str]]) -> Heard:
        parts = [part for message in result.all_messages() for part in message.parts]
        reads, images = {}, []
        for part in parts:
            if isinstance(part, ToolReturnPart):
                items = part.content if isinstance(part.content, list) else [part.content]
                images += [one.data for one in items if isinstance(one, BinaryContent)]
                texts = [one for one in items if isinstance(one, str)]
                text = "\n".join(texts) if images else part.model_response_str()
                reads[part.tool_call_id] = Read(part.content, text, part.outcome == "failed")
        written = {part.tool_call_id: part.args_as_dict() for part in parts if isinstance(part, ToolCallPart)}
        return Heard(answer, reads, written, offered, images)
