"""A connection to a Dask cluster: made on demand, made again when it is lost, and with a limit for every wait."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import distributed.protocol.pickle
from blake3 import blake3
from distributed import CancelledError, KilledWorker
from distributed.client import ClosedClientError

from byref.adapters.dask import direct
from byref.adapters.dask.lines import HostEnd, Lost, Stopped
from byref.adapters.dask.orders import VERSION
from byref.adapters.dask.worker import perform
from byref.errors import ConfigurationError, one_line
from byref_sandbox import SandboxUnavailable

# Dask's types are incomplete, and differ between versions.
Client: Any = distributed.Client
pickled: Any = distributed.protocol.pickle.dumps

CONNECT_SECONDS = 10.0
_ATTEMPTS = 3
"""Attempts to begin a run: one more if the scheduler is lost or forgets it, and one if it keeps it for a lost worker."""
FAILED_SECONDS = 2.0
"""After a failed connection no other is tried for so long: callers get the error at once."""
AVOID_SECONDS = 60.0
"""After a worker left a run unanswered, other workers are preferred for so long."""
LOOK_SECONDS = 2.0
"""Greatest age of the list of workers."""
_LATE_SECONDS = 0.25
"""A worker that says so much later than it should whether an order lasts may be lost."""
_OBJECT_BYTES = 1_000
"""Python's own overhead beside the bytes of an answer."""
_PLAIN = ("msgpack", "error")
"""Deserializers accepted. A run's answer is bytes, so nothing else is unpickled here, except errors, which Dask unpickles."""
_LOST = (CancelledError, ClosedClientError, OSError)
"""Exceptions that mean that the scheduler, or the connection to it, is lost."""


class _NoAnswer(SandboxUnavailable):
    """No answer came within the time for a run."""


class _Stranded(Exception):
    """A run will never begin."""


