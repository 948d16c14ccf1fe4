"""The harness of DABench tells exact answers from wrong ones, and programs that were written blind from those that were not."""

import json
from pathlib import Path

import pytest
from benchmarks.dabench import __main__ as dabench

from byref import Engine


@pytest.mark.slow
def test_answers_are_compared_with_labels(local: Engine, tmp_path: Path) -> None:
    data = tmp_path / "examples/DA-Agent/data"
    (data / "da-dev-tables").mkdir(parents=True)
    (data / "da-dev-tables/shops.csv").write_text("shop,sold\n" + "".join(f"s{n},{n}\n" for n in range(400)))
    files = ["shops.csv"] * 4 + ["other.csv"]
    labels = [("n", "400"), ("n", "401"), ("n", "0"), ("n", "1"), ("n", "1")]
    asked = [
        {"id": at, "question": "How many?", "constraints": "", "format": "@n[n]", "file_name": file}
        for at, file in enumerate(files)
    ]
    told = [{"id": at, "common_answers": [label]} for at, label in enumerate(labels)]
    for name, lines in (("questions", asked), ("labels", told)):
        (data / f"da-dev-{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = dabench.find(tmp_path)
    assert found == data and dabench.find(tmp_path / "nowhere") is None
    programs = {0: '{"n": float(len(read_csv))}', 1: '{"n": len(read_csv)}', 2: 'read_csv[0]["hidden"]', 3: "1 / 0"}
    outcomes = [outcome for _, outcome in dabench.answered(local, data, programs, tmp_path / "shown")]
    assert outcomes[:3] == ["no file", "exact", "wrong: {'n': ('400', '401')}"]
    assert outcomes[3] == "not blind: hidden" and outcomes[4].startswith("failed: ")
    assert "How many?" in (tmp_path / "shown/shops.csv.txt").read_text()


def test_each_program_is_python() -> None:
    programs = dabench.programs()
    assert len(programs) > 120
    for number, code in programs.items():
        compile(code, str(number), "exec")


@pytest.mark.parametrize(
    ("answer", "label", "is_equal"),
    [
        ("1.50", "1.5", True),
        ("1.51", "1.5", False),
        ("Oslo", "Oslo", True),
        ("Oslo", "Rome", False),
        (None, "1", False),
    ],
)
def test_a_number_may_be_written_otherwise(answer: str | None, label: str, is_equal: bool) -> None:
    assert dabench.is_equal(answer, label) is is_equal
