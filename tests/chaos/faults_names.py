"""Hostile ids, names and values in every field of the public interface.

Each is taken and comes back as it was, or is refused by an error of byref's own that says what was wrong; nothing of a
driver's comes out, and nothing is half written.
"""

from __future__ import annotations

import io
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kit
from report import Report

from byref import ByrefError, CharCounter, Engine, Policy, ToolError
from byref.session import Session
from byref_sandbox import Sandbox

TEXTS = [
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "a\udfffb",
    "a" * 512,
    "a" * 513,
    "é" * 256,
    "é" * 256 + "a",
    "\u202egnp.exe",
    "zero\u200bwidth\ufeff",
    "../../etc/passwd",
    "/dev/null",
    "C:\\con",
    "'; DROP TABLE byref_session; --",
    '"); DELETE FROM byref_ledger; --',
    "%s %d %(name)s %n",
    "{0} {x!r} {{}}",
    "${jndi:ldap://x}",
    "$users",
    "$",
    "art_",
    "art:aaaaaaaaaaaa",
    "art_aaaaaaaaaaaa",
    "\n\r\t\x0b\x1b[31m\x7f\x85\u2028",
    "x" * 100_000,
    "😀" * 200,
    "NULL",
    "-1",
    "1e999",
    ".",
    "..",
    "__class__",
    "__import__('os')",
    "a.b[0]",
    "a" * 2_000 + "\0",
    "\ufffe\uffff\U0010ffff",
    "ﷺ" * 100,
    "e\u0301",
    "<script>&amp;",
    "a/b?c=d#e",
    ":memory:",
    "true",
    "[" * 5_000,
    '{"a":' * 2_000,
    ".[] | env",
]


class Odd(str):
    """A text that does not show itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Silent:
    """An object that answers nothing."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _keyed(key: Any, value: object) -> dict[Any, object]:
    """What can be a key is one."""
    try:
        return {key: value}
    except TypeError:
        return {}


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


OTHERS: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**5_000,
    1.5,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    b"",
    b"\xff\0",
    [],
    {},
    set(),
    (),
    ["a", None],
    {"\0": "\ud800"},
    {1: 2, None: 3},
    {"a": _nested(300)},
    _nested(5_000),
    _endless(),
    Silent(),
    Odd("odd"),
    object(),
    len,
    1j,
]
TOOLS = (
    "artifact_read",
    "artifact_grep",
    "artifact_jq",
    "get_artifact",
    "list_artifacts",
    "store_artifact",
    "code_interpreter",
)
POLICY = Policy(mode="variables", headroom_percentage=1.0, max_result_tokens=200, min_threshold_bytes=0)
ARGUMENTS = {
    "artifact_read": {"artifact_id": "art_x", "start_line": 1, "end_line": 2, "start_column": 1},
    "artifact_grep": {"artifact_id": "art_x", "pattern": "a"},
    "get_artifact": {"artifact_id": "art_x"},
    "list_artifacts": {},
    "store_artifact": {"content": "x", "name": "n", "content_type": "text/plain"},
}
BOUND = 20.0
"""Seconds that no field may take."""


