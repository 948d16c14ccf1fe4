"""Functions of remote hosts: what code calls waits in SQL until a client has answered it, which asks for calls by polling.

A call has one row here, beside its row in the journal. A run that is begun again after its server died finds that row again, with the
answer if it has come meanwhile: no call is handed out twice because of it, and no answer is lost.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Select, and_, delete, insert, or_, select, update

from byref.adapters.common.shares import Shares
from byref.aio import AsyncEngine
from byref.artifacts.store import batched
from byref.calling import journal
from byref.calling.making import ERROR_KINDS
from byref.db.tables import CallRow, ProgramRow, RemoteCallRow, RemoteFunctionsRow, SessionRow
from byref.errors import StorageFailure
from byref.functions import Function, journal_row
from byref.service import records
from byref.service.problems import RETRY, Problem, not_found
from byref_sandbox import jsontext

logger = logging.getLogger("byref")

LOOK_SECONDS: Final = 0.25
"""Between two looks at the database: the run, or who answers it, may be another process's."""
SILENT_SECONDS: Final = 30.0
"""A call of a repeatable function that was taken so long ago, and is not answered, is given to the next who asks."""
MAX_ASKING: Final = 200
"""Clients of one process that wait for calls at once; tenants share it."""
KEPT_ASKING: Final = 10
"""Clients of each tenant that may wait when those of others have taken all places."""
TAKEN_BYTES: Final = 8 << 20
"""Bytes of arguments of one call, and of all that are taken at once."""


class Lost(Exception):
    """A call cannot be handed to a remote host; the message is for the code."""


@dataclass(frozen=True, slots=True)
class _New:
    """A call that is about to be written down."""

    row: int
    arguments: bytes
    is_repeatable: bool


