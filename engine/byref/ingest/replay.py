"""What the ledger knows of an output: answered again, and shown in the history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import store, variables
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.content import formats
from byref.conversation.result import Result
from byref.conversation.scope import Scope

Stored = tuple[Sequence[Artifact], Sequence[Variable]]


def replayed(scope: Scope, entry: ledger.Entry, tool: str) -> Result:
    """The same result as the first time, byte for byte."""
    names = entry.detail.get("variables", [])
    rows, stands = artifact_rows(entry), entry.detail.get("stands", [])
    artifacts, bound = scope.read(lambda connection: stored(connection, scope, rows, names)) if rows else ((), ())
    content = content_of(entry)
    shown = content if isinstance(content, str) else _text_of(content[stands[0][0]]) if stands else ""
    is_envelope = entry.route in ("variables", "artifact") and shown.startswith("{")
    return Result(
        content=content,
        route=entry.route or "inline",
        reason=entry.reason or "fits",
        step=entry.step,
        envelope=json.loads(shown) if is_envelope else None,
        artifacts=list(artifacts),
        variables=list(bound),
        tokens=entry.tokens,
        original_tokens=entry.original_tokens or 0,
        is_error=entry.is_error,
        instructions=entry.detail.get("instructions"),
        tool=tool,
    )


def has_expired(scope: Scope, entry: ledger.Entry) -> bool:
    """Tell whether data that an output became is gone: the same again is stored again, not answered with a dead name."""
    rows = artifact_rows(entry)
    return bool(rows) and len(scope.read(lambda c: store.by_row_ids(c, scope.source, scope.row, rows))) < len(set(rows))


def stored(connection: Connection, scope: Scope, rows: Sequence[int], names: Sequence[str]) -> Stored:
    artifacts = store.by_row_ids(connection, scope.source, scope.row, rows)
    found = variables.find(connection, scope.source, scope.row, names, artifacts)
    return [artifacts[row] for row in rows if row in artifacts], [found[name] for name in names if name in found]


def content_of(entry: ledger.Entry) -> str | list[Any]:
    """Return what the model read, in blocks where it came in blocks."""
    content = entry.content or ""
    return formats.from_json(content) if "blocks" in entry.detail else content


def artifact_rows(entry: ledger.Entry) -> list[int]:
    """Return the rows of the artifacts that an output became: of what was put in the place of blocks, the largest first."""
    stands = [row for _, *rows in entry.detail.get("stands", []) for row in rows]
    stands = stands or entry.detail.get("artifacts", [] if entry.artifact_row is None else [entry.artifact_row])
    return [*stands, *entry.detail.get("beside", [])]


def original_of(entry: ledger.Entry, artifacts: Mapping[int, Artifact]) -> Artifact | str | list[Any] | None:
    """Return an output as it came: by reference where it was offloaded; None where nothing of it is left."""
    content = content_of(entry)
    if entry.route in ("inline", "wholesale"):
        return content
    if isinstance(content, str):
        kept = [artifacts[row] for row in artifact_rows(entry) if row in artifacts]
        return kept if len(kept) > 1 else kept[0] if kept else None
    stands = {at: rows for at, *rows in entry.detail.get("stands", [])}
    return [
        artifacts.get(row) if at in stands else block
        for at, block in enumerate(content)
        for row in stands.get(at) or [0]
    ]


def _text_of(block: Any) -> str:
    return str(block.get("text", "")) if isinstance(block, dict) else ""
