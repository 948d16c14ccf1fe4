"""Growth: each call of a conversation with 100,000 steps, artifacts and names, against one with 100 of each.

Both are in one database, filled by SQL, beside a million other conversations; the calls take turns. The same is done for pages
of lists of a tenant's conversations, with one tenant that has 100 and one that has 100,000. The time of a call must not grow
with the amount of stored data.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any

import zstandard
from blake3 import blake3
from sqlalchemy import Connection, bindparam, insert, text, update

import byref
from benchmarks import databases
from benchmarks.results import Figure, interleaved, median, ratio
from byref.accounting import ledger
from byref.db import sums
from byref.db.column_types import UtcDateTime
from byref.db.tables import (
    ArtifactRow,
    BlobRow,
    FrameRow,
    LedgerRow,
    NameRow,
    SessionRow,
    VariableRow,
)
from byref.policy import DEFAULT_TOOLS

FEW, MANY = 100, 100_000
BESIDE = 1_000_000
"""Conversations of others, each its own tenant's."""
SHORT_MANY, SHORT_BESIDE = 5_000, 5_000
RUNS, SHORT_RUNS = 15, 3
BATCH = 5_000
TARGET = "<= 1.5x"
POLICY = byref.Policy(max_session_bytes=10 << 30, tools=(*DEFAULT_TOOLS, "list_artifacts"))
ROWS = [{"id": n, "name": f"user {n}", "city": "Oslo"} for n in range(1_600)]
"""80 KB, with what `_fresh` adds."""


def main(short: bool = False) -> Iterator[Figure]:
    """Yield what each call takes on SQLite and PostgreSQL, and how often that of the small conversation it is."""
    many, beside, runs = (SHORT_MANY, SHORT_BESIDE, SHORT_RUNS) if short else (MANY, BESIDE, RUNS)
    for database in databases.KINDS:
        with databases.database(database) as url, byref.Engine(url, create=True, policy=POLICY) as engine:
            populate(engine, "few", FEW)
            populate(engine, "many", many)
            populate(engine, None, FEW)
            small, large = (filled(engine, stored) for stored in (FEW, many))
            analyse(engine)
            tenants = partial(engine.tenants, after="other", limit=PAGE)  # those of one conversation each
            few_tenants = _timed(tenants, runs)
            populate(engine, None, beside, begun=FEW)
            analyse(engine)
            yield _figure(f"tenants, a page, {database}", few_tenants, _timed(tenants, runs))
            for name, listed in LISTS.items():
                yield _compared(f"{name}, {database}", partial(listed, engine), "few", "many", runs)
            for name, call in CALLS.items():
                yield _compared(f"{name}, {database}", call, small, large, runs)


def _compared(step: str, call: Callable[[Any], object], small: Any, large: Any, runs: int) -> Figure:
    call(small), call(large)
    times = interleaved(runs, small=lambda: call(small), large=lambda: call(large))
    return _figure(step, times["small"], times["large"])


def _timed(call: Callable[[], object], runs: int) -> list[float]:
    call()
    return interleaved(runs, all=call)["all"]


def _figure(step: str, small: list[float], large: list[float]) -> Figure:
    few, many = median(small) * 1_000, median(large) * 1_000
    against = ratio(large, small)
    return Figure(step, many, "ms", f"where {FEW} of each are stored, {few:.2f} ms", against, TARGET)


_ONE_EACH = """
WITH RECURSIVE counted (n) AS (SELECT :begun + 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :begun + :count)
"""
_SESSIONS = """
INSERT INTO byref_sessions (id, tenant, name, next_step, created_at)
SELECT :behind + n, CASE WHEN :tenant = '' THEN 'other ' || n ELSE :tenant END, 'chat ' || n, 2, :at FROM counted
"""
_STEPS = """
INSERT INTO byref_ledger (tenant, session_id, step, kind, tokens, input_tokens, output_tokens, detail, created_at)
SELECT tenant, id, 1, 'usage', 10, 9, 1, '{}', created_at FROM byref_sessions WHERE id > :behind + :begun
AND id <= :behind + :begun + :count
"""
_ROOM = 100_000_000
"""Row ids for the conversations of each tenant, or of others."""


def populate(engine: byref.Engine, tenant: str | None, count: int, *, begun: int = 0) -> None:
    """Insert so many conversations of a tenant, or of one tenant each, with one step in each."""
    behind = _ROOM * [None, "few", "many"].index(tenant)
    about = {"count": count, "begun": begun, "behind": behind}
    at = bindparam("at", datetime.now(UTC), UtcDateTime)
    is_sqlite = engine._database.dialect == "sqlite"

    def work(connection: Connection) -> None:
        sessions = f"{_ONE_EACH} {_SESSIONS}" if is_sqlite else _SESSIONS.replace("FROM counted", f"FROM ({_SERIES}) s")
        connection.execute(text(sessions).bindparams(at), {**about, "tenant": tenant or ""})
        connection.execute(text(_STEPS), about)

    engine._database.write(work)


