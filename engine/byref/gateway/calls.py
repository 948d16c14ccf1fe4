"""The client's requests in progress, and the questions that servers ask the client while they work on them.

Until 2025 a server asks by sending a request of its own. Since 2026 it returns the question in place of the call's result, and the
client makes the call again with the answer. The gateway translates between both kinds, in both directions.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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
"""Methods whose result may be a question to the client."""
PARKED_SECONDS = 600.0
"""Seconds for which an unanswered call is kept until the client makes it again with its answers."""
MAX_PARKED = 100
MAX_ASKED = 1_000
"""Questions of servers that reach the client during one call, however many were answered: a server may ask without an end."""
CANCEL_SECONDS = 1.0
"""Seconds for which the end of a call waits until the client was told that its questions are cancelled."""
_STATE = "byref:"


class _Message(BaseModel):
    method: str
    params: Json | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


def connection_of(context: Context) -> Connection:
    """Return the connection of a request. It is a private attribute: the SDK gives handlers no other access to it."""
    return context.session._connection


def is_modern(context: Context) -> bool:
    """Tell whether the client's protocol version is one in which only the client makes requests (since 2026)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def able(connection: Connection) -> Json:
    """Return the client's capabilities: those of its handshake or, since 2026, those of its request."""
    capabilities = connection.client_capabilities
    return {} if capabilities is None else capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)


async def notify(context: Context, method: str, params: Json | None) -> None:
    """Send the client a notification on the stream of its request."""
    message = cast(Any, _Message(method=method, params=params))
    await context.session.send_notification(message, related_request_id=context.request_id)


class Call:
    """One request of the client, which since 2026 the client may make several times until it is answered."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.result: Json | None = None
        self.error: BaseException | None = None
        self.scope = anyio.CancelScope()
        self._servers: list[str] = []
        self._changed = anyio.Event()
        self._asking: dict[anyio.CancelScope, tuple[str, anyio.Event]] = {}
        """By open question, the server that asks and what is set once the question has ended."""
        self._questions: dict[str, tuple[Json, anyio.Event]] = {}
        self._put: set[str] = set()
        """The keys of the questions that the client has received."""
        self._answers: dict[str, Json] = {}
        self._asked = 0

    @property
    def able(self) -> Json:
        """The client's capabilities."""
        return able(connection_of(self.context))

    @property
    def can_ask(self) -> bool:
        """Whether the client can be asked a question now."""
        return not is_modern(self.context) or self.context.method in INTERACTIVE

    @asynccontextmanager
    async def at(self, server: str) -> AsyncIterator[None]:
        """Mark a server as working on the call, so that it may ask the client; at the end its open questions are cancelled."""
        self._servers.append(server)
        try:
            yield
        finally:
            self._servers.remove(server)
            if server not in self._servers:
                ending = [(scope, ended) for scope, (asking, ended) in self._asking.items() if asking == server]
                for scope, _ in ending:
                    scope.cancel()
                # By HTTP the client is told that they are cancelled on the stream of its call, which the call's answer closes.
                with anyio.move_on_after(CANCEL_SECONDS, shield=True):
                    for _, ended in ending:
                        await ended.wait()

    def is_at(self, server: str) -> bool:
        """Tell whether a server works on the call."""
        return server in self._servers

    async def ask(self, server: str, method: str, params: Json | None) -> Json:
        """Ask the client a server's question, whose parameters are already in the client's form, and return the answer.

        Raises:
            MCPError: the client answered with an error, or did not answer before the server's work was over; or it was asked
                `MAX_ASKED` times about this call already.
        """
        if self._asked >= MAX_ASKED:
            raise MCPError(INTERNAL_ERROR, f"the client was asked {MAX_ASKED} times during this call already")
        self._asked += 1
        # `at` cancels this scope when the server's work on the call is over: nobody would use the answer any more.
        with anyio.CancelScope() as scope:
            ended = anyio.Event()
            self._asking[scope] = server, ended
            try:
                return await (self._ask_by_answer if is_modern(self.context) else self._ask)(method, params)
            finally:
                del self._asking[scope]
                ended.set()
        raise MCPError(INVALID_REQUEST, f"the call is over, and with it {method}")

    async def _ask(self, method: str, params: Json | None) -> Json:
        metadata = ServerMessageMetadata(related_request_id=self.context.request_id)
        message = cast(Any, _Message(method=method, params=params))
        answer = await self.context.session.send_request(message, _Answer, metadata=metadata)
        return answer.model_dump()

    async def _ask_by_answer(self, method: str, params: Json | None) -> Json:
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
        """Wake `outcome`."""
        self._changed.set()

    def answered(self, answers: object) -> None:
        """Hand the client's answers to those who wait for them; a question without an answer fails."""
        given = answers if isinstance(answers, dict) else {}
        # Only questions that the client has received: one that was asked meanwhile waits for the next round.
        for key in self._put & self._questions.keys():
            if isinstance(given.get(key), dict):
                self._answers[key] = given[key]
            self._questions.pop(key)[1].set()
        self._put.clear()

    async def outcome(self) -> Json | None:
        """Wait for the result and return it, or None if there are questions for the client first."""
        while self.result is None and self.error is None and not self._questions:
            self._changed = anyio.Event()  # an event cannot be reset; no task runs between this line and the wait
            await self._changed.wait()
        if self.error is not None:
            raise self.error
        return self.result

    def put(self) -> Json:
        """Return the questions for the client, and remember that it has them."""
        self._put = set(self._questions)
        return {key: question for key, (question, _) in self._questions.items()}


Work = Callable[[Call], Awaitable[Json]]


class Calls:
    """The requests of one conversation that are in progress."""

    def __init__(self) -> None:
        self._going_on: list[Call] = []
        self._parked: dict[str, Call] = {}

    def of(self, server: str, about: object = None) -> Call | None:
        """Return the call about which a server may ask the client: `about`, or the newest where it is not known which; None if the
        client cannot be asked.
        """
        # Only calls on which this server works: a server must not ask the user in the middle of another server's call.
        able = (call for call in reversed(self._going_on) if call.can_ask and call.is_at(server))
        return next((call for call in able if about is None or call is about), None)

    async def run(self, context: Context, work: Work, tasks: TaskGroup) -> Json:
        """Do the work of a request; return its result, or the questions that the client must answer first.

        If the request is cancelled, so is its work.
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
            # The state is unguessable and taken out above, so an answer counts only once.
            if call is None:
                raise MCPError(
                    INVALID_PARAMS, "the call is over: it waited too long for its answers, or had them already"
                )
            call.context = context
            call.answered(params.get("inputResponses"))
        else:
            call = Call(context)
            # The work runs in its own task: it goes on after this request was answered with a question, until the client answers.
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
            call.error = error  # the request that waits in `outcome` raises it
        finally:
            self._going_on.remove(call)
            call.finish()

    def _park(self, call: Call, tasks: TaskGroup) -> Json:
        # Each parked call holds a task and a server's work, so a client that never answers must not park any number.
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
