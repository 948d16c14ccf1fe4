"""Delimited text and JSON lines that pass in pieces: what is found is what is found in the whole text."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterable, Iterator

import pytest

from byref_sandbox.tabletext import NotATable, Passed, Passing, Recognised, Table, ndjson, passing, reading, recognise
from byref_sandbox.tabletext.delimited import Delimited, Span

ROWS = "".join(f"{n},name {n},{n}.5\n" for n in range(2_000))
TABLE = "id,name,value\n" + ROWS


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "WINDOW", 4_000)
    monkeypatch.setattr(passing, "_LARGEST", 16_000)
    monkeypatch.setattr(passing, "_END_BYTES", 500)
    monkeypatch.setattr(reading, "_LONG_BYTES", 2_000)
    monkeypatch.setattr(reading, "_TAIL_BYTES", 300)


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + chance.randrange(1, 3_000)
        yield data[at:end]
        at = end


def passed(text: str | bytes, format: str | None = None) -> Passed | NotATable:
    reader = Passing(format)
    for piece in pieces(text if isinstance(text, bytes) else text.encode(), random.Random(7)):
        reader.feed(piece)
    return reader.finish()


def rows_of(table: Table, text: bytes) -> list[tuple[str | None, ...]]:
    """The records of an excerpt."""
    assert isinstance(table.how, Delimited)
    rows = Delimited(table.how.dialect, (Span(0, len(text), True),)).rows(text, table.names) if text else ()
    return [*map(tuple, rows)]


def read_whole(text: str, format: str | None = None) -> Recognised:
    found = recognise(text, format)
    assert isinstance(found, Recognised), found
    return found


def written(chance: random.Random, **dialect: object) -> str:
    cells = [
        "",
        "1",
        "2.5",
        "a b",
        'say "x"',
        "a,b",
        "line\nfeed",
        "NA",
        "007",
        "2026-01-02",
        "ü",
        "12345.6789012345678",
    ]
    width = chance.randint(3, 6)
    rows = [[str(n), *chance.choices(cells, k=width - 1)] for n in range(chance.randint(800, 1_500))]
    file = io.StringIO(newline="")
    csv.writer(file, **{"lineterminator": "\n", **dialect}).writerows(
        [["id", *map("c{}".format, range(1, width))], *rows]
    )  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        "\ufeff" + TABLE,
        "Report of June\n\n" + TABLE + "\nSource: the warehouse\n",
        "Report by ACME, Inc.\n" + TABLE,
        "Here it is, Bob, as you asked.\n\n" + TABLE,
        TABLE.replace("\n", "\r\n"),
        TABLE.replace(",", ";").replace(".5", ",5"),
        TABLE.removesuffix("\n"),
        TABLE + "\n\n",
        TABLE.replace("7.5\n", "7.5\n\n"),
        ",0\n" + "".join(f"k{n},{n}\n" for n in range(2_000)),
        "id,name,value\n" + f"0,{'long ' * 400},1\n" + ROWS,
        "id,name,value\n" + "".join(f'{n},"{"日本" * 50} {n}",{n}.5\n' for n in range(300)),
        *(written(random.Random(seed)) for seed in range(6)),
        *(
            written(random.Random(seed), delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\r\n")
            for seed in range(4)
        ),
    ],
)
def test_a_table_that_passes_is_that_of_the_whole_text(text: str) -> None:
    [table] = read_whole(text).tables
    found = passed(text)
    assert isinstance(found, Passed), found
    assert (found.table.names, found.table.types, found.table.rows) == (table.names, table.types, table.rows)
    assert (found.table.parts, found.table.how, found.table.header) == (table.parts, table.how, table.header)
    source = text.removeprefix("\ufeff").encode()
    assert [(kind, words.strip()) for kind, words in found.around] == [
        (part.kind, source[part.start : part.end].decode().strip())
        for part in table.parts
        if part.kind in ("preamble", "footer")
    ]
    records = list(table.records())
    head, samples, tail = (rows_of(table, kept) for kept in (found.head, found.samples, found.tail))
    assert head and head == records[: len(head)]
    assert tail and tail == records[len(records) - len(tail) :] and len(head) + len(tail) < len(records)
    following = iter(records)
    assert (samples or len(records) < 500) and all(sample in following for sample in samples)


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (TABLE + "1,2\n" + ROWS, "unlike the others", 2_002),
        (TABLE + '1,5" disk,2\n' + ROWS, "no row ends", 2_002),
        (TABLE + '1,"5" disk,2\n' + ROWS, "unlike the others", 2_002),
        (TABLE + "sku,price,sold\n" + "".join(f"a{n},{n}.5,{n}\n" for n in range(900)), "unlike the others", 2_002),
        (TABLE + "x" * 40_000, "no row ends", 2_002),
        ("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 3_000, "has to be delimited", 1),
        ("[\n" + ROWS, "begins like JSON", None),
        ((TABLE + "ä,b,1\n").encode("latin-1"), "not UTF-8", None),
        (TABLE.replace("name", "nämé").encode("latin-1"), "not UTF-8", None),
        (TABLE.encode("latin-1") + b"\xff" * 9_000, "not UTF-8", None),
        (b"id,name\n" + bytes(range(256)) * 90, "not UTF-8", None),
        (TABLE.replace("name", "nämé").replace("\n", "\r").encode("latin-1"), "not UTF-8", None),
        ("ä" * 30_000, "", None),
        ("Dear all,\n\nthis is a letter, with commas, and no table.\nIt goes on, and on.\n\nBye\n" * 300, "", None),
    ],
)
def test_text_that_passes_and_stays_text(text: str | bytes, reason: str, line: int | None) -> None:
    found = passed(text)
    assert isinstance(found, NotATable), found
    assert reason in found.reason
    assert found.line == line


def test_more_than_the_first_window_decides_what_columns_are() -> None:
    found = passed(TABLE + "NA,name,7.5\n" + ROWS)
    assert isinstance(found, Passed)
    assert [kind.name for kind in found.table.types] == ["text", "text", "number"]
    long = passed(TABLE + "1,name,0.12345678901234567\n" + ROWS)
    assert isinstance(long, Passed)
    assert long.table.types[2].name == read_whole(TABLE + "1,name,0.12345678901234567\n" + ROWS).tables[0].types[2].name


@pytest.mark.parametrize("gap", ["\n", "\r\n", "\n\n", "\n \n\n"])
def test_json_lines_that_pass_are_the_array_of_them(gap: str) -> None:
    values = [{"id": n, "text": f"line {n}", "more": [{"a": "\n"}] * (n % 3)} for n in range(400)]
    text = gap.join(map(json.dumps, values)) + gap
    for seed in range(4):
        assert json.loads(joined(pieces(text.encode(), random.Random(seed)))) == values


def test_blanks_inside_of_a_string_are_of_the_string_wherever_a_piece_ends() -> None:
    values = [{"a": "x  \t y   ", "b": " " * n} for n in range(5)]
    text = b"  \n" + b" \r\n\t\n".join(json.dumps(value, ensure_ascii=False).encode() for value in values) + b" \n "
    text = text.replace(b"\\t", b" ")
    expected = json.loads(ndjson.joined(text.lstrip()) or b"")
    for size in range(1, 40):
        assert json.loads(joined(text[at : at + size] for at in range(0, len(text), size))) == expected
    formfeed = [b'{"a": 1}\n', b"\x0c\n", b'{"a": 2}\n']  # no blank of JSON's
    for array in (joined(formfeed), ndjson.joined(b"".join(formfeed)) or b"[]"):
        with pytest.raises(json.JSONDecodeError):
            json.loads(array)


def joined(pieces: Iterable[bytes]) -> bytes:
    joining = ndjson.Joining()
    return b"".join([*map(joining.passing, pieces), joining.end()])


def test_what_waits_for_the_end_of_a_row_is_not_read_with_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    detect = passing.dialects.detect
    monkeypatch.setattr(passing.dialects, "detect", lambda data, **more: seen.append(len(data)) or detect(data, **more))
    reader = Passing("csv")
    for piece in (b'a,"' + b"x" * 97, *[b"x" * 100] * 199):
        reader.feed(piece)
    assert isinstance(reader.finish(), NotATable)
    assert seen == [4_000, 8_000, 16_000, 16_100]
