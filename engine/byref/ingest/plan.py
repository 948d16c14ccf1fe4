"""Plan: the route of an output, and the form of each of its blocks, decided before anything is written.

A plan is made only from the prepared output and the outlook: it reads no database and stores no byte. If the commit finds that
the plan does not hold, it raises `Replan`, and `next_plan` makes the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from byref.accounting.calibration import Standing
from byref.artifacts import quotas, staging, store
from byref.artifacts.quotas import Excess
from byref.artifacts.store import Description
from byref.artifacts.variables import Part, identifier
from byref.content import Block, Media
from byref.content.tables import type_of_text
from byref.conversation import room
from byref.conversation.scope import Scope
from byref.db.payloads import uri_of
from byref.describe.packing import pack_schema
from byref.describe.schema import Schema
from byref.describe.shape import kind_of
from byref.ingest.documents import MARKUP
from byref.ingest.envelope import FORMS, Brief, Builder, Form, Reference, Rendered, TruncatedBuilder
from byref.ingest.envelope.forms import builder_of
from byref.ingest.outlook import Outlook
from byref.ingest.prepare import Measured, Prepared
from byref.policy import INTERPRETER, gates
from byref.policy.gates import Reason, Verdict
from byref.policy.routes import Route

logger = logging.getLogger("byref")

SCHEMA_CHARS = 131_072
"""Maximum characters of a stored schema whose maps had to be folded, or that is too long to be stored whole."""
_ENOUGH_OF_SCHEMA: Final = 0.5
"""Share of these from which on it is detailed enough: each further try to fill them takes up to 60 ms."""
_LONGEST_SCHEMA: Final = 2
"""Times the bytes of a text that its whole schema may have in characters. That of a tree in which no key comes twice has five times
as many; that of published documents has at most 1.4."""
LEAST_ENVELOPE = 300
"""Minimum tokens of a useful envelope. If the budget is too small for one per block, the smaller blocks share one."""
_UNSTORED = "INCOMPLETE: nothing of this was stored, for {knob} would be passed. Ask the tool for less if need be."
_FITTING = ("disabled", "own_tool", "error", "below_floor", "fits")
"""Reasons for which an output passes whole."""


@dataclass
class PlannedArtifact:
    """A block that is to be stored: its description, and the variables that are to be bound to it."""

    block: Measured
    about: Description
    parts: Sequence[Part]
    """The first one is the whole block."""


@dataclass
class Replacement:
    """A text that takes the place of some blocks of an output, and the artifacts that store these blocks."""

    builder: Builder
    blocks: Sequence[Measured]
    artifacts: list[PlannedArtifact] = field(default_factory=list)
    """The artifacts in the order of the blocks; empty if nothing is stored."""

    @property
    def tokens(self) -> int:
        """The tokens of the blocks."""
        return sum(block.tokens for block in self.blocks)

    def is_no_smaller(self, rendered: Rendered) -> bool:
        """Tell whether the replacement takes at least as many bytes or tokens as the blocks themselves."""
        written = len(rendered.content.encode("utf-8", "surrogatepass"))
        return written >= sum(block.size for block in self.blocks) or rendered.tokens >= self.tokens


@dataclass
class Plan:
    """One way to commit an output: whole, or with replacements for some or all of its blocks."""

    route: Route
    reason: Reason
    replacements: Sequence[Replacement] = ()
    """The replacements, the largest first."""
    beside: list[PlannedArtifact] = field(default_factory=list)
    """Artifacts of blocks that pass unchanged: a gate found the output too big, so all of it is stored; or the policy keeps it."""
    needs_headroom: bool = False
    """Whether the blocks that pass unchanged have to fit on top of the context."""
    replaces_all: bool = False
    """Whether every storable block is replaced, even small ones, because there was no headroom for them."""
    seen: int | None = None
    """The step whose text the context still holds, and which a replacement therefore does not repeat."""
    reconsidered: bool = False
    """Whether an earlier plan was refused for headroom that existed at the commit; this one is not refused for it again."""
    excess: Excess | None = None
    """The quota because of which nothing is stored."""

    @property
    def artifacts(self) -> list[PlannedArtifact]:
        """All artifacts to store."""
        return [*(artifact for each in self.replacements for artifact in each.artifacts), *self.beside]

    def rest(self, prepared: Prepared) -> list[Measured]:
        """Return the blocks that pass unchanged."""
        gone = {id(block) for each in self.replacements for block in each.blocks}
        return [block for block in prepared.blocks if id(block) not in gone]


class Replan(Exception):
    """The plan does not hold.

    Its `reason` is one of these. `headroom`: the passing blocks no longer fit. `room`: there is headroom after all. `forgotten`:
    a text that the plan relied on was compacted away. `quota`: the plan would exceed a quota, by `excess`. `not_smaller`: one
    `replacement` is as large as its blocks. `blob_gone`: bytes that were prepared no longer exist.
    """

    def __init__(
        self,
        reason: Literal["headroom", "room", "forgotten", "quota", "not_smaller", "blob_gone"],
        replacement: Replacement | None = None,
        excess: Excess | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.replacement = replacement
        self.excess = excess

    @property
    def has_moved(self) -> bool:
        """Whether the session has changed since the outlook, so that a new one is needed."""
        return self.reason in ("headroom", "room", "forgotten")


def first_plan(prepared: Prepared, outlook: Outlook, *, roomy: bool = False) -> Plan:
    """Return the plan that the gates and the policy ask for, as far as they can decide before the commit.

    With `roomy`, headroom is left for the commit to check.
    """
    plan = whole_plan(prepared)
    if plan is None or (plan.route is Route.WHOLESALE and _seen(prepared, outlook) is not None):
        return _offload(prepared, prepared.verdict.reason, outlook)
    if plan.needs_headroom and not (roomy or has_headroom(prepared, prepared.tokens, outlook.standing)):
        return _offload(prepared, "headroom", outlook)
    return keep_beside(prepared, plan)


def next_plan(prepared: Prepared, plan: Plan, changed: Replan, outlook: Outlook) -> Plan:
    """Return the plan to try after one that did not hold."""
    match changed.reason:
        case "headroom":
            following = _offload(prepared, "headroom", outlook, everything=True)
        case "room":
            return replace(first_plan(prepared, outlook, roomy=True), reconsidered=True)
        case "forgotten":
            following = first_plan(prepared, outlook)
        case "quota" if plan.beside:
            return replace(plan, beside=[], excess=changed.excess)
        case "quota" if any(block.tables for block in prepared.blocks):
            prepared.leave_tables("its tables are left out: with them a quota would be passed")
            if plan.replaces_all or not prepared.verdict.fits:  # there may be room for the document alone
                reason = plan.reason if plan.replaces_all else prepared.verdict.reason
                following = _offload(prepared, reason, outlook, everything=plan.replaces_all)
            else:
                following = first_plan(prepared, outlook)
        case "quota":
            following = _offload(prepared, plan.reason, outlook, everything=plan.replaces_all, excess=changed.excess)
        case "not_smaller":
            following = _without(prepared, plan, changed.replacement)
        case "blob_gone":
            return plan
    return replace(following, reconsidered=plan.reconsidered)


def whole_plan(prepared: Prepared) -> Plan | None:
    """Return the plan by which an output passes whole, if its headroom is confirmed later; None if it cannot pass whole."""
    policy, verdict = prepared.scope.policy, prepared.verdict
    if verdict.fits:
        return Plan(Route.INLINE, verdict.reason, needs_headroom=verdict.reason == "fits")
    if prepared.is_error or policy.mode == "truncate" or not all(map(_is_plaintext, prepared.blocks)):
        return None
    ceiling, most = policy.max_threshold_bytes, policy.wholesale_tokens
    if policy.plaintext not in ("auto", "wholesale") or (ceiling is not None and prepared.size > ceiling):
        return None
    if policy.plaintext == "auto" and most is not None and prepared.tokens > most:
        return None
    return Plan(Route.WHOLESALE, verdict.reason, needs_headroom=policy.plaintext == "auto")


def has_headroom(prepared: Prepared, tokens: int, standing: Standing) -> bool:
    """Tell whether this many tokens fit on top of the context."""
    return headroom(prepared, tokens, standing).fits


def headroom(prepared: Prepared, tokens: int, standing: Standing) -> Verdict:
    """Judge whether tokens fit on top of the context. The tokens are in our count, the context in the provider's."""
    scope = prepared.scope
    return gates.headroom(scope.policy, tokens=standing.expected(tokens), context=standing.context, window=scope.window)


