"""What a run leaves for the next: staged as artifacts, published in the commit, bound to its names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, bindparam, delete, select, text, update

from byref.artifacts import blobs, staging, store, variables
from byref.artifacts import definitions as names_of
from byref.artifacts.staging import Content, Staged
from byref.artifacts.store import Artifact, Description
from byref.artifacts.variables import Part, Variable
from byref.conversation import room
from byref.conversation.scope import Scope
from byref.db import sums
from byref.db.tables import IS_VALUE, ArtifactRow, LedgerRow, NameRow, VariableRow
from byref.describe.truncate import head_of
from byref.jsonscan import LazyJSON
from byref.stores.frames import line_count
from byref_sandbox import EXACT, Bound, Data, Same

Inside = Mapping[int, Mapping[variables.Path, str]]
"""What variables stand for inside artifacts, by their row: path and shape."""
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Aliases:
    """Further names of what an artifact holds, as it is: its bytes are stored already."""

    artifact: Artifact
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run leaves behind, staged: names and values as one JSON object, or one value that is no JSON."""

    staged: Staged
    parts: tuple[Part, ...]
    preview: str
    tokens: int
    content_type: str = "application/json"
    exact: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """By name, of values that the JSON does not give back."""

    @property
    def added(self) -> dict[bytes, int]:
        """Bytes that are stored with it, by digest."""
        exact = {names_of.digest_of(data): len(data) for data in self.exact.values()}
        return exact | {self.staged.digest: self.staged.size}


def apart(values: Mapping[str, Bound]) -> Iterator[dict[str, Bound]]:
    """What has a JSON form goes together, into one artifact; each table that has none into one of its own."""
    if together := {name: value for name, value in values.items() if value.data}:
        yield together
    for name, value in values.items():
        if not value.data:
            yield {name: value}


def stage(scope: Scope, values: Mapping[str, Bound]) -> Kept:
    """Stage names and values, one member of a JSON object a line; QuotaExceeded if there is no room for it."""
    parts = tuple(_part(name, value) for name, value in values.items())
    [*first] = values.values()
    if not first[0].data:
        document, content_type = first[0].exact, EXACT
        shown, tokens = parts[0].shape, scope.count(parts[0].shape)
        exact: dict[str, bytes] = {}
    else:
        document, content_type = _document(values), "application/json"
        sent = LazyJSON(document)
        shown, tokens = head_of(sent.text, store.PREVIEW_CHARS), sent.tokens(scope.count)
        exact = {name: value.exact for name, value in values.items() if value.exact}
    digest = names_of.digest_of(document)
    room.check(scope, {names_of.digest_of(data): len(data) for data in exact.values()} | {digest: len(document)})
    staged = staging.stage(scope.place, Content(document, digest, line_count(document), content_type))
    return Kept(staged, parts, shown, tokens, content_type, exact)


def _document(values: Mapping[str, Bound]) -> bytes:
    pieces: list[bytes] = []
    for name, value in values.items():
        pieces += (b",\n" if pieces else b"{\n", json.dumps(name).encode(), b":", value.data)
    return b"".join((*pieces, b"\n}"))


def _part(name: str, bound: Bound) -> Part:
    shape = bound.shape or LazyJSON(bound.data).shape
    return Part(name, (name,) if bound.data else (), shape, "dataframe" if bound.kind == "dataframe" else "value")


def keep_exact(connection: Connection, scope: Scope, kept: Kept, row: int, names: Mapping[str, str], step: int) -> None:
    """Keep the exact values of what was bound, under the names that it got."""
    for name, bound in names.items():
        if name in kept.exact:
            names_of.keep(
                connection,
                tenant=scope.tenant,
                session_row=scope.row,
                name=bound,
                data=kept.exact[name],
                artifact_row=row,
                step=step,
            )


def insert(connection: Connection, scope: Scope, kept: Kept, step: int | None) -> int:
    """Publish what was staged as an artifact and return its row id; QuotaExceeded if there is no room any more."""
    room.check_within(connection, scope, kept.added)
    blob = staging.publish_kept(connection, scope.place, kept.staged)
    kind, shape = "document" if kept.content_type == EXACT else "json", {part.wanted: part.shape for part in kept.parts}
    about = Description(kind, kept.content_type, kept.staged.size, kept.preview, kept.tokens, shape)
    return scope.publish(connection, blob, about, step=step, origin="run").row_id


def insert_again(connection: Connection, scope: Scope, artifact: Artifact, step: int | None) -> int | None:
    """Make another artifact of an artifact's bytes, which names of a run hold on to; None if they are gone.

    The first may expire or be deleted: what a run keeps lives as long as all that runs keep.
    """
    blob = blobs.published(connection, scope.tenant, artifact.digest)
    if blob is None:
        return None
    about = replace(artifact.description, name=None)
    return scope.publish(connection, blob, about, step=step, origin="run").row_id


def bind(connection: Connection, scope: Scope, artifact_row: int, named: list[tuple[str, Part]], step: int) -> None:
    """Bind names to parts of an artifact that a run left."""
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


_A_NAME = select(VariableRow.id).where(VariableRow.artifact_id == ArtifactRow.id).limit(1).scalar_subquery()
_UNNAMED = (
    select(ArtifactRow.id, ArtifactRow.blob_id)
    .where(ArtifactRow.session_id == bindparam("of_session"), text(IS_VALUE), _A_NAME.is_(None))
    .limit(bindparam("most"))
)


def discard_unnamed(connection: Connection, session_row: int, most: int) -> bool:
    """Delete some values of runs that no name stands for; tell whether there may be more.

    Figures and files stay, for replies name them, and what is kept beyond the session's end.
    """
    found = connection.execute(_UNNAMED, {"of_session": session_row, "most": most}).all()
    ids = [one.id for one in found]
    connection.execute(delete(NameRow).where(NameRow.artifact_id.in_(ids)))
    connection.execute(update(LedgerRow).where(LedgerRow.artifact_id.in_(ids)).values(artifact_id=None))
    connection.execute(delete(ArtifactRow).where(ArtifactRow.id.in_(ids)))
    blobs.delete_unused(connection, sorted({one.blob_id for one in found}))
    sums.freed(connection, [session_row])
    return len(found) == most


def each_its_own(data: Mapping[str, object], bound: Mapping[str, Variable]) -> dict[str, object]:
    """Let no value that a run kept be part of another one: what code changes in one of them stays in it."""
    stored = {name: one for name, one in data.items() if isinstance(one, Data) and one.content_type != EXACT}
    paths: dict[tuple[str, str], Counter[_Path]] = {}
    above: set[tuple[str, _Path]] = set()
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


def _above(path: _Path) -> list[_Path]:
    return [path[:steps] for steps in range(len(path))]


def aliases(same: Mapping[str, Same], given: Mapping[str, Variable], inside: Inside) -> tuple[Aliases, ...]:
    """Return what names stand for of what the run was given; paths are those that `data_of_variable` allowed."""
    found: dict[bytes, Aliases] = {}
    for name, one in same.items():
        variable = given[one.variable]
        path = (*variable.path, *one.path)
        shape = one.shape if one.frame else inside[variable.artifact.row_id][path]
        part = Part(name, path, shape, "dataframe" if one.frame else "value")
        before = found.get(variable.artifact.digest)
        parts = (*before.parts, part) if before is not None else (part,)
        found[variable.artifact.digest] = Aliases(variable.artifact, parts)
    return tuple(found.values())
