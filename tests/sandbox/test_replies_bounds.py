"""What a run that owns its pipe may tell of itself: numbers that databases take, names and definitions of honest size."""

from __future__ import annotations

import pytest

from byref_sandbox import Data, Limits, Outcome, Sandbox, reading
from byref_sandbox.sources import MAX_SOURCE_CHARS
from byref_sandbox.testing import run_in_jail

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


def test_a_definition_has_the_size_of_a_definition(sandbox: Sandbox) -> None:
    outcome = forge(sandbox, f"['defined', 'f', 'function', 'x' * {MAX_SOURCE_CHARS + 1}], {DONE}")
    assert not outcome.defined
    assert "characters" in outcome.unkept["f"]


def test_names_of_the_language_itself_are_not_taken(sandbox: Sandbox) -> None:
    outcome = forge(sandbox, f"['kept', '__builtins__', 'json', b'{{}}'], ['kept', 'x', 'json', b'1'], {DONE}")
    assert [*outcome.bound, *outcome.unkept] == ["x"]


def test_data_named_like_the_builtins_does_not_replace_them(sandbox: Sandbox) -> None:
    outcome = sandbox.run("df('__builtins__')\nlen([].copy()) + int('1')", {"__builtins__": {"a": 1}})
    assert outcome.value == 1


def test_a_kept_value_of_too_many_parts_is_not_read(sandbox: Sandbox) -> None:
    """Each would take the host forty times its bytes."""
    outcome = forge(sandbox, f"['kept', 'x', 'json', b'[' + b'[],' * 5_000_000 + b'[]]'], {DONE}")
    assert "arrays" in outcome.unkept["x"]


def test_what_is_in_texts_does_not_count(sandbox: Sandbox) -> None:
    text = "'a,[' * 3"
    outcome = forge(sandbox, f"['kept', 'x', 'json', msgspec.json.encode([{text}] * 1_000_000)], {DONE}")
    assert "x" in outcome.bound


@pytest.mark.parametrize("data", [b"[" + b'\\"' * 5_000_000, b"[" + b'"' * 5_000_001, b'[,"' + b"\\" * 5_000_001])
def test_texts_without_end_are_looked_at_once(data: bytes) -> None:
    assert len(reading._TEXT.sub(b"", data)) <= 10_000_001  # with a look back it would take hours


def test_the_same_bytes_are_text_and_json(sandbox: Sandbox) -> None:
    as_text = Data("same", lambda: b'{"a":1}', "text/plain")
    as_json = Data("same", lambda: b'{"a":1}')
    for variables in ({"x": as_text, "y": as_json}, {"y": as_json, "x": as_text}):
        assert sandbox.run("[x, y]", variables, session="same").value == ['{"a":1}', {"a": 1}]
    assert sandbox.run("x", {"x": as_text}, session="text first").value == '{"a":1}'
    assert sandbox.run("x", {"x": as_json}, session="text first").value == {"a": 1}
    picked = sandbox.pick(".a", as_json, session="text first")
    assert picked is not None
    assert picked.outputs == (b"1",)
