"""A session's names between two runs: what is written, in which parts, and what happens to names that cannot be kept.

The names are one graph, so that objects which two of them share are still shared in the next run. All of it is one stream, the
base, except large names: each of these is a stream of its own, which is read only if it is needed. Such a part refers to
objects of the base by numbers that the base gives out, its exports; the base never refers to a part.

A host stores these streams unchanged, and understands only the table of contents. They are written and read inside the jail, in
the run to which the names belong. Every reading expects that the stream may be forged.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import pickle
import re
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pandas as pd
from blake3 import blake3
from msgspec import Struct

from byref_sandbox.code.analysis import definitions_of
from byref_sandbox.contents import (
    MAX_LAST_BYTES,
    OTHER_INFERENCE,
    SETTINGS,
    Contents,
    Last,
    Name,
    Part,
    Path,
    Versions,
    blobs_of,
    is_of_code,
)
from byref_sandbox.language.calling import HostFunction
from byref_sandbox.state.builders import BUILDERS, Builders
from byref_sandbox.state.codes import Code, Codes, Unkept
from byref_sandbox.state.faults import Faults
from byref_sandbox.state.known import MATPLOTLIB, Known, known_functions
from byref_sandbox.state.orders import Orders
from byref_sandbox.state.reader import Reader
from byref_sandbox.state.settings import Settings
from byref_sandbox.state.writer import ExactWriter, TooBig, Writer, looked_up_by
from byref_sandbox.values.plain import containers_in

MAX_NAMES: Final = 1_000
MAX_BYTES: Final = 256 << 20
"""Maximum bytes of one part with its blobs."""
LARGE_BYTES: Final = 128 << 10
"""A name whose stream is longer becomes a part of its own."""
_DIGESTED_BYTES: Final = 1_000
_DEPTH: Final = 5_000
"""Maximum nesting of lists: a level takes up to 800 bytes of a stack of 8 MB."""
_MAX_TRIES: Final = 20
_MAX_REASON_CHARS: Final = 300
_MAX_LOOKED_AT: Final = 5_000_000
"""Maximum objects of tool data among which those that a name contains are searched for."""
_MAX_EXACT_BYTES: Final = 4 << 20
"""Up to this size of a part it is kept which values that are no numbers were one object."""
_MAKES_CLASS: Final = b"h%c" % [*BUILDERS].index("make_class")
"""In a stream that makes a class."""
_EXPORTS: Final = ".exports"
_ORDERS: Final = ".orders"
_ROOM_FOR_ORDERS: Final = 1 << 20
_EARLIER: Final = "<earlier code>"
_OTHER_VERSION: Final = "kept by another version of Python or its libraries"
_OBJECT: Final = np.dtype(object)
_PIECE_BYTES: Final = 4 << 20
"""Where one cell of a large table has changed, so much is stored anew."""
_MANY_CELLS: Final = LARGE_BYTES // 4
"""Objects in the cells of a table, each of which takes four bytes or more."""
_SIZED: Final = frozenset({str, bytes, bytearray, list, dict, set})
"""Types whose size says enough at no cost."""
_LITERALS: Final = frozenset({str, bytes, int, float, bool, type(None)})
_MAX_LITERAL_BYTES: Final = 1_000
_SCALARS: Final = _LITERALS | {complex}
_MUTABLE: Final = frozenset({list, dict, set, bytearray, np.ndarray, deque, defaultdict, Counter, OrderedDict})
_PLAIN: Final[frozenset[Any]] = frozenset(
    {
        *(*_SCALARS, tuple, frozenset),
        *(Code, np.dtype, re.Pattern, range, slice, HostFunction),
    }
)


class Written(Struct):
    """What a run leaves behind."""

    contents: Contents
    bodies: dict[bytes, bytearray]
    """Streams by digest, without those that the run found there."""
    leaves: dict[bytes, memoryview]
    """Blobs by digest, without those that the run found there."""
    lost: dict[str, str]
    """Names that cannot be kept, with the reason, for the model."""
    changed: frozenset[str] = frozenset()
    """Names that may have changed since they were read; all others certainly have not."""
    given: dict[str, Path] = {}
    """Names that stand for an object in tool data, with its path."""
    touched: dict[str, bytes] = {}
    """Names, also of settings, that are written otherwise than they were, with a digest of that: those that have changed, and some
    that refer to what comes after a change."""


def last_of_literal(value: object, versions: Versions) -> Last | None:
    """Write the last value of a run as `Graph.write_last` does, but without a graph; None of what is large or may share something."""
    if type(value) not in _LITERALS or sys.getsizeof(value) > _MAX_LITERAL_BYTES:
        return None
    return Last(versions, "", pickle.dumps(value, 5), 1)


class Graph:
    """The graph of one run: `read` is called before its code runs, `write` afterwards.

    `space` is the run's namespace. `given` is tool data by the first steps of paths. Every run that needs tool data gets it again,
    so objects that a name shares with it are not written but referred to.
    """

    def __init__(
        self, known: Known, space: dict[str, Any], given: Mapping[str, object], *, max_bytes: int = MAX_BYTES
    ) -> None:
        self._known, self._space, self._given = known, space, given
        self._max_bytes = max_bytes
        language = known.language
        self.codes = Codes(lambda text: language.compile(text, _EARLIER).code)
        self._settings = Settings(language, known.settings)
        functions = known_functions(space)
        # No copy without need: it would write to each object that the process shares with others.
        self._by_name = {**known.by_name, **functions} if functions else known.by_name
        self._builders = Builders(language, self.codes, space, self._by_name, known.figures, known.drawn)
        self._only: frozenset[str] | None = None
        self._definitions: Collection[str] = ()
        self._unread: list[Part] = []
        self._shared: list[tuple[Part, bytes]] = []
        """Those of the unread that are watched, and what they shared with others."""
        self._read: dict[str, _Segment] = {}
        """How each name was written that this run has read."""
        self._before: Contents | None = None
        self._exports: dict[int, Any] = {}
        self._orders = Orders()
        self._streams: list[_Stream] = []
        """Those that were written."""

    # Reading -------------------------------------------------------------------------------------------------------------------

    def read(
        self,
        contents: Contents,
        body_of: Callable[[bytes], bytes],
        leaf_of: Callable[[list[bytes]], Any],
        wanted: Iterable[str] | None = None,
    ) -> dict[str, str]:
        """Bind the names, and return those that are lost, with the reasons.

        `body_of` returns a stream by its digest. `leaf_of` returns blobs, one after the other, as memory that this process may write to, new
        memory for each call. Large names that are not `wanted` are not read.
        """
        self._before = contents
        if contents.versions != self._known.versions:
            return self._from_text(contents)
        self.codes.learn(contents.programs)
        needed = None if wanted is None else contents.wanted(wanted)
        lost: dict[str, str] = {}
        with _undisturbed():
            for number, part in enumerate(contents.parts):
                if number and needed is not None and needed.isdisjoint(name.name for name in part.names):
                    self._unread.append(part)
                else:
                    lost |= self._read_part(part, body_of, leaf_of)
        self._settings.settle()
        return lost

    def watch(self, names: Collection[str], blobs: Collection[bytes]) -> None:
        """Remember what large names share with others, of those names that were not read, and whose blobs `read` can get."""
        with _undisturbed():
            self._shared = [
                (part, self._digest_of_shared(part))
                for part in self._unread
                if part.imports
                and any(name.name in names for name in part.names)
                and all(digest in blobs for digest in blobs_of([part]))
            ]

    def read_changed(self, body_of: Callable[[bytes], bytes], leaf_of: Callable[[list[bytes]], Any]) -> dict[str, str]:
        """Bind the watched names that share with others what has changed since, as `read` does; not those that the code has bound."""
        lost: dict[str, str] = {}
        with _undisturbed():
            for part, before in self._shared:
                is_bound = any(name.name in self._space for name in part.names)
                if not is_bound and self._digest_of_shared(part) != before:
                    self._unread.remove(part)
                    lost |= self._read_part(part, body_of, leaf_of)
        return lost

    def _digest_of_shared(self, part: Part) -> bytes:
        try:
            writer = Writer(self._known, self.codes, self._space, (), (), self._max_bytes, has_leaves=False)
            writer.write([self._exports[number] for number in part.imports])
        except Exception:  # noqa: BLE001  the code may have put anything into it
            return b""
        return blake3(writer.body()).digest()

    def read_over(
        self,
        contents: Contents,
        body_of: Callable[[bytes], bytes],
        leaf_of: Callable[[list[bytes]], Any],
        names: Iterable[str],
    ) -> dict[str, str]:
        """Bind these names as another run wrote them that began with the same names: as `read`, and after it.

        Instances of a class that both have stay instances of one class.
        """
        only = frozenset(names)
        if contents.versions != self._known.versions:
            return dict.fromkeys(only, _OTHER_VERSION)
        self.codes.learn(contents.programs)
        exports, read = self._exports, self._read
        self._only, self._exports, self._read = only, {}, {}
        self._builders.there = self.codes.only_classes(but=only)
        try:
            with _undisturbed():
                found = [self._read_part(part, body_of, leaf_of) for part in contents.parts]
        finally:
            self._only, self._exports, self._builders.there = None, exports, {}
            self._read = {name: segment for name, segment in read.items() if name not in only}
        self._settings.settle()
        return {name: why for lost in found for name, why in lost.items() if name in only}

    def read_last(self, last: Last) -> Any:
        """Return the last value of the runs before. Raises Unkept, with the reason, and whatever a forged stream leads to."""
        if last.versions != self._known.versions:
            raise Unkept(_OTHER_VERSION)
        if not last.body:
            raise Unkept(last.why)
        with _undisturbed():
            return Reader(last.body, self._builders, (), 0, ()).read(len(last.body), last.pickles)

    def _read_part(
        self, part: Part, body_of: Callable[[bytes], bytes], leaf_of: Callable[[list[bytes]], Any]
    ) -> dict[str, str]:
        lost: dict[str, str] = {}
        given: list[object] = []
        missing: set[int] = set()
        keys: list[Path | int] = [*part.paths, *part.imports]
        for key in keys:
            try:
                given.append(self._exports[key] if isinstance(key, int) else self._at(key))
            except (LookupError, TypeError):
                missing.add(len(BUILDERS) + len(given))
                given.append(None)
        filler = min(part.filler, _MAX_LOOKED_AT)
        if filler < 0:
            # An earlier release gave an object of tool data two numbers where two paths lead to it, and went on with fewer than there are:
            # so the last ones may stand for either of two objects.
            last = len(BUILDERS) + len(given)
            missing.update(range(max(last + filler, 0), last))
            given, filler = given[:filler], 0
        try:
            body = body_of(part.digest)
        except LookupError as error:
            return dict.fromkeys((name.name for name in part.names), reason_of(error))
        if not missing:
            self._read |= _segments(part, body)
        faults = Faults(part, body, len(given), filler, missing, self._by_name) if missing else None
        for _ in range(_MAX_TRIES):
            try:
                reader = Reader(body, self._builders, given, filler, map(leaf_of, part.buffers()))
            except Exception as error:  # noqa: BLE001  a forged stream may lead to anything
                return dict.fromkeys((name.name for name in part.names), reason_of(error))
            try:
                failed = self._read_names(part, reader, faults, lost)
            except Exception as error:  # noqa: BLE001  a name whose stream goes on after its end is in the way of all others
                unbound = (name.name for name in part.names if name.name not in self._space)
                return dict.fromkeys(unbound, reason_of(error)) | lost
            if failed is None:
                return {name: why for name, why in lost.items() if name not in (_EXPORTS, _ORDERS)}
            # The objects that the reader has read of that name would be in its way, so another reader leaves the name out.
            faults = faults or Faults(part, body, len(given), filler, missing, self._by_name)
            faults.add(failed)
        return lost | dict.fromkeys((name.name for name in part.names), "too much of the session could not be read")

    def _read_names(self, part: Part, reader: Reader, faults: Faults | None, lost: dict[str, str]) -> int | None:
        """Bind the names of a part, except those with faults; return the number of the first other name that cannot be read."""
        for number, name in enumerate(part.names):
            if faults is not None and (why := faults.why(number)):
                lost.setdefault(name.name, why)
                reader.leave_out(name.size, faults.in_place_of(number))
                continue
            try:
                self._bind(name.name, reader.read(name.size, name.pickles))
            except BaseException as error:
                if not self._is_of_code(error):
                    raise  # a limit of the run was reached
                lost[name.name] = reason_of(error)
                return number
        return None

    def _is_of_code(self, error: BaseException) -> bool:
        kind = type(error)
        return issubclass(
            kind, Exception | SystemExit | KeyboardInterrupt | GeneratorExit
        ) or self._known.guards.is_user_class(kind)

    def _bind(self, name: str, value: Any) -> None:
        if name == _EXPORTS:
            self._exports = value
        elif name == _ORDERS:
            self._orders.restore(value)
        elif self._only is not None and name not in self._only:
            pass
        elif name.startswith(SETTINGS):
            self._settings.apply(name, value)
        elif is_of_code(name):
            self._space[name] = value

    def _at(self, path: Path) -> object:
        name, *steps = path
        found: Any = self._given[name]  # type: ignore[index]
        for step in steps:
            if type(found) not in (dict, list):
                raise LookupError(step)
            found = found[step]
        return found

    def _from_text(self, contents: Contents) -> dict[str, str]:
        """After an upgrade, define functions and classes again, from the text of their programs."""
        given = frozenset(self._space)
        for text in definitions_of(contents.programs, contents.definitions):
            try:
                self._run(str(text))
            except Exception:  # noqa: BLE001  the code's own error
                continue
        settings = contents.settings() - {OTHER_INFERENCE}
        return dict.fromkeys((contents.names() | settings) - (self._space.keys() - given), _OTHER_VERSION)

    def _run(self, text: str) -> None:
        language = self._known.language
        program = language.compile(text, _EARLIER)
        self.codes.add(str(program.source), program.code)
        language.execute(program, self._space, sys.stdout)

    # Writing -------------------------------------------------------------------------------------------------------------------

    def add_program(self, source: str, code: types.CodeType) -> None:
        """Remember a program that the run executes in the namespace."""
        self.codes.add(str(source), code)

    def write(self, names: Mapping[str, object], given: Mapping[str, object] = MappingProxyType({})) -> Written:
        """Write the session's names that are bound now; names that were not read stay as they are.

        `given` is tool data that is certain to be unchanged: the next run gets it again. Objects that names share with other tool
        data are written by value.
        """
        for text, code in self._known.language.evaluated.items():
            self.add_program(text, code)
        self._given = given
        with _undisturbed():
            return self._write(names)

    def write_last(self, value: object, names: Mapping[str, object]) -> Last:
        """Write the last value of the run, after the session's names: a small one that shares nothing with them that can change."""
        versions = self._known.versions
        writer = Writer(self._known, self.codes, self._space, (), (), MAX_LAST_BYTES, has_leaves=False)
        by_id = {
            id(one): name for name, one in names.items() if type(one) not in _PLAIN and id(one) not in self._known.names
        }
        if id(value) in by_id:
            return Last(versions, f"it is the value of {by_id[id(value)]}: use that")
        if isinstance(value, pd.DataFrame | pd.Series) and value.size <= MAX_LAST_BYTES:
            value = value.copy()  # without the rest of the table that it is a part of
        with _undisturbed():
            try:
                _, pickles = writer.write(value)
                self._check_apart(value, writer, by_id)
            except Exception as error:  # noqa: BLE001  an object may be anything
                return Last(versions, f"{reason_of(error)}: give it a name")
        return Last(versions, "", bytes(writer.body()), pickles, sorted(writer.libraries))

    def _check_apart(self, value: object, writer: Writer, by_id: Mapping[int, str]) -> None:
        """Raise Unkept for what refers to the session's names, or may change with one: it is written by itself."""
        if writer.programs:
            raise Unkept("it is made of functions or classes of the code")
        if MATPLOTLIB in writer.libraries:
            raise Unkept("it is a part of a figure")
        own = writer.objects()
        if (name := next((by_id[id(one)] for one in own if id(one) in by_id), None)) is not None:
            raise Unkept(f"it shares the value of {name}")
        if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
            return  # what tables share is copied before it is changed
        mutable = [one for one in own if type(one) in _MUTABLE]
        if mutable and any(stream.writer.holds(mutable) for stream in self._streams):
            raise Unkept("it is a part of a value that has a name")

    def _write(self, names: Mapping[str, object]) -> Written:
        values, lost = dict(names), dict[str, str]()
        for name in [*values][MAX_NAMES:]:
            lost[name] = f"more than {MAX_NAMES:,} names"
            del values[name]
        # Definitions come last: what is written before them, and can be called, belongs to another object.
        self._definitions = places = self._places(values)
        values |= {name: values.pop(name) for name in places} | self._settings.changed()
        lost |= self._settings.lost
        kept, exports = self._kept_as_they_are(names, lost)
        tools: list[tuple[Path, object]] = [((name,), one) for name, one in self._given.items()]
        large = self._large_before() & values.keys()
        large |= {name for name, one in values.items() if _is_large(one)}
        while True:
            base = self._stream({n: v for n, v in values.items() if n not in large}, tools, (), lost)
            # What needs a library is a part of its own as well, so that only runs that need it load the library.
            grown = {name.name for name in base.names if name.size > LARGE_BYTES or name.name in base.apart}
            grown = {name for name in grown if not name.startswith(".")}
            if not grown:
                break
            large |= grown
        groups = self._groups({n: v for n, v in values.items() if n in large}, tools, base, lost) if large else []
        numbers = {id(one): number for number, one in self._exports.items()}
        fresh = itertools.count(max(self._exports, default=0) + 1)
        parts = []
        for group in groups:
            imports = [numbers.setdefault(id(one), next(fresh)) for one in group.imported]
            exports |= zip(imports, group.imported, strict=True)
            parts.append(group.part(imports))
        if exports:
            base.append(_EXPORTS, exports)
        self._streams = [base, *groups]
        return self._told(self._streams, [base.part([]), *parts, *kept], values, lost, places)

    def _kept_as_they_are(self, names: Mapping[str, object], lost: dict[str, str]) -> tuple[list[Part], dict[int, Any]]:
        """Return the parts that were not read, and the objects of the base to which they refer."""
        kept: list[Part] = []
        exports: dict[int, Any] = {}
        for part in self._unread:
            if any(name.name in names for name in part.names):
                continue  # the code has bound the name again
            try:
                needed = {number: self._exports[number] for number in part.imports}
                self._writer((), ()).write(needed)
            except Exception as error:  # noqa: BLE001  what it refers to cannot be kept any longer
                lost |= dict.fromkeys((name.name for name in part.names), reason_of(error))
                continue
            kept.append(part)
            exports |= needed
        return kept, exports

    def _large_before(self) -> set[str]:
        parts = () if self._before is None else self._before.parts[1:]
        return {name.name for part in parts for name in part.names if name.size > LARGE_BYTES // 2}

    def _writer(self, given: Sequence[object], perhaps: Sequence[object], *, is_exact: bool = False) -> Writer:
        kind = ExactWriter if is_exact else Writer
        return kind(self._known, self.codes, self._space, given, perhaps, self._max_bytes)

    def _stream(
        self,
        values: dict[str, Any],
        tools: Sequence[tuple[Path, object]],
        others: Sequence[object],
        lost: dict[str, str],
    ) -> _Stream:
        """Write names to one stream, which may refer to objects in `tools` and `others`. Names that cannot be kept are added to
        `lost`.
        """
        values = {name: value for name, value in values.items() if name not in lost}
        paths: dict[Path, object] = {}  # only of those to which it does refer
        imported: list[object] = []
        last: set[str] = set()
        tries = 0
        is_exact = False
        candidates: Sequence[tuple[Path | None, object]] = [*tools, *((None, one) for one in others)]
        searched: Sequence[tuple[Path, object]] = [((name,), one) for name, one in self._given.items()]
        is_deeper = False
        while True:
            given = [*(one for one in paths.values()), *imported]
            perhaps = [one for _, one in candidates]
            stream = _Stream(
                self._writer(given, perhaps, is_exact=is_exact), dict(paths), list(imported), self._definitions
            )
            failed = self._fill(stream, values, lost)
            if failed is not None:
                tries += 1
                if tries > _MAX_TRIES:  # each time, room was missing for another name
                    beyond = [*values][failed:]
                    lost |= dict.fromkeys(beyond, "too big: there is no room for it beside other names")
                    values = {name: value for name, value in values.items() if name not in lost}
                continue
            if not is_exact and stream.writer.has_nan() and sum(name.size for name in stream.names) <= _MAX_EXACT_BYTES:
                is_exact = True
                continue
            new = [name for name in stream.must_be_last if name not in last]
            if new:
                # Reading them runs methods of the code, which may need all other names.
                last.update(new)
                values = {name: value for name, value in values.items() if name not in last} | {
                    name: values[name] for name in values if name in last
                }
                continue
            referred = [candidates[number] for number in stream.writer.referred()]
            inside = self._inside(stream, searched, is_deeper=is_deeper)
            if not referred and not inside:
                self._append_orders(stream)
                return stream
            paths |= {path: one for path, one in referred if path is not None}
            imported += [one for path, one in referred if path is None]
            if is_deeper:  # of parts of those parts only what something else refers to is needed
                candidates, searched = inside, ()
            else:
                paths |= dict(inside)
                candidates, searched, is_deeper = (), inside, True

    def _append_orders(self, stream: _Stream) -> None:
        """Write how the sets of a stream are iterated, where filling them anew would not lead to it."""
        if not stream.writer.has_sets() or stream.writer.room < _ROOM_FOR_ORDERS:
            return
        given = {id(one) for one in (*stream.paths.values(), *stream.imported)}
        sets = [one for one in stream.writer.objects(of=(set,)) if id(one) not in given]
        if orders := self._orders.of(cast("list[set[Any]]", sets)):
            stream.append(_ORDERS, orders)

    def _fill(self, stream: _Stream, values: dict[str, Any], lost: dict[str, str]) -> int | None:
        """Write all of the values; or find those that cannot be written, remove them, and return how many come before the
        first.
        """
        for name, value in values.items():
            why = stream.try_to_append(name, value)
            if why is not None:
                break
        else:
            return None
        # Parts of the failed value are in the memo now. So the stream is begun again, without all values that fail by themselves.
        number = [*values].index(name)
        for each in [*values][number:]:
            found = why if each == name else _Stream(self._writer((), ()), {}, [], ()).try_to_append(each, values[each])
            if found is not None:
                lost[each] = found
                del values[each]
        return number

    def _groups(
        self, values: dict[str, Any], tools: Sequence[tuple[Path, object]], base: _Stream, lost: dict[str, str]
    ) -> list[_Stream]:
        """Return the streams of large names: one for each, or one for all if any two of them share an object."""
        shared = [*base.mutable_objects(self._known).values()]
        if len(values) == 1:
            groups = [self._stream(values, tools, shared, lost)]
        else:
            groups = []
            in_groups: set[int] = set()
            for name, value in values.items():
                stream = self._stream({name: value}, tools, shared, lost)
                own = stream.own(self._known)
                if not in_groups.isdisjoint(own):
                    return [self._stream(values, tools, shared, lost)]
                in_groups |= own
                groups.append(stream)
        return [group for group in groups if group.names]

    def _inside(
        self, stream: _Stream, searched: Sequence[tuple[Path, object]], *, is_deeper: bool
    ) -> list[tuple[Path, object]]:
        """Return lists and dicts of the stream that are parts of these objects of tool data, each once, with a place of each; parts of
        such parts only if `is_deeper`.
        """
        tops = [(path, one) for path, one in searched if type(one) in (dict, list)]  # a table has no parts
        if not tops:
            return []
        wanted = set(map(id, stream.writer.objects(of=(dict, list))))
        wanted.difference_update(map(id, self._given.values()), map(id, stream.paths.values()))
        if is_deeper and not _holds([one for _, one in tops], wanted):  # there may be very many, with nothing in them
            return []
        found: dict[int, tuple[Path, object]] = {}
        seen = set[int]()
        for path, top in tops:
            _find(path, top, wanted, found, seen, is_deeper=is_deeper)
        return [*found.values()]

    def _told(
        self,
        streams: list[_Stream],
        parts: list[Part],
        values: dict[str, Any],
        lost: dict[str, str],
        places: Mapping[str, Code],
    ) -> Written:
        before = self._before
        known_parts = () if before is None or before.versions != self._known.versions else before.parts
        had = {digest for part in known_parts for digest in (part.digest, *part.leaves)}
        bodies = {stream.digest: stream.body for stream in streams if stream.digest not in had}
        leaves = {d: leaf for stream in streams for d, leaf in stream.leaves if d not in had}
        programs = {program for part in parts for program in part.programs}
        unread = {name.name for part in self._unread for name in part.names} - values.keys()
        definitions = {name: place.program for name, place in places.items() if name not in lost}
        looks_up = {name: self._looks_up(name, places[name]) for name in definitions}
        always = set().union(*(stream.looked_up for stream in streams))
        if before is not None:
            # Nobody knows what functions in unread parts look up now, so the earlier answer stays.
            definitions |= {name: program for name, program in before.definitions.items() if name in unread}
            looks_up |= {name: names for name, names in before.looks_up.items() if name in unread}
            always |= set(before.always) if unread else set()
        contents = Contents(
            versions=self._known.versions,
            parts=parts,
            programs={program: self.codes.texts[program] for program in self.codes.texts if program in programs},
            definitions=definitions,
            looks_up=looks_up,
            always=sorted(always),
        )
        gone = {name: f"could not be kept: {why}" if name.startswith(SETTINGS) else why for name, why in lost.items()}
        given = {id(one): path for stream in streams for path, one in stream.paths.items()}
        classes = [name for name in places if issubclass(type(values[name]), type)]
        changed, touched = self._changed(streams, parts, classes)
        return Written(
            contents,
            bodies,
            leaves,
            gone,
            changed,
            {name: given[id(value)] for name, value in values.items() if name not in lost and id(value) in given},
            touched,
        )

    def _looks_up(self, name: str, place: Code) -> list[str]:
        code = self.codes.at(place)
        if code is None and self._before is not None:  # a class that was read, and is what it was
            return self._before.looks_up.get(name, [])
        return [] if code is None else sorted(looked_up_by(code))

    def _changed(
        self, streams: list[_Stream], parts: list[Part], classes: list[str]
    ) -> tuple[frozenset[str], dict[str, bytes]]:
        """Names whose streams differ from those that were read, or that refer to what does; and the former with digests, and with the
        `classes` where one may be in such a stream: it is written where it is first referred to.
        """
        changed: set[str] = set()
        touched: dict[str, bytes] = {}
        for stream, part in zip(streams, parts, strict=False):
            found = _segments(part, stream.body)
            # What comes after a difference may refer to it, and so may large names that refer to the base.
            is_other = bool(part.imports and changed)
            at = 0
            for (name, segment), size in zip(found.items(), (each.size for each in part.names), strict=True):
                begin, at = at, at + size
                is_other = is_other or self._read.get(name) != segment
                if is_other:
                    changed.add(name)
                    before = self._read.get(name)
                    if before is None or before[:2] != segment[:2]:
                        touched[name] = digest = blake3(b"".join((segment.data, *segment.leaves))).digest()
                        if stream.body.find(_MAKES_CLASS, begin, at) >= 0:
                            touched |= dict.fromkeys(classes, digest)
        return frozenset(changed), touched

    def _places(self, values: Mapping[str, Any]) -> dict[str, Code]:
        """Functions and classes that a statement of a program defines, with where it does."""
        found = {}
        for name, value in values.items():
            place: Code | None = None
            if type(value) is types.FunctionType and value.__globals__ is self._space and _is_bare(value):
                with contextlib.suppress(Unkept):
                    place = self.codes.place_of(value.__code__)
            elif issubclass(type(value), type) and self._known.guards.is_user_class(value):
                place = self.codes.place_of_class(value)
            if place is not None and "<locals>" not in place.qualname:
                found[name] = place
        return found


class _Segment(NamedTuple):
    """How a name is written: equal ones in equal surroundings are equal values."""

    data: bytes
    """All of it, or, of more than a digest would take, that."""
    leaves: tuple[bytes, ...]
    surroundings: tuple[object, ...]


def _segments(part: Part, body: bytes | bytearray) -> dict[str, _Segment]:
    found: dict[str, _Segment] = {}
    at = leaf = 0
    surroundings = (tuple(part.paths), tuple(part.imports), part.filler)
    for name in part.names:
        data = memoryview(body)[at : at + name.size]
        leaves = tuple(part.leaves[leaf : leaf + name.leaves])
        found[name.name] = _Segment(
            blake3(data).digest() if name.size > _DIGESTED_BYTES else bytes(data), leaves, surroundings
        )
        at, leaf = at + name.size, leaf + name.leaves
    return found


def _is_bare(function: types.FunctionType) -> bool:
    """Whether a function is no more than its text: what else it holds may be called as well."""
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return function.__closure__ is None and not function.__dict__ and all(type(each) in _SCALARS for each in given)


def _pieces(leaf: memoryview) -> list[memoryview]:
    return [leaf[at : at + _PIECE_BYTES] for at in range(0, len(leaf), _PIECE_BYTES)]


class _Stream:
    """A part while it is written."""

    def __init__(
        self, writer: Writer, paths: dict[Path, object], imported: list[object], definitions: Collection[str]
    ) -> None:
        self.writer = writer
        self._definitions = definitions
        self.looked_up: frozenset[str] = frozenset()
        """Names that may be looked up by functions of what is no definition."""
        self.names: list[Name] = []
        self.must_be_last: list[str] = []
        """Names whose reading runs methods of the code."""
        self.apart: set[str] = set()
        """Names that need a library."""
        self._libraries: set[str] = set()
        self.imported = imported
        self.paths = paths
        self.body, self.digest, self.leaves = bytearray(), b"", list[tuple[bytes, memoryview]]()

    def append(self, name: str, value: object) -> None:
        """Write a name. Raises Unkept and TooBig, and what the pickler raises."""
        self.writer.runs_code = False
        self.writer.libraries.clear()
        before = len(self.writer.leaves)
        written = self.writer.write(value)
        self.names.append(Name(name, *written, sum(len(_pieces(leaf)) for leaf in self.writer.leaves[before:])))
        if name not in self._definitions and not name.startswith("."):
            self.looked_up = frozenset(self.writer.looked_up)
        if self.writer.runs_code:
            self.must_be_last.append(name)
        if self.writer.libraries:
            self.apart.add(name)
            self._libraries |= self.writer.libraries

    def try_to_append(self, name: str, value: object) -> str | None:
        """Write a name, or return why it cannot be kept."""
        try:
            self.append(name, value)
        except Exception as error:  # noqa: BLE001  an object may be anything
            return reason_of(error)
        return None

    def mutable_objects(self, known: Known) -> dict[int, object]:
        """Return the objects that other parts may share with it, by id."""
        return {id(one): one for one in self.writer.objects(but=_PLAIN) if id(one) not in known.names}

    def own(self, known: Known) -> set[int]:
        """Return the ids of the objects that no other part may have too, since they can change. They live as long as the stream."""
        return self.writer.written(but=_PLAIN) - known.names.keys()

    def part(self, imports: list[int]) -> Part:
        """Return the part as the table of contents describes it. Nothing can be appended afterwards."""
        self.body = self.writer.body()
        self.digest = blake3(self.body).digest()
        pieces = [_pieces(leaf) for leaf in self.writer.leaves]
        self.leaves = [(blake3(piece).digest(), piece) for leaf in pieces for piece in leaf]
        return Part(
            names=self.names,
            leaves=[digest for digest, _ in self.leaves],
            digest=self.digest,
            paths=[*self.paths],
            imports=imports,
            filler=self.writer.filler,
            programs=sorted(self.writer.programs),
            libraries=sorted(self._libraries),
            pieces=[*map(len, pieces)] if len(self.leaves) > len(pieces) else [],
        )


def _is_large(value: object) -> bool:
    """Tell of most large values that they are, before they are written."""
    if type(value) in _SIZED:
        return sys.getsizeof(value) > LARGE_BYTES
    if type(value) is pd.DataFrame:
        return len(value) * sum(dtype is _OBJECT for dtype in value.dtypes) > _MANY_CELLS
    return False


def _find(
    path: Path, top: object, wanted: set[int], found: dict[int, tuple[Path, object]], seen: set[int], *, is_deeper: bool
) -> None:
    """Find where lists and dicts with these ids are in JSON data, outside of what was `seen`; what is in them only if `is_deeper`.

    One variable of tool data may be a part of another one, so that there are two ways to the same object.
    """
    if not wanted or id(top) in seen or not _holds([top], wanted):
        return
    waiting: list[tuple[Path, Any]] = [(path, top)]
    most = len(seen) + _MAX_LOOKED_AT
    while waiting and len(seen) < most:
        at, one = waiting.pop()
        if id(one) in seen:
            continue  # the run's code may have put it into itself
        seen.add(id(one))
        for key, member in one.items() if type(one) is dict else enumerate(one) if type(one) is list else ():
            if type(member) is not dict and type(member) is not list:
                continue
            is_wanted = id(member) in wanted
            if is_wanted:
                found.setdefault(id(member), ((*at, key), member))
            # Of what is not tracked neither is in it, as `containers_in` says.
            if (is_deeper or not is_wanted) and gc.is_tracked(member):
                waiting.append(((*at, key), member))


def _holds(tops: list[Any], wanted: set[int]) -> bool:
    """Tell whether one of these objects is inside: without paths, about ten times as fast."""
    level = tops
    left = _MAX_LOOKED_AT
    while level and left > 0:
        left -= len(level)
        level = containers_in(level)
        if not wanted.isdisjoint(map(id, level)):
            return True
    return False


def reason_of(error: BaseException) -> str:
    """Return the reason of a loss in the words of a reply."""
    if isinstance(error, Unkept | TooBig):
        return str(error)[:_MAX_REASON_CHARS]
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "too big: no memory is left for it"
    try:
        return f"it could not be kept: {type(error).__name__}: {error}"[:_MAX_REASON_CHARS]
    except Exception:  # noqa: BLE001  the code's own error, whose text is code again
        return f"it could not be kept: {type(error).__name__}"


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Work without garbage collection, which would look at each new object, and with room for deeply nested lists."""
    limit, is_on = sys.getrecursionlimit(), gc.isenabled()
    gc.disable()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if is_on:
            gc.enable()
