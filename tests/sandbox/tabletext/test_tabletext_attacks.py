"""Random tables with hostile cells: whatever is taken for a table balances, and is read alike in every way."""

from __future__ import annotations

import math
import random

import pytest

from byref_sandbox.tabletext import NotATable, Recognised, recognise
from byref_sandbox.tabletext import reading as readings

arrow = pytest.importorskip("byref_sandbox.tabletext.arrow")

VALUES = [
    ["1", "-20", "99999"],
    ["1.5", "20.25", "0.3"],
    ["28/01/2018", "01/02/2019", "31/12/1999"],
    ["2026-01-02", "2025-12-31"],
    ["true", "false"],
    ["alpha", "beta", "gamma x"],
]
HOSTILE = [
    *("+1", " 1", "1 ", "nan", "NA", "-0", "-0.0", "1e400", "1e-400", "1.5e-320", "1E5", "007", "", " ", "\u00a01", "\u2003"),
    *("\x1c1", ".5", "5.", "1,5", "1.234,5", "12345678901234567", "0.1234567890123456789", "tRue", " true", "2026-02-31"),
    *("2026-01-02 10:00", "2026-01-02T10:00:00Z", "31/02/2018", "1/2/2018", "1/28/2018", "31.02.2018", "30/02/0000"),
    *(" 28/01/2018", 'a"b', '"', '""', "a\nb", "a\r\nb", "a\rb", "\r", "a,b", ";", "\t", "a|b", "日本語", "e\u0301", "שלום"),
    *("\x00", "\ud800", "\ufeffx", "\x85", "\u2028", "\x0b", "\\", 'a\\"', "'", "x" * 300, "---", "+", "|", "NULL", "{", "１２"),
]  # fmt: skip
NAMES = ["id", "name", "a b", "day", "日", "x\ud800"]
MARKS = [
    '"',
    "'",
    ",",
    ";",
    "\t",
    "|",
    "\n",
    "\r",
    "\r\n",
    "\0",
    "\ufeff",
    "\ud800",
    "日",
    '""',
    '",',
    '\n"',
    "+--+",
    "---",
    "  ",
    "\\",
]


def table(draw: random.Random) -> tuple[list[str], list[list[str]]]:
    count, columns = draw.choice([2, 5, 20, 70, 300]), list[list[str]]()
    for _ in range(draw.randint(1, 6)):
        pool = draw.choice([*VALUES, HOSTILE]) + draw.choice([[], [""]])
        odd, share = draw.choice(HOSTILE), draw.choice([0, 0, 0.01, 0.1])
        columns.append([odd if draw.random() < share else draw.choice(pool) for _ in range(count)])
    header = [f"{draw.choice(NAMES if draw.random() < 0.05 else NAMES[:4])}{at}" for at in range(len(columns))]
    return header, [list(row) for row in zip(*columns, strict=True)]


