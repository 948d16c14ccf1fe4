"""What the processes of the sandbox say to each other, and how.

Host to zygote: one datagram per order (`Run`, `Fork`, `Kill`) on a sequenced-packet socket, descriptors beside it, so
that an order arrives whole or not at all. A run's order carries a call socket (for `Missing`, `Payload`, `Working`, `Started`,
`Refused`, `Ended`), the write end of its reply pipe, and its `Request` in a memfd.

Run to host: frames on the pipe, each a length and one typed record, msgpack. A run is hostile by then: the host takes
data of the expected types under hard caps, and nothing else.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from byref_sandbox.jail.jail import Layer, SandboxUnavailable

MAX_FRAMES: Final = 12_000
"""Frames of one reply; a variable, an output or the outcome is one each."""
MAX_TEXT_BYTES: Final = 16 << 20
"""Of one reply: names, sources, messages and what values look like. A text takes up to four times as much in memory."""
MAX_PATH_STEPS: Final = 64
MAX_DATAGRAM: Final = 64 << 10
MAX_ORDER_DESCRIPTORS: Final = 3
KILL_GRACE_SECONDS: Final = 0.5
"""Beyond its own timer a run has this long to say where it stopped."""
ASK_SECONDS: Final = 0.2
"""So long before it is killed a run that said nothing is asked where it is."""
ASK_SIGNAL: Final = signal.SIGUSR1
LOAD_BYTES_PER_SECOND: Final = 10_000_000
"""The least that is expected of decoding; what a throwaway run has to decode first prolongs its deadline."""
_SEND_SECONDS: Final = 30
"""A zygote takes what it is sent within this time, though it may be busy loading."""
PRINTED_BYTES: Final = 4_000
"""Of print output that is sent at once: a pipe takes so much whole or not at all, whatever signal comes meanwhile."""
PRINTED_COST: Final = 5
"""Bytes on the wire of one byte that is printed alone."""
_PRINTED: Final = 1 << 31
"""In place of a frame's length: print output follows, of the length in the other bits."""
_LENGTH: Final = struct.Struct("!I")
_DUMPS: Final = (b"Stac", b"Curr")
"""How what `faulthandler` writes begins: as the length of a frame it would be more than a gigabyte."""
MAX_DUMP_BYTES: Final = 16 << 10
_READ_BYTES: Final = 1 << 20

_Message = TypeVar("_Message", bound=msgspec.Struct)


class Broken(Exception):
    """The other side is gone, or what it sent is no message."""


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Descriptors: call socket, write end of the reply pipe, memfd of the Request.

    The root does not look into the request: what it once held, every run forked from it could find in its memory.
    """

    wall_seconds: float
    given: list[int]
    """Payloads, by index, that the host gives when asked."""
    plots: bool = False


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Starts a session zygote; descriptor: its own order socket."""

    session: int
    memory_bytes: int
    plots: bool = False
    """The root loads matplotlib first, so that this session and all later ones have it."""


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Ends a session zygote that no longer answers; descriptor: a call socket, closed once that is done."""

    session: int


Order = Run | Fork | Kill


class Payload(msgspec.Struct, frozen=True):
    """One value's bytes, under the name by which a session zygote keeps it; `inline` ones are small and never kept."""

    key: str
    content_type: str
    inline: bytes | None = None

    @property
    def entry(self) -> str:
        """What a session zygote keeps it under: the same bytes may be a text here and JSON there."""
        return f"{self.content_type}\0{self.key}"


class Variable(msgspec.Struct, frozen=True):
    """A name bound to a payload, or to what is at a path inside it (JSON array of keys and indexes)."""

    name: str
    payload: int
    path: bytes
    frame: bool = False
    """It is bound as a DataFrame."""
    is_value: bool = True
    """The code uses it as it is."""
    is_table: bool = False
    """The code makes a DataFrame of it."""
    parts: list[list[str]] = []
    """Paths below that a reply may name instead of sending what is there; empty: that is the value itself."""
    is_kept: bool = False
    """An earlier run left it: what changes in it is kept again."""


class GivenFile(msgspec.Struct, frozen=True):
    """A file that the code may read, and its payload."""

    name: str
    payload: int


class Terms(msgspec.Struct, frozen=True):
    """The limits of the run."""

    wall_seconds: float
    cpu_seconds: float
    memory_bytes: int
    stdout_bytes: int
    result_bytes: int
    recursion_depth: int


class Request(msgspec.Struct, frozen=True):
    """One run."""

    mode: Literal["code", "raw", "jq", "pick", "sql", "template"]
    """pick: a jq program of `plainjq`'s, over decoded data."""
    source: str
    terms: Terms
    payloads: list[Payload] = []
    variables: list[Variable] = []
    sources: list[str] = []
    """Definitions of earlier runs, to be run before the code, each after those it needs."""
    names: list[str] = []
    """Names there are, for messages."""
    files: list[GivenFile] = []
    """What earlier runs wrote."""
    others: int = 0
    """How many of them, at the end, earlier runs left: no data of tools."""
    keep: str = ""
    """The name under which the result of a query is kept."""
    plots: bool = False
    """The code may plot: matplotlib is loaded before it runs."""
    max_outputs: int = 0
    max_output_bytes: int = 0
    without: list[str] = []
    """Layers of the jail left out of this run, beside those of its zygote."""


