"""One run, from its fork to its end: load the data, enter the jail, run the code, send the reply.

The order matters. Data is loaded before the jail is entered, since memfds are read there. Timers are set before it as well, since
the jail takes the system call away. Code runs after it. Whatever happens, the process ends here: it must never return into
the loop of its zygote.
"""

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
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

import msgspec

from byref_sandbox import wire
from byref_sandbox.jail.jail import Jail, Terms, address_space, resident
from byref_sandbox.jsontext import encodable
from byref_sandbox.outcome import MAX_STDERR_BYTES, Failure
from byref_sandbox.values.data import Unusable

_TICK_SECONDS: Final = 0.05
"""An expired timer fires again after so long: code that catches the first exception does not catch them all."""
_RESERVE_BYTES: Final = 8 << 20
"""Address space that is given back for a reply, so that a failure can be reported when memory has run out."""
_RESERVES: Final = 2
"""One for the report that knows the line, and one for the report without it, if even that finds no memory."""
_PIPE_BYTES: Final = 64 << 10
"""What a pipe holds, as Linux makes it."""
_OWN_DEPTH: Final = 30
"""Calls of the worker itself that are below the first call of the code; they do not count against its limit."""
_LEVELS: Final = 700
"""Levels of nesting that may come out of a run. Python's limit is a thousand calls, and a reader has used some of them already."""
_MAX_MESSAGE_CHARS: Final = 4_000
_UNICODE: Final = "utf-8"
_OWN_FILE: Final = "<code>"
"""The file name of the code in tracebacks and warnings."""
_LAST_SIGNALS: Final = (wire.ASK_SIGNAL, signal.SIGXCPU)
"""Signals that come shortly before a kill."""


class Expired(BaseException):
    """A limit ran out. A timer raises this in whatever line the code is."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, hint=hint)


class Captured(io.TextIOBase):
    """Print output: stores what fits into `max_bytes` and counts the characters of the rest.

    With `reply`, what is stored also goes to the host at once, which then has it even if the run is killed.
    """

    def __init__(self, max_bytes: int, reply: int | None = None) -> None:
        super().__init__()
        self._room = max_bytes
        self._reply = reply
        self._parts: list[str] = []
        self.dropped = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Accept all of `text` and store what fits."""
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
                with contextlib.suppress(OSError):  # the host is gone: the reply will fail as well
                    wire.write_printed(self._reply, kept.encode())
        return len(text)

    def text(self) -> str:
        """Return all that was stored."""
        return "".join(self._parts)


