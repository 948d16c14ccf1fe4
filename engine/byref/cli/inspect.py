"""The verbs that read: sessions, tenants, show, pending, learned, ledger, explain, history."""

from __future__ import annotations

import dataclasses
import json
import shlex
from argparse import Namespace
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeGuard

from byref.accounting.ledger import Entry
from byref.artifacts import store, variables
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.cli import opening, output
from byref.cli.conversation import artifact_record, variable_record
from byref.cli.failures import Failed
from byref.content import to_block
from byref.content.rendering import as_text
from byref.conversation import listing as conversations
from byref.conversation.listing import SessionInfo, TenantInfo
from byref.conversation.result import Pending
from byref.errors import ConfigurationError
from byref.references.targets import expired
from byref.session import HistoryEntry, Session

NAMED = 50
"""Newest variables that an error lists."""
READ_CHARS = 60
"""Characters, in a list, of what the model read."""


def sessions(options: Namespace) -> int:
    """List a tenant's conversations."""
    behind = None if options.after is None else (options.tenant, options.after)
    whose = None if options.all_tenants else options.tenant
    with opening.engine_to_read(options) as engine:
        found = engine.database.read(
            lambda connection: conversations.sessions(connection, whose, after=behind, limit=options.limit)
        )
        if found is None:
            raise Failed(f"--after {options.after!r}: no session of tenant {options.tenant!r} has this id")
    if options.json:
        output.json([dataclasses.asdict(info) for info in found])
        return 0
    columns: tuple[str, ...] = ("session", "model", "steps", *SUMS, "created", "ended")
    rows: list[tuple[object, ...]] = [
        (
            info.id,
            info.model,
            info.steps,
            *_sums(info),
            _moment(info.created_at),
            info.ended_at and _moment(info.ended_at),
        )
        for info in found
    ]
    if options.all_tenants:
        columns, rows = ("tenant", *columns), [(i.tenant, *row) for i, row in zip(found, rows, strict=True)]
    output.table(columns, rows, right=("steps", *SUMS), spare=("model", "ended", "created", "out", "in"))
    if not found and not options.all_tenants:
        output.note(f"none of tenant {options.tenant!r}; `{opening.command(options, 'tenants')}` lists the tenants")
    if found and len(found) == options.limit:
        whose = f"--tenant {shlex.quote(found[-1].tenant)} " if options.all_tenants else ""
        _note_more(options, found[-1].id, whose)
    return 0


def tenants(options: Namespace) -> int:
    """List the tenants."""
    with opening.engine_to_read(options) as engine:
        found = engine.tenants(after=options.after, limit=options.limit)
    if options.json:
        output.json([dataclasses.asdict(info) for info in found])
        return 0
    rows = [(info.id, info.sessions, info.steps, *_sums(info), _moment(info.created_at)) for info in found]
    columns = ("tenant", "sessions", "steps", *SUMS, "created")
    output.table(columns, rows, right=("sessions", "steps", *SUMS), spare=("steps", "created", "out", "in"))
    if found and len(found) == options.limit:
        _note_more(options, found[-1].id)
    return 0


SUMS = ("bytes", "in", "out", "saved", "usd")
"""Columns of sums: bytes stored, tokens that providers counted, tokens that no model had to read, and cost."""


def _sums(info: SessionInfo | TenantInfo) -> tuple[object, ...]:
    return info.stored_bytes, info.input_tokens, info.output_tokens, info.tokens_saved, _dollars(info.cost)


def show(options: Namespace) -> int:
    """List a session's variables and artifacts, or print one of them whole."""
    with opening.engine_to_read(options) as engine:
        session = opening.session_to_read(engine, options)
        if options.what is None:
            _show_all(session, options)
        else:
            _show_one(session, options.what, as_json=options.json)
    return 0


def pending(options: Namespace) -> int:
    """List the calls that wait for approval."""
    with opening.engine_to_read(options) as engine:
        found = engine.pending(None if options.all_tenants else options.tenant, limit=options.limit)
    if options.json:
        output.json([dataclasses.asdict(one) for one in found])
        return 0
    rows = [
        (run.tenant, run.session, run.call_id, call.id, call.function, _arguments(call))
        for run in found
        for call in run.calls
    ]
    output.table(("tenant", "session", "run", "call", "function", "arguments"), rows, spare=("tenant", "call"))
    return 0


def _arguments(call: Pending) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def learned(options: Namespace) -> int:
    """Print the schema of what a tool has returned."""
    with opening.engine_to_read(options) as engine:
        found = engine.tool_schema(options.name, tenant=options.tenant)
    if found is None:
        raise Failed(f"tenant {options.tenant!r} has no output of a tool {options.name!r} to learn from")
    output.json(found)
    return 0


