"""What the model reads in place of an output: bounded, always parsing where it is JSON, stating what is missing.

A draft is made before the commit, when names, step and artifact id are not known yet; `render` fills them in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from byref.describe.jsontext import compact, encodable
from byref.describe.preview import Preview, preview
from byref.describe.schema import Schema
from byref.describe.truncate import head_of, readable
from byref.policy import FOLLOWERS, INTERPRETER, READERS
from byref.variables import Part

Count = Callable[[str], int]

HINTS = {
    "artifact_read": "Read lines: start_line to end_line",
    "artifact_grep": "Find the lines that match a regular expression: pattern",
    "artifact_jq": "Query with a jq expression, e.g. '.results[0]' or '.[] | select(.score > 0.5)'",
}
"""How each reader gets at an artifact; jq only at JSON."""

_TEXT_WAYS = {
    "artifact_read": "read on with artifact_read (start_line, end_line)",
    "artifact_grep": "search with artifact_grep (pattern)",
}
_SCHEMA_SHARE = 0.4
"""Of the room that the fixed parts leave; the preview has the rest."""
_LISTING_SHARE = 0.25
"""Of the budget, for the names of variables; further ones are counted."""
_KEY_CHARS = 60
"""Of a key that a variable's name does not say as it is."""
_SHORT_BELOW = 450
"""Budget under which the instruction is one sentence."""
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the model reads, its tokens, and the envelope it is the text of, if it is one."""

    content: str
    tokens: int
    envelope: dict[str, Any] | None = None


class Draft(Protocol):
    """Stands for an output until its commit knows names, step and artifact id."""

    route: str
    parts: Sequence[Part]
    """Variables to bind; the first is the whole."""

    def render(self, names: Sequence[str], step: int, artifact_id: str) -> Rendered:
        """Fill in the names of `parts`, the step and the artifact's id."""


