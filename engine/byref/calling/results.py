"""What a function returns, on its way into code: bytes with a type; a large result is an artifact of the session, too."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

import msgspec

from byref.artifacts import staging, store
from byref.artifacts.staging import Staged
from byref.artifacts.store import Description
from byref.content import Block, to_block
from byref.conversation import room
from byref.conversation.scope import Scope
from byref.describe.shape import kind_of
from byref.describe.truncate import head_of
from byref.jsonscan import LazyJSON
from byref.stores.frames import Ahead
from byref_sandbox import EXACT
from byref_sandbox.values import data, plain
from byref_sandbox.values.fields import as_written, opened

_KEPT: Final = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
"""What a run gives back with its type."""
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
    with ExitStack() as leaving:
        # Encoded once, a record on each line, as outputs are stored: so lines, grep and jq work on it.
        block = to_block(value) if type(value) in (list, dict) else None
        content_type, payload = data.JSON, b""
        if isinstance(block, Block) and block.kind == "json":
            payload = block.data
        ahead = _begun(scope, payload, leaving)
        if not payload or not plain.is_json(value, payload):
            content_type, payload = _encoded(value)
            ahead = _begun(scope, payload, leaving)
        if len(payload) <= UNKEPT_BYTES or scope.policy.keep_tokens is None:
            return Made(content_type, payload, scope.count(_text(content_type, payload)))
        about = _described(scope, value, content_type, payload)
        if about.tokens < scope.policy.keep_tokens:
            return Made(content_type, payload, about.tokens)
        return Made(content_type, payload, about.tokens, room.stage(scope, payload, content_type, ahead=ahead), about)


def _begun(scope: Scope, payload: bytes, leaving: ExitStack) -> Ahead | None:
    """Start to compress a large result on other threads: its exactness and its description take as long."""
    if len(payload) <= staging.BUFFERED_BYTES or scope.policy.keep_tokens is None:
        return None
    ahead = staging.begun(scope.place, payload)
    if ahead is not None:
        leaving.callback(ahead.close)
    return ahead


def _described(scope: Scope, value: object, content_type: str, payload: bytes) -> Description:
    if content_type == data.JSON:
        written = LazyJSON(payload)
        preview, tokens = head_of(written.text, store.PREVIEW_CHARS), written.tokens(scope.count)
        shape = kind_of(value) if type(value) in (list, dict) else written.shape
        return Description("json", content_type, len(payload), preview, tokens, shape)
    if content_type == data.TEXT:
        text = payload.decode("utf-8", "surrogatepass")
        return Description(
            "text", content_type, len(payload), head_of(text, store.PREVIEW_CHARS), scope.count(text), "text"
        )
    words = _shape_of(value) if content_type == EXACT else "bytes"
    return Description("document", content_type, len(payload), words, max(1, len(payload) // 4), words)


def _encoded(value: object) -> tuple[str, bytes]:
    """Return a value as it is, else as what it says that it is, else with its dataclasses and enumerations as plain data."""
    if isinstance(value, bytes | bytearray | memoryview):
        return data.BYTES, bytes(value)
    try:
        return data.encode_exactly(value)
    except TypeError as error:
        for form in (_said, _built, opened):
            with suppress(TypeError, RecursionError):
                return data.encode_exactly(form(value))
        raise error from None


def _built(value: object) -> object:
    return msgspec.to_builtins(as_written(_said(value)), builtin_types=_KEPT, enc_hook=_within)


def _within(value: object) -> object:
    said = value if hasattr(type(value), "__array__") else _said(value)  # tables have more to them than `to_dict` says
    if said is value:
        raise TypeError(type(value).__name__)
    return said


def _said(value: object) -> object:
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
