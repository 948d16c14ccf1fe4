"""Text that is a table: what is read of it, what of it stays text, and where that failed."""

from __future__ import annotations

import csv
import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byref_sandbox.tabletext import NotATable, Recognised, Table, delimited, dialects, recognise
from byref_sandbox.tabletext.kinds import kind_of, type_of
from byref_sandbox.tabletext.result import Dialect
from byref_sandbox.tabletext.rows import MAX_CELLS, Reader

BODY = "".join(f"{n},name {n},{n}.5,2026-01-{n:02}\n" for n in range(10, 30))
HEADER = "id,name,value,day\n"
TYPES = ["integer", "text", "number", "date"]


def tables_of(text: str | bytes, format: str | None = None) -> tuple[Table, ...]:
    found = recognise(text, format)
    assert isinstance(found, Recognised), str(found)
    data = text.removeprefix("\ufeff").encode() if isinstance(text, str) else text
    for table in found.tables:
        records = list(table.records())
        assert len(records) == table.rows
        assert len(table.names) == len(set(table.names)) == len(table.types)
        ragged = sum(len(record) != len(table.names) for record in records)
        assert ragged == table.ragged_rows
    if found.encoding == "utf-8":
        parts = [part for table in found.tables for part in table.parts]
        assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
        assert parts[-1].end == len(data.removeprefix(b"\xef\xbb\xbf"))
    return found.tables


def table_of(text: str | bytes, format: str | None = None) -> Table:
    [table] = tables_of(text, format)
    return table


def types_of(table: Table) -> list[str]:
    return [kind.name for kind in table.types]


def kinds_of_parts(table: Table) -> list[str]:
    return [part.kind for part in table.parts]


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", ", ", "\x1f"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_delimiters_newlines_and_quotes(delimiter: str, newline: str, quoting: int) -> None:
    rows = [["id", "name", "value", "day"]]
    rows += [
        [str(n), f'a{delimiter}"b", {n}\nc' if n % 7 == 0 else f"name {n}", f"{n}.5", "2026-01-02"] for n in range(40)
    ]
    written = io.StringIO(newline="")
    csv.writer(written, delimiter="\0", quoting=quoting, lineterminator="\1").writerows(rows)
    text = "".join(
        delimiter.join(
            cell
            if quoting == csv.QUOTE_MINIMAL and not set(cell) & {*delimiter, '"', "\n"}
            else '"' + cell.replace('"', '""') + '"'
            for cell in row
        )
        + newline
        for row in rows
    )
    table = table_of(text)
    assert table.dialect is not None
    assert (table.dialect.delimiter, table.dialect.newline) == (delimiter, newline[-1])
    assert table.header == tuple(rows[0])
    assert [list(record) for record in table.records()] == rows[1:]
    assert types_of(table) == TYPES


def test_what_is_read_is_what_was_written() -> None:
    """Rows of any cells, written by Python's own writer, come back as they are."""
    random_ = random.Random(5)
    cells = ["", "1", "2.5", "a b", 'say "x"', "a,b", "line\nfeed", "NA", "007", "2026-01-02", "ü", "'", '"', '""', ","]
    for _ in range(20):
        width, header = random_.randint(3, 6), [f"c{n}" for n in range(6)]
        rows = [[str(n), *random_.choices(cells, k=width - 1)] for n in range(random_.randint(5, 90))]
        written = io.StringIO(newline="")
        csv.writer(written, lineterminator="\n").writerows([header[:width], *rows])
        table = table_of(written.getvalue(), "csv")
        assert [list(record) for record in table.records()] == rows
        assert table.ragged_rows == 0


@pytest.mark.parametrize(
    ("text", "parts", "rows"),
    [
        (HEADER + BODY, ["header", "records"], 20),
        ((HEADER + BODY).removesuffix("\n"), ["header", "records"], 20),
        (HEADER + BODY + "\n\n", ["header", "records", "blank"], 20),
        (BODY, ["records"], 20),
        ("Report of June\n\n" + HEADER + BODY, ["preamble", "header", "records"], 20),
        ("Report,,,\n,,,\n" + HEADER + BODY, ["preamble", "header", "records"], 20),
        (HEADER + BODY + "20 rows\n", ["header", "records", "footer"], 20),
        (HEADER + BODY + "\nSource: the warehouse\n", ["header", "records", "footer"], 20),
        (HEADER + BODY + "1,2\n", ["header", "records", "ragged"], 21),
        (HEADER + "1,2,3,4,5\n" + BODY, ["header", "ragged", "records"], 21),
    ],
)
def test_parts(text: str, parts: list[str], rows: int) -> None:
    table = table_of(text)
    assert (kinds_of_parts(table), table.rows, types_of(table)) == (parts, rows, TYPES)
    assert (table.header is None) == (not any(part == "header" for part in parts))


