"""Payloads cut into independently compressed frames, so that a part can be read without the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import zstandard

FRAME_BYTES = 1 << 20
"""Most of a frame, uncompressed: 1 MiB writes fastest in SQLite, and random reads stay in milliseconds."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One piece of a payload with the byte offset and the 1-based line at which it begins."""

    number: int
    byte_offset: int
    first_line: int
    size_bytes: int
    """Uncompressed."""
    codec: str
    data: bytes


def cut(payload: bytes) -> Iterator[Frame]:
    """Yield the frames of a payload in order; each ends with a line where one ends inside it."""
    compress = zstandard.ZstdCompressor(level=1).compress
    offset, number, line = 0, 0, 1
    view = memoryview(payload)
    while offset < len(payload):
        end = min(offset + FRAME_BYTES, len(payload))
        if end < len(payload):
            newline = payload.rfind(b"\n", offset, end)
            end = newline + 1 if newline >= 0 else end
        packed = compress(view[offset:end])
        small = len(packed) < end - offset
        data = packed if small else bytes(view[offset:end])
        yield Frame(number, offset, line, end - offset, "zstd" if small else "none", data)
        line += payload.count(b"\n", offset, end)
        offset, number = end, number + 1


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
