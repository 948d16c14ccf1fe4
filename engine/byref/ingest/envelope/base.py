"""The base of all builders. A builder is made before the commit and renders its text when names, step and ids are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from byref.artifacts.variables import Part
from byref.content import Block
from byref.describe.glance import glance, stretches
from byref.describe.jsontext import encodable
from byref.ingest.prepare import Measured, Prepared
from byref.policy import INTERPRETER, READERS, SQL, Policy
from byref.policy.routes import Route

S = TypeVar("S")

_PATH_CHARS: Final = 60
ROUNDS: Final = 8
"""Maximum tries to fit a text, whose tokens can be counted only when it is made."""
WHOLE_PREVIEW: Final = 200_000
"""From this many tokens on, an output's preview may have all of `preview_tokens`. A smaller output gets a proportional share: the
preview of 12,000 tokens should take a few hundred."""
LEAST_PREVIEW: Final = 100
_GLANCED: Final = 1_000
"""Minimum tokens of a text of whose lines something is said."""

HINTS: Final = {
    "artifact_read": "Read lines: start_line to end_line",
    "artifact_grep": "Find the lines that match a regular expression: pattern",
    "artifact_jq": "Query with a jq expression, e.g. '.results[0]' or '.[] | select(.score > 0.5)'",
    SQL: "Query with SQL: SELECT … FROM its name or id",
    "retrieve_offloaded_content": "Search by pattern, or read a line_range {start, end}",
    "get_artifact": "Get its text from a character on: offset",
}
"""How each tool accesses an artifact; jq and SQL accept only JSON."""
_WITHOUT_READERS: Final = ("retrieve_offloaded_content", "get_artifact")


class Reference(NamedTuple):
    """An artifact as an envelope names it."""

    id: str
    location: str | None = None
    """The path or URL at which other programs find the same bytes; None if there is none."""


@dataclass(frozen=True)
class Rendered:
    """The text that the model reads, and the envelope of which it is the JSON, if there is one."""

    content: str
    count: Callable[[str], int] = field(repr=False)
    envelope: dict[str, Any] | None = None

    @cached_property
    def tokens(self) -> int:
        """The tokens of the content, counted on first use."""
        return self.count(self.content)


@dataclass(frozen=True)
class Brief:
    """The task of a builder: the blocks that it replaces, its budget, and the facts that it has to mention."""

    prepared: Prepared
    blocks: Sequence[Measured]
    """At least one, and all of them storable."""
    share: int = 1
    """The number of builders that share the policy's budget."""
    repeats: int | None = None
    """The step of the first output with the same content."""
    seen: int | None = None
    """The first step with the same content whose text the model's context still holds."""
    unstored: str | None = None
    """The sentence that says why the blocks are not stored; None if they are."""
    source: str | None = None
    """Where the only block says that it is from: an address, a title."""
    most_shown: int | None = None
    """Maximum tokens of a cut text; None means the policy's `truncate_tokens`, and at most half of the text."""

    @property
    def policy(self) -> Policy:
        """The policy for the tool's outputs."""
        return self.prepared.scope.policy

    @property
    def tokens(self) -> int:
        """The tokens of the blocks."""
        return sum(block.tokens for block in self.blocks)

    @property
    def budget(self) -> int:
        """Maximum tokens of an envelope."""
        return self.policy.envelope_budget // self.share

    @property
    def bounded_budget(self) -> int:
        """Maximum tokens of an envelope that also takes at most half of what its blocks take."""
        return min(self.budget, self._half)

    @property
    def cut_budget(self) -> int:
        """Maximum tokens of a cut text."""
        return self.most_shown or min(self.policy.truncate_tokens // self.share, self._half)

    @property
    def preview_tokens(self) -> int:
        """Maximum tokens of a preview inside an envelope."""
        share = self.policy.preview_tokens * self.tokens // WHOLE_PREVIEW
        return min(self.policy.preview_tokens, max(LEAST_PREVIEW, share))

    @cached_property
    def lines(self) -> str:
        """What a glance over a text's lines tells, in the default form; empty if that is nothing, or if there is no text."""
        block = self.blocks[0].piece.block
        is_text = isinstance(block, Block) and len(self.blocks) == 1 and not self.blocks[0].is_structured
        if not is_text or self.policy.envelope_form != "outline" or self.unstored or self.tokens < _GLANCED:
            return ""
        assert isinstance(block, Block)
        return glance(stretches(block.ends))

    @property
    def _half(self) -> int:
        return max(self.tokens // 2, 100)


class Builder(ABC):
    """Replaces one or more blocks of an output; it renders its text when the commit knows names, step and artifact ids.

    It belongs to one call and is used on one thread at a time. A commit that runs again renders again. It then reuses the parts
    that the first rendering fitted, since ids and names differ little in length.
    """

    route: ClassVar[Route]
    parts: Sequence[Part] = ()
    """The variables that are to be bound to parts of the block; the first one is the whole block. Empty if only that is bound."""

    def __init__(self, brief: Brief, budget: int) -> None:
        """Take the facts that all builders need from a brief; `budget` is the maximum of the rendered text in tokens."""
        self.tools = brief.prepared.scope.tools
        self.count = brief.prepared.count
        self.budget = budget
        self.repeats = brief.repeats
        self.source = {} if brief.source is None else {"source": encodable(brief.source)}
        """The member of an envelope that tells this block from others of its output."""

    @abstractmethod
    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Return the text that the model reads.

        `names` are the names of the variables, `step` is the output's step, and `kept` are the artifacts, empty if nothing is
        stored.
        """


def located(reference: Reference) -> dict[str, str]:
    """Return the member of an envelope that says where other programs find the bytes; empty if there is no such place."""
    return {} if reference.location is None else {"location": encodable(reference.location)}


def at_location(reference: Reference) -> str:
    """Return the location as a part of a sentence; empty if there is none."""
    return "" if reference.location is None else f" at {encodable(reference.location)}"


def read_there(reference: Reference) -> str:
    """Return how a model reads the bytes if the session has no tool for them; empty if they have no location."""
    return "" if reference.location is None else "Read and search it at its location, with tools of your own"


def repeated(step: int, first: int | None) -> str:
    """Return the sentence with which a repeated output begins; empty for a new one.

    It says that the tool ran again, since "same as before" alone would read as if nothing had been run.
    """
    return "" if first is None else f"Re-executed at step {step}: identical to the output of step {first}."


def nested(path: str, *, tiny: bool = False) -> str:
    """Return the text by which `omitted` mentions containers that nest too deeply to be described; `tiny`, without their path."""
    if tiny:
        return "not described"
    shown = path.removeprefix(".")
    shown = shown if len(shown) <= _PATH_CHARS else f"{shown[:_PATH_CHARS]}…"
    return f"{encodable(shown)}: what nests deeper is not described, but whole in the data"


def completeness(*, complete: bool, short: bool = False) -> str:
    """Return the sentence that keeps a model from taking a preview for the whole."""
    if complete:
        return "preview shows all of the data."
    return f"INCOMPLETE: preview leaves out what omitted counts{'' if short else '; do not infer it'}."


def access_hints(
    tools: Sequence[str], *, structured: bool, name: str | None = None, tiny: bool = False
) -> dict[str, str]:
    """Return a hint for each reader of the session that can read such data; if there is none, for the other tools that can.

    With a variable's `name`, the interpreter comes first, and the first hint mentions the name. With `tiny`, there is room only
    for the readers, and for no examples.
    """
    left_out = {SQL} if tiny else set()
    if not structured:
        left_out |= {"artifact_jq", SQL}
    able = [name for name in (*READERS, SQL) if name in tools and name not in left_out]
    hints = {tool: HINTS[tool] for tool in able or [tool for tool in _WITHOUT_READERS if tool in tools]}
    if tiny:
        return {tool: hint.partition(", e.g.")[0] for tool, hint in hints.items()}
    if name is None:
        return hints
    if INTERPRETER in tools:
        return {INTERPRETER: f"{name} is all of it{'' if structured else ', a str'}", **hints}
    first = next(iter(hints), None)
    return hints if first is None else hints | {first: f"{hints[first]}, by artifact_id or {name}"}


def grow(
    bare: Rendered, budget: int, *, most: int, least: int, make: Callable[[int], S], wrap: Callable[[S], Rendered]
) -> tuple[S, Rendered] | None:
    """Return the largest preview that fits beside the fixed parts in `bare`, with the complete text; None if none fits.

    `make` takes a number of tokens, from `least` to `most`, and may raise ValueError if nothing fits into that few.
    """
    room = budget - bare.tokens
    for _ in range(ROUNDS):
        if room < least:
            break
        with suppress(ValueError):
            shown = make(min(room, most))
            rendered = wrap(shown)
            if rendered.tokens <= budget:
                return shown, rendered
            room = min(room, most) - (rendered.tokens - budget + 4)
            continue
        break
    return None
