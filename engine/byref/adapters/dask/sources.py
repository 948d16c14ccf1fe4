"""How a Dask worker gets the data of a run: it reads stored data, decompresses sent data, and asks for the rest."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator

from byref.adapters.dask.orders import AtHost, Blob, DataSource, Given, Order
from byref.artifacts.names import ValueLoad
from byref.db.database import Database
from byref.db.payloads import PayloadLoad, Source, StoredPayload
from byref.errors import ArtifactMissing
from byref.stores import BlobStore, frames, store_at
from byref.stores.guarded import Guarded
from byref_sandbox.values.data import Load

FAILED_SECONDS = 30.0
"""After a source could not be opened, it is not tried again for so long; meanwhile the host sends the data."""
_MAX_SOURCES = 100
_MAX_GIVEN = 10_000

_lock = threading.Lock()
_sources: OrderedDict[bytes, Source | tuple[float, str]] = OrderedDict()
"""Sources by their pickled description; for one that could not be opened, when and why."""
_given: OrderedDict[tuple[str | None, str], None] = OrderedDict()
"""Payloads that the host has sent to each session: most of them are still decoded in its process."""


class Wanted(Exception):
    """The worker cannot read a payload: the host must send it."""

    def __init__(self, index: int, fault: str = "") -> None:
        super().__init__(fault)
        self.index = index
        self.fault = fault


def load_of(order: Order, index: int) -> Load:
    """Return a function that reads a payload of an order when the sandbox asks for it; it raises Wanted if it cannot."""
    found = order.data[index]
    if isinstance(found, Given):

        def given() -> bytes:
            with _lock:
                _given[order.session, order.request.payloads[index].key] = None
                if len(_given) > _MAX_GIVEN:
                    _given.popitem(last=False)
            return frames.unpack_within(found.packed, max(found.size, 1))

        return given

    def stored() -> Iterator[bytes]:
        if isinstance(found, AtHost) or found is None or not order.source:
            raise Wanted(index)
        try:
            source = _source(order.source)
            if isinstance(found, Blob):
                yield from PayloadLoad(StoredPayload(found.row, found.key, found.store, found.size, 0, source))()
            else:
                yield ValueLoad(found.row, found.digest, source.read)()
        except ArtifactMissing as error:  # e.g. written in the host's open transaction, which is invisible here
            raise Wanted(index) from error
        except Exception as error:
            raise Wanted(index, f"{type(error).__name__}: {error}") from error

    return stored


def wanted_of(order: Order, index: int) -> list[int]:
    """Return the payload that is wanted; without a source, also all others that were not sent to the session before."""
    if order.source:
        return [index]
    with _lock:
        return [
            number
            for number, (payload, found) in enumerate(zip(order.request.payloads, order.data, strict=True))
            if number == index
            or (found is not None and not isinstance(found, Given) and (order.session, payload.key) not in _given)
        ]


def _source(packed: bytes) -> Source:
    """Return an opened source, which is kept; a failure to open it is remembered for a while."""
    with _lock:
        found = _sources.get(packed)
    if isinstance(found, Source):
        return found
    if found is not None and time.monotonic() - found[0] < FAILED_SECONDS:
        raise ConnectionError(found[1])
    try:
        source = _opened(pickle.loads(packed))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        _keep(packed, (time.monotonic(), why))
        raise ConnectionError(why) from error
    _keep(packed, source)
    return source


def _keep(packed: bytes, made: Source | tuple[float, str]) -> None:
    with _lock:
        _sources[packed] = made
        _sources.move_to_end(packed)
        if len(_sources) > _MAX_SOURCES:
            _sources.popitem(last=False)


def _opened(source: DataSource) -> Source:
    database = Database(_meant(source.url), schema=source.schema)
    database.prepare(create=False)
    blobs = source.blobs
    store: BlobStore | None = None
    if isinstance(blobs, str):
        store = store_at(_meant(blobs))
    elif blobs is not None:
        store = blobs()
    return Source(database.ask, None if store is None else Guarded(store))


def _meant(text: str) -> str:
    """Return the text, or the value of the environment variable that it names."""
    if not text.startswith("$"):
        return text
    if text[1:] not in os.environ:
        raise ValueError(f"the worker's environment has no {text[1:]!r}")
    return os.environ[text[1:]]
