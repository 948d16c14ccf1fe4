"""Fallback: the result for an output that cannot be stored, so that the turn can go on."""

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
    """Return an output whole if it fits by itself, else cut. A stream that was too large for memory is always cut."""
    plan = _plan(prepared)
    rendered = [each.builder.render([], 0, []) for each in plan.replacements]
    composed = compose(prepared, plan, rendered)
    return prepared.result(plan.route, plan.reason, composed.content, composed.tokens, step=None)


def accounted(prepared: Prepared) -> Result:
    """Return the result of `unstored`; if only the object store failed, record it in the ledger, too.

    It is recorded without a call id, so that the output is stored when the same call is processed again.
    """
    if prepared.scope.objects is None:
        return unstored(prepared)  # without an object store, the database has failed, and it holds the ledger
    anonymous = replace(prepared, call_digest=None)  # with the digest, the next try would get this result as a replay
    try:
        with Stage(anonymous) as stage:
            return commit(anonymous, _plan(anonymous), UNKNOWN, stage)
    except StorageFailure:
        return unstored(prepared)


def _plan(prepared: Prepared) -> Plan:
    """Return a plan that cuts all storable blocks as one text, if the output does not fit and the cut text is smaller."""
    blocks = prepared.storable
    if blocks and (prepared.ingested is not None or not prepared.verdict.fits):
        brief = Brief(prepared, blocks, unstored=_NOTE, most_shown=prepared.scope.policy.truncate_tokens)
        replacement = Replacement(builder_of(Route.TRUNCATE, brief), blocks)
        if not replacement.is_no_smaller(replacement.builder.render([], 0, [])):
            return Plan(Route.TRUNCATE, "storage_failure", [replacement])
    return Plan(Route.INLINE, "storage_failure")