def test_header_of_several_rows() -> None:
    table = table_of("id,name,value,day\nno,text,kg,date\n" + BODY)
    assert table.names == ("id no", "name text", "value kg", "day date")
    assert types_of(table) == TYPES


def test_tables_below_one_another() -> None:
    first, second = tables_of(
        HEADER + BODY + "sku,price,sold\n" + "".join(f"a{n},{n}.5,2026-01-02\n" for n in range(9))
    )
    assert (first.rows, second.rows, second.names) == (20, 9, ("sku", "price", "sold"))


@pytest.mark.parametrize(
    ("odd", "cells", "line"),
    [
        ('9,"name,1.5,2026-01-02\n', ("9", '"name', "1.5", "2026-01-02"), 12),
        ('9,na"me,1.5,2026-01-02\n', ("9", 'na"me', "1.5", "2026-01-02"), None),
        ('9,"5" pipe",1.5,2026-01-02\n', ("9", '5" pipe', "1.5", "2026-01-02"), 12),
        ('9,""name",1.5,2026-01-02\n', ("9", '"name', "1.5", "2026-01-02"), 12),
        ('9,"a\nb",1.5,2026-01-02\n', ("9", "a\nb", "1.5", "2026-01-02"), None),
    ],
)
def test_wrong_quotes_cost_no_row(odd: str, cells: tuple[str, ...], line: int | None) -> None:
    lines = BODY.splitlines(keepends=True)
    table = table_of(HEADER + "".join(lines[:10]) + odd + "".join(lines[10:]))
    records = list(table.records())
    assert (table.rows, table.ragged_rows, records[10]) == (21, 0, cells)
    assert types_of(table) == TYPES
    assert list(table.repaired) == ([line] if line else [])


def test_quotes_that_nothing_escapes_and_backslashes() -> None:
    bare = HEADER + "".join(f'{n},"a "quoted" word, {n}",1.5,2026-01-02\n' for n in range(30))
    table = table_of(bare)
    assert (table.dialect and table.dialect.escape, next(table.records())[1]) == ("none", 'a "quoted" word, 0')
    escaped = HEADER + "".join(f'{n},"a \\"quoted\\" word, {n}",1.5,2026-01-02\n' for n in range(30))
    table = table_of(escaped)
    assert (table.dialect and table.dialect.escape, next(table.records())[1]) == ("backslash", 'a "quoted" word, 0')


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2", ""], ("integer", "", True)),
        (["1", "1.0"], ("number", "", False)),
        (["1", "-2.5e3"], ("number", "", False)),
        ([".5", "-.25", "1"], ("number", "", False)),
        ([".12329346", "-.5049508e-3", "0"], ("number", "", False)),
        ([".1234567890123456789"], ("text", "", False)),
        (["40300.619960000004", "0.0009994544618837939", "-0.30000000000000004"], ("number", "", False)),
        (["0.12345678901234567"], ("text", "", False)),
        (["1234567890123456.7"], ("text", "", False)),
        (["3504."], ("text", "", False)),
        (["0.30000000000000004"], ("number", "", False)),
        (["0.3000000000000000412345"], ("text", "", False)),
        (["123456789012345"], ("integer", "", False)),
        (["1234567890123456"], ("text", "", False)),
        (["1", "007"], ("text", "", False)),
        (["+1"], ("text", "", False)),
        (["-0"], ("text", "", False)),
        (["1", "NA"], ("text", "", False)),
        (["1", "nan"], ("text", "", False)),
        (["1", "NULL"], ("text", "", False)),
        (["1_000"], ("text", "", False)),
        (["0x10"], ("text", "", False)),
        (["1,5", "2"], ("number", "1,5", False)),
        (["1,5", "2.5"], ("text", "", False)),
        (["true", "False"], ("boolean", "", False)),
        (["true", "1"], ("text", "", False)),
        (["2026-01-02"], ("date", "", False)),
        (["2026-13-02"], ("text", "", False)),
        (["2026-01-02", "2026-01-02 10:00"], ("text", "", False)),
        (["2026-01-02T10:00:00.5"], ("datetime", "", False)),
        (["2026-01-02T10:00:00Z", "2026-01-02T10:00:00+01:00"], ("datetime", "with zone", False)),
        (["28/01/2018", "1/2/2018"], ("date", "day/month/year", False)),
        (["1/28/2018", "1/2/2018"], ("date", "month/day/year", False)),
        (["1/2/2018", "3/4/2018"], ("text", "", False)),
        (["28/01/2018", "1/28/2018"], ("text", "", False)),
        (["28.01.2018"], ("date", "day.month.year", False)),
        (["", ""], ("empty", "", True)),
    ],
)
def test_types(cells: list[str], expected: tuple[str, str, bool]) -> None:
    assert type_of({kind_of(cell) for cell in cells}) == expected
    # The expression that matches rows knows the same kinds as the function that reads cells.
    rows = cells * 200
    table = table_of("id;value\n" + "".join(f"{n};{cell}\n" for n, cell in enumerate(rows)))
    assert table.types[1] == expected
    assert [record[1] for record in table.records()] == rows


