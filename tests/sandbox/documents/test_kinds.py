"""What bytes look like, before any parser sees them."""

from __future__ import annotations

import pytest

from byref_sandbox import looks_like

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
