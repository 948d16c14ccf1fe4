"""Deletion: how long another conversation's small outputs take while much is deleted, expires or is given back to the disk.

The database has 400,000 artifacts, inserted by SQL: half of them in 2,000 conversations of one tenant, a quarter each in one
conversation that is deleted and in one that ends. The small outputs, 1 KB each and not stored, come from a process of its own, one
after the other; a figure is the longest that one of them took between the beginning and the end of the work. How long they take
while nothing is deleted is measured first: what a commit costs on this machine is in all figures. SQLite has one writer, so there
the rest is how long a step of the deletion holds it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, text, update

import byref
from benchmarks import databases
from benchmarks.results import Figure, interleaved, median, percentile, ratio
from benchmarks.waiting import Waits, waits
from byref.db.tables import ArtifactRow, SessionRow

MANY, SHORT_MANY = 400_000, 4_000
FEW = 100
SIZES, SHORT_SIZES = (200, 4_096), (200,)
RUNS, SHORT_RUNS = 9, 3
CROWD = 2_000
"""Conversations of the tenant that is deleted."""
IDLE_SECONDS = 3
TARGET = "<= 100 ms at most"
SWEEP_TARGET = "<= 1.5x"


def main(short: bool = False) -> Iterator[Figure]:
    """Yield what a sweep takes that finds nothing, and the longest small output during each kind of deletion, on each database."""
    many, runs = (SHORT_MANY, SHORT_RUNS) if short else (MANY, RUNS)
    for kind in databases.KINDS:
        for size in SHORT_SIZES if short else SIZES:
            where = f"{size:,} bytes, {kind}"
            with (
                databases.database(kind) as few,
                databases.database(kind) as url,
                byref.Engine(few, create=True) as small,
                byref.Engine(url, create=True) as engine,
            ):
                fill(small, "few", 1, FEW, size)
                filled(engine, many, size)
                yield _sweeps(f"a sweep that finds nothing, {where}", small, engine, runs)
                idle = waits(url, lambda: time.sleep(IDLE_SECONDS))
                yield _waited(f"nothing is deleted, {where}", idle, _speed(idle))
                for name, act in acts(engine).items():
                    if name == EXPIRING:
                        _expire(engine, many // 20)
                    before = _artifacts(engine)
                    waited = waits(url, act)
                    went = before - _artifacts(engine)
                    done = f"{went:,} artifacts went in" if went else "it took"
                    yield _waited(
                        f"{name}, {where}", waited, f"{done} {waited.seconds:.1f} s; {_speed(waited)}", TARGET
                    )
                assert _artifacts(engine) == 0


def _sweeps(step: str, small: byref.Engine, large: byref.Engine, runs: int) -> Figure:
    small.sweep(), large.sweep()
    times = interleaved(runs, small=small.sweep, large=large.sweep)
    few, many = (median(times[name]) * 1_000 for name in ("small", "large"))
    against = ratio(times["large"], times["small"])
    return Figure(step, many, "ms", f"where {FEW} artifacts are, {few:.2f} ms", against, SWEEP_TARGET)


def _waited(step: str, waited: Waits, note: str, target: str = "") -> Figure:
    return Figure(f"the longest while {step}", max(waited.took) * 1_000, "ms", target=target, note=note)


def _speed(waited: Waits) -> str:
    if len(waited.took) == 1:
        return "one small output meanwhile"
    usual, rare = (percentile(waited.took, part) * 1_000 for part in (50, 99))
    return f"{len(waited.took):,} small outputs meanwhile, p50 {usual:.1f} ms, p99 {rare:.1f} ms"


def _artifacts(engine: byref.Engine) -> int:
    return engine._database.read(lambda connection: connection.execute(select(func.count(ArtifactRow.id))).scalar_one())


def filled(engine: byref.Engine, many: int, size: int) -> None:
    """Have as many artifacts: a half of a tenant's in many conversations, a quarter each of one that is deleted and one that ends."""
    fill(engine, "crowd", min(CROWD, many // 40), many // 2, size)
    fill(engine, "deleted", 1, many // 4, size)
    fill(engine, "ended", 1, many // 4, size)


EXPIRING = "a sweep takes what expired"


def acts(engine: byref.Engine) -> dict[str, Callable[[], object]]:
    """What is measured, in this order: what one leaves the next has."""
    gives_back = {"a sweep gives space back": lambda: engine.sweep()} if engine._database.dialect == "sqlite" else {}
    return {
        EXPIRING: lambda: engine.sweep(),
        "a conversation is deleted": lambda: engine.delete_session("chat 0", tenant="deleted"),
        "a conversation ends": lambda: engine.session("chat 0", tenant="ended").end(),
        "a tenant is deleted": lambda: engine.delete_tenant("crowd"),
        **gives_back,
    }


def _expire(engine: byref.Engine, count: int) -> None:
    """Have artifacts expire, by one statement after the other: it is not what is measured, and holds SQLite for seconds."""
    gone = datetime.now(UTC) - timedelta(hours=1)

    def work(connection: Connection, start: int) -> None:
        some = select(ArtifactRow.id).where(ArtifactRow.tenant == "ended").order_by(ArtifactRow.id).offset(start)
        expired = {"ttl_seconds": 1.0, "expires_at": gone}
        here = ArtifactRow.id.in_(some.limit(_EXPIRED))
        connection.execute(update(ArtifactRow).where(here).values(expired))

    for start in range(0, count, _EXPIRED):
        engine._database.write(lambda connection, start=start: work(connection, start))  # type: ignore[misc]


_EXPIRED = 100
"""Artifacts of one statement that makes them expire."""


def fill(engine: byref.Engine, tenant: str, sessions: int, artifacts: int, size: int) -> None:
    """Insert what so many outputs leave, spread over the conversations of a tenant: rows made by SQL itself."""
    for number in range(sessions):
        engine.session(f"chat {number}", tenant=tenant)
    engine._database.write(lambda connection: _insert(connection, tenant, sessions, artifacts, size))
    if engine._database.dialect == "postgresql":
        with engine._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")


def _insert(connection: Connection, tenant: str, sessions: int, artifacts: int, size: int) -> None:
    is_sqlite = connection.dialect.name == "sqlite"
    of = {"tenant": tenant, "now": datetime.now(UTC), "sessions": sessions, "count": artifacts, "size": size}
    numbers = "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < :count)"
    if is_sqlite:
        digest, data, key, name = "randomblob(32)", "randomblob(:size)", "hex(randomblob(16))", "hex(randomblob(8))"
    else:
        numbers = "WITH numbers(i) AS (SELECT generate_series(0, :count - 1))"
        digest = "sha256(convert_to(CAST(:tenant AS VARCHAR(512)) || ' ' || i, 'UTF8'))"
        data = "decode(repeat(md5(random()::text), :size / 16 + 1), 'hex')"
        key, name = "gen_random_uuid()", "gen_random_uuid()"
    steps = {
        "blobs": f"""INSERT INTO byref_blobs (tenant, key, digest, size_bytes, line_count, staged_at, published_at,
            may_be_unused) {numbers} SELECT CAST(:tenant AS VARCHAR(512)), {key}, {digest}, :size, 1, :now, :now, false FROM numbers""",
        "frames": f"""INSERT INTO byref_frames (blob_id, number, tenant, byte_offset, first_line, size_bytes, codec, data)
            SELECT id, 0, tenant, 0, 1, :size, 'none', {data} FROM byref_blobs WHERE tenant = :tenant""",
        "artifacts": f"""WITH placed AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM byref_blobs
                WHERE tenant = :tenant),
            chats AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM byref_sessions WHERE tenant = :tenant)
            INSERT INTO byref_artifacts (public_id, tenant, session_id, step, blob_id, origin, kind, content_type,
                size_bytes, preview, tokens, shape, created_at, kept)
            SELECT 'art_' || {name}, :tenant, chats.id, placed.place / :sessions + 1, placed.id, 'output', 'json',
                'application/json', :size, 'rows', 5, '"array(1) of object(1 key)"', :now, false
            FROM placed JOIN chats ON chats.place = placed.place % :sessions""",
        "ledger": """INSERT INTO byref_ledger (tenant, session_id, step, kind, tool, content_digest, route, reason, content,
                tokens, original_tokens, artifact_id, is_error, detail, created_at)
            SELECT tenant, session_id, step, 'output', 'rows', :digest, 'variables', 'headroom', 'what was read of it', 10,
                1000, id, false, '{}', :now FROM byref_artifacts WHERE tenant = :tenant""",
        "variables": """INSERT INTO byref_variables (tenant, session_id, name, artifact_id, path, shape, origin, kind, step)
            SELECT tenant, session_id, 'var_step_' || step, id, '[]', 'array(1)', 'output', 'value', step
            FROM byref_artifacts WHERE tenant = :tenant""",
    }
    for statement in steps.values():
        given = {
            name: value for name, value in {**of, "digest": uuid.uuid4().bytes * 2}.items() if f":{name}" in statement
        }
        typed = [bindparam("now", type_=ArtifactRow.created_at.type)] if "now" in given else []
        connection.execute(text(statement).bindparams(*typed), given)
    taken = func.coalesce(
        select(func.max(ArtifactRow.step)).where(ArtifactRow.session_id == SessionRow.id).scalar_subquery(), 0
    )
    moved: Any = {"next_step": taken + 1, "pending_tokens": taken * 10}
    connection.execute(update(SessionRow).where(SessionRow.tenant == tenant).values(moved))
