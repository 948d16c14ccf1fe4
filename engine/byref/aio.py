"""The asynchronous API: each method runs the synchronous method of the same name on a thread of the engine, and is awaited.

No work of byref runs on the event loop. A call that is cancelled before it has begun is dropped. If it has begun, the awaiting task
is free at once, and the work goes on in its thread until it is committed or rolled back as a whole.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar
from weakref import WeakSet

import sqlalchemy

from byref.accounting.explain import Explanation
from byref.accounting.ledger import Entry, Totals
from byref.accounting.models import ModelInfo, Models
from byref.accounting.telemetry import Telemetry
from byref.accounting.tokens import TokenCounter
from byref.artifacts import store
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.conversation.interpreters import Interpreter
from byref.conversation.lifecycle import Swept
from byref.conversation.listing import SessionInfo, TenantInfo
from byref.conversation.result import Format, Pending, PendingRun, Result, ToolReply
from byref.db.database import Database, Durability
from byref.db.tables import GRACE
from byref.engine import Engine
from byref.errors import ConfigurationError
from byref.functions import Function
from byref.ingest import streams
from byref.policy import Policy
from byref.session import HistoryEntry, Session
from byref.stores.protocol import BlobStore
from byref.usage import is_count
from byref_sandbox import Outcome

if TYPE_CHECKING:
    from byref.conversation.host import AsyncTransaction, EventLoopHost

logger = logging.getLogger("byref")

P = ParamSpec("P")
T = TypeVar("T")

JOINED_WORKERS = 256
"""Threads for calls that join a host's transaction, kept apart from `workers`: such a call may wait for a lock that only the next
call of another transaction releases, and must not occupy the thread which that call needs. The number of the host's connections
bounds the number of these calls."""
STREAM_WORKERS = 256
"""Threads for outputs that an asynchronous iterator gives in pieces: such a call waits for whoever sends them, and must not occupy a
thread that others need."""
CLOSE_SECONDS = 60.0
"""Seconds that `close` waits for running calls: more than the longest run of code and the longest wait for a lock."""


_Kind = Literal["short", "run", "stream", "joined"]
"""What a call waits for, which decides whose threads it takes: for the database alone, for a tool or code, for the pieces of an output, or
for a host's transaction."""


