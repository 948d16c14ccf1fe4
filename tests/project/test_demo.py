"""The demo: right answers and exit code 0, a wrong one and exit code 1, nothing left behind."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def replay(tmp_path: Path, change: str = "pass") -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import demo; {change}; sys.exit(demo.main())"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "100"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )


def replay_here(folder: Path) -> subprocess.CompletedProcess[str]:
    """The same in this process, with its sandbox."""
    shown, complaints = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(complaints),
    ):
        patch.syspath_prepend(EXAMPLES)
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv("COLUMNS", "100")
        patch.chdir(folder)
        code = importlib.import_module("demo").main()
    return subprocess.CompletedProcess([], code, shown.getvalue(), complaints.getvalue())


@pytest.fixture(scope="module", params=["here", pytest.param("as a command", marks=pytest.mark.slow)])
def replayed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_sandbox: None
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The demo as it is, run once, and the folder it was given."""
    folder = tmp_path_factory.mktemp("demo")
    return (replay_here if request.param == "here" else replay)(folder), folder


def test_every_answer_is_right_and_nothing_is_left(
    replayed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    run, folder = replayed
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    assert "✗" not in run.stdout
    right = run.stdout.count("✓ ")
    assert right >= 10
    assert f"{right} of {right} answers right" in run.stdout
    assert list(folder.iterdir()) == []


def test_all_routes_are_shown_with_what_they_save(
    replayed: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    shown = " ".join(replayed[0].stdout.split())
    for route in ("inline", "variables"):
        assert f"what the model reads: {route}" in shown
    assert "what the model reads: error" in shown
    assert "below min_threshold_bytes" in shown
    assert "more than max_result_tokens" in shown
    assert "✓ the text is kept to the byte" in shown


@pytest.mark.slow
def test_a_wrong_answer_fails_the_demo(tmp_path: Path) -> None:
    run = replay(tmp_path, "demo.WEATHER.pop(3)")
    assert run.returncode == 1
    assert "✗ millimetres by year" in run.stdout
