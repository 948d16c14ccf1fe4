"""Orders that a host gives to a Dask worker directly: what Dask sees of them, and what becomes of them when a worker goes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from clusters import a_client, a_cluster, name, pids, running_on, until
from distributed import Client, LocalCluster
from distributed.security import Security
from process_table import everyone

from byref import Engine
from byref.adapters.dask import DaskInterpreter, DataSource, direct

pytestmark = [
    pytest.mark.slow,
    # Dask leaves sockets and coroutines of what was killed to be collected.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SLEEP = "import time\ntime.sleep({})\n'woken'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with a_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    """What looks at the workers."""
    with a_client(cluster) as client:
        yield client


@pytest.fixture
def interpreter(cluster: LocalCluster) -> Iterator[DaskInterpreter]:
    with DaskInterpreter(cluster.scheduler_address) as interpreter:
        yield interpreter.start()


def tasks(cluster: LocalCluster) -> int:
    """How many runs the scheduler has had as tasks."""
    return len({each.key for each in cluster.scheduler.transition_log if str(each.key).startswith("byref-run")})


def seen(client: Client, kind: str) -> set[str]:
    """The workers on which the scheduler sees a task of a kind."""
    return {worker for worker, keys in client.processing().items() if any(str(key).startswith(kind) for key in keys)}


def test_short_runs_of_a_session_are_no_tasks(cluster: LocalCluster, interpreter: DaskInterpreter) -> None:
    interpreter.run("1", session="short")
    before = tasks(cluster)
    assert [interpreter.run(f"{n}", session="short").value for n in range(20)] == [*range(20)]
    assert tasks(cluster) == before
    assert interpreter.run("1").value == 1
    assert tasks(cluster) == before + 1, "a run of no session is one"


def test_a_run_that_lasts_is_a_task_where_it_is(
    cluster: LocalCluster, client: Client, interpreter: DaskInterpreter
) -> None:
    before = tasks(cluster)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(interpreter.run, SLEEP.format(3), session="lasts")
        until(lambda: seen(client, "byref-run"))
        assert seen(client, "byref-run") == {running_on(pids(client))}
        assert sum(name(each) == "byref:run" for pid in pids(client).values() for each in everyone(pid)) == 1
        assert answer.result().value == "woken"
    assert tasks(cluster) == before + 1
    until(lambda: not seen(client, "byref-run"))


@pytest.mark.parametrize("way", ["killed", "retired"])
@pytest.mark.parametrize("seconds", [0.7, 3])
def test_a_worker_that_goes_takes_no_run_along(way: str, seconds: float) -> None:
    with (
        a_cluster() as cluster,
        a_client(cluster) as client,
        DaskInterpreter(cluster.scheduler_address) as interpreter,
        ThreadPoolExecutor(1) as pool,
    ):
        interpreter.start()
        assert interpreter.run("1", session="s").value == 1
        workers = pids(client)
        until(lambda: running_on(workers) is None)  # its process ends behind its answer
        answer = pool.submit(interpreter.run, SLEEP.format(seconds), session="s")
        until(lambda: running_on(workers))
        gone = running_on(workers) or ""
        if seconds > 1:
            until(lambda: seen(client, "byref-run"))
        if way == "killed":
            os.kill(workers[gone], signal.SIGKILL)
        else:
            assert set(client.retire_workers([gone])) == {gone}
        assert answer.result().value == "woken"
        until(lambda: gone not in client.nthreads())
        assert interpreter.run("1 + 1", session="s").value == 2
        scheduler: Any = cluster.scheduler
        until(lambda: not scheduler.unrunnable)


def test_a_worker_that_is_lost_between_runs_delays_the_next_little(
    client: Client, interpreter: DaskInterpreter
) -> None:
    for session in "abcd":
        assert interpreter.run("1", session=session).value == 1
    workers = pids(client)
    os.kill(next(iter(workers.values())), signal.SIGKILL)
    for session in "abcd":
        began = time.monotonic()
        assert interpreter.run("1 + 1", session=session).value == 2
        assert time.monotonic() - began < 20
    until(lambda: len(pids(client)) == 2)


def test_calls_of_a_run_that_loses_its_worker_are_made_once(
    cluster: LocalCluster, client: Client, tmp_path: Any
) -> None:
    made: list[int] = []
    workers = pids(client)
    url = f"sqlite:///{tmp_path}/byref.db"

    def step(n: int) -> int:
        made.append(n)
        if made == [0, 1]:
            os.kill(workers[running_on(workers) or ""], signal.SIGKILL)
        return n

    with (
        DaskInterpreter(cluster.scheduler_address, source=DataSource(url)) as interpreter,
        Engine(url, interpreter=interpreter) as engine,
    ):
        interpreter.start()
        session = engine.session("once", functions=[step])
        told = session.call("code_interpreter", {"code": "sum(step(n) for n in range(4))"}, call_id="once")
        assert told.text.startswith("6")
    assert made == [0, 1, 2, 3]
    until(lambda: len(pids(client)) == 2)


def test_a_run_with_calls_goes_on_as_a_task(
    cluster: LocalCluster, interpreter: DaskInterpreter, sqlite_url: str
) -> None:
    made: list[int] = []

    def step(n: int) -> int:
        made.append(n)
        return n

    code = "import time\ntotal = 0\nfor n in range(8):\n    total += step(n)\n    time.sleep(0.3)\ntotal"
    with Engine(sqlite_url, interpreter=interpreter) as engine:
        session = engine.session("calls", functions=[step])
        session.run("1")
        before = tasks(cluster)
        assert session.call("code_interpreter", {"code": code}).text.startswith("28")
        assert tasks(cluster) == before + 1
        assert session.call("code_interpreter", {"code": "step(5)"}).text.startswith("5")
        assert tasks(cluster) == before + 1
    assert made == [*range(8), 5]


def test_a_worker_has_no_more_runs_at_once_than_threads() -> None:
    most = [0]
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(0.02):
            running = sum(name(each) == "byref:run" for pid in workers.values() for each in everyone(pid))
            most[0] = max(most[0], running)

    with (
        a_cluster(1) as cluster,
        a_client(cluster) as client,
        DaskInterpreter(cluster.scheduler_address) as one,
        DaskInterpreter(cluster.scheduler_address) as other,
        ThreadPoolExecutor(17) as pool,
    ):
        workers = pids(client)
        for each in (one, other):
            each.start()
            assert each.run("1", session="0").value == 1
        watch = pool.submit(look)
        began = time.monotonic()
        answers = [
            pool.submit(each.run, SLEEP.format(seconds), session=f"{number}" if number % 4 else None)
            for number in range(4)
            for each in (one, other)
            for seconds in (0.5, 1.6)
        ]
        assert [answer.result().value for answer in answers] == ["woken"] * 16
        assert time.monotonic() - began < 60
        is_over.set()
        watch.result()
    assert most[0] <= 4 + 4, "a run and its session have the same name for a moment"


def test_a_worker_in_use_is_not_closed_by_adaptive_scaling_and_an_idle_one_is() -> None:
    with (
        a_cluster(0) as cluster,
        a_client(cluster) as client,
        DaskInterpreter(cluster.scheduler_address) as interpreter,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="200 ms", wait_count=2)
        assert interpreter.run("1 + 1", session="s").value == 2
        before, end = pids(client), time.monotonic() + 4
        while time.monotonic() < end:
            assert interpreter.run("1 + 1", session="s").value == 2
        assert before.items() <= pids(client).items()
        until(lambda: not cluster.scheduler.workers, direct.STAY_SECONDS + 30)
        assert interpreter.run("2 + 2", session="s").value == 4, "it comes back"


def test_a_closed_interpreter_uses_no_worker(cluster: LocalCluster, client: Client) -> None:
    with DaskInterpreter(cluster.scheduler_address) as interpreter:
        assert interpreter.run("1", session="s").value == 1
        until(lambda: seen(client, "byref-stay"))
        with DaskInterpreter(client) as own:
            assert own.run("1", session="s").value == 1
    until(lambda: not seen(client, "byref-stay"), direct.STAY_SECONDS - 2)
    assert not any(left for left in client.run(lambda: len(direct._stays) + len(direct._runs)).values())


def test_orders_go_under_the_clusters_tls() -> None:
    security = Security.temporary()
    with (
        a_cluster(1, security=security) as cluster,
        Client(cluster.scheduler_address, security=security, set_as_default=False) as client,
        DaskInterpreter(client) as interpreter,
    ):
        assert all(worker.startswith("tls://") for worker in pids(client))
        assert interpreter.run("1", session="s").value == 1
        before = tasks(cluster)
        assert interpreter.run("1 + 1", session="s").value == 2
        assert tasks(cluster) == before
        assert interpreter.run(SLEEP.format(1.5), session="s").value == "woken"
        assert tasks(cluster) == before + 1


def test_a_cluster_in_the_hosts_own_process_takes_orders_directly() -> None:
    with (
        LocalCluster(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        DaskInterpreter(cluster.scheduler_address) as interpreter,
        ThreadPoolExecutor(4) as pool,
    ):
        assert interpreter.run("1", session="s").value == 1
        before = tasks(cluster)
        assert interpreter.run("2", session="s").value == 2
        assert tasks(cluster) == before
        answers = [pool.submit(interpreter.run, SLEEP.format(1.5), session=f"{number}") for number in range(4)]
        assert [answer.result().value for answer in answers] == ["woken"] * 4
