"""The ASGI application: finds the operation of a request, checks what the client may do and says, and answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from byref.adapters.common.bodies import MAX_VALUES, Bodies, has_more_values
from byref.aio import AsyncEngine, AsyncSession
from byref.conversation.lifecycle import check_id
from byref.describe.jsontext import without_surrogates
from byref.engine import Engine
from byref.errors import ConfigurationError, InvalidId, shown
from byref.service import openapi, records
from byref.service.auth import Auth, Grant, Tokens, find, find_both
from byref.service.events import News
from byref.service.inspector import Inspector, Redact, SignIn
from byref.service.operations import OPERATIONS, Operation, Place, is_response
from byref.service.problems import Problem, problem
from byref.service.remote import Remote
from byref.session import Session
from byref_sandbox import jsontext

MAX_BODY_BYTES = 8 << 20
"""Most bytes of a JSON body; larger outputs are uploaded."""
MAX_BODIES_BYTES = 64 << 20
"""JSON bodies of one tenant's requests in progress; a request that would exceed it waits before its body is read."""
MAX_UPLOAD_BYTES = 16 << 30
BODY_SECONDS = 60.0
"""For a whole JSON body, and for each piece of an upload."""
KEY_CHARS = 512
"""Characters of an `Idempotency-Key`."""
_IS_WHOLE = re.compile(r"Expected `int[^`]*`, got `float`")
"""What msgspec says of 3.0 where an integer belongs; to JSON Schema, and to languages that have one kind of number, it is one."""
_OWN_ID = ("call_id", "request_id")
"""What makes an operation happen once; the header `Idempotency-Key` stands for it where the request has none."""


def app(engine: AsyncEngine, *, auth: Auth | None = None, redact: Redact | None = None) -> Starlette:
    """Return the service of an engine, which a host serves by itself or mounts in its own application.

    `auth` returns the grant of a bearer token (default: that of the tokens in the engine's database). `redact` gets each text
    of content before the inspector shows it, and returns what people may see of it. The host closes the engine. Before its
    server ends, `app.state.stopping.set()` ends the streams of events.

    Raises:
        ConfigurationError: it is no AsyncEngine.
    """
    if not isinstance(engine, AsyncEngine):
        raise ConfigurationError(f"{shown(engine)}: expected a byref.AsyncEngine")

    @asynccontextmanager
    async def opened(_: Starlette) -> AsyncIterator[None]:
        await engine.open()
        yield

    stopping = asyncio.Event()
    routes = [
        _mounted("/v1", _Api(engine, auth, stopping)),
        _mounted("/inspect", Inspector(engine, SignIn(auth or Tokens(engine)), redact, stopping)),
    ]
    made = Starlette(routes=routes, lifespan=opened)
    made.state.stopping = stopping
    return made


def _mounted(path: str, app: ASGIApp) -> Mount:
    """Mount an application for all paths below one, also for those that have a line feed in them: an id may."""
    mount = Mount(path, app=app)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


class _Room:
    """The room that one request takes for its JSON body, until it is answered."""

    def __init__(self, bodies: Bodies, tenant: str) -> None:
        self._bodies, self._tenant, self._size = bodies, tenant, 0

    async def take(self, size: int) -> None:
        """Wait for room for the greatest length that the body may have."""
        await self._bodies.take(self._tenant, size)
        self._size = size

    def shrink(self, size: int) -> None:
        """Give back what the body did not need."""
        self._bodies.give_back(self._tenant, self._size - size)
        self._size = size

    def leave(self) -> None:
        """Give back all of it."""
        self.shrink(0)


