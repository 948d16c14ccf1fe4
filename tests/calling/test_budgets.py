"""Budgets of calls: of one run, of a session over all of its runs, engines and processes, and what code reads of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from byref import Engine, Function, Policy, Session, ToolReply
from byref_sandbox import Sandbox

shared = pytest.mark.postgresql("locks of the session's row")


class Host:
    """Functions that count what is under way."""

    def __init__(self) -> None:
        self.made = 0
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    def one(self, value: Any = None, seconds: float = 0.0) -> Any:
        """Give back a value."""
        with self._lock:
            self.made += 1
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        time.sleep(seconds)
        with self._lock:
            self._now -= 1
        return value

    def text(self, size: int) -> str:
        """Give a text of so many characters."""
        with self._lock:
            self.made += 1
        return "x" * size


@pytest.fixture
def host() -> Host:
    return Host()


Opened = Callable[..., Session]


@pytest.fixture
def opened(local: Engine, tenant: str, host: Host) -> Opened:
    def open_session(*, engine: Engine = local, options: dict[str, Any] | None = None, **knobs: Any) -> Session:
        functions = [Function.of(host.one, **(options or {})), host.text]
        return engine.session("chat", tenant=tenant, functions=functions, policy=Policy(**knobs))

    return open_session


def run(session: Session, code: str, call_id: str | None = None) -> ToolReply:
    return session.call("code_interpreter", {"code": "import asyncio\n" + code}, call_id=call_id)


OF_A_RUN: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "as many calls as may be": ({"run_calls": 3}, "[one(n) for n in range(3)]", "[0,1,2]", 3),
    "one call more": ({"run_calls": 3}, "[one(n) for n in range(4)]", "one run may make 3 calls", 3),
    "more at once": (
        {"run_calls": 3},
        "len([e for e in await asyncio.gather(*map(one, range(9)), return_exceptions=True) if isinstance(e, RuntimeError)])",
        "6",
        3,
    ),
    "an error that code catches": (
        {"run_calls": 1},
        "one()\ntry:\n    one()\nexcept RuntimeError as error:\n    said = str(error)\nsaid",
        "one() was not called: one run may make 1 calls",
        1,
    ),
    "arguments": ({"run_call_bytes": 1000}, "one('x' * 400)\none('x' * 400)\none('x' * 400)", "1,000 bytes, and", 1),
    "results": ({"run_call_bytes": 1000}, "text(600)\ntext(600)", "text() returned 600 bytes, which are not given", 2),
    "calls after such a result": (
        {"run_call_bytes": 1000},
        "try:\n    text(5000)\nexcept RuntimeError:\n    pass\nlen(text(50))",
        "50",
        2,
    ),
    "calls that are refused for another reason count": (
        {"run_calls": 2},
        "for n in range(2):\n    try:\n        one(seconds='soon')\n    except ValueError:\n        pass\none()",
        "one run may make 2 calls",
        0,
    ),
    "waiting": ({"run_wait_seconds": 0.2}, "one(seconds=5)", "WaitLimit", 1),
    "who goes on all the same is ended": (
        {"run_calls": 1},
        "while True:\n    try:\n        one()\n    except RuntimeError:\n        pass",
        "the code was ended: it went on calling functions",
        1,
    ),
}


@pytest.mark.parametrize("case", OF_A_RUN)
def test_a_run_keeps_to_its_budget(opened: Opened, host: Host, case: str) -> None:
    knobs, code, said, made = OF_A_RUN[case]
    reply = run(opened(**knobs), code)
    assert said in reply.text
    assert host.made == made


def test_no_more_calls_of_a_run_are_under_way_than_may_be(opened: Opened, host: Host) -> None:
    code = "len(await asyncio.gather(*[one(n, 0.01) for n in range(9)]))"
    assert run(opened(run_calls_at_once=2), code).text == "9"
    assert host.most_at_once == 2


OF_A_SESSION: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "calls": ({"max_session_calls": 3}, "one(), one()", "3 calls may be made in this conversation", 3),
    "arguments": ({"max_session_call_bytes": 1000}, "len(one('x' * 200))", "1,000 bytes, and", 2),
    "results": ({"max_session_call_bytes": 1000}, "len(text(700))", "text() returned 700 bytes", 2),
}


@pytest.mark.parametrize("case", OF_A_SESSION)
def test_all_runs_of_a_session_keep_to_its_budget_together(opened: Opened, host: Host, case: str) -> None:
    knobs, code, said, made = OF_A_SESSION[case]
    session = opened(**knobs)
    assert not run(session, code).is_error
    for _ in range(2):
        reply = run(session, code)
    assert reply.is_error and said in reply.text
    assert host.made == made + (case == "results")  # whose size nobody knew before


@pytest.mark.slow
def test_seconds_are_reserved_before_a_call_is_made(opened: Opened, host: Host) -> None:
    session = opened(max_session_call_seconds=1, options={"timeout": 0.4})
    # Five reserve more than there is, so some wait for what others did not need.
    assert run(session, "len(await asyncio.gather(*[one(n) for n in range(5)]))").text == "5"
    for _ in range(2):
        assert run(session, "one(1, seconds=0.35)").text == "1"
    assert "did not return within 0." in run(session, "one(seconds=0.35)").text
    made = host.made
    assert "may take 1 s together" in run(session, "one()").text
    assert host.made == made


def test_calls_that_wait_for_approval_are_reserved_and_given_back(opened: Opened, host: Host) -> None:
    session = opened(max_session_calls=1, options={"approval": True})
    [pending] = run(session, "one(1)", "c1").pending
    assert "1 calls may be made" in run(session, "one(2)", "c2").text
    session.resume("c1", {pending.id: False})
    [other] = run(session, "one(3)", "c3").pending
    assert session.resume("c3", {other.id: True}).text == "3"
    assert host.made == 1


@pytest.fixture
def engines(engine: Engine, sandbox: Sandbox) -> Iterator[tuple[Engine, Engine]]:
    """Two engines on one database, as two processes have them."""
    with Engine(engine.database._engine.url, interpreter=sandbox) as other:
        yield engine, other


def together(sessions: list[Session], code: str) -> list[str]:
    """Run code in each session at once."""
    with ThreadPoolExecutor(len(sessions)) as pool:
        return [reply.text for reply in pool.map(lambda session: run(session, code), sessions)]


UP_TO_THE_LIMIT = """
done = 0
for n in range(8):
    try:
        one(n)
        done += 1
    except RuntimeError:
        pass
done
"""


@shared
@pytest.mark.parametrize("knobs", [{"max_session_calls": 13}, {}], ids=["session", "function"])
def test_two_engines_never_make_more_calls_than_may_be(
    engines: tuple[Engine, Engine], opened: Opened, host: Host, knobs: dict[str, Any]
) -> None:
    options = {} if knobs else {"max_calls": 13}
    sessions = [opened(engine=engine, options=options, **knobs) for engine in engines]
    assert sum(int(text.split()[0]) for text in together(sessions, UP_TO_THE_LIMIT)) == 13
    assert host.made == 13


@shared
def test_calls_of_two_engines_wait_for_each_other(engines: tuple[Engine, Engine], opened: Opened, host: Host) -> None:
    sessions = [opened(engine=engine, max_session_calls_at_once=2) for engine in engines]
    code = "len(await asyncio.gather(*[one(n, 0.01) for n in range(5)]))"
    assert together(sessions, code) == ["5", "5"]
    assert host.made == 10 and host.most_at_once <= 2
