"""The documentation's site builds, and names everything that hosts and people may use."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from dataclasses import fields
from pathlib import Path

import pytest

import byref
from byref.cli.parser import make_parser
from byref.db.tables import Base
from byref.policy import ToolPolicy

DOCS = Path(__file__).parents[2] / "docs"


def built(folder: Path, builder: str, *options: str) -> Path:
    """The documentation as `make docs` builds it, warnings being errors; no garbage is collected, for none is made."""
    build = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", build, "-b", builder, "-q", "-W", "--keep-going", *options, str(DOCS), str(folder)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every page read and every link of it found, but no page written, which takes longer than all of that."""
    return built(tmp_path_factory.mktemp("read"), "dummy", "-D", "smartquotes=0") / ".doctrees"


@pytest.mark.slow
def test_each_public_name_is_in_the_reference(read: Path) -> None:
    names = pickle.loads((read / "environment.pickle").read_bytes()).domaindata["py"]["objects"].keys()
    assert not {f"byref.{name}" for name in byref.__all__} - names
    assert "byref.Session.process" in names and "byref.db.upgrade" in names


@pytest.mark.slow
def test_the_reference_says_what_docstrings_say(read: Path) -> None:
    page = pickle.loads((read / "reference.doctree").read_bytes()).astext()
    assert "When it expires, unless it is used before; None: with its session." in page, (
        "it is not taken apart at the colon"
    )
    assert "Bases: object" not in page and "Bases: ByrefError" in page


@pytest.mark.slow
def test_the_site_begins_with_the_readme_and_can_be_searched(tmp_path: Path) -> None:
    site = built(tmp_path, "html")
    assert "by reference" in (site / "index.html").read_text()
    assert "Session.process" in (site / "reference.html").read_text()
    assert (site / "searchindex.js").stat().st_size > 10_000


def test_each_setting_of_a_tool_is_on_a_page() -> None:
    pages = "".join((DOCS / f"{name}.md").read_text() for name in ("policy", "mappers", "references"))
    settings = {field.name for field in fields(ToolPolicy)} - {"knobs"}  # those of `Policy`, which have a table
    assert not {name for name in settings if f"{name}=" not in pages and f"`{name}`" not in pages}


def test_each_table_of_the_database_is_on_its_page() -> None:
    named = re.findall(r"^\| `(byref_\w+)` \|", (DOCS / "storage.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted([*Base.metadata.tables, "byref_version"])


def test_each_verb_of_the_command_and_each_option_is_on_its_page() -> None:
    page = (DOCS / "cli.md").read_text()
    missing = {word for word in words(make_parser()) if word not in page}
    assert not missing


def words(of: ArgumentParser) -> set[str]:
    """The verbs and long options of a parser and of those below it."""
    found: set[str] = set()
    for action in of._actions:
        found |= {option for option in action.option_strings if option.startswith("--") and option != "--help"}
        if isinstance(action, _SubParsersAction):
            for name, below in action.choices.items():
                found |= {name} | words(below)
    return found


def rows_of_limits() -> list[tuple[str, str]]:
    lines = (DOCS / "limits.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.endswith("` |")]
    return [(row[1], row[3].strip("`")) for row in cells]


def written(limit: float) -> set[str]:
    """The ways in which a page may write a limit."""
    units = {
        f"{int(limit) >> by} {unit}" for by, unit in ((10, "KiB"), (20, "MiB"), (30, "GiB")) if limit % (1 << by) == 0
    }
    return {f"{limit:,.0f}", *units}


@pytest.mark.parametrize(("shown", "name"), rows_of_limits())
def test_the_page_of_limits_says_what_the_code_does(shown: str, name: str) -> None:
    module, _, constant = name.rpartition(".")
    assert shown in written(getattr(importlib.import_module(module), constant))


def test_the_page_of_limits_is_read() -> None:
    assert len(rows_of_limits()) > 40
