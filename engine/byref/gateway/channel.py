"""A way to a server, whatever carries it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

MAX_MESSAGE_BYTES = 256 << 20
"""Of one message; a server that writes more is stopped."""


class Broken(Exception):
    """The connection is of no more use; the text says why."""


class Unavailable(Exception):
    """The server did not answer; the text says to the model what happened and what comes next."""


@dataclass(frozen=True, slots=True)
class Channel:
    """What is received and what is sent."""

    received: Any
    """A stream that the SDK's dispatcher reads, of its session messages and of exceptions."""
    sent: Any
    """A stream that it writes to."""
    ending: Callable[[], Awaitable[str]]
    """Why nothing more is received."""


def decoded(data: str | bytes) -> JSONRPCMessage | None:
    """Return a message; None if it is none.

    What is JSON to Python alone (half of a surrogate pair, bytes that are no UTF-8) is read with U+FFFD in its place; an
    answer that is no object becomes an error, so that who waits for it is told.
    """
    try:
        return jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        pass
    try:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        value = _sendable(json.loads(text))
    except (ValueError, RecursionError):
        return None
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        id = value.get("id") if isinstance(value, dict) and not value.keys().isdisjoint(("result", "error")) else None
        if type(id) not in (int, str):
            return None
        error = ErrorData(code=INTERNAL_ERROR, message="the server's answer is no message of this protocol")
        return JSONRPCError(jsonrpc="2.0", id=id, error=error)


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_sendable(key): _sendable(member) for key, member in value.items()}
    return [_sendable(item) for item in value] if isinstance(value, list) else value


def encoded(message: Any) -> bytes:
    """Return a message as JSON; half of a surrogate pair, which stored data may have, as its escape."""
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode()
    except ValueError:
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()
