"""What the processes of the sandbox say to each other, and how.

Host to zygote: one datagram per order (`Run`, `Fork`, `Kill`) on a sequenced-packet socket, with descriptors beside it. Such a socket
keeps the bounds of messages, so an order arrives whole or not at all. The order of a run carries three descriptors: a socket for this
call alone, the write end of the run's reply pipe, and a memfd with the `Request`. Where the run may call functions of the host, there
is a fourth: the run's end of the stream on which it does (`byref_sandbox.functions`).

Zygote to host, on the call's socket: `Missing` (the host answers with `Give`), `Working`, `Started`, `Refused`, `Ended`. Zygotes are
trusted, but a mistake of one side must not hang the other: each receives one typed message of bounded size, or raises `Broken`.

Run to host: frames on the reply pipe. Each is a length in four bytes, big-endian, and one typed record in msgpack. A run is hostile by
then, so the host takes data of the expected types under hard caps and nothing else; nothing in a frame is executed, unpickled or
used as a path. Two other things may stand between frames: print output (`write_printed`), and what `faulthandler` writes in a
signal handler of a run that is about to be killed, which can keep to no format.
"""

from __future__ import annotations

import array
import mmap
import os
import signal
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from byref_sandbox.functions import Stub
from byref_sandbox.jail.jail import Layer, SandboxUnavailable

MAX_FRAMES: Final = 12_000
"""Frames of one reply; each variable, each output and the outcome is one. Bounds what a flood of tiny frames costs the host."""
MAX_TEXT_BYTES: Final = 16 << 20
"""Bytes of text in one reply: names, sources, messages and what values look like. As Python's `str`, one character of four bytes makes
each other character of its text take four bytes too."""
ITEM_BYTES: Final = 16
"""Bytes of text that each value in an array counts as, beside its own: even an empty one takes memory."""
MAX_DOCUMENT_FRAMES: Final = 5_000
"""Tables, texts and what is left out, in the reply about a document."""
MAX_PATH_STEPS: Final = 64
"""Steps of a path inside what a run was given, which a reply may name."""
MAX_DATAGRAM: Final = 64 << 10
"""Bytes of one message between host and zygote. What may be larger goes beside it, in a memfd."""
MAX_ORDER_DESCRIPTORS: Final = 4
CALLS: Final = -1
"""The number of that stream among the payloads, which are numbered from 0 on."""
KILL_GRACE_SECONDS: Final = 0.5
"""After its own timer a run has so long to say where it stopped; then its zygote kills it."""
ASK_SECONDS: Final = 0.2
"""So long before the kill a run that has said nothing is asked where it is."""
ASK_SIGNAL: Final = signal.SIGUSR1
"""Has `faulthandler` in the run write the current line into the reply, even where compiled code never returns to Python."""
LOAD_BYTES_PER_SECOND: Final = 10_000_000
"""The least that is expected of decoding. A run that decodes its payloads itself gets so much more time."""
READ_BYTES_PER_SECOND: Final = 1_500_000
"""The least that is expected of a text that is read as tables: it becomes records of many times its size. Of short cells, a slow
machine reads 3 MB in a second."""
_MAPPED_BYTES: Final = 1 << 20
"""From here on a payload is mapped rather than read."""
_SEND_SECONDS: Final = 30
"""A zygote must take a message within this time; it may be busy loading data."""
PRINTED_BYTES: Final = 4_000
"""Print output that is written at once. A pipe takes up to 4,096 bytes whole or not at all, so a kill cannot cut it."""
PRINTED_COST: Final = 5
"""Bytes that the smallest piece of print output takes on the wire: four of the length, one of the text."""
_PRINTED: Final = 1 << 31
"""This bit in place of a frame's length says that print output follows; the other bits are its length."""
_LENGTH: Final = struct.Struct("!I")
_DUMPS: Final = (b"Stac", b"Curr")
"""How the output of `faulthandler` begins. Read as a length it would be more than a gigabyte, beyond the cap of any frame."""
MAX_DUMP_BYTES: Final = 16 << 10
"""Bytes of that output which are looked at."""
_READ_BYTES: Final = 1 << 20

_Message = TypeVar("_Message", bound=msgspec.Struct)


