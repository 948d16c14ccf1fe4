"""What every envelope has in common: a draft is made before the commit, and rendered once names, step and ids are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from byref.describe.jsontext import encodable
from byref.policy import INTERPRETER, READERS, SQL

Count = Callable[[str], int]
S = TypeVar("S")

_PATH_CHARS: Final = 60
ROUNDS: Final = 8
"""Tries to fit a text whose tokens can only be counted once it is made."""

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
    count: Count = field(repr=False)
    envelope: dict[str, Any] | None = None

    @cached_property
    def tokens(self) -> int:
        """Of the content; counted when it is asked for."""
        return self.count(self.content)


class Draft(Protocol):
    """Stands for one or more blocks of an output until the commit knows names, step and artifact ids."""

    route: str

    def render(self, names: Sequence[str], step: int, kept: Sequence[Reference]) -> Rendered:
        """Fill in the variables' names, the step and the artifacts, none if nothing is stored."""


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


def told(*, complete: bool, short: bool = False) -> str:
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
