"""A run may write anything at any time on the line of its calls: the host begins whole calls in their order, or ends the run, in
bounded memory and time.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from byref_sandbox import Limits, Sandbox, functions, wire
from byref_sandbox.functions import Answer, Call, ErrorKind, Parameter, Raised, Returned, Stub, Waiting
from byref_sandbox.host import calling
from byref_sandbox.host.calling import Calling
from byref_sandbox.outcome import SUSPENDED
from byref_sandbox.testing import run_in_jail

MAX_BYTES = 1 << 20
pack = msgspec.msgpack.encode


class Recorder:
    """A callee that notes what it is asked, and answers what a test says."""

    stubs: Sequence[Stub] = (Stub("echo", [Parameter("value")], "echo(value)"),)

    def __init__(self, answer: Callable[[Call], Answer | None] | None = None) -> None:
        self.begun: list[Call] = []
        self.taken = 0
        self.suspends = False
        self.asks = 0
        self._answer = answer
        self._answers: list[Answer] = []
        self._ready, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._ready

    def begin(self, calls: Sequence[Call]) -> None:
        self.begun += calls
        for call in calls:
            if self._answer is not None and (answer := self._answer(call)) is not None:
                self.gives(answer)

    def gives(self, answer: Answer) -> None:
        self._answers.append(answer)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"1")

    def answers(self) -> Sequence[Answer]:
        """Return one at a time, so that a test can count those that are taken."""
        self.asks += 1
        if len(self._answers) <= 1:
            with contextlib.suppress(BlockingIOError):
                os.read(self._ready, 1 << 16)
        answers, self._answers = self._answers[:1], self._answers[1:]
        self.taken += len(answers)
        return answers

    def patience(self) -> float:
        return 60

    def waits_for_ever(self) -> bool:
        return self.suspends

    def close(self) -> None:
        os.close(self._ready)
        os.close(self._wake)


class Line:
    """Both ends of a line: what a run sends, and the host's end with what follows."""

    def __init__(self, callee: Recorder, max_bytes: int = MAX_BYTES) -> None:
        host, self.run = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.host, self.callee = host, callee
        self.calling = Calling(host, callee, max_bytes)
        self.poll = select.poll()
        self.calling.register(self.poll)
        self.run.setblocking(False)

    def send(self, data: bytes) -> None:
        """Have the host take all of `data`."""
        view = memoryview(data)
        while view:
            with contextlib.suppress(BlockingIOError):
                view = view[self.run.send(view) :]
            self.turn()

    def turn(self) -> bool:
        """Do what the host does whenever something is there; tell whether there was."""
        ready = dict(self.poll.poll(0))
        if ready:
            self.calling.handle(ready, self.poll)
        return bool(ready)

    def settle(self, most: int = 200) -> None:
        """Go on until nothing is there any more. That it never is would be a host that spins."""
        assert any(not self.turn() for _ in range(most))

    def close(self) -> None:
        self.run.close()
        self.host.close()
        self.callee.close()


@pytest.fixture
def callee() -> Recorder:
    return Recorder()


@pytest.fixture
def line(callee: Recorder) -> Iterator[Line]:
    line = Line(callee)
    yield line
    line.close()


