"""How a host gives an order to a worker without making a task of it: an order of a session, most of which end within milliseconds.

A task takes Dask several messages and its scheduler some thinking; a message to a handler of the worker takes neither. It goes the same
way as all else: through the client's connection to the scheduler, and under its security. It takes one of the worker's own threads, if
one is free. Whatever hinders that makes a task of the order, and so does the worker of an order that lasts.

Dask's scheduler sees tasks alone. So it is shown one that stays on each worker which was given orders lately, and does nothing: else that
worker would count as idle, and be closed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

import distributed.protocol.pickle
from distributed import Status
from distributed.threadpoolexecutor import ThreadPoolExecutor

from byref.adapters.dask.worker import perform

_get_worker: Any = distributed.get_worker
_secede: Any = distributed.secede
_pickled: Any = distributed.protocol.pickle.dumps

MOST_BYTES: Final = 256 << 10
"""Of an order; the time of a longer one is its data's."""
MOST_AT_ONCE: Final = 128
"""Orders of one host: each takes a connection of Dask's, which has 512 in each process."""
LASTS_SECONDS: Final = 1.0
"""An order that has not ended after so long becomes a task, which goes on with it."""
KEPT_SECONDS: Final = 15.0
"""For so long the reply of such an order waits for its task."""
STAY_SECONDS: Final = 5.0
"""A worker counts as in use for so long after the last order of a host; Dask's `Adaptive` closes idle ones after three."""
_THREADS: Final = (ThreadPoolExecutor, concurrent.futures.ThreadPoolExecutor)
_HANDLER: Final = "byref_order"


# On the worker ----------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Run:
    """An order that was no task when it began."""

    worker: str
    reply: asyncio.Future[bytes]
    is_task: bool = False


class _Stay:
    """A host's use of a worker."""

    def __init__(self) -> None:
        self.used_at = time.monotonic()
        self.has_left = threading.Event()


_runs: dict[str, _Run] = {}
_lock = threading.Lock()
_stays: dict[tuple[str, str], _Stay] = {}
"""By the worker's address, for one process may have several, and by the host's id."""


async def listen(dask_worker: Any) -> None:
    """Have a worker take orders."""

    async def take(run: str, host: str, version: str, order: bytes, most_bytes: int) -> bytes | bool | None:
        return await _take(dask_worker, run, host, version, order, most_bytes)

    dask_worker.handlers[_HANDLER] = take


async def go_on(run: str, version: str, order: bytes) -> bytes:
    """Return the reply to an order that lasts; on a worker that does not know it, begin it again."""
    found = _runs.get(run)
    if found is None:
        threads = _get_worker().executors["default"]
        reply: bytes = await asyncio.get_running_loop().run_in_executor(threads, perform, version, order)
        return reply
    found.is_task = True
    try:
        return await asyncio.shield(found.reply)
    finally:
        _runs.pop(run, None)


def stay(host: str, address: str) -> None:
    """Last as long as a host gives orders to the worker at an address; end at once on any other."""
    if _get_worker().address != address:
        return
    _secede()
    with _lock:
        found = _stays[address, host] = _Stay()
    while not found.has_left.wait(max(0.0, found.used_at + STAY_SECONDS - time.monotonic())):
        with _lock:
            if time.monotonic() >= found.used_at + STAY_SECONDS:
                if _stays.get((address, host)) is found:
                    del _stays[address, host]
                return


def leave(host: str) -> None:
    """End the stays of a host that is closed."""
    with _lock:
        for key in [key for key in _stays if key[1] == host]:
            _stays.pop(key).has_left.set()


async def _take(worker: Any, run: str, host: str, version: str, order: bytes, most_bytes: int) -> bytes | bool | None:
    """Return the reply to an order; True if the order lasts, False if no thread is free, None if a task has to say what is wrong."""
    threads = worker.executors["default"]
    hidden = sum(
        each.worker == worker.address and not each.is_task and not each.reply.done() for each in _runs.values()
    )
    is_free = len(worker.state.executing) + hidden < worker.state.nthreads
    if worker.status != Status.running or not is_free or not isinstance(threads, _THREADS):
        return False
    with _lock:
        found = _stays.get((worker.address, host))
        if found is not None:
            found.used_at = time.monotonic()
    loop = asyncio.get_running_loop()
    begun = _runs[run] = _Run(worker.address, loop.run_in_executor(threads, perform, version, order))
    lasts = True
    try:
        lasts = not (await asyncio.wait({begun.reply}, timeout=LASTS_SECONDS))[0]
    finally:
        if lasts:
            begun.reply.add_done_callback(lambda _: loop.call_later(KEPT_SECONDS, _runs.pop, run, None))
        else:
            del _runs[run]
    if lasts:
        return True
    reply: Any = begun.reply.result()
    return reply if type(reply) is bytes and len(reply) <= most_bytes else None


# On the host ------------------------------------------------------------------------------------------------------------------------


async def asked(client: Any, worker: str, listening: set[str], **order: Any) -> bytes | bool | None:
    """Return what a worker says to an order: see `_take`; None if it cannot be asked.

    `listening` has the workers that take orders.
    """
    scheduler = client.scheduler
    if worker not in listening:
        message = {
            "op": "run",
            "function": _pickled(listen),
            "args": _pickled(()),
            "kwargs": _pickled({}),
            "wait": True,
        }
        if worker not in await scheduler.broadcast(msg=message, workers=[worker], on_error="ignore"):
            return None
        listening.add(worker)
    said = await scheduler.broadcast(msg={"op": _HANDLER, **order}, workers=[worker], on_error="ignore")
    reply: bytes | bool | None = said.get(worker)
    if reply is None:  # it is lost, or another worker has its address
        listening.discard(worker)
    return reply
