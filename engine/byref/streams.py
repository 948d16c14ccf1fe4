"""Outputs that come piece by piece: open files and iterators of text or bytes, judged once, at their end."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain
from typing import Any

from byref.errors import ConfigurationError

CHUNK = 1 << 20
"""Characters or bytes read from a file at once."""


def whole(output: Any, most: int) -> object:
    """Return a stream as the text or bytes that it gives, any other output as it is.

    Streams are open files and iterators whose first piece is text or bytes. One that gives more than `most` bytes is cut
    there and says so. What the stream raises passes on: the tool failed.

    Raises:
        ConfigurationError: pieces of text and of bytes are mixed.
    """
    kind = type(output)  # what an object says of its class is code of its own
    if kind in (str, bytes, list, dict):
        return output
    if issubclass(kind, io.IOBase):
        return _joined(iter(lambda: output.read(CHUNK), type(output.read(0))()), most)
    if not issubclass(kind, Iterator):
        return output
    try:
        first = next(output)
    except StopIteration:
        return []
    except Exception as error:  # noqa: BLE001  of records: what cannot be read is told in its place
        return _records(error, output)
    if not isinstance(first, str | bytes):
        return _records(first, output)
    return _joined(chain([first], output), most)


async def awaited(output: Any, most: int) -> object:
    """Return an asynchronous iterator as `whole` does an iterator, any other output as it is."""
    if not issubclass(type(output), AsyncIterator):
        return output
    pieces: list[Any] = []
    size = 0
    async for piece in output:
        pieces.append(piece)
        size += len(piece) if isinstance(piece, str | bytes) else 0
        if size > most:
            break
    return whole(iter(pieces), most) if pieces else ""


def _records(first: object, rest: Iterator[Any]) -> Iterator[Any]:
    """An iterator as it was before its first item was looked at."""

    def generator() -> Iterator[Any]:
        if isinstance(first, Exception):
            raise first
        yield first
        yield from rest

    return generator()


def _joined(pieces: Iterable[Any], most: int) -> str | bytes:
    taken: list[Any] = []
    size = 0
    for piece in pieces:
        if type(piece) not in (str, bytes) or (taken and type(piece) is not type(taken[0])):
            raise ConfigurationError(
                f"the stream gave a piece of type {type(piece).__name__!r}: expected pieces of text, or of bytes"
            )
        taken.append(piece)
        size += len(piece)
        if size > most:
            break
    if not taken:
        return ""
    empty = type(taken[0])()
    joined: str | bytes = empty.join(taken)
    if size <= most:
        return joined
    note = f"\n[The stream was cut after {most:,} bytes; what followed was not read.]"
    return joined[:most] + note if isinstance(joined, str) else joined[:most] + note.encode()
