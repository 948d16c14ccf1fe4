"""Persistence of the values of a run for the next run: staged as artifacts, published in the commit, bound to their names."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, text, update

from byref.accounting import ledger
from byref.artifacts import blobs, names, staging, store, variables
from byref.artifacts.names import Entry, Kept, Meant, Record, Snapshot
from byref.artifacts.staging import Staged
from byref.artifacts.store import Artifact, Description
from byref.artifacts.variables import Part
from byref.conversation import clearing, room
from byref.conversation.scope import Scope
from byref.db import sums
from byref.db.tables import IS_VALUE, ArtifactRow, LedgerRow, NameRow, VariableRow
from byref.describe.truncate import head_of
from byref.errors import QuotaExceeded
from byref.interpreter.inputs import Inputs, referred_names
from byref.interpreter.plots import Plot
from byref.jsonscan import LazyJSON
from byref_sandbox import EXACT, Bound, Outcome
from byref_sandbox.contents import blobs_of, decode_contents
from byref_sandbox.outcome import AS_DATA, CHANGED, DELETED, STOPPED

MAX_NAMES = 1_000
"""Maximum names that one run leaves for the next."""
MAX_SNAPSHOTS = 20
"""Maximum snapshots of a state: of so many runs that ended while another one went on."""
AT_ONCE = f"more than {MAX_SNAPSHOTS} runs at once have bound names"
"""Why the names of the earliest of them are lost."""
_NO_VALUES = ("import", "function", "class")
"""What names stand for that share no value with others."""
RESULT_NAME = "result"
WENT = "its data expired, or was deleted, while the code ran"
_ROWS, _VALUES = 200, 100
"""Maximum names, and values without a name, that one statement deletes."""


@dataclass(frozen=True, slots=True)
class Aliases:
    """Further names for data that an artifact already holds: its bytes need not be stored again."""

    artifact: Artifact
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Names and their values, staged as one JSON object, or one value that JSON cannot hold."""

    staged: Staged
    parts: tuple[Part, ...]
    about: Description
    exact: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Tables with their types, by name."""

    @property
    def added(self) -> dict[bytes, int]:
        """The sizes of all bytes stored with it, by digest."""
        exact = {names.digest_of(data): len(data) for data in self.exact.values()}
        return exact | {self.staged.digest: self.staged.size}


@dataclass(frozen=True, slots=True)
class Written:
    """A session's state after a run, and what it was before."""

    contents: bytes
    blobs: Mapping[bytes, bytes]
    """What it refers to and is not stored yet, by digest."""
    before: Kept
    shown: Mapping[str, bytes]
    """Digests of the data that tools have of names that the run has bound or changed."""
    touched: Mapping[str, bytes]
    """Names without data, also of settings, that the run may have changed, each with a digest of how it has written them."""
    rows: Mapping[str, int]
    """Artifacts of data that the run was given beside the state and that is a part of it now, by name."""
    meant: Mapping[str, Meant]
    """The data to which it refers, by name."""

    @property
    def added(self) -> dict[bytes, int]:
        """The sizes of all bytes stored with it, by digest."""
        return {names.digest_of(data): len(data) for data in (self.contents, *self.blobs.values())}


