"""The asynchronous API does the same as the synchronous one, off the event loop, and a cancelled call leaves nothing half done."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import multiprocessing
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import loop_lag
import pytest
import uvloop
from loop_lag import ONE_STRING, OUTPUTS, lag_during
from material import page, records
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession as HostSession
from sqlalchemy.ext.asyncio import create_async_engine
from sqlcheck import check_invariants

from byref import AsyncEngine, AsyncSession, ConfigurationError, Engine, Policy, SchemaMismatch, Session, ToolError
from byref_sandbox import Sandbox

T = TypeVar("T")


@asynccontextmanager
async def opened(url: str, sandbox: Sandbox, **settings: Any) -> AsyncIterator[AsyncEngine]:
    async with AsyncEngine(url, interpreter=sandbox, **settings) as engine:
        yield engine


def methods(of: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(member) for name, member in inspect.getmembers(of, inspect.isfunction)}


class TestTheSameNames:
    @pytest.mark.parametrize(
        ("sync", "own", "also"),
        [(Engine, AsyncEngine, {"open", "aclose", "session_by"}), (Session, AsyncSession, {"value", "preview"})],
    )
    def test_every_method_is_there_with_its_parameters(self, sync: type, own: type, also: set[str]) -> None:
        theirs = {name: found for name, found in methods(sync).items() if name[0] != "_"}
        ours = {name: found for name, found in methods(own).items() if name[0] != "_"}
        assert ours.keys() - also == theirs.keys()
        for name, signature in theirs.items():
            expected = {k: (p.kind, p.default) for k, p in signature.parameters.items()}
            assert {k: (p.kind, p.default) for k, p in ours[name].parameters.items()} == expected, name
            if name != "session":
                returns = re.sub(r"\bSession\b", "AsyncSession", str(signature.return_annotation))
                assert str(ours[name].return_annotation) == returns, name
            assert inspect.iscoroutinefunction(getattr(own, name)), name

    @pytest.mark.parametrize(("sync", "own"), [(Engine, AsyncEngine), (Session, AsyncSession)])
    def test_every_property_is_there(self, sync: type, own: type) -> None:
        theirs = {name for name, _ in inspect.getmembers(sync, lambda member: isinstance(member, property))}
        assert {name for name, _ in inspect.getmembers(own, lambda member: isinstance(member, property))} == theirs

    def test_an_engine_takes_the_same_settings(self) -> None:
        theirs = inspect.signature(Engine).parameters
        ours = dict(inspect.signature(AsyncEngine).parameters)
        assert ours.pop("workers").default is None
        assert {k: (p.kind, p.default) for k, p in ours.items()} == {k: (p.kind, p.default) for k, p in theirs.items()}


STEPS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("process", (page(),), {"tool": "list_users", "call_id": "a", "arguments": {"page": 1}}),
    ("process", (page(),), {"tool": "list_users", "call_id": "a", "arguments": {"page": 1}}),
    ("process", ("fine",), {"tool": "ping"}),
    ("tools", ("anthropic",), {}),
    ("owns", ("code_interpreter",), {}),
    ("owns", ("ping",), {}),
    ("call", ("code_interpreter", {"code": "kept = users[:3]\nlen(users)"}), {"call_id": "b"}),
    ("call", ("artifact_jq", {"artifact_id": "users", "expression": "length"}), {}),
    ("call", ("artifact_jq", "{}"), {}),
    ("resolve", ({"ids": {"$var": "users", "jq": "map(.id)[:2]"}, "plain": "$HOME"},), {}),
    ("record_usage", ({"prompt_tokens": 100, "completion_tokens": 5},), {"request_id": "r"}),
    ("context_tokens", (), {}),
    ("on_compaction", (50,), {}),
    ("context_tokens", (), {}),
    ("reminder", (), {"max_tokens": 80}),
    ("explain", ("a",), {}),
    ("end", (), {}),
    ("close", (), {}),
]


def plain(value: object) -> object:
    """A result without what no two conversations share: ids and times."""
    return re.sub(r"art[_:]\w{12}|datetime\([^)]*\)|wall_ms=\d+|cpu_ms=\d+|0x\w+", "…", repr(value))


class TestTheSameResults:
    @pytest.mark.quick_on("postgresql", "the other way of waiting: a driver's, not a file's")
    def test_a_conversation(self, shared_url: str, sandbox: Sandbox) -> None:
        with Engine(shared_url, interpreter=sandbox) as engine:
            session = engine.session("sync", tenant="t", context_window=200_000)
            expected = [plain(getattr(session, name)(*args, **kwargs)) for name, args, kwargs in STEPS]

        async def work() -> None:
            async with opened(shared_url, sandbox) as engine:
                session = await engine.session("async", tenant="t", context_window=200_000)
                for (name, args, kwargs), wanted in zip(STEPS, expected, strict=True):
                    assert plain(await getattr(session, name)(*args, **kwargs)) == wanted, name
                assert repr(session) == "AsyncSession('async', tenant='t')"
                assert (session.id, session.tenant, session.context_window) == ("async", "t", 200_000)

        asyncio.run(work())

    def test_data(self, shared_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with opened(shared_url, sandbox) as engine:
                async with await engine.session("s") as session:
                    await session.process(page(), tool="list_users")
                    assert [variable.name for variable in await session.variables()] == [
                        "list_users",
                        "users",
                        "pagination",
                    ]
                    assert await session.value(await session.variable("users")) == page()["users"]
                    stored = await session.store_artifact("x" * 300, name="note")
                    found = await session.get_artifact("note")
                    assert found == stored
                    assert await session.value(stored) == "x" * 300
                    assert (await session.preview(stored)).startswith("x" * 200 + "\n")
                    assert len(await session.artifacts()) == 2
                    outcome = await session.run("fresh = len(users)\nfresh + 1")
                    assert outcome.value == 1201
                    assert await session.value(await session.variable("fresh")) == 1200
                    other = await engine.session("other")
                    shared = await session.share(stored, "other")
                    assert await other.value(shared) == "x" * 300
                    assert [entry.tool for entry in await session.history()] == ["list_users"]
                    assert [entry.step for entry in await session.ledger()] == [1]
                    assert (await session.usage()).cost is not False
                assert [info.id for info in await engine.sessions()] == ["s", "other"]
                assert await engine.delete_session("other")
                assert not await engine.delete_session("other")
                assert (await engine.sweep()).blobs == 0
                assert await engine.delete_tenant("default") == 1

        asyncio.run(work())

    def test_errors_are_the_same(self, local: Engine, sqlite_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with opened(sqlite_url, sandbox) as engine:
                session = await engine.session("s")
                with pytest.raises(ToolError, match="nowhere"):
                    await session.resolve({"a": {"$var": "nowhere"}})
                with pytest.raises(ConfigurationError, match="no variable 'x'"):
                    await session.variable("x")
                with pytest.raises(ConfigurationError, match="context_window"):
                    await engine.session("s", context_window=-1)

        asyncio.run(work())

    @pytest.mark.slow
    @pytest.mark.parametrize("shared_url", ["sqlite", "postgresql"], indirect=True)
    def test_fifty_conversations_at_once(self, shared_url: str, sandbox: Sandbox) -> None:
        async def converse(engine: AsyncEngine, number: int) -> None:
            session = await engine.session(f"s{number}", context_window=10**7)
            await session.process(records(1_500 + number), tool="rows", call_id="0")
            reply = await session.call("code_interpreter", {"code": "len(rows)"}, call_id="1")
            assert reply.content == str(1_500 + number)
            await asyncio.gather(*(session.process(f"{number} {i}", tool="t") for i in range(3)))
            assert [entry.step for entry in await session.ledger()] == [1, 2, 3, 4, 5]

        async def work() -> None:
            async with opened(shared_url, sandbox) as engine:
                await asyncio.gather(*(converse(engine, number) for number in range(50)))
                assert len(await engine.sessions()) == 50

        asyncio.run(work())
        check_invariants(shared_url)


class TestTheEngine:
    def test_it_opens_by_what_is_called_first(self, sqlite_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            engine = AsyncEngine(sqlite_url, interpreter=sandbox, policy=Policy(max_result_tokens=5_000))
            with pytest.raises(ConfigurationError, match="not open yet"):
                _ = engine.policy
            sessions = await asyncio.gather(*(engine.session("s") for _ in range(20)))
            assert len({session._session._scope.database for session in sessions}) == 1
            assert engine.policy.max_result_tokens == 5_000
            assert engine.url == sqlite_url
            assert engine.sandbox is sandbox
            assert engine.database.dialect == "sqlite"
            await engine.close()

        asyncio.run(work())

    def test_what_keeps_it_from_opening_is_raised_every_time(self, empty_postgres_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            engine = AsyncEngine(empty_postgres_url, interpreter=sandbox)
            for attempt in (engine.open, engine.sessions):
                with pytest.raises(SchemaMismatch):
                    await attempt()
            await engine.close()

        asyncio.run(work())

    def test_several_event_loops_in_turn(self, sqlite_url: str, sandbox: Sandbox) -> None:
        engine = AsyncEngine(sqlite_url, interpreter=sandbox)

        async def work(number: int) -> int:
            session = await engine.session("s")
            await session.process(f"{number}", tool="t")
            return len(await session.ledger())

        assert [asyncio.run(work(number)) for number in range(3)] == [1, 2, 3]
        asyncio.run(engine.close())

    def test_at_most_so_many_threads_which_have_a_name(self, sqlite_url: str, sandbox: Sandbox) -> None:
        before = {*threading.enumerate()}  # other tests may have engines open

        async def work() -> None:
            async with opened(sqlite_url, sandbox, workers=2) as engine:
                session = await engine.session("s")
                await asyncio.gather(*(session.process(f"{i}", tool="t") for i in range(20)))
                threads = [thread.name for thread in {*threading.enumerate()} - before]
                assert sorted(name for name in threads if name.startswith("byref_")) == ["byref_0", "byref_1"]

        asyncio.run(work())
        assert not [thread for thread in {*threading.enumerate()} - before if thread.name.startswith("byref_")]

    def test_what_waits_for_others_keeps_nobody_waiting(self, shared_url: str, sandbox: Sandbox) -> None:
        """Neither slow senders of outputs nor code that waits for functions of the host hold the threads of other calls."""

        async def work() -> None:
            gate = asyncio.Event()

            async def ask() -> int:
                await gate.wait()
                return 1

            async def sent() -> AsyncIterator[str]:
                yield "a,b\n"
                await gate.wait()
                yield "1,2\n"

            async with opened(shared_url, sandbox, workers=2) as engine:
                sessions = [await engine.session(f"slow {number}", functions=[ask]) for number in range(3)]
                slow = [asyncio.create_task(one.process(sent(), tool="sent")) for one in sessions]
                slow += [asyncio.create_task(one.run("ask()")) for one in sessions]
                await asyncio.sleep(0.2)
                other = await asyncio.wait_for(engine.session("other"), 20)
                shown = await asyncio.wait_for(other.process("short", tool="t"), 20)
                assert shown.content == "short" and not any(task.done() for task in slow)
                gate.set()
                done = await asyncio.gather(*slow)
                assert [one.content for one in done[:3]] == ["a,b\n1,2\n"] * 3
                assert [one.value for one in done[3:]] == [1] * 3

        asyncio.run(work())

    @pytest.mark.parametrize("workers", [0, -1, 1.5, "4", True])
    def test_workers_is_a_positive_number(self, workers: Any) -> None:
        with pytest.raises(ConfigurationError, match="workers="):
            AsyncEngine(workers=workers)

    def test_closing_waits_for_calls_that_nobody_waits_for(self, sqlite_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with aclosing(AsyncEngine(sqlite_url, interpreter=sandbox)) as engine:
                session = await engine.session("s")
                call = asyncio.create_task(session.run("total = sum(i * i for i in range(10_000_000))\ntotal"))
                await asyncio.sleep(0.2)
                call.cancel()
                started = time.perf_counter()
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert time.perf_counter() - started < 0.1
            with pytest.raises(ConfigurationError, match="the engine is closed"):
                await session.variables()
            await engine.close()

        asyncio.run(work())
        with Engine(sqlite_url, interpreter=sandbox) as engine:
            assert engine.session("s").variable("total").value() == 9_999_999 * 10_000_000 * 19_999_999 // 6

    def test_closing_what_was_never_opened(self) -> None:
        asyncio.run(AsyncEngine("sqlite:///never.db").close())

    def test_work_sees_the_callers_context(self, sqlite_url: str, sandbox: Sandbox) -> None:
        request: ContextVar[str] = ContextVar("request")
        seen: list[str] = []

        class Counter:
            def count(self, text: str, kind: str = "text") -> int:
                seen.append(request.get())
                return 1

        async def work() -> None:
            async with opened(sqlite_url, sandbox, counter=Counter()) as engine:
                session = await engine.session("s")
                request.set("mine")
                await session.process("text", tool="t")

        asyncio.run(work())
        assert set(seen) == {"mine"}

    def test_after_a_fork_the_child_has_threads_of_its_own(self, sqlite_url: str, sandbox: Sandbox) -> None:
        engine = AsyncEngine(sqlite_url, interpreter=sandbox)

        async def work(text: str) -> None:
            await (await engine.session("s")).process(text, tool="t")

        asyncio.run(work("parent"))
        child = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(work("child")))
        child.start()
        child.join(30)
        assert child.exitcode == 0
        asyncio.run(work("parent again"))
        asyncio.run(engine.close())
        with Engine(sqlite_url, interpreter=sandbox) as sync:
            assert [e.content for e in sync.session("s").ledger()] == ["parent", "child", "parent again"]


class TestCancelling:
    @pytest.mark.slow
    def test_at_any_moment(self, shared_url: str, sandbox: Sandbox) -> None:
        """Two hundred times; what a cancelled call did, the same call answers with."""
        chance = random.Random(8)

        async def work() -> None:
            async with opened(shared_url, sandbox) as engine:
                session = await engine.session("s", context_window=10**9)
                await session.process(page(), tool="list_users")
                calls: list[Callable[[int], Awaitable[Any]]] = [
                    lambda i: session.process(records(1_500 + i), tool="rows", call_id=f"p{i}"),
                    lambda i: session.process(f"small {i}", tool="t", call_id=f"s{i}"),
                    lambda i: session.call("code_interpreter", {"code": f"n{i} = len(users)"}, call_id=f"c{i}"),
                    lambda i: session.call("artifact_grep", {"artifact_id": "users", "pattern": "99"}, call_id=f"g{i}"),
                    lambda i: session.record_usage({"prompt_tokens": i, "completion_tokens": 1}, request_id=f"u{i}"),
                    lambda i: session.store_artifact(records(900 + i), name=f"a{i}"),
                    lambda i: session.on_compaction(i),
                    lambda i: engine.session(f"other {i}"),
                ]
                cancelled = 0
                for i in range(200):
                    call = asyncio.ensure_future(calls[i % len(calls)](i))
                    await asyncio.sleep(chance.random() ** 2 * 0.03)
                    call.cancel()
                    started = time.perf_counter()
                    with contextlib.suppress(asyncio.CancelledError):
                        await call
                    cancelled += call.cancelled()
                    assert time.perf_counter() - started < 0.1
                assert cancelled > 50
                for i in range(0, 200, 8):
                    first = await session.process(records(1_500 + i), tool="rows", call_id=f"p{i}")
                    again = await session.process(records(1_500 + i), tool="rows", call_id=f"p{i}")
                    assert (first.step, first.content) == (again.step, again.content)
                given = [entry.call_id for entry in await session.ledger() if entry.kind == "output" and entry.call_id]
                assert len(given) == len(set(given))
                for artifact in await session.artifacts():
                    assert await session.value(artifact)

        asyncio.run(work())
        check_invariants(shared_url)

    def test_what_has_not_begun_is_dropped(self, sqlite_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with opened(sqlite_url, sandbox, workers=1) as engine:
                session = await engine.session("s")
                running = asyncio.create_task(session.run("sum(i * i for i in range(5_000_000))"))
                waiting = asyncio.create_task(session.call("code_interpreter", {"code": "1"}))
                await asyncio.sleep(0.05)
                waiting.cancel()
                await running
                assert waiting.cancelled()
                assert await session.ledger() == []

        asyncio.run(work())

    @pytest.mark.slow
    def test_a_timeout(self, sqlite_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            async with opened(sqlite_url, sandbox) as engine:
                session = await engine.session("s")
                code = "done = sum(i * i for i in range(5_000_000))"
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await session.call("code_interpreter", {"code": code}, call_id="c")
                reply = await session.call("code_interpreter", {"code": code}, call_id="c")
                assert "done" in reply.content

        asyncio.run(work())
        check_invariants(sqlite_url)


class TestTheLoop:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("kind", "share"),
        [("JSON text", "0.2"), *(pytest.param(kind, "1", marks=pytest.mark.slow) for kind in OUTPUTS)],
    )
    def test_it_goes_on_while_megabytes_are_processed(self, sqlite_url: str, kind: str, share: str) -> None:
        """Held up for less than 20 ms, in a process of its own: how malloc moves strings depends on what was freed before.

        Where bytes become one long string, that is so with the setting of malloc that docs/async.md advises.
        """
        script = Path(loop_lag.__file__)
        advised = {"MALLOC_MMAP_THRESHOLD_": "4194304"} if kind in ONE_STRING else {}
        command = [sys.executable, str(script), sqlite_url, kind, share]
        printed = subprocess.check_output(command, text=True, timeout=100, env=os.environ | advised)
        assert 0 < float(printed) < 0.02

    @pytest.mark.parametrize("where", ["on the loop", "in a thread"])
    def test_a_loop_that_is_held_up_is_seen(self, where: str) -> None:
        """What the test before would say of code that does not let the loop go on."""

        async def on_the_loop() -> int:
            return sum(range(3_000_000))

        work = on_the_loop() if where == "on the loop" else asyncio.to_thread(sum, range(3_000_000))
        assert asyncio.run(lag_during(work))[1] > 0.02


class TestOnUvloop:
    @pytest.mark.quick_cases(1)
    def test_a_conversation_with_calls_at_once_and_a_cancelled_one(self, shared_url: str, sandbox: Sandbox) -> None:
        async def work() -> None:
            assert type(asyncio.get_running_loop()).__module__ == "uvloop"
            async with opened(shared_url, sandbox) as engine:
                session = await engine.session("s", context_window=10**9)
                await session.process(page(), tool="list_users")
                assert (await session.call("code_interpreter", {"code": "len(users)"})).content == "1200"
                calls = [session.process(records(1_500 + i), tool="t", call_id=f"{i}") for i in range(8)]
                tasks = [asyncio.ensure_future(call) for call in calls]
                await asyncio.sleep(0)
                tasks[3].cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert [n for n, result in enumerate(results) if isinstance(result, asyncio.CancelledError)] == [3]
                again = await session.process(records(1_503), tool="t", call_id="3")
                assert again.content == (await session.process(records(1_503), tool="t", call_id="3")).content
                assert len([entry for entry in await session.ledger() if entry.tool == "t"]) == 8

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work())
        check_invariants(shared_url)

    @pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg", pytest.param("psycopg", marks=pytest.mark.slow)])
    def test_a_hosts_transaction(self, request: pytest.FixtureRequest, sandbox: Sandbox, driver: str) -> None:
        url = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "postgres_url")
        parsed = make_url(url)

        async def work() -> None:
            host_engine = create_async_engine(parsed.set(drivername=f"{parsed.get_backend_name()}+{driver}"))
            async with opened(url, sandbox) as engine:
                for end in ("rollback", "commit"):
                    async with HostSession(host_engine) as host:
                        session = await engine.session("s", db=host)
                        assert (await session.process(page(), tool=end)).route == "variables"
                        await getattr(host, end)()
                assert [entry.tool for entry in await (await engine.session("s")).ledger()] == ["commit"]
            await host_engine.dispose()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work())


CONSUMER = """
import asyncio
from typing import Any
from sqlalchemy.ext.asyncio import AsyncSession as HostSession
import byref

