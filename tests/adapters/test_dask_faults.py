"""The interpreter on a Dask cluster when workers, schedulers and hosts come and go, and under load."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import dask
import pytest
from clusters import ROWS, a_client, a_cluster, name, pids, running_on, sandboxes, sent, until
from distributed import Client, LocalCluster

from byref import AsyncEngine, Engine
from byref.adapters.dask import DaskInterpreter, DataSource
from byref.adapters.dask import cluster as dask_cluster
from byref.stores import BlobStore, ObjectStore
from byref_sandbox import Limits, SandboxUnavailable

pytestmark = [
    pytest.mark.slow,
    # Dask leaves sockets and coroutines of what was killed to be collected.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHORT = Limits(wall_seconds=2)
SLEEP = "import time\ntime.sleep({})\n'woken'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two worker processes, which find the database's URL in their environment."""
    with a_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    """What looks at the workers."""
    with a_client(cluster) as client:
        yield client


@pytest.fixture
def interpreter(cluster: LocalCluster, sqlite_url: str) -> Iterator[DaskInterpreter]:
    """An interpreter whose workers read the database."""
    with DaskInterpreter(cluster.scheduler_address, source=DataSource(sqlite_url), timeout=180) as interpreter:
        yield interpreter


@pytest.fixture
def engine(sqlite_url: str, interpreter: DaskInterpreter) -> Iterator[Engine]:
    """An engine on it."""
    with Engine(sqlite_url, interpreter=interpreter) as engine:
        yield engine


def test_a_worker_that_is_killed_takes_nothing_along(client: Client, engine: Engine) -> None:
    session = engine.session("lasting")
    session.process(ROWS, tool="rows")
    session.run("import json\ndef double(x):\n    return 2 * x\ntable = df('rows').head(3)\nnumber = 21\nseen = {1, 2}")
    workers = pids(client)
    code = f"{SLEEP.format(2)}, double(number), len(table), len(rows), len(seen)"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(session.run, code)
        until(lambda: running_on(workers))
        busy = workers[running_on(workers) or ""]
        left = sandboxes({"": busy})
        os.kill(busy, signal.SIGKILL)
        assert answer.result().value == ["woken", 42, 3, 20_000, 2]
    until(lambda: not any(name(pid).startswith("byref") for pid in left))
    until(lambda: len(pids(client)) == 2)
    session.call("code_interpreter", {"code": "reset = 1"})


def test_a_run_that_takes_every_worker_along_is_an_error() -> None:
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        a_cluster(1) as cluster,
        a_client(cluster) as client,
        DaskInterpreter(cluster.scheduler_address) as interpreter,
        ThreadPoolExecutor(1) as pool,
    ):
        workers = pids(client)
        answer = pool.submit(interpreter.run, SLEEP.format(5))
        until(lambda: running_on(workers))
        os.kill(next(iter(workers.values())), signal.SIGKILL)
        with pytest.raises(SandboxUnavailable, match="a run was lost with 1 worker"):
            answer.result()
        assert interpreter.run("1 + 1").value == 2, "the cluster has a new one"


def test_a_cluster_whose_workers_are_all_gone_is_waited_for(client: Client) -> None:
    with a_cluster(1) as cluster, DaskInterpreter(cluster.scheduler_address, timeout=20) as interpreter:
        assert interpreter.run("1 + 1", session="s").value == 2
        cluster.scale(0)
        until(lambda: not cluster.workers)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(interpreter.run, "2 + 2", session="s")
            time.sleep(1)
            assert not answer.done()
            cluster.scale(1)
            assert answer.result().value == 4
        cluster.scale(0)
        until(lambda: not cluster.workers)
        with DaskInterpreter(cluster.scheduler_address, timeout=1) as impatient:
            began = time.monotonic()
            with pytest.raises(SandboxUnavailable, match="answered within 3 s; it has 0 workers"):
                impatient.run("1", limits=SHORT)
            assert time.monotonic() - began < 10


def test_a_worker_that_does_not_answer_is_given_up_and_passed_over(client: Client, cluster: LocalCluster) -> None:
    with DaskInterpreter(cluster.scheduler_address, timeout=2) as interpreter:
        interpreter.start()
        workers = pids(client)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(interpreter.run, SLEEP.format(1.5), session="s", limits=SHORT)
            until(lambda: running_on(workers))
            stopped = workers[running_on(workers) or ""]
            os.kill(stopped, signal.SIGSTOP)
            try:
                began = time.monotonic()
                with pytest.raises(SandboxUnavailable, match="has answered within 4 s"):
                    answer.result()
                assert time.monotonic() - began < 12
                assert interpreter.run("1 + 1", session="s", limits=SHORT).value == 2
            finally:
                os.kill(stopped, signal.SIGCONT)