class Fields:
    """Every field, as a function of what is put in; `expect` says what came back other than it was."""

    def __init__(self, engine: Engine, failures: list[str]) -> None:
        self._engine, self._failures = engine, failures
        self.session: Session = engine.session("names", policy=POLICY, tools=TOOLS, context_window=10**9)
        self._rows = [{"id": i, "text": f"row {i}"} for i in range(300)]
        self._big = self.session.process(self._rows, tool="rows").artifacts[0]
        self._calls = 0

    def expect(self, field: str, value: object, came_back: object) -> None:
        """What was taken comes back as it was."""
        if came_back != value:
            self._failures.append(f"{field}: {_shown(value)} came back as {_shown(came_back)}")

    def id(self, value: Any) -> None:
        session = self._engine.session(value, context_window=10**9)
        step = session.process("x", tool="t").step
        self.expect("id", value, session.id)
        self.expect("id", [1], [entry.step for entry in self._engine.session(value).ledger()])
        self.expect("id", 1, step)
        self.expect("id", True, value in [info.id for info in self._engine.sessions()])
        self._engine.delete_session(value)

    def tenant(self, value: Any) -> None:
        session = self._engine.session("s", tenant=value)
        artifact = session.store_artifact("kept")
        self.expect("tenant", [("s", value)], [(info.id, info.tenant) for info in self._engine.sessions(value)])
        self.expect("tenant", "kept", session.get_artifact(artifact.id).value)  # type: ignore[union-attr]
        self._engine.delete_tenant(value)
        self.expect("tenant", [], self._engine.sessions(value))

    def model(self, value: Any) -> None:
        session = self._engine.session("model", model=value)
        session.record_usage({"prompt_tokens": 1, "completion_tokens": 1, "model": value})
        self._engine.delete_session("model")

    def window(self, value: Any) -> None:
        self._engine.session("window", context_window=value).process("x", tool="t")
        self._engine.delete_session("window")

    def tools(self, value: Any) -> None:
        self._engine.session("tools", tools=value)

    def tools_of(self, value: Any) -> None:
        self._engine.session("tools", tools=[value])

    def deleted(self, value: Any) -> None:
        self._engine.delete_session(value, tenant="nobody")

    def tool(self, value: Any) -> None:
        result = self.session.process(self._rows, tool=value)
        self.expect("tool", self._rows, self.session.variable(result.variables[0].name).value())
        self.session.explain(result.step or 0)

    def call_id(self, value: Any) -> None:
        self._calls += 1
        first = self.session.process(f"call {self._calls}", tool="t", call_id=value)
        again = self.session.process(f"call {self._calls}", tool="t", call_id=value)
        if value:
            self.expect("call_id", first.step, again.step)
            self.session.explain(value)

    def arguments(self, value: Any) -> None:
        self.session.process("x", tool="t", arguments=value)

    def arguments_inside(self, value: Any) -> None:
        self.session.process("x", tool="t", arguments={"a": value, "b": [value]})

    def argument_name(self, value: Any) -> None:
        self.session.process("x", tool="t", arguments=_keyed(value, 1))

    def output(self, value: Any) -> None:
        self.session.process(value, tool="t")

    def output_text(self, value: Any) -> None:
        if type(value) is str:
            result = self.session.process(value + "\n" + "line\n" * 2_000, tool="t")
            for artifact in result.artifacts:
                self.expect("output_text", value + "\n" + "line\n" * 2_000, artifact.value)

    def output_member(self, value: Any) -> None:
        result = self.session.process([*self._rows, {"id": value, "text": value}], tool="t")
        if type(value) is str and "\ud800" not in value and "\udfff" not in value:
            self.expect("output_member", value, self.session.variable(result.variables[0].name).value()[-1]["text"])

    def output_key(self, value: Any) -> None:
        result = self.session.process({"rows": self._rows} | _keyed(value, self._rows), tool="t")
        if type(value) is str and "\ud800" not in value and "\udfff" not in value:
            self.expect("output_key", self._rows, self.session.variable(result.variables[0].name).value()[value])
        for variable in result.variables:
            variable.value()

    def block_type(self, value: Any) -> None:
        self.session.process([{"type": value, "text": "x"}], tool="t")

    def block_text(self, value: Any) -> None:
        self.session.process(
            [{"type": "text", "text": value}, {"type": "image", "data": value, "mimeType": value}], tool="t"
        )

    def block_resource(self, value: Any) -> None:
        self.session.process(
            [{"type": "resource", "resource": {"uri": value, "mimeType": value, "text": value, "blob": value}}],
            tool="t",
        )

    def instructions(self, value: Any) -> None:
        self.session.process({"display_instructions_for_model": value, "rows": self._rows}, tool="t")

    def artifact_value(self, value: Any) -> None:
        self.session.store_artifact(value)

    def artifact_name(self, value: Any) -> None:
        artifact = self.session.store_artifact("named", name=value)
        if value is not None:
            self.expect("artifact_name", value, artifact.name)
            found = self.session.get_artifact(artifact.id)
            self.expect("artifact_name", value, found.name if found else None)
        self.session.delete_artifact(artifact)

    def content_type(self, value: Any) -> None:
        artifact = self.session.store_artifact("typed", content_type=value)
        self.session.delete_artifact(artifact)

    def preview_chars(self, value: Any) -> None:
        self.session.delete_artifact(self.session.store_artifact("x" * 1_000, preview_chars=value))

    def pointer(self, value: Any) -> None:
        self.session.get_artifact(value)

    def variable(self, value: Any) -> None:
        self.session.variable(value)

    def shared(self, value: Any) -> None:
        self.session.share(value, "other")

    def shared_with(self, value: Any) -> None:
        self.session.share(self._big, value)

    def kept(self, value: Any) -> None:
        self.session.keep(value)

    def removed(self, value: Any) -> None:
        self.session.delete_artifact(value)

    def exported(self, value: Any) -> None:
        self.session.export(value, io.BytesIO())

    def called(self, value: Any) -> None:
        self._answered(value, {})

    def called_with(self, value: Any) -> None:
        for tool in ARGUMENTS:
            self._answered(tool, value)

    def called_with_argument(self, value: Any) -> None:
        for tool, arguments in ARGUMENTS.items():
            for name in arguments:
                self._answered(tool, arguments | {name: value})

    def called_with_unknown_argument(self, value: Any) -> None:
        self._answered("artifact_read", _keyed(value, 1))

    def called_as(self, value: Any) -> None:
        self._answered("list_artifacts", {}, call_id=value)

    def resolved(self, value: Any) -> None:
        self.session.resolve(value)

    def resolved_inside(self, value: Any) -> None:
        resolved = self.session.resolve({"a": value, "b": [value]})
        if type(value) is str and value not in ("$users",):
            self.expect("resolved_inside", value, resolved["a"])

    def resolved_name(self, value: Any) -> None:
        self.session.resolve(_keyed(value, "x"))

    def resolved_variable(self, value: Any) -> None:
        self.session.resolve({"a": {"$var": value}})

    def resolved_path(self, value: Any) -> None:
        self.session.resolve({"a": {"$var": "rows", "path": value}})

    def resolved_schema(self, value: Any) -> None:
        self.session.resolve({"a": 1}, {"properties": {"a": {"type": value, "enum": value}}})

    def resolved_for(self, value: Any) -> None:
        self.session.resolve({"a": 1}, tool=value, call_id=value)

    def usage(self, value: Any) -> None:
        self.session.record_usage(value)

    def usage_tokens(self, value: Any) -> None:
        before = self.session.context_tokens()
        self.session.record_usage({"prompt_tokens": value, "completion_tokens": 1}, context=False)
        self.expect("usage_tokens", before, self.session.context_tokens())

    def usage_more(self, value: Any) -> None:
        self.session.record_usage(
            {"prompt_tokens": 1, "completion_tokens": 1, "more": value, "model": value}, context=False
        )

    def request_id(self, value: Any) -> None:
        before = self.session.usage().requests
        for _ in range(2):
            self.session.record_usage({"prompt_tokens": 1, "completion_tokens": 1}, request_id=value, context=False)
        self.expect("request_id", before + (1 if value else 2), self.session.usage().requests)

    def through(self, value: Any) -> None:
        self.session.record_usage({"prompt_tokens": 1, "completion_tokens": 1}, through=value)

    def compaction(self, value: Any) -> None:
        self.session.on_compaction(value)
        self.expect("compaction", value, self.session.context_tokens())

    def explained(self, value: Any) -> None:
        self.session.explain(value)

    def reminder(self, value: Any) -> None:
        self.session.reminder(max_tokens=value)

    def _answered(self, name: Any, arguments: Any, **more: Any) -> None:
        reply = self.session.call(name, arguments, **more)
        if not reply.content:
            self._failures.append(f"call {_shown(name)}: an empty reply")

    def each(self) -> dict[str, Callable[[Any], None]]:
        """The fields by name."""
        names = [name for name in vars(type(self)) if not name.startswith("_") and name not in ("expect", "each")]
        return {name: getattr(self, name) for name in names}


