"""What is not behind an envelope of its own: text shortened in place, and the placeholder of an image or a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byref.describe.truncate import readable
from byref.envelope.draft import Count, Reference, Rendered, at_location, repeated
from byref.policy import VIEWERS
from byref.variables import Part

_TEXT_WAYS = {
    "artifact_read": "read on with artifact_read (start_line, end_line)",
    "artifact_grep": "search with artifact_grep (pattern)",
}


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
    repeats: int | None = None
    """The step of the first output with the same content."""
    route: str = "truncate"
    parts: Sequence[Part] = ()

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the artifact's id, if it is to be named."""
        content = self.content
        readers = [name for name in _TEXT_WAYS if name in self.tools]
        if readers and kept and not self.structured:
            ways = " or ".join(_TEXT_WAYS[name] for name in readers)
            content += (
                f"\n[INCOMPLETE: all {readable(self.size)} in {self.lines:,} lines are kept as artifact {kept[0].id}{at_location(kept[0])}: "
                f"{ways}.]"
            )
        if self.repeats is not None and not self.structured:
            content += f"\n[{repeated(step, self.repeats)}]"
        return Rendered(content, self.count(content))


@dataclass
class PlaceholderDraft:
    """Images and documents that the model does not see here."""

    placeholder: str
    tools: Sequence[str]
    count: Count
    repeats: int | None = None
    """The step of the first output with the same content."""
    route: str = "placeholder"
    parts: Sequence[Part] = ()

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the artifact's id, if there is one."""
        content = self.placeholder
        if len(kept) == 1:
            viewer = next((name for name in VIEWERS if name in self.tools), None)
            see = f" See it with {viewer}." if viewer else ""
            content += (
                f"\n[Kept as artifact {kept[0].id}{at_location(kept[0])}.{see} To hand it to another tool, "
                f'give "{kept[0].id}" as its argument.]'
            )
        if self.repeats is not None:
            content += f"\n[{repeated(step, self.repeats)}]"
        return Rendered(content, self.count(content))