_SERIES = "SELECT generate_series(:begun + 1, :begun + :count) AS n"


def filled(engine: byref.Engine, stored: int) -> byref.Session:
    """A conversation with so many steps, artifacts, variables and exact values, and a variable `data` of an output."""
    session = engine.session(uuid.uuid4().hex, context_window=100_000_000)
    session.process(ROWS, tool="data", call_id="first")
    session._scope.write(lambda connection: fill(connection, session, stored))
    return session


def fill(connection: Connection, session: byref.Session, stored: int) -> None:
    """Insert what `stored` calls would have left: all of it may be verified."""
    scope = session._scope
    now, owner = datetime.now(UTC), {"tenant": scope.tenant, "session_id": scope.row}
    before = ledger.lock(connection, scope.row)
    packed = zstandard.ZstdCompressor().compress(b"x" * 10)
    for start in range(0, stored, BATCH):
        numbers = range(start, min(start + BATCH, stored))
        payloads = {n: b'[{"id":"%d of %d"}]' % (n, scope.row) for n in numbers}
        digests = {n: blake3(payload).digest() for n, payload in payloads.items()}
        blobs = connection.execute(
            insert(BlobRow).returning(BlobRow.id, sort_by_parameter_order=True),
            [
                {
                    "tenant": scope.tenant,
                    "key": uuid.uuid4().hex,
                    "digest": digests[n],
                    "size_bytes": len(payloads[n]),
                    "line_count": 1,
                    "staged_at": now,
                    "published_at": now,
                }
                for n in numbers
            ],
        ).scalars()
        blob_ids = list(blobs)
        frame = {"number": 0, "byte_offset": 0, "first_line": 1, "codec": "none"}
        connection.execute(
            insert(FrameRow),
            [
                {"tenant": scope.tenant, "blob_id": i, "data": payload, "size_bytes": len(payload), **frame}
                for i, payload in zip(blob_ids, payloads.values(), strict=True)
            ],
        )
        about = {
            "kind": "json",
            "content_type": "application/json",
            "size_bytes": 20,
            "preview": "[…]",
            "tokens": 5,
            "shape": '"array(1) of object(1 keys)"',
            "created_at": now,
        }
        artifacts = connection.execute(
            insert(ArtifactRow).returning(ArtifactRow.id, sort_by_parameter_order=True),
            [
                {
                    "public_id": f"art_{uuid.uuid4()}",
                    "blob_id": blob,
                    "step": before + n + 1,
                    **owner,
                    **about,
                    **_made(n),
                }
                for n, blob in zip(numbers, blob_ids, strict=True)
            ],
        ).scalars()
        bound = list(zip(numbers, artifacts, strict=True))
        step = {"kind": "output", "tool": "rows", "route": "artifact", "reason": "headroom", "created_at": now}
        step |= {"content": "what the model read of it", "tokens": 10, "original_tokens": 1_000, "detail": "{}"}
        connection.execute(
            insert(LedgerRow),
            [
                {
                    "step": before + n + 1,
                    "call_id": f"call {n}",
                    "call_digest": ledger.digest(f"call {n}"),
                    "content_digest": digests[n],
                    "artifact_id": artifact,
                    **owner,
                    **step,
                }
                for n, artifact in bound
            ],
        )
        # A quarter came from tools and has names, and a quarter code made and named; nothing stands for the others.
        named = [(n, i, ("rows_", "page_"), "output") for n, i in bound if n % 4 == 0]
        kept = [(n, i) for n, i in bound if n % 4 == 1]
        named += [(n, i, ("kept_",), "run") for n, i in kept]
        what = {"path": "[]", "shape": "array(1) of object(1 keys)"}
        connection.execute(
            insert(VariableRow),
            [
                {"name": f"{name}{n}", "origin": by, "artifact_id": artifact, "step": before + n + 1, **owner, **what}
                for n, artifact, names, by in named
                for name in names
            ],
        )
        connection.execute(
            insert(NameRow),
            [
                {
                    "name": f"kept_{n}",
                    "kind": "exact",
                    "artifact_id": artifact,
                    "digest": blake3(b"x" * 10).digest(),
                    "size_bytes": 10,
                    "data": packed,
                    "step": before + n + 1,
                    **owner,
                }
                for n, artifact in kept
            ],
        )
    moved = {"next_step": before + stored + 1, "pending_tokens": SessionRow.pending_tokens + 10 * stored}
    connection.execute(update(SessionRow).where(SessionRow.id == scope.row).values(moved))
    while not sums.keep(connection, scope.row, before + stored):
        pass


