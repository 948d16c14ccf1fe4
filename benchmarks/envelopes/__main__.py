"""Writes what a blind reader reads: `python -m benchmarks.envelopes FOLDER [name …]`; and prints what the envelopes lack."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import byref
from benchmarks.bench_envelopes import tokens
from benchmarks.envelopes import judging, oracle, outputs, truth


def main(folder: Path, names: tuple[str, ...]) -> None:
    """A file for each output, with its envelope and its questions; the rest is printed."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = oracle.questions()
    with tempfile.TemporaryDirectory() as name, byref.Engine(f"sqlite:///{name}/envelopes.db") as engine:
        for output in outputs.each(fetch=True, only=names or outputs.NAMES):
            if isinstance(output, str):
                print(f"left out: {output}")
                continue
            session = engine.session(output.name, model="claude-sonnet-5")
            envelope = str(session.process(output.text, tool=output.tool).content)
            asked = questions[output.name]
            lines = [envelope, "", *(f"{number}. {one.ask}" for number, one in enumerate(asked, 1))]
            (folder / f"{output.name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
            found = judging.judged(output, envelope, tokens(envelope), asked)
            answers = list(judging.answered(session, envelope, found, truth.answers(output.name, output.source)))
            print(
                f"\n## {output.name}: {found.tokens:,} tokens; of {found.needed} fields {found.placed} shown at their place, "
                f"{found.exemplified} with an example; {answers.count('exact')} answers exact"
            )
            for number, one in enumerate(found.shown, 1):
                answer = answers[number - 1] if number <= len(answers) else "exact"
                if one.missing or one.bare or answer != "exact":
                    print(f"{number}. {one.question.ask}")
                    print(*(f"   not shown: {path}" for path in one.missing), sep="\n", end="\n" * bool(one.missing))
                    print(*(f"   no example: {path}" for path in one.bare), sep="\n", end="\n" * bool(one.bare))
                    if answer != "exact":
                        print(f"   {answer}")
            for said in judging.untruths(output, envelope):
                print(f"   UNTRUE {said}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(sys.argv[2:]))
