"""What is not behind an envelope of its own: text shortened in place, and the placeholder of an image or a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from byref.describe.jsontext import is_container, noted
from byref.describe.truncate import readable
from byref.ingest.envelope.base import Count, Reference, Rendered, at_location, read_there, repeated
from byref.policy import INTERPRETER, SQL, VIEWERS

_WAYS = {
    INTERPRETER: "compute with code_interpreter",
    "artifact_jq": "query with artifact_jq (expression)",
    SQL: "query with artifact_sql",
    "artifact_read": "read on with artifact_read (start_line, end_line)",
    "artifact_grep": "search with artifact_grep (pattern)",
    "retrieve_offloaded_content": "search or read on with retrieve_offloaded_content (pattern, line_range)",
    "get_artifact": "read on with get_artifact (offset)",
}
"""How each tool gets at what was left out; jq and SQL only at JSON."""
_OF_JSON: Final = ("artifact_jq", SQL)
_AN_ID: Final = "art_k7m2p9x4q8wz"
"""As long as any, and of as many tokens."""
_NAMED: Final = 3
"""Variables of many blocks that a notice names; further ones are counted."""


@dataclass
class TruncateDraft:
    """An output shortened in place, with a notice of where all of it is kept and which tools get at it.

    In JSON the notice is a member or an element, so that the text parses. Of text that the model still sees nothing but
    the notice is shown.
    """

    content: str
    size: int
    lines: int
    omitted_bytes: int
    tools: Sequence[str]
    structured: bool
    count: Count
    repeats: int | None = None
    """The step of the first output with the same content; with `is_seen` of the first that the context still holds."""
    is_seen: bool = False
    """The model still sees the text."""
    reads_paths: bool = False
    """The model reads the store's paths by itself."""
    is_short: bool = False
    """There is room for the names of tools alone."""
    route: str = "truncate"

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the variable's and the artifact's names, if something is kept and a tool gets at it."""
        notice = self._notice(names, kept)
        if self.repeats is not None:
            again = repeated(step, self.repeats)
            # A host that reports no compactions may have made one: nobody but the model knows then.
            again += " That is above, unless it was compacted away." if self.is_seen else ""
            notice = f"{again} {notice}" if notice else again
        content = self.content
        if not notice:
            pass
        elif not self.structured:
            content = f"{content}\n[{notice}]" if content else f"[{notice}]"
        elif is_container(content):
            content = noted(content, notice)
        return Rendered(content, self.count)

    def note_tokens(self, name: str, blocks: int = 1) -> int:
        """Return about how many tokens the notice will take: what is shown of the output has the rest."""
        names = [f"{name}_99"] * blocks
        return self.count(self._notice(names, [Reference(_AN_ID)] * blocks)) + (
            self.count(repeated(99, 99)) if self.repeats is not None else 0
        )

    def _notice(self, names: Sequence[str], kept: Sequence[Reference]) -> str:
        tools = [name for name in _WAYS if name in self.tools and (self.structured or name not in _OF_JSON)]
        there = read_there(kept[0]) if kept and self.reads_paths else ""
        if not kept or not (tools or there):
            return ""
        ways = tools if self.is_short else [_WAYS[name] for name in tools]
        if tools[:1] == [INTERPRETER] and not self.structured and not self.is_short and len(kept) == 1:
            ways[0] += f" ({names[0]} is a str)"
        how = " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1]))) if ways else there
        state = "All" if self.is_seen else "INCOMPLETE: all"
        if len(kept) == 1:
            place = f"variable {names[0]} (artifact {kept[0].id}{at_location(kept[0])})"
        else:
            more = len(names) - _NAMED
            place = f"variables {', '.join(names[:_NAMED])}{f' and {more:,} more' if more > 0 else ''}"
        return f"{state} {readable(self.size)} in {self.lines:,} line{'' if self.lines == 1 else 's'} are kept as {place}: {how}."


@dataclass
class PlaceholderDraft:
    """Images and documents that the model does not see here."""

    placeholder: str
    tools: Sequence[str]
    count: Count
    repeats: int | None = None
    """The step of the first output with the same content."""
    route: str = "placeholder"

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the artifact's id, if there is one."""
        content = self.placeholder
        if len(kept) == 1:
            viewer = next((name for name in VIEWERS if name in self.tools), None)
            see = f" See it with {viewer}." if viewer else ""
            see += f" In {INTERPRETER} its bytes are {names[0]}." if INTERPRETER in self.tools else ""
            content += (
                f"\n[Kept as artifact {kept[0].id}{at_location(kept[0])}.{see} To hand it to another tool, "
                f'give "{kept[0].id}" as its argument.]'
            )
        if self.repeats is not None:
            content += f"\n[{repeated(step, self.repeats)}]"
        return Rendered(content, self.count)
