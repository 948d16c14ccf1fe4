"""Answer DABench's questions: `CORPORA=folder python -m benchmarks.dabench [FOLDER]`; FOLDER is for what a blind writer of programs reads.

`CORPORA/dabench` is a checkout of InfiAgent/InfiAgent (Apache-2.0), or the data of its DA-Agent. Each of its CSV files goes through
`process` as a tool's output. The programs in `programs.txt` were written from the envelopes and the questions, without sight of the
data; they run in the session, and what they answer is compared with the labels by DABench's own rule.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import byref
from benchmarks.envelopes.judging import unseen_keys

TOOL = "read_csv"
"""The tool that returns the files: programs find the records under its name."""
POLICY = byref.Policy(min_threshold_bytes=1024, max_result_tokens=500, keep_tokens=None)
"""With it the smallest of the files are replaced by an envelope, too, where the default policy lets them pass."""
_NEAR = 1e-6
"""How far a number may be from the label: DABench's own bound."""


@dataclass(frozen=True)
class Question:
    """A question about one file, with what its answer is compared with."""

    id: int
    file: str
    ask: str
    labels: dict[str, str]


def main(shown: Path | None) -> int:
    """Answer what there is a program for, and say what came of each that is not exact."""
    data = find(Path(os.environ.get("CORPORA", ".cache/tables")) / "dabench")
    if data is None:
        print("DABench: skipped, CORPORA/dabench is no checkout of InfiAgent/InfiAgent")
        return 0
    outcomes = Counter[str]()
    with tempfile.TemporaryDirectory() as name, byref.Engine(f"sqlite:///{name}/dabench.db") as engine:
        for question, outcome in answered(engine, data, programs(), shown):
            outcomes[outcome.partition(":")[0]] += 1
            if outcome not in ("exact", "no program"):
                print(f"{question.id} ({question.file}) {outcome}")
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    return 0


def find(folder: Path) -> Path | None:
    """Return the folder with the questions, the labels and the tables."""
    for data in (folder, folder / "examples/DA-Agent/data"):
        if (data / "da-dev-questions.jsonl").exists() and (data / "da-dev-tables").is_dir():
            return data
    return None


def questions(data: Path) -> Iterator[Question]:
    """Yield DABench's questions with their labels."""
    labels = {one["id"]: dict(one["common_answers"]) for one in _lines(data / "da-dev-labels.jsonl")}
    for one in _lines(data / "da-dev-questions.jsonl"):
        ask = f"{one['question']}\nConstraints: {one['constraints']}\nFormat: {one['format']}"
        yield Question(one["id"], one["file_name"], ask, labels[one["id"]])


def programs() -> dict[int, str]:
    """Return the programs by the ids of their questions. The value of a program is an object of the answers by their names."""
    text = (Path(__file__).parent / "programs.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"(?m)^# (\d+)\n", text)
    return {int(number): code.strip() for number, code in zip(parts[::2], parts[1::2], strict=True)}


def answered(
    engine: byref.Engine, data: Path, programs: dict[int, str], shown: Path | None = None
) -> Iterator[tuple[Question, str]]:
    """Yield each question with `exact`, or what is wrong; what a blind writer reads goes to the folder `shown`."""
    by_file = defaultdict[str, list[Question]](list)
    for question in questions(data):
        by_file[question.file].append(question)
    for number, (file, asked) in enumerate(sorted(by_file.items())):
        path = data / "da-dev-tables" / file
        if not path.exists():
            yield from ((question, "no file") for question in asked)
            continue
        session = engine.session(f"dabench-{number}", model="claude-sonnet-5", policy=POLICY)
        envelope = str(session.process(_text(path), tool=TOOL).content)
        lines = [envelope, *(f"# {question.id}\n{question.ask}" for question in asked)]
        if shown is not None:
            shown.mkdir(parents=True, exist_ok=True)
            (shown / f"{file}.txt").write_text("\n\n".join(lines), encoding="utf-8")
        for question in asked:
            yield question, _outcome(session, "\n".join(lines), question, programs.get(question.id))


def _outcome(session: byref.Session, read: str, question: Question, program: str | None) -> str:
    if program is None:
        return "no program"
    if unseen := unseen_keys(program, read, question.ask):
        return f"not blind: {', '.join(unseen)}"
    reply = session.run(program)
    if reply.error is not None:
        return f"failed: {reply.error}"
    given = {name: str(one) for name, one in reply.value.items()} if isinstance(reply.value, dict) else {}
    wrong = {
        name: (given.get(name), label)
        for name, label in question.labels.items()
        if not is_equal(given.get(name), label)
    }
    return f"wrong: {wrong}" if wrong else "exact"


def is_equal(answer: str | None, label: str) -> bool:
    """Whether an answer is the label, or a number that is as near as DABench wants it."""
    if answer == label:
        return True
    try:
        return abs(float(answer or "") - float(label)) < _NEAR
    except ValueError:
        return False


def _text(path: Path) -> str | bytes:
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
