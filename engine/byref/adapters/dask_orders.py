"""What a host and the workers of a Dask cluster say to each other: one order for each run, one reply."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from byref.stores.protocol import BlobStore
from byref_sandbox import wire
from byref_sandbox.exchange import Answer

VERSION: Final = importlib.metadata.version("byref")


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where the workers of a cluster read what the engine has stored: the engine's own `url`, `schema` and `blobs`.

    A text that is `$NAME` is the worker's environment variable of that name, read there: what it holds never passes the
    scheduler. `blobs` is a place (`s3://bucket/prefix`, a folder), or a function without arguments that makes the store;
    it is pickled, and run on the worker. Credentials that neither names are found on the worker as PostgreSQL's and the
    cloud's own tools find them (`PGPASSFILE`, `AWS_…`, the machine's role).
    """

    url: str = field(repr=False)
    blobs: str | Callable[[], BlobStore] | None = field(default=None, repr=False)
    schema: str | None = None


class Settings(msgspec.Struct, frozen=True):
    """Of a worker's sandbox; interpreters with the same ones share it."""

    jail: Literal["full", "language-only"]
    sessions: int
    memory_bytes: int


class Blob(msgspec.Struct, frozen=True, tag="blob"):
    """A stored payload, by its blob's row and key."""

    row: int
    key: str
    store: str | None
    size: int


class Value(msgspec.Struct, frozen=True, tag="value"):
    """An exact value, by its row and digest."""

    row: int
    digest: bytes


class Given(msgspec.Struct, frozen=True, tag="given"):
    """A payload itself, compressed."""

    packed: bytes
    size: int


class AtHost(msgspec.Struct, frozen=True, tag="host"):
    """A payload that only the host can read: it is asked for if it is needed."""


class Order(msgspec.Struct, frozen=True):
    """One run; the request has its code and its small values, in the sandbox's own form."""

    settings: Settings
    owner: str
    """The interpreter that asks."""
    session: str | None
    request: wire.Request
    data: list[Blob | Value | Given | AtHost | None]
    """How to come by the payloads of the request, by index; None: it is in the request."""
    source: bytes
    """A pickled DataSource, or nothing."""


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """What the run sent and what became of it: as hostile as it left the jail, to be read by the host."""

    answer: Answer


class Wanting(msgspec.Struct, frozen=True, tag="wanting"):
    """The run did not begin: the worker cannot read these payloads, by index."""

    payloads: list[int]
    fault: str
    """What is wrong with the place that it was told of; empty: the data is not there, or was never said to be."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """No code can be run on the worker."""

    why: str


Reply = Answered | Wanting | Failed

encode: Final = msgspec.msgpack.Encoder().encode
order_of: Final = msgspec.msgpack.Decoder(Order).decode
reply_of: Final = msgspec.msgpack.Decoder(Reply).decode