def delimited(draw: random.Random, rows: list[list[str]]) -> tuple[str, tuple[str, str, str]]:
    """A text, and what is between its cells, around them, and between its rows."""
    delimiter, quote = draw.choice([",", ";", "\t", "|", ", ", "\x1f"]), draw.choice('""\'')
    ends, all_quoted = draw.choice([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n"]]), draw.random() < 0.3

    def cell(text: str) -> str:
        special = {delimiter.strip() or delimiter, quote, "\n", "\r"}
        if all_quoted or text != text.strip(" ") or any(mark in text for mark in special):
            return quote + text.replace(quote, quote * 2) + quote
        return text

    text = "".join(delimiter.join(map(cell, row)) + draw.choice(ends) for row in rows)
    return text, (delimiter, quote, ends[-1][-1])


def drawn(draw: random.Random, rows: list[list[str]]) -> str:
    rows = [[" ".join(cell.replace("|", "/").split()) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kind = draw.choice(["mysql", "psql", "tabulate", "markdown", "aligned", "expanded", "vertical"])
    if kind == "expanded":
        return "".join(
            f"-[ RECORD {number} ]\n" + "".join(f"{name:8} | {cell}\n" for name, cell in zip(rows[0], row, strict=True))
            for number, row in enumerate(rows[1:], 1)
        )
    if kind == "vertical":
        mark = "*" * 27
        return "".join(
            f"{mark} {number}. row {mark}\n"
            + "".join(f"{name:>8}: {cell}\n" for name, cell in zip(rows[0], row, strict=True))
            for number, row in enumerate(rows[1:], 1)
        )
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    if kind in ("psql", "aligned"):
        between, rule = (" | ", "-+-".join("-" * width for width in widths)) if kind == "psql" else ("  ", None)
        lines = [between.join(row) for row in padded]
        return "\n".join([lines[0], *([rule] if rule else []), *lines[1:], ""])
    lines = [f"| {' | '.join(row)} |" for row in padded]
    crossed = "+".join("-" * (width + 2) for width in widths)
    if kind == "markdown":
        return "\n".join([lines[0], f"|{crossed.replace('+', '|')}|", *lines[1:], ""])
    inner = f"|{crossed}|" if kind == "tabulate" else f"+{crossed}+"
    return "\n".join([f"+{crossed}+", lines[0], inner, *lines[1:], f"+{crossed}+", ""])


def spoilt(draw: random.Random, text: str) -> str:
    characters = list(text)
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        at = draw.randrange(len(characters) + 1)
        if draw.random() < 0.7:
            characters.insert(at, draw.choice(MARKS))
        else:
            del characters[at : at + 1]
    return "".join(characters)


def check(text: str, format: str | None = None) -> Recognised | NotATable:
    """Whatever is a table balances, and all ways to its records agree."""
    found = recognise(text, format)
    if isinstance(found, NotATable):
        return found
    data = text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")
    parts = [part for table in found.tables for part in table.parts]
    assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == len(data)
    reading = readings.from_text(readings.to_text(readings.reading_of(found)))
    source = readings.decoded(reading, text.encode("utf-8", "surrogatepass"))
    for table, again in zip(found.tables, reading.tables, strict=True):
        rows = list(table.records())
        names = [column.name for column in again.columns]
        assert len(rows) == table.rows
        assert [tuple(row) for row in again.how.rows(source, names)] == rows
        columns, extra = readings.cells(again, source)
        records = readings.records(again, source)
        assert len(records) == table.rows and all(len(column) == table.rows for column in columns)
        values = [readings.values_of(column, cells) for column, cells in zip(again.columns, columns, strict=True)]
        for column, cells, made in zip(again.columns, columns, values, strict=True):
            for cell, value in zip(cells, made, strict=True):
                assert (value is None) == (not cell or (column.type != "text" and not cell.strip())), (column, cell)
                assert column.type != "text" or not cell or value == cell
                assert column.type != "integer" or not value or str(value) == cell.strip()
                assert not isinstance(value, float) or math.isfinite(value) is True, cell
        fast = arrow.read(again, source)
        if fast is not None and not extra:
            for column, theirs, ours in zip(again.columns, fast.columns, values, strict=True):
                assert list(map(repr, theirs.to_pylist())) == list(map(repr, ours)), column
        if isinstance(again.how, readings.Delimited) and not extra and again.how.spans:
            start, end = again.how.spans[0].start, again.how.spans[-1].end
            assert readings.records_at(again, source, start) == records
            some = readings.records_at(again, source, start, max(1, (end - start) // 3))
            assert some and some == records[: len(some)]
            kept = iter(records)
            assert all(any(odd == record for record in kept) for odd in readings.odd_records(again, source))
    return found


def attack(seed: int) -> None:
    draw = random.Random(seed)
    header, rows = table(draw)
    way = draw.choice(["whole", "whole", "spoilt", "ragged", "drawn", "spoilt drawn"])
    if way == "ragged":
        for row in rows:
            if draw.random() < 0.05:
                row.append(draw.choice(HOSTILE)) if draw.random() < 0.5 else row.pop()
    if "drawn" in way:
        text = drawn(draw, [header, *rows])
        check(spoilt(draw, text) if "spoilt" in way else text, draw.choice([None, None, "box", "aligned", "csv"]))
        return
    text, (delimiter, quote, newline) = delimited(draw, [header, *rows])
    if way == "spoilt":
        text = spoilt(draw, text)
    found = check(text, draw.choice([None, None, "csv"]))
    if way != "whole" or isinstance(found, NotATable) or len(found.tables) > 1:
        return
    [one] = found.tables
    dialect = one.dialect
    if dialect is None or (dialect.delimiter, dialect.escape, dialect.newline) != (delimiter, "doubled", newline):
        return  # of very few rows, two dialects may be as good
    if dialect.quote in (None, quote) and {part.kind for part in one.parts} <= {"header", "records"}:
        assert [list(record) for record in one.records()] == (rows if one.header else [header, *rows])


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(500, 8_000, 500))]
)
def test_whatever_is_a_table_is_read_alike_in_every_way(first: int) -> None:
    for seed in range(first, first + (60 if first == 0 else 500)):
        try:
            attack(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize(
    "text",
    [
        # A column of numbers with many digits, and of dates.
        "id,day,v\n1,2026-01-02,1e5\n2,2026-01-03,2026-01-04\n3,2026-01-05,1.5\n",
        # Beyond what a float holds.
        "id,v\n" + "".join(f"{n},1e400\n" for n in range(20)),
        "id,v\n" + "".join(f"{n},1.2345e-400\n" for n in range(20)),
        # Line ends of other kinds within cells, with quotes elsewhere.
        'a:b:c\n1:x\x0b:"\\"""\n2:y\r:z\n3:y\rz:z\n4:w:v\n',
        "67522,'\n',alpha\r67522,x\r1,2,delta\r67522,\t,gamma\r",
        # Days that no month has, and cells of blanks, in a notation that is not ISO 8601's.
        "id;day\n"
        + "".join(f"{n};28/01/2018\n" for n in range(20))
        + "21;31/02/2018\n22; \n23;30/02/0000\n24;\u2003\n",
        "id;day\n" + "".join(f"{n};28.1.2018\n" for n in range(20)) + '21;" 31.02.2018 "\n22;""\n',
        # A byte order mark in a cell, blanks that only Python knows, and names that no JSON may have.
        "id|n\n" + "".join(f"\ufeffx{n}|{n}\n" for n in range(20)),
        "id,n\n" + "".join(f"{n},{n}\n" for n in range(20)) + "20,\x1c\r5\n",
        "id,n\n" + "".join(f"{n},0.123456789\n" for n in range(20)) + "20,\x1c1\n21,\x1c1.25\n",
        # A line end of another kind behind a text, and the same inside of quotes.
        "id|v\n" + "".join(f"{n}|x{n}\n" for n in range(20)) + "20|.5\r\n21|x\n",
        "id|v\n" + "".join(f'{n}|"x\r\n{n}"\n' for n in range(20)) + '20|"x"\r\n',
        # A delimiter of two characters, of which one ends a cell, and a character of two bytes behind it.
        "".join(f'{n}, "a", {n}\n' for n in range(20)) + '20, "b",\u00a0c\n21, "b"\r\u00a0c, 5\n',
        "a\ud800,b\n" + "".join(f"x{n},{n}\n" for n in range(20)),
        # The sample ends inside of a character.
        "─" * 30_000 + "\n1,2\n3,4\n",
        'x"' + "日" * 30_000 + "\n1,2\n3,4\n",
    ],
)
def test_what_went_wrong_once(text: str) -> None:
    for format in (None, "csv"):
        for shift in ("", "x"):
            check(shift + text, format)


def test_a_quote_inside_of_quotes_hides_no_rows() -> None:
    attack(2271)


def test_numbers_beyond_a_float_stay_text() -> None:
    for cell in ("1e400", "-1.5e999", "1e-400", "1.2345e-320"):
        found = recognise("id;v\n" + "".join(f"{n};{cell}\n" for n in range(20)))
        assert isinstance(found, Recognised) and found.tables[0].types[1].name == "text", cell


def test_rules_that_begin_with_a_bar_are_no_records() -> None:
    for rule, names in (("|------|", "| name |"), ("|------+----|", "| name | id |")):
        width = names.count("|") - 1
        row = "| " + " | ".join("xy" for _ in range(width)) + " |"
        edge = rule.replace("|", "+")
        [one] = recognise("\n".join([edge, names, rule, row, row, edge, ""])).tables  # type: ignore[union-attr]
        assert (one.header, one.rows) == (tuple(names.strip("| ").split(" | ")), 2)


def test_a_line_with_nothing_below_the_first_name_is_not_shifted() -> None:
    text = (
        "value0    value1    id2         id3      value4\n77003     13045     28/01/2018  alpha    94251\n"
        "          76892     01/02/2019  gamma x  64032\n"
    )
    found = recognise(text)
    rows = [list(row) for row in found.tables[0].records()] if isinstance(found, Recognised) else []
    assert all(row[1:] != ["01/02/2019", "gamma", "x", "64032"] for row in rows)


def test_the_line_of_a_fault_is_that_of_the_text() -> None:
    """Also behind many tables, whose lines nobody counts again for each of them."""
    table = " a | b \n---+---\n 1 | 2\n(1 row)\n\n"
    found = recognise(table * 300 + " id | name \n----+------\n  1 | long.\n    |.er\n")
    assert isinstance(found, NotATable) and found.line == 1_504


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(" a | b \n---+---\n 1 | 2\n(1 row)\n\n", marks=pytest.mark.slow),
        "NAME     READY   STATUS\nweb-1    1/1     Running\nweb-2    1/1     Running\n\n",
    ],
)
def test_a_text_of_very_many_tables_stays_text(text: str) -> None:
    """To begin one takes as long as to read a hundred rows of it."""
    found = recognise(text * 1_000)
    assert isinstance(found, Recognised) and len(found.tables) == 1_000
    many = recognise(text * 1_001)
    assert isinstance(many, NotATable)
    assert (many.reason, many.line) == ("it has more than 1,000 tables", 1_000 * text.count("\n") + 1)


def test_records_with_ever_new_members_stay_text() -> None:
    """A table has a cell for each name in each record: of so many names most cells would be empty."""
    text = "".join(f"-[ RECORD {number} ]\nc{number} | x\n" for number in range(1, 1_101))
    found = recognise(text)
    assert isinstance(found, NotATable) and "1,100 different members" in found.reason
    some = recognise("".join(f"-[ RECORD {number} ]\nc{number % 9} | x\n" for number in range(1, 1_101)))
    assert isinstance(some, Recognised) and some.tables[0].rows == 1_100
