"""A provider's HTTP API on this machine, without a model: it plays a script to the provider's real SDK, and refuses what the real
one refuses.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Final, Protocol, Self

Call = Mapping[str, Any]
"""A tool call of the model, with the keys `name` and `input`."""
Said = str | Call | Sequence[Call]
"""What a model says, one call, or several at once."""
Turn = Said | Callable[[list[str]], Said]
"""The next thing that the model says or calls; or a function that returns it, of the tool results that came with the request."""

OUTPUT_TOKENS: Final = 20
"""Tokens that each reply is said to have."""


class ScriptedProvider:
    """Stands in for the HTTP APIs of Anthropic (Messages), OpenAI (Chat Completions and Responses) and Google (Gemini).

        with ScriptedProvider({"name": "list_orders", "input": {}}, lambda results: f"It is {results[0]}.") as provider:
            client = anthropic.Anthropic(base_url=provider.url, api_key="none")

    OpenAI's SDK takes the same `base_url`, Google's takes it in `http_options`. Replies are streamed to who asks for that. Each
    request plays the next turn; usage is invented.

    Raises:
        AssertionError: at the end of the block, if a request was refused, as one that does not answer each call of the message
            before it, or if there are turns left.
    """

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        """Those that are still to come."""
        self.requests: list[dict[str, Any]] = []
        """Bodies of the requests that came."""
        self.refused: list[str] = []
        """Why requests were refused."""
        self.url = ""
        self._numbers = count(1)

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        # What the block itself raised is mostly what a refusal led to: it is told beside it.
        if self.refused and error is not None:
            error.add_note(f"the provider has refused: {self.refused}")
        if error is None:
            assert not self.refused, self.refused
            assert not self.turns, f"{len(self.turns)} turns of the script were not asked for"

    def _reply(self, path: str, request: dict[str, Any]) -> tuple[str, str]:
        """Return the type and the text of the reply."""
        found = next(((api, match) for pattern, api in _APIS if (match := re.search(pattern, path))), None)
        assert found is not None, f"no API has the path {path}"
        api, match = found
        results = api.results(request)
        assert self.turns, "the script has no more turns"
        turn = self.turns.pop(0)
        said = turn(results) if callable(turn) else turn
        calls = [] if isinstance(said, str) else [said] if isinstance(said, Mapping) else list(said)
        message = _Message(
            f"{next(self._numbers)}",
            str(request.get("model") or match["model"]),
            said if isinstance(said, str) else "",
            [_Called(f"{next(self._numbers)}", call["name"], call["input"]) for call in calls],
            len(json.dumps(request)) // 4,
        )
        if request.get("stream") or "stream" in path:
            return "text/event-stream", "".join(api.events(message))
        return "application/json", json.dumps(api.whole(message))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: ScriptedProvider

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.provider.requests.append(request)
        try:
            kind, text = self.provider._reply(self.path, request)
        except Exception as error:  # noqa: BLE001  a turn's function may fail: the block's end tells of it
            self.provider.refused.append(repr(error))
            self._send(400, "application/json", json.dumps({"error": {"message": repr(error)}}))
        else:
            self._send(200, kind, text)

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@dataclass
class _Called:
    number: str
    name: str
    input: Any

    @property
    def arguments(self) -> str:
        return json.dumps(self.input)


@dataclass
class _Message:
    number: str
    model: str
    text: str
    calls: list[_Called]
    input_tokens: int


class _Api(Protocol):
    def results(self, request: dict[str, Any]) -> list[str]:
        """Return the texts of the tool results that came last; AssertionError for what the provider refuses."""

    def whole(self, message: _Message) -> dict[str, Any]:
        """Return the reply."""

    def events(self, message: _Message) -> Iterator[str]:
        """Yield the events of the reply where it is streamed."""


def _event(data: dict[str, Any]) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


def _data(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


class _Messages:
    """Anthropic's Messages: each call is answered in the user's message right after it."""

    def results(self, request: dict[str, Any]) -> list[str]:
        messages: list[dict[str, Any]] = request["messages"]
        results: list[str] = []
        for before, message in zip(messages, [*messages[1:], {}], strict=True):
            assert before["content"], "a message without content"
            if before["role"] == "assistant" and isinstance(before["content"], list):
                called = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
                answers = [b for b in message.get("content", ()) if isinstance(b, dict) and b["type"] == "tool_result"]
                answered = [block["tool_use_id"] for block in answers]
                assert answered == called, f"the calls {called} are followed by answers to {answered}"
                results = [_text(block.get("content", "")) for block in answers]
                said = zip(answers, results, strict=True)
                assert all(text for block, text in said if block.get("is_error")), "an error without content"
        for tool in request.get("tools", ()):
            assert {"name", "input_schema"} <= tool.keys(), f"not a tool: {tool}"
        return results

    def whole(self, message: _Message) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
        blocks += [
            {"type": "tool_use", "id": f"toolu_{call.number}", "name": call.name, "input": call.input}
            for call in message.calls
        ]
        return {
            "id": f"msg_{message.number}",
            "type": "message",
            "role": "assistant",
            "model": message.model,
            "content": blocks,
            "stop_reason": "tool_use" if message.calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": message.input_tokens,
                "output_tokens": OUTPUT_TOKENS,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 0,
            },
        }

    def events(self, message: _Message) -> Iterator[str]:
        whole = self.whole(message)
        usage = whole["usage"] | {"output_tokens": 1}
        begun = whole | {"content": [], "stop_reason": None, "usage": usage}
        yield _event({"type": "message_start", "message": begun})
        for index, block in enumerate(whole["content"]):
            empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
            yield _event({"type": "content_block_start", "index": index, "content_block": block | empty})
            for part in _halves(block["text"] if block["type"] == "text" else json.dumps(block["input"])):
                delta = {"type": "text_delta", "text": part}
                if block["type"] == "tool_use":
                    delta = {"type": "input_json_delta", "partial_json": part}
                yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": stop, "usage": {"output_tokens": OUTPUT_TOKENS}})
        yield _event({"type": "message_stop"})


class _ChatCompletions:
    """OpenAI's Chat Completions: each call is answered by a message of the role tool."""

    def results(self, request: dict[str, Any]) -> list[str]:
        unanswered: list[str] = []
        results: list[str] = []
        for message in request["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] in unanswered, f"no call {message['tool_call_id']} is to be answered"
                unanswered.remove(message["tool_call_id"])
                results.append(_text(message["content"]))
                continue
            assert not unanswered, f"the calls {unanswered} are not answered"
            if message["role"] == "assistant":
                assert message.get("tool_calls") or message.get("content") is not None, "a message without content"
                unanswered, results = [call["id"] for call in message.get("tool_calls") or ()], []
        assert not unanswered, f"the calls {unanswered} are not answered"
        for tool in request.get("tools", ()):
            assert tool["type"] == "function" and "parameters" in tool["function"], f"not a tool: {tool}"
        return results

    def whole(self, message: _Message) -> dict[str, Any]:
        calls = [
            {
                "id": f"call_{call.number}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
        said: dict[str, Any] = {"role": "assistant", "content": None if calls else message.text}
        choice = {"index": 0, "message": said | ({"tool_calls": calls} if calls else {}), "logprobs": None}
        return {
            "id": f"chatcmpl-{message.number}",
            "object": "chat.completion",
            "created": 1,
            "model": message.model,
            "choices": [choice | {"finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {
                "prompt_tokens": message.input_tokens,
                "completion_tokens": OUTPUT_TOKENS,
                "total_tokens": message.input_tokens + OUTPUT_TOKENS,
            },
        }

    def events(self, message: _Message) -> Iterator[str]:
        whole = self.whole(message)
        head = whole | {"object": "chat.completion.chunk", "usage": None}

        def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
            return _data(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        yield chunk({"role": "assistant", "content": None if message.calls else ""})
        if not message.calls:
            yield from (chunk({"content": part}) for part in _halves(message.text))
        for index, call in enumerate(message.calls):
            begun = {"index": index, "id": f"call_{call.number}", "type": "function"}
            yield chunk({"tool_calls": [begun | {"function": {"name": call.name, "arguments": ""}}]})
            for part in _halves(call.arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        yield chunk({}, whole["choices"][0]["finish_reason"])
        yield _data(head | {"choices": [], "usage": whole["usage"]})
        yield "data: [DONE]\n\n"


class _Responses:
    """OpenAI's Responses: each call is answered by an item of its own."""

    def results(self, request: dict[str, Any]) -> list[str]:
        items = request["input"] if isinstance(request["input"], list) else []
        assert not any(key.startswith("parsed") for item in items for key in item), "a member that only the SDK has"
        calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
        answers = [item for item in items if item.get("type") == "function_call_output"]
        answered = [item["call_id"] for item in answers]
        assert answered == calls, f"the calls {calls} are followed by answers to {answered}"
        for tool in request.get("tools", ()):
            assert tool["type"] == "function" and "parameters" in tool, f"not a tool: {tool}"
        last = max((n for n, item in enumerate(items) if item.get("type") == "function_call"), default=0)
        return [_text(item["output"]) for item in items[last + 1 :] if item in answers]

    def whole(self, message: _Message) -> dict[str, Any]:
        output: list[dict[str, Any]] = [
            {
                "id": f"fc_{call.number}",
                "type": "function_call",
                "call_id": f"call_{call.number}",
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
            for call in message.calls
        ]
        if message.text:
            part = {"type": "output_text", "text": message.text, "annotations": []}
            said = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
            output.append({"id": f"msg_{message.number}", **said})
        return {
            **self._head(message),
            "status": "completed",
            "output": output,
            "usage": {
                "input_tokens": message.input_tokens,
                "output_tokens": OUTPUT_TOKENS,
                "total_tokens": message.input_tokens + OUTPUT_TOKENS,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }

    def _head(self, message: _Message) -> dict[str, Any]:
        head = {"id": f"resp_{message.number}", "object": "response", "created_at": 1, "model": message.model}
        return {**head, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}

    def events(self, message: _Message) -> Iterator[str]:
        whole, numbers = self.whole(message), count()

        def event(kind: str, **data: Any) -> str:
            return _event({"type": f"response.{kind}", "sequence_number": next(numbers), **data})

        yield event("created", response={**self._head(message), "status": "in_progress", "output": []})
        for index, item in enumerate(whole["output"]):
            place: dict[str, Any] = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                yield event(
                    "output_item.added", output_index=index, item=item | {"status": "in_progress", "content": []}
                )
                place["content_index"] = 0
                yield event("content_part.added", **place, part=item["content"][0] | {"text": ""})
                for half in _halves(message.text):
                    yield event("output_text.delta", **place, delta=half, logprobs=[])
                yield event("output_text.done", **place, text=message.text, logprobs=[])
            else:
                begun = item | {"status": "in_progress", "arguments": ""}
                yield event("output_item.added", output_index=index, item=begun)
                for half in _halves(item["arguments"]):
                    yield event("function_call_arguments.delta", **place, delta=half)
                done = {"arguments": item["arguments"], "name": item["name"]}
                yield event("function_call_arguments.done", **place, **done)
            yield event("output_item.done", output_index=index, item=item)
        yield event("completed", response=whole)


class _Gemini:
    """Google's Gemini: the calls of a message are answered, in their order, in the message after it."""

    def results(self, request: dict[str, Any]) -> list[str]:
        contents: list[dict[str, Any]] = request["contents"]
        results: list[str] = []
        for before, content in zip(contents, [*contents[1:], {}], strict=True):
            called = [part["functionCall"]["name"] for part in before["parts"] if "functionCall" in part]
            if before.get("role") == "model":
                answers = [part["functionResponse"] for part in content.get("parts", ()) if "functionResponse" in part]
                answered = [answer["name"] for answer in answers]
                assert answered == called, f"the calls of {called} are followed by answers of {answered}"
                results = [_of_gemini(answer["response"]) for answer in answers]
        for tool in request.get("tools", ()):
            assert all("name" in one for one in tool["functionDeclarations"]), f"not a tool: {tool}"
        return results

    def whole(self, message: _Message) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": message.text}] if message.text else []
        parts += [
            {"functionCall": {"id": f"call_{call.number}", "name": call.name, "args": call.input}}
            for call in message.calls
        ]
        return self._chunk(message, parts, "STOP")

    def _chunk(self, message: _Message, parts: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        return {
            "responseId": message.number,
            "modelVersion": message.model,
            "candidates": [candidate | ({} if reason is None else {"finishReason": reason})],
            "usageMetadata": {
                "promptTokenCount": message.input_tokens,
                "candidatesTokenCount": OUTPUT_TOKENS,
                "totalTokenCount": message.input_tokens + OUTPUT_TOKENS,
            },
        }

    def events(self, message: _Message) -> Iterator[str]:
        if message.text:
            first, second = _halves(message.text)
            yield _data(self._chunk(message, [{"text": first}], None))
            yield _data(self._chunk(message, [{"text": second}], "STOP"))
        else:
            yield _data(self.whole(message))


def _of_gemini(response: dict[str, Any]) -> str:
    """Return a function's response as text; by the SDK's convention it is under `output`, `result` or `error`."""
    values = list(response.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else json.dumps(response)


_APIS: Final[Sequence[tuple[str, _Api]]] = (
    (r"/messages(?:$|\?)(?P<model>)", _Messages()),
    (r"/chat/completions$(?P<model>)", _ChatCompletions()),
    (r"/responses$(?P<model>)", _Responses()),
    (r"/models/(?P<model>[^:/]+):(?:stream)?[gG]enerateContent", _Gemini()),
)
