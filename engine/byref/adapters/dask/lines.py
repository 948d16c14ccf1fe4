"""How code on a Dask worker calls functions of its host: the host asks the worker for calls, and brings it their answers.

All of it goes through the client's own connection: host, scheduler, worker. The host asks, and the worker answers as soon as the run
has something to say; so no worker can send anything unasked, and none needs a way to the host. What a worker says is hostile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import select
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Final

import distributed.protocol.pickle
import msgspec

from byref.errors import one_line
from byref_sandbox import SandboxUnavailable
from byref_sandbox.functions import MAX_CALLS_AT_ONCE, Answer, Beginning, Call, Callee, Raised, Returned, Stub

_pickled: Any = distributed.protocol.pickle.dumps

ASK_SECONDS: Final = 5.0
"""How long a worker may have nothing to say."""
FIND_SECONDS: Final = 1.0
"""How long it waits for a run that it does not know yet."""
LOST_SECONDS: Final = 15.0
"""A run whose worker has not answered so long after it should have is lost."""
END_SECONDS: Final = 5.0
"""The same of a run that its worker does not know any more, and whose reply does not come."""
HOST_SECONDS: Final = 60.0
"""A run whose host has asked nothing for so long is ended."""
ASKED_BYTES: Final = 1 << 20
"""Bytes of arguments in one message, if it has more than one call."""
MOST_BYTES: Final = 64 << 20
"""While more bytes of answers wait on a worker for the run the host brings no more; more bytes of calls end the run."""
_PAUSE_SECONDS: Final = 0.05
_HANDLER: Final = "byref_lines"


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Worker to host: what a run has said."""

    run: Annotated[str, msgspec.Meta(max_length=64)]
    """The id of one beginning of the run; empty: the worker does not know the run, or it has ended."""
    calls: Annotated[list[Call], msgspec.Meta(max_length=MAX_CALLS_AT_ONCE)] = []
    given: int | None = None
    """How many calls the host has been given, with these; None: another question has come, and its answer says so."""
    waits: int | None = None
    """The run waits, after so many answers, and the host has all calls that it made."""
    is_full: bool = False
    """The run has to take answers before the host may bring more."""


class Told(msgspec.Struct, frozen=True):
    """Host to worker: answers of calls."""

    turn: int = 0
    """The number of the question: one may overtake another on its way."""
    answers: list[Answer] = []
    is_suspended: bool = False
    """What the run waits for will not come."""
    is_over: bool = False
    """Nobody waits for the run any more."""


_encode: Final = msgspec.msgpack.Encoder().encode
_said_of: Final = msgspec.msgpack.Decoder(Said).decode
_told_of: Final = msgspec.msgpack.Decoder(Told).decode


class Lost(SandboxUnavailable):
    """The worker of a run that has called functions is lost: no other may go on with the run."""


