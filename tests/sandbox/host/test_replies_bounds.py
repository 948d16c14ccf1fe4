"""A run that controls its pipe can report only numbers that databases accept, and names and definitions of a reasonable size."""

from __future__ import annotations

import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from byref_sandbox import Data, Limits, Outcome, Sandbox, wire
from byref_sandbox.code.analysis import definitions_of
from byref_sandbox.contents import (
    MAX_CONTENTS_BYTES,
    NO_VERSIONS,
    Contents,
    Name,
    Part,
    decode_contents,
    encode_contents,
)
from byref_sandbox.host import reading
from byref_sandbox.host.exchange import Answer
from byref_sandbox.outcome import MAX_FIGURE_SIDE, MAX_FIGURES
from byref_sandbox.testing import run_in_jail
from byref_sandbox.values import png, weight
from byref_sandbox.values.plots import figures_of

LIMITS = Limits(wall_seconds=5, cpu_seconds=5, memory_bytes=512 << 20, result_bytes=64 << 20)
FORGE = """
import os, struct, msgspec
pipe = next(fd for fd in range(4096) if not fails(os.get_inheritable, fd))
def write(body):
    view = memoryview(struct.pack('!I', len(body)) + body)
    while view: view = view[os.write(pipe, view):]
for frame in frames(): write(msgspec.msgpack.encode(frame))
os._exit(0)
"""
FAILS = """
def fails(call, *arguments):
    try: call(*arguments)
    except OSError: return True
    return False
"""
DONE = "['done', 'json', b'1', None, '', 0, False, 0.0, 0]"


def forge(sandbox: Sandbox, frames: str) -> Outcome:
    return run_in_jail(f"{FAILS}\ndef frames(): return [{frames}]\n{FORGE}", LIMITS, sandbox=sandbox)


@pytest.mark.parametrize("told", ["2 ** 64 - 1", "2 ** 63", "-2 ** 63"])
@pytest.mark.parametrize("cpu", ["float('inf')", "float('nan')", "-1.0", "1e308"])
def test_what_a_run_cost_is_a_number_of_modest_size(sandbox: Sandbox, told: str, cpu: str) -> None:
    outcome = forge(sandbox, f"['done', 'json', b'1', None, '', {told}, False, {cpu}, {told}]")
    assert outcome.value == 1
    for number in (outcome.usage.cpu_ms, outcome.usage.peak_bytes, outcome.stdout_dropped):
        assert 0 <= number <= 1 << 50


def test_contents_that_are_none_are_not_taken(sandbox: Sandbox) -> None:
    """The names of the session stay as they were."""
    for contents in ("b'x'", f"bytes({MAX_CONTENTS_BYTES + 1})", "b'\\x91' * 100_000"):
        outcome = forge(sandbox, f"['named', 'f', 'function'], ['written', {contents}], {DONE}")
        assert outcome.contents is None
        assert outcome.named == {"f": "function"}


