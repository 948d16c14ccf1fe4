"""Images and documents: bytes that a model sees rather than reads, known by their content type or by their beginning."""

from __future__ import annotations

import mimetypes
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

from blake3 import blake3

from byref.jsonscan import chunks

NAME_CHARS: Final = 80
"""Of a document's name in a placeholder."""
MAX_NAME_CHARS: Final = 256
"""Of a document's name: it is what an artifact is found by, and a database's index holds no more than so much."""

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"\x7fELF", "application/octet-stream"),
)
_INSIDE_ZIP: Final = (
    (b"word/", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
)
_FORMATS: Final = {
    "image/jpeg": "jpeg",
    "image/svg+xml": "svg",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/octet-stream": "bin",
    "application/vnd.sqlite3": "sqlite",
    "application/vnd.apache.parquet": "parquet",
    "application/gzip": "gz",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}
_TYPES: Final = {format: content_type for content_type, format in _FORMATS.items()} | {"jpg": "image/jpeg"}
_CONTENT_TYPE: Final = re.compile(r"[a-z0-9][\w!#$&^.+-]{0,60}/[\w!#$&^.+-]{1,120}", re.ASCII)
SNIFFED: Final = 8192
"""Bytes at the beginning that are looked at."""


@dataclass(eq=False)
class Media:
    """An image or a document."""

    kind: Literal["image", "document"]
    content_type: str
    data: bytes = field(repr=False)
    name: str | None = None

    @property
    def format(self) -> str:
        """What its placeholder calls it: png, pdf."""
        return format_of(self.content_type)

    @cached_property
    def digest(self) -> bytes:
        """BLAKE3 of its bytes."""
        return bytes(blake3(self.data).digest())

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    @property
    def stored_size(self) -> int:
        """Bytes of `data`."""
        return len(self.data)

    @cached_property
    def line_count(self) -> int:
        """As of text; of use only where it is some."""
        return chunks.line_feeds(self.data) + (not self.data.endswith(b"\n") if self.data else 0)

    @property
    def words(self) -> str:
        """Its shape in words: `image(png)`."""
        return f"{self.kind}({self.format})"

    @property
    def placeholder(self) -> str:
        """What the model reads in its place."""
        return placeholder_of(self.content_type, self.size, self.name)

    @property
    def base64(self) -> str:
        """Its bytes as JSON carries them."""
        return b64encode(self.data).decode()

    def discard(self) -> None:
        """Nothing was parsed."""


def of(content_type: object, data: bytes, name: object = None) -> Media:
    """Return bytes of a content type, `image/png`, or of a format, `png`; what is neither is told by the bytes."""
    declared = content_type.strip().lower().partition(";")[0] if isinstance(content_type, str) else ""
    if not _CONTENT_TYPE.fullmatch(declared):
        guessed = _TYPES.get(declared) or mimetypes.types_map.get(f".{declared[:20]}")
        declared = guessed or sniffed(data) or "application/octet-stream"
    kind: Literal["image", "document"] = "image" if declared.startswith("image/") else "document"
    return Media(kind, declared, data, name[:MAX_NAME_CHARS] if isinstance(name, str) and name else None)


def placeholder_of(content_type: str, size: int, name: str | None) -> str:
    """Return what stands for so many bytes: `[image: png, 48213 bytes]`, `[document: pdf, report, 120000 bytes]`."""
    major = content_type.partition("/")[0]
    kind = major if major in ("image", "audio", "video") else "document"
    label = _label(name) if name and kind != "image" else ""
    words = [format_of(content_type), label, f"{size} bytes"]
    return f"[{kind}: {', '.join(word for word in words if word)}]"


def sniffed(data: bytes) -> str | None:
    """Return the content type that the beginning of the bytes tells; None if they may be text."""
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if data[8:12] == b"WEBP" else "audio/wav"
    if data[4:8] == b"ftyp":
        return "video/mp4"
    for magic, content_type in _MAGIC:
        if data.startswith(magic):
            if content_type == "application/zip":
                return next((inner for mark, inner in _INSIDE_ZIP if mark in data[:SNIFFED]), content_type)
            return content_type
    return "application/octet-stream" if b"\0" in data[:SNIFFED] else None


def decoded(text: object) -> bytes | None:
    """Return the bytes of base64, or of what carries bytes already; None where it is neither.

    Base64 may be broken into lines (MIME), URL-safe, and without padding.
    """
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    if not isinstance(text, str):
        return None
    text = text.strip()
    for found, instead in (("\r", ""), ("\n", ""), ("-", "+"), ("_", "/")):
        text = text.replace(found, instead)
    text = text.rstrip("=")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (NotBase64, ValueError):
        return None


def data_url(url: object) -> tuple[str, bytes] | None:
    """Return content type and bytes of a `data:` URL; None for any other."""
    if not isinstance(url, str) or url[:5].lower() != "data:":
        return None
    head, comma, payload = url[5:].partition(",")
    if not comma:
        return None
    content_type, *parameters = (part.strip().lower() for part in head.split(";"))
    data = decoded(payload) if "base64" in parameters else unquote_to_bytes(payload)
    return None if data is None else (content_type or "text/plain", data)


def format_of(content_type: str) -> str:
    """Return the short name of a content type."""
    known = _FORMATS.get(content_type) or (mimetypes.guess_extension(content_type) or "").removeprefix(".")
    return known or content_type.partition("/")[2].removeprefix("x-")[:40]


def _label(name: str) -> str:
    """A name as a placeholder holds it: one line, no brackets, bounded."""
    words = " ".join(re.sub(r"[\[\]\x00-\x1f\x7f\u2028\u2029]", " ", name[: 4 * NAME_CHARS]).split())
    return words if len(words) <= NAME_CHARS else words[: NAME_CHARS - 1] + "…"
