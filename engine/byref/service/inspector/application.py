"""The inspector as an ASGI application: lets people in, finds the page of a request, and answers with a strict policy."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from byref.aio import AsyncEngine
from byref.artifacts.store import Artifact
from byref.service import transfers
from byref.service.auth import Grant
from byref.service.inspector import live, rendering, sessions
from byref.service.inspector.doors import Door, Entered
from byref.service.inspector.looks import Image, Look, Page
from byref.service.inspector.pages import PAGES, Made
from byref.service.inspector.sight import Redact, Sight
from byref.service.problems import Problem, problem
from byref.session import Session

LIVE = Made(sessions.session)
"""That a session has new steps, for its page."""
KEPT_SECONDS = 365 * 86_400
"""For how long browsers keep the files of this version."""


class Inspector:
    """Everything below `/inspect`. It only reads: no page changes anything, and looking at data does not prolong its life."""

    def __init__(
        self, engine: AsyncEngine, door: Door, redact: Redact | None = None, stopping: asyncio.Event | None = None
    ) -> None:
        self._engine = engine
        self._stopping = stopping or asyncio.Event()
        self._door = door
        self._redact = redact

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  whatever it is, the reader gets a page
            response = self._refused(problem(error), request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        name = _name(request)
        if name in rendering.FILES and request.method in ("GET", "HEAD"):
            kept = {"Cache-Control": f"public, max-age={KEPT_SECONDS}, immutable"}
            return Response(rendering.CONTENTS[name], 200, HEADERS | kept, rendering.FILES[name])
        if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise Problem(403, "not-allowed", "the form was sent by a page of another site")
        if name == "enter":
            return await self._enter(request)
        if name == "leave" and request.method == "POST":
            leaving = _sent_on("enter")
            leaving.delete_cookie(self._door.cookie, path=_path(request), httponly=True, samesite="strict")
            return leaving
        if request.method not in ("GET", "HEAD"):
            raise Problem(405, "method-not-allowed", "expected GET: these pages change nothing", {"Allow": "GET, HEAD"})
        grant = await self._granted(request)
        if grant is None:
            if request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method == "GET":
                return _sent_on(_here(request))  # a link of another site: browsers keep the cookie back at first
            raise Problem(401, "unauthorised", "sign in to see this page")
        if "inspect" not in grant.rights:
            raise Problem(403, "not-allowed", "the inspector needs the right 'inspect', which the token lacks")
        made = LIVE if name == "events" else PAGES.get(name)
        if made is None:
            raise Problem(404, "not-found", "there is no such page")
        sight, engine = Sight("content" in grant.rights, self._redact), self._engine
        look = Look(engine.database, grant.tenant, sight, _query(request), engine.sandbox)
        if made.shows_session:
            opened = await self._engine.session(look.text("session"), tenant=grant.tenant, create=False)
            scope = replace(opened._session._scope, uses=None)
            look = replace(look, session=Session(scope))
        if made is LIVE:
            after, row = look.number("after", 0), look.scope.row
            return live.stream(self._engine.database, grant.tenant, row, after, HEADERS, self._stopping)
        found = await asyncio.to_thread(_found, made, look)
        if isinstance(found, Artifact):
            return await transfers.download(found, request, grant.tenant)
        if isinstance(found, Image):
            headers = HEADERS | {"Content-Security-Policy": "default-src 'none'; sandbox"}
            return Response(found.data, 200, headers, found.content_type)
        return await self._shown(found, look, request)

    async def _shown(self, page: Page, look: Look, request: Request) -> Response:
        nonce = secrets.token_urlsafe(18)
        about = {"look": look, "nonce": nonce, "door": self._door, "path": _name(request)}
        body = await asyncio.to_thread(rendering.page, page.template, page.values | about)
        return Response(body, page.status, _headers(nonce), "text/html; charset=utf-8")

    async def _enter(self, request: Request) -> Response:
        to = _ours(request.query_params.get("to", ""))
        try:
            await self._door.enter(request)
        except Entered as entered:
            response = _sent_on(to)
            response.set_cookie(
                self._door.cookie,
                entered.cookie,
                path=_path(request),
                httponly=True,
                samesite="strict",
                secure=entered.is_secure,
            )
            return response
        return self._form(request, to)

    async def _granted(self, request: Request) -> Grant | None:
        cookie = request.cookies.get(self._door.cookie)
        return await self._door.grant(cookie) if cookie else None

    def _form(self, request: Request, to: str, status: int = 200, wrong: str = "") -> Response:
        nonce = secrets.token_urlsafe(18)
        values = {
            "nonce": nonce,
            "door": self._door,
            "to": to,
            "wrong": wrong,
            "look": None,
            "path": "enter",
        }
        return Response(rendering.page("enter", values), status, _headers(nonce), "text/html; charset=utf-8")

    def _refused(self, what: Problem, request: Request) -> Response:
        details = what.details
        if details.status == 401:
            name = _name(request)
            to = _ours(request.query_params.get("to", "")) if name == "enter" else _here(request)
            return self._form(request, to, 401, details.detail if name == "enter" else "")
        nonce = secrets.token_urlsafe(18)
        values = {"nonce": nonce, "door": self._door, "problem": details, "look": None, "path": ""}
        headers = _headers(nonce) | what.headers
        return Response(rendering.page("problem", values), details.status, headers, "text/html; charset=utf-8")


def _found(made: Made, look: Look) -> Page | Artifact | Image:
    """Return what a page shows; why it cannot be shown is redacted, for it may quote what was said and stored."""
    try:
        return made.make(look)
    except Exception as error:
        if look.sight.redact is None:
            raise
        what = problem(error)
        what.details = msgspec.structs.replace(what.details, detail=look.sight.name(what.details.detail))
        raise what from error


HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_POLICY = (
    "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


def _headers(nonce: str) -> dict[str, str]:
    return HEADERS | {"Content-Security-Policy": _POLICY.format(nonce)}


def _name(request: Request) -> str:
    """Return what the path has below the inspector's own."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")).removeprefix("/")


def _path(request: Request) -> str:
    """Return the inspector's own path, which its cookie is for."""
    return quote(request.scope.get("root_path", "")) or "/"


def _here(request: Request) -> str:
    """Return the link to the page that is asked for."""
    query = request.scope["query_string"].decode("ascii", "ignore")
    return _ours(f"{_name(request)}?{query}" if query else _name(request))


def _ours(link: str) -> str:
    """Return a link to a page of ours, as it can be in a header; that to the first page if it is none."""
    name, _, query = link.partition("?")
    if name not in PAGES:
        return "./"
    return f"{name or './'}?{quote(query, safe='%&=+;:@,/?~')}" if query else name or "./"


def _query(request: Request) -> Mapping[str, str]:
    return dict(request.query_params.multi_items())


def _sent_on(to: str) -> Response:
    """Return an answer after which the browser itself goes on to a page of ours, so that it sends its cookie there."""
    headers: dict[str, Any] = HEADERS | {"Refresh": f"0; url={to}", "Content-Security-Policy": "default-src 'none'"}
    return Response(b"<!doctype html><title>byref</title>", 200, headers, "text/html; charset=utf-8")