def ledger(options: Namespace) -> int:
    """Print every step and the sums."""
    with opening.engine_to_read(options) as engine:
        session = opening.session_to_read(engine, options)
        entries = session.ledger(after=options.after or 0, limit=options.limit)
        totals, context = session.usage(), session.context_tokens()
        window = session.context_window
    if options.json:
        output.json(
            {
                "entries": [_entry(entry) for entry in entries],
                "totals": dataclasses.asdict(totals),
                "context_tokens": context,
                "context_window": window,
            }
        )
        return 0
    columns: tuple[str, ...] = (
        "step",
        "kind",
        "tool",
        "call",
        "route",
        "reason",
        "came",
        "read",
        "saved",
        "in",
        "out",
        "usd",
    )
    rows = [_ledger_row(entry) for entry in entries]
    if output.is_terminal() and not output.fits(columns, rows):
        columns = ("step", "what", "came", "read", "saved", "usd")
        rows = [(row[0], _in_words(row), *row[6:9], row[11]) for row in rows]
    output.table(columns, rows, right=[name for name in columns if name in ("step", "came", "read", *SUMS)])
    cost = "unknown" if totals.cost is None else f"{totals.cost:.4f} USD"
    worth = "" if totals.cost_saved is None else f" ({totals.cost_saved:.4f} USD a request)"
    output.note(
        f"outputs: {totals.original_tokens:,} tokens came, {totals.tokens:,} were read, {totals.tokens_saved:,} saved{worth}; "
        f"requests: {totals.requests:,}, cost {cost}; context: {context:,} of {window:,} tokens"
    )
    if entries and len(entries) == options.limit:
        _note_more(options, entries[-1].step)
    return 0


def explain(options: Namespace) -> int:
    """Print why an output took its route."""
    with opening.engine_to_read(options) as engine:
        session = opening.session_to_read(engine, options)
        try:
            found = session.explain(
                int(options.key) if options.key.isascii() and options.key.isdecimal() else options.key
            )
        except ConfigurationError:
            found = session.explain(options.key)  # a call id may be a number too
    if options.json:
        output.json(dataclasses.asdict(found))
    else:
        output.text(str(found))
    return 0


def history(options: Namespace) -> int:
    """List the outputs of tools, and what the model read of each."""
    with opening.engine_to_read(options) as engine:
        session = opening.session_to_read(engine, options)
        entries = session.history(after=options.after or 0, limit=options.limit)
    if options.json:
        output.json([_history_record(entry) for entry in entries])
        return 0
    rows = [(e.step, e.tool, e.call_id, e.arguments, _came(e.original), _beginning(e.processed)) for e in entries]
    columns = ("step", "tool", "call", "arguments", "came", "read")
    output.table(columns, rows, right=("step",), spare=("arguments", "call"), loose=("arguments", "read"))
    if entries and len(entries) == options.limit:
        _note_more(options, entries[-1].step)
    return 0


def _note_more(options: Namespace, last: str | int, whose: str = "") -> None:
    """Say how to get the next page of a list that ended at its limit."""
    output.note(f"there may be more: {whose}--after {shlex.quote(str(last))}")


def _page(session: Session, after: str | None, limit: int | None) -> tuple[list[Variable], list[Artifact]]:
    """Return a page of variables and then artifacts, after the variable or artifact `after`."""
    if after is not None and store.is_id(after):
        return [], session.artifacts(after=after, limit=limit)
    bound = session.variables(after=after, limit=limit)
    left = None if limit is None else limit - len(bound)
    return bound, [] if left == 0 else session.artifacts(limit=left)


def _show_all(session: Session, options: Namespace) -> None:
    bound, artifacts = _page(session, options.after, options.limit)
    if options.json:
        output.json(
            {
                "session": session.id,
                "tenant": session.tenant,
                "context_tokens": session.context_tokens(),
                "context_window": session.context_window,
                "variables": [variable_record(variable) for variable in bound],
                "artifacts": [artifact_record(artifact) for artifact in artifacts],
            }
        )
        return
    rows: list[tuple[object, ...]] = [
        (
            "variable",
            v.name,
            v.shape,
            v.step,
            v.artifact.id if not v.path else f"{v.artifact.id} {variables.written(v.path)}",
        )
        for v in bound
    ]
    rows += [
        ("artifact", a.id, f"{a.content_type}, {a.size_bytes:,} bytes, {a.line_count:,} lines", a.step, a.name)
        for a in artifacts
    ]
    output.table(("what", "name", "holds", "step", "of"), rows, right=("step",))
    if waiting := session.pending():
        names = ", ".join(sorted({one.function for one in waiting}))
        output.note(f"pending: {len(waiting):,} calls of code wait for approval: {names}")
    if rows and len(rows) == options.limit:
        _note_more(options, artifacts[-1].id if artifacts else bound[-1].name)