def new_id(scope: Scope) -> str:
    """Return a new artifact id of the kind that the envelope form uses."""
    return store.new_id(as_uuid=_form(scope).has_uuids)


def is_too_large(prepared: Prepared, block: Measured) -> bool:
    """Tell whether a block is too large to be stored under the policy."""
    stored = block.piece.block
    return stored is not None and stored.stored_size > prepared.scope.policy.max_artifact_bytes


def _form(scope: Scope) -> Form:
    return FORMS[scope.policy.envelope_form]


def _is_plaintext(block: Measured) -> bool:
    return isinstance(block.piece.block, Block) and not block.is_structured and block.tables is None


def keep_beside(prepared: Prepared, plan: Plan) -> Plan:
    """Also store blocks that pass unchanged, if the quotas allow it: those that the policy keeps; all, if the output is too big.

    If other blocks are replaced, small ones are not stored: a caption, for example, is not data.
    """
    if prepared.is_error or plan.excess is not None:
        return plan
    texts = prepared.kept
    if plan.reason not in _FITTING:
        floor = prepared.scope.policy.min_threshold_bytes if plan.replacements else 0
        texts = [block for block in plan.rest(prepared) if isinstance(block.piece.block, Block) and block.size >= floor]
    plan.beside = [_artifact(prepared, block) for block in texts if not is_too_large(prepared, block)]
    if len(plan.beside) < len(texts):
        _log_too_large(prepared, texts)
    return plan


