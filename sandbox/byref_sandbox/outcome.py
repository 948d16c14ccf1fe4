"""What a run is given and what it gives back, as plain records that both sides of the wall share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from byref_sandbox import jsontext

MAX_RECURSION_DEPTH: Final = 10_000
MAX_FIGURES: Final = 10
"""The most images that come out of one run."""
MAX_FIGURE_PIXELS: Final = 4_000_000
"""The most pixels of one image; with more its resolution is lowered. Providers of models scale images to a quarter of that."""
MAX_FIGURE_SIDE: Final = 8_000
MAX_FILES: Final = 20
"""The most files that come out of one run."""
MAX_FILE_NAME_CHARS: Final = 200
MAX_STDERR_BYTES: Final = 20_000
"""The most bytes of warnings and other text on `sys.stderr` that come out of one run."""
SHOWN_CHARS: Final = 100_000
"""Characters that are shown of a value too big to be held as Python's objects."""
NAMES_THERE: Final = "the names there are: "
"""In the hint of a NameError the list of names follows these words."""
TOO_DEEP: Final = "nested too deeply, or contains itself"
"""Why a value is no data."""
CHANGED: Final = "changed in place"
"""What `Outcome.named` says of data of a tool in which code has changed something, where the code's text does not name it."""
DELETED: Final = "deleted by the code"
"""The reason in `Outcome.unkept` of a name of an earlier run that the code deleted."""
SUSPENDED: Final = "Suspended"
"""The kind of a failure of code that waited for a call of a function that is not answered in this run."""
CRASH: Final = "Crash"
"""The kind of a failure of code whose process was killed, or ended without a reply."""
FOREIGN_STATE: Final = "ForeignState"
"""The kind of a failure before the code ran: another version of Python or of a library wrote the session's state."""
AS_DATA: Final = "it is plain data now"
"""Ends the reason in `Outcome.missed` of a name that is there without its type."""
STOPPED: Final = "the run was stopped"
"""The reason in `Outcome.unkept` of a name whose new value was lost because the run was stopped: its value before the run stays."""