@dataclass(frozen=True, slots=True)
class Left:
    """What a run leaves, staged but not committed."""

    bundles: tuple[Bundle, ...] = ()
    aliases: tuple[Aliases, ...] = ()
    """Further names for data that the run was given, with one entry per artifact."""
    result: Bundle | None = None
    """The value of the run, if it is too big for the reply; it becomes a variable."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Names that only code can use, each with what it is."""
    state: Written | None = None
    """The state of the session's names after the run; None: it is as it was."""
    last: bytes | None = None
    """The last value, for the next run; None: it is as it was."""
    rebound: tuple[str, ...] = ()
    """Names of stored data that the code assigned; the assignment holds for this run only."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Names that the next run will not have, each with the reason."""
    dropped: frozenset[str] = frozenset()
    """Names of earlier runs that are dropped: the code deleted them, or assigned a value that cannot be kept."""
    missed: Mapping[str, str] = field(default_factory=dict)
    """Names of earlier runs that could not be read, or not with their types, each with the reason."""

    @property
    def added(self) -> dict[bytes, int]:
        """The sizes of all bytes stored with it, by digest."""
        added = {names.digest_of(self.last): len(self.last)} if self.last else {}
        for one in (*self.bundles, self.result, self.state):
            added |= {} if one is None else one.added
        return added

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be committed but names that are dropped."""
        return not (self.bundles or self.aliases or self.result or self.named or self.state)


@dataclass(frozen=True, slots=True)
class Committed:
    """The names of a run after its commit."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The names that were bound, with the shapes of their values."""
    result: tuple[str, str] | None = None
    """The variable of a value that is too big for the reply: its name and shape."""
    gone: Mapping[str, str] = field(default_factory=dict)
    """Names whose data no longer exists, each with the reason."""
    fresh: frozenset[str] = frozenset()
    """Names that were not bound before."""
    plots: Sequence[Plot] = ()
    """The figures, under their names."""
    files_over: Sequence[str] = ()
    """Files that another run has written meanwhile as well: they are what this one wrote."""
    beside: Sequence[str] = ()
    """Names that another run has bound meanwhile: they share nothing with the names of this one any longer."""
    over: Sequence[str] = ()
    """Names that another run has bound or changed meanwhile as well: they are what this one left, or not there if it dropped them."""
    doubted: Sequence[str] = ()
    """Names without data, that another run may have changed meanwhile, and classes: what this one may have changed in them is lost."""


def stage(scope: Scope, inputs: Inputs, outcome: Outcome, *, inline_tokens: int) -> Left:
    """Stage what a run left, as far as it may be kept; a value over `inline_tokens` becomes a variable."""
    told = names_of(outcome)
    bound = dict(inputs.variables)
    if others := (told | outcome.missed.keys()) - bound.keys():
        bound |= scope.read(
            lambda connection: variables.find(connection, scope.source, scope.row, others, without_damaged=True)
        )
    stored = {name for name, variable in bound.items() if variable.origin != "run"}
    deleted = {name for name, reason in outcome.unkept.items() if reason == DELETED}
    lost = {name: reason for name, reason in outcome.unkept.items() if name not in deleted} | {
        name: "no name to keep" for name in told - stored if not variables.is_bindable(name)
    }
    new = [name for name in (*outcome.bound, *outcome.same) if name not in stored and name not in lost]
    for name in new[MAX_NAMES:]:
        lost[name] = f"more than {MAX_NAMES:,} names"
    new = new[:MAX_NAMES]
    state = _state(inputs, outcome, stored)
    big = _big_value(scope, outcome, inline_tokens)
    last = None if outcome.last == inputs.kept.last else outcome.last
    held = room.most_stored(scope) if new or big or last or state is not None else None
    added: dict[bytes, int] = {}  # each is checked with those before it, as the commit checks all
    if state is not None:
        try:
            room.check(scope, state.added, held)
            added |= state.added
        except QuotaExceeded as error:
            lost |= {name: str(error) for name, what in outcome.named.items() if what}
            state = None
    bundles: list[Bundle] = []
    for values in _bundled({name: outcome.bound[name] for name in new if name in outcome.bound}):
        try:
            bundles.append(bundle := _stage(scope, values, added, held))
            added |= bundle.added
        except QuotaExceeded as error:
            lost |= dict.fromkeys(values, str(error))
    result = None
    if big is not None:
        with suppress(QuotaExceeded):  # then the reply shows a part of it, as of printed text
            result = _stage(scope, {RESULT_NAME: big}, added, held)
            added |= result.added
    if last:
        try:
            room.check(scope, {**added, names.digest_of(last): len(last)}, held)
        except QuotaExceeded:
            last = b""
    as_data = {name for name, variable in bound.items() if variable.origin == "run"}
    return Left(
        tuple(bundles),
        _aliases(outcome, [name for name in new if name in outcome.same], inputs),
        result,
        {name: what for name, what in outcome.named.items() if what and name not in stored and name not in lost},
        state,
        last,
        rebound=tuple(sorted(n for n in stored & told - outcome.unkept.keys() if outcome.named.get(n) != CHANGED)),
        lost=lost,
        dropped=frozenset(deleted.union(name for name, why in lost.items() if why != STOPPED) - stored),
        missed={
            name: f"{why}: {AS_DATA}" if name in as_data and AS_DATA not in why else why
            for name, why in outcome.missed.items()
        },
    )


