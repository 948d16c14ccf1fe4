"""What happens inside one run, between its fork and its end: data, jail, code, reply."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import gc
import io
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn

import msgspec

from byref_sandbox import wire
from byref_sandbox.jail.jail import Jail, Terms, address_space, resident
from byref_sandbox.jsontext import encodable
from byref_sandbox.outcome import Failure
from byref_sandbox.values.data import Unusable

_TICK_SECONDS: Final = 0.05
"""An expired timer fires again this often: code that swallows the first exception does not swallow them all."""
_RESERVE_BYTES: Final = 8 << 20
"""Given back when memory runs out, so that there is some left to say so."""
_OWN_DEPTH: Final = 30
"""Calls of the worker's own below the code's first."""
_LEVELS: Final = 700
"""Of arrays and objects in each other that come out of a run: whoever reads them has used some of Python's thousand calls."""
_MAX_MESSAGE_CHARS: Final = 4_000
_UNICODE: Final = "utf-8"
_LAST_SIGNALS: Final = (wire.ASK_SIGNAL, signal.SIGXCPU)
"""The next is a kill."""


class Expired(BaseException):
    """A limit ran out: raised by a timer, wherever the code is."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, hint=hint)


class Captured(io.TextIOBase):
    """Print output: what fits into `max_bytes` is kept, the rest is counted in characters.

    What is kept goes to the host at once as well, which has it then if the run does not come to its end.
    """

    def __init__(self, max_bytes: int, reply: int | None = None) -> None:
        super().__init__()
        self._room = max_bytes
        self._reply = reply
        self._parts: list[str] = []
        self.dropped = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Takes all of `text`, keeps what fits."""
        start = text[: self._room].encode(_UNICODE, "backslashreplace")
        if len(start) <= self._room and len(text) <= self._room:
            kept, count = start.decode(), len(text)
        else:
            kept = start[: self._room].decode(_UNICODE, "ignore")
            count = min(len(kept), len(text))
        self._room -= min(len(start), self._room)
        self.dropped += len(text) - count
        if kept:
            self._parts.append(kept)
            if self._reply is not None:
                with contextlib.suppress(OSError):  # nobody hears it: what comes next says so
                    wire.write_printed(self._reply, kept.encode())
        return len(text)

    def text(self) -> str:
        """All that was kept."""
        return "".join(self._parts)


Body = Callable[[Captured], list[wire.Frame]]
"""Runs the code and gives the reply's frames; the last may be a Done, without output and usage."""
Prepare = Callable[[], Body]
"""Loads what the run needs, while the jail is still open; raises Unusable."""


def execute(terms: wire.Terms, prepare: Prepare, jail: Jail, *, reply: int, parent: int) -> NoReturn:
    """The whole life of a run's process: never returns, never raises."""
    try:
        stdout = Captured(terms.stdout_bytes, reply)
        usage = _Usage()
        try:
            frames = _guarded(terms, prepare, jail, reply, parent, stdout)
            disarm()
        except Expired as error:  # while what the code left was being freed
            disarm()
            frames = [error_frame(error.failure)]
        try:
            _send(reply, frames, stdout, usage)
        except MemoryError as error:
            _send(reply, [error_frame(failure_of(error, terms))], stdout, usage)
    finally:
        os._exit(0)


def refuse(reply: int, failure: Failure) -> NoReturn:
    """Ends the process of a run that cannot be begun."""
    _send(reply, [error_frame(failure)], Captured(0), _Usage())
    os._exit(0)


def _guarded(
    terms: wire.Terms, prepare: Prepare, jail: Jail, reply: int, parent: int, stdout: Captured
) -> list[wire.Frame]:
    reserve = mmap.mmap(
        -1, _RESERVE_BYTES, mmap.MAP_PRIVATE
    )  # address space alone: pages it never touches cost nothing
    try:
        body = prepare()
        sys.stdout = sys.stderr = stdout
        for name in ("stdin", "__stdin__", "__stdout__", "__stderr__"):
            setattr(sys, name, None)
        sys.setrecursionlimit(terms.recursion_depth + _OWN_DEPTH)
        _arm(terms)
        _say_where(reply)
        jail.enter(
            Terms(
                keep=(reply,),
                address_space=address_space() + terms.memory_bytes,
                cpu_seconds=terms.cpu_seconds,
                parent=parent,
            )
        )
        gc.enable()
        return body(stdout)
    except Unusable as error:
        return [error_frame(Failure("ValueError", str(error)))]
    except BaseException as error:  # noqa: BLE001  (hostile code may raise anything)
        disarm()
        reserve.close()
        return [error_frame(failure_of(error, terms))]


