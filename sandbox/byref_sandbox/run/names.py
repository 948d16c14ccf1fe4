"""The session's names in one run: read before its code, written after it, and told to the host."""

from __future__ import annotations

import datetime
import decimal
import itertools
import marshal
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from blake3 import blake3

from byref_sandbox import wire
from byref_sandbox.code.analysis import FRAME as FRAME_HELPER
from byref_sandbox.contents import (
    FRAME,
    LAST,
    MAX_CONTENTS_BYTES,
    MAX_PROGRAM_CHARS,
    SETTINGS,
    Contents,
    Last,
    Path,
    decode_contents,
    decode_last,
    encode_contents,
    encode_last,
    is_of_code,
)
from byref_sandbox.jsontext import encodable
from byref_sandbox.language.policy import Language, Program
from byref_sandbox.outcome import AS_DATA, CHANGED, DELETED, STOPPED
from byref_sandbox.state.arrays import attributes_of
from byref_sandbox.state.faults import NO_LONGER_THERE
from byref_sandbox.state.graph import Graph, Written, last_of_literal, reason_of
from byref_sandbox.state.known import Known
from byref_sandbox.values import exact, exacttables, plain, values
from byref_sandbox.values.bindings import Bindings, OnlyTable
from byref_sandbox.values.construct import Constructed
from byref_sandbox.values.plain import containers_in

_MAX_NAMES: Final = 1_000
_MAX_LOOKED_AT: Final = 10_000
"""Names that are looked at; of those beyond it the reply says only how many there are."""
_MAX_REASON_CHARS: Final = 300
_MAX_MEMBERS: Final = 300_000
"""Of tool data that is compared with what it was before the code ran: writing so many down takes some ten milliseconds."""
_MOST_READ: Final = 3_000_000
"""Parts of a value that are looked at to find out whether it is plain data: some 0.1 s, and less than to write it."""
_FLAT: Final = frozenset({str, bytes, int, float, complex, bool, type(None)})
_CANNOT_CHANGE: Final = _FLAT | {
    *(decimal.Decimal, datetime.date, datetime.datetime, datetime.time, datetime.timedelta, uuid.UUID),
    *(pd.Timestamp, pd.Timedelta, pd.Period, type(pd.NaT), type(pd.NA)),
}
_MAX_TABLE_BYTES: Final = 64 << 20
_SETTINGS_TOLD: Final = "settings_of_libraries"
"""The name under which a reply says that settings are lost. Code seldom has a variable of that name."""
_MARSHAL: Final = 2
"""The version whose bytes depend on the value alone, not on what else refers to its parts."""

BlobOf = Callable[[bytes], bytes]
"""Returns a stream or blob by its digest. Raises LookupError that says why it is not there."""


class Foreign(Exception):
    """Another version of Python or of a library wrote the names: the host has to give their data beside them."""


