"""Requests as they go over the wire: limits, names and payloads of what the host asks for."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from byref_sandbox import wire
from byref_sandbox.code import libraries
from byref_sandbox.code.analysis import FAMILIAR, MAX_SOURCE_CHARS, Analysed, definitions_of
from byref_sandbox.code.fresh import bound_first
from byref_sandbox.code.inplace import changed_in_place
from byref_sandbox.code.readonly import is_read_only
from byref_sandbox.code.sqltext import references
from byref_sandbox.contents import FRAME, LAST, OTHER_INFERENCE, SETTINGS, blobs_of, decode_contents, decode_last
from byref_sandbox.functions import Stub
from byref_sandbox.jsontext import encodable
from byref_sandbox.outcome import MAX_FILE_NAME_CHARS, MAX_RECURSION_DEPTH, Limits
from byref_sandbox.values import data, plots
from byref_sandbox.values import files as files_of
from byref_sandbox.values.data import Load, State

MAX_OUTPUTS: Final = wire.MAX_FRAMES - 2
_MAX_NAMES: Final = 10_000
_LISTS: Final = Stub("functions")
"""What lists the functions."""
_OCTETS: Final = "application/octet-stream"


def code_request(
    mode: Literal["code", "raw"],
    code: str,
    variables: Mapping[str, object],
    limits: Limits,
    without: tuple[str, ...] = (),
    state: State | None = None,
    files: Mapping[str, bytes | data.Data] | None = None,
    allowed: Sequence[str] = (),
    stubs: Sequence[Stub] = (),
) -> tuple[wire.Request, list[Load]]:
    """Build the request for a run of Python. It contains only variables and names of the session that the code may read.

    `allowed` are further modules that the host allows, and `stubs` functions that the code may call, if it names one.

    Raises TypeError, ValueError.
    """
    if len(variables) > _MAX_NAMES:
        raise ValueError(f"{len(variables):,} variables; at most {_MAX_NAMES:,} can be bound")
    for name in variables:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"variable name {name!r} is no Python identifier")
    code = Analysed.of(code)
    session = _Session(state, code)
    uses = [text.uses for text in session.texts]
    wanted: frozenset[str] = session.names.union(*(each.names for each in uses))
    others = [name for name, value in variables.items() if isinstance(value, data.Data) and value.is_name_only]
    unnamed = variables.keys() - wanted - {*others} if session.may_read_any else frozenset[str]()
    wanted = (wanted | unnamed).difference(others)
    tables: frozenset[str] = session.tables.union(*(each.tables for each in uses))
    looked_at: frozenset[str] = frozenset().union(*(each.only_looked_at for each in uses))
    constructed: frozenset[str] = looked_at.union(*(each.only_constructed for each in uses))
    values: frozenset[str] = session.values.union(
        unnamed,
        *(each.names - each.only_tables - each.only_constructed - each.only_looked_at for each in uses),
    )
    if session.has_other_inference or not FAMILIAR.isdisjoint({*variables, *session.all_names}):
        values |= constructed  # for `pd.DataFrame` may be something else, or make other columns of text
    payloads = _Payloads()
    bound: list[wire.Variable] = []
    for name, value in variables.items():
        if name not in wanted:
            continue
        payload, load, path, frame = _payload(name, value)
        index = payloads.add(payload, load)
        is_frame = frame and payload.content_type != data.EXACT
        parts = _parts(value) if payload.content_type == data.JSON else []
        is_kept = _is_left(value)
        is_constructed = name in constructed - values and payload.content_type == data.JSON and not is_frame
        is_value = is_kept or name in values | looked_at or (name in constructed and not is_constructed)
        bound.append(
            wire.Variable(
                name,
                index,
                path,
                is_frame,
                is_value,
                name in tables,
                is_constructed,
                parts,
                is_kept,
                _is_hidden(value),
                name in unnamed,
            )
        )
    bound = _without_changed(bound)
    given_files: list[wire.GivenFile] = []
    if files and files_of.are_named(session.texts):
        given_files = [wire.GivenFile(name, payloads.add(*_file(name, content))) for name, content in files.items()]
    given = [name for name, value in variables.items() if not (_is_left(value) or _is_hidden(value))]
    needed_libraries = libraries.named(session.texts, session.libraries, allowed) if mode == "code" else []
    left = [name for name, value in variables.items() if _is_left(value)]
    left += sorted(session.all_names.difference(variables))
    bound_names = [variable.name for variable in bound]
    own = session.all_names & wanted
    changed = changed_in_place(code, session.texts[1:], {*bound_names, *own}, is_named_apart=False)
    text = Analysed.joined(session.texts[::-1])
    is_reading = is_read_only(text, [*bound_names, *([LAST] if session.last else ())])
    binds = bool(code.uses.assigned or code.uses.imports or code.uses.may_read_all)
    keeps = binds or not is_reading or session.has_settings or bool(session.last)
    is_harmless = not (binds or session.has_settings or LAST in code.uses.names)
    reads = own if own and is_harmless and is_read_only(text, [*bound_names, *own]) else ()
    # Names of the session may be functions that call the host's.
    uses_session = code.uses.may_read_all or bool(own)
    keeps = keeps or uses_session
    functions = [*stubs] if uses_session or _names_one(code, stubs) else []
    request = wire.Request(
        mode=mode,
        # Written as escapes, lone surrogates mean the same in a string literal; elsewhere in code they are refused.
        source=encodable(code),
        terms=_terms(limits, waits=bool(functions)),
        payloads=payloads.all,
        variables=bound,
        state=session.request(payloads, may_change=uses_session and not reads) if keeps else None,
        keeps=keeps,
        names=[*given, *left],
        others=len(left),
        not_loaded=[name for name, value in variables.items() if name not in wanted and not _is_hidden(value)],
        files=given_files,
        plots=mode == "code"
        and (
            "matplotlib" in session.libraries
            or plots.are_named(session.texts)
            or libraries.draw(needed_libraries, session.texts)
        ),
        libraries=needed_libraries,
        changed=[FRAME + each.name if each.is_table else each.name for each in changed],
        is_reading=is_reading,
        reads=sorted(reads),
        functions=functions,
        without=list(without),
    )
    return request, payloads.loads


def _names_one(code: str, stubs: Sequence[Stub]) -> bool:
    return bool(stubs) and any(stub.name in code for stub in (*stubs, _LISTS))


def _without_changed(bound: list[wire.Variable]) -> list[wire.Variable]:
    """Return the variables. One of which only a DataFrame would be made is given as a value instead if another variable has its
    payload as a value, which code may change.
    """
    shared = {variable.payload for variable in bound if variable.is_value and not variable.is_constructed}
    return [
        msgspec.structs.replace(variable, is_constructed=False, is_value=True)
        if variable.is_constructed and variable.payload in shared
        else variable
        for variable in bound
    ]


class _Session:
    """What a run needs of its session's state: found from the tables of contents."""

    def __init__(self, state: State | None, code: Analysed) -> None:
        self._state = state
        self._all = [decode_contents(snapshot.contents) for snapshot in state.snapshots] if state is not None else []
        # What the code binds before it mentions it is as it was only where the code fails before that: then it need not be read either.
        self._wanted: frozenset[str] | None = code.uses.names - bound_first(code.statements)
        for contents in self._all:
            if self._wanted is not None:
                self._wanted = contents.wanted(self._wanted)
        found = state.definitions if state is not None else None
        self.texts = [code, *(self._definitions(code.uses.names) if found is None else map(Analysed.of, found))]
        """The code, and the definitions of earlier runs that it uses."""
        self.may_read_any = any(text.uses.may_read_any for text in self.texts)
        """Whether it needs variables that nothing names."""
        if self._all and (code.uses.may_read_all or self.may_read_any or len(self._all) > 1):
            self._wanted = None
        self.all_names = frozenset[str]().union(*(contents.names() for contents in self._all))
        """All names that earlier runs have left."""
        kept = {name.name for contents in self._all for part in contents.parts for name in part.names}
        self.has_settings = any(name.startswith(SETTINGS) for name in kept)
        """Whether earlier runs have left settings of libraries: any code may depend on them."""
        self.has_other_inference = OTHER_INFERENCE in kept
        """Whether pandas was told to make something else of text than it does by itself."""
        self._parts = [part for contents in self._all for part in contents.needed(self._wanted)]
        self.last = b""
        """The last value of the runs before, if the code may use it."""
        if state is not None and (LAST in code.uses.names or code.uses.may_read_all):
            self.last = state.last
        libraries = [name for part in self._parts for name in part.libraries]
        self.libraries = frozenset([*libraries, *(decode_last(self.last).libraries if self.last else ())])
        """What it takes to read its names, of the libraries that are loaded only when code needs them."""
        first = {str(path[0]) for part in self._parts for path in part.paths}
        looked_up = [c.looked_up(code.uses.names) for c in self._all]
        self.values = frozenset(name for name in first if not name.startswith(FRAME)).union(*looked_up)
        """Variables whose values the names refer to, or that functions may look up."""
        self.tables = frozenset(name.removeprefix(FRAME) for name in first if name.startswith(FRAME))
        """Variables whose DataFrames they refer to."""
        self.names = self.values | self.tables
        """All names that the code may read by what it calls."""

    def _definitions(self, names: frozenset[str]) -> Iterator[Analysed]:
        for contents in self._all:
            wanted = contents.wanted(names)
            yield from definitions_of(contents.programs, contents.definitions, wanted, room=MAX_SOURCE_CHARS)

    def request(self, payloads: _Payloads, *, may_change: bool) -> wire.State | None:
        """The state as it goes over the wire; payloads that it needs are added to the others, also those of large names that are data
        and share something with others that the code may change.
        """
        state = self._state
        if state is None:
            return None
        wanted = None if self._wanted is None else sorted({*self._wanted, *state.without} & self.all_names)
        blobs: dict[bytes, int] = {}
        parts = [*self._parts] if wanted is None else [p for c in self._all for p in c.needed(frozenset(wanted))]
        if may_change:
            parts += [
                part
                for contents in self._all
                for part in contents.parts[1:]
                if part.imports and not part.libraries and any(name.name in state.shown for name in part.names)
            ]
        for digest in blobs_of(parts):
            blob = state.blobs.get(digest)
            if isinstance(blob, data.Data):
                blobs[digest] = payloads.add(wire.Payload(blob.key, data.BYTES), blob.load)
            elif blob is not None:
                blobs[digest] = payloads.add(wire.Payload("", data.BYTES, blob), functools.partial(bytes, blob))
        return wire.State(
            [wire.Snapshot(snapshot.contents, list(snapshot.names)) for snapshot in state.snapshots],
            blobs,
            dict(state.missing),
            wanted,
            list(state.without),
            dict(state.shown),
            state.is_foreign,
            self.last,
        )


