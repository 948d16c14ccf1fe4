"""A run may write anything into its reply pipe: the host takes data or an error, in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc

import msgspec
import pytest
from sampled import sampled

from byref_sandbox import Limits, Outcome, Sandbox, wire
from byref_sandbox.testing import run_in_jail

LIMITS = Limits(wall_seconds=2, cpu_seconds=2, memory_bytes=256 << 20, stdout_bytes=1000, result_bytes=1 << 20)
FIND = """
import os, struct, time
import msgspec
def find():
    for fd in range(4096):
        try: os.get_inheritable(fd)
        except OSError: continue
        return fd
pipe = find()
def frame(body):
    return struct.pack('!I', len(body)) + body
def write(data):
    view = memoryview(data)
    while view: view = view[os.write(pipe, view):]
"""
DONE = "msgspec.msgpack.encode(['done', 'json', b'1', None, '', 0, False, 0.0, 0])"


def forge(sandbox: Sandbox, source: str) -> Outcome:
    return run_in_jail(FIND + source + "\nos._exit(0)", LIMITS, sandbox=sandbox)


def test_a_forged_reply_is_data_like_any_other(sandbox: Sandbox) -> None:
    """Not a breach: whoever can write here could have computed the value as well. It shows that the forger finds the pipe."""
    assert forge(sandbox, f"write(frame({DONE}))").value == 1


UNREADABLE = {
    "a frame of garbage": "write(frame(b'\\xc1' * 100))",
    "an empty frame": "write(frame(b''))",
    "no array": "write(frame(msgspec.msgpack.encode({'type': 'done'})))",
    "an unknown tag": "write(frame(msgspec.msgpack.encode(['pickle', b'x'])))",
    "a tag of another kind": "write(frame(msgspec.msgpack.encode([7, b'x'])))",
    "too few fields": "write(frame(msgspec.msgpack.encode(['error', 'Kind'])))",
    "too many fields": "write(frame(msgspec.msgpack.encode(['lost', 'a', 'b', 'c'])))",
    "a wrong type": "write(frame(msgspec.msgpack.encode(['done', 'json', 'text', None, '', 0, False, 0.0, 0])))",
    "an unknown kind": "write(frame(msgspec.msgpack.encode(['done', 'pickle', b'1', None, '', 0, False, 0.0, 0])))",
    "a huge integer": "write(frame(msgspec.msgpack.encode(['done', 'json', b'1', None, '', 'x', False, 0.0, 2 ** 63])))",
    "invalid UTF-8": "write(frame(b'\\x93\\xa4lost\\xa1\\xff\\xa1\\xff'))",
    "deep nesting": "write(frame(b'\\x91' * 100_000))",
    "an extension type": "write(frame(b'\\xc7\\x04\\x01abcd'))",
    "a pickle": "import pickle; write(frame(pickle.dumps(print)))",
    "bytes after a message": f"write(frame({DONE} + b'x'))",
}
TRUNCATED = {
    "half a length": "write(b'\\x00\\x00')",
    "half a frame": f"write(frame({DONE})[:-3])",
    "nothing": "",
}
OVERSIZED = {
    "garbage": "write(b'\\xff' * 1000)",
    "text": "write(b'HTTP/1.1 200 OK\\r\\n\\r\\n')",
    "a length beyond the cap": "write(b'\\xff\\xff\\xff\\xff' + b'x' * 100)",
    "a length just beyond the cap": "write(struct.pack('!I', 4 << 20) + b'x' * 100)",
    "a flood": "data = frame(msgspec.msgpack.encode(['kept', 'a', 'json', b'1' * 1_000_000]))\nwhile True: write(data)",
    "a flood of small frames": "data = frame(msgspec.msgpack.encode(['lost', 'a', 'b'])) * 1000\nwhile True: write(data)",
}


@pytest.mark.every_case("each is unreadable in a way of its own")
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_reply_is_a_crash(sandbox: Sandbox, name: str) -> None:
    outcome = forge(sandbox, UNREADABLE[name])
    assert outcome.value is None
    assert outcome.error.kind == "Crash"
    assert "could not be read" in outcome.error.message


@pytest.mark.parametrize("name", TRUNCATED)
def test_half_a_reply_is_a_crash(sandbox: Sandbox, name: str) -> None:
    outcome = forge(sandbox, TRUNCATED[name])
    assert outcome.value is None
    assert outcome.error.kind == "Crash"


@pytest.mark.every_case("each is a bound of its own")
@pytest.mark.parametrize("name", OVERSIZED)
def test_too_much_is_an_output_limit(sandbox: Sandbox, name: str) -> None:
    tracemalloc.start()
    try:
        outcome = forge(sandbox, OVERSIZED[name])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.error.kind == "OutputLimit"
    assert peak < 32 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    sampled(  # each waits until nobody waits any more
        [
            "write(b'\\x00\\x00\\x10\\x00')\nwhile True:\n    write(b'x'); time.sleep(0.05)",
            "write(frame(%s)[:-3]); time.sleep(60)",
            "os.close(pipe); time.sleep(60)",
        ],
        3,
    ),
)
def test_a_reply_that_never_ends_is_not_waited_for(sandbox: Sandbox, source: str) -> None:
    began = time.monotonic()
    outcome = forge(sandbox, source.replace("%s", DONE))
    assert outcome.error is not None
    assert time.monotonic() - began < 7


def test_who_lingers_after_the_reply_is_ended(sandbox: Sandbox) -> None:
    began = time.monotonic()
    assert forge(sandbox, f"write(frame({DONE}))\ntime.sleep(60)").value == 1
    assert time.monotonic() - began < 1


def test_names_that_are_none_are_left_out(sandbox: Sandbox) -> None:
    outcome = forge(
        sandbox,
        f"""
