"""Streams: open files, and iterators of text, bytes or records. They arrive in pieces and are judged once, at their end."""

from __future__ import annotations

import asyncio
import io
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from inspect import isgenerator
from itertools import accumulate, chain, islice
from typing import Any

from byref.errors import ConfigurationError

CHUNK = 1 << 20
"""Characters or bytes that are read from a file, or passed on, at once."""
COLLECTED = 8 << 20
"""Up to this many characters or bytes, a stream is collected in memory and treated as if it had arrived whole."""
WAITING_SECONDS = 60.0
"""After this time even a few pieces are passed on: a sweep deletes staged bytes to which nothing was added for long."""
RECORDS = 100_000
"""Up to this many records, an iterator is read into a list; the records of a longer one are written as they arrive."""
_END = object()
_RAISED = (Exception, SystemExit, GeneratorExit)
_BLANK = " \t\r\n\ufeff"


class MixedPieces(ConfigurationError):
    """A stream gave something else than the pieces before it are."""

    def __init__(self, given: object) -> None:
        super().__init__(
            f"the stream gave a piece of type {type(given).__name__!r}: expected pieces of text, or of bytes"
        )
        self.given = given


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that is too long to be collected: all its bytes from the beginning, text as UTF-8, in pieces of about `CHUNK`."""

    pieces: Iterator[bytes]
    is_text: bool
    is_written: bool = False
    """Whether the pieces are JSON that byref wrote from records."""


def read(output: Any, *, most: int, collected: int, write: Callable[[list[Any]], bytes]) -> object:
    """Return the text or bytes of a stream, or a Stream if they are more than `collected`.

    Any other output is returned unchanged. Streams are open files, iterators whose first piece is text or bytes, and iterators
    of more than `RECORDS` records, from which `write` makes a JSON array. Text or bytes of an iterator are records, too, if a record
    follows them within `collected`. A stream of more than `most` bytes is cut there, and a note at its end says so. An exception of
    the stream passes on, because it means that the tool failed.

    Raises:
        ConfigurationError: pieces of text and of bytes are mixed, or a record follows more of them than `collected`; a file has
            nothing to read yet, or the stream is asynchronous.
    """
    kind = type(output)  # `__class__` may run the object's own code
    if kind in (str, bytes, list, dict, tuple, int, float, bool, type(None)) or issubclass(kind, type):
        return output
    if hasattr(kind, "__anext__") or (hasattr(kind, "__aiter__") and not hasattr(kind, "__iter__")):
        raise ConfigurationError(
            f"an asynchronous iterator ({kind.__name__!r}) was given: an AsyncSession reads those; "
            "or give what it yields, as a list"
        )
    if (pieces := _of_file(output)) is not None:
        return _collected(pieces, most, collected)
    if not issubclass(kind, Iterator):
        return output
    try:
        first = next(output)
    except StopIteration:
        return []
    except Exception as error:  # noqa: BLE001  raised again by an iterator of records, where a note takes its place
        return _again([], error)
    if _is_piece(first):
        return _collected(chain([first], output), most, collected, output, write)
    return _of_records(first, output, most, collected, write)


async def awaited(output: Any) -> object:
    """Return an asynchronous iterator as an iterator for use on another thread; any other output unchanged."""
    kind = type(output)
    if issubclass(kind, AsyncIterator) or (hasattr(kind, "__aiter__") and not hasattr(kind, "__iter__")):
        return Pulled(aiter(output))
    return output


class Pulled(Iterator[Any]):
    """An asynchronous iterator for use on another thread, which requests each piece from the event loop and waits for it."""

    def __init__(self, source: AsyncIterator[Any]) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._asked: Future[object] | None = None
        self._is_left = False

    def __next__(self) -> Any:
        """Wait for the next piece. Called on the other thread."""
        if self._is_left:
            raise asyncio.CancelledError
        self._asked = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
        piece = self._asked.result()
        if piece is _END:
            raise StopIteration
        return piece

    async def _next(self) -> object:
        return await anext(self._source, _END)

    async def close(self) -> None:
        """Stop the other thread's requests, cancel the one it waits for, and close the source. Called on the event loop."""
        self._is_left = True
        if self._asked is not None and not self._asked.done():
            self._asked.cancel()
        if callable(aclose := getattr(self._source, "aclose", None)):
            with suppress(RuntimeError):  # the source is still running, and its cancellation is under way
                await aclose()


def _of_file(output: Any) -> Iterator[Any] | None:
    """Return the pieces of an open file, or of any object that can be read like one; None for other objects."""
    is_own = issubclass(type(output), io.IOBase)
    try:
        read = getattr(output, "read", None)
        if not callable(read):
            return None
        first = read(CHUNK)
    except (
        _RAISED
    ) as error:  # `read` of the tool's own object is not a file's, unless what it says is that it cannot read
        if is_own or isinstance(error, OSError):
            raise
        return None
    if first is not None and not _is_piece(first):
        return None
    return _read_on(read, first)


