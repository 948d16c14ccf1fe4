"""A chat with the OpenAI SDK's Responses: streamed, with parallel calls and usage; big results go by reference.

OPENAI_API_KEY=… python examples/openai_responses_loop.py "Which region has the highest sum? Refund its late orders."
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import shop
from openai import OpenAI

import byref

MODEL = "gpt-5-mini"
KEEPING_NOTHING: Any = {"store": False, "include": ["reasoning.encrypted_content"]}
"""The provider keeps nothing: what the model reasoned comes, encrypted, and goes back with the next request."""


def chat(client: OpenAI, session: byref.Session, items: list[Any]) -> None:
    """Let the model work until it has answered; its messages and the results are appended to `items`."""
    tools: Any = shop.definitions("openai-responses") + session.tools("openai-responses")
    while True:
        with client.responses.stream(model=MODEL, input=items, tools=tools, **KEEPING_NOTHING) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    print(event.delta, end="", flush=True)
            response = stream.get_final_response()
        session.record_usage(response, request_id=response.id)
        items += response.output  # as objects: the SDK leaves out what it has added itself
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return print()
        with ThreadPoolExecutor() as pool:
            replies = pool.map(lambda call: shop.answer(session, call.name, call.arguments, call.call_id), calls)
            items += [
                reply.message("openai-responses", call.call_id) for call, reply in zip(calls, replies, strict=True)
            ]


if __name__ == "__main__":
    with byref.Engine("sqlite:///byref.db") as engine:
        conversation = engine.session("openai-responses-example", model=MODEL)
        chat(OpenAI(), conversation, [{"role": "user", "content": sys.argv[1]}])
        print(f"{conversation.context_tokens():,} tokens of context")
