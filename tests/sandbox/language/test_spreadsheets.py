"""`pd.read_excel` and `pd.ExcelFile`: what pandas gives with the packages that it has for each format, and nothing more."""

from __future__ import annotations

import datetime
import io
import random
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import openpyxl
import pandas as pd
import pytest
import xlwt

from byref_sandbox import Limits, Sandbox
from byref_sandbox.language import spreadsheets
from byref_sandbox.language.policy import Language
from byref_sandbox.language.refusal import NotAllowed

DAY = datetime.datetime(2024, 1, 31, 10, 30)
ROWS = [
    ["id", "when", "amount", "note", None],
    ["007", DAY, 1.5, "#N/A", 12_345_678_901_234_567],
    ["008", datetime.date(2024, 2, 29), 2, "é\n<&>", None],
    [None, None, None, "#DIV/0!", True],
    [9, datetime.time(3, 4), datetime.timedelta(hours=30), "1,234", -9_999_999_999_999_999],
]


def workbook(rows: list[list[Any]], top: int = 0, *, has_chart: bool = False) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    book.create_sheet("Other")["C3"] = "far"
    if has_chart:
        book.create_chartsheet("Chart", 0)
    for number, row in enumerate(rows, top + 1):
        for column, value in enumerate(row, 1):
            sheet.cell(number, column, value)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def old_workbook() -> bytes:
    book = xlwt.Workbook()
    sheet = book.add_sheet("Old")
    for number, row in enumerate((["a", "b"], [1, "x"], [2.5, True])):
        for column, value in enumerate(row):
            sheet.write(number, column, value)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def open_document() -> bytes:
    names = "xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0' xmlns:table='urn:oasis:names:tc:opendocument:xmlns:table:1.0'"
    cell = "<table:table-cell office:value-type='float' office:value='{}'/>"
    row = "<table:table-row>" + cell.format(1) + cell.format(2.5) + "</table:table-row>"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<x/>")
        archive.writestr(
            "content.xml",
            f"<office:document-content {names}><office:body><office:spreadsheet><table:table table:name='T'>{row}</table:table>"
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return file.getvalue()


def run(language: Language, code: str, **variables: Any) -> Any:
    return language.run(language.compile(code), variables, io.StringIO()).value


OPTIONS: list[dict[str, Any]] = [
    {},
    {"header": None},
    {"sheet_name": None},
    {"sheet_name": [0, "Other"]},
    {"sheet_name": 1, "header": None},
    {"index_col": 0},
    {"skiprows": 1, "nrows": 1},
    {"nrows": 2, "header": None},
    {"dtype": str},
    {"usecols": "A,C:D", "na_filter": False},
    {"converters": {0: str, "note": str}},
    {"sheet_name": "None such"},
    {"sheet_name": 7},
    {"header": [0, 1], "index_col": 0},
]


@pytest.mark.parametrize("top", [0, 2])
def test_a_sheet_is_what_pandas_reads(language: Language, top: int) -> None:
    data = workbook(ROWS, top)
    for options in OPTIONS:
        found: list[Any] = []
        for read in (
            lambda: pd.read_excel(io.BytesIO(data), engine="openpyxl", **options),
            lambda: run(language, "pd.read_excel(data, engine='openpyxl', **options)", data=data, options=options),
        ):
            try:
                found.append(read())
            except (ValueError, IndexError) as error:
                found.append([type(error), str(error)])
        wanted, got = found
        if isinstance(wanted, list):
            assert wanted == got, options
            continue
        assert type(wanted) is type(got), options
        for name in wanted if isinstance(wanted, dict) else [...]:
            pd.testing.assert_frame_equal(*(each[name] if name is not ... else each for each in (wanted, got)))


@pytest.mark.slow
def test_sheets_by_chance_are_what_pandas_reads(language: Language) -> None:
    for seed in range(300):
        chance = random.Random(seed)
        values = [
            None,
            *(value for row in ROWS[1:] for value in row),
            " 007 ",
            1e300,
            -0.0,
            10**15,
            "inf",
            "1e5",
            False,
            2023,
        ]
        rows = [[chance.choice(values) for _ in range(chance.randrange(1, 5))] for _ in range(chance.randrange(7))]
        data, options = workbook(rows, chance.choice([0, 0, 2])), chance.choice([*OPTIONS[:3], *OPTIONS[5:9]])
        try:
            wanted: Any = pd.read_excel(io.BytesIO(data), engine="openpyxl", **{**options, "sheet_name": "Sheet"})
        except Exception as error:
            with pytest.raises(type(error)):
                run(language, "pd.read_excel(data, **options)", data=data, options={**options, "sheet_name": "Sheet"})
            continue
        got = run(language, "pd.read_excel(data, **options)", data=data, options={**options, "sheet_name": "Sheet"})
        pd.testing.assert_frame_equal(wanted, got)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("pd.read_excel('a.xlsx').shape", [4, 5]),
        ("pd.read_excel(io='a.xlsx', engine='calamine')['id'].tolist()", [7, 8, None, 9]),
        ("from pathlib import Path\npd.read_excel(Path('a.xlsx'), 'Other').columns.tolist()[-1]", "Unnamed: 2"),
        ("with open('a.xlsx', 'rb') as file:\n    found = pd.read_excel(file).shape\nfound", [4, 5]),
        ("import io\npd.read_excel(io.BytesIO(open('a.xlsx', 'rb').read())).shape", [4, 5]),
        ("with pd.ExcelFile('a.xlsx', engine='openpyxl') as book:\n    names = book.sheet_names\nnames", ["Sheet", "Other"]),
        ("book = pd.ExcelFile('a.xlsx')\n[book.parse(name, header=None).shape for name in book.sheet_names]", [[5, 5], [3, 3]]),
        ("book = pd.ExcelFile('a.xlsx')\n[isinstance(book, pd.ExcelFile), pd.read_excel(book, 'Sheet').shape]", [True, [4, 5]]),
        ("import copy\ncopy.deepcopy(pd.ExcelFile('a.xlsx')).parse().shape", [4, 5]),
        ("pd.read_excel('b.xls').values.tolist()", [[1.0, "x"], [2.5, True]]),
        ("pd.read_excel('c.ods', header=None).values.tolist()", [[1.0, 2.5]]),
    ],
)  # fmt: skip
def test_workbooks_of_all_formats_are_read_in_the_jail(sandbox: Sandbox, code: str, value: object) -> None:
    files = {"a.xlsx": workbook(ROWS, has_chart=True), "b.xls": old_workbook(), "c.ods": open_document()}
    outcome = sandbox.run(code, files=files)
    assert (outcome.error, outcome.value) == (None, value)


