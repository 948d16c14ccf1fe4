"""The journal of calls in SQL: what a program has called and got, from which it goes on after an interruption.

A program is one run of code under one call id. While it runs, one process owns it; another one takes it over only when that process is
known to be dead, or has not been heard of for `programs.LEASE_SECONDS`. Each write of the owner checks that it still is the owner, so a process
that was only slow cannot write into what another one has taken over.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import zstandard
from blake3 import blake3
from sqlalchemy import BigInteger, Connection, bindparam, func, insert, select, update

from byref.accounting import ledger
from byref.artifacts.store import batched
from byref.conversation import programs
from byref.conversation.scope import Called, Scope
from byref.db.tables import CallRow, LedgerRow, ProgramRow
from byref.errors import ConfigurationError, shown
from byref.stores import frames

SEEN_SECONDS: Final = 3.0
"""How often a process says that it is still at it."""
ARGUMENT_CHARS: Final = 16_384
_MAX_RESULT_BYTES: Final = 1 << 30

State = Literal["waiting", "approved", "refused", "begun", "returned", "raised"]


class UnderWay(Exception):
    """Somebody else runs this program, or has ended it meanwhile: its reply is that of this call, too."""


@dataclass(frozen=True, slots=True)
class Start:
    """With what a program begins each time that it is run."""

    at: datetime
    """The time by its own clock."""
    seed: bytes
    """What its random numbers come from."""
    row: int | None = None
    """Its row in the journal, if an earlier run was interrupted."""


@dataclass(frozen=True, slots=True)
class Program:
    """A run of code that calls functions."""

    row: int
    owner: str
    """Who runs it. Each run has an owner of its own, so that of two runs in one process only one can go on."""


@dataclass(slots=True)
class Entry:
    """One call in the journal."""

    row: int
    id: str
    function: str
    arguments: str
    state: State
    changed: str | None
    content_type: str | None
    result: bytes | None
    artifact_row: int | None
    error_kind: str | None
    error: str | None
    tokens: int
    spent: int


Key = tuple[bytes, int]
"""What a call is known by when its program runs again: its digest, and how many of this digest came before it."""

_COLUMNS: Final = (
    CallRow.id,
    CallRow.public_id,
    CallRow.function,
    CallRow.arguments,
    CallRow.state,
    CallRow.changed,
    CallRow.content_type,
    CallRow.result,
    CallRow.artifact_id,
    CallRow.error_kind,
    CallRow.error,
    CallRow.tokens,
    CallRow.spent_tokens,
)
_KNOWN: Final = select(
    ProgramRow.id,
    ProgramRow.state,
    ProgramRow.owner,
    ProgramRow.seen_at,
    ProgramRow.began_at,
    ProgramRow.seed,
    ProgramRow.after_step,
).where(ProgramRow.state != "ended")
_OPEN: Final = _KNOWN.where(
    ProgramRow.session_id == bindparam("of_session"),
    ProgramRow.call_digest == bindparam("call"),
    ProgramRow.content_digest == bindparam("content"),
)
_OPEN_BY_ROW: Final = _KNOWN.where(ProgramRow.id == bindparam("of_program"))
_OF_PROGRAM: Final = (
    select(CallRow.digest, CallRow.occurrence, *_COLUMNS)
    .where(CallRow.program_id == bindparam("of_program"))
    .order_by(CallRow.id)
)
_SEE: Final = (
    update(ProgramRow)
    .where(ProgramRow.id == bindparam("of_program"), ProgramRow.owner == bindparam("me"))
    .where(ProgramRow.state != "ended")
    .values(seen_at=bindparam("now"))
)
_BEGIN: Final = insert(CallRow).returning(CallRow.id)
_BEGIN_SEVERAL: Final = insert(CallRow).returning(CallRow.id, sort_by_parameter_order=True)
_GIVEN: Final = frozenset(
    {
        *("public_id", "tenant", "session_id", "program_id", "function", "arguments", "argument_bytes", "digest"),
        *("occurrence", "state", "tokens", "spent_tokens", "wall_ms", "created_at"),
    }
)
_END: Final = (
    update(CallRow)
    .where(CallRow.id == bindparam("of_call"))
    .values(
        state=bindparam("new_state"),
        content_type=bindparam("new_content_type"),
        result=bindparam("new_result"),
        artifact_id=bindparam("new_artifact_id"),
        error_kind=bindparam("new_error_kind"),
        error=bindparam("new_error"),
        size_bytes=bindparam("new_size_bytes"),
        tokens=bindparam("new_tokens"),
        wall_ms=bindparam("new_wall_ms"),
        spent_tokens=func.coalesce(bindparam("new_spent_tokens", type_=BigInteger), CallRow.spent_tokens),
    )
)
_SEEN: Final = _SEE.returning(ProgramRow.id).cte("seen")
_IS_MINE: Final = select(func.count()).select_from(_SEEN).scalar_subquery()
# PostgreSQL does both with one statement, which spares a round trip. If the program was taken over, the caller rolls it back.
_SEE_AND_BEGIN: Final = (
    insert(CallRow)
    .values(
        {
            column.name: bindparam(f"row_{column.name}", type_=column.type)
            for column in CallRow.__table__.c
            if column.name in _GIVEN
        }
    )
    .returning(CallRow.id, _IS_MINE.label("is_mine"))
    .add_cte(_SEEN)
)
_SEE_AND_END: Final = _END.returning(_IS_MINE.label("is_mine")).add_cte(_SEEN)
_RELEASE: Final = update(CallRow).where(CallRow.id == bindparam("of_call")).values(wall_ms=None)
_ASK: Final = (
    update(CallRow)
    .where(CallRow.id == bindparam("of_call"))
    .values(state="waiting", arguments=bindparam("shown"), wall_ms=None)
)
_REBEGIN: Final = (
    update(CallRow)
    .where(CallRow.id == bindparam("of_call"))
    .values(
        state="begun",
        wall_ms=bindparam("reserved_ms"),
        spent_tokens=CallRow.spent_tokens + bindparam("further"),
    )
)


def digest_of(function: str, arguments: bytes) -> bytes:
    """Return the digest by which a call is known."""
    return bytes(blake3(function.encode() + b"\0" + arguments).digest())


def has_ended(call_id: str | None) -> ConfigurationError:
    """Return the error that code does not wait, or not any more."""
    return ConfigurationError(f"no code waits under the call id {shown(call_id)}: it has ended, or never was")


def start_of(scope: Scope) -> Start:
    """Return with what the program of the model's call begins: as in its first run, if that was interrupted.

    Raises:
        UnderWay: somebody runs it at this moment, or has run it.
        ConfigurationError: the program that was to be gone on with has ended. Another one would make its calls once more.
    """
    whose = _whose(scope)
    found = None if whose is None else scope.ask(lambda connection: connection.execute(_OPEN, whose).one_or_none())
    if found is not None:
        if _is_running(found):
            raise UnderWay
        if not scope.ask(lambda connection: _is_of_an_earlier_turn(connection, scope.row, found)):
            return Start(found.began_at, bytes(found.seed), found.id)
    if whose is not None and scope.called is not None and scope.called.program is not None:
        key = whose["call"], whose["content"]
        if scope.ask(lambda connection: ledger.given_before(connection, scope.row, "reply", *key)) is not None:
            raise UnderWay
        raise has_ended(scope.called.id)
    return Start(datetime.now(UTC), secrets.token_bytes(32))


def open_program(scope: Scope, start: Start, stage: Callable[[Callable[[Connection], Program]], Program]) -> Program:
    """Begin the program of the model's call that is answered, or take it over where an earlier run was interrupted.

    `stage` runs what locks the session's row.

    Raises:
        UnderWay: somebody runs it at this moment, or has run it since `start_of` was asked.
    """
    called = scope.called or Called(None, "", "", bytes(32))
    whose, owner = _whose(scope), _new_owner()

    def taken_over(connection: Connection, row: int) -> Program:
        now_mine = {"owner": owner, "seen_at": datetime.now(UTC), "state": "running"}
        connection.execute(update(ProgramRow).where(ProgramRow.id == row).values(now_mine))
        return Program(row, owner)

    def work(connection: Connection) -> Program:
        last = ledger.lock(connection, scope.row)
        if whose is not None:
            found = connection.execute(_OPEN, whose).one_or_none()
            if found is not None and _is_running(found):
                raise UnderWay
            if found is not None and _is_of_an_earlier_turn(connection, scope.row, found):
                programs.end(connection, found.id, None)
                found = None
            if found is not None and bytes(found.seed) == start.seed:
                return taken_over(connection, found.id)
            is_answered = ledger.given_before(connection, scope.row, "reply", whose["call"], whose["content"])
            if found is not None or start.row is not None or is_answered is not None:
                raise UnderWay
        elif start.row is not None:  # whoever has its row goes on with it
            found = connection.execute(_OPEN_BY_ROW, {"of_program": start.row}).one_or_none()
            if found is None:
                raise UnderWay
            return taken_over(connection, found.id)
        row = connection.execute(
            insert(ProgramRow).returning(ProgramRow.id),
            {
                "tenant": scope.tenant,
                "session_id": scope.row,
                "state": "running",
                "call_id": None if called.id is None else called.id[: ledger.CALL_ID_CHARS],
                "call_digest": None if whose is None else whose["call"],
                "content_digest": called.digest,
                "tool": called.tool,
                "arguments": called.arguments,
                "owner": owner,
                "seen_at": datetime.now(UTC),
                "began_at": start.at,
                "seed": start.seed,
                "after_step": last,
            },
        ).scalar_one()
        return Program(int(row), owner)

    _at_work.add(owner)
    try:
        return stage(work)
    except BaseException:
        _at_work.discard(owner)
        raise


def leave(program: Program) -> None:
    """Note that this process does not run a program any more, whatever the database says after a host's rollback."""
    _at_work.discard(program.owner)


