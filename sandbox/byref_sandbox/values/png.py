"""PNG images that a run sent. They are hostile: every chunk and every byte of the pixels is checked, in bounded memory."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from byref_sandbox.outcome import MAX_FIGURE_PIXELS, MAX_FIGURE_SIDE

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_HEADER: Final = struct.Struct("!IIBBBBB")
_CHANNELS: Final = {2: 3, 6: 4}
"""Bytes of a pixel, by colour type: RGB and RGBA."""
_MAX_FILTER: Final = 4
_RESOLUTION_BYTES: Final = 9
_MAX_CHUNKS: Final = 4_096
"""Writers put at least 8 KiB into each chunk, so honest images have fewer."""
_OVERHEAD: Final = 16
"""Compression may make incompressible pixels larger, by at most one part in so many."""
_BESIDE_PIXELS: Final = 64 << 10
_MOST_BYTES: Final = 4 * MAX_FIGURE_PIXELS * (_OVERHEAD + 1) // _OVERHEAD + _BESIDE_PIXELS
"""Bytes of the largest image there may be, of pixels that cannot be compressed."""


class NotPNG(ValueError):
    """The bytes are no image of the kind that a run may send."""


def size_of(data: bytes) -> tuple[int, int]:
    """Return the width and height of an 8-bit RGB or RGBA image that holds its pixels and nothing else; raise NotPNG."""
    if not data.startswith(_SIGNATURE):
        raise NotPNG("no PNG")
    if len(data) > _MOST_BYTES:
        raise NotPNG(f"{len(data):,} bytes")
    chunks = _chunks(data)
    if len(chunks) < 3 or chunks[0][0] != b"IHDR" or chunks[-1] != (b"IEND", b""):
        raise NotPNG("no header or no end")
    header = chunks[0][1]
    if len(header) != _HEADER.size:
        raise NotPNG("no header")
    width, height, depth, colours, compression, filtering, interlace = _HEADER.unpack(header)
    if not (0 < width <= MAX_FIGURE_SIDE and 0 < height <= MAX_FIGURE_SIDE and width * height <= MAX_FIGURE_PIXELS):
        raise NotPNG(f"{width} x {height} pixels")
    if depth != 8 or colours not in _CHANNELS or compression or filtering or interlace:
        raise NotPNG("not 8-bit RGB or RGBA")
    pixels = [body for kind, body in chunks[1:-1] if kind == b"IDAT"]
    others = [(kind, len(body)) for kind, body in chunks[1 : -1 - len(pixels)]]
    if others not in ([], [(b"pHYs", _RESOLUTION_BYTES)]):
        raise NotPNG("it holds more than pixels")
    _look_at_pixels(b"".join(pixels), width * _CHANNELS[colours] + 1, height)
    return width, height


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    at = len(_SIGNATURE)
    while at < len(data):
        if at + 12 > len(data):
            raise NotPNG("cut short")
        length = int.from_bytes(data[at : at + 4])
        end = at + 12 + length
        if end > len(data):
            raise NotPNG("cut short")
        kind, body = data[at + 4 : at + 8], data[at + 8 : end - 4]
        if zlib.crc32(data[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end]):
            raise NotPNG("a wrong checksum")
        found.append((kind, body))
        if len(found) > _MAX_CHUNKS:
            raise NotPNG(f"more than {_MAX_CHUNKS:,} chunks")
        at = end
    return found


def _look_at_pixels(compressed: bytes, row: int, rows: int) -> None:
    inflater = zlib.decompressobj()
    try:
        pixels = inflater.decompress(compressed, row * rows + 1)
    except zlib.error as error:
        raise NotPNG(str(error)) from None
    if len(pixels) != row * rows or not inflater.eof or inflater.unused_data:
        raise NotPNG("too few or too many pixels")
    if max(pixels[::row]) > _MAX_FILTER:
        raise NotPNG("an unknown filter")
