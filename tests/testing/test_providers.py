"""The providers' real SDKs take what a scripted provider says, streamed or whole, and what the real ones refuse is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anthropic
import google.genai
import openai
import pytest
from google.genai import types

from byref.testing import ScriptedProvider

ORDERS = {"type": "object", "properties": {"region": {"type": "string"}}, "required": ["region"]}
SCRIPT = (
    [{"name": "orders", "input": {"region": "EU"}}, {"name": "orders", "input": {"region": "US"}}],
    lambda results: f"There are {' and '.join(results)}.",
)
ASKED = "How many orders are there?"


def by_messages(url: str, streamed: bool) -> str:
    with anthropic.Anthropic(base_url=url, api_key="none") as client:
        tools: Any = [{"name": "orders", "description": "Orders.", "input_schema": ORDERS}]
        messages: Any = [{"role": "user", "content": ASKED}]
        while True:
            request = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": messages, "tools": tools}
            if streamed:
                with client.messages.stream(**request) as stream:
                    reply = stream.get_final_message()
            else:
                reply = client.messages.create(**request)
            assert reply.usage.input_tokens > 0 and reply.usage.output_tokens == 20
            if reply.stop_reason == "end_turn":
                return str(reply.content[0].text)
            messages.append({"role": "assistant", "content": reply.content})
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": f"2 in {block.input['region']}"}
                for block in reply.content
            ]
            messages.append({"role": "user", "content": results})


def by_chat_completions(url: str, streamed: bool) -> str:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        tools: Any = [{"type": "function", "function": {"name": "orders", "parameters": ORDERS}}]
        messages: Any = [{"role": "user", "content": ASKED}]
        while True:
            request = {"model": "gpt-5", "messages": messages, "tools": tools}
            if streamed:
                with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
                    reply: Any = stream.get_final_completion()
            else:
                reply = client.chat.completions.create(**request)
            assert reply.usage.total_tokens > 20
            said = reply.choices[0].message
            if not said.tool_calls:
                return str(said.content)
            messages.append(said.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            for call in said.tool_calls:
                region = call.function.arguments.split('"')[3]
                messages.append({"role": "tool", "tool_call_id": call.id, "content": f"2 in {region}"})


def by_responses(url: str, streamed: bool) -> str:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        tools: Any = [{"type": "function", "name": "orders", "parameters": ORDERS}]
        items: Any = [{"role": "user", "content": ASKED}]
        while True:
            request = {"model": "gpt-5", "input": items, "tools": tools}
            if streamed:
                with client.responses.stream(**request) as stream:
                    reply: Any = stream.get_final_response()
            else:
                reply = client.responses.create(**request)
            assert reply.usage.total_tokens > 20
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return str(reply.output_text)
            items += [
                {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
                for call in calls
            ]
            for call in calls:
                region = call.arguments.split('"')[3]
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": f"2 in {region}"})


def by_gemini(url: str, streamed: bool) -> str:
    with google.genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url)) as client:
        function = types.FunctionDeclaration(name="orders", parameters_json_schema=ORDERS)
        config: Any = {"tools": [types.Tool(function_declarations=[function])]}
        contents: Any = [types.UserContent(ASKED)]
        while True:
            request: Any = {"model": "gemini-3-flash", "contents": contents, "config": config}
            if streamed:
                chunks = list(client.models.generate_content_stream(**request))
            else:
                chunks = [client.models.generate_content(**request)]
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]  # type: ignore[index,union-attr]
            assert chunks[-1].usage_metadata.total_token_count > 20  # type: ignore[union-attr]
            calls = [part.function_call for part in parts if part.function_call]
            if not calls:
                return "".join(part.text for part in parts)
            contents.append(types.ModelContent(parts))
            contents.append(
                types.UserContent(
                    [
                        types.Part.from_function_response(
                            name=call.name, response={"result": f"2 in {call.args['region']}"}
                        )
                        for call in calls
                    ]
                )
            )


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("ask", [by_messages, by_chat_completions, by_responses, by_gemini])
def test_the_sdk_plays_the_script(ask: Callable[[str, bool], str], streamed: bool) -> None:
    with ScriptedProvider(*SCRIPT) as provider:
        assert ask(provider.url, streamed) == "There are 2 in EU and 2 in US."
    assert len(provider.requests) == 2 and ASKED in str(provider.requests[0])


def test_what_a_provider_refuses_is_refused() -> None:
    unanswered: Any = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "orders", "input": {}}]},
        {"role": "user", "content": "and?"},
    ]
    provider = ScriptedProvider("never said")
    with (
        pytest.raises(AssertionError, match=r"the calls .*toolu_1.* are followed by answers to \[\]"),
        provider,
        anthropic.Anthropic(base_url=provider.url, api_key="none", max_retries=0) as client,
        pytest.raises(anthropic.BadRequestError, match="toolu_1"),
    ):
        client.messages.create(model="claude-sonnet-5", max_tokens=1, messages=unanswered)
    with (
        pytest.raises(AssertionError, match="1 turns of the script were not asked for"),
        ScriptedProvider("never said"),
    ):
        pass
