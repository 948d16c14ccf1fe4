"""The verbs that add to a session: process, run, tool."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable, columns, written
from byref.cli import opening, output
from byref.cli.failures import FAILED, Failed, WrongUsage
from byref.conversation.result import Result, ToolReply
from byref.policy import INTERPRETER
from byref.session import Session
from byref.tools import TOOLS
from byref_sandbox import Every, probe
from byref_sandbox.host.pool import Jail

MAX_ARGUMENT_BYTES = 64 << 20
"""Bound for code or JSON from standard input: far beyond what either needs."""


def process(options: Namespace) -> int:
    """Take in a tool's output and print what the model reads."""
    tool = options.tool or ("stdin" if options.file == "-" else Path(options.file).stem)
    limit = opening.POLICY.max_artifact_bytes
    with opening.input_file(options.file, limit) as file, opening.engine_to_write(options) as engine:
        session = opening.session_to_write(engine, options)
        with output.working(f"processing {options.file}"):
            result = session.process(file, tool=tool, call_id=options.call_id, is_error=options.error)
        if options.json:
            output.json(_result(result))
            return 0
        output.text(result.text)
        if sys.stderr.isatty() and result.step is not None:
            output.note(f"\n{session.explain(result.step)}")
    return 0


def run(options: Namespace) -> int:
    """Run code as the model would, and print the reply."""
    return _call(options, INTERPRETER, {"code": _argument(options.code)})


def tool(options: Namespace) -> int:
    """Call a tool as the model would, and print the reply."""
    if options.name not in TOOLS:
        raise WrongUsage(f"there is no tool {options.name!r}; there are: {', '.join(_offered(options.jail))}")
    if not TOOLS[options.name].is_installed():
        raise Failed(f"{options.name} is not offered: {TOOLS[options.name].cure}")
    return _call(options, options.name, _argument(options.arguments))


def _offered(jail: Jail) -> list[str]:
    """Return the names of the tools that are installed and, where they run code, that this machine can sandbox."""
    is_jailed = all(layer.in_force for layer in probe(jail=jail) if layer.mandatory)
    return [tool.name for tool in TOOLS.values() if tool.is_installed() and (is_jailed or not tool.needs_sandbox)]


def _argument(given: str) -> str:
    if given != "-":
        return given
    return opening.read_input(MAX_ARGUMENT_BYTES).decode("utf-8", "replace")


def _call(options: Namespace, name: str, arguments: Any) -> int:
    with opening.engine_to_write(options) as engine:
        opening.session_to_write(engine, options)
        # All installed tools: whoever types a tool's name may use it, even if this session's model is not offered it.
        tools = [tool.name for tool in TOOLS.values() if tool.is_installed()]
        session = engine.session(options.session, tenant=options.tenant, model=options.model, tools=tools)
        with output.working(f"running {name}"):
            reply = session.call(name, arguments, call_id=options.call_id)
        if options.json:
            output.json(_reply(reply, session))
        else:
            output.text(reply.text)
    return FAILED if reply.is_error else 0


def _result(result: Result) -> dict[str, Any]:
    return {
        **_fields(result, "route", "reason", "step", "tokens", "original_tokens", "tokens_saved", "is_error"),
        "variables": [variable_record(variable) for variable in result.variables],
        "artifacts": [artifact_record(artifact) for artifact in result.artifacts],
        **_fields(result, "envelope", "content"),
    }


def _reply(reply: ToolReply, session: Session) -> dict[str, Any]:
    counted = {"context_tokens": session.context_tokens()}
    return _fields(reply, "tool", "is_error", "step", "tokens") | counted | _fields(reply, "content")


def variable_record(variable: Variable) -> dict[str, Any]:
    """Return a variable's description for JSON output."""
    steps = [step if isinstance(step, str) else step.of for step in variable.path]
    fields: dict[str, Any] = {"artifact": variable.artifact.id, "path": steps}
    if any(isinstance(step, Every) for step in variable.path):
        fields["at"] = written(
            variable.path
        )  # records of many places: their path as text, and the members that say from where
        fields["columns"] = columns(variable.path)
    return _fields(variable, "name", "shape", "kind", "origin", "step") | fields


def artifact_record(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact's description for JSON output."""
    names = ("id", "name", "kind", "content_type", "size_bytes", "line_count", "tokens", "shape", "step")
    return _fields(artifact, *names) | {"stored_at": artifact.stored_at.isoformat()}


def _fields(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}
