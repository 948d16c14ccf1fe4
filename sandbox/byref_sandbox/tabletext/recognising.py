"""Asks each reader in turn whether a text is a table of its kind: those that know theirs by a mark first."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

from byref_sandbox.tabletext import aligned, boxes, delimited, expanded, listing
from byref_sandbox.tabletext.result import NotATable, Recognised, Table

_Read = Callable[[bytes], tuple[Table, ...] | NotATable | None]
_READERS: Final[dict[str, _Read]] = {
    "expanded": expanded.recognise,
    "box": boxes.recognise,
    "aligned": aligned.recognise,
    "listing": listing.recognise,
}
FORMATS: Final = ("csv", *_READERS)
"""What a caller may say that a text is. `csv` is any delimited text, `box` any table with bars, Markdown's too."""
_BEGINNING: Final = 1 << 10
MARKUP: Final = (b"{", b"[", b"<")
"""What JSON, XML and HTML begin with: not read here."""


def recognise(text: str | bytes, format: str | None = None, *, is_utf8: bool = False) -> Recognised | NotATable:
    """Say what tables a text is, or why it is none.

    Args:
        text: The text, or its bytes: UTF-8, UTF-16 with a byte order mark, or else Windows-1252.
        is_utf8: Whether bytes are known to be UTF-8, which saves reading all of them.
        format: One of `FORMATS`, if the text is known to be one; then a reader needs no further evidence. None to find out.

    Returns:
        The tables, whose parts are all of the text. Without a `format`, text that does not balance is no table.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"no format {format!r} of tables; there are: {', '.join(FORMATS)}")
    data, encoding = _decoded(text, is_utf8=is_utf8)
    found = _found(data, format)
    if isinstance(found, NotATable):
        return found
    if any("\ud800" <= character <= "\udfff" for table in found for name in table.names for character in name):
        return NotATable("the name of a column has half of a surrogate pair")
    return Recognised(found, encoding)


def _found(data: bytes, format: str | None) -> tuple[Table, ...] | NotATable:
    for name, read in _READERS.items():
        if format not in (None, name):
            continue
        found = read(data)
        if found is not None:  # what has the mark of a kind and does not balance is no table of another kind
            return found
    if format is None and data[:_BEGINNING].lstrip()[:1] in MARKUP:
        return NotATable("it begins like JSON or markup")
    if format in (None, "csv"):
        return delimited.recognise(data, force=format == "csv")
    return NotATable(f"it has nothing of the format {format!r}")


def _decoded(text: str | bytes, *, is_utf8: bool) -> tuple[bytes, str]:
    """The text in UTF-8 without a byte order mark, and how its bytes were read."""
    if isinstance(text, str):
        return text.removeprefix("\ufeff").encode("utf-8", "surrogatepass"), "utf-8"
    if is_utf8:
        return text.removeprefix(codecs.BOM_UTF8), "utf-8"
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16", "replace").encode(), "utf-16"
    text = text.removeprefix(codecs.BOM_UTF8)
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("cp1252", "replace").encode(), "cp1252"
    return text, "utf-8"
