"""Plans: what an output may become, decided and described before anything is written."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from blake3 import blake3

from byref import gates, ledger, variables
from byref.artifacts import staging, store
from byref.artifacts.store import Description
from byref.describe.jsontext import encodable
from byref.describe.preview import preview
from byref.describe.schema import NotPlain, Schema, TooDeep, infer
from byref.describe.shape import shape
from byref.describe.truncate import head_of, head_within, truncate, truncate_json
from byref.envelope import ArtifactDraft, Draft, PointerDraft, PreviewDraft, Rendered, TruncateDraft, VariablesDraft
from byref.gates import Reason, Verdict
from byref.outputs import Block, to_block
from byref.policy import FOLLOWERS, INTERPRETER, READERS
from byref.scope import Scope

logger = logging.getLogger("byref")

Shape = dict[str, str] | str

SCHEMA_CHARS = 262_144
"""Most of a kept schema whose maps had to be folded."""


@dataclass
class Prepared:
    """An output, parsed and measured."""

    scope: Scope
    tool: str
    block: Block
    tokens: int
    verdict: Verdict
    is_error: bool
    digest: bytes
    call_id: str | None
    call_digest: bytes | None
    arguments: str | None
    note: str | None = None
    """Why text is not structured, where it might have been."""
    schema: Schema | None = None


@dataclass
class Plan:
    """One way to commit an output: whole, or as a draft of what stands for it."""

    route: str
    reason: Reason
    needs_headroom: bool = False
    draft: Draft | None = None
    about: Description | None = None
    blob_id: int | None = None
    """Staged, or found published; None: nothing is stored."""


def prepare(
    scope: Scope, output: object, tool: str, call_id: str | None, arguments: object, is_error: bool
) -> Prepared:
    """Parse and measure an output and judge it by itself."""
    policy = scope.policy.for_tool(tool)
    scope = replace(scope, policy=policy)
    block = to_block(output)
    own_tool = tool in scope.tools
    if policy.enabled and not own_tool:
        kind, _ = block.parsed
    else:  # it passes whole whatever it is, and is not worth parsing
        kind = "json" if block.from_value or block.text[:1] in ("{", "[") else "text"
    tokens = scope.count(block.text, kind)
    verdict = gates.per_output(
        policy, size=block.size, tokens=tokens, window=scope.window, is_error=is_error, own_tool=own_tool
    )
    return Prepared(
        scope=scope,
        tool=tool,
        block=block,
        tokens=tokens,
        verdict=verdict,
        is_error=is_error,
        digest=bytes(blake3(block.data).digest()),
        call_id=call_id[: ledger.CALL_ID_CHARS] if call_id else None,
        call_digest=ledger.digest(call_id) if call_id else None,
        arguments=ledger.cut_arguments(arguments),
        note=block.parse_error if verdict.reason not in ("disabled", "own_tool", "below_floor") else None,
    )


def first_plan(prepared: Prepared) -> Plan:
    """Return what the gates and the policy ask for, as far as can be told before the commit."""
    policy, verdict, block = prepared.scope.policy, prepared.verdict, prepared.block
    if verdict.fits:
        needs = verdict.reason == "fits"
        if needs and not has_headroom(prepared, prepared.scope.context()):
            return offload(prepared, "headroom")
        return Plan("inline", verdict.reason, needs_headroom=needs)
    if prepared.is_error or policy.mode == "truncate" or is_structured(prepared):
        return offload(prepared, verdict.reason)
    ceiling = policy.max_threshold_bytes
    if policy.plaintext not in ("auto", "wholesale") or (ceiling is not None and block.size > ceiling):
        return offload(prepared, verdict.reason)
    if policy.plaintext == "wholesale":
        return Plan("wholesale", verdict.reason)
    if has_headroom(prepared, prepared.scope.context()):
        return Plan("wholesale", verdict.reason, needs_headroom=True)
    return offload(prepared, "headroom")


def has_headroom(prepared: Prepared, context: int) -> bool:
    """Tell whether the whole output fits on top of `context`."""
    return headroom(prepared, context).fits


def headroom(prepared: Prepared, context: int) -> Verdict:
    """Judge the whole output on top of `context`."""
    scope = prepared.scope
    return gates.headroom(scope.policy, tokens=prepared.tokens, context=context, window=scope.window)


def offload(prepared: Prepared, reason: Reason) -> Plan:
    """Describe the output, choose its route by kind and by the tools there are, and stage its bytes."""
    scope, block, policy = prepared.scope, prepared.block, prepared.scope.policy
    structured = is_structured(prepared)
    route = _route(prepared, structured)
    if route in ("variables", "artifact") and not scope.tools:
        logger.warning(
            "mode %r leaves the model of session %r a reference that no tool of it follows", route, scope.name
        )
    if len(block.data) > policy.max_artifact_bytes:
        route, reason = "truncate", "max_artifact_bytes"
    keeps = reason != "max_artifact_bytes"
    words: Shape = shape(block.parsed[1]) if structured else "text"
    draft = _draft(prepared, route, structured, keeps, words)
    about = _describe(prepared, structured, words) if keeps else None
    if _is_draft_no_smaller(prepared, draft):
        return Plan("inline", "not_smaller")
    return Plan(draft.route, reason, draft=draft, about=about, blob_id=restage(prepared) if keeps else None)


def _route(prepared: Prepared, structured: bool) -> str:
    """Choose where an output that is too big goes, by its kind and by what the session's tools can follow."""
    policy, tools = prepared.scope.policy, prepared.scope.tools
    follows = any(tool in tools and (structured or tool != "artifact_jq") for tool in FOLLOWERS[policy.envelope_form])
    if prepared.is_error or policy.mode == "truncate":
        return "truncate"
    if not structured:
        wanted = policy.plaintext == "artifact"
        return "artifact" if wanted and (follows or policy.mode == "artifact") else "truncate"
    if policy.mode != "auto":
        return policy.mode
    if policy.envelope_form == "variables" and INTERPRETER in tools:
        return "variables"
    return "artifact" if follows else "truncate"