class Names:
    """The names of one run. `space` is its namespace."""

    def __init__(
        self,
        language: Language,
        known: Known,
        request: wire.Request,
        bindings: Bindings,
        blob_of: BlobOf,
        space: dict[str, Any],
    ) -> None:
        self._language, self._known, self._request = language, known, request
        self._bindings, self._blob_of, self._space = bindings, blob_of, space
        self._state = request.state or wire.State([])
        self._contents: Contents | None = None
        if self._state.snapshots:
            self._contents = decode_contents(self._state.snapshots[0].contents)
            if self._contents.versions != known.versions and not self._state.is_foreign:
                raise Foreign
        self._tools = frozenset(request.names[: len(request.names) - request.others])
        """Names of all tool data, also of what this run was not given: code cannot bind them for the next run."""
        self._kept = frozenset(one.name for one in request.variables if one.is_kept)
        """Names of the session that are given as data, and are in its state only when they have changed."""
        self._given = {
            one.name: bindings.values[one.name]
            for one in request.variables
            if type(bindings.values[one.name]) not in (OnlyTable, Constructed)
        }
        self._graph: Graph | None = None
        """None: the code leaves no name, and needs none."""
        if request.keeps:
            given = self._given | self._frames_referred_to()
            self._graph = Graph(known, space, given, max_bytes=request.terms.result_bytes)
        self._given_names = frozenset(one.name for one in request.variables)
        self._unnamed = frozenset(one.name for one in request.variables if one.is_unnamed)
        self._helper = space.get(FRAME_HELPER)
        self._before: dict[str, Any] = {}
        self._watched: dict[str, _Watched] = {}
        self._leaves_all = False
        self._last: Any = None
        """The last value of the runs before, if the code may use it."""
        self.value: Any = None
        """The value of this run."""
        self.why_no_last = ""
        self.missed: list[wire.Frame] = []
        """What the reply says of names that could not be read."""
        self._lost: dict[str, str] = {}
        """Why they, and settings, could not be read."""

    def _frames_referred_to(self) -> dict[str, object]:
        """Tables of tool data that names stand for."""
        parts = () if self._contents is None else self._contents.parts
        found: dict[str, object] = {}
        for first in {str(path[0]) for part in parts for path in part.paths}:
            if first.startswith(FRAME) and first.removeprefix(FRAME) in self._bindings.values:
                try:
                    found[first] = self._bindings.df(first.removeprefix(FRAME))
                except (ValueError, TypeError):
                    continue  # then the names that stand for it are lost
        return found

    def read(self, program: Program) -> None:
        """Bind the names of the session. `program` is about to run."""
        self._bindings.others = self._space
        if self._graph is None:
            self._before = dict(self._space)
            return
        lost: dict[str, str] = {}
        kept, state = self._kept, self._state
        if self._contents is not None:
            read = self._graph.read(self._contents, self._blob_of, self._leaf_of, state.wanted)
            lost |= read
            for snapshot in state.snapshots[1:]:
                over = self._graph.read_over(
                    decode_contents(snapshot.contents), self._blob_of, self._leaf_of, snapshot.names
                )
                for name in over:  # what the run before it had left no longer counts
                    self._space.pop(name, None)
                    if name in kept:
                        self._space[name] = self._bindings.values[name]
                lost |= over
        for name in state.without:
            self._space.pop(name, None)
            if name in kept:
                self._space[name] = self._bindings.values[name]
            lost.pop(name, None)
        self._miss(lost)
        settings = {name.removeprefix(SETTINGS): why for name, why in lost.items() if name.startswith(SETTINGS)}
        if settings:
            why = f"those of {', '.join(sorted(settings))}: {next(iter(settings.values()))}"
            self.missed.append(wire.Missed(_SETTINGS_TOLD, encodable(why)[:_MAX_REASON_CHARS]))
        if self._state.last:
            self._read_last(self._graph)
        self._graph.add_program(program.source, program.code)
        self._before = dict(self._space)
        if self._before.get(LAST) is self._last:
            self._before.pop(LAST, None)
        self._leaves_all = self._is_sure_to_leave_all()
        if not self._leaves_all:
            self._graph.watch(state.shown.keys(), state.blobs.keys())
        if not (self._request.is_reading or self._leaves_all):
            self._watched = {
                first: _Watched(one, most=_MOST_READ if first in self._kept else _MAX_MEMBERS)
                for first, one in self._all_given()
            }
            self._bindings.on_frame = self._watch

    def _miss(self, lost: Mapping[str, str]) -> None:
        self._lost |= lost
        for name, why in lost.items():
            if name.isidentifier():
                as_data = f": {AS_DATA}" if name in self._kept else ""
                self.missed.append(wire.Missed(name, encodable(why)[:_MAX_REASON_CHARS] + as_data))

    def _is_sure_to_leave_all(self) -> bool:
        """Whether all names of the session stay as they are: those that the code reads are plain data, of which its text changes nothing."""
        wanted, state = self._request.reads, self._state
        is_whole = len(state.snapshots) == 1 and not state.without and not self.missed
        if not is_whole or not wanted or not all(name in self._space for name in wanted):
            return False
        tables = [table for name, table in self._bindings.frames.items() if name in self._tools]  # made of JSON
        values = (self._space[name] for name in wanted)
        return all(any(one is table for table in tables) or _is_data(one) for one in values)

    def _read_last(self, graph: Graph) -> None:
        try:
            self._last = graph.read_last(decode_last(self._state.last))
        except Exception as error:  # noqa: BLE001  a forged stream may lead to anything
            self.why_no_last = encodable(reason_of(error))[:_MAX_REASON_CHARS]
        else:
            self._space.setdefault(LAST, self._last)

    def _all_given(self) -> list[tuple[str, Any]]:
        """All that was given, and its tables that are made, by the first steps of paths; a variable that is a table is given once."""
        tables = [
            (FRAME + name, table)
            for name, table in self._bindings.frames.items()
            if name in self._given_names and self._given.get(name) is not table
        ]
        return [*self._given.items(), *tables]

    def _watch(self, name: str, table: pd.DataFrame) -> None:
        if name in self._given_names:
            self._watched[FRAME + name] = _Watched(table)

    def _leaf_of(self, digests: list[bytes]) -> bytearray:
        return bytearray().join(map(self._blob_of, digests))

    # After the code

    def frames(self, room: int) -> list[wire.Frame]:
        """Return what the reply says of the names, in at most `room` bytes; what does not fit in is lost, and said to be."""
        if self._graph is None:
            return [] if self.value is None else self._shown({})
        self._read_changed(self._graph)
        given = self._unchanged()
        bound, told = self._bound(given)
        told += [wire.Named(name, CHANGED) for name in sorted(self._changed_unnamed())]
        if self._leaves_all and self._stands_alone(self.value):
            return [*told, *self._shown(bound)]
        written = self._graph.write(bound, given)
        frames: list[wire.Frame] = [*self.missed, *told, *self._shown(bound)]
        blobs: list[Any] = [*written.bodies.values(), *written.leaves.values()]
        contents = encode_contents(written.contents)
        size = len(contents) + sum(map(len, blobs))
        chars = sum(map(len, written.contents.programs.values()))
        if size > room or len(contents) > MAX_CONTENTS_BYTES or chars > MAX_PROGRAM_CHARS:
            why = f"too big: {size:,} bytes with all other names, {room:,} left of what a run may send"
            lost = [name for name in bound if self._is_new(name) or name in written.changed]
            return [*frames, *(wire.Lost(name, why) for name in lost[:_MAX_NAMES])]
        # A host has new data of what was bound anew: as part of the state, even where that is written as it was.
        is_other = self._is_other(contents, written.contents) or any(map(self._is_new, bound))
        is_other = is_other and not self._only_lacks(bound, written)
        if is_other:
            frames += (wire.Blob(blob) for blob in blobs)
            room -= size
        touched = written.touched.keys() - self._state.shown.keys()
        for name, value in bound.items():
            frame = self._frame(name, value, written, room)
            if isinstance(frame, wire.Kept | wire.Same):
                touched.discard(name)
            if frame is not None:
                room -= len(frame.data) + len(frame.exact) if isinstance(frame, wire.Kept) else 0
                frames.append(frame)
        if is_other:
            frames.append(wire.Written(contents, {name: written.touched[name] for name in touched}))
        settings = {name: why for name, why in written.lost.items() if not name.isidentifier()}
        return frames + [wire.Missed(_SETTINGS_TOLD, why) for why in list(settings.values())[:1]]

    def _read_changed(self, graph: Graph) -> None:
        """Read large names that share with others what the code has changed: tools are to have their data as it is now."""
        before = self._space.keys() | set()
        self._miss(graph.read_changed(self._blob_of, self._leaf_of))
        self._before |= {name: self._space[name] for name in self._space.keys() - before}

    def _shown(self, bound: Mapping[str, object]) -> list[wire.Frame]:
        """Return what the reply says of the last value, for the next run: nothing if that is as it was.

        As in IPython, `_` stays the code's own where the code has bound it.
        """
        value = self._last if self.value is None else self.value
        is_own = self._space.get(LAST, self._last) is not self._last
        if is_own or (LAST not in self._space and self._last is not None and self.value is None):
            last = encode_last(Last(self._known.versions)) if self._state.last else b""
        elif value is None:
            return []
        else:
            written = last_of_literal(value, self._known.versions)
            if written is None:
                graph = self._graph or Graph(self._known, self._space, {})
                written = graph.write_last(value, bound)
            last = encode_last(written)
        return [] if last == self._state.last else [wire.Shown(last)]

    def _is_other(self, data: bytes, contents: Contents) -> bool:
        """Whether the next run needs other contents than this one had."""
        if not self._state.snapshots:
            return any(part.names for part in contents.parts)
        return bool(self._state.without) or [data] != [snapshot.contents for snapshot in self._state.snapshots]

    def _only_lacks(self, bound: Mapping[str, object], written: Written) -> bool:
        """Whether names that this process cannot read are all that is other than it was: a process that can finds them as they were.

        None can find what was deleted: the state is written without the names that refer to it, so that no later run has to say so again.
        """
        if not self.missed or self._contents is None or self._contents.versions != self._known.versions:
            return False
        if all(why == NO_LONGER_THERE for why in self._lost.values()):
            return False
        is_touched = self._state.without or written.changed or any(map(self._is_new, bound))
        return not is_touched and not any(name.isidentifier() and name not in self._space for name in self._before)

    def _stands_alone(self, value: object) -> bool:
        """Whether a last value shares nothing with the session's names that can change; only what is written tells what a container shares."""
        if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
            return True  # what tables share is copied before it is changed
        return _is_flat(value) or all(_is_flat(self._space[name]) for name in self._request.reads)

    def told_of_stop(self) -> list[wire.Frame]:
        """Return what the reply says where no time or memory is left to look at the names: new values are lost."""
        new = [name for name in self._space if is_of_code(name) and self._is_new(name)]
        new += [name for name in self._request.changed if name in self._before and name not in self._tools]
        return [*self.missed, *(wire.Lost(name, STOPPED) for name in new[:_MAX_NAMES])]

    def stands_for(self, value: object) -> bool:
        """Whether a name of the session stands for this very value."""
        return any(one is value for name, one in self._space.items() if name not in self._tools and name.isidentifier())

    def _is_new(self, name: str) -> bool:
        return name not in self._before or self._before[name] is not self._space[name]

    def _bound(self, given: Mapping[str, object]) -> tuple[dict[str, object], list[wire.Frame]]:
        """Return the names of the session that are bound now, and what there is to say of others."""
        bound: dict[str, object] = {}
        told: list[wire.Frame] = []
        for name, value in itertools.islice(self._space.items(), _MAX_LOOKED_AT):
            if not is_of_code(name):
                continue
            if name == LAST and value is self._last:
                continue
            if name in self._tools:
                if self._is_new(name):
                    told.append(wire.Named(name, ""))
            elif name in self._kept and given.get(name) is value:
                continue
            elif self._language.builtins.get(name, self) is value or value is self._helper:
                continue  # those are there in each run
            else:
                bound[name] = value
        if (beyond := len(self._space) - _MAX_LOOKED_AT) > 0:
            told.append(
                wire.Missed("names", f"{beyond:,} more than can be kept: put what belongs together in one dict")
            )
        gone = [name for name in self._before if name not in self._space and name not in self._tools]
        told += [wire.Lost(name, DELETED) for name in gone if is_of_code(name)]
        return bound, told

    def _unchanged(self) -> dict[str, Any]:
        """Return what was given, is as it was, and will be given again: not what the code has bound a name of the session anew for."""
        rebound = {name for name in self._kept if name not in self._space or self._is_new(name)}
        given = [(first, one) for first, one in self._all_given() if first.removeprefix(FRAME) not in rebound]
        if self._request.is_reading or self._leaves_all:
            return dict(given)
        changed = {*self._request.changed}
        doubted = self._kept | changed | self._stood_for(changed) | self._unnamed
        doubted |= {FRAME + name for name in self._unnamed}
        unchanged: dict[str, Any] = {}
        for first, one in given:
            watched = self._watched.get(first)
            if first not in changed if watched is None else watched.is_unchanged(for_certain=first in doubted):
                unchanged[first] = one
        return unchanged

    def _changed_unnamed(self) -> set[str]:
        """Names of tool data that the code does not name, in which it has changed something, for certain."""
        return {
            name
            for first, one in self._watched.items()
            if (name := first.removeprefix(FRAME)) in self._unnamed & self._tools
            and name in self._space
            and not self._is_new(name)
            and not one.is_unchanged(for_certain=False)
        }

    def _stood_for(self, names: Collection[str]) -> set[str]:
        """Return the first steps of paths to what names of the session stood for, or for parts of it."""
        parts = () if self._contents is None else self._contents.parts
        touched = [part for part in parts if part.paths and any(one.name in names for one in part.names)]
        return {str(path[0]) for part in touched for path in part.paths}

    def _frame(self, name: str, value: object, written: Written, room: int) -> Any:
        """Return what the reply says of one name, or None."""
        why = written.lost.get(name)
        if self._language.is_closed_file(value) and self._language.is_closed_file(self._before.get(name, value)):
            return None  # each `with open(...) as f` leaves one, which is of no use
        if name == LAST and why is None:  # a variable of loops: no data for tools
            return wire.Named(name, self._what(value)) if self._is_new(name) else None
        if why is None and name not in written.changed and not self._is_new(name):
            return None
        if why is None and (path := written.given.get(name)) and (same := self._same(name, value, path)):
            return same
        try:
            kept = values.keep(value)
        except Exception:  # noqa: BLE001  (an object of the code may be anything)
            if why is None:
                is_told = self._is_new(name) or name in self._state.shown
                return wire.Named(name, self._what(value)) if is_told else None
            return wire.Lost(name, encodable(why)[:_MAX_REASON_CHARS])
        if len(kept.data) + len(kept.exact) > room:
            return wire.Named(name, kept.shape or self._what(value)) if why is None else wire.Lost(name, why)
        shown = _digest_of(value, kept)
        if why is None and not self._is_new(name) and self._state.shown.get(name) == shown:
            return None
        was = "" if why is None else _lost_of(value, kept)
        return wire.Kept(name, kept.kind, kept.data, was, kept.exact, encodable(kept.shape), shown)

    def _same(self, name: str, value: object, path: Path) -> wire.Same | None:
        first, *steps = path
        is_frame = str(first).startswith(FRAME)
        variable = str(first).removeprefix(FRAME)
        parts = {one.name: one.parts for one in self._request.variables}
        if not all(isinstance(step, str) for step in steps) or steps not in parts.get(variable, ()):
            return None
        return wire.Same(name, variable, [str(s) for s in steps], is_frame, values.shape_of(value) if is_frame else "")

    def _what(self, value: object) -> str:
        if self._language.is_imported(value):
            return "import"
        if issubclass(type(value), type):
            return "class"
        return "function" if callable(value) and type(value).__name__ == "function" else values.type_name(value)