class Broken(Exception):
    """The other side is gone, or what it sent is no message."""


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Begin a run. Descriptors: the call's socket, the write end of the reply pipe, a memfd of the Request, and, where the run may
    call functions, the run's end of the stream for that.

    Beside the request and not in it stands what the root must know. The root does not read the request: what it once held in its
    memory, each run that is forked from it later could find there.
    """

    wall_seconds: float
    given: list[int]
    """Payloads, by index, that the host gives when it is asked: a warm session may have them already."""
    plots: bool = False
    libraries: list[str] = []
    """Libraries that the code needs (`code.libraries`): a zygote that lacks one loads it first."""


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Start a session zygote. Descriptor: its end of its own order socket."""

    session: int
    memory_bytes: int
    plots: bool = False
    """Load matplotlib in the root first, so that this session and all later ones have it."""
    libraries: list[str] = []
    """The same with these libraries."""
    is_branch: bool = False
    """Fork no session but a branch: a second root, which has libraries beside what the root has. It takes the same orders."""


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a session zygote that no longer answers. Descriptor: a socket that is closed once that is done."""

    session: int


Order = Run | Fork | Kill


class Payload(msgspec.Struct, frozen=True):
    """One value's bytes, by the key under which a session zygote stores them. `inline` bytes are small and are not stored."""

    key: str
    content_type: str
    inline: bytes | None = None

    @property
    def entry(self) -> str:
        """The name of its entry in the store: the same bytes may be a text for one variable and JSON for another."""
        return f"{self.content_type}\0{self.key}"


class Variable(msgspec.Struct, frozen=True):
    """A name that is bound to a payload, or to what is at `path` inside it (a JSON array of keys and indexes)."""

    name: str
    payload: int
    path: bytes
    frame: bool = False
    """Bind a DataFrame of it."""
    is_value: bool = True
    """The code uses the value itself."""
    is_table: bool = False
    """The code makes a DataFrame of it: `df(name)`."""
    is_constructed: bool = False
    """The code makes one of it as pandas does: `pd.DataFrame(name)`, and does not use the value otherwise."""
    parts: list[list[str]] = []
    """Paths inside the value that a reply may name (`Same`) instead of sending what is there. The empty path is the value itself."""
    is_kept: bool = False
    """An earlier run left it: it is one of the session's names, as if the code had assigned it."""
    is_hidden: bool = False
    """Only names of the session refer to it: the code does not find it by this name."""
    is_unnamed: bool = False
    """The code may compute its name: what it changes in place there, its text does not tell."""


class GivenFile(msgspec.Struct, frozen=True):
    """A file that the code may read: its name, and its payload by index."""

    name: str
    payload: int


class Snapshot(msgspec.Struct, frozen=True):
    """What one run has written of the session's names."""

    contents: bytes
    """A table of contents (`byref_sandbox.contents`)."""
    names: list[str] = []
    """Of a further snapshot: only these are taken of it."""


class State(msgspec.Struct, frozen=True):
    """The session's names as earlier runs wrote them. Only a run reads them, inside the jail."""

    snapshots: list[Snapshot]
    """The first is whole; each further one was written by a run that began before the one before it had ended."""
    blobs: dict[bytes, int] = {}
    """Payloads, by index, of the streams and blobs that this run needs, by digest."""
    missing: dict[bytes, str] = {}
    """Why others are not there."""
    wanted: list[str] | None = None
    """Names that are read; None: all."""
    without: list[str] = []
    """Names that stand for something else by now."""
    shown: dict[str, bytes] = {}
    """Digests of the data that the host has of names (`Kept`)."""
    is_foreign: bool = False
    """Another version of Python or of a library wrote it: only definitions are taken of it."""
    last: bytes = b""
    """The last value of the runs before, if the code may use it."""


class Terms(msgspec.Struct, frozen=True):
    """The limits of the run."""

    wall_seconds: float
    cpu_seconds: float
    memory_bytes: int
    stdout_bytes: int
    result_bytes: int
    recursion_depth: int
    wait_seconds: float = 0.0
    """How long the run may wait for functions of the host, in addition."""


