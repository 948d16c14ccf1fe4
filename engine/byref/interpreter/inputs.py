"""Inputs of a run: the data, files and names of the session that its code may use, looked up in one read of the database."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeGuard

import msgspec
from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import names, store, variables
from byref.artifacts.names import Kept, Meant
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Path, Variable
from byref.conversation.scope import Scope
from byref.db.payloads import Converted, PayloadLoad
from byref.errors import ToolError, one_line
from byref_sandbox import EXACT, Data, Every, Snapshot, State
from byref_sandbox.code.analysis import FRAME as FRAME_HELPER
from byref_sandbox.code.analysis import MAX_SOURCE_CHARS, Analysed, definitions_of
from byref_sandbox.contents import FRAME, LAST, Contents, Part, blobs_of, decode_contents, encode_contents
from byref_sandbox.contents import Path as StatePath
from byref_sandbox.values.data import type_of_tables
from byref_sandbox.values.files import are_named as may_use_files
from byref_sandbox.values.gathering import Step

MAX_VALUE_BYTES = 256 << 20
"""Maximum bytes of stored JSON, or of text with tables, that are decoded to one value: Python's objects take up to ten times its size, libjq's more."""
MAX_BOUND_NAMES = 10_000
"""Maximum variables that one run may name; the sandbox accepts no more."""
MAX_GIVEN_FILES = 100
"""Maximum files of earlier code that one run is given; those that the code names come first."""
MAX_UNNAMED_FILE_BYTES = 16 << 20
"""Maximum bytes of all given files that the code does not name. They are given because code may compute their names."""
MAX_UNNAMED_ARTIFACTS = 100
"""Maximum artifacts whose variables code is given that may read any name: those that it names come on top."""
MAX_UNNAMED_NAMES = 1_000
"""Maximum of these variables: an artifact may have many."""
MAX_UNNAMED_BYTES = 16 << 20
"""Maximum bytes of all of these artifacts. Other variables are listed to such code, and an error tells it to write the name of one that it reads."""
NAMED_IN_ERRORS = 100
"""Maximum variables that an error may suggest though the code does not name them; those of tools come first."""
CALL_CHARS: Final = 80
"""Maximum characters of a call's arguments where a text says which call made a variable."""
_NUMBERED: Final = re.compile(r"_[0-9]+\Z")
_OCTETS = "application/octet-stream"
_WORD: Final = re.compile(r"\w{3,64}")
_ALWAYS_THERE: Final = frozenset(dir(builtins)).union([FRAME_HELPER]) - {"open", "__import__"}
"""An error about one of these names never says where the data is."""

Inside = Mapping[int, Mapping[Path, str]]
"""Shapes of what variables stand for inside artifacts, by the artifact's row and by path."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a run."""

    kept: Kept
    """What the session keeps: the state of its names, and where the tables of its variables are."""
    variables: Mapping[str, Variable]
    """The variables that the code may read, by name."""
    data: Mapping[str, object]
    """What the sandbox binds: those variables that are not in the state, and artifacts that the code names by id or name."""
    state: State | None = None
    """The names that earlier runs have left."""
    lacks: bool = False
    """Whether something is not there any more that the state refers to."""
    texts: tuple[Analysed, ...] = ()
    """Definitions of functions and classes of earlier runs that the code may use."""
    files: Mapping[str, Data] = field(default_factory=dict)
    """Files that earlier code wrote; empty if this code cannot read files."""
    last_file: int | None = None
    """The row id of the newest of all files; None if this code cannot read files."""
    inside: Inside = field(default_factory=dict)
    """For the artifacts of `variables`."""
    calls: Mapping[str, str] = field(default_factory=dict)
    """The calls whose outputs are meant by numbered names, such as `get_orders_2`, that no envelope named."""
    others: Mapping[str, object] = field(default_factory=dict)
    """Placeholders for variables that the code does not name: they are not bound, but an error may name them."""
    unnamed: frozenset[str] = frozenset()
    """Those of `variables` that the code does not name: it may compute their names."""
    former: Mapping[str, Variable] = field(default_factory=dict)
    """Data to which the state refers by names that are bound to other data since, by the names that it has in place of these."""
    meant: Mapping[str, Meant] = field(default_factory=dict)
    """The data to which the state may refer, by name."""


