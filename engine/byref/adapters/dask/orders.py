"""Messages between a host and the workers of a Dask cluster: one order for each run, and one reply.

A reply is read like the output of a run in the jail: within limits of bytes, texts and parts, and nothing in it is trusted.
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
"""Bytes of a reply beside the output of the run."""
_MOST_PAYLOADS: Final = 100_000
"""Payloads of one run."""
_MOST_MS: Final = 1e9


@dataclass(frozen=True, slots=True)
class DataSource:
    """The place from which workers read the engine's stored data: the engine's own `url`, `schema` and `blobs`.

    A text `$NAME` stands for the worker's environment variable of that name and is read there, so its value never passes the
    scheduler. `blobs` is a place (`s3://bucket/prefix`, a folder), or a function without arguments that makes the store; the
    function is pickled, and run on the worker. The worker finds other credentials as PostgreSQL's and the cloud's own tools do
    (`PGPASSFILE`, `AWS_…`, the machine's role).
    """

    url: str = field(repr=False)
    blobs: str | Callable[[], BlobStore] | None = field(default=None, repr=False)
    schema: str | None = None


class Settings(msgspec.Struct, frozen=True):
    """The settings of a worker's sandbox; interpreters with equal settings share one."""

    jail: Literal["full", "language-only"]
    sessions: int
    memory_bytes: int
    modules: tuple[str, ...] = ()


class Blob(msgspec.Struct, frozen=True, tag="blob"):
    """A stored payload, referred to by its blob's row and key."""

    row: int
    key: str
    store: str | None
    size: int


class Value(msgspec.Struct, frozen=True, tag="value"):
    """An exact value, referred to by its row and digest."""

    row: int
    digest: bytes


class Given(msgspec.Struct, frozen=True, tag="given"):
    """A payload sent along, compressed."""

    packed: bytes
    size: int


class AtHost(msgspec.Struct, frozen=True, tag="host"):
    """A payload that only the host can read; the worker asks for it if it needs it."""


class Order(msgspec.Struct, frozen=True):
    """One run; the request has its code and its small values, in the sandbox's own form."""

    settings: Settings
    owner: str
    """The id of the interpreter that sends the order."""
    session: str | None
    request: wire.Request
    data: list[Blob | Value | Given | AtHost | None]
    """For each payload of the request, where to find it; None: it is in the request itself."""
    source: bytes
    """A pickled DataSource, or empty."""
    line: str = ""
    """The id under which the host asks for the run's calls of functions; empty: it has none."""
    line_bytes: int = 0
    """Most bytes of a call's arguments."""


class Answered(msgspec.Struct, frozen=True, tag="answered", forbid_unknown_fields=True):
    """The output and the end of a run: untrusted, and checked by the host as if it came from the jail."""

    frames: bytes
    """The frames, as on the pipe of a run."""
    refused: wire.Refused | None
    ended: wire.Ended | None
    fault: Fault
    printed: bytes
    dump: bytes
    wall_ms: Annotated[float, msgspec.Meta(ge=0, le=_MOST_MS)]


class Wanting(msgspec.Struct, frozen=True, tag="wanting", forbid_unknown_fields=True):
    """The run did not begin: the worker cannot read the payloads with these indexes."""

    payloads: Annotated[list[int], msgspec.Meta(max_length=_MOST_PAYLOADS)]
    fault: str
    """What is wrong with the source; empty if the data is not there, or if there is no source."""


class Failed(msgspec.Struct, frozen=True, tag="failed", forbid_unknown_fields=True):
    """The worker cannot run code."""

    why: str


Reply = Answered | Wanting | Failed

encode: Final = msgspec.msgpack.Encoder().encode
order_of: Final = msgspec.msgpack.Decoder(Order).decode
_reply_of: Final = msgspec.msgpack.Decoder(Reply).decode


def most_bytes(request: wire.Request) -> int:
    """Return the greatest length of a reply to a request."""
    return reply_bytes(request.terms) + _BESIDE_BYTES


def reply_of(packed: object, request: wire.Request) -> Reply:
    """Decode a worker's reply.

    Raises:
        SandboxUnavailable: it is not a reply, or is too long.
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
    """Return a run's output as the reply to the host."""
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


def answer_of(reply: Answered, request: wire.Request) -> Answer:
    """Return a run's output in a reply, checked as if it came directly from the run."""
    answer = Answer(
        refused=reply.refused,
        ended=reply.ended,
        fault=reply.fault,
        printed=reply.printed,
        dump=reply.dump[: wire.MAX_DUMP_BYTES],
        wall_ms=reply.wall_ms,
    )
    answer.take(reader_of(request), reply.frames)
    return answer
