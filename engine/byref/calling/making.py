"""The functions of one run are called: each in a thread of its own or on an event loop, with what it returns encoded there too."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import select
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, get_args

import msgspec

from byref.artifacts.learning import MAX_BYTES, of_value
from byref.calling import results, submodels, threads
from byref.calling.results import Made
from byref.calling.submodels import Answered, Asked, ModelFunction
from byref.conversation.scope import Scope
from byref.errors import ByrefError
from byref.functions import Function, NeedsApproval, is_approved, journal_row
from byref.usage import Usage
from byref_sandbox.functions import ErrorKind

ERROR_KINDS: Final = frozenset(get_args(ErrorKind))


@dataclass(slots=True)
class CallUnderWay:
    """A call under way."""

    number: int
    function: Function
    arguments: dict[str, Any]
    row: int
    began: float = 0.0
    """When it was called; 0 while it waits for its turn."""
    ended: float = 0.0
    """When its function returned or raised; 0 before. What it returned may still be encoded, which is not its own time."""
    reserved_ms: float | None = None
    """The milliseconds that the session's budget leaves it."""
    is_over: bool = False
    """Its time is over: what it returns comes too late."""
    finish: Callable[[], None] | None = None
    asked: Asked | None = None
    """What it asks of a model."""
    lost: int = 0
    """Tokens that an earlier run may have used for the same call."""
    id: str = ""
    """By which somebody approves it."""
    is_approved: bool = False

    @property
    def seconds(self) -> float:
        """How long it may take."""
        seconds = self.function.timeout
        return seconds if self.reserved_ms is None else min(seconds, self.reserved_ms / 1000)


@dataclass(slots=True)
class Back:
    """A call that has come back, not yet in the journal."""

    call: CallUnderWay
    made: Made | None
    error: tuple[ErrorKind, str] | None
    wall_ms: float
    usages: Sequence[Usage] | None = None
    """What a model has used for it; None: that is unknown, or no model was asked."""
    waits: bool = False
    """It was not made: the function has said that it needs approval."""
    is_known: bool = False
    """A model's answer was there already, or came for another call with the same question."""


