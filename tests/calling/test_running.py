"""Code of a conversation calls functions of the host: what it gets, what the journal has, and what waits for approval."""

from __future__ import annotations

import asyncio
import datetime
import enum
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
import pytest
from sqlalchemy import select

from byref import AsyncEngine, ConfigurationError, Engine, Function, Session, ToolReply
from byref.calling.threads import run_program
from byref.db.tables import CallRow

journaled = pytest.mark.postgresql("the journal's transactions")


class Shop:
    """Functions that remember their calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.paid: list[Any] = []

    def get_orders(self, region: str, limit: int = 3) -> list[dict[str, Any]]:
        """Orders of a region."""
        self.asked.append((region, limit))
        if region == "nowhere":
            raise ValueError("no such region")
        return [{"id": each, "region": region, "amount": each * 1.5} for each in range(limit)]

    async def refund(self, order: int, why: str = "") -> dict[str, Any]:
        """Pay back an order."""
        await asyncio.sleep(0)
        self.paid.append((order, why))
        return {"order": order}


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def open_shop(engine: Engine, tenant: str, shop: Shop) -> Callable[..., Session]:
    """Opens the same conversation anew, as another process would."""

    def opened(**options: Any) -> Session:
        refund = Function.of(shop.refund, approval=True, **options)
        return engine.session("chat", tenant=tenant, functions=[shop.get_orders, refund])

    return opened


def run(session: Session, code: str, call_id: str | None = None) -> ToolReply:
    return session.call("code_interpreter", {"code": code}, call_id=call_id)


@journaled
def test_each_call_is_in_the_ledger_under_its_runs_step(open_shop: Callable[..., Session], shop: Shop) -> None:
    session = open_shop()
    code = (
        "import asyncio\n"
        "found = await asyncio.gather(*[get_orders(r, limit=400) for r in ['EU', 'nowhere']], return_exceptions=True)\n"
        "len(found[0])"
    )
    reply = run(session, code, "c1")
    assert not reply.is_error and reply.text.startswith("400")
    calls = [entry for entry in session.ledger() if entry.kind == "call"]
    assert [(one.tool, one.step, one.call_id, one.is_error) for one in calls] == [
        ("get_orders", reply.step, "c1", False),
        ("get_orders", reply.step, "c1", True),
    ]
    assert calls[0].arguments == '{"region":"EU","limit":400}'
    assert calls[0].original_tokens is not None and calls[0].original_tokens > 4_000
    assert calls[1].detail["error"] == "ValueError: get_orders(): no such region"
    assert session.usage().tokens_saved >= calls[0].original_tokens - reply.tokens
    assert "saved" in str(session.explain("c1"))
    assert run(session, code, "c1").text == reply.text  # the same reply again, and nothing is called
    assert len(shop.asked) == 2


@journaled
def test_a_large_result_is_a_variable_of_the_session(open_shop: Callable[..., Session]) -> None:
    session = open_shop()
    reply = run(session, "len(get_orders('EU', limit=2000))")
    assert "get_orders_result" in reply.text
    assert session.resolve({"rows": "$get_orders_result"})["rows"][1999]["id"] == 1999
    assert run(session, "sum(o['amount'] for o in get_orders_result)").text.startswith("2998500")


def test_an_output_of_a_tool_that_code_calls_too_has_another_name(
    open_shop: Callable[..., Session], engine: Engine, tenant: str
) -> None:
    orders = [{"id": n, "note": "x" * 40} for n in range(2_000)]
    before = engine.session("chat", tenant=tenant)
    assert [one.name for one in before.process(orders, tool="get_orders").variables] == ["get_orders"]
    session = open_shop()
    assert run(session, "get_orders('EU', limit=1)[0]['region']").text.startswith("EU")  # the function, not the output
    assert [one.name for one in session.process([*orders, {"id": 0}], tool="get_orders").variables] == [
        "get_orders_result"
    ]
    assert run(session, "len(get_orders_result)").text == "2001"


def test_names_bound_to_an_output_stay_when_a_function_gets_its_name(engine: Engine, tenant: str) -> None:
    before = engine.session("chat", tenant=tenant)
    before.process([{"id": n} for n in range(3_000)], tool="get_orders")
    run(before, "orders = get_orders\nfirst = get_orders[:2]\nnewest = {'all': get_orders}\nframe = df(get_orders)")

    def get_orders() -> str:
        return "called"

    code = "[len(orders), first, newest['all'] is orders, len(frame), get_orders()]"
    for _ in range(2):
        after = engine.session("chat", tenant=tenant, functions=[get_orders])
        reply = run(after, code)
        assert not reply.is_error and '[3000,[{"id":0},{"id":1}],true,3000,"called"]' in reply.text
    assert run(before, "[len(get_orders), newest['all'] is orders, len(frame)]").text == "[3000,true,3000]"


@journaled
def test_a_call_waits_for_approval_and_none_is_made_twice(open_shop: Callable[..., Session], shop: Shop) -> None:
    code = "orders = get_orders('EU')\npaid = [refund(7), refund(8, why='late')]\n[len(orders), paid]"
    reply = run(open_shop(), code, "c1")
    assert reply.step is None and not reply.is_error and "refund(order=7)" in reply.text
    [first] = reply.pending
    assert (first.function, first.arguments) == ("refund", {"order": 7})
    assert shop.paid == [] and len(shop.asked) == 1
    again = run(open_shop(), code, "c1")
    assert again.pending == reply.pending
    assert [one.id for one in open_shop().pending("c1")] == [first.id]
    second = open_shop().resume("c1", {first.id: True})
    assert shop.paid == [(7, "")]
    last = open_shop().resume("c1", {second.pending[0].id: {"order": 9}})
    assert last.text.startswith('[3,[{"order":7},{"order":9}]]') and last.step is not None
    assert shop.paid == [(7, ""), (9, "")] and len(shop.asked) == 1
    assert run(open_shop(), code, "c1").text == last.text
    assert open_shop().pending() == []


def test_several_calls_wait_together_and_a_refusal_is_an_error_in_code(
    open_shop: Callable[..., Session], shop: Shop
) -> None:
    code = (
        "import asyncio\nfound = await asyncio.gather(refund(1), refund(2), return_exceptions=True)\n"
        "[f if isinstance(f, dict) else type(f).__name__ for f in found]"
    )
    reply = run(open_shop(), code, "c1")
    one, two = reply.pending
    done = open_shop().resume("c1", {one.id: False, two.id: True})
    assert done.text.startswith('["PermissionError",{"order":2}]')
    assert shop.paid == [(2, "")]
    states = [entry.detail["outcome"] for entry in open_shop().ledger() if entry.kind == "call"]
    assert states == ["refused", "returned"]


def test_decisions_are_about_the_calls_of_that_code_only(open_shop: Callable[..., Session], shop: Shop) -> None:
    session = open_shop()
    [one] = run(session, "refund(1)", "c1").pending
    [other] = run(session, "refund(2)", "c2").pending
    for call_id, decisions, words in (
        ("c1", {other.id: True}, "no call of this code"),
        ("c3", {one.id: True}, "no code waits"),
        ("c1", {one.id: {"order": "x"}}, "integer"),
        ("c1", {one.id: "yes"}, "expected True, False"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            session.resume(call_id, decisions)  # type: ignore[arg-type]
    assert shop.paid == []
    assert session.resume("c1", {one.id: True}).text.startswith('{"order":1}')
    with pytest.raises(ConfigurationError, match="no code waits"):
        session.resume("c1", {one.id: True})


@dataclass
class Order:
    id: int
    region: str


@dataclass
class Event:
    id: int
    kind: str = field(default="event", init=False)


@dataclass
class Report:
    total: Any
    orders: Any


class Color(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    a: int
    b: int


RESULTS = {
    "a frame": (pd.DataFrame({"a": [1, 2]}), "list(x.a)", "[1,2]"),
    "a date": (datetime.date(2026, 1, 2), "x.year", "2026"),
    "text": ('{"a": 1}', "x", '{"a": 1}'),
    "bytes": (b"abc", "len(x)", "3"),
    "nothing": (None, "x is None", "True"),
    "a set": ({1}, "1 in x", "True"),
    "a part of a buffer": (memoryview(b"abcd")[::2], "x.decode()", "ac"),
    "dataclasses": ([Order(1, "EU"), Order(2, "US")], "[o['region'] for o in x]", '["EU","US"]'),
    "a field that is no argument": (
        [Event(1), {"a": datetime.date(2026, 1, 2)}],
        "x[0]['kind'], x[1]['a'].year",
        '["event",2026]',
    ),
    "a dataclass of pandas": (
        [Report(pd.Series([1, 2]).sum(), pd.DataFrame({"a": [1, 2]}))],
        "int(x[0]['total']), list(x[0]['orders'].a)",
        "[3,[1,2]]",
    ),
    "an enumeration": ({"a": Color.RED, "on": datetime.date(2026, 1, 2)}, "x['a'], x['on'].year", '["red",2026]'),
    "a named tuple": (Pair(1, 2), "x['a']", "1"),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_what_a_function_returns_is_what_code_gets(local: Engine, tenant: str, kind: str) -> None:
    value, code, expected = RESULTS[kind]
    session = local.session("chat", tenant=tenant, functions=[Function("give", lambda: value)])
    assert run(session, f"x = give()\n{code}").text.partition("\n")[0] == expected


def test_errors_are_words_that_code_can_catch(local: Engine, tenant: str) -> None:
    class Odd:
        pass

    def slow() -> None:
        time.sleep(1)

    functions = [
        Function("odd", Odd),
        Function.of(slow, timeout=0.1),
        Function("twice", lambda: 1, max_calls=2),
        Function("fails", lambda: {}["gone"]),
    ]
    session = local.session("chat", tenant=tenant, functions=functions)
    assert "cannot be given to code" in run(session, "odd()").text
    assert run(session, "slow()").text.startswith("TimeoutError")
    assert "used up" in run(session, "twice(), twice(), twice()").text
    assert run(session, "fails()").text.startswith("KeyError")


def test_the_time_in_which_a_result_is_encoded_is_not_the_functions(local: Engine, tenant: str) -> None:
    class Slow:
        def to_dict(self) -> dict[str, int]:
            time.sleep(0.7)
            return {"a": 1}

    session = local.session("chat", tenant=tenant, functions=[Function("give", Slow, timeout=0.5)])
    assert run(session, "give()['a']", "c1").text == "1"
    [wall_ms] = local.database.read(
        lambda c: c.execute(select(CallRow.wall_ms).where(CallRow.tenant == tenant)).scalars().all()
    )
    assert wall_ms < 500


def test_coroutine_functions_run_on_the_hosts_loop(sqlite_url: str) -> None:
    loops: list[object] = []

    async def where() -> int:
        loops.append(asyncio.get_running_loop())
        return 1

    async def main() -> None:
        async with AsyncEngine(sqlite_url) as engine:
            session = await engine.session("chat", functions=[where])
            reply = await session.call("code_interpreter", {"code": "where()"})
            assert reply.text == "1"
            assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())


def test_a_function_needs_no_thread_of_the_hosts_loop(local: Engine, tenant: str) -> None:
    async def one() -> int:
        return 1

    session = local.session("chat", tenant=tenant, functions=[one])

    async def main() -> None:
        loop, over = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = asyncio.ensure_future(asyncio.to_thread(over.wait, 30))
        reply = await asyncio.wait_for(run_program(lambda: run(session._on(loop), "one()")), 10)
        over.set()
        assert reply.text == "1" and await busy

    asyncio.run(main())


async def broken(x: int) -> int:
    """Await what was cancelled, as a tool does whose connection is closed."""
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task
    return x


def test_what_was_cancelled_within_a_function_is_an_error_in_code(local: Engine, tenant: str) -> None:
    session = local.session("chat", tenant=tenant, functions=[broken])
    code = "import asyncio\n[str(each) for each in await asyncio.gather(broken(1), broken(2), return_exceptions=True)]"
    assert run(session, code).text == '["broken(): CancelledError","broken(): CancelledError"]'


@pytest.mark.parametrize("ends", ["loop", "caller"])
def test_a_program_that_is_given_up_calls_no_further_function_and_may_be_begun_again(
    local: Engine, tenant: str, ends: str
) -> None:
    made: list[str] = []
    began = threading.Event()

    async def first() -> int:
        made.append("first")
        began.set()
        await asyncio.sleep(60 if made.count("first") == 1 else 0)
        return 1

    def second() -> int:
        made.append("second")
        return 2

    functions: list[Any] = [Function("first", first, repeatable=True), second]
    session = local.session("chat", tenant=tenant, functions=functions)
    code = "try:\n    n = first()\nexcept Exception:\n    n = second()\n[n, second()]"
    over = threading.Event()

    def program(loop: asyncio.AbstractEventLoop) -> None:
        with pytest.raises(asyncio.CancelledError):
            run(session._on(loop), code, "c1")
        over.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        if ends == "loop":  # which cancels all tasks then, that of the function too
            threading.Thread(target=program, args=[loop]).start()
            await asyncio.to_thread(began.wait)
            return
        task = asyncio.ensure_future(run_program(lambda: program(loop)))
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(over.wait, 10)

    asyncio.run(main())
    assert over.wait(10) and made == ["first"]
    assert run(session, code, "c1").text.startswith("[1,2]")
    assert made == ["first", "first", "second"]


def test_the_description_shows_the_functions_within_a_budget(local: Engine, tenant: str) -> None:
    many = [Function(f"f{each}", print, description="word " * 40) for each in range(200)]
    described = local.session("chat", tenant=tenant, functions=many).tools()[0]["function"]["description"]
    assert "f0()  # word" in described and "more: functions('words') finds them" in described
    assert len(described) < 8_000


def test_help_says_how_a_function_is_called_once(local: Engine, tenant: str) -> None:
    def orders(region: str, limit: int = 100) -> list[dict[str, Any]]:
        """Orders of a region."""
        return []

    session = local.session("chat", tenant=tenant, functions=[orders])
    assert run(session, "help(orders)").text.startswith(
        "orders(region: str, limit: int = 100) -> list[dict]\nOrders of a region."
    )
    assert "(region, limit=100)" in run(session, "import inspect\nstr(inspect.signature(orders))").text


BAD = {
    "a builtin's name": lambda: Function("list", print),
    "no identifier": lambda: Function("get-orders", print),
    "a name of the sandbox": lambda: Function("df", print),
    "nothing to call": lambda: Function("f", 3),  # type: ignore[arg-type]
    "no schema": lambda: Function("f", print, parameters=[]),  # type: ignore[arg-type]
    "another schema": lambda: Function("f", print, parameters={"type": "array"}),
    "no parameters": lambda: Function("f", print, parameters=None),  # type: ignore[arg-type]
    "no description": lambda: Function("f", print, description=None),  # type: ignore[arg-type]
    "no parameter by place": lambda: Function("f", print, positional=("a",)),
    "no name by place": lambda: Function("f", print, positional=([],)),  # type: ignore[arg-type]
    "nothing by place": lambda: Function("f", print, positional=5),  # type: ignore[arg-type]
    "no end": lambda: Function("f", print, timeout=1e7),
    "no time": lambda: Function("f", print, timeout=0),
    "no calls": lambda: Function("f", print, max_calls=0),
    "arguments without names": lambda: Function.of(lambda *args: args, name="f"),
    "by place only": lambda: Function.of(max),
}


@pytest.mark.parametrize("what", BAD)
def test_a_function_that_makes_no_sense_is_refused(what: str) -> None:
    with pytest.raises(ConfigurationError):
        BAD[what]()


def test_two_functions_of_one_name_are_refused(local: Engine, tenant: str) -> None:
    with pytest.raises(ConfigurationError, match="two of the name"):
        local.session("chat", tenant=tenant, functions=[Function("f", print), Function("f", print)])


def test_names_keep_functions_between_calls(open_shop: Callable[..., Session], engine: Engine, tenant: str) -> None:
    code = """