def _state(inputs: Inputs, outcome: Outcome, stored: Collection[str]) -> Written | None:
    if outcome.contents is None:
        return None
    shown = {name: one.digest for name, one in outcome.bound.items() if name not in stored}
    given = {name: one for name, one in inputs.variables.items() if one.origin == "run" and name in inputs.data}
    rows = {name: one.artifact.row_id for name, one in given.items()}
    touched = {name: digest for name, digest in outcome.touched.items() if name not in stored}
    meant = {
        name: inputs.meant[name]
        for name in referred_names(decode_contents(outcome.contents).parts)
        if name in inputs.meant
    }
    return Written(outcome.contents, outcome.blobs, inputs.kept, shown, touched, rows, meant)


def names_of(outcome: Outcome) -> set[str]:
    """Return the names that a run bound, or could not keep."""
    return outcome.bound.keys() | outcome.same.keys() | outcome.named.keys() | outcome.unkept.keys()


def _bundled(values: Mapping[str, Bound]) -> Iterator[dict[str, Bound]]:
    """Group values by artifact: all values with a JSON form share one; each table without a JSON form gets its own."""
    if together := {name: value for name, value in values.items() if value.data}:
        yield together
    for name, value in values.items():
        if not value.data:
            yield {name: value}


def _stage(scope: Scope, values: Mapping[str, Bound], before: Mapping[bytes, int], held: int | None) -> Bundle:
    """Stage names and values as a JSON object with one member per line. Raises QuotaExceeded if there is no room for it beside `before`."""
    parts = tuple(_part(name, value) for name, value in values.items())
    shapes: Any = {part.wanted: part.shape for part in parts}
    [first, *_] = values.values()
    exact: dict[str, bytes] = {}
    if first.data:
        document, kind, content_type = _document(values), "json", "application/json"
        described = LazyJSON(document)
        preview, tokens = head_of(described.text, store.PREVIEW_CHARS), described.tokens(scope.count)
        exact = {name: value.exact for name, value in values.items() if value.exact}
    else:
        document, kind, content_type = first.exact, "document", EXACT
        preview, tokens = parts[0].shape, scope.count(parts[0].shape)
    beside = {names.digest_of(data): len(data) for data in exact.values()}
    staged = room.stage(scope, document, content_type, {**before, **beside}, stored=held)
    return Bundle(staged, parts, Description(kind, content_type, staged.size, preview, tokens, shapes), exact)


def _document(values: Mapping[str, Bound]) -> bytes:
    pieces: list[bytes] = []
    for name, value in values.items():
        pieces += (b",\n" if pieces else b"{\n", json.dumps(name).encode(), b":", value.data)
    return b"".join((*pieces, b"\n}"))


def _part(name: str, bound: Bound) -> Part:
    shape = bound.shape or LazyJSON(bound.data).shape
    return Part(name, (name,) if bound.data else (), shape, "dataframe" if bound.kind == "dataframe" else "value")


def _aliases(outcome: Outcome, names: Sequence[str], inputs: Inputs) -> tuple[Aliases, ...]:
    """Group further names by the artifact that they name. The sandbox checked that the paths are among those it was given."""
    found: dict[bytes, Aliases] = {}
    for name in names:
        one = outcome.same[name]
        variable = inputs.variables[one.variable]
        path = (*variable.path, *one.path)
        shape = one.shape if one.frame else inputs.inside[variable.artifact.row_id][path]
        part = Part(name, path, shape, "dataframe" if one.frame else "value")
        before = found.get(variable.artifact.digest)
        parts = (*before.parts, part) if before is not None else (part,)
        found[variable.artifact.digest] = Aliases(variable.artifact, parts)
    return tuple(found.values())


