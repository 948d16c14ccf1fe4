"""Promises of the documentation beyond its examples, and that running the examples would detect a false one."""

from __future__ import annotations

import ast
import doctest
import re
import tomllib
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

import byref
from byref import Policy
from byref.policy.gates import Reason
from byref.testing import ScriptedClient

ROOT = Path(__file__).parents[2]
SITE = {"changelog.md", "contributing.md", "results.md", "security.md"}
"""Pages that the site alone has: each is a file from elsewhere in the repository."""
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("[CS]*.md")]


def test_the_policy_table_is_the_policy() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", (ROOT / "docs/policy.md").read_text(), re.MULTILINE)
    stated = {name: _value(default) for name, default in rows if name not in ("variables", "artifact")}
    assert stated == {field.name: getattr(Policy(), field.name) for field in fields(Policy)}


def test_every_reason_and_route_is_in_the_policys_page() -> None:
    page = (ROOT / "docs/policy.md").read_text()
    rules = page.split("## The rules, in their order")[1].split("\n## ")[0]
    stated = re.findall(r"^(?:\d+\.|-) `(\w+)`:", rules, re.MULTILINE)
    assert sorted(stated) == sorted(get_args(Reason)), "each reason once"
    routes = page.split("## What happens to what is too big")[1].split("\n## ")[0]
    stated = re.findall(r"^\| `(\w+)` \|", routes, re.MULTILINE)
    assert sorted(stated) == sorted(["inline", "variables", "artifact", "truncate", "wholesale", "placeholder"])


def test_the_readme_states_defaults_as_they_are() -> None:
    policy, readme = Policy(), (ROOT / "README.md").read_text()
    table = readme.split("| knob | default | meaning |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|", table, re.MULTILINE)
    assert len(rows) >= 10
    for names, stated in rows:
        knobs = re.findall(r"`(\w+)`", names)
        defaults = stated.split(", ")
        for name, default in zip(knobs, defaults * (len(knobs) // len(defaults)), strict=True):
            actual = policy.envelope_budget if name == "envelope_tokens" else getattr(policy, name)
            shown = f"`{actual}`" if isinstance(actual, str | dict) else _shown(actual)
            assert default == shown, name


def _value(written: str) -> object:
    days = re.fullmatch(r"(\d+) days", written)
    return timedelta(days=int(days[1])) if days else ast.literal_eval(written)


def _shown(value: Any) -> str:
    return f"{value.days} days" if isinstance(value, timedelta) else f"{value:,}"


def test_the_first_screen_says_how_to_start() -> None:
    first = (ROOT / "README.md").read_text().split("## ")[0]
    for command in ("make demo", "make test", "pip install ."):
        assert command in first


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_says_that_an_index_has_byref(document: Path) -> None:
    """An extra of a byref that is installed is found without one; byref itself is not."""
    assert not re.search(r"pip install (--\S+ )*'?byref(?!\[)", document.read_text())


ALONE = [ROOT / "README.md", ROOT / "docs/async.md"]
BLOCK = re.compile(r"^```python\n(?!>>> )(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
BLOCKS = [
    (path, *found.groups())
    for path in ALONE
    for found in BLOCK.finditer(path.read_text())
    if path.name == "README.md" or "while True" in found[1]
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_runs_as_it_is_pasted(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, code, printed = BLOCKS[number]
    names: dict[str, Any] = {}
    exec(compile(code, "pasted", "exec"), names)
    for engine in (value for value in names.values() if isinstance(value, byref.Engine)):
        engine.close()
    got = capsys.readouterr().out
    assert doctest.OutputChecker().check_output(printed or "", got, doctest.ELLIPSIS), got


def test_the_hello_is_five_lines() -> None:
    hello, loop = (code for path, code, _ in BLOCKS[:2])
    assert len([line for line in hello.splitlines() if line]) == 5
    assert "while True" in loop


def test_the_chat_loops_are_short() -> None:
    found = [re.search(r"^(async )?def answer.*?^(?=\w+\()", code, re.DOTALL | re.MULTILINE) for _, code, _ in BLOCKS]
    loops = [loop[0] for loop in found if loop]
    assert ["await" in loop for loop in loops] == [False, True]
    for loop in loops:
        assert len(loop.splitlines()) <= 30
        for name in (
            "session.resolve",
            "session.process",
            "session.call",
            "session.record_usage",
            "reply.instructions",
        ):
            assert name in loop


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    prose = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        assert (document.parent / target).exists(), target


def test_the_map_has_every_page() -> None:
    mapped = re.findall(r"^\| \[(\S+?)\]\((\S+?)\) \|", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert all(name == target for name, target in mapped)
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md", "index.md", *SITE}
    assert sorted(name for name, _ in mapped) == sorted({"decisions/README.md", *pages})


def test_the_list_of_decisions_has_every_page() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"^\| \[(\S+?)\]\(\S+?\) \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted({page.name for page in folder.glob("*.md")} - {"README.md"})


def test_the_changelog_has_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


LIES = ["console\n$ byref --version\nbyref 99", "python\nassert 1 == 2", "python\n>>> 1\n2"]
"""A command, a statement and a value."""


PYTEST = """
import os, pytest
go()
os.chdir(sys.argv[1])
print(int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-o", f"pythonpath={sys.argv[2]}", "README.md"])))
"""


@pytest.mark.slow
def test_a_wrong_example_fails(tmp_path: Path, race: Callable[..., list[str]]) -> None:
    (tmp_path / "README.md").write_text("# Lies\n\n" + "\n".join(f"```{lie}\n```\n" for lie in LIES))
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    [told] = race(1, PYTEST, str(tmp_path), str(ROOT / "tests/support"))
    assert told.splitlines()[-1] == "1", told
    assert "3 failed" in told


@pytest.mark.parametrize(
    ("turn", "answers", "refused"),
    [
        (["a", "b"], [["toolu_1", "toolu_2"]], False),
        (["a", "b"], [["toolu_1"], ["toolu_2"]], True),
        (["a", "b"], [["toolu_1"]], True),
        (["a"], [["toolu_2"]], True),
    ],
    ids=["one message", "two messages", "one is missing", "another's"],
)
def test_the_scripted_client_refuses_what_the_provider_does(
    turn: list[str], answers: list[list[str]], refused: bool
) -> None:
    client = ScriptedClient([{"name": name, "input": {}} for name in turn], lambda _: "done")
    messages: list[Any] = [{"role": "user", "content": "go"}]

    def ask() -> Any:
        return client.create(messages=messages, tools=[], model="m", max_tokens=1).content

    messages.append({"role": "assistant", "content": ask()})
    for ids in answers:
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id} for id in ids]})
    if refused:
        with pytest.raises(AssertionError, match="answered by"):
            ask()
    else:
        assert ask()[0].text == "done"
