"""The conversations of an adapter, and how a run goes on when their data cannot be reached.

A run goes on while the database is away, and after its conversation has ended: the model reads outputs whole or cut with a note,
arguments without references pass, and calls that need stored data are answered with an error for the model.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from byref.accounting import ledger
from byref.adapters.common.arguments import refers, resolved
from byref.adapters.common.extras import check_engine
from byref.adapters.common.functions import CodeFunctions, session_with
from byref.calling.approvals import Decision
from byref.conversation.result import Result, ToolReply
from byref.conversation.scope import NO_ROW, Scope
from byref.engine import Engine
from byref.errors import ByrefError, SessionGone, StorageFailure, ToolError
from byref.functions import Function
from byref.ingest import ingested
from byref.ingest.fallback import unstored
from byref.ingest.prepare import prepare
from byref.policy import Policy, check_tools
from byref.session import Session

logger = logging.getLogger("byref")

AWAY: Final = "the store of this conversation's data cannot be reached: try again later"
"""What the model reads when its call needs data and the database is away."""
GONE: Final = "this conversation's data is gone: the conversation has ended"
MOST: Final = 10_000
"""Conversations about which the adapter remembers something in memory."""

C = TypeVar("C")
K = TypeVar("K")
V = TypeVar("V")

Name = tuple[str, str]
"""A conversation's tenant and id."""

NOBODY: Final = "default"
"""The tenant if the host names none."""

callers: ContextVar[tuple[Name, ...]] = ContextVar("byref_adapter_callers", default=())
"""Conversations whose tool is running now. If the tool runs an agent, that agent's usage is not their context."""


@contextmanager
def running(name: Name) -> Iterator[None]:
    """Mark the code inside as run by a tool of a conversation.

    The mark is a context variable: tasks started inside inherit it, other threads need `copy_context`.
    """
    token = callers.set((*callers.get(), name))
    try:
        yield
    finally:
        callers.reset(token)


def named(given: str | Callable[[C], str], run: C) -> str:
    """Return the tenant or id that the host gave: a text, or the result of a function of the framework's run."""
    return given if isinstance(given, str) else given(run)


def joined(*parts: str) -> str:
    """Return the id of a conversation that several texts name together; different texts never give the same id."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


class Recent(Generic[K, V]):
    """The newest `MOST` entries of a mapping; thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[K, V] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return an entry, or None."""
        return self._kept.get(key)

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry, which becomes the newest."""
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = value
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]