def frame(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


def call(number: int = 0, name: str = "echo", arguments: bytes = b'{"value":1}', *, is_awaited: bool = True) -> bytes:
    return bytes(functions.pack(Call(number, name, arguments, is_awaited)))


VALID = ["call", 0, "echo", b"{}", True]
FIELDS: dict[str, list[Any]] = {
    "0": [None, 7, b"call", "", "Call", "call ", "returned", "raised", "pickle", ["call"], {"call": 1}, True, "call\0"],
    "1": [
        None,
        -1,
        -(1 << 63),
        1,
        2,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        0.0,
        "0",
        b"0",
        True,
        [],
        {},
        float("nan"),
    ],
    "2": [None, 0, b"echo", [], {}, True, "e" * 201, "\U0001f600" * 201, 1.5, ["echo"]],
    "3": [None, "{}", 0, [], {}, True, [1, 2], 1.5],
    "4": [None, 0, 1, "true", b"", [], 1.0, {}],
}
WRONG_FIELDS = {
    f"field {at}: {value!r:.30}": frame(pack([*VALID[: int(at)], value, *VALID[int(at) + 1 :]]))
    for at, values in FIELDS.items()
    for value in values
}
EXTENSIONS = {
    f"an extension in field {at}": frame(pack([*VALID[:at], msgspec.msgpack.Ext(code, b"abcd"), *VALID[at + 1 :]]))
    for at in range(5)
    for code in (-1, 1)
}
NO_MESSAGES = {
    **WRONG_FIELDS,
    **EXTENSIONS,
    "an empty message": frame(b""),
    "an empty array": frame(b"\x90"),
    "an empty map": frame(b"\x80"),
    "a map": frame(pack({"type": "call", "number": 0})),
    "nothing": frame(b"\xc0"),
    "a reserved byte": frame(b"\xc1" * 100),
    "text": frame(pack("call")),
    "only a tag": frame(pack(["call"])),
    "too few fields": frame(pack(VALID[:4])),
    "too many fields": frame(pack([*VALID, 1, 1])),
    "a second message behind it": frame(pack(VALID) * 2),
    "a byte behind it": frame(pack(VALID) + b"\xc0"),
    "one byte less": frame(pack(VALID)[:-1]),
    "waiting with another field": frame(pack(["waiting", 0, 0])),
    "waiting for less than nothing": frame(pack(["waiting", -1])),
    "waiting with itself": frame(pack(["waiting", ["waiting"]])),
    "half a surrogate pair": frame(b"\x95\xa4call\x00\xa3\xed\xa0\x80\xc4\x02{}\xc2"),
    "an overlong character": frame(b"\x95\xa4call\x00\xa2\xc0\x80\xc4\x02{}\xc2"),
    "no UTF-8": frame(b"\x95\xa4call\x00\xa2\xff\xff\xc4\x02{}\xc2"),
    "an array of 4 G": frame(b"\xdd\xff\xff\xff\xff"),
    "a map of 4 G": frame(b"\xdf\xff\xff\xff\xff"),
    "text of 4 G": frame(b"\x95\xa4call\x00\xdb\xff\xff\xff\xff"),
    "bytes of 4 G": frame(b"\x95\xa4call\x00\xa1f\xc6\xff\xff\xff\xff"),
    "an extension of 4 G": frame(b"\x95\xa4call\x00\xc9\xff\xff\xff\xff\x01"),
    "deep arrays": frame(b"\x91" * 4_000),
    "deeper arrays": frame(b"\x91" * 100_000),
    "deep maps": frame(b"\x81\xa1a" * 100_000),
    "deep in a field": frame(b"\x95\xa4call\x00\xa1f\xc4\x02{}" + b"\x91" * 100_000),
    "deep in the bytes' place": frame(b"\x95\xa4call\x00\xa1f" + b"\x91" * 100_000 + b"\xc0" + b"\xc2"),
    "a name of 1 MB": frame(pack(["call", 0, "e" * 1_000_000, b"", True])),
    "a name of 250,000 characters of four bytes": frame(pack(["call", 0, "\U0001f600" * 250_000, b"", True])),
    "a tag of 1 MB": frame(pack(["c" * 1_000_000])),
    "many small texts": frame(pack(["call", 0, *["x"] * 100_000])),
    "many integers": frame(pack([0] * 500_000)),
    "a returned of its own": frame(pack(["returned", 0, "application/json", b"1"])),
    "a raised of its own": frame(pack(["raised", 0, "ValueError", "x"])),
    "a frame of the reply": frame(pack(["done", "json", b"1", None, "", 0, False, 0.0, 0])),
    "the longest length": b"\xff\xff\xff\xff",
    "a length just beyond the bound": struct.pack("!I", MAX_BYTES + functions.FRAMING_BYTES + 1),
    "a length below 0": struct.pack("!i", -1),
    "lengths in the other order": struct.pack("<I", 20) + pack(VALID),
    "HTTP": b"POST / HTTP/1.1\r\n\r\n",
    "JSON": b'["call", 0, "echo", {}, true]\n',
    "a pickle": frame(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."),
    "the same number twice": call(0) + call(0),
    "a number left out": call(0) + call(2),
    "numbers backwards": call(0) + call(1) + call(0),
    "the first is not 0": call(1),
    "the first is huge": call((1 << 64) - 1),
    "waiting again": frame(pack(["waiting"])) * 2,
    "waiting again after calls": call(0) + call(1) + frame(pack(["waiting"])) * 6,
    "more calls than at once": b"".join(map(call, range(functions.MAX_CALLS_AT_ONCE + 1))),
    "zeros": bytes(1000),
    "ones": b"\xff" * 1000,
}


def test_what_is_no_message_ends_the_run_and_begins_nothing() -> None:
    for name, data in NO_MESSAGES.items():
        callee = Recorder()
        line = Line(callee)
        try:
            with pytest.raises(wire.Broken):
                line.send(data)
                pytest.fail(name)
            if len(data) < 1 << 16:  # longer ones may begin with whole calls
                assert callee.begun == [], name
        finally:
            line.close()


def test_bytes_that_come_one_by_one_are_the_same_messages() -> None:
    for name, data in NO_MESSAGES.items():
        if len(data) > 100:
            continue
        line = Line(Recorder())
        with pytest.raises(wire.Broken):
            for at in range(len(data)):
                line.send(data[at : at + 1])
            pytest.fail(name)
        # Only calls that were right when they came have begun.
        assert [one.number for one in line.callee.begun] == [*range(len(line.callee.begun))]
        line.close()


def test_half_a_message_begins_nothing_however_it_is_cut(line: Line, callee: Recorder) -> None:
    whole = call(0)
    for cut in range(len(whole)):
        half = Line(Recorder())
        half.send(whole[:cut])
        half.settle()
        assert half.callee.begun == []
        half.run.close()  # and then the end of the line, which is no fault: the run may have ended
        half.settle()
        assert half.callee.begun == [] and not half.calling.is_suspended
        half.close()
    for part in range(len(whole)):
        line.send(whole[part : part + 1])
    assert [one.number for one in callee.begun] == [0]


def test_whole_calls_begin_in_their_order_whatever_surrounds_them(line: Line, callee: Recorder) -> None:
    line.send(call(0) + frame(pack(["waiting"])) + call(1) + call(2)[:7])
    assert [one.number for one in callee.begun] == [0, 1]
    line.send(call(2)[7:])
    assert [one.number for one in callee.begun] == [0, 1, 2]


ARGUMENTS = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "as much as may be": b" " * MAX_BYTES,
}


def test_arguments_are_bytes_that_nobody_has_read_yet(line: Line, callee: Recorder) -> None:
    for number, data in enumerate(ARGUMENTS.values()):
        line.send(call(number, arguments=data))
    assert [one.arguments for one in callee.begun] == [*ARGUMENTS.values()]
    with pytest.raises(wire.Broken, match="at most"):
        line.send(call(len(ARGUMENTS), arguments=b" " * (MAX_BYTES + functions.FRAMING_BYTES)))


FLOODS: dict[str, Callable[[int], bytes]] = {
    "calls": lambda at: call(at, name="", arguments=b""),
    "calls that wait": lambda at: call(at, is_awaited=False),
    "waiting": lambda _: frame(pack(["waiting"])),
    "waiting between calls": lambda at: call(at) + frame(pack(["waiting"])) * 3,
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if "between" in kind or "that wait" in kind else ()) for kind in FLOODS],
)
def test_a_flood_ends_the_run_in_bounded_memory(kind: str) -> None:
    line = Line(Recorder())
    tracemalloc.start()
    try:
        with pytest.raises(wire.Broken):
            for start in range(0, 50_000, 1000):
                line.send(b"".join(map(FLOODS[kind], range(start, start + 1000))))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        line.close()
    assert len(line.callee.begun) <= functions.MAX_CALLS_AT_ONCE
    assert peak < 16 << 20


