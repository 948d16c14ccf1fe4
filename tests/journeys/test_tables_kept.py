"""Tables that were read of texts and documents, where what is stored of them changes: deletion, downgrades, hosts' transactions."""

from __future__ import annotations

import asyncio
import io
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
from s3server import S3
from sqlalchemy import create_engine
from sqlalchemy.orm import Session as HostSession

import byref
from byref import Engine, Policy, db
from byref.stores import ObjectStore
from byref_sandbox import Sandbox

FRAME = pd.DataFrame(
    {"id": range(3_000), "city": ["Oslo", "Rome", "Lima"] * 1_000, "code": [f"{n:05d}" for n in range(3_000)]}
)
ROWS = FRAME.to_dict("records")
TEXT = FRAME.to_csv(index=False)


def parquet() -> bytes:
    file = io.BytesIO()
    FRAME.to_parquet(file)
    return file.getvalue()


def test_a_table_is_text_after_a_downgrade_and_a_new_one_is_a_table_after_the_upgrade(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'byref.db'}"
    with Engine(url) as engine:
        before = engine.session("s").process(TEXT, tool="rows").variables[0]
        assert before.value() == ROWS
    db.downgrade(url, "0005")
    db.upgrade(url)
    with Engine(url) as engine:
        session = engine.session("s")
        assert session.variable("rows").value() == TEXT
        assert session.process(TEXT + "3000,Rome,03000\n", tool="more").variables[0].value()[-1]["code"] == "03000"


@pytest.mark.parametrize("kept", ["document", "records"])
def test_one_of_a_document_and_its_records_goes_and_the_other_stays(engine: Engine, tenant: str, kept: str) -> None:
    session = engine.session("s", tenant=tenant)
    records, whole = session.process(parquet(), tool="rows").artifacts
    gone, stays = (whole, records) if kept == "records" else (records, whole)
    assert session.delete_artifact(gone.id)
    [left] = session.artifacts()
    assert left.id == stays.id and left.value == (ROWS if kept == "records" else parquet())
    if kept == "records":
        assert session.run("len(rows), rows[-1]['code']").value == [3_000, "02999"]


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("kind", ["text", "document"])
def test_tables_belong_to_the_hosts_transaction(shared_url: str, sandbox: Sandbox, kind: str, commits: bool) -> None:
    database = create_engine(shared_url)
    with Engine(shared_url, interpreter=sandbox) as engine, HostSession(database) as host:
        session = engine.session("s", db=host)
        [variable] = session.process(TEXT if kind == "text" else parquet(), tool="rows").variables
        assert variable.value() == ROWS
        (host.commit if commits else host.rollback)()
        left = [variable.name for variable in engine.session("s").variables()]
        assert left == (["rows"] if commits else [])
    database.dispose()


@pytest.mark.parametrize("knob", ["max_session_bytes", "max_artifact_bytes"])
def test_a_document_is_kept_where_there_is_no_room_for_its_records(engine: Engine, tenant: str, knob: str) -> None:
    room = len(parquet()) + 1_000
    session = engine.session("s", tenant=tenant, policy=Policy(**{knob: room}))
    results = [session.process(parquet(), tool="rows", call_id="c") for _ in range(2)]
    assert results[0].content == results[1].content
    [artifact] = session.artifacts()
    assert (results[0].route, artifact.value) == ("placeholder", parquet())
    assert "its tables are left out" in str(session.explain("c"))
    assert session.process(TEXT[:5_000], tool="lines").step is not None  # the turn goes on
    tight = engine.session("tight", tenant=tenant, policy=Policy(**{knob: 1_000}))
    result = tight.process(parquet(), tool="rows")
    assert (result.artifacts, tight.artifacts()) == ([], []) and knob in str(result.content)


@pytest.mark.quick_cases(1)
def test_another_engine_on_object_storage_answers_and_reads_them(s3: S3, shared_url: str, sandbox: Sandbox) -> None:
    def engine() -> Engine:
        return Engine(shared_url, blobs=ObjectStore(f"s3://{bucket}", **s3.settings), interpreter=sandbox)

    bucket = s3.bucket()
    given = {"rows": parquet(), "lines": TEXT}
    with engine() as first:
        session = first.session("s")
        answers = {tool: session.process(output, tool=tool, call_id=tool) for tool, output in given.items()}
    with engine() as second:
        session = second.session("s")
        for tool, output in given.items():
            again = session.process(output, tool=tool, call_id=tool)
            assert (again.content, again.step) == (answers[tool].content, answers[tool].step)
            assert session.variable(tool).value() == ROWS
        assert session.run("rows == lines, len(df(lines))").value == [True, 3_000]
        assert b"<Key>" in s3.request("GET", f"/{bucket}")[2]
        assert session.delete_artifact(answers["rows"].artifacts[1].id)
        assert session.run("rows[-1]['code']").value == "02999"
        second.delete_session("s")
        second.sweep(grace=timedelta(0))
    assert b"<Key>" not in s3.request("GET", f"/{bucket}")[2]


def test_documents_are_read_under_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with byref.AsyncEngine(f"sqlite:///{tmp_path / 'byref.db'}") as engine:
            session = await engine.session("s")
            first, second = await asyncio.gather(
                session.process(parquet(), tool="rows"), session.process(TEXT, tool="lines")
            )
            assert {one.variables[0].shape for one in (first, second)} == {"array(3000) of object(3 keys)"}
            assert (await session.run("rows[7] == lines[7], len(rows)")).value == [True, 3_000]

    asyncio.run(main())
