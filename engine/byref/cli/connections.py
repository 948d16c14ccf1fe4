"""HTTP connections of untrusted clients: bounds for what they send, how long they take, and how many of them are silent.

uvicorn lets a client take any time to send headers and body and to read the answer, and keeps every silent connection.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import re
import resource
import signal
import socket
import termios
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from http import HTTPStatus
from typing import Any, NamedTuple

import h11
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from byref.cli.failures import Failed

SIGNALS = (signal.SIGINT, signal.SIGTERM)
MAX_SILENT = 1_000
"""Connections without a request in progress. One more ends the one that was silent longest, so that a flood of silent connections
cannot keep others out."""
MAX_HEAD_BYTES = 16_384
MAX_HEADERS = 100
HEAD_SECONDS = 10
"""From the start of the connection, or of a request, to the end of a request's headers."""
KEPT_SECONDS = 75
"""From an answer to the beginning of the next request: longer than clients and proxies keep a connection that is not in use, so that
none is closed while a request is on its way."""
LINGER_SECONDS = 5
"""For the rest of a body after its request was answered: a client that is cut off while it sends cannot read the answer."""
STALL_SECONDS, STALL_BYTES = 20, 64 << 10
"""A client must send so many bytes of a body in so many seconds."""
READING_SECONDS = 60
"""In these it must read as many of an answer: kernels tell each other of what was read in steps of 128 KiB and more."""
MAX_FRAMING_BYTES = 32 << 10
"""Bytes of a chunked body that are not data, beyond as many as the data has."""
LOOK_SECONDS = 1.5
"""As much time counts at most between two looks at what clients do. A server that is busy for longer reads late itself: that is
not the fault of a client whose bytes wait."""
READ_BYTES = 16 << 10
"""Bytes read from one connection before the others have their turn."""
ACCEPTED_AT_ONCE = 128
"""Connections accepted before any of them is read. Fewer than `MAX_SILENT`, so that no connection is ended before its client could
send something."""
QUEUE = 4_096
"""Connections that the kernel holds until they are accepted."""

