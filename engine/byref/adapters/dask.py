"""The interpreter on a Dask cluster: each worker process keeps a sandbox of its own (extra `dask`)."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import msgspec
import zstandard
from blake3 import blake3

from byref.adapters.dask_orders import (
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
    encode,
    reply_of,
)
from byref.adapters.extras import missing
from byref.db.payloads import PayloadLoad
from byref.errors import ConfigurationError
from byref.names import ValueLoad
from byref_sandbox import Limits, Runner, SandboxUnavailable, wire
from byref_sandbox.data import Load
from byref_sandbox.exchange import Answer

try:
    from byref.adapters import dask_worker
    from byref.adapters.dask_cluster import Cluster, pickled
except ImportError as error:
    raise missing("byref.adapters.dask", "distributed", "dask") from error

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["DaskInterpreter", "DataSource"]

logger = logging.getLogger("byref")

START_SECONDS = 60.0
"""For the sandboxes of all workers to start."""
_CLOSE_SECONDS = 5.0


class DaskInterpreter(Runner):
    """Runs model-written code on the workers of a Dask cluster, as `byref_sandbox.Sandbox` does on this machine.

    `place` is the scheduler's address, or a `distributed.Client`. Each worker process keeps one sandbox with its warm
    sessions (`jail`, `sessions`, `memory_bytes` as for `Sandbox`; `jail="language-only"` is no security boundary); a session's runs go to the same worker while that is
    there and not busy. `source` says where workers read stored data themselves; what they cannot read, the host sends, at
    most `inline_bytes` of it for a run. A run is answered within its own time limit and `timeout` seconds, or raises
    SandboxUnavailable. A run only returns data, so the scheduler may begin one again whose worker is lost.

    Raises:
        ConfigurationError: an argument makes no sense. Nothing is connected to yet.
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
    ) -> None:
        super().__init__(limits)
        if jail not in ("full", "language-only"):
            raise ConfigurationError(f'jail={jail!r}: expected "full" or "language-only"')
        if min(sessions, memory_bytes, inline_bytes) < 1 or not 0 < timeout < float("inf"):
            raise ConfigurationError("sessions, memory_bytes, inline_bytes and timeout must be positive")
        if source is not None and not isinstance(source, DataSource):
            raise ConfigurationError(f"source={source!r:.100}: expected a byref.adapters.dask.DataSource")
        self._settings = Settings(jail, sessions, memory_bytes)
        self._source = b"" if source is None else pickled(source)
        self._inline_bytes = inline_bytes
        self._timeout = timeout
        self._cluster = Cluster(place)
        # Sessions of other databases may have the same names: theirs are other processes, of which none is shared.
        told = secrets.token_hex(16) if source is None else f"{source.url}\0{source.schema}"
        self._namespace = blake3(told.encode()).hexdigest(16)
        self._renew()
        _interpreters.add(self)

    def _renew(self) -> None:
        self._owner = secrets.token_hex(16)

    def __enter__(self) -> DaskInterpreter:
        """Return the interpreter itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the interpreter."""
        self.close()

    def start(self) -> DaskInterpreter:
        """Connect and start the sandboxes of all workers there are now, in about two seconds.

        Raises:
            SandboxUnavailable: there is no scheduler, or a worker cannot run code; the text says which and why.
        """
        prepared = self._cluster.everywhere(
            dask_worker.prepare, VERSION, self._settings, self._owner, seconds=START_SECONDS
        )
        for worker, why in prepared.items():
            if why:
                told = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
                raise SandboxUnavailable(f"the Dask worker at {worker} cannot run byref {VERSION}: {told}")
        return self

    def close(self) -> None:
        """End the sandboxes that no other interpreter uses, and the connection; runs that are going on are given up."""
        if self._cluster.is_connected:
            with contextlib.suppress(SandboxUnavailable, RuntimeError):
                self._cluster.everywhere(dask_worker.release, self._owner, seconds=_CLOSE_SECONDS)
        self._cluster.close()

    def answer(self, request: wire.Request, loads: Sequence[Load], session: str | None) -> Answer:
        """Run one request on a worker; data goes by reference, and as bytes where the worker cannot read it."""
        data: list[Blob | Value | Given | AtHost | None] = [
            None if payload.inline is not None else _reference(load)
            for payload, load in zip(request.payloads, loads, strict=True)
        ]
        size = sum(each.size for each in data if isinstance(each, Blob | Given))
        seconds = request.terms.wall_seconds + self._timeout + size / wire.LOAD_BYTES_PER_SECOND
        name = None if session is None else f"{self._namespace}\0{session}"
        for _ in range(len(data) + 1):
            order = Order(self._settings, self._owner, name, request, data, self._source)
            packed = encode(order)
            if len(packed) > self._inline_bytes:
                raise SandboxUnavailable(
                    f"a run would send {len(packed):,} bytes through the Dask scheduler, at most {self._inline_bytes:,} may "
                    "be: have the workers read stored data themselves, with DaskInterpreter(source=DataSource(…))"
                )
            reply = self._sent(packed, name, seconds)
            if isinstance(reply, Answered):
                return reply.answer
            if isinstance(reply, Failed):
                raise SandboxUnavailable(f"a worker of the Dask cluster at {self._cluster.address}: {reply.why}")
            if reply.fault:
                address = self._cluster.address
                logger.warning("a worker at %s cannot read stored data, so it is sent: %s", address, reply.fault)
            for index in reply.payloads:
                data[index] = _given(loads[index], self._inline_bytes)
        raise SandboxUnavailable(
            f"the workers of the Dask cluster at {self._cluster.address} ask again for what they were given"
        )

    def _sent(self, order: bytes, session: str | None, seconds: float) -> Reply:
        packed = self._cluster.call(dask_worker.perform, order, affinity=session, seconds=seconds)
        try:
            reply: Reply = reply_of(packed)
            return reply
        except (msgspec.DecodeError, TypeError) as error:
            raise SandboxUnavailable(f"a worker's reply could not be read: {error}") from None

    def _after_fork(self) -> None:
        self._cluster.after_fork()
        self._renew()


def _reference(load: Load) -> Blob | Value | AtHost:
    """Where a worker finds a payload."""
    if isinstance(load, PayloadLoad):
        payload = load.payload
        return Blob(payload.blob_id, payload.key, payload.store, payload.size)
    if isinstance(load, ValueLoad):
        return Value(load.row_id, load.digest)
    return AtHost()


def _given(load: Load, most: int) -> Given:
    """A payload, read here and compressed."""
    payload = load()
    parts = (payload,) if isinstance(payload, bytes | bytearray | memoryview) else payload
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    packed, size = bytearray(), 0
    for part in parts:
        packed += packer.compress(part)
        size += len(part)
        if len(packed) > most:
            break  # the order is too long, which is told there
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