def _lost_of(value: Any, kept: values.Keepsake) -> str:
    """Return what a value is no longer where its data is all that is kept; nothing of a table that comes back with its types."""
    if not kept.exact:
        return values.stands_for(value)
    is_whole = not getattr(value, "attrs", None) or exacttables.keeps_attrs(value)
    own = sorted(attributes_of(value)) if isinstance(value, pd.DataFrame | pd.Series) else []
    named = encodable(", ".join([*([] if is_whole else ["attrs"]), *own]))[:_MAX_REASON_CHARS]
    return f"{values.type_name(value)} with its {named}" if named else ""


def _digest_of(value: Any, kept: values.Keepsake) -> bytes:
    """A digest of the data that a host has of a value. Equal tables may differ as bytes, in what Arrow's buffers leave unused."""
    digest = blake3(kept.data)
    if isinstance(value, pd.DataFrame | pd.Series) and kept.data:
        frame, index = pd.DataFrame(value), value.index
        digest.update(repr(getattr(value, "name", None)).encode("utf-8", "replace"))
        words = [*map(str, frame.dtypes), *map(str, frame.columns.names), type(index).__name__, *map(str, index.names)]
        digest.update("\0".join(words).encode("utf-8", "replace"))
        digest.update(repr(index).encode() if type(index) is pd.RangeIndex else _hashes_of(index))
    else:
        digest.update(kept.exact)
    return digest.digest()


