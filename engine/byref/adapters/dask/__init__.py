"""An interpreter on a Dask cluster: each worker process keeps a sandbox of its own (extra `dask`)."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import time
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import msgspec
import zstandard
from blake3 import blake3

from byref.adapters.common.extras import missing
from byref.adapters.dask.orders import (
    VERSION,
    Answered,
    AtHost,
    Blob,
    DataSource,
    Failed,
    Given,
    Order,
    Reply,
    Settings,
    Value,
    Wanting,
    answer_of,
    encode,
    most_bytes,
    reply_of,
)
from byref.artifacts.names import ValueLoad
from byref.db.payloads import PayloadLoad
from byref.errors import ConfigurationError, one_line
from byref_sandbox import Limits, Runner, SandboxUnavailable, wire
from byref_sandbox.functions import Callee
from byref_sandbox.host.exchange import Answer
from byref_sandbox.values.data import Load

try:
    from byref.adapters.dask import direct
    from byref.adapters.dask import worker as dask_worker
    from byref.adapters.dask.cluster import Cluster, pickled
    from byref.adapters.dask.lines import HostEnd, Lost, Stopped
except ImportError as error:
    raise missing("byref.adapters.dask", "distributed", "dask") from error

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["DaskInterpreter", "DataSource"]

logger = logging.getLogger("byref")

START_SECONDS = 60.0
"""For the start of the sandboxes on all workers."""
_CLOSE_SECONDS = 5.0


class DaskInterpreter(Runner):
    """Runs model-written code on the workers of a Dask cluster, as `byref_sandbox.Sandbox` does on this machine.

    `place` is the scheduler's address, or a `distributed.Client`. Each worker process keeps one sandbox with its warm sessions
    (`jail`, `sessions`, `memory_bytes`, `modules` as for `Sandbox`; `jail="language-only"` is no security boundary). The runs of a session go
    to the same worker while it is there and not busy.

    `source` names the place from which workers read stored data themselves. The host sends the data that they cannot read, at most
    `inline_bytes` for one run. A run is answered within its own time limit plus `timeout` seconds, or raises SandboxUnavailable. A
    run only returns data, so the scheduler may repeat a run whose worker is lost.

    Raises:
        ConfigurationError: an argument is invalid. No connection has been made yet.
    """

    def __init__(
        self,
        place: str | Client,
        *,
        limits: Limits | None = None,
        jail: Literal["full", "language-only"] = "full",
        sessions: int = 16,
        memory_bytes: int = 4 << 30,
        source: DataSource | None = None,
        inline_bytes: int = 8 << 20,
        timeout: float = 60.0,
        modules: Sequence[str] = (),
    ) -> None:
        try:
            super().__init__(limits, modules)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        if jail not in ("full", "language-only"):
            raise ConfigurationError(f'jail={jail!r}: expected "full" or "language-only"')
        if min(sessions, memory_bytes, inline_bytes) < 1 or not 0 < timeout < float("inf"):
            raise ConfigurationError("sessions, memory_bytes, inline_bytes and timeout must be positive")
        if source is not None and not isinstance(source, DataSource):
            raise ConfigurationError(f"source={source!r:.100}: expected a byref.adapters.dask.DataSource")
        self._settings = Settings(jail, sessions, memory_bytes, self.modules)
        self._source = b"" if source is None else pickled(source)
        self._inline_bytes = inline_bytes
        self._timeout = timeout
        self._cluster = Cluster(place)
        # Sessions of other databases may have the same names. The namespace gives them other processes, so they share none.
        database = secrets.token_hex(16) if source is None else f"{source.url}\0{source.schema}"
        self._namespace = blake3(database.encode()).hexdigest(16)
        self._renew()
        _interpreters.add(self)

    def _renew(self) -> None:
        self._owner = secrets.token_hex(16)
        self._listening: set[str] = set()

    def __enter__(self) -> DaskInterpreter:
        """Return the interpreter itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the interpreter."""
        self.close()

    def start(self) -> DaskInterpreter:
        """Connect, and start the sandboxes of all workers that are there now; this takes about two seconds.

        Raises:
            SandboxUnavailable: there is no scheduler, or a worker cannot run code; the text says which one and why.
        """
        prepared = self._cluster.everywhere(
            dask_worker.prepare, VERSION, self._settings, self._owner, seconds=START_SECONDS
        )
        for worker, why in prepared.items():
            if type(why) is not str or why:
                reason = why if type(why) is str else f"{type(why).__name__}: {one_line(why)}"
                raise SandboxUnavailable(f"the Dask worker at {worker} cannot run byref {VERSION}: {one_line(reason)}")
        return self

    def close(self) -> None:
        """End the sandboxes that no other interpreter uses, and the connection; running runs are given up."""
        if self._cluster.is_connected:
            with contextlib.suppress(SandboxUnavailable, RuntimeError):
                self._cluster.everywhere(direct.leave, self._owner, seconds=_CLOSE_SECONDS)
                self._cluster.everywhere(dask_worker.release, self._owner, seconds=_CLOSE_SECONDS)
        self._cluster.close()

    def answer(
        self, request: wire.Request, loads: Sequence[Load], session: str | None, callee: Callee | None = None
    ) -> Answer:
        """Run one request on a worker; data goes as references, and as bytes if the worker cannot read it."""
        if callee is None or not request.functions:
            return self._answer(request, loads, session, None)
        line = HostEnd(callee, self._inline_bytes, self._listening)
        is_done = False
        try:
            answer = self._answer(request, loads, session, line)
            is_done = True
        except Stopped as stopped:
            raise stopped.error from None
        except Lost as lost:
            # As of a process that was killed: whoever made the calls knows what they returned, and may begin the run again.
            logger.warning("a run on the Dask cluster at %s has ended: %s", self._cluster.address, lost)
            return Answer(fault="gone", detail=str(lost))
        finally:
            line.close(is_done=is_done)
        if answer.fault == "suspended" and not line.is_suspended:
            raise SandboxUnavailable("a worker's reply could not be read: it was not told that the run waits in vain")
        return answer

    def _answer(
        self, request: wire.Request, loads: Sequence[Load], session: str | None, line: HostEnd | None
    ) -> Answer:
        data: list[Blob | Value | Given | AtHost | None] = [
            None if payload.inline is not None else _reference(load)
            for payload, load in zip(request.payloads, loads, strict=True)
        ]
        asked = time.monotonic()
        name = None if session is None else f"{self._namespace}\0{session}"
        while True:
            order = Order(self._settings, self._owner, name, request, data, self._source)
            if line is not None:
                order = msgspec.structs.replace(order, line=line.id, line_bytes=self._inline_bytes)
            packed = encode(order)
            if len(packed) > self._inline_bytes:
                raise SandboxUnavailable(
                    f"a run would send {len(packed):,} bytes through the Dask scheduler, at most {self._inline_bytes:,} may "
                    "be: have the workers read stored data themselves, with DaskInterpreter(source=DataSource(…))"
                )
            size = sum(each.size for each in data if isinstance(each, Blob | Given))
            seconds = request.terms.wall_seconds + self._timeout + size / wire.LOAD_BYTES_PER_SECOND
            if line is not None:
                seconds += request.terms.wait_seconds
            reply = self._sent(packed, request, name, asked, seconds, line)
            if isinstance(reply, Answered):
                return answer_of(reply, request)
            if isinstance(reply, Failed):
                raise SandboxUnavailable(
                    f"a worker of the Dask cluster at {self._cluster.address}: {one_line(reply.why, 4_000)}"
                )
            self._give(reply, data, loads)

    def _sent(
        self,
        order: bytes,
        request: wire.Request,
        session: str | None,
        asked: float,
        seconds: float,
        line: HostEnd | None,
    ) -> Reply:
        """Send an order and return its reply; all orders of one run share one deadline."""
        packed = self._cluster.call(
            order,
            owner=self._owner,
            affinity=session,
            seconds=seconds,
            until=asked + seconds,
            most_bytes=most_bytes(request),
            line=line,
        )
        return reply_of(packed, request)

    def _give(self, reply: Wanting, data: list[Blob | Value | Given | AtHost | None], loads: Sequence[Load]) -> None:
        """Put the payloads that a worker lacks into the next order: each only once, and only up to the limit."""
        address = self._cluster.address
        wanted = set(reply.payloads)
        lacking = {index for index, found in enumerate(data) if not isinstance(found, Given | None)}
        if not wanted or not wanted <= lacking:
            raise SandboxUnavailable(
                f"a worker of the Dask cluster at {address} asks for data that it already has, or that does not exist"
            )
        if reply.fault:
            fault = one_line(reply.fault)
            logger.warning("a worker at %s cannot read stored data, so it is sent: %s", address, fault)
        room = self._inline_bytes - sum(len(each.packed) for each in data if isinstance(each, Given))
        for index in sorted(wanted):
            data[index] = given = _given(loads[index], room)
            room -= len(given.packed)
            if room < 0:
                return  # the order is too long: `answer` raises the error

    def _after_fork(self) -> None:
        self._cluster.after_fork()
        self._renew()


def _reference(load: Load) -> Blob | Value | AtHost:
    """Return the reference by which a worker finds a payload."""
    if isinstance(load, PayloadLoad):
        payload = load.payload
        return Blob(payload.blob_id, payload.key, payload.store, payload.size)
    if isinstance(load, ValueLoad):
        return Value(load.row_id, load.digest)
    return AtHost()


def _given(load: Load, most: int) -> Given:
    """Return a payload, read here and compressed."""
    payload = load()
    parts = (payload,) if isinstance(payload, bytes | bytearray | memoryview) else payload
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    packed, size = bytearray(), 0
    for part in parts:
        packed += packer.compress(part)
        size += len(part)
        if len(packed) > most:
            break
    return Given(bytes(packed + packer.flush()), size)


_interpreters: weakref.WeakSet[DaskInterpreter] = weakref.WeakSet()


def _forked() -> None:
    for interpreter in list(_interpreters):
        interpreter._after_fork()


def _close_all() -> None:
    for interpreter in list(_interpreters):
        interpreter.close()


os.register_at_fork(after_in_child=_forked)
atexit.register(_close_all)
