"""Strands' agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from drivers.base import MADE, MODEL, Driver, Heard, Read, Talk, call_id
from strands import Agent, tool
from strands.models.model import Model

from byref.adapters.strands import ByrefPlugin

Turn = str | list[tuple[str, dict[str, Any]]] | Callable[[list[Any]], Any]


class Scripted(Model):
    """Says one turn a request: a text, tool calls at once, or what a function of the messages gives."""

    def __init__(self, *turns: Turn, tokens: int = 900, usage: dict[str, int] | None = None) -> None:
        self.turns, self.model_id = list(turns), MODEL
        self.usage = usage or {"inputTokens": tokens, "outputTokens": MADE, "totalTokens": tokens + MADE}
        self.requests: list[dict[str, Any]] = []

    def update_config(self, **model_config: Any) -> None:
        self.model_id = model_config["model_id"]

    def get_config(self) -> dict[str, Any]:
        return {"model_id": self.model_id, "context_window_limit": 100_000}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: str | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        self.requests.append({"messages": messages, "tools": tool_specs, "system": system_prompt, **kwargs})
        turn = self.turns.pop(0)
        said = turn(messages) if callable(turn) else turn
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": said}}}
            yield {"contentBlockStop": {}}
        else:
            for n, (name, arguments) in enumerate(said):
                use = {"name": name, "toolUseId": call_id(len(self.requests) - 1, n)}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
                yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(said, str) else "tool_use"}}
        yield {"metadata": {"usage": self.usage, "metrics": {"latencyMs": 1}}}


def results(messages: list[Any]) -> list[dict[str, Any]]:
    """The results of tools in messages."""
    return [block["toolResult"] for message in messages for block in message["content"] if "toolResult" in block]


class Strands(Driver):
    """One plugin for all agents."""

    def adapter(self) -> ByrefPlugin:
        return ByrefPlugin(
            self.engine,
            session=lambda agent: agent.state.get("chat"),
            tenant=lambda agent: f"{self.prefix}{agent.state.get('user')}",
            policy=self.policy,
            code_functions=self.code_functions,
        )

    def picture(self, data: bytes, text: str) -> Any:
        image = {"image": {"format": "png", "source": {"bytes": data}}}
        return {"status": "success", "content": [{"text": text}, image]}

    def talk_here(self, talk: Talk) -> Heard:
        agent = self._agent(talk)
        return self._heard(agent, str(agent("Go")))

    async def talk(self, talk: Talk, mode: str) -> Heard:
        agent = self._agent(talk)
        if mode == "async":
            return self._heard(agent, str(await agent.invoke_async("Go")))
        events = [event async for event in agent.stream_async("Go")]
        return self._heard(agent, "".join(event["data"] for event in events if "data" in event))

    def _agent(self, talk: Talk) -> Agent:
        return Agent(
            model=Scripted(*talk.turns, "Done.", tokens=talk.tokens),
            tools=[tool(description=one.__name__)(one) for one in talk.tools],
            plugins=[] if talk.bare else [self.by],
            callback_handler=None,
            state={"chat": talk.name, "user": talk.user},
        )

    def _heard(self, agent: Agent, answer: str) -> Heard:
        reads, images = {}, []
        for result in results(agent.messages):
            content = result["content"]
            texts = [block["text"] for block in content if "text" in block]
            images += [block["image"]["source"]["bytes"] for block in content if "image" in block]
            reads[result["toolUseId"]] = Read(content, "\n".join(texts), result["status"] == "error")
        uses = [block["toolUse"] for message in agent.messages for block in message["content"] if "toolUse" in block]
        offered = [{spec["name"] for spec in request["tools"] or ()} for request in agent.model.requests]
        return Heard(answer.strip(), reads, {use["toolUseId"]: use["input"] for use in uses}, offered, images)