def _hashes_of(index: pd.Index) -> bytes:
    return np.ascontiguousarray(pd.util.hash_pandas_object(index, index=False).to_numpy()).tobytes()


def _is_data(value: Any) -> bool:
    """Whether reading a value runs no code of others, and changes nothing in it."""
    if type(value) in (pd.DataFrame, pd.Series):
        labels = [*value.index.names, *(value.columns.names if type(value) is pd.DataFrame else [value.name])]
        if value.attrs or not all(map(_is_flat, labels)):
            return False
        return all(plain.is_plain(objects.tolist(), _MOST_READ) for objects in _objects_of(value))
    return plain.is_plain(value, _MOST_READ)


def _is_flat(value: Any) -> bool:
    """Whether a value holds no container that something else may hold, too, and change."""
    if isinstance(value, pd.DataFrame | pd.Series):
        return not _objects_of(value)
    return type(value) in _FLAT or isinstance(value, np.generic) or (type(value) is tuple and all(map(_is_flat, value)))


def _objects_of(table: Any) -> list[Any]:
    """Columns, labels and categories of a table that may be any objects."""
    columns = [table] if isinstance(table, pd.Series) else [table.columns, *(column for _, column in table.items())]
    found = [each.cat.categories if each.dtype == "category" else each for each in (table.index, *columns)]
    return [each for each in found if isinstance(each.dtype, pd.SparseDtype) or each.dtype == object]


