"""What runs in a process of a Dask worker: orders in, replies out; its sandbox, and the stores that it reads itself.

Dask unpickles nothing of a run: orders and replies are bytes to it. The process itself is trusted by the host as the
host's own are, for it holds what reads the host's database; model-written code runs in the jailed processes below it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import zstandard

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
    Wanting,
    encode,
    order_of,
)
from byref.db.database import Database
from byref.db.payloads import PayloadLoad, Source, StoredPayload
from byref.names import ValueLoad
from byref.stores import store_at
from byref.stores.guarded import Guarded
from byref_sandbox import Sandbox, SandboxUnavailable
from byref_sandbox.data import Load

logger = logging.getLogger("byref")

IDLE_SECONDS = 900.0
"""An interpreter that asked nothing for so long, and did not say good-bye, is taken for gone."""
_LOOK_SECONDS = 30.0
_MAX_SEEN = 10_000
_MAX_SOURCES = 100


@dataclass(slots=True)
class _Kept:
    """A sandbox of this process, as long as somebody asks for runs."""

    sandbox: Sandbox
    owners: dict[str, float] = field(default_factory=dict)
    """When each interpreter asked last."""
    running: int = 0


_lock = threading.Lock()
_kept: dict[Settings, _Kept] = {}
_watched = threading.Event()
_sources: OrderedDict[bytes, Source] = OrderedDict()
_seen: OrderedDict[tuple[str | None, str], None] = OrderedDict()
"""Payloads, each of a session, that the host has given."""


class _Wanted(Exception):
    """A payload cannot be read here."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index


def perform(version: str, order: bytes) -> bytes:
    """Run one order to its end; nothing is raised, for Dask would log the order with it."""
    return encode(_performed(version, order))


async def prepare(version: str, settings: Settings, owner: str) -> str:
    """Start the sandbox, in a thread; return why it cannot be."""
    return await asyncio.to_thread(_prepared, version, settings, owner)


async def release(owner: str) -> None:
    """End the sandboxes that nobody but an interpreter that is closed has asked for."""
    await asyncio.to_thread(_forget, {owner})


def _performed(version: str, packed: bytes) -> Reply:
    if version != VERSION:
        return Failed(_mismatch(version))
    try:
        order = order_of(packed)
        with _sandbox(order.settings, order.owner) as sandbox:
            loads = [_load(order, index) for index in range(len(order.data))]
            return Answered(sandbox.answer(order.request, loads, order.session))
    except _Wanted as wanted:
        return Wanting(_wanted(order, wanted.index), str(wanted))
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
    except SandboxUnavailable as error:
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
            made = Sandbox(jail=settings.jail, sessions=settings.sessions, memory_bytes=settings.memory_bytes)
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
        if not _kept:
            _seen.clear()
    for kept in unused:
        kept.sandbox.close()


def _watch() -> None:
    """Forget interpreters whose hosts are gone, until no sandbox is left."""
    while True:
        time.sleep(_LOOK_SECONDS)
        before = time.monotonic() - IDLE_SECONDS
        with _lock:
            if not _kept:
                _watched.clear()
                return
            idle = {owner for kept in _kept.values() for owner, asked in kept.owners.items() if asked < before}
        _forget(idle)


def _load(order: Order, index: int) -> Load:
    found = order.data[index]
    payload = order.request.payloads[index]
    if isinstance(found, Given):

        def given() -> bytes:
            _seen[order.session, payload.key] = None
            if len(_seen) > _MAX_SEEN:
                _seen.popitem(last=False)
            return zstandard.ZstdDecompressor().decompress(found.packed, max_output_size=max(found.size, 1))

        return given

    def stored() -> Iterator[bytes]:
        if isinstance(found, AtHost) or found is None or not order.source:
            raise _Wanted(index, "the cluster was told of no store to read")
        try:
            source = _source(order.source)
            if isinstance(found, Blob):
                payload = StoredPayload(found.row, found.key, found.store, found.size, 0, source)
                yield from PayloadLoad(payload)()
            else:
                yield ValueLoad(found.row, found.digest, source.read)()
        except Exception as error:
            # Whatever it is, the host can still read it: its own transaction, say, is not seen from here.
            raise _Wanted(index, f"{type(error).__name__}: {error}") from error

    return stored


def _wanted(order: Order, index: int) -> list[int]:
    """The payload that is missing and, where nothing can be read here, all that the session was not given before."""
    if order.source:
        return [index]
    return [
        number
        for number, (payload, found) in enumerate(zip(order.request.payloads, order.data, strict=True))
        if number == index
        or (found is not None and not isinstance(found, Given) and (order.session, payload.key) not in _seen)
    ]


def _source(packed: bytes) -> Source:
    with _lock:
        if (source := _sources.get(packed)) is not None:
            _sources.move_to_end(packed)
            return source
    told: DataSource = pickle.loads(packed)
    database = Database(_meant(told.url), schema=told.schema)
    database.prepare(create=False)
    blobs = told.blobs
    store = store_at(_meant(blobs)) if isinstance(blobs, str) else None if blobs is None else blobs()
    source = Source(database.read, None if store is None else Guarded(store))
    with _lock:
        _sources[packed] = source
        if len(_sources) > _MAX_SOURCES:
            _sources.popitem(last=False)
    return source


def _meant(text: str) -> str:
    """The text, or what the environment variable holds that it names."""
    if not text.startswith("$"):
        return text
    try:
        return os.environ[text[1:]]
    except KeyError:
        raise ValueError(f"the worker's environment has no {text[1:]!r}") from None