def out_of_memory(error: BaseException) -> bool:
    """Whether the error means that there was no memory left."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def failure_of(error: BaseException, terms: wire.Terms) -> Failure:
    """The failure of what no language explains: expired limits, memory, and anything from outside the code."""
    if isinstance(error, Expired):
        return error.failure
    if out_of_memory(error):
        return Failure(
            "MemoryLimit",
            f"needed more than the {terms.memory_bytes >> 20:,} MiB of memory a run may use",
            hint="work on fewer rows or columns at a time",
        )
    try:
        return Failure(type(error).__name__, str(error))
    except BaseException:  # noqa: BLE001  (the error's own __str__)
        return Failure(type(error).__name__, "")


def error_frame(failure: Failure) -> wire.Error:
    """The failure, bounded and in valid Unicode."""
    return wire.Error(
        encodable(failure.kind)[:200],
        encodable(failure.message)[:_MAX_MESSAGE_CHARS],
        failure.line,
        None if failure.hint is None else encodable(failure.hint)[:_MAX_MESSAGE_CHARS],
    )


def _arm(terms: wire.Terms) -> None:
    # Timers are set before the jail takes the system call away, so nothing in it can set them again.
    for number, timer, seconds, kind, what in (
        (signal.SIGALRM, signal.ITIMER_REAL, terms.wall_seconds, "TimeLimit", "s"),
        (signal.SIGPROF, signal.ITIMER_PROF, terms.cpu_seconds, "CpuLimit", "s of processor time"),
    ):
        signal.signal(number, _raiser(kind, f"stopped after {seconds:g} {what}"))
        signal.setitimer(timer, seconds, _TICK_SECONDS)


def _raiser(kind: str, message: str) -> Callable[[int, FrameType | None], None]:
    def expire(_signal: int, _frame: FrameType | None) -> None:
        raise Expired(kind, message, "do less per call, or use pandas operations instead of loops")

    return expire


def _say_where(reply: int) -> None:
    """Has the run write down in which line it is when its zygote, or the system, is about to kill it.

    Python's own handlers wait for compiled code to return; these do not.
    """
    for number in _LAST_SIGNALS:
        faulthandler.register(number, reply, all_threads=False)


def disarm() -> None:
    """Stops the run's own timers; from here on its zygote alone watches the clock, and the reply holds frames alone."""
    for number in (signal.SIGALRM, signal.SIGPROF, *_LAST_SIGNALS):
        signal.signal(number, signal.SIG_IGN)


def lessen_depth() -> None:
    """Lets nothing be written down that is nested deeper than a host reads; the code has run by now."""
    sys.setrecursionlimit(min(sys.getrecursionlimit(), _OWN_DEPTH + _LEVELS))


class _Usage:
    """What the run has cost since this object was made."""

    def __init__(self) -> None:
        self._resident = resident()
        self._cpu_seconds = time.process_time()

    def cpu_ms(self) -> float:
        return round((time.process_time() - self._cpu_seconds) * 1000, 3)

    def peak_bytes(self) -> int:
        return max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self._resident)


def _send(reply: int, frames: list[wire.Frame], stdout: Captured, usage: _Usage) -> None:
    done = frames[-1] if frames else wire.Done()
    if isinstance(done, wire.Done):
        frames = frames[:-1]
    else:
        done = wire.Done()
    done = msgspec.structs.replace(
        done,
        text=None if done.text is None else encodable(done.text),
        stdout=stdout.text(),
        stdout_dropped=stdout.dropped,
        cpu_ms=usage.cpu_ms(),
        peak_bytes=usage.peak_bytes(),
    )
    for frame in (*frames, done):
        wire.write_all(reply, wire.pack(frame))
