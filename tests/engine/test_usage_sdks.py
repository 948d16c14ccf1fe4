"""Usage as the providers' own SDKs give it: their typed objects, whole responses and streams."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic.types as claude
import pytest
from google.genai import types as gemini
from openai.types import CompletionUsage, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseCompletedEvent, ResponseCreatedEvent, ResponseTextDeltaEvent

from byref import ConfigurationError, Usage
from byref.usage import normalise

CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 30, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
RESPONSES_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 8},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}
CLAUDE_USAGE = {
    "input_tokens": 60,
    "output_tokens": 20,
    "cache_read_input_tokens": 30,
    "cache_creation_input_tokens": 10,
    "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4},
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
}
GEMINI_USAGE = {
    "promptTokenCount": 90,
    "toolUsePromptTokenCount": 10,
    "candidatesTokenCount": 15,
    "thoughtsTokenCount": 5,
    "cachedContentTokenCount": 30,
    "totalTokenCount": 120,
    "trafficType": "ON_DEMAND",
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 90}],
}


def chunk(usage: dict[str, Any] | None, text: str | None = None) -> ChatCompletionChunk:
    choices = [] if text is None else [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    return ChatCompletionChunk.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-4o-2024-08-06",
            "choices": choices,
            "usage": usage,
        }
    )


def response(usage: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5-2025-08-07",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {"usage": "the host's own"},
        "usage": usage,
    }


def message(usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def claude_stream() -> list[Any]:
    start = CLAUDE_USAGE | {"output_tokens": 1}
    return [
        claude.RawMessageStartEvent.model_validate({"type": "message_start", "message": message(start)}),
        claude.RawContentBlockStartEvent.model_validate(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        ),
        claude.RawContentBlockDeltaEvent.model_validate(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}
        ),
        claude.RawMessageDeltaEvent.model_validate(
            {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 12}}
        ),
        claude.RawMessageDeltaEvent.model_validate(
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}
        ),
        claude.RawMessageStopEvent.model_validate({"type": "message_stop"}),
    ]


def gemini_chunk(**usage: Any) -> gemini.GenerateContentResponse:
    return gemini.GenerateContentResponse.model_validate(
        {
            "responseId": "r1",
            "modelVersion": "gemini-2.5-pro",
            "candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}}],
            "usageMetadata": usage or None,
        }
    )


FORMS: dict[str, tuple[Any, Usage]] = {
    "Chat usage": (CompletionUsage.model_validate(CHAT_USAGE), Usage(100, 20, 30)),
    "Chat completion": (
        ChatCompletion.model_validate(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "gpt-4o",
                "choices": [],
                "usage": CHAT_USAGE,
            }
        ),
        Usage(100, 20, 30, model="gpt-4o"),
    ),
    "Chat stream": (
        [chunk(None, "hel"), chunk(None, "lo"), chunk(CHAT_USAGE)],
        Usage(100, 20, 30, model="gpt-4o-2024-08-06"),
    ),
    "Chat's last chunk": (chunk(CHAT_USAGE), Usage(100, 20, 30, model="gpt-4o-2024-08-06")),
    "embeddings": (
        CreateEmbeddingResponse.model_validate(
            {
                "data": [],
                "model": "text-embedding-3-small",
                "object": "list",
                "usage": {"prompt_tokens": 7, "total_tokens": 7},
            }
        ),
        Usage(7, model="text-embedding-3-small"),
    ),
    "Responses response": (
        Response.model_validate(response(RESPONSES_USAGE)),
        Usage(100, 20, 30, 8, model="gpt-5-2025-08-07"),
    ),
    "Responses stream": (
        [
            ResponseCreatedEvent.model_validate(
                {"type": "response.created", "sequence_number": 0, "response": response(None)}
            ),
            ResponseTextDeltaEvent.model_validate(
                {
                    "type": "response.output_text.delta",
                    "sequence_number": 1,
                    "item_id": "i",
                    "output_index": 0,
                    "content_index": 0,
                    "delta": "hello",
                    "logprobs": [],
                }
            ),
            ResponseCompletedEvent.model_validate(
                {"type": "response.completed", "sequence_number": 2, "response": response(RESPONSES_USAGE)}
            ),
        ],
        Usage(100, 20, 30, 8, model="gpt-5-2025-08-07"),
    ),
    "Claude usage": (claude.Usage.model_validate(CLAUDE_USAGE), Usage(100, 20, 30, 10, cache_write_1h_tokens=4)),
    "Claude message": (
        claude.Message.model_validate(message(CLAUDE_USAGE)),
        Usage(100, 20, 30, 10, model="claude-sonnet-4-5-20250929", cache_write_1h_tokens=4),
    ),
    "Claude stream": (
        claude_stream(),
        Usage(100, 20, 30, 10, model="claude-sonnet-4-5-20250929", cache_write_1h_tokens=4),
    ),
    "Claude's last delta": (claude_stream()[-2], Usage(None, 20)),
    "Gemini usage": (
        gemini.GenerateContentResponseUsageMetadata.model_validate(GEMINI_USAGE),
        Usage(100, 20, 30),
    ),
    "Gemini response": (gemini_chunk(**GEMINI_USAGE), Usage(100, 20, 30, model="gemini-2.5-pro")),
    "Gemini stream": (
        [
            gemini_chunk(promptTokenCount=90, totalTokenCount=90),
            gemini_chunk(promptTokenCount=90, candidatesTokenCount=4, totalTokenCount=94),
            gemini_chunk(),
            gemini_chunk(**GEMINI_USAGE),
        ],
        Usage(100, 20, 30, model="gemini-2.5-pro"),
    ),
    "Gemini Live": (
        gemini.LiveServerMessage.model_validate(
            {"usageMetadata": {"promptTokenCount": 9, "responseTokenCount": 2, "totalTokenCount": 11}}
        ),
        Usage(9, 2),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_typed_objects(name: str) -> None:
    given, expected = FORMS[name]
    found = normalise(given)
    assert json.loads(json.dumps(found.raw, allow_nan=False)) == found.raw != {}
    assert expected == Usage(
        found.input_tokens,
        found.output_tokens,
        found.cache_read_tokens,
        found.cache_write_tokens,
        found.model,
        cache_write_1h_tokens=found.cache_write_1h_tokens,
    )


@pytest.mark.parametrize("name", FORMS)
def test_the_same_as_plain_dicts(name: str) -> None:
    given, _ = FORMS[name]
    dumped = [event.model_dump() for event in given] if isinstance(given, list) else given.model_dump()
    plain, typed = normalise(dumped), normalise(given)
    assert (plain.input_tokens, plain.output_tokens, plain.model) == (
        typed.input_tokens,
        typed.output_tokens,
        typed.model,
    )
    assert plain.cache_read_tokens == typed.cache_read_tokens


def test_the_raw_usage_has_what_byref_does_not_read() -> None:
    assert normalise(claude_stream()).raw["server_tool_use"] == {"web_search_requests": 2, "web_fetch_requests": 0}
    raw = normalise(gemini_chunk(**GEMINI_USAGE)).raw
    assert raw["traffic_type"] == "ON_DEMAND"
    assert raw["prompt_tokens_details"] == [{"modality": "TEXT", "token_count": 90}]


def test_what_a_gateway_adds_is_kept() -> None:
    usage = CompletionUsage.model_validate(CHAT_USAGE | {"cost": 0.25, "prompt_cache_hit_tokens": 30})
    assert normalise(usage).raw["cost"] == 0.25


def test_what_a_gateway_leaves_out_is_unknown() -> None:
    usage = CompletionUsage.model_construct(prompt_tokens=None, completion_tokens=5)  # type: ignore[arg-type]
    assert normalise(usage).input_tokens is None
    with pytest.raises(ConfigurationError, match="completion_tokens='5'"):
        normalise(CompletionUsage.model_construct(prompt_tokens=5, completion_tokens="5"))  # type: ignore[arg-type]


@pytest.mark.parametrize("events", [[chunk(None, "a"), chunk(None, "b")], claude_stream()[1:3], [gemini_chunk()]])
def test_a_stream_without_usage_says_how_to_have_it_sent(events: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match=re.escape('stream_options={"include_usage": True}')):
        normalise(events)
    with pytest.raises(ConfigurationError, match="give all of them"):
        normalise(events[0])
