"""A chat with the Anthropic SDK: streamed, with parallel calls and usage; big results go by reference.

ANTHROPIC_API_KEY=… python examples/anthropic_loop.py "Which region has the highest sum? Refund its late orders."
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import shop
from anthropic import Anthropic

import byref

MODEL = "claude-sonnet-5"


def chat(client: Anthropic, session: byref.Session, messages: list[Any]) -> None:
    """Let the model work until it has answered; its messages and the results are appended to `messages`."""
    tools = shop.definitions("anthropic") + session.tools("anthropic")
    while True:
        with client.messages.stream(model=MODEL, max_tokens=4096, messages=messages, tools=tools) as stream:
            for text in stream.text_stream:
                print(text, end="", flush=True)
            response = stream.get_final_message()
        session.record_usage(response, request_id=response.id)
        if response.content:  # a message without any would be refused
            messages.append({"role": "assistant", "content": response.content})
        calls = [block for block in response.content if block.type == "tool_use"]
        if not calls:
            return print()
        answer = shop.answer if response.stop_reason == "tool_use" else shop.refuse  # max_tokens may cut the last one
        with ThreadPoolExecutor() as pool:
            replies = [pool.submit(answer, session, call.name, call.input, call.id) for call in calls]
        said = zip(calls, replies, strict=True)
        results = [reply.result().message("anthropic", call.id)["content"][0] for call, reply in said]
        messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    with byref.Engine("sqlite:///byref.db") as engine:
        conversation = engine.session("anthropic-example", model=MODEL)
        chat(Anthropic(), conversation, [{"role": "user", "content": sys.argv[1]}])
        print(f"{conversation.context_tokens():,} tokens of context")
