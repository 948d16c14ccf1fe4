"""Calls that wait for somebody's approval: they are listed, and decided by their ids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, select, update

from byref.accounting import ledger
from byref.artifacts.store import batched
from byref.calling import journal
from byref.conversation import programs
from byref.conversation.result import Pending, PendingRun
from byref.conversation.scope import Scope
from byref.db.tables import CallRow, ProgramRow, SessionRow
from byref.errors import ConfigurationError, shown

MAX_LISTED = 1_000

Decision = bool | Mapping[str, Any]
"""True: make the call. False: it is refused. Arguments: make the call with these instead."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A program that can go on: its row, and the model's call that began it."""

    row: int
    tool: str
    arguments: str


def listed(connection: Connection, session_row: int, call_id: str | None = None) -> list[tuple[str | None, Pending]]:
    """Return the calls of a session that wait, oldest first, each with the id of the model's call in whose code it is."""
    query = (
        select(ProgramRow.call_id, CallRow.public_id, CallRow.function, CallRow.arguments)
        .join(ProgramRow, ProgramRow.id == CallRow.program_id)
        .where(CallRow.session_id == session_row, CallRow.state == "waiting", ProgramRow.state == "waiting")
        .order_by(CallRow.id)
        .limit(MAX_LISTED)
    )
    if call_id is not None:
        query = query.where(ProgramRow.call_digest == ledger.digest(call_id))
    return [
        (of_call, _pending(id_, function, arguments)) for of_call, id_, function, arguments in connection.execute(query)
    ]


def runs(connection: Connection, tenant: str | None, limit: int | None) -> list[PendingRun]:
    """Return the runs of a tenant, or of all tenants (None), that wait, oldest first, at most `limit`."""
    query = (
        select(ProgramRow.id, SessionRow.tenant, SessionRow.name, ProgramRow.call_id)
        .join(SessionRow, SessionRow.id == ProgramRow.session_id)
        # as the index over open programs says it, or it would not be used
        .where(ProgramRow.state != "ended", ProgramRow.call_digest.is_not(None), ProgramRow.state == "waiting")
        .where(~SessionRow.is_deleted, SessionRow.ended_at.is_(None))
        .order_by(ProgramRow.id)
        .limit(MAX_LISTED if limit is None else limit)
    )
    if tenant is not None:
        query = query.where(SessionRow.tenant == tenant)
    found = connection.execute(query).all()
    calls: dict[int, list[Pending]] = {row.id: [] for row in found}
    for some in batched([*calls]):
        waiting = (
            select(CallRow.program_id, CallRow.public_id, CallRow.function, CallRow.arguments)
            .where(CallRow.program_id.in_(some), CallRow.state == "waiting")
            .order_by(CallRow.id)
        )
        for program, id_, function, arguments in connection.execute(waiting):
            calls[program].append(_pending(id_, function, arguments))
    return [PendingRun(row.tenant, row.name, row.call_id, tuple(calls[row.id])) for row in found if calls[row.id]]


def _pending(id_: str, function: str, arguments: str) -> Pending:
    return Pending(id_, function, journal.read_arguments(arguments), "it waits for approval")


def decide(scope: Scope, call_id: str, decisions: Mapping[str, Decision]) -> Interrupted:
    """Write down decisions about the calls of a program, and return the program.

    Raises:
        ConfigurationError: no code waits under that id, or a decision is none, or is about another call.
    """
    if not isinstance(decisions, Mapping):
        raise ConfigurationError(f"decisions={shown(decisions)}: expected True, False or changed arguments by call id")
    for id_, decision in decisions.items():
        if not isinstance(id_, str) or not isinstance(decision, bool | Mapping):
            raise ConfigurationError(
                f"decisions: {shown(id_)}: {shown(decision)}: expected True, False or changed arguments"
            )

    # Providers use call ids again, so several programs may wait under one.
    first = select(CallRow.program_id).where(
        CallRow.session_id == scope.row, CallRow.public_id == next(iter(decisions), None)
    )
    decided = [case((ProgramRow.id.in_(first), 0), else_=1)] if decisions else []

    def work(connection: Connection) -> Interrupted:
        ledger.lock(connection, scope.row)
        program = connection.execute(
            select(ProgramRow.id, ProgramRow.tool, ProgramRow.arguments, ProgramRow.state)
            .where(
                ProgramRow.session_id == scope.row,
                ProgramRow.call_digest == ledger.digest(call_id),
                ProgramRow.state != "ended",
            )
            .order_by(*decided, ProgramRow.id.desc())
            .limit(1)
        ).one_or_none()
        if program is None:
            raise journal.has_ended(call_id)
        for id_, decision in decisions.items():
            _decide(connection, scope, program.id, id_, decision)
        return Interrupted(program.id, program.tool, program.arguments)

    # As the journal of the calls that follow from it, a decision outlives a rollback of the host's transaction.
    return scope.stage_under_lock()(work)


def withdraw(scope: Scope, call_id: str) -> None:
    """End the code that waits under the id of a model's call: it never goes on."""
    mine = ProgramRow.session_id == scope.row, ProgramRow.call_digest == ledger.digest(call_id)
    waiting = select(ProgramRow.id).where(*mine, ProgramRow.state == "waiting")

    def work(connection: Connection) -> None:
        ledger.lock(connection, scope.row)
        for row in connection.execute(waiting).scalars().all():
            programs.end(connection, row, None)

    if scope.ask(lambda connection: connection.execute(waiting.limit(1)).first()) is not None:
        scope.write(work)


def _decide(connection: Connection, scope: Scope, program: int, id_: str, decision: Decision) -> None:
    mine = CallRow.program_id == program, CallRow.public_id == id_
    columns = (CallRow.id, CallRow.function, CallRow.state, CallRow.changed)
    found = connection.execute(select(*columns).where(*mine)).one_or_none()
    if found is None:
        raise ConfigurationError(f"decisions: {shown(id_)} is no call of this code")
    if all(one.name != found.function for one in scope.functions):
        raise ConfigurationError(f"decisions: this session has no function {found.function!r} any more: give it again")
    changed = _changed(scope, found.function, decision) if isinstance(decision, Mapping) else None
    state = "refused" if decision is False else "approved"
    if found.state != "waiting":
        # A host that died since it decided decides again.
        if (found.state == "refused") == (state == "refused") and found.changed == changed:
            return
        raise ConfigurationError(
            f"decisions: the call {shown(id_)} of {found.function} is decided already, and otherwise: {found.state}"
        )
    connection.execute(update(CallRow).where(CallRow.id == found.id).values(state=state, changed=changed))


def _changed(scope: Scope, name: str, arguments: Mapping[str, Any]) -> str:
    from byref.references.fitting import misfit  # imported late because jsonschema takes long to import

    function = next(one for one in scope.functions if one.name == name)
    try:
        text = json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"decisions: the arguments for {name} are no JSON: {error}") from None
    if (wrong := misfit(json.loads(text), function.parameters)) is not None:
        raise ConfigurationError(f"decisions: the arguments for {name}: {wrong}; it is {function.signature}")
    return text