class Request(msgspec.Struct, frozen=True):
    """One run."""

    mode: Literal["code", "raw", "jq", "pick", "sql", "template", "tables"]
    """`pick` is a jq program that `plainjq` understands, over decoded data; `raw` is plain CPython, for attacks on the jail in tests."""
    source: str
    terms: Terms
    payloads: list[Payload] = []
    variables: list[Variable] = []
    state: State | None = None
    """The session's names; None where there are none, or are to be none."""
    keeps: bool = True
    """The reply says what names the code leaves. False where it binds none, and reads none of the session's."""
    changed: list[str] = []
    """Variables that the code's text changes in place; of their tables the name begins with `contents.FRAME`."""
    is_reading: bool = False
    """The code's text changes nothing in place, for certain."""
    reads: list[str] = []
    """Names of the session that the code reads, if its text binds no name, and changes nothing as long as these stand for plain data."""
    names: list[str] = []
    """All names that exist in the session, for messages."""
    files: list[GivenFile] = []
    """Files that earlier runs wrote."""
    others: int = 0
    """How many of `names`, at its end, earlier runs left; those before them are data of tools."""
    not_loaded: list[str] = []
    """Those of `names` that are variables, but that this run is not given: code that lists names finds them."""
    keep: str = ""
    """The name under which the result of a query is kept."""
    plots: bool = False
    """The code may plot: matplotlib is loaded before it runs."""
    libraries: list[str] = []
    """Libraries that the code needs: they are loaded before it runs."""
    functions: list[Stub] = []
    """Functions of the host that the code may call."""
    began_at: float | None = None
    """The time at which the code's clock begins; None: the present time."""
    seed: bytes | None = None
    """What the code's random numbers come from; None: others in each run."""
    max_outputs: int = 0
    max_output_bytes: int = 0
    without: list[str] = []
    """Layers of the jail to leave out of this run, beside those that its zygote lacks; for tests that try one layer alone."""


class Missing(msgspec.Struct, frozen=True, tag="missing"):
    """The zygote needs these payloads, by index, and waits for a `Give` of each."""

    payloads: list[int]


class Give(msgspec.Struct, frozen=True, tag="give"):
    """A payload's bytes, by index. Descriptor: a memfd that holds them."""

    payload: int
    seconds: float
    """The most that decoding it may take."""


class Take(msgspec.Struct, frozen=True):
    """Zygote to standby: do this run. Descriptors: the write end of the reply pipe, a memfd of the Request, one of each payload."""

    files: list[int]
    """Which payloads these are, by index."""


class Working(msgspec.Struct, frozen=True, tag="working"):
    """The zygote makes DataFrames of values that it holds, and answers nobody meanwhile: the host waits longer before it gives it up."""

    held_bytes: int
    """About how many bytes of memory those values take."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The run begins, and its clock. From here on the host never repeats it."""

    held_bytes: int
    """About how many bytes of memory all that the zygote has loaded takes."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The run could not begin; as `Failure`."""

    kind: str
    message: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The run's process has ended, as the kernel says."""

    signal: int
    """The signal that killed it; 0 if it exited."""
    status: int
    """Its exit status; 0 if it was killed."""
    timed_out: bool
    """Its zygote killed it at its deadline."""
    cpu_seconds: float
    """What it used, by the kernel's count: the run's own report may lie."""


News = Missing | Working | Started | Refused | Ended


class Ready(msgspec.Struct, frozen=True):
    """The root zygote's first message: everything is imported, and orders are accepted."""

    layers: list[Layer]
    threads: int
    started_ms: float


# Frames, run to host. `forbid_unknown_fields` bounds their length as well; `array_like` saves the names of fields on the wire. What a
# run may say in each field is checked further in `host.reading`.


class Error(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="error"):
    """Why the code did not run to its end."""

    kind: str
    message: str
    line: int | None
    hint: str | None


class Kept(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="kept"):
    """A top-level name that is data, new or changed: its form for the host and for tools."""

    name: str
    kind: Literal["json", "dataframe"]
    data: bytes
    was: str = ""
    """The name of the value's type, where the next run does not get that type back."""
    exact: bytes = b""
    """A table with its types. Only another run reads it, inside the jail: a run wrote it."""
    shape: str = ""
    """What it is, in words, where JSON does not tell."""
    digest: bytes = b""
    """Of the data: the next run sends it again only if that has changed."""