def hostile_names(folder: Path, seconds: float, seed: int) -> Report:
    """Every value in every field, in any order, as far as the time goes; on SQLite and PostgreSQL."""
    report = Report("hostile_names", {"fields": 0, "values": len(TEXTS) + len(OTHERS), "taken": 0, "refused": 0})
    with kit.databases(folder) as urls, Sandbox() as sandbox:
        for url in urls.values():
            try_all(report, url, sandbox, seconds / len(urls), seed)
            kit.verify(url, report.failures)
    return report


def try_all(report: Report, url: str, sandbox: Sandbox, seconds: float, seed: int) -> None:
    """Try values in fields until time is up."""
    with Engine(url, interpreter=sandbox, counter=CharCounter()) as engine:
        fields = Fields(engine, report.failures)
        engine.session("other")
        report.figures["fields"] = len(fields.each())
        tries = [(name, field, value) for name, field in fields.each().items() for value in (*TEXTS, *OTHERS)]
        random.Random(seed).shuffle(tries)
        until = time.monotonic() + seconds
        for name, field, value in tries:
            if time.monotonic() > until:
                break
            began = time.monotonic()
            try:
                field(value)
                report.figures["taken"] += 1
            except (ByrefError, ToolError) as error:
                report.figures["refused"] += 1
                if not str(error).strip() or len(str(error)) > 5_000:
                    report.failures.append(f"{name} = {_shown(value)}: no clear error: {str(error)[:100]!r}")
                if any(word in f"{error}" for word in ("psycopg", "sqlite3", "INSERT", "UPDATE", "SELECT")):
                    report.failures.append(f"{name} = {_shown(value)}: a driver's words: {str(error)[:200]!r}")
            except Exception as error:
                report.failures.append(f"{name} = {_shown(value)}: {type(error).__name__}: {str(error)[:200]}")
            if (took := time.monotonic() - began) > BOUND:
                report.failures.append(f"{name} = {_shown(value)}: took {took:.1f} s")
        if [entry.step for entry in fields.session.ledger()] != list(range(1, len(fields.session.ledger()) + 1)):
            report.failures.append("the steps are no unbroken row")


def _shown(value: object) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:
        return type(value).__name__
