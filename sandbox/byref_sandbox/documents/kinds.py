"""What kind of document bytes are, by their first bytes. The host asks this before it starts a run, so it costs microseconds."""

from __future__ import annotations

import re
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
_WORKBOOKS: Final = (b"xl/workbook.", b"application/vnd.oasis.opendocument.spreadsheet", b"xl/worksheets/")
_OTHER_OFFICE: Final = {
    b"word/document.xml": "a text document of Word",
    b"ppt/presentation.xml": "a presentation of PowerPoint",
    b"application/vnd.oasis.opendocument.text": "a text document of OpenDocument",
    b"application/vnd.oasis.opendocument.presentation": "a presentation of OpenDocument",
    b"application/epub+zip": "a book (EPUB)",
    b"META-INF/MANIFEST.MF": "a Java archive",
}
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
    return "excel" if any(name in data for name in _WORKBOOKS) else "zip"


def other_office(data: bytes) -> str | None:
    """Return what a zip archive is that has no tables of its own, in words; None if it is nothing of that kind."""
    return next((words for name, words in _OTHER_OFFICE.items() if name in data), None)