def sql_request(
    query: str, variables: Mapping[str, object], limits: Limits, keep: str = ""
) -> tuple[wire.Request, list[Load]]:
    """The request for a SQL query, with only those tables that it names; raises TypeError, ValueError."""
    by_name = {name.lower(): name for name in variables} | {name: name for name in variables}
    payloads = _Payloads()
    bound: list[wire.Variable] = []
    made: dict[str, tuple[int, list[str | int], bool]] = {}
    seen: set[tuple[str, ...]] = set()
    for reference in references(query):
        name = by_name.get(reference.name) or by_name.get(reference.name.lower())
        if name is None or (folded := (name, *map(str.lower, reference.path))) in seen:
            continue
        seen.add(folded)
        if name not in made:
            payload, load, path, _ = _payload(name, variables[name])
            made[name] = (payloads.add(payload, load), json.loads(path), payload.content_type == data.EXACT)
        index, base, is_exact = made[name]
        if not (is_exact and reference.path):
            path = json.dumps([*base, *reference.path]).encode()
            bound.append(wire.Variable(reference.key, index, path, is_value=False, is_table=True))
    request = wire.Request(
        mode="sql",
        source=encodable(query),
        terms=_terms(limits),
        payloads=payloads.all,
        variables=bound,
        names=list(variables),
        keep=keep,
    )
    return request, payloads.loads