def test_a_late_cell_changes_the_type_of_its_column() -> None:
    text = "id,value\n" + "".join(f"{n},{n}\n" for n in range(3_000))
    for late, expected in (("x", "text"), ("1.5", "number"), ("", "integer"), ("0123", "text")):
        table = table_of(f"{text}3000,{late}\n{text.split(chr(10), 1)[1]}")
        assert (table.types[1].name, table.types[1].nullable, table.rows) == (expected, late == "", 6_001)
    words = text.replace(",", ",word ")
    for late, expected in (("", True), ('""', True), (" ", False), ('" "', False)):
        table = table_of(f"{words}3000,{late}\n{words.split(chr(10), 1)[1]}")
        assert table.types[1] == ("text", "", expected)


def test_words_in_cells_do_not_hide_what_divides_them() -> None:
    """Blanks give the rows, though not the header, more cells than commas."""
    table = table_of("id,code,note\n" + "".join(f"{n},code {n},a longer note about {n}\n" for n in range(50)))
    assert (table.names, table.rows) == (("id", "code", "note"), 50)


def test_names_in_quotes_and_blanks_between_as_r_writes_them() -> None:
    for quote in "\"'":
        header = " ".join(f"{quote}{name}{quote}" for name in ("OBS", "GPA", "PSI"))
        table = table_of(header + "\n" + "".join(f"{n} {n}.5 0\n" for n in range(20)))
        assert (table.names, table.rows) == (("OBS", "GPA", "PSI"), 20)


def test_a_quote_that_nothing_closes_hides_no_rows() -> None:
    table = table_of('"id,name,price,sold\n' + "".join(f"{n},name {n},1.5,2026-01-02\n" for n in range(500)))
    assert (len(table.names), table.rows) == (4, 500)


def test_cells_longer_than_the_sample() -> None:
    """Long cells with line ends of another kind, of which the first look cuts one."""
    rows = [[str(n), f"title {n}", "".join(f'It, {k},\r\rsays "{k}"; \n' for k in range(400)), "x"] for n in range(30)]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([["id", "title", "text", "mark"], *rows])
    table = table_of(file.getvalue())
    assert [list(record) for record in table.records()] == rows


def test_names_are_kept_apart() -> None:
    table = table_of("a,a,,b,,a_2\n" + "".join(f"{n},1.5,2,3,4,5\n" for n in range(20)))
    assert table.names == ("a", "a_3", "column_3", "b", "column_5", "a_2")
    assert table.header == ("a", "a", "", "b", "", "a_2")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("one line", None),
        ("Dear all,\n\nthis is a letter, with commas, and no table.\nIt goes on, and on.\n\nBye\n", None),
        ("First, a line.\nThen, another.\nAnd, a third.\n", None),
        ("A list, of two words, to each comma\n" + "Then one more, and so on, up to this\n" * 20, None),
        ("".join(f"2026-01-02 10:00:{n:02} INFO worker {n} is ready\n" for n in range(60)), None),
        ("".join(f"key{n}: value {n}\n" for n in range(30)), None),
        ("[section]\nname = value\nother = 1\n", None),
        ("c0\nv0\na;b\n", None),  # duckdb#25827: not a table of two columns without rows
        ("a,b\n" + "1,2\n" * 3_000 + "1,2,3\n" * 3_000, 3_002),  # duckdb#25827: rows grow wider in the middle
        ("a,b\n" + "1,2\n" * 3_000 + "1,2,3\n" * 20_000, 3_002),
        ("def f(a, b):\n    return g(a, b)\n\n\nclass A:\n    x = 1, 2\n", 5),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 | 5 |\n", 4),
        ("+---+---+\n| a | b |\n+---+---+\n| 1 | 2\nx |\n+---+---+\n", 4),
        (" id | name \n----+------\n  1 | long.\n    |.er\n(1 row)\n", 4),
        ("<table><tr><td>1</td></tr></table>", None),
    ],
)
def test_text_that_stays_text(text: str, line: int | None) -> None:
    found = recognise(text)
    assert isinstance(found, NotATable), found
    assert found.line == line
    assert found.reason