def _big_value(scope: Scope, outcome: Outcome, inline_tokens: int) -> Bound | None:
    """Return the last expression's value if it is data and too big for the reply; else None."""
    if outcome.kind not in ("json", "dataframe", "series"):
        return None
    kind = "dataframe" if outcome.kind == "dataframe" else "json"
    if outcome.is_partial and outcome.json == b"null":
        return Bound(kind, b"", "", outcome.exact, outcome.shape) if outcome.exact else None
    if not outcome.exact and LazyJSON(outcome.json).tokens(scope.count) <= inline_tokens:
        return None
    return Bound(kind, outcome.json, "", outcome.exact, outcome.shape)


def commit(connection: Connection, scope: Scope, left: Left, step: int, reply_step: int | None) -> Committed:
    """Publish the staged values of a run and bind its names.

    `step` is the step in which the names are bound, `reply_step` the reply's step, None without a reply. Raises QuotaExceeded if
    others stored so much meanwhile that there is no room left.
    """
    room.check_within(connection, scope, left.added)
    made, gone, rows = dict[str, str](), dict[str, str](), dict[str, int]()
    only_code = frozenset(left.named)
    variables.drop(connection, session_row=scope.row, names=left.dropped | only_code)
    names.forget(connection, scope.row, left.dropped | only_code)
    staged: tuple[Aliases | Bundle, ...] = (*left.aliases, *left.bundles)
    taken = variables.origins(connection, scope.row, [part.wanted for one in staged for part in one.parts])
    for alias in left.aliases:
        again = _insert_again(connection, scope, alias.artifact, reply_step)
        if again is not None:
            bound = _bind(connection, scope, again, alias.parts, taken, step)
            made, rows = made | bound, rows | dict.fromkeys(bound, again)
        else:  # as if it had been deleted before the code ran
            for part in alias.parts:
                gone[part.wanted] = WENT
                variables.unbind(connection, session_row=scope.row, name=part.wanted)
            names.forget(connection, scope.row, [part.wanted for part in alias.parts])
    for bundle in left.bundles:
        row = _insert(connection, scope, bundle, reply_step)
        bound = _bind(connection, scope, row, bundle.parts, taken, step)
        made, rows = made | bound, rows | dict.fromkeys(bound, row)
        for name, data in bundle.exact.items():
            if name in made:
                _keep(connection, scope, name, data, row, step)
    result = None
    if left.result is not None:
        row = _insert(connection, scope, left.result, reply_step)
        [part] = left.result.parts
        [name] = variables.free(connection, scope.row, [part.wanted], left.named)
        names.forget(connection, scope.row, [name])
        _bind_new(connection, scope, row, [(name, part)], step)
        for data in left.result.exact.values():
            _keep(connection, scope, name, data, row, step)
        result = name, part.shape
    beside: list[str] = []
    over: list[str] = []
    doubted: list[str] = []
    if left.state is not None:
        beside, over, doubted = _commit_state(connection, scope, left, left.state, rows, step)
        made |= {name: what for name, what in left.named.items() if what != "import"}
    elif left.lost or left.dropped:
        _note_lost(connection, scope, left, step)
    if left.last is not None:
        names.write_last(connection, tenant=scope.tenant, session_row=scope.row, last=left.last, step=step)
    return Committed(made, result, gone, frozenset(made) - frozenset(taken), beside=beside, over=over, doubted=doubted)