class Maker:
    """Calls the functions of one run. Its methods are called by the thread that waits for the run, which closes it, too."""

    def __init__(self, scope: Scope) -> None:
        self.departed: dict[str, str] = {}
        """Functions that have returned something else than before, each with what is different."""
        self._scope = scope
        self._at_once = scope.policy.run_calls_at_once
        self._queue: deque[CallUnderWay] = deque()
        self._under: dict[int, CallUnderWay] = {}
        """Calls that were begun and have not been forgotten, by number."""
        self._back: deque[Back] = deque()
        self._ready, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._threads: ThreadPoolExecutor | None = None
        self._context = contextvars.copy_context()
        self._closed = threading.Lock()
        self._is_closed = False
        self.is_given_up = False
        """Nobody waits for the program any more, or its event loop ends: no further call is made."""
        if (given_up := threads.given_up.get()) is not None:
            given_up.add_done_callback(lambda _: self.give_up())

    def fileno(self) -> int:
        """Return the descriptor that is readable when a call has come back."""
        return self._ready

    def wake_up(self) -> None:
        """Make the descriptor readable."""
        with contextlib.suppress(BlockingIOError):  # what is full wakes
            os.write(self._wake, b"1")

    def give_up(self) -> None:
        """Note that the program is given up; any thread may say so."""
        with self._closed:
            self.is_given_up = True
            if not self._is_closed:
                self.wake_up()

    def wait(self, seconds: float) -> None:
        """Wait until a call has come back, but not longer."""
        select.select([self._ready], [], [], seconds)

    def add(self, call: CallUnderWay) -> None:
        """Let a call be made when its turn comes."""
        self._queue.append(call)

    def answer(self, back: Back) -> None:
        """Let a call come back that is not made."""
        self._back.append(back)
        self.wake_up()

    def __len__(self) -> int:
        """Return how many calls are under way or wait for their turn."""
        return len(self._under) + len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, and nothing has come back."""
        return not (self._under or self._queue or self._back)

    def by_function(self) -> Counter[str]:
        """Return how many calls of each function are under way or wait for their turn."""
        return Counter(one.function.name for one in (*self._under.values(), *self._queue))

    @property
    def unmade(self) -> list[int]:
        """The rows of the calls that still wait for their turn."""
        return [one.row for one in self._queue]

    def deadlines(self) -> list[float]:
        """Return when calls under way take too long, by the monotonic clock."""
        return [one.began + one.seconds for one in self._under.values() if one.began and not one.ended]

    def came_back(self) -> list[Back]:
        """Return the calls that have come back, or have taken too long; each once."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._ready, 1 << 16)
        self._expire()
        back: list[Back] = []
        while self._back:
            one = self._back.popleft()
            if not one.call.is_over:
                one.call.is_over = True
                back.append(one)
        return back

    def forget(self, number: int) -> None:
        """Forget a call that has come back and is journaled: another one may be made in its place."""
        self._under.pop(number, None)

    def close(self) -> bool:
        """Let go of threads and what they are at; return whether it was open."""
        with self._closed:
            if self._is_closed:
                return False
            self._is_closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        for one in self._under.values():
            if one.finish is not None:
                one.finish()
        os.close(self._ready)
        os.close(self._wake)
        return True

    def start(self) -> None:
        """Make the calls whose turn it is."""
        left: deque[CallUnderWay] = deque()
        at_once = Counter(one.function.name for one in self._under.values())
        while self._queue and len(self._under) < self._at_once:
            one = self._queue.popleft()
            name = one.function.name
            if at_once[name] >= one.function.concurrency:
                left.append(one)
                continue
            at_once[name] += 1
            self._under[one.number] = one
            one.began = time.monotonic()
            self._make(one)
        self._queue.extendleft(reversed(left))

    def _make(self, one: CallUnderWay) -> None:
        loop, context = self._scope.loop, self._context.copy()
        context.run(journal_row.set, one.row)
        if one.is_approved:
            context.run(is_approved.set, True)
        if one.function.is_async:
            from byref.calling.loops import submit

            one.finish = submit(loop, context, lambda: self._awaited(one), self.give_up)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._at_once, thread_name_prefix="byref-function")
        self._threads.submit(context.run, self._called, one)

    def _called(self, one: CallUnderWay) -> None:
        if one.is_over:  # while it waited for a thread: the code was told that it did not return
            return
        try:
            try:
                value = one.function.call(**_converted(one.function, one.arguments))
            finally:
                one.ended = time.monotonic()
        except BaseException as error:  # noqa: BLE001  whatever a function raises is the code's to see
            self._raised(one, error)
            return
        self._encode(one, value)

    async def _awaited(self, one: CallUnderWay) -> None:
        try:
            try:
                value = await one.function.call(**_converted(one.function, one.arguments))
            finally:
                one.ended = time.monotonic()
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # it was not what the function awaits that was cancelled, but the function itself
            self._raised(one, error)
            return
        # What is long to encode must not hold the loop up.
        threads.results().submit(self._encode, one, value)

    def _raised(self, one: CallUnderWay, error: BaseException) -> None:
        waits = isinstance(error, NeedsApproval) and not one.is_approved
        self._came_back(one, None, error_of(one.function, error), waits=waits)

    def _encode(self, one: CallUnderWay, value: object) -> None:
        usages: Sequence[Usage] | None = None
        # Whatever happens here, the call comes back: nobody else ends it, and the code waits for it.
        try:
            if isinstance(value, Answered) and isinstance(one.function, ModelFunction):
                usages = submodels.usages_of(self._scope, one.function, value)
                if value.error is not None:
                    self._came_back(one, None, error_of(one.function, value.error), usages)
                    return
                value = value.value
            else:
                self._learn(one.function, value)
            made = results.made(self._scope, one.function.name, value)
        except ByrefError as error:
            words = f"{one.function.name}(): its result cannot be kept: {error}"
            self._came_back(one, None, ("FunctionError", words), usages)
        except BaseException as error:  # noqa: BLE001  an object of the host's that says something wrong of itself
            words = f"{one.function.name}(): its result, a {type(value).__name__}, cannot be given to code: {_words_of(error)}"
            self._came_back(one, None, ("FunctionError", words), usages)
        else:
            self._came_back(one, made, None, usages)

    def _learn(self, function: Function, value: object) -> None:
        """Note what a function has returned, of which nobody says what it returns, and whether it is something else than before."""
        if function.returns is not None or (sample := of_value(value)) is None:
            return
        if self._scope.learning is not None and self._scope.policy.for_tool(function.name).learn:
            self._scope.learning.note(self._scope.tenant, function.name, sample)
        if function.learned is None or function.name in self.departed or len(sample.data) > MAX_BYTES:
            return
        from byref.references.fitting import misfit  # imported late because jsonschema takes long to import

        try:
            wrong = misfit("" if sample.is_schema else msgspec.json.decode(sample.data), function.learned)
        except (ByrefError, msgspec.DecodeError, RecursionError):
            return
        if wrong is not None:
            self.departed[function.name] = wrong

    def _came_back(
        self,
        one: CallUnderWay,
        made: Made | None,
        error: tuple[ErrorKind, str] | None,
        usages: Sequence[Usage] | None = None,
        *,
        waits: bool = False,
    ) -> None:
        wall_ms = round((one.ended - one.began) * 1000, 3)
        with self._closed:
            if not self._is_closed:
                self._back.append(Back(one, made, error, wall_ms, usages, waits))
                self.wake_up()

    def _expire(self) -> None:
        now = time.monotonic()
        for one in list(self._under.values()):
            if one.began and not one.ended and now - one.began > one.seconds:
                words = f"{one.function.name}() did not return within {one.seconds:g} s"
                self._back.append(Back(one, None, ("TimeoutError", words), one.seconds * 1000))
                if one.finish is not None:
                    one.finish()


def _converted(function: Function, arguments: dict[str, Any]) -> dict[str, Any]:
    if not function.types:
        return arguments
    made = dict(arguments)
    for name, type_ in function.types.items():
        if name in made:
            try:
                made[name] = msgspec.convert(made[name], type_, strict=False)
            except msgspec.ValidationError as error:
                raise ValueError(f"{function.name}(): {name}: {error}") from None
    return made


def _words_of(error: BaseException) -> str:
    """Return an error's text. Its own `__str__` may fail, and without an answer the code would wait until the call's time is over."""
    try:
        return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    except BaseException:  # noqa: BLE001  the same
        return "its text cannot be read"


def error_of(function: Function, error: BaseException) -> tuple[ErrorKind, str]:
    """Return the exception that the code gets: of the same kind where Python has it, else a FunctionError."""
    kind: Any = next((each.__name__ for each in type(error).__mro__ if each.__name__ in ERROR_KINDS), "FunctionError")
    words = _words_of(error)
    if kind == "RuntimeError" and type(error) is not RuntimeError:
        kind = "FunctionError"
    if kind == "FunctionError" and type(error).__name__ not in ("FunctionError", "Exception"):
        words = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return kind, f"{function.name}(): {words}"