for name in ('ok', 'not ok', '', '../x', 'a' * 600, '1x', 'x\\n'):
    write(frame(msgspec.msgpack.encode(['kept', name, 'json', b'1'])))
write(frame(msgspec.msgpack.encode(['kept', 'broken', 'json', b'[1,'])))
write(frame(msgspec.msgpack.encode(['kept', 'two', 'json', b'1 2'])))
write(frame(msgspec.msgpack.encode(['kept', 'binary', 'json', b'"\\xff"'])))
write(frame(msgspec.msgpack.encode(['kept', 'no_records', 'dataframe', b'[1]'])))
write(frame({DONE}))
""",
    )
    assert set(outcome.bound) == {"ok"}
    assert set(outcome.unkept) == {"broken", "two", "binary", "no_records"}


def test_a_value_that_is_no_json_is_a_crash(sandbox: Sandbox) -> None:
    for value in ("b'{'", "b''", "b'[' * 100_000", "b'\\xff'"):
        outcome = forge(
            sandbox, f"write(frame(msgspec.msgpack.encode(['done', 'json', {value}, None, '', 0, False, 0.0, 0])))"
        )
        assert outcome.error.kind == "Crash"


def test_costs_below_zero_are_none(sandbox: Sandbox) -> None:
    outcome = forge(
        sandbox, "write(frame(msgspec.msgpack.encode(['done', 'json', b'1', None, '', -5, False, -1.0, -9])))"
    )
    assert (outcome.stdout_dropped, outcome.usage.peak_bytes) == (0, 0)
    assert 0 <= outcome.usage.cpu_ms < 1_000  # what its zygote saw, which may be too little to be seen


def test_outputs_of_jq_in_a_reply_of_code_are_ignored(sandbox: Sandbox) -> None:
    outcome = forge(sandbox, f"write(frame(msgspec.msgpack.encode(['output', b'1'])) + frame({DONE}))")
    assert outcome.value == 1


def test_frames_come_whole_however_they_are_cut() -> None:
    frames: list[wire.Frame] = [wire.Kept("a", "json", b"1" * 300), wire.Lost("b", "no"), wire.Done(stdout="hi")]
    data = b"".join(map(wire.pack, frames))
    for size in (1, 2, 3, 7, 100, len(data)):
        reader = wire.FrameReader(10_000)
        got = [frame for start in range(0, len(data), size) for frame in reader.feed(data[start : start + size])]
        assert got == frames


def test_the_caps_of_a_reply_are_exact() -> None:
    frame = wire.pack(wire.Lost("a", "b"))
    reader = wire.FrameReader(len(frame))
    assert len(reader.feed(frame)) == 1
    with pytest.raises(OverflowError):
        reader.feed(b"x")
    many = wire.FrameReader(len(frame) * (wire.MAX_FRAMES + 1))
    assert len(many.feed(frame * wire.MAX_FRAMES)) == wire.MAX_FRAMES
    with pytest.raises(OverflowError):
        many.feed(frame)


TABLE = [b"\x99\xa5table\xa0\xa0", b"\x90", b"\x00\xc4\x00", b"\x90", b"\x90", b"\x90"]
MANY = b"\xdd" + (4_000_000).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("field", "items"),
    [
        pytest.param(1, MANY + b"\x94\xa0\xa0\x00\xa0" * 4_000_000, id="columns"),
        pytest.param(3, MANY + b"\x92\xa0\x90" * 4_000_000, id="rows before it"),
        pytest.param(4, b"\x91\x92\xa0" + MANY + b"\xa1a" * 4_000_000, id="cells of one row"),
        pytest.param(5, MANY + b"\xa1a" * 4_000_000, id="notes"),
        pytest.param(5, b"\x91" * 900 + MANY + b"\xa1a" * 4_000_000, id="nested"),
    ],
)
def test_values_are_counted_before_they_are_made(field: int, items: bytes) -> None:
    body = b"".join([*TABLE[:field], items, *TABLE[field + 1 :]])
    data = len(body).to_bytes(4, "big") + body
    for of_document in (False, True):
        tracemalloc.start()
        try:
            with pytest.raises((OverflowError, wire.Broken)):
                wire.FrameReader(64 << 20, of_document=of_document).feed(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2 * len(data)


def test_values_are_counted_in_all_frames_together() -> None:
    table = wire.Table("", "", [], 0, b"[]", [wire.Aside("", [""] * 100_000)], [], [])
    reader = wire.FrameReader(64 << 20, of_document=True)
    with pytest.raises(OverflowError):
        for _ in range(20):
            assert reader.feed(wire.pack(table)) == [table]


def test_a_sender_counts_as_the_reader_does() -> None:
    column = wire.Column("name", "integer", 3, "a title")
    rows = [wire.Aside("row 1", ["ä", "", "b"] * 40), wire.Aside("row 2", [])]
    table = wire.Table("t", "Sheet!A1", [column] * 20, 1, b"[\n{}\n]", rows, rows[:1], ["a note"])
    for frame in (table, wire.Member("a", "text/csv", b"1,2"), wire.LeftOut("here", "no")):
        size = wire.text_bytes(frame)
        packed = wire.pack(frame)
        assert wire.FrameReader(1 << 20, size, of_document=True).feed(packed) == [frame]
        with pytest.raises(OverflowError):
            wire.FrameReader(1 << 20, size - 1, of_document=True).feed(packed)


def test_code_sends_no_tables() -> None:
    for frame in (wire.Table("", "", [], 0, b"[]", [], [], []), wire.Member("", "", b""), wire.LeftOut("", "")):
        with pytest.raises(wire.Broken):
            wire.FrameReader(1_000).feed(wire.pack(frame))
    with pytest.raises(wire.Broken):
        wire.FrameReader(1_000, of_document=True).feed(wire.pack(wire.Kept("a", "json", b"1")))


def test_msgspec_reads_no_objects() -> None:
    """The decoder's whole vocabulary is the frames: there is nothing in it that runs code."""
    with pytest.raises(msgspec.ValidationError):
        wire._frames.decode(msgspec.msgpack.encode({"__reduce__": ["os.system", ["id"]]}))