def _show_one(session: Session, what: str, *, as_json: bool) -> None:
    if what.isascii() and what.isdecimal():
        _show_step(session, int(what), as_json=as_json)
        return
    variable = _variable(session, what)
    artifact = session.get_artifact(what) if variable is None else None
    if variable is not None:
        data = to_block(variable.value()).data if variable.path else variable.artifact.readable.payload.read()
        about = variable_record(variable)
    elif artifact is not None:
        data, about = artifact.readable.payload.read(), artifact_record(artifact) | {"schema": artifact.schema}
    elif gone := expired(session._scope, [what]):
        raise Failed(gone[what])
    else:
        newest, more = session._scope.read(lambda c: variables.newest(c, session._scope.row, NAMED))
        names = [variable.name for variable in reversed(newest)]
        others = f" and {beside} more" if (beside := more.beside(len(names))) else ""
        raise Failed(f"no variable, artifact or step {what!r} in session {session.id!r}; variables: {names}{others}")
    if as_json:
        value = variable.value() if variable is not None else artifact.value if artifact is not None else None
        output.json(about | {"value": value})
    elif variable is not None and output.is_terminal() and _is_table(rows := variable.value(), variable.artifact):
        output.records(rows)
    else:
        output.data(data)


def _is_table(value: Any, artifact: Artifact) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a value is records that were read from a text, or others without anything nested in their cells."""
    if type(value) is not list or not value or not all(type(row) is dict for row in value):
        return False
    return artifact.reading is not None or not any(type(cell) in (dict, list) for row in value for cell in row.values())


def _variable(session: Session, name: str) -> Variable | None:
    """Return a variable by its name; an alias does not count."""
    bare, scope = name.removeprefix("$"), session._scope
    found = scope.read(lambda connection: variables.find(connection, scope.source, scope.row, [bare]))
    return found[bare] if bare in found and found[bare].name == bare else None


def _show_step(session: Session, step: int, *, as_json: bool) -> None:
    entry = next(iter(session.ledger(after=step - 1, limit=1)), None) if 0 < step < 2**63 else None
    if entry is None or entry.step != step:
        raise Failed(f"there is no step {step} in session {session.id!r}")
    if as_json:
        output.json(_entry(entry) | {"content": entry.content})
    elif entry.content is not None:
        output.text(entry.content)
    elif entry.kind == "resolution":
        output.text(f"{entry.kind}: {entry.arguments}")
    else:
        output.text(f"{entry.kind}: {entry.tokens:,} tokens of context")


def _entry(entry: Entry) -> dict[str, Any]:
    hidden = ("content", "artifact_row")  # `show STEP` prints the content
    record = {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry) if field.name not in hidden}
    return record | {"tokens_saved": entry.tokens_saved, "detail": dict(entry.detail)}


def _ledger_row(entry: Entry) -> tuple[object, ...]:
    is_output, is_resolution = entry.kind == "output", entry.kind == "resolution"
    return (
        entry.step,
        f"{entry.kind} (error)" if entry.is_error else entry.kind,
        entry.tool or entry.model or entry.detail.get("tool"),
        entry.call_id,
        entry.route,
        entry.reason,
        entry.original_tokens,
        None if is_resolution else entry.tokens,
        entry.tokens_saved if is_output else None,
        entry.input_tokens,
        entry.output_tokens,
        _dollars(entry.cost),
    )


def _in_words(row: tuple[object, ...]) -> str:
    """Return the texts of a ledger row as one cell."""
    _, kind, tool, call, route, reason, *_, given, made, _ = row
    of = " ".join(str(part) for part in (kind, tool, call) if part)
    if route:
        return f"{of}: {route}, {reason}"
    counted = [f"{number:,} {way}" for number, way in ((given, "in"), (made, "out")) if isinstance(number, int)]
    return f"{of}: {', '.join(counted)}" if counted else of


def _dollars(cost: Decimal | None) -> str | None:
    return None if cost is None else f"{cost:.4f}"


def _came(original: Artifact | str | list[Any] | None) -> str:
    """Describe an output as it came; a stored one by reference."""
    match original:
        case Artifact():
            return f"{original.id}, {original.size_bytes:,} bytes"
        case list():
            return "; ".join(_came(one) for one in original)
        case None:
            return "gone, or not stored"
        case _:
            return "as it was read"


def _beginning(processed: str | list[Any]) -> str:
    text = " ".join(as_text(processed)[: READ_CHARS * 4].split())
    return text if len(text) <= READ_CHARS else f"{text[:READ_CHARS]}…"


def _history_record(entry: HistoryEntry) -> dict[str, Any]:
    def record(original: Artifact | str | list[Any] | None) -> Any:
        match original:
            case Artifact():
                return artifact_record(original)
            case list():
                return [record(one) for one in original]
            case _:
                return original

    return {name: getattr(entry, name) for name in ("step", "tool", "call_id", "arguments")} | {
        "original": record(entry.original),
        "processed": entry.processed,
    }


def _moment(moment: datetime) -> str:
    """Format a time: in UTC, to the minute on a terminal and to the second in a pipe."""
    if output.is_terminal():
        return moment.strftime("%Y-%m-%d %H:%M")
    return moment.isoformat(sep=" ", timespec="seconds")
