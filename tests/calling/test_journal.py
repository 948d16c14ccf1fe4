"""What a program that runs again finds: its journal, its clock, its random numbers, and whoever else is running it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import process_table
import pytest
from inline_snapshot import snapshot
from sqlalchemy import Connection, create_engine, select, update
from sqlalchemy.orm import Session as HostSession

from byref import ConfigurationError, Engine, Function, Session, ToolReply
from byref.calling import journal
from byref.calling.running import Calls
from byref.conversation import programs
from byref.db.tables import CallRow, ProgramRow
from byref_sandbox import Sandbox

journaled = pytest.mark.postgresql("the journal's transactions")


def run(session: Session, code: str, call_id: str | None = "c1") -> ToolReply:
    return session.call("code_interpreter", {"code": code}, call_id=call_id)


DRAWN = {
    "random": "random.random()",
    "an instance of random": "random.Random().random()",
    "numpy": "float(np.random.rand())",
    "numpy's generator": "float(np.random.default_rng().random())",
    "uuid": "str(uuid.uuid4())",
    "secrets": "secrets.token_hex()",
    "the system": "os.urandom(8).hex()",
}
CLOCKS = (
    *("time.time()", "time.time_ns() / 1e9", "datetime.datetime.now().timestamp()", "pd.Timestamp.now().timestamp()"),
    *(
        "pd.Timestamp('now').timestamp()",
        "datetime.datetime.now(datetime.UTC).timestamp()",
        "time.mktime(time.localtime())",
    ),
    *("datetime.datetime.utcnow().timestamp()", "datetime.datetime.today().timestamp()"),
)
SEEN = (
    f"import random, uuid, secrets, os, time, datetime\nseen = [{', '.join(DRAWN.values())}]\n"
    f"clocks = [{', '.join(CLOCKS)}]\nday = str(datetime.date.today())\n"
)


@journaled
def test_code_that_runs_again_has_the_clock_and_the_random_numbers_of_its_first_run(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def note(seen: list[Any], day: str) -> None:
        given.append((seen, day))

    session = engine.session("chat", tenant=tenant, functions=[note, Function("pay", lambda: 1, approval=True)])
    with monkeypatch.context() as patched:
        patched.setattr(journal, "datetime", _Later)  # so that the system's clock is not the program's
        reply = run(session, f"{SEEN}note(seen, day)\npay()\n[seen, clocks, day]")
    [(seen, day)] = given
    assert len(set(map(str, seen))) == len(DRAWN) and day == "2031-05-06"
    begins = _Later.at.timestamp()
    again = session.resume("c1", {reply.pending[0].id: True})
    assert not again.is_error
    seen_again, clocks, day_again = json.loads(again.text.partition("\n")[0])
    assert (seen_again, day_again) == (seen, day) and len(given) == 1
    assert all(begins - 1 <= one <= begins + 30 for one in clocks), clocks
    assert abs(time.time() - begins) > 1e6
    other = run(session, f"{SEEN}note(seen, day)", "c2")
    assert not other.is_error and given[-1][0] != seen and given[-1][1] != day


class _Later(journal.datetime):
    at = journal.datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=journal.UTC)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.at


@journaled
def test_of_two_runs_under_one_call_id_one_calls_and_both_have_its_reply(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEEN_SECONDS", 0.1)
    begun, goes_on, made = threading.Event(), threading.Event(), list[str]()

    def slow(what: str) -> str:
        made.append(what)
        begun.set()
        assert goes_on.wait(30)
        return what

    def opened() -> Session:
        return engine.session("chat", tenant=tenant, functions=[Function.of(slow, repeatable=True)])

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, opened(), "slow('a')")
        assert begun.wait(30)
        second = pool.submit(run, opened(), "slow('a')")
        time.sleep(0.3)
        assert not second.done() and made == ["a"]
        goes_on.set()
        replies = [first.result(60), second.result(60)]
    assert replies[0].text == replies[1].text and replies[0].step == replies[1].step
    assert made == ["a"]


def test_a_run_of_the_same_code_waits_no_longer_than_a_run_may_take(
    local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from byref.tools import calls

    monkeypatch.setattr(calls, "_patience", lambda _scope: 0.2)
    begun, goes_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert goes_on.wait(30)
        return "done"

    session = local.session("chat", tenant=tenant, functions=[slow])
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, session, "slow()")
        assert begun.wait(30)
        second = run(session, "slow()")
        assert second.is_error and second.step is None and "already running" in second.text
        goes_on.set()
        assert first.result(60).text == run(session, "slow()").text == "done"


CHAINS = """
import asyncio
async def chain(key):
    first = await get(key)
    return [first, await get(key + key)]