def _read_on(read: Callable[[int], Any], piece: Any) -> Iterator[Any]:
    while piece is None or len(piece):
        if piece is None:
            raise ConfigurationError("the file has nothing to read yet: open it in blocking mode")
        yield piece
        piece = read(CHUNK)


def _of_records(
    first: object, rest: Iterator[Any], most: int, collected: int, write: Callable[[list[Any]], bytes]
) -> object:
    """Return an iterator of the same records, or, if there are many, the JSON text of an array of them."""
    items, error = [first], None
    try:
        items += islice(rest, RECORDS - 1)
        following = next(rest, _END) if len(items) == RECORDS else _END
    except Exception as raised:  # noqa: BLE001
        following, error = _END, raised
    if following is _END:
        return _again(items, error)

    def written() -> Iterator[bytes]:
        before, batch = b"[\n", items
        further = chain([following], rest)
        while batch:
            yield before + write(batch)[1:-1].strip(b"\n")
            before, batch = b",\n", list(islice(further, RECORDS // 10))
        yield b"\n]"

    pieces = _checked(written(), most, rest)
    return Stream(_chunks(pieces), is_text=False, is_written=True) if collected < most else b"".join(pieces)


def _again(items: list[Any], error: Exception | None) -> Iterator[Any]:
    """Yield the items that were already read from an iterator, and then raise its exception again."""
    yield from items
    if error is not None:
        raise error


def _is_piece(value: object) -> bool:
    return issubclass(type(value), str | bytes | bytearray | memoryview)


def _plain(piece: Any) -> str | bytes:
    if issubclass(type(piece), str):
        return str.__str__(piece)
    return piece if type(piece) is bytes else bytes(memoryview(piece))


def _collected(
    pieces: Iterator[Any],
    most: int,
    collected: int,
    source: Iterator[Any] | None = None,
    write: Callable[[list[Any]], bytes] | None = None,
) -> object:
    """Join the pieces of a short stream; of a longer one, return a Stream that passes them on as they arrive.

    With `write` the pieces are those of an iterator, which may be records.
    """
    checked = _checked(pieces, most, source)
    first = next(checked, "")
    is_text = isinstance(first, str)
    # A buffer is used rather than a list, because each piece may be a single character.
    buffer: Any = io.StringIO(newline="") if is_text else io.BytesIO()
    lengths, size = array("Q"), 0
    try:
        for piece in chain([first], checked):
            buffer.write(piece)
            lengths.append(len(piece))
            size += len(piece)
            if size > collected:
                return Stream(_chunks(chain([buffer.getvalue()], checked)), is_text=is_text)
    except MixedPieces as found:
        if write is None or _is_piece(found.given):
            raise
        whole = buffer.getvalue()
        items = [whole[end - length : end] for length, end in zip(lengths, accumulate(lengths), strict=True)]
        return _of_records(items[0], chain(items[1:], [found.given], pieces), most, collected, write)
    return buffer.getvalue()


def _checked(pieces: Iterator[Any], most: int, source: object) -> Iterator[Any]:
    """Yield the pieces, all text or all bytes. After `most` bytes, a note follows and the stream ends."""
    is_text, size = None, 0
    for given in pieces:
        if not _is_piece(given) or is_text not in (None, issubclass(type(given), str)):
            raise MixedPieces(given)
        piece = _plain(given)
        is_text = isinstance(piece, str)
        length = _size(piece)
        if size + length > most:
            yield _cut(piece, most - size)
            note = f"\n[The stream was cut after {most:,} bytes; what followed was not read.]"
            yield note if is_text else note.encode()
            if isgenerator(source):
                source.close()
            return
        size += length
        yield piece


def _size(piece: str | bytes) -> int:
    if isinstance(piece, bytes) or piece.isascii():
        return len(piece)
    return len(piece.encode("utf-8", "surrogatepass"))


def _cut(piece: str | bytes, size: int) -> str | bytes:
    """Return the beginning of a piece in at most `size` bytes."""
    if isinstance(piece, bytes):
        return piece[:size]
    return piece[:size].encode("utf-8", "surrogatepass")[:size].decode("utf-8", "ignore")


def _chunks(pieces: Iterable[str | bytes]) -> Iterator[bytes]:
    """Yield the pieces as bytes, small ones joined and large ones split.

    A lone surrogate in JSON is written as its escape, which means the same string; in other text it is kept.
    """
    waiting: list[bytes] = []
    size, lone, handed_on = 0, "", time.monotonic()
    for piece in pieces:
        if not lone and isinstance(piece, str) and (begun := piece.lstrip(_BLANK)):
            lone = "backslashreplace" if begun[0] in "[{" else "surrogatepass"
        for at in range(0, len(piece), CHUNK):
            part = piece[at : at + CHUNK]
            waiting.append(part.encode("utf-8", lone or "strict") if isinstance(part, str) else part)
            size += len(waiting[-1])
            if size >= CHUNK or len(waiting) > CHUNK >> 6 or time.monotonic() - handed_on > WAITING_SECONDS:
                yield b"".join(waiting)
                waiting, size, handed_on = [], 0, time.monotonic()
    if waiting:
        yield b"".join(waiting)
