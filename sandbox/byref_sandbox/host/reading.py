"""The outcome of a run, from the run's answer. A hostile process may have sent the answer, so everything in it is checked here.
What is missing from it is explained.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import msgspec
from blake3 import blake3

from byref_sandbox import jsontext, wire
from byref_sandbox.contents import decode_contents, decode_last, is_of_code
from byref_sandbox.host.exchange import Answer
from byref_sandbox.outcome import (
    COLUMN_TYPES,
    CRASH,
    MAX_STDERR_BYTES,
    MEMBER_TYPES,
    SUSPENDED,
    Aside,
    Bound,
    Column,
    Failure,
    JqOutcome,
    LeftOut,
    Limits,
    Member,
    Outcome,
    Rendered,
    Same,
    Table,
    Tables,
    Usage,
)
from byref_sandbox.values import files, plots
from byref_sandbox.values.weight import MAX_PARTS, decoded_bytes, has_too_many_parts, width_of

_SMALL_BYTES: Final = 1 << 20
"""A value of at most so many bytes of JSON is decoded at once. If that fails, the run has failed."""
_MAX_OUTCOME_BYTES: Final = 232 << 20
"""Maximum bytes of the host's memory that one outcome may take: the bytes received, the value and the value's text."""
_MAX_NUMBER: Final = 1 << 50
_Number = TypeVar("_Number", int, float)
_MAX_KIND_CHARS: Final = 200
_MAX_WORDS_CHARS: Final = 4_000
_DIGEST_BYTES: Final = 32
_MAX_LINE: Final = 10_000_000
_MAX_NAMES: Final = 10_000
_MAX_NAME_CHARS: Final = 512
_MAX_FIGURES_DROPPED: Final = 10_000
"""Maximum number of dropped figures that a run may report: more than any code can draw in its time."""
_OWN_LINE: Final = re.compile(rb'^  File "<(?:code|raw)>", line ([0-9]{1,8}) in ', re.MULTILINE)


class _Record(msgspec.Struct, frozen=True):
    """Any JSON object; all compare equal, so that a set of them stays small."""


_RECORDS: Final = msgspec.json.Decoder(set[_Record])
"""Checks that JSON is an array of objects, without keeping them."""
_CRASHES: Final = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
)
_TOO_MANY: Final = f"more than {MAX_PARTS:,} arrays, objects and values"
_TOO_MANY_HINT: Final = (
    "return fewer: aggregate it, or take a slice; to keep all of it, give a DataFrame or an array of it a name"
)
_UNREADABLE: Final = Failure(CRASH, "the run's reply could not be read", hint="run it again")


def outcome_of(answer: Answer, limits: Limits, given: Sequence[wire.Variable] = ()) -> Outcome:
    """Return the outcome of a run of code over the variables that it was given."""
    done, failure = answer.done, _failure(answer, limits)
    if done is None or (failure is not None and failure.kind == CRASH and answer.fault):
        printed = answer.printed[: limits.stdout_bytes].decode("utf-8", "replace")
        return Outcome(error=failure, stdout=printed, usage=Usage(wall_ms=answer.wall_ms, cpu_ms=_cpu_ms(answer)))
    told = _Told({variable.name: variable.parts for variable in given})
    for frame in answer.frames:
        told.add(frame)
    written, unwritten = files.files_of(answer.frames)
    outcome = Outcome(
        stdout=done.stdout[: limits.stdout_bytes],
        stdout_dropped=_within(done.stdout_dropped) + max(0, len(done.stdout) - limits.stdout_bytes),
        stderr=done.stderr[: MAX_STDERR_BYTES + 1],
        error=failure,
        files=written,
        files_lost=unwritten,
        figures=plots.figures_of(answer.frames),
        figures_dropped=max(0, min(done.figures_dropped, _MAX_FIGURES_DROPPED)),
        bound=told.bound,
        same=told.same,
        named=told.named,
        unkept=told.unkept,
        missed=told.missed,
        contents=told.contents,
        touched=told.touched,
        blobs=told.blobs,
        last=told.last,
        usage=_usage(answer, done),
    )
    return outcome if failure is not None else _with_value(outcome, answer, done)


class _Told:
    """What a reply says of names, checked frame by frame."""

    def __init__(self, parts: Mapping[str, list[list[str]]]) -> None:
        self._parts = parts
        self._names = 0
        self.bound: dict[str, Bound] = {}
        self.same: dict[str, Same] = {}
        self.named: dict[str, str] = {}
        self.unkept: dict[str, str] = {}
        self.missed: dict[str, str] = {}
        self.contents: bytes | None = None
        self.touched: dict[str, bytes] = {}
        self.blobs: dict[bytes, bytes] = {}
        self.last: bytes | None = None

    def add(self, frame: wire.Frame) -> None:
        """Take in a frame, if it is about names."""
        if isinstance(frame, wire.Blob):
            self.blobs[blake3(frame.data).digest()] = frame.data
        elif isinstance(frame, wire.Written):
            with contextlib.suppress(ValueError):  # then the names stay as they were
                contents = decode_contents(frame.contents)
                there = contents.names() | contents.settings()
                self.touched = {name: one[:_DIGEST_BYTES] for name, one in frame.touched.items() if name in there}
                self.contents = frame.contents
        elif isinstance(frame, wire.Shown):
            with contextlib.suppress(ValueError):  # then it stays as it was
                decode_last(frame.last)
                self.last = frame.last
        elif isinstance(frame, wire.Kept | wire.Same | wire.Named | wire.Lost | wire.Missed):
            self._names += 1
            if self._names <= _MAX_NAMES and is_of_code(frame.name) and len(frame.name) <= _MAX_NAME_CHARS:
                self._add_name(frame)

    def _add_name(self, frame: wire.Kept | wire.Same | wire.Named | wire.Lost | wire.Missed) -> None:
        name = frame.name
        if isinstance(frame, wire.Missed):
            self.missed[name] = frame.reason[:_MAX_NAME_CHARS]
        elif isinstance(frame, wire.Lost):
            self.unkept[name] = frame.reason[:_MAX_NAME_CHARS]
        elif isinstance(frame, wire.Named):
            self.named[name] = frame.what[:_MAX_NAME_CHARS]
        elif isinstance(frame, wire.Same):
            if frame.path in self._parts.get(frame.variable, ()):
                self.same[name] = Same(frame.variable, tuple(frame.path), frame.frame, frame.shape[:_MAX_NAME_CHARS])
            else:
                self.unkept[name] = "its data could not be read"
        elif has_too_many_parts(frame.data):
            self.named[name] = f"it has {_TOO_MANY}: only code can use it"
        elif (frame.exact and not frame.data) or _is_json(frame):
            was, shape = frame.was[:_MAX_NAME_CHARS], frame.shape[:_MAX_NAME_CHARS]
            self.bound[name] = Bound(frame.kind, frame.data, was, frame.exact, shape, frame.digest[:_DIGEST_BYTES])
        else:
            self.unkept[name] = "its data could not be read"


def _with_value(outcome: Outcome, answer: Answer, done: wire.Done) -> Outcome:
    """Return the outcome with the run's value, or with the reason why it cannot be read."""
    if has_too_many_parts(done.value):
        return replace(outcome, error=Failure("OutputLimit", f"the value has {_TOO_MANY}", hint=_TOO_MANY_HINT))
    is_small = len(done.value) <= _SMALL_BYTES
    if not is_small and not jsontext.is_json(done.value):
        return replace(outcome, error=_UNREADABLE)
    read = replace(
        outcome,
        kind=done.kind,
        json=done.value,
        is_partial=done.is_partial or not (is_small or _fits_in_memory(answer, done)),
        exact=done.exact,
        shape=done.shape[:_MAX_NAME_CHARS],
        shown=done.text,
    )
    if is_small:
        try:
            read.value  # noqa: B018  # it is made here: that it cannot be is the run's failure
        except jsontext.NotJSON:
            return replace(outcome, error=_UNREADABLE)
    return read