def test_reports_of_others() -> None:
    """Texts like those on which others' sniffers fail."""
    # duckdb#15576: a title, then semicolons, and commas inside of cells.
    table = table_of(
        "Estrazione del 2025-01-06\nid;name;lat\n" + "".join(f'{n};"A, ""B"" {n}";45,{n}5\n' for n in range(50))
    )
    assert (table.names, table.rows, kinds_of_parts(table)[0]) == (("id", "name", "lat"), 50, "preamble")
    assert table.types[2] == ("number", "1,5", False)
    # duckdb#3193: one cell has a bar, which divides nothing.
    table = table_of("id1,id2,text\n" + "".join(f"{n},{n},{'a | b' if n == 25 else 'a'}\n" for n in range(50)))
    assert (table.names, table.ragged_rows) == (("id1", "id2", "text"), 0)
    # duckdb#9343: rows do not all have as many commas, while something else divides all lines alike, and the first has names.
    lines = [f'{n},"Last, First {n}",2023-10-{1 + n % 28:02} 10:00:00{"," if n % 17 == 0 else ""}' for n in range(90)]
    table = table_of("\n".join(["id,full name,seen at", *lines]) + "\n")
    assert (table.names, table.rows, table.ragged_rows) == (("id", "full name", "seen at"), 90, 6)
    assert table.dialect is not None and table.dialect.delimiter == ","
    # duckdb#16251: an escaped quote first comes behind the sample.
    table = table_of("id,value\n" + "".join(f"{n},a\n" for n in range(2_047)) + '2048,""","\n')
    assert (table.rows, [*table.records()][-1]) == (2_048, ("2048", '",'))
    # duckdb#18403: rows end with one cell more than the header has: none is dropped, and no row becomes the header.
    found = recognise("id,price,side\n" + "".join(f"{n},0.5,sell,0\n" for n in range(9)))
    if isinstance(found, Recognised):
        assert found.tables[0].rows == 9


def test_encodings() -> None:
    text = HEADER + BODY.replace("name", "Ärger")
    for data, encoding in (
        (text.encode(), "utf-8"),
        (text.encode("utf-8-sig"), "utf-8"),
        (text.encode("utf-16"), "utf-16"),
        (text.encode("cp1252"), "cp1252"),
    ):
        found = recognise(data)
        assert isinstance(found, Recognised)
        assert (found.encoding, next(found.tables[0].records())[1]) == (encoding, "Ärger 10")


ROWS = [("1", "a|b", "1.5"), ("2", "line\ntwo", "-3"), ("3", "日本語", "4.25")]


@pytest.mark.parametrize(
    ("text", "format", "rows"),
    [
        (" id |  name   |  v   \n----+---------+------\n  1 | a|b     |  1.5\n  2 | line   +|   -3\n    | two     |     \n  3 | 日本語  | 4.25\n(3 rows)\n\n", "box", ROWS),
        ("+----+--------+------+\n| id | name   | v    |\n+----+--------+------+\n|  1 | a|b    |  1.5 |\n|  3 | 日本語 | 4.25 |\n+----+--------+------+\n2 rows in set (0.00 sec)\n", "box", [ROWS[0], ROWS[2]]),
        ("┌────┬────────┬──────┐\n│ id │ name   │ v    │\n├────┼────────┼──────┤\n│ 1  │ a|b    │ 1.5  │\n│ 3  │ 日本語 │ 4.25 │\n└────┴────────┴──────┘\n", "box", [ROWS[0], ROWS[2]]),
        ("+----+------+------+\n| id | name | v    |\n+====+======+======+\n| 1  | a|b  | 1.5  |\n+----+------+------+\n| 2  | line | -3   |\n|    | two  |      |\n+----+------+------+\n", "box", ROWS[:2]),
        ("| id | name | v |\n|---:|:-----|---|\n| 1 | a\\|b | 1.5 |\n| 3 | 日本語 | 4.25 |\n", "markdown", [ROWS[0], ROWS[2]]),
        ("id | name | v\n--- | --- | ---\n1 | a\\|b | 1.5\n3 | 日本語 | 4.25\n", "markdown", [ROWS[0], ROWS[2]]),
        ("==  ======  ====\nid  name    v\n==  ======  ====\n1   a|b     1.5\n3   日本語  4.25\n==  ======  ====\n", "aligned", [ROWS[0], ROWS[2]]),
        ("id  name    v\n--  ------  ----\n1   a|b     1.5\n3   日本語  4.25\n", "aligned", [ROWS[0], ROWS[2]]),
        ("-[ RECORD 1 ]\nid   | 1\nname | a|b\nv    | 1.5\n-[ RECORD 2 ]\nid   | 2\nname | line+\n     | two\nv    | -3\n\n", "expanded", ROWS[:2]),
        ("*************************** 1. row ***************************\n  id: 1\nname: a|b\n   v: 1.5\n*************************** 2. row ***************************\n  id: 3\nname: 日本語\n   v: 4.25\n2 rows in set (0.00 sec)\n", "expanded", [ROWS[0], ROWS[2]]),
    ],
)  # fmt: skip
def test_tables_of_terminals_and_markup(text: str, format: str, rows: list[tuple[str, ...]]) -> None:
    table = table_of(text)
    assert (table.format, table.names, [*table.records()]) == (format, ("id", "name", "v"), rows)
    assert types_of(table) == ["integer", "text", "number"]