import functools
tools = {"orders": get_orders}
eu = functools.partial(get_orders, "EU")
class Client:
    def __init__(self, load):
        self.load = load
client = Client(get_orders)
def twice(load=get_orders):
    return load("EU", 1) + load("US", 1)
"""
    assert "not kept" not in run(open_shop(), code).text
    used = "[len(tools['orders']('EU')), len(eu(limit=2)), len(client.load('EU', 1)), len(twice())]"
    assert run(open_shop(), used).text == "[3,2,1,2]"
    without = engine.session("chat", tenant=tenant)
    assert run(without, "sorted(tools)").text == '["orders"]'
    assert "NameError" in (text := run(without, "tools['orders']('EU')").text) and "not there now" in text
    assert run(open_shop(), used).text == "[3,2,1,2]"


def test_executors_call_functions_at_once(engine: Engine, tenant: str) -> None:
    at_it, most = 0, 0
    lock = threading.Lock()

    def slow(n: int) -> int:
        nonlocal at_it, most
        with lock:
            at_it, most = at_it + 1, max(most, at_it + 1)
        time.sleep(0.05)
        with lock:
            at_it -= 1
        if n == 7:
            raise LookupError("seven")
        return n

    session = engine.session("pool", tenant=tenant, functions=[slow])
    code = """