def _fits_in_memory(answer: Answer, done: wire.Done) -> bool:
    """Tell whether there is enough memory for a value as Python's objects, for its text and for everything that came with it."""
    came = sum(len(data) for frame in (*answer.frames, done) for data in _bytes_of(frame))
    is_text = done.text is None and not done.value.startswith(b'"')
    room = _MAX_OUTCOME_BYTES - came - (len(done.value) * width_of(done.value) if is_text else 0)
    return decoded_bytes(done.value, room) <= room


def _bytes_of(frame: wire.Frame) -> tuple[bytes, ...]:
    if isinstance(frame, wire.Kept):
        return frame.data, frame.exact
    if isinstance(frame, wire.Done):
        return frame.value, frame.exact
    if isinstance(frame, wire.File | wire.Blob):
        return (frame.data,)
    return (frame.png,) if isinstance(frame, wire.Image) else ()


def jq_outcome_of(
    answer: Answer, limits: Limits, *, max_outputs: int = wire.MAX_FRAMES, max_bytes: int | None = None
) -> JqOutcome:
    """Return the outcome of a jq program whose output is bounded by `max_outputs` and `max_bytes`."""
    outputs = [frame.data for frame in answer.frames if isinstance(frame, wire.Output)]
    most = limits.result_bytes if max_bytes is None else max_bytes
    if len(outputs) > max_outputs or sum(map(len, outputs)) > most or not all(map(jsontext.is_json, outputs)):
        return JqOutcome(error=_UNREADABLE)
    failure = _failure(answer, limits)
    if failure is not None and failure.kind == CRASH and answer.ended is not None:
        # libjq calls abort() when it gets no memory; nothing else is known to make it crash.
        failure = (
            Failure("MemoryLimit", f"needed more than {limits.memory_bytes >> 20:,} MiB of memory")
            if answer.wall_ms < limits.wall_seconds * 1000
            else Failure("TimeLimit", f"stopped after {limits.wall_seconds:g} s")
        )
    doubts = () if answer.done is None else answer.done.doubts
    return JqOutcome(
        tuple(outputs),
        answer.done is not None and answer.done.truncated,
        failure,
        _usage(answer, answer.done) if answer.done is not None else Usage(answer.wall_ms, _cpu_ms(answer)),
        not_finite="not finite" in doubts,
        rounded="yes" if "rounded" in doubts else "maybe" if "maybe rounded" in doubts else "",
    )


