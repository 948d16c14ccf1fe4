"""Delimited text and JSON lines that pass in pieces: what is found is what is found in the whole text."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator

import pytest

from byref_sandbox.tabletext import NotATable, Passed, Passing, Recognised, ndjson, passing, recognise

ROWS = "".join(f"{n},name {n},{n}.5\n" for n in range(2_000))
TABLE = "id,name,value\n" + ROWS


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "WINDOW", 4_000)
    monkeypatch.setattr(passing, "_LARGEST", 16_000)
    monkeypatch.setattr(passing, "_END_BYTES", 500)


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
        TABLE.replace("\n", "\r\n"),
        TABLE.replace(",", ";").replace(".5", ",5"),
        TABLE.removesuffix("\n"),
        TABLE + "\n\n",
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
    for kept, place in ((found.head, slice(None, 3)), (found.tail, slice(-3, None))):
        text_of = "\n".join(",".join(f'"{cell}"' for cell in records[0]) for _ in range(0)) + kept.decode()
        assert text_of and text_of in source.decode()
        assert records[place]
    assert source.startswith(found.head, next(part.start for part in table.parts if part.kind == "records"))


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (TABLE + "1,2\n" + ROWS, "unlike the others", 2_002),
        (TABLE + '1,5" disk,2\n' + ROWS, "no row ends", 1),
        (TABLE + '1,"5" disk,2\n' + ROWS, "unlike the others", 2_002),
        (TABLE + "sku,price,sold\n" + "".join(f"a{n},{n}.5,{n}\n" for n in range(900)), "unlike the others", 2_002),
        (TABLE + "x" * 40_000, "no row ends", 1),
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
        joining = ndjson.Joining()
        array = b"".join([*map(joining.passing, pieces(text.encode(), random.Random(seed))), joining.end()])
        assert json.loads(array) == values
