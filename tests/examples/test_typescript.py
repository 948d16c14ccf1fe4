"""The TypeScript example: types made of the service's own OpenAPI document, checked by tsc, run by node with Anthropic's SDK."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import BYREF, serving
from test_loops import QUESTION, conclude, look_and_count, refund_by_reference

import byref
from byref.testing import ScriptedProvider

EXAMPLE = Path(__file__).parents[2] / "examples" / "typescript"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A service in a process of its own; the environment that leads to it."""
    url = f"sqlite:///{tmp_path}/byref.db"
    words = [BYREF, "token", "create", "--db", url, "--tenant", "shop"]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    with serving(url) as (_, address):
        yield {"BYREF_URL": address, "BYREF_TOKEN": made.stdout.strip().splitlines()[-1]}


def run(*command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_loop_is_typed_and_answers_out_of_all_of_the_data(served: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: the TypeScript example is not run")
    folder = tmp_path / "typescript"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "*.js", "*.d.ts"))
    fetched = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"npm could not fetch the example's packages: {fetched.stderr[-300:]}")
    run("npm", "run", "types", folder=folder, environment=served)
    run("npm", "run", "build", folder=folder, environment=served)
    turns = ([{"name": "list_orders", "input": {}}], look_and_count, refund_by_reference, conclude)
    with ScriptedProvider(*turns) as told:
        provider = {"ANTHROPIC_BASE_URL": told.url, "ANTHROPIC_API_KEY": "none"}
        said = run("node", "loop.js", QUESTION, folder=folder, environment={**served, **provider})
    assert said.startswith("Done: ") and "orders refunded, the last one is" in said
    assert len(told.requests) == 4
    with byref.Engine(f"sqlite:///{tmp_path}/byref.db", jail="language-only") as engine:
        session = engine.session("typescript-example", tenant="shop", create=False)
        assert session.usage().requests == 4
        assert [variable.name for variable in session.variables()][:2] == ["list_orders", "orders"]


def test_the_loop_has_at_most_forty_lines() -> None:
    lines = (EXAMPLE / "loop.ts").read_text().splitlines()
    assert len([line for line in lines if line.strip() and not line.startswith(("//", "import"))]) <= 40
