"""The interpreter on a Dask cluster of several worker processes."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import hostile_worker
import pytest
from clusters import ROWS, a_client, a_cluster, name, pids, sandboxes, sent, until
from distributed import Client, LocalCluster
from process_table import settled
from sqlalchemy import create_engine

from byref import ConfigurationError, Engine, Policy
from byref.adapters import dask
from byref.adapters.dask import DaskInterpreter, DataSource
from byref.adapters.dask import cluster as dask_cluster
from byref_sandbox import Data, Limits, SandboxUnavailable, Usage

# Dask keeps sockets of workers that were killed until they are collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Two worker processes; one in a quick run, which takes no test of where sessions go: each starts sandboxes of its own."""
    with a_cluster(1 if request.config.getoption("markexpr") == "not slow" else 2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    """What looks at the workers."""
    with a_client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def interpreter(cluster: LocalCluster) -> Iterator[DaskInterpreter]:
    """An interpreter that was told of no database."""
    with DaskInterpreter(cluster.scheduler_address) as interpreter:
        yield interpreter.start()


@pytest.fixture(scope="module")
def engine(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose workers read its database."""
    url = f"sqlite:///{tmp_path_factory.mktemp('dask')}/byref.db"
    with (
        DaskInterpreter(cluster.scheduler_address, source=DataSource(url)) as interpreter,
        Engine(url, interpreter=interpreter) as engine,
    ):
        yield engine


CODE = [
    "sum(row['v'] for row in rows), len(rows)",
    "df('rows').groupby('city').v.sum().round(2)",
    "table = df('rows').head(3)\ntable",
    "type(table).__name__, table.id.sum()",
    "def double(x):\n    return 2 * x\nseen = {1, 2, (3, 4)}\nprint('made', 12345678901234567890)",
    "double(max(x for x in seen if isinstance(x, int))), type(seen).__name__",
    "seen.add(7)\ntable['new'] = double(1)\nrows.clear()",
    "7 in seen, list(table), len(rows)",
    "rows[20_000]",
    "nothing_of_the_kind",
    "import socket",
    "while True: pass",
    "'\\ud800', float('inf'), 2**70",
    "del seen",
    "seen",
]


ERRORS = ("IndexError", "NameError", "ModuleNotFoundError", "CpuLimit")


@pytest.mark.slow
def test_a_worker_runs_code_as_a_sandbox_here_does(engine: Engine, tmp_path: Path) -> None:
    policy = Policy(run_cpu_seconds=0.3)
    with Engine(f"sqlite:///{tmp_path}/local.db") as local:
        sessions = [each.session("c", policy=policy) for each in (engine, local)]
        for session in sessions:
            session.process(ROWS, tool="rows")
        for code in CODE:
            there, here = (replace(session.run(code), usage=Usage()) for session in sessions)
            assert there == here
            assert there.error is None or there.error.kind in ERRORS
        calls: list[tuple[str, dict[str, Any]]] = [
            ("code_interpreter", {"code": "double(table.id.sum())"}),
            ("artifact_jq", {"artifact_id": "rows", "expression": "map(.v) | add"}),
            ("artifact_jq", {"artifact_id": "rows", "expression": ".[19990:20000][].id"}),
            ("artifact_grep", {"artifact_id": "rows", "pattern": '"id":777,'}),
        ]
        for tool, arguments in calls:
            replies = [session.call(tool, arguments) for session in sessions]
            assert replies[0].content == replies[1].content.replace(
                sessions[1].variable("rows").artifact.id, sessions[0].variable("rows").artifact.id
            )


def test_code_calls_functions_of_the_host(engine: Engine) -> None:
    made: list[tuple[int, int]] = []

    def double(n: int) -> int:
        made.append((os.getpid(), n))
        return 2 * n

    async def later(n: int) -> int:
        await asyncio.sleep(0.05)
        return n + 1

    def fail() -> None:
        raise ValueError("no luck")

    session = engine.session("here", functions=[double, later, fail])

    def code(text: str) -> str:
        return session.call("code_interpreter", {"code": text}).text

    assert code("kept = double(21)\nkept").startswith("42")
    assert made == [(os.getpid(), 21)]
    assert code("import asyncio\nsum(await asyncio.gather(*[later(n) for n in range(200)]))").startswith("20100")
    assert code("[double(double(n)) for n in (kept, 1)]").startswith("[168,4]")
    assert "no luck" in code("try:\n    fail()\nexcept ValueError as error:\n    print(error)")
    assert code("len(repr(double))") and len(made) == 5


@pytest.mark.slow
def test_sql_runs_on_the_worker(engine: Engine) -> None:
    session = engine.session("sql", tools=["artifact_sql", "code_interpreter"])
    session.process(ROWS, tool="rows")
    query = {"query": "SELECT city, count(*) AS n FROM $rows GROUP BY city ORDER BY city", "save_as": "cities"}
    assert "city 0" in session.call("artifact_sql", query).content
    assert session.run("int(df('cities').n.sum())").value == 20_000


def test_data_goes_by_reference_and_only_once(engine: Engine) -> None:
    interpreter = engine.sandbox
    assert isinstance(interpreter, DaskInterpreter)
    session = engine.session("by reference")
    text = "".join(f"{number} {os.urandom(16).hex()}\n" for number in range(60_000))
    session.store_artifact(text, name="big")
    assert len(text) > 2_000_000
    session.run("1")
    before = sent(interpreter)
    assert session.run("len(big), big.count('\\n')").value == [len(text), 60_000]
    assert sent(interpreter) - before < 4_000

    engine.database.write(lambda connection: connection.exec_driver_sql("UPDATE byref_frames SET data = x'00'"))
    assert session.run("len(big)").value == len(text), "it is decoded where it was"


def test_what_workers_cannot_read_is_sent(interpreter: DaskInterpreter, sqlite_url: str) -> None:
    with Engine(sqlite_url, interpreter=interpreter) as engine:
        session = engine.session("sent")
        session.process(ROWS, tool="rows")
        assert session.run("len(rows)").value == 20_000
        before = sent(interpreter)
        assert session.run("len(rows) + 1").value == 20_001
        assert sent(interpreter) - before < 4_000, "it is decoded where it was sent"
    reads: list[int] = []
    data = Data("some key", lambda: reads.append(1) or b"[1, 2, 3]")
    for _ in range(2):
        assert interpreter.run("sum(x)", {"x": data}, session="sent").value == 6
    assert reads == [1]


def test_templates_and_documents_run_on_the_worker(interpreter: DaskInterpreter) -> None:
    rendered = interpreter.render("{{ rows | sort }} {{ day.year }}", {"rows": [2, 1], "day": date(2024, 5, 6)})
    assert rendered.text == "[1, 2] 2024"
    [table] = interpreter.tables(b"<rows><row>1</row><row>2</row></rows>").tables
    assert table.records == b'[\n{"row":1},\n{"row":2}\n]'
    too_much = interpreter.render("{{ 'x' * n }}", {"n": 10**10})
    assert too_much.error is not None and too_much.error.kind == "MemoryLimit"


@pytest.mark.slow
def test_an_open_transaction_of_the_host_is_as_good(engine: Engine) -> None:
    with create_engine(engine.url).begin() as connection:
        session = engine.session("joined", db=connection)
        session.process([*ROWS, {"id": -1}], tool="rows")  # bytes of its own: others of this engine may be damaged
        assert session.run("len(rows)").value == 20_001
        connection.rollback()


def test_more_than_may_be_sent_is_not(cluster: LocalCluster, sqlite_url: str) -> None:
    text = os.urandom(200_000).hex()
    with (
        DaskInterpreter(cluster.scheduler_address, inline_bytes=100_000) as interpreter,
        Engine(sqlite_url, interpreter=interpreter) as engine,
    ):
        session = engine.session("big")
        session.store_artifact(text, name="big")
        with pytest.raises(SandboxUnavailable, match=r"DaskInterpreter\(source=DataSource"):
            interpreter.run("len(x)", {"x": text})
        reads: list[int] = []
        data = {f"x{each}": Data(f"{each}", lambda: reads.append(1) or os.urandom(60_000)) for each in range(20)}
        with pytest.raises(SandboxUnavailable, match=r"at most 100,000 may be"):
            interpreter.run(", ".join(data), data, session="big")
        assert len(reads) == 2, "no more is read than may be sent"
        assert session.call("code_interpreter", {"code": "len(big)"}).content.startswith("code cannot be run right now")
        assert session.run("1 + 1").value == 2


def test_sessions_of_others_are_other_processes(cluster: LocalCluster, interpreter: DaskInterpreter) -> None:
    with DaskInterpreter(cluster.scheduler_address) as other:
        reads: list[int] = []
        data = Data("the same key", lambda: reads.append(1) or b"[1]")
        for each in (interpreter, other, interpreter, other):
            assert each.run("x", {"x": data}, session="the same").value == [1]
        assert reads == [1, 1]
        assert interpreter.run("x", {"x": data}, session="another").value == [1]
        assert reads == [1, 1, 1]


@pytest.mark.slow
def test_a_session_stays_on_its_worker(client: Client, interpreter: DaskInterpreter) -> None:
    before = settled(lambda: sandboxes(pids(client)))
    for _ in range(6):
        assert interpreter.run("1", session="affine").error is None
    warm = {pid for pid in sandboxes(pids(client)) - before if name(pid) == "byref:session"}
    assert len(warm) == 1


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", [False, True])
def test_what_is_closed_leaves_nothing_on_the_workers(client: Client, cluster: LocalCluster, everywhere: bool) -> None:
    before = settled(lambda: sandboxes(pids(client)))
    other = DaskInterpreter(cluster.scheduler_address, sessions=3)
    if everywhere:
        other.start()
    assert other.run("1 + 1", session="s").value == 2
    assert len(sandboxes(pids(client)) - before) >= 3
    other.close()
    until(lambda: not sandboxes(pids(client)) - before, 10)
    with pytest.raises(RuntimeError, match="is closed"):
        other.run("1")
    other.close()


@pytest.mark.slow
def test_a_hostile_worker_fails_its_own_runs_alone(
    client: Client,
    engine: Engine,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    interpreter, session = engine.sandbox, engine.session("hostile")
    assert isinstance(interpreter, DaskInterpreter)
    session.process(list(range(20_000)), tool="rows")  # bytes of its own: others of this engine may be damaged
    client.run(hostile_worker.turn)
    # a cluster of another test may have silenced all handlers there were
    caplog.set_level(logging.WARNING, logger="byref")
    told = {}
    try:
        for case in (each for each in hostile_worker.FORGED if each != "one by one"):
            began = time.monotonic()
            data = {"x": Data("a key", lambda: b"[1]"), "y": [2]}
            try:
                outcome = interpreter.run(f"x, y\n#{case}", data, session="hostile")
                error = outcome.error
                told[case] = f"{error.kind}: {error.message}" if error else f"{outcome.value} {dict(outcome.bound)}"
            except SandboxUnavailable as error:
                told[case] = str(error)
            assert time.monotonic() - began < 10, case
        for case in ("index 99", "a million", "int", "os error"):
            reply = session.call("code_interpreter", {"code": f"len(rows)\n#{case}"})
            assert (reply.is_error, reply.content) == (True, "code cannot be run right now; try once more later"), case
        assert interpreter.run("x", {"x": Data("a key", lambda: b"[1]")}, session="hostile").value == [1], (
            "others go on"
        )
    finally:
        client.run(hostile_worker.turn_back)
    assert hostile_worker.UNPICKLED == []
    assert told.keys() == hostile_worker.FORGED.keys() - {"one by one"}
    wrong = {case: said[:300] for case, said in told.items() if not re.search(hostile_worker.FORGED[case][1], said)}
    assert not wrong
    assert all(len(said) < 5_000 and said.isprintable() for said in told.values())
    warnings = {each.getMessage() for each in caplog.records if (each.name, each.levelno) == ("byref", logging.WARNING)}
    assert len(warnings) == 1
    [warned] = warnings
    assert re.search(r"so it is sent: .x1b\[31mx{292}…$", warned)
    client.run(hostile_worker.speak)
    assert session.run("sum(rows)").value == sum(range(20_000))
    assert "spoken" not in "".join(capfd.readouterr())


@pytest.mark.slow
def test_a_worker_that_asks_on_and_on_prolongs_nothing(client: Client, cluster: LocalCluster) -> None:
    data = {f"x{number}": Data(f"key {number}", lambda: b"[1]") for number in range(100)}
    with DaskInterpreter(cluster.scheduler_address, limits=Limits(wall_seconds=1), timeout=1) as interpreter:
        assert interpreter.run("1").value == 1
        client.run(hostile_worker.turn)
        try:
            began = time.monotonic()
            with pytest.raises(SandboxUnavailable, match=hostile_worker.FORGED["one by one"][1]):
                interpreter.run(", ".join(data) + "\n#one by one", data, session="s")
            assert time.monotonic() - began < 6
        finally:
            client.run(hostile_worker.turn_back)


def test_a_byref_of_another_version_is_named(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    version = dask.VERSION
    for module in (dask, dask_cluster):
        monkeypatch.setattr(module, "VERSION", "0.0.7")
    with DaskInterpreter(cluster.scheduler_address) as interpreter:
        for call in (lambda: interpreter.run("1"), interpreter.start):
            with pytest.raises(SandboxUnavailable, match=f"has byref {version}, the host byref 0.0.7"):
                call()


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.5)
    interpreter = DaskInterpreter("tcp://127.0.0.1:9", timeout=1)
    for _ in range(3):
        with pytest.raises(SandboxUnavailable, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
            interpreter.run("1")
    with Engine(sqlite_url, interpreter=interpreter) as engine:
        reply = engine.session("s").call("code_interpreter", {"code": "1"})
    assert (reply.content, reply.is_error) == ("code cannot be run right now; try once more later", True)
    interpreter.close()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"place": ""}, "expected a Dask scheduler's address"),
        ({"place": 8786}, "expected a Dask scheduler's address"),
        ({"jail": "none"}, "jail='none'"),
        ({"timeout": 0}, "must be positive"),
        ({"inline_bytes": 0}, "must be positive"),
        ({"source": "sqlite:///x.db"}, "expected a byref.adapters.dask.DataSource"),
    ],
)
def test_an_interpreter_that_cannot_be_made_says_why(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        DaskInterpreter(**({"place": "tcp://127.0.0.1:9"} | arguments))


def test_a_source_tells_nothing_of_itself() -> None:
    assert "secret" not in repr(DataSource("postgresql+psycopg://u:secret@h/db", blobs="s3://secret"))