class Pauses:
    """The time in which a run has waited for its host. Its limit of time does not count it, but it has a limit of its own."""

    def __init__(self, seconds: float) -> None:
        self._most = seconds
        self._seconds = 0.0
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds of waiting so far."""
        return self._seconds + (0.0 if self._since is None else time.monotonic() - self._since)

    @property
    def left(self) -> float:
        """Seconds of waiting that are left; raises Expired if there are none."""
        if self.seconds >= self._most:
            raise Expired(
                "WaitLimit", f"waited longer than {self._most:g} s for functions of the host", "call fewer functions"
            )
        return self._most - self.seconds

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Count the time in here."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._seconds, self._since = self.seconds, None


_reserved: Final[list[mmap.mmap]] = []

Body = Callable[[Captured], list[wire.Frame]]
"""Runs the code and returns the frames of the reply. The last may be a `Done`, to which output and usage are added."""
Prepare = Callable[[], Body]
"""Loads what the run needs, before the jail is entered; raises Unusable."""


def execute(
    terms: wire.Terms,
    prepare: Prepare,
    jail: Jail,
    *,
    reply: int,
    line: int | None = None,
    parent: int,
    pauses: Pauses,
) -> NoReturn:
    """Do the whole run in this process and end it: never returns, never raises.

    By the descriptor `line` the run calls functions of the host, if it may; `pauses` counts how long it waits for them.
    """
    try:
        _do(terms, prepare, jail.enter, reply, line, parent, pauses)
    finally:
        os._exit(0)


def rehearse(
    terms: wire.Terms,
    prepare: Prepare,
    jail: Jail,
    *,
    reply: int,
    line: int | None = None,
    parent: int,
    pauses: Pauses,
) -> None:
    """Do what `execute` does, for code that is harmless, and neither enter the jail nor end this process.

    What it leaves is memory that `execute` then need not copy from the zygote, page by page.
    """
    _do(terms, prepare, jail.rehearse, reply, line, parent, pauses)
    for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    for number in _LAST_SIGNALS:
        faulthandler.unregister(number)
    for name in (
        "stdout",
        "stderr",
    ):  # what is printed before a run is in its place would go to a descriptor of this reply's number
        setattr(sys, name, None)
    gc.disable()
    while _reserved:
        _reserved.pop().close()


def _do(
    terms: wire.Terms,
    prepare: Prepare,
    enter: Callable[[Terms], None],
    reply: int,
    line: int | None,
    parent: int,
    pauses: Pauses,
) -> None:
    stdout = Captured(terms.stdout_bytes, reply)
    stderr = Captured(min(terms.stdout_bytes, MAX_STDERR_BYTES))
    usage = _Usage()
    try:
        keep = (reply,) if line is None else (reply, line)
        frames = _guarded(terms, prepare, enter, keep, parent, stdout, stderr, pauses)
        disarm()
    except Expired as error:  # the timer fired while the code's objects were being freed
        disarm()
        frames = [error_frame(error.failure)]
    try:
        _send(reply, frames, stdout, stderr, usage)
    except MemoryError as error:
        disarm()
        _send(reply, [error_frame(failure_of(error, terms))], stdout, stderr, usage)


def refuse(reply: int, failure: Failure) -> NoReturn:
    """End the process of a run that cannot begin, with a reply that says why."""
    _send(reply, [error_frame(failure)], Captured(0), Captured(0), _Usage())
    os._exit(0)


def _guarded(
    terms: wire.Terms,
    prepare: Prepare,
    enter: Callable[[Terms], None],
    keep: tuple[int, ...],
    parent: int,
    stdout: Captured,
    stderr: Captured,
    pauses: Pauses,
) -> list[wire.Frame]:
    # Address space and no memory: pages that nobody touches are not there.
    _reserved.extend(mmap.mmap(-1, _RESERVE_BYTES, mmap.MAP_PRIVATE) for _ in range(_RESERVES))
    try:
        body = prepare()
        sys.stdout, sys.stderr = stdout, stderr
        _leave_streams()
        sys.setrecursionlimit(terms.recursion_depth + _OWN_DEPTH)
        _arm(terms, pauses)
        _say_where(keep[0])
        enter(
            Terms(
                keep=keep,
                address_space=address_space() + terms.memory_bytes,
                cpu_seconds=terms.cpu_seconds,
                parent=parent,
            )
        )
        # The zygote runs without it. What there is by now stays: to look through it would take time, and copy its pages.
        gc.freeze()
        gc.enable()
        return body(stdout)
    except Unusable as error:
        return [error_frame(Failure("ValueError", str(error)))]
    except BaseException as error:  # noqa: BLE001  (hostile code may raise anything)
        disarm()
        return [error_frame(failure_of(error, terms))]


def _leave_streams() -> None:
    """Forget the interpreter's own streams, which lead to descriptors of the zygote."""
    warnings.formatwarning = warning_line
    for name in ("stdin", "__stdin__", "__stdout__", "__stderr__"):
        setattr(sys, name, None)


def warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as one line of text: with its line in the code, but without the paths of libraries."""
    place = f"line {lineno}: " if filename == _OWN_FILE else ""
    return f"{place}{category.__name__}: {' '.join(str(message).split())}\n"


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def failure_of(error: BaseException, terms: wire.Terms) -> Failure:
    """Return the failure for an error that no language explains: an expired limit, memory, or a fault outside the code."""
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
    """Return a failure as a frame, its texts bounded and in valid Unicode: the code may have made them."""
    return wire.Error(
        encodable(failure.kind)[:200],
        encodable(failure.message)[:_MAX_MESSAGE_CHARS],
        failure.line,
        None if failure.hint is None else encodable(failure.hint)[:_MAX_MESSAGE_CHARS],
    )


def _arm(terms: wire.Terms, pauses: Pauses) -> None:
    # Before the jail is entered: in there the system call is refused, so that code can neither stop the timers nor set others.
    for number, timer, seconds, kind, what in (
        (signal.SIGALRM, signal.ITIMER_REAL, terms.wall_seconds, "TimeLimit", "s"),
        (signal.SIGPROF, signal.ITIMER_PROF, terms.cpu_seconds, "CpuLimit", "s of processor time"),
    ):
        expire = _raiser(kind, f"stopped after {seconds:g} {what}")
        if timer == signal.ITIMER_REAL:
            expire = _unless_paused(expire, time.monotonic() + seconds, pauses)
        signal.signal(number, expire)
        signal.setitimer(timer, seconds, _TICK_SECONDS)


_Handler = Callable[[int, FrameType | None], None]


def _unless_paused(expire: _Handler, deadline: float, pauses: Pauses) -> _Handler:
    # In the jail the timer cannot be set again. It goes on ticking, so the deadline is looked at with every tick.
    def tick(number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= deadline + pauses.seconds:
            expire(number, frame)

    return tick


def _raiser(kind: str, message: str) -> _Handler:
    def expire(_signal: int, _frame: FrameType | None) -> None:
        raise Expired(kind, message, "do less per call, or use pandas operations instead of loops")

    return expire


def _say_where(reply: int) -> None:
    """Have the run write its current line into the reply when its zygote, or the kernel, is about to kill it.

    `faulthandler` writes in the signal handler itself. Python's own handlers would wait until compiled code returns, which may be never.
    """
    for number in _LAST_SIGNALS:
        faulthandler.register(number, reply, all_threads=False)


def disarm() -> None:
    """Let nothing stop the reply: neither the run's own timers and signals, which end, nor that its memory is used up.

    From here on only the zygote watches the clock. Setting a signal takes memory, too.
    """
    if _reserved:
        _reserved.pop().close()
    for number in (signal.SIGALRM, signal.SIGPROF, *_LAST_SIGNALS):
        signal.signal(number, signal.SIG_IGN)


def lessen_depth() -> None:
    """Lower the recursion limit, so that no value is written that is nested deeper than a host can read. The code has ended by now."""
    sys.setrecursionlimit(min(sys.getrecursionlimit(), _OWN_DEPTH + _LEVELS))


class _Usage:
    """What the run itself says that it has cost since this object was made. The host prefers the kernel's count, which the zygote sends."""

    def __init__(self) -> None:
        self._resident = resident()
        self._cpu_seconds = time.thread_time()

    def cpu_ms(self) -> float:
        # Of the one thread: while a timer of the process runs, Linux counts the process's own time in ticks.
        return round((time.thread_time() - self._cpu_seconds) * 1000, 3)

    def peak_bytes(self) -> int:
        return max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self._resident)


def _send(reply: int, frames: list[wire.Frame], stdout: Captured, stderr: Captured, usage: _Usage) -> None:
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
        stderr=stderr.text() + ("…" if stderr.dropped else ""),
        cpu_ms=usage.cpu_ms(),
        peak_bytes=usage.peak_bytes(),
    )
    # What fits into the pipe goes in one write: the first one wakes the host, which may take this process's processor.
    pending = bytearray()
    for frame in (*frames, done):
        packed = wire.pack(frame)
        if len(pending) + len(packed) > _PIPE_BYTES:
            wire.write_all(reply, pending)
            pending = packed
        else:
            pending += packed
    wire.write_all(reply, pending)
