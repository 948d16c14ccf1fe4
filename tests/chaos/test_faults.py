"""What `make chaos` does at length, for a moment each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import faults_clock
import faults_many
import faults_names
import pytest
from report import Report, print_table
from rich.console import Console

from byref import ByrefError, CharCounter, Engine, ToolError
from byref.db import integrity

FIELDS = [name for name in vars(faults_names.Fields) if not name.startswith("_") and name not in ("expect", "each")]


@pytest.fixture(scope="module")
def fields() -> faults_names.Fields:
    engine = Engine("sqlite:///:memory:", counter=CharCounter())
    engine.session("other")
    return faults_names.Fields(engine, [])


@pytest.mark.quick_cases(10)
@pytest.mark.parametrize("name", FIELDS)
def test_values_that_cannot_be_shown_are_refused_or_taken_in_every_field(
    fields: faults_names.Fields, name: str
) -> None:
    endless: list[object] = []
    endless.append(endless)
    for value in (
        None,
        2**63,
        10**5_000,
        endless,
        faults_names.Silent(),
        faults_names.Odd("odd"),
        "a\0\ud800",
        "'; --",
    ):
        try:
            fields.each()[name](value)
        except (ByrefError, ToolError) as error:
            assert 0 < len(str(error)) < 5_000
    assert fields._failures == []


def test_small_outputs_at_once_are_exact(sqlite_url: str) -> None:
    given = faults_many._by_threads(sqlite_url, ["one", "two"], 0, [], "mark")
    with Engine(sqlite_url) as engine:
        assert [failure for name in given for failure in faults_many._look(engine, name, given[name])] == []
    assert sum(map(len, given.values())) == 2 * faults_many.BATCH


@pytest.mark.slow
def test_clocks_that_jump_lose_nothing(sqlite_url: str) -> None:
    report = Report("clock", {"acts": 0, "jumps": 0, "swept": 0, "refused": 0})
    faults_clock._jump(report, sqlite_url, None, 1.0, 1)
    assert report.failures == []
    assert report.figures["acts"] > 0
    assert integrity.examine(sqlite_url, deep=True).problems == ()


LIMITED = """
import resource, sys
from byref import CharCounter, Engine, Policy, StorageFailure
go()
rows = [{"id": number} for number in range(3_000)]
with Engine(sys.argv[1], counter=CharCounter(), policy=Policy(on_storage_failure="raise")) as engine:
    session = engine.session("s")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))
    try:
        session.process(rows, tool="rows", call_id="c")
    except StorageFailure as error:
        refused = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(refused)
    assert session.process(rows, tool="rows", call_id="c").step == 1
    assert session.variable("rows").value() == rows
"""


def test_a_file_that_may_not_grow_says_what_to_look_at(sqlite_url: str, race: Callable[..., list[str]]) -> None:
    told = race(1, LIMITED, sqlite_url)[0]
    assert "disk I/O error (see that the disk is neither full nor failing)" in told
    assert integrity.examine(sqlite_url, deep=True).problems == ()


@pytest.mark.parametrize("failures", [[], ["[red]lost[/red]: {…}"]])
def test_a_report_names_its_figures_and_every_failure(failures: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("disk", {"acts": 1_234, "p99 ms": 0.5}, failures)
    print_table([report], console=Console(width=80))
    shown = capsys.readouterr().out
    assert "acts 1,234" in shown
    assert "p99 ms 0.50" in shown
    assert ("ok" in shown, "FAILED" in shown) == (not failures, bool(failures))
    assert all(f"FAILED disk: {failure}" in shown for failure in failures)
    assert str(report).startswith("disk: 1 FAILED" if failures else "disk: ok")


def test_every_module_of_faults_gives_scenarios() -> None:
    folder = Path(__file__).parent
    source = (folder / "__main__.py").read_text()
    runner = ModuleType("chaos_runner")
    runner.__file__ = str(folder / "__main__.py")
    sys.modules[runner.__name__] = runner
    exec(compile(source, runner.__file__, "exec"), vars(runner))
    modules = {module for module, _ in runner.scenarios().values()}
    assert {"faults_clock", "faults_disk", "faults_hammer", "faults_many", "faults_names", "faults_sandbox"} <= modules
