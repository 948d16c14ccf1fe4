"""Builders without an envelope: text that is shortened in place, and the placeholder of an image or a document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from byref.artifacts.variables import identifier
from byref.content import Block, Media
from byref.describe.jsontext import is_container, noted
from byref.describe.truncate import readable, truncate, truncate_json
from byref.ingest.envelope.base import ROUNDS, Brief, Builder, Reference, Rendered, at_location, read_there, repeated
from byref.ingest.prepare import Measured
from byref.policy import INTERPRETER, SQL, VIEWERS
from byref.policy.routes import Route

_WAYS = {
    INTERPRETER: "compute with code_interpreter",
    "artifact_jq": "query with artifact_jq (expression)",
    SQL: "query with artifact_sql",
    "artifact_read": "read on with artifact_read (start_line, end_line)",
    "artifact_grep": "search with artifact_grep (pattern)",
    "retrieve_offloaded_content": "search or read on with retrieve_offloaded_content (pattern, line_range)",
    "get_artifact": "read on with get_artifact (offset)",
}
"""How each tool reads the omitted data; jq and SQL accept only JSON."""
_OF_JSON: Final = ("artifact_jq", SQL)
_AN_ID: Final = "art_k7m2p9x4q8wz"
"""An id with as many characters and tokens as any other."""
_NAMED: Final = 3
"""Maximum variables of many blocks that a notice names; further ones are only counted."""
_SHORT_BELOW: Final = 200
"""Below this budget, the notice of a cut block names tools but not how to call them."""
_ABOUT_FROM: Final = 400
"""From this budget on, the notice says what a glance over the lines tells."""
_LEAST_SHOWN: Final = 30
NOTE_TOKENS: Final = 40
"""Tokens reserved for the sentence that says why nothing was stored."""


class TruncatedBuilder(Builder):
    """Shortens blocks in place, several as one text, with a notice of where the whole data is and which tools read it.

    In JSON the notice is a member or an element, so that the text stays valid. If the model still sees the same text from before,
    only the notice is shown. If nothing is stored, the notice says so instead.
    """

    route = Route.TRUNCATE

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief, brief.cut_budget)
        [measured, *more] = brief.blocks
        block = measured.piece.block
        alone = block if isinstance(block, Block) and not more else None
        self._structured = alone is not None and measured.is_structured and alone.reading is None
        self._about = brief.lines if self.budget >= _ABOUT_FROM else ""
        self._is_outline = brief.policy.envelope_form == "outline"
        self._reads_paths = brief.prepared.scope.reads_paths
        self._value = alone.outline if alone is not None and self._structured else None
        self._text = alone.ends if alone is not None else joined(brief.blocks)
        self._unstored = brief.unstored
        self._size = sum(block.size for block in brief.blocks)
        self._lines = alone.line_count if alone is not None else str(self._text).count("\n") + 1
        if self._structured:
            self.count = partial(brief.prepared.count, kind="json")
        self.omitted_bytes = 0
        """Bytes of the blocks that are not shown."""
        self.is_seen = alone is not None and not self._structured and not brief.unstored and brief.seen is not None
        """Whether only the notice is shown, because the context still holds the text."""
        self._is_short = alone is not None and not self.is_seen and self.budget < _SHORT_BELOW
        self._content = ""
        if self.is_seen:
            self.repeats = brief.seen
            return
        note = NOTE_TOKENS if brief.unstored else self._note_tokens(identifier(brief.prepared.tool), len(brief.blocks))
        self._room = max(self.budget - note, _LEAST_SHOWN)
        self._cut()

    def _cut(self) -> None:
        """Shorten the output to the room that there is beside the notice."""
        if self._structured:
            shown = truncate_json(self._value, budget=self._room, measure=self.count, size=self._size)
            form = '{{"note":"{note}","output":{text}}}'
        else:
            shown = truncate(self._text, budget=self._room, measure=self.count)
            form = "{text}\n[{note}]"
        self.omitted_bytes = shown.omitted_bytes
        self._content = form.format(note=self._unstored, text=shown.text) if self._unstored else shown.text

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the names of the variable and the artifact, if the data is stored and a tool can read it.

        Where the notice takes more tokens than it was estimated to take, less of the output is shown.
        """
        rendered = self._rendered(names, step, kept)
        for _ in range(ROUNDS):
            over = rendered.tokens - self.budget
            if over <= 0 or self.is_seen or self._room <= _LEAST_SHOWN:
                break
            self._room = max(self._room - over, _LEAST_SHOWN)
            self._cut()
            rendered = self._rendered(names, step, kept)
        return rendered

    def _rendered(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        notice = self._notice(names, kept)
        if self.repeats is not None:
            again = repeated(step, self.repeats)
            # A host may compact without reporting it. Then only the model can know whether it still sees the text.
            again += " That is above, unless it was compacted away." if self.is_seen else ""
            notice = f"{again} {notice}" if notice else again
        content = self._content
        if not notice:
            pass
        elif not self._structured:
            content = f"{content}\n[{notice}]" if content else f"[{notice}]"
        elif is_container(content):
            content = noted(content, notice)
        return Rendered(content, self.count)

    def _note_tokens(self, name: str, blocks: int) -> int:
        """Return the estimated tokens of the notice; the shown part of the output gets the rest of the budget."""
        names = [f"{name}_99"] * blocks
        return self.count(self._notice(names, [Reference(_AN_ID)] * blocks)) + (
            self.count(repeated(99, 99)) if self.repeats is not None else 0
        )

    def _notice(self, names: Sequence[str], kept: Sequence[Reference]) -> str:
        tools = [name for name in _WAYS if name in self.tools and (self._structured or name not in _OF_JSON)]
        there = read_there(kept[0]) if kept and self._reads_paths else ""
        if not kept or not (tools or there):
            return ""
        ways = tools if self._is_short else [_WAYS[name] for name in tools]
        in_code = tools[:1] == [INTERPRETER] and not self._is_short and len(kept) == 1
        if in_code and self._is_outline:
            example = f"len({names[0]})" if self._structured else f"len({names[0]}.splitlines())"
            ways = [f"{ways[0]}, e.g. {example}", *([f"use {', '.join(tools[1:])}"] if tools[1:] else [])]
        elif in_code and not self._structured:
            ways[0] += f" ({names[0]} is a str)"
        how = " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1]))) if ways else there
        state = "All" if self.is_seen else "INCOMPLETE: all"
        is_warned = self._is_outline and not self._is_short and not self.is_seen
        then = ". Do not infer the rest: " if is_warned else ": "
        if len(kept) == 1:
            place = f"variable {names[0]} (artifact {kept[0].id}{at_location(kept[0])})"
        else:
            more = len(names) - _NAMED
            place = f"variables {', '.join(names[:_NAMED])}{f' and {more:,} more' if more > 0 else ''}"
        lines = f"{self._lines:,} line{'' if self._lines == 1 else 's'}"
        about = f" Its lines: {self._about}." if self._about and not self.is_seen else ""
        of = f" of {self.source['source']}" if self.source else ""
        return f"{state} {readable(self._size)}{of} in {lines} are kept as {place}{then}{how}.{about}"


class PlaceholderBuilder(Builder):
    """Shows the placeholder of an image or a document that the model does not see here."""

    route = Route.PLACEHOLDER

    def __init__(self, brief: Brief) -> None:
        super().__init__(brief, brief.budget)
        [measured] = brief.blocks
        assert isinstance(measured.piece.block, Media)
        placeholder = measured.piece.block.placeholder
        self._placeholder = f"{placeholder}\n[{brief.unstored}]" if brief.unstored else placeholder

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the artifact's id, if there is one."""
        content = self._placeholder
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


def joined(blocks: Sequence[Measured]) -> str:
    """Return blocks as one text, with placeholders for images and documents. Blocks that cannot be stored are left out."""
    stored = [block.piece.block for block in blocks if block.piece.block is not None]
    return "\n\n".join(block.placeholder if isinstance(block, Media) else block.text for block in stored)
