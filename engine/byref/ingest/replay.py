"""Replay: results from the ledger, byte for byte as the first time, for repeated calls and for the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import store, variables
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.content import formats
from byref.conversation import lifecycle
from byref.conversation.result import Result
from byref.conversation.scope import Scope
from byref.ingest.envelope import envelope_in
from byref.ingest.outlook import Outlook, may_be_replayed
from byref.ingest.prepare import Prepared
from byref.ingest.stage import Stage
from byref.policy.routes import Route


def answered_before(prepared: Prepared, outlook: Outlook, stage: Stage) -> Result | None:
    """Return the earlier result of the same output under the same call id; None if there is none, or its data has expired.

    The same text of another tool, or as an error, is another output. After None the output is stored again, so that the model does
    not read a name of expired data. Damaged bytes are replaced by those that arrived now.
    """
    scope, same = prepared.scope, outlook.same
    if same is None or not may_be_replayed(prepared):
        return None
    entry = scope.read(lambda connection: ledger.entry(connection, scope.row, same))
    if entry is None or not prepared.is_of(entry):
        return None
    rows = artifact_rows(entry)
    if rows and len(scope.read(lambda c: store.by_row_ids(c, scope.source, scope.row, rows))) < len(set(rows)):
        scope.write(lambda connection: lifecycle.expire(connection, scope.row, rows))
        return None
    result = replayed(scope, entry, prepared.tool)
    return replayed(scope, entry, prepared.tool) if _mended(prepared, result, stage) else result


def replayed(scope: Scope, entry: ledger.Entry, tool: str) -> Result:
    """Return the result of a ledger entry, byte for byte as the first time."""
    rows, replaced = artifact_rows(entry), entry.detail.get("stands", [])
    names = entry.detail.get("variables", [])
    artifacts, bound = scope.read(lambda connection: _stored(connection, scope, rows, names)) if rows else ((), ())
    content, route = content_of(entry), Route(entry.route or Route.INLINE)
    shown = (
        content
        if isinstance(content, str)
        else "".join(_text_of(content[at]) for at, *_ in replaced[:1] if at < len(content))
    )
    return Result(
        content=content,
        route=route,
        reason=entry.reason or "fits",
        step=entry.step,
        envelope=envelope_in(route, shown),
        artifacts=list(artifacts),
        variables=list(bound),
        tokens=entry.tokens,
        original_tokens=entry.original_tokens or 0,
        is_error=entry.is_error,
        instructions=entry.detail.get("instructions"),
        tool=tool,
        replayed=True,
    )


def content_of(entry: ledger.Entry) -> str | list[Any]:
    """Return the content that the model read; as blocks if it was given as blocks, and as their text if that is damaged."""
    content = entry.content or ""
    if "blocks" in entry.detail:
        with suppress(ValueError, TypeError):
            blocks = formats.from_json(content)
            if all(isinstance(block, Mapping) for block in blocks):
                return blocks
    return content


def artifact_rows(entry: ledger.Entry) -> list[int]:
    """Return the row ids of an output's artifacts: first those of replaced blocks, the largest first, then those kept beside."""
    replaced = [row for _, *rows in entry.detail.get("stands", []) for row in rows]
    replaced = replaced or entry.detail.get("artifacts", [] if entry.artifact_row is None else [entry.artifact_row])
    return [*replaced, *entry.detail.get("beside", [])]


def original_of(entry: ledger.Entry, artifacts: Mapping[int, Artifact]) -> Artifact | str | list[Any] | None:
    """Return an output as it arrived, with artifacts for offloaded parts; None if none of its data is left."""
    content = content_of(entry)
    if entry.route is not None and Route(entry.route).passes_whole:
        return content
    if isinstance(content, str):
        kept = [artifacts[row] for row in artifact_rows(entry) if row in artifacts]
        return kept if len(kept) > 1 else kept[0] if kept else None
    replaced = {at: rows for at, *rows in entry.detail.get("stands", [])}
    return [
        artifacts.get(row) if at in replaced else block
        for at, block in enumerate(content)
        for row in replaced.get(at) or [0]
    ]


def _mended(prepared: Prepared, result: Result, stage: Stage) -> bool:
    """Store again the bytes of replayed artifacts that are damaged; tell whether there were any."""
    if prepared.ingested is not None:
        return False
    lost = {artifact.digest: artifact.content_type for artifact in result.artifacts if not artifact.payload.is_sound()}
    damaged = [block for block in prepared.storable if block.digest in lost]
    for block in damaged:
        stage.write(block, lost[block.digest])
    return bool(damaged)


def _stored(
    connection: Connection, scope: Scope, rows: Sequence[int], names: Sequence[str]
) -> tuple[Sequence[Artifact], Sequence[Variable]]:
    artifacts = store.by_row_ids(connection, scope.source, scope.row, rows)
    found = variables.find(connection, scope.source, scope.row, names, artifacts, without_damaged=True)
    return [artifacts[row] for row in rows if row in artifacts], [found[name] for name in names if name in found]


def _text_of(block: Any) -> str:
    return str(block.get("text", "")) if isinstance(block, dict) else ""