@dataclass
class VariablesDraft:
    """Structured data bound to variables of the code interpreter."""

    value: object = field(repr=False)
    schema: Schema
    parts: Sequence[Part]
    total: int
    """Tokens of the whole value."""
    tools: Sequence[str]
    budget: int
    preview_tokens: int
    count: Count
    route: str = "variables"
    _fitted: dict[str, Any] = field(default_factory=dict)
    _preview: Preview | None = None
    _sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fit schema and preview beside names as long as they may become."""
        self._sizes = [_size_at(self.value, part) for part in self.parts]
        self._fit([f"{part.wanted}_99" for part in self.parts], 999_999)

    def render(self, names: Sequence[str], step: int, artifact_id: str) -> Rendered:
        """Fill in the names; refit where they took more room than was set aside."""
        rendered = self._rendered(names, step)
        if rendered.tokens > self.budget:
            self._fit(names, step)
            rendered = self._rendered(names, step)
        return rendered

    def _fit(self, names: Sequence[str], step: int) -> None:
        room = self.budget - self.count(compact(self._envelope(names, step)))
        share = _SCHEMA_SHARE
        for _ in range(_ROUNDS):
            self._fitted, self._preview = {}, None
            # A counter of the host's own may take so many tokens a character that not even a stub fits.
            with suppress(ValueError):
                self._fitted = self.schema.fitted(max(4, int(room * share)), self.count)
            left = room - self.count(compact(self._fitted))
            with suppress(ValueError):
                self._preview = preview(
                    self.value, budget=max(8, min(left, self.preview_tokens)), measure=self.count, total=self.total
                )
            over = self._rendered(names, step).tokens - self.budget
            if over <= 0:
                return
            room -= over + 4
            if room < 60:
                share = 0.1

    def _rendered(self, names: Sequence[str], step: int) -> Rendered:
        envelope = self._envelope(names, step)
        text = compact(envelope)
        return Rendered(text, self.count(text), envelope)

    def _envelope(self, names: Sequence[str], step: int) -> dict[str, Any]:
        shown = self._preview
        short = self.budget < _SHORT_BELOW
        alias = f"var_step_{step}"
        listing = self._listing(names, alias)
        sizes = dict(zip(names, self._sizes, strict=True))
        example = max((name for name in names if name in listing), key=sizes.__getitem__, default=alias)
        return {
            "variables": listing,
            "schema": self._fitted,
            "preview": shown.value if shown else None,
            "omitted": shown.omitted if shown else None,
            "instruction": _instruction(
                example, step, self.tools, complete=shown is not None and shown.omitted is None, short=short
            ),
        }

    def _listing(self, names: Sequence[str], alias: str) -> dict[str, str]:
        """As many names as a share of the budget holds, the rest counted; the whole by its alias where its name is long."""
        room = self.budget * _LISTING_SHARE
        listing: dict[str, str] = {}
        for name, part in zip(names, self.parts, strict=True):
            about = part.shape if part.path in ((), (name,)) else f"{part.shape}, at {_at(part.path)}"
            room -= self.count(name + about) + 4
            if listing and room < 0:
                listing["…"] = f"{len(names) - len(listing)} more variables"
                break
            listing[name if room >= 0 else alias] = about
        return listing


@dataclass
class ArtifactDraft:
    """An artifact that the session's readers can follow: its facts and how to access it, and a preview if wanted."""

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
    route: str = "artifact"
    parts: Sequence[Part] = ()
    _shown: tuple[object, object] | None = None
    """What the first rendering found to fit: ids are of one length, so that it fits the next one too."""

    def render(self, names: Sequence[str], step: int, artifact_id: str) -> Rendered:
        """Fill in the artifact's id; the preview takes what the fixed parts leave."""
        bare = self._rendered(artifact_id, None)
        if bare.tokens > self.budget and isinstance(self.shape, dict):
            self.shape = "object"  # its keys alone are more than the budget holds
            bare = self._rendered(artifact_id, None)
        if self.make_preview is None:
            return bare
        if self._shown is not None and (rendered := self._rendered(artifact_id, self._shown)).tokens <= self.budget:
            return rendered
        room = self.budget - self._rendered(artifact_id, (None, None)).tokens
        for _ in range(_ROUNDS):
            if room < 24:
                break
            with suppress(ValueError):
                self._shown = self.make_preview(min(room, self.preview_tokens))
            rendered = self._rendered(artifact_id, self._shown)
            if rendered.tokens <= self.budget:
                return rendered
            room -= rendered.tokens - self.budget + 4
        return bare

    def _rendered(self, artifact_id: str, shown: tuple[object, object] | None) -> Rendered:
        envelope: dict[str, Any] = {
            "artifact_id": artifact_id,
            "size_bytes": self.size,
            "line_count": self.lines,
            "shape": self.shape,
            "how_to_access": access_hints(self.tools, structured=self.structured),
        }
        if shown is not None:
            envelope |= {"preview": shown[0], "omitted": shown[1], "note": "INCOMPLETE: preview is a part of the data."}
        text = compact(envelope)
        return Rendered(text, self.count(text), envelope)


@dataclass
class PointerDraft:
    """A pointer with the first characters of what it points to."""

    text: str
    size: int
    tools: Sequence[str]
    budget: int
    preview_chars: int
    count: Count
    route: str = "artifact"
    parts: Sequence[Part] = ()

    def render(self, names: Sequence[str], step: int, artifact_id: str) -> Rendered:
        """Fill in the pointer; a preview over the budget is halved until it fits."""
        kept = self.preview_chars
        rendered = self._rendered(artifact_id, kept)
        while rendered.tokens > self.budget and kept:
            kept //= 2
            rendered = self._rendered(artifact_id, kept)
        return rendered

    def _rendered(self, artifact_id: str, kept: int) -> Rendered:
        envelope = {
            "pointer": "art:" + artifact_id.removeprefix("art_"),
            "preview": encodable(head_of(self.text, kept)),
            "sizeBytes": self.size,
            "note": f"INCOMPLETE: the output is too large to show; all of it is stored.{self._how()}",
        }
        text = compact(envelope)
        return Rendered(text, self.count(text), envelope)

    def _how(self) -> str:
        if "get_artifact" in self.tools:
            return " Call get_artifact with the pointer to read it."
        reader = next((name for name in FOLLOWERS["pointers"] if name in self.tools), None)
        return "" if reader is None else f" Read it with {reader} and the pointer."


