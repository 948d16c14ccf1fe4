"""`pd.read_excel` and `pd.ExcelFile` over files of the run, buffers and bytes.

python-calamine reads the cells of all formats, whatever `engine` says, behind the bounds that documents have (`documents.workbooks`);
pandas makes the table. calamine is not always installed (`byref[tables]`), so this module is imported only where it is.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final, Self

import pandas as pd
from pandas.io.excel._base import BaseExcelReader  # type: ignore[attr-defined]

from byref_sandbox.documents.building import NotATable
from byref_sandbox.documents.inflating import Room
from byref_sandbox.documents.workbooks import Workbook, is_of_cells
from byref_sandbox.language.files import BinaryFile, Files, is_path
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.refusal import NotAllowed, no_files

_UNPACKED_BYTES: Final = 256 << 20
"""What a workbook may unpack to: a quarter of a run's memory by default. The run's own limit holds beside it."""
_ENGINES: Final = (None, "calamine", "openpyxl", "xlrd", "odf", "pyxlsb")
_REFUSED: Final = ("storage_options", "engine_kwargs")
_HINT: Final = "pd.read_excel(io.BytesIO(data)) reads the bytes of a workbook"


def spreadsheet_names(files: Files, guards: Guards) -> dict[str, object]:
    """Return the names of pandas that read workbooks."""

    def read_excel(io: Any, *arguments: Any, **options: Any) -> Any:
        book = io if type(io) is ExcelFile else ExcelFile(_bytes_of(files, io))
        return pd.read_excel(book._open(), *arguments, **_checked(options))

    def open_file(path_or_buffer: Any, engine: Any = None, **options: Any) -> ExcelFile:
        _checked({**options, "engine": engine})
        book = ExcelFile(_bytes_of(files, path_or_buffer))
        book._open()
        return book

    return {"read_excel": read_excel, "ExcelFile": guards.replace(ExcelFile, make=open_file)}


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Return options without those that choose a package to read with; raise NotAllowed."""
    for name in _REFUSED:
        if options.pop(name, None):
            raise NotAllowed(f"read_excel({name}=...) is not available", "leave it out")
    engine = options.pop("engine", None)
    if engine not in _ENGINES:
        raise ValueError(f"Unknown engine: {engine}")
    return options


def _bytes_of(files: Files, source: Any) -> bytes:
    if type(source) is bytes:
        return source
    if type(source) in (io.BytesIO, BinaryFile):
        found: bytes = source.getvalue()
        return found
    if is_path(source) and "://" not in str(source):
        return files.read(source, _HINT)
    if is_path(source):
        raise no_files("pd.read_excel() of an address", _HINT)
    raise NotAllowed(f"pd.read_excel() cannot read a {type(source).__name__}", _HINT)


def _without_empty_edges(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows without the empty columns and rows at their ends, as pandas' reader for xlsx has the first rows of a sheet."""
    height = max((number for number, row in enumerate(rows, 1) if any(cell != "" for cell in row)), default=0)
    width = max((number for row in rows for number, cell in enumerate(row, 1) if cell != ""), default=0)
    return [row[:width] for row in rows[:height]]


class _Reader(BaseExcelReader):  # type: ignore[misc]
    """What pandas asks for the cells of each sheet. A sheet is its number among all sheets of the workbook."""

    def __init__(self, book: Workbook) -> None:  # the inherited one opens files
        self._sheets = {sheet.name: number for number, sheet in enumerate(book.sheets) if is_of_cells(sheet)}
        self._grid = book.grid

    @property
    def sheet_names(self) -> list[str]:
        return list(self._sheets)

    def get_sheet_by_name(self, name: str) -> int:
        self.raise_if_bad_sheet_by_name(name)
        return self._sheets[name]

    def get_sheet_by_index(self, index: int) -> int:
        self.raise_if_bad_sheet_by_index(index)
        return list(self._sheets.values())[index]

    def get_sheet_data(self, sheet: int, file_rows_needed: int | None = None) -> list[list[Any]]:
        try:
            rows = self._grid(sheet)
            return rows if file_rows_needed is None else _without_empty_edges(rows[:file_rows_needed])
        except NotATable as error:
            raise ValueError(f"the sheet cannot be read: {error}") from None

    def close(self) -> None:
        """Nothing is open."""


class _Opened(pd.ExcelFile):
    """pandas' own class over that reader, which `pd.read_excel` asks."""

    def __init__(self, reader: _Reader) -> None:  # the inherited one opens files, and chooses a package
        self._reader = reader
        self.engine = "calamine"


class ExcelFile:
    """A workbook, which is kept as its bytes: `pd.ExcelFile` of the code."""

    engine = "calamine"

    def __init__(self, data: bytes) -> None:
        if type(data) is not bytes:
            raise TypeError(f"expected bytes, not {type(data).__name__}")
        self._data = data
        self._opened: _Opened | None = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return ExcelFile, (self._data,)

    def _open(self) -> _Opened:
        if self._opened is None:
            try:
                self._opened = _Opened(_Reader(Workbook(self._data, Room(0, _UNPACKED_BYTES))))
            except NotATable as error:
                raise ValueError(str(error)) from None
        return self._opened

    @property
    def sheet_names(self) -> list[str]:
        """The names of the sheets that have cells."""
        return [str(name) for name in self._open().sheet_names]

    def parse(self, *arguments: Any, **options: Any) -> Any:
        """Return a sheet as a DataFrame, or several by their names."""
        return self._open().parse(*arguments, **options)

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


ExcelFile.__module__ = "pandas"
