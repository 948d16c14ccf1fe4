"""Cut payloads into independently compressed frames, so that a part can be read without the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

import xxhash
import zstandard

FRAME_BYTES = 1 << 20
"""Largest uncompressed size of a frame: with 1 MiB SQLite writes fastest, and a random read takes only milliseconds."""
_LEVEL = 1
_WORKERS = 2
_ALONE = 2
"""A payload of up to this many frames is compressed on the caller's thread: handing them to others would take as long."""
_AHEAD = 6
"""Number of frames whose compression begins before the first one is asked for; it bounds memory."""
_AHEAD_WHOLE = 64
"""The same for a payload that is in memory as a whole."""
_PIECE_BYTES = 64 * 1024
"""Uncompressed bytes after which it is looked whether a reader needs more of a frame: a whole one takes 7 times as long."""
_WINDOW_BYTES = 8 << 20
"""Most memory that zstd may take for a frame that is uncompressed in pieces; what hostile stored bytes say does not count."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One piece of a payload with the byte offset and the 1-based line at which it begins."""

    number: int
    byte_offset: int
    first_line: int
    size_bytes: int
    """Size before compression."""
    line_feeds: int
    codec: str
    data: bytes | memoryview | None
    """None if the bytes are part of an object: `object_bytes` bytes from `object_offset` on."""
    object_offset: int | None = None
    object_bytes: int | None = None
    checksum: bytes | None = None
    """Checksum of `data` and its place in a blob; None until the frame is placed."""

    def placed(self, key: str) -> Frame:
        """Return this frame with its checksum as a part of the blob with this key."""
        place = key, self.number, self.byte_offset, self.first_line, self.size_bytes, self.codec
        return replace(self, checksum=checksum(*place, self.data or b""))


class Ahead:
    """An iterator of frames that other threads compress ahead of the caller; `close` ends the threads."""

    def __init__(self, spans: Iterator[_Span], count: int) -> None:
        self._spans = spans
        self._pool = ThreadPoolExecutor(_WORKERS, "byref-frames")
        self._pending = deque(self._pool.submit(_compressed, span) for span in islice(spans, count))
        self._frames = _framed(iter(self._compressed, None))

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        return next(self._frames)

    def _compressed(self) -> _Packed | None:
        if not self._pending:
            return None
        # A span is handed to the threads only when a frame is taken, so that no more than `count` are in memory.
        packed = self._pending.popleft().result()
        self._pending.extend(self._pool.submit(_compressed, following) for following in islice(self._spans, 1))
        return packed

    def close(self) -> None:
        """Wait for the frames that are being compressed, and start no others."""
        self._pending.clear()
        self._pool.shutdown(cancel_futures=True)


def compressing(data: bytes) -> Ahead:
    """Start to compress the frames of a payload in the background."""
    return Ahead(_spans([data]), _AHEAD_WHOLE)


def cut(pieces: Iterable[bytes], *, compresses: bool = True) -> Generator[Frame, None, None]:
    """Yield the frames of a payload that comes in pieces, in order; a frame ends behind its last line feed, if it has one.

    How the payload is divided into pieces does not change the frames. Other threads compress a few frames ahead.
    """
    spans = _spans(pieces)
    if not compresses:
        yield from _framed(map(_plain, spans))
        return
    first = list(islice(spans, _ALONE + 1))
    if len(first) <= _ALONE:
        yield from _framed(map(_compressed, first))
        return
    with closing(Ahead(chain(first, spans), _AHEAD)) as ahead:
        yield from ahead


class _Span(NamedTuple):
    """The part of some bytes that will become a frame."""

    data: bytes
    start: int
    end: int


class _Packed(NamedTuple):
    """A compressed frame before its place in the payload is known."""

    size_bytes: int
    line_feeds: int
    codec: str
    data: bytes | memoryview


def _framed(packed: Iterable[_Packed]) -> Iterator[Frame]:
    number, offset, line = 0, 0, 1
    for size_bytes, line_feeds, codec, data in packed:
        yield Frame(number, offset, line, size_bytes, line_feeds, codec, data)
        number, offset, line = number + 1, offset + size_bytes, line + line_feeds


def _plain(span: _Span) -> _Packed:
    data, start, end = span
    # If there is no line feed, `find` tells so faster than `count`.
    line_feeds = data.count(b"\n", start, end) if data.find(b"\n", start, end) >= 0 else 0
    return _Packed(end - start, line_feeds, "none", memoryview(data)[start:end])


def _spans(pieces: Iterable[bytes]) -> Iterator[_Span]:
    """Yield the spans of the frames."""
    rest = b""
    for piece in pieces:
        data, start = rest + piece if rest else piece, 0
        while len(data) - start > FRAME_BYTES:
            # A frame that ends behind a line feed begins on a line: reading that line needs no other frame.
            feed = data.rfind(b"\n", start, start + FRAME_BYTES)
            end = feed + 1 if feed >= 0 else start + FRAME_BYTES
            yield _Span(data, start, end)
            start = end
        rest = data[start:]
    if rest:
        yield _Span(rest, 0, len(rest))


def _compressed(span: _Span) -> _Packed:
    plain = _plain(span)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(plain.data)
    return plain._replace(codec="zstd", data=packed) if len(packed) < plain.size_bytes else plain