@dataclass
class PreviewDraft:
    """A header, guidance, a preview and references, as text."""

    kind: str
    size: int
    total: int
    """Tokens of the whole output."""
    tools: Sequence[str]
    budget: int
    preview_tokens: int
    count: Count
    make_preview: Callable[[int], str]
    """From a budget in tokens to the preview's text."""
    route: str = "artifact"
    parts: Sequence[Part] = ()
    _shown: str = ""
    """What the first rendering found to fit: ids are of one length, so that it fits the next one too."""

    def render(self, names: Sequence[str], step: int, artifact_id: str) -> Rendered:
        """Fill in the reference; the preview takes what the fixed parts leave."""
        if self._shown and (rendered := self._rendered(artifact_id, self._shown)).tokens <= self.budget:
            return rendered
        room = self.budget - self._rendered(artifact_id, "").tokens
        for _ in range(_ROUNDS):
            if room < 8:
                break
            with suppress(ValueError):
                self._shown = self.make_preview(min(room, self.preview_tokens))
            rendered = self._rendered(artifact_id, self._shown)
            if rendered.tokens <= self.budget:
                return rendered
            room -= rendered.tokens - self.budget + 4
        return self._rendered(artifact_id, "")

    def _rendered(self, artifact_id: str, shown: str) -> Rendered:
        text = (
            f"[Offloaded: 1 blocks, ~{self.total:,} tokens]\n{self._guidance()}\n\n{shown}\n\n"
            f"[Stored references:]\n{artifact_id} ({self.kind}, {self.size:,} bytes)"
        )
        return Rendered(text, self.count(text))

    def _guidance(self) -> str:
        lines = ["Stored outside the conversation because of its size. INCOMPLETE: the preview below is its beginning."]
        lines.append("Answer from the preview if it is enough.")
        if "retrieve_offloaded_content" in self.tools:
            lines[-1] += (
                " Otherwise call retrieve_offloaded_content with a reference and pattern (a regular expression or "
                "keyword) or line_range {start, end}; everything at once only as a last resort."
            )
        elif hints := access_hints(self.tools, structured=self.kind == "json"):
            lines[-1] += f" Otherwise: {'; '.join(f'{name}: {hint}' for name, hint in hints.items())}."
        return "\n".join(lines)


@dataclass
class TruncateDraft:
    """An output shortened in place; where a reader can follow, plaintext names the kept artifact."""

    content: str
    size: int
    lines: int
    omitted_bytes: int
    tools: Sequence[str]
    structured: bool
    count: Count
    route: str = "truncate"
    parts: Sequence[Part] = ()

    def render(self, names: Sequence[str], step: int, artifact_id: str) -> Rendered:
        """Fill in the artifact's id, if it is to be named."""
        content = self.content
        readers = [name for name in _TEXT_WAYS if name in self.tools]
        if readers and artifact_id and not self.structured:
            ways = " or ".join(_TEXT_WAYS[name] for name in readers)
            content += (
                f"\n[INCOMPLETE: all {readable(self.size)} in {self.lines:,} lines are kept as artifact {artifact_id}: "
                f"{ways}.]"
            )
        return Rendered(content, self.count(content))


def access_hints(tools: Sequence[str], *, structured: bool) -> dict[str, str]:
    """Return a hint for each reader that the session has and that can read such data."""
    return {name: HINTS[name] for name in READERS if name in tools and (structured or name != "artifact_jq")}


def _instruction(example: str, step: int, tools: Sequence[str], *, complete: bool, short: bool) -> str:
    state = "preview shows all of it." if complete else "INCOMPLETE: preview leaves out what omitted counts."
    if short:
        return f"{state} Call {INTERPRETER}; the variables hold all of the data."
    text = (
        f"{state} Do not answer from it alone: the variables hold all of the data, in {INTERPRETER} as Python "
        f"objects, e.g. len({example}); the whole is also var_step_{step}."
    )
    if readers := [name for name in READERS if name in tools]:
        text += f" {', '.join(readers)} take{'s' if len(readers) == 1 else ''} a variable's name as artifact_id."
    return text + f' To hand data to another tool, give "${example}" as its argument.'


def _size_at(value: Any, part: Part) -> int:
    """How much there is at a part: what makes the best example."""
    return len(value[part.path[0]]) if part.path else -1


def _at(path: tuple[str, ...]) -> str:
    """A path as code writes it, cut and without what no text may hold."""
    return "".join(f"[{key[:_KEY_CHARS]!r}]" for key in path)
