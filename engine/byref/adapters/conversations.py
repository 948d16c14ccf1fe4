"""The conversations of an adapter whose run goes on while the database is away, or after a conversation has ended."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from byref.adapters.arguments import resolved
from byref.adapters.extras import check_engine
from byref.degraded import unstored
from byref.engine import Engine
from byref.errors import ByrefError, SessionGone, StorageFailure, ToolError
from byref.intake import Taken, of_tool
from byref.models import Models
from byref.policy import Policy
from byref.prepare import prepare
from byref.result import Result, ToolReply
from byref.scope import Scope
from byref.session import Session
from byref.tokens import SampledCounter

logger = logging.getLogger("byref")

AWAY: Final = "the store of this conversation's data cannot be reached: try again later"
"""What the model reads where its call needs data and the database is away."""
GONE: Final = "this conversation's data is gone: the conversation has ended"
_MOST: Final = 10_000
"""Handles that are kept."""

Name = tuple[str, str]
"""Of a conversation: tenant and id."""

caller: ContextVar[Name | None] = ContextVar("byref_adapter_caller", default=None)
"""The conversation of which a tool is running: an agent that this tool runs does not speak for its context."""


class Conversations:
    """Sessions of an engine, for a run that goes on where `Policy.on_storage_failure` says "truncate".

    Raises:
        ConfigurationError: `engine` is no `byref.Engine`.
    """

    def __init__(self, engine: Engine, policy: Policy | None) -> None:
        self.engine, self._policy = check_engine(engine), policy
        self._handles: dict[Name, Session] = {}
        self._lock = threading.Lock()

    @property
    def policy(self) -> Policy:
        """The policy of new sessions."""
        return self._policy or self.engine.policy

    def open(self, name: Name, model: str | None) -> Session:
        """Open a conversation.

        Raises:
            StorageFailure: the database is away.
        """
        tenant, id = name
        session = self.engine.session(id, tenant=tenant, policy=self._policy, model=model)
        with self._lock:
            self._handles.pop(name, None)
            self._handles[name] = session
            if len(self._handles) > _MOST:
                del self._handles[next(iter(self._handles))]
        return session

    def opened(self, name: Name, model: str | None) -> Session | None:
        """Open a conversation; while the database is away its last handle, or None.

        Raises:
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        try:
            return self.open(name, model)
        except StorageFailure:
            if self.policy.on_storage_failure == "raise":
                raise
            logger.exception("byref could not open the session %r; the run goes on", name[1])
            return self._handles.get(name)

    def tools(self, session: Session | None) -> list[dict[str, Any]]:
        """Return the definitions of byref's own tools, as MCP has them."""
        return self.engine.tools("mcp", policy=self._policy) if session is None else session.tools("mcp")

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
        """Return what `Session.process` does; what cannot be stored is read whole, or cut with a note.

        Raises:
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        if session is not None:
            try:
                return session.process(output, tool=tool, call_id=call_id, arguments=arguments, is_error=is_error)
            except SessionGone:
                logger.warning("the conversation %r has ended; a result of %r is not stored", session.id, tool)
        return self._unstored(output, tool, arguments, is_error)

    def arguments(
        self,
        session: Session | None,
        arguments: dict[str, Any] | str,
        schema: Mapping[str, Any] | None,
        *,
        tool: str,
        call_id: str | None,
    ) -> dict[str, Any] | str:
        """Return arguments with their data; those that have no references need no database.

        Raises:
            ToolError: text for the model: a reference is unknown, its data does not fit, or nothing can be looked up.
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        try:
            if session is None:
                raise StorageFailure(AWAY)
            return resolved(session, arguments, schema, tool=tool, call_id=call_id)
        except StorageFailure:
            if self.policy.on_storage_failure == "raise":
                raise
            told = AWAY
        except SessionGone:
            told = GONE
        if _may_refer(arguments):
            raise ToolError(told)
        return arguments

    def call(self, session: Session | None, tool: str, arguments: Any, call_id: str | None) -> ToolReply:
        """Answer a call of one of byref's own tools.

        Raises:
            StorageFailure: the database is away, and the policy says `on_storage_failure="raise"`.
        """
        try:
            if session is not None:
                return session.call(tool, arguments, call_id=call_id)
        except StorageFailure:
            if self.policy.on_storage_failure == "raise":
                raise
        except SessionGone:
            return ToolReply(GONE, is_error=True, tool=tool)
        return ToolReply(AWAY, is_error=True, tool=tool)

    def record(self, name: Name, model: str | None, usage: object, request_id: str | None, *, context: bool) -> None:
        """Record the usage of an answer; nothing that goes wrong with that is raised: the answer is there."""
        try:
            self.open(name, model).record_usage(usage, request_id=request_id, context=context)
        except ByrefError:
            logger.warning("byref could not record the usage of a run of %r", name[1], exc_info=True)

    def _unstored(self, output: object, tool: str, arguments: object, is_error: bool) -> Result:
        policy = replace(self.policy, per_tool={})  # mappers need the database
        scope = Scope(
            database=self.engine.database,
            host=None,
            sandbox=None,
            counter=SampledCounter(),
            models=Models(),
            tenant="",
            name="",
            row=-1,
            model=None,
            window=policy.default_context_window,
            policy=policy,
            tools=(),
        )
        taken = of_tool(scope, output, tool, is_error=is_error)
        try:
            return unstored(prepare(scope, taken, tool, None, arguments, is_error))
        finally:
            if isinstance(taken, Taken):
                taken.settle(scope)


def _may_refer(arguments: dict[str, Any] | str) -> bool:
    """Whether references may be among the arguments: most have none, and need no data."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    return any(mark in written for mark in ("$", "art_", "art:"))