def test_long_names_take_no_memory() -> None:
    data = frame(pack(["call", 0, "e" * (8 << 20) + "\U0001f600", b"", True]))
    tracemalloc.start()
    try:
        reader = functions.from_run(64 << 20)
        with pytest.raises(functions.Malformed, match="texts"):
            reader.feed(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20  # the bytes themselves, twice; as text they would be 32 MiB more


def test_a_message_of_many_fields_takes_no_memory() -> None:
    count = 4 << 20
    data = frame(b"\xdd" + count.to_bytes(4) + b"\xc0" * count)
    tracemalloc.start()
    try:
        with pytest.raises(functions.Malformed, match="no array of a few fields"):
            functions.from_run(64 << 20).feed(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * count


# A run that does not read ------------------------------------------------------------------------------------------------------


def test_who_reads_no_answers_gets_no_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "MAX_UNSENT_BYTES", 1 << 20)
    size, count = 300_000, 200
    callee = Recorder(lambda one: Returned(one.number, "application/octet-stream", bytes(size)))
    line = Line(callee)
    for number in range(count):
        line.send(call(number))
    line.settle()  # which fails where the host is woken again and again by answers that it does not take
    assert len(callee.begun) == count
    assert callee.taken * size < 3 << 20
    asks = callee.asks
    assert line.calling.patience() > 1e6
    line.settle()
    assert callee.asks == asks
    reader, numbers = functions.from_host(), list[int]()
    while len(numbers) < count:  # once it reads, it gets all of them, each once
        line.turn()
        with contextlib.suppress(BlockingIOError):
            numbers += [one.number for one in reader.feed(line.run.recv(1 << 20))]
    assert numbers == [*range(count)]
    assert line.calling.patience() == 60
    line.close()


def test_small_answers_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "MAX_UNSENT_BYTES", 100_000)
    callee = Recorder(lambda one: Raised(one.number, "ValueError", ""))
    line = Line(callee)
    line.run.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for start in range(0, 8_000, 100):
        line.send(b"".join(map(call, range(start, start + 100))))
    line.settle(10_000)
    assert callee.taken < 8_000
    line.close()


