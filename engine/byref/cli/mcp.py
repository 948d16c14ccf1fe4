"""The verb that serves other programs' models: mcp."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import socket
import threading
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from byref import Engine, Policy
from byref.adapters import mcp as adapter
from byref.adapters.extras import missing
from byref.cli import opening, output
from byref.cli.failures import Failed, WrongUsage
from byref.cli.parser import Default
from byref.gateway.config import MAX_RESULT_BYTES

try:
    import uvicorn
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings
except ImportError as error:
    raise missing("byref mcp", "mcp", "mcp") from error

POLICY = Policy(
    headroom_percentage=1.0,
    max_threshold_bytes=MAX_RESULT_BYTES,
    ledger_ttl=timedelta(days=30),
    tools=(*Policy().tools, "list_artifacts", "store_artifact"),
)
"""A server never learns how full the context of its client's model is; and nobody comes to delete its sessions."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATH = "/mcp"
IDLE_SECONDS = 24 * 3600.0
"""After its last request a client's connection (`Mcp-Session-Id`) is forgotten."""
MAX_CONNECTIONS = 500
"""Open at once; more are answered with 503."""
LEAVE_SECONDS = 2.0
"""What may still be going on has so long to end, once the server is told to leave."""


def mcp(options: Namespace) -> int:
    """Serve the Model Context Protocol until the client leaves, or until a signal."""
    place = None if options.http is None else _place(options.http)
    if place is None and (options.tokens or options.allow_host):
        raise WrongUsage(
            "--tokens and --allow-host go with --http; over stdio the client is whoever started the command"
        )
    tenants = {} if place is None else _tenants(options)
    security = None if place is None else _security(place[0], options.allow_host or [], has_tokens=bool(tenants))
    # Threads cannot be stopped: whatever still runs on one when the client has left gets no more than this.
    last = threading.Timer(LEAVE_SECONDS, os._exit, (0,))
    last.daemon = True
    with _logs(), opening.engine_to_write(options, POLICY) as engine:
        try:
            if place is None:
                asyncio.run(_serve_stdio(engine, options, last))
            else:
                asyncio.run(_serve_http(engine, options, place, tenants, security, last))
        finally:
            last.cancel()
    return 0


@contextmanager
def _logs() -> Iterator[None]:
    """Let what the libraries log be told as byref's own warnings are: on standard error, a line each."""
    loggers = [logging.getLogger(name) for name in ("mcp", "uvicorn")]
    handlers = logging.getLogger("byref").handlers[:]
    for logger in loggers:
        logger.handlers += handlers
    try:
        yield
    finally:
        for logger in loggers:
            logger.handlers = [handler for handler in logger.handlers if handler not in handlers]


async def _serve_stdio(engine: Engine, options: Namespace, last: threading.Timer) -> None:
    named = None if isinstance(options.session, Default) else options.session
    session = named or f"mcp-{secrets.token_hex(8)}"
    server = adapter.server(engine, tenant=options.tenant, session=session, model=options.model)
    for kind in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(kind, _leave, engine, last)
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client has gone without a word
    finally:
        last.start()
        engine.close()


def _leave(engine: Engine, last: threading.Timer) -> None:
    """End at once: the thread that reads standard input is inside a call that only the client could end."""
    last.start()
    try:
        engine.close()
    finally:
        os._exit(0)


async def _serve_http(
    engine: Engine,
    options: Namespace,
    place: tuple[str, int],
    tenants: Mapping[str, str],
    security: TransportSecuritySettings | None,
    last: threading.Timer,
) -> None:
    server = adapter.server(
        engine,
        tenant=adapter.tenant_of_token if tenants else options.tenant,
        session=None if isinstance(options.session, Default) else options.session,
        model=options.model,
    )
    with _listening(*place) as sock:
        port = sock.getsockname()[1]
        url = f"http://{f'[{place[0]}]' if ':' in place[0] else place[0]}:{port}"
        auth = AuthSettings.model_validate({"issuer_url": url, "resource_server_url": None}) if tenants else None
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            transport_security=security,
            auth=auth,
            token_verifier=adapter.BearerTokens(tenants) if tenants else None,
        )
        server.session_manager.session_idle_timeout = IDLE_SECONDS
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=int(LEAVE_SECONDS),
        )
        output.note(f"byref: serving {url}{PATH}")
        try:
            await _Uvicorn(config).serve([sock])
        finally:
            last.start()
            engine.close()


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


def _place(given: str) -> tuple[str, int]:
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


def _security(host: str, allowed: Sequence[str], *, has_tokens: bool) -> TransportSecuritySettings:
    """Which `Host` and `Origin` headers requests may have: else any web page that a user opens could send them."""
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
    hosts = [f"[{name}]" if ":" in name and not name.startswith("[") else name for name in names]
    return TransportSecuritySettings(
        allowed_hosts=[form for name in hosts for form in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{name}{port}" for name in hosts for scheme in ("http", "https") for port in ("", ":*")
        ],
    )


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