@pytest.mark.parametrize(
    ("text", "names", "last"),
    [
        (
            "Filesystem     1K-blocks    Used Available Use% Mounted on\noverlay         61611820 9000000  52611820  15% /\n"
            "tmpfs              65536       0     65536   0% /dev\n",
            ("Filesystem", "1K-blocks", "Used", "Available", "Use%", "Mounted on"),
            ("tmpfs", "65536", "0", "65536", "0%", "/dev"),
        ),
        (
            "NAME     READY   STATUS    RESTARTS     AGE   NOMINATED NODE\nweb-1    1/1     Running   0            3d    <none>\n"
            "web-22   1/1     Running   1 (2d ago)   3d    <none>\n",
            ("NAME", "READY", "STATUS", "RESTARTS", "AGE", "NOMINATED NODE"),
            ("web-22", "1/1", "Running", "1 (2d ago)", "3d", "<none>"),
        ),
        (
            "USER  PID %CPU %MEM COMMAND\nroot    1  0.0  0.1 /sbin/init splash\nroot 12345  1.5 10.1 python -m x --y\n",
            ("USER", "PID", "%CPU", "%MEM", "COMMAND"),
            ("root", "12345", "1.5", "10.1", "python -m x --y"),
        ),
        (
            "               total        used        free\nMem:        24602372     5020480     1204316\nSwap:              0           0           0\n",
            ("column_1", "total", "used", "free"),
            ("Swap:", "0", "0", "0"),
        ),
    ],
)
def test_columns_that_blanks_keep_apart(text: str, names: tuple[str, ...], last: tuple[str, ...]) -> None:
    table = table_of(text)
    assert (table.names, [*table.records()][-1]) == (names, last)


def test_hostile_text_ends() -> None:
    """Nothing here takes more than a moment; each ends as text or as a table."""
    for text in (
        b"x," * 200_000,
        b'"' * 200_000,
        b'",\n' * 30_000,
        b'a,b,"c\n' * 8_000,
        b'"a" "b",c\n' * 8_000,
        b'a,"b c' * 50_000,
        (b'x, "y' * 30_000 + b'" ,z\n') * 2,
        b"|" * 300_000,
        b"-" * 300_000 + b"\n|",
        b"| a |\n|---|\n" * 1_000,
        b"+-+\n|a|\n+-+\n" * 1_000,
        b"A B C\n" + b"a  b  c\n" * 5_000,
        (",".join(f"c{n}" for n in range(21_000)) + "\n").encode() * 3,
        b'{"a": ' * 50_000,
        b"\x00" * 100_000,
        b"a,b\n\xff\xfe,1\n" * 1_000,
        bytes(range(256)) * 400,
    ):
        found = recognise(text)
        assert isinstance(found, NotATable | Recognised)


@pytest.mark.parametrize("line", [b"x," * 50_000, b'"x",' * 50_000, b'x,"y' * 50_000, b'x,"y"z' * 50_000], ids=str)
def test_a_line_without_end_makes_few_cells(line: bytes) -> None:
    reader = Reader(line + b"\n" + line, Dialect(","))
    assert len(reader.read(0).cells) == MAX_CELLS + 1
    assert isinstance(recognise(line + b"\n" + line), NotATable)


