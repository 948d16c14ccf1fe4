"""Usage in the forms of the providers' own SDKs, whose import takes seconds: only tests that need it import this."""

from __future__ import annotations

from typing import Any

import anthropic.types as claude
from google.genai import types as gemini
from openai.types import CompletionUsage, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseCompletedEvent, ResponseCreatedEvent, ResponseTextDeltaEvent

from byref import Usage

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

WITHOUT_USAGE: dict[str, list[Any]] = {
    "Chat stream": [chunk(None, "a"), chunk(None, "b")],
    "Claude stream": claude_stream()[1:3],
    "Gemini stream": [gemini_chunk()],
}
