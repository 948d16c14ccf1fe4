"""A JSON object on each line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from byref.tabletext.kinds import Type
from byref.tabletext.lines import Parts, lines_of
from byref.tabletext.result import NotATable, Part, Row, Table, unique_names

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)


def recognise(data: bytes) -> tuple[Table, ...] | NotATable | None:
    """Read such a text; None if its first line is no object, or there is only one."""
    first = data.lstrip(b" \t\r\n")[:1]
    if first != b"{":
        return None
    end = data.find(b"\n")
    if end < 0 or not data[:end].rstrip().endswith(b"}") or not data[end:].strip():
        return None
    names: dict[str, set[str]] = {}
    seen: dict[str, int] = {}
    rows = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return NotATable(f"the line is no JSON object ({error})", number)
        rows += 1
        for name, value in record.items():
            kind = _KINDS.get(bytes(memoryview(value)[:1]), "number")
            if kind == "number":
                kind = "number" if any(mark in bytes(value) for mark in (b".", b"e", b"E")) else "integer"
            names.setdefault(name, set()).add(kind)
            seen[name] = seen.get(name, 0) + 1
    if not names or rows < 2:
        return None
    parts = Parts()
    for line_ in lines_of(data) if b"\n\n" in data or b"\n \n" in data else ():
        parts.add("blank" if line_.is_blank else "records", line_.start, line_.end)
    types = tuple(_type(kinds, seen[name] < rows) for name, kinds in names.items())
    return (
        Table(
            format="ndjson",
            names=unique_names(tuple(names), len(names)),
            header=tuple(names),
            types=types,
            rows=rows,
            parts=tuple(parts.made) or (Part("records", 0, len(data)),),
            read=partial(_rows, data, tuple(names)),
        ),
    )


_KINDS = {b'"': "text", b"t": "boolean", b"f": "boolean", b"n": "empty", b"{": "json", b"[": "json"}


def _type(kinds: set[str], missing: bool) -> Type:
    values, nullable = kinds - {"empty"}, missing or "empty" in kinds
    if not values:
        return Type("empty", nullable=nullable)
    if values <= {"integer", "number"}:
        return Type("number" if "number" in values else "integer", nullable=nullable)
    return Type(values.pop() if len(values) == 1 else "json", nullable=nullable)  # type: ignore[arg-type]


def _rows(data: bytes, names: tuple[str, ...]) -> Iterator[Row]:
    """A text without its quotes, any other value as JSON, None for null and for a member that is not there."""
    for line in data.split(b"\n"):
        if line.strip():
            record = _decoder.decode(line)
            yield tuple(_cell(record.get(name)) for name in names)


def _cell(value: msgspec.Raw | None) -> str | None:
    if value is None:
        return None
    raw = bytes(value)
    if raw[:1] == b'"':
        return _text.decode(raw)
    return None if raw == b"null" else raw.decode()
