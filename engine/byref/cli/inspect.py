"""The verbs that look: sessions, show, ledger, explain; and sweep."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from typing import Any

from byref import ConfigurationError, Entry, Session
from byref.cli import opening, output
from byref.cli.conversation import artifact_record, variable_record
from byref.cli.failures import Failed
from byref.outputs import to_block
from byref.tools.targets import expired


def sessions(options: Namespace) -> int:
    """List the conversations."""
    with opening.engine_to_read(options) as engine:
        found = engine.sessions(options.tenant)
    if options.json:
        output.json([dataclasses.asdict(info) for info in found])
        return 0
    rows = [
        (info.id, info.model, info.steps, _moment(info.created_at), _moment(info.ended_at) if info.ended_at else None)
        for info in found
    ]
    output.table(("session", "model", "steps", "created", "ended"), rows, right=("steps",))
    return 0


def show(options: Namespace) -> int:
    """List a session's variables and artifacts, or print one thing whole."""
    with opening.engine_to_read(options) as engine:
        session = opening.session_to_read(engine, options)
        if options.what is None:
            _show_all(session, as_json=options.json)
        else:
            _show_one(session, options.what, as_json=options.json)
    return 0


def ledger(options: Namespace) -> int:
    """Print every step and the sums."""
    with opening.engine_to_read(options) as engine:
        session = opening.session_to_read(engine, options)
        entries, totals, context = session.ledger(), session.usage(), session.context_tokens()
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
    columns = ("step", "kind", "tool", "call", "route", "reason", "came", "read", "saved", "in", "out", "usd")
    output.table(columns, [_ledger_row(entry) for entry in entries], right=(columns[0], *columns[6:]))
    cost = "unknown" if totals.cost is None else f"{totals.cost:.4f} USD"
    worth = "" if totals.cost_saved is None else f" ({totals.cost_saved:.4f} USD a request)"
    output.note(
        f"outputs: {totals.original_tokens:,} tokens came, {totals.tokens:,} were read, {totals.tokens_saved:,} saved{worth}; "
        f"requests: {totals.requests:,}, cost {cost}; context: {context:,} of {window:,} tokens"
    )
    return 0


def explain(options: Namespace) -> int:
    """Say why an output took its route."""
    with opening.engine_to_read(options) as engine:
        session = opening.session_to_read(engine, options)
        try:
            found = session.explain(
                int(options.key) if options.key.isascii() and options.key.isdecimal() else options.key
            )
        except ConfigurationError:
            found = session.explain(options.key)  # a call id may be a number
    if options.json:
        output.json(dataclasses.asdict(found))
    else:
        output.text(str(found))
    return 0


def sweep(options: Namespace) -> int:
    """Delete what nothing needs any more."""
    with opening.engine_to_read(options) as engine, output.working("sweeping"):
        gone = engine.sweep()
    if options.json:
        output.json(dataclasses.asdict(gone))
    else:
        output.table(("what", "gone"), list(dataclasses.asdict(gone).items()), right=("gone",))
    return 0


def _show_all(session: Session, *, as_json: bool) -> None:
    variables, artifacts = session.variables(), session.artifacts()
    if as_json:
        output.json(
            {
                "session": session.id,
                "tenant": session.tenant,
                "context_tokens": session.context_tokens(),
                "context_window": session.context_window,
                "variables": [variable_record(variable) for variable in variables],
                "artifacts": [artifact_record(artifact) for artifact in artifacts],
            }
        )
        return
    rows: list[tuple[object, ...]] = [
        ("variable", v.name, v.shape, v.step, v.artifact.id if not v.path else f"{v.artifact.id} {'.'.join(v.path)}")
        for v in variables
    ]
    rows += [
        ("artifact", a.id, f"{a.content_type}, {a.size_bytes:,} bytes, {a.line_count:,} lines", a.step, a.name)
        for a in artifacts
    ]
    output.table(("what", "name", "holds", "step", "of"), rows, right=("step",))


def _show_one(session: Session, what: str, *, as_json: bool) -> None:
    if what.isascii() and what.isdecimal():
        _show_step(session, int(what), as_json=as_json)
        return
    variable = next((v for v in session.variables() if v.name == what.removeprefix("$")), None)
    artifact = session.get_artifact(what) if variable is None else None
    if variable is not None:
        data = to_block(variable.value()).data if variable.path else variable.artifact.payload.read()
        about = variable_record(variable)
    elif artifact is not None:
        data, about = artifact.payload.read(), artifact_record(artifact) | {"schema": artifact.schema}
    elif gone := expired(session._scope, [what]):
        raise Failed(gone[what])
    else:
        names = [v.name for v in session.variables()]
        raise Failed(f"no variable, artifact or step {what!r} in session {session.id!r}; variables: {names}")
    if as_json:
        value = variable.value() if variable is not None else artifact.value if artifact is not None else None
        output.json(about | {"value": value})
    else:
        output.data(data)


def _show_step(session: Session, step: int, *, as_json: bool) -> None:
    entry = next((entry for entry in session.ledger() if entry.step == step), None)
    if entry is None:
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
        None if entry.cost is None else f"{entry.cost:.4f}",
    )


def _moment(moment: Any) -> str:
    return str(moment.isoformat(sep=" ", timespec="seconds"))
