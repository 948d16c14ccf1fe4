"""The builder for blocks that are offloaded with a text: a header, guidance, previews, and a reference for each block."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from byref.content import Block, Media
from byref.describe.jsontext import encodable
from byref.describe.preview import preview
from byref.describe.truncate import head_within
from byref.ingest.envelope.base import (
    Brief,
    Builder,
    Reference,
    Rendered,
    access_hints,
    at_location,
    grow,
    read_there,
    repeated,
)
from byref.ingest.prepare import Measured
from byref.policy import INTERPRETER
from byref.policy.routes import Route

RETRIEVE: Final = "retrieve_offloaded_content"
_SEARCH: Final = (
    f"{RETRIEVE} with a reference and pattern (a regular expression or keyword) or line_range {{start, end}}; "
    "everything at once only as a last resort."
)
_REFERENCES_SHARE: Final = 0.5
"""Share of the budget for the references of many blocks; further references are only counted."""
_SHORT_BELOW: Final = 200
"""Below this budget, the guidance only names tools, and fewer references are named."""
_SHORT_SHARE: Final = 0.35
_LEAST_SHOWN: Final = 8
_LEAST_PREVIEW: Final = 20
"""Minimum tokens of a block's preview. If there are too many blocks for that, only the first ones have a preview."""


class PreviewBuilder(Builder):
    """One or more blocks of an output, stored one by one, with a text that names them all."""

    route = Route.ARTIFACT

    def __init__(self, brief: Brief, *, has_preview: bool = True) -> None:
        super().__init__(brief, brief.budget)
        self._blocks = brief.blocks
        self._total = brief.tokens
        self._readable = [block for block in brief.blocks if isinstance(block.piece.block, Block)]
        self._preview_tokens = brief.policy.preview_tokens if has_preview else 0
        self._shown = ""
        self._there = ""

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the references; the preview gets the tokens that the fixed parts leave."""
        references = self._references(names, kept)
        self._there = read_there(kept[0]) if kept else ""
        if self._shown and (rendered := self._rendered(references, step, self._shown)).tokens <= self.budget:
            return rendered

        def wrap(preview: str) -> Rendered:
            return self._rendered(references, step, preview)

        bare = wrap("")
        if bare.tokens > self.budget and self.repeats is not None:
            self.repeats = None
            bare = wrap("")
        grown = grow(bare, self.budget, most=self._preview_tokens, least=_LEAST_SHOWN, make=self._preview, wrap=wrap)
        if grown is None:
            return bare
        self._shown = grown[0]
        return grown[1]

    def _preview(self, room: int) -> str:
        """Return the previews of the blocks in their order. Tokens that the smaller blocks do not need go to the larger ones."""
        blocks = self._blocks[: max(1, room // _LEAST_PREVIEW)]
        pieces: dict[int, str] = {}
        for done, i in enumerate(sorted(range(len(blocks)), key=lambda i: self._tokens(blocks[i]))):
            with suppress(ValueError):
                pieces[i] = self._preview_of(blocks[i], room // (len(blocks) - done))
                room -= self.count(pieces[i]) + 1
        return "\n\n".join(pieces[i] for i in sorted(pieces) if pieces[i])

    def _tokens(self, measured: Measured) -> int:
        """Return the maximum tokens that a block's preview needs. An image or a document shows only its placeholder."""
        block = measured.piece.block
        return self.count(block.placeholder) if isinstance(block, Media) else measured.tokens

    def _preview_of(self, measured: Measured, budget: int) -> str:
        block = measured.piece.block
        if not isinstance(block, Block):
            return block.placeholder if block is not None else ""
        if not measured.is_structured:
            return head_within(block.ends, budget=budget, measure=self.count)
        whole = {"total": measured.tokens, "size": measured.size}
        return preview(block.outline, budget=budget, measure=self.count, **whole).text

    def _references(self, names: Sequence[str], kept: Sequence[Reference]) -> str:
        lines: list[str] = []
        room = self.budget * (_SHORT_SHARE if self.budget < _SHORT_BELOW else _REFERENCES_SHARE)
        in_code = INTERPRETER in self.tools
        for number, (reference, name, block) in enumerate(zip(kept, names, self._blocks, strict=True)):
            code = f"; in {INTERPRETER}: {name}" if in_code else ""
            line = f"{reference.id} ({_kind(block)}{_of(block)}, {block.size:,} bytes{code}){at_location(reference)}"
            room -= self.count(line) + 1
            if room < 0 and number:
                where = ": list_artifacts names them" if "list_artifacts" in self.tools else ""
                lines.append(f"… and {len(kept) - number:,} more{where}")
                break
            lines.append(line)
        return "\n".join(lines)

    def _rendered(self, references: str, step: int, shown: str) -> Rendered:
        guidance = self._guidance(step, is_shown=bool(shown))
        text = (
            f"[Offloaded: {len(self._blocks)} blocks, ~{self._total:,} tokens]\n{guidance}\n\n{shown}\n\n"
            f"[Stored references:]\n{references}"
        )
        return Rendered(text, self.count)

    def _guidance(self, step: int, *, is_shown: bool) -> str:
        readable = self._readable
        below = "the preview below is a part of it" if is_shown else "nothing of it is shown here"
        state = below if readable else "only a placeholder is below"
        lines = [] if self.repeats is None else [repeated(step, self.repeats)]
        lines.append(f"Stored outside the conversation because of its size. INCOMPLETE: {state}.")
        if self.budget < _SHORT_BELOW:
            names = [RETRIEVE] if RETRIEVE in self.tools else list(access_hints(self.tools, structured=True))
            lines[-1] = f"Stored because of its size. INCOMPLETE: {state}."
            way = f"Read it with {' or '.join(names)}" if names else self._there
            return "\n".join([*lines, f"{way}."] if way else lines)
        previewed = is_shown and bool(readable)
        ways = ["Answer from the preview if it is enough; do not infer the rest."] if previewed else []
        if RETRIEVE in self.tools and readable:
            ways.append(f"{'Otherwise call' if previewed else 'Call'} {_SEARCH}")
        elif RETRIEVE in self.tools:
            ways.append(f"Call {RETRIEVE} with a reference to see it.")
        elif readable and (
            hints := access_hints(self.tools, structured=all(block.is_structured for block in readable))
        ):
            how = "; ".join(f"{name}: {hint}" for name, hint in hints.items())
            ways.append(f"Otherwise: {how}." if previewed else f"{how}.")
        elif self._there:
            ways.append(f"Otherwise: {self._there}." if previewed else f"{self._there}.")
        return "\n".join([*lines, " ".join(ways)] if ways else lines)


def _kind(measured: Measured) -> str:
    """Return `json`, `text`, or the format of an image or a document, such as `png` or `pdf`."""
    block = measured.piece.block
    if isinstance(block, Media):
        return block.format
    return "json" if measured.is_structured else "text"


def _of(measured: Measured) -> str:
    """Return where a text is from, if its block says so. An image or a document has its name in its placeholder."""
    source = measured.piece.source if isinstance(measured.piece.block, Block) else None
    return f" of {encodable(source)}" if source is not None else ""
