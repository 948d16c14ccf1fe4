"""An artifact that the session's readers can follow, or a pointer to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from byref.describe.jsontext import compact, encodable
from byref.describe.truncate import Ends, head_of
from byref.ingest.envelope.base import (
    Count,
    Reference,
    Rendered,
    access_hints,
    grow,
    located,
    read_there,
    repeated,
    told,
)
from byref.policy import FOLLOWERS, INTERPRETER

_HAND_ON = " To hand it to another tool, give the pointer as its argument."
_SHORT_BELOW = 150
"""Budget under which a pointer's note does not say how to hand it on, and an artifact's hints are those of its readers."""


@dataclass
class ArtifactDraft:
    """An artifact's facts and how to access it, and a preview if wanted."""

    shape: object
    size: int
    lines: int
    structured: bool
    tools: Sequence[str]
    budget: int
    count: Count
    make_preview: Callable[[int], tuple[object, object]] | None
    """From a budget in tokens to the preview and what it omits; None: no preview."""
    preview_tokens: int
    repeats: int | None = None
    """The step of the first output with the same content."""
    route: str = "artifact"
    _shown: tuple[object, object] | None = None
    """What the first rendering found to fit: ids are of one length, so that it fits the next one too."""

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the artifact's id; the preview takes what the fixed parts leave."""
        reference = kept[0] if kept else Reference("")
        name = names[0] if names else None
        bare = self._rendered(reference, name, step, None)
        if bare.tokens > self.budget and isinstance(self.shape, dict):
            self.shape = "object"  # its keys alone are more than the budget holds
            bare = self._rendered(reference, name, step, None)
        if bare.tokens > self.budget and self.repeats is not None:
            self.repeats = None
            bare = self._rendered(reference, name, step, None)
        if self.make_preview is None:
            return bare
        if self._shown is not None:
            rendered = self._rendered(reference, name, step, self._shown)
            if rendered.tokens <= self.budget:
                return rendered
        grown = grow(
            self._rendered(reference, name, step, (None, None)),
            self.budget,
            most=self.preview_tokens,
            least=24,
            make=self.make_preview,
            wrap=lambda shown: self._rendered(reference, name, step, shown),
        )
        if grown is None:
            return bare
        self._shown = grown[0]
        return grown[1]

    def _rendered(
        self, reference: Reference, name: str | None, step: int, shown: tuple[object, object] | None
    ) -> Rendered:
        envelope: dict[str, Any] = {
            "artifact_id": reference.id,
            **located(reference),
            "size_bytes": self.size,
            "line_count": self.lines,
            "shape": self.shape,
            "how_to_access": self._how_to_access(reference, name),
        }
        notes = [repeated(step, self.repeats)]
        if shown is not None:
            envelope |= {"preview": shown[0], "omitted": shown[1]}
            notes.append(told(complete=shown[1] is None))
        if note := " ".join(filter(None, notes)):
            envelope["note"] = note
        text = compact(envelope)
        return Rendered(text, self.count, envelope)

    def _how_to_access(self, reference: Reference, name: str | None) -> dict[str, str]:
        hints = access_hints(self.tools, structured=self.structured, name=name, tiny=self.budget < _SHORT_BELOW)
        there = read_there(reference)
        return hints if hints or not there else {"location": there}


@dataclass
class PointerDraft:
    """A pointer with the first characters of what it points to."""

    text: str | Ends
    size: int
    tools: Sequence[str]
    budget: int
    preview_chars: int
    count: Count
    repeats: int | None = None
    """The step of the first output with the same content."""
    route: str = "artifact"

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the pointer; a preview over the budget is halved until it fits."""
        reference = kept[0] if kept else Reference("")
        name = names[0] if names else None
        shown = self.preview_chars
        rendered = self._rendered(reference, name, step, shown)
        while rendered.tokens > self.budget and (shown or self.repeats is not None):
            shown, self.repeats = (shown // 2, self.repeats) if shown else (0, None)
            rendered = self._rendered(reference, name, step, shown)
        return rendered

    def _rendered(self, reference: Reference, name: str | None, step: int, shown: int) -> Rendered:
        again = f"{repeated(step, self.repeats)} " if self.repeats is not None else ""
        envelope = {
            "pointer": "art:" + reference.id.removeprefix("art_"),
            **located(reference),
            "preview": encodable(head_of(self.text, shown)),
            "sizeBytes": self.size,
            "note": f"{again}INCOMPLETE: the output is too large to show; all of it is stored."
            f"{self._how(reference, name)}{'' if self.budget < _SHORT_BELOW else _HAND_ON}",
        }
        text = compact(envelope)
        return Rendered(text, self.count, envelope)

    def _how(self, reference: Reference, name: str | None) -> str:
        in_code = f" In {INTERPRETER} it is {name}." if name is not None and INTERPRETER in self.tools else ""
        if "get_artifact" in self.tools:
            return f"{in_code} Call get_artifact with the pointer to read it."
        reader = next((name for name in FOLLOWERS["pointers"] if name in self.tools), None)
        if reader is not None:
            return f"{in_code} Read it with {reader} and the pointer."
        return f"{in_code} {there}." if (there := read_there(reference)) else in_code
