"""What documentation promises beyond its examples, and that running the examples would notice a lie."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from byref import Policy

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_policy_table_is_the_policy() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", (ROOT / "docs/policy.md").read_text(), re.MULTILINE)
    stated = {name: ast.literal_eval(default) for name, default in rows if name not in ("variables", "artifact")}
    assert stated == {field.name: getattr(Policy(), field.name) for field in fields(Policy)}


def test_the_readme_states_defaults_as_they_are() -> None:
    policy, readme = Policy(), (ROOT / "README.md").read_text()
    for names, stated in re.findall(r"^\| (`.*?`) \| ([\d.,\s]+?) \|", readme, re.MULTILINE):
        for name, number in zip(re.findall(r"`(\w+)`", names), stated.split(", "), strict=True):
            actual = policy.envelope_budget if name == "envelope_tokens" else getattr(policy, name)
            assert float(number.replace(",", "")) == actual, name


def test_the_first_screen_says_how_to_start() -> None:
    first = (ROOT / "README.md").read_text().split("## ")[0]
    for command in ("make demo", "make test", "pip install byref"):
        assert command in first
    [loop] = re.findall(r"```python\nimport byref\n.*?```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(loop.strip("`").splitlines()) <= 31  # its first line is the fence's


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    prose = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        assert (document.parent / target).exists(), target


def test_the_changelog_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    "lie",
    ["```console\n$ byref --version\nbyref 99\n```\n", "```python\nassert 1 == 2\n```\n", "```python\n>>> 1\n2\n```\n"],
    ids=["command", "statement", "value"],
)
def test_a_wrong_example_fails(lie: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"# Lie\n\n{lie}")
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "README.md"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed" in run.stdout