print(await asyncio.gather(chain('a'), chain('b')), flush=True)
pay()
"""
LOOP = "for region in regions():\n    try:\n        print(get(region))\n    except RuntimeError as error:\n        print(error)\npay()"
GATHERED = "import asyncio\nprint(await asyncio.gather(*[get(r) for r in regions()], return_exceptions=True))\npay()"
PATHS = {
    "chains whose answers come in another order": (CHAINS, [], [], ["a", "b", "aa", "bb"], None),
    "the same loop": (LOOP, ["x", "y"], ["x", "y"], ["x", "y"], None),
    "a loop in another order": (LOOP, ["x", "y"], ["y", "x"], ["x", "y"], None),
    "a loop that asks for more at its end": (LOOP, ["x"], ["x", "y"], ["x", "y"], None),
    "a loop with another first": (LOOP, ["x", "y"], ["z", "x", "y"], ["x", "y"], "its path has changed"),
    "changed arguments": (LOOP, ["x"], ["z"], ["x"], "its path has changed"),
    "gathered, in another order, and more": (GATHERED, ["x", "y"], ["z", "y", "x"], ["x", "y", "z"], None),
    "gathered, one left out": (
        GATHERED,
        ["x", "y"],
        ["y"],
        ["x", "y"],
        "1 of the calls made before were not asked for",
    ),
    "gathered, one changed": (GATHERED, ["x", "y"], ["z", "y"], ["x", "y"], "its path has changed"),
}


@pytest.mark.parametrize("what", PATHS)
def test_code_that_asks_for_other_calls_than_before_is_told(
    local: Engine, tenant: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, before, after, expected, words = PATHS[what]
    made: list[str] = []
    first = [True]

    def get(key: str) -> str:
        if key == "a":
            time.sleep(0.1)  # so that the second chain is ahead of the first
        made.append(key)
        return key

    functions = [Function.of(get, concurrency=8), Function("pay", lambda: 1, approval=True)]
    if before:
        code = code.replace("regions()", f"({before!r} if os.urandom(1) else 0)")
    session = local.session("chat", tenant=tenant, functions=functions)
    # Another set of regions in the second run, as from a clock or a file that has changed: the journal cannot know of it.
    from byref.interpreter import runs

    real = runs.run

    def run_other(scope: Any, text: str, **options: Any) -> Any:
        return real(scope, text if first.pop() else text.replace(repr(before), repr(after)), **options)

    monkeypatch.setattr(runs, "run", run_other)
    [pending] = run(session, f"import os\n{code}").pending
    first.append(False)
    last = session.resume("c1", {pending.id: True})
    assert sorted(made) == sorted(expected), last.text
    assert words in last.text if words else "before" not in last.text, last.text


@journaled
def test_programs_that_nobody_goes_on_with_are_ended(engine: Engine, tenant: str) -> None:
    functions = [Function("get", lambda: "x" * 10), Function("pay", lambda: 1, approval=True)]
    session = engine.session("chat", tenant=tenant, functions=functions)
    [one] = run(session, "get(), pay()").pending
    write = engine.database.write
    assert [pending.id for pending in session.pending()] == [one.id]
    old = datetime.now(UTC) - timedelta(days=programs.OPEN_DAYS + 1)

    def state_of(connection: Connection) -> list[str]:
        return list(connection.execute(select(ProgramRow.state).where(ProgramRow.tenant == tenant)).scalars())

    def left(connection: Connection) -> int:
        calls = select(CallRow.id).where(CallRow.tenant == tenant, CallRow.result.is_not(None))
        return len(connection.execute(calls).all())

    def age(connection: Connection, state: str) -> None:
        mine = update(ProgramRow).where(ProgramRow.tenant == tenant)
        connection.execute(mine.values(state=state, owner="", seen_at=old))

    write(lambda connection: age(connection, "waiting"))
    engine.sweep()
    assert write(state_of) == ["waiting"] and write(left) == 1
    write(lambda connection: age(connection, "running"))
    engine.sweep()
    assert write(state_of) == ["ended"] and write(left) == 0 and session.pending() == []
    run(session, "get(), pay()", "c2")
    assert len(session.pending()) == 1
    session.end()
    assert session.pending() == [] and write(left) == 0 and write(state_of) == ["ended", "ended"]


@pytest.mark.parametrize(("call", "state"), [(None, "ended"), ("c1", "running")])
def test_a_program_of_a_dead_process_that_nobody_can_begin_again_is_ended_after_its_lease(
    engine: Engine, tenant: str, call: str | None, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine.session("chat", tenant=tenant, functions=[Function("get", lambda: 1)])
    with monkeypatch.context() as patched:  # it dies before its reply
        patched.setattr(Calls, "commit", lambda *_arguments: (_ for _ in ()).throw(SystemExit))
        patched.setattr(Calls, "close", lambda *_arguments: None)
        with pytest.raises(SystemExit):
            session.call("code_interpreter", {"code": "get()"}, call_id=call)

    def states(connection: Connection) -> list[str]:
        return list(connection.execute(select(ProgramRow.state).where(ProgramRow.tenant == tenant)).scalars())

    def age(connection: Connection) -> None:
        old = datetime.now(UTC) - timedelta(seconds=programs.LEASE_SECONDS + 1)
        connection.execute(update(ProgramRow).where(ProgramRow.tenant == tenant).values(seen_at=old))

    engine.sweep()
    assert engine.database.write(states) == ["running"]
    engine.database.write(age)
    engine.sweep()
    assert engine.database.write(states) == [state]


FORGED = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
"""A frame of zstandard that says it holds a tebibyte."""


@pytest.mark.parametrize("damaged", [FORGED, b"", b"17"])
def test_a_damaged_result_is_an_error_in_code(local: Engine, tenant: str, damaged: bytes) -> None:
    functions = [Function("look", lambda: 1), Function("pay", lambda: 1, approval=True)]
    session = local.session("chat", tenant=tenant, functions=functions)
    [one] = run(session, "look()\npay()").pending
    mine = (CallRow.tenant == tenant) & (CallRow.function == "look")
    local.database.write(lambda c: c.execute(update(CallRow).where(mine).values(result=damaged)))
    again = session.resume("c1", {one.id: True})
    assert again.is_error and "what look() returned before the interruption is damaged" in again.text


def test_a_decision_may_be_made_again_but_not_another(
    local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def pay(order: int) -> int:
        made.append(order)
        return order

    session = local.session("chat", tenant=tenant, functions=[Function.of(pay, approval=True)])
    [one] = run(session, "pay(1)").pending
    with monkeypatch.context() as patched:  # the process dies as soon as it has decided
        patched.setattr("byref.tools.calls.call", lambda *_arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.resume("c1", {one.id: {"order": 2}})
    for other in (True, False, {"order": 3}):
        with pytest.raises(ConfigurationError, match="decided already"):
            session.resume("c1", {one.id: other})
    assert session.resume("c1", {one.id: {"order": 2}}).text == "2" and made == [2]


@pytest.mark.quick_cases(1)
@journaled
@pytest.mark.parametrize("is_committed", [True, False])
def test_code_calls_functions_in_a_hosts_transaction_that_has_written_of_the_session(
    engine: Engine, tenant: str, is_committed: bool
) -> None:
    made: list[int] = []

    def pay(amount: int) -> int:
        made.append(amount)
        return amount

    engine.session("old", tenant=tenant).process("before", tool="t")
    its = create_engine(engine.database.engine.url)
    with HostSession(its) as host:
        for name in ("old", "new"):
            session = engine.session(name, tenant=tenant, db=host, functions=[pay])
            session.process("small", tool="t")
            for each in range(2):
                reply = session.call("code_interpreter", {"code": f"pay({each}) + pay(10)"}, call_id=f"c{each}")
                assert reply.text == str(each + 10)
        if is_committed:
            host.commit()
    its.dispose()
    assert made == [0, 10, 1, 10] * 2
    for name in ("old", "new"):
        kept = [one for one in engine.session(name, tenant=tenant).ledger() if one.kind == "call"]
        assert len(kept) == (4 if is_committed else 0)


def killer(sandbox: Sandbox) -> Callable[[], None]:
    """Kills every process of the sandbox that may be running code."""

    def kill() -> None:
        for pid in process_table.everyone(process_table.root_pid(sandbox)):
            os.kill(pid, signal.SIGKILL)

    return kill


@pytest.mark.quick_cases(1)
@journaled
@pytest.mark.parametrize("call", ["c1", pytest.param(None, marks=pytest.mark.slow)])
def test_code_whose_sandbox_is_killed_goes_on_as_long_as_more_calls_are_answered(
    engine: Engine, tenant: str, sandbox: Sandbox, call: str | None
) -> None:
    made: list[int] = []
    kill = killer(sandbox)

    def step(number: int) -> int:
        made.append(number)
        kill()
        return number

    session = engine.session("chat", tenant=tenant, functions=[step])
    reply = run(session, "[step(n) for n in range(6)]", call)
    assert (reply.text, made) == ("[0,1,2,3,4,5]", [*range(6)])
    assert [entry.kind for entry in session.ledger()] == [*["call"] * 6, "reply"]


@pytest.mark.slow
@pytest.mark.parametrize("call", ["c1", None])
def test_code_whose_sandbox_is_killed_in_vain_ends(
    engine: Engine, tenant: str, sandbox: Sandbox, call: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    runs: list[Calls] = []
    kill, begin = killer(sandbox), Calls.begin

    def killed(calls: Calls, asked: Any) -> None:
        if made and calls not in runs:  # before it has asked for anything that was answered
            runs.append(calls)
            kill()
        else:
            begin(calls, asked)

    def step(number: int) -> int:
        made.append(number)
        kill()
        return number

    monkeypatch.setattr(Calls, "begin", killed)
    session = engine.session("chat", tenant=tenant, functions=[step])
    reply = run(session, "step(1)", call)
    assert reply.is_error and reply.text.startswith("Crash: ") and (made, len(runs)) == ([1], 4)
    assert [(entry.kind, entry.step) for entry in session.ledger()] == [("call", 1), ("reply", 1)]
    assert (session.pending(), run(session, "2", call).text) == ([], "2")


def test_code_without_a_call_id_that_has_lost_its_program_is_not_run_again(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def step(number: int) -> int:
        made.append(number)
        engine.database.write(lambda connection: programs.end_all(connection, session._scope.row))  # as a sweep
        return number

    session = engine.session("chat", tenant=tenant, functions=[step])
    reply = run(session, "step(1)", None)
    assert (
        reply.is_error
        and reply.text
        == snapshot(
            "this code was interrupted; nobody knows which of its calls were made: look before you run it again"
        )
        and made == [1]
    )