def have_same_data(one: Inputs, other: Inputs) -> bool:
    """Tell whether the names in two inputs stand for the same stored data: no other run has bound them meanwhile."""
    first, second = (
        (given.kept.digest, given.kept.exact, {name: found.artifact.row_id for name, found in given.variables.items()})
        for given in (one, other)
    )
    return first == second


def look_up(scope: Scope, code: Analysed) -> Inputs:
    """Return the inputs of a run of this code.

    Raises:
        ToolError: the code names too many variables, or data that is too large for one value.
    """
    inputs, artifacts = scope.read(lambda connection: _found(connection, scope, code))
    named = [one for name, one in inputs.variables.items() if name not in inputs.unnamed]
    given = [*named, *inputs.former.values()]
    used = [*(variable.artifact for variable in given), *artifacts.values()]
    for artifact in used:
        artifact.use()
    if len(inputs.variables) > MAX_BOUND_NAMES:
        raise ToolError(
            f"the code names {len(inputs.variables):,} variables; at most {MAX_BOUND_NAMES:,} can be bound. "
            "Name them in several calls."
        )
    bound = {name: one for name, one in inputs.variables.items() if not is_in_state(inputs.kept, one)}
    bound |= inputs.former
    for artifact in (*(variable.artifact for variable in bound.values()), *artifacts.values()):
        if artifact.kind == "json":
            check_size(scope, artifact)
    data: dict[str, object] = {name: data_of(artifact, as_stored=True) for name, artifact in artifacts.items()}
    data |= {name: data_of_variable(scope, inputs.kept, one, inputs.inside) for name, one in bound.items()}
    data |= {
        name: replace(one, is_hidden=True)
        for name, one in data.items()
        if name in inputs.former and isinstance(one, Data)
    }
    if inputs.lacks:
        data |= as_data(scope, inputs).data
    room = max(0, MAX_BOUND_NAMES - len(data))
    others = dict(list(inputs.others.items())[:room])
    return replace(inputs, data=_each_its_own(data, inputs.variables), others=others, state=_state(scope, inputs, code))


def as_data(scope: Scope, inputs: Inputs) -> Inputs:
    """Return inputs for a sandbox of another version than the one that wrote the state: names are given as data, as far as they are."""
    data = {
        name: data_of_variable(scope, inputs.kept, one, inputs.inside)
        for name, one in inputs.variables.items()
        if name not in inputs.data
    }
    state = None if inputs.state is None else replace(inputs.state, is_foreign=True)
    return replace(inputs, data={**inputs.data, **_each_its_own(data, inputs.variables)}, state=state)


def without_analysis(inputs: Inputs) -> Inputs:
    """Return inputs whose state says nothing that it does not need to say."""
    return replace(inputs, state=None if inputs.state is None else replace(inputs.state, definitions=None))


def without_blob(scope: Scope, inputs: Inputs, digest: bytes, reason: str) -> Inputs:
    """Return inputs without a blob of the state that cannot be read; names are given as data, as far as they are."""
    assert inputs.state is not None
    blobs = {key: blob for key, blob in inputs.state.blobs.items() if key != digest}
    state = replace(inputs.state, blobs=blobs, missing={**inputs.state.missing, digest: reason})
    return replace(inputs, data=as_data(scope, inputs).data, state=state)


