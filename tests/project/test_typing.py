"""Type checkers see the packages' names with their types, and no others."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

import byref
import byref_sandbox

ROOT = Path(__file__).parents[2]
ADAPTERS = sorted({path.parent.name for path in (ROOT / "engine/byref/adapters").glob("*/__init__.py")} - {"common"})
MODULES = (
    "byref",
    "byref.db",
    "byref.stores",
    "byref.usage",
    "byref_sandbox",
    *(f"byref.adapters.{name}" for name in ADAPTERS),
)
FRAMEWORKS = (
    "agno",
    "agents",
    "anyio",
    "distributed",
    "google",
    "langchain",
    "langchain_core",
    "langgraph",
    "mcp",
    "mcp_types",
    "openai",
    "pandas",
    "numpy",
    "pydantic",
    "pydantic_ai",
    "starlette",
    "strands",
    "uvicorn",
)
IMPORTS = "".join(f"import {module}\n" for module in MODULES)
TYPOS = f"""{IMPORTS}
byref.Engin("sqlite://")
def answer(reply: byref.Reply) -> None: ...
{"".join(f"{module}.no_such_name{chr(10)}" for module in MODULES)}"""
USE = """
import byref
import byref.adapters.dask
import byref_sandbox
from byref.adapters import mcp

def answer(reply: byref.ToolReply) -> str:
    return reply.text

with byref.Engine("sqlite://", policy=byref.Policy(reply_tokens=100)) as engine:
    session: byref.Session = engine.session("chat")
    result: byref.Result = session.process({"a": 1}, tool="t")
    told: list[byref.SessionInfo] = engine.sessions()
    byref.db.check(engine.url)
    answer(session.call("code_interpreter", {"code": "1"}))
with byref_sandbox.Sandbox() as sandbox:
    outcome: byref_sandbox.Outcome = sandbox.run("1")
"""

HOST = """
from anthropic import Anthropic
from anthropic.types import MessageParam, ToolParam
from google import genai
from google.genai import types
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

import byref

engine = byref.Engine("sqlite://")
session = engine.session("chat")


def claude(client: Anthropic, mine: list[ToolParam], messages: list[MessageParam]) -> None:
    tools = mine + session.tools("anthropic")
    answer = client.messages.create(model="m", max_tokens=1, messages=messages, tools=tools)
    for call in answer.content:
        if call.type == "tool_use":
            messages.append(session.call(call.name, call.input, call_id=call.id).message("anthropic", call.id))


def chat(client: OpenAI, messages: list[ChatCompletionMessageParam]) -> None:
    tools: list[ChatCompletionToolParam] = engine.tools("openai")
    answer = client.chat.completions.create(model="m", messages=messages, tools=tools)
    messages.append(session.process(answer, tool="t").message("openai", "call_1"))
    items = [session.process("x", tool="t").message("openai-responses", "call_1")]
    client.responses.create(model="m", input=items, tools=session.tools("openai-responses"))


def gemini(client: genai.Client, contents: list[types.ContentUnion]) -> None:
    answer = client.models.generate_content(model="m", contents=[], config={"tools": session.tools("gemini")})
    for call in answer.function_calls or ():
        contents.append(session.call(call.name or "", call.args or {}, call_id=call.id).message("gemini", call.id))


async def at_once(client: OpenAI, engine: byref.AsyncEngine) -> None:
    session = await engine.session("chat")
    client.chat.completions.create(model="m", messages=[], tools=await session.tools("openai"))
    client.chat.completions.create(model="m", messages=[], tools=await engine.tools("openai"))
"""
"""What a host's loops give the providers' SDKs."""


def complaints(folder: Path, *words: str, **files: str) -> list[str]:
    """Return what mypy says of files, a line each, without the path; frameworks are taken to be there."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "mypy.ini").write_text(
        f"[mypy]\n[mypy-{','.join(f'{name}.*' for name in FRAMEWORKS)}]\nfollow_imports = skip\n"
    )
    config = ("--config-file", str(folder / "mypy.ini"), "--cache-dir", str(folder / "cache"))
    shown, trouble, _ = api.run([*config, *words, *(str(folder / f"{name}.py") for name in files)])
    assert not trouble, trouble
    mine = [line.removeprefix(f"{folder}/") for line in shown.splitlines() if line.startswith(str(folder))]
    return [line for line in mine if " note: " not in line]


def wrong_lines(text: str) -> list[int]:
    """Return the numbers of the lines that name what is not there."""
    return [number for number, line in enumerate(text.splitlines(), 1) if re.search(r"Engin\b|Reply\b|no_such", line)]


def test_a_name_that_is_not_there_is_an_error_of_the_type_checker(tmp_path: Path) -> None:
    packages = [Path(module.__file__ or "") for module in (byref, byref_sandbox, byref.db)]
    packages += [Path(byref.__file__ or "").parent / name / "__init__.py" for name in ("stores", "usage", "adapters")]
    text = "\n".join(line for line in TYPOS.splitlines() if "byref.adapters." not in line)
    found = complaints(tmp_path, "--follow-imports=skip", *map(str, packages), use=text)
    assert [int(line.split(":")[1]) for line in found] == wrong_lines(text)
    assert 'Module has no attribute "Engin"; maybe "Engine"?' in found[0]


@pytest.mark.slow
def test_mypy_knows_what_hosts_use(tmp_path: Path) -> None:
    found = complaints(tmp_path, "--strict", typos=TYPOS, use=USE, documented=documented())
    assert [line.split(":")[:2] for line in found] == [["typos.py", str(n)] for n in wrong_lines(TYPOS)]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="needs basedpyright, of the group `types`")
def test_pyright_knows_what_hosts_use(tmp_path: Path) -> None:
    for name, text in {"typos": TYPOS, "use": USE, "documented": documented()}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    words = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300)
    found = [one for one in json.loads(ran.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    where = sorted((Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in found)
    assert where == [("typos.py", number) for number in wrong_lines(TYPOS)]


def documented() -> str:
    """Return every import of ours that the documentation shows."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.py"))]
    lines = {
        line.strip()
        for page in pages
        for line in page.read_text().splitlines()
        if re.fullmatch(r"\s*(from byref[\w.]* import [\w, ]+|import byref[\w., ]*)", line)
    }
    assert len(lines) > 10
    return "".join(f"def page_{number}() -> None:\n    {line}\n" for number, line in enumerate(sorted(lines)))


@pytest.mark.slow
def test_what_the_sdks_take_is_typed_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # for its configuration
    host = tmp_path / "host.py"
    host.write_text(HOST)
    said, errors, status = api.run(["--cache-dir", str(tmp_path / "cache"), str(host)])
    assert status == 0, said + errors
