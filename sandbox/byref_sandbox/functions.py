"""Functions of the host that a run may call: what both sides know of them, and what they say to each other.

Such a run has one descriptor beside its reply: a stream socket. On it the run sends `Call` and `Waiting`, and the host `Returned` and
`Raised`. A message is its length in four bytes, big-endian, and one typed record in msgpack. A run is hostile, so the host takes
nothing but messages of these types, under hard caps; arguments stay bytes until something checks them as JSON.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

MAX_CALLS_AT_ONCE: Final = 10_000
"""Calls of a run that nobody has answered yet."""
MAX_NAME_CHARS: Final = 200
"""Characters of a function's name in a call."""
MAX_MESSAGE_CHARS: Final = 4_000
"""Characters of an error's text that reach the code."""
FRAMING_BYTES: Final = 4_096
"""Bytes of a message in addition to its arguments or its data."""
MAX_DATA_BYTES: Final = (1 << 32) - FRAMING_BYTES
"""Bytes of a result: the length of a message has four bytes."""
LONG_BYTES: Final = 1 << 20
"""A longer message from the host is not copied on its way."""
_LENGTH: Final = struct.Struct("!I")

ParameterKind = Literal["positional", "either", "keyword", "further"]
"""How an argument may be given: by place only, by place or name, by name only; `further`: under any other name."""
ErrorKind = Literal[
    "FunctionError",
    "TypeError",
    "ValueError",
    "KeyError",
    "IndexError",
    "LookupError",
    "PermissionError",
    "FileNotFoundError",
    "TimeoutError",
    "ConnectionError",
    "NotImplementedError",
    "RuntimeError",
]
"""The exception that a failed call raises in the code."""


class Parameter(msgspec.Struct, frozen=True, array_like=True):
    """A parameter of a function."""

    name: str
    kind: ParameterKind = "either"
    is_required: bool = True
    default: list[Any] = []
    """What it is if it is not given, where that is known: one value of JSON."""


class Stub(msgspec.Struct, frozen=True):
    """A function as code sees it."""

    name: str
    parameters: list[Parameter] = []
    text: str = ""
    """What `help(name)` shows: its signature and what it does."""


class Call(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="call"):
    """Run to host: the code has called a function."""

    number: Annotated[int, msgspec.Meta(ge=0)]
    """That of the call within the run, from 0 on without a gap."""
    function: Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
    arguments: bytes
    """A JSON object: arguments by the names of their parameters."""
    is_awaited: bool
    """The code goes on meanwhile; else it waits for the result."""
    unanswered: Annotated[int, msgspec.Meta(ge=0)] = 0
    """As in `Waiting`, with this call."""


class Waiting(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="waiting"):
    """Run to host: the code cannot go on before one of its calls returns."""

    unanswered: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Calls whose answers have not reached the run: if the host has fewer, one is on its way, and the code goes on after all."""


class Returned(msgspec.Struct, frozen=True, array_like=True, tag="returned"):
    """Host to run: a call's result."""

    number: int
    content_type: str
    data: bytes


class Received(msgspec.Struct, frozen=True, array_like=True, tag="returned"):
    """A long `Returned` as the run gets it."""

    number: int
    content_type: str
    data: memoryview


class Raised(msgspec.Struct, frozen=True, array_like=True, tag="raised"):
    """Host to run: a call has failed."""

    number: int
    kind: ErrorKind
    message: str


class Beginning(NamedTuple):
    """The clock of a run, and its random numbers: a run that is repeated begins with those of the first."""

    seconds: float
    """The time at which it begins, in seconds since 1970."""
    seed: bytes
    """What its random numbers come from."""


Answer = Returned | Raised
_Message = TypeVar("_Message")


class Callee(Protocol):
    """Answers the calls of one run. All methods are called by the thread that waits for the run.

    What a method raises ends the run, and passes on to whoever asked for it.
    """

    @property
    def stubs(self) -> Sequence[Stub]:
        """The functions that there are."""

    @property
    def beginning(self) -> Beginning | None:
        """The run's clock and random numbers; None: the present time, and others in each run. It is asked before the run."""

    def begin(self, calls: Sequence[Call]) -> None:
        """Take calls, which are hostile: names, numbers and arguments may be anything. It must not wait for their results."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while `answers` would return something."""

    def answers(self) -> Sequence[Answer]:
        """Return answers that are there and have not been returned yet.

        While much of what was returned has not been sent, because the run does not read it, this is not called.
        """

    def patience(self) -> float:
        """Return the seconds after which `answers` is to be called even if nothing happens."""

    def waits_for_ever(self) -> bool:
        """Tell whether none of the calls under way will be answered in this run, which waits for them. Then the run is ended."""


class Malformed(ValueError):
    """What came is no message."""


