"""Who may look: a browser shows a cookie, which it got for a bearer token or for a link that works once."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

from byref.service.auth import Auth, Grant
from byref.service.problems import Problem

MAX_FORM_BYTES = 16 << 10
FORM_SECONDS = 30.0
_TOKEN = re.compile(r"[\w.~+/=:-]{1,4000}", re.ASCII)
"""Tokens that can be in a cookie as they are."""


class Entered(Exception):
    """The browser may come in: it gets a cookie."""

    def __init__(self, cookie: str, *, is_secure: bool) -> None:
        super().__init__("entered")
        self.cookie, self.is_secure = cookie, is_secure


class Door(Protocol):
    """A way in."""

    cookie: str
    """The cookie's name."""
    has_form: bool
    """Whether people sign in with a form; otherwise they need a link."""

    async def grant(self, cookie: str) -> Grant | None:
        """Return what the bearer of a cookie may see; None: the cookie is not valid."""

    async def enter(self, request: Request) -> None:
        """Raise Entered if the request has what it takes; a Problem if it should have, and has not."""


class SignIn:
    """People sign in with a bearer token. It is in the cookie, so a revoked one is refused at once."""

    cookie = "byref_inspect"
    has_form = True

    def __init__(self, auth: Auth) -> None:
        self._auth = auth

    async def grant(self, cookie: str) -> Grant | None:
        """Return the grant of the token."""
        return await self._auth(cookie) if _TOKEN.fullmatch(cookie) else None

    async def enter(self, request: Request) -> None:
        """Take the token of the form, which a page of another site cannot send for its reader."""
        if request.method != "POST":
            return
        origin = urlsplit(request.headers.get("Origin", ""))
        if "Sec-Fetch-Site" not in request.headers and origin.netloc != request.headers.get("Host", ""):
            raise Problem(403, "not-allowed", "the form was sent by a page of another site")
        token = (await _form(request)).get("token", "").strip()
        if not _TOKEN.fullmatch(token) or await self._auth(token) is None:
            raise Problem(401, "unauthorised", "this token is not valid")
        # Behind a proxy only the browser knows whether it speaks HTTPS.
        raise Entered(token, is_secure="https" in (origin.scheme, request.url.scheme))


class OneTimeLink:
    """Whoever opens the link first comes in; it works for this process, and only once."""

    has_form = False

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._once: str | None = secrets.token_urlsafe(32)
        self._bearer = secrets.token_urlsafe(32)
        # Browsers send the cookies of one port of a machine to all others.
        self.cookie = f"byref_inspect_{secrets.token_hex(4)}"

    @property
    def path(self) -> str:
        """What the link has behind `/inspect/`."""
        return f"enter?once={self._once or ''}"

    async def grant(self, cookie: str) -> Grant | None:
        """Return the grant, for the cookie that the link gave."""
        return self._grant if secrets.compare_digest(cookie.encode(), self._bearer.encode()) else None

    async def enter(self, request: Request) -> None:
        """Take the link's secret, which is worth nothing from then on."""
        given = request.query_params.get("once", "")
        if request.method != "GET" or not given:
            return
        if self._once is None or not secrets.compare_digest(given.encode(), self._once.encode()):
            raise Problem(401, "unauthorised", "this link has been used: run `byref inspect` again")
        self._once = None
        raise Entered(self._bearer, is_secure=False)


async def _form(request: Request) -> Mapping[str, str]:
    body = b""
    try:
        async with asyncio.timeout(FORM_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_FORM_BYTES:
                    raise Problem(413, "too-large", f"expected a form of at most {MAX_FORM_BYTES:,} bytes")
    except TimeoutError:
        raise Problem(408, "too-slow", f"the form did not come within {FORM_SECONDS:.0f} seconds") from None
    return {name: values[-1] for name, values in parse_qs(body.decode(errors="replace"), max_num_fields=10).items()}