class _Watched:
    """Tool data, and what it was before the code ran.

    Of a table that is too large to be compared it is a shallow copy: pandas copies what two tables share before it changes it in one of
    them, so that a column is as it was if it still is where the copy's is.
    """

    def __init__(self, value: Any, most: int = _MAX_MEMBERS) -> None:
        """`most` cells of a large table are compared that may hold what can be changed in place."""
        self._value, self._most = value, most
        self._size = _size(value)
        self._digest = digest_of(value) if _is_light(value) else None
        self._before: pd.DataFrame | None = None
        if self._digest is None and isinstance(value, pd.DataFrame):
            self._before, self._objects = value.copy(deep=False), _digest_of_objects(value, most)

    def is_unchanged(self, *, for_certain: bool) -> bool:
        """Whether nothing in it has changed; of what is too large to be compared, unless `for_certain`, the code's text has told."""
        if _size(self._value) != self._size:
            return False
        if self._digest is not None:
            return digest_of(self._value) == self._digest
        if self._before is None:
            return not for_certain
        if not _is_same_table(self._value, self._before):
            return False
        return (
            not for_certain if self._objects is None else _digest_of_objects(self._value, self._most) == self._objects
        )


def _digest_of_objects(table: pd.DataFrame, most: int) -> bytes | None:
    """A digest of the cells that may hold what can be changed in place; None if there are more than `most`."""
    columns = [column.tolist() for _, column in table.items() if column.dtype == object]
    columns = [column for column in columns if not _CANNOT_CHANGE.issuperset(map(type, column))]
    return digest_of(columns) if len(columns) * len(table) <= most else None