def test_who_closes_the_line_gets_nothing_and_the_callee_is_asked_all_the_same(line: Line, callee: Recorder) -> None:
    line.send(b"".join(map(call, range(50))))
    line.run.close()
    line.settle()
    for number in range(50):
        callee.gives(Returned(number, "application/octet-stream", bytes(10 << 20)))
    line.settle(500)
    assert callee.taken == 50
    assert line.calling._unsent_bytes == 0 and not line.calling._unsent
    assert not line.calling.is_suspended


def test_who_says_that_nothing_follows_gets_nothing(line: Line, callee: Recorder) -> None:
    line.send(call(0))
    line.run.shutdown(socket.SHUT_WR)
    line.settle()
    callee.gives(Returned(0, "application/json", b"1"))
    line.settle()
    assert callee.taken == 1


def test_answers_that_nobody_asked_for_are_not_sent(line: Line, callee: Recorder) -> None:
    line.send(call(0))
    for number in (5, 0, 0, 1):
        callee.gives(Returned(number, "application/json", b"1"))
    line.settle()
    reader = functions.from_host()
    assert [one.number for one in reader.feed(line.run.recv(1 << 16))] == [0]


ANSWERS: dict[str, tuple[Answer, str]] = {
    "half a surrogate pair": (Raised(0, "ValueError", "no \ud800 here"), r"no \ud800 here"),
    "many of them": (Raised(0, "ValueError", "\ud800" * 10_000), r"\ud800"),
    "a long text": (Raised(0, "KeyError", "x" * 1_000_000), "x" * functions.MAX_MESSAGE_CHARS),
    "NUL": (Raised(0, "FunctionError", "a\0b"), "a\0b"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_what_a_function_says_can_be_sent(what: str) -> None:
    answer, said = ANSWERS[what]
    line = Line(Recorder(lambda _: answer))
    line.send(call(0))
    line.settle()
    [got] = functions.from_host().feed(line.run.recv(1 << 16))
    assert isinstance(got, Raised) and got.message.startswith(said)
    assert len(got.message) <= functions.MAX_MESSAGE_CHARS
    line.close()


def test_a_result_too_large_for_a_message_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MAX_DATA_BYTES", 10)
    line = Line(Recorder(lambda one: Returned(one.number, "application/octet-stream", bytes(11))))
    line.send(call(0))
    line.settle()
    [got] = functions.from_host().feed(line.run.recv(1 << 16))
    assert isinstance(got, Raised) and "larger" in got.message
    line.close()


def test_only_who_waits_for_calls_that_wait_is_suspended(callee: Recorder) -> None:
    waiting = bytes(functions.pack(Waiting(1)))
    blocked = bytes(functions.pack(Call(0, "echo", b"{}", False, 1)))
    for data, suspends, expected in (
        (waiting, True, False),  # without a call
        (call(0), True, False),
        (call(0) + waiting, True, True),
        (blocked, True, True),
        (waiting + call(0), True, False),  # it has gone on since
        (call(0) + bytes(functions.pack(Waiting(2))), True, False),  # an answer is on its way
        (call(0) + waiting, False, False),
    ):
        one = Line(Recorder())
        one.callee.suspends = suspends
        one.send(data)
        one.settle()
        assert one.calling.is_suspended is expected
        one.close()
    callee.close()


# Behind the jail, as if the language had fallen ----------------------------------------------------------------------------------

LIMITS = Limits(
    wall_seconds=2, cpu_seconds=1, memory_bytes=256 << 20, stdout_bytes=1000, result_bytes=1 << 20, wait_seconds=1
)
ON_THE_LINE = """
import fcntl, os, select, struct, time
import msgspec
def there():
    found = []
    for fd in range(4096):
        try: os.get_inheritable(fd)
        except OSError: continue
        found.append(fd)
    return found
def frame(body):
    return struct.pack('!I', len(body)) + body
def write(data, to):
    view = memoryview(data)
    while view: view = view[os.write(to, view):]
pack = msgspec.msgpack.encode
def call(number, name='echo', arguments=b'{"value":1}', awaited=False):
    return frame(pack(['call', number, name, arguments, awaited]))
reply = next(fd for fd in there() if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY)
line = next((fd for fd in there() if fd != reply), None)
def done(value):
    write(frame(pack(['done', 'json', msgspec.json.encode(value), None, '', 0, False, 0.0, 0])), reply)
def answer():
    data = b''
    while len(data) < 4 or len(data) < 4 + struct.unpack('!I', data[:4])[0]:
        data += os.read(line, 1)
    return msgspec.msgpack.decode(data[4:])
"""


def echo(one: Call) -> Answer:
    kind: ErrorKind = "FunctionError"
    if one.function != "echo":
        return Raised(one.number, kind, "there is no such function")
    return Returned(one.number, "application/json", one.arguments)


class Jailed(Recorder):
    def __init__(self) -> None:
        super().__init__(echo)


def in_jail(sandbox: Sandbox, source: str, callee: Recorder) -> Any:
    """Run a source that knows the function `echo`, and so has the line."""
    return run_in_jail(ON_THE_LINE + source + "\nos._exit(0)  # echo", LIMITS, sandbox=sandbox, functions=callee)


HARMLESS = {
    "a call without the language": ("write(call(0), line)\ndone(answer()[2])", "application/json"),
    "another's function": ("write(call(0, 'refund'), line)\ndone(answer()[2])", "FunctionError"),
    "there are two descriptors": ("done(len(there()))", 2),
    "nothing comes of itself": ("done(len(select.select([line], [], [], 0.05)[0]))", 0),
    "the line is closed early": ("write(call(0, awaited=True), line)\nos.close(line)\ndone(1)", 1),
    "calls after the end": ("done(1)\nwrite(call(0), line)\ntime.sleep(0.05)", 1),
    "half a message and then the end": ("write(call(0)[:9], line)\ndone(1)", 1),
    "an unread answer": ("write(call(0), line)\ntime.sleep(0.05)\ndone(1)", 1),
    "no other's descriptors are found": (
        "found = 0\nfor pid in range(1, 300):\n    try: found += len(os.listdir('/proc/%d/fd' % pid))\n"
        "    except OSError: pass\ndone(found)",
        0,
    ),
}


def test_code_without_the_language_can_call_and_no_more(sandbox: Sandbox) -> None:
    for name, (source, expected) in HARMLESS.items():
        callee = Jailed()
        outcome = in_jail(sandbox, source, callee)
        assert outcome.error is None and outcome.value == expected, (name, outcome.error)
        callee.close()


_REFUSALS = ("NotAllowed", "PermissionError", "Crash")
FORBIDDEN = {
    "a socket": "import socket\nsocket.socket(socket.AF_UNIX)",
    "a pair of sockets": "import socket\nsocket.socketpair()",
    "the line as a socket": "import socket\nsocket.socket(fileno=line).getsockname()",
    "descriptors in a message": "import ctypes\ngot = ctypes.CDLL(None).sendmsg(line, ctypes.create_string_buffer(64), 0)",
    "descriptors out of a message": "import ctypes\ngot = ctypes.CDLL(None).recvmsg(line, ctypes.create_string_buffer(64), 0)",
    "a connection": "import ctypes\ngot = ctypes.CDLL(None).connect(line, b'\\1\\0x', 3)",
    "half a close": "import ctypes\ngot = ctypes.CDLL(None).shutdown(line, 1)",
    "a copy of the line": "os.dup(line)",
    "a copy in another's place": "os.dup2(line, reply)",
    "another's descriptor": "import ctypes\ngot = ctypes.CDLL(None).syscall(438, os.getpid(), line, 0)",
    "a child that has it": "os.fork()",
}
"""Each is a system call that the jail refuses."""


@pytest.mark.slow
def test_the_line_is_for_reading_and_writing_only(sandbox: Sandbox) -> None:
    for name, source in FORBIDDEN.items():
        callee = Jailed()
        outcome = in_jail(sandbox, f"got = 0\n{source}\ndone(got)", callee)
        is_refused = outcome.error is None and outcome.value == -1
        assert is_refused or (outcome.error is not None and outcome.error.kind in _REFUSALS), (name, outcome)
        callee.close()


ENDED = {
    "garbage": ("write(b'\\xc1' * 100, line)\ntime.sleep(9)", "Crash"),
    "a flood of calls": (
        "n = 0\nwhile True:\n    write(b''.join(call(n + i) for i in range(500)), line); n += 500",
        None,
    ),
    "a flood of calls that are awaited": (
        "n = 0\nwhile True:\n    write(b''.join(call(n + i, awaited=True) for i in range(500)), line); n += 500",
        None,
    ),
    "a flood of waiting": ("while True: write(frame(pack(['waiting'])) * 1000, line)", "Crash"),
    "a flood of bytes": ("write(struct.pack('!I', 1 << 20), line)\nwhile True: write(b'x' * 100_000, line)", None),
    "a length beyond the bound": ("write(b'\\xff' * 4, line)\ntime.sleep(9)", "Crash"),
    "a forged answer": ("write(frame(pack(['returned', 0, 'application/json', b'1'])), line)\ntime.sleep(9)", "Crash"),
}


@pytest.mark.every_case("each breaks another rule")
@pytest.mark.parametrize("name", ENDED)
def test_who_breaks_the_rules_of_the_line_is_ended(sandbox: Sandbox, name: str) -> None:
    source, kind = ENDED[name]
    callee = Jailed()
    began = time.monotonic()
    outcome = in_jail(sandbox, source, callee)
    assert outcome.error is not None and outcome.value is None
    assert kind is None or outcome.error.kind == kind
    assert time.monotonic() - began < 8
    callee.close()


def test_who_says_that_it_waits_and_computes_is_ended_by_the_processor_time(sandbox: Sandbox) -> None:
    callee = Recorder()
    source = ON_THE_LINE + "write(call(0), line)\nwhile True: pass  # echo"
    outcome = run_in_jail(source, replace(LIMITS, cpu_seconds=0.2), sandbox=sandbox, functions=callee)
    assert outcome.error is not None and outcome.error.kind == "CpuLimit"
    callee.close()


@pytest.mark.slow
def test_who_sleeps_is_ended_by_both_limits_of_time_together(sandbox: Sandbox) -> None:
    for source, most in (
        ("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwrite(call(0), line)\ntime.sleep(60)", 3 + 4),
        (
            "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwrite(call(0)[:5], line)\ntime.sleep(60)",
            3 + 4,
        ),
    ):
        callee = Recorder()
        began = time.monotonic()
        outcome = in_jail(sandbox, source, callee)
        assert outcome.error is not None and time.monotonic() - began < most
        callee.close()


def test_a_suspended_run_is_ended_at_once(sandbox: Sandbox) -> None:
    callee = Recorder()
    callee.suspends = True
    began = time.monotonic()
    waits = "write(frame(pack(['call', 0, 'echo', b'{}', False, 1])), line)"
    outcome = in_jail(sandbox, f"{waits}\ntime.sleep(60)", callee)
    assert outcome.error is not None and outcome.error.kind == SUSPENDED
    assert time.monotonic() - began < 2
    callee.close()


@pytest.mark.slow
def test_no_descriptor_outlasts_its_run(sandbox: Sandbox) -> None:
    """Those who come after find the reply's descriptor only: in their own process, in a session, and at the host."""
    before = len(os.listdir("/proc/self/fd"))
    count = ON_THE_LINE + "done(len(there()))\nos._exit(0)"
    for session in (None, "one"):
        for _ in range(3):
            callee = Jailed()
            source = ON_THE_LINE + "write(call(0), line)\nanswer()\ndone(len(there()))\nos._exit(0)  # echo"
            outcome = run_in_jail(source, LIMITS, sandbox=sandbox, functions=callee, session=session)
            assert outcome.value == 2
            callee.close()
            assert run_in_jail(count, LIMITS, sandbox=sandbox, session=session).value == 1
    assert len(os.listdir("/proc/self/fd")) <= before + 4  # of the processes that were started meanwhile


def test_code_that_names_no_function_gets_no_time_to_wait(sandbox: Sandbox) -> None:
    callee = Jailed()
    unnamed = ON_THE_LINE.replace("'echo'", "'other'")
    source = unnamed + "done(len(there()))\nos._exit(0)"
    assert run_in_jail(source, LIMITS, sandbox=sandbox, functions=callee).value == 1
    callee.close()