COLUMN_TYPES: Final = frozenset(
    "integer number boolean text date datetime time duration bytes object array mixed empty".split()  # noqa: SIM905
)
MEMBER_TYPES: Final = frozenset(
    ("application/json", "text/csv", "text/tab-separated-values", "application/x-ndjson", "text/plain")
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run. Each is enforced by the operating system or by another process, not by the run itself."""

    wall_seconds: float = 30.0
    cpu_seconds: float = 20.0
    memory_bytes: int = 1 << 30
    """Bytes of address space, on top of what its zygote holds already."""
    stdout_bytes: int = 100_000
    """Bytes of print output that are stored; the rest is dropped and counted."""
    result_bytes: int = 64 << 20
    """Bytes of all that a run sends back: value, output, names, figures and files together."""
    recursion_depth: int = 1_000
    """Calls within calls, at most `MAX_RECURSION_DEPTH`: more do not fit on a stack of eight megabytes."""
    wait_seconds: float = 300.0
    """How long code may wait for functions of the host, in addition to `wall_seconds`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why code did not run to its end, in words that a model can act on."""

    kind: str
    """An exception's name, or TimeLimit, CpuLimit, MemoryLimit, OutputLimit, NotAllowed, SyntaxError, JqError,
    Busy (too many runs at once), Crash."""
    message: str
    line: int | None = None
    """The line of the code as it was given, counted from 1."""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """The value of a top-level name that the code has bound or changed, as data."""

    kind: str
    """`json` or `dataframe`."""
    data: bytes
    """JSON in both cases: a dataframe is an array of records. Empty if it is a table too big for JSON, which `exact` alone holds."""
    was: str = ""
    """The name of the value's type if a later run finds data of another type in its place: the session's state lacks it."""
    exact: bytes = field(default=b"", repr=False)
    """A table with its types: `Data` of content type `EXACT` binds it in a later run or query. A run wrote these bytes, so
    nothing but another run may decode them."""
    shape: str = ""
    """What it is, in words, where JSON does not tell: `DataFrame of 500,000 rows and 6 columns`, `set`."""
    digest: bytes = field(default=b"", repr=False)
    """A digest by which the next run tells whether it has changed: `State.shown`."""


@dataclass(frozen=True, slots=True)
class Same:
    """The value of a top-level name that is, unchanged, what the run was given."""

    variable: str
    """The name under which it was given."""
    path: tuple[str, ...]
    """Where in that variable: one of `Data.parts`."""
    frame: bool
    """It is the DataFrame of that, not that itself."""
    shape: str = ""
    """What it is, in words, if it is a DataFrame."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that the code drew, as an image."""

    name: str
    """The name of the file to which the code saved it, without folder and ending; else `plot_1`, `plot_2`…"""
    png: bytes = field(repr=False)
    """An 8-bit RGB or RGBA image; every part of it was checked."""
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class File:
    """A file that the code wrote."""

    name: str
    """Its path as the code gave it, without a root or `..`: `out/sales.csv`."""
    data: bytes = field(repr=False)
    """The bytes that the code wrote; they were not looked into."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run cost."""

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    peak_bytes: int = 0


@dataclass(frozen=True)
class Outcome:
    """The result of one run."""

    kind: str = "none"
    """`none`, `json`, `dataframe`, `series` or `repr`."""
    json: bytes = b"null"
    """The last expression's value as JSON. A DataFrame is a list of records, a Series a list or an object, a value that is no data
    its repr. Each element of a long array begins a line."""
    is_partial: bool = False
    """The value is too big to be held as Python's objects: `value` is None, `text` shows a part of it, `json` is all of it.
    If it is a table too big for JSON, `json` is null, and all of it is in `exact`, or in `bound` under its name."""
    exact: bytes = field(default=b"", repr=False)
    """All of a table of which `text` shows a part, with its types, as `Bound.exact`; empty if `bound` has it."""
    shape: str = ""
    """What the value is, in words, if `exact` is given."""
    shown: str | None = None
    """The value as a model reads it best; None if it is a text, or if its JSON reads best."""
    stdout: str = ""
    stdout_dropped: int = 0
    """Characters of output that were dropped, beyond `Limits.stdout_bytes`."""
    stderr: str = ""
    """Warnings, a line each, and what else the code wrote to `sys.stderr`. It ends in `…` if some of it was dropped."""
    error: Failure | None = None
    figures: tuple[Figure, ...] = ()
    """The figures that the code drew, at most `MAX_FIGURES`."""
    figures_dropped: int = 0
    """How many more figures it drew."""
    files: tuple[File, ...] = ()
    """Files that the code wrote or changed, at most `MAX_FILES`. Given to a later run, they are read by their names."""
    files_lost: Mapping[str, str] = field(default_factory=dict)
    """Why files did not come out, by name."""
    bound: Mapping[str, Bound] = field(default_factory=dict)
    same: Mapping[str, Same] = field(default_factory=dict)
    """Top-level names whose value was given as `Data` with `parts`."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Top-level names that only code can use, with what they are: `function`, `class`, `import`, or the name of a type. Empty for
    the name of a given variable, which stands for its data again in the next run."""
    unkept: Mapping[str, str] = field(default_factory=dict)
    """Why top-level names are not there for the next run, by name."""
    missed: Mapping[str, str] = field(default_factory=dict)
    """Why names of earlier runs could not be read, or not with their types, by name."""
    contents: bytes | None = field(default=None, repr=False)
    """The names of the session after the run: the `Snapshot` for the next one. None: they are as they were."""
    touched: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Names in the contents that are no data, also of settings, and that may have changed, each with a digest of how it is written:
    those that another run leaves with the digest that they had are as they were."""
    blobs: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """What the contents refer to and the run was not given, by digest."""
    last: bytes | None = field(default=None, repr=False)
    """The last value, which the next run finds as `_`: `State.last` for it. None: that is as it was."""
    usage: Usage = Usage()

    @cached_property
    def value(self) -> object:
        """The value as plain Python data, decoded of `json` at the first use."""
        return None if self.is_partial else jsontext.decode(self.json)

    @property
    def text(self) -> str:
        """The value as a model reads it best: all of it unless `is_partial`, so the caller must bound it."""
        if self.shown is not None:
            return self.shown
        if self.kind == "none":
            return ""
        if self.is_partial:
            return jsontext.ends(self.json, SHOWN_CHARS)
        return jsontext.encodable(self.value) if isinstance(self.value, str) else jsontext.on_one_line(self.json)


@dataclass(frozen=True, slots=True)
class Rendered:
    """The result of one template."""

    text: str = ""
    """The text that the template made; lone surrogates are possible."""
    error: Failure | None = None
    """Why it failed. If its kind is an exception's name, the template itself is at fault, and the message may quote data."""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that a document has."""

    name: str
    """Its name in the records; each column has another."""
    type: str
    """`integer`, `number`, `boolean`, `text`, `date`, `datetime`, `time`, `duration`, `bytes` (base64), `object`, `array`, `mixed`, or
    `empty`. All values that are not null are of it."""
    nulls: int = 0
    title: str = ""
    """Its name as it stands in the document, if that is another: twice the same, or with blanks around it."""


@dataclass(frozen=True, slots=True)
class Aside:
    """Texts that stand around a table."""

    place: str
    """Where: `row 2` of a sheet, `title` of a page, the path of an element."""
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a document, whole: each of its cells that is not empty is in `records`, the columns' names, `before` or `after`."""

    name: str
    """That of the sheet, of the table, its caption, or its element; empty if it has none."""
    place: str
    """Where it stands: `Sales!A3:F200`, `table 2`, `/feed/entry`."""
    columns: tuple[Column, ...]
    rows: int
    records: bytes = field(repr=False)
    """A JSON array in UTF-8, an object per row, each on a line of its own. Dates and times are texts by ISO 8601."""
    before: tuple[Aside, ...] = ()
    """Titles and other texts above it, and what a document says of itself."""
    after: tuple[Aside, ...] = ()
    """Notes and sums below it."""
    notes: tuple[str, ...] = ()
    """What is not in the records or reads otherwise there, in words: merged cells, formulas, a sheet that is hidden."""
    has_names: bool = True
    """Its columns have their names from the document; otherwise they are `column_1`, `column_2`…"""
    source: str = ""
    """The member of an archive that the document is; empty outside of archives."""


@dataclass(frozen=True, slots=True)
class Member:
    """A text found in an archive, or the value of YAML that is no table, as JSON. Nothing vouches for it: it is as hostile as the
    document, and need not be of its type.
    """

    source: str
    """Its name in the archive; empty for what is packed by gzip, and outside of archives."""
    content_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of a document that is no table or cannot be read, with the reason. It has no place if it is the document."""

    place: str
    reason: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a document."""

    tables: tuple[Table, ...] = ()
    members: tuple[Member, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    error: Failure | None = None
    """Why none of it was read: a limit, or a parser that failed. Then there is nothing else. Of a document that ended so behind a
    table, the tables are there, and `left_out` says it; unless the whole process had to be ended, with what it had read."""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class JqOutcome:
    """The result of one jq program."""

    outputs: tuple[bytes, ...] = ()
    """Each as compact JSON, in order, with those before an error."""
    truncated: bool = False
    """There were more outputs than asked for."""
    error: Failure | None = None
    usage: Usage = Usage()
    not_finite: bool = False
    """NaN, an infinity or a number beyond the range of 64-bit floats occurred: the outputs have null or 1.797e308 in its place."""
    rounded: Literal["", "maybe", "yes"] = ""
    """Whether jq computed with integers beyond 2**53, or made some: it rounds them. `maybe` of more data than is looked into."""