class AsyncEngine:
    """An `Engine` whose methods are awaited; safe to share between tasks, event loops and threads.

    The arguments are those of `Engine`, and `workers`: the number of threads for calls (default as for Python's own executors: the
    number of cores plus 4, at most 32), and of as many more for tools that the model calls and code that runs, which may wait long.
    `async with`, `open` or the first call opens the engine, and raises what `Engine` raises.
    Every method is awaited, even `owns` and `tools` of a session.
    """

    def __init__(
        self,
        url: str | sqlalchemy.URL | sqlalchemy.Engine = "sqlite:///byref.db",
        *,
        create: bool | None = None,
        policy: Policy | None = None,
        blobs: BlobStore | None = None,
        interpreter: Interpreter | None = None,
        jail: Literal["full", "language-only"] = "full",
        counter: TokenCounter | None = None,
        models: Models | Mapping[str, ModelInfo] | None = None,
        schema: str | None = None,
        durability: Durability = "normal",
        telemetry: Telemetry | None = None,
        modules: Sequence[str] = (),
        functions: Iterable[Function | Callable[..., Any]] = (),
        workers: int | None = None,
    ) -> None:
        if workers is not None and not (is_count(workers) and workers):
            raise ConfigurationError(f"workers={workers!r:.100}: expected a positive number of threads")
        self._make = partial(
            Engine,
            url,
            create=create,
            policy=policy,
            blobs=blobs,
            interpreter=interpreter,
            jail=jail,
            counter=counter,
            models=models,
            schema=schema,
            durability=durability,
            telemetry=telemetry,
            modules=modules,
            functions=functions,
        )
        self._workers = workers or min(32, (os.cpu_count() or 1) + 4)
        self._engine: Engine | None = None
        self._is_closed = False
        self._begin()
        _engines.add(self)

    async def __aenter__(self) -> Self:
        """Open the engine."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        await self.close()

    @property
    def policy(self) -> Policy:
        """The policy of sessions without one of their own; available once the engine is open."""
        return self._opened().policy

    @property
    def url(self) -> str:
        """The database's URL, without its password; available once the engine is open."""
        return self._opened().url

    @property
    def database(self) -> Database:
        """The database of every session; available once the engine is open."""
        return self._opened().database

    @property
    def sandbox(self) -> Interpreter | None:
        """The interpreter of model-written code, once the engine is open; None if this platform lacks a mandatory wall."""
        return self._opened().sandbox

    async def open(self) -> Self:
        """Open the database and check that its tables exist; return the engine itself."""
        if self._engine is None or self._is_closed:  # else it is open, and a thread would only say so
            await self._call(None, self._open)
        return self

    async def session(
        self,
        id: str,
        *,
        tenant: str = "default",
        model: str | None = None,
        context_window: int | None = None,
        policy: Policy | None = None,
        tools: Sequence[str] | None = None,
        functions: Iterable[Function | Callable[..., Any]] | None = None,
        db: AsyncTransaction | None = None,
        create: bool = True,
    ) -> AsyncSession:
        """As `Engine.session`; `db` is a SQLAlchemy AsyncSession or AsyncConnection, used on its event loop.

        On this event loop `functions` run that are coroutine functions.
        """
        host = None if db is None else _async_host(db)
        about: dict[str, Any] = {
            "tenant": tenant,
            "model": model,
            "context_window": context_window,
            "policy": policy,
            "create": create,
        }
        return await self._session_by(
            lambda engine: engine.session(id, **about, tools=tools, functions=functions, db=host), host
        )

    async def session_by(self, work: Callable[[Engine], Session]) -> AsyncSession:
        """Return the session that work opens with the `Engine` itself; work runs on one thread of the engine, from begin to end.

        So what a host looks up before, such as whose session it is, does not wait for another thread.

        Raises:
            ConfigurationError: the engine is closed.
            Exception: whatever work raises.
        """
        return await self._session_by(work, None)

    async def _session_by(self, work: Callable[[Engine], Session], host: EventLoopHost | None) -> AsyncSession:
        opened = await self._call(host, lambda: work(self._open()))
        return AsyncSession(opened._on(asyncio.get_running_loop()), partial(self._call, host))

    async def tools(
        self,
        format: Format = "openai",
        *,
        tools: Sequence[str] | None = None,
        policy: Policy | None = None,
        functions: Iterable[Function | Callable[..., Any]] | None = None,
    ) -> list[Any]:
        """As `Engine.tools`."""
        about: dict[str, Any] = {"tools": tools, "policy": policy, "functions": functions}
        return await self._call(None, lambda: self._open().tools(format, **about))

    async def tool_schema(self, tool: str, *, tenant: str = "default") -> dict[str, Any] | None:
        """As `Engine.tool_schema`."""
        return await self._call(None, lambda: self._open().tool_schema(tool, tenant=tenant))

    async def sessions(
        self, tenant: str | None = "default", *, after: str | SessionInfo | None = None, limit: int | None = None
    ) -> list[SessionInfo]:
        """As `Engine.sessions`."""
        return await self._call(None, lambda: self._open().sessions(tenant, after=after, limit=limit))

    async def pending(self, tenant: str | None = "default", *, limit: int | None = None) -> list[PendingRun]:
        """As `Engine.pending`."""
        return await self._call(None, lambda: self._open().pending(tenant, limit=limit))

    async def tenants(self, *, after: str | None = None, limit: int | None = None) -> list[TenantInfo]:
        """As `Engine.tenants`."""
        return await self._call(None, lambda: self._open().tenants(after=after, limit=limit))

    async def delete_session(self, id: str, *, tenant: str = "default") -> bool:
        """As `Engine.delete_session`."""
        return await self._call(None, lambda: self._open().delete_session(id, tenant=tenant))

    async def delete_tenant(self, tenant: str) -> int:
        """As `Engine.delete_tenant`."""
        return await self._call(None, lambda: self._open().delete_tenant(tenant))

    async def sweep(self, *, grace: timedelta = GRACE) -> Swept:
        """As `Engine.sweep`."""
        return await self._call(None, lambda: self._open().sweep(grace=grace))

    async def close(self) -> None:
        """Refuse new calls, wait for running ones (also cancelled ones) for at most a minute, and close the engine."""
        await self._close(CLOSE_SECONDS)

    async def _close(self, seconds: float) -> None:
        with self._submitting:
            self._is_closed = True
        closer = ThreadPoolExecutor(1, "byref-close")
        done = closer.submit(self._end, seconds)
        closer.shutdown(wait=False)
        await asyncio.wrap_future(done)

    aclose = close
    """The name that `contextlib.aclosing` calls."""

    def _begin(self) -> None:
        """Make the locks and executors; a forked child makes new ones, because it has none of its parent's threads."""
        self._opening = threading.Lock()
        self._submitting = threading.Lock()
        self._executors: dict[_Kind, ThreadPoolExecutor] = {
            "short": ThreadPoolExecutor(self._workers, "byref"),
            "run": ThreadPoolExecutor(self._workers, "byref-run"),
            "stream": ThreadPoolExecutor(STREAM_WORKERS, "byref-stream"),
            "joined": ThreadPoolExecutor(JOINED_WORKERS, "byref-joined"),
        }
        self._running: set[Future[Any]] = set()

    def _end(self, seconds: float) -> None:
        running = wait(list(self._running), seconds).not_done
        if running:
            logger.warning("%d calls are still running after %d seconds; closing", len(running), seconds)
        for executor in self._executors.values():
            executor.shutdown(wait=not running, cancel_futures=True)
        with self._opening:
            if self._engine is not None:
                self._engine.close()

    def _open(self) -> Engine:
        """Return the engine, made by the first call; runs on a thread of the engine."""
        with self._opening:
            if self._engine is None:
                self._engine = self._make()
            return self._engine

    def _opened(self) -> Engine:
        if self._engine is None:
            raise ConfigurationError("the engine is not open yet: use `async with` or `await engine.open()`")
        return self._engine

    async def _call(self, host: EventLoopHost | None, work: Callable[[], T], kind: _Kind = "short") -> T:
        """Run work on a thread of the engine, in the caller's context variables, and wait for it."""
        if host is not None:
            return await host.call(partial(self._submit, "joined"), work)
        return await asyncio.wrap_future(self._submit(kind, work))

    def _submit(self, kind: _Kind, work: Callable[[], T]) -> Future[T]:
        # The lock makes `close` wait for every call: a call is either refused or among those that `close` waits for.
        with self._submitting:
            if self._is_closed:
                raise ConfigurationError("the engine is closed")
            future: Future[T] = self._executors[kind].submit(copy_context().run, work)
            self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future


