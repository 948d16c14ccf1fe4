"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

from agents import Agent, Runner, ToolOutputImage, ToolOutputText, function_tool, set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage
from drivers.base import MADE, MODEL, Driver, Heard, Read, Talk, call_id

from byref.adapters.openai_agents import Byref

set_tracing_disabled(True)


def call(name: str, call_id: str, **arguments: Any) -> Any:
    """A model's call of a tool."""
    return function_call(name, json.dumps(arguments), call_id=call_id)


def used(*output: Any, tokens: int = 1_000) -> ModelStep:
    """An answer of a model, and its usage."""
    usage = Usage(requests=1, input_tokens=tokens, output_tokens=MADE, total_tokens=tokens + MADE)
    return ModelStep(output=[assistant_message(one) if isinstance(one, str) else one for one in output], usage=usage)


def outputs(model: ScriptedModel) -> dict[str, Any]:
    """What the model read last, by call."""
    return {
        item["call_id"]: item["output"] for item in model.calls[-1].input if item.get("type") == "function_call_output"
    }


class OpenAIAgents(Driver):
    """One `Byref` for all agents."""

    tells_in_code = False

    def adapter(self) -> Byref:
        return Byref(
            self.engine,
            session=lambda run: run.context.name,
            tenant=lambda run: f"{self.prefix}{run.context.user}",
            policy=self.policy,
            model=MODEL,
            code_functions=self.code_functions,
        )

    def picture(self, data: bytes, text: str) -> Any:
        image = ToolOutputImage(image_url=f"data:image/png;base64,{base64.b64encode(data).decode()}")
        return [ToolOutputText(text=text), image]

    def talk_here(self, talk: Talk) -> Heard:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())  # `run_sync` takes it, and leaves it open
        try:
            model, arguments = self._run(talk)
            return self._heard(model, Runner.run_sync(**arguments))
        finally:
            loop.close()
            asyncio.set_event_loop(None)

    async def talk(self, talk: Talk, mode: str) -> Heard:
        model, arguments = self._run(talk)
        if mode == "async":
            return self._heard(model, await Runner.run(**arguments))
        streamed = Runner.run_streamed(**arguments)
        async for _ in streamed.stream_events():
            pass
        return self._heard(model, streamed)

    def _run(self, talk: Talk) -> tuple[ScriptedModel, dict[str, Any]]:
        turns = [
            used(*(call(name, call_id(turn, n), **given) for n, (name, given) in enumerate(calls)), tokens=talk.tokens)
            for turn, calls in enumerate(talk.turns)
        ]
        model = ScriptedModel([*turns, used("Done.", tokens=talk.tokens)])
        tools: list[Any] = [function_tool(one, strict_mode=False) for one in talk.tools]
        if not talk.bare:
            tools = self.by.tools(*tools)
        agent = Agent(name="shop", model=model, tools=tools)
        context = SimpleNamespace(name=talk.name, user=talk.user)
        hooks = None if talk.bare else self.by
        return model, {"starting_agent": agent, "input": "Go", "context": context, "hooks": hooks}

    def _heard(self, model: ScriptedModel, result: Any) -> Heard:
        reads, images = {}, []
        for id, output in outputs(model).items():
            blocks = output if isinstance(output, list) else [{"type": "input_text", "text": output}]
            urls = [block["image_url"] for block in blocks if block["type"] == "input_image"]
            images += [base64.b64decode(url.partition(",")[2]) for url in urls]
            reads[id] = Read(output, "\n".join(block["text"] for block in blocks if block["type"] == "input_text"))
        items = [item for item in model.calls[-1].input if item.get("type") == "function_call"]
        written = {item["call_id"]: json.loads(item["arguments"]) for item in items}
        offered = [{tool.name for tool in request.tools} for request in model.calls]
        return Heard(result.final_output, reads, written, offered, images)
