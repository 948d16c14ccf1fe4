"""Checks each HTTP request before memory, a session or a process is spent on it.

The SDK makes a session for any POST without one, and checks the request's origin only afterwards. Here only a valid `initialize`
makes a session, and each tenant has a limited number of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pydantic_core
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.streamable_http import check_accept_headers
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, JSONRPCRequest, methods
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from byref.adapters.common.bodies import MAX_VALUES, Bodies, has_more_values
from byref.adapters.common.shares import Shares
from byref.adapters.mcp import SESSION_HEADER, BearerTokens
from byref.conversation.lifecycle import check_id
from byref.errors import InvalidId

PATH = "/mcp"
METHODS = ("GET", "POST", "DELETE")
MAX_REQUESTS = 1_000
"""Requests in progress at once, including event streams."""
KEPT_REQUESTS = 10
"""Requests kept free for each of several tenants when the others have taken all the rest."""
MAX_SESSIONS = 1_000
"""Sessions of the protocol (`Mcp-Session-Id`)."""
ROOM_SECONDS = 60.0
"""A session without a request for so long may be ended when its tenant needs the room for another."""
MAX_BODIES_BYTES = 256 << 20
"""Bodies of one tenant's requests in progress; a request that would exceed it waits before its body is read."""
MAX_INITIALIZE_BYTES = 256 << 10
MAX_INITIALIZE_VALUES = 10_000

_SESSION_ID = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_LAST_EVENT = b"last-event-id"
_ONCE = ("authorization", "content-type", "origin", _SESSION_ID, SESSION_HEADER)
BY_REFERENCE = 'data that a tool returned before goes by reference instead, "$name" or {"$var": "name"}'
RETRY = "10"
"""Seconds (`Retry-After`) after which a client may come again if there was no room."""


class Refused(Exception):
    """A request is refused. The text tells the client why."""

    def __init__(
        self, status: int, reason: str, *, code: int = INVALID_REQUEST, id: Any = None, **headers: str
    ) -> None:
        super().__init__(reason)
        error = {"code": code, "message": reason}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answer = JSONResponse({"jsonrpc": "2.0", "id": id, "error": error}, status_code=status, headers=named)


@dataclass(slots=True)
class _Session:
    tenant: str
    user: AuthenticatedUser | None
    busy: int = 0
    used_at: float = field(default_factory=time.monotonic)


