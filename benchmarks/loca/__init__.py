"""Tasks of LOCA-bench (hkust-nlp/LOCA-bench, MIT) behind the gateway: its states, its servers, its judge; the model is a script.

LOCA-bench is fetched by hand and named in the environment: `BYREF_LOCA` is its checkout, `BYREF_LOCA_PYTHON` a Python with its servers'
packages (`mcp<2`, pandas, numpy, openpyxl, pyyaml, requests). Its filesystem server is one of npm, started by `npx`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import MCPError
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from byref import Engine, Session

FOLDER = Path(__file__).parent
CHECKOUT, PYTHON = "BYREF_LOCA", "BYREF_LOCA_PYTHON"
LEFT_OUT = ("terminal", "python_execute", "programmatic_tool_calling", "claim_done", "memory", "pdf_tools")
"""Servers that run code themselves, which the sandbox does here, and those that the tasks scripted here do not need."""


@dataclass(frozen=True)
class Solved:
    """What came of one task; all figures are tokens."""

    is_solved: bool
    why: str
    context: int
    """Of the instruction, the programs and what the model read of them."""
    definitions: int
    """Of the tools that the client was shown."""
    calls: int
    plain: int
    """Of the instruction and the same calls, had the model made them one by one: arguments and results, whole."""
    plain_definitions: int
    """Of all of the servers' tools: what plain calls, and LOCA-bench's own programmatic strategy, send along."""
    programmatic: int
    """Of the instruction, the programs and the replies in the JSON that its own programmatic strategy wraps around them."""


def missing() -> str:
    """Return why LOCA-bench cannot be run here; empty if it can."""
    if not Path(os.environ.get(CHECKOUT, ""), "task-configs").is_dir() or not os.environ.get(CHECKOUT):
        return f"{CHECKOUT} names no checkout of hkust-nlp/LOCA-bench"
    if not os.access(os.environ.get(PYTHON, ""), os.X_OK):
        return f"{PYTHON} names no Python with the packages of its servers"
    return ""


def tasks() -> dict[str, list[str]]:
    """Return the programs of each task that is scripted, in order: what a model writes when it has read the replies before."""
    programs = sorted((FOLDER / "programs").glob("*.txt"))
    names = sorted({path.stem.rpartition("_")[0] for path in programs})
    return {name: [path.read_text() for path in programs if path.stem.rpartition("_")[0] == name] for name in names}


def solve(task: str, programs: list[str], number: int = 0) -> Solved:
    """Make a state of a task, run the programs in the gateway's interpreter, and have LOCA-bench judge what they did."""
    with (
        tempfile.TemporaryDirectory(prefix="byref-loca-") as folder,
        _state(task, number, Path(folder, "state")) as state,
    ):
        assert state.stdout is not None and state.stdin is not None
        given = json.loads(state.stdout.readline() or "{}")
        if not given:
            raise RuntimeError(f"{task}: LOCA-bench did not make its state")
        servers = {name: _started(one) for name, one in given["servers"].items() if name not in LEFT_OUT}
        shown, replies = anyio.run(_played, Path(folder), servers, programs)
        state.stdin.write("\n")
        state.stdin.flush()
        verdict = json.loads(state.stdout.readline())
        return _counted(Path(folder), given["instruction"], programs, shown, replies, verdict)


@contextmanager
def _state(task: str, number: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [os.environ[PYTHON], str(FOLDER / "state.py"), os.environ[CHECKOUT], task, str(number), str(folder)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=os.environ | {"LOCA_QUIET": "1"}, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def _started(server: dict[str, Any]) -> dict[str, Any]:
    """Return how a server is started with the packages that are here, rather than with those that `uv` would fetch."""
    command, arguments = server["command"], server["args"]
    if command == "uv":
        arguments = arguments[arguments.index("python") + 1 :]
    if command in ("uv", "python"):
        command = os.environ[PYTHON]
    if command == "npx":
        arguments = ["-y", *arguments]
    environment = server.get("env", {}) | {"LOCA_QUIET": "1", "PYTHONPATH": os.environ[CHECKOUT]}
    return {**server, "command": command, "args": arguments, "env": environment}


async def _played(folder: Path, servers: dict[str, Any], programs: list[str]) -> tuple[tuple[str, str], list[str]]:
    """Return the definitions of tools that a client is shown, with and without a short list, and the replies to the programs."""
    shown = []
    replies: list[str] = []
    for budget in (None, 1):
        ours: dict[str, Any] = {"functions": {"tools": ["*"], "allow": ["*"]}} if budget else {"functions": False}
        config = folder / "mcp.json"
        config.write_text(
            json.dumps({"mcpServers": servers, "byref": ours | ({"tools_tokens": budget} if budget else {})})
        )
        command = [
            "-m",
            "byref.cli",
            "gateway",
            "--config",
            str(config),
            "--db",
            str(folder / "loca.db"),
            "--session",
            "loca",
        ]
        gateway = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        async with Client(stdio_client(gateway, errlog=Path(os.devnull).open("w"))) as client:
            with suppress(MCPError):  # an unknown name waits for all servers to be there
                await client.call_tool("none", {})
            listed = (await client.list_tools()).tools
            shown.append(
                json.dumps([tool.model_dump(mode="json", exclude_none=True, by_alias=True) for tool in listed])
            )
            for program in programs if budget else ():
                result = await client.call_tool("code_interpreter", {"code": program}, read_timeout_seconds=900)
                replies.append("\n".join(getattr(block, "text", "") for block in result.content))
    return (shown[1], shown[0]), replies


def _counted(
    folder: Path,
    instruction: str,
    programs: list[str],
    shown: tuple[str, str],
    replies: list[str],
    verdict: dict[str, Any],
) -> Solved:
    with Engine(f"sqlite:///{folder / 'loca.db'}") as engine:
        session = engine.session("loca")
        asked = _tokens(session, instruction)
        wrote = sum(_tokens(session, json.dumps({"code": program})) for program in programs)
        made = [entry for entry in session.ledger() if entry.kind == "call"]
        read = sum(entry.original_tokens or 0 for entry in made)
        arguments = sum(_tokens(session, entry.arguments or "") for entry in made)
        wrapped = sum(_tokens(session, json.dumps(_programmatic(reply), indent=2)) for reply in replies)
        return Solved(
            is_solved=verdict["reward"] == 1.0,
            why=verdict["why"],
            context=asked + wrote + sum(_tokens(session, reply) for reply in replies),
            definitions=_tokens(session, shown[0]),
            calls=len(made),
            plain=asked + arguments + read,
            plain_definitions=_tokens(session, shown[1]),
            programmatic=asked + wrote + wrapped,
        )


def _programmatic(said: str) -> dict[str, Any]:
    """Return the fields in which LOCA-bench's own `code_execution` hands a model what its code printed."""
    return {
        "success": True, "execution_time_seconds": 0.123, "timeout_limit_seconds": 120, "stdout": said, "stderr": None,
        "return_value": None, "error": None,
    }  # fmt: skip


def _tokens(session: Session, text: str) -> int:
    return session._scope.count(text)