def _is_same_data(one: Any, other: Any) -> bool:
    digest = digest_of(one)
    return digest is not None and digest == digest_of(other)


def _is_same_table(now: pd.DataFrame, before: pd.DataFrame) -> bool:
    """Whether a table has the labels and columns that its shallow copy has."""
    return (
        now.shape == before.shape
        and now.columns.identical(before.columns)
        and now.index.identical(before.index)
        and _is_same_data(now.attrs, before.attrs)
        and now.flags == before.flags
        and all(_is_same_column(now.iloc[:, at], before.iloc[:, at]) for at in range(now.shape[1]))
    )


def _is_same_column(now: pd.Series, before: pd.Series) -> bool:
    if now.dtype != before.dtype:
        return False
    if isinstance(now.dtype, np.dtype):
        one, other = now.to_numpy(), before.to_numpy()
        is_same = one.__array_interface__["data"] == other.__array_interface__["data"] and one.strides == other.strides
        return is_same or bool(now.dtype != object and one.tobytes() == other.tobytes())
    if isinstance(now.array, pd.arrays.ArrowExtensionArray) and isinstance(before.array, pd.arrays.ArrowExtensionArray):
        one, other = pa.array(now.array), pa.array(before.array)
        return one is other or bool(one.equals(other))
    return bool(now.equals(before))


