"""From a run's answer to its outcome: what a hostile process sent is checked here, and what did not come is explained."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from byref_sandbox import files, jsontext, plots, wire
from byref_sandbox.exchange import Answer
from byref_sandbox.outcome import Bound, Definition, Failure, JqOutcome, Limits, Outcome, Same, Usage
from byref_sandbox.sources import MAX_SOURCE_CHARS

_MAX_PARTS: Final = 8_000_000
"""Of one value: an empty array is two bytes on the wire and sixty in memory, a short text is four and fifty."""
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""One that has no end goes to the end of the data, so that each byte is looked at once."""
_MAX_NUMBER: Final = 1 << 50
_Number = TypeVar("_Number", int, float)
_MAX_KIND_CHARS: Final = 200
_MAX_WORDS_CHARS: Final = 4_000
_MAX_LINE: Final = 10_000_000
_MAX_NAMES: Final = 10_000
_MAX_NAME_CHARS: Final = 512
_MAX_FIGURES_DROPPED: Final = 10_000
"""Beyond those that came: more than any code can make in its time."""
_RECORDS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_ANY_JSON: Final = msgspec.json.Decoder(msgspec.Raw)
_CRASHES: Final = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
)
_UNREADABLE: Final = Failure("Crash", "the run's reply could not be read", hint="run it again")


def outcome_of(answer: Answer, limits: Limits, given: Sequence[wire.Variable] = ()) -> Outcome:
    """The outcome of a run of code over the variables that it was given."""
    parts = {variable.name: variable.parts for variable in given}
    done, failure = answer.done, _failure(answer, limits)
    if done is None or (failure is not None and failure.kind == "Crash" and answer.fault):
        return Outcome(error=failure, usage=Usage(wall_ms=answer.wall_ms, cpu_ms=_cpu_ms(answer)))
    bound: dict[str, Bound] = {}
    same: dict[str, Same] = {}
    defined: dict[str, Definition] = {}
    unkept: dict[str, str] = {}
    for frame in answer.frames:
        if not isinstance(frame, wire.Kept | wire.Same | wire.Defined | wire.Lost):
            continue
        if len(bound) + len(same) + len(defined) + len(unkept) >= _MAX_NAMES:
            continue
        # Names of two underscores are the language's own: a run that keeps one wants to take its place.
        if not frame.name.isidentifier() or frame.name.startswith("__") or len(frame.name) > _MAX_NAME_CHARS:
            continue
        if isinstance(frame, wire.Lost):
            unkept[frame.name] = frame.reason[:_MAX_NAME_CHARS]
        elif isinstance(frame, wire.Same):
            if frame.path in parts.get(frame.variable, ()):
                shape = frame.shape[:_MAX_NAME_CHARS]
                same[frame.name] = Same(frame.variable, tuple(frame.path), frame.frame, shape)
            else:
                unkept[frame.name] = "its data could not be read"
        elif isinstance(frame, wire.Defined) and len(frame.source) > MAX_SOURCE_CHARS:
            unkept[frame.name] = f"a {frame.what} of more than {MAX_SOURCE_CHARS:,} characters"
        elif isinstance(frame, wire.Defined):
            defined[frame.name] = Definition(frame.what, frame.source)
        elif _has_too_many_parts(frame.data):
            unkept[frame.name] = f"it has more than {_MAX_PARTS:,} arrays, objects and values"
        elif (frame.exact and not frame.data) or _is_json(frame):
            bound[frame.name] = Bound(
                frame.kind, frame.data, frame.was[:_MAX_NAME_CHARS], frame.exact, frame.shape[:_MAX_NAME_CHARS]
            )
        else:
            unkept[frame.name] = "its data could not be read"
    written, unwritten = files.files_of(answer.frames)
    value: object = None
    if failure is None:
        try:
            if _has_too_many_parts(done.value):
                failure = Failure(
                    "OutputLimit",
                    f"the value has more than {_MAX_PARTS:,} arrays, objects and values",
                    hint="aggregate it, or take a slice",
                )
            else:
                value = jsontext.decode(done.value)
        except jsontext.NotJSON:
            failure = _UNREADABLE
    return Outcome(
        value=value,
        kind=done.kind if failure is None else "none",
        is_partial=failure is None and done.is_partial,
        exact=done.exact if failure is None else b"",
        shape=done.shape[:_MAX_NAME_CHARS] if failure is None else "",
        text=_text(done) if failure is None else "",
        stdout=done.stdout[: limits.stdout_bytes],
        stdout_dropped=_within(done.stdout_dropped) + max(0, len(done.stdout) - limits.stdout_bytes),
        error=failure,
        files=written,
        files_lost=unwritten,
        figures=plots.figures_of(answer.frames),
        figures_dropped=max(0, min(done.figures_dropped, _MAX_FIGURES_DROPPED)),
        bound=bound,
        same=same,
        defined=defined,
        unkept=unkept,
        usage=_usage(answer, done),
    )


