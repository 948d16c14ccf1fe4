"""Processing of one output: it runs the stages in order, each of which has its own module."""

from __future__ import annotations

import logging

from byref.artifacts.learning import MAX_BYTES, TEXT, Sample
from byref.content import Block
from byref.conversation.result import Result
from byref.conversation.scope import Scope
from byref.errors import StorageFailure
from byref.ingest import fallback, ingested
from byref.ingest.commit import AnsweredBefore, commit
from byref.ingest.outlook import UNKNOWN, look, look_again, may_be_replayed
from byref.ingest.plan import Replan, first_plan, next_plan
from byref.ingest.prepare import Prepared, prepare
from byref.ingest.replay import answered_before, replayed
from byref.ingest.stage import Stage
from byref_sandbox.jsontext import collector_paused

logger = logging.getLogger("byref")

ATTEMPTS = 8
"""Maximum plans that are tried for one output."""


def process(
    scope: Scope, output: object, *, tool: str, call_id: str | None, arguments: object, is_error: bool
) -> Result:
    """Take one tool output into the session and return the result that the model reads; see `Session.process`."""
    received = ingested.of_tool(scope, output, tool, is_error=is_error)  # stores a large stream while it arrives
    with ingested.settled(scope, received) as used, collector_paused():
        # What was parsed is free before the collector goes on, which would otherwise look through it and count it as old.
        result = _processed(prepare(scope, received, tool, call_id, arguments, is_error))
        used |= {artifact.payload.blob_id for artifact in result.artifacts}
    return result


def _processed(prepared: Prepared) -> Result:
    try:
        result = _answer(prepared)
        _learn(prepared, result)
    finally:
        prepared.discard()
    return result


def _learn(prepared: Prepared, result: Result) -> None:
    """Note what the tool has returned, so that its schema is learned; a mapper's outcome is not what it has returned."""
    learning = prepared.scope.learning
    if learning is None or not prepared.scope.policy.learn:
        return
    if prepared.is_error or prepared.mapped is not None or len(prepared.blocks) != 1:
        return
    block = prepared.blocks[0].piece.block
    if not isinstance(block, Block):
        return
    if block.kind != "json" or block.reading is not None:
        sample = Sample(TEXT, is_schema=True)
    elif len(result.artifacts) == 1 and result.artifacts[0].packed_schema is not None:
        sample = Sample(result.artifacts[0].packed_schema, is_schema=True, is_packed=True)
    elif prepared.ingested is None and prepared.blocks[0].size <= MAX_BYTES:
        sample = Sample(block.data)
    else:
        return
    learning.note(prepared.scope.tenant, prepared.tool, sample)


def _answer(prepared: Prepared) -> Result:
    """Store the output. If that fails and the policy lets the turn go on, return a result that says it is not stored."""
    try:
        return _stored(prepared)
    except StorageFailure:
        if prepared.scope.policy.on_storage_failure == "raise":
            raise
        logger.exception("byref could not store the output of %r; the turn goes on without it", prepared.tool)
        return fallback.accounted(prepared)


def _stored(prepared: Prepared) -> Result:
    """Replay an output that was processed before; otherwise commit the first plan that holds."""
    outlook = look(prepared)
    with Stage(prepared) as stage:
        if outlook is UNKNOWN and prepared.verdict.fits:
            try:
                return commit(prepared, first_plan(prepared, outlook, roomy=True), outlook, stage)
            except AnsweredBefore as same:
                if not may_be_replayed(prepared):
                    return replayed(prepared.scope, same.entry, prepared.tool)
            except Replan:
                pass  # it does not pass just so: the way of all others, with a look first
            outlook = look_again(prepared)
        if (before := answered_before(prepared, outlook, stage)) is not None:
            return before
        stage.begin(outlook)
        plan = first_plan(prepared, outlook)
        for _ in range(ATTEMPTS):
            try:
                return commit(prepared, plan, outlook, stage)
            except AnsweredBefore as same:
                return replayed(prepared.scope, same.entry, prepared.tool)
            except Replan as changed:
                if changed.has_moved:
                    outlook = look_again(prepared)
                plan = next_plan(prepared, plan, changed, outlook)
    raise StorageFailure(f"the output of {prepared.tool!r} could not be committed in {ATTEMPTS} attempts")
