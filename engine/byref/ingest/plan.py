"""Plans: what an output may become, decided and described before anything is written."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from byref.accounting.calibration import Standing
from byref.accounting.ledger import Given
from byref.artifacts import quotas, staging, store
from byref.artifacts.quotas import Excess
from byref.artifacts.staging import HELD_BYTES, Content, Held
from byref.artifacts.store import Description
from byref.artifacts.variables import Part, identifier
from byref.content import Block, Media
from byref.conversation import room
from byref.conversation.scope import Scope
from byref.db.payloads import uri_of
from byref.describe.shape import kind_of
from byref.ingest.draft import Shape, drafted, words_of
from byref.ingest.envelope import Draft, Reference, Rendered, TruncateDraft, VariablesDraft
from byref.ingest.outlook import Outlook, look
from byref.ingest.prepare import Measured, Prepared
from byref.policy import FOLLOWERS, INTERPRETER, gates
from byref.policy.gates import Reason, Verdict

logger = logging.getLogger("byref")

ALONE_BYTES = 2 << 20
"""Up to so many, a payload is compressed when it is stored, and not before."""
SCHEMA_CHARS = 262_144
"""Most of a kept schema whose maps had to be folded."""
_FITTING = ("disabled", "own_tool", "error", "below_floor", "fits")
"""Reasons for which an output passes, and is not stored."""
LEAST_ENVELOPE = 300
"""Tokens under which an envelope says too little: of many blocks the largest have one each, the others share one."""


@dataclass
class Kept:
    """A payload to be published: its description and its blob, staged or found published."""

    block: Measured
    about: Description
    parts: Sequence[Part]
    """Variables to bind; the first is the whole."""
    blob_id: int = 0
    held: Held | None = None
    """Its bytes, where they are written only when it is published."""


@dataclass
class Stand:
    """A draft and the blocks that it stands for."""

    draft: Draft
    blocks: Sequence[Measured]
    kept: list[Kept] = field(default_factory=list)
    """In the order of the blocks; empty: nothing is stored."""

    @property
    def tokens(self) -> int:
        """Of the blocks."""
        return sum(block.tokens for block in self.blocks)

    @property
    def wanted(self) -> list[str]:
        """The names that its variables would like."""
        return [part.wanted for kept in self.kept for part in kept.parts]


@dataclass
class Plan:
    """One way to commit an output: whole, or with drafts that stand for some or all of its blocks."""

    route: str
    reason: Reason
    needs_headroom: bool = False
    """Whether what passes as it is has to fit on top of the context."""
    stands: Sequence[Stand] = ()
    """The largest first."""
    beside: list[Kept] = field(default_factory=list)
    """What is stored of the blocks that pass as they are: a gate found the output too big, so all of it is kept."""
    seen: int | None = None
    """The step at which the context still has the text that a draft leaves out for being the same."""
    reconsidered: bool = False
    """It was refused once for headroom that there was at the commit."""
    excess: Excess | None = None
    """The quota for which nothing is stored."""

    @property
    def kept(self) -> list[Kept]:
        """All that is to be stored."""
        return [*(kept for stand in self.stands for kept in stand.kept), *self.beside]

    def rest(self, prepared: Prepared) -> list[Measured]:
        """The blocks that pass as they are."""
        gone = {id(block) for stand in self.stands for block in stand.blocks}
        return [block for block in prepared.blocks if id(block) not in gone]


def look_ahead(prepared: Prepared) -> Outlook:
    """Return what the database says of an output before it is planned."""
    scope = prepared.scope
    return scope.ask(lambda connection: look(connection, scope.row, prepared.call_digest, prepared.digest))


def first_plan(prepared: Prepared, outlook: Outlook, *, roomy: bool = False) -> Plan:
    """Return what the gates and the policy ask for, as far as can be told before the commit.

    `roomy`: leave it to the commit whether there is headroom.
    """
    if not prepared.verdict.fits:
        _begin(prepared, outlook.given)
    plan = whole_plan(prepared)
    if plan is None or (plan.route == "wholesale" and _seen(prepared, outlook.given) is not None):
        return offload(prepared, prepared.verdict.reason, outlook)
    if plan.needs_headroom and not (roomy or has_headroom(prepared, prepared.tokens, outlook.standing)):
        return offload(prepared, "headroom", outlook)
    return keep_beside(prepared, plan, outlook)


def _begin(prepared: Prepared, given: Given) -> None:
    """Have JSON that is too big compressed while it is described: other threads do that, without the interpreter's lock."""
    [measured, *more] = prepared.blocks
    block = measured.piece.block
    if more or measured.ahead or prepared.taken or not isinstance(block, Block) or block.kind != "json":
        return
    if block.stored_size > ALONE_BYTES and not _is_too_large(prepared, measured) and given.first is None:
        measured.ahead = staging.begun(prepared.scope.place, block.data)