def checksum(
    key: str, number: int, byte_offset: int, first_line: int, size_bytes: int, codec: str, data: bytes | memoryview
) -> bytes:
    """Return XXH3 of a frame's stored bytes, seeded with its place, so that a frame in a wrong place does not match.

    The checksum detects damage, not manipulation by somebody who can write to the store. It takes 0.1 ms for 10 MB that
    compress well.
    """
    place = f"{key} {number} {byte_offset} {first_line} {size_bytes} {codec}"
    return xxhash.xxh3_64_digest(data, seed=xxhash.xxh3_64_intdigest(place.encode()))


def unpack(codec: str, data: bytes, size: int) -> bytes:
    """Return a frame's uncompressed bytes; ValueError if they are damaged or not exactly `size` bytes.

    Never allocates more than `size` bytes for the content, even if the stored bytes are hostile.
    """
    if codec == "zstd":
        try:
            if zstandard.frame_content_size(data) not in (size, -1):  # zstandard allocates the size in the header
                raise ValueError("damaged frame: it says another size")
            data = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        except zstandard.ZstdError as error:
            raise ValueError(f"damaged frame: {error}") from None
    if len(data) != size:
        raise ValueError(f"damaged frame: {len(data)} bytes instead of {size}")
    return data


def unpack_within(data: bytes, most: int) -> bytes:
    """Return what zstd has packed; ValueError if it is damaged or more than `most` bytes, of which no more are allocated."""
    try:
        if zstandard.frame_content_size(data) > most:
            raise ValueError(f"damaged frame: it says that it has more than {most} bytes")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=most)
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged frame: {error}") from None


class Beginning:
    """What earlier readers of a frame have uncompressed of it. Any number of threads may use it."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: tuple[bytes, tuple[int, ...]] = b"", ()
        """The first pieces, and the line feeds up to the end of each one; the feeds may be of fewer pieces. Replaced as a whole."""


@lru_cache(4)
def _beginning(key: str, number: int, checksum: bytes) -> Beginning:
    return Beginning()


def beginning(key: str, number: int, checksum: bytes, size: int) -> Beginning | None:
    """Return what is known of a frame because of the last pages of lines: the next page is in the same frame most of the time.

    It is kept of the last 4 frames with at most `FRAME_BYTES` each; None: nothing is kept, because the frame is one piece, or too
    large. The checksum is that of the bytes that were just read from the store, so that what is damaged there is not found here.
    """
    return _beginning(key, number, checksum) if _PIECE_BYTES < size <= FRAME_BYTES else None


def unpack_from(
    codec: str, data: bytes, size: int, feeds: int, known: Beginning | None = None
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, line feeds before it, bytes) of a frame: a piece that ends behind that many line feeds or more, and the rest.

    Where the frame has fewer, its last piece comes. The rest is uncompressed only if it is asked for, because a page of lines is in the first piece most of the time.
    `known` is of the same frame, and gets what is uncompressed here before the rest. Raises
    ValueError as `unpack` does.
    """
    if codec != "zstd" or size <= _PIECE_BYTES:
        yield 0, 0, unpack(codec, data, size)
        return
    if known is not None and known.found[0]:
        yield from _unpack_further(data, size, feeds, known)
        return
    pieces, ends = list[bytes](), list[int]()
    try:
        if zstandard.frame_content_size(data) not in (size, -1):
            raise ValueError("damaged frame: it says another size")
        with zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(data) as reader:
            at = passed = 0
            while piece := reader.read(min(_PIECE_BYTES, size - at)):
                begin, before = at, passed
                at, passed = at + len(piece), passed + piece.count(b"\n")
                if known is not None:
                    pieces.append(piece)
                    ends.append(passed)
                if passed >= feeds or at == size:
                    if at == size and reader.read(1):  # what is known as a whole frame has to be one
                        raise ValueError(f"damaged frame: more than {size} bytes")
                    if known is not None:
                        known.found = b"".join(pieces), tuple(ends)
                    yield begin, before, piece
                    break
            rest = reader.read(size - at)
            if at + len(rest) != size or reader.read(1):
                raise ValueError(f"damaged frame: not {size} bytes")
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged frame: {error}") from None
    if rest:
        yield at, passed, rest


def _unpack_further(data: bytes, size: int, feeds: int, known: Beginning) -> Iterator[tuple[int, int, bytes]]:
    """Yield what `unpack_from` does, of a frame that was read before: if what is known of it is not enough, of the whole."""
    text, ends = known.found
    if len(text) < size and ends[-1] < feeds:
        text = unpack("zstd", data, size)
    counted = list(ends)
    at = passed = begin = before = 0
    for number, begin in enumerate(range(0, len(text), _PIECE_BYTES)):
        at, before = min(begin + _PIECE_BYTES, len(text)), passed
        if number == len(counted):
            counted.append(passed + text.count(b"\n", begin, at))
        if (passed := counted[number]) >= feeds:
            break
    known.found = text, tuple(counted)
    yield begin, before, text[begin:at]
    if at < size:
        yield at, passed, (text if len(text) == size else unpack("zstd", data, size))[at:]


def line_count(payload: bytes) -> int:
    """Count lines; a last line without newline counts."""
    return payload.count(b"\n") + (not payload.endswith(b"\n") if payload else 0)
