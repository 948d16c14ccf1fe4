"""Tables of documents, whole and with their types; and documents made to break what reads them."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import json
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import openpyxl
import pyarrow
import pytest
import xlwt
from pyarrow import feather, ipc, parquet

from byref_sandbox import Limits, Sandbox, Table, Tables, wire
from byref_sandbox.documents.workbooks import _kinds_of_records
from byref_sandbox.host.exchange import Answer
from byref_sandbox.host.reading import tables_of

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


@pytest.fixture(scope="module", params=["full", pytest.param("language-only", marks=pytest.mark.slow)])
def reader(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox of all tests, and one without the kernel's wall."""
    if request.param == "full":
        yield sandbox
        return
    with Sandbox(jail="language-only") as other:
        yield other


def records(table: Table) -> list[dict[str, Any]]:
    return json.loads(table.records)


def only(found: Tables) -> Table:
    assert (found.error, found.left_out) == (None, ())
    [table] = found.tables
    assert table.rows == len(records(table)) == max(0, table.records.count(b"\n") - 1)
    assert all(list(row) == [column.name for column in table.columns] for row in records(table))
    return table


def types(table: Table) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}


def zipped(*members: tuple[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data, zipfile.ZIP_STORED if name == "mimetype" else None)
    return buffer.getvalue()


def xlsx(rows: str, *members: tuple[str, str | bytes]) -> bytes:
    """A workbook whose sheet has these rows as XML."""
    relation = '<Relationship Id="r1" Type="{}/{}" Target="{}"/>'
    relations = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
    return zipped(
        ("_rels/.rels", relations.format(relation.format(OFFICE, "officeDocument", "xl/workbook.xml"))),
        ("xl/_rels/workbook.xml.rels", relations.format(relation.format(OFFICE, "worksheet", "worksheets/sheet1.xml"))),
        (
            "xl/workbook.xml",
            f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
        ),
        ("xl/worksheets/sheet1.xml", f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>'),
        *members,
    )


def saved(write: Callable[[Any], Any]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sales"
    sheet.merge_cells("A1:C1")
    sheet["A1"] = "Report of January"
    for row in (
        [],
        ["id", "when", "amount", "amount", None],
        ["007", datetime.datetime(2024, 1, 31, 10, 30), 1.5, 3, "#N/A"],
        ["008", datetime.datetime(2024, 2, 29), 2, None, "=1/0"],
        ["Source: the till"],
    ):
        sheet.append(row)
    hidden = book.create_sheet("Kept")
    hidden.sheet_state = "hidden"
    hidden["C5"] = True
    chart = book.create_chartsheet("Chart")
    assert chart.title == "Chart"
    return saved(book.save)


def test_a_workbook_is_its_sheets_with_what_stands_around(reader: Sandbox) -> None:
    found = reader.tables(workbook())
    assert found.error is None
    sales, kept = found.tables
    assert records(sales) == [
        {"id": "007", "when": "2024-01-31T10:30:00", "amount": 1.5, "amount_2": 3, "column_5": "#N/A"},
        {"id": "008", "when": "2024-02-29", "amount": 2, "amount_2": None, "column_5": None},
    ]
    assert types(sales) == {
        "id": "text",
        "when": "datetime",
        "amount": "number",
        "amount_2": "integer",
        "column_5": "text",
    }
    assert [column.title for column in sales.columns] == ["", "", "", "amount", ""]
    assert (sales.name, sales.place) == ("Sales", "Sales!A3:E5")
    assert [(aside.place, aside.cells) for aside in (*sales.before, *sales.after)] == [
        ("row 1", ("Report of January",)),
        ("row 6", ("Source: the till",)),
    ]
    told = " ".join(sales.notes)
    assert "merged cells" in told and "A1:C1" in told and "formulas: 1" in told and "errors" in told
    assert (records(kept), kept.place, kept.has_names, kept.notes) == (
        [{"column_1": True}],
        "Kept!C5",
        False,
        ("the sheet is hidden",),
    )
    assert [(part.place, "chart" in part.reason) for part in found.left_out if part.place] == [("Chart", True)]


def blocks() -> bytes:
    book = openpyxl.Workbook()
    for row in (
        ["a", "b"], [1, 2], [], [3, 4], [], ["second", "x", "y"], ["p", 5, 6], [],
        ["region", 2023, 2024], ["n", 7, 8], [], ["as of", "today"], ["k", "l", "m"], ["u", 1, 2], [], ["a note"],
    ):  # fmt: skip
        book.active.append(row)
    return saved(book.save)


def test_several_tables_of_a_sheet_are_apart(sandbox: Sandbox) -> None:
    found = sandbox.tables(blocks())
    assert [(table.place, records(table)) for table in found.tables] == [
        ("Sheet!A1:B4", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ("Sheet!A6:C7", [{"second": "p", "x": 5, "y": 6}]),
        ("Sheet!A9:C10", [{"region": "n", "2023": 7, "2024": 8}]),
        ("Sheet!A13:C14", [{"k": "u", "l": 1, "m": 2}]),
    ]
    assert [aside.cells for aside in found.tables[-1].after] == [("a note",)]


def old_workbook() -> bytes:
    book = xlwt.Workbook()
    sheet = book.add_sheet("Old")
    rows: list[list[Any]] = [["name", "n", "ok"], *([f"text {k % 7}", k * 0.25, k % 2 == 0] for k in range(300))]
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            sheet.write(number, column, value)
    return saved(book.save)


def with_errors(kind: str) -> bytes:
    """A workbook of a kind of which calamine gives neither errors nor long integers; of xlsb the part that is looked at alone."""
    if kind == "xls":
        book = xlwt.Workbook()
        sheet = book.add_sheet("S")
        for number, value in enumerate(["n", 1, 2]):
            sheet.write(number, 0, value)
        sheet.row(3).set_cell_error(0, 0x2A)
        return saved(book.save)
    return opendocument(
        '<table:table-row><table:table-cell office:value-type="string"><text:p>n</text:p></table:table-cell></table:table-row>'
        '<table:table-row><table:table-cell office:value-type="float" office:value="12345678901234567890"/></table:table-row>'
        '<table:table-row><table:table-cell office:value-type="string" calcext:value-type="error"><text:p>#N/A</text:p></table:table-cell>'
        '</table:table-row><table:table-row><table:table-cell office:value-type="float" office:value="3"/></table:table-row>'
    )


def test_cells_that_other_workbooks_lose_are_told(sandbox: Sandbox) -> None:
    for kind, reasons in (
        ("xls", ["cells with errors, such as #N/A, which are null: 1"]),
        (
            "ods",
            [
                "cells with errors, such as #N/A, which are null: 1",
                "integers of more than 15 digits, which are rounded: 1",
            ],
        ),
    ):
        found = sandbox.tables(with_errors(kind))
        assert found.tables and [part.reason for part in found.left_out] == reasons


@pytest.mark.parametrize("kind", ['t="str"', 't="n"', ""])
def test_a_long_number_of_a_formula_keeps_its_digits(sandbox: Sandbox, kind: str) -> None:
    """polars#19169: a formula that refers to a number stored as text."""
    head = '<row r="1"><c r="A1" t="inlineStr"><is><t>n</t></is></c></row>'
    body = f'<row r="2"><c r="A2" {kind}><f>Sheet1!A2</f><v>-8086931554011838357</v></c></row>'
    assert records(only(sandbox.tables(xlsx(head + body)))) == [{"n": "-8086931554011838357"}]


def test_records_of_binary_sheets_are_counted() -> None:
    row, error = b"\x00\x04\0\0\0\0", b"\x03\x09" + b"\0" * 8 + b"\x2a"
    long = b"\x9c\x01\x80\x01" + b"\x03" * 128  # a kind of two bytes, a length of two
    assert [*_kinds_of_records(row + error + long + error)] == [0, 3, 156, 3]
    assert [*_kinds_of_records(error[:1] + b"\xff\xff\xff\x7f")] == [3]


def test_the_first_columns_of_an_old_workbook_are_right(sandbox: Sandbox) -> None:
    """python-calamine#161: columns of old workbooks were mixed up."""
    table = only(sandbox.tables(old_workbook()))
    assert records(table) == [{"name": f"text {k % 7}", "n": k * 0.25, "ok": k % 2 == 0} for k in range(300)]


def opendocument(rows: str) -> bytes:
    content = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:table='
        '"urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:calcext='
        '"urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"><office:body><office:spreadsheet>'
        f'<table:table table:name="T">{rows}</table:table></office:spreadsheet></office:body></office:document-content>'
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = f'<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><m:file-entry m:full-path="/" m:media-type="{kind}"/></m:manifest>'
    return zipped(("mimetype", kind), ("META-INF/manifest.xml", manifest), ("content.xml", content))


def test_a_spreadsheet_of_opendocument(sandbox: Sandbox) -> None:
    cell = '<table:table-cell office:value-type="{}" {}><text:p>{}</text:p></table:table-cell>'
    head = "".join(cell.format("string", "", name) for name in ("k", "v"))
    body = cell.format("string", "", "x") + cell.format("float", 'office:value="2.5"', "2,5")
    found = sandbox.tables(
        opendocument(f"<table:table-row>{head}</table:table-row><table:table-row>{body}</table:table-row>")
    )
    assert records(only(found)) == [{"k": "x", "v": 2.5}]


def columns() -> pyarrow.Table:
    return pyarrow.table(
        {
            "n": pyarrow.array([1, None, 2**63 - 1]),
            "f": pyarrow.array([1.5, float("nan"), float("-inf")]),
            "t": pyarrow.array([0, 10**18 + 5, None], pyarrow.timestamp("ns", "UTC")),
            "d": pyarrow.array([19_000, None, 0], pyarrow.date32()),
            "c": pyarrow.array([0, 3_600_500, None], pyarrow.time32("ms")),
            "l": pyarrow.array([1_500, -250, None], pyarrow.duration("ms")),
            "m": pyarrow.array([None, "1.10", "-0.05"]).cast(pyarrow.decimal128(10, 2)),
            "w": pyarrow.array([None, "1.10", "12345678901234567890.10"]).cast(pyarrow.decimal128(30, 2)),
            "b": pyarrow.array([b"\x00\xff", None, b""]),
            "s": pyarrow.array([{"x": [1]}, None, {"x": []}]),
            "e": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
        }
    )


EXACT = [
    {"n": 1, "f": 1.5, "t": "1970-01-01T00:00:00Z", "d": "2022-01-08", "c": "00:00:00", "l": "PT1.5S", "m": None, "w": None, "b": "AP8=", "s": {"x": [1]}, "e": "a"},
    {"n": None, "f": None, "t": "2001-09-09T01:46:40.000000005Z", "d": None, "c": "01:00:00.5", "l": "-PT0.25S", "m": 1.1, "w": "1.10", "b": None, "s": None, "e": "b"},
    {"n": 2**63 - 1, "f": None, "t": None, "d": "1970-01-01", "c": None, "l": None, "m": -0.05, "w": "12345678901234567890.10", "b": "", "s": {"x": []}, "e": "a"},
]  # fmt: skip


def stream(table: pyarrow.Table) -> bytes:
    def write(buffer: Any) -> None:
        with ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)

    return saved(write)


@pytest.mark.parametrize(
    "write",
    [
        lambda table: saved(lambda buffer: parquet.write_table(table, buffer, compression="zstd")),
        lambda table: saved(lambda buffer: feather.write_feather(table, buffer, compression="lz4")),
        stream,
        lambda table: gzip.compress(stream(table)),
    ],
    ids=["parquet", "feather", "stream", "gzip"],
)
def test_columns_keep_their_types(reader: Sandbox, write: Callable[[pyarrow.Table], bytes]) -> None:
    table = only(reader.tables(write(columns())))
    assert records(table) == EXACT
    assert b'"m":1.10,' in table.records
    assert list(types(table).values()) == [
        "integer",
        "number",
        "datetime",
        "date",
        "time",
        "duration",
        "number",
        "text",
        "bytes",
        "object",
        "text",
    ]
    assert any("NaN or infinite in the document, and null here: 2" in note for note in table.notes)
    assert [column.nulls for column in table.columns] == [1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0]


def test_names_of_columns_are_the_documents_own(sandbox: Sandbox) -> None:
    """Blanks and line breaks of a name stay; one that comes twice has a number, and the document says so."""
    names = ["a", " a", "x\ny", "b  c ", "", "a", "a_2"]
    table = only(sandbox.tables(stream(pyarrow.Table.from_arrays([pyarrow.array([1])] * 7, names=names))))
    assert [column.name for column in table.columns] == ["a", " a", "x\ny", "b  c ", "", "a_3", "a_2"]
    assert table.notes == ("names that come twice have a number here: a_3",)
    own = only(sandbox.tables(database('create table t(" a", "b  c"); insert into t values (1, 2)')))
    assert (records(own), own.notes) == ([{" a": 1, "b  c": 2}], ())


def test_what_is_nested_is_read_like_columns(sandbox: Sandbox) -> None:
    """Fields of one name, and times inside of lists, structs and maps."""
    twins = pyarrow.StructArray.from_arrays(
        [pyarrow.array([1, 2]), pyarrow.array([3, 4])], ["x", "x"], mask=pyarrow.array([False, True])
    )
    time = pyarrow.time64("ns")
    table = pyarrow.table(
        {
            "s": twins,
            "l": pyarrow.array([[1_000_000_007, None], None], pyarrow.large_list(time)),
            "m": pyarrow.array([[("k", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.duration("ns"))),
            "f": pyarrow.array([[1, 2], None], pyarrow.list_(pyarrow.decimal128(5, 1), 2)),
        }
    )
    assert records(only(sandbox.tables(stream(table)))) == [
        {
            "s": {"x": 1, "x_2": 3},
            "l": ["00:00:01.000000007", None],
            "m": [["k", "PT0.000000001S"]],
            "f": [1.0, 2.0],
        },
        {"s": None, "l": None, "m": None, "f": None},
    ]


def test_runs_of_one_value_are_read_like_columns(sandbox: Sandbox) -> None:
    """Across what is read at once, in a slice, and inside of lists, with the digits and the type of their values."""
    amounts = pyarrow.array([None, "1.10"]).cast(pyarrow.decimal128(10, 2))
    runs = pyarrow.RunEndEncodedArray.from_arrays([3, 1_502], amounts)
    times = pyarrow.RunEndEncodedArray.from_arrays([2, 1_504], pyarrow.array([1, None], pyarrow.timestamp("ns")))
    table = pyarrow.table(
        {"r": runs.slice(1, 1_501), "l": pyarrow.ListArray.from_arrays([0, 3, *range(5, 1_505)], times)}
    )
    found = only(sandbox.tables(stream(table)))
    assert types(found) == {"r": "number", "l": "array"}
    first, *others = records(found)
    assert first == {"r": None, "l": ["1970-01-01T00:00:00.000000001"] * 2 + [None]}
    assert others == [{"r": None, "l": [None, None]}, *[{"r": 1.1, "l": [None]}] * 1_499]


def test_offsets_of_zones_are_those_of_the_moment(sandbox: Sandbox) -> None:
    """An offset with seconds, as zones had before 1900, is read by hardly anything: the moment is in UTC."""
    seconds = [-3 * 10**9, 0, 1_720_000_000, None]
    table = pyarrow.table(
        {zone: pyarrow.array(seconds, pyarrow.timestamp("s", zone)) for zone in ("America/New_York", "+05:30")}
    )
    found = records(only(sandbox.tables(saved(lambda buffer: parquet.write_table(table, buffer)))))
    assert [row["America/New_York"] for row in found] == [
        "1874-12-07T18:40:00Z",
        "1969-12-31T19:00:00-05:00",
        "2024-07-03T05:46:40-04:00",
        None,
    ]
    assert found[1]["+05:30"] == "1970-01-01T05:30:00+05:30"


def database(script: str) -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


def test_rows_of_a_database_and_nothing_that_runs(reader: Sandbox) -> None:
    found = reader.tables(
        database("""
            create table t(a, b text, twice generated always as (a * 2), c blob);
            insert into t(a, b, c) values (9007199254740993, 'x', x'00ff'), (1.5, null, x'');
            create table "we""ird"("x""y" primary key) without rowid;
            insert into "we""ird" values ('007');
            create view v as with recursive n(i) as (select 1 union all select i + 1 from n) select * from n;
            create virtual table f using fts5(q);
        """)
    )
    assert found.error is None
    assert [(table.name, records(table)) for table in found.tables] == [
        ("t", [{"a": 9007199254740993, "b": "x", "c": "AP8="}, {"a": 1.5, "b": None, "c": ""}]),
        ('we"ird', [{'x"y': "007"}]),
    ]
    assert found.tables[0].notes == ("computed columns are left out: twice",)
    assert {part.place for part in found.left_out} > {"v", "f"}


def test_a_database_with_a_log_beside_it_is_read_and_says_so(sandbox: Sandbox) -> None:
    data = bytearray(database("create table t(a); insert into t values (1)"))
    data[18:20] = b"\x02\x02"
    table = only(sandbox.tables(bytes(data)))
    assert records(table) == [{"a": 1}]
    assert "write-ahead log" in table.notes[0]


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("<td><b>id</b><td>name<td>price", ["id", "name", "price"]),
        ("<td>7<td>name<td>2.5", None),
        ("<td>a<td>a<td>x", None),
        ("<td>—<td>x<td>y", None),
        ("<td>$5<td>x<td>y", None),
        ("<td>n/a<td>Oslo<td>null", None),
        ("<td>#<td>N/A<td>% of all", ["#", "N/A", "% of all"]),
    ],
)
def test_a_first_row_of_names_above_values_names_the_columns(
    sandbox: Sandbox, first: str, names: list[str] | None
) -> None:
    rows = "".join(f"<tr><td>{n}<td>name {n}<td>{n}.5" for n in range(9))
    table = only(sandbox.tables(f"<table><tr>{first}{rows}</table>".encode()))
    assert [column.name for column in table.columns] == (names or ["column_1", "column_2", "column_3"])
    assert table.rows == (9 if names else 10)


PAGE = b"""<!DOCTYPE html><title>Till</title><script>"<table>"</script>
<p>prose</p><table><caption>Sums</caption><thead><tr><th rowspan=2>who<th colspan=2>sum<tr><th>1<th>2</thead>
<tr><td rowspan=2>a<br>b<td>007<td>1.50<tr><td>8<td>NA &amp; more<td hidden>3
<tfoot><tr><td>all<td>15<td></tfoot></table>
<table><tr><td>name<td>inner<tr><td>n<td>x<table><tr><td>p<td>1<tr><td>q<td>2</table>y</table>
<table><tr><td>layout</table>"""


def test_tables_of_a_page(reader: Sandbox) -> None:
    found = reader.tables(PAGE)
    sums, outer, inner = found.tables
    assert records(sums) == [
        {"who": "a\nb", "sum / 1": "007", "sum / 2": "1.50", "column_4": None},
        {"who": "a\nb", "sum / 1": "8", "sum / 2": "NA & more", "column_4": 3},
    ]
    assert types(sums) == {"who": "text", "sum / 1": "text", "sum / 2": "text", "column_4": "integer"}
    assert (sums.name, sums.before[0].cells, sums.after[0].cells) == ("Sums", ("Till",), ("all", "15"))
    assert [list(row.values()) for row in records(outer)] == [["name", "inner"], ["n", "xy"]]
    assert b'{"column_1":"p","column_2":1}' in inner.records
    assert not outer.has_names
    assert [(part.place, part.reason) for part in found.left_out] == [
        ("table 4", "it has one row or one column, and no names: it lays out the page"),
        ("", 'text outside of tables, 5 characters: "prose"'),
    ]


def test_a_page_in_another_encoding_with_links(reader: Sandbox) -> None:
    page = '<html><body><h1>Läden</h1><table><tr><th>shop<th>n<tr><td><a href="/ü">Ü</a><td>1</table></body></html>'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"):
        found = reader.tables(page.encode(encoding))
        assert records(found.tables[0]) == [{"shop": "Ü", "n": 1}]
        assert [part.reason for part in found.left_out] == [
            "addresses of links in tables, of which the text is there: 1",
            'text outside of tables, 5 characters: "Läden"',
        ]


def test_elements_beside_each_other_are_records(reader: Sandbox) -> None:
    feed = b"""<?xml version="1.0" encoding="iso-8859-1"?><f:feed xmlns:f="u" xmlns:g="w" lang="en"><f:title>F\xfcr</f:title>
      <f:entry id="1"><f:n>1.50</f:n><g:n>2</g:n><f:tag>a</f:tag><f:tag>b</f:tag></f:entry><!-- no -->
      <f:entry id="02"><f:n>2</f:n><f:tag>c</f:tag><f:who><f:name>x</f:name></f:who></f:entry></f:feed>"""
    table = only(reader.tables(feed))
    assert (table.name, table.place) == ("entry", "/feed/entry")
    assert records(table) == [
        {"@id": "1", "f:n": 1.5, "g:n": 2, "tag": ["a", "b"], "who": None},
        {"@id": "02", "f:n": 2, "g:n": None, "tag": ["c"], "who": {"name": "x"}},
    ]
    assert b'"f:n":1.50,' in table.records
    assert [(aside.place, aside.cells) for aside in table.before] == [
        ("/feed/@lang", ("en",)),
        ("/feed/title", ("Für",)),
    ]
    assert table.notes == ("comments are left out",)


def test_blanks_of_texts_stay_where_xml_says_so(sandbox: Sandbox) -> None:
    """Those that only indent elements are no text anywhere."""
    found = sandbox.tables(
        b"""<r><x> a </x><x xml:space="preserve"> b </x><x xml:space="preserve">  </x>
          <rows xml:space="preserve"><row> <n> 1</n> <m xml:space="default"> 2 </m> </row>
            <row> <n><i/> so </n> <m>3</m> </row></rows></r>"""
    )
    texts, rows = found.tables
    assert records(texts) == [
        {"@xml:space": None, "#text": "a"},
        {"@xml:space": "preserve", "#text": " b "},
        {"@xml:space": "preserve", "#text": "  "},
    ]
    assert [row["n"] for row in records(rows)] == [" 1", {"i": None, "#text": " so "}]
    assert records(rows)[0]["m"] == {"@xml:space": "default", "#text": "2"}


@pytest.mark.parametrize("kind", ["yaml", "xml", "html"])
def test_floats_of_full_precision_are_numbers_and_digits_that_floats_lose_are_text(reader: Sandbox, kind: str) -> None:
    columns = {
        "lat": [str(-89.98877665544332 / (n + 1)) for n in range(8)],
        "far": [f"1.5e-{300 + n}" for n in range(8)],
        "small": ["1e-05", "0.5"] * 4,
        "long": ["0.12345678901234567"] * 8,
        "huge": ["1.5e+400"] * 8,
    }
    if kind == "yaml":
        text = "".join(
            f"- {{{', '.join(f'{name}: {cells[n]}' for name, cells in columns.items())}}}\n" for n in range(8)
        )
    elif kind == "xml":
        text = "".join(f"<r>{''.join(f'<{k}>{cells[n]}</{k}>' for k, cells in columns.items())}</r>" for n in range(8))
        text = f"<rs>{text}</rs>"
    else:
        text = "".join(f"<tr>{''.join(f'<td>{cells[n]}' for cells in columns.values())}" for n in range(8))
        text = f"<table><tr>{''.join(f'<th>{name}' for name in columns)}{text}</table>"
    table = only(reader.tables(text.encode(), name=f"x.{kind}"))
    expected = {
        name: [*map(float, cells)] if name in ("lat", "far", "small") else cells for name, cells in columns.items()
    }
    assert {name: [row[name] for row in records(table)] for name in columns} == expected
    assert list(types(table).values()) == ["number", "number", "number", "text", "text"]


def test_what_looks_like_an_exponent_stays_text_where_markup_has_no_types(reader: Sandbox) -> None:
    page = "<table><tr><th>id<th>n" + "".join(f"<tr><td>{n}e3<td>{n}" for n in range(1, 9)) + "</table>"
    assert types(only(reader.tables(page.encode()))) == {"id": "text", "n": "integer"}


def test_plain_words_of_yaml_stay_words(reader: Sandbox) -> None:
    text = b"# c\n- {a: no, b: 012, c: 2024-01-31, d: 1.50, e: '1'}\n- {a: true, b: ~, c: 12:30, d: 12345678901234567890, f: &x [1], g: *x}\n"
    table = only(reader.tables(text, name="x.yaml"))
    assert records(table) == [
        {"a": "no", "b": "012", "c": "2024-01-31", "d": 1.5, "e": "1", "f": None, "g": None},
        {"a": True, "b": None, "c": "12:30", "d": "12345678901234567890", "e": None, "f": [1], "g": [1]},
    ]
    found = reader.tables(b"---\nkind: a\nitems: [1, 2]\n", content_type="application/yaml")
    assert [(part.content_type, json.loads(part.data)) for part in found.members] == [
        ("application/json", {"kind": "a", "items": [1, 2]})
    ]


def test_mappings_of_yaml_have_what_they_merge(reader: Sandbox) -> None:
    """Own members before merged ones, the first merged before later ones, wherever the merge key stands."""
    text = b"- &a {id: 0, x: 1}\n- &b {id: 1, w: 2}\n- {x: 9, <<: [*a, *b]}\n- {<<: {<<: *b, id: 7}}\n- {'<<': 3, id: &c {<<: *c}}\n"
    assert records(only(reader.tables(text, name="x.yaml"))) == [
        {"id": 0, "x": 1, "w": None, "<<": None},
        {"id": 1, "x": None, "w": 2, "<<": None},
        {"id": 0, "x": 9, "w": 2, "<<": None},
        {"id": 7, "x": None, "w": 2, "<<": None},
        {"id": {}, "x": None, "w": None, "<<": 3},
    ]
    assert [part.reason for part in reader.tables(b"- {<<: 5}\n- {a: 1}\n", name="x.yaml").left_out] == [
        "line 1: what is merged is no mapping"
    ]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("others", [1, 200])
def test_members_of_one_name_are_left_out_however_many_there_are(reader: Sandbox, others: int) -> None:
    members = [(f"{number}.csv", "a,b\n1,2\n") for number in range(others)]
    found = reader.tables(zipped(*members, ("twice.csv", "a,b\n3,4\n"), ("twice.csv", "a,b\n5,6\n")))
    assert [part.source for part in found.members] == [name for name, _ in members]
    assert [(part.place, part.reason) for part in found.left_out] == [
        ("twice.csv", "several members of the archive have this name")
    ] * 2


def test_what_is_in_archives_is_told_by_where_it_was(reader: Sandbox) -> None:
    inner = zipped(("deep.xml", "<r><x>1</x><x>2</x></r>"))
    found = reader.tables(
        zipped(
            ("a/t.csv", "a,b\n1,2\n"),
            ("w.xlsx", workbook()),
            ("n.json", "[1]"),
            ("i.zip", inner),
            ("p.png", b"\x89PNG\0\0"),
        )
    )
    assert [(part.source, part.content_type, part.data) for part in found.members] == [
        ("a/t.csv", "text/csv", b"a,b\n1,2\n"),
        ("n.json", "application/json", b"[1]"),
    ]
    assert [table.source for table in found.tables] == ["w.xlsx", "w.xlsx", "i.zip/deep.xml"]
    assert ("p.png", "it is neither text nor a document that has tables") in {
        (p.source, p.reason) for p in found.left_out
    }
    [member] = reader.tables(gzip.compress(b"a;b\n1;2\n")).members
    assert member.data == b"a;b\n1;2\n"
    [member] = reader.tables(gzip.compress(b'{"a":1}\n{"a":2}\n'), name="x.json.gz").members
    assert member.data == b'{"a":1}\n{"a":2}\n'


LIMITS = Limits(wall_seconds=10, cpu_seconds=8, memory_bytes=96 << 20)
PARQUET = saved(lambda buffer: parquet.write_table(pyarrow.table({"a": list(range(100)), "s": ["x"] * 100}), buffer))


def one_column(array: Any) -> pyarrow.Table:
    return pyarrow.table({"a": array})


def united(value: Any, times: int) -> pyarrow.Array:
    """That value as one of a union, each time the same."""
    return pyarrow.UnionArray.from_dense(
        pyarrow.array([0] * times, pyarrow.int8()),
        pyarrow.array([0] * times, pyarrow.int32()),
        [pyarrow.array([value])],
    )


def damaged(data: bytes, start: int, step: int) -> bytes:
    made = bytearray(data)
    for at in range(start, len(made) - 8, step):
        made[at] ^= 0x55
    return bytes(made)


def bomb() -> str:
    lists = "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(f'*{chr(97 + n)}' for _ in range(10))}]\n" for n in range(12)
    )
    return f"a: &a [1,1,1,1,1,1,1,1,1,1]\n{lists}"


def rows_of_database() -> bytes:
    return database(
        "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n limit 2000) insert into t select i, hex(i) from n"
    )


HOSTILE: list[tuple[str, Callable[[], bytes], str]] = [
    ("sparse sheet, python-calamine#130", lambda: xlsx('<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'), "16,384 columns"),
    ("cells without a place", lambda: xlsx('<row r="1"><c><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'), "16,384 columns"),
    ("first row and last column", lambda: xlsx('<row r="1"><c r="A1"><v>1</v></c></row>' + "".join(f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(2, 3000))), "which is more than"),
    ("cells that do not end", lambda: xlsx('<row r="1">' + "<c " * 200_000), "cannot be read"),
    ("a workbook that unpacks", lambda: xlsx('<row r="1"><c r="A1"><v>1</v></c></row>' + " " * (26 << 20)), "unpacks to more than"),
    ("a member that unpacks", lambda: zipped(("a.csv", b"\0" * (26 << 20))), "unpacks to more than"),
    ("an archive in gzip in gzip", lambda: gzip.compress(gzip.compress(b"\0" * (26 << 20))), "unpacks to more than"),
    ("archives in archives", lambda: zipped(("a.zip", zipped(("b.zip", zipped(("c.zip", zipped(("d.csv", "a,b\n")))))))), "3 levels deep"),
    ("an archive cut off", lambda: workbook()[:-400], "no archive that can be read"),
    ("gzip cut off", lambda: gzip.compress(random.Random(1).randbytes(5_000))[:-2_000], "not whole"),
    ("entities", lambda: b'<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><r><x>&b;</x><x>1</x></r>', "declares an entity"),
    ("a file as entity", lambda: b'<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><r><x>&a;</x><x>1</x></r>', "declares an entity"),
    ("deep elements", lambda: b"<r><q/><q/>" + b"<x>" * 100_000 + b"</x>" * 100_000 + b"</r>", "nested more than"),
    ("deep records", lambda: b"<r><q/><q>" + b"<x>" * 100_000 + b"</x>" * 100_000 + b"</q></r>", "nested more than"),
    ("prose in elements", lambda: b"<r>" + b"<p>some <b>text</b> and more</p>" * 20 + b"</r>", "it is prose"),
    ("100,000 columns", lambda: b"<table><tr>" + b"<td>1" * 100_000 + b"<tr><td>2</table>", "at most 20,000"),
    ("spans", lambda: b"<table>" + b"<tr>" + b"<td colspan=1000 rowspan=65000>x" * 21 + b"</table>", "at most 20,000"),
    ("a deep page", lambda: b"<div>" * 100_000 + b"<table><tr><td>1<td>2<tr><td>3<td>4</table>", "nested more than"),
    ("tables in tables", lambda: b"<table><tr><td>" * 900, "nested more than"),
    ("a damaged database", lambda: damaged(rows_of_database(), 8192, 97), "malformed"),
    ("a header alone", lambda: b"SQLite format 3\0" + b"\xff" * 5000, "no SQLite file"),
    ("a footer that lies", lambda: PARQUET[:-8] + struct.pack("<I", 0x7FFFFFFF) + b"PAR1", "no Parquet that can be read"),
    ("damaged Parquet", lambda: damaged(PARQUET, 20, 7), "no Parquet that can be read"),
    ("damaged Arrow", lambda: b"ARROW1\0\0" + b"\xff" * 1000, "no Arrow that can be read"),
    ("a damaged stream", lambda: damaged(stream(columns()), 8, 5), "no Arrow that can be read"),
    ("a billion nulls", lambda: stream(one_column(pyarrow.nulls(10**9))), "more than the 67,108,864 bytes that there is room for"),
    ("a billion nulls in one list", lambda: stream(one_column(pyarrow.ListArray.from_arrays([0, 10**9], pyarrow.nulls(10**9)))), "there is room for"),
    ("a run of a billion", lambda: stream(one_column(pyarrow.RunEndEncodedArray.from_arrays([10**9], [1]))), "there is room for"),
    ("one list many times by its index", lambda: stream(one_column(pyarrow.DictionaryArray.from_arrays([0] * 500, [[None] * 10**5]))), "there is room for"),
    ("one list many times in a union", lambda: stream(one_column(united([None] * 10**5, 500))), "there is room for"),
    ("nulls of Parquet", lambda: saved(lambda buffer: parquet.write_table(one_column(pyarrow.nulls(10**7)), buffer)), "there is room for"),
    ("aliases of aliases", lambda: b"---\n" + bomb().encode(), "aliases stand for"),
    ("merge keys of all", lambda: b"---\n- &a {" + b",".join(b"k%d: 1" % n for n in range(2_000)) + b"}\n" + b"- {<<: *a}\n" * 2_000, "merge keys stand for"),
    ("merge keys one in another", lambda: b"---\n- [[" + b",".join(b"&a%d {<<: *a%d}" % (n, n - 1) if n else b"&a0 {k: 1}" for n in range(3_000)) + b"]]\n- <<: *a2999\n", "merge one another"),
    ("an alias of itself", lambda: b"- a: &a {x: *a}\n- b: 1\n", "refers to what it stands in"),
    ("deep brackets", lambda: b"---\na: " + b"[" * 100_000, "brackets are open"),
    ("a tag of Python", lambda: b"---\na: !!python/object/apply:os.system ['id']\n", "is not known"),
    ("the same key twice", lambda: b"---\na: 1\nb: 2\na: 3\n", "comes twice"),
    ("a key that is a list", lambda: b"---\na: 1\n? [a]\n: 1\n", "a key is a list"),
    ("an old file that is none", lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\xff" * 5000, "no workbook"),
    ("a text document", lambda: zipped(("word/document.xml", "<w/>")), "a text document of Word"),
    ("text", lambda: b"nothing of that kind", "no document that has tables"),
]  # fmt: skip


@pytest.mark.every_case("each breaks a reader in a way of its own")
@pytest.mark.parametrize(("data", "reason"), [each[1:] for each in HOSTILE], ids=[each[0] for each in HOSTILE])
def test_hostile_bytes_end_with_a_reason(sandbox: Sandbox, data: Callable[[], bytes], reason: str) -> None:
    found = sandbox.tables(data(), limits=LIMITS)
    assert found.error is None
    assert found.left_out and reason in " ".join(part.reason for part in found.left_out)


@pytest.mark.slow
def test_limits_end_it_and_the_sandbox_goes_on(sandbox: Sandbox) -> None:
    many = saved(lambda buffer: parquet.write_table(pyarrow.table({"a": ["x" * 100_000] * 300}), buffer))
    [left] = sandbox.tables(many, max_bytes=1 << 20).left_out
    assert "room" in left.reason
    slow = sandbox.tables(b"<r>" + b"<x><a>1</a></x>" * 300_000 + b"</r>", limits=Limits(cpu_seconds=0.2))
    assert slow.error is not None and slow.error.kind == "CpuLimit" and not slow.tables
    rows = "<r>" + "<x><a>1</a></x>" * 300_000 + "</r>"
    partly = sandbox.tables(
        zipped(("a.xml", "<r><x>1</x><x>2</x></r>"), ("b.xml", rows)), limits=Limits(cpu_seconds=0.2)
    )
    assert partly.error is None and [table.rows for table in partly.tables] == [2]
    assert partly.left_out[-1].reason.startswith("what follows the tables that were read: ")
    big = sandbox.tables(many, limits=Limits(memory_bytes=16 << 20))
    assert big.error is not None or big.left_out
    [refused] = sandbox.tables(b"<r>" + b" " * 1_000_000, limits=Limits(memory_bytes=1 << 20)).left_out
    assert refused.reason == "it has 1,000,003 bytes; at most 262,144 are read"
    assert only(sandbox.tables(b"<r><x>1</x><x>2</x></r>")).rows == 2
    with pytest.raises(ValueError, match="max_bytes"):
        sandbox.tables(b"", max_bytes=0)


HONEST = wire.Table("t", "", [wire.Column("a", "integer", 0, "")], 1, b'[\n{"a":1}\n]', [], [], [])


@pytest.mark.parametrize(
    "frame",
    [
        msgspec.structs.replace(HONEST, records=b'[\n{"a":1'),
        msgspec.structs.replace(HONEST, records=b"[\n1\n]"),
        msgspec.structs.replace(HONEST, records=b'{"a":1}'),
        msgspec.structs.replace(HONEST, records=b'[\n{"a":"\xff"}\n]'),
        msgspec.structs.replace(HONEST, records=b"[" * 10_000),
        msgspec.structs.replace(HONEST, rows=2),
        msgspec.structs.replace(HONEST, rows=-1),
        msgspec.structs.replace(HONEST, columns=HONEST.columns * 2),
        msgspec.structs.replace(HONEST, columns=[wire.Column("a", "<script>", 0, "")]),
        msgspec.structs.replace(HONEST, records=HONEST.records + b" " * 1000),
        wire.Member("x", "text/html", b"<"),
        wire.Member("x", "text/csv", b"," * 1000),
    ],
)
def test_a_reply_of_a_parser_that_was_taken_over_is_refused(frame: wire.Frame) -> None:
    assert tables_of(Answer([HONEST], wire.Done()), Limits(), 1000).tables[0].rows == 1
    found = tables_of(Answer([HONEST, frame], wire.Done()), Limits(), 1000)
    assert found.error is not None and found.error.kind == "Crash" and not found.tables


def test_more_tables_than_a_reader_sends_are_refused() -> None:
    most = wire.MAX_DOCUMENT_FRAMES + 1
    found = tables_of(Answer([HONEST] * most, wire.Done()), Limits(), 1 << 20)
    assert found.error is None and len(found.tables) == most
    found = tables_of(Answer([HONEST] * (most + 1), wire.Done()), Limits(), 1 << 20)
    assert found.error is not None and found.error.kind == "Crash" and not found.tables


@pytest.mark.slow
def test_a_document_with_more_columns_than_a_reply_can_name_says_so(sandbox: Sandbox) -> None:
    header = "".join(f"<th>column {n}</th>" for n in range(900))
    page = f"<table><tr>{header}</tr><tr>{'<td>1</td>' * 900}</tr></table>" * 200
    found = sandbox.tables(page.encode(), limits=Limits(wall_seconds=60, cpu_seconds=60))
    assert found.error is None and 50 < len(found.tables) < 200
    assert found.left_out[-1].reason == "there is more in it than one reply can name"


def test_without_the_extra_the_reason_names_it(script: Callable[..., Any]) -> None:
    done = script(
        """
import sys
for name in ("python_calamine", "selectolax", "yaml"):
    sys.modules[name] = None
from byref_sandbox.documents import reading
from byref_sandbox.documents.building import NotATable
from byref_sandbox.documents.inflating import Room
for data in (b"<table><tr><td>", b"---\\na: 1\\n", b"\\xd0\\xcf\\x11\\xe0\\xa1\\xb1\\x1a\\xe1"):
    reading.load(reading.kind_of(data, "", ""))
    try:
        list(reading.read(data, "", "", Room(1000, 1000)))
    except NotATable as error:
        print(error)
"""
    )
    assert done.stdout.count("pip install 'byref[tables]'") == 3, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_bytes_that_are_changed_anywhere_never_hang_or_break_it(sandbox: Sandbox, seed: int) -> None:
    chance = random.Random(seed)
    whole = chance.choice(
        [workbook, old_workbook, lambda: PARQUET, lambda: stream(columns()), rows_of_database, lambda: PAGE]
    )()
    made = bytearray(whole)
    for _ in range(chance.choice([1, 5, 50])):
        made[chance.randrange(8, len(made))] = chance.randrange(256)
    found = sandbox.tables(bytes(made), limits=LIMITS)
    assert found.tables or found.left_out or found.error
