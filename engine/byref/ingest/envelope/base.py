"""What all builders share. A builder is made before the commit; it renders its text once names, step and ids are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from byref.describe.jsontext import encodable
from byref.ingest.prepare import Measured, Prepared
from byref.policy import INTERPRETER, READERS, SQL, Policy
from byref.policy.routes import Route

S = TypeVar("S")

_PATH_CHARS: Final = 60
ROUNDS: Final = 8
"""Tries to fit a text whose tokens can only be counted once it is made."""
WHOLE_PREVIEW: Final = 200_000
"""Tokens of an output whose preview may have all of `preview_tokens`; a smaller output has its share of them, since what
stands for 12,000 tokens should be some hundreds."""
LEAST_PREVIEW: Final = 100

HINTS: Final = {
    "artifact_read": "Read lines: start_line to end_line",
    "artifact_grep": "Find the lines that match a regular expression: pattern",
    "artifact_jq": "Query with a jq expression, e.g. '.results[0]' or '.[] | select(.score > 0.5)'",
    SQL: "Query with SQL: SELECT … FROM its name or id",
    "retrieve_offloaded_content": "Search by pattern, or read a line_range {start, end}",
    "get_artifact": "Get its text from a character on: offset",
}
"""How each tool gets at an artifact; jq and SQL only at JSON."""
_WITHOUT_READERS: Final = ("retrieve_offloaded_content", "get_artifact")


class Reference(NamedTuple):
    """An artifact as an envelope names it."""

    id: str
    location: str | None = None
    """The path or URL at which other programs find the very bytes."""


@dataclass(frozen=True)
class Rendered:
    """What the model reads, and the envelope it is the text of, if it is one."""

    content: str
    count: Callable[[str], int] = field(repr=False)
    envelope: dict[str, Any] | None = None

    @cached_property
    def tokens(self) -> int:
        """Of the content; counted when it is asked for."""
        return self.count(self.content)


@dataclass(frozen=True)
class Brief:
    """What a builder is asked for: the blocks that it stands for, its room, and what it has to mention."""

    prepared: Prepared
    blocks: Sequence[Measured]
    """At least one, and all of them storable."""
    share: int = 1
    """How many builders share the policy's budget."""
    repeats: int | None = None
    """The step of the first output with the same content."""
    seen: int | None = None
    """The first step with the same content whose text the model's context still holds."""
    unstored: str | None = None
    """The sentence that says why nothing of the blocks is stored; None where they are."""
    most_shown: int | None = None
    """Tokens of what is shown of a text that is cut; None: the policy's `truncate_tokens`, at most half of the text."""

    @property
    def policy(self) -> Policy:
        """The policy for the tool's outputs."""
        return self.prepared.scope.policy

    @property
    def tokens(self) -> int:
        """Of the blocks."""
        return sum(block.tokens for block in self.blocks)

    @property
    def budget(self) -> int:
        """Tokens of an envelope."""
        return self.policy.envelope_budget // self.share

    @property
    def bounded_budget(self) -> int:
        """The same, and at most half of what the envelope stands for."""
        return min(self.budget, self._half)

    @property
    def cut_budget(self) -> int:
        """Tokens of a text that is cut."""
        return self.most_shown or min(self.policy.truncate_tokens // self.share, self._half)

    @property
    def preview_tokens(self) -> int:
        """Most tokens of a preview inside an envelope."""
        share = self.policy.preview_tokens * self.tokens // WHOLE_PREVIEW
        return min(self.policy.preview_tokens, max(LEAST_PREVIEW, share))

    @property
    def _half(self) -> int:
        return max(self.tokens // 2, 100)


class Builder(ABC):
    """Stands for one or more blocks of an output until the commit knows names, step and artifact ids.

    It belongs to one call and is used on one thread at a time. A commit that is run again renders again: what the first
    rendering found to fit is kept, since ids and names differ little in length.
    """

    route: ClassVar[Route]

    def __init__(self, brief: Brief, budget: int) -> None:
        """Take what a brief says of all builders alike; `budget` bounds what is rendered, in tokens."""
        self.tools = brief.prepared.scope.tools
        self.count = brief.prepared.count
        self.budget = budget
        self.repeats = brief.repeats

    @abstractmethod
    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Return what the model reads.

        `names` are those of the variables, `step` is the output's, `kept` are the artifacts, none if nothing is stored.
        """


def located(reference: Reference) -> dict[str, str]:
    """Return the member of an envelope that says where other programs find the bytes; none where they do not."""
    return {} if reference.location is None else {"location": encodable(reference.location)}


def at_location(reference: Reference) -> str:
    """Return the same for a sentence."""
    return "" if reference.location is None else f" at {encodable(reference.location)}"


def read_there(reference: Reference) -> str:
    """Return how a model gets at the bytes for which the session has no tool; empty where they have no location."""
    return "" if reference.location is None else "Read and search it at its location, with tools of your own"


def repeated(step: int, first: int | None) -> str:
    """Return the sentence that a repeated output begins with; nothing for a new one.

    "Same as before" alone reads as if nothing had been run.
    """
    return "" if first is None else f"Re-executed at step {step}: identical to the output of step {first}."


def nested(path: str) -> str:
    """Return what `omitted` says of containers that nest too deeply to be described."""
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
    """Return a hint for each reader that the session has and that can read such data; without one, for what else can.

    With a variable's `name` the interpreter comes first, and the first hint says the name. `tiny`: there is room for the
    readers alone.
    """
    left_out = {SQL} if tiny else set()
    if not structured:
        left_out |= {"artifact_jq", SQL}
    able = [name for name in (*READERS, SQL) if name in tools and name not in left_out]
    hints = {tool: HINTS[tool] for tool in able or [tool for tool in _WITHOUT_READERS if tool in tools]}
    if name is None or tiny:
        return hints
    if INTERPRETER in tools:
        return {INTERPRETER: f"{name} is all of it{'' if structured else ', a str'}", **hints}
    first = next(iter(hints), None)
    return hints if first is None else hints | {first: f"{hints[first]}, by artifact_id or {name}"}


def grow(
    bare: Rendered, budget: int, *, most: int, least: int, make: Callable[[int], S], wrap: Callable[[S], Rendered]
) -> tuple[S, Rendered] | None:
    """Return the largest preview that fits beside the bare, fixed parts, and the whole with it; None if none does.

    `make` takes tokens, from `least` to `most`, and may raise ValueError where nothing fits into so few.
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
