"""Agents of Google ADK."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncGenerator
from typing import Any

from drivers.base import MADE, MODEL, Driver, Heard, Read, Talk, call_id
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps.app import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import Field

from byref.adapters.adk import ByrefPlugin, session_name


def used(tokens: int) -> types.GenerateContentResponseUsageMetadata:
    """The usage of an answer, some of it thought and some of it cached."""
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=tokens,
        candidates_token_count=MADE - 2,
        thoughts_token_count=2,
        cached_content_token_count=5,
    )


class Scripted(BaseLlm):
    """Calls what it is told to, and answers; keeps each request."""

    model: str = MODEL
    turns: list[Any]
    requests: list[LlmRequest] = Field(default_factory=list)
    tokens: int = 1_000
    grows: bool = True
    """Whether each request has `tokens` more than the one before."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        sent = {"contents": copy.deepcopy(llm_request.contents), "config": copy.deepcopy(llm_request.config)}
        self.requests.append(llm_request.model_copy(update=sent))
        turn = self.turns.pop(0)
        parts = [types.Part(text=turn)] if isinstance(turn, str) else [types.Part(function_call=one) for one in turn]
        if stream and isinstance(turn, str):
            for letter in turn:
                said = types.Content(role="model", parts=[types.Part(text=letter)])
                yield LlmResponse(content=said, partial=True, usage_metadata=used(1))
        tokens = self.tokens * (len(self.requests) if self.grows else 1)
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=used(tokens))


def responses(request: LlmRequest) -> dict[str, types.FunctionResponse]:
    """What the model read, by call."""
    found = [part.function_response for content in request.contents for part in content.parts or []]
    return {str(response.id): response for response in found if response is not None}


class ADK(Driver):
    """One plugin for all apps."""

    modes = ("async", "stream")
    answers_errors = True

    def adapter(self) -> ByrefPlugin:
        return ByrefPlugin(
            self.engine,
            tenant=lambda app, user: f"{self.prefix}{user}",
            policy=self.policy,
            code_functions=self.code_functions,
        )

    def session_name(self, talk: Any) -> str:
        return session_name("shop", talk.user, talk.name)

    def picture(self, data: bytes, text: str) -> Any:
        return [types.Part.from_bytes(data=data, mime_type="image/png"), text]

    async def talk(self, talk: Talk, mode: str) -> Heard:
        turns = [
            [types.FunctionCall(name=name, args=given, id=call_id(turn, n)) for n, (name, given) in enumerate(calls)]
            for turn, calls in enumerate(talk.turns)
        ]
        model = Scripted(turns=[*turns, "Done."], tokens=talk.tokens, grows=False)
        agent = LlmAgent(name="shop", model=model, tools=list(talk.tools))
        runner = Runner(
            app=App(name="shop", root_agent=agent, plugins=[] if talk.bare else [self.by]),
            session_service=InMemorySessionService(),  # type: ignore[no-untyped-call]
            auto_create_session=True,
        )
        config = RunConfig(streaming_mode=StreamingMode.SSE if mode == "stream" else StreamingMode.NONE)
        message = types.Content(role="user", parts=[types.Part(text="Go")])
        events = runner.run_async(user_id=talk.user, session_id=talk.name, new_message=message, run_config=config)
        answer = [event async for event in events][-1].content
        return self._heard(model, str(answer.parts[-1].text))

    def _heard(self, model: Scripted, answer: str) -> Heard:
        reads, images = {}, []
        for id, response in responses(model.requests[-1]).items():
            images += [part.inline_data.data for part in response.parts or () if part.inline_data is not None]
            said: dict[str, Any] = response.response or {}
            text = said.get("error", said.get("result", said))
            reads[id] = Read(said, text if isinstance(text, str) else json.dumps(text), "error" in said)
        parts = [part for content in model.requests[-1].contents for part in content.parts or ()]
        written = {str(one.function_call.id): one.function_call.args for one in parts if one.function_call is not None}
        offered = [
            {str(one.name) for tool in request.config.tools or () for one in tool.function_declarations or ()}
            for request in model.requests
        ]
        return Heard(answer, reads, written, offered, images)