def calls_of(connection: Connection, scope: Scope, used: Collection[Variable]) -> dict[str, str]:
    """Return the calls that made those of the variables that are whole outputs and passed whole, by the variable's name."""
    outputs = [one for one in used if one.origin == "output" and not one.path]
    if not outputs:
        return {}
    calls = ledger.calls_that_passed(connection, scope.row, {one.step for one in outputs})
    written = {
        step: f"{tool}({one_line(arguments, CALL_CHARS)})" for step, (tool, arguments) in calls.items() if arguments
    }
    return {one.name: written[one.step] for one in outputs if one.step in written}


def is_in_state(kept: Kept, variable: Variable) -> bool:
    """Tell whether a variable is a name of the state, and nothing else was bound to it since."""
    entry = kept.record.entries.get(variable.name)
    return variable.origin == "run" and entry is not None and entry.artifact_row == variable.artifact.row_id


def _found(connection: Connection, scope: Scope, code: Analysed) -> tuple[Inputs, Mapping[str, Artifact]]:
    """The inputs, still without data, and the artifacts that the code names by id or name."""
    kept = names.kept(connection, scope.row)
    record = kept.record
    entries, snapshots = record.entries, [decode_contents(one.contents) for one in record.snapshots]
    wanted: frozenset[str] = code.uses.names.union(*(contents.wanted(code.uses.names) for contents in snapshots))
    if code.uses.may_read_all:
        wanted |= entries.keys()
    texts = _texts(code, snapshots, wanted)
    unnamed, beyond = frozenset[str](), dict[str, bool]()
    if reads_any := any(text.uses.may_read_any for text in texts):
        wanted |= entries.keys()
        texts = _texts(code, snapshots, wanted)
        unnamed, beyond = _unnamed(connection, scope, texts, wanted)
    # What the code assigns is looked up too: a name that a tool's data has stands for that again in the next run.
    named = wanted | code.uses.assigned
    paths = {first for contents in snapshots for first in referred_names(contents.parts)}
    functions = {one.name for one in scope.functions}
    bound = variables.find(connection, scope.source, scope.row, named | paths)
    unnamed -= bound.keys()
    bound |= variables.find(connection, scope.source, scope.row, unnamed, without_damaged=True)
    # An output is hidden by a function with its name; what earlier runs have bound to it stays what it was.
    known = {name: one for name, one in bound.items() if name not in functions or one.origin != "output"}
    exact = names.exact(connection, scope.row, {variable.name for variable in known.values()})
    unknown = (code.uses.names | paths) - bound.keys() - entries.keys()
    artifacts = _artifacts(connection, scope, unknown, code.uses.assigned)
    meant = {name: _meant(one, exact) for name, one in known.items()}
    meant |= {name: Meant(one.row_id) for name, one in artifacts.items()}
    was: dict[str, Meant] = {}
    for at, one in enumerate(record.snapshots):
        snapshots[at], further = _with_former(snapshots[at], one.meant, meant)
        was |= further
    if was:
        changed = zip(record.snapshots, snapshots, strict=True)
        renamed = [msgspec.structs.replace(one, contents=encode_contents(contents)) for one, contents in changed]
        record = msgspec.structs.replace(record, snapshots=renamed)
    parts = [part for contents in snapshots for part in contents.needed(wanted)]
    referred = referred_names(parts)
    wanted |= referred
    found = {name: one for name, one in known.items() if name in named | referred | unnamed}
    artifacts = {name: one for name, one in artifacts.items() if name in code.uses.names | referred}
    former = _former(connection, scope, {name: one for name, one in was.items() if name in referred})
    holding = {one.artifact.row_id for one in found.values() if one.artifact.kind == "json"}
    others = beyond
    unknown = (code.uses.names | referred) - found.keys() - entries.keys() - former.keys() - functions
    is_missing = bool(unknown - artifacts.keys() - code.uses.assigned - _ALWAYS_THERE)
    if not reads_any and (is_missing or any(map(_may_look_elsewhere, texts))):
        others = variables.of_tools_first(connection, scope.row, NAMED_IN_ERRORS)
    inputs = Inputs(
        replace(kept, record=record, exact=exact),
        # `df("$users")`; in an order that does not change with each process, as what is said of names follows it.
        {name.removeprefix("$"): variable for name, variable in sorted(found.items())},
        {},
        None,
        not (referred <= found.keys() | artifacts.keys() | former.keys() and kept.blobs.keys() >= {*blobs_of(parts)}),
        tuple(texts[1:]),
        *_files(connection, scope, texts),
        variables.inside(connection, holding),
        calls_of(
            connection, scope, [one for one in found.values() if one.name not in unnamed and _NUMBERED.search(one.name)]
        ),
        {
            name: name_only(is_left=is_left)
            for name, is_left in others.items()
            if name not in wanted and (is_left or name not in functions)
        },
        unnamed & found.keys(),
        former,
        {**was, **meant},
    )
    return inputs, artifacts