def jq_outcome_of(answer: Answer, limits: Limits) -> JqOutcome:
    """The outcome of a jq program."""
    outputs = []
    for frame in answer.frames:
        if isinstance(frame, wire.Output):
            if not _is_readable(frame.data):
                return JqOutcome(error=_UNREADABLE)
            outputs.append(frame.data)
    failure = _failure(answer, limits)
    if failure is not None and failure.kind == "Crash" and answer.ended is not None:
        # libjq calls abort() when it gets no memory; nothing else is known to make it crash.
        failure = (
            Failure("MemoryLimit", f"needed more than {limits.memory_bytes >> 20:,} MiB of memory")
            if answer.wall_ms < limits.wall_seconds * 1000
            else Failure("TimeLimit", f"stopped after {limits.wall_seconds:g} s")
        )
    return JqOutcome(
        tuple(outputs),
        answer.done is not None and answer.done.truncated,
        failure,
        _usage(answer, answer.done) if answer.done is not None else Usage(answer.wall_ms, _cpu_ms(answer)),
    )


def _is_readable(data: bytes) -> bool:
    """Whether an output is JSON, for which lone surrogates may be."""
    try:
        str(data, "utf-8")  # msgspec does not look at the encoding
        _ANY_JSON.decode(data)
    except (UnicodeDecodeError, RecursionError):
        return False
    except msgspec.DecodeError:
        try:
            jsontext.decode(data)
        except jsontext.NotJSON:
            return False
    return True


def _failure(answer: Answer, limits: Limits) -> Failure | None:
    for frame in answer.frames:
        if isinstance(frame, wire.Error):
            return _told(frame)
    if answer.done is not None:
        return None
    if answer.refused is not None:
        return Failure(answer.refused.kind, answer.refused.message)
    if answer.fault == "too big":
        return Failure(
            "OutputLimit",
            f"sent back more than {limits.result_bytes:,} bytes",
            hint="aggregate, or keep fewer variables",
        )
    if answer.fault == "broken":
        return _UNREADABLE
    if answer.ended is not None:
        return _why_it_ended(answer.ended, limits)
    if answer.fault == "unfinished":
        return Failure("Crash", "the run closed its reply before its end", hint="run it again")
    if answer.fault == "silent":
        return Failure("Crash", "the interpreter did not answer in time and was restarted", hint="run it again")
    return Failure("Crash", "the interpreter process died during the run", hint="run it again")


def _told(error: wire.Error) -> Failure:
    """What a run says of itself, in the length in which an honest one says it."""
    return Failure(
        error.kind[:_MAX_KIND_CHARS],
        error.message[:_MAX_WORDS_CHARS],
        error.line if error.line is not None and 0 < error.line <= _MAX_LINE else None,
        None if error.hint is None else error.hint[:_MAX_WORDS_CHARS],
    )


def _why_it_ended(ended: wire.Ended, limits: Limits) -> Failure:
    hint = "do less per call, or use pandas operations instead of loops"
    if ended.timed_out:
        return Failure("TimeLimit", f"stopped after {limits.wall_seconds:g} s", hint=hint)
    if ended.signal == signal.SIGXCPU or (ended.signal == signal.SIGKILL and ended.cpu_seconds >= limits.cpu_seconds):
        return Failure("CpuLimit", f"stopped after {limits.cpu_seconds:g} s of processor time", hint=hint)
    if ended.signal == signal.SIGSYS:
        return Failure("NotAllowed", "made a system call that the sandbox forbids")
    if ended.signal == signal.SIGKILL:
        return Failure("Crash", "was killed by the system, which may have run out of memory", hint="use less memory")
    if ended.signal in _CRASHES:
        return Failure(
            "Crash",
            f"the code crashed its process ({signal.Signals(ended.signal).name})",
            hint="compiled code failed: too deep a nesting, too little memory, or an array that is changed while it is in use",
        )
    return Failure("Crash", f"ended without a reply (status {ended.status}, signal {ended.signal})")


def _cpu_ms(answer: Answer) -> float:
    return round(answer.ended.cpu_seconds * 1000, 3) if answer.ended is not None else 0.0


def _usage(answer: Answer, done: wire.Done) -> Usage:
    """What a run says that it cost, in numbers that any database takes; its zygote knows better, if it was heard."""
    cpu_ms = _cpu_ms(answer) if answer.ended is not None else float(_within(done.cpu_ms))
    return Usage(answer.wall_ms, cpu_ms, int(_within(done.peak_bytes)))


def _within(number: _Number) -> _Number:
    return min(number, _MAX_NUMBER) if number > 0 else type(number)(0)


def _has_too_many_parts(data: bytes) -> bool:
    """Whether JSON would take the host too much memory; what is in its texts does not count."""
    return not data.startswith(b'"') and _marks(data) > _MAX_PARTS and _marks(_TEXT.sub(b"", data)) > _MAX_PARTS


def _marks(data: bytes) -> int:
    return sum(map(data.count, (b"[", b"{", b",")))


def _text(done: wire.Done) -> str:
    return done.text if done.text is not None else done.value.decode("utf-8", "replace")


def _is_json(kept: wire.Kept) -> bool:
    try:
        kept.data.decode("utf-8")
        if kept.kind == "dataframe":
            _RECORDS.decode(kept.data)
        else:
            _ANY_JSON.decode(kept.data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True
