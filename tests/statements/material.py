"""Outputs of exact sizes, and what tests ask of a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from byref import Session

Opener = Callable[..., Session]
"""Opens a conversation under one preset: `window`, `tools` and `model` are the session's, other keywords are knobs."""


def records(count: int) -> list[dict[str, Any]]:
    """Flat records with `id` 1 to `count`."""
    return [
        {"id": i, "name": f"user {i}", "email": f"user{i}@example.com", "score": i % 97} for i in range(1, count + 1)
    ]


def lines(characters: int) -> str:
    """Text of exactly so many ASCII characters, in lines of 80 that differ."""
    rows = [
        f"{i:07} the quick brown fox jumps over the lazy dog and runs far away"[:79] for i in range(characters // 60)
    ]
    return "\n".join([*rows, ""])[:characters].ljust(characters, ".")


def json_of(characters: int) -> str:
    """A JSON array of strings in exactly so many ASCII characters."""
    text = json.dumps(["x" * 46] * ((characters - 2) // 49), separators=(",", ":"))
    return text[:-2] + "x" * (characters - len(text)) + text[-2:]


def image(size: int) -> bytes:
    """Bytes that begin as a PNG does, exactly so many."""
    return b"\x89PNG\r\n\x1a\n".ljust(size, b"\x07")


def document(size: int) -> bytes:
    """Bytes that begin as a PDF does, exactly so many."""
    return b"%PDF-1.7\n".ljust(size, b"\x00")


def image_block(size: int) -> dict[str, Any]:
    """An image as Strands writes it."""
    return {"image": {"format": "png", "source": {"bytes": image(size)}}}


def document_block(size: int, name: str = "report") -> dict[str, Any]:
    """A document as Strands writes it."""
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": document(size)}}}


def fill(session: Session, tokens: int) -> None:
    """Make the context that large, as a provider would report it."""
    session.record_usage({"input_tokens": tokens, "output_tokens": 0})


def answer(session: Session, tool: str, **arguments: Any) -> str:
    """What one of the session's own tools answers, which is no error."""
    reply = session.call(tool, arguments)
    assert not reply.is_error, reply.content
    return reply.content


def complaint(session: Session, tool: str, **arguments: Any) -> str:
    """What one of the session's own tools says of a mistake."""
    reply = session.call(tool, arguments)
    assert reply.is_error, reply.content
    return reply.content


def parameters(session: Session, tool: str) -> dict[str, Any]:
    """The parameters of one of the session's tools, as a provider is told."""
    [schema] = [each["input_schema"] for each in session.tools("anthropic") if each["name"] == tool]
    return dict(schema["properties"])


def read_at_both_ends(session: Session) -> None:
    """See that of a tool's error the model reads both ends, and that all of it is kept."""
    text = "first words\n" + lines(300_000) + "\nlast words"
    result = session.process(text, tool="t", is_error=True)
    [artifact] = session.artifacts()
    assert result.is_error and artifact.value == text
    assert result.content.startswith("first words") and "last words" in result.content and artifact.id in result.content
    assert result.tokens <= 2_600
