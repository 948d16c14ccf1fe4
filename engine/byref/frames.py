"""Payloads cut into independently compressed frames, so that a part can be read without the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice

import zstandard

FRAME_BYTES = 1 << 20
"""Most of a frame, uncompressed: 1 MiB writes fastest in SQLite, and random reads stay in milliseconds."""
_LEVEL = 1
_WORKERS = 2
_ALONE = 2
"""Frames up to which a payload is compressed here: to hand them over would take as long."""
_AHEAD = 6
"""Frames compressed, or being so, before the first of them is asked for."""
_AHEAD_WHOLE = 64
"""The same of a payload that is in memory whole."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One piece of a payload with the byte offset and the 1-based line at which it begins."""

    number: int
    byte_offset: int
    first_line: int
    size_bytes: int
    """Uncompressed."""
    line_feeds: int
    codec: str
    data: bytes | memoryview | None
    """None where an object has it, `object_bytes` long from `object_offset` on."""
    object_offset: int | None = None
    object_bytes: int | None = None


class Ahead:
    """Frames that are compressed on other threads, some of them before they are asked for; `close` ends the threads."""

    def __init__(self, plain: Iterator[Frame], count: int) -> None:
        self._plain = plain
        self._pool = ThreadPoolExecutor(_WORKERS, "byref-frames")
        self._pending = deque(self._pool.submit(_compressed, frame) for frame in islice(plain, count))

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        if not self._pending:
            raise StopIteration
        frame = self._pending.popleft().result()
        self._pending.extend(self._pool.submit(_compressed, following) for following in islice(self._plain, 1))
        return frame

    def close(self) -> None:
        """Wait for what is being compressed, and begin nothing more."""
        self._pending.clear()
        self._pool.shutdown(cancel_futures=True)


def compressing(data: bytes) -> Ahead:
    """Begin to compress the frames of a payload, while the caller is busy otherwise."""
    return Ahead(_plain([data]), _AHEAD_WHOLE)


def cut(pieces: Iterable[bytes], *, compresses: bool = True) -> Generator[Frame, None, None]:
    """Yield the frames of a payload that comes in pieces, in order; each ends with a line where one ends inside it.

    The cuts do not depend on the pieces. Frames are compressed on other threads, a few ahead.
    """
    plain = _plain(pieces)
    if not compresses:
        yield from plain
        return
    first = list(islice(plain, _ALONE + 1))
    if len(first) <= _ALONE:
        yield from map(_compressed, first)
        return
    with closing(Ahead(chain(first, plain), _AHEAD)) as ahead:
        yield from ahead


def _plain(pieces: Iterable[bytes]) -> Iterator[Frame]:
    number, offset, line = 0, 0, 1
    for data, start, end in _spans(pieces):
        line_feeds = data.count(b"\n", start, end) if data.find(b"\n", start, end) >= 0 else 0  # finding none is faster
        yield Frame(number, offset, line, end - start, line_feeds, "none", memoryview(data)[start:end])
        number, offset, line = number + 1, offset + end - start, line + line_feeds


def _spans(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Yield the bytes of each frame as (data, start, end)."""
    rest = b""
    for piece in pieces:
        data, start = rest + piece if rest else piece, 0
        while len(data) - start > FRAME_BYTES:
            feed = data.rfind(b"\n", start, start + FRAME_BYTES)
            end = feed + 1 if feed >= 0 else start + FRAME_BYTES
            yield data, start, end
            start = end
        rest = data[start:]
    if rest:
        yield rest, 0, len(rest)


def _compressed(frame: Frame) -> Frame:
    assert frame.data is not None
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(frame.data)
    return replace(frame, codec="zstd", data=packed) if len(packed) < frame.size_bytes else frame


def unpack(codec: str, data: bytes, size: int) -> bytes:
    """Return a frame's bytes; ValueError if they are not `size` bytes, whatever was stored."""
    if codec == "zstd":
        try:
            data = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        except zstandard.ZstdError as error:
            raise ValueError(f"damaged frame: {error}") from None
    if len(data) != size:
        raise ValueError(f"damaged frame: {len(data)} bytes instead of {size}")
    return data


def line_count(payload: bytes) -> int:
    """Count lines; a last line without newline counts."""
    return payload.count(b"\n") + (not payload.endswith(b"\n") if payload else 0)