class Conversations:
    """The sessions that an adapter opens for its framework's runs.

    Thread-safe: one instance serves any number of runs on any threads. Its methods read the database, so call them on a thread and
    not on an event loop. It keeps the handles of the last `MOST` conversations for use while the database is away. The engine
    belongs to the host, which closes it after the last run. `policy` and `tools` are those of `Engine.session`; `code` says which
    tools are also functions of code.

    Raises:
        ConfigurationError: `engine` is no `byref.Engine`.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy | None,
        tools: Sequence[str] | None = None,
        code: CodeFunctions | None = None,
    ) -> None:
        self.engine, self._policy, self._code = check_engine(engine), policy, code
        self._tools = None if tools is None else check_tools(tools)
        self._handles: Recent[Name, Session] = Recent()

    @property
    def policy(self) -> Policy:
        """The policy of new sessions."""
        return self._policy or self.engine.policy

    def policy_of(self, session: Session | None) -> Policy:
        """Return the policy in force: a session may have been opened with another policy."""
        return self.policy if session is None else session.policy

    def is_as_it_came(self, session: Session | None, read: Result) -> bool:
        """Tell whether the model reads exactly the tool's output."""
        own = self.policy_of(session).tool(read.tool)
        is_reshaped = own.mapper is not None or own.template is not None or read.instructions is not None
        return read.route.passes_whole and not is_reshaped

    def open(self, name: Name, model: str | None, window: int | None = None, *, keep: bool = True) -> Session:
        """Open a conversation. Without `keep`, its handle is kept only if there is none yet.

        Raises:
            StorageFailure: the database is away.
        """
        tenant, id = name
        session = self.engine.session(
            id, tenant=tenant, model=model, context_window=window, policy=self._policy, tools=self._tools
        )
        if keep or self._handles.get(name) is None:
            self._handles.put(name, session)
        return session

    def opened(
        self, name: Name, model: str | None, window: int | None = None, *, keep: bool = True, going_on: bool = False
    ) -> Session | None:
        """Return a conversation; while the database is away, its kept handle, which cuts outputs, or None.

        Raises:
            SessionGone: the conversation has ended, and `going_on` requires one that has not.
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        try:
            session = self.open(name, model, window, keep=keep)
            if going_on:
                session._scope.read(lambda connection: ledger.see_that_it_is_open(connection, session._scope.row))
            return session
        except StorageFailure:
            if self.policy.on_storage_failure == "raise":
                raise
            logger.exception("byref could not open the session %r; the run goes on", name[1])
            return self._handles.get(name)

    def tools(self, session: Session | None, functions: Sequence[Function] = ()) -> list[dict[str, Any]]:
        """Return the definitions of byref's own tools in MCP's form; `functions` are further ones that code may call."""
        if session is None:
            there = {one.name for one in self.engine._functions}
            added = [one for one in functions if one.name not in there]
            return self.engine.tools("mcp", tools=self._tools, policy=self._policy, functions=added)
        return session_with(session, functions).tools("mcp")

    def process(
        self,
        session: Session | None,
        output: object,
        *,
        tool: str,
        call_id: str | None,
        arguments: object,
        is_error: bool,
    ) -> Result:
        """Return the result of `Session.process`. An output that cannot be stored stays whole if it is small, and is cut otherwise.

        Raises:
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        if session is not None:
            if self._code is not None:
                session = self._code.apart(session, tool)
            try:
                return session.process(output, tool=tool, call_id=call_id, arguments=arguments, is_error=is_error)
            except SessionGone:
                logger.warning("the conversation %r has ended; a result of %r is not stored", session.id, tool)
        return self._unstored(self.policy_of(session), output, tool, arguments, is_error)

    def arguments(
        self,
        session: Session | None,
        arguments: dict[str, Any] | str,
        schema: Mapping[str, Any] | None,
        *,
        tool: str,
        call_id: str | None,
        is_strict: bool = False,
    ) -> dict[str, Any] | str:
        """Return arguments with references replaced by data; arguments without references need no database.

        Arguments without references that do not fit `schema` are left to the framework, as `resolved` does it.

        Raises:
            ToolError: text for the model: a reference is unknown, its data does not fit, or the database is away.
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        try:
            if session is None:
                raise StorageFailure(AWAY)
            return resolved(session, arguments, schema, tool=tool, call_id=call_id, is_strict=is_strict)
        except StorageFailure:
            if self.policy_of(session).on_storage_failure == "raise":
                raise
            message = AWAY
        except SessionGone:
            message = GONE
        if refers(arguments):
            raise ToolError(message)
        return arguments

    def call(self, session: Session | None, tool: str, arguments: Any, call_id: str | None) -> ToolReply:
        """Answer a call of one of byref's own tools.

        Raises:
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        return self._answered(session, tool, lambda session: session.call(tool, arguments, call_id=call_id))

    def resume(self, session: Session | None, tool: str, call_id: str, decisions: Mapping[str, Decision]) -> ToolReply:
        """Go on with code that waits for approvals; otherwise as `call`."""
        return self._answered(session, tool, lambda session: session.resume(call_id, decisions))

    def _answered(self, session: Session | None, tool: str, work: Callable[[Session], ToolReply]) -> ToolReply:
        try:
            if session is not None:
                return work(session)
        except StorageFailure:
            if self.policy_of(session).on_storage_failure == "raise":
                raise
        except SessionGone:
            return ToolReply(GONE, is_error=True, tool=tool)
        return ToolReply(AWAY, is_error=True, tool=tool)

    def record(self, name: Name, model: str | None, usage: object, request_id: str | None, *, context: bool) -> None:
        """Record the usage of an answer. A failure is logged and not raised, so that the paid answer is not lost."""
        try:
            self.open(name, model).record_usage(usage, request_id=request_id, context=context)
        except ByrefError:
            logger.warning("byref could not record the usage of a run of %r", name[1], exc_info=True)

    def _unstored(self, policy: Policy, output: object, tool: str, arguments: object, is_error: bool) -> Result:
        scope = Scope(
            database=self.engine.database,
            host=None,
            sandbox=self.engine._sandbox,
            counter=self.engine._counter,
            models=self.engine._models,
            tenant="",
            name="",
            row=NO_ROW,
            model=None,
            window=policy.default_context_window,
            policy=policy,
            tools=(),
        )
        received = ingested.of_tool(scope, output, tool, is_error=is_error)
        with ingested.settled(scope, received):
            return unstored(prepare(scope, received, tool, None, arguments, is_error))
