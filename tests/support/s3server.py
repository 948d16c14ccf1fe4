"""A real S3 server on the loopback, and in front of it a proxy that goes wrong as it is told."""

from __future__ import annotations

import contextlib
import http.client
import logging
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SETTINGS = {
    "access_key_id": "AKIATESTTESTTEST",
    "secret_access_key": "verysecretverysecret",
    "region": "us-east-1",
    "retry_config": {"max_retries": 3},
}


class S3:
    """The server's address, and what obstore has to be told to use it."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.settings: dict[str, Any] = SETTINGS | {
            "endpoint": f"http://{host}:{port}",
            "client_options": {"allow_http": True, "timeout": "20s"},
        }

    def bucket(self) -> str:
        """Make a bucket."""
        name = f"bucket-{secrets.token_hex(8)}"
        assert self.request("PUT", f"/{name}")[0] == 200
        return name

    def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request(method, path, body, {"Authorization": "AWS AKIATESTTESTTEST:x"})
        answer = connection.getresponse()
        told = answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
        connection.close()
        return told


@contextmanager
def s3_server() -> Iterator[S3]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield S3(*server.get_host_and_port())
    finally:
        server.stop()


class Faults:
    """What goes wrong with the next requests: each is (method, what), taken by the first request of that method."""

    def __init__(self) -> None:
        self.planned: list[tuple[str, str]] = []
        self.requests: list[str] = []
        self._lock = threading.Lock()

    def plan(self, method: str, *what: str) -> None:
        self.planned += [(method, each) for each in what]

    def take(self, method: str, path: str) -> str | None:
        with self._lock:
            self.requests.append(f"{method} {path}")
            for place, (planned, what) in enumerate(self.planned):
                if planned == method:
                    del self.planned[place]
                    return what
        return None


class Relay(BaseHTTPRequestHandler):
    """One request to a proxy in front of a server; what is done with it is said by who has a `relay` of its own."""

    protocol_version = "HTTP/1.1"
    behind: tuple[str, int]

    def relay(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.relay()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """What the server behind answers: status, headers, body."""
        with contextlib.closing(http.client.HTTPConnection(*self.behind, timeout=30)) as behind:
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                behind.putheader(name, value)
            behind.endheaders(body)
            with behind.getresponse() as answer:
                data = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, data

    def answer(self, status: int, headers: dict[str, str], data: bytes, *, cut: bool = False) -> None:
        """Answer the client; with `cut` only half of it comes, though all is announced."""
        self.send_response_only(status)
        for name, value in headers.items():
            if name not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = headers.get("content-length", "0") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self.cut()

    def cut(self) -> None:
        """End the connection by a reset."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def relaying(handler: type[Relay]) -> Iterator[int]:
    """A proxy of such requests, and its port."""
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    proxy.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy.server_address[1]
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


@contextmanager
def faulty(server: S3) -> Iterator[tuple[S3, Faults]]:
    """Put a proxy in front of a server."""
    faults = Faults()

    class Proxy(Relay):
        behind = server.host, server.port

        def relay(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            fault = faults.take(self.command, self.path)
            if fault == "cut request":
                self.rfile.read(length // 2)
                return self.cut()
            body = self.rfile.read(length)
            if fault == "stall":
                time.sleep(2)
                return self.cut()
            if fault == "503":
                return self.answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            if fault == "403":
                told = b"<Error><Code>SignatureDoesNotMatch</Code><StringToSign>verysecretverysecret</StringToSign></Error>"
                return self.answer(403, {}, told)
            status, headers, data = self.pass_on(body)
            if fault == "lose answer":
                return self.cut()
            return self.answer(
                status, headers, data[: len(data) // 2] if fault == "short" else data, cut=fault == "cut answer"
            )

    with relaying(Proxy) as port:
        yield S3("127.0.0.1", port), faults
