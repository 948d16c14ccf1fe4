"""Fallback: what the model reads of an output that cannot be stored, so that the turn goes on."""

from __future__ import annotations

from dataclasses import replace

from byref.conversation.result import Result
from byref.errors import StorageFailure
from byref.ingest.commit import commit, compose
from byref.ingest.envelope import Brief, builder_of
from byref.ingest.outlook import UNKNOWN
from byref.ingest.plan import Plan, Replacement
from byref.ingest.prepare import Prepared
from byref.ingest.stage import Stage
from byref.policy.routes import Route

_NOTE = "INCOMPLETE: the whole output could not be stored; only a new call gives it again."


def unstored(prepared: Prepared) -> Result:
    """Return an output whole where it fits by itself, else cut; a stream that was too large to be held is always cut."""
    plan = _plan(prepared)
    rendered = [each.builder.render([], 0, []) for each in plan.replacements]
    composed = compose(prepared, plan, rendered)
    return prepared.result(plan.route, plan.reason, composed.content, composed.tokens, step=None)


def accounted(prepared: Prepared) -> Result:
    """Return the same, and record it in the ledger where only the store of objects failed.

    It is recorded under no call id: given again, the output is stored.
    """
    if prepared.scope.objects is None:
        return unstored(prepared)  # it is the database that failed
    anonymous = replace(prepared, call_digest=None)  # with it, the next try would be answered with this one's result
    try:
        with Stage(anonymous) as stage:
            return commit(anonymous, _plan(anonymous), UNKNOWN, stage)
    except StorageFailure:
        return unstored(prepared)


def _plan(prepared: Prepared) -> Plan:
    """All blocks that could be stored cut as one, where they do not fit by themselves and are smaller so."""
    blocks = prepared.storable
    if blocks and (prepared.ingested is not None or not prepared.verdict.fits):
        brief = Brief(prepared, blocks, unstored=_NOTE, most_shown=prepared.scope.policy.truncate_tokens)
        replacement = Replacement(builder_of(Route.TRUNCATE, brief), blocks)
        if not replacement.is_no_smaller(replacement.builder.render([], 0, [])):
            return Plan(Route.TRUNCATE, "storage_failure", [replacement])
    return Plan(Route.INLINE, "storage_failure")