class Stopped(Exception):
    """Whoever answers the calls has ended the run: `error` is what it raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


# On the worker ----------------------------------------------------------------------------------------------------------------------


class WorkerEnd:
    """Answers a run's calls (`byref_sandbox.functions.Callee`) with what the host brings when it asks for them."""

    stubs: Sequence[Stub] = ()
    beginning: Beginning | None = None

    def __init__(self, most_bytes: int) -> None:
        self._run = secrets.token_hex(16)
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._calls: deque[Call] = deque()
        self._calls_bytes = 0
        self._refused: list[Answer] = []
        self._answers: list[Answer] = []
        self._answers_bytes = 0
        self._taken = 0
        """How many of the host's answers the run was given."""
        self._given = 0
        self._waits: int | None = None
        self._said = Said(self._run)
        self._is_suspended = self._is_over = False
        self._asked_at = time.monotonic()
        self._turn = -1
        self._question: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        """The newest question."""
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # What the sandbox asks, on the thread that waits for the run

    def begin(self, calls: Sequence[Call]) -> None:
        with self._lock:
            self._waits = None
            for call in calls:
                if len(call.arguments) > self._most_bytes:
                    words = f"{call.function}(): its arguments have {len(call.arguments):,} bytes; here at most {self._most_bytes:,} may be"
                    self._refused.append(Raised(call.number, "ValueError", words))
                else:
                    self._calls.append(call)
                    self._calls_bytes += len(call.arguments)
            if self._calls_bytes > MOST_BYTES:
                raise SandboxUnavailable(f"calls of functions wait for the host with {self._calls_bytes:,} bytes")
            self._wake_run()
            self._wake_question()

    def fileno(self) -> int:
        return self._reading

    def answers(self) -> Sequence[Answer]:
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 65_536)
        with self._lock:
            if self._is_over:
                raise SandboxUnavailable("the host does not wait for the run any more")
            if time.monotonic() - self._asked_at > HOST_SECONDS:
                raise SandboxUnavailable(f"the host of a run has asked nothing for {HOST_SECONDS:.0f} s")
            found = [*self._answers, *self._refused]
            self._taken += len(self._answers)
            self._answers, self._refused, self._answers_bytes = [], [], 0
            if self._said.is_full:
                self._wake_question()
            return found

    def patience(self) -> float:
        return max(0.0, self._asked_at + HOST_SECONDS - time.monotonic()) + 0.01

    def waits_for_ever(self) -> bool:
        """Tell the host that the run waits; return whether the host has said that it waits in vain."""
        with self._lock:
            if not self._is_suspended and self._waits != self._taken:
                self._waits = self._taken
                self._wake_question()
            return self._is_suspended

    # What the host asks, on the worker's event loop

    async def ask(self, told: Told) -> Said:
        """Take answers; return what the run has said, once there is something, or another question comes."""
        question = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._asked_at = time.monotonic()
            self._answers += told.answers
            self._answers_bytes += sum(map(size_of, told.answers))
            self._is_suspended |= told.is_suspended
            self._is_over |= told.is_over
            self._wake_run()
            if told.turn > self._turn:
                self._wake_question()  # the one before is answered now, with nothing
                self._turn, self._question = told.turn, question
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASK_SECONDS):
                while self._question is question and not self._is_over and not self._has_news():
                    await question[1].wait()
                    question[1].clear()
        with self._lock:
            self._asked_at = time.monotonic()
            if self._question is not question:
                return Said(self._run, is_full=self._said.is_full)
            calls: list[Call] = []
            size = 0
            while self._calls and (not calls or size + len(self._calls[0].arguments) <= ASKED_BYTES):
                calls.append(self._calls.popleft())
                size += len(calls[-1].arguments)
            self._calls_bytes -= size
            waits = None if self._calls else self._waits
            self._given += len(calls)
            self._said = Said(self._run, calls, self._given, waits, self._answers_bytes > MOST_BYTES)
            return self._said

    def _has_news(self) -> bool:
        is_drained = self._said.is_full and self._answers_bytes <= MOST_BYTES
        return bool(self._calls) or is_drained or (self._waits is not None and self._waits != self._said.waits)

    def _wake_run(self) -> None:
        if self._writing >= 0:
            with contextlib.suppress(BlockingIOError):
                os.write(self._writing, b"\0")

    def _wake_question(self) -> None:
        if self._question is not None:
            loop, event = self._question
            with contextlib.suppress(RuntimeError):  # the worker is closing
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Let the host's question be answered: the run has ended."""
        with self._lock:
            self._is_over = True
            self._wake_question()
            os.close(self._reading)
            os.close(self._writing)
            self._reading = self._writing = -1


_ends: dict[str, WorkerEnd] = {}
"""The runs of this process that may call functions."""


@contextlib.contextmanager
def opened(line: str, most_bytes: int) -> Iterator[Callee | None]:
    """Yield what answers the calls of a run; None if it has no line."""
    if not line:
        yield None
        return
    end = _ends[line] = WorkerEnd(most_bytes)
    try:
        yield end
    finally:
        if _ends.get(line) is end:
            del _ends[line]
        end.close()


async def listen(dask_worker: Any) -> None:
    """Have a worker take questions."""
    dask_worker.handlers[_HANDLER] = _asked


async def _asked(line: str, told: bytes) -> bytes:
    until = time.monotonic() + FIND_SECONDS
    while line not in _ends and time.monotonic() < until:
        await asyncio.sleep(0.005)
    end = _ends.get(line)
    return _encode(Said("") if end is None else await end.ask(_told_of(told)))


# On the host ------------------------------------------------------------------------------------------------------------------------


