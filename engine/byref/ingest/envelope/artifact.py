"""Builders of an artifact's envelope, which the session's readers can follow, and of a pointer to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byref.content import Block, Media
from byref.describe.jsontext import compact, encodable
from byref.describe.preview import preview
from byref.describe.truncate import head_of, truncate
from byref.ingest.envelope.base import (
    Brief,
    Builder,
    Reference,
    Rendered,
    access_hints,
    completeness,
    grow,
    located,
    nested,
    read_there,
    repeated,
)
from byref.policy import FOLLOWING, INTERPRETER
from byref.policy.routes import Route

_HAND_ON = " To hand it to another tool, give the pointer as its argument."
_SHORT_BELOW = 150
"""Below this budget, a pointer's note does not say how to pass it on, and an artifact has only the hints of readers."""
_LINES_FROM = 400
"""From this budget on, an artifact of text says what a glance over its lines tells."""
_LEAST_PREVIEW = 24
_Preview = tuple[object, object]
"""The shown part of a value, and the description of the omitted rest."""


class ArtifactBuilder(Builder):
    """Shows an artifact's facts, how to access it, and a preview if wanted."""

    route = Route.ARTIFACT

    def __init__(self, brief: Brief, *, has_preview: bool = True) -> None:
        super().__init__(brief, brief.bounded_budget)
        [self._measured] = brief.blocks
        assert isinstance(self._measured.piece.block, Block)
        self._block = self._measured.piece.block
        self._shape: object = self._measured.shape
        self._lines = brief.lines if self.budget >= _LINES_FROM else ""
        self._has_preview = has_preview
        self._preview_tokens = brief.preview_tokens
        self._shown: _Preview | None = None

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the artifact's id; the preview gets the tokens that the fixed parts leave."""
        reference = kept[0] if kept else Reference("")
        name = names[0] if names else None
        bare = self._rendered(reference, name, step, None)
        if bare.tokens > self.budget and isinstance(self._shape, dict):
            self._shape = "object"  # the keys alone exceed the budget
            bare = self._rendered(reference, name, step, None)
        if bare.tokens > self.budget and self.repeats is not None:
            self.repeats = None
            bare = self._rendered(reference, name, step, None)
        if not self._has_preview:
            return bare
        if self._shown is not None:
            rendered = self._rendered(reference, name, step, self._shown)
            if rendered.tokens <= self.budget:
                return rendered
        grown = grow(
            self._rendered(reference, name, step, (None, None)),
            self.budget,
            most=self._preview_tokens,
            least=_LEAST_PREVIEW,
            make=self._preview,
            wrap=lambda shown: self._rendered(reference, name, step, shown),
        )
        if grown is None:
            return bare
        self._shown, rendered = grown
        return rendered

    def _preview(self, budget: int) -> _Preview:
        measured = self._measured
        if measured.schema is None:
            cut = truncate(self._block.ends, budget=budget, measure=self.count)
            return encodable(cut.text), {"bytes": cut.omitted_bytes}
        shown = preview(
            self._block.outline, budget=budget, measure=self.count, total=measured.tokens, size=measured.size
        )
        if (path := measured.schema.cut_at) is not None:
            return shown.value, {**(shown.omitted or {}), "deeper": nested(path)}
        return shown.value, shown.omitted

    def _rendered(self, reference: Reference, name: str | None, step: int, shown: _Preview | None) -> Rendered:
        envelope: dict[str, Any] = {
            "artifact_id": reference.id,
            **self.source,
            **located(reference),
            "size_bytes": self._measured.size,
            "line_count": self._block.line_count,
            "shape": self._shape,
            **({"lines": self._lines} if self._lines else {}),
            "how_to_access": self._how_to_access(reference, name),
        }
        notes = [repeated(step, self.repeats)]
        if shown is not None:
            envelope |= {"preview": shown[0], "omitted": shown[1]}
            notes.append(completeness(complete=shown[1] is None))
        if note := " ".join(filter(None, notes)):
            envelope["note"] = note
        return Rendered(compact(envelope), self.count, envelope)

    def _how_to_access(self, reference: Reference, name: str | None) -> dict[str, str]:
        structured = self._measured.is_structured
        hints = access_hints(self.tools, structured=structured, name=name, tiny=self.budget < _SHORT_BELOW)
        there = read_there(reference)
        return hints if hints or not there else {"location": there}


class PointerBuilder(Builder):
    """Shows a pointer with the first characters of its artifact."""

    route = Route.ARTIFACT

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief, brief.budget)
        [measured] = brief.blocks
        block = measured.piece.block
        assert block is not None
        self._text = block.placeholder if isinstance(block, Media) else block.ends
        self._size = measured.size
        self._preview_chars = brief.policy.preview_chars

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the pointer; a preview over the budget is halved until it fits."""
        reference = kept[0] if kept else Reference("")
        name = names[0] if names else None
        shown = self._preview_chars
        rendered = self._rendered(reference, name, step, shown)
        while rendered.tokens > self.budget and (shown or self.repeats is not None):
            shown, self.repeats = (shown // 2, self.repeats) if shown else (0, None)
            rendered = self._rendered(reference, name, step, shown)
        return rendered

    def _rendered(self, reference: Reference, name: str | None, step: int, shown: int) -> Rendered:
        again = f"{repeated(step, self.repeats)} " if self.repeats is not None else ""
        envelope = {
            "pointer": "art:" + reference.id.removeprefix("art_"),
            **self.source,
            **located(reference),
            "preview": encodable(head_of(self._text, shown)),
            "sizeBytes": self._size,
            "note": f"{again}INCOMPLETE: the output is too large to show; all of it is stored."
            f"{self._how(reference, name)}{'' if self.budget < _SHORT_BELOW else _HAND_ON}",
        }
        return Rendered(compact(envelope), self.count, envelope)

    def _how(self, reference: Reference, name: str | None) -> str:
        in_code = f" In {INTERPRETER} it is {name}." if name is not None and INTERPRETER in self.tools else ""
        if "get_artifact" in self.tools:
            return f"{in_code} Call get_artifact with the pointer to read it."
        reader = next((name for name in FOLLOWING if name in self.tools), None)
        if reader is not None:
            return f"{in_code} Read it with {reader} and the pointer."
        return f"{in_code} {there}." if (there := read_there(reference)) else in_code