class Cluster:
    """The workers at an address, or those of a host's own client; thread-safe, and usable after a fork."""

    def __init__(self, place: Any) -> None:
        if isinstance(place, Client) and place.asynchronous:
            raise ConfigurationError("the Dask client is asynchronous: give the scheduler's address")
        if not isinstance(place, (str, Client)) or not place:
            raise ConfigurationError(
                f"{place!r:.100}: expected a Dask scheduler's address, tcp://host:8786, or a Client"
            )
        self._given = place if isinstance(place, Client) else None
        self._security: Any = place.security if isinstance(place, Client) else None
        self.address = place if isinstance(place, str) else place.scheduler.address
        self.closed = False
        self._client: Any = None
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._failed: tuple[float, str] = (-FAILED_SECONDS, "")
        self._looked_at = -LOOK_SECONDS
        self._threads: dict[str, int] = {}
        """The number of threads of each worker, by its address."""
        self._busy: Counter[str] = Counter()
        """How many of our runs each worker has not answered yet."""
        self._silent: dict[str, float] = {}
        """When a worker was sent a run that was not answered in time."""
        self._listening: set[str] = set()
        """The workers that take orders directly."""
        self._stays: dict[str, Any] = {}
        """The tasks that show the scheduler which workers are in use."""

    def call(
        self,
        order: bytes,
        *,
        owner: str,
        affinity: str | None,
        seconds: float,
        until: float,
        most_bytes: int,
        line: HostEnd | None = None,
    ) -> object:
        """Return a worker's reply to an order; orders with the same `affinity` go to the same worker if it is free.

        Such an order is given to the worker directly, and is a task if that does not lead to a reply. If the worker of a task is
        lost, the scheduler replaces it. If the scheduler is lost, everything is begun once more. A run that has called something on
        its `line` is never begun again here.

        Raises:
            Lost: the worker of such a run was.
            Stopped: whoever answers its calls has ended it.
            SandboxUnavailable: no answer within the `seconds` that end at `until`, all workers tried were lost, or an answer has
                more than `most_bytes`.
        """
        lost: BaseException | None = None
        is_direct = affinity is not None and len(order) <= direct.MOST_BYTES
        for _ in range(_ATTEMPTS):
            client = self._connected()
            try:
                with self._worker(client, affinity) as (worker, is_free):
                    run = secrets.token_hex(8)
                    lasts = False
                    if is_direct and is_free and worker is not None:
                        is_direct = False
                        reply = self._directly(client, worker, run, order, owner, until, seconds, most_bytes, line)
                        if type(reply) is bytes:
                            return reply
                        lasts = reply is True
                    hint = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
                    key = f"byref-run-{run}"
                    task = (direct.go_on, run) if lasts else (perform,)
                    future = client.submit(*task, VERSION, order, key=key, pure=False, **hint)
                    if line is not None:
                        line.attach(client, key, worker, goes_on=lasts)
                    return self._result(future, worker, until, seconds, most_bytes, line)
            except _Stranded:
                affinity = None
            except _LOST as error:
                lost = error
            if self.closed:
                raise RuntimeError("the interpreter is closed")
            if line is not None and line.has_begun:
                raise Lost("the Dask scheduler was lost") from None
        raise SandboxUnavailable(f"a run on the Dask cluster at {self.address} was given up there: {lost}")

    def everywhere(self, function: Callable[..., Any], *arguments: Any, seconds: float) -> dict[str, Any]:
        """Call a coroutine function on each worker; return its result or its exception by the worker's address."""
        client = self._connected()
        try:
            answers: dict[str, Any] = client.run(function, *arguments, on_error="return", callback_timeout=seconds)
            return answers
        except _LOST as error:
            raise SandboxUnavailable(f"the Dask cluster at {self.address} does not answer: {error}") from None

    @property
    def is_connected(self) -> bool:
        """Whether there is a live connection."""
        return self._client is not None and self._client.status == "running"

    def close(self) -> None:
        """Close the connection, unless it is the host's own client."""
        with self._lock:
            self.closed = True
            client, self._client = self._client, None
        if client is not None and client is not self._given:
            _close(client)

    def after_fork(self) -> None:
        """Drop the connection in a forked child: it is the parent's, and the threads that serve it are not in the child."""
        if self._client is not None:
            _abandoned.append(self._client)
        if self._given is not None:
            _abandoned.append(self._given)
        self._client = self._given = None
        self._renew()

    def _directly(
        self,
        client: Any,
        worker: str,
        run: str,
        order: bytes,
        owner: str,
        until: float,
        seconds: float,
        most_bytes: int,
        line: HostEnd | None,
    ) -> bytes | bool | None:
        """Give an order to a worker by itself; return its reply, True if it lasts, else what does not matter."""
        said = direct.asked(
            client,
            worker,
            self._listening,
            run=run,
            host=owner,
            version=VERSION,
            order=order,
            most_bytes=most_bytes,
        )
        asked = asyncio.run_coroutine_threadsafe(said, client.loop.asyncio_loop)
        try:
            if line is not None:
                line.attach(client, None, worker)
            wait = _waiting(asked, line)
            self._show_stay(client, worker, owner)
            while not wait(max(0.0, min(direct.LASTS_SECONDS + _LATE_SECONDS, until - time.monotonic()))):
                if time.monotonic() >= until:
                    raise self._no_answer(seconds)
                # The scheduler goes on connecting to a worker that is lost.
                if client.status != "running" or worker not in client.nthreads(callback_timeout=CONNECT_SECONDS):
                    break
        finally:
            asked.cancel()
        reply = None if asked.cancelled() or asked.exception() is not None else asked.result()
        if reply is None:
            self._looked_at = -LOOK_SECONDS
        if line is not None and line.has_begun and type(reply) is not bytes and reply is not True:
            raise Lost("the worker of a run was lost")
        if client.status != "running":
            raise OSError("the connection was lost")
        return reply

    def _show_stay(self, client: Any, worker: str, owner: str) -> None:
        """Have the scheduler see that a worker is in use."""
        with self._lock:
            if worker in self._stays and not self._stays[worker].done():
                return
            key = f"byref-stay-{secrets.token_hex(8)}"
            made = self._stays[worker] = client.submit(
                direct.stay, owner, worker, key=key, pure=False, workers=[worker], allow_other_workers=True
            )
        # What is kept of it would have to be moved before the worker may retire.
        made.add_done_callback(lambda future: future.release())

    def _no_answer(self, seconds: float) -> _NoAnswer:
        return _NoAnswer(
            f"no worker of the Dask cluster at {self.address} has answered within {seconds:.0f} s; "
            f"it has {len(self._threads)} workers"
        )

    def _result(
        self,
        future: Any,
        meant: str | None,
        until: float,
        seconds: float,
        most_bytes: int,
        line: HostEnd | None,
    ) -> object:
        try:
            # Not `result(timeout=…)` in a loop: Dask loses a result that arrives in the moment of the timeout.
            wait = _waiting(future, line)
            while not wait(max(0.0, min(LOOK_SECONDS, until - time.monotonic()))):
                if time.monotonic() >= until:
                    raise TimeoutError
                if meant is not None and self._is_stranded(future, meant):
                    raise _Stranded
            left = max(CONNECT_SECONDS, until - time.monotonic())
            if future.status == "error":  # not raised here: it may be an exception that ends a thread or a process
                raise SandboxUnavailable(self._worded(future.exception(timeout=left)))
            size = self._size_of(future, left)
            if size > most_bytes + _OBJECT_BYTES:
                raise SandboxUnavailable(
                    f"a worker of the Dask cluster at {self.address} answered with {size:,} bytes, "
                    f"at most {most_bytes:,} can be"
                )
            return future.result(timeout=left)
        except TimeoutError:
            raise self._no_answer(seconds) from None
        except (_Stranded, Stopped, SandboxUnavailable, *_LOST):
            raise
        except Exception as error:  # noqa: BLE001  whatever Dask raises for a broken answer
            raise SandboxUnavailable(self._worded(error)) from None
        finally:
            future.release()

    def _size_of(self, future: Any, seconds: float) -> int:
        """Return the size of an answer before it is fetched; 0 if the scheduler has lost it, which the fetch then reports."""
        if future.status != "finished":
            return 0
        try:
            return int(future.client.nbytes(keys=[future.key], summary=False, callback_timeout=seconds)[future.key])
        except KeyError:
            return 0

    def _worded(self, error: BaseException) -> str:
        """Describe the failure of a run: the error comes from a worker, so its text may contain anything."""
        if isinstance(error, KilledWorker) and isinstance(error.allowed_failures, int):
            return f"a run was lost with {error.allowed_failures + 1} workers of the Dask cluster at {self.address}"
        kind = one_line(type(error).__name__)
        return f"the workers of the Dask cluster at {self.address} cannot run byref {VERSION}: {kind}: {one_line(error, 4_000)}"

    def _is_stranded(self, future: Any, worker: str) -> bool:
        """Tell whether a run will never begin: it was sent to a worker that was lost while there was no other.

        The scheduler keeps such a run for the lost worker's address, even if other workers could take it and have come since.
        """
        client = future.client
        threads = client.nthreads(callback_timeout=CONNECT_SECONDS)
        if worker in threads:
            return False
        processing = client.sync(client.scheduler.processing, workers=None, callback_timeout=CONNECT_SECONDS)
        return not future.done() and not any(future.key in keys for keys in processing.values())

    def _connected(self) -> Any:
        with self._lock:
            if self.closed:
                raise RuntimeError("the interpreter is closed")
            client = self._client
            since, why = self._failed
            if time.monotonic() - since < FAILED_SECONDS:
                raise SandboxUnavailable(why)
            try:
                if client is not None and client.status == "connecting":
                    _wait_while_connecting(client)
                if client is not None and client.status == "running":
                    return client
                self._client = self._connect()
            except (OSError, ImportError, RuntimeError, TypeError, ValueError) as error:
                message = f"there is no Dask scheduler at {self.address}: {type(error).__name__}: {error}"
                self._failed = time.monotonic(), message
                raise SandboxUnavailable(message) from None
            if client is not None and client is not self._given:
                _close(client)
            self._looked_at = -LOOK_SECONDS
            return self._client

    def _connect(self) -> Any:
        if self._given is not None:
            if self._given.status != "running":
                raise OSError(f"the client is {self._given.status}")
            return self._given
        client = Client(
            self.address,
            timeout=CONNECT_SECONDS,
            set_as_default=False,
            security=self._security,
            name="byref",
            deserializers=_PLAIN,
        )
        for topic in ("print", "warn"):  # messages of workers on these topics would be printed here
            client.unsubscribe_topic(topic)
        return client

    @contextmanager
    def _worker(self, client: Any, affinity: str | None) -> Iterator[tuple[str | None, bool]]:
        """Yield the worker to prefer, the first by rendezvous hashing of the name with a thread free, and whether it may be asked."""
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._threads = dict(client.nthreads(callback_timeout=CONNECT_SECONDS))
            with self._lock:
                for worker in self._stays.keys() - self._threads.keys():
                    del self._stays[worker]
            self._listening.intersection_update(self._threads)
        threads = self._threads
        if affinity is None or not threads:
            yield None, False
            return
        since = time.monotonic() - AVOID_SECONDS
        ranked = sorted(
            threads,
            key=lambda worker: (
                self._silent.get(worker, since) > since,
                blake3(f"{worker}\0{affinity}".encode()).digest(),
            ),
        )
        with self._lock:
            free = [worker for worker in ranked if self._busy[worker] < threads[worker]]
            chosen = (free or ranked)[0]
            self._busy[chosen] += 1
            is_free = bool(free) and sum(self._busy.values()) <= direct.MOST_AT_ONCE
        try:
            yield chosen, is_free
        except _NoAnswer:
            self._silent[chosen] = time.monotonic()
            raise
        finally:
            with self._lock:
                self._busy[chosen] -= 1


def _waiting(future: Any, line: HostEnd | None) -> Callable[[float], bool]:
    """Return what waits for a future for some seconds, and says whether it is done; meanwhile it serves the line."""
    answered = threading.Event()

    def note(_: object) -> None:
        answered.set()
        if line is not None:
            line.wake()

    future.add_done_callback(note)
    return answered.wait if line is None else lambda seconds: line.follow(answered, seconds)


def _wait_while_connecting(client: Any) -> None:
    until = time.monotonic() + CONNECT_SECONDS
    while client.status == "connecting":
        if time.monotonic() > until:
            raise ConnectionError("the connection was lost")
        time.sleep(0.05)


def _close(client: Any) -> None:
    try:
        client.close(timeout=CONNECT_SECONDS)
    except (OSError, RuntimeError, AssertionError):  # it was closed by other means, or its event loop is gone
        return


_abandoned: list[Any] = []
"""Clients of a parent process. They are kept, because collecting them would close the parent's connections."""
