"""LangChain's agents."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from drivers.base import MADE, MODEL, Driver, Heard, Read, Talk, call_id
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool

from byref.adapters.langchain import ByrefMiddleware


class Scripted(BaseChatModel):
    """Answers by how many answers there are already, so that one model serves any number of conversations at once.

    A turn is a text, calls, or a function of the messages that gives either; the last one is said again and again.
    """

    turns: list[Any]
    requests: list[list[BaseMessage]]
    offered: list[list[str]]
    tokens: int | None = 1_000
    model: str | None = MODEL

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.offered.append([tool["name"] if isinstance(tool, dict) else tool.name for tool in tools])
        return self.bind()

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(messages)
        before = sum(isinstance(message, AIMessage) for message in messages)
        turn = self.turns[min(before, len(self.turns) - 1)]
        turn = turn(messages) if callable(turn) else turn
        usage: Any = None
        if self.tokens is not None:
            usage = {"input_tokens": self.tokens, "output_tokens": MADE, "total_tokens": self.tokens + MADE}
        if isinstance(turn, str):
            return AIMessage(turn, usage_metadata=usage)
        calls: Any = [
            {"type": "tool_call", "id": call_id(before, n), "name": name, "args": arguments}
            for n, (name, arguments) in enumerate(turn)
        ]
        return AIMessage("", tool_calls=calls, usage_metadata=usage)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])


class Streaming(Scripted):
    """The same, in pieces; usage comes with the last one, as providers send it."""

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        answer = self._answer(messages)
        for word in str(answer.content).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        calls: Any = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": n}
            for n, call in enumerate(answer.tool_calls)
        ]
        yield ChatGenerationChunk(
            message=AIMessageChunk("", tool_call_chunks=calls, usage_metadata=answer.usage_metadata)
        )


def scripted(*turns: Any, kind: type[Scripted] = Scripted, **kwargs: Any) -> Scripted:
    """A model of these turns."""
    return kind(turns=list(turns), requests=[], offered=[], **kwargs)


class LangChain(Driver):
    """One middleware for all agents."""

    goes_on_ended = False

    def adapter(self) -> ByrefMiddleware:
        return ByrefMiddleware(
            self.engine,
            tenant=lambda runtime: f"{self.prefix}{runtime.context}",
            policy=self.policy,
            code_functions=self.code_functions,
        )

    def picture(self, data: bytes, text: str) -> Any:
        image = {"type": "image", "base64": base64.b64encode(data).decode(), "mime_type": "image/png"}
        return [{"type": "text", "text": text}, image]

    def talk_here(self, talk: Talk) -> Heard:
        agent, model, rest = self._agent(talk, Scripted)
        return self._heard(model, agent.invoke(**rest))

    async def talk(self, talk: Talk, mode: str) -> Heard:
        agent, model, rest = self._agent(talk, Streaming if mode == "stream" else Scripted)
        state: Any = None
        if mode == "async":
            state = await agent.ainvoke(**rest)
        else:
            async for state in agent.astream(**rest, stream_mode="values"):
                pass
        return self._heard(model, state)

    def _agent(self, talk: Talk, kind: type[Scripted]) -> tuple[Any, Scripted, dict[str, Any]]:
        model = scripted(*talk.turns, "Done.", kind=kind, tokens=talk.tokens)
        tools = [_tool(one) for one in talk.tools]
        agent = create_agent(model, tools, middleware=[] if talk.bare else [self.by], context_schema=str)
        config = {"configurable": {"thread_id": talk.name}}
        return agent, model, {"input": {"messages": [("user", "Go")]}, "config": config, "context": talk.user}

    def _heard(self, model: Scripted, state: Any) -> Heard:
        reads, images = {}, []
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                blocks = message.content if isinstance(message.content, list) else []
                images += [base64.b64decode(one["base64"]) for one in blocks if one["type"] == "image"]
                reads[message.tool_call_id] = Read(message.content, message.text, message.status == "error")
        calls = [call for one in state["messages"] if isinstance(one, AIMessage) for call in one.tool_calls]
        written = {call["id"]: call["args"] for call in calls}
        return Heard(state["messages"][-1].text, reads, written, list(map(set, model.offered)), images)


def _tool(function: Any) -> StructuredTool:
    if not iscoroutinefunction(function):
        return StructuredTool.from_function(function, description=function.__name__)

    @wraps(function)
    def here(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return StructuredTool.from_function(here, function, name=function.__name__, description=function.__name__)