class Same(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="same"):
    """A top-level name whose value is what the run was given, unchanged: it is named instead of sent."""

    name: str
    variable: str
    path: Annotated[list[str], msgspec.Meta(max_length=MAX_PATH_STEPS)]
    frame: bool = False
    """Its value is the DataFrame of that, not that itself."""
    shape: str = ""


class Named(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="named"):
    """A top-level name, new or changed, that only code can use: a function, a class, an object that is no data."""

    name: str
    what: str


class Written(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="written"):
    """The session's names after the run, for the next one."""

    contents: bytes
    """A table of contents (`byref_sandbox.contents`)."""
    touched: dict[str, bytes] = {}
    """Names without data, also of settings, that are written otherwise than they were, with a digest of that."""


class Shown(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="shown"):
    """The last value, which the next run finds as `_`."""

    last: bytes
    """As `contents.Last`."""


class Blob(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="blob"):
    """A stream or blob of the names that the run was not given."""

    data: bytes


class Missed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="missed"):
    """A name of the session that could not be read, or not with its types."""

    name: str
    reason: str


class Lost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="lost"):
    """A top-level name that the next run will not have, or the host's form of it: it cannot be kept, or is too big."""

    name: str
    reason: str


class Image(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="image"):
    """A figure, drawn to a PNG image; the host checks every part of it."""

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


class Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A column of a table in a document."""

    name: str
    type: str
    nulls: int
    title: str
    """Its name as it stands in the document; empty if `name` is the same."""


class Aside(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Cells that stand before or after the records of a table."""

    place: str
    cells: list[str]


class Table(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="table"):
    """A table of a document."""

    name: str
    place: str
    columns: list[Column]
    rows: int
    records: bytes
    """A JSON array with an object per row, each on a line of its own."""
    before: list[Aside]
    after: list[Aside]
    notes: list[str]
    has_names: bool = True
    """The names of the columns stand in the document."""
    source: str = ""
    """The member of an archive that the document is; empty outside of archives."""


class Member(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="member"):
    """A text in an archive, or the value of a YAML document that is no table, as JSON."""

    name: str
    content_type: str
    data: bytes
    source: str = ""


class LeftOut(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="left out"):
    """A part of a document that is no table, or cannot be read."""

    place: str
    reason: str
    source: str = ""


Doubt = Literal["not finite", "rounded", "maybe rounded"]


class Done(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="done"):
    """The last frame: the value of the last expression, and what the run cost. A reply without it is a run that died."""

    kind: Literal["none", "json", "dataframe", "series", "repr"] = "none"
    value: bytes = b"null"
    text: str | None = None
    """The value as a model reads it best; None if that is the text that it is, or its JSON."""
    stdout: str = ""
    stdout_dropped: int = 0
    truncated: bool = False
    cpu_ms: float = 0.0
    peak_bytes: int = 0
    exact: bytes = b""
    """The value with its types, where JSON does not give it back and it may be stored."""
    shape: str = ""
    is_partial: bool = False
    """A table too big for JSON: `value` is null, `exact` is all of it."""
    figures_dropped: int = 0
    """Figures beyond the most that may be sent."""
    doubts: tuple[Doubt, ...] = ()
    """What is doubtful of the numbers of a jq program: `JqOutcome.not_finite` and `rounded`."""
    stderr: str = ""
    """Warnings, and what else was written to `sys.stderr`."""


_OfCode = Error | Kept | Same | Named | Written | Shown | Blob | Missed | Lost | Image | File | Output | Done
_OfDocument = Error | Table | Member | LeftOut | Done
Frame = _OfCode | _OfDocument