class Messages(Generic[_Message]):
    """Reads messages of one type out of a stream, each of at most `max_bytes`."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[_Message], max_bytes: int) -> None:
        self._decoder = decoder
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[_Message]:
        """Return the messages that `data` completes; raise Malformed."""
        self._buffer += data
        found: list[_Message] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > self._max_bytes:
                raise Malformed(f"a message of {length:,} bytes; at most {self._max_bytes:,} may be")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            try:
                with memoryview(self._buffer) as view, view[start + _LENGTH.size : end] as message:
                    if length > FRAMING_BYTES:
                        _check_texts(message)
                    found.append(self._decoder.decode(message))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Malformed(str(error)) from None
            start = end
        del self._buffer[:start]
        return found

    @property
    def awaited(self) -> int:
        """The bytes of the message that has begun, as far as its length has come; else 0."""
        return _LENGTH.unpack_from(self._buffer)[0] if len(self._buffer) >= _LENGTH.size else 0

    def let_go(self) -> bytes:
        """Return what has come of the message that has begun, without its length; it is not read any more."""
        come = bytes(self._buffer[_LENGTH.size :])
        self._buffer.clear()
        return come


def _check_texts(message: memoryview) -> None:
    """Raise Malformed of a message that is long without bytes that are long: as `str`, a text may take four times its bytes."""
    if message[0] not in _ARRAYS:  # a list of millions would take memory before it is refused
        raise Malformed("a message that is no array of a few fields")
    if (
        sum(len(memoryview(field)) for field in _FIELDS.decode(message) if memoryview(field)[0] not in _BYTES)
        > FRAMING_BYTES
    ):
        raise Malformed("a message whose texts are too long")


def from_run(max_bytes: int) -> Messages[Call | Waiting]:
    """Return the host's reader: a call's arguments have at most `max_bytes`."""
    return Messages(msgspec.msgpack.Decoder(Call | Waiting), max_bytes + FRAMING_BYTES)


def from_host() -> Messages[Answer]:
    """Return a reader of answers."""
    return Messages(msgspec.msgpack.Decoder(Answer), (1 << 32) - 1)


class Answers:
    """The run's reader, of a descriptor. A long message is read to the place where its data is used, and is not copied."""

    def __init__(self) -> None:
        self._messages = from_host()
        self._long: memoryview | None = None
        self._come = 0
        """Bytes that have come of the long message."""

    def read(self, descriptor: int) -> Sequence[Answer | Received]:
        """Return the messages that are completed by what is there to be read; raise EOFError at the end of the stream."""
        if self._long is not None:
            return self._read_on(self._long, descriptor)
        part = os.read(descriptor, LONG_BYTES)
        if not part:
            raise EOFError
        found = self._messages.feed(part)
        if (length := self._messages.awaited) > LONG_BYTES:
            self._long = memoryview(bytearray(length))  # before the message is let go: there may be no memory for it
            come = self._messages.let_go()
            self._long[: len(come)] = come
            self._come = len(come)
        return found

    def _read_on(self, long: memoryview, descriptor: int) -> Sequence[Received]:
        came = os.readv(descriptor, [long[self._come :]])
        if not came:
            raise EOFError
        self._come += came
        if self._come < len(long):
            return ()
        self._long = None
        return (_RECEIVED.decode(long),)


def pieces(message: Answer) -> tuple[bytes | bytearray, ...]:
    """Return what a message is sent as, one after the other; long data is not copied. Raise MemoryError."""
    if isinstance(message, Raised) or len(message.data) <= LONG_BYTES:
        return (pack(message),)
    size = len(message.data)
    head = pack(Returned(message.number, message.content_type, b""))
    head[-2:] = bytes((_BYTES[-1],)) + _LENGTH.pack(size)  # in place of data without bytes
    _LENGTH.pack_into(head, 0, len(head) - _LENGTH.size + size)
    return head, message.data


def pack(message: Call | Waiting | Answer) -> bytearray:
    """Return a message with its length before it; raise MemoryError."""
    packed = bytearray(_LENGTH.size)
    _ENCODER.encode_into(message, packed, _LENGTH.size)  # `encode` ends the process where memory runs out: msgspec 0.22
    _LENGTH.pack_into(packed, 0, len(packed) - _LENGTH.size)
    return packed


_ENCODER: Final = msgspec.msgpack.Encoder()
_FIELDS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_ARRAYS: Final = range(0x90, 0xA0)
"""The first bytes of arrays of at most 15 fields in msgpack, as of all messages."""
_BYTES: Final = range(0xC4, 0xC7)
"""The first byte of a field that is bytes, in msgpack: of those whose length has one, two or four bytes."""
_RECEIVED: Final = msgspec.msgpack.Decoder(Received)