def _made(number: int) -> dict[str, str | None]:
    """Who made an artifact, and its name: of many the same, of many another one."""
    match number % 4:
        case 0:
            return {"origin": "output", "name": "page.pdf"}
        case 1:
            return {"origin": "run", "name": None}
        case 2:
            return {"origin": "host", "name": f"report {number}" if number % 8 == 2 else "report"}
        case _:
            figure = number % 8 == 3
            name = f"plot_{number}" if figure else f"out/{number}.csv"
            return {"origin": "run", "name": name, "kind": "image" if figure else "text"}


def analyse(engine: byref.Engine) -> None:
    """Let the database know how much there is, as one that has served for a while does."""
    database = engine._database
    if database.dialect == "postgresql":
        database.write(lambda connection: connection.exec_driver_sql("ANALYZE"))


_numbers = count()


def _fresh() -> str:
    return json.dumps([{"fresh": next(_numbers)}, *ROWS])


def _replied(tool: str, **arguments: object) -> Callable[[byref.Session], object]:
    def call(session: byref.Session) -> None:
        reply = session.call(tool, arguments, call_id=uuid.uuid4().hex)
        assert not reply.is_error, reply.content

    return call


def _refused(tool: str, **arguments: object) -> Callable[[byref.Session], object]:
    def call(session: byref.Session) -> None:
        assert session.call(tool, arguments, call_id=uuid.uuid4().hex).is_error

    return call


def _raised(work: Callable[[], object]) -> None:
    with suppress(byref.ConfigurationError):
        work()
        raise AssertionError


PAGE = 20
LISTS: dict[str, Callable[[byref.Engine, str], Any]] = {
    "sessions, a page": lambda engine, tenant: engine.sessions(tenant, limit=PAGE),
    "sessions, a later page": lambda engine, tenant: engine.sessions(tenant, after="chat 50", limit=PAGE),
}
CALLS: dict[str, Callable[[byref.Session], Any]] = {
    "process, 2 KB": lambda session: session.process(_fresh()[:2_000], tool="t", call_id=uuid.uuid4().hex),
    "process, 80 KB": lambda session: session.process(_fresh(), tool="rows", call_id=uuid.uuid4().hex),
    "artifact_read": _replied("artifact_read", artifact_id="data"),
    "artifact_grep": _replied("artifact_grep", artifact_id="data", pattern="user 7"),
    "store_artifact": lambda session: session.store_artifact(_fresh()),
    "run": lambda session: session.run("1+1"),
    "code_interpreter": _replied("code_interpreter", code="1+1"),
    "code_interpreter, a value kept": _replied("code_interpreter", code="made = {1: len(data)}"),
    "explain, an old call": lambda session: session.explain("call 7"),
    "usage": lambda session: session.usage(),
    "reminder": lambda session: session.reminder(),
    "record_usage": lambda session: session.record_usage(byref.Usage(input_tokens=9, output_tokens=9), context=False),
    "context_tokens": lambda session: session.context_tokens(),
    "list_artifacts": _replied("list_artifacts"),
    "list_artifacts, by a prefix": _replied("list_artifacts", prefix="rep"),
    "list_artifacts, by an id's prefix": _replied("list_artifacts", prefix="art_7", limit=2),
    "process, the same again": lambda session: session.process(ROWS, tool="data", call_id=uuid.uuid4().hex),
    "code_interpreter, a name that is not there": _refused("code_interpreter", code="nothing"),
    "artifact_read, a name that is not there": _refused("artifact_read", artifact_id="nothing"),
    "ledger, a page": lambda session: session.ledger(after=50, limit=20),
    "variables, a page": lambda session: session.variables(after="data", limit=20),
    "artifacts, a page": lambda session: session.artifacts(limit=20),
    "variable": lambda session: session.variable("data"),
    "get_artifact": lambda session: session.get_artifact("art_none"),
    "get_artifact, by a name": lambda session: session.get_artifact("report"),
    "get_artifact, by a name of outputs": lambda session: session.get_artifact("page.pdf"),
    "variable, that is not there": lambda session: _raised(lambda: session.variable("nothing")),
    "history, a page": lambda session: session.history(after=50, limit=20),
    # Last: it forgets what code has bound.
    "reset": lambda session: session.reset(),
}