class Door:
    """Stands in front of the SDK's application: checks each request, and counts requests, sessions and bodies."""

    def __init__(
        self,
        app: ASGIApp,
        sessions: StreamableHTTPSessionManager,
        *,
        is_host: Callable[[str], bool],
        is_origin: Callable[[str], bool],
        tokens: BearerTokens | None,
        several: bool,
        idle_seconds: float,
        max_body_bytes: int,
    ) -> None:
        self._app = app
        self._manager = sessions
        self._is_host, self._is_origin = is_host, is_origin
        self._tokens = tokens
        self._idle_seconds = idle_seconds
        self._max_body_bytes = max_body_bytes
        self._requests = Shares(MAX_REQUESTS, several=several, kept=KEPT_REQUESTS)
        self._places = Shares(MAX_SESSIONS, several=several)
        self._sessions: dict[str, _Session] = {}
        """Sessions by id, the one unused for longest first."""
        self._bodies = Bodies(MAX_BODIES_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_sender(scope, headers)
            user = await self._user(headers)
            size = self._check_form(scope, headers)
            tenant = "" if user is None else user.access_token.client_id
            session = self._session(scope["method"], headers, tenant)
            if not self._requests.take(tenant):
                reason = f"too many requests are under way ({self._requests.limits})"
                raise Refused(503, reason, retry_after=RETRY)
            try:
                inside = _inside(scope, user)
                await self._pass(inside, headers, session, tenant, size, receive, send)
            finally:
                self._requests.give_back(tenant)
        except Refused as refused:
            await refused.answer(scope, receive, send)

    # Checks that need only the headers

    def _check_sender(self, scope: Scope, headers: Headers) -> None:
        """Check that the request is for this server, and from a web page that may send it."""
        if scope["path"].rstrip("/") != PATH:
            raise Refused(404, f"there is nothing here but {PATH}")
        if not self._is_host(headers.get("host", "")):
            raise Refused(421, "Host is no name of this server: those of others are given with --allow-host")
        for name in _ONCE:
            if len(headers.getlist(name)) > 1:
                raise Refused(400, f"{name} is given more than once")
        origin = headers.get("origin")
        if origin is not None and not self._is_origin(origin):
            raise Refused(403, "Origin is no host of this server: pages of others are let in with --allow-host")

    async def _user(self, headers: Headers) -> AuthenticatedUser | None:
        if self._tokens is None:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        found = await self._tokens.verify_token(token.strip()) if kind.lower() == "bearer" else None
        if found is None:
            challenge = 'Bearer error="invalid_token", error_description="Authentication required"'
            raise Refused(401, "a bearer token is needed", www_authenticate=challenge)
        return AuthenticatedUser(found)

    def _check_form(self, scope: Scope, headers: Headers) -> int:
        """Check the method and the headers; return how many bytes the body may have."""
        method, is_legacy = scope["method"], _is_legacy(headers)
        allowed = METHODS if is_legacy else ("POST",)
        if method not in allowed:
            raise Refused(405, f"allowed here: {', '.join(allowed)}", allow=", ".join(allowed))
        takes_json, takes_events = check_accept_headers(Request(scope))
        if method != "DELETE" and not (takes_events and (takes_json or method == "GET")):
            needed = "text/event-stream" if method == "GET" else "application/json and text/event-stream"
            raise Refused(406, f"Accept has to name {needed}")
        size = int(headers.get("content-length", self._max_body_bytes if "transfer-encoding" in headers else 0))
        if method != "POST":
            if size:
                raise Refused(400, f"a {method} has no body here")
        elif headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "Content-Type has to be application/json")
        elif headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "Content-Encoding is not accepted: send the body as it is")
        if size > self._max_body_bytes:
            raise self._too_large()
        if (name := headers.get(SESSION_HEADER)) is not None:
            try:
                check_id(SESSION_HEADER, name)
            except InvalidId as error:
                raise Refused(400, str(error)) from error
        return size

    def _session(self, method: str, headers: Headers, tenant: str) -> str | None:
        """Return the session of a request; None if it has none, or is to make one."""
        id = headers.get(_SESSION_ID)
        if not _is_legacy(headers):
            return None
        if id is None:
            if method != "POST":
                raise Refused(400, "Mcp-Session-Id is missing: a session begins with initialize")
            return None
        self._forget_idle()
        session = self._sessions.get(id)
        # The same answer for a session that is missing and for another tenant's: ids of others cannot be probed.
        if session is None or session.tenant != tenant:
            raise Refused(404, "Session not found")
        session.used_at = time.monotonic()
        # Moved to the end of the dictionary, which is kept in the order of last use.
        self._sessions[id] = self._sessions.pop(id)
        return id

    def _too_large(self) -> Refused:
        return Refused(413, f"the body of a request may have {self._max_body_bytes >> 20} MB; {BY_REFERENCE}")

    # Handling of the body and of the session

    async def _pass(
        self,
        scope: Scope,
        headers: Headers,
        session: str | None,
        tenant: str,
        size: int,
        receive: Receive,
        send: Send,
    ) -> None:
        # Room for the greatest length is taken before the body is read; the part not needed is given back after.
        await self._bodies.take(tenant, size)
        try:
            body = await self._read(receive) if size else b""
            if body is None:
                return
            self._bodies.give_back(tenant, size - len(body))
            size = len(body)
            if await has_more_values(body, MAX_VALUES):
                raise Refused(413, f"the JSON of a request may have {MAX_VALUES:,} values; {BY_REFERENCE}")
            given = _replayed(body, receive)
            if session is not None:
                await self._pass_on(scope, session, given, send)
            elif _is_legacy(headers):
                await self._begin(scope, tenant, body, given, send)
            else:
                await self._app(scope, given, send)
        finally:
            self._bodies.give_back(tenant, size)

    async def _pass_on(self, scope: Scope, id: str, receive: Receive, send: Send) -> None:
        if (session := self._sessions.get(id)) is None:
            raise Refused(404, "Session not found")  # it ended while the body arrived

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == 404 or (status == 200 and scope["method"] == "DELETE"):
                    self._forget(id)
            await send(message)

        session.busy += 1
        try:
            await self._app(scope, receive, sent)
        finally:
            session.busy -= 1
            if id not in self._sessions:
                self._drop(id)

    async def _begin(self, scope: Scope, tenant: str, body: bytes, receive: Receive, send: Send) -> None:
        """Make a session, if the request is a valid `initialize` and there is room."""
        if len(body.strip()) > MAX_INITIALIZE_BYTES or await has_more_values(body, MAX_INITIALIZE_VALUES):
            reason = f"initialize may have {MAX_INITIALIZE_BYTES >> 10} KB, and {MAX_INITIALIZE_VALUES:,} values"
            raise Refused(413, reason)
        id = _check_initialize(body)
        has_place = self._places.take(tenant) or (
            await self._make_room(tenant) and self._places.take(tenant, in_exchange=True)
        )
        if not has_place:
            reason = (
                f"too many sessions are open ({self._places.limits}): end one with DELETE, or come again; one "
                f"that is not used for {ROOM_SECONDS:.0f} s makes room by itself"
            )
            raise Refused(503, reason, id=id, retry_after=RETRY)
        made: str | None = None
        answer = b""

        async def sent(message: Message) -> None:
            nonlocal made, answer
            if message["type"] == "http.response.start":
                made = Headers(raw=message["headers"]).get(_SESSION_ID)
                if made is not None:
                    self._sessions[made] = _Session(tenant, scope.get("user"), busy=1)
            elif len(answer) < MAX_INITIALIZE_BYTES:
                answer += message.get("body", b"")
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            if made is None:
                self._places.give_back(tenant)
            elif made in self._sessions:
                self._sessions[made].busy -= 1
        # The SDK made a session but answered with an error: a session of no use would keep its place, so it is ended here.
        if made is not None and _is_error(answer):
            await self._end(made)

    async def _make_room(self, tenant: str) -> bool:
        """End the tenant's session that was idle longest, if that is long enough; return whether there was one."""
        self._forget_idle()
        before = time.monotonic() - ROOM_SECONDS
        for id, session in self._sessions.items():
            if session.tenant == tenant and not session.busy and session.used_at < before:
                await self._end(id)
                return True
        return False

    async def _end(self, id: str) -> None:
        """End a session by sending the SDK the DELETE that its client would send."""
        if (session := self._sessions.get(id)) is None:
            return
        headers = [(b"host", b"localhost"), (_SESSION_ID.encode(), id.encode())]
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "DELETE",
            "scheme": "http",
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "user": session.user,
        }

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            pass

        self._forget(id)
        await self._app(scope, receive, send)
        self._drop(id)

    def _forget_idle(self) -> None:
        """Forget sessions that the SDK has ended because they were idle."""
        before = time.monotonic() - self._idle_seconds
        while self._sessions and (id := next(iter(self._sessions))) and self._sessions[id].used_at < before:
            self._forget(id)

    def _forget(self, id: str) -> None:
        if (session := self._sessions.pop(id, None)) is not None:
            self._places.give_back(session.tenant)

    async def _read(self, receive: Receive) -> bytes | None:
        """Return the whole body; None if the client has left."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                raise self._too_large()
            if not message.get("more_body"):
                return bytes(body)

    def _drop(self, id: str) -> None:
        """Remove a session that DELETE ended from the SDK's tables: version 2.1 would keep it for ever."""
        self._manager._server_instances.pop(id, None)
        self._manager._session_owners.pop(id, None)


