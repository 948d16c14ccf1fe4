"""A chat with the OpenAI SDK's Chat Completions: streamed, with parallel calls and usage; big results go by reference.

OPENAI_API_KEY=… python examples/openai_loop.py "Which region has the highest sum? Refund its late orders."
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import shop
from openai import OpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState

import byref

MODEL = "gpt-5-mini"
CALL: Any = {"id": True, "type": True, "function": {"name": True, "arguments": True}}
"""What the API takes back of a call; the SDK's object has more."""


def chat(client: OpenAI, session: byref.Session, messages: list[Any]) -> None:
    """Let the model work until it has answered; its messages and the results are appended to `messages`."""
    request: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    request["tools"] = shop.definitions("openai") + session.tools("openai")
    while True:
        state = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(model=MODEL, messages=messages, **request):
            state.handle_chunk(chunk)
            for choice in chunk.choices:
                print(choice.delta.content or "", end="", flush=True)
        completion = state.get_final_completion()
        session.record_usage(completion, request_id=completion.id)
        message = completion.choices[0].message
        calls = [call.model_dump(include=CALL) for call in message.tool_calls or ()]
        said = {"role": "assistant", "content": message.content or message.refusal or (None if calls else "")}
        messages.append({**said, "tool_calls": calls} if calls else said)
        if not calls:
            return print()
        with ThreadPoolExecutor() as pool:
            replies = pool.map(lambda call: shop.answer(session, **call["function"], call_id=call["id"]), calls)
            messages.extend(reply.message("openai", call["id"]) for call, reply in zip(calls, replies, strict=True))


if __name__ == "__main__":
    with byref.Engine("sqlite:///byref.db") as engine:
        conversation = engine.session("openai-example", model=MODEL)
        chat(OpenAI(), conversation, [{"role": "user", "content": sys.argv[1]}])
        print(f"{conversation.context_tokens():,} tokens of context")