@given(st.text('",ab\n', max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12))
def test_a_closing_quote_is_found_wherever_one_has_looked_before(text: str, looked: list[tuple[int, int]]) -> None:
    data = text.encode()
    reader = Reader(data, Dialect(","))
    for at, end in looked:
        at, end = sorted((min(at, len(data)), min(end, len(data))))
        found, expected = reader._closing(at, end), reader._close.search(data, at)
        if expected is not None and expected.end() > end:
            expected = None
        assert (found and found.span()) == (expected and expected.span())


@pytest.mark.parametrize("format", [None, "csv"])
def test_rows_in_too_many_pieces_are_no_table(monkeypatch: pytest.MonkeyPatch, format: str | None) -> None:
    """Each blank row, and each row that has to be read by itself, takes a hundred times the time of one that is matched."""
    monkeypatch.setattr(delimited, "_MAX_PIECES", 300)
    monkeypatch.setattr(delimited, "_MAX_SINGLE", 1_000)
    apart = HEADER + BODY.replace("\n", "\n\n") * 10
    assert table_of(apart, format).rows == 200
    found = recognise(apart + BODY.replace("\n", "\n\n") * 10, format)
    assert isinstance(found, NotATable) and (found.reason, found.line) == (
        "blank rows divide the others into more than 300 pieces",
        604,
    )
    single = 'id,name,value\n1,"a\nb",5\n' + "".join(f'{n},5" disk,{n}\n' for n in range(900))
    assert table_of(single, format).rows == 901
    found = recognise(single + "".join(f'{n},5" disk,{n}\n' for n in range(900)), format)
    assert isinstance(found, NotATable) and "rows have to be read one by one" in found.reason


def test_line_ends_of_another_kind_are_text_where_no_quotes_are() -> None:
    for newline, other in (("\n", "\r"), ("\r\n", "\r"), ("\r", "\n")):
        rows = [[str(n), f"a{other}b{n}", f"{n}.5"] for n in range(100)]
        text = "".join(",".join(row) + newline for row in [["id", "name", "value"], *rows])
        table = table_of(text)
        assert [*map(list, table.records())] == rows
        scan = delimited.Scan(text.encode(), table.dialect or dialects.Dialect(","), 0, 3)
        assert isinstance(scan.table(force=False), Table)
        assert scan._single < 10


@pytest.mark.parametrize("last", ["{0}", "text {0}", '"a\r\nb {0}"', '"{0}"', "", "a\r{0}"])
def test_files_whose_lines_end_otherwise_are_one_table_together(last: str) -> None:
    rows = [f"{n},name {n},{last.format(n)}" for n in range(300)]
    expected = [next(csv.reader([row], strict=True)) if "\r\n" in row or '"' in row else row.split(",") for row in rows]
    for first, second, change in (("\n", "\r\n", 1), ("\n", "\r\n", 100), ("\r\n", "\n", 100), ("\r\n", "\n", 299)):
        lines = ["id,name,value", *rows]
        text = "".join(line + (first if at < change else second) for at, line in enumerate(lines))
        for title in ("", f"A report of May{first}"):
            table = table_of(title + text)
            assert [list(record) for record in table.records()] == expected
            assert (table.header, table.ragged_rows) == (("id", "name", "value"), 0)
            scan = delimited.Scan(text.encode(), table.dialect or dialects.Dialect(","), 0, 3)
            assert isinstance(scan.table(force=False), Table)
            assert scan._single < 10


def test_what_is_written_where_there_is_no_value_is_no_name() -> None:
    rows = "".join(f"city {n},{n}.5\n" for n in range(9))
    for word in ("n/a", "NULL", "None", "n.v.", "(none)", "н/д", "Нет данных", "なし", "无"):
        table = table_of(f"Oslo,{word}\n" + rows)
        assert (table.header, table.rows) == (None, 10)
    assert table_of("city,nulls\n" + rows).header == ("city", "nulls")
    assert table_of("kind,some,none\n" + "".join(f"k{n},{n},{n + 1}\n" for n in range(9))).header is not None


def test_a_format_that_is_stated_needs_no_evidence() -> None:
    assert isinstance(recognise("a,b\n1,2\n"), NotATable | Recognised)
    assert table_of("x,y\nred,blue\n", "csv").rows == 1
    assert table_of("x,y\n", "csv").header == ("x", "y")
    with pytest.raises(ValueError, match="no format 'xml' of tables"):
        recognise("", "xml")


def test_numbers_alone_need_no_names() -> None:
    for rows in (["1 -2.5 1e3", "4 0.5 2e3", "7 8 9e9"] * 3, ["0.5 1", "2 3.25"] * 5):
        table = table_of("\n".join(rows))
        assert (table.header, table.rows) == (None, len(rows))
        assert {type_.name for type_ in table.types} <= {"integer", "number"}
    assert isinstance(recognise("\n".join(["1 2 3", "4 five 6"] * 9)), NotATable)


