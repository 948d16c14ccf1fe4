"""Growth: each call of a conversation that holds 100,000 steps, artifacts and names, against one that holds 100 of each.

Both are in one database, filled by SQL; the calls take turns. What a call takes may not grow with what is stored.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import zstandard
from blake3 import blake3
from sqlalchemy import Connection, insert, update

import byref
from benchmarks import databases
from benchmarks.results import Figure, interleaved, median, ratio
from byref import ledger
from byref.db import sums
from byref.db.tables import ArtifactRow, BlobRow, FrameRow, LedgerRow, NameRow, SessionRow, VariableRow
from byref.policy import DEFAULT_TOOLS

FEW, MANY = 100, 100_000
SHORT_MANY = 5_000
RUNS, SHORT_RUNS = 15, 3
BATCH = 5_000
TARGET = "<= 1.5x"
POLICY = byref.Policy(max_session_bytes=10 << 30, tools=(*DEFAULT_TOOLS, "list_artifacts"))
ROWS = [{"id": n, "name": f"user {n}", "city": "Oslo"} for n in range(1_600)]
"""80 KB, with what `_fresh` adds."""


def main(short: bool = False) -> Iterator[Figure]:
    """Yield what each call takes on SQLite and PostgreSQL, and how often that of the small conversation it is."""
    many, runs = (SHORT_MANY, SHORT_RUNS) if short else (MANY, RUNS)
    for database in databases.KINDS:
        with databases.database(database) as url, byref.Engine(url, create=True, policy=POLICY) as engine:
            small, large = (filled(engine, stored) for stored in (FEW, many))
            analyse(engine)
            for name, call in CALLS.items():
                yield _compared(f"{name}, {database}", call, small, large, runs)


def _compared(
    step: str, call: Callable[[byref.Session], object], small: byref.Session, large: byref.Session, runs: int
) -> Figure:
    call(small), call(large)
    times = interleaved(runs, small=lambda: call(small), large=lambda: call(large))
    few, many = median(times["small"]) * 1_000, median(times["large"]) * 1_000
    against = ratio(times["large"], times["small"])
    return Figure(step, many, "ms", f"where {FEW} of each are stored, {few:.2f} ms", against, TARGET)


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
            "origin": "output",
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
                {"public_id": f"art_{uuid.uuid4()}", "blob_id": blob, "step": before + n + 1, **owner, **about}
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
        # Every other artifact has a name that code gave it: what no variable stands for is stored as well.
        names = [(n, artifact) for n, artifact in bound if n % 2]
        what = {"path": "[]", "shape": "array(1) of object(1 keys)", "origin": "run"}
        connection.execute(
            insert(VariableRow),
            [
                {"name": f"{name}{n}", "artifact_id": artifact, "step": before + n + 1, **owner, **what}
                for n, artifact in names
                for name in ("rows_", "kept_")
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
                for n, artifact in names
            ],
        )
    moved = {"next_step": before + stored + 1, "pending_tokens": SessionRow.pending_tokens + 10 * stored}
    connection.execute(update(SessionRow).where(SessionRow.id == scope.row).values(moved))
    while not sums.keep(connection, scope.row, before + stored):
        pass


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
    "ledger, a page": lambda session: session.ledger(after=50, limit=20),
    "variables, a page": lambda session: session.variables(after="data", limit=20),
    "artifacts, a page": lambda session: session.artifacts(limit=20),
    "variable": lambda session: session.variable("data"),
    "get_artifact": lambda session: session.get_artifact("art_none"),
}