class Missing(msgspec.Struct, frozen=True, tag="missing"):
    """The zygote needs these payloads, by index."""

    payloads: list[int]


class Give(msgspec.Struct, frozen=True, tag="give"):
    """A payload's bytes; descriptor: its memfd."""

    payload: int


class Take(msgspec.Struct, frozen=True):
    """Zygote to standby: the run it was forked for; descriptors: write end of the reply pipe, Request, payloads."""

    files: list[int]
    """The payloads, by index."""


class Working(msgspec.Struct, frozen=True, tag="working"):
    """The zygote makes tables of what it holds, and answers nobody meanwhile."""

    held_bytes: int
    """Of what it makes them of, about."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The run begins; the clock runs."""

    held_bytes: int
    """What the zygote keeps loaded, about."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The run could not start."""

    kind: str
    message: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The run's process is gone."""

    signal: int
    status: int
    timed_out: bool
    cpu_seconds: float


News = Missing | Working | Started | Refused | Ended


class Ready(msgspec.Struct, frozen=True):
    """The root zygote's greeting."""

    layers: list[Layer]
    threads: int
    started_ms: float


class Error(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="error"):
    """Why the code did not run to its end."""

    kind: str
    message: str
    line: int | None
    hint: str | None


class Kept(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="kept"):
    """A top-level name, as data."""

    name: str
    kind: Literal["json", "dataframe"]
    data: bytes
    was: str = ""
    """The name of the type that the data stands for, where nothing gives it back."""
    exact: bytes = b""
    """The value itself, for the next run alone to read, where JSON does not give it back."""
    shape: str = ""
    shares: str = ""
    """A name, its own or another, with which it has a mutable part in common."""


class Same(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="same"):
    """A top-level name that stands for what the run was given, unchanged."""

    name: str
    variable: str
    path: Annotated[list[str], msgspec.Meta(max_length=MAX_PATH_STEPS)]
    frame: bool = False
    """It is the DataFrame of that."""
    shape: str = ""
    shares: str = ""


class Defined(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="defined"):
    """A top-level name that is kept as its source."""

    name: str
    what: Literal["import", "function", "class"]
    source: str


class Lost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="lost"):
    """A top-level name that is no data, or too big."""

    name: str
    reason: str


class Image(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="image"):
    """A figure, drawn."""

    name: str
    png: bytes


class File(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="file"):
    """A file that the code wrote, or why it is not sent."""

    name: str
    data: bytes
    lost: str = ""


class Output(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="output"):
    """One output of a jq program, as compact JSON."""

    data: bytes


class Done(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="done"):
    """The last frame."""

    kind: Literal["none", "json", "dataframe", "series", "repr"] = "none"
    value: bytes = b"null"
    text: str | None = None
    """None: the value is text, or its JSON is its text."""
    stdout: str = ""
    stdout_dropped: int = 0
    truncated: bool = False
    cpu_ms: float = 0.0
    peak_bytes: int = 0
    exact: bytes = b""
    """The value itself, where JSON does not give it back and it may be kept."""
    shape: str = ""
    is_partial: bool = False
    """A table too big for JSON: `value` is null, `exact` is all of it."""
    figures_dropped: int = 0
    """Figures beyond the most that may be sent."""
    not_finite: bool = False
    """As of a JqOutcome."""


Frame = Error | Kept | Same | Defined | Lost | Image | File | Output | Done

_encoder: Final = msgspec.msgpack.Encoder()
_frames: Final = msgspec.msgpack.Decoder(Frame)
_fields: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_FIELDS: Final = range(0x90, 0xA0)
"""The first byte of a frame: an array of at most fifteen fields."""
_BYTES: Final = range(0xC4, 0xC7)
"""The first byte of a field that is bytes: they take in memory what they take on the wire."""


def pack(frame: Frame) -> bytearray:
    """The frame with its length before it; raises MemoryError."""
    packed = bytearray(_LENGTH.size)
    _encoder.encode_into(frame, packed, _LENGTH.size)  # where memory runs out, `encode` crashes: msgspec 0.22
    _LENGTH.pack_into(packed, 0, len(packed) - _LENGTH.size)
    return packed


def write_printed(descriptor: int, text: bytes) -> None:
    """Sends print output at once; raises OSError."""
    for start in range(0, len(text), PRINTED_BYTES):
        part = text[start : start + PRINTED_BYTES]
        os.write(descriptor, _LENGTH.pack(_PRINTED | len(part)) + part)