FORGED = {
    "an empty path": Contents(NO_VERSIONS, [Part([], [], b"", paths=[()])], {}),
    "a path of a number": Contents(NO_VERSIONS, [Part([], [], b"", paths=[(1, "a")])], {}),
    "no identifier": Contents(NO_VERSIONS, [Part([Name("a b", 1, 1)], [], b"")], {}),
    "a long name": Contents(NO_VERSIONS, [], {}, definitions={"x" * 600: b"1"}),
    "many names": Contents(NO_VERSIONS, [Part([Name(f"n{n}", 1, 1) for n in range(20_000)], [], b"")], {}),
    "many programs": Contents(NO_VERSIONS, [], {n.to_bytes(4): "" for n in range(20_000)}),
    "long programs": Contents(NO_VERSIONS, [], {n.to_bytes(4): "x" * 500_000 for n in range(9)}),
    "names that look up others": Contents(
        NO_VERSIONS, [], {}, looks_up={f"n{n}": [f"n{n + 1}"] for n in range(20_000)}
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_contents_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"table of contents (with|of a session: .* of length <= 10000)"):
        decode_contents(encode_contents(FORGED[name]))


@pytest.mark.parametrize(
    "text", ["-" * 50_000 + "1", "(" * 5_000, "def f():\n" + " return 1\n" * 600_000, "f = " + "[" * 190 + "]" * 190]
)
def test_forged_programs_end(text: str) -> None:
    began = time.process_time()
    assert len(list(definitions_of({b"1": text}, {"f": b"1"}, ["f"]))) <= 1
    assert time.process_time() - began < 5


def test_a_forged_chain_of_names_is_followed_in_no_time() -> None:
    chain = Contents(NO_VERSIONS, [], {}, looks_up={f"n{n}": [f"n{n + 1}"] for n in range(10_000)})
    began = time.process_time()
    assert len(decode_contents(encode_contents(chain)).wanted(["n0"])) == 10_001
    assert time.process_time() - began < 0.5


@pytest.mark.slow
def test_of_many_programs_few_are_parsed_and_none_is_left_out() -> None:
    texts = {n.to_bytes(2): f"def f{n}(): return v{n}\n" + "a;" * 50_000 for n in range(100)}
    began = time.process_time()
    found = [*definitions_of(texts, {f"f{n}": n.to_bytes(2) for n in range(100)}, room=200_000)]
    assert time.process_time() - began < 5
    assert {f"v{n}" for n in range(100)} <= set().union(*(one.uses.names for one in found))


def test_a_last_value_that_nests_deeply_is_not_taken(sandbox: Sandbox) -> None:
    versions = "{'format': 0, 'python': '', 'numpy': '', 'pandas': '', 'pyarrow': '', 'builders': ''}"
    last = (
        f"b'\\x82' + msgspec.msgpack.encode({{'versions': {versions}}})[1:] + b'\\xa1z' + b'\\x91' * 60_000 + b'\\xc0'"
    )
    outcome = forge(sandbox, f"['shown', {last}], {DONE}")
    assert (outcome.value, outcome.last) == (1, None)


def test_names_of_the_language_itself_are_not_taken(sandbox: Sandbox) -> None:
    outcome = forge(sandbox, f"['kept', '__builtins__', 'json', b'{{}}'], ['kept', 'x', 'json', b'1'], {DONE}")
    assert [*outcome.bound, *outcome.unkept] == ["x"]


def test_data_named_like_the_builtins_does_not_replace_them(sandbox: Sandbox) -> None:
    outcome = sandbox.run("df('__builtins__')\nlen([].copy()) + int('1')", {"__builtins__": {"a": 1}})
    assert outcome.value == 1


def test_a_kept_value_of_too_many_parts_is_not_read(sandbox: Sandbox) -> None:
    """Each would take the host forty times its bytes."""
    outcome = forge(sandbox, f"['kept', 'x', 'json', b'[' + b'[],' * 5_000_000 + b'[]]'], {DONE}")
    assert "arrays" in outcome.named["x"]


def test_what_is_in_texts_does_not_count(sandbox: Sandbox) -> None:
    text = "'a,[' * 3"
    outcome = forge(sandbox, f"['kept', 'x', 'json', msgspec.json.encode([{text}] * 1_000_000)], {DONE}")
    assert "x" in outcome.bound


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("data", [b"[" + b'\\"' * 5_000_000, b"[" + b'"' * 5_000_001, b'[,"' + b"\\" * 5_000_001])
def test_texts_without_end_are_looked_at_once(data: bytes) -> None:
    began = time.process_time()
    weight.decoded_bytes(data, 0)
    weight.has_too_many_parts(data)
    assert time.process_time() - began < 5  # with a look back it would take hours


def test_where_texts_are_cut_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    value = ["a,[{", '",[', "\\", '\\"', "\\\\,", {"k,": ["", '"']}, 1.5, None]
    data = msgspec.json.encode(value)
    for size in range(1, len(data) + 1):
        monkeypatch.setattr(weight, "_SLICE", size)
        assert b"".join(outside for outside, _ in weight._slices(data)) == b"[,,,,,{:[,]},1.5,null]", size


VALUES: dict[str, Any] = {
    "empty texts": [""] * 50_000,
    "short texts": [f"{number:05}" for number in range(50_000)],
    "arrays": [[]] * 50_000,
    "arrays of one": [[0]] * 50_000,
    "objects": [{}] * 50_000,
    "objects of one": [{"k": 1}] * 50_000,
    "keys of their own": [{f"key {number}": number * 1000} for number in range(30_000)],
    "long keys": [{f"{'k' * 50}{number}": number * 1000} for number in range(30_000)],
    "records": [{f"f{field}": f"v{number}" for field in range(10)} for number in range(5_000)],
    "wide records": [{f"f{field}": None for field in range(171)} for number in range(500)],
    "one object": {f"key {number}": number for number in range(50_000)},
    "floats": [number / 7 for number in range(50_000)],
    "large integers": [2**60 + number for number in range(50_000)],
    "texts with a wide character": ["x" * 1_000 + "\U0001f600" for _ in range(500)],
    "escapes": ['\\"' * 50 for _ in range(5_000)],
    "nested": [[[[[1]]]]] * 10_000,
}


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", VALUES)
def test_a_value_weighs_no_more_than_is_thought(name: str) -> None:
    data = msgspec.json.encode(VALUES[name])
    tracemalloc.start()
    try:
        value = msgspec.json.decode(data)
        _, taken = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert value == VALUES[name]
    room = int(taken * 0.95)
    assert weight.decoded_bytes(data, room) > room
    assert weight.decoded_bytes(data, 10 * taken) <= 10 * taken


@pytest.mark.parametrize("text", [msgspec.json.encode([{"k": 1, "l": 2}] * 50_000).decode(), "1,2,3\n" * 100_000])
def test_marks_in_a_text_weigh_as_its_characters(text: str) -> None:
    data = msgspec.json.encode({"text": text})
    assert len(text) < weight.decoded_bytes(data, 2 * len(data)) < 1.5 * len(data)


def test_the_same_bytes_are_text_and_json(sandbox: Sandbox) -> None:
    as_text = Data("same", lambda: b'{"a":1}', "text/plain")
    as_json = Data("same", lambda: b'{"a":1}')
    for variables in ({"x": as_text, "y": as_json}, {"y": as_json, "x": as_text}):
        assert sandbox.run("[x, y]", variables, session="same").value == ['{"a":1}', {"a": 1}]
    assert sandbox.run("x", {"x": as_text}, session="text first").value == '{"a":1}'
    assert sandbox.run("x", {"x": as_json}, session="text first").value == {"a": 1}
    picked = sandbox.pick(".a", as_json, session="text first")
    assert picked.outputs == (b"1",)


def traced(work: Callable[[], Outcome]) -> tuple[Outcome, int]:
    """What came of it, and the most bytes that Python's own allocations took meanwhile."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("steps", ["[''] * 5_000_000", "['a'] * 65", "[['a']] * 3"])
def test_a_path_of_more_steps_than_there_are_is_not_read(sandbox: Sandbox, steps: str) -> None:
    outcome, peak = traced(lambda: forge(sandbox, f"['same', 'x', 'y', {steps}, False, ''], {DONE}"))
    assert outcome.error.kind == "Crash"
    assert peak < 16 << 20


@pytest.mark.parametrize(
    "frames",
    [
        "['lost', 'a', 'x' * MOST]",
        "['error', 'x' * MOST, 'm', None, None]",
        "*(['lost', 'a', 'x' * (MOST // 8)] for _ in range(9))",
        "['done', 'json', b'1', '\\U0001f600' + 'x' * MOST, '', 0, False, 0.0, 0]",
    ],
)
def test_texts_of_more_than_a_reply_has_are_not_made(sandbox: Sandbox, frames: str) -> None:
    """One wide character makes all of a text four times as large."""
    frames = frames.replace("MOST", str(wire.MAX_TEXT_BYTES + LIMITS.stdout_bytes))
    outcome, peak = traced(lambda: forge(sandbox, frames))
    assert outcome.error.kind == "OutputLimit"
    assert peak < 48 << 20


def test_a_frame_of_more_fields_than_any_is_not_read(sandbox: Sandbox) -> None:
    outcome, peak = traced(lambda: forge(sandbox, f"['lost', *['x'] * 3_000_000], {DONE}"))
    assert outcome.error.kind == "Crash"
    assert peak < 16 << 20


def test_figures_that_were_dropped_are_of_a_number_that_can_be(sandbox: Sandbox) -> None:
    outcome = forge(sandbox, "['done', 'none', b'null', '', '', 0, False, 0.0, 0, b'', '', False, 2 ** 64 - 1]")
    assert outcome.error is None
    assert outcome.figures_dropped == reading._MAX_FIGURES_DROPPED


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))


def image(width: int, height: int, *pixels: bytes) -> bytes:
    header = struct.pack("!IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = b"".join(chunk(b"IDAT", part) for part in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + parts + chunk(b"IEND", b"")


@pytest.mark.slow
def test_no_more_images_are_looked_at_than_may_come() -> None:
    """Each takes a fifth of a second of the host; thousands fit into one reply."""
    width, height = 1_000, 4_000
    rows = bytearray((4 * width + 1) * height)
    rows[-4 * width - 1] = 9  # an unknown filter, in the last row
    refused = image(width, height, zlib.compress(rows))
    with pytest.raises(png.NotPNG, match="filter"):
        png.size_of(refused)
    good = image(1, 1, zlib.compress(b"\0\1\2\3\4"))
    began = time.process_time()
    taken = figures_of(
        [
            *(wire.Image(f"refused_{number}", refused) for number in range(MAX_FIGURES - 1)),
            wire.Image("good", good),
            *(wire.Image(f"late_{number}", refused) for number in range(4_000)),
            wire.Image("too_late", good),
        ]
    )
    assert [figure.name for figure in taken] == ["good"]
    assert time.process_time() - began < 10


def test_an_image_of_many_chunks_is_not_taken_apart() -> None:
    pixels = zlib.compress(b"\0\1\2\3\4")
    few = [pixels[:1], *[b""] * 4_000, pixels[1:]]
    assert png.size_of(image(1, 1, *few)) == (1, 1)
    many = image(1, 1, *few, *[b""] * 100_000)
    tracemalloc.start()
    try:
        with pytest.raises(png.NotPNG, match="chunks"):
            png.size_of(many)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_the_largest_image_there_is_is_taken_and_no_more_bytes_are_looked_at() -> None:
    width, height = 2_000, 2_000
    rows = bytes(range(256)) * ((4 * width + 1) * height // 256 + 1)
    stored = zlib.compress(b"".join(b"\0" + rows[row * 4 * width : (row + 1) * 4 * width] for row in range(height)), 0)
    assert png.size_of(image(width, height, stored)) == (width, height)
    with pytest.raises(png.NotPNG, match="bytes"):
        png.size_of(image(width, height, stored) + b"\0" * (2 << 20))
    with pytest.raises(png.NotPNG, match="pixels"):
        png.size_of(image(MAX_FIGURE_SIDE + 1, 1, stored))


def test_figures_beyond_the_most_are_left_out_of_the_outcome() -> None:
    good = image(1, 1, zlib.compress(b"\0\1\2\3\4"))
    frames: list[wire.Frame] = [wire.Image(f"plot_{number}", good) for number in range(MAX_FIGURES + 5)]
    outcome = reading.outcome_of(Answer(frames=frames, done=wire.Done()), LIMITS)
    assert len(outcome.figures) == MAX_FIGURES


@pytest.mark.slow
@pytest.mark.parametrize(
    "cut", [pytest.param("", marks=pytest.mark.slow), "os.write(pipe, b'\\0\\0\\1\\0half a frame')\n"]
)
def test_a_run_that_closes_its_reply_ends_itself_alone(breakable: Sandbox, cut: str) -> None:
    """Without a session it is forked from the root, as the runs of everybody else are."""
    root = breakable.start()._root
    bystanders: dict[str | None, Outcome] = {}

    def stand_by(session: str | None) -> None:
        source = "import time\ntime.sleep(3.5)\nresult = 'done'"
        bystanders[session] = run_in_jail(source, LIMITS, session=session, sandbox=breakable)

    threads = [threading.Thread(target=stand_by, args=(session,)) for session in (None, "another")]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    source = f"{FAILS}\ndef frames(): return []\n{FORGE.replace('os._exit(0)', '')}\n{cut}os.close(pipe)\nimport time\ntime.sleep(60)"
    outcome = run_in_jail(source, LIMITS, sandbox=breakable)
    assert (outcome.error.kind, outcome.error.message) == ("Crash", "the run closed its reply before its end")
    for thread in threads:
        thread.join()
    assert [bystanders[session].value for session in (None, "another")] == ["done", "done"]
    assert breakable.start()._root is root
