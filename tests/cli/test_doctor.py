"""`byref doctor`: what is installed, what can be reached, which walls are in force."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from cli_kit import Run


def test_doctor_reports_walls_versions_and_costs(run: Run) -> None:
    report = run("doctor", "--json").json
    findings = {(finding["part"], finding["name"]): finding for finding in report["findings"]}
    assert findings["wall", "seccomp"]["state"] == "ok"
    assert findings["package", "sqlalchemy"]["state"] == "ok"
    assert "made by the first output" in next(f["detail"] for f in report["findings"] if f["part"] == "database")
    assert re.search(r"\d+ ms for 1\+1", findings["sandbox", "cost"]["detail"])
    assert report["healthy"] is True
    packages = [finding for finding in report["findings"] if finding["part"] in ("package", "extra")]
    names = [finding["name"].lower() for finding in packages]
    assert sorted(set(names)) == sorted(names), "each once"
    kinds = {finding["name"].lower(): finding["part"] for finding in packages}
    assert (kinds["sqlalchemy"], kinds["greenlet"], kinds["psycopg"], kinds["mcp"]) == ("package", *["extra"] * 3)
    assert [finding["part"] for finding in packages] == sorted((f["part"] for f in packages), reverse=True)


def test_doctor_finds_versions_that_byref_is_not_made_for(
    run: Run, started: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"numpy": "2.2.9", "obstore": "0.1"}
    monkeypatch.setattr("byref.cli.doctor.version", lambda name: old.get(name) or version(name))
    ran = run("doctor")
    assert ran.code == 1
    assert re.search(r"numpy\tmissing\t2\.2\.9, which is not >=[\d.]+: pip install 'numpy>=[\d.]+'", ran.out)
    assert re.search(r"obstore\toptional\t0\.1, which is not >=[\d.]+: pip install 'byref\[s3\]'", ran.out)
    monkeypatch.setattr("byref.cli.doctor.Requirement", None)
    assert "which is not" not in run("doctor").out


def test_doctor_finds_a_database_it_cannot_work_with(run: Run, tmp_path: Path, started: None) -> None:
    (tmp_path / "byref.db").write_text("no database, but long enough to be looked at as one, page by page")
    ran = run("doctor")
    assert ran.code == 1
    assert "no SQLite database" in ran.out


@pytest.mark.slow
def test_doctor_looks_for_the_store_of_objects(run: Run, tmp_path: Path) -> None:
    missing = run("doctor", "--blobs", str(tmp_path / "none"))
    assert missing.code == 1
    assert "there is no folder" in missing.out
    (tmp_path / "blobs").mkdir()
    assert "reachable, as the store 'files'" in run("doctor", "--blobs", str(tmp_path / "blobs")).out


def test_doctor_says_what_language_only_means(run: Run, started: None) -> None:
    ran = run("doctor", "--jail", "language-only")
    assert "offered behind the language ALONE" in ran.out
    assert "is no security boundary" in ran.out
    assert "seccomp\toptional\tleft out by the host's choice" in ran.out
