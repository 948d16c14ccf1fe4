"""Every wrong state is refused by the database itself, whatever the code above it does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from byref.db import tables
from byref.db.database import Database

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Rows:
    """Valid rows, to be made wrong in one place each."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.number = 0

    def add(self, row: type[tables.Base], **values: Any) -> int:
        return self.connection.execute(insert(row).values(**values).returning(*row.__table__.primary_key)).first()[0]

    def session(self, tenant: str = "acme", **values: Any) -> int:
        self.number += 1
        return self.add(
            tables.SessionRow, **{"tenant": tenant, "name": f"chat-{self.number}", "created_at": NOW, **values}
        )

    def blob(self, tenant: str = "acme", **values: Any) -> int:
        self.number += 1
        default = {"tenant": tenant, "key": f"key-{self.number}", "digest": b"d" * 32, "size_bytes": 1, "line_count": 1}
        return self.add(tables.BlobRow, **{**default, "staged_at": NOW, **values})

    def frame(self, blob: int, **values: Any) -> int:
        default = {"blob_id": blob, "number": 0, "tenant": "acme", "byte_offset": 0, "first_line": 1, "size_bytes": 1}
        return self.add(tables.FrameRow, **{**default, "codec": "none", "data": b"x", **values})

    def artifact(self, session: int, blob: int, **values: Any) -> int:
        self.number += 1
        default = {"public_id": f"art_{self.number}", "tenant": "acme", "session_id": session, "blob_id": blob}
        described = {
            "origin": "output",
            "kind": "json",
            "content_type": "application/json",
            "tokens": 1,
            "shape": "{}",
        } | {
            "size_bytes": 2,
            "preview": "{}",
        }
        return self.add(tables.ArtifactRow, **{**default, **described, "created_at": NOW, **values})

    def variable(self, session: int, artifact: int, **values: Any) -> int:
        default = {"tenant": "acme", "session_id": session, "name": "users", "artifact_id": artifact, "path": "[]"}
        return self.add(tables.VariableRow, **{**default, "shape": "{}", "origin": "output", "step": 1, **values})

    def step(self, session: int, kind: str, **values: Any) -> int:
        default = {"tenant": "acme", "session_id": session, "step": 1, "kind": kind, "tokens": 1, "detail": "{}"}
        model_read = {"tool": "search", "content": "…", "content_digest": b"c" * 32}
        decided = {"route": "inline", "reason": "floor", "original_tokens": 1}
        by_kind = {"output": {**model_read, **decided}, "reply": model_read}.get(kind, {})
        return self.add(tables.LedgerRow, **{**default, **by_kind, "created_at": NOW, **values})

    def run(self, session: int, **values: Any) -> int:
        default = {"tenant": "acme", "session_id": session, "language": "python", "code": "1", "stdout": ""}
        spent = {"wall_ms": 1.5, "cpu_ms": 1.5, "peak_bytes": 1, "limits": "{}"}
        return self.add(tables.RunRow, **{**default, **spent, "created_at": NOW, **values})

    def tombstone(self, session: int, **values: Any) -> int:
        default = {"public_id": "art_gone", "tenant": "acme", "session_id": session, "shape": "{}", "variables": "[]"}
        default |= {"origin": "output", "content_type": "text/plain", "size_bytes": 1}
        return self.add(tables.TombstoneRow, **{**default, "expired_at": NOW, **values})

    def item(self, session: int, **values: Any) -> int:
        default = {"tenant": "acme", "session_id": session, "list": "chat", "number": 0, "text": "{}"}
        return self.add(tables.ItemRow, **{**default, "created_at": NOW, **values})


def everything(rows: Rows) -> dict[str, int]:
    session, blob = rows.session(), rows.blob(published_at=NOW)
    artifact = rows.artifact(session, blob)
    rows.frame(blob)
    return {
        "session": session,
        "blob": blob,
        "artifact": artifact,
        "variable": rows.variable(session, artifact),
        "output": rows.step(session, "output", step=1, call_digest=b"1" * 32, artifact_id=artifact),
        "reply": rows.step(session, "reply", step=2, call_digest=b"1" * 32),
        "reply_of_a_later_turn": rows.step(session, "reply", step=5, call_digest=b"1" * 32),
        "usage": rows.step(session, "usage", step=3, call_digest=b"1" * 32),
        "compaction": rows.step(session, "compaction", step=4),
        "resolution": rows.step(session, "resolution", step=6, call_digest=b"1" * 32, arguments="{}"),
        "run": rows.run(session, step=2),
        "host_run": rows.run(session),
        "another_host_run": rows.run(session),
        "tombstone": rows.tombstone(session),
        "item": rows.item(session),
        "next_item": rows.item(session, number=1),
        "item_of_another_list": rows.item(session, list="files"),
    }


