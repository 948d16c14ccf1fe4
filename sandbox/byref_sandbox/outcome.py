"""What a run is given and what it gives back: plain records, shared by the host's side and the jail's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from byref_sandbox import jsontext

MAX_RECURSION_DEPTH: Final = 10_000
MAX_FIGURES: Final = 10
"""Images that come out of one run."""
MAX_FIGURE_PIXELS: Final = 4_000_000
"""Of one image: beyond it its resolution is lowered. Providers scale to a quarter of that."""
MAX_FIGURE_SIDE: Final = 8_000
MAX_FILES: Final = 20
"""Files that come out of one run."""
MAX_FILE_NAME_CHARS: Final = 200
SHOWN_CHARS: Final = 100_000
"""Of a value too big to be held as Python's objects."""
NAMES_THERE: Final = "the names there are: "
"""Behind it, in the hint of a NameError, are all of them."""
DELETED: Final = "deleted by the code"
"""In place of a reason, of a name of an earlier run that is to go."""
STOPPED: Final = "the run was stopped"
"""The reason why a name is not kept that is what it was before the run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; every one of them is enforced by the operating system or by the parent process."""

    wall_seconds: float = 30.0
    cpu_seconds: float = 20.0
    memory_bytes: int = 1 << 30
    """Address space on top of what the zygote already holds."""
    stdout_bytes: int = 100_000
    """Captured print output; what exceeds it is dropped and counted."""
    result_bytes: int = 64 << 20
    """Everything a run sends back: value, output and kept variables together."""
    recursion_depth: int = 1_000
    """Calls within calls, at most `MAX_RECURSION_DEPTH`: more would not fit on a stack of eight megabytes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why code did not run to its end, in words a model can act on."""

    kind: str
    """An exception's name, or TimeLimit, CpuLimit, MemoryLimit, OutputLimit, NotAllowed, SyntaxError, JqError,
    Busy (too many runs at once), Crash."""
    message: str
    line: int | None = None
    """1-based line of the code as it was given."""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A top-level name that the code assigned, as data."""

    kind: str
    """json or dataframe"""
    data: bytes
    """JSON for both: a dataframe is an array of records. Empty of a table too big for it: `exact` alone holds it."""
    was: str = ""
    """The name of the type that the data stands for, where nothing gives it back: a class of the code, say."""
    exact: bytes = field(default=b"", repr=False)
    """The value with its types, where JSON does not give it back: `Data` of content type `EXACT` binds it in a later run.
    A run wrote it: nothing but another run may read it."""
    shape: str = ""
    """What it is, in words, where JSON does not tell: `DataFrame of 500,000 rows and 6 columns`, `set`."""
    shares: str = ""
    """A name, its own or another, with which it has a list, dict or other part in common that can be changed: in a later run
    each has its own copy. Of what is large only the beginning is looked at."""


@dataclass(frozen=True, slots=True)
class Same:
    """A top-level name that stands for what the run was given, unchanged."""

    variable: str
    """The name under which it was given."""
    path: tuple[str, ...]
    """Of those that its `Data` allowed."""
    frame: bool
    """It is the DataFrame of that."""
    shape: str = ""
    """What it is, in words, where it is a DataFrame."""
    shares: str = ""
    """As `Bound.shares`."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A top-level name that is kept as its source: `sources` of a later run define it again."""

    what: str
    """import, function or class"""
    source: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that the code made, as an image."""

    name: str
    """That of the file it was saved to, without folder and ending, or `plot_1`, `plot_2`…"""
    png: bytes = field(repr=False)
    """An 8-bit RGB or RGBA image whose every part was checked."""
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class File:
    """A file that the code wrote."""

    name: str
    """Its path as the code gave it, without a root and ways up: `out/sales.csv`."""
    data: bytes = field(repr=False)
    """As the code wrote it: nothing has looked into it."""


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
    """none, json, dataframe, series, repr"""
    json: bytes = b"null"
    """The last expression's value as JSON: a DataFrame is a list of records, a Series a list or an object; what is no data is
    its repr. Elements of a long array begin lines of their own."""
    is_partial: bool = False
    """The value is too big to be held as Python's objects: `value` is None, `text` shows a part, `json` is all of it.
    Of a table too big for JSON `json` is null: `exact`, or the name it is kept under, is all of it."""
    exact: bytes = field(default=b"", repr=False)
    """Of a table that `text` shows a part of: all of it, with its types, as `Bound.exact`; empty if it is in `bound`."""
    shape: str = ""
    """What it is, in words, where `exact` is given."""
    shown: str | None = None
    """The value as a model reads it best, where that is not the text that it is, nor its JSON."""
    stdout: str = ""
    stdout_dropped: int = 0
    """Characters of output beyond `Limits.stdout_bytes`."""
    error: Failure | None = None
    figures: tuple[Figure, ...] = ()
    """At most `MAX_FIGURES`."""
    figures_dropped: int = 0
    """Figures beyond that."""
    files: tuple[File, ...] = ()
    """Files that the code wrote or changed, at most `MAX_FILES`: given to a later run, they are read back by their names."""
    files_lost: Mapping[str, str] = field(default_factory=dict)
    """Files that did not come out, each with its reason."""
    bound: Mapping[str, Bound] = field(default_factory=dict)
    same: Mapping[str, Same] = field(default_factory=dict)
    """Top-level names of what was given as `Data` with `parts`."""
    defined: Mapping[str, Definition] = field(default_factory=dict)
    """Top-level names of functions, classes and imports."""
    unkept: Mapping[str, str] = field(default_factory=dict)
    """Top-level names that could not be kept for the next run, each with its reason."""
    usage: Usage = Usage()

    @cached_property
    def value(self) -> object:
        """The value as plain Python data, made of `json` when it is first asked for."""
        return None if self.is_partial else jsontext.decode(self.json)

    @property
    def text(self) -> str:
        """The value as a model reads it best, whole but for `is_partial`: the caller bounds it."""
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
    """UTF-8 as it came, lone surrogates tolerated."""
    error: Failure | None = None
    """Of a kind that is an exception's name, what the template did; its message may quote data."""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class JqOutcome:
    """The result of one jq program."""

    outputs: tuple[bytes, ...] = ()
    """Compact JSON each, in order; those before an error are kept."""
    truncated: bool = False
    """There were more outputs than were asked for."""
    error: Failure | None = None
    usage: Usage = Usage()
    not_finite: bool = False
    """Whether NaN, an infinity or a number beyond the range of 64-bit floats was met: outputs have null or 1.797e308 for it."""
