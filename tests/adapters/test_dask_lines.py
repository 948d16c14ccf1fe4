"""Code on Dask workers calls functions of the host that asked."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from clusters import a_client, a_cluster, pids, running_on, until
from distributed import Client, LocalCluster

from byref import Engine, Function, Policy
from byref.adapters.dask import DaskInterpreter, DataSource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with a_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def engine(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path_factory.mktemp('lines')}/byref.db"
    with (
        DaskInterpreter(cluster.scheduler_address, source=DataSource(url), inline_bytes=1 << 20) as interpreter,
        Engine(url, interpreter=interpreter) as engine,
    ):
        interpreter.start()
        yield engine


def code(session: Any, text: str, **more: Any) -> str:
    return str(session.call("code_interpreter", {"code": text}, **more).text)


def test_what_is_too_long_for_the_scheduler_is_an_error_of_its_call(engine: Engine) -> None:
    def size(text: str) -> int:
        return len(text)

    def text(n: int) -> str:
        return os.urandom(n // 2).hex()

    session = engine.session("long", functions=[size, text])
    assert code(session, "size(text(900_000))").startswith("900000")
    refused = "try:\n    {}\nexcept Exception as error:\n    print(error)\nsize('x')"
    assert "its result has 2,000,0" in (told := code(session, refused.format("text(2_000_000)"))) and "1" in told
    assert "its arguments have 2,000,0" in code(session, refused.format("size('x' * 2_000_000)"))


def test_an_approval_suspends_code_and_it_goes_on(engine: Engine) -> None:
    made: list[int] = []

    def pay(n: int) -> int:
        made.append(n)
        return n

    def look(n: int) -> int:
        made.append(-n)
        return n

    functions = [Function.of(look), Function("pay", pay, approval=True, parameters=Function.of(pay).parameters)]
    session = engine.session("approved", functions=functions)
    reply = session.call("code_interpreter", {"code": "a = look(3)\npay(a) + pay(a + 1)"}, call_id="asked")
    [pending] = reply.pending
    assert made == [-3] and pending.function == "pay"
    [pending] = session.resume("asked", {pending.id: True}).pending
    assert session.resume("asked", {pending.id: True}).text.startswith("7")
    assert made == [-3, 3, 4]


def test_a_run_whose_worker_is_killed_goes_on_from_the_journal(engine: Engine, cluster: LocalCluster) -> None:
    made: list[int] = []
    with a_client(cluster) as client:
        workers = pids(client)

        def step(n: int) -> int:
            made.append(n)
            if n == 2 and made.count(2) == 1:
                threading.Thread(target=kill, args=(client, workers)).start()
            return n

        session = engine.session("killed", functions=[step])
        text = "import time\ntotal = 0\nfor n in range(6):\n    total += step(n)\n    time.sleep(0.5)\ntotal"
        assert code(session, text, call_id="killed").startswith("15")
        assert sorted(made) == [*range(6)], "what the journal has is not called again"
        until(lambda: len(pids(client)) == 2)


def kill(client: Client, workers: dict[str, int]) -> None:
    time.sleep(0.2)
    worker = running_on(workers)
    assert worker is not None
    os.kill(workers[worker], signal.SIGKILL)


def test_a_budget_holds_for_code_on_a_worker(engine: Engine) -> None:
    def one() -> int:
        return 1

    session = engine.session("budget", functions=[one], policy=Policy(run_calls=3))
    told = code(
        session, "for _ in range(9):\n    try:\n        one()\n    except RuntimeError as error:\n        print(error)"
    )
    assert told.count("one run may make 3 calls") == 6
    assert code(session, "one()").startswith("1")
