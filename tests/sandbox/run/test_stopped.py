"""If a run is stopped, its printed output is kept and the line is named, even if compiled code never returns control."""

from __future__ import annotations

import os
import struct

import msgspec
import pytest
from sampled import sampled

from byref_sandbox import Limits, Sandbox, wire
from byref_sandbox.host.exchange import Answer
from byref_sandbox.host.reading import outcome_of
from byref_sandbox.testing import run_in_jail

ENDLESS_PATTERN = "re.match('(a+)+$', 'a' * 40 + 'b')"
PRINTED = "print('before')\n"


@pytest.mark.parametrize("session", sampled([None, "stopped"], 2))
@pytest.mark.parametrize(
    ("code", "limits", "kind", "line"),
    [
        (f"{PRINTED}\n{ENDLESS_PATTERN}", Limits(wall_seconds=0.3), "TimeLimit", 3),
        (f"{PRINTED}sum(range(10**12))", Limits(wall_seconds=0.3), "TimeLimit", 2),
        (f"{PRINTED}10**10**8", Limits(wall_seconds=0.3), "TimeLimit", 2),
        (f"{PRINTED}def f():\n    return sum(range(10**12))\nf()", Limits(wall_seconds=0.3), "TimeLimit", 3),
        (f"{PRINTED}while True: pass", Limits(cpu_seconds=0.2), "CpuLimit", 2),
        (
            f"{PRINTED}while True:\n    try:\n        while True: pass\n    except BaseException: pass",
            Limits(wall_seconds=0.3),
            "TimeLimit",
            4,
        ),
        (f"{PRINTED}'x' * 10**12", Limits(), "MemoryLimit", 2),
        (f"{PRINTED}x = []\nwhile True: x.append('y' * 10**6)", Limits(memory_bytes=50 << 20), "MemoryLimit", 3),
    ],
)
def test_what_was_printed_is_kept_and_the_line_is_named(
    sandbox: Sandbox, code: str, limits: Limits, kind: str, line: int, session: str | None
) -> None:
    outcome = sandbox.run(code, limits=limits, session=session)
    assert (outcome.error.kind, outcome.error.line, outcome.stdout) == (kind, line, "before\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        f"{PRINTED}table = np.arange(9e6).reshape(3_000, 3_000)\nnp.linalg.svd(table)",
        f"{PRINTED}rows = list(range(3_000_000))\nsorted(rows * 5, key=str)",
        f"{PRINTED}\npd.Series(['a' * 40 + 'b'], dtype=object).str.match('(a+)+$')",
    ],
)
def test_what_pandas_computes_too_long_is_named_too(sandbox: Sandbox, code: str) -> None:
    outcome = sandbox.run(code, limits=Limits(wall_seconds=1))
    assert (outcome.error.kind, outcome.error.line, outcome.stdout) == ("TimeLimit", 3, "before\n")


def test_compiled_code_beyond_its_processor_time_is_named(sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"{PRINTED}{ENDLESS_PATTERN}", limits=Limits(cpu_seconds=0.1))
    assert (outcome.error.kind, outcome.error.line, outcome.stdout) == ("CpuLimit", 2, "before\n")


def test_what_was_printed_before_a_crash_is_kept() -> None:
    outcome = run_in_jail(f"{PRINTED}import ctypes\nctypes.string_at(0)")
    assert (outcome.error.kind, outcome.stdout) == ("Crash", "before\n")


def test_as_much_is_kept_of_what_was_printed_as_of_a_run_that_ends(sandbox: Sandbox) -> None:
    limits = Limits(wall_seconds=0.3, stdout_bytes=1_001)
    stopped = sandbox.run(f"print('é' * 5_000)\n{ENDLESS_PATTERN}", limits=limits)
    assert stopped.stdout == "é" * 500 == sandbox.run("print('é' * 5_000)", limits=limits).stdout


def test_what_a_run_claims_of_its_end_is_bounded() -> None:
    """It is written by a run, which may be anything: a line is a number, and printed text no more than its limit."""
    frame = struct.pack("!I", len(packed := msgspec.msgpack.encode(["lost", "name", "reason"]))) + packed
    for flood in (b"Stack" + b"x" * 1_000_000, b"Current thread\n" * 50_000):
        reader = wire.FrameReader(2_000_000, 1_000)
        assert len(reader.feed(frame + flood[:100])) == 1
        for start in range(100, len(flood), 10_000):
            assert reader.feed(flood[start : start + 10_000]) == []
        assert len(reader.dump) <= 16 << 10
    for dump, line in (
        (b'  File "<code>", line 7 in f\n  File "<code>", line 2 in <module>\n', 7),
        (b'  File "re.py", line 9 in match\n  File "<code>", line 2 in <module>\n', 2),
        (b'  File "<code>", line 99999999 in f\n', None),
        (b'  File "<code>", line 0 in f\n', None),
        (b"\xff\xfe", None),
    ):
        ended = wire.Ended(9, 0, timed_out=True, cpu_seconds=0.0)
        answer = Answer(ended=ended, started=True, dump=dump, printed=b"\xff" * 10_000)
        outcome = outcome_of(answer, Limits(stdout_bytes=100))
        assert outcome.error is not None and outcome.error.line == line
        assert outcome.stdout == "\ufffd" * 100


def test_print_output_that_is_sent_at_once_is_bounded_and_no_frame() -> None:
    read_end, write_end = os.pipe()
    try:
        wire.write_printed(write_end, b"x" * 9_000)
        sent = os.read(read_end, 1 << 16)
    finally:
        os.close(read_end)
        os.close(write_end)
    frame = struct.pack("!I", len(packed := msgspec.msgpack.encode(["lost", "name", "reason"]))) + packed
    reader = wire.FrameReader(100_000, 1_000, 9_000)
    stream = sent + frame
    found = [each for start in range(0, len(stream), 7) for each in reader.feed(stream[start : start + 7])]
    assert (bytes(reader.printed), len(found)) == (b"x" * 9_000, 1)
    with pytest.raises(OverflowError):
        reader.feed(sent)
    for length in (1 << 31, (1 << 31) + 4_001, (1 << 32) - 1):
        with pytest.raises(OverflowError):
            wire.FrameReader(100_000, 1_000, 9_000).feed(struct.pack("!I", length))


@pytest.mark.slow
def test_much_that_is_printed_costs_little(sandbox: Sandbox) -> None:
    outcome = sandbox.run("for number in range(200_000): print(number % 7)", limits=Limits(stdout_bytes=100_000))
    assert outcome.error is None and len(outcome.stdout) == 100_000 and outcome.stdout_dropped == 300_000
