"""Code calls functions of its host: what it may write, what it gets, and what it waits for."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from byref_sandbox import Limits, Outcome, Sandbox, Snapshot, State
from byref_sandbox.functions import Answer, Call, ErrorKind, Parameter, Raised, Returned, Stub
from byref_sandbox.outcome import SUSPENDED

REGION = Parameter("region")
LIMIT = Parameter("limit", is_required=False)
MOST = Parameter("most", "keyword", False)


class Host:
    """Answers calls with the threads of a pool."""

    beginning = None

    def __init__(self, *functions: tuple[Stub, Callable[..., Any]]) -> None:
        self.stubs = [stub for stub, _ in functions]
        self.called: list[str] = []
        self.most_at_once = 0
        self.suspends = False
        self._functions = {stub.name: function for stub, function in functions}
        self._pool = ThreadPoolExecutor(32)
        self._lock = threading.Lock()
        self._answers: list[Answer] = []
        self._now = 0
        self._closed = threading.Event()
        self._ready, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._ready

    def begin(self, calls: Sequence[Call]) -> None:
        self.called += [f"{call.function} {call.arguments.decode()}" for call in calls]
        for call in calls:
            if not self.suspends:
                self._pool.submit(self._do, call)

    def _do(self, call: Call) -> None:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        answer: Answer
        try:
            made = self._functions[call.function](**json.loads(call.arguments))
            payload = made if isinstance(made, bytes) else json.dumps(made).encode()
            answer = Returned(call.number, "application/json", payload)
        except Exception as error:
            kind: ErrorKind = "ValueError" if isinstance(error, ValueError) else "FunctionError"
            answer = Raised(call.number, kind, str(error))
        with self._lock:
            self._now -= 1
            self._answers.append(answer)
        os.write(self._wake, b"1")

    def answers(self) -> Sequence[Answer]:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ready, 4096)
        with self._lock:
            answers, self._answers = self._answers, []
        return answers

    def patience(self) -> float:
        return 60

    def waits_for_ever(self) -> bool:
        return self.suspends

    def nap(self, seconds: float) -> None:
        self._closed.wait(seconds)

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown()
        os.close(self._ready)
        os.close(self._wake)


def get_orders(region: str, limit: int = 2) -> list[dict[str, Any]]:
    if region == "nowhere":
        raise ValueError("no region is called nowhere")
    if region == "broken":
        raise OSError("the shop is closed")
    time.sleep(0.02)
    return [{"region": region, "amount": each} for each in range(limit)]


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(
        (Stub("get_orders", [REGION, LIMIT], "get_orders(region, limit=2)\nOrders of a region."), get_orders),
        (Stub("echo", [Parameter("value")], "echo(value)"), lambda value: value),
        (Stub("nap", [Parameter("seconds")], "nap(seconds)"), lambda seconds: host.nap(seconds)),
        (Stub("tagged", [Parameter("tags", "further", False)], "tagged(**tags)"), lambda **tags: tags),
    )
    yield host
    host.close()


def value_of(outcome: Outcome) -> Any:
    assert outcome.error is None, outcome.error
    return outcome.value


BOTH = [{"region": "EU", "amount": 0}, {"region": "EU", "amount": 1}]
FORMS = {
    "called": ("get_orders('EU')", BOTH),
    "by name": ("get_orders(region='EU', limit=1)", BOTH[:1]),
    "awaited": ("await get_orders('EU')", BOTH),
    "in a helper": (
        "def total(r):\n    return sum(o['amount'] for o in get_orders(r))\ntotal('EU')",
        1,
    ),
    "in an async helper": ("async def f(r):\n    found = await get_orders(r)\n    return len(found)\nawait f('EU')", 2),
    "in an async helper, not awaited": (
        "async def f(r):\n    found = get_orders(r)\n    return len(found)\nawait f('EU')",
        2,
    ),
    "asyncio.run": (
        "import asyncio\nasync def main():\n    return len(await get_orders('EU'))\nasyncio.run(main())",
        2,
    ),
    "its result is awaited once more": ("async def f(found):\n    return await found\nawait f(get_orders('EU'))", BOTH),
    "further names": ("tagged(a=1, b='x')", {"a": 1, "b": "x"}),
    "a frame as argument": ("echo(pd.DataFrame({'a': [1, 2]}))", [{"a": 1}, {"a": 2}]),
    "dates as arguments": ("echo({'at': pd.Timestamp('2026-01-02'), 'n': np.int64(3)})", None),
    "an error is caught": (
        "try:\n    get_orders('nowhere')\nexcept ValueError as error:\n    said = str(error)\nsaid",
        "no region is called nowhere",
    ),
    "another error is caught": (
        "try:\n    get_orders('broken')\nexcept FunctionError as error:\n    said = str(error)\nsaid",
        "the shop is closed",
    ),
    "an error in a gather": (
        "import asyncio\nr = await asyncio.gather(get_orders('EU'), get_orders('nowhere'), return_exceptions=True)\n"
        "[type(each).__name__ for each in r]",
        ["list", "ValueError"],
    ),
    "help": ("help(get_orders)", None),
    "functions": ("functions('orders')", "get_orders(region, limit=2)\nOrders of a region."),
    "map": ("list(map(echo, [1, 2]))", [1, 2]),
    "through a name": ("call = echo\ncall(5)", 5),
    "partial": ("import functools\nfunctools.partial(get_orders, limit=1)('EU')", BOTH[:1]),
    "a timeout": (
        "import asyncio\ntry:\n    await asyncio.wait_for(nap(5), 0.05)\nexcept TimeoutError:\n    said = 'late'\nsaid",
        "late",
    ),
    "eval": ('eval("echo(3)")', 3),
    "executors": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n"
        "    found = list(pool.map(echo, [1, 2]))\nfound",
        [1, 2],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_function_is_called_as_it_is_written(sandbox: Sandbox, host: Host, form: str) -> None:
    code, expected = FORMS[form]
    value = value_of(sandbox.run(code, functions=host))
    if expected is not None:
        assert value == expected


AT_ONCE = {
    "gather": "await asyncio.gather(*[get_orders(r) for r in 'abcd'])",
    "a list first": "calls = [get_orders(r) for r in 'abcd']\nawait asyncio.gather(*calls)",
    "appended": "calls = []\nfor r in 'abcd':\n    calls.append(get_orders(r))\nawait asyncio.gather(*calls)",
    "by name": "calls = {r: get_orders(r) for r in 'abcd'}\nawait asyncio.gather(*calls.values())",
    "awaited one by one": "calls = [get_orders(r) for r in 'abcd']\n[await call for call in calls]",
    "an async helper": "async def f(r):\n    return await get_orders(r)\nawait asyncio.gather(*map(f, 'abcd'))",
    "a plain helper": "def f(r):\n    return get_orders(r)\nawait asyncio.gather(*[f(r) for r in 'abcd'])",
    "a lambda": "f = lambda r: get_orders(r)\nawait asyncio.gather(*(f(r) for r in 'abcd'))",
    "map": "await asyncio.gather(*map(get_orders, 'abcd'))",
    "threads": "await asyncio.gather(*[asyncio.to_thread(get_orders, r) for r in 'abcd'])",
    "a task group": (
        "async def main():\n    async with asyncio.TaskGroup() as group:\n"
        "        calls = [group.create_task(get_orders(r)) for r in 'abcd']\n    return [c.result() for c in calls]\n"
        "await main()"
    ),
    "as they come": "[await call for call in asyncio.as_completed([get_orders(r) for r in 'abcd'])]",
}


@pytest.mark.parametrize("form", AT_ONCE)
def test_awaited_calls_are_under_way_at_once(sandbox: Sandbox, host: Host, form: str) -> None:
    value = value_of(sandbox.run("import asyncio\n" + AT_ONCE[form], functions=host))
    assert sorted(found[0]["region"] for found in value) == [*"abcd"]
    assert host.most_at_once > 1


def test_helpers_of_earlier_code_call_functions_too(sandbox: Sandbox, host: Host) -> None:
    defined = sandbox.run(
        "async def f(r):\n    return await get_orders(r)\ndef g(r):\n    return get_orders(r)", functions=host
    )
    assert defined.error is None and defined.contents is not None
    state = State((Snapshot(defined.contents),), defined.blobs)
    assert value_of(sandbox.run("len(await f('EU')) + len(g('EU'))", functions=host, state=state)) == 4


def test_wrong_arguments_are_told_before_anything_is_called(sandbox: Sandbox, host: Host) -> None:
    for code, kind, words in (
        ("get_orders()", "TypeError", "region"),
        ("get_orders('EU', 1, 2)", "TypeError", "get_orders(region, limit=2)"),
        ("get_orders('EU', size=1)", "TypeError", "size"),
        ("echo(lambda: 1)", "ValueError", "function"),
    ):
        error = sandbox.run(code, functions=host).error
        assert error is not None and error.kind == kind and words in error.message
    assert host.called == []


def test_nothing_leads_from_a_function_to_its_host(sandbox: Sandbox, host: Host) -> None:
    for name in ("_stub", "_functions", "__self__", "__globals__", "__call__.__func__", "__code__", "__class__._real"):
        error = sandbox.run(f"echo.{name}", functions=host).error
        assert error is not None, name
    for code in ("echo.x = 1", "echo.__name__ = 'a'", "del echo.__doc__", "type(echo)()", "type(echo)(1, 2)"):
        error = sandbox.run(code, functions=host).error
        assert error is not None, code


def test_waiting_counts_against_a_limit_of_its_own(sandbox: Sandbox, host: Host) -> None:
    assert value_of(sandbox.run("nap(0.4)\n3", functions=host, limits=Limits(wall_seconds=0.3))) == 3
    slow = sandbox.run("nap(0.1)\nwhile True:\n    pass", functions=host, limits=Limits(wall_seconds=0.3)).error
    assert slow is not None and (slow.kind, slow.line) == ("TimeLimit", 2)
    late = sandbox.run("1\nnap(5)", functions=host, limits=Limits(wait_seconds=0.1)).error
    assert late is not None and (late.kind, late.line) == ("WaitLimit", 2)


def test_a_run_that_waits_for_ever_is_ended(sandbox: Sandbox, host: Host) -> None:
    host.suspends = True
    for code in ("x = 1\necho(1)\nx = 2", "import asyncio\nawait asyncio.gather(echo(1), echo(2))"):
        began = time.monotonic()
        error = sandbox.run(code, functions=host).error
        assert error is not None and error.kind == SUSPENDED
        assert time.monotonic() - began < 5
    assert host.called[-2:] == ['echo {"value":1}', 'echo {"value":2}']


def test_what_the_host_raises_ends_the_run_and_passes_on(sandbox: Sandbox, host: Host) -> None:
    def fail(_calls: Sequence[Call]) -> None:
        raise KeyError("the journal")

    host.begin = fail  # type: ignore[method-assign]
    with pytest.raises(KeyError, match="the journal"):
        sandbox.run("echo(1)", functions=host)
    assert value_of(sandbox.run("1 + 1")) == 2


def test_a_number_that_json_has_no_form_for_is_an_error_that_says_where(sandbox: Sandbox, host: Host) -> None:
    """What is missing in a table is no number."""
    code = (
        "nan, inf = float('nan'), float('inf')\n"
        "wrong = (nan, [1, inf], {'a': {'b': [None, -inf]}}, np.float64('nan'), np.array([1, nan]), {1: np.float32('inf')},\n"
        "         ('\\ud800', nan), pd.DataFrame({'x': [1.5, inf]}), df([{'x': 1}]).assign(y=nan).to_dict('records'))\n"
        "said = []\n"
        "for one in wrong:\n"
        "    try:\n"
        "        echo(one)\n"
        "    except ValueError as error:\n"
        "        said.append(str(error).partition(': ')[2].partition(': ')[0].removeprefix('its arguments'))\n"
        "fine = [echo(pd.DataFrame({'x': [1.5, nan]})), echo(pd.Series([nan, 2])), echo([None, pd.NaT, pd.NA, 'null', 'nan'])]\n"
        "[said, fine]"
    )
    said, fine = value_of(sandbox.run(code, functions=host))
    assert said == [
        "['value'] is nan",
        "['value'][1] is inf",
        "['value']['a']['b'][1] is -inf",
        "['value'] is nan",
        "['value'][1] is nan",
        "['value'][1] is inf",
        "['value'][1] is nan",
        "['value'][1]['x'] is inf",
        "['value'][0]['y'] is nan",
    ]
    assert fine == [[{"x": 1.5}, {"x": None}], [None, 2.0], [None, None, None, "null", "nan"]]
    assert len(host.called) == 3


def test_code_sees_defaults(sandbox: Sandbox, host: Host) -> None:
    parameters = [REGION, Parameter("limit", "either", False, [100]), Parameter("by", "keyword", False, [None]), MOST]
    host.stubs = [Stub("get", parameters, "get(…)")]
    code = "import inspect\n[str(inspect.signature(get)), inspect.signature(get).parameters['limit'].default + 1]"
    assert value_of(sandbox.run(code, functions=host)) == ["(region, limit=100, *, by=None, most=Ellipsis)", 101]


@pytest.mark.slow
def test_a_large_result_comes_whole(sandbox: Sandbox, host: Host) -> None:
    rows = [{"id": each, "name": f"item {each}"} for each in range(100_000)]
    value = value_of(sandbox.run("rows = echo(rows)\nlen(rows), rows[-1]", {"rows": rows}, functions=host))
    assert value == [100_000, rows[-1]] or value == (100_000, rows[-1])


def test_code_without_functions_gets_no_line(sandbox: Sandbox, host: Host) -> None:
    assert value_of(sandbox.run("1 + 1", functions=host)) == 2
    error = sandbox.run("get_orders('EU')").error
    assert error is not None and error.kind == "NameError"
