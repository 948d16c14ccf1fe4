"""Drafts: what stands for one or more blocks of an output, by its route and by the policy's form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from byref.artifacts import variables
from byref.content import Block, Media
from byref.describe.jsontext import encodable
from byref.describe.preview import preview
from byref.describe.shape import shape
from byref.describe.truncate import head_within, truncate, truncate_json
from byref.ingest.envelope import (
    ArtifactDraft,
    Draft,
    Offloaded,
    PlaceholderDraft,
    PointerDraft,
    PreviewDraft,
    TruncateDraft,
    VariablesDraft,
)
from byref.ingest.envelope.base import nested
from byref.ingest.prepare import Measured, Prepared
from byref.policy import Policy

Shape = dict[str, str] | str

WHOLE_PREVIEW = 200_000
"""Tokens of an output whose preview may have all of `preview_tokens`; a smaller one has its share, as what stands for
12,000 tokens is to be some hundreds."""
LEAST_PREVIEW = 100
_SHORT_BELOW = 200
"""Budget of an output cut short under which its notice names tools, and not how to call them."""
NOTE_TOKENS = 40
"""Of the sentence that says why nothing was stored."""


def words_of(block: Measured) -> Shape:
    """The shape of a block, in words."""
    stored = block.piece.block
    if isinstance(stored, Media):
        return stored.words
    return shape(stored.outline) if stored is not None and block.is_structured else "text"


def drafted(
    prepared: Prepared,
    blocks: Sequence[Measured],
    route: str,
    words: Sequence[Shape],
    share: int,
    repeats: int | None = None,
    seen: int | None = None,
    *,
    unkept: str | None = None,
) -> Draft:
    """Return what stands for the blocks on this route.

    `words` are their shapes, `share` is how many drafts the budget is for, `repeats` the step of the first output with
    the same content, `seen` that of one of which the model still sees the text; `unkept` is the knob for which nothing is
    stored.
    """
    scope, policy = prepared.scope, prepared.scope.policy
    tokens = sum(block.tokens for block in blocks)
    budget = policy.envelope_budget // share
    half = min(budget, max(tokens // 2, 100))
    [measured, *more] = blocks
    block = measured.piece.block
    if route == "artifact" and (policy.envelope_form == "previews" or more):
        return PreviewDraft(
            blocks=[_offloaded(prepared, each) for each in blocks],
            total=tokens,
            tools=scope.tools,
            budget=budget,
            preview_tokens=policy.preview_tokens if policy.envelope_form == "previews" else 0,
            count=prepared.count,
            repeats=repeats,
        )
    cut = min(policy.truncate_tokens // share, max(tokens // 2, 100))
    if more or block is None:
        return _joined(prepared, blocks, cut, repeats, unkept)
    if route == "truncate" and seen is not None and not measured.is_structured and not isinstance(block, Media):
        return TruncateDraft(
            "", block.size, block.line_count, 0, scope.tools, False, prepared.count, seen, True, scope.reads_paths
        )
    if isinstance(block, Media):
        text = f"{block.placeholder}\n[{_unkept_note(unkept)}]" if unkept else block.placeholder
        if route == "artifact":
            return PointerDraft(text, block.size, scope.tools, budget, policy.preview_chars, prepared.count, repeats)
        return PlaceholderDraft(text, scope.tools, prepared.count, repeats)
    if route == "variables" and measured.schema is not None:
        value = block.outline
        return VariablesDraft(
            value=value,
            schema=measured.schema,
            parts=variables.parts(prepared.tool, value, words[0], scope.policy.tool(prepared.tool).names),
            total=tokens,
            size=measured.size,
            tools=scope.tools,
            budget=half,
            preview_tokens=_preview_tokens(policy, tokens),
            count=prepared.count,
            repeats=repeats,
        )
    if route == "artifact" and policy.envelope_form == "pointers":
        return PointerDraft(
            block.ends, measured.size, scope.tools, budget, policy.preview_chars, prepared.count, repeats
        )
    if route == "artifact":
        return ArtifactDraft(
            shape=words[0],
            size=measured.size,
            lines=block.line_count,
            structured=measured.is_structured,
            tools=scope.tools,
            budget=half,
            preview_tokens=_preview_tokens(policy, tokens),
            count=prepared.count,
            make_preview=None
            if policy.envelope_form == "references"
            else partial(_artifact_preview, prepared, measured, block),
            repeats=repeats,
        )
    return _shortened(prepared, measured, block, cut, repeats, unkept)


def _preview_tokens(policy: Policy, tokens: int) -> int:
    """Tokens of the preview in an envelope of an output of so many."""
    share = policy.preview_tokens * tokens // WHOLE_PREVIEW
    return min(policy.preview_tokens, max(LEAST_PREVIEW, share))


def _shortened(
    prepared: Prepared, measured: Measured, block: Block, budget: int, repeats: int | None, unkept: str | None
) -> TruncateDraft:
    scope = prepared.scope
    count, lines = prepared.count, block.line_count
    if measured.is_structured:
        count = partial(prepared.count, kind="json")
    draft = TruncateDraft("", block.size, lines, 0, scope.tools, measured.is_structured, count, repeats)
    draft.reads_paths = scope.reads_paths
    draft.is_short = budget < _SHORT_BELOW
    note = NOTE_TOKENS if unkept else draft.note_tokens(variables.identifier(prepared.tool))
    room = max(budget - note, 30)
    if measured.is_structured:
        shown = truncate_json(block.outline, budget=room, measure=count, size=block.size)
        draft.content = f'{{"note":"{_unkept_note(unkept)}","output":{shown.text}}}' if unkept else shown.text
    else:
        shown = truncate(block.ends, budget=room, measure=count)
        draft.content = f"{shown.text}\n[{_unkept_note(unkept)}]" if unkept else shown.text
    draft.omitted_bytes = shown.omitted_bytes
    return draft


def _unkept_note(knob: str) -> str:
    return f"INCOMPLETE: nothing of this was stored, for {knob} would be passed. Ask the tool for less if need be."


def _joined(
    prepared: Prepared, blocks: Sequence[Measured], budget: int, repeats: int | None, unkept: str | None
) -> TruncateDraft:
    """Many blocks cut as one text."""
    scope, text = prepared.scope, joined(blocks)
    size = sum(block.size for block in blocks)
    draft = TruncateDraft("", size, text.count("\n") + 1, 0, scope.tools, False, prepared.count, repeats)
    draft.reads_paths = scope.reads_paths
    note = NOTE_TOKENS if unkept else draft.note_tokens(variables.identifier(prepared.tool), len(blocks))
    shown = truncate(text, budget=max(budget - note, 30), measure=prepared.count)
    draft.content = f"{shown.text}\n[{_unkept_note(unkept)}]" if unkept else shown.text
    draft.omitted_bytes = shown.omitted_bytes
    return draft


def joined(blocks: Sequence[Measured]) -> str:
    """Return blocks as one text, with placeholders for images and documents; those that cannot be stored are left out."""
    stored = [block.piece.block for block in blocks if block.piece.block is not None]
    return "\n\n".join(block.placeholder if isinstance(block, Media) else block.text for block in stored)


def _offloaded(prepared: Prepared, measured: Measured) -> Offloaded:
    block = measured.piece.block
    if isinstance(block, Media):
        tokens = prepared.count(block.placeholder)
        return Offloaded(block.format, block.size, tokens, False, False, lambda _: block.placeholder)
    structured, make = measured.is_structured, partial(_preview_text, prepared, measured)
    return Offloaded("json" if structured else "text", measured.size, measured.tokens, structured, True, make)


def _artifact_preview(prepared: Prepared, measured: Measured, block: Block, budget: int) -> tuple[object, object]:
    count = prepared.count
    if measured.is_structured:
        shown = preview(block.outline, budget=budget, measure=count, total=measured.tokens, size=measured.size)
        assert measured.schema is not None
        if (path := measured.schema.cut_at) is not None:
            return shown.value, {**(shown.omitted or {}), "deeper": nested(path)}
        return shown.value, shown.omitted
    cut_text = truncate(block.ends, budget=budget, measure=count)
    return encodable(cut_text.text), {"bytes": cut_text.omitted_bytes}


def _preview_text(prepared: Prepared, measured: Measured, budget: int) -> str:
    block, count = measured.piece.block, prepared.count
    assert isinstance(block, Block)
    if measured.is_structured:
        total = {"total": measured.tokens, "size": measured.size}
        return preview(block.outline, budget=budget, measure=count, **total).text
    return head_within(block.ends, budget=budget, measure=count)