import asyncio, functools
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
with ThreadPoolExecutor(max_workers=3) as pool:
    mapped = list(pool.map(slow, range(5)))
    futures = {pool.submit(slow, n=n): n for n in (6, 7)}
    failed = {futures[one]: str(one.exception()) for one in as_completed(futures)}
pool = ThreadPoolExecutor()
late = pool.submit(functools.partial(slow, 8))
try:
    late.result(timeout=0.001)
except TimeoutError:
    print("late", late.running())
done, others = wait([late, pool.submit(slow, 9)], return_when=FIRST_COMPLETED)
loop = asyncio.get_event_loop()
awaited = await asyncio.gather(*[loop.run_in_executor(None, slow, n) for n in range(2)])
wrong = pool.submit(slow, "x").exception()
left = pool.submit(slow, 10)
(mapped, failed[6], failed[7], len(done) >= 1, awaited, type(wrong).__name__)
"""
    text = run(session, code).text
    assert text.splitlines()[:2] == [
        "late True",
        '[[0,1,2,3,4],"None","slow(): seven",true,[0,1],"ValueError"]',
    ]
    assert most == 3
    assert run(session, "left.result()").text == "10"  # a program ends when its executors are done, as in Python


def test_code_that_means_a_function_reads_how_it_is_called(open_shop: Callable[..., Session]) -> None:
    session = open_shop()
    assert "Did you mean 'get_orders'?" in run(session, "get_order('EU')").text
    assert "there without an import: get_orders" in run(session, "from tools import get_orders").text
    shadowed = run(session, "get_orders = get_orders('EU')\nget_orders('US')").text
    assert "`del get_orders` brings back what it was" in shadowed
    assert run(session, "del get_orders\nlen(get_orders('US'))").text == "3"


@journaled
def test_of_several_programs_that_wait_under_one_id_the_one_is_resumed_that_was_decided_about(
    open_shop: Callable[..., Session], engine: Engine, tenant: str, shop: Shop
) -> None:
    session = open_shop()
    [first] = run(session, "refund(1)", "c1").pending
    [second] = run(session, "refund(2)", "c1").pending
    assert {one.id for one in session.pending("c1")} == {first.id, second.id}
    assert session.resume("c1", {first.id: True}).text == '{"order":1}' and shop.paid == [(1, "")]
    without = engine.session("chat", tenant=tenant, functions=[shop.get_orders])
    for decision in (True, False):
        with pytest.raises(ConfigurationError, match="no function 'refund' any more"):
            without.resume("c1", {second.id: decision})
    assert session.resume("c1", {second.id: True}).text == '{"order":2}' and len(shop.paid) == 2