MAX_FILES = 16_384
COLLECTED = (10_000, 10, 100)
"""Thresholds of the garbage collector. With Python's default of (700, 10, 10) a client could cause a full collection at will: of a
gateway's objects it takes 0.13 s, of a service's 0.1 s, in which nothing else runs."""

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_ONCE = (b"content-length", b"transfer-encoding", b"host")


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; Failed if that is in use, or not one of this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen()
    except OSError as error:
        raise Failed(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
    return sock


@contextmanager
def many_files() -> Iterator[None]:
    """Raise the limit of open files: connections and the pipes of servers need more than the usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most) if soft != resource.RLIM_INFINITY else soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def collect_seldom() -> None:
    """Have the garbage collector look seldom, and at nothing that is there already: of a process that serves, once it has begun."""
    gc.set_threshold(*COLLECTED)
    gc.freeze()


class Stage(Enum):
    """What the server waits for on a connection."""

    KEPT = "no further request came"
    HEAD = "the headers of a request did not come in time"
    BODY = "the body of a request did not come in time"
    REST = "the rest of a body that nobody wants"
    READING = "the answer is not read"


SECONDS = {
    Stage.KEPT: KEPT_SECONDS,
    Stage.HEAD: HEAD_SECONDS,
    Stage.BODY: STALL_SECONDS,
    Stage.REST: LINGER_SECONDS,
    Stage.READING: READING_SECONDS,
}


class _Wait(NamedTuple):
    stage: Stage
    since: float
    progress: int


class Connection(H11Protocol):
    """One connection, whose client must send and read in time."""

    conn: _Requests
    server_state: _State

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.conn = _Requests(h11.SERVER, MAX_HEAD_BYTES)
        self.app = self._flushing(self.app)
        self._wait: _Wait | None = None
        self._resumed = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection as silent; end the one silent for longest if there are too many."""
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        silent = self.server_state.silent
        silent[self] = None
        if len(silent) > MAX_SILENT:
            oldest = next(iter(silent))
            del silent[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.server_state.silent.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process bytes of the client."""
        super().data_received(data)
        self._is_silent()

    def on_response_complete(self) -> None:
        """Count the connection as silent until the next request."""
        super().on_response_complete()
        self._is_silent()

    def resume_writing(self) -> None:
        """Note that the client has read what was written."""
        self._resumed += 1
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer a bad request, if nothing has been answered yet, and close."""
        fault = self.conn.fault
        self._refuse(fault.error_status_hint if fault else 400, str(fault or msg))

    def check(self, now: float) -> None:
        """End the connection if its client takes too long."""
        stage, progress = self._stage()
        if stage is None:
            self._wait = None
        elif self._wait is None or self._wait.stage is not stage:
            self._wait = _Wait(stage, now, progress)
        elif now - self._wait.since >= SECONDS[stage]:
            if stage in (Stage.BODY, Stage.READING) and progress - self._wait.progress >= STALL_BYTES:
                self._wait = _Wait(stage, now, progress)
                return
            if stage in (Stage.HEAD, Stage.BODY) and self.conn.has_begun:
                self._refuse(408, stage.value)
            else:
                self.transport.abort()

    def _stage(self) -> tuple[Stage | None, int]:
        """Return what is waited for, and a number that grows with each byte that the client sends or reads."""
        unwritten = self.transport.get_write_buffer_size()
        if unwritten:
            # Each resumed write outweighs any buffer size: the number grows even if the buffer was refilled meanwhile.
            return Stage.READING, (self._resumed << 40) - unwritten - self._queued()
        if self.conn.our_state is h11.IDLE:
            return (Stage.KEPT if self.cycle is not None and not self.conn.has_begun else Stage.HEAD), 0
        if self.conn.their_state is h11.SEND_BODY:
            if self.cycle.response_complete:
                return Stage.REST, 0
            if not (self.flow.read_paused or self.cycle.waiting_for_100_continue):
                return Stage.BODY, self.conn.body_bytes
        return None, 0

    def _queued(self) -> int:
        """Return how many bytes the kernel holds until the client has room: up to 4 MB, of which a slow one reads for minutes."""
        waiting = array("i", [0])
        with suppress(OSError, ValueError):  # not every system tells, and a closed socket has no number
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, waiting)
        return waiting[0]

    def _is_silent(self) -> None:
        silent = self.server_state.silent
        if self.transport.is_closing() or not (self.cycle is None or self.cycle.response_complete):
            silent.pop(self, None)
        else:
            silent.setdefault(self)

    def _refuse(self, status: int, reason: str) -> None:
        """Answer a bad request, if nothing has been answered yet, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.transport.is_closing():
            text = reason.encode("ascii", "replace")
            lines = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                "content-type: text/plain",
                f"content-length: {len(text)}",
                "connection: close",
            )
            self.transport.write("\r\n".join((*lines, "", "")).encode() + text)
        self.transport.close()

    def _flushing(self, app: ASGIApp) -> Any:
        """Wrap the application: a request counts as answered only when the client has read nearly all of the answer."""

        async def flushed(scope: Scope, receive: Receive, send: Send) -> None:
            async def sent(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    await self.flow.drain()

            await app(scope, receive, sent)

        return flushed


class _State(ServerState):
    def __init__(self) -> None:
        super().__init__()
        self.silent: dict[Connection, None] = {}
        """Connections without a request in progress; those silent for longest come first."""


class _Requests(h11.Connection):
    """A parser of requests that refuses any that a proxy could read as another request, or as two."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.fault: h11.RemoteProtocolError | None = None
        self.body_bytes = 0
        self._received = 0

    @property
    def has_begun(self) -> bool:
        """Whether a part of a request has come."""
        return self.our_state is not h11.IDLE or bool(self.trailing_data[0])

    def receive_data(self, data: bytes) -> None:
        """Add bytes to the buffer."""
        self._received += len(data)
        super().receive_data(data)

    def next_event(self) -> Any:
        """Return the next event.

        Raises:
            RemoteProtocolError: the request is invalid, and the connection unusable.
        """
        try:
            if self.their_state is h11.IDLE:
                self._check_head(self.trailing_data[0])
            event = super().next_event()
            if isinstance(event, h11.Request):
                self._received, self.body_bytes = len(self.trailing_data[0]), 0
                if not event.target.startswith((b"/", b"*")):
                    raise h11.RemoteProtocolError("the target of a request is not a path")
            elif isinstance(event, h11.Data):
                self.body_bytes += len(event.data)
            if self.their_state is h11.SEND_BODY and self._received > 2 * self.body_bytes + MAX_FRAMING_BYTES:
                raise h11.RemoteProtocolError("the chunks of a body are more than its data")
        except h11.RemoteProtocolError as error:
            self.fault = error
            raise
        return event

    def _check_head(self, buffer: bytes) -> None:
        end = _END_OF_HEAD.search(buffer)
        if end is None:
            return
        lines = buffer[: end.end()].split(b"\n")[:-1]
        if end.end() > MAX_HEAD_BYTES or len(lines) > MAX_HEADERS:
            raise h11.RemoteProtocolError(
                f"a request may have {MAX_HEADERS} headers, of {MAX_HEAD_BYTES:,} bytes", error_status_hint=431
            )
        headers = [
            (name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines[1:])
        ]
        names = [name for name, _ in headers]
        if not all(line.endswith(b"\r") for line in lines):
            raise h11.RemoteProtocolError("a line of the headers does not end with CR LF")
        if any(line.startswith((b" ", b"\t")) for line in lines):
            raise h11.RemoteProtocolError("a header goes on in the next line")
        for name in _ONCE:
            if names.count(name) > 1:
                raise h11.RemoteProtocolError(f"{name.decode()} is given more than once")
        if b"content-length" in names and b"transfer-encoding" in names:
            raise h11.RemoteProtocolError("the length of the body is given twice, with transfer-encoding beside it")
        version = lines[0].rstrip().rpartition(b" ")[2]
        if version.startswith(b"HTTP/") and version not in (b"HTTP/1.0", b"HTTP/1.1"):
            raise h11.RemoteProtocolError("this is HTTP/1.1", error_status_hint=505)
        if b"transfer-encoding" in names and version != b"HTTP/1.1":
            raise h11.RemoteProtocolError("transfer-encoding is of HTTP/1.1")
        if not dict(headers).get(b"content-length", b"0").isdigit():
            raise h11.RemoteProtocolError("content-length is not a number")


class Server(uvicorn.Server):
    """A server that a signal ends in good order, with exit code 0."""

    def __init__(self, app: ASGIApp, *, leave_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                log_config=None,
                log_level="error",
                access_log=False,
                lifespan="on",
                proxy_headers=False,
                backlog=ACCEPTED_AT_ONCE,
                timeout_keep_alive=KEPT_SECONDS,
                timeout_graceful_shutdown=int(leave_seconds),
            )
        )
        self.server_state: _State = _State()
        self._clock = self._looked = 0.0
        """Seconds in which clients could be read, and when that was last looked at."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        # uvicorn's backlog is also the number of connections accepted at once, so the kernel's queue is set here.
        for one in sockets or ():
            one.listen(QUEUE)

    async def on_tick(self, counter: int) -> bool:
        """Check once a second which clients take too long."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            self._clock += min(now - self._looked, LOOK_SECONDS)
            self._looked = now
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Connection)
                connection.check(self._clock)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving, and do not raise them again afterwards as uvicorn does: the engine must still be closed."""
        before = {kind: signal.signal(kind, self.handle_exit) for kind in SIGNALS}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