def _offload(
    prepared: Prepared,
    reason: Reason,
    outlook: Outlook,
    *,
    everything: bool = False,
    excess: Excess | None = None,
) -> Plan:
    """Choose the blocks to replace, choose a route for each by its kind and the session's tools, and make the builders.

    Of several blocks the largest are replaced until the rest fits; with `everything`, all of them. With an `excess`, they are
    shortened and nothing is stored.
    """
    groups = _groups(prepared, _chosen(prepared, outlook.standing, everything=everything))
    every = [_replacement(prepared, group, len(groups), outlook, excess) for group in groups]
    replacements = [each for each in every if not _may_be_no_smaller(prepared, each)]
    if not replacements:
        plan = Plan(Route.INLINE, "not_smaller" if prepared.storable else "not_storable", excess=excess)
        return keep_beside(prepared, plan)
    replacements.sort(key=lambda each: -each.tokens)
    [largest, *_] = replacements
    plan = Plan(largest.builder.route, reason, replacements, replaces_all=everything)
    if not largest.artifacts and not prepared.is_error and is_too_large(prepared, largest.blocks[0]):
        plan.reason = "max_artifact_bytes"
    elif excess is not None:
        plan.reason, plan.excess = excess.reason, excess
    if any(isinstance(each.builder, TruncatedBuilder) and each.builder.is_seen for each in replacements):
        plan.seen = outlook.given.seen
    return keep_beside(prepared, plan if everything else _settled(prepared, plan))


def _without(prepared: Prepared, plan: Plan, refused: Replacement | None) -> Plan:
    """Return the plan without one of its replacements; the blocks of that one pass unchanged."""
    left = [each for each in plan.replacements if each is not refused]
    if not left:
        return keep_beside(prepared, Plan(Route.INLINE, "not_smaller"))
    return keep_beside(prepared, _settled(prepared, replace(plan, route=left[0].builder.route, replacements=left)))


def _settled(prepared: Prepared, plan: Plan) -> Plan:
    """Set whether the unchanged blocks of a plan need headroom. Blocks that together stay below the floor never do."""
    rest = sum(block.weight for block in plan.rest(prepared))
    plan.needs_headroom = rest > 0 and rest >= prepared.scope.policy.min_threshold_bytes
    return plan