class AsyncSession:
    """A `Session` whose methods are awaited; made by `AsyncEngine.session`."""

    def __init__(self, session: Session, call: Callable[[Callable[[], Any], _Kind], Awaitable[Any]]) -> None:
        self._session = session
        self._call = call

    def __repr__(self) -> str:
        """Name the conversation and its tenant."""
        return f"AsyncSession({self.id!r}, tenant={self.tenant!r})"

    async def __aenter__(self) -> Self:
        """Return the session itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the handle."""
        await self.close()

    @property
    def id(self) -> str:
        """The host's own id for the conversation."""
        return self._session.id

    @property
    def tenant(self) -> str:
        """The tenant that owns the conversation."""
        return self._session.tenant

    @property
    def policy(self) -> Policy:
        """As `Session.policy`."""
        return self._session.policy

    @property
    def context_window(self) -> int:
        """The model's context window in tokens, as the gates use it."""
        return self._session.context_window

    # What tools return

    async def process(
        self,
        output: object,
        *,
        tool: str,
        call_id: str | None = None,
        arguments: object = None,
        is_error: bool = False,
    ) -> Result:
        """As `Session.process`; an asynchronous iterator is read on this event loop, only as fast as its data is stored."""
        return await self._streamed(
            output,
            lambda received: self._session.process(
                received, tool=tool, call_id=call_id, arguments=arguments, is_error=is_error
            ),
        )

    # The session's own tools

    async def tools(self, format: Format = "openai") -> list[Any]:
        """As `Session.tools`."""
        return await self._run(self._session.tools, format)

    async def owns(self, name: str) -> bool:
        """As `Session.owns`."""
        return self._session.owns(name)

    async def call(
        self, name: str, arguments: Mapping[str, Any] | str | None, *, call_id: str | None = None
    ) -> ToolReply:
        """As `Session.call`."""
        return await self._run_long(self._session.call, name, arguments, call_id=call_id)

    async def resume(self, call_id: str, decisions: Mapping[str, bool | Mapping[str, Any]]) -> ToolReply:
        """As `Session.resume`."""
        return await self._run_long(self._session.resume, call_id, decisions)

    async def pending(self, call_id: str | None = None) -> list[Pending]:
        """As `Session.pending`."""
        return await self._run(self._session.pending, call_id)

    async def run(self, code: str) -> Outcome:
        """As `Session.run`; the value is already decoded."""

        def run() -> Outcome:
            outcome = self._session.run(code)
            outcome.value  # noqa: B018  decoded here, so that the event loop need not do it
            return outcome

        return await self._run_long(run)

    async def reset(self) -> None:
        """As `Session.reset`."""
        await self._run(self._session.reset)

    async def resolve(
        self,
        arguments: Mapping[str, Any] | str,
        schema: Mapping[str, Any] | None = None,
        *,
        tool: str | None = None,
        call_id: str | None = None,
    ) -> dict[str, Any]:
        """As `Session.resolve`."""
        return await self._run(self._session.resolve, arguments, schema, tool=tool, call_id=call_id)

    # Accounting

    async def record_usage(
        self, usage: object, *, request_id: str | None = None, context: bool = True, through: int | None = None
    ) -> None:
        """As `Session.record_usage`."""
        await self._run(self._session.record_usage, usage, request_id=request_id, context=context, through=through)

    async def on_compaction(self, tokens: int) -> None:
        """As `Session.on_compaction`."""
        await self._run(self._session.on_compaction, tokens)

    async def context_tokens(self) -> int:
        """As `Session.context_tokens`."""
        return await self._run(self._session.context_tokens)

    async def usage(self) -> Totals:
        """As `Session.usage`."""
        return await self._run(self._session.usage)

    async def ledger(self, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """As `Session.ledger`."""
        return await self._run(self._session.ledger, after=after, limit=limit)

    async def explain(self, call_id_or_step: str | int) -> Explanation:
        """As `Session.explain`."""
        return await self._run(self._session.explain, call_id_or_step)

    async def history(self, *, after: int = 0, limit: int | None = None) -> list[HistoryEntry]:
        """As `Session.history`."""
        return await self._run(self._session.history, after=after, limit=limit)

    async def reminder(self, *, max_tokens: int = 500) -> str:
        """As `Session.reminder`."""
        return await self._run(self._session.reminder, max_tokens=max_tokens)

    # Data

    async def variables(self, *, after: str | None = None, limit: int | None = None) -> list[Variable]:
        """As `Session.variables`."""
        return await self._run(self._session.variables, after=after, limit=limit)

    async def variable(self, name: str) -> Variable:
        """As `Session.variable`; read its data with `value`."""
        return await self._run(self._session.variable, name)

    async def artifacts(self, *, after: str | None = None, limit: int | None = None) -> list[Artifact]:
        """As `Session.artifacts`."""
        return await self._run(self._session.artifacts, after=after, limit=limit)

    async def get_artifact(self, id_pointer_or_name: str) -> Artifact | None:
        """As `Session.get_artifact`; read its data with `value`."""
        return await self._run(self._session.get_artifact, id_pointer_or_name)

    async def store_artifact(
        self,
        value: object,
        *,
        name: str | None = None,
        content_type: str | None = None,
        preview_chars: int = store.PREVIEW_CHARS,
    ) -> Artifact:
        """As `Session.store_artifact`."""
        return await self._streamed(
            value,
            lambda received: self._session.store_artifact(
                received, name=name, content_type=content_type, preview_chars=preview_chars
            ),
        )

    async def share(self, artifact: Artifact | str, with_: str) -> Artifact:
        """As `Session.share`."""
        return await self._run(self._session.share, artifact, with_)

    async def keep(self, artifact: Artifact | str) -> Artifact:
        """As `Session.keep`."""
        return await self._run(self._session.keep, artifact)

    async def export(self, artifact: Artifact | str, target: str | os.PathLike[str] | IO[bytes]) -> int:
        """As `Session.export`; a thread of the engine writes the file."""
        return await self._run(self._session.export, artifact, target)

    async def delete_artifact(self, artifact: Artifact | str) -> bool:
        """As `Session.delete_artifact`."""
        return await self._run(self._session.delete_artifact, artifact)

    async def value(self, of: Variable | Artifact) -> object:
        """Return the data of a variable or an artifact: `Variable.value()` and `Artifact.value` would block the event loop."""
        return await self._run(of.value if isinstance(of, Variable) else lambda: of.value)

    async def preview(self, of: Artifact) -> str:
        """Return the first characters of an artifact: `Artifact.preview` would block the event loop."""
        return await self._run(lambda: of.preview)

    # The end

    async def end(self) -> None:
        """As `Session.end`."""
        await self._run(self._session.end)

    async def close(self) -> None:
        """As `Session.close`."""
        self._session.close()

    async def _streamed(self, output: object, work: Callable[[object], T]) -> T:
        """Run work with an output; the work may pull the output from an asynchronous iterator of this event loop."""
        received = await streams.awaited(output)
        if type(received) is not streams.Pulled:
            return await self._run(work, received)
        try:
            result: T = await self._call(partial(work, received), "stream")
        finally:
            await received.close()
        return result

    async def _run(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._call(partial(method, *args, **kwargs), "short")
        return result

    async def _run_long(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._call(partial(method, *args, **kwargs), "run")
        return result


def _async_host(host: AsyncTransaction) -> EventLoopHost:
    """Return a host's transaction for use from other threads; imported late, as SQLAlchemy's asyncio needs greenlet."""
    from byref.conversation.host import EventLoopHost

    return EventLoopHost(host)


_engines: WeakSet[AsyncEngine] = WeakSet()


def _after_fork() -> None:
    for engine in list(_engines):
        engine._begin()


os.register_at_fork(after_in_child=_after_fork)
