"""What kind of document bytes are, by their first bytes. The host asks this before it starts a run, so it costs microseconds."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

_MAGIC: Final = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"PAR1", "parquet"),
    (b"PARE", "parquet"),
    (b"ARROW1", "arrow"),
    (b"FEA1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"SQLite format 3\x00", "sqlite"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "excel"),
)
_WORKBOOKS: Final = (b"xl/workbook.", b"xl/worksheets/", b"application/vnd.oasis.opendocument.spreadsheet")
"""How the name of a member begins, or what the member `mimetype` says."""
_OTHER_OFFICE: Final = {
    b"word/document.xml": "a text document of Word",
    b"ppt/presentation.xml": "a presentation of PowerPoint",
    b"application/vnd.oasis.opendocument.text": "a text document of OpenDocument",
    b"application/vnd.oasis.opendocument.presentation": "a presentation of OpenDocument",
    b"application/epub+zip": "a book (EPUB)",
    b"META-INF/MANIFEST.MF": "a Java archive",
}
_TYPED: Final = re.compile(rb"PK\x03\x04.{4}\x00\x00.{16}\x08\x00(..)mimetype", re.DOTALL)
"""What stands before the content of the member `mimetype`, which is not compressed, with the size of what is between them."""
_ENTRY: Final = b"PK\x01\x02"
_END: Final = b"PK\x05\x06"
_LARGE: Final = b"PK\x06\x07"
"""Stands before the end if there is another before it, with larger numbers."""
_LARGE_END: Final = b"PK\x06\x06"
_TYPE_BYTES: Final = 80
_HEAD: Final = 1 << 10
_BLANKS: Final = b"\xef\xbb\xbf \t\r\n\x00"
_WIDE: Final = (
    ("utf-16-le", re.compile(rb"(?:\xff\xfe)?(?:[ \t\r\n]\x00)*<\x00[!?A-Za-z]\x00")),
    ("utf-16-be", re.compile(rb"(?:\xfe\xff)?(?:\x00[ \t\r\n])*\x00<\x00[!?A-Za-z]")),
)
_ROOT: Final = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_PROLOG: Final = re.compile(
    rb"\s*<(?:\?[^>]*>|!--.*?-->|!DOCTYPE\s[^\[>]*(?:\[[^\]]*\]\s*)?>)", re.DOTALL | re.IGNORECASE
)
_TABLE: Final = re.compile(rb"<[tT][aA][bB][lL][eE][\s>]")
_HTML: Final = frozenset(
    b"html head body table thead tbody caption div span p section article main center font h1 h2 h3 h4 h5 h6 ul ol a b br hr"
    b" img header nav form meta title style script link template figure".split()
)
_NO_RECORDS: Final = frozenset(b"svg math".split())
_YAML: Final = re.compile(
    rb"(?:%YAML |---[ \t]*\r?\n(?:[ \t]*(?:#[^\n]*)?\n)*(?:- |[\w\"'-]+:(?:[ \t]|\r?\n))|(?:#[^\n]*\n|[ \t]*\n)*- [\w\"'.-]+:[ \t\r\n]"
    rb"[^\n]*\n(?:  +\S|- [\w\"'.-]+:[ \t\r\n]))"
)
_YAML_HINT: Final = re.compile(r"(?:\.ya?ml|[/+-]yaml)(?:;|\s|$)", re.IGNORECASE)


def looks_like(data: bytes, *, content_type: str | None = None, name: str | None = None) -> str | None:
    """Return the kind of document that bytes look like, None if it is no use asking for their tables.

    It is `excel`, `zip`, `gzip`, `parquet`, `arrow`, `sqlite`, `html`, `xml` or `yaml`. The first kilobyte decides; only of HTML all of it is
    searched for a table. `content_type` and `name` are hints: they matter for YAML alone, which any text may be.
    """
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return _of_binary(data, kind)
    head = data[:_HEAD]
    text = head.lstrip(_BLANKS)
    if (encoding := wide(head)) is not None:
        data = data.decode(encoding, "replace").encode("utf-8", "replace")
        text = data[:_HEAD].lstrip(_BLANKS)
    if text.startswith(b"<"):
        return _of_markup(data, text)
    hint = " ".join(filter(None, (content_type, name)))
    return "yaml" if _YAML.match(text) or (hint and text and _YAML_HINT.search(hint)) else None


def wide(head: bytes) -> str | None:
    """Return the encoding of markup in UTF-16, with a mark of its order or without; None if it is none."""
    return next((encoding for encoding, begin in _WIDE if begin.match(head)), None)


def _of_binary(data: bytes, kind: str) -> str | None:
    if kind == "arrow" and data.startswith(b"\xff"):
        # A stream begins with a message: its length, and a table of FlatBuffers.
        return "arrow" if 8 <= int.from_bytes(data[4:8], "little") < min(len(data), 1 << 31) else None
    return kind


def _of_markup(data: bytes, text: bytes) -> str | None:
    declared = text.startswith(b"<?xml")
    is_page = b"<!doctype html" in text[:200].lower()
    at = 0
    while (found := _PROLOG.match(text, at)) is not None:
        at = found.end()
    root = _ROOT.match(text[at:].lstrip())
    name = root[1].lower() if root is not None else b""
    if is_page or (name in _HTML and not (declared and name != b"html")):
        return "html" if _TABLE.search(data) else None
    if name in _NO_RECORDS or not (declared or root is not None or b"<!DOCTYPE" in text):
        return None
    return "xml"


def of_archive(data: bytes) -> str:
    """Return `excel` for a zip archive that is a workbook, else `zip`. It looks for the names of members, and unpacks nothing."""
    return "excel" if _first_of(data, _WORKBOOKS) is not None else "zip"


def other_office(data: bytes) -> str | None:
    """Return what a zip archive is that has no tables of its own, in words; None if it is nothing of that kind."""
    found = _first_of(data, _OTHER_OFFICE)
    return None if found is None else _OTHER_OFFICE[found]


def _first_of(data: bytes, marks: Iterable[bytes]) -> bytes | None:
    """Return the first of these that a member's name or the archive's own type begins with. What else is in it says nothing."""
    if not (there := [mark for mark in marks if mark in data]):
        return None
    return next((mark for name in _names(data) for mark in there if name.startswith(mark)), None)


def _names(data: bytes) -> Iterator[bytes]:
    """Yield the names in a zip archive's directory as far as it can be read, and after the first `mimetype` what that member says.

    Only after the first: it is searched for in all of the archive, whose directory may name it a million times.
    """
    is_typed = False
    end, form, size_at = data.rfind(_END), "<I", 12
    if end >= 20 and data[end - 20 : end - 16] == _LARGE:
        end, form, size_at = data.rfind(_LARGE_END, 0, end), "<Q", 40
    with suppress(struct.error):
        at = end - struct.unpack_from(form, data, end + size_at)[0] if end >= 0 else end
        while 0 <= at < end and data[at : at + 4] == _ENTRY:
            name, extra, comment = struct.unpack_from("<3H", data, at + 28)
            yield data[at + 46 : at + 46 + name]
            if not is_typed and data[at + 46 : at + 46 + name] == b"mimetype":
                is_typed = True
                if (typed := _TYPED.search(data)) is not None:
                    begin = typed.end() + int.from_bytes(typed[1], "little")
                    yield data[begin : begin + _TYPE_BYTES]
            at += 46 + name + extra + comment
