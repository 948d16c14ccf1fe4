"""The benchmarks run, in tiny sizes, and their figures are kept, written and drawn. No time is judged."""

from __future__ import annotations

import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from benchmarks import __main__ as program
from benchmarks import chart, corpora, databases, page, peak, results
from benchmarks.results import Figure, interleaved, ratio
from matplotlib.figure import Figure as Figure_

from byref_sandbox.language import plotting

TINY = {
    "process": {
        "SHORT_RUNS": {10_000: 1},
        "SHORT_PEER_RUNS": {10_000: 1},
        "SHORT_SMALL_RUNS": 3,
        "SHORT_PEAK_MEGABYTES": 1,
    },
    "describe": {"SHORT_BYTES": 20_000},
    "tokens": {"SHORT_CHARACTERS": 40_000},
    "envelopes": {},
}
"""What is smaller than in the short form, of those benchmarks that are cheap enough to be run at each test."""


QUIET = SimpleNamespace(collect=int, disable=int, enable=int, isenabled=bool)
"""Instead of a collector, whose work takes longer than what is measured here."""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the one that the results are kept in."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "KEPT", tmp_path / "results.json")
    return tmp_path


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matplotlib as it is by itself: tests of the sandbox's language in this process may have left that of the language."""
    monkeypatch.setattr(Figure_, "savefig", plotting._originals.get("savefig", Figure_.savefig))


@pytest.mark.parametrize("name", [*list(TINY)[:-1], pytest.param("envelopes", marks=pytest.mark.slow)])
def test_every_figure_comes_out(name: str, monkeypatch: pytest.MonkeyPatch, shared_sandbox: None) -> None:
    module = import_module(f"benchmarks.bench_{name}")
    for constant, value in TINY[name].items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(databases, "KINDS", ("SQLite",))
    monkeypatch.setattr(corpora, "texts", lambda: [("code", Path(__file__).read_text())])
    monkeypatch.setattr(results, "gc", QUIET)
    monkeypatch.setattr(peak, "of", lambda form, megabytes: (2_000_000, 1_000_000))
    figures = list(module.main(short=True))
    assert len(figures) > 5
    for figure in figures:
        assert math.isfinite(figure.value), figure
        assert figure.value > 0 or (figure.value == 0 and figure.unit not in ("ms", "s", "µs", "xoj")), figure
        assert (figure.ratio is None) is not bool(figure.baseline) and (figure.ratio is None or figure.ratio > 0), (
            figure
        )


def test_every_benchmark_that_is_named_is_there() -> None:
    there = {path.stem.removeprefix("bench_") for path in Path(program.__file__).parent.glob("bench_*.py")}
    assert set(page.NAMES) == there


@pytest.mark.parametrize(
    ("target", "value", "of_ratio", "met"),
    [
        ("<= 2 xoj", 9.0, 1.9, True),
        ("<= 2 xoj", 1.0, 2.1, False),
        (">= 8x", 0.0, 8.0, True),
        ("<= 1/8x", 0.0, 0.2, False),
        ("<= 2 ms p50", 1.5, 7.0, True),
        ("<= 2 ms p50", 2.5, 0.1, False),
        ("<= 2 xoj", 1.0, None, None),
        ("", 1.0, 1.0, None),
    ],
)
def test_a_target_is_about_the_ratio_or_the_value_as_its_unit_says(
    target: str, value: float, of_ratio: float | None, met: bool | None
) -> None:
    assert Figure("step", value, "ms", "baseline", of_ratio, target).verdict is met


def test_works_take_turns_and_their_inputs_are_made_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "gc", QUIET)
    order: list[str] = []
    times = interleaved(3, a=lambda: order.append("a"), b=(lambda: order.append("made"), lambda _: order.append("b")))
    assert order == ["a", "made", "b", "made", "b", "a", "a", "made", "b"]
    assert [len(each) for each in times.values()] == [3, 3]
    assert ratio([1.0, 4.0, 3.0], [1.0, 2.0, 1.0]) == 2.0


def test_what_is_measured_is_kept_beside_the_rest_written_and_drawn(
    kept: Path, drawing: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results.keep("ledger", "About the ledger.", {"date": "2026-01-01"}, [Figure("append", 2.0, "ms", "raw", 3.0)])

    class Tokens:
        """About tokens."""

        @staticmethod
        def main(short: bool = False):
            yield Figure("one|two", 1.0, "ms", "orjson.loads", 4.0, "<= 2 xoj", note="a_note")
            yield Figure("no peer", math.nan, "ms", "peer", note="did not run")

    class Broken(Tokens):
        @staticmethod
        def main(short: bool = False):
            yield Figure("begun", 1.0, "ms")
            raise OSError("no disk")

    modules = {"benchmarks.bench_tokens": Tokens, "benchmarks.bench_describe": Broken}
    monkeypatch.setattr(program, "import_module", modules.__getitem__)
    assert program.main(["--short", "--write", "describe", "tokens"]) == 1
    printed = capsys.readouterr().out
    assert "1 targets missed" in printed and "describe FAILED" in printed and "<= 2 xoj  MISSED" in printed
    assert list(msgspec.json.decode((kept / "results.json").read_bytes())) == ["ledger", "tokens"]
    written = (kept / "RESULTS.md").read_text()
    assert written.index("## tokens") < written.index("## ledger")
    assert "0 of 1 targets are met. Missed:" in written and "one\\|two" in written and "Measured apart" in written
    assert ElementTree.parse(kept / "results.svg").getroot().tag.endswith("svg")


def test_a_chart_of_nothing_is_a_chart(drawing: None) -> None:
    assert b"<svg" in chart.drawn({})


@pytest.mark.slow
@pytest.mark.parametrize("name", page.NAMES)
def test_the_short_form_runs_as_a_command(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--short", name],
        cwd=Path(program.__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "did not run" not in done.stdout, done.stdout + done.stderr
