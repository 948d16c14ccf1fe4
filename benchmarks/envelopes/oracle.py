"""Whether an envelope shows the fields that a question needs, at their places, and with an example."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.envelopes.places import Known, parsed

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """What is asked of an output, and the fields that an answer needs."""

    kind: str
    ask: str
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """Of the fields of one question, those at their places and those with an example."""

    question: Question
    placed: frozenset[str]
    exemplified: frozenset[str]

    @property
    def missing(self) -> tuple[str, ...]:
        """The fields that are not shown at their place."""
        return tuple(need for need in self.question.needs if need not in self.placed)

    @property
    def bare(self) -> tuple[str, ...]:
        """The fields at their place without an example."""
        return tuple(need for need in self.question.needs if need in self.placed - self.exemplified)


def questions() -> dict[str, list[Question]]:
    """The questions of each output, in order."""
    with (FOLDER / "questions.toml").open("rb") as file:
        given = tomllib.load(file)
    return {
        name: [Question(one["kind"], one["ask"], tuple(one["needs"])) for one in several]
        for name, several in given.items()
    }


def shown(known: Known, question: Question) -> Shown:
    """What a reader of an envelope sees of what a question needs."""
    found = {need: known.at(parsed(need), question.ask) for need in question.needs}
    return Shown(
        question,
        frozenset(need for need, places in found.items() if places),
        frozenset(need for need, places in found.items() if any(one.has_example for one in places)),
    )
