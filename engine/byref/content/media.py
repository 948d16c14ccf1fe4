"""Images and documents: bytes whose format is known from a declared content type or from the first bytes."""

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
"""Maximum characters of a document's name in a placeholder."""
MAX_NAME_CHARS: Final = 256
"""Maximum characters of a stored document's name: artifacts are found by it, and a database's index limits its keys."""

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
_OFFICE: Final = {
    b"word": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    b"xl": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    b"ppt": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
"""By the folder in an archive."""
_OFFICE_FOLDER: Final = re.compile(rb"PK\x03\x04.{26}(word|xl|ppt)/", re.DOTALL)
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
"""Bytes at the beginning in which a NUL byte or the marks of an office document are searched."""


@dataclass(eq=False)
class Media:
    """An image or a document."""

    kind: Literal["image", "document"]
    content_type: str
    data: bytes = field(repr=False)
    name: str | None = None

    @property
    def format(self) -> str:
        """The short name of its format, as in its placeholder: `png`, `pdf`."""
        return format_of(self.content_type)

    @cached_property
    def digest(self) -> bytes:
        """The BLAKE3 digest of its bytes."""
        return bytes(blake3(self.data).digest())

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.data)

    @property
    def stored_size(self) -> int:
        """The number of bytes that are stored, which is that of `data`."""
        return len(self.data)

    @cached_property
    def line_count(self) -> int:
        """The number of lines, counted as in a text. It means something only if the bytes are text."""
        return chunks.line_feeds(self.data) + (not self.data.endswith(b"\n") if self.data else 0)

    @property
    def words(self) -> str:
        """Its shape in words: `image(png)`."""
        return f"{self.kind}({self.format})"

    @property
    def placeholder(self) -> str:
        """The text that the model reads in its place."""
        return placeholder_of(self.content_type, self.size, self.name)

    @property
    def base64(self) -> str:
        """Its bytes in base64, as JSON carries them."""
        return b64encode(self.data).decode()

    def discard(self) -> None:
        """Do nothing: media hold no parsed value that could be released, unlike `Block`."""


def of(content_type: object, data: bytes, name: object = None) -> Media:
    """Return media of these bytes. `content_type` is a MIME type, `image/png`, or a format, `png`.

    If it is neither, the first bytes decide; if they do not either, it is `application/octet-stream`.
    """
    declared = content_type.strip().lower().partition(";")[0] if isinstance(content_type, str) else ""
    if not _CONTENT_TYPE.fullmatch(declared):
        guessed = _TYPES.get(declared) or mimetypes.types_map.get(f".{declared[:20]}")
        declared = guessed or sniffed(data) or "application/octet-stream"
    kind: Literal["image", "document"] = "image" if declared.startswith("image/") else "document"
    return Media(kind, declared, data, name[:MAX_NAME_CHARS] if isinstance(name, str) and name else None)


def placeholder_of(content_type: str, size: int, name: str | None) -> str:
    """Return the placeholder of `size` bytes: `[image: png, 48213 bytes]`, `[document: pdf, report, 120000 bytes]`."""
    major = content_type.partition("/")[0]
    kind = major if major in ("image", "audio", "video") else "document"
    label = _label(name) if name and kind != "image" else ""
    words = [format_of(content_type), label, f"{size} bytes"]
    return f"[{kind}: {', '.join(word for word in words if word)}]"


def sniffed(data: bytes) -> str | None:
    """Return the content type that the first bytes identify; None if the bytes may be text."""
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if data[8:12] == b"WEBP" else "audio/wav"
    if data[4:8] == b"ftyp":
        return "video/mp4"
    for magic, content_type in _MAGIC:
        if data.startswith(magic):
            if content_type == "application/zip":
                found = _OFFICE_FOLDER.search(data[:SNIFFED])
                return content_type if found is None else _OFFICE[found[1]]
            return content_type
    return "application/octet-stream" if b"\0" in data[:SNIFFED] else None


def decoded(text: object) -> bytes | None:
    """Return the bytes of a base64 text, or the bytes of a bytes-like object; None for anything else.

    The base64 may be broken into lines (MIME), URL-safe, and without padding.
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
    """Return the content type and bytes of a `data:` URL; None for any other value."""
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
    """Return the name as a placeholder holds it: short, on one line, and without brackets, which would end the placeholder."""
    words = " ".join(re.sub(r"[\[\]\x00-\x1f\x7f\u2028\u2029]", " ", name[: 4 * NAME_CHARS]).split())
    return words if len(words) <= NAME_CHARS else words[: NAME_CHARS - 1] + "…"