class FrameReader:
    """Takes a reply's bytes as they come and gives whole frames, under caps; `feed` raises Broken or OverflowError."""

    def __init__(self, max_bytes: int, max_text_bytes: int = MAX_TEXT_BYTES, max_printed_bytes: int = 0) -> None:
        self._max_bytes = max_bytes
        self._max_printed_bytes = max_printed_bytes
        self._text_room = max_text_bytes
        self._received = 0
        self._frames = 0
        self._buffer = bytearray()
        self.printed = bytearray()
        """What the code printed, as it came: a run that ends says it again in its last frame."""
        self._is_dumping = False
        self.dump = b""
        """Where the run was when it was asked, as `faulthandler` writes it; nothing comes behind it."""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes; OverflowError beyond the caps of bytes, text and frames, Broken on anything odd."""
        self._received += len(data)
        self._buffer += data
        if self._received > self._max_bytes:
            raise OverflowError
        found: list[Frame] = []
        start = 0
        if self._is_dumping:
            self.dump = (self.dump + self._buffer)[:MAX_DUMP_BYTES]
            self._buffer.clear()
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if 0 < length - _PRINTED <= PRINTED_BYTES:
                end = start + _LENGTH.size + length - _PRINTED
                if len(self._buffer) < end:
                    break
                self.printed += memoryview(self._buffer)[start + _LENGTH.size : end]
                if len(self.printed) > self._max_printed_bytes:
                    raise OverflowError
                start = end
                continue
            if length > self._max_bytes and self._buffer.startswith(_DUMPS, start):
                self._is_dumping, self.dump = True, bytes(self._buffer[start : start + MAX_DUMP_BYTES])
                self._buffer.clear()
                return found
            if length > self._max_bytes:
                raise OverflowError
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            self._frames += 1
            if self._frames > MAX_FRAMES:
                raise OverflowError
            try:
                found.append(self._frame(memoryview(self._buffer)[start + _LENGTH.size : end]))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Broken(f"no frame: {error}") from None
            start = end
        del self._buffer[:start]
        return found

    def _frame(self, data: memoryview) -> Frame:
        """The frame, once its texts are known to be short enough."""
        if not data or data[0] not in _FIELDS:
            raise Broken("no frame")
        fields = [memoryview(field) for field in _fields.decode(data)]
        self._text_room -= sum(len(field) for field in fields if field[0] not in _BYTES)
        if self._text_room < 0:
            raise OverflowError
        frame: Frame = _frames.decode(data)
        return frame


def read_some(descriptor: int) -> bytes:
    """What a readable pipe holds now, at most 1 MiB; empty at its end."""
    return os.read(descriptor, _READ_BYTES)


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Writes all of `data`; raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def granted() -> Iterator[None]:
    """What the system refuses the host, descriptors, memory or processes, is raised as SandboxUnavailable."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(f"the system refuses the host what a run needs: {error.strerror or error}") from error


def packet_sockets() -> tuple[socket.socket, socket.socket]:
    """The host's end, on which sending does not block for ever, and the zygote's; raises SandboxUnavailable."""
    with granted():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
    return ours, theirs


def send(channel: socket.socket, message: msgspec.Struct, descriptors: tuple[int, ...] = ()) -> None:
    """One datagram; raises Broken when the other side is gone or does not take it in time."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())] if descriptors else []
    try:
        channel.sendmsg([msgspec.msgpack.encode(message)], rights, socket.MSG_NOSIGNAL)
    except OSError as error:
        raise Broken(str(error)) from None


def receive(
    channel: socket.socket, decoder: msgspec.msgpack.Decoder[_Message], descriptors: int = 0
) -> tuple[_Message, list[int]]:
    """One datagram and its descriptors; raises Broken at the end or on anything that is no message of this type."""
    item = array.array("i").itemsize
    try:
        data, ancillary, flags, _ = channel.recvmsg(
            MAX_DATAGRAM, socket.CMSG_SPACE(descriptors * item) if descriptors else 0, socket.MSG_CMSG_CLOEXEC
        )
    except OSError as error:
        raise Broken(str(error)) from None
    received: list[int] = []
    for level, kind, rights in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.extend(array.array("i", rights[: len(rights) - len(rights) % item]))
    try:
        if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise Broken("end of stream" if not data else "a message too long")
        return decoder.decode(data), received
    except (Broken, msgspec.MsgspecError) as error:
        for descriptor in received:
            os.close(descriptor)
        raise Broken(str(error)) from None


def memory_file(chunks: Iterable[bytes | memoryview]) -> int:
    """A descriptor of an anonymous file that holds the chunks one behind the other; raises SandboxUnavailable."""
    with granted():
        descriptor = os.memfd_create("byref", os.MFD_CLOEXEC)
    try:
        for chunk in chunks:
            with granted():
                write_all(descriptor, chunk)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_memory_file(descriptor: int) -> bytes:
    """All bytes of an anonymous file, whatever its offset."""
    size = os.fstat(descriptor).st_size
    parts: list[bytes] = []
    offset = 0
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
