"""The wheel, built and installed away from the checkout, does what the command offers; the sdist builds the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from byref import db

ROOT = Path(__file__).parents[2]

Byref = Callable[..., subprocess.CompletedProcess[str]]


def build(source: Path, target: Path, *kinds: str) -> None:
    words = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(target), str(source)]
    built = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout."""
    target = tmp_path_factory.mktemp("dist")
    build(ROOT, target, "--wheel")
    return target


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    [wheel] = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def byref(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Byref:
    """The installed command, in an environment that has the dependencies but not the checkout."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home / "venv", with_pip=False)
    place = Path(sysconfig.get_path("purelib", vars={"base": str(home / "venv")}))
    # A .pth file in a directory that is itself added by a .pth file is not read: the editable byref stays out of reach.
    (place / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = home / "venv" / "bin" / "python"
    installed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--no-deps",
            "--no-index",
            "--quiet",
            str(wheel),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert installed.returncode == 0, installed.stderr
    work = home / "work"
    work.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BYREF_", "PYTHON"))}

    def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(home / "venv" / "bin" / "byref"), *words],
            cwd=work,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )

    where = subprocess.run(
        [str(python), "-c", "import byref, byref_sandbox; print(byref.__file__, byref_sandbox.__file__)"],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert str(ROOT) not in where.stdout, where.stdout
    assert where.stdout.count(str(place)) == 2, where.stdout + where.stderr
    return run


def test_what_the_wheel_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        about = archive.read(metadata).decode()
    for needed in ("byref/py.typed", "byref_sandbox/py.typed", "byref/migrations/env.py", "byref/cli/main.py"):
        assert needed in names
    scripts = {path.name for path in (ROOT / "migrations/versions").glob("*.py")}
    assert {f"byref/migrations/versions/{name}" for name in scripts} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"byref", "byref_sandbox"}
    assert not [name for name in names if "test_" in name or "__pycache__" in name or name.endswith(".pyc")]
    assert "License-Expression: Apache-2.0" in about


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    build(ROOT, tmp_path / "sdist", "--sdist")
    [sdist] = (tmp_path / "sdist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.glob("byref-*")
    build(source, tmp_path / "again", "--wheel")
    [again] = (tmp_path / "again").glob("*.whl")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert sorted(first.namelist()) == sorted(second.namelist())


@pytest.mark.slow
def test_the_database_is_made_migrated_and_checked(byref: Byref) -> None:
    database = ("--db", "migrated.db")
    upgraded = byref(*database, "db", "upgrade")
    assert (upgraded.returncode, upgraded.stdout) == (0, f"{db.head()} (head)\n"), upgraded.stderr
    assert byref(*database, "db", "check").returncode == 0


@pytest.mark.slow
def test_the_tables_go_again(byref: Byref) -> None:
    database = ("--db", "downgraded.db")
    assert byref(*database, "db", "current").stdout == "none\n"
    assert byref(*database, "db", "upgrade").returncode == 0
    assert "0001" in byref("db", "history").stdout
    assert byref(*database, "db", "downgrade", "base", "--yes").stdout == "none\n"


@pytest.mark.slow
def test_an_output_becomes_an_exact_answer(byref: Byref) -> None:
    records = [{"id": number, "score": number % 7} for number in range(5000)]
    processed = byref("process", "-", "--tool", "users", "--json", stdin=json.dumps({"total": 5000, "users": records}))
    assert processed.returncode == 0, processed.stderr
    assert json.loads(processed.stdout)["route"] == "variables"
    answer = byref("run", "int(df('users_2')['score'].sum())")
    assert answer.stdout == f"{sum(record['score'] for record in records)}\n", answer.stderr


@pytest.mark.slow
def test_every_verb_works(byref: Byref) -> None:
    data = json.dumps({"total": 5000, "users": [{"id": number, "score": number % 7} for number in range(5000)]})
    assert byref("--db", "verbs.db", "process", "-", "--tool", "users", stdin=data).returncode == 0
    jq = byref("--db", "verbs.db", "tool", "artifact_jq", '{"artifact_id": "users_2", "expression": "length"}')
    assert jq.stdout == "5000\n", jq.stderr
    for verb in (["sessions"], ["show"], ["show", "users"], ["ledger"], ["explain", "1"], ["sweep"]):
        ran = byref("--db", "verbs.db", *verb)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout


@pytest.mark.slow
def test_the_doctor_finds_nothing_missing(byref: Byref) -> None:
    ran = byref("doctor")
    assert ran.returncode == 0, ran.stdout
    assert "\tmissing\t" not in ran.stdout
    assert byref("--version").stdout.startswith("byref 0.")