def whole_plan(prepared: Prepared) -> Plan | None:
    """Return how an output passes whole, if there is headroom where it needs some; None where it does not in any case."""
    policy, verdict = prepared.scope.policy, prepared.verdict
    if verdict.fits:
        return Plan("inline", verdict.reason, needs_headroom=verdict.reason == "fits")
    if prepared.is_error or policy.mode == "truncate" or not all(map(is_plaintext, prepared.blocks)):
        return None
    ceiling, most = policy.max_threshold_bytes, policy.wholesale_tokens
    if policy.plaintext not in ("auto", "wholesale") or (ceiling is not None and prepared.size > ceiling):
        return None
    if policy.plaintext == "auto" and most is not None and prepared.tokens > most:
        return None
    return Plan("wholesale", verdict.reason, needs_headroom=policy.plaintext == "auto")


def is_plaintext(block: Measured) -> bool:
    """Tell whether a block is text and not structured."""
    return isinstance(block.piece.block, Block) and not block.is_structured


def has_headroom(prepared: Prepared, tokens: int, standing: Standing) -> bool:
    """Tell whether so many tokens fit on top of the context."""
    return headroom(prepared, tokens, standing).fits


def headroom(prepared: Prepared, tokens: int, standing: Standing) -> Verdict:
    """Judge so many tokens, by our count, on top of the context, by the provider's."""
    scope = prepared.scope
    return gates.headroom(scope.policy, tokens=standing.expected(tokens), context=standing.context, window=scope.window)


def keep_beside(prepared: Prepared, plan: Plan, outlook: Outlook) -> Plan:
    """Have what passes as it is stored as well, where a gate found the output too big and a quota allows it.

    Beside blocks that go, small ones are not kept: a caption is no data.
    """
    if plan.reason in _FITTING or prepared.is_error or plan.excess is not None:
        return plan
    floor = prepared.scope.policy.min_threshold_bytes if plan.stands else 0
    texts = [block for block in plan.rest(prepared) if isinstance(block.piece.block, Block) and block.size >= floor]
    plan.beside = [_kept(prepared, block, words_of(block)) for block in texts if not _is_too_large(prepared, block)]
    if plan.beside:
        plan.excess = _excess(prepared, plan.kept, outlook)
        if plan.excess is not None:
            plan.beside = []
    _place(prepared, plan.beside, is_held=_holds(prepared, plan.kept, outlook.given))
    return plan


def offload(
    prepared: Prepared,
    reason: Reason,
    outlook: Outlook,
    *,
    everything: bool = False,
    excess: Excess | None = None,
) -> Plan:
    """Describe what is to go, choose its routes by kind and by the tools there are, and stage its bytes.

    Of several blocks the largest go until the rest fits, or `everything` does. With an `excess`, or where there is one,
    all of it is shortened and nothing stored.
    """
    given = outlook.given
    groups = _groups(prepared, _chosen(prepared, outlook.standing, everything=everything))
    stands = _stands(prepared, groups, given, excess)
    if excess is None:
        excess = _excess(prepared, [kept for stand in stands for kept in stand.kept], outlook)
        if excess is not None:
            stands = _stands(prepared, groups, given, excess)
    if not stands:
        storable = any(block.piece.block is not None for block in prepared.blocks)
        return keep_beside(
            prepared, Plan("inline", "not_smaller" if storable else "not_storable", excess=excess), outlook
        )
    kept = [kept for stand in stands for kept in stand.kept]
    _place(prepared, kept, is_held=_holds(prepared, kept, given))
    stands.sort(key=lambda stand: -stand.tokens)
    too_large = not stands[0].kept and not prepared.is_error and _is_too_large(prepared, stands[0].blocks[0])
    plan = Plan(stands[0].draft.route, "max_artifact_bytes" if too_large else reason, stands=stands)
    if any(isinstance(stand.draft, TruncateDraft) and stand.draft.is_seen for stand in stands):
        plan.seen = given.seen
    if excess is not None and not too_large:
        plan.reason, plan.excess = excess.reason, excess
    if not everything:
        settle(prepared, plan)
    return keep_beside(prepared, plan, outlook)


def adding_of(several: Sequence[Kept]) -> dict[bytes, int]:
    """Return what is to be stored, as sizes by digest."""
    return {
        kept.block.digest: kept.block.piece.block.stored_size for kept in several if kept.block.piece.block is not None
    }


def _excess(prepared: Prepared, several: Sequence[Kept], outlook: Outlook) -> Excess | None:
    """Return the quota that storing payloads would pass now: the commit asks again, which alone writes what is small."""
    adding = adding_of(several)
    return room.excess(prepared.scope, adding, outlook.kept if sum(adding.values()) <= HELD_BYTES else None)