def _chosen(prepared: Prepared, standing: Standing, *, everything: bool) -> list[Measured]:
    """Return the blocks to replace, in their order."""
    scope, policy, storable = prepared.scope, prepared.scope.policy, prepared.storable
    if everything or len(prepared.blocks) == 1 or prepared.is_error or _form(scope).takes_all_blocks:
        return storable
    gone: set[int] = set()
    size, tokens = sum(block.weight for block in prepared.blocks), prepared.tokens
    for block in sorted(storable, key=lambda block: -max(block.tokens, block.size // gates.BYTES_PER_TOKEN)):
        fits = gates.per_output(policy, size=size, tokens=tokens, window=scope.window, is_error=prepared.is_error).fits
        if gone and fits and (size < policy.min_threshold_bytes or has_headroom(prepared, tokens, standing)):
            break
        gone.add(id(block))
        size, tokens = size - block.weight, tokens - block.tokens
    return [block for block in storable if id(block) in gone]


def _groups(prepared: Prepared, chosen: Sequence[Measured]) -> list[list[Measured]]:
    """Group the blocks to replace: one replacement stands for each group."""
    if not chosen:
        return []
    policy, route = prepared.scope.policy, _route(prepared, _shown(chosen))
    if _form(prepared.scope).takes_all_blocks and route is Route.ARTIFACT:
        return [list(chosen)]
    budget = policy.truncate_tokens if route is Route.TRUNCATE else policy.envelope_budget
    each = max(1, budget // LEAST_ENVELOPE)
    if len(chosen) <= each:
        return [[block] for block in chosen]
    largest = {id(block) for block in sorted(chosen, key=lambda block: -block.tokens)[: each - 1]}
    alone = [[block] for block in chosen if id(block) in largest]
    return [*alone, [block for block in chosen if id(block) not in largest]]


def _replacement(
    prepared: Prepared, blocks: Sequence[Measured], share: int, outlook: Outlook, excess: Excess | None
) -> Replacement:
    """Return the replacement of some blocks, within one of `share` equal parts of the budget, with the artifacts to store."""
    scope = prepared.scope
    shown = _shown(blocks)
    route = _route(prepared, shown)
    if not route.is_reference and shown is not blocks:
        shown, route = blocks, _route(prepared, blocks)
    if route.is_reference and not scope.tools and not scope.reads_paths:
        logger.warning(
            "mode %r leaves the model of session %r a reference that no tool of it follows", route.value, scope.name
        )
    knob: str | None = None if excess is None else excess.reason
    if any(is_too_large(prepared, block) for block in blocks):
        knob = "max_artifact_bytes"
        _log_too_large(prepared, blocks)
    if knob is not None:
        brief = Brief(prepared, blocks, share, unstored=_UNSTORED.format(knob=knob))
        return Replacement(builder_of(Route.TRUNCATE, brief), blocks)
    source = blocks[0].piece.source if len(blocks) == 1 else None
    brief = Brief(prepared, shown, share, outlook.given.first, _seen(prepared, outlook), source=source)
    builder = builder_of(route, brief)
    artifacts = [_artifact(prepared, block) for block in shown]
    if builder.parts:
        artifacts[0].parts = builder.parts
    if shown is not blocks:  # the document itself is stored too; its names are its artifact's
        artifacts += [_document(prepared, block, tables) for block, tables in zip(blocks, shown, strict=True)]
    return Replacement(builder, blocks, artifacts)


def _document(prepared: Prepared, document: Measured, tables: Measured) -> PlannedArtifact:
    """Return the artifact of a document. Of text its content type says that it is one: see `document_of` in `references`."""
    planned, block = _artifact(prepared, document), tables.piece.block
    about, read_as = planned.about, block.read_as if isinstance(block, Block) else None
    if about.content_type == "text/plain":
        about = replace(about, content_type=MARKUP.get((read_as or "").partition(";")[0], about.content_type))
    return replace(planned, about=about, parts=())


def _shown(blocks: Sequence[Measured]) -> Sequence[Measured]:
    """Return what is described in place of blocks: of a document, its tables."""
    if len(blocks) == 1 and (tables := blocks[0].tables) is not None and tables.is_structured:
        return [tables]
    return blocks


def _log_too_large(prepared: Prepared, blocks: Sequence[Measured]) -> None:
    scope = prepared.scope
    size = max(block.piece.block.stored_size for block in blocks if block.piece.block is not None)
    quotas.too_large(scope.policy, size, room.owner_of(scope))


def _route(prepared: Prepared, blocks: Sequence[Measured]) -> Route:
    """Choose the route of blocks that are too big, by their kind and by the references that the session's tools can follow."""
    policy, tools, form = prepared.scope.policy, prepared.scope.tools, _form(prepared.scope)
    structured = all(block.is_structured for block in blocks)
    follows = prepared.scope.reads_paths or any(
        tool in tools and (structured or tool != "artifact_jq") for tool in form.followers
    )
    if prepared.is_error or policy.mode == "truncate":
        return Route.TRUNCATE
    if len(blocks) > 1:
        return Route.ARTIFACT if follows or policy.mode == "artifact" else Route.TRUNCATE
    if isinstance(blocks[0].piece.block, Media):
        return Route.ARTIFACT if follows and form.takes_media else Route.PLACEHOLDER
    if not structured:
        wanted = policy.plaintext == "artifact"
        return Route.ARTIFACT if wanted and (follows or policy.mode == "artifact") else Route.TRUNCATE
    if policy.mode != "auto":
        return Route(policy.mode)
    if form.binds_variables and INTERPRETER in tools:
        return Route.VARIABLES
    return Route.ARTIFACT if follows else Route.TRUNCATE


def _may_be_no_smaller(prepared: Prepared, replacement: Replacement) -> bool:
    """Tell the same as `is_no_smaller`, before names and ids are known.

    A text with at most half as many characters as the blocks have tokens is certainly smaller, so its tokens are not counted.
    """
    rendered = _rehearsed(prepared, replacement)
    return 2 * len(rendered.content) >= replacement.tokens and replacement.is_no_smaller(rendered)


def _rehearsed(prepared: Prepared, replacement: Replacement) -> Rendered:
    """Render with ids and names as long as the commit may use, so that a text that fits here also fits there."""
    scope, artifacts = prepared.scope, replacement.artifacts
    kept = [
        Reference(new_id(scope), uri_of(scope.objects, *staging.new_key(scope.place, artifact.about.content_type)))
        for artifact in artifacts
    ]
    names, step = [part.wanted for artifact in artifacts for part in artifact.parts], 1
    # This builder fits its schema and preview beside the names, so it rehearses with the longest likely ones.
    if replacement.builder.parts:
        names, step = [f"{name}_99" for name in names], 999_999
    return replacement.builder.render(names, step, kept)


def _artifact(prepared: Prepared, block: Measured) -> PlannedArtifact:
    """Return the artifact that stores a block; its variable is named after the tool."""
    stored = block.piece.block
    if not isinstance(stored, Block):
        kind = str(block.shape)
    elif block.is_structured:
        kind = block.shape if isinstance(block.shape, str) else kind_of(stored.outline)
    else:
        kind = f"text({stored.line_count} line{'' if stored.line_count == 1 else 's'})"
    return PlannedArtifact(block, _describe(prepared, block), [Part(identifier(prepared.tool), (), kind)])


def _describe(prepared: Prepared, measured: Measured) -> Description:
    block, schema = measured.piece.block, measured.schema
    assert block is not None
    if isinstance(block, Media):
        shown, tokens = block.placeholder, measured.tokens
        return Description(block.kind, block.content_type, block.size, shown, tokens, measured.shape, name=block.name)
    shown, name = block.head(store.PREVIEW_CHARS), measured.piece.name
    if schema is None:
        content_type = "application/octet-stream" if block.lossy else "text/plain"
        return Description("text", content_type, block.size, shown, measured.tokens, "text", name=name)
    return Description(
        "json",
        "application/json" if block.reading is None else type_of_text(block.read_as),
        block.size,
        shown,
        measured.tokens,
        measured.shape,
        pack_schema(_stored_schema(schema, block.size)),
        name=name,
        is_string=block.reading is not None or (_form(prepared.scope).keeps_text and not block.is_written),
        reading=block.reading,
    )


def _stored_schema(schema: Schema, size: int) -> dict[str, object]:
    """Return the full schema of a value whose text has `size` bytes, or a more general one if maps were folded or it is too long."""
    whole = max(SCHEMA_CHARS, _LONGEST_SCHEMA * size)
    return schema.fitted(SCHEMA_CHARS, len, guess=1, enough=_ENOUGH_OF_SCHEMA, whole=whole)


def _seen(prepared: Prepared, outlook: Outlook) -> int | None:
    """Return the step whose same text the model still sees; None for errors, which are shown each time."""
    return None if prepared.is_error else outlook.given.seen
