"""The output of one tool call as content blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from byref.content import formats, media, values
from byref.content.blocks import MARKS, to_block
from byref.content.formats import Piece
from byref.content.media import Media
from byref.errors import ConfigurationError

OCTETS = "application/octet-stream"
"""The content type of bytes with a NUL; such bytes still count as text if they are valid UTF-8."""
_MOST_PIXELS = 1 << 24
_OF_PNG = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
"""Pillow's modes that PNG has; an image in another one is turned into RGB."""
_TEXTUAL = ("text/", "application/json", "application/xml", "application/x-ndjson", "application/yaml")


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's output stated explicitly: one or more content blocks, and whether the output is an error.

    A block is a text, bytes (an image, a document), a provider's content block as a dict (`{"json": …}` and `{"text": …}`
    among them), or any other value, which becomes JSON. `Session.process` also accepts the bare values; it then has to tell
    data and blocks apart by their form.
    """

    blocks: tuple[Any, ...]
    is_error: bool = False

    def __init__(self, blocks: Iterable[Any], *, is_error: bool = False) -> None:
        """Take the blocks in their order."""
        if isinstance(blocks, str | bytes | dict) or not isinstance(blocks, Iterable):
            raise ConfigurationError(
                f"ToolOutput: blocks of type {type(blocks).__name__!r}: expected a list of them, one or more"
            )
        object.__setattr__(self, "blocks", tuple(blocks))
        object.__setattr__(self, "is_error", bool(is_error))


def to_pieces(output: object) -> tuple[list[Piece], bool]:
    """Return the blocks of any tool output, and whether the output itself says that it is an error; never raises."""
    try:
        if isinstance(output, ToolOutput):
            return _stated(output), output.is_error
        return formats.read(output) or ([_alone(output)], False)
    except values.RAISED:  # a tool's own object whose attributes raise: `to_block` relies on none of them
        return [Piece(to_block(output))], False


def is_textual(content_type: str) -> bool:
    """Tell whether bytes of this content type are text, which tools can read and search."""
    return content_type.startswith(_TEXTUAL)


def binary(output: object, content_type: str | None = None) -> Media | None:
    """Return bytes as an image or a document, recognised by the content type or the first bytes; None for text or non-bytes."""
    if not issubclass(type(output), bytes | bytearray | memoryview):
        return None
    data: bytes = output if type(output) is bytes else bytes(memoryview(output))  # type: ignore[arg-type]
    if content_type is not None and not is_textual(content_type):
        return media.of(content_type, data)
    sniffed = None if data.startswith(MARKS) else media.sniffed(data)
    if sniffed is None or (sniffed == OCTETS and not to_block(data).lossy):
        return None
    return media.of(sniffed, data)


def _alone(output: object) -> Piece:
    return Piece(binary(output) or _picture(output) or to_block(output))


def _picture(output: Any) -> Media | None:
    """Return an image of Pillow as PNG; None for anything else, and for an image of more pixels than `_MOST_PIXELS`."""
    bases = type(output).__mro__
    if not any(base.__name__ == "Image" and base.__module__ == "PIL.Image" for base in bases):
        return None
    width, height = output.size
    if width * height > _MOST_PIXELS:
        return None
    file = BytesIO()
    (output if output.mode in _OF_PNG else output.convert("RGB")).save(file, "PNG")
    return media.of("image/png", file.getvalue())


def _stated(output: ToolOutput) -> list[Piece]:
    blocks = output.blocks or ("",)
    pieces = [
        _alone(block) if piece is None else piece for block, piece in zip(blocks, formats.stated(blocks), strict=True)
    ]
    if len(pieces) > 1:
        for piece in pieces:
            if piece.original is None and piece.block is not None:
                piece.original = formats.write(piece.block)
    return pieces
