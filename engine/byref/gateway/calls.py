"""Requests of the client that are going on, and what the servers that work on them ask the client meanwhile.

Until 2025 a server asks by a request of its own; since 2026 a question is the answer to the call, which the client makes
again together with what it was asked for. Servers of either kind get their answers from clients of either kind.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from byref.gateway.containment import is_failure
from byref.gateway.questions import wire

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

INTERACTIVE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that may be answered with a question."""
PARKED_SECONDS = 600.0
"""How long a call waits for the client to make it again with the answers."""
MAX_PARKED = 100
_STATE = "byref:"


class _Message(BaseModel):
    method: str
    params: Json | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


def connection_of(context: Context) -> Connection:
    """Return the connection of a request: the SDK gives its handlers no other way to it, nor to its end."""
    return context.session._connection


def is_modern(context: Context) -> bool:
    """Tell whether the client speaks the protocol in which nobody but the client makes requests."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def able(connection: Connection) -> Json:
    """Return the capabilities of the client: those of its handshake, or since 2026 of its request."""
    capabilities = connection.client_capabilities
    return {} if capabilities is None else capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)


async def notify(context: Context, method: str, params: Json | None) -> None:
    """Send the client a notification, on the stream of its request."""
    message = cast(Any, _Message(method=method, params=params))
    await context.session.send_notification(message, related_request_id=context.request_id)


class Call:
    """One request of the client; since 2026 perhaps made several times until it is answered."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.result: Json | None = None
        self.error: BaseException | None = None
        self.scope = anyio.CancelScope()
        self._servers: list[str] = []
        self._changed = anyio.Event()
        self._asking: dict[anyio.CancelScope, str] = {}
        self._questions: dict[str, tuple[Json, anyio.Event]] = {}
        self._put: set[str] = set()
        """Those of them that the client has."""
        self._answers: dict[str, Json] = {}
        self._asked = 0

    @property
    def able(self) -> Json:
        """The capabilities of the client that made it."""
        return able(connection_of(self.context))

    @property
    def can_ask(self) -> bool:
        """Whether the client can be asked something now."""
        return not is_modern(self.context) or self.context.method in INTERACTIVE

    @contextmanager
    def at(self, server: str) -> Iterator[None]:
        """Have a server work on it, which may ask the client meanwhile; what it asked and has no answer to ends with that."""
        self._servers.append(server)
        try:
            yield
        finally:
            self._servers.remove(server)
            if server not in self._servers:
                for scope in [scope for scope, asking in self._asking.items() if asking == server]:
                    scope.cancel()

    def is_at(self, server: str) -> bool:
        """Tell whether a server works on it."""
        return server in self._servers

    async def ask(self, server: str, method: str, params: Json | None) -> Json:
        """Ask the client what a server asks, as it is to be shown, and return the answer.

        Raises:
            MCPError: the client answered with an error, or not before the server's work was over.
        """
        with anyio.CancelScope() as scope:
            self._asking[scope] = server
            try:
                return await (self._ask_by_answer if is_modern(self.context) else self._ask)(method, params)
            finally:
                del self._asking[scope]
        raise MCPError(INVALID_REQUEST, f"the call is over, and with it {method}")

    async def _ask(self, method: str, params: Json | None) -> Json:
        metadata = ServerMessageMetadata(related_request_id=self.context.request_id)
        message = cast(Any, _Message(method=method, params=params))
        answer = await self.context.session.send_request(message, _Answer, metadata=metadata)
        return answer.model_dump()

    async def _ask_by_answer(self, method: str, params: Json | None) -> Json:
        self._asked += 1
        key, answered = str(self._asked), anyio.Event()
        self._questions[key] = wire(method, params), answered
        self._changed.set()
        try:
            await answered.wait()
        finally:
            self._questions.pop(key, None)
        if key not in self._answers:
            raise MCPError(INVALID_REQUEST, f"the client gave no answer to {method}")
        return self._answers.pop(key)

    def finish(self) -> None:
        """Let `outcome` return."""
        self._changed.set()

    def answered(self, answers: object) -> None:
        """Hand over what the client was asked for."""
        given = answers if isinstance(answers, dict) else {}
        for key in self._put & self._questions.keys():
            if isinstance(given.get(key), dict):
                self._answers[key] = given[key]
            self._questions.pop(key)[1].set()
        self._put.clear()

    async def outcome(self) -> Json | None:
        """Wait for the result, or for a question: then None."""
        while self.result is None and self.error is None and not self._questions:
            self._changed = anyio.Event()
            await self._changed.wait()
        if self.error is not None:
            raise self.error
        return self.result

    def put(self) -> Json:
        """Return what the client is asked."""
        self._put = set(self._questions)
        return {key: question for key, (question, _) in self._questions.items()}


Work = Callable[[Call], Awaitable[Json]]


class Calls:
    """The requests of one conversation."""

    def __init__(self) -> None:
        self._going_on: list[Call] = []
        self._parked: dict[str, Call] = {}

    def of(self, server: str, about: object = None) -> Call | None:
        """Return the call that a server asks about, if its client can be asked; where it is not known which, the newest."""
        able = (call for call in reversed(self._going_on) if call.can_ask and call.is_at(server))
        return next((call for call in able if about is None or call is about), None)

    async def run(self, context: Context, work: Work, tasks: TaskGroup) -> Json:
        """Do the work of a request and return its result, or what the client is asked first.

        Where the request is cancelled, so is the work.
        """
        if not is_modern(context) or context.method not in INTERACTIVE:
            call = Call(context)
            self._going_on.append(call)
            try:
                return await work(call)
            finally:
                self._going_on.remove(call)
        return await self._run_modern(context, work, tasks)

    async def _run_modern(self, context: Context, work: Work, tasks: TaskGroup) -> Json:
        params = dict(context.params or {})
        state = params.get("requestState")
        if isinstance(state, str) and state.startswith(_STATE):
            call = self._parked.pop(state, None)
            if call is None:
                raise MCPError(
                    INVALID_PARAMS, "the call is over: it waited too long for its answers, or had them already"
                )
            call.context = context
            call.answered(params.get("inputResponses"))
        else:
            call = Call(context)
            tasks.start_soon(self._work, call, work)
        try:
            result = await call.outcome()
        except anyio.get_cancelled_exc_class():
            call.scope.cancel()
            raise
        return self._park(call, tasks) if result is None else result

    async def _work(self, call: Call, work: Work) -> None:
        self._going_on.append(call)
        try:
            with call.scope:
                call.result = await work(call)
            if call.result is None:
                call.error = MCPError(INTERNAL_ERROR, "the call was cancelled")
        except BaseException as error:
            if not is_failure(error):
                raise
            call.error = error  # the request's to raise
        finally:
            self._going_on.remove(call)
            call.finish()

    def _park(self, call: Call, tasks: TaskGroup) -> Json:
        if len(self._parked) >= MAX_PARKED:
            call.scope.cancel()
            raise MCPError(INTERNAL_ERROR, f"{MAX_PARKED} calls wait for answers already")
        state = _STATE + secrets.token_urlsafe(24)
        self._parked[state] = call
        tasks.start_soon(self._give_up, state)
        return {"resultType": "input_required", "inputRequests": call.put(), "requestState": state}

    async def _give_up(self, state: str) -> None:
        await anyio.sleep(PARKED_SECONDS)
        if (call := self._parked.pop(state, None)) is not None:
            call.scope.cancel()