def test_right_states_are_taken(database: Database) -> None:
    database.write(lambda connection: everything(Rows(connection)))


WRONG = {
    "the same session name twice": lambda r, h: (r.session(name="same"), r.session(name="same")),
    "a step counter below 1": lambda r, h: r.session(next_step=0),
    "a negative context": lambda r, h: r.session(context_base=-1),
    "negative pending tokens": lambda r, h: r.session(pending_tokens=-1),
    "a base with less than nothing written by the model": lambda r, h: r.session(base_output_tokens=-1),
    "a calibration by nothing": lambda r, h: r.session(calibration_estimated=0),
    "a calibration to nothing": lambda r, h: r.session(calibration_reported=0),
    "a context window of nothing": lambda r, h: r.session(context_window=0),
    "the same bytes published twice": lambda r, h: r.blob(published_at=NOW),
    "the same object key twice": lambda r, h: (r.blob(key="k"), r.blob(key="k")),
    "a blob of negative size": lambda r, h: r.blob(size_bytes=-1),
    "a frame of no blob": lambda r, h: r.frame(10**9),
    "a frame of another tenant": lambda r, h: r.frame(h["blob"], number=1, tenant="other"),
    "a frame twice": lambda r, h: r.frame(h["blob"]),
    "an empty frame": lambda r, h: r.frame(h["blob"], number=1, size_bytes=0),
    "a frame before the first line": lambda r, h: r.frame(h["blob"], number=1, first_line=0),
    "an unknown codec": lambda r, h: r.frame(h["blob"], number=1, codec="lzma"),
    "an artifact in another tenant's session": lambda r, h: r.artifact(r.session("other"), h["blob"]),
    "an artifact with another tenant's blob": lambda r, h: r.artifact(h["session"], r.blob("other")),
    "an artifact without bytes": lambda r, h: r.artifact(h["session"], 10**9),
    "a public id twice": lambda r, h: [r.artifact(h["session"], h["blob"], public_id="art_x") for _ in "12"],
    "an unknown kind of artifact": lambda r, h: r.artifact(h["session"], h["blob"], kind="audio"),
    "an unknown origin": lambda r, h: r.artifact(h["session"], h["blob"], origin="guess"),
    "a variable name twice": lambda r, h: r.variable(h["session"], h["artifact"]),
    "a variable on another session's artifact": lambda r, h: r.variable(r.session(), h["artifact"]),
    "a variable of another tenant": lambda r, h: r.variable(h["session"], h["artifact"], name="v", tenant="other"),
    "a variable on nothing": lambda r, h: r.variable(h["session"], None, name="v"),
    "a variable revision below 1": lambda r, h: r.variable(h["session"], h["artifact"], name="v", revision=0),
    "a step twice": lambda r, h: r.step(h["session"], "usage", step=1),
    "a step of another tenant": lambda r, h: r.step(h["session"], "usage", step=9, tenant="other"),
    "a step before the first": lambda r, h: r.step(h["session"], "usage", step=0),
    "an unknown kind of step": lambda r, h: r.step(h["session"], "guess", step=9),
    "an unknown route": lambda r, h: r.step(h["session"], "output", step=9, route="guess"),
    "an output without a route": lambda r, h: r.step(h["session"], "output", step=9, route=None),
    "an output without a reason": lambda r, h: r.step(h["session"], "output", step=9, reason=None),
    "an output without its original tokens": lambda r, h: r.step(h["session"], "output", step=9, original_tokens=None),
    "an output without a tool": lambda r, h: r.step(h["session"], "output", step=9, tool=None),
    "an output that nobody read": lambda r, h: r.step(h["session"], "output", step=9, content=None),
    "an output without a digest": lambda r, h: r.step(h["session"], "output", step=9, content_digest=None),
    "a reply without content": lambda r, h: r.step(h["session"], "reply", step=9, content=None),
    "a reply with a route": lambda r, h: r.step(h["session"], "reply", step=9, route="inline"),
    "a reply with a reason": lambda r, h: r.step(h["session"], "reply", step=9, reason="floor"),
    "usage with content": lambda r, h: r.step(h["session"], "usage", step=9, content="…"),
    "usage with a route": lambda r, h: r.step(h["session"], "usage", step=9, route="inline"),
    "usage of a tool": lambda r, h: r.step(h["session"], "usage", step=9, tool="search"),
    "negative tokens": lambda r, h: r.step(h["session"], "usage", step=9, tokens=-1),
    "an output twice": lambda r, h: r.step(h["session"], "output", step=9, call_digest=b"1" * 32),
    "usage of a request twice": lambda r, h: r.step(h["session"], "usage", step=9, call_digest=b"1" * 32),
    "a resolution with content": lambda r, h: r.step(h["session"], "resolution", step=9, content="…"),
    "a step on no artifact": lambda r, h: r.step(h["session"], "output", step=9, artifact_id=10**9),
    "a run of another tenant": lambda r, h: r.run(h["session"], tenant="other"),
    "two runs of one step": lambda r, h: r.run(h["session"], step=2),
    "a run in an unknown language": lambda r, h: r.run(h["session"], language="perl"),
    "a tombstone of another tenant": lambda r, h: r.tombstone(h["session"], public_id="art_y", tenant="other"),
    "a tombstone twice": lambda r, h: r.tombstone(h["session"]),
    "an item of another tenant": lambda r, h: r.item(h["session"], number=2, tenant="other"),
    "a place in a list twice": lambda r, h: r.item(h["session"]),
    "an item before the first": lambda r, h: r.item(h["session"], number=-1),
}