def _stands(
    prepared: Prepared, groups: Sequence[Sequence[Measured]], given: Given, excess: Excess | None
) -> list[Stand]:
    """A stand for each group that one makes smaller."""
    share = max(1, len(groups))
    stands = [_stand(prepared, group, share, given, excess) for group in groups]
    return [stand for stand in stands if not _may_be_no_smaller(prepared, stand)]


def settle(prepared: Prepared, plan: Plan) -> None:
    """Say whether what a plan lets pass as it is has to fit; what is less than the floor always may."""
    rest = sum(block.weight for block in plan.rest(prepared))
    plan.needs_headroom = rest > 0 and rest >= prepared.scope.policy.min_threshold_bytes


def _chosen(prepared: Prepared, standing: Standing, *, everything: bool) -> list[Measured]:
    """The blocks that are to go, in their order."""
    scope, policy = prepared.scope, prepared.scope.policy
    storable = [block for block in prepared.blocks if block.piece.block is not None]
    if everything or len(prepared.blocks) == 1 or prepared.is_error or policy.envelope_form == "previews":
        return storable
    gone: set[int] = set()
    size, tokens = prepared.weight, prepared.tokens
    for block in sorted(storable, key=lambda block: -max(block.tokens, block.size // gates.BYTES_PER_TOKEN)):
        fits = gates.per_output(policy, size=size, tokens=tokens, window=scope.window, is_error=prepared.is_error).fits
        if gone and fits and (size < policy.min_threshold_bytes or has_headroom(prepared, tokens, standing)):
            break
        gone.add(id(block))
        size, tokens = size - block.weight, tokens - block.tokens
    return [block for block in storable if id(block) in gone]


def _groups(prepared: Prepared, chosen: Sequence[Measured]) -> list[list[Measured]]:
    """The blocks that go, those together that one draft stands for."""
    policy = prepared.scope.policy
    route = _route(prepared, chosen) if chosen else ""
    if policy.envelope_form == "previews" and route == "artifact":
        return [list(chosen)]
    budget = policy.truncate_tokens if route == "truncate" else policy.envelope_budget
    each = max(1, budget // LEAST_ENVELOPE)
    if len(chosen) <= each:
        return [[block] for block in chosen]
    largest = {id(block) for block in sorted(chosen, key=lambda block: -block.tokens)[: each - 1]}
    alone = [[block] for block in chosen if id(block) in largest]
    return [*alone, [block for block in chosen if id(block) not in largest]]


def _stand(prepared: Prepared, blocks: Sequence[Measured], share: int, given: Given, excess: Excess | None) -> Stand:
    """A draft for some blocks with its share of the budget, and what is to be kept of them."""
    route = _route(prepared, blocks)
    if route in ("variables", "artifact") and not prepared.scope.tools and not prepared.scope.reads_paths:
        logger.warning(
            "mode %r leaves the model of session %r a reference that no tool of it follows", route, prepared.scope.name
        )
    unkept: str | None = None if excess is None else excess.reason
    if any(_is_too_large(prepared, block) for block in blocks):
        unkept = "max_artifact_bytes"
        _tell_too_large(prepared, blocks)
    words = [words_of(block) for block in blocks]
    if unkept is not None:
        return Stand(drafted(prepared, blocks, "truncate", words, share, unkept=unkept), blocks)
    draft = drafted(prepared, blocks, route, words, share, given.first, _seen(prepared, given))
    kept = [_kept(prepared, block, said) for block, said in zip(blocks, words, strict=True)]
    if isinstance(draft, VariablesDraft):
        kept[0].parts = draft.parts
    return Stand(draft, blocks, kept)


def _kept(prepared: Prepared, block: Measured, words: Shape) -> Kept:
    """What is to be kept of a block, the whole of it named after the tool."""
    stored = block.piece.block
    if not isinstance(stored, Block):
        shape = str(words)
    elif block.is_structured:
        shape = kind_of(stored.outline)
    else:
        shape = f"text({stored.line_count} line{'' if stored.line_count == 1 else 's'})"
    return Kept(block, _describe(block, words), [Part(identifier(prepared.tool), (), shape)])


def _tell_too_large(prepared: Prepared, blocks: Sequence[Measured]) -> None:
    scope = prepared.scope
    size = max(block.piece.block.stored_size for block in blocks if block.piece.block is not None)
    words = f"{size:,} bytes are more than max_artifact_bytes={scope.policy.max_artifact_bytes:,} allows"
    quotas.tell("max_artifact_bytes", words, tenant=scope.tenant, session=scope.name, session_row=scope.row)


def _is_too_large(prepared: Prepared, block: Measured) -> bool:
    stored = block.piece.block
    return stored is not None and stored.stored_size > prepared.scope.policy.max_artifact_bytes


def _route(prepared: Prepared, blocks: Sequence[Measured]) -> str:
    """Choose where blocks that are too big go, by their kind and by what the session's tools can follow."""
    policy, tools = prepared.scope.policy, prepared.scope.tools
    structured = all(block.is_structured for block in blocks)
    follows = prepared.scope.reads_paths or any(
        tool in tools and (structured or tool != "artifact_jq") for tool in FOLLOWERS[policy.envelope_form]
    )
    if prepared.is_error or policy.mode == "truncate":
        return "truncate"
    if len(blocks) > 1:
        return "artifact" if follows or policy.mode == "artifact" else "truncate"
    if isinstance(blocks[0].piece.block, Media):
        return "artifact" if follows and policy.envelope_form in ("pointers", "previews") else "placeholder"
    if not structured:
        wanted = policy.plaintext == "artifact"
        return "artifact" if wanted and (follows or policy.mode == "artifact") else "truncate"
    if policy.mode != "auto":
        return policy.mode
    if policy.envelope_form == "variables" and INTERPRETER in tools:
        return "variables"
    return "artifact" if follows else "truncate"


def _may_be_no_smaller(prepared: Prepared, stand: Stand) -> bool:
    """As `is_no_smaller`, before the commit sees to it: what has half as many characters as the blocks have tokens is not counted."""
    rendered = _rehearsed(prepared, stand)
    return 2 * len(rendered.content) >= stand.tokens and is_no_smaller(stand, rendered)


def _rehearsed(prepared: Prepared, stand: Stand) -> Rendered:
    scope = prepared.scope
    named = [
        Reference(new_id(scope), uri_of(scope.objects, *staging.new_key(scope.place, kept.about.content_type)))
        for kept in stand.kept
    ]
    names, step = stand.wanted, 1
    if isinstance(stand.draft, VariablesDraft):  # it fits what it shows beside these, which may become as long as that
        names, step = [f"{name}_99" for name in names], 999_999
    return stand.draft.render(names, step, named)


def new_id(scope: Scope) -> str:
    """Return a fresh id for an artifact, as the envelope's form has them."""
    return store.new_id(as_uuid=scope.policy.envelope_form == "pointers")


def is_no_smaller(stand: Stand, rendered: Rendered) -> bool:
    """Tell whether what stands for blocks takes as much as they do."""
    written = len(rendered.content.encode("utf-8", "surrogatepass"))
    return written >= sum(block.size for block in stand.blocks) or rendered.tokens >= stand.tokens


def _describe(measured: Measured, words: Shape) -> Description:
    block = measured.piece.block
    assert block is not None
    if isinstance(block, Media):
        return Description(
            block.kind, block.content_type, block.size, block.placeholder, measured.tokens, words, name=block.name
        )
    shown = block.head(store.PREVIEW_CHARS)
    if measured.schema is None:
        kind = "application/octet-stream" if block.lossy else "text/plain"
        return Description("text", kind, block.size, shown, measured.tokens, "text")
    schema = measured.schema
    kept = schema.fitted(SCHEMA_CHARS, len) if schema.folded else schema.full()
    return Description(
        "json",
        "application/json",
        block.size,
        shown,
        measured.tokens,
        words,
        store.pack_schema(kept),
        is_string=measured.is_string,
    )


def _seen(prepared: Prepared, given: Given) -> int | None:
    """The step at which the model still sees the same text; None of errors, which are shown each time."""
    return None if prepared.is_error else given.seen


def _holds(prepared: Prepared, several: Sequence[Kept], given: Given) -> bool:
    """Tell whether payloads are written by the commit alone.

    What was given before is stored, most likely: its bytes are looked at before they are trusted.
    """
    is_new = given.first is None and prepared.taken is None and prepared.scope.objects is None
    return is_new and sum(adding_of(several).values()) <= HELD_BYTES


def _place(prepared: Prepared, several: Sequence[Kept], *, is_held: bool) -> None:
    """Hold payloads for the commit, equal ones once, or write them."""
    held: dict[bytes, Held] = {}
    for kept in several:
        digest, content_type = kept.block.digest, kept.about.content_type
        if not is_held:
            kept.blob_id = restage(prepared, kept.block, content_type)
        elif digest not in held:
            held[digest] = staging.hold(_content(kept.block, content_type))
        kept.held = held.get(digest)


def restage(prepared: Prepared, measured: Measured, content_type: str) -> int:
    """Write a payload, or find its bytes published already; return the blob's id."""
    if prepared.taken is not None:
        return prepared.taken.staged.blob_id
    ahead, measured.ahead = measured.ahead, None
    try:
        return staging.stage(prepared.scope.place, _content(measured, content_type), ahead).blob_id
    finally:
        if ahead is not None:
            ahead.close()


def _content(measured: Measured, content_type: str) -> Content:
    block = measured.piece.block
    assert block is not None
    return Content(block.data, measured.digest, block.line_count, content_type)
