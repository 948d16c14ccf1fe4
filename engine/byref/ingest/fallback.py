"""What the model reads while the database is away: the turn goes on."""

from __future__ import annotations

from byref.content import Block, formats
from byref.conversation.result import Result
from byref.describe.truncate import truncate, truncate_json
from byref.ingest.draft import joined
from byref.ingest.envelope import Rendered
from byref.ingest.prepare import Prepared


def unstored(prepared: Prepared) -> Result:
    """Return an output whole where it fits by itself, else cut; a stream that was too large to be held is always cut."""
    cut = _cut(prepared) if prepared.taken is not None or not prepared.verdict.fits else None
    if cut is None:
        content, tokens, route = prepared.content, prepared.tokens, "inline"
    else:
        rest = [block for block in prepared.blocks if block.piece.block is None]
        shown = formats.write_text(cut.content, like=prepared.blocks[0].piece)
        content = [shown, *(block.piece.content for block in rest)] if rest else cut.content
        tokens, route = cut.tokens + sum(block.tokens for block in rest), "truncate"
    return Result(
        content=content,
        route=route,
        reason="storage_failure",
        step=None,
        envelope=None,
        artifacts=[],
        variables=[],
        tokens=tokens,
        original_tokens=prepared.tokens,
        is_error=prepared.is_error,
        instructions=prepared.instructions,
        tool=prepared.tool,
    )


def _cut(prepared: Prepared) -> Rendered | None:
    """Blocks that could not be stored, cut to head and tail and saying so; JSON stays JSON. None: they are no smaller so."""
    count = prepared.scope.count
    budget = max(prepared.scope.policy.truncate_tokens - 40, 30)
    note = "INCOMPLETE: the whole output could not be stored; only a new call gives it again."
    stored = [block for block in prepared.blocks if block.piece.block is not None]
    alone = stored[0] if len(stored) == 1 else None
    block = alone.piece.block if alone is not None else None
    if alone is not None and alone.is_structured and isinstance(block, Block):
        cut_json = truncate_json(block.outline, budget=budget, measure=count, size=block.size)
        content = f'{{"note":"{note}","output":{cut_json.text}}}'
    else:
        text = block.ends if isinstance(block, Block) else joined(stored)
        content = f"{truncate(text, budget=budget, measure=count).text}\n[{note}]"
    rendered, size = Rendered(content, count), len(content.encode("utf-8", "surrogatepass"))
    if rendered.tokens >= sum(block.tokens for block in stored) or size >= sum(block.size for block in stored):
        return None
    return rendered