def _texts(code: Analysed, snapshots: Collection[Contents], wanted: frozenset[str]) -> tuple[Analysed, ...]:
    """The code, and the definitions of functions and classes of earlier runs under these names."""
    return (
        code,
        *(
            text
            for contents in (snapshots if code.tree is not None else ())
            for text in definitions_of(contents.programs, contents.definitions, wanted, room=MAX_SOURCE_CHARS)
        ),
    )


def _unnamed(
    connection: Connection, scope: Scope, texts: Collection[Analysed], named: Collection[str]
) -> tuple[frozenset[str], dict[str, bool]]:
    """Return variables for code that may read any name, within bounds, and others, each with whether code bound it.

    The newest come first, and before them those whose names begin or end as the code says: `f"orders_{year}"`.
    """
    words = {word for text in texts for word in _WORD.findall(text)}
    functions = {one.name for one in scope.functions}
    rows = [
        row
        for row in variables.sized(connection, scope.row, MAX_BOUND_NAMES)
        if row.name not in named and (row.origin != "output" or row.name not in functions)
    ]
    rows.sort(key=lambda row: not _is_like(row.name, words))  # stable
    given: set[str] = set()
    others: dict[str, bool] = {}
    read: set[int] = set()
    room = MAX_UNNAMED_BYTES
    for row in rows:
        if row.artifact_row not in read and len(read) < MAX_UNNAMED_ARTIFACTS and row.size_bytes <= room:
            read.add(row.artifact_row)
            room -= row.size_bytes
        if row.artifact_row in read and len(given) < MAX_UNNAMED_NAMES:
            given.add(row.name)
        else:
            others[row.name] = row.origin == "run"
    return frozenset(given), others


def _is_like(name: str, words: Collection[str]) -> bool:
    ends = range(1, len(name))
    return name in words or any(name[:at] in words or name[at:] in words for at in ends)


def name_only(*, is_left: bool) -> Data:
    """Return the placeholder for a variable that the code is not given; `is_left`: an earlier run left it."""
    return Data("", lambda: b"null", kept=is_left, is_name_only=True)


def referred_names(parts: Collection[Part]) -> set[str]:
    """The names of the data to which parts of a state refer."""
    return {str(path[0]).removeprefix(FRAME) for part in parts for path in part.paths}


def _meant(variable: Variable, exact: Mapping[str, tuple[int, int | None, bytes]]) -> Meant:
    row = variable.artifact.row_id
    _, artifact_row, digest = exact.get(variable.name, (0, None, b""))
    is_frame = variable.kind == "dataframe"
    return Meant(row, variables.to_text(variable.path), is_frame, digest if artifact_row == row else b"")