async def turn(host: HostSession) -> str:
    async with byref.AsyncEngine("sqlite:///x.db", policy=byref.Policy(), workers=4) as engine:
        session: byref.AsyncSession = await engine.session("s", tenant="t", db=host)
        try:
            result: byref.Result = await session.process({"a": [1]}, tool="t", call_id="c")
        except byref.TransactionConflict:
            return "again"
        tools: list[dict[str, Any]] = await session.tools("anthropic")
        reply: byref.ToolReply = await session.call("artifact_read", {"artifact_id": "x"})
        arguments: dict[str, Any] = await session.resolve({"a": "$b"})
        found: byref.Artifact | None = await session.get_artifact("x")
        value: object = None if found is None else await session.value(found)
        owned: bool = await session.owns("x")
        steps: list[int] = [entry.step for entry in await session.ledger()]
        print(tools, arguments, value, owned, steps, reply.content)
        return str(result.content)

asyncio.run(turn(HostSession()))
"""

MISTAKES = {
    "await engine.sessions(1)": "arg-type",
    'session.process("x")': "call-arg",
    'await engine.session("s", db="no")': "arg-type",
    "(await session.variables()).name": "attr-defined",
}


@pytest.mark.slow
def test_a_consumer_is_typed(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(CONSUMER)
    bad.write_text(
        "import byref\n\nasync def wrong(engine: byref.AsyncEngine, session: byref.AsyncSession) -> None:\n"
        + "".join(f"    {line}\n" for line in MISTAKES)
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    done = subprocess.run([*command, good, bad], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert "good.py" not in done.stdout
    for at, code in enumerate(MISTAKES.values(), 4):
        assert re.search(rf"bad\.py:{at}: error: .*\[{code}\]", done.stdout), done.stdout