def sheet(rows: str) -> bytes:
    """A workbook whose sheet has these rows as XML."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook([]))) as made, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in made.namelist():
            data = made.read(name)
            if name == "xl/worksheets/sheet1.xml":
                data = data.replace(b"<sheetData/>", b"<sheetData>" + rows.encode() + b"</sheetData>")
                data = data.replace(b"<sheetData></sheetData>", b"<sheetData>" + rows.encode() + b"</sheetData>")
            archive.writestr(name, data)
    return file.getvalue()


FAR = '<row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: sheet(FAR), "more than 10,000,000 cells"),
        (lambda: sheet(f'<row r="1"><c><v>1</v></c></row>{FAR}'), "more than 10,000,000 cells"),
        (lambda: sheet(FAR.replace("<c ", '<c t="e" ').replace(">2<", ">#N/A<")), "more than 10,000,000 cells"),
        (lambda: sheet('<row r="1">' + "<c " * 1000), "cannot be read"),
        (lambda: sheet('<row r="1"><c r="A1"><v>1</v></c></row>' + " " * (4 << 20)), "unpacks to more than"),
        (lambda: workbook(ROWS)[:-400], "no archive that can be read"),
        (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\xff" * 5000, "no workbook that can be read"),
        (lambda: b"a,b\n1,2\n", "no workbook that can be read"),
        (lambda: b"", "no workbook that can be read"),
    ],
)
def test_hostile_workbooks_are_an_error(
    language: Language, monkeypatch: pytest.MonkeyPatch, data: Callable[[], bytes], reason: str
) -> None:
    monkeypatch.setattr(spreadsheets, "_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(ValueError, match=reason):
        run(language, "pd.read_excel(data)", data=data())


@pytest.mark.parametrize(
    "code",
    [
        "pd.read_excel('/etc/passwd')",
        "pd.read_excel('https://example.com/a.xlsx')",
        "pd.ExcelFile('/etc/passwd')",
        "pd.read_excel(3)",
        "pd.read_excel(data, engine_kwargs={'path_or_filelike': '/etc/passwd'})",
        "pd.read_excel(data, storage_options={'a': 'b'})",
        "pd.ExcelFile(data, engine_kwargs={'a': 1})",
        "class Mine:\n    def read(self, size=-1): return data\n    def seek(self, *place): return 0\npd.read_excel(Mine())",
        "pd.ExcelFile(data)._opened",
        "pd.ExcelFile(data)._data",
        "pd.ExcelFile.__init__.__globals__",
        "type(pd.ExcelFile(data)).parse.__globals__",
        "class Mine(pd.ExcelFile): pass",
        "pd.ExcelWriter('a.xlsx')",
        "df([{'a': 1}]).to_excel('a.xlsx')",
    ],
)
def test_nothing_else_is_in_reach(language: Language, code: str) -> None:
    with pytest.raises((NotAllowed, Exception)) as raised:
        run(language, code, data=workbook(ROWS), df=pd.DataFrame)
    assert isinstance(raised.value, NotAllowed) or type(raised.value).__name__ == "Refused", raised.value
    for code in ("pd.ExcelFile(data).book", "pd.ExcelFile(data).io", "pd.ExcelFile(data).load_workbook"):
        with pytest.raises(AttributeError):
            run(language, code, data=workbook(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_bytes_that_are_changed_anywhere_end_in_an_error_or_a_table(sandbox: Sandbox, seed: int) -> None:
    chance = random.Random(seed)
    made = bytearray(chance.choice([workbook(ROWS), old_workbook(), open_document()]))
    for _ in range(chance.choice([1, 5, 50])):
        made[chance.randrange(8, len(made))] = chance.randrange(256)
    outcome = sandbox.run("pd.read_excel('a')", files={"a": bytes(made)}, limits=Limits(wall_seconds=10))
    assert outcome.error is None or outcome.error.kind in ("ValueError", "MemoryLimit", "Crash", "PanicException")


def test_without_the_extra_the_hint_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("python_calamine", "byref_sandbox.documents.workbooks", "byref_sandbox.language.spreadsheets"):
        monkeypatch.setitem(sys.modules, module, None)
    without = Language()
    for code in ("pd.read_excel('a.xlsx')", "pd.ExcelFile('a.xlsx')"):
        with pytest.raises(NotAllowed, match=r"python-calamine.*byref\[tables\]"):
            run(without, code)
