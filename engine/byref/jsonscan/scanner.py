"""A stream of bytes, described while it passes by."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

from byref.describe.schema import Schema, TooDeep, infer
from byref.describe.truncate import Ends
from byref.jsonscan import sizes
from byref.jsonscan.document import DocumentScan, Refused, TooMuch
from byref.jsonscan.text import TextScan
from byref_sandbox import jsontext

_BEGINNING: Final = 4_096
"""Bytes in which JSON has to begin."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scanned:
    """What is known of bytes that have passed by."""

    size: int
    """How many there were."""
    lines: int
    """Line feeds, and a last line without one."""
    lossy: bool
    """They are not UTF-8; then they are text that has U+FFFD where nothing could be decoded."""
    parse_error: str | None
    """Why they are not structured; None if they are."""
    is_json: bool
    """Nothing in them was seen to be no JSON, though they may be too large or too deep to be described."""
    value: object
    """The object or array, in which `Rows` stand for arrays too large to be kept; None of text."""
    schema: Schema | None
    """The exact schema of the whole value; None of text."""
    text: Ends
    """The text's ends and length."""
    samples: str
    """Pieces spread evenly over the text, some 48,000 characters in all; the whole text if it is shorter."""


class Scanner:
    """Reads bytes once, in order, cut anywhere; never raises for what they are.

    Memory is bounded: some MiB for text, and what `most` bytes of JSON (`sizes.MOST`) take as Python values at the very most. JSON that
    would take more is text, and `parse_error` says so.
    """

    def __init__(self, *, most: int | None = None) -> None:
        self._most = most
        self._passage = TextScan()
        self._pending = bytearray()
        self._beginning: bytes | None = b""
        """What was read while nobody knows whether it is JSON."""
        self._document: DocumentScan | None = None
        self._problem = "not a JSON object or array"
        self._is_json = False

    def feed(self, data: bytes) -> None:
        """Read on."""
        at = 0
        while len(self._pending) + len(data) - at >= sizes.BLOCK:
            end = at + sizes.BLOCK - len(self._pending)
            self._read(bytes(self._pending) + data[at:end])
            self._pending.clear()
            at = end
        self._pending += data[at:]

    def finish(self) -> Scanned:
        """Return what there is to say; nothing may be read any more."""
        self._read(bytes(self._pending), final=True)
        passage, problem, value, schema = self._passage, None, None, None
        if self._document is None:
            problem = "not UTF-8" if passage.lossy else self._problem
        else:
            try:
                value = self._document.finish()
                schema = infer(value, plain=True)
            except (Refused, TooDeep) as error:
                value, problem = None, str(error)
                self._is_json = isinstance(error, TooMuch | TooDeep)
            else:
                self._is_json = True
        return Scanned(
            passage.size,
            passage.lines,
            passage.lossy,
            problem,
            self._is_json and not passage.lossy,
            value,
            schema,
            passage.ends,
            passage.samples,
        )

    def _read(self, data: bytes, *, final: bool = False) -> None:
        self._passage.feed(data, final=final)
        if self._beginning is not None:
            self._beginning += data
            data = self._beginning.removeprefix(codecs.BOM_UTF8)
            opening = self._beginning[:_BEGINNING].removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")[:1]
            if not opening and len(self._beginning) < _BEGINNING:
                return
            self._beginning = None
            if opening in (b"{", b"["):
                self._document = DocumentScan(opening, self._most)
        if self._passage.lossy:
            self._document = None
        if self._document is not None:
            try:
                with jsontext.collector_paused():
                    self._document.feed(data)
            except Refused as error:
                self._document, self._problem = None, str(error)
                self._is_json = isinstance(error, TooMuch)