def test_a_scheduler_that_is_lost_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"

    def started(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def both() -> list[subprocess.Popen[bytes]]:
        scheduler = started("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        return [scheduler, started("worker", address, "--no-nanny", "--no-dashboard", "--nthreads", "2")]

    processes = both()
    try:
        with DaskInterpreter(address, timeout=60) as interpreter, ThreadPoolExecutor(4) as pool:
            until(lambda: _answers(interpreter))
            answers = [pool.submit(interpreter.run, SLEEP.format(20)) for _ in range(4)]
            until(lambda: running_on({"worker": processes[1].pid}))
            processes[0].kill()
            began = time.monotonic()
            for answer in answers:
                with pytest.raises(SandboxUnavailable, match=f"at {address}"):
                    answer.result()
            assert time.monotonic() - began < 30
            with pytest.raises(SandboxUnavailable, match=f"at {address}"):
                interpreter.run("1")
            processes += both()
            until(lambda: _answers(interpreter))
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _answers(interpreter: DaskInterpreter) -> bool:
    try:
        return bool(interpreter.run("1 + 1", limits=SHORT).value == 2)
    except SandboxUnavailable:
        return False


def test_a_restarted_cluster_goes_on(client: Client, engine: Engine) -> None:
    session = engine.session("restarted")
    session.process(ROWS, tool="rows")
    assert session.run("number = len(rows)\nnumber").value == 20_000
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(session.run, f"{SLEEP.format(1)}, number")
        workers = pids(client)
        until(lambda: running_on(workers))
        client.restart(wait_for_workers=False)
        assert answer.result().value == ["woken", 20_000]


def test_fifty_runs_at_once(client: Client, engine: Engine) -> None:
    sessions = [engine.session(f"chat {number}", tenant=f"tenant {number % 3}") for number in range(10)]
    for number, session in enumerate(sessions):
        session.process([{"n": number}] * 2_000, tool="rows")
    with ThreadPoolExecutor(50) as pool:
        answers = [
            pool.submit(sessions[number % 10].run, f"sum(row['n'] for row in rows) + {number}") for number in range(50)
        ]
        assert [answer.result().value for answer in answers] == [number % 10 * 2_000 + number for number in range(50)]


def test_a_child_of_the_host_has_a_connection_of_its_own(engine: Engine) -> None:
    session = engine.session("forked")
    session.process(ROWS, tool="rows")
    assert session.run("number = len(rows)\nnumber").value == 20_000
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if session.run("number + len(rows)").value == 40_000 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert session.run("number").value == 20_000


def test_an_async_engine_takes_it_as_well(cluster: LocalCluster, sqlite_url: str) -> None:
    async def chat(engine: AsyncEngine, number: int) -> object:
        session = await engine.session(f"async {number}")
        await session.process(ROWS, tool="rows")
        outcome = await session.run(f"len(rows) + {number}")
        return outcome.value

    async def chats() -> list[object]:
        with DaskInterpreter(cluster.scheduler_address, source=DataSource(sqlite_url)) as interpreter:
            async with AsyncEngine(sqlite_url, interpreter=interpreter) as engine:
                return await asyncio.gather(*(chat(engine, number) for number in range(4)))

    assert asyncio.run(chats()) == [20_000, 20_001, 20_002, 20_003]


def test_a_client_of_the_hosts_own_is_used_and_left_open(cluster: LocalCluster) -> None:
    with a_client(cluster) as own:
        with DaskInterpreter(own) as interpreter:
            assert interpreter.run("1 + 1").value == 2
        assert own.status == "running"
        interpreter = DaskInterpreter(own)
    with pytest.raises(SandboxUnavailable, match="the client is closed"):
        interpreter.run("1")


def test_figures_come_back(interpreter: DaskInterpreter) -> None:
    pytest.importorskip("matplotlib")
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.savefig('line.png')"
    [figure] = interpreter.run(code, limits=Limits(wall_seconds=60, cpu_seconds=50)).figures
    assert figure.name == "line" and figure.png.startswith(b"\x89PNG")


def test_workers_read_postgresql_and_s3_themselves(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    from s3server import s3_server

    with s3_server() as server:
        bucket, settings = server.bucket(), server.settings

        def store() -> BlobStore:
            return ObjectStore(f"s3://{bucket}", **settings)

        with a_cluster(1, env={"OUR_DATABASE": postgres_url}) as cluster:
            for source, is_sent in (
                (DataSource("$OUR_DATABASE", blobs=store), False),
                (DataSource("$NO_SUCH_NAME", blobs=store), True),
            ):
                with (
                    DaskInterpreter(cluster.scheduler_address, source=source) as interpreter,
                    Engine(postgres_url, blobs=store(), interpreter=interpreter) as engine,
                ):
                    session = engine.session(f"sent {is_sent}")
                    session.store_artifact("".join(os.urandom(20).hex() for _ in range(50_000)), name="big")
                    session.run("from_code = {1, 2, 3}")
                    before = sent(interpreter)
                    assert session.run("len(big), len(from_code)").value == [2_000_000, 3]
                    assert (sent(interpreter) - before > 500_000) is is_sent
        [told] = {record.getMessage() for record in caplog.records if record.levelno == logging.WARNING}
        assert "the worker's environment has no 'NO_SUCH_NAME'" in told