def jq_request(
    mode: Literal["jq", "pick"], program: str, value: object, limits: Limits, max_outputs: int, max_bytes: int
) -> tuple[wire.Request, list[Load]]:
    """The request for a jq program over one value; raises TypeError, ValueError."""
    if max_outputs < 1 or max_bytes < 1:
        raise ValueError(f"max_outputs is {max_outputs}, max_bytes is {max_bytes}; both must be positive")
    payload, load, path, _ = _payload("input", value)
    request = wire.Request(
        mode=mode,
        source=encodable(program),
        terms=_terms(limits),
        payloads=[payload],
        variables=[wire.Variable("input", 0, path)],
        max_outputs=min(max_outputs, MAX_OUTPUTS),
        max_output_bytes=min(max_bytes, limits.result_bytes),
    )
    return request, [load]


def template_request(template: str, value: object, limits: Limits, max_bytes: int) -> tuple[wire.Request, list[Load]]:
    """The request for a template over one value; raises TypeError, ValueError."""
    if max_bytes < 1:
        raise ValueError(f"max_bytes is {max_bytes}; it must be positive")
    content_type, inline = data.encode_exactly(value)
    request = wire.Request(
        mode="template",
        source=encodable(template),
        terms=_terms(limits),
        payloads=[wire.Payload("", content_type, inline)],
        max_output_bytes=min(max_bytes, limits.result_bytes),
    )
    return request, [lambda: inline]


