"""What bytes look like, before any parser sees them."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from byref_sandbox import looks_like
from byref_sandbox.documents import kinds
from byref_sandbox.documents.kinds import of_archive, other_office

WIDE = ("utf-16-le", "utf-16-be")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"PK\x03\x04rest", "zip"),
        (b"PK\x05\x06" + b"\0" * 18, "zip"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"PAR1....", "parquet"),
        (b"ARROW1\0\0", "arrow"),
        (b"\xff\xff\xff\xff\x10\0\0\0" + b"\0" * 32, "arrow"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f", None),
        (b"SQLite format 3\0", "sqlite"),
        (b"SQLite format 4\0", None),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "excel"),
        (b"  <!DOCTYPE html>\n<html><body><TABLE border=1><tr><td>1</table>", "html"),
        (b"<!DOCTYPE html><html><body><p>no such thing: <tablet>", None),
        (b"<div>" * 300 + b"<table><tr>", "html"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><rows><row/><row/></rows>", "xml"),
        (b"<!-- made by hand --><rows><row/></rows>", "xml"),
        (b"<?xml version='1.0'?><!DOCTYPE x [<!ELEMENT x ANY>]><x/>", "xml"),
        *((f"{mark}<?xml version='1.0'?><r/>".encode(order), "xml") for mark in ("", "\ufeff") for order in WIDE),
        *((f"{mark}\n<html><p>ü<table><tr>".encode(order), "html") for mark in ("", "\ufeff") for order in WIDE),
        *(("\ufeff< 5 is less, ü".encode(order), None) for order in WIDE),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><path/><path/></svg>", None),
        (b"---\nname: a\n", "yaml"),
        (b"# people\n- name: a\n  age: 1\n", "yaml"),
        (b"- name: a\n- name: b\n", "yaml"),
        (b"- a list of things: one\nand prose below it\n", None),
        (b"- [ ] to do\n- [x] done\n", None),
        (b"--- a/file\n+++ b/file\n", None),
        (b"a,b\n1,2\n", None),
        (b'{"a": 1}', None),
        (b"<", None),
        (b"< 5 is less", None),
        (b"", None),
        (b"\0" * 100, None),
    ],
)
def test_content_decides(data: bytes, kind: str | None) -> None:
    assert looks_like(data) == kind
    assert looks_like(data, content_type="text/plain", name="report.xlsx") == kind


def test_a_hint_makes_text_yaml_and_nothing_else() -> None:
    assert looks_like(b"a: 1\nb: 2\n") is None
    for hint in (
        {"name": "x.yml"},
        {"name": "x.YAML"},
        {"content_type": "application/yaml"},
        {"content_type": "text/x-yaml; charset=utf-8"},
    ):
        assert looks_like(b"a: 1\nb: 2\n", **hint) == "yaml"
        assert looks_like(b"<r><a/></r>", **hint) == "xml"
    assert looks_like(b"a,b\n", name="x.parquet", content_type="application/vnd.apache.parquet") is None


def archive(*members: tuple[str, bytes], comment: bytes = b"", compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as writer:
        for name, data in members:
            writer.writestr(name, data)
        writer.comment = comment
    return buffer.getvalue()


MARKS = (
    b"META-INF/MANIFEST.MF word/document.xml ppt/presentation.xml xl/workbook.xml application/epub+zip "
    b"application/vnd.oasis.opendocument.spreadsheet"
)
ARCHIVES = {
    "a workbook": ((("[Content_Types].xml", b""), ("xl/workbook.xml", b"")), "excel", None),
    "a spreadsheet": ((("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"),), "excel", None),
    "a text": ((("META-INF/manifest.xml", b""), ("mimetype", b"application/vnd.oasis.opendocument.text")), "zip", "a text document of OpenDocument"),
    "a book": ((("mimetype", b"application/epub+zip"),), "zip", "a book (EPUB)"),
    "a text of Word": ((("word/document.xml", b""), ("word/embeddings/sheet.xlsx", MARKS)), "zip", "a text document of Word"),
    "a library": ((("META-INF/MANIFEST.MF", b""),), "zip", "a Java archive"),
    "words": ((("notes.txt", MARKS), ("mimetype.txt", MARKS)), "zip", None),
    "a folder": ((("old/META-INF/MANIFEST.MF", b""), ("old/xl/workbook.xml", b"")), "zip", None),
    "archives": ((("mimetype", b"text/plain"), ("a.jar", archive(("META-INF/MANIFEST.MF", b""))), ("b.xlsx", archive(("xl/workbook.xml", b"")))), "zip", None),
    "nothing": ((), "zip", None),
}  # fmt: skip


@pytest.mark.parametrize(("members", "kind", "words"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_is_what_its_members_are_named(
    members: tuple[tuple[str, bytes], ...], kind: str, words: str | None
) -> None:
    made = archive(*members)
    for data in (made, b"#!/bin/sh\n" + made, made + b"\0\0", archive(*members, comment=MARKS)):
        assert (of_archive(data), other_office(data)) == (kind, words)
    for cut in range(len(made)):
        assert of_archive(made[:cut]) in ("zip", "excel")
        assert other_office(made[cut:]) in (None, words)


def test_the_names_of_a_large_archive_are_found() -> None:
    """One that has two ends, the first with larger numbers."""
    made = archive(("a.txt", MARKS), *((str(number), b"") for number in range(1 << 16)), ("xl/workbook.xml", b""))
    assert of_archive(made) == "excel"
    assert other_office(made) is None


def test_an_archive_that_names_its_type_many_times_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    class Counted:
        def search(self, data: bytes) -> None:
            searched.append(len(data))

    monkeypatch.setattr(kinds, "_TYPED", Counted())
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<3H", 8, 0, 0) + bytes(12) + b"mimetype"
    end = b"PK\x05\x06" + bytes(8) + struct.pack("<I", len(entry) * 1_000) + bytes(6)
    assert of_archive(b"PK\x03\x04 xl/workbook." + entry * 1_000 + end) == "zip"
    assert len(searched) == 1
