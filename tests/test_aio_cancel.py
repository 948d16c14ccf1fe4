"""A call that is cancelled at any point leaves the database whole, the host's transaction usable, and nothing running."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from material import page, records
from sqlalchemy import event, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession as HostSession
from sqlalchemy.ext.asyncio import create_async_engine
from sqlcheck import check_invariants

from byref import AsyncEngine, AsyncSession
from byref_sandbox import Sandbox

POINTS = 12
"""Points at which each call is cancelled, spread over all there are."""
FEW = 3
"""The same of a quick run: at the beginning, in the middle and near the end."""

Call = Callable[[AsyncSession, int], Coroutine[Any, Any, Any]]

CALLS: dict[str, Call] = {
    "process": lambda session, i: session.process(records(1_500 + i), tool="rows", call_id=f"p{i}"),
    "process inline": lambda session, i: session.process(f"small {i}", tool="t", call_id=f"s{i}"),
    "code": lambda session, i: session.call("code_interpreter", {"code": f"n{i} = len(users)"}, call_id=f"c{i}"),
    "grep": lambda session, i: session.call("artifact_grep", {"artifact_id": "users", "pattern": "9"}, call_id=f"g{i}"),
    "run": lambda session, i: session.run(f"m{i} = len(users)"),
    "resolve": lambda session, i: session.resolve({"a": "$pagination"}, tool="t", call_id=f"r{i}"),
    "record_usage": lambda session, i: session.record_usage({"prompt_tokens": i, "completion_tokens": 1}),
    "store_artifact": lambda session, i: session.store_artifact(records(900 + i), name=f"a{i}"),
    "value": lambda session, i: _value(session),
}


async def _value(session: AsyncSession) -> None:
    assert len(await session.value(await session.variable("users"))) == 1_200  # type: ignore[arg-type]


class Loop(asyncio.SelectorEventLoop):
    """Cancels a task once it was told of so many things to do: by tasks, by drivers, by other threads."""

    def __init__(self) -> None:
        super().__init__()
        self._count, self._at, self._task = 0, -1, None

    def arm(self, task: asyncio.Future[Any], at: int) -> None:
        self._count, self._at, self._task = 0, at, task

    def told(self) -> int:
        return self._count

    def call_soon(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        self._tick()
        return super().call_soon(*args, **kwargs)

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        self._tick()
        return super().call_soon_threadsafe(*args, **kwargs)

    def _tick(self) -> None:
        self._count += 1
        if self._count == self._at and self._task is not None:
            super().call_soon_threadsafe(self._task.cancel)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    before = set(threading.enumerate())
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(work())
    for thread in set(threading.enumerate()) - before:
        for_good = ("byref-gateway", "byref-mcp", "byref-functions")
        if thread.name.startswith("byref") and not thread.name.startswith(for_good):
            thread.join(5)
            assert not thread.is_alive(), thread.name


async def ended(call: asyncio.Future[Any], within: float) -> bool:
    """Wait for a call; True if it was cancelled."""
    done, _ = await asyncio.wait({call}, timeout=within)
    assert done, "still waiting"
    if not call.cancelled():
        call.result()
    return call.cancelled()


def cases(quick: dict[str, str]) -> list[Any]:
    """Each call on each of the databases. In a quick run one on each, at few points: what writes most, what another process
    runs, what is sent in parts.
    """
    few = [pytest.param(place, name, FEW, id=f"{name}-{place}-few") for place, name in quick.items()]
    return few + [
        pytest.param(place, name, POINTS, id=f"{name}-{place}", marks=pytest.mark.slow)
        for place in quick
        for name in CALLS
    ]


class TestInTheHostsTransaction:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("driver", "name", "points"), cases({"aiosqlite": "code", "asyncpg": "process", "psycopg": "store_artifact"})
    )
    def test_at_each_event(
        self, request: pytest.FixtureRequest, sandbox: Sandbox, driver: str, name: str, points: int
    ) -> None:
        url = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "postgres_url")
        parsed = make_url(url)
        call = CALLS[name]

        async def work() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, Loop)
            host_engine = create_async_engine(parsed.set(drivername=f"{parsed.get_backend_name()}+{driver}"))
            async with AsyncEngine(url, interpreter=sandbox) as engine:
                own = await engine.session("s", context_window=10**9)
                await own.process(page(), tool="list_users")
                async with HostSession(host_engine) as host:  # how many events there are
                    session = await engine.session("s", db=host)
                    loop.arm(asyncio.ensure_future(asyncio.sleep(0)), -1)
                    await call(session, 0)
                    events = loop.told()
                cancelled = 0
                for at in range(1, events, max(1, events // points)):
                    async with HostSession(host_engine) as host:
                        await host.execute(text("SELECT 1"))
                        session = await engine.session("s", db=host)
                        called = asyncio.ensure_future(call(session, at))
                        loop.arm(called, at)
                        cancelled += await ended(called, 5)
                        assert (await host.execute(text("SELECT count(*) FROM byref_sessions"))).scalar_one() == 1
                        await (host.commit() if at % 2 else host.rollback())
                    async with asyncio.timeout(5):  # no lock is left
                        await own.on_compaction(1)
                assert cancelled
                for artifact in await own.artifacts():
                    assert await own.value(artifact)
                started = time.perf_counter()
            assert time.perf_counter() - started < 5
            await host_engine.dispose()

        run(work)
        check_invariants(url)


class TestInOurOwnTransactions:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("shared_url", "name", "points"), cases({"sqlite": "process", "postgresql": "run"}), indirect=["shared_url"]
    )
    def test_at_each_statement(self, shared_url: str, sandbox: Sandbox, name: str, points: int) -> None:
        """The call's thread goes on once the caller is gone: what it does is done whole, and the same call finds it."""
        call = CALLS[name]

        async def work() -> None:
            loop = asyncio.get_running_loop()
            async with AsyncEngine(shared_url, interpreter=sandbox) as engine:
                session = await engine.session("s", context_window=10**9)
                await session.process(page(), tool="list_users")
                seen, at, called = 0, -1, None

                def statement(*_: object) -> None:
                    nonlocal seen
                    seen += 1
                    if seen == at and called is not None:
                        loop.call_soon_threadsafe(called.cancel)
                        deadline = time.monotonic() + 5
                        while not called.done() and time.monotonic() < deadline:
                            time.sleep(0.0005)

                event.listen(engine.database.engine, "before_cursor_execute", statement)
                await call(session, 0)
                statements, cancelled = seen, 0
                for point in range(1, statements + 1, max(1, statements // points)):
                    seen, at = 0, point
                    called = asyncio.ensure_future(call(session, point))
                    if await ended(called, 5):
                        cancelled += 1
                    else:  # what is done in passing was not due again
                        assert seen < point, f"not cancelled at statement {point} of {statements}"
                    at = -1
                    async with asyncio.timeout(10):
                        first, again = await call(session, point), await call(session, point)
                    if hasattr(first, "content"):
                        assert first.content == again.content
                assert cancelled
                for artifact in await session.artifacts():
                    assert await session.value(artifact)
                outputs = [
                    entry.call_id for entry in await session.ledger() if entry.kind == "output" and entry.call_id
                ]
                assert len(outputs) == len(set(outputs))

        run(work)
        check_invariants(shared_url)