class _Api:
    """Everything below `/v1`."""

    def __init__(self, engine: AsyncEngine, auth: Auth | None, stopping: asyncio.Event) -> None:
        self._engine = engine
        self._auth = auth or Tokens(engine)
        self._has_own_tokens = auth is None
        self._stopping = stopping
        self._remote = Remote(engine, stopping)
        self._news = News(engine, stopping)
        self._bodies = Bodies(MAX_BODIES_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets an answer
            response = problem(error).response
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        segments = _segments(request.scope)
        if segments == ["openapi.json"] and request.method == "GET":
            return Response(openapi.document(), 200, media_type="application/json")
        operation, names = _found(request.method, segments)
        grant, opened = await self._entered(operation, names, _token(request))
        place = Place(self._engine, grant, names, request, self._stopping, self._remote, self._news, opened)
        room = _Room(self._bodies, grant.tenant)
        try:
            given = await _given(operation, request, room)
            return await self._done(operation, place, given, request)
        finally:
            room.leave()

    async def _done(self, operation: Operation, place: Place, given: records.Given, request: Request) -> Response:
        arguments: list[Any] = [] if operation.given is records.Nothing else [given]
        if operation.takes_stream:
            if request.headers.get("Content-Encoding", "identity") != "identity":
                raise Problem(
                    415, "encoded", "expected a body without a Content-Encoding: its bytes are kept as they come"
                )
            arguments.append(_pieces(request, MAX_UPLOAD_BYTES))
        reply = await operation.work(place, *arguments)
        if is_response(operation):
            return reply  # type: ignore[no-any-return]
        if operation.reply is None:
            return Response(status_code=204)
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(records.encoded(reply), 200, headers, "application/json")

    async def _entered(
        self, operation: Operation, names: dict[str, str], token: str
    ) -> tuple[Grant, list[AsyncSession]]:
        """Return what the client may do, and the session that the path names, if the operation needs one.

        Raises:
            Problem: the client may not do this.
            UnknownSession: its tenant has no such session.
            InvalidId: nothing can have the name.
        """
        if not token:
            raise _unauthorised()
        # Tokens of the engine's own database are looked up on the thread that opens the session, which spares a thread.
        known = None
        if not (self._has_own_tokens and operation.opens):
            known = _allowed(operation, await self._auth(token))
            if not operation.opens:
                _see_that_names_can_be(names)
                return known, []
        grants: list[Grant] = []

        def work(engine: Engine) -> Session:
            name, grant, found = names["session"], known, None
            if grant is None:
                try:
                    said, found = find_both(engine.database, token, check_id("id", name))
                except InvalidId:  # which only those learn who may ask
                    said = find(engine.database, token)
                grant = _allowed(operation, said)
            grants[:] = [grant]
            name = check_id("id", name)
            functions = self._remote.functions(grant.tenant, name) if operation.with_functions else None
            if found is not None:
                return engine._session_of(found, name, grant.tenant, functions=functions)
            return engine.session(name, tenant=grant.tenant, functions=functions, create=False)

        session = await self._engine.session_by(work)
        return grants[0], [session]


def _see_that_names_can_be(names: dict[str, str]) -> None:
    """Raise InvalidId for a name that no database can have."""
    for name, value in names.items():
        if "\0" in value or without_surrogates(value) != value:
            check_id(name, value)


def _unauthorised() -> Problem:
    expected = "expected the header `Authorization: Bearer …` with a token that is valid"
    return Problem(401, "unauthorised", expected, {"WWW-Authenticate": "Bearer"})


def _token(request: Request) -> str:
    """Return a request's token; an empty text if there is none, or if a proxy could have looked at another one."""
    given = request.headers.getlist("Authorization")
    kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if kind.lower() == "bearer" else ""


def _allowed(operation: Operation, grant: Grant | None) -> Grant:
    """Return the grant of a token that allows an operation; a Problem if it does not."""
    if grant is None:
        raise _unauthorised()
    if operation.right not in grant.rights:
        raise Problem(
            403, "not-allowed", f"{operation.name} needs the right {operation.right!r}, which the token lacks"
        )
    return grant


# Paths are taken as they were sent: an id may have a slash in it, which is percent-encoded there.


def _segments(scope: Scope) -> list[str]:
    """Return the parts of a path below `/v1`, decoded; a part that is no UTF-8 matches no name."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    below = raw.split(b"?")[0].split(b"/")[1 + scope.get("root_path", "").strip("/").count("/") + 1 :]
    return [unquote_to_bytes(part).decode(errors="surrogateescape") for part in below]


_TREE: dict[str, Any] = {}
"""Operations by the parts of their paths; the empty part stands for any name, and methods are at the ends."""


def _grow() -> None:
    for operation in OPERATIONS:
        node = _TREE
        for part in operation.path.strip("/").split("/"):
            node = node.setdefault("" if part.startswith("{") else part, {})
        node[f"{operation.method} "] = operation


_grow()


def _found(method: str, segments: list[str]) -> tuple[Operation, dict[str, str]]:
    """Return the operation of a path, and the names in it."""
    node, values = _TREE, []
    for part in segments:
        if part and part in node and not part.endswith(" "):
            node = node[part]
        elif part and "" in node:
            node = node[""]
            values.append(part)
        else:
            raise Problem(404, "not-found", "there is nothing at this path: GET /v1/openapi.json lists what there is")
    methods = [key.strip() for key in node if key.endswith(" ")]
    if not methods:
        raise Problem(404, "not-found", "there is nothing at this path: GET /v1/openapi.json lists what there is")
    operation: Operation | None = node.get(f"{method} ")
    if operation is None:
        allowed = ", ".join(methods)
        raise Problem(405, "method-not-allowed", f"expected {allowed}", {"Allow": allowed})
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    return operation, dict(zip(names, values, strict=True))


async def _given(operation: Operation, request: Request, room: _Room) -> records.Given:
    """Return what a request says.

    Raises:
        Problem: it is not what the operation takes.
    """
    try:
        if operation.takes_json:
            given = await _of_body(operation, request, room)
        else:
            given = _of_query(operation, request)
    except msgspec.ValidationError as error:
        raise Problem(422, "invalid-request", str(error)) from error
    return _once(operation, given, request.headers.get("Idempotency-Key"))


async def _of_body(operation: Operation, request: Request, room: _Room) -> records.Given:
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or request.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem(415, "not-json", "expected a body of Content-Type: application/json, not encoded any further")
    if request.url.query:
        raise Problem(422, "invalid-request", "this operation has no query: all is in the body")
    most = _most_of(request, MAX_BODY_BYTES)
    await room.take(most)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            parts = [piece async for piece in _pieces(request, MAX_BODY_BYTES)]
    except TimeoutError:
        raise Problem(408, "too-slow", f"the body did not come within {BODY_SECONDS:.0f} seconds") from None
    body = b"".join(parts)
    room.shrink(len(body))
    if await has_more_values(body, MAX_VALUES):
        raise Problem(
            413, "too-large", f"the JSON of a body may have {MAX_VALUES:,} values; larger outputs are uploaded"
        )
    if not jsontext.is_utf8(body):
        raise Problem(400, "not-json", "the body is no JSON: it is not UTF-8")
    try:
        jsontext.check_depth(body)
        return msgspec.json.decode(body, type=operation.given)
    except msgspec.ValidationError as error:
        if not _IS_WHOLE.match(str(error)):
            raise
        return msgspec.json.decode(body, type=operation.given, strict=False)
    except msgspec.DecodeError as error:
        raise Problem(400, "not-json", f"the body is no JSON: {error}") from error
    except RecursionError as error:
        raise Problem(400, "not-json", "the body is nested too deeply") from error


def _of_query(operation: Operation, request: Request) -> records.Given:
    pairs = request.query_params.multi_items()
    values = dict(pairs)
    if len(values) != len(pairs):
        raise Problem(422, "invalid-request", "a parameter of the query is given more than once")
    return msgspec.convert(values, operation.given, strict=False)


def _once(operation: Operation, given: records.Given, key: str | None) -> records.Given:
    """Return what a request says, with its `Idempotency-Key` as the id that makes it happen once.

    Raises:
        Problem: the operation has no such id. A key that is not heeded would be believed.
    """
    if key is None or operation.method != "POST":  # the other methods have the same effect again
        return given
    name = next((name for name in _OWN_ID if name in given.__struct_fields__), None)
    if name is None or not 0 < len(key) <= KEY_CHARS:
        expected = (
            f"1 to {KEY_CHARS} characters" if name else f"none: {operation.name} is done as often as it is asked for"
        )
        raise Problem(422, "invalid-request", f"Idempotency-Key: expected {expected}")
    return given if getattr(given, name) else msgspec.structs.replace(given, **{name: key})


async def _pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """Yield a body piece by piece; a Problem if it has more than `most` bytes, or a piece does not come in time."""
    _most_of(request, most)
    size, pieces = 0, request.stream()
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise Problem(408, "too-slow", f"no piece of the body came for {BODY_SECONDS:.0f} seconds") from None
        if piece is None:
            return
        size += len(piece)
        if size > most:
            raise _too_large(most)
        yield piece


def _most_of(request: Request, most: int) -> int:
    """Return how many bytes a body may have that is to have at most `most`; a Problem if more are declared."""
    declared = request.headers.get("Content-Length", str(most) if "Transfer-Encoding" in request.headers else "0")
    if len(declared) > 18 or not declared.isdecimal() or int(declared) > most:
        raise _too_large(most)
    return int(declared)


def _too_large(most: int) -> Problem:
    return Problem(413, "too-large", f"expected a body of at most {most:,} bytes; larger outputs are uploaded")
