"""What a function returns, on its way into code: bytes with a type; a large result is an artifact of the session, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from byref.artifacts import store
from byref.artifacts.staging import Staged
from byref.artifacts.store import Description
from byref.content import Block, to_block
from byref.conversation import room
from byref.conversation.scope import Scope
from byref.describe.truncate import head_of
from byref.jsonscan import LazyJSON
from byref_sandbox import EXACT
from byref_sandbox.values import data, plain

UNKEPT_BYTES = 2_000
"""Results of up to so many bytes are no artifacts."""


@dataclass(frozen=True, slots=True)
class Made:
    """A result as the code gets it."""

    content_type: str
    payload: bytes
    tokens: int
    staged: Staged | None = None
    """Its bytes, staged, if it becomes an artifact."""
    about: Description | None = None


def made(scope: Scope, function: str, value: object) -> Made:
    """Encode a result, and stage it if it is large.

    Raises:
        TypeError: it is no data.
        QuotaExceeded: there is no room for it.
    """
    content_type, payload = _encoded(value)
    if len(payload) <= UNKEPT_BYTES or scope.policy.keep_tokens is None:
        return Made(content_type, payload, scope.count(_text(content_type, payload)))
    if content_type == data.JSON:
        written = LazyJSON(payload)
        preview, tokens = head_of(written.text, store.PREVIEW_CHARS), written.tokens(scope.count)
        about = Description("json", content_type, len(payload), preview, tokens, written.shape)
    elif content_type == data.TEXT:
        text = payload.decode("utf-8", "surrogatepass")
        about = Description(
            "text", content_type, len(payload), head_of(text, store.PREVIEW_CHARS), scope.count(text), "text"
        )
    else:
        words = _shape_of(value) if content_type == EXACT else "bytes"
        about = Description("document", content_type, len(payload), words, max(1, len(payload) // 4), words)
    if about.tokens < scope.policy.keep_tokens:
        return Made(content_type, payload, about.tokens)
    return Made(content_type, payload, about.tokens, room.stage(scope, payload, content_type), about)


def _encoded(value: object) -> tuple[str, bytes]:
    if isinstance(value, bytes | bytearray | memoryview):
        return data.BYTES, bytes(value)
    if type(value) in (list, dict):
        # Encoded once, a record on each line, as outputs are stored: so lines, grep and jq work on it.
        block = to_block(value)
        if isinstance(block, Block) and block.kind == "json" and plain.is_json(value, block.data):
            return data.JSON, block.data
    try:
        return data.encode_exactly(value)
    except TypeError:
        told = _plain(value)
        if told is value:
            raise
        return data.encode_exactly(told)


def _plain(value: object) -> object:
    """Return what an object says that it is as data: pydantic's models, say."""
    for name in ("model_dump", "to_dict", "_asdict", "dict"):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type | Mapping):
            return method(mode="json") if name == "model_dump" else method()
    return value


def _shape_of(value: object) -> str:
    from byref_sandbox.values.values import shape_of

    return shape_of(value)


def _text(content_type: str, payload: bytes) -> str:
    if content_type in (data.JSON, data.TEXT):
        return payload.decode("utf-8", "replace")
    return "" if not payload else "x" * min(len(payload), 4_000)