def test_names_with_a_delimiter_too_many_below_a_preamble() -> None:
    lines = ["Series: LNS14", "", "Seasonally adjusted", "Age: 16 and over", "", "id,year,period,value,"]
    table = table_of("\n".join([*lines, *(f"LNS,{1959 + n},Q{1 + n % 4},{n / 2}" for n in range(40))]))
    assert table.names == ("id", "year", "period", "value")
    assert [part.kind for part in table.parts] == ["preamble", "header", "records"]


def test_quotes_around_all_cells_tell_a_table_from_prose() -> None:
    lines = [f'"V{n}","Do you often long for {n} excitements, and for whose company?"' for n in range(12)]
    assert table_of("\n".join(['"","Content"', *lines])).rows == 12
    assert isinstance(recognise("\n".join(line.replace('"', "") for line in lines)), NotATable)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Name,   Country, Medal, Time\nBolt,   JAM,     GOLD,  9.63\nBlake,  JAM,     SILVER, 9.75\n", "Name Country Medal Time"),
        ("a b;   c;  d\n1;     x;  y\n2;     z;  w\n", "a b|c|d"),
    ],
)  # fmt: skip
def test_padding_behind_delimiters_divides_nothing(text: str, names: str) -> None:
    found = recognise(text)
    assert isinstance(found, Recognised)
    (table,) = found.tables
    assert (table.format, list(table.names)) == ("delimited", names.split("|" if "|" in names else " "))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("format", [None, "csv"])
@pytest.mark.parametrize(
    ("names", "row"),
    [
        (("full name", "amount", "home town"), "Ada Love{0}|{0}|New York"),
        (("full name", "amount", "created at"), "Ada Love{0}|{0}|2024-01-05 10:00:00"),
        (("Date", "Total (EUR)", "x y"), "name {0}|2024-06-05|name {0}"),
        (("Product Name", "Unit Price", "Stock Level"), "Item {0}|{0}.50 EUR|{0} pcs"),
    ],
)
def test_as_many_blanks_in_each_line_divide_no_cells(
    delimiter: str, format: str | None, names: tuple[str, ...], row: str
) -> None:
    rows = [row.format(n).replace("|", delimiter) for n in range(40)]
    table = table_of("\n".join([delimiter.join(names), *rows]), format)
    assert (table.names, table.rows, table.header) == (names, 40, names)


def test_commas_in_cells_that_blanks_divide_divide_nothing() -> None:
    table = table_of("time lat,lon value\n" + "".join(f"t{n} {n},5 {n * 3}\n" for n in range(40)))
    assert table.names == ("time", "lat,lon", "value")


def test_blanks_that_align_columns_divide_no_cells() -> None:
    """Text too long to be read line by line is not cut at each of several blanks instead."""
    assert dialects.detect(b"A  B  C\n" + b"x  1  y\n" * 40) is None
    assert dialects.detect(b"A B C\n" + b"x 1 y\n" * 40) is not None


@pytest.mark.parametrize(
    ("text", "rows", "last"),
    [
        # duckdb#14883: a quote in the middle of a cell that no quotes stand around.
        ("id,name,lat\n" + "1,a,0.5\n" * 1_500 + '2,5" pipe,1.5\n' + "3,c,2.5\n" * 9, 1_510, ("3", "c", "2.5")),
        # duckdb#16251: a quote and the delimiter inside of quotes, once, behind the sample.
        ("id,value\n" + "1,a\n" * 3_000 + '2048,""","\n', 3_001, ("2048", '",')),
        # duckdb#6011: names of a table that has one column of text, one of numbers, one of times.
        ("id|name|at\n" + "".join(f"{n}|Action|2006-02-15 04:46:27\n" for n in range(16)), 16, ("15", "Action", "2006-02-15 04:46:27")),
        # duckdb#7231: numbers between tabs, without names.
        ("".join(f"{n}\t0.05507934\t0.49858850\t0.11949249\n" for n in range(10)), 10, ("9", "0.05507934", "0.49858850", "0.11949249")),
        # duckdb#11838: the only quotes are far behind the sample.
        ("a,b\n" + "a,0\n" * 30_000 + '"x,y",1\n', 30_001, ("x,y", "1")),
    ],
)  # fmt: skip
def test_what_others_refused_or_lost(text: str, rows: int, last: tuple[str, ...]) -> None:
    table = table_of(text)
    assert (table.rows, table.ragged_rows, [*table.records()][-1]) == (rows, 0, last)