def _inside(scope: Scope, user: AuthenticatedUser | None) -> Scope:
    """Return the request's scope in the one spelling that the SDK accepts, where the door accepts several.

    It has no `Last-Event-ID`: no events are stored, and the SDK fails where it is asked to send such ones again.
    """
    kind = (b"content-type", b"application/json")
    headers = [kind if name == kind[0] else (name, value) for name, value in scope["headers"] if name != _LAST_EVENT]
    return {**scope, "path": PATH, "headers": headers, **({} if user is None else {"user": user})}


def _is_legacy(headers: Headers) -> bool:
    """Tell whether a request is of the protocol with sessions, by the SDK's own rule."""
    return headers.get(_VERSION, LATEST_HANDSHAKE_VERSION) in HANDSHAKE_PROTOCOL_VERSIONS


def _check_initialize(body: bytes) -> str | int:
    """Return the id of an `initialize` request.

    Raises:
        Refused: the body is not a valid one.
    """
    try:
        given = pydantic_core.from_json(body)
    except ValueError as error:
        raise Refused(400, f"Parse error: {error}", code=PARSE_ERROR) from error
    if not isinstance(given, dict) or given.get("method") != "initialize":
        raise Refused(400, "Mcp-Session-Id is missing: a session begins with initialize")
    id = given.get("id")
    try:
        request = JSONRPCRequest.model_validate(given, by_name=False)
        methods.validate_client_request("initialize", LATEST_HANDSHAKE_VERSION, request.params)
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False, include_input=False, include_context=False)
        where = ".".join(map(str, first["loc"]))
        request_id = id if isinstance(id, str | int) and not isinstance(id, bool) else None
        raise Refused(400, f"initialize: {where[:100]}: {first['msg']}", code=INVALID_PARAMS, id=request_id) from error
    return request.id


def _is_error(answer: bytes) -> bool:
    """Tell whether the event stream that answers a request contains an error."""
    for line in answer.splitlines():
        if line.startswith(b"data:"):
            try:
                event = pydantic_core.from_json(line[5:])
            except ValueError:
                continue
            if isinstance(event, dict) and "error" in event:
                return True
    return False


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body that was already read, then the further messages."""
    is_given = False

    async def received() -> Message:
        nonlocal is_given, body
        if is_given:
            return await receive()
        is_given = True
        message = {"type": "http.request", "body": body, "more_body": False}
        body = b""
        return message

    return received