def _whose(scope: Scope) -> dict[str, Any] | None:
    """Return what finds the program of the model's call; None if that has no id, so that nobody can begin it again."""
    called = scope.called
    if called is None or called.id is None:
        return None
    return {"of_session": scope.row, "call": ledger.digest(called.id), "content": called.digest}


def _is_of_an_earlier_turn(connection: Connection, session_row: int, program: Any) -> bool:
    """Whether a program was left in a turn that has ended: providers use call ids again in later turns.

    A turn ends with usage that is no side call's, or a compaction. One that waits for an approval may do so for any number of turns.
    """
    if program.state == "waiting":
        return False
    after = LedgerRow.session_id == session_row, LedgerRow.step > program.after_step, ~LedgerRow.in_turn
    found = select(LedgerRow.step).where(*after, LedgerRow.kind.in_(("usage", "compaction"))).limit(1)
    return connection.execute(found).scalar() is not None


def entries(connection: Connection, program: int) -> dict[Key, Entry]:
    """Return all calls of a program, in the order in which they were begun."""
    return {
        (bytes(digest), occurrence): Entry(*rest)
        for digest, occurrence, *rest in connection.execute(_OF_PROGRAM, {"of_program": program})
    }


def see(connection: Connection, program: Program) -> None:
    """Say that its owner is still at it, and lock the program; raise UnderWay if it was taken over."""
    if connection.execute(_SEE, _seeing(program)).rowcount != 1:
        raise UnderWay


