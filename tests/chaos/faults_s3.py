"""What a store of objects does to its clients, under load: by a proxy in front of a real S3 server that speaks its language."""

from __future__ import annotations

import contextlib
import http.client
import logging
import random
import socket
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from faults_load import Load, check, engines
from report import Report, Scenario

from byref import db
from byref.stores import ObjectStore
from byref_sandbox import Limits, Sandbox

STALL = 2.0
"""Seconds that a request waits which is never answered; the client gives up before."""
TIMEOUT = "1s"
BOUND = 40.0
"""Seconds that no call may take with a client that gives up after `TIMEOUT` and two more tries."""
BUCKET = "/byref"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
REFUSED = b"<Error><Code>InvalidAccessKeyId</Code><Message>It does not exist in our records.</Message></Error>"
NO_BUCKET = b"<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>"
NO_KEY = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"
ANSWERS: dict[str, tuple[int, bytes]] = {
    "500": (500, b"<Error><Code>InternalError</Code></Error>"),
    "503": (503, SLOW_DOWN),
    "refused": (403, REFUSED),
    "no bucket": (404, NO_BUCKET),
}


class Proxy:
    """Passes requests on to `host:port`; `fault` comes on a part of them, `rate`, by chance."""

    def __init__(self, host: str, port: int, seed: int) -> None:
        self.fault: str | None = None
        self.rate = 1.0
        self.hit: Counter[str] = Counter()
        self.behind = host, port
        self._chance = random.Random(seed)
        self._written: dict[str, float] = {}
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def relay(self) -> None:
                proxy.answer(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Pass a request on, or let it go wrong."""
        length = int(request.headers.get("Content-Length", 0))
        fault = self.fault if self.fault and self._chance.random() < self.rate else None
        if fault == "not yet" and not self._is_fresh(request):
            fault = None
        if fault is not None:
            self.hit[fault] += 1
        if fault == "cut request":
            request.rfile.read(length // 2)
            return _cut(request)
        body = request.rfile.read(length)
        if fault == "reset":
            return _cut(request)
        if fault == "stall":
            time.sleep(STALL)
            return _cut(request)
        if fault == "slow":
            time.sleep(0.4)
        if fault in ANSWERS:
            return _send(request, ANSWERS[fault][0], {"content-type": "application/xml"}, ANSWERS[fault][1])
        if fault == "not yet":
            return _send(request, 404, {"content-type": "application/xml"}, NO_KEY)
        status, headers, data = self._pass_on(request, body)
        if request.command in ("PUT", "POST") and status == 200:
            self._written[request.path.partition("?")[0]] = time.monotonic()
        if fault == "lost answer":
            return _cut(request)
        if fault == "truncated":  # and says so itself: it is shorter than was asked for
            return _send(request, status, headers, data[: len(data) // 2])
        return _send(request, status, headers, data, cut=fault == "cut answer")

    def _is_fresh(self, request: BaseHTTPRequestHandler) -> bool:
        """Whether what is read was written a moment ago: a store that is consistent only eventually may not have it."""
        at = self._written.get(request.path.partition("?")[0])
        return request.command in ("GET", "HEAD") and at is not None and time.monotonic() - at < 2.0

    def _pass_on(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(http.client.HTTPConnection(*self.behind, timeout=30)) as behind:
            behind.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                behind.putheader(name, value)
            behind.endheaders(body)
            with behind.getresponse() as answer:
                data = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, data


def _send(
    request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes, *, cut: bool = False
) -> None:
    has_body = request.command != "HEAD"
    request.send_response_only(status)
    for name, value in headers.items():
        if name not in ("content-length", "transfer-encoding", "connection"):
            request.send_header(name, value)
    request.send_header("Content-Length", str(len(data)) if has_body else headers.get("content-length", "0"))
    request.end_headers()
    if has_body:
        request.wfile.write(data[: len(data) // 2] if cut else data)
    if cut:
        _cut(request)


def _cut(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True
    with contextlib.suppress(OSError):
        request.wfile.flush()
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
        request.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def bucket(seed: int) -> Iterator[tuple[Proxy, Callable[[str], ObjectStore], str]]:
    """A bucket on a real S3 server, a proxy in front of it, how to open a store at an address, and the server's own."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    proxy = Proxy(host, port, seed)

    def opened(endpoint: str) -> ObjectStore:
        return ObjectStore(
            f"s3:/{BUCKET}",
            prefix="results",
            access_key_id="AKIATESTTESTTEST",
            secret_access_key="verysecretverysecret",
            region="us-east-1",
            endpoint=endpoint,
            client_options={"allow_http": True, "timeout": TIMEOUT, "connect_timeout": TIMEOUT},
            retry_config={"max_retries": 2, "backoff": {"init_backoff": timedelta(milliseconds=20)}},
        )

    try:
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=30)) as made:
            made.request("PUT", BUCKET, headers={"Authorization": "AWS AKIATESTTESTTEST:x"})
            assert made.getresponse().status == 200
        yield proxy, opened, f"http://{host}:{port}"
    finally:
        proxy.close()
        server.stop()