def _size(value: Any) -> object:
    if isinstance(value, pd.DataFrame):
        return value.shape
    return len(value) if type(value) in (list, dict) else None


def _is_light(value: Any) -> bool:
    if isinstance(value, pd.DataFrame):
        objects = sum(dtype.kind == "O" for dtype in value.dtypes) * len(value)
        return bool(objects <= _MAX_MEMBERS and value.memory_usage(index=False).sum() <= _MAX_TABLE_BYTES)
    level: list[Any] = [value]
    left = _MAX_MEMBERS
    while level:
        left -= len(level)
        if left <= 0:
            return False
        level = containers_in(level)
    return True


def digest_of(value: Any) -> bytes | None:
    """A digest that equal data has in common, and no other; None of what is no data."""
    digest = blake3()
    try:
        if type(value) is pd.DataFrame:
            _add_table(digest, value)
        elif type(value) in (list, dict):
            digest.update(marshal.dumps(value, _MARSHAL))
        else:
            digest.update(exact.encode(value))
    except (exact.NotExact, TypeError, ValueError, OverflowError, RecursionError, MemoryError, pa.ArrowException):
        return None
    return bytes(digest.digest())


def _add_table(digest: Any, frame: pd.DataFrame) -> None:
    """Raises TypeError of a table that `df` does not make."""
    labels, index = frame.columns, frame.index
    if frame.attrs or not frame.flags.allows_duplicate_labels or type(index) is not pd.RangeIndex:
        raise TypeError("not as it was made")
    words = [index.start, index.stop, index.step, index.name, type(labels).__name__, str(labels.dtype), labels.name]
    digest.update(marshal.dumps([*words, *map(str, frame.dtypes), *labels], _MARSHAL))
    for number in range(frame.shape[1]):
        column = frame.iloc[:, number]
        if not isinstance(column.dtype, np.dtype):
            _add_arrow(digest, column)
        elif column.dtype.kind == "O":
            digest.update(marshal.dumps(column.to_numpy().tolist(), _MARSHAL))
        else:
            digest.update(np.ascontiguousarray(column.to_numpy()).view(np.uint8))


def _add_arrow(digest: Any, column: Any) -> None:
    made = pa.array(column.array, from_pandas=True)
    for chunk in made.chunks if isinstance(made, pa.ChunkedArray) else (made,):
        digest.update(b"%d %d" % (chunk.offset, len(chunk)))
        for buffer in chunk.buffers():
            digest.update(b"-" if buffer is None else b"+%d" % buffer.size)
            if buffer is not None:
                digest.update(buffer)