def tables_request(
    document: bytes, content_type: str | None, name: str | None, limits: Limits, max_bytes: int
) -> tuple[wire.Request, list[Load]]:
    """The request for the tables of a document; raises TypeError, ValueError."""
    if max_bytes < 1:
        raise ValueError(f"max_bytes is {max_bytes}; it must be positive")
    hints = [encodable(hint or "")[:MAX_FILE_NAME_CHARS] for hint in (content_type, name)]
    request = wire.Request(
        mode="tables",
        source=json.dumps(hints),
        terms=_terms(limits),
        payloads=[wire.Payload("", _OCTETS)],
        max_output_bytes=min(max_bytes, limits.result_bytes),
    )
    return request, [lambda: document]


class _Payloads:
    """The payloads of a request, and how each is loaded; equal ones are sent once."""

    def __init__(self) -> None:
        self.all: list[wire.Payload] = []
        self.loads: list[Load] = []
        self._by_key: dict[tuple[str, str], int] = {}

    def add(self, payload: wire.Payload, load: Load) -> int:
        """Return the index of a payload among those of the request."""
        index = len(self.all)
        if payload.inline is None:
            index = self._by_key.setdefault((payload.key, payload.content_type), index)
        if index == len(self.all):
            self.all.append(payload)
            self.loads.append(load)
        return index


def _payload(name: str, value: object) -> tuple[wire.Payload, Load, bytes, bool]:
    """The payload of a value, how to load it, its path, and whether it is a DataFrame."""
    if isinstance(value, data.Data):
        return wire.Payload(value.key, value.content_type), value.load, json.dumps(value.path).encode(), value.frame
    content_type, inline, frame = data.encode(name, value)
    return wire.Payload("", content_type, inline), lambda: inline, b"[]", frame


def _file(name: str, content: bytes | data.Data) -> tuple[wire.Payload, Load]:
    if files_of.is_name(name):
        if isinstance(content, data.Data):
            return wire.Payload(content.key, _OCTETS), content.load
        if isinstance(content, bytes):
            return wire.Payload("", _OCTETS, content), lambda: content
    raise ValueError(
        f"file {name[:100]!r}: expected a relative path of at most {MAX_FILE_NAME_CHARS} characters, and bytes"
    )


def _is_left(value: object) -> bool:
    """Whether an earlier run left it."""
    return isinstance(value, data.Data) and value.kept


def _is_hidden(value: object) -> bool:
    return isinstance(value, data.Data) and value.is_hidden


def _parts(value: object) -> list[list[str]]:
    return [list(path) for path in value.parts] if isinstance(value, data.Data) else []


def _terms(limits: Limits, *, waits: bool = False) -> wire.Terms:
    for name in (
        *("wall_seconds", "cpu_seconds", "memory_bytes", "stdout_bytes", "result_bytes", "recursion_depth"),
        "wait_seconds",
    ):
        value = getattr(limits, name)
        if not 0 < value < float("inf"):
            raise ValueError(f"limit {name} is {value!r}; expected a positive, finite number")
    if limits.recursion_depth > MAX_RECURSION_DEPTH:
        raise ValueError(
            f"limit recursion_depth is {limits.recursion_depth!r}; at most {MAX_RECURSION_DEPTH:,} is possible"
        )
    return wire.Terms(
        float(limits.wall_seconds),
        float(limits.cpu_seconds),
        int(limits.memory_bytes),
        int(limits.stdout_bytes),
        int(limits.result_bytes),
        int(limits.recursion_depth),
        float(limits.wait_seconds) if waits else 0.0,
    )
