"""From what a tool returned to what the model reads: prepare, stage, commit.

*Prepare* is CPU alone: parse, measure, judge, describe. *Stage* writes frames that nobody sees yet, in short transactions
of their own, where they are many; few are held and written by the commit. *Commit* is one short transaction under the session's lock: headroom, step, names, the rendered text, the
ledger. A commit that finds its plan wrong (no headroom, a blob swept away, an envelope no smaller than the output) takes
everything back and comes again with another plan.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import staging, variables
from byref.artifacts.quotas import Excess
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.content import formats
from byref.conversation import lifecycle, room
from byref.conversation.result import Result
from byref.conversation.scope import Scope
from byref.errors import StorageFailure
from byref.ingest.envelope import Reference, Rendered, TruncateDraft
from byref.ingest.fallback import unstored
from byref.ingest.outlook import UNKNOWN, Outlook
from byref.ingest.plan import (
    Kept,
    Plan,
    Stand,
    adding_of,
    first_plan,
    has_headroom,
    headroom,
    is_no_smaller,
    keep_beside,
    look_ahead,
    new_id,
    offload,
    restage,
    settle,
    whole_plan,
)
from byref.ingest.prepare import Prepared, prepare
from byref.ingest.replay import artifact_rows, has_expired, replayed
from byref.policy import gates

logger = logging.getLogger("byref")

ATTEMPTS = 8
"""Plans one output may go through before its commit is given up."""


class _Replan(Exception):
    """The plan does not hold; `reason` says why."""

    def __init__(
        self,
        reason: Literal["headroom", "room", "not_smaller", "blob_gone", "quota", "forgotten"],
        stand: Stand | None = None,
        excess: Excess | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.stand = stand
        self.excess = excess


class _Replay(Exception):
    """The same output was given before under the same call id."""

    def __init__(self, entry: ledger.Entry) -> None:
        super().__init__(entry.step)
        self.entry = entry


@dataclass
class _Committed:
    plan: Plan
    """The one that was given, or its better."""
    step: int
    content: str | list[Any]
    tokens: int
    envelope: dict[str, Any] | None = None
    artifacts: list[Artifact] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    stands: list[list[int]] = field(default_factory=list)
    """Of content in blocks: the place of each stand, and the rows of its artifacts; the largest first."""
    beside: list[int] = field(default_factory=list)
    """The rows of those artifacts that are of blocks that pass as they are."""


def process(
    scope: Scope, output: object, *, tool: str, call_id: str | None, arguments: object, is_error: bool
) -> Result:
    """Take one tool output into the session and return what the model reads of it."""
    prepared = prepare(scope, output, tool, call_id, arguments, is_error)
    try:
        result = _take_in(prepared)
        if prepared.taken is not None:
            prepared.taken.settle(scope, {artifact.payload.blob_id for artifact in result.artifacts})
        return result
    except StorageFailure:
        if prepared.scope.policy.on_storage_failure == "raise":
            raise
        logger.exception("byref could not store the output of %r; the turn goes on without it", tool)
        if prepared.taken is not None:
            prepared.taken.settle(scope)
        return _accounted(prepared, unstored(prepared))
    except BaseException:
        if prepared.taken is not None:
            prepared.taken.settle(scope)
        raise
    finally:
        prepared.discard()


def _accounted(prepared: Prepared, result: Result) -> Result:
    """Take what the model reads of an output that could not be stored into the ledger, if that can still be written.

    Under no call id: given again, the output is stored.
    """
    plan = Plan(result.route, "storage_failure")

    def work(connection: Connection) -> int:
        turn = ledger.take_step(connection, prepared.scope.row, result.tokens)
        committed = _Committed(plan, turn.step, result.content, result.tokens)
        columns = _columns(prepared, plan, committed, turn) | {"call_digest": None}
        prepared.scope.append(connection, turn, "output", columns)
        return turn.step

    if prepared.scope.objects is None:
        return result  # it is the database that failed
    try:
        return replace(result, step=prepared.scope.write(work))
    except StorageFailure:
        return result


def _take_in(prepared: Prepared) -> Result:
    """Answer as before what was given before, else commit it."""
    scope, verdict, outlook = prepared.scope, prepared.verdict, UNKNOWN
    may_be_the_same = prepared.call_digest is not None and prepared.size >= scope.policy.min_threshold_bytes
    if may_be_the_same or not verdict.fits or verdict.reason == "fits":
        outlook = look_ahead(prepared)
    if outlook.same is not None and may_be_the_same:
        same = outlook.same
        before = scope.read(lambda connection: ledger.entry(connection, scope.row, same))
        if before is not None and has_expired(scope, before):
            gone = artifact_rows(before)
            scope.write(lambda c: lifecycle.expire(c, scope.row, gone))
        elif before is not None:
            result = replayed(scope, before, prepared.tool)
            return replayed(scope, before, prepared.tool) if _healed(prepared, result) else result
    try:
        return _commit(prepared, outlook)
    except _Replay as replay:
        return replayed(scope, replay.entry, prepared.tool)


def _healed(prepared: Prepared, result: Result) -> bool:
    """Store again what is answered as before and cannot be read as before; tell whether there was such."""
    if prepared.taken is not None:
        return False
    lost = {artifact.digest: artifact.content_type for artifact in result.artifacts if not artifact.payload.is_sound()}
    damaged = [block for block in prepared.blocks if block.digest in lost and block.piece.block is not None]
    for block in damaged:
        restage(prepared, block, lost[block.digest])
    return bool(damaged)


def _commit(prepared: Prepared, outlook: Outlook) -> Result:
    """Commit the first plan that holds."""
    plan = first_plan(prepared, outlook)
    for _ in range(ATTEMPTS):
        if not plan.stands and prepared.taken is not None:
            prepared.taken.read_back()
        try:
            committed = prepared.scope.write(lambda c: _write(c, prepared, plan, outlook))  # noqa: B023  run at once
        except _Replan as changed:
            reconsidered = plan.reconsidered or changed.reason == "room"
            outlook = look_ahead(prepared)
            plan = replace(_next_plan(prepared, plan, changed, outlook), reconsidered=reconsidered)
        else:
            return _result(prepared, committed.plan, committed)
    raise StorageFailure(f"the output of {prepared.tool!r} could not be committed in {ATTEMPTS} attempts")


def _next_plan(prepared: Prepared, plan: Plan, changed: _Replan, outlook: Outlook) -> Plan:
    match changed.reason:
        case "headroom":
            return offload(prepared, "headroom", outlook, everything=True)
        case "room":
            return first_plan(prepared, outlook, roomy=True)
        case "forgotten":
            return first_plan(prepared, outlook)
        case "quota" if plan.beside:
            return replace(plan, beside=[], excess=changed.excess)
        case "quota":
            return offload(prepared, plan.reason, outlook, excess=changed.excess)
        case "not_smaller":
            left = [stand for stand in plan.stands if stand is not changed.stand]
            if not left:
                return keep_beside(prepared, Plan("inline", "not_smaller"), outlook)
            smaller = replace(plan, route=left[0].draft.route, stands=left)
            settle(prepared, smaller)
            return keep_beside(prepared, smaller, outlook)
        case "blob_gone":
            if prepared.taken is not None:
                prepared.taken.lose()
            for kept in plan.kept:
                kept.held = None
                kept.blob_id = restage(prepared, kept.block, kept.about.content_type)
            return plan


def _write(connection: Connection, prepared: Prepared, plan: Plan, outlook: Outlook) -> _Committed:
    """Everything of the commit; runs again from the start where the database asks for it.

    What the ledger said before the plan holds as long as nobody took a step since.
    """
    scope = prepared.scope
    whole = not plan.stands
    rest = prepared.tokens if whole else sum(block.tokens for block in plan.rest(prepared))
    certain = whole and not plan.needs_headroom
    turn = ledger.take_step(connection, scope.row, rest if certain else 0)
    has_moved = outlook.same is not None or turn.step != outlook.step
    if prepared.call_digest is not None and has_moved:
        before = ledger.given_before(connection, scope.row, "output", prepared.call_digest, prepared.digest)
        if before is not None:
            raise _Replay(before)
    if plan.needs_headroom and not has_headroom(prepared, rest, turn):
        raise _Replan("headroom")
    if plan.reason == "headroom" and has_headroom(prepared, prepared.tokens, turn):
        # It was refused without the lock, and a usage or a compaction came in between.
        if prepared.taken is None and (fitting := whole_plan(prepared)) is not None and fitting.route == "inline":
            plan, whole, rest = fitting, True, prepared.tokens
        elif not plan.reconsidered:
            raise _Replan("room")
    if plan.seen is not None and has_moved and ledger.given(connection, scope.row, prepared.digest).seen != plan.seen:
        raise _Replan("forgotten")
    if (adding := adding_of(plan.kept)) and (excess := room.excess_within(connection, scope, adding, turn.bytes)):
        raise _Replan("quota", excess=excess)
    committed = _Committed(plan, turn.step, prepared.content if whole else "", rest)
    if not whole:
        _write_stands(connection, prepared, turn, committed)
    if plan.beside:
        beside = _publish(connection, prepared, plan.beside, turn, committed)
        committed.beside = [artifact.row_id for artifact in beside]
    pending = 0 if certain else committed.tokens
    scope.append(connection, turn, "output", _columns(prepared, plan, committed, turn), pending)
    return committed


def _write_stands(connection: Connection, prepared: Prepared, turn: ledger.Turn, committed: _Committed) -> None:
    """Publish what the stands keep, bind their names, and put what they render in the place of their blocks."""
    plan = committed.plan
    rendered: dict[int, tuple[Rendered, list[int]]] = {}
    for stand in plan.stands:
        shown, rows = _write_stand(connection, prepared, stand, turn, committed)
        rendered[id(stand.blocks[0])] = shown, rows
        committed.tokens += shown.tokens
    committed.envelope = rendered[id(plan.stands[0].blocks[0])][0].envelope
    places: dict[int, int] = {}
    behind = {id(block) for stand in plan.stands for block in stand.blocks[1:]}
    content: list[Any] = []
    for block in prepared.blocks:
        if id(block) in rendered:
            shown, _ = rendered[id(block)]
            places[id(block)] = len(content)
            content.append(formats.write_text(shown.content, like=block.piece))
        elif id(block) not in behind:
            content.append(block.piece.content)
    if len(content) == 1:
        committed.content = next(iter(rendered.values()))[0].content
    else:
        committed.content = content
        committed.stands = [[places[id(stand.blocks[0])], *rendered[id(stand.blocks[0])][1]] for stand in plan.stands]


def _write_stand(
    connection: Connection, prepared: Prepared, stand: Stand, turn: ledger.Turn, committed: _Committed
) -> tuple[Rendered, list[int]]:
    """Publish, bind and render one stand; return the rows of its artifacts, too."""
    bound = len(committed.variables)
    artifacts = _publish(connection, prepared, stand.kept, turn, committed)
    names = [variable.name for variable in committed.variables[bound:]]
    named = [Reference(artifact.id, artifact.location) for artifact in artifacts]
    rendered = prepared.scope.compute(lambda: stand.draft.render(names, turn.step, named))
    if is_no_smaller(stand, rendered):
        raise _Replan("not_smaller", stand)
    return rendered, [artifact.row_id for artifact in artifacts]


def _publish(
    connection: Connection, prepared: Prepared, several: Sequence[Kept], turn: ledger.Turn, committed: _Committed
) -> list[Artifact]:
    """Make artifacts of what was staged and bind their variables."""
    scope = prepared.scope
    artifacts: list[Artifact] = []
    wanted = [part.wanted for kept in several for part in kept.parts]
    free = iter(variables.free(connection, scope.row, wanted) if wanted else ())
    for kept in several:
        if kept.held is not None:
            blob = staging.publish_held(connection, scope.tenant, kept.held)
        else:
            blob = staging.publish(connection, scope.tenant, kept.blob_id, kept.block.digest)
        if blob is None:
            raise _Replan("blob_gone")
        public_id = new_id(scope)
        artifact = scope.publish(connection, blob, kept.about, step=turn.step, origin="output", public_id=public_id)
        artifacts.append(artifact)
        named = list(zip(islice(free, len(kept.parts)), kept.parts, strict=True))
        variables.bind(
            connection,
            tenant=scope.tenant,
            session_row=scope.row,
            artifact_row=artifact.row_id,
            named=named,
            step=turn.step,
            origin="output",
        )
        committed.variables += variables.bound(artifact, named, turn.step)
    committed.artifacts += artifacts
    return artifacts


def _columns(prepared: Prepared, plan: Plan, committed: _Committed, turn: ledger.Turn) -> dict[str, Any]:
    scope, verdict = prepared.scope, prepared.verdict
    head = headroom(prepared, prepared.tokens, turn)
    detail: dict[str, Any] = {
        "value": verdict.value,
        "limit": verdict.limit,
        "unit": verdict.unit,
        "context": turn.context,
        "calibration": round(turn.calibration, 4),
        "headroom_limit": gates.headroom_limit(scope.policy, scope.window),
        "byte_threshold": gates.byte_threshold(scope.policy, scope.window),
        "window": scope.window,
    }
    if plan.reason != verdict.reason:
        detail["per_output"] = verdict.reason
    if plan.reason == "headroom":
        detail |= {"value": head.value, "limit": head.limit, "unit": head.unit}
    if plan.excess is not None and plan.reason == plan.excess.reason:
        detail |= {"value": plan.excess.value, "limit": plan.excess.limit, "unit": "bytes"}
    elif plan.excess is not None:
        detail["unkept"] = plan.excess.reason
    if plan.seen is not None:
        detail["seen"] = plan.seen
    omitted = [stand.draft.omitted_bytes for stand in plan.stands if isinstance(stand.draft, TruncateDraft)]
    if omitted:
        detail["omitted_bytes"] = sum(omitted)
    notes = [block.note for block in prepared.blocks if block.note]
    if notes and plan.route != "variables":
        detail["plaintext"] = notes[0]
    rows = [artifact.row_id for artifact in committed.artifacts]
    # What passes whole has nothing but what is kept beside it.
    apart = [row for row in rows if row not in committed.beside] or committed.beside
    more: dict[str, Any] = {
        "blocks": len(prepared.blocks) if isinstance(committed.content, list) else None,
        "stands": committed.stands,
        "artifacts": apart if len(apart) > 1 and not committed.stands else None,
        "beside": committed.beside if len(apart) < len(rows) and apart else None,
        "variables": [variable.name for variable in committed.variables],
        "instructions": prepared.instructions,
        "mapper": prepared.mapped,
    }
    detail |= {key: value for key, value in more.items() if value}
    return {
        "tool": prepared.tool,
        "call_id": prepared.call_id,
        "call_digest": prepared.call_digest,
        "content_digest": prepared.digest,
        "arguments": prepared.arguments,
        "route": plan.route,
        "reason": plan.reason,
        "content": formats.to_json(committed.content) if isinstance(committed.content, list) else committed.content,
        "tokens": committed.tokens,
        "original_tokens": prepared.tokens,
        "original_bytes": prepared.size,
        "artifact_id": rows[0] if rows else None,
        "is_error": prepared.is_error,
        "detail": detail,
    }


def _result(prepared: Prepared, plan: Plan, committed: _Committed) -> Result:
    return Result(
        content=committed.content,
        route=plan.route,
        reason=plan.reason,
        step=committed.step,
        envelope=committed.envelope,
        artifacts=committed.artifacts,
        variables=committed.variables,
        tokens=committed.tokens,
        original_tokens=prepared.tokens,
        is_error=prepared.is_error,
        instructions=prepared.instructions,
        tool=prepared.tool,
    )