def rendered_of(answer: Answer, limits: Limits, max_bytes: int) -> Rendered:
    """Return the outcome of a template whose output is bounded by `max_bytes`."""
    usage = _usage(answer, answer.done) if answer.done is not None else Usage(answer.wall_ms, _cpu_ms(answer))
    if (failure := _failure(answer, limits)) is not None:
        return Rendered(error=failure, usage=usage)
    outputs = [frame.data for frame in answer.frames if isinstance(frame, wire.Output)]
    if len(outputs) != 1 or len(outputs[0]) > max_bytes:
        return Rendered(error=_UNREADABLE, usage=usage)
    try:
        return Rendered(outputs[0].decode("utf-8", "surrogatepass"), usage=usage)
    except UnicodeDecodeError:
        return Rendered(error=_UNREADABLE, usage=usage)


def tables_of(answer: Answer, limits: Limits, max_bytes: int) -> Tables:
    """Return the tables of a document, of at most `max_bytes`. Each is checked: JSON, and an object per row."""
    usage = _usage(answer, answer.done) if answer.done is not None else Usage(answer.wall_ms, _cpu_ms(answer))
    if (failure := _failure(answer, limits)) is not None:
        return Tables(error=_of_document(failure, answer), usage=usage)
    tables = [frame for frame in answer.frames if isinstance(frame, wire.Table)]
    members = [frame for frame in answer.frames if isinstance(frame, wire.Member)]
    size = sum(len(table.records) for table in tables) + sum(len(member.data) for member in members)
    if (
        size > max_bytes
        or len(answer.frames) > wire.MAX_DOCUMENT_FRAMES + 1  # the last one says that there is more
        or not all(map(_is_table, tables))
        or not {each.content_type for each in members} <= MEMBER_TYPES
    ):
        return Tables(error=_UNREADABLE, usage=usage)
    return Tables(
        tuple(map(_table_of, tables)),
        tuple(Member(each.source, each.content_type, each.data) for each in members),
        tuple(
            LeftOut(each.place, each.reason[:_MAX_WORDS_CHARS], each.source)
            for each in answer.frames
            if isinstance(each, wire.LeftOut)
        ),
        usage=usage,
    )


def _of_document(failure: Failure, answer: Answer) -> Failure:
    """Return a failure in words about a document. A parser that gets no memory may end its process."""
    hint = "give it as a smaller document" if failure.kind.endswith("Limit") else None
    if failure.kind == CRASH and answer.ended is not None:
        message = "its parser ended: there was not enough memory for it, or its bytes are damaged"
        return Failure(CRASH, message, hint=hint)
    return replace(failure, hint=hint)


def _table_of(frame: wire.Table) -> Table:
    before, after = (
        tuple(Aside(aside.place, tuple(aside.cells)) for aside in asides) for asides in (frame.before, frame.after)
    )
    columns = tuple(Column(each.name, each.type, _within(each.nulls), each.title) for each in frame.columns)
    return Table(
        frame.name,
        frame.place,
        columns,
        frame.rows,
        frame.records,
        before,
        after,
        tuple(frame.notes),
        frame.has_names,
        frame.source,
    )


