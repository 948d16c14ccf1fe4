"""Outputs that come piece by piece: open files and iterators of text or bytes, judged once, at their end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Any

from byref.errors import ConfigurationError

CHUNK = 1 << 20
"""Characters or bytes read from a file, or handed on, at once."""
COLLECTED = 8 << 20
"""Characters or bytes up to which a stream is collected in memory and treated as if it had come whole."""
_END = object()


@dataclass(frozen=True, slots=True)
class Stream:
    """More text or bytes than are collected: all of it from the beginning, text as UTF-8, in pieces of about `CHUNK`."""

    pieces: Iterator[bytes]
    is_text: bool


def read(output: Any, *, most: int, collected: int) -> object:
    """Return a stream as the text or bytes that it gives, or as a Stream if that is more than `collected`.

    Any other output comes back as it is. Streams are open files and iterators whose first piece is text or bytes. One
    that gives more than `most` bytes is cut there and says so. What the stream raises passes on: the tool failed.

    Raises:
        ConfigurationError: pieces of text and of bytes are mixed.
    """
    kind = type(output)  # what an object says of its class is code of its own
    if kind in (str, bytes, list, dict):
        return output
    if issubclass(kind, io.IOBase):
        return _collected(iter(lambda: output.read(CHUNK), type(output.read(0))()), most, collected)
    if not issubclass(kind, Iterator):
        return output
    try:
        first = next(output)
    except StopIteration:
        return []
    except Exception as error:  # noqa: BLE001  of records: what cannot be read is told in its place
        return _records(error, output)
    if not _is_piece(first):
        return _records(first, output)
    return _collected(chain([first], output), most, collected)


async def awaited(output: Any) -> object:
    """Return an asynchronous iterator of text or bytes as an iterator for another thread, one of records as their list.

    Any other output comes back as it is.
    """
    if not issubclass(type(output), AsyncIterator):
        return output
    first = await anext(output, _END)
    if first is _END:
        return ""
    if _is_piece(first):
        return Pulled(first, output)
    return [first, *[piece async for piece in output]]


class Pulled(Iterator[Any]):
    """An asynchronous iterator as another thread goes through it: each piece is asked of the event loop."""

    def __init__(self, first: object, rest: AsyncIterator[Any]) -> None:
        self._first: list[object] = [first]
        self._rest = rest
        self._loop = asyncio.get_running_loop()
        self._asked: Future[object] | None = None
        self._is_left = False

    def __next__(self) -> Any:
        """On the other thread: wait for the next piece."""
        if self._first:
            return self._first.pop()
        if self._is_left:
            raise asyncio.CancelledError
        self._asked = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
        piece = self._asked.result()
        if piece is _END:
            raise StopIteration
        return piece

    async def _next(self) -> object:
        return await anext(self._rest, _END)

    def leave(self) -> None:
        """On the loop: let no other piece be asked for, and the one that is not be waited for."""
        self._is_left = True
        if self._asked is not None:
            self._asked.cancel()


def _is_piece(value: object) -> bool:
    return issubclass(type(value), str | bytes | bytearray | memoryview)


def _plain(piece: Any) -> str | bytes:
    if issubclass(type(piece), str):
        return str.__str__(piece)
    return piece if type(piece) is bytes else bytes(memoryview(piece))


def _records(first: object, rest: Iterator[Any]) -> Iterator[Any]:
    """An iterator as it was before its first item was looked at."""

    def generator() -> Iterator[Any]:
        if isinstance(first, Exception):
            raise first
        yield first
        yield from rest

    return generator()


def _collected(pieces: Iterator[Any], most: int, collected: int) -> str | bytes | Stream:
    """Join the pieces while they are few; those that go on are handed on as they come."""
    taken: list[Any] = []
    size = 0
    checked = _checked(pieces, most)
    for piece in checked:
        taken.append(piece)
        size += len(piece)
        if size > collected:
            return Stream(_chunks(chain(taken, checked)), is_text=isinstance(piece, str))
    return b"".join(taken) if taken and isinstance(taken[0], bytes) else "".join(taken)


def _checked(pieces: Iterator[Any], most: int) -> Iterator[Any]:
    """Pieces of one kind, text or bytes; after `most` of it a note, and no more."""
    is_text, size = None, 0
    for given in pieces:
        if not _is_piece(given) or is_text not in (None, issubclass(type(given), str)):
            raise ConfigurationError(
                f"the stream gave a piece of type {type(given).__name__!r}: expected pieces of text, or of bytes"
            )
        piece = _plain(given)
        is_text = isinstance(piece, str)
        yield piece[: most - size]
        size += len(piece)
        if size > most:
            note = f"\n[The stream was cut after {most:,} bytes; what followed was not read.]"
            yield note if is_text else note.encode()
            break


def _chunks(pieces: Iterable[Any]) -> Iterator[bytes]:
    """Pieces as bytes, small ones together and large ones in parts."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        for at in range(0, len(piece), CHUNK):
            part = piece[at : at + CHUNK]
            part = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            waiting.append(part)
            size += len(part)
            if size >= CHUNK:
                yield b"".join(waiting)
                waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