def _commit_state(
    connection: Connection, scope: Scope, left: Left, state: Written, rows: Mapping[str, int], step: int
) -> tuple[list[str], list[str], list[str]]:
    """Write the state of the session's names; of a run beside which another one has written it, only the names that it changed.

    Return the names of values that only the other one has bound or changed meanwhile, those that both have, and those without data of
    which this one's are not kept though it may have changed them: classes, whose instances are instances of one, and what the other one may
    have changed as well. A change of one name may have others be written otherwise.
    """
    now = names.kept(connection, scope.row)
    before = now.record
    new = {name: Entry(row, "", state.shown.get(name, b"")) for name, row in {**state.rows, **rows}.items()}
    new |= {name: Entry(0, what) for name, what in left.named.items()}
    is_alone = now.digest == state.before.digest
    had, contents = state.before.record.entries, decode_contents(state.contents)
    without_data = {name for name, one in had.items() if not one.artifact_row} - new.keys()
    touched = {name: Entry(0, had[name].what, one) for name, one in state.touched.items() if name in without_data}
    doubted = []
    if not is_alone:
        as_it_was = {n: (one,) if one.what == "class" else (one, had[n]) for n, one in touched.items()}
        doubted = [name for name, entries in as_it_was.items() if before.entries.get(name) not in entries]
    new |= {name: one for name, one in touched.items() if name not in doubted}
    beyond: dict[str, str] = {}
    entries = {name: one for name, one in {**before.entries, **new}.items() if name not in left.dropped}
    blobs = dict(state.blobs)
    if is_alone:
        there = contents.names()
        entries = {name: one for name, one in entries.items() if name in there}
        snapshots = [Snapshot(state.contents, meant={**state.meant})]
    else:
        counting = sorted({*new, *(contents.settings() & state.touched.keys())})
        # What this run has left as it was the other one may have replaced.
        gone = {*blobs_of(contents.needed(frozenset(counting)))} - now.blobs.keys() - blobs.keys()
        blobs |= {digest: one for digest in gone if isinstance(one := state.before.blobs.get(digest), bytes)}
        snapshots = [*before.snapshots, Snapshot(state.contents, counting, {**state.meant})][-MAX_SNAPSHOTS:]
        there = decode_contents(snapshots[0].contents).names().union(*(one.names for one in snapshots[1:]))
        beyond = dict.fromkeys((name for name in entries if name not in there), AT_ONCE)
        entries = {name: one for name, one in entries.items() if name not in beyond}
    lost = {name: why for name, why in {**before.lost, **beyond, **_reasons(left)}.items() if name not in new}
    names.write_record(
        connection,
        tenant=scope.tenant,
        session_row=scope.row,
        record=Record(snapshots, entries, lost),
        step=step,
        blobs=blobs,
        gone=now.not_needed({*blobs_of(contents.parts)}) if is_alone else (),
    )
    if is_alone:
        return [], [], []
    others = {name for name, one in before.entries.items() if had.get(name) != one and one.what not in _NO_VALUES}
    # Two calls that bind a new name alike have lost nothing; two that add 1 to what was there have lost one change.
    changed = {name for name, one in had.items() if name in new and not _is_same(one, new[name])}
    over = {name for name in others & new.keys() if name in changed or not _is_same(new[name], before.entries[name])}
    over |= others & left.dropped
    doubted = [name for name in doubted if had[name].what != "function" or name not in contents.definitions]
    return sorted(others - new.keys() - left.dropped - {*doubted}), sorted(over), sorted(doubted)


def _is_same(one: Entry, other: Entry) -> bool:
    """Whether two entries say that a name has the same data."""
    return one.shown != b"" and one.shown == other.shown


def _note_lost(connection: Connection, scope: Scope, left: Left, step: int) -> None:
    """Remember why names are not there, where the state is otherwise as it was."""
    before = names.kept(connection, scope.row).record
    entries = {name: one for name, one in before.entries.items() if name not in left.dropped}
    stopped = {name: why for name, why in left.lost.items() if why == STOPPED and name not in entries}
    record = Record(before.snapshots, entries, {**before.lost, **_reasons(left), **stopped})
    if record != before:
        names.write_record(connection, tenant=scope.tenant, session_row=scope.row, record=record, step=step)


def _reasons(left: Left) -> dict[str, str]:
    lost = {name: why for name, why in left.lost.items() if why != STOPPED}
    return lost | {name: why for name, why in left.missed.items() if AS_DATA not in why}


def _insert(connection: Connection, scope: Scope, bundle: Bundle, step: int | None) -> int:
    """Publish what was staged as an artifact and return its row id."""
    blob = staging.publish_kept(connection, scope.place, bundle.staged)
    return scope.publish(connection, blob, bundle.about, step=step, origin="run").row_id


