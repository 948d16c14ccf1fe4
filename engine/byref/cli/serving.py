"""Serving MCP over HTTP: where, to whom, and what every request has to be."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byref.adapters.extras import missing
from byref.cli import output
from byref.cli.failures import Failed, WrongUsage
from byref.errors import InvalidId
from byref.lifecycle import check_id

try:
    import uvicorn
    from mcp.server import Server
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.types import INVALID_REQUEST
    from starlette.middleware.cors import CORSMiddleware
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from byref.adapters import mcp as adapter
except ImportError as error:
    raise missing("byref mcp and byref gateway", "mcp", "mcp") from error

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATH = "/mcp"
MAX_CONNECTIONS = 500
"""Open at once; more are answered with 503."""
LEAVE_SECONDS = 2.0
"""What may still be going on has so long to end, once the server is told to leave."""
METHODS = ("GET", "POST", "DELETE")


@dataclass(frozen=True, slots=True)
class Place:
    """Where to serve, and whom."""

    host: str
    port: int
    tenants: Mapping[str, str]
    """The tenant of each token; without any whoever reaches the server is the tenant of the command line."""
    names: tuple[str, ...]
    """By which clients reach it, as `Host` headers have them."""

    @property
    def security(self) -> TransportSecuritySettings:
        """Which `Host` and `Origin` headers requests may have: else any web page that a user opens could send them."""
        return TransportSecuritySettings(
            allowed_hosts=[form for name in self.names for form in (name, f"{name}:*")],
            allowed_origins=[
                f"{scheme}://{name}{port}" for name in self.names for scheme in ("http", "https") for port in ("", ":*")
            ],
        )

    @property
    def origins(self) -> str:
        """A regular expression of the `Origin` headers that requests may have."""
        return f"https?://({'|'.join(map(re.escape, self.names))})(:[0-9]+)?"


def place_of(options: Namespace) -> Place | None:
    """Return where the options say to serve; None: over standard input and output.

    Raises:
        WrongUsage: the options do not go together, or would serve whoever comes.
        Failed: the file of tokens cannot be used.
    """
    if options.http is None:
        if options.tokens or options.allow_host:
            raise WrongUsage(
                "--tokens and --allow-host go with --http; over stdio the client is whoever started the command"
            )
        return None
    host, port = _address(options.http)
    tenants = _tenants(options)
    return Place(host, port, tenants, _names(host, options.allow_host or [], has_tokens=bool(tenants)))


async def serve(server: Server[Any], place: Place, *, idle_seconds: float, max_body_bytes: int) -> None:
    """Serve until a signal. A connection without a request for `idle_seconds` is forgotten.

    Raises:
        Failed: the address is taken, or is none of this machine's.
    """
    with _listening(place.host, place.port) as sock:
        host = f"[{place.host}]" if ":" in place.host else place.host
        url = f"http://{host}:{sock.getsockname()[1]}"
        auth = AuthSettings.model_validate({"issuer_url": url, "resource_server_url": None}) if place.tenants else None
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            transport_security=place.security,
            auth=auth,
            token_verifier=adapter.BearerTokens(place.tenants) if place.tenants else None,
            max_request_body_size=max_body_bytes,
        )
        server.session_manager.session_idle_timeout = idle_seconds
        config = uvicorn.Config(
            answering(app, place.origins, max_body_bytes),
            log_config=None,
            access_log=False,
            lifespan="on",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=int(LEAVE_SECONDS),
        )
        output.note(f"byref: serving {url}{PATH}")
        await _Uvicorn(config).serve([sock])


def answering(app: ASGIApp, origins: str, max_body_bytes: int) -> ASGIApp:
    """Return the application with answers to what it leaves unsaid: preflights of web pages, and why it refused."""
    return CORSMiddleware(
        _Told(app, max_body_bytes),
        allow_origin_regex=origins,
        allow_methods=METHODS,
        allow_headers=["*"],
        expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
    )


class _Told:
    """Says in the protocol's words why a request is refused: its body is too large, or its session's name is none."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._too_large = (
            f"the body of a request may have {max_body_bytes >> 20} MB; data that a tool returned before goes by reference "
            'instead, "$name" or {"$var": "name"}'
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (reason := _no_session(scope)) is not None:
            await _refusal(400, reason)(scope, receive, send)
            return
        is_replaced = False

        async def sent(message: Message) -> None:
            nonlocal is_replaced
            if message["type"] == "http.response.start" and message["status"] == 413:
                is_replaced = True
                await _refusal(413, self._too_large)(scope, receive, send)
            if not is_replaced:
                await send(message)

        await self._app(scope, receive, sent)


def _no_session(scope: Scope) -> str | None:
    """Why the session that a request names can be none."""
    key = adapter.SESSION_HEADER.lower().encode()
    named = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == key]
    try:
        for name in named:
            check_id(adapter.SESSION_HEADER, name)
    except InvalidId as error:
        return str(error)
    return f"{adapter.SESSION_HEADER} is given more than once" if len(named) > 1 else None


def _refusal(status: int, reason: str) -> JSONResponse:
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": reason}}, status_code=status
    )


class _Uvicorn(uvicorn.Server):
    """A server that a signal ends in good order, with the exit code of success."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals while it serves, and do not raise them again afterwards: the engine is still to be closed."""
        before = {kind: signal.signal(kind, self.handle_exit) for kind in SIGNALS}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def _address(given: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`."""
    host, _, port = given.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise WrongUsage(f"--http {given!r}: expected HOST:PORT, e.g. 127.0.0.1:8000")
    return host, int(port)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen()
    except OSError as error:
        raise Failed(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
    return sock


def _names(host: str, allowed: Sequence[str], *, has_tokens: bool) -> tuple[str, ...]:
    """The names of the host, as `Host` headers have them."""
    names = list(allowed)
    if host in LOOPBACK:
        names += LOOPBACK
    elif not has_tokens:
        raise WrongUsage(f"--http {host}: others reach it, so clients need --tokens; or serve 127.0.0.1 alone")
    elif host not in EVERYWHERE:
        names.append(host)
    elif not names:
        raise WrongUsage(
            f"--http {host}: name the hosts by which clients reach it, e.g. --allow-host byref.example.com"
        )
    return tuple(f"[{name}]" if ":" in name and not name.startswith("[") else name for name in names)


def _tenants(options: Namespace) -> dict[str, str]:
    """The tenant of each token."""
    tenants = {token: options.tenant for token in [os.environ.get("BYREF_MCP_TOKEN")] if token}
    if options.tokens is None:
        return tenants
    try:
        given = json.loads(Path(options.tokens).read_bytes())
    except (OSError, ValueError) as error:
        raise Failed(f"cannot read --tokens {options.tokens!r}: {error}") from error
    if not isinstance(given, dict) or not given:
        raise Failed(f'--tokens {options.tokens!r}: expected JSON, {{"tenant": "token"}}')
    for tenant, tokens in given.items():
        for token in tokens if isinstance(tokens, list) else [tokens]:
            if not isinstance(token, str):
                raise Failed(
                    f"--tokens {options.tokens!r}: expected text, or a list of texts, as the token of {tenant!r}"
                )
            if tenants.setdefault(token, tenant) != tenant:
                raise Failed(f"--tokens {options.tokens!r}: one token is both of {tenants[token]!r} and of {tenant!r}")
    return tenants