_encoder: Final = msgspec.msgpack.Encoder()
_frames: Final = msgspec.msgpack.Decoder(_OfCode)
_document_frames: Final = msgspec.msgpack.Decoder(_OfDocument)
_fields: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_FIELDS: Final = range(0x90, 0xA0)
"""The first byte of a frame in msgpack: an array of at most fifteen fields."""
_BYTES: Final = range(0xC4, 0xC7)
"""The first byte of a field that is bytes. Bytes take as much memory as they take on the wire, so they do not count as text."""
_LONG_ARRAYS: Final = {0xDC: 2, 0xDD: 4}
"""The first byte of an array of more than fifteen values, and how many bytes of its length follow."""
_LEVELS: Final = 3
"""Arrays within one another in a field of what is said of a document: the cells of each row beside a table. Other arrays are short:
their types bound them."""


def pack(frame: Frame) -> bytearray:
    """Return the frame with its length before it; raise MemoryError."""
    # Not `encode`: where memory runs out in it, msgspec 0.22 ends the process. This is the run that has just run out of it.
    packed = bytearray(_LENGTH.size)
    _encoder.encode_into(frame, packed, _LENGTH.size)
    _LENGTH.pack_into(packed, 0, len(packed) - _LENGTH.size)
    return packed


def write_printed(descriptor: int, text: bytes) -> None:
    """Send print output at once, so that the host has it if the run is killed later; raise OSError."""
    for start in range(0, len(text), PRINTED_BYTES):
        part = text[start : start + PRINTED_BYTES]
        os.write(descriptor, _LENGTH.pack(_PRINTED | len(part)) + part)


def text_bytes(frame: Frame) -> int:
    """Return how many bytes of text a frame counts as in a reply."""
    without = {name: b"" for name in ("records", "data") if isinstance(getattr(frame, name, None), bytes)}
    return _text_bytes(_encoder.encode(msgspec.structs.replace(frame, **without)), MAX_TEXT_BYTES, _LEVELS)


def _text_bytes(data: bytes | memoryview, most: int, levels: int) -> int:
    """Measure a packed frame, and stop beyond `most`: the arrays in it are not decoded before they are counted."""
    level = _fields.decode(data)
    found = sum(len(part) for field in level if (part := memoryview(field))[0] not in _BYTES)
    for depth in range(1, levels + 1):
        inner: list[msgspec.Raw] = []
        for value in level:
            length = _length_of(value)
            found += ITEM_BYTES * length
            if found > most:
                return found
            if length and depth < levels:
                inner += filter(_length_of, _fields.decode(value))
        level = inner
    return found


def _length_of(value: msgspec.Raw) -> int:
    """Return how many values a packed array says that it has; 0 of anything else."""
    part = memoryview(value)
    if (first := part[0]) in _FIELDS:
        return first - _FIELDS.start
    return int.from_bytes(part[1 : 1 + _LONG_ARRAYS[first]], "big") if first in _LONG_ARRAYS else 0


class FrameReader:
    """Takes the bytes of one reply as they come and returns whole frames, under caps.

    The bytes are hostile. Each cap is checked before memory is spent on what it bounds: all bytes of the reply, the length of a frame,
    the number of frames, the bytes of text in them, the values in arrays of tables, the print output. One reader is for one reply and one thread.
    """

    def __init__(
        self,
        max_bytes: int,
        max_text_bytes: int = MAX_TEXT_BYTES,
        max_printed_bytes: int = 0,
        *,
        of_document: bool = False,
    ) -> None:
        """`of_document`: the reply is about a document. Only such a one has tables, and it has nothing of what code leaves."""
        self._decoder = _document_frames if of_document else _frames
        self._levels = _LEVELS if of_document else 0
        self._max_bytes = max_bytes
        self._max_printed_bytes = max_printed_bytes
        self._text_room = max_text_bytes
        self._received = 0
        self._frames = 0
        self._buffer = bytearray()
        self.printed = bytearray()
        """What the code printed, as it came. A run that ends repeats all of it in its last frame, which then holds."""
        self._is_dumping = False
        self.dump = b""
        """Where the run was when it was asked, as `faulthandler` writes it: the last thing in a reply."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes. Raise OverflowError beyond a cap, Broken of bytes that are no frame."""
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
            # Print output: four bytes that no frame's length can be, since the first bit is set.
            if 0 < length - _PRINTED <= PRINTED_BYTES:
                end = start + _LENGTH.size + length - _PRINTED
                if len(self._buffer) < end:
                    break
                self.printed += memoryview(self._buffer)[start + _LENGTH.size : end]
                if len(self.printed) > self._max_printed_bytes:
                    raise OverflowError
                start = end
                continue
            # The signal handler wrote without a length. A frame may not be so long, so this is no frame that looks like it. Whatever
            # comes behind it is part of it: the run is being killed.
            if length > self._max_bytes and self._buffer.startswith(_DUMPS, start):
                self._is_dumping, self.dump = True, bytes(self._buffer[start : start + MAX_DUMP_BYTES])
                self._buffer.clear()
                return found
            if length > self._max_bytes:  # refused by its length, before any of it is waited for
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
        """Decode a frame, but measure its texts first: a text of one byte a character may take four in memory."""
        if not data or data[0] not in _FIELDS:
            raise Broken("no frame")
        self._text_room -= _text_bytes(data, self._text_room, self._levels)
        if self._text_room < 0:
            raise OverflowError
        frame: Frame = self._decoder.decode(data)
        return frame


