"""Serves MCP over standard input and output or over HTTP: the address, the clients allowed, and the end."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from byref.adapters.common.extras import missing
from byref.cli import output
from byref.cli.failures import Failed, WrongUsage
from byref.stores.paths import read_whole

try:
    import anyio
    from mcp.server import Server
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.middleware.cors import CORSMiddleware

    from byref.adapters import mcp as adapter
    from byref.cli import connections
    from byref.cli.connections import SIGNALS, listening, many_files
    from byref.cli.door import METHODS, PATH, Door
    from byref.gateway.pipes import claimed, client_messages
except ImportError as error:
    raise missing("byref mcp and byref gateway", "mcp", "mcp") from error

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
MAX_TOKENS_BYTES = 16 << 20
CONNECTION_SECONDS = 2
"""Seconds for HTTP requests in progress to end after a signal."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Place:
    """The address to serve at, and who may connect."""

    host: str
    port: int
    tenants: Mapping[str, str]
    """The tenant of each token. Without tokens, every client is of the command line's tenant."""
    names: tuple[str, ...]
    """The names by which clients reach the server, in the form of `Host` headers."""

    @property
    def origins(self) -> str:
        """A regular expression for allowed `Origin` headers: without it, any web page that a user opens could send requests."""
        return f"(?i:https?://({'|'.join(map(re.escape, self.names))})(:[0-9]+)?)"

    @property
    def is_of_several(self) -> bool:
        """Whether more than one tenant is served."""
        return len(set(self.tenants.values())) > 1

    def is_origin(self, origin: str) -> bool:
        """Tell whether a web page of this origin may send requests."""
        return re.fullmatch(self.origins, origin) is not None

    def is_host(self, host: str) -> bool:
        """Tell whether a `Host` header names this server: a web page may let its own name resolve to this machine's address."""
        name, port = _named(host)
        return name in self.names or f"{name}:{port}" in self.names


def place_of(options: Namespace) -> Place | None:
    """Return the address to serve at; None: standard input and output.

    Raises:
        WrongUsage: the options contradict each other, or would serve anybody.
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


def serve(
    server: Server[Any],
    place: Place | None,
    *,
    leave_seconds: float,
    idle_seconds: float,
    max_body_bytes: int,
    answer_seconds: float = 0,
) -> None:
    """Serve at `place`, or the client at standard input and output, until a signal comes or that client leaves.

    Calls over stdio that are then under way have `answer_seconds`. The process is the server's own. Threads cannot be stopped, so a process that
    has not ended `leave_seconds` later is ended with exit code 0. Over HTTP, a connection without a request for `idle_seconds` is
    forgotten, and a body has at most `max_body_bytes`.

    Raises:
        Failed: the address is in use, or not an address of this machine.
    """
    timers: list[threading.Timer] = []

    def leave(further: float = 0) -> None:
        timers.append(threading.Timer(further + leave_seconds, os._exit, (0,)))
        timers[-1].daemon = True
        timers[-1].start()

    async def work() -> None:
        if place is None:
            await _serve_stdio(server, leave, answer_seconds)
        else:
            await serve_http(server, place, idle_seconds=idle_seconds, max_body_bytes=max_body_bytes)
        leave()

    try:
        asyncio.run(work())
    except BaseException:
        for timer in timers:
            timer.cancel()  # the caller reports the error
        raise


async def _serve_stdio(server: Server[Any], leave: Callable[[float], None], answer_seconds: float) -> None:
    leaving = anyio.Event()
    with anyio.CancelScope() as scope:

        def stop() -> None:
            leave(answer_seconds)
            leaving.set()
            if not answer_seconds:
                scope.cancel()

        for kind in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(kind, stop)
        try:
            with claimed() as (given, taken):
                async with client_messages(given, taken, leaving, answer_seconds) as (reading, writing):
                    await server.run(reading, writing, server.create_initialization_options())
                    leave(0)  # begin the countdown now: the client may not read the rest of the output
        except* (BrokenPipeError, ConnectionResetError):
            pass  # the client has left without closing the protocol
        finally:
            leave(0)
            scope.cancel()


async def serve_http(server: Server[Any], place: Place, *, idle_seconds: float, max_body_bytes: int) -> None:
    """Serve over HTTP, as `serve` does, until a signal comes."""
    with listening(place.host, place.port) as sock, many_files():
        host = f"[{place.host}]" if ":" in place.host else place.host
        # The door checks Host and Origin, so the SDK's check is turned off.
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = server.streamable_http_app(
            streamable_http_path=PATH, transport_security=unchecked, max_request_body_size=max_body_bytes
        )
        server.session_manager.session_idle_timeout = idle_seconds
        door = Door(
            app,
            server.session_manager,
            is_host=place.is_host,
            is_origin=place.is_origin,
            tokens=adapter.BearerTokens(place.tenants) if place.tenants else None,
            several=place.is_of_several,
            idle_seconds=idle_seconds,
            max_body_bytes=max_body_bytes,
        )
        answering = CORSMiddleware(
            door,
            allow_origin_regex=place.origins,
            allow_methods=METHODS,
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
        )
        output.note(f"byref: serving http://{host}:{sock.getsockname()[1]}{PATH}")
        await connections.Server(answering, leave_seconds=CONNECTION_SECONDS).serve([sock])


def _address(given: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`."""
    host, _, port = given.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise WrongUsage(f"--http {given!r}: expected HOST:PORT, e.g. 127.0.0.1:8000")
    return host, int(port)


def _names(host: str, allowed: Sequence[str], *, has_tokens: bool) -> tuple[str, ...]:
    """Return the names of this server, in the form of `Host` headers."""
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
    found = []
    for name in names:
        known, port = _named(f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name)
        if not known:
            raise WrongUsage(f"--allow-host {name!r}: expected a name or an address, e.g. byref.example.com")
        found.append(f"{known}:{port}" if port else known)
    return tuple(found)


def _named(host: str) -> tuple[str, str]:
    """Return name and port of a `Host` header as browsers write them; empty texts if it is invalid."""
    found = _HOST.fullmatch(host)
    if found is None:
        return "", ""
    name, port = found[1].lower(), found[2] or ""
    if name.startswith("["):
        try:
            name = f"[{ipaddress.IPv6Address(name[1:-1]).compressed}]"
        except ValueError:
            return "", ""
    return name, port


def _tenants(options: Namespace) -> dict[str, str]:
    """Return the tenant of each token."""
    tenants = {token: options.tenant for token in [os.environ.get("BYREF_MCP_TOKEN")] if token}
    if options.tokens is None:
        return tenants
    try:
        data = read_whole(options.tokens, MAX_TOKENS_BYTES)
        if data is None:
            raise Failed(f"--tokens {options.tokens!r}: it has more than {MAX_TOKENS_BYTES:,} bytes")
        given = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise Failed(f"cannot read --tokens {options.tokens!r}: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(given, dict) or not given:
        raise Failed(f'--tokens {options.tokens!r}: expected JSON, {{"tenant": "token"}}')
    for tenant, tokens in given.items():
        if not tokens:
            raise Failed(
                f"--tokens {options.tokens!r}: {tenant!r} has no token; leave it out if nobody is to be let in"
            )
        for token in tokens if isinstance(tokens, list) else [tokens]:
            if not isinstance(token, str):
                raise Failed(
                    f"--tokens {options.tokens!r}: expected text, or a list of texts, as the token of {tenant!r}"
                )
            if tenants.setdefault(token, tenant) != tenant:
                raise Failed(f"--tokens {options.tokens!r}: one token is both of {tenants[token]!r} and of {tenant!r}")
    return tenants