def test_wrong_states_are_refused(database: Database) -> None:
    here = database.write(lambda connection: everything(Rows(connection)))
    taken = []
    for name, wrong in WRONG.items():
        try:
            database.write(lambda connection, wrong=wrong: wrong(Rows(connection), here))
        except IntegrityError:
            continue
        taken.append(name)
    assert taken == []


def test_bytes_in_use_cannot_be_deleted(database: Database) -> None:
    here = database.write(lambda connection: everything(Rows(connection)))
    with pytest.raises(IntegrityError):
        database.write(lambda c: c.execute(delete(tables.BlobRow).where(tables.BlobRow.id == here["blob"])))


def test_deleting_a_session_takes_all_of_it_and_leaves_the_blob_to_the_sweeper(database: Database) -> None:
    database.write(lambda connection: everything(Rows(connection)))

    def work(connection: Connection) -> dict[str, int]:
        connection.execute(delete(tables.SessionRow))
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables.Base.metadata.sorted_tables
        }

    left = database.write(work)
    assert left.pop("byref_compatibility") == 1  # of the database, not of a session
    assert {name: count for name, count in left.items() if count} == {"byref_blobs": 1, "byref_frames": 1}


def test_deleting_an_artifact_takes_its_variables_and_keeps_the_ledger(database: Database) -> None:
    here = database.write(lambda connection: everything(Rows(connection)))

    def work(connection: Connection) -> tuple[int, int | None]:
        connection.execute(delete(tables.ArtifactRow))
        variables = connection.execute(select(func.count()).select_from(tables.VariableRow)).scalar_one()
        output = select(tables.LedgerRow.artifact_id).where(tables.LedgerRow.id == here["output"])
        return variables, connection.execute(output).scalar_one()

    assert database.write(work) == (0, None)


@pytest.mark.parametrize("kind", ["session", "blob", "artifact"])
def test_the_id_of_a_deleted_row_never_comes_back(database: Database, kind: str) -> None:
    def work(connection: Connection) -> tuple[int, int]:
        rows = Rows(connection)

        def make() -> int:
            if kind == "artifact":
                return rows.artifact(rows.session(), rows.blob())
            return getattr(rows, kind)()

        first = make()
        for row in (tables.ArtifactRow, tables.SessionRow, tables.BlobRow):
            connection.execute(delete(row))
        return first, make()

    first, second = database.write(work)
    assert second != first


def test_a_staged_blob_may_hold_the_same_bytes_as_a_published_one(database: Database) -> None:
    def work(connection: Connection) -> None:
        rows = Rows(connection)
        rows.blob(published_at=NOW)
        rows.blob()
        staged = rows.blob()
        with pytest.raises(IntegrityError), connection.begin_nested():
            connection.execute(update(tables.BlobRow).where(tables.BlobRow.id == staged).values(published_at=NOW))
        rows.blob("other", published_at=NOW)

    database.write(work)
