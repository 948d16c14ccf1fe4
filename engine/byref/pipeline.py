"""From what a tool returned to what the model reads: prepare, stage, commit.

*Prepare* is CPU alone: parse, measure, judge, describe. *Stage* writes frames that nobody sees yet, in short transactions
of their own. *Commit* is one short transaction under the session's lock: headroom, step, names, the rendered text, the
ledger. A commit that finds its plan wrong (no headroom, a blob swept away, an envelope no smaller than the output) takes
everything back and comes again with another plan.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import Connection

from byref import gates, ledger, variables
from byref.artifacts import staging, store
from byref.artifacts.store import Artifact
from byref.describe.truncate import truncate, truncate_json
from byref.envelope import Draft, Rendered, TruncateDraft
from byref.errors import StorageFailure
from byref.plans import (
    Plan,
    Prepared,
    first_plan,
    has_headroom,
    headroom,
    is_no_smaller,
    is_structured,
    offload,
    prepare,
    restage,
)
from byref.result import Result
from byref.scope import Scope
from byref.variables import Variable

logger = logging.getLogger("byref")

ATTEMPTS = 8
"""Plans one output may go through before its commit is given up."""


class _Replan(Exception):
    """The plan does not hold; `reason` says why."""

    def __init__(self, reason: Literal["headroom", "not_smaller", "blob_gone"]) -> None:
        super().__init__(reason)
        self.reason = reason


class _Replay(Exception):
    """The same output was given before under the same call id."""

    def __init__(self, entry: ledger.Entry) -> None:
        super().__init__(entry.step)
        self.entry = entry


_Kept = tuple[Sequence[Artifact], Sequence[Variable]]


@dataclass
class _Committed:
    step: int
    rendered: Rendered
    artifact_row: int | None = None
    names: list[str] = field(default_factory=list)
    kept: _Kept = ((), ())
    """Read before the commit: an output that is stored is answered, even if the database goes away right then."""


def process(
    scope: Scope, output: object, *, tool: str, call_id: str | None, arguments: object, is_error: bool
) -> Result:
    """Take one tool output into the session and return what the model reads of it."""
    prepared = prepare(scope, output, tool, call_id, arguments, is_error)
    try:
        return _take_in(prepared)
    except StorageFailure:
        if prepared.scope.policy.on_storage_failure == "raise":
            raise
        logger.exception("byref could not store the output of %r; the turn goes on without it", tool)
        return _unstored(prepared)
    finally:
        prepared.block.discard()


def _take_in(prepared: Prepared) -> Result:
    """Answer as before what was given before, else commit it."""
    scope = prepared.scope
    if prepared.call_digest is not None and prepared.block.size >= scope.policy.min_threshold_bytes:
        call, content = prepared.call_digest, prepared.digest
        before = scope.read(lambda c: ledger.given_before(c, scope.row, "output", call, content))
        if before is not None:
            return _replayed(prepared, before)
    try:
        return _commit(prepared)
    except _Replay as replay:
        return _replayed(prepared, replay.entry)


def _commit(prepared: Prepared) -> Result:
    """Commit the first plan that holds."""
    plan = first_plan(prepared)
    for _ in range(ATTEMPTS):
        try:
            committed = prepared.scope.write(lambda c: _write(c, prepared, plan))  # noqa: B023  run at once
        except _Replan as changed:
            plan = _next_plan(prepared, plan, changed)
        else:
            return _result(prepared, plan, committed)
    raise StorageFailure(f"the output of {prepared.tool!r} could not be committed in {ATTEMPTS} attempts")


def _next_plan(prepared: Prepared, plan: Plan, changed: _Replan) -> Plan:
    match changed.reason:
        case "headroom":
            return offload(prepared, "headroom")
        case "not_smaller":
            return Plan("inline", "not_smaller")
        case "blob_gone":
            return replace(plan, blob_id=restage(prepared))


def _write(connection: Connection, prepared: Prepared, plan: Plan) -> _Committed:
    """Everything of the commit; runs again from the start where the database asks for it."""
    scope, block = prepared.scope, prepared.block
    whole = plan.draft is None
    certain = whole and not plan.needs_headroom
    turn = ledger.take_step(connection, scope.row, prepared.tokens if certain else 0)
    if prepared.call_digest is not None:
        before = ledger.given_before(connection, scope.row, "output", prepared.call_digest, prepared.digest)
        if before is not None:
            raise _Replay(before)
    if plan.draft is None:
        if plan.needs_headroom:
            if not has_headroom(prepared, turn.context):
                raise _Replan("headroom")
            ledger.reserve(connection, scope.row, prepared.tokens)
        committed = _Committed(turn.step, Rendered(block.text, prepared.tokens))
    else:
        committed = _write_draft(connection, prepared, plan, plan.draft, turn)
        ledger.reserve(connection, scope.row, committed.rendered.tokens)
    scope.append(connection, turn, "output", _columns(prepared, plan, committed, turn))
    if committed.artifact_row is not None:
        committed.kept = _kept(connection, scope, committed.artifact_row, committed.names)
    return committed


def _write_draft(connection: Connection, prepared: Prepared, plan: Plan, draft: Draft, turn: ledger.Turn) -> _Committed:
    scope = prepared.scope
    artifact_row, artifact_id, names = None, "", []
    if plan.blob_id is not None and plan.about is not None:
        blob_id = staging.publish(connection, scope.tenant, plan.blob_id, prepared.digest)
        if blob_id is None:
            raise _Replan("blob_gone")
        artifact_id = store.new_id(as_uuid=scope.policy.envelope_form == "pointers")
        artifact_row = store.insert_artifact(
            connection,
            tenant=scope.tenant,
            session_id=scope.row,
            blob_id=blob_id,
            public_id=artifact_id,
            step=turn.step,
            origin="output",
            name=None,
            about=plan.about,
        )
        if draft.parts:
            taken = variables.taken(connection, scope.row)
            names = variables.unique([part.wanted for part in draft.parts], taken)
            variables.bind(
                connection,
                tenant=scope.tenant,
                session_id=scope.row,
                artifact_row=artifact_row,
                named=list(zip(names, draft.parts, strict=True)),
                step=turn.step,
                origin="output",
            )
    rendered = scope.compute(lambda: draft.render(names, turn.step, artifact_id))
    if is_no_smaller(prepared, rendered):
        raise _Replan("not_smaller")
    return _Committed(turn.step, rendered, artifact_row, names)


def _columns(prepared: Prepared, plan: Plan, committed: _Committed, turn: ledger.Turn) -> dict[str, Any]:
    scope, verdict = prepared.scope, prepared.verdict
    head = headroom(prepared, turn.context)
    detail: dict[str, Any] = {
        "value": verdict.value,
        "limit": verdict.limit,
        "unit": verdict.unit,
        "context": turn.context,
        "headroom_limit": gates.headroom_limit(scope.policy, scope.window),
        "byte_threshold": gates.byte_threshold(scope.policy, scope.window),
        "window": scope.window,
    }
    if plan.reason != verdict.reason:
        detail["per_output"] = verdict.reason
    if plan.reason == "headroom":
        detail |= {"value": head.value, "limit": head.limit, "unit": head.unit}
    if isinstance(plan.draft, TruncateDraft):
        detail["omitted_bytes"] = plan.draft.omitted_bytes
    if prepared.note and plan.route != "variables":
        detail["plaintext"] = prepared.note
    if committed.names:
        detail["variables"] = committed.names
    return {
        "tool": prepared.tool,
        "call_id": prepared.call_id,
        "call_digest": prepared.call_digest,
        "content_digest": prepared.digest,
        "arguments": prepared.arguments,
        "route": plan.route,
        "reason": plan.reason,
        "content": committed.rendered.content,
        "tokens": committed.rendered.tokens,
        "original_tokens": prepared.tokens,
        "original_bytes": prepared.block.size,
        "artifact_id": committed.artifact_row,
        "is_error": prepared.is_error,
        "detail": detail,
    }


def _result(prepared: Prepared, plan: Plan, committed: _Committed) -> Result:
    artifacts, bound = committed.kept
    return Result(
        content=committed.rendered.content,
        route=plan.route,
        reason=plan.reason,
        step=committed.step,
        envelope=committed.rendered.envelope,
        artifacts=list(artifacts),
        variables=list(bound),
        tokens=committed.rendered.tokens,
        original_tokens=prepared.tokens,
        is_error=prepared.is_error,
        tool=prepared.tool,
    )


def _replayed(prepared: Prepared, entry: ledger.Entry) -> Result:
    """The same result as the first time, byte for byte."""
    scope, row, names = prepared.scope, entry.artifact_row, entry.detail.get("variables", [])
    artifacts, bound = ((), ()) if row is None else scope.read(lambda connection: _kept(connection, scope, row, names))
    content = entry.content or ""
    return Result(
        content=content,
        route=entry.route or "inline",
        reason=entry.reason or "fits",
        step=entry.step,
        envelope=json.loads(content) if entry.route in ("variables", "artifact") and content.startswith("{") else None,
        artifacts=list(artifacts),
        variables=list(bound),
        tokens=entry.tokens,
        original_tokens=entry.original_tokens or 0,
        is_error=entry.is_error,
        tool=prepared.tool,
    )


def _kept(connection: Connection, scope: Scope, artifact_row: int, names: list[str]) -> _Kept:
    artifacts = store.by_row_ids(connection, scope.read, scope.row, [artifact_row])
    found = variables.find(connection, scope.read, scope.row, names)
    return list(artifacts.values()), [found[name] for name in names if name in found]


def _unstored(prepared: Prepared) -> Result:
    """What the model reads while the database is away: the output whole where it fits by itself, else cut."""
    shown = Rendered(prepared.block.text, prepared.tokens)
    route = "inline"
    if not prepared.verdict.fits and not is_no_smaller(prepared, shortened := _shortened(prepared)):
        shown, route = shortened, "truncate"
    return Result(
        content=shown.content,
        route=route,
        reason="storage_failure",
        step=None,
        envelope=None,
        artifacts=[],
        variables=[],
        tokens=shown.tokens,
        original_tokens=prepared.tokens,
        is_error=prepared.is_error,
        tool=prepared.tool,
    )


def _shortened(prepared: Prepared) -> Rendered:
    """An output that could not be stored, cut to head and tail and saying so; JSON stays JSON."""
    block, count = prepared.block, prepared.scope.count
    budget = max(prepared.scope.policy.truncate_tokens - 40, 30)
    note = "INCOMPLETE: the whole output could not be stored and cannot be read again without a new call."
    if is_structured(prepared):
        cut_json = truncate_json(block.parsed[1], budget=budget, measure=count, size=block.size)
        content = f'{{"note":"{note}","output":{cut_json.text}}}'
    else:
        content = f"{truncate(block.text, budget=budget, measure=count).text}\n[{note}]"
    return Rendered(content, count(content))
