"""What a host and the workers of a Dask cluster say to each other: one order for each run, one reply.

A reply is read as a run's is that left the jail: under caps of bytes, texts and parts, and nothing in it is taken on trust.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec

from byref.errors import one_line
from byref.stores.protocol import BlobStore
from byref_sandbox import SandboxUnavailable, wire
from byref_sandbox.host.exchange import Answer, Fault, reader_of, reply_bytes

VERSION: Final = importlib.metadata.version("byref")
_BESIDE_BYTES: Final = 1 << 17
"""Of a reply, beside what the run sent."""
_MOST_PAYLOADS: Final = 100_000
"""Of one run."""
_MOST_MS: Final = 1e9


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


class Answered(msgspec.Struct, frozen=True, tag="answered", forbid_unknown_fields=True):
    """What the run sent and what became of it: as hostile as it left the jail, to be read by the host."""

    frames: bytes
    """As they are on the pipe of a run."""
    refused: wire.Refused | None
    ended: wire.Ended | None
    fault: Fault
    printed: bytes
    dump: bytes
    wall_ms: Annotated[float, msgspec.Meta(ge=0, le=_MOST_MS)]


class Wanting(msgspec.Struct, frozen=True, tag="wanting", forbid_unknown_fields=True):
    """The run did not begin: the worker cannot read these payloads, by index."""

    payloads: Annotated[list[int], msgspec.Meta(max_length=_MOST_PAYLOADS)]
    fault: str
    """What is wrong with the place that it was told of; empty: the data is not there, or was never said to be."""


class Failed(msgspec.Struct, frozen=True, tag="failed", forbid_unknown_fields=True):
    """No code can be run on the worker."""

    why: str


Reply = Answered | Wanting | Failed

encode: Final = msgspec.msgpack.Encoder().encode
order_of: Final = msgspec.msgpack.Decoder(Order).decode
_reply_of: Final = msgspec.msgpack.Decoder(Reply).decode


def most_bytes(request: wire.Request) -> int:
    """Return the most that a reply to a request has."""
    return reply_bytes(request.terms) + _BESIDE_BYTES


def reply_of(packed: object, request: wire.Request) -> Reply:
    """Return what a worker says.

    Raises:
        SandboxUnavailable: it is no reply, or longer than one can be.
    """
    if type(packed) is not bytes:
        raise SandboxUnavailable("a worker's reply could not be read: expected bytes")
    if len(packed) > most_bytes(request):
        raise SandboxUnavailable(f"a worker's reply has {len(packed):,} bytes, at most {most_bytes(request):,} can be")
    try:
        reply: Reply = _reply_of(packed)
        return reply
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SandboxUnavailable(f"a worker's reply could not be read: {one_line(error)}") from None


def answered(answer: Answer) -> Answered:
    """Return what a run sent, to be told to the host."""
    frames = answer.frames if answer.done is None else [*answer.frames, answer.done]
    return Answered(
        b"".join(map(wire.pack, frames)),
        answer.refused,
        answer.ended,
        answer.fault,
        answer.printed,
        answer.dump,
        min(answer.wall_ms, _MOST_MS),
    )


def answer_of(told: Answered, request: wire.Request) -> Answer:
    """Return what a run sent, taken in as if it had come from the run itself."""
    answer = Answer(
        refused=told.refused,
        ended=told.ended,
        fault=told.fault,
        printed=told.printed,
        dump=told.dump[: wire.MAX_DUMP_BYTES],
        wall_ms=told.wall_ms,
    )
    answer.take(reader_of(request.terms), told.frames)
    return answer