class Remote:
    """The calls of remote hosts' functions by runs of this process. It is used on one event loop."""

    def __init__(self, engine: AsyncEngine, stopping: asyncio.Event) -> None:
        self._engine = engine
        self._stopping = stopping
        self._awaited: dict[int, asyncio.Future[bytes]] = {}
        """By the rows of their calls in the journal."""
        self._new: list[_New] = []
        self._changed = asyncio.Event()
        """Set when this process has something to write down, or was given an answer."""
        self._written = asyncio.Event()
        """Set, and replaced, when this process has written calls down."""
        self._task: asyncio.Task[None] | None = None
        self._places = Shares(MAX_ASKING, several=True, kept=KEPT_ASKING)

    # Functions -----------------------------------------------------------------------------------------------------------------

    def made(self, given: Sequence[records.RemoteFunction]) -> list[Function]:
        """Return functions as the library has them; ConfigurationError: one makes no sense."""
        return [
            Function(
                one.name,
                _Call(self, one.name, one.repeatable),
                one.parameters,
                one.returns,
                one.description,
                one.approval,
                True,  # its row is found again
                one.max_calls,
                one.timeout,
                one.concurrency,
            )
            for one in given
        ]

    def functions(self, tenant: str, session: str) -> list[Function]:
        """Return the functions of a session; waits for the database, so call it on a thread."""
        found = self._engine.database.ask(lambda c: c.execute(_functions(tenant, session)).scalar())
        return [] if found is None else self.made(msgspec.json.decode(found, type=list[records.RemoteFunction]))

    async def declare(self, tenant: str, session: str, given: Sequence[records.RemoteFunction]) -> None:
        """Let a session have these functions from now on."""
        text = msgspec.json.encode(given).decode()

        def work(connection: Connection) -> None:
            row = connection.execute(_session(tenant, session).with_for_update()).scalar_one()
            connection.execute(delete(RemoteFunctionsRow).where(RemoteFunctionsRow.session_id == row))
            if given:
                values = {"session_id": row, "tenant": tenant, "functions": text}
                connection.execute(insert(RemoteFunctionsRow), values)

        if (
            await asyncio.to_thread(
                self._engine.database.ask, lambda c: c.execute(_functions(tenant, session)).scalar()
            )
            != text
        ):
            await asyncio.to_thread(self._engine.database.write, work)

    # Runs ----------------------------------------------------------------------------------------------------------------------

    async def ask(self, name: str, arguments: Mapping[str, Any], *, is_repeatable: bool) -> Any:
        """Hand a call to whoever polls for it, wait for the answer, and return its result or raise its error."""
        data = json.dumps(arguments).encode()
        if len(data) > TAKEN_BYTES:
            raise ValueError(f"its arguments have {len(data):,} bytes; at most {TAKEN_BYTES:,} can be sent")
        row, answer = journal_row.get(), asyncio.get_running_loop().create_future()
        self._awaited[row] = answer
        self._new.append(_New(row, data, is_repeatable))
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._carry())
        try:
            return _value_of(await answer)
        finally:
            del self._awaited[row]

    async def _carry(self) -> None:
        """Write calls down and look for answers, for all runs together, as long as one waits."""
        while self._awaited:
            self._changed.clear()
            new = [one for one in self._new if one.row in self._awaited]
            self._new.clear()
            try:
                found = await asyncio.to_thread(self._looked, new, [*self._awaited])
            except StorageFailure:  # the call's own time bounds how often
                logger.warning("byref could not look for answers of remote hosts", exc_info=True)
                self._new += new
                await asyncio.sleep(LOOK_SECONDS)
                continue
            except Exception as error:
                logger.exception("byref could not hand calls to remote hosts")
                found = dict.fromkeys((one.row for one in new), Lost(f"the call cannot be handed over: {error}"))
            if new:
                written, self._written = self._written, asyncio.Event()
                written.set()
            for row, answer in found.items():
                future = self._awaited.get(row)
                if future is None or future.done():
                    continue
                if isinstance(answer, bytes):
                    future.set_result(answer)
                else:
                    future.set_exception(answer)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK_SECONDS)

    def _looked(self, new: Sequence[_New], awaited: Sequence[int]) -> dict[int, bytes | Exception]:
        database = self._engine.database
        found: dict[int, bytes | Exception] = {}
        if new:
            found |= dict.fromkeys(
                database.write(lambda c: _write(c, new)), Lost("the conversation has gone, or has ended")
            )

        def answers(connection: Connection) -> dict[int, bytes | Exception]:
            rows: dict[int, bytes | Exception] = {}
            for some in batched(awaited):
                query = select(RemoteCallRow.call_id, RemoteCallRow.answer)
                query = query.where(RemoteCallRow.call_id.in_(some), RemoteCallRow.answer.is_not(None))
                for row in connection.execute(query):
                    try:
                        rows[row.call_id] = journal.unpacked(row.answer)
                    except ValueError as error:
                        rows[row.call_id] = Lost(f"the answer is lost: {error}")
            return rows

        return found | database.read(answers)

    # Who answers ---------------------------------------------------------------------------------------------------------------

    async def take(self, tenant: str, given: records.TakeCalls) -> list[records.RemoteCall]:
        """Give a client the calls that it has to answer; wait for one if there is none."""
        if not self._places.take(tenant):
            raise Problem(503, "too-many-streams", f"too many clients wait for calls ({self._places.limits})", RETRY)
        try:
            end = time.monotonic() + given.wait_seconds
            while True:
                written = self._written
                found = await asyncio.to_thread(self._taken, tenant, given)
                left = min(LOOK_SECONDS, end - time.monotonic())
                if found or left <= 0 or self._stopping.is_set():
                    return found
                with suppress(TimeoutError):
                    await asyncio.wait_for(written.wait(), left)
        finally:
            self._places.give_back(tenant)

    def _taken(self, tenant: str, given: records.TakeCalls) -> list[records.RemoteCall]:
        database = self._engine.database
        if not database.ask(lambda c: c.execute(_open_calls(tenant, given).limit(1)).first()):
            return []  # a look costs no write transaction
        return database.write(lambda c: _take(c, tenant, given))

    async def answer(self, tenant: str, call: str, given: records.CallAnswer) -> None:
        """Take the answer of a call. The first one holds.

        Raises:
            Problem: there is no such call, nobody waits for its answer any more, or it has another one.
        """
        data = _encoded(given)
        await asyncio.to_thread(self._engine.database.write, lambda c: _answer(c, tenant, call, given.worker, data))
        self._changed.set()


@dataclass(frozen=True, slots=True)
class _Call:
    """What a function of a remote host does when code calls it."""

    remote: Remote
    name: str
    is_repeatable: bool

    async def __call__(self, **arguments: Any) -> Any:
        return await self.remote.ask(self.name, arguments, is_repeatable=self.is_repeatable)


def _encoded(given: records.CallAnswer) -> bytes:
    """Return an answer as the database keeps it."""
    result = bytes(given.result)
    if not result if given.error is None else result not in (b"", b"null"):
        raise Problem(422, "invalid-request", "expected a result or an error, and one of them alone")
    if given.error is None:
        jsontext.decode(result)  # it was only looked over so far
        return b'{"result":' + result + b"}"
    return msgspec.json.encode({"error": given.error})


def _value_of(answer: bytes) -> Any:
    """Return the result that an answer has; raise its error, of the kind that it names if code has that."""
    read: Any = jsontext.decode(answer)
    if "error" not in read:
        return read["result"]
    kind, message = read["error"]["kind"], read["error"]["message"]
    if kind in ERROR_KINDS and (known := getattr(builtins, kind, None)) is not None:
        raise known(message)
    raise Exception(message if kind == "FunctionError" else f"{kind}: {message}")


def _session(tenant: str, session: str) -> Select[int]:
    mine = SessionRow.tenant == tenant, SessionRow.name == session, ~SessionRow.is_deleted
    return select(SessionRow.id).where(*mine)