def under_load(
    name: str, folder: Path, seed: int, faults: tuple[str, ...], *, seconds: float, threads: int = 6
) -> Report:
    """Let one fault after another come for some seconds, on some requests or on all, with recovery in between."""
    with warnings.catch_warnings(action="ignore"):  # moto's own imports
        import moto.server  # noqa: F401
    report = Report(name)
    url = f"sqlite:///{folder / 'byref.db'}"
    db.upgrade(url)
    with bucket(seed) as (proxy, opened, direct), Sandbox(Limits(wall_seconds=30)) as sandbox:
        with engines(url, sandbox, blobs=lambda: opened(proxy.endpoint)) as many:
            load, chance = Load(many, seed=seed, threads=threads, payloads=200), random.Random(seed)
            load.start()
            try:
                load.recovered()
                load.recoveries.clear()
                until, number = time.monotonic() + seconds, 0
                while (time.monotonic() < until or number < len(faults)) and not load.failures:
                    proxy.rate = chance.choice((0.1, 0.5, 1.0))
                    proxy.fault = faults[number % len(faults)]
                    number += 1
                    time.sleep(min(seconds / len(faults), chance.uniform(0.5, 3.0)))
                    waited = time.monotonic() + 5.0
                    while not proxy.hit[proxy.fault] and not load.failures and time.monotonic() < waited:
                        time.sleep(0.05)
                    proxy.fault = None
                    load.recovered()
            finally:
                proxy.fault = None
                load.stop()
        report.figures |= {f"requests: {fault}": times for fault, times in sorted(proxy.hit.items())}
        check(report, load, url, sandbox, opened(direct), bound=BOUND)
    return report


def s3_errors(folder: Path, seconds: float, seed: int) -> Report:
    """It answers with errors: 500, 503 slow down, credentials refused, the bucket gone for a while."""
    return under_load("S3 errors", folder, seed, ("500", "503", "refused", "no bucket"), seconds=seconds)


def s3_connections(folder: Path, seconds: float, seed: int) -> Report:
    """Requests and answers are reset, cut in the middle, or lost once they were carried out."""
    return under_load(
        "S3 connections cut", folder, seed, ("reset", "cut request", "cut answer", "lost answer"), seconds=seconds
    )


def s3_slowness(folder: Path, seconds: float, seed: int) -> Report:
    """Answers are late, or never come."""
    return under_load("S3 slow and silent", folder, seed, ("slow", "stall"), seconds=seconds)


def s3_lies(folder: Path, seconds: float, seed: int) -> Report:
    """Bodies are shorter than what was asked for, and what was just written is not there yet."""
    return under_load("S3 truncated, not yet there", folder, seed, ("truncated", "not yet"), seconds=seconds)


SCENARIOS: tuple[Scenario, ...] = (s3_errors, s3_connections, s3_slowness, s3_lies)
"""All of this page, for `make chaos`."""