def _insert_again(connection: Connection, scope: Scope, artifact: Artifact, step: int | None) -> int | None:
    """Make another artifact of an artifact's bytes, which names of a run hold on to; None if they are gone.

    The first may expire or be deleted: what a run keeps lives as long as all that runs keep.
    """
    blob = blobs.published(connection, scope.tenant, artifact.digest)
    if blob is None:
        return None
    about = replace(artifact.description, name=None)
    return scope.publish(connection, blob, about, step=step, origin="run").row_id


def _bind(
    connection: Connection, scope: Scope, row: int, parts: Sequence[Part], taken: Mapping[str, str], step: int
) -> dict[str, str]:
    """Bind names to parts of an artifact, except those that stand for stored output; return the bound ones with their shapes."""
    named = [(part.wanted, part) for part in parts if taken.get(part.wanted) != "output"]
    again = [one for one in named if one[0] in taken]
    variables.rebind(connection, session_row=scope.row, artifact_row=row, named=again, step=step)
    names.forget(connection, scope.row, [part.wanted for part in parts])
    _bind_new(connection, scope, row, [one for one in named if one[0] not in taken], step)
    return {name: part.shape for name, part in named}


def _bind_new(
    connection: Connection, scope: Scope, artifact_row: int, named: list[tuple[str, Part]], step: int
) -> None:
    if named:
        variables.bind(
            connection,
            tenant=scope.tenant,
            session_row=scope.row,
            artifact_row=artifact_row,
            named=named,
            step=step,
            origin="run",
        )


def _keep(connection: Connection, scope: Scope, name: str, data: bytes, artifact_row: int, step: int) -> None:
    """Keep a table with its types."""
    names.keep(
        connection,
        tenant=scope.tenant,
        session_row=scope.row,
        name=name,
        data=data,
        artifact_row=artifact_row,
        step=step,
    )


def reset(scope: Scope) -> None:
    """Forget the names that code bound in the session, and the values that nothing names any more.

    It goes in steps, between which others may write, unless it is inside a host's transaction. What another call binds meanwhile stays.
    """
    within = scope.host is not None
    upto: tuple[int, int] | None = None

    def step(connection: Connection) -> tuple[tuple[int, int], bool]:
        ledger.lock(connection, scope.row)
        until = float("inf") if within else time.monotonic() + clearing.STEP_SECONDS
        last = upto or names.last(connection, scope.row)
        while names.reset(connection, scope.row, last, _ROWS):
            if time.monotonic() > until:
                return last, True
        while _discard_unnamed(connection, scope.row, _VALUES):
            if time.monotonic() > until:
                return last, True
        return last, False

    is_more = True
    while is_more:
        upto, is_more = scope.write(step)
        if is_more:
            time.sleep(clearing.PAUSE_SECONDS)


_A_NAME = select(VariableRow.id).where(VariableRow.artifact_id == ArtifactRow.id).limit(1).scalar_subquery()
_UNNAMED = (
    select(ArtifactRow.id, ArtifactRow.blob_id)
    .where(ArtifactRow.session_id == bindparam("of_session"), text(IS_VALUE), _A_NAME.is_(None))
    .limit(bindparam("most"))
)


def _discard_unnamed(connection: Connection, session_row: int, most: int) -> bool:
    """Delete some values of runs that no name stands for; tell whether there may be more.

    Figures and files stay, for replies name them, and what is kept beyond the session's end.
    """
    found = connection.execute(_UNNAMED, {"of_session": session_row, "most": most}).all()
    if not found:
        return False
    ids = [one.id for one in found]
    connection.execute(delete(NameRow).where(NameRow.artifact_id.in_(ids)))
    connection.execute(update(LedgerRow).where(LedgerRow.artifact_id.in_(ids)).values(artifact_id=None))
    connection.execute(delete(ArtifactRow).where(ArtifactRow.id.in_(ids)))
    blobs.delete_unused(connection, sorted({one.blob_id for one in found}))
    sums.freed(connection, [session_row])
    return len(found) == most