def see_and_begin(
    connection: Connection, scope: Scope, program: Program, calls: Sequence[dict[str, Any]]
) -> list[tuple[int, str]]:
    """Do `see` and `begin`."""
    if len(calls) > 1 or connection.dialect.name != "postgresql":
        see(connection, program)
        return begin(connection, scope, program, calls)
    [row] = _rows(scope, program, calls)
    given = {f"row_{name}": value for name, value in row.items()}
    made = connection.execute(_SEE_AND_BEGIN, given | _seeing(program)).one()
    if not made.is_mine:
        raise UnderWay
    return [(made.id, row["public_id"])]


def _seeing(program: Program) -> dict[str, Any]:
    return {"of_program": program.row, "me": program.owner, "now": datetime.now(UTC)}


def _rows(scope: Scope, program: Program, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    about = {"tenant": scope.tenant, "session_id": scope.row, "program_id": program.row, "tokens": 0, "created_at": now}
    about["spent_tokens"] = 0
    return [{**about, "public_id": new_id(), **call} for call in calls]


def begin(
    connection: Connection, scope: Scope, program: Program, calls: Sequence[dict[str, Any]]
) -> list[tuple[int, str]]:
    """Write calls down before they are made, and return their rows and ids."""
    rows = _rows(scope, program, calls)
    made = connection.execute(_BEGIN, rows[0]) if len(rows) == 1 else connection.execute(_BEGIN_SEVERAL, rows)
    return [(row, one["public_id"]) for row, one in zip(made.scalars(), rows, strict=True)]


def begin_again(connection: Connection, rows: Sequence[tuple[int, float | None, int]]) -> None:
    """Note that calls are made now that were approved, or were under way when their process died; each with the milliseconds and the
    tokens of a model that are reserved for it. What the dead process had reserved of these tokens stays spent: nobody knows what of
    them was used.
    """
    given = [{"of_call": row, "reserved_ms": reserved, "further": further} for row, reserved, further in rows]
    connection.execute(_REBEGIN, given)


def ask(connection: Connection, rows: Sequence[tuple[int, str]]) -> None:
    """Note that calls which were begun wait for approval instead, each with the arguments that are shown."""
    if rows:
        connection.execute(_ASK, [{"of_call": row, "shown": shown} for row, shown in rows])


def release(connection: Connection, rows: Sequence[int]) -> None:
    """Take back what was reserved for calls whose process has died."""
    if rows:
        connection.execute(_RELEASE, [{"of_call": row} for row in rows])


def see_and_end(connection: Connection, program: Program, ended: Sequence[dict[str, Any]]) -> None:
    """Do `see` and `end`."""
    if len(ended) > 1 or connection.dialect.name != "postgresql":
        see(connection, program)
        end(connection, ended)
        return
    [given] = _ends(ended)
    if not connection.execute(_SEE_AND_END, given | _seeing(program)).one().is_mine:
        raise UnderWay


def end(connection: Connection, ended: Sequence[dict[str, Any]]) -> None:
    """Write down what calls have come to, before the code is told."""
    connection.execute(_END, _ends(ended))


def _ends(ended: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    empty = dict.fromkeys(
        (
            "new_content_type",
            "new_result",
            "new_artifact_id",
            "new_error_kind",
            "new_error",
            "new_size_bytes",
            "new_spent_tokens",
        )
    )
    return [{**empty, "new_tokens": 0, **one} for one in ended]


def wait(connection: Connection, program: Program) -> None:
    """Note that a program waits for somebody's approval; raise UnderWay if it was taken over."""
    see(connection, program)
    connection.execute(update(ProgramRow).where(ProgramRow.id == program.row).values(state="waiting"))


def commit(connection: Connection, program: Program, step: int | None) -> None:
    """End a program together with its reply's step; raise UnderWay if it was taken over. Results are not needed any more."""
    see(connection, program)
    programs.end(connection, program.row, step)


def give_up(connection: Connection, program: Program) -> None:
    """Let another process go on with a program at once."""
    mine = ProgramRow.id == program.row, ProgramRow.owner == program.owner, ProgramRow.state == "running"
    connection.execute(update(ProgramRow).where(*mine).values(owner=""))


def calls_so_far(connection: Connection, session_row: int, functions: Sequence[str]) -> dict[str, int]:
    """Return how often functions were called in a session; the caller holds its lock."""
    rows = connection.execute(
        select(CallRow.function, func.count().label("calls"))
        .where(CallRow.session_id == session_row, CallRow.function.in_(functions), CallRow.state != "refused")
        .group_by(CallRow.function)
    )
    return {row.function: row.calls for row in rows}


def read_arguments(text: str) -> dict[str, Any] | str:
    """Return arguments as they were given; the text if it is cut."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return read if isinstance(read, dict) else text


def of_steps(connection: Connection, session_row: int, steps: Collection[int]) -> dict[int, list[ledger.Entry]]:
    """Return the calls of the programs whose replies have these steps, as entries of the ledger."""
    found: dict[int, list[ledger.Entry]] = {}
    for some in batched(steps):
        query = (
            select(ProgramRow.call_id, *CallRow.__table__.c)
            .join(ProgramRow, ProgramRow.id == CallRow.program_id)
            .where(CallRow.session_id == session_row, CallRow.step.in_(some))
            .order_by(CallRow.step, CallRow.id)
        )
        for row in connection.execute(query).mappings():
            found.setdefault(row["step"], []).append(_listed(row))
    return found


def _listed(row: Any) -> ledger.Entry:
    detail = {
        "id": row["public_id"],
        "outcome": row["state"],
        "wall_ms": None if row["state"] == "begun" else row["wall_ms"],
    }
    if row["error"] is not None:
        detail["error"] = f"{row['error_kind']}: {row['error']}"
    return ledger.Entry(
        step=row["step"],
        kind="call",
        tool=row["function"],
        call_id=row["call_id"],
        arguments=row["arguments"],
        route=None,
        reason=None,
        content=None,
        tokens=0,
        original_tokens=row["tokens"],
        original_bytes=row["size_bytes"],
        is_error=row["state"] != "returned",
        model=None,
        input_tokens=None,
        output_tokens=None,
        cache_read_tokens=None,
        cache_write_tokens=None,
        cost=None,
        detail=detail,
        artifact_row=row["artifact_id"],
        at=row["created_at"],
    )


def packed(data: bytes) -> bytes:
    """Return a result as the journal keeps it."""
    return zstandard.ZstdCompressor(level=1).compress(data)


def unpacked(data: bytes) -> bytes:
    """Return a result that the journal has kept; ValueError if it is damaged."""
    return frames.unpack_within(data, _MAX_RESULT_BYTES)


def new_id() -> str:
    """Return an id for a call, by which somebody approves it."""
    return f"call_{secrets.token_hex(12)}"


# Who is at it ------------------------------------------------------------------------------------------------------------------


_at_work: Final = set[str]()
"""The owners that are runs of this process at this moment."""


def _new_owner() -> str:
    """Return a name for one run: its machine, since when that runs, its process, since when that runs, a random part."""
    pid = os.getpid()
    return f"{_machine()}|{pid}|{_started(pid)}|{secrets.token_hex(8)}"


@cache
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return f"{socket.gethostname()[:60]}:{secrets.token_hex(4)}"


def _started(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _is_running(program: Any) -> bool:
    """Whether the owner of a program may still run it."""
    if program.state != "running" or not program.owner:
        return False
    if datetime.now(UTC) - program.seen_at > timedelta(seconds=programs.LEASE_SECONDS):
        return False
    machine, pid, started, _ = program.owner.split("|")
    if machine != _machine():
        return True
    if int(pid) == os.getpid():
        return program.owner in _at_work
    return bool(started) and _started(int(pid)) == started
