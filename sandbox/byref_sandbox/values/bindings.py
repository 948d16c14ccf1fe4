"""The variables of one run, and the helper `df` that makes DataFrames of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import pandas as pd

from byref_sandbox.values import construct, exact, gathering, tables
from byref_sandbox.values.data import Exact, Unusable

MAX_NAMES_SHOWN: Final = 50
_SHOWN_CHARS: Final = 100
FRAME: Final = "df"
"""The name of the helper."""


class OnlyTable:
    """Stands for a variable that the code only hands to `df`: its table is there, its value was not decoded."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<variable {self.name}>"


class Bindings:
    """The names of a run with their values, and the DataFrames of these, each made once."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.frames: dict[str, pd.DataFrame] = {}
        self.as_frames: set[str] = set()
        """Names that are bound as a DataFrame which is still to be made."""
        self.files: dict[str, bytes] = {}
        """Files of earlier runs, by name."""
        self.constructed: list[tuple[object, construct.Constructed]] = []
        """Values that the code only looks at, and what pandas makes of them."""
        self.others: Mapping[str, object] = {}
        """Names of the session, of which `df("name")` makes a DataFrame as well."""
        self.hidden: set[str] = set()
        """Names of the host's own, which the code does not find."""
        self.not_loaded: frozenset[str] = frozenset()
        """Names of data that is there, but that this run was not given."""
        self.refusal: Callable[[str], Exception] = NameError
        """Makes the error about one of these."""
        self.on_frame: Callable[[str, pd.DataFrame], None] | None = None
        """Called with the name and the table of a variable whose table is made while the code runs."""
        self._built: dict[int, tuple[object, pd.DataFrame]] = {}

    def all(self) -> dict[str, object]:
        """Return all names as the code sees them; raise Unusable. Call it inside the jail: what another run wrote is read here."""
        for name, value in self.values.items():
            if isinstance(value, Exact):
                try:
                    self.values[name] = exact.decode(value.data)
                except ValueError as error:
                    raise Unusable(f"variable {name!r} could not be read: {error}") from None
        for name in self.as_frames:
            try:
                self.values[name] = self._named(name)
            except (ValueError, TypeError) as error:
                raise Unusable(f"variable {name!r} could not be made a DataFrame: {error}") from None
        self.as_frames.clear()
        construct.expect(self.constructed)
        return {FRAME: self.df, **{name: one for name, one in self.values.items() if name not in self.hidden}}

    def df(self, source: object) -> pd.DataFrame:
        """Return the DataFrame of a variable, given by its name or its value: the same one each time."""
        if isinstance(source, OnlyTable):
            return self._named(source.name)
        if isinstance(source, str):
            self._check_name(source)
            return self._named(source.removeprefix("$"))
        for name, value in self.values.items():
            if value is source:
                return self._named(name)
        built = self._built.get(id(source))
        if built is None:
            # the source is held, so that no other object gets its id
            built = self._built[id(source)] = (source, frame_of(source))
        return built[1]

    def _check_name(self, source: str) -> None:
        """Raise TypeError of a text that is the value of a variable, not a name: it may be long."""
        bare = source.removeprefix("$")
        if len(source) < 2 or bare in self.values or bare in self.others:  # Python has each character only once
            return
        for name, value in self.values.items():
            if value is source:
                raise TypeError(f"{name} is text and no table: df() makes a table of records, a list of objects")

    def _named(self, name: str) -> pd.DataFrame:
        if name not in self.frames:
            if name in self.others and name not in self.values and name != FRAME:
                return self.df(self.others[name])
            if name in self.not_loaded and name not in self.values:
                raise self.refusal(name)
            if name not in self.values:
                known = ", ".join(sorted(self.values)[:MAX_NAMES_SHOWN]) or "none"
                shown = name if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS] + "…"
                raise NameError(f"there is no variable {shown!r}; there are: {known}", name=shown)
            self.frames[name] = frame_of(self.values[name])
            if self.on_frame is not None:
                self.on_frame(name, self.frames[name])
        return self.frames[name]


def frame_of(value: object) -> pd.DataFrame:
    """Return the DataFrame of JSON data.

    Records become rows, and so do the records of a map, with its key in the first column; an object of equally long lists
    becomes columns, any other object one row. `tables` says which types columns have. Raise ValueError or TypeError that says
    what to give instead.
    """
    if isinstance(value, pd.DataFrame):
        return value
    if isinstance(value, pd.Series):
        return value.to_frame()
    if gathering.is_map_of_records(value):
        return _records(gathering.records_of(cast(Any, value)))
    if isinstance(value, dict):
        lists = {key: member for key, member in value.items() if isinstance(member, list | tuple)}
        if not lists:
            return _records([value])
        if len(lists) == len(value) and len({len(member) for member in lists.values()}) == 1:
            return tables.from_columns({key: list(member) for key, member in lists.items()})
        raise ValueError(
            f"no single table in this object; pass one of its lists to df(): "
            f"{', '.join(map(repr, list(lists)[:MAX_NAMES_SHOWN]))}"
        )
    if value is None or isinstance(value, str | bytes | bool | int | float):
        raise TypeError(f"df() makes a table of records, a list of objects; this is {type(value).__name__}")
    if type(value) is list and value and all(type(record) is dict for record in value):
        return _records(value)
    return pd.DataFrame(cast(Any, value))


def _records(records: list[dict[str, Any]]) -> pd.DataFrame:
    return tables.from_records(records)


Bindings.df.__qualname__ = FRAME  # as errors about its arguments show it
