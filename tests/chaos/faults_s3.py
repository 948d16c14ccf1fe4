"""What a store of objects does to its clients, under load: by a proxy in front of a real S3 server that speaks its language."""

from __future__ import annotations

import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from faults_load import Load, check, engines
from report import Report, Scenario
from s3server import S3, SETTINGS, Relay, relaying, s3_server

from byref import db
from byref.stores import ObjectStore
from byref_sandbox import Limits, Sandbox

STALL = 2.0
"""Seconds that a request waits which is never answered; the client gives up before."""
TIMEOUT = "1s"
BOUND = 40.0
"""Seconds that no call may take with a client that gives up after `TIMEOUT` and two more tries."""
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
    """Passes requests on to a server; `fault` comes on a part of them, `rate`, by chance."""

    def __init__(self, server: S3, seed: int) -> None:
        self.fault: str | None = None
        self.rate = 1.0
        self.hit: Counter[str] = Counter()
        self.behind = server.host, server.port
        self._chance = random.Random(seed)
        self._written: dict[str, float] = {}

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The address at which it takes requests."""
        proxy = self

        class Handler(Relay):
            behind = proxy.behind

            def relay(self) -> None:
                proxy.answer(self)

        with relaying(Handler) as port:
            yield f"http://127.0.0.1:{port}"

    def answer(self, request: Relay) -> None:
        """Pass a request on, or let it go wrong."""
        length = int(request.headers.get("Content-Length", 0))
        fault = self.fault if self.fault and self._chance.random() < self.rate else None
        if fault == "not yet" and not self._is_fresh(request):
            fault = None
        if fault is not None:
            self.hit[fault] += 1
        if fault == "cut request":
            request.rfile.read(length // 2)
            return request.cut()
        body = request.rfile.read(length)
        if fault == "reset":
            return request.cut()
        if fault == "stall":
            time.sleep(STALL)
            return request.cut()
        if fault == "slow":
            time.sleep(0.4)
        if fault in ANSWERS:
            return request.answer(ANSWERS[fault][0], {"content-type": "application/xml"}, ANSWERS[fault][1])
        if fault == "not yet":
            return request.answer(404, {"content-type": "application/xml"}, NO_KEY)
        status, headers, data = request.pass_on(body)
        if request.command in ("PUT", "POST") and status == 200:
            self._written[request.path.partition("?")[0]] = time.monotonic()
        if fault == "lost answer":
            return request.cut()
        if fault == "truncated":  # and says so itself: it is shorter than was asked for
            return request.answer(status, headers, data[: len(data) // 2])
        return request.answer(status, headers, data, cut=fault == "cut answer")

    def _is_fresh(self, request: Relay) -> bool:
        """Whether what is read was written a moment ago: a store that is consistent only eventually may not have it."""
        at = self._written.get(request.path.partition("?")[0])
        return request.command in ("GET", "HEAD") and at is not None and time.monotonic() - at < 2.0


@contextmanager
def bucket(seed: int) -> Iterator[tuple[Proxy, Callable[[], ObjectStore], ObjectStore]]:
    """A bucket on a real S3 server, a proxy in front of it, how to open a store at the proxy, and one at the server itself."""
    with s3_server() as server:
        name, proxy = server.bucket(), Proxy(server, seed)

        def opened(endpoint: str) -> ObjectStore:
            return ObjectStore(
                f"s3://{name}",
                prefix="results",
                **SETTINGS
                | {
                    "endpoint": endpoint,
                    "client_options": {"allow_http": True, "timeout": TIMEOUT, "connect_timeout": TIMEOUT},
                    "retry_config": {"max_retries": 2, "backoff": {"init_backoff": timedelta(milliseconds=20)}},
                },
            )

        with proxy.serving() as endpoint:
            yield proxy, lambda: opened(endpoint), opened(str(server.settings["endpoint"]))


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
        with engines(url, sandbox, blobs=opened) as many:
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
        check(report, load, url, sandbox, direct, bound=BOUND)
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
