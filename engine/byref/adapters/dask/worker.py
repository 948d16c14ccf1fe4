"""The code in a Dask worker's process: it takes orders, runs them in the sandbox that it keeps, and returns replies.

For Dask, orders and replies are bytes, so it unpickles nothing of a run. The process itself can read the host's database and speaks
Dask's protocol, which uses pickle; model-written code runs only in the jailed processes below it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from byref.adapters.dask import lines
from byref.adapters.dask.orders import VERSION, Failed, Reply, Settings, Wanting, answered, encode, order_of
from byref.adapters.dask.sources import Wanted, load_of, wanted_of
from byref_sandbox import Sandbox, SandboxUnavailable

logger = logging.getLogger("byref")

IDLE_SECONDS = 900.0
"""An interpreter that sent no order for so long, and did not release its sandbox, is considered gone."""
_LOOK_SECONDS = 30.0


@dataclass(slots=True)
class _Kept:
    """A sandbox of this process, and the interpreters that use it."""

    sandbox: Sandbox
    owners: dict[str, float] = field(default_factory=dict)
    """When each interpreter last sent an order."""
    running: int = 0


_lock = threading.Lock()
_kept: dict[Settings, _Kept] = {}
_watched = threading.Event()


def perform(version: str, order: bytes) -> bytes:
    """Run one order to its end. Nothing is raised, because Dask would log the order with the exception."""
    return encode(_performed(version, order))


async def prepare(version: str, settings: Settings, owner: str) -> str:
    """Start the sandbox, on a thread; return the reason if it cannot start, else an empty text."""
    return await asyncio.to_thread(_prepared, version, settings, owner)


async def release(owner: str) -> None:
    """End the sandboxes that only the given, closed interpreter has used."""
    try:
        await asyncio.to_thread(_forget, {owner})
    except RuntimeError:  # the process, which is also the host's, is about to end: no thread starts
        _forget({owner})


def _performed(version: str, packed: bytes) -> Reply:
    if version != VERSION:
        return Failed(_mismatch(version))
    try:
        order = order_of(packed)
        with _sandbox(order.settings, order.owner) as sandbox, lines.opened(order.line, order.line_bytes) as callee:
            loads = [load_of(order, index) for index in range(len(order.data))]
            return answered(sandbox.answer(order.request, loads, order.session, callee))
    except Wanted as wanted:
        return Wanting(wanted_of(order, wanted.index), wanted.fault)
    except SandboxUnavailable as error:
        return Failed(str(error))
    except Exception as error:
        logger.exception("a run could not be made")
        return Failed(f"{type(error).__name__}: {error}")


def _prepared(version: str, settings: Settings, owner: str) -> str:
    if version != VERSION:
        return _mismatch(version)
    try:
        with _sandbox(settings, owner) as sandbox:
            sandbox.start()
    except (SandboxUnavailable, ValueError) as error:  # ValueError: of a module that is not there, or another one there
        return str(error)
    return ""


def _mismatch(version: str) -> str:
    return f"the worker has byref {VERSION}, the host byref {version}: install the same on both"


@contextlib.contextmanager
def _sandbox(settings: Settings, owner: str) -> Iterator[Sandbox]:
    with _lock:
        if settings not in _kept:
            if not _watched.is_set():
                _watched.set()
                threading.Thread(target=_watch, name="byref-idle", daemon=True).start()
            made = Sandbox(
                jail=settings.jail,
                sessions=settings.sessions,
                memory_bytes=settings.memory_bytes,
                modules=settings.modules,
            )
            _kept[settings] = _Kept(made)
        kept = _kept[settings]
        kept.owners[owner] = time.monotonic()
        kept.running += 1
    try:
        yield kept.sandbox
    finally:
        with _lock:
            kept.running -= 1


def _forget(owners: set[str]) -> None:
    with _lock:
        unused = []
        for settings, kept in list(_kept.items()):
            for owner in owners & kept.owners.keys():
                del kept.owners[owner]
            if not kept.owners and not kept.running:
                unused.append(_kept.pop(settings))
    for kept in unused:
        kept.sandbox.close()


def _watch() -> None:
    """Forget interpreters whose hosts are gone; end when no sandbox is left."""
    while True:
        time.sleep(_LOOK_SECONDS)
        before = time.monotonic() - IDLE_SECONDS
        with _lock:
            if not _kept:
                _watched.clear()
                return
            idle = {owner for kept in _kept.values() for owner, asked in kept.owners.items() if asked < before}
        _forget(idle)
