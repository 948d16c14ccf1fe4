"""A way to a server, whatever carries it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp.shared._stream_protocols import ReadStream, WriteStream

MAX_MESSAGE_BYTES = 256 << 20
"""Of one message; a server that writes more is stopped."""


class Broken(Exception):
    """The connection is of no more use; the text says why."""


@dataclass(frozen=True, slots=True)
class Channel:
    """What is received and what is sent, as the SDK's dispatcher takes it."""

    received: ReadStream[Any]
    sent: WriteStream[Any]
    ending: Callable[[], Awaitable[str]]
    """Why nothing more is received."""


def encoded(message: Any) -> bytes:
    """Return a message as JSON; half of a surrogate pair, which stored data may have, as its escape."""
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode()
    except ValueError:
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()