def _with_former(
    contents: Contents, meant: Mapping[str, Meant], now: Mapping[str, Meant]
) -> tuple[Contents, dict[str, Meant]]:
    """Return the contents, and, by further names that it has in their place, what names meant in it that mean something else now."""
    others = {name: one for name in referred_names(contents.parts) if (one := meant.get(name)) and now.get(name) != one}
    if not others:
        return contents, {}
    # No output's name has two low lines. A name that was made here earlier stays.
    ends = {name: f"__{one.artifact_row}" for name, one in others.items()}
    further = {name: name.removesuffix(end) + end for name, end in ends.items()}

    def renamed(path: StatePath) -> StatePath:
        first = str(path[0])
        name = first.removeprefix(FRAME)
        return (first.removesuffix(name) + further.get(name, name), *path[1:])

    parts = [msgspec.structs.replace(part, paths=[*map(renamed, part.paths)]) for part in contents.parts]
    return msgspec.structs.replace(contents, parts=parts), {further[name]: one for name, one in others.items()}


def _former(connection: Connection, scope: Scope, was: Mapping[str, Meant]) -> dict[str, Variable]:
    """Return the data that is meant, as far as it is still there as it was: the types of a table go with its name."""
    rows = {one.artifact_row for one in was.values() if not one.exact}
    found = store.by_row_ids(connection, scope.source, scope.row, rows)
    return {
        name: Variable(
            name, "", variables.from_text(one.path), 0, "output", "dataframe" if one.is_frame else "value", 1, artifact
        )
        for name, one in was.items()
        if not one.exact and (artifact := found.get(one.artifact_row)) is not None
    }


def _state(scope: Scope, inputs: Inputs, code: Analysed) -> State | None:
    """The names that earlier runs have left, as the sandbox takes them."""
    kept, found = inputs.kept, inputs.variables
    last = kept.last if LAST in code.uses.names or code.uses.may_read_all else b""
    if not kept.record.snapshots:
        return State((), last=last) if last else None
    entries = kept.record.entries
    stale = {name for name, one in found.items() if name in entries and not is_in_state(kept, one)}
    stale |= {name for name, one in entries.items() if one.artifact_row and name in code.uses.names - found.keys()}
    for one in kept.record.snapshots:  # of runs beside which another one ended, or for which there was no room
        stale |= decode_contents(one.contents).names() - entries.keys()
    blobs: dict[bytes, Data | bytes] = {
        digest: blob if isinstance(blob, bytes) else names.data_of(scope.ask, blob[0], digest, _OCTETS)
        for digest, blob in kept.blobs.items()
    }
    return State(
        tuple(Snapshot(one.contents, tuple(one.names)) for one in kept.record.snapshots),
        blobs,
        kept.damaged,
        tuple(sorted(stale)),
        {name: one.shown for name, one in entries.items() if one.shown and one.artifact_row},
        inputs.texts,
        last,
        is_foreign=not kept.digest,
    )


def _may_look_elsewhere(code: Analysed) -> bool:
    """Tell whether code may look for its data in files or on the network: then an error says where the data is."""
    return code.tree is None or bool(code.uses.imports) or may_use_files([code.plain])


def _artifacts(
    connection: Connection, scope: Scope, named: Collection[str], assigned: Collection[str]
) -> dict[str, Artifact]:
    """Artifacts that code names by id, or by a name that it does not itself assign."""
    found = store.by_ids(connection, scope.source, scope.row, named)
    others = [n for n in named if n not in found and n not in variables.SANDBOX_NAMES and variables.is_name(n)]
    by_name = store.by_names(connection, scope.source, scope.row, others)
    return found | {name: artifact for name, artifact in by_name.items() if name not in assigned}


def _files(connection: Connection, scope: Scope, texts: Collection[Analysed]) -> tuple[dict[str, Data], int | None]:
    plain = [text.plain for text in texts]
    if not may_use_files(plain):
        return {}, None
    found, last = store.files_of_runs(
        connection, scope.source, scope.row, "\n".join(plain), most=MAX_GIVEN_FILES, max_bytes=MAX_UNNAMED_FILE_BYTES
    )
    for artifact in found.values():
        artifact.use()
    return {name: data_of(artifact) for name, artifact in found.items()}, last