CITIES = ("Paris", "Rome", "Oslo")
QUESTION = "How much did you like the conference that took place last year in Berlin, at the city hall, all in all?"


@pytest.mark.parametrize(
    ("header", "row", "names"),
    [
        (",name,city", "{0},Person {0},{1}", ["column_1", "name", "city"]),
        ('"","city","temp"', '"{0}","City {0}",NA', ["column_1", "city", "temp"]),
        (",,name,share", "{1},{0},Person {0},{0}%", ["column_1", "column_2", "name", "share"]),
        (",0,1,2", "row {0},{0},{0}.5,7", ["column_1", "0", "1", "2"]),
        (",0", "k{0},{0}", ["column_1", "0"]),
        (",0", "{0},{1}", ["column_1", "0"]),
        ("0,1", "Person {0},{0}", ["0", "1"]),
        ("index,0", "k{0},{0}", ["index", "0"]),
        ("city,team,0", "B{0:03},{1},{0}", ["city", "team", "0"]),
        ("city,year,0", "B{0:03},20{0:02},{0}", ["city", "year", "0"]),
        ("country,2019,2020", "C{0},{0},{0}.5", ["country", "2019", "2020"]),
        ("country,code,2021,2020,2018", "C{0},X{0},{0}%,NA,..", ["country", "code", "2021", "2020", "2018"]),
        ("country,code,2023,total", "C{0},X{0},{0},{0}", ["country", "code", "2023", "total"]),
        ("district,2020", "AK-{0},R+{0}.5", ["district", "2020"]),
        ("name,city,start,,", "Person {0},{1},{0}/1/19,,", ["name", "city", "start", "column_4", "column_5"]),
        (f'name,city,"{QUESTION}"', "Person {0},{1},{2}", ["name", "city", QUESTION]),
        (
            "EventId,EventTemplate",
            "E{0},{3}",
            ["EventId", "EventTemplate"],
        ),
        ("sep=,\nid,city", "{0},{1}", ["id", "city"]),
        ('"name","v"', '"{0}","n{0}",{0}', ["column_1", "name", "v"]),
        ("name,v", "{0},n{0},{0}", ["column_1", "name", "v"]),
        ("name,v", "n{0},{0},", ["name", "v", "column_3"]),
        ("Город,Сумма", "{1},{0}", ["Город", "Сумма"]),
        ("日付\t人口\t都市", "2026-05-01\t{0}\t{1}", ["日付", "人口", "都市"]),
        ("المدينة;المبلغ", "{1};{0}", ["المدينة", "المبلغ"]),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_names_are_told_from_records(header: str, row: str, names: list[str], newline: str) -> None:
    messages = ("stopped", "asked <*> to exit for <*> in <*> s")
    rows = [row.format(n, CITIES[n % 3], ("yes", "no")[n % 2], messages[n % 2]) for n in range(90)]
    table = table_of("\n".join([header, *rows, ""]).replace("\n", newline))
    assert list(table.names) == names
    assert (table.rows, table.ragged_rows) == (90, 0)


@pytest.mark.parametrize(
    "rows",
    [
        ["Inception,2010", "Memento,2000", "Tenet,2020"] * 30,
        ["Alien,1979,unknown", "Rocky,1976,3", "Saw,2004,9"] * 30,
        ["Oslo,2020,n/a", "Rome,17,3", "Paris,38,9"] * 30,
        ["apple,fruit,1999", "leek,root,873", "pear,fruit,64"] * 30,
        ["Alien,1979,1986", "Rocky,1976,1979", "Saw,2004,2005"] * 30,
        [",Paris,FR", "x,Rome,IT", "y,Oslo,NO"] * 30,
        [f"{n},{CITIES[n % 3]},x" for n in range(90)],
        [",1,2", "a,2,3", "b,3,4"] * 30,
        [",0", "x,1", "y,2"] * 30,
        ["pears,0", *(f"a{n % 7}{n},{n}" for n in range(90))],
        ["figs,root,0", *(f"plant {n:03},fruit,{n}" for n in range(90))],
        ["0,1", *(f"{n:02},{n}" for n in range(90))],
        [f"{('東京', '大阪', '京都')[n % 3]},5人,{n}" for n in range(90)],
    ],
)
def test_records_are_no_names(rows: list[str]) -> None:
    table = table_of("\n".join([*rows, ""]), "csv")
    assert (table.header, table.rows) == (None, len(rows))