class HostEnd:
    """Asks the worker of one run for calls, has them answered, and brings the answers. One thread uses it, and closes it."""

    def __init__(self, callee: Callee, most_bytes: int, listening: set[str]) -> None:
        """`listening` has the workers that take questions, for all runs."""
        self.id = secrets.token_hex(16)
        self.is_suspended = False
        self._callee = callee
        self._most_bytes = most_bytes
        self._client: Any = None
        self._key: str | None = None
        self._worker: str | None = None
        self._run = ""
        self._number = self._turn = -1
        self._begun = self._sent = 0
        """Calls that the run has made, and answers that it was sent."""
        self._waits: int | None = None
        self._is_full = False
        self._unsent: list[Answer] = []
        self._asked: deque[tuple[Future[object], bool, float]] = deque()
        """Questions without an answer, at most two: whether they bring anything, and when they were asked."""
        self._not_before = 0.0
        self._silent_since: float | None = None
        self._is_missing = False
        """Answers may not have reached the run."""
        self._listening = listening
        self._lock = threading.Lock()
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def has_begun(self) -> bool:
        """Whether the run has called anything: then it cannot be begun again with the same answers."""
        return self._begun > 0

    def attach(self, client: Any, key: str | None, worker: str | None, *, goes_on: bool = False) -> None:
        """Take a task of Dask's as the one that makes the run; `worker` is the one it was sent to.

        Without a key the run is no task, and is on that worker. A task that `goes_on` with such a run changes nothing else.
        """
        self._client, self._key, self._worker = client, key, worker
        if goes_on:
            return
        self._asked.clear()
        self._run, self._silent_since, self._is_missing = "", None, False

    def wake(self) -> None:
        """End `follow` early; any thread may call it."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._writing >= 0:
                os.write(self._writing, b"\0")

    def follow(self, answered: threading.Event, seconds: float) -> bool:
        """Serve the run until its task is `answered`, or for some seconds; return whether it is.

        Raises:
            Lost: its worker is.
            Stopped: whoever answers the calls has raised something.
            SandboxUnavailable: what the worker says is malformed.
        """
        until = time.monotonic() + seconds
        while not answered.is_set():
            self._hear()
            self._answer()
            self._ask()
            now = time.monotonic()
            if now >= until:
                return False
            wakes = [until - now, self._callee.patience(), 1.0]
            if not self._asked:
                wakes.append(max(self._not_before - now, 0.001))
            poll = select.poll()
            poll.register(self._reading, select.POLLIN)
            if not self._is_full:
                poll.register(self._callee.fileno(), select.POLLIN)
            poll.poll(max(0.0, min(wakes)) * 1000 + 1)
            with contextlib.suppress(BlockingIOError):
                os.read(self._reading, 65_536)
        return True

    def close(self, *, is_done: bool) -> None:
        """Let go of the run; one that is not done is ended."""
        if not is_done and self._client is not None and self._worker is not None:
            with contextlib.suppress(RuntimeError):  # the client is closed
                self._send(Told(self._turn + 1, is_over=True))
        with self._lock:
            os.close(self._reading)
            os.close(self._writing)
            self._reading = self._writing = -1

    def _hear(self) -> None:
        while self._asked:
            question, brings, at = self._asked[0]
            if not question.done():
                if time.monotonic() - at > ASK_SECONDS + LOST_SECONDS:
                    raise Lost("the worker of a run does not answer")
                return
            self._asked.popleft()
            packed = None if question.cancelled() or question.exception() else question.result()
            said = self._read(packed) if type(packed) is bytes else Said("")
            if not said.run:
                self._is_missing |= brings
                self._is_silent()
                continue
            if said.run != self._run:
                if self.has_begun:
                    raise Lost("the worker of a run was lost, and the run begun again")
                self._run = said.run
            if self._is_missing or said.given not in (None, self._begun + len(said.calls)):
                raise Lost("the connection to the worker of a run was lost for a while")
            self._silent_since = None
            self._is_full = said.is_full
            if said.calls:
                self._begin(said.calls)
            elif not brings and not self._asked and time.monotonic() - at < _PAUSE_SECONDS:
                self._not_before = time.monotonic() + _PAUSE_SECONDS  # a worker need not say again that nothing is new
            if said.waits is not None:
                self._waits = said.waits

    def _read(self, packed: bytes) -> Said:
        try:
            said: Said = _said_of(packed)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SandboxUnavailable(f"a worker's calls could not be read: {one_line(error)}") from None
        return said

    def _begin(self, calls: list[Call]) -> None:
        for call in calls:
            if not self._number < call.number < 1 << 31:
                raise SandboxUnavailable(
                    "a worker's calls could not be read: a call that has another number than the next"
                )
            if len(call.arguments) > self._most_bytes:
                raise SandboxUnavailable(
                    f"a worker's calls could not be read: arguments of {len(call.arguments):,} bytes"
                )
            self._number = call.number
        self._begun += len(calls)
        self._waits = None
        if self._begun - self._sent > MAX_CALLS_AT_ONCE:
            raise SandboxUnavailable(f"a worker's calls could not be read: more than {MAX_CALLS_AT_ONCE:,} at once")
        try:
            self._callee.begin(calls)
        except Exception as error:
            raise Stopped(error) from error

    def _answer(self) -> None:
        if self._is_full or not self.has_begun:
            return
        try:
            if not self._unsent:
                self._unsent += map(self._bounded, self._callee.answers())
            if self._waits == self._sent and not self._unsent and not self.is_suspended:
                self.is_suspended = self._callee.waits_for_ever()
                self._unsent += map(self._bounded, self._callee.answers())
        except Exception as error:
            raise Stopped(error) from error

    def _bounded(self, answer: Answer) -> Answer:
        if isinstance(answer, Returned) and len(answer.data) > self._most_bytes:
            words = f"its result has {len(answer.data):,} bytes; code on a Dask cluster can be given at most {self._most_bytes:,}"
            return Raised(answer.number, "FunctionError", words)
        return answer

    def _ask(self) -> None:
        """Have one question with the worker, and a second one if there is something to bring."""
        brings = bool(self._unsent) or (self.is_suspended and self._waits is not None)
        if len(self._asked) > (1 if brings else 0) or (not brings and time.monotonic() < self._not_before):
            return
        if self._worker is None and not self._find():
            return
        self._turn += 1
        told = Told(self._turn, self._unsent, self.is_suspended)
        self._sent += len(self._unsent)
        self._unsent = []
        if self.is_suspended:
            self._waits = None
        asked = self._send(told)
        asked.add_done_callback(lambda _: self.wake())
        self._asked.append((asked, brings, time.monotonic()))

    def _is_silent(self) -> None:
        """Ask again soon: where else the run may be, unless it has called something there."""
        now = time.monotonic()
        self._not_before = now + _PAUSE_SECONDS
        if not self.has_begun:
            if self._key is not None:
                self._worker = None
            return
        # A worker does not know a run that has just ended, either: then its reply is on its way.
        self._silent_since = self._silent_since or now
        if now - self._silent_since > END_SECONDS:
            raise Lost("the worker of a run was lost")
        self._find()  # Dask may have begun the run again, on another worker, which is to end it

    def _find(self) -> bool:
        """Find the worker that the scheduler has sent the run to."""
        if self._key is None:
            return True
        client = self._client
        processing = client.sync(client.scheduler.processing, workers=None, callback_timeout=10.0)
        found = [worker for worker, keys in processing.items() if self._key in keys]
        if not found:
            self._not_before = time.monotonic() + _PAUSE_SECONDS
            return False
        self._worker = found[0]
        return True

    def _send(self, told: Told) -> Future[object]:
        question = self._question(self._client, str(self._worker), _encode(told))
        return asyncio.run_coroutine_threadsafe(question, self._client.loop.asyncio_loop)

    async def _question(self, client: Any, worker: str, told: bytes) -> object:
        """Return what a worker says. Dask would unpickle errors of `Client.run`; here nothing is."""
        if worker not in self._listening:
            order = {
                "op": "run",
                "function": _pickled(listen),
                "args": _pickled(()),
                "kwargs": _pickled({}),
                "wait": True,
            }
            await client.scheduler.broadcast(msg=order, workers=[worker], on_error="ignore")
            self._listening.add(worker)
        asked = {"op": _HANDLER, "line": self.id, "told": told}
        said = await client.scheduler.broadcast(msg=asked, workers=[worker], on_error="ignore")
        found: object = said.get(worker)
        if found is None:  # it is lost, or another worker has its address
            self._listening.discard(worker)
        return found


def size_of(answer: Answer) -> int:
    """Return about how many bytes an answer takes."""
    return 100 + len(answer.data if isinstance(answer, Returned) else answer.message)
