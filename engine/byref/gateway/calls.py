"""Requests of the client that are going on, and what servers ask the client meanwhile.

Until 2025 a server asks by a request of its own; since 2026 a question is the answer to the call, which the client makes
again together with what it was asked for. Servers of either kind get their answers from clients of either kind.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
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

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

INTERACTIVE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that may be answered with a question."""
QUESTIONS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""What a client may be asked in place of an answer, and the capability that it has then."""
MAX_QUESTIONS = 100
"""In place of one answer."""
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


async def ask(context: Context, method: str, params: Json | None) -> Json:
    """Send the client a request, on the stream of its own that is open."""
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    message = cast(Any, _Message(method=method, params=params))
    answer = await context.session.send_request(message, _Answer, metadata=metadata)
    return answer.model_dump()


async def tell(context: Context, method: str, params: Json | None) -> None:
    """Send the client a notification, on the stream of its request."""
    message = cast(Any, _Message(method=method, params=params))
    await context.session.send_notification(message, related_request_id=context.request_id)


def asked(result: Json, server: str) -> list[tuple[str, str, Json | None]]:
    """Return key, method and parameters of what a server asks in place of an answer; nothing if it wants to be asked again.

    Raises:
        MCPError: the questions are none of this protocol.
    """
    questions = result.get("inputRequests")
    if not questions and isinstance(result.get("requestState"), str):
        return []
    given = list(questions.items()) if isinstance(questions, dict) and len(questions) <= MAX_QUESTIONS else []
    found = [
        (key, method, params)
        for key, question in given
        if isinstance(question, dict)
        and isinstance(method := question.get("method"), str)
        and method in QUESTIONS
        and isinstance(params := question.get("params"), dict | None)
    ]
    if not found or len(found) < len(given):
        raise MCPError(INTERNAL_ERROR, f"the server {server!r} asked something that is no question of this protocol")
    return found


class Call:
    """One request of the client; since 2026 perhaps made several times until it is answered."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.servers: list[object] = []
        """Those that work on it."""
        self.result: Json | None = None
        self.error: BaseException | None = None
        self.scope = anyio.CancelScope()
        self._changed = anyio.Event()
        self._questions: dict[str, tuple[Json, anyio.Event]] = {}
        self._answers: dict[str, Json] = {}
        self._asked = 0

    @property
    def can_ask(self) -> bool:
        """Whether the client can be asked something now."""
        return not is_modern(self.context) or self.context.method in INTERACTIVE

    async def ask(self, method: str, params: Json | None) -> Json:
        """Ask the client and return its answer.

        Raises:
            MCPError: the client answered with an error, or with nothing.
        """
        if not is_modern(self.context):
            return await ask(self.context, method, params)
        if getattr(self.context.session.client_capabilities, QUESTIONS.get(method, ""), None) is None:
            raise MCPError(INVALID_REQUEST, f"the client did not say that it answers {method}")
        self._asked += 1
        key, answered = str(self._asked), anyio.Event()
        self._questions[key] = {"method": method, "params": params or {}}, answered
        self._changed.set()
        await answered.wait()
        if key not in self._answers:
            raise MCPError(INVALID_REQUEST, f"the client gave no answer to {method}")
        return self._answers.pop(key)

    def finish(self) -> None:
        """Let `outcome` return."""
        self._changed.set()

    def answered(self, answers: object) -> None:
        """Hand over what the client was asked for."""
        given = answers if isinstance(answers, dict) else {}
        for key, (_, event) in self._questions.items():
            if isinstance(given.get(key), dict):
                self._answers[key] = given[key]
            event.set()
        self._questions.clear()

    async def outcome(self) -> Json | None:
        """Wait for the result, or for a question: then None."""
        while self.result is None and self.error is None and not self._questions:
            self._changed = anyio.Event()
            await self._changed.wait()
        if self.error is not None:
            raise self.error
        return self.result

    def questions(self) -> Json:
        """Return what the client is asked."""
        return {key: question for key, (question, _) in self._questions.items()}


Work = Callable[[Call], Awaitable[Json]]


class Calls:
    """The requests of one conversation."""

    def __init__(self) -> None:
        self._going_on: list[Call] = []
        self._parked: dict[str, Call] = {}

    def of(self, server: object) -> Call | None:
        """Return the call that a server's question is probably about: its newest; else any that the client can be asked by."""
        asking = [call for call in reversed(self._going_on) if call.can_ask]
        return next((call for call in asking if server in call.servers), asking[0] if asking else None)

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
        return {"resultType": "input_required", "inputRequests": call.questions(), "requestState": state}

    async def _give_up(self, state: str) -> None:
        await anyio.sleep(PARKED_SECONDS)
        if (call := self._parked.pop(state, None)) is not None:
            call.scope.cancel()
