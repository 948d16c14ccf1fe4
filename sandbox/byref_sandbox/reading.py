"""From a run's answer to its outcome: what a hostile process sent is checked here, and what did not come is explained."""

from __future__ import annotations

import signal
from typing import Final

import msgspec

from byref_sandbox import jsontext, plots, wire
from byref_sandbox.exchange import Answer
from byref_sandbox.outcome import Bound, Definition, Failure, JqOutcome, Limits, Outcome, Usage

_MAX_PARTS: Final = 8_000_000
"""Of one value: an empty array is two bytes on the wire and sixty in memory, a short text is four and fifty."""
_MAX_KIND_CHARS: Final = 200
_MAX_WORDS_CHARS: Final = 4_000
_MAX_LINE: Final = 10_000_000
_MAX_NAMES: Final = 10_000
_MAX_NAME_CHARS: Final = 512
_RECORDS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_ANY_JSON: Final = msgspec.json.Decoder(msgspec.Raw)
_CRASHES: Final = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
)
_UNREADABLE: Final = Failure("Crash", "the run's reply could not be read", hint="run it again")


def outcome_of(answer: Answer, limits: Limits) -> Outcome:
    """The outcome of a run of code."""
    done, failure = answer.done, _failure(answer, limits)
    if done is None or (failure is not None and failure.kind == "Crash" and answer.fault):
        return Outcome(error=failure, usage=Usage(wall_ms=answer.wall_ms, cpu_ms=_cpu_ms(answer)))
    bound: dict[str, Bound] = {}
    defined: dict[str, Definition] = {}
    unkept: dict[str, str] = {}
    for frame in answer.frames:
        if not isinstance(frame, wire.Kept | wire.Defined | wire.Lost):
            continue
        if len(bound) + len(defined) + len(unkept) >= _MAX_NAMES:
            continue
        # Names of two underscores are the language's own: a run that keeps one wants to take its place.
        if not frame.name.isidentifier() or frame.name.startswith("__") or len(frame.name) > _MAX_NAME_CHARS:
            continue
        if isinstance(frame, wire.Lost):
            unkept[frame.name] = frame.reason[:_MAX_NAME_CHARS]
        elif isinstance(frame, wire.Defined):
            defined[frame.name] = Definition(frame.what, frame.source)
        elif (frame.exact and not frame.data) or _is_json(frame):
            bound[frame.name] = Bound(
                frame.kind, frame.data, frame.was[:_MAX_NAME_CHARS], frame.exact, frame.shape[:_MAX_NAME_CHARS]
            )
        else:
            unkept[frame.name] = "its data could not be read"
    value: object = None
    if failure is None:
        try:
            value = jsontext.decode(_bounded(done.value))
        except OverflowError:
            failure = Failure(
                "OutputLimit",
                f"the value has more than {_MAX_PARTS:,} arrays, objects and values",
                hint="aggregate it, or take a slice",
            )
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
        stdout_dropped=max(0, done.stdout_dropped) + max(0, len(done.stdout) - limits.stdout_bytes),
        error=failure,
        figures=plots.figures_of(answer.frames),
        figures_dropped=max(0, done.figures_dropped),
        bound=bound,
        defined=defined,
        unkept=unkept,
        usage=Usage(answer.wall_ms, max(0.0, done.cpu_ms), max(0, done.peak_bytes)),
    )


def jq_outcome_of(answer: Answer, limits: Limits) -> JqOutcome:
    """The outcome of a jq program."""
    outputs = []
    for frame in answer.frames:
        if isinstance(frame, wire.Output):
            try:
                _ANY_JSON.decode(frame.data)
            except (msgspec.DecodeError, RecursionError):
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
    cpu_ms = answer.done.cpu_ms if answer.done is not None else _cpu_ms(answer)
    peak_bytes = answer.done.peak_bytes if answer.done is not None else 0
    return JqOutcome(
        tuple(outputs),
        answer.done is not None and answer.done.truncated,
        failure,
        Usage(answer.wall_ms, max(0.0, cpu_ms), max(0, peak_bytes)),
    )


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
            "Crash", f"crashed ({signal.Signals(ended.signal).name})", hint="nested too deeply, or out of memory?"
        )
    return Failure("Crash", f"ended without a reply (status {ended.status}, signal {ended.signal})")


def _cpu_ms(answer: Answer) -> float:
    return round(answer.ended.cpu_seconds * 1000, 3) if answer.ended is not None else 0.0


def _bounded(data: bytes) -> bytes:
    if not data.startswith(b'"') and sum(map(data.count, (b"[", b"{", b","))) > _MAX_PARTS:
        raise OverflowError
    return data


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