def read_some(descriptor: int) -> bytes:
    """Return what a readable pipe holds now, at most 1 MiB; nothing at its end."""
    return os.read(descriptor, _READ_BYTES)


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of `data`; raise OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def granted() -> Iterator[None]:
    """Raise SandboxUnavailable where the system refuses the host descriptors, memory or processes."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(f"the system refuses the host what a run needs: {error.strerror or error}") from error


def packet_sockets() -> tuple[socket.socket, socket.socket]:
    """Return the host's end and the zygote's; raise SandboxUnavailable.

    Sending on the host's end fails after some seconds: a zygote that hangs must not hang its host.
    """
    with granted():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
    return ours, theirs


def send(channel: socket.socket, message: msgspec.Struct, descriptors: tuple[int, ...] = ()) -> None:
    """Send one datagram with descriptors beside it; raise Broken if the other side is gone or does not take it in time.

    The caller still owns the descriptors and closes them.
    """
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())] if descriptors else []
    try:
        channel.sendmsg([msgspec.msgpack.encode(message)], rights, socket.MSG_NOSIGNAL)
    except OSError as error:
        raise Broken(str(error)) from None


def receive(
    channel: socket.socket, decoder: msgspec.msgpack.Decoder[_Message], descriptors: int = 0
) -> tuple[_Message, list[int]]:
    """Return one datagram's message and its descriptors, which the caller now owns.

    At most `descriptors` are expected. Raise Broken at the end of the stream and of anything that is no message of this type.
    """
    item = array.array("i").itemsize
    try:
        data, ancillary, flags, _ = channel.recvmsg(
            MAX_DATAGRAM, socket.CMSG_SPACE(descriptors * item) if descriptors else 0, socket.MSG_CMSG_CLOEXEC
        )
    except OSError as error:
        raise Broken(str(error)) from None
    # The kernel has opened the descriptors in this process already. From here on each is returned or closed, or they would pile up.
    received: list[int] = []
    for level, kind, rights in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.extend(array.array("i", rights[: len(rights) - len(rights) % item]))
    try:
        # A message that was cut, or whose descriptors were, is refused whole: half an order could mean something else.
        if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise Broken("end of stream" if not data else "a message too long")
        return decoder.decode(data), received
    except (Broken, msgspec.MsgspecError) as error:
        for descriptor in received:
            os.close(descriptor)
        raise Broken(str(error)) from None


def memory_file(chunks: Iterable[bytes | memoryview]) -> int:
    """Return a descriptor of an anonymous file that holds the chunks in order; raise SandboxUnavailable.

    Such a file has no name and no disk, is handed over without copying, and goes with its last descriptor. The caller owns this one.
    """
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
    """Return all bytes of an anonymous file. Its offset is not used: those who share the file share that as well."""
    size = os.fstat(descriptor).st_size
    parts: list[bytes] = []
    offset = 0
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def map_memory_file(descriptor: int) -> bytes | mmap.mmap:
    """Return all bytes of an anonymous file without copying them, unless there are few."""
    size = os.fstat(descriptor).st_size
    return mmap.mmap(descriptor, size, prot=mmap.PROT_READ) if size >= _MAPPED_BYTES else read_memory_file(descriptor)