def _functions(tenant: str, session: str) -> Select[str]:
    mine = SessionRow.tenant == tenant, SessionRow.name == session, ~SessionRow.is_deleted
    joined = select(RemoteFunctionsRow.functions).join(SessionRow, SessionRow.id == RemoteFunctionsRow.session_id)
    return joined.where(*mine)


def _write(connection: Connection, new: Sequence[_New]) -> list[int]:
    """Write calls down that are not there from before their server died; return those that nobody waits for any more."""
    by_row = {one.row: one for one in new}
    gone = set(by_row)
    for some in batched([*by_row]):
        known = set(connection.execute(select(RemoteCallRow.call_id).where(RemoteCallRow.call_id.in_(some))).scalars())
        begun = select(CallRow.id, CallRow.tenant, CallRow.session_id).where(
            CallRow.id.in_(some), CallRow.state == "begun"
        )
        rows = connection.execute(begun).all()
        gone -= {row.id for row in rows}
        values = [
            {
                "call_id": row.id,
                "tenant": row.tenant,
                "session_id": row.session_id,
                "arguments": journal.packed(by_row[row.id].arguments),
                "is_repeatable": by_row[row.id].is_repeatable,
            }
            for row in rows
            if row.id not in known
        ]
        if values:
            connection.execute(insert(RemoteCallRow), values)
    return sorted(gone)


def _open_calls(tenant: str, given: records.TakeCalls) -> Select[*tuple[Any, ...]]:
    """Return the query for the calls that a client may take, oldest first; they are its own, nobody's, or their taker is silent."""
    silent = datetime.now(UTC) - timedelta(seconds=SILENT_SECONDS)
    is_free = or_(
        RemoteCallRow.worker.is_(None),
        RemoteCallRow.worker == given.worker,
        and_(RemoteCallRow.is_repeatable, RemoteCallRow.taken_at < silent),
    )
    query = (
        select(
            RemoteCallRow.call_id,
            CallRow.public_id,
            CallRow.function,
            CallRow.argument_bytes,
            SessionRow.name,
            ProgramRow.call_id.label("of_call"),
        )
        .join(CallRow, CallRow.id == RemoteCallRow.call_id)
        .join(ProgramRow, ProgramRow.id == CallRow.program_id)
        .join(SessionRow, SessionRow.id == RemoteCallRow.session_id)
        .where(RemoteCallRow.tenant == tenant, RemoteCallRow.answer.is_(None), CallRow.state == "begun", is_free)
        .where(~SessionRow.is_deleted)
        .order_by(RemoteCallRow.call_id)
    )
    if given.session is not None:
        query = query.where(SessionRow.name == given.session)
    if given.known:
        query = query.where(CallRow.public_id.not_in(given.known))
    return query


def _take(connection: Connection, tenant: str, given: records.TakeCalls) -> list[records.RemoteCall]:
    query = _open_calls(tenant, given).limit(given.limit).with_for_update(of=RemoteCallRow, skip_locked=True)
    found: list[Any] = []
    size = 0
    for row in connection.execute(query).all():
        size += row.argument_bytes
        if found and size > TAKEN_BYTES:
            break
        found.append(row)
    mine = RemoteCallRow.call_id.in_([row.call_id for row in found])
    connection.execute(update(RemoteCallRow).where(mine).values(worker=given.worker, taken_at=datetime.now(UTC)))
    rows = connection.execute(select(RemoteCallRow.call_id, RemoteCallRow.arguments).where(mine))
    arguments = {row.call_id: row.arguments for row in rows}
    return [
        records.RemoteCall(
            id=row.public_id,
            session=row.name,
            call_id=row.of_call,
            function=row.function,
            arguments=msgspec.Raw(journal.unpacked(arguments[row.call_id])),
        )
        for row in found
    ]


def _answer(connection: Connection, tenant: str, call: str, worker: str | None, data: bytes) -> None:
    about = (CallRow.id, CallRow.state, RemoteCallRow.call_id, RemoteCallRow.worker, RemoteCallRow.answer)
    query = select(*about).outerjoin(RemoteCallRow, RemoteCallRow.call_id == CallRow.id)
    query = query.where(CallRow.public_id == call, CallRow.tenant == tenant)
    found = connection.execute(query.with_for_update(of=CallRow)).one_or_none()
    if found is None:
        raise not_found(f"there is no call {call[:100]!r}")
    if found.answer is not None:
        if journal.unpacked(found.answer) == data:
            return
        raise Problem(409, "call-answered", f"the call {call} has another answer already, which holds")
    if found.call_id is None or found.state != "begun":
        raise Problem(
            410, "call-over", f"nobody waits for the answer of {call} any more: its time is over, or its code has ended"
        )
    if worker is not None and found.worker is not None and worker != found.worker:
        raise Problem(409, "call-taken", f"the call {call} was given to the worker {found.worker[:100]!r}")
    connection.execute(
        update(RemoteCallRow).where(RemoteCallRow.call_id == found.id).values(answer=journal.packed(data))
    )