def is_structured(prepared: Prepared) -> bool:
    """Tell whether the output is JSON that can be described."""
    return prepared.block.parsed[0] == "json" and _schema(prepared) is not None


def _schema(prepared: Prepared) -> Schema | None:
    """Return the schema of a structured output, None where it is nested too deeply to be described."""
    if prepared.schema is None:
        block = prepared.block
        _, value = block.parsed
        try:
            try:
                prepared.schema = infer(value, allow_nonfinite=not block.from_value)
            except NotPlain:
                # A Python value that is not exactly JSON: its JSON text says what it is to everybody else.
                value = block.reparse()
                if block.parsed[0] == "json":
                    prepared.schema = infer(value, allow_nonfinite=True)
        except TooDeep as error:
            block.give_up(str(error))
            prepared.note = block.parse_error
    return prepared.schema


def _draft(prepared: Prepared, route: str, structured: bool, keeps: bool, words: Shape) -> Draft:
    scope, block, policy = prepared.scope, prepared.block, prepared.scope.policy
    count = scope.count
    half = max(prepared.tokens // 2, 100)
    lines = block.line_count
    if route == "variables" and prepared.schema is not None:
        _, value = block.parsed
        return VariablesDraft(
            value=value,
            schema=prepared.schema,
            parts=variables.parts(prepared.tool, value, words),
            total=prepared.tokens,
            tools=scope.tools,
            budget=min(policy.envelope_budget, half),
            preview_tokens=policy.preview_tokens,
            count=count,
        )
    if route == "artifact" and policy.envelope_form == "pointers":
        return PointerDraft(
            text=block.text,
            size=block.size,
            tools=scope.tools,
            budget=policy.envelope_budget,
            preview_chars=policy.preview_chars,
            count=count,
        )
    if route == "artifact" and policy.envelope_form == "previews":
        return PreviewDraft(
            kind="json" if structured else "text",
            size=block.size,
            total=prepared.tokens,
            tools=scope.tools,
            budget=policy.envelope_budget,
            preview_tokens=policy.preview_tokens,
            count=count,
            make_preview=lambda budget: _preview_text(prepared, structured, budget),
        )
    if route == "artifact":
        return ArtifactDraft(
            shape=words if structured else "text",
            size=block.size,
            lines=lines,
            structured=structured,
            tools=scope.tools,
            budget=min(policy.envelope_budget, half),
            preview_tokens=policy.preview_tokens,
            count=count,
            make_preview=None
            if policy.envelope_form == "references"
            else lambda budget: _artifact_preview(prepared, structured, budget),
        )
    budget = min(policy.truncate_tokens, half)
    if structured:
        cut_json = truncate_json(block.parsed[1], budget=budget, measure=count, size=block.size)
        return TruncateDraft(cut_json.text, block.size, lines, cut_json.omitted_bytes, scope.tools, True, count)
    room = budget - 80 if keeps and any(tool in scope.tools for tool in READERS) else budget
    cut_text = truncate(block.text, budget=max(room, 30), measure=count)
    tools = scope.tools if keeps else ()
    return TruncateDraft(cut_text.text, block.size, lines, cut_text.omitted_bytes, tools, False, count)


def _artifact_preview(prepared: Prepared, structured: bool, budget: int) -> tuple[object, object]:
    if structured:
        shown = preview(prepared.block.parsed[1], budget=budget, measure=prepared.scope.count, total=prepared.tokens)
        return shown.value, shown.omitted
    cut_text = truncate(prepared.block.text, budget=budget, measure=prepared.scope.count)
    return encodable(cut_text.text), {"bytes": cut_text.omitted_bytes}


def _preview_text(prepared: Prepared, structured: bool, budget: int) -> str:
    block, count = prepared.block, prepared.scope.count
    if structured:
        return preview(block.parsed[1], budget=budget, measure=count, total=prepared.tokens).text
    return head_within(block.text, budget=budget, measure=count)


def _is_draft_no_smaller(prepared: Prepared, draft: Draft) -> bool:
    rendered = draft.render([part.wanted for part in draft.parts], 1, "art_" + "x" * 12)
    return is_no_smaller(prepared, rendered)


def is_no_smaller(prepared: Prepared, rendered: Rendered) -> bool:
    """Tell whether what stands for the output takes as much as the output itself."""
    return (
        rendered.tokens >= prepared.tokens
        or len(rendered.content.encode("utf-8", "surrogatepass")) >= prepared.block.size
    )


def _describe(prepared: Prepared, structured: bool, words: Shape) -> Description:
    block = prepared.block
    shown = head_of(block.text, store.PREVIEW_CHARS)
    if not structured or prepared.schema is None:
        kind = "application/octet-stream" if block.lossy else "text/plain"
        return Description("text", kind, block.size, shown, prepared.tokens, "text")
    schema = prepared.schema
    kept = schema.fitted(SCHEMA_CHARS, len) if schema.folded else schema.full()
    return Description("json", "application/json", block.size, shown, prepared.tokens, words, store.pack_schema(kept))


def restage(prepared: Prepared) -> int:
    """Write the payload's frames, or find its bytes published already; return the blob's id."""
    block = prepared.block
    return staging.stage(prepared.scope.stage, prepared.scope.tenant, block.data, prepared.digest, block.line_count)