def data_of(
    artifact: Artifact,
    path: Path = (),
    *,
    frame: bool = False,
    for_jq: bool = False,
    as_stored: bool = False,
) -> Data:
    """Return stored data as the sandbox takes it: read only if no warm zygote holds it.

    `as_stored`: a text that holds JSON is that text.
    """
    is_json = artifact.kind == "json" or (for_jq and artifact.is_json)
    if as_stored and artifact.is_string:
        is_json = False
    is_text = artifact.kind in ("text", "json")
    content_type = "application/json" if is_json else "text/plain" if is_text else artifact.content_type
    if is_json and artifact.reading is not None:
        content_type = type_of_tables(artifact.reading)
    payload = artifact.payload
    load = payload.read if isinstance(payload, Converted) else PayloadLoad(payload)
    return Data(artifact.digest.hex(), load, content_type, path, frame)


def data_of_variable(scope: Scope, kept: Kept, variable: Variable, inside: Inside | None = None) -> Data:
    """Return a variable's data as the sandbox takes it: with its types, where a run left it."""
    exact = kept.exact.get(variable.name)
    if exact is not None and exact[1] == variable.artifact.row_id:
        return replace(names.data_of(scope.ask, exact[0], exact[2]), kept=True)
    data, depth = data_of(variable.artifact, variable.path, frame=variable.kind == "dataframe"), len(variable.path)
    paths = (inside or {}).get(variable.artifact.row_id, ())
    parts = (path[depth:] for path in paths if path[:depth] == variable.path and all(map(_is_utf8, path)))
    named = tuple(part for part in parts if _is_plain(part))
    return replace(data, parts=named, kept=variable.origin == "run")


def check_size(scope: Scope, artifact: Artifact) -> None:
    """Raise ToolError for JSON, or text with tables, that is too large to be decoded as one value."""
    if artifact.payload.size > MAX_VALUE_BYTES:
        ways = [name for name in ("artifact_grep", "artifact_read") if name in scope.tools]
        how = f" Find and read what you need with {' and '.join(ways)}, or" if ways else " Please"
        kind = "JSON" if artifact.reading is None else "text with tables in it"
        raise ToolError(
            f"artifact {artifact.id} has {artifact.payload.size:,} bytes of {kind}; a value of at most "
            f"{MAX_VALUE_BYTES >> 20} MB can be held at once.{how} ask its tool for less."
        )


def _is_plain(path: Path) -> TypeGuard[tuple[str, ...]]:
    """Tell whether a path leads to one value, which a run may hand back as it was given."""
    return all(isinstance(step, str) for step in path)


def _is_utf8(step: str | Every) -> bool:
    """Tell whether a key can be written in UTF-8. Code and messages cannot name a key with a lone surrogate."""
    try:
        "".join((step,) if isinstance(step, str) else (step.column, step.by, *step.cells)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _each_its_own(data: Mapping[str, object], bound: Mapping[str, Variable]) -> dict[str, object]:
    """Give each value that a run left a copy of its own, so that a change in one of them does not show in another."""
    stored = {name: one for name, one in data.items() if isinstance(one, Data) and one.content_type != EXACT}
    paths: dict[tuple[str, str], Counter[tuple[Step, ...]]] = {}
    above: set[tuple[str, tuple[Step, ...]]] = set()
    for one in stored.values():
        paths.setdefault((one.key, one.content_type), Counter())[one.path] += 1
        above.update((one.key, path) for path in _above(one.path))
    apart = dict(data)
    for name, one in stored.items():
        same = paths[one.key, one.content_type]
        is_part = same[one.path] > 1 or (one.key, one.path) in above or any(path in same for path in _above(one.path))
        if is_part and name in bound and bound[name].origin == "run":
            apart[name] = replace(one, key=f"{one.key} {name}")
    return apart


def _above(path: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    return [path[:steps] for steps in range(len(path))]