def _is_table(frame: wire.Table) -> bool:
    names = {column.name for column in frame.columns}
    if len(names) != len(frame.columns) or not {column.type for column in frame.columns} <= COLUMN_TYPES:
        return False
    if frame.rows < 0 or not jsontext.is_json(frame.records):
        return False
    try:
        # A line each: their number is that of the rows, and no other object is made of them.
        _RECORDS.decode(frame.records)
    except msgspec.DecodeError:
        return False
    return frame.records.count(b"\n") == (frame.rows + 1 if frame.rows else 0)


def _failure(answer: Answer, limits: Limits) -> Failure | None:
    for frame in answer.frames:
        if isinstance(frame, wire.Error):
            return _error_of(frame)
    if answer.done is not None:
        return None
    if answer.refused is not None:
        return Failure(answer.refused.kind[:_MAX_KIND_CHARS], answer.refused.message[:_MAX_WORDS_CHARS])
    if answer.fault == "too big":
        return Failure(
            "OutputLimit",
            f"sent back more than {limits.result_bytes:,} bytes",
            hint="aggregate, or keep fewer variables",
        )
    if answer.fault == "broken":
        return _UNREADABLE
    if answer.fault == "suspended":
        return Failure(SUSPENDED, "the code waits for a call that is not answered yet")
    if answer.ended is not None:
        return replace(_why_it_ended(answer.ended, limits, said_where=bool(answer.dump)), line=_line_of(answer.dump))
    if answer.fault == "unfinished":
        return Failure(CRASH, "the run closed its reply before its end", hint="run it again")
    if answer.fault == "silent":
        return Failure(CRASH, "the interpreter did not answer in time and was restarted", hint="run it again")
    return Failure(CRASH, "the interpreter process died during the run", hint="run it again")


def _line_of(dump: bytes) -> int | None:
    """Return the line of the code that was running when the process was killed or crashed: that of the innermost call inside
    the code.
    """
    found = _OWN_LINE.search(dump)
    line = int(found[1]) if found is not None else 0
    return line if 0 < line <= _MAX_LINE else None


def _error_of(error: wire.Error) -> Failure:
    """Return the failure that a run reports of itself, cut to the length of an honest report."""
    return Failure(
        error.kind[:_MAX_KIND_CHARS],
        error.message[:_MAX_WORDS_CHARS],
        error.line if error.line is not None and 0 < error.line <= _MAX_LINE else None,
        None if error.hint is None else error.hint[:_MAX_WORDS_CHARS],
    )


def _why_it_ended(ended: wire.Ended, limits: Limits, *, said_where: bool) -> Failure:
    hint = "do less per call, or use pandas operations instead of loops"
    # One that said where it is, since its time was over, and then stopped by itself: its reply came behind that, and was not read.
    if ended.timed_out or (said_where and not ended.signal):
        return Failure("TimeLimit", f"stopped after {limits.wall_seconds:g} s", hint=hint)
    if ended.signal == signal.SIGXCPU or (ended.signal == signal.SIGKILL and ended.cpu_seconds >= limits.cpu_seconds):
        return Failure("CpuLimit", f"stopped after {limits.cpu_seconds:g} s of processor time", hint=hint)
    if ended.signal == signal.SIGSYS:
        return Failure("NotAllowed", "made a system call that the sandbox forbids")
    if ended.signal == signal.SIGKILL:
        return Failure(CRASH, "was killed by the system, which may have run out of memory", hint="use less memory")
    if ended.signal in _CRASHES:
        return Failure(
            CRASH,
            f"the code crashed its process ({signal.Signals(ended.signal).name})",
            hint="compiled code failed: too deep a nesting, too little memory, or an array that is changed while it is in use",
        )
    return Failure(CRASH, f"ended without a reply (status {ended.status}, signal {ended.signal})")


def _cpu_ms(answer: Answer) -> float:
    return round(_within(answer.ended.cpu_seconds * 1000), 3) if answer.ended is not None else 0.0


def _usage(answer: Answer, done: wire.Done) -> Usage:
    """Return what a run cost, in numbers that every database accepts. The zygote's measurement is preferred to the run's own,
    because the run may lie.
    """
    cpu_ms = _cpu_ms(answer) if answer.ended is not None else float(_within(done.cpu_ms))
    return Usage(answer.wall_ms, cpu_ms, int(_within(done.peak_bytes)))


def _within(number: _Number) -> _Number:
    return min(number, _MAX_NUMBER) if number > 0 else type(number)(0)


def _is_json(kept: wire.Kept) -> bool:
    if not jsontext.is_json(kept.data):
        return False
    try:
        if kept.kind == "dataframe":
            _RECORDS.decode(kept.data)
    except msgspec.DecodeError:
        return False
    return True
