"""Judges one envelope: the fields of questions that it shows, what of it is untrue, and the answers of programs written from it.

The programs stand in `answers`, a file for each output. Each was written from the question and the envelope, without sight of the
data: `python -m benchmarks.envelopes FOLDER` writes just what their writer read. So a program counts only as long as each key
that it names stands in the envelope or in its question.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import byref
from benchmarks.envelopes import places, untrue
from benchmarks.envelopes.oracle import FOLDER, Question, Shown, shown
from benchmarks.envelopes.outputs import Output


@dataclass
class Judged:
    """What one envelope tells of one output."""

    name: str
    is_json: bool
    """Text is cut instead, and has no envelope in JSON."""
    tokens: int
    shown: list[Shown]
    untruths: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    """Of each question: `exact`, or what is wrong."""

    @property
    def needed(self) -> int:
        """The fields that the questions need."""
        return sum(len(one.question.needs) for one in self.shown)

    @property
    def placed(self) -> int:
        """Those that are shown at their place."""
        return sum(len(one.placed) for one in self.shown)

    @property
    def exemplified(self) -> int:
        """Those with an example."""
        return sum(len(one.exemplified) for one in self.shown)

    @property
    def answerable(self) -> int:
        """The questions all of whose fields are shown."""
        return sum(not one.missing for one in self.shown)


def judged(output: Output, envelope: str, tokens: int, questions: list[Question]) -> Judged:
    """What an envelope shows of the fields that the questions need."""
    known = places.read(envelope, output.text)
    return Judged(
        output.name, not isinstance(output.source, str), tokens, [shown(known, question) for question in questions]
    )


def untruths(output: Output, envelope: str) -> list[str]:
    """What one of our envelopes says of JSON that is not so."""
    return untrue.untruths(envelope, output.source) if not isinstance(output.source, str) else []


def programs(name: str) -> list[str]:
    """The programs for an output's questions; an empty one where the envelope did not show how to write it."""
    file = FOLDER / "answers" / f"{name}.txt"
    if not file.exists():
        return []
    return [part.strip() for part in re.split(r"(?m)^# \d+$\n?", file.read_text(encoding="utf-8"))[1:]]


def answered(session: byref.Session, envelope: str, judged: Judged, truth: list[object]) -> Iterator[str]:
    """Run the program of each question on the data that the envelope stands for: `exact`, or what is wrong."""
    for one, program, expected in zip(judged.shown, programs(judged.name), truth, strict=False):
        if not program:
            yield "no program"
        elif one.missing:
            yield "guessed: a field that it needs is not shown"
        elif unseen := unseen_keys(program, envelope, one.question.ask):
            yield f"not blind: {', '.join(unseen)}"
        else:
            reply = str(session.call("code_interpreter", {"code": program}).content)
            is_exact = any(is_equal(value, json.loads(json.dumps(expected))) for value in _readings(reply))
            yield "exact" if is_exact else f"wrong: {reply:.200}"


def unseen_keys(program: str, envelope: str, ask: str) -> list[str]:
    """The keys that a program names though neither the envelope nor the question does."""
    names: list[str] = []
    for node in ast.walk(ast.parse(program)):
        keys: list[ast.expr] = []
        if isinstance(node, ast.Subscript):
            keys = [node.slice, *(node.slice.elts if isinstance(node.slice, ast.List | ast.Tuple) else ())]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "groupby")
        ):
            keys = node.args[:1]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            keys = [node.left]
        names += [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    text = envelope + ask + envelope.replace('\\"', '"')
    return sorted({name for name in names if name not in text})


def _readings(reply: str) -> Iterator[object]:
    """What the interpreter's reply may stand for, its notes aside: text stands there without quotes."""
    said = re.sub(r"(\n\[[^\n]*\])+$", "", reply.strip())
    yield said
    yield from ({"True": True, "False": False, "None": None}[said],) if said in ("True", "False", "None") else ()
    try:
        yield json.loads(said)
    except ValueError:
        return


def is_equal(one: Any, other: Any) -> bool:
    """Whether two answers are the same; numbers that are not whole may differ in their last digits."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(other) and one == other
