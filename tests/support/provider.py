"""A provider's HTTP API on this machine: says what it was told to, in the events that the real one sends, and refuses
what that refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

Calls = list[tuple[str, dict[str, Any]]]
Turn = str | Calls | Callable[[list[str]], str | Calls]
"""What the model says or calls; or a function of the tool results it was just given."""


@dataclass
class Provider:
    """What is still to be said, and every request that came."""

    turns: list[Turn]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def next_turn(self, results: list[str]) -> str | Calls:
        turn = self.turns.pop(0)
        return turn(results) if callable(turn) else turn

    def usage(self, request: dict[str, Any]) -> tuple[int, int]:
        return len(json.dumps(request)) // 4, 20


@contextmanager
def provider(*turns: Turn) -> Iterator[Provider]:
    """Serve the three APIs until the block ends; every turn must have been taken, and no request refused."""
    told = Provider(list(turns))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told.requests.append(request)
            try:
                assert request.get("stream") is True, "these examples stream"
                events = list(APIS[self.path.removeprefix("/v1")](told, request))
            except Exception as error:
                told.refused.append(repr(error))
                body, kind, status = json.dumps({"error": {"message": repr(error)}}).encode(), "application/json", 400
            else:
                body = "".join(events).encode()
                kind, status = "text/event-stream", 200
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert not told.refused, told.refused
    assert not told.turns, "the conversation ended too early"


def _event(data: dict[str, Any]) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _messages(told: Provider, request: dict[str, Any]) -> Iterator[str]:
    """Anthropic's Messages: each call is answered in the user's message right after it."""
    messages, results = request["messages"], []
    for before, message in zip(messages, [*messages[1:], {}], strict=True):
        if before["role"] == "assistant":
            called = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
            answers = [b for b in message.get("content", []) if isinstance(b, dict) and b["type"] == "tool_result"]
            assert [block["tool_use_id"] for block in answers] == called
            results = [_text(block["content"]) for block in answers]
    assert all({"name", "description", "input_schema"} <= tool.keys() for tool in request["tools"])
    turn, (read, written) = told.next_turn(results), told.usage(request)
    usage = {"input_tokens": read, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    head = {"id": f"msg_{next(told.ids)}", "type": "message", "role": "assistant", "model": request["model"]}
    yield _event({"type": "message_start", "message": {**head, "content": [], "usage": usage}})
    blocks = [{"type": "text", "text": turn}] if isinstance(turn, str) else []
    for name, arguments in turn if not isinstance(turn, str) else ():
        blocks.append({"type": "tool_use", "id": f"toolu_{next(told.ids)}", "name": name, "input": arguments})
    for index, block in enumerate(blocks):
        empty = block | ({"text": ""} if block["type"] == "text" else {"input": {}})
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        whole = block["text"] if block["type"] == "text" else json.dumps(block["input"])
        for part in _halves(whole):
            kind = {"type": "text_delta", "text": part}
            if block["type"] == "tool_use":
                kind = {"type": "input_json_delta", "partial_json": part}
            yield _event({"type": "content_block_delta", "index": index, "delta": kind})
        yield _event({"type": "content_block_stop", "index": index})
    reason = "end_turn" if isinstance(turn, str) else "tool_use"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": written}})
    yield _event({"type": "message_stop"})


def _chat_completions(told: Provider, request: dict[str, Any]) -> Iterator[str]:
    """OpenAI's Chat Completions: each call is answered by a message of the role tool."""
    open_calls: list[str] = []
    results: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            results.append(_text(message["content"]))
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls, f"{open_calls} are not answered"
        if message["role"] == "assistant":
            open_calls, results = [call["id"] for call in message.get("tool_calls", [])], []
    assert all(tool["type"] == "function" and "parameters" in tool["function"] for tool in request["tools"])
    assert request["stream_options"] == {"include_usage": True}
    turn, (read, written) = told.next_turn(results), told.usage(request)
    head = {
        "id": f"chatcmpl-{next(told.ids)}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": request["model"],
    }

    def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**head, 'choices': [choice], 'usage': None})}\n\n"

    yield chunk({"role": "assistant", "content": "" if isinstance(turn, str) else None})
    if isinstance(turn, str):
        yield from (chunk({"content": part}) for part in _halves(turn))
    else:
        for index, (name, arguments) in enumerate(turn):
            call = {"index": index, "id": f"call_{next(told.ids)}", "type": "function"}
            yield chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
            for part in _halves(json.dumps(arguments)):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, "stop" if isinstance(turn, str) else "tool_calls")
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _responses(told: Provider, request: dict[str, Any]) -> Iterator[str]:
    """OpenAI's Responses: each call is answered by an item of its own."""
    calls = [item["call_id"] for item in request["input"] if item.get("type") == "function_call"]
    answers = [item for item in request["input"] if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in answers] == calls
    assert all(tool["type"] == "function" and "parameters" in tool for tool in request["tools"])
    last = max((n for n, item in enumerate(request["input"]) if item.get("type") == "function_call"), default=0)
    results = [_text(item["output"]) for item in request["input"][last + 1 :] if item in answers]
    turn, (read, written) = told.next_turn(results), told.usage(request)
    numbers = count()
    base = {"id": f"resp_{next(told.ids)}", "object": "response", "created_at": 1, "model": request["model"]}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}

    def event(kind: str, **data: Any) -> str:
        return _event({"type": f"response.{kind}", "sequence_number": next(numbers), **data})

    yield event("created", response={**base, "status": "in_progress", "output": []})
    output: list[dict[str, Any]] = []
    if isinstance(turn, str):
        item: dict[str, Any] = {"id": f"msg_{next(told.ids)}", "type": "message", "role": "assistant"}
        yield event("output_item.added", output_index=0, item={**item, "status": "in_progress", "content": []})
        where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield event("content_part.added", **where, part=part)
        for half in _halves(turn):
            yield event("output_text.delta", **where, delta=half, logprobs=[])
        yield event("output_text.done", **where, text=turn, logprobs=[])
        item |= {"status": "completed", "content": [{**part, "text": turn}]}
        yield event("output_item.done", output_index=0, item=item)
        output.append(item)
    for index, (name, arguments) in enumerate(turn if not isinstance(turn, str) else ()):
        text = json.dumps(arguments)
        item = {
            "id": f"fc_{next(told.ids)}",
            "type": "function_call",
            "call_id": f"call_{next(told.ids)}",
            "name": name,
        }
        yield event("output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"})
        for half in _halves(text):
            yield event("function_call_arguments.delta", item_id=item["id"], output_index=index, delta=half)
        yield event("function_call_arguments.done", item_id=item["id"], output_index=index, arguments=text, name=name)
        item |= {"arguments": text, "status": "completed"}
        yield event("output_item.done", output_index=index, item=item)
        output.append(item)
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    yield event("completed", response={**base, "status": "completed", "output": output, "usage": usage | details})


APIS: dict[str, Callable[[Provider, dict[str, Any]], Iterator[str]]] = {
    "/messages": _messages,
    "/chat/completions": _chat_completions,
    "/responses": _responses,
}
