"""The functions of one run: what answers its calls, from the journal or by calling them.

All SQL is done by the thread that waits for the run, and many calls share a transaction. Functions run in threads of their own, or on
an event loop, and hand their results over.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, get_args

import msgspec
from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import staging, store, variables
from byref.artifacts.variables import Part
from byref.calling import journal, results
from byref.calling.journal import Entry, Key, Program
from byref.calling.results import Made
from byref.conversation import room
from byref.conversation.result import Pending
from byref.conversation.scope import Scope
from byref.errors import ByrefError, ToolError, one_line
from byref.functions import Function
from byref_sandbox import EXACT, jsontext
from byref_sandbox.functions import MAX_MESSAGE_CHARS, Answer, Call, ErrorKind, Raised, Returned, Stub
from byref_sandbox.values import data

logger = logging.getLogger("byref")

MAX_CALLS: Final = 10_000
"""The most calls of one run."""
MAX_BYTES: Final = 2 << 30
"""The most bytes of arguments and results of one run."""
AT_ONCE: Final = 64
"""The most calls of one run that are under way at once."""
SHOWN_ARGUMENT_CHARS: Final = 300
_NEVER: Final = 3600.0
_ERROR_KINDS: Final = frozenset(get_args(ErrorKind))


class PathChanged(Exception):
    """A program that is run again asks for other calls than before."""


@dataclass(slots=True)
class _Under:
    """A call under way."""

    number: int
    function: Function
    arguments: dict[str, Any]
    row: int
    began: float = 0.0
    """When it was called; 0 while it waits for its turn."""
    is_over: bool = False
    """Its time is over: what it returns comes too late."""
    finish: Callable[[], None] | None = None


@dataclass(slots=True)
class _Done:
    """A call that has come back, not yet in the journal."""

    under: _Under
    made: Made | None
    error: tuple[ErrorKind, str] | None
    wall_ms: float


@dataclass(slots=True)
class Tally:
    """What a run's calls came to."""

    calls: int = 0
    failed: int = 0
    tokens: int = 0
    """Of results, which the model did not read."""
    kept: dict[str, int] = field(default_factory=dict)
    """Artifacts of results, by a number of their own, each with its function."""


class Calls:
    """Answers the calls of one run of code (`byref_sandbox.functions.Callee`). It is used by one thread, and closed by it."""

    def __init__(self, scope: Scope) -> None:
        functions = scope.functions
        self.stubs: Sequence[Stub] = [function.stub for function in functions]
        self.tally = Tally()
        self._scope = scope
        self._functions = {function.name: function for function in functions}
        self._program: Program | None = None
        self._journal: dict[Key, Entry] = {}
        self._unclaimed: set[Key] = set()
        """Calls of an earlier run of the program that this one has not asked for yet."""
        self._came: dict[bytes, int] = {}
        self._calls = 0
        self._bytes = 0
        self._queue: deque[_Under] = deque()
        self._under: dict[int, _Under] = {}
        """Calls that were begun and have not come back, by number."""
        self._waiting: dict[int, Entry] = {}
        """Calls that wait for somebody's approval, by number."""
        self._answers: list[Answer] = []
        self._results: list[tuple[Function, int, Made]] = []
        self._done: deque[_Done] = deque()
        self._ready, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._threads: ThreadPoolExecutor | None = None
        self._context = contextvars.copy_context()
        self._seen = 0.0
        self._closed = threading.Lock()
        self._is_closed = False

    # What the sandbox asks -----------------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the descriptor that is readable when a function has come back."""
        return self._ready

    def begin(self, calls: Sequence[Call]) -> None:
        """Answer calls out of the journal, or write them down and make them."""
        program = self._opened()
        new: list[tuple[Call, Function, dict[str, Any], Key, dict[str, Any]]] = []
        again: list[tuple[Entry, _Under]] = []
        for call in calls:
            try:
                function, arguments, key = self._checked(call)
            except ToolError as error:
                self._answers.append(Raised(call.number, "ValueError", _bounded(str(error))))
                continue
            entry = self._journal.get(key)
            self._unclaimed.discard(key)
            if entry is None:
                if self._unclaimed and not (self._under or self._waiting or self._queue or new or again):
                    self._answers.append(Raised(call.number, "RuntimeError", self._path_changed(function, arguments)))
                    continue
                row = self._row(call, function, arguments, key)
                new.append((call, function, arguments, key, row))
            else:
                under = self._from_journal(call, function, entry)
                if under is not None:
                    again.append((entry, under))
        if new or again:
            self._write(program, new, again)
        self._start()

    def answers(self) -> Sequence[Answer]:
        """Journal what has come back, and return it."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._ready, 1 << 16)
        self._expire()
        done: list[_Done] = []
        while self._done:
            one = self._done.popleft()
            if not one.under.is_over:
                one.under.is_over = True
                done.append(one)
        if done:
            self._journal_ends(done)
            self._start()
        elif self._program is not None and time.monotonic() - self._seen > journal.SEEN_SECONDS:
            program = self._program
            self._stage(lambda connection: journal.see(connection, program.row))
        answers, self._answers = self._answers, []
        return answers

    def patience(self) -> float:
        """Return the seconds until a call's time is over, or this process has to say that it is still at it."""
        if self._program is None:
            return _NEVER
        now = time.monotonic()
        until = [one.began + one.function.timeout for one in self._under.values() if one.began]
        return max(0.0, min([self._seen + journal.SEEN_SECONDS, *until]) - now) + 0.01

    def waits_for_ever(self) -> bool:
        """Whether only approvals are missing."""
        return bool(self._waiting) and not (self._under or self._queue or self._done or self._answers)

    # What the engine asks ------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls that wait for somebody's approval."""
        return tuple(
            Pending(entry.id, entry.function, journal.read_arguments(entry.arguments), self._why(entry.function))
            for entry in self._waiting.values()
        )

    @property
    def unclaimed(self) -> int:
        """How many calls an earlier run of the program made that this one did not ask for."""
        return len(self._unclaimed)

    def wait(self) -> None:
        """Note that the program waits for approvals."""
        program = self._opened()
        self._stage(lambda connection: journal.wait(connection, program.row))
        self._program = None

    def commit(self, connection: Connection, step: int | None) -> None:
        """End the program, with its reply's step; large results get names."""
        if self._program is None:
            return
        journal.commit(connection, self._program.row, step)
        if step is not None:
            self._name_results(connection, step)
        self._program = None

    def close(self) -> None:
        """Let go of threads; a program that has not ended may be begun again at once."""
        with self._closed:
            if self._is_closed:
                return
            self._is_closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        for one in self._under.values():
            if one.finish is not None:
                one.finish()
        if self._program is not None:
            program, self._program = self._program, None
            try:
                self._stage(lambda connection: journal.give_up(connection, program.row))
            except ByrefError:
                logger.warning("byref could not let go of a program", exc_info=True)
        os.close(self._ready)
        os.close(self._wake)

    # Within --------------------------------------------------------------------------------------------------------------------

    def _stage(self, work: Callable[[Connection], Any]) -> Any:
        self._seen = time.monotonic()
        return self._scope.stage(work)

    def _opened(self) -> Program:
        if self._program is None:
            until = time.monotonic() + journal.LEASE_SECONDS * 2
            while True:
                try:
                    program = journal.open_program(self._scope)
                    break
                except journal.UnderWay:
                    if not journal.waited(until):
                        raise ToolError("this very code is being run by another process; try again later") from None
            self._program, self._seen = program, time.monotonic()
            if not program.is_new:
                self._journal = self._scope.read(lambda connection: journal.entries(connection, program.row))
                self._unclaimed = {
                    key for key, entry in self._journal.items() if entry.state in ("returned", "raised", "begun")
                }
        return self._program

    def _checked(self, call: Call) -> tuple[Function, dict[str, Any], Key]:
        """Return a call's function, arguments and key; raise ToolError, in words for the code."""
        function = self._functions.get(call.function)
        if function is None:
            raise ToolError(f"there is no function {call.function[:80]!r}")
        self._calls += 1
        self._bytes += len(call.arguments)
        if self._calls > MAX_CALLS:
            raise ToolError(f"more than {MAX_CALLS:,} calls in one run")
        if self._bytes > MAX_BYTES:
            raise ToolError(f"more than {MAX_BYTES:,} bytes of arguments and results in one run")
        try:
            arguments = jsontext.decode(call.arguments)
        except jsontext.NotJSON as error:
            raise ToolError(f"{function.name}(): its arguments are no JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise ToolError(f"{function.name}(): its arguments are no object")
        digest = journal.digest_of(function.name, call.arguments)
        occurrence = self._came.get(digest, 0)
        self._came[digest] = occurrence + 1
        return function, self._fitting(function, arguments), (digest, occurrence)

    def _fitting(self, function: Function, arguments: dict[str, Any]) -> dict[str, Any]:
        from byref.references.fitting import misfit  # imported late because jsonschema takes long to import

        if (wrong := misfit(arguments, function.parameters)) is not None:
            raise ToolError(f"{function.name}(): {wrong}; it is {function.signature}")
        return arguments

    def _row(self, call: Call, function: Function, arguments: dict[str, Any], key: Key) -> dict[str, Any]:
        return {
            "function": function.name,
            "arguments": ledger.cut_arguments(call.arguments.decode("utf-8", "replace")),
            "digest": key[0],
            "occurrence": key[1],
            "state": "waiting" if function.needs_approval(arguments) else "begun",
        }

    def _from_journal(self, call: Call, function: Function, entry: Entry) -> _Under | None:
        """Answer a call that the journal has; return it if it is to be made."""
        self.tally.calls += entry.state in ("returned", "raised", "refused")
        self.tally.failed += entry.state in ("raised", "refused")
        self.tally.tokens += entry.tokens
        match entry.state:
            case "returned":
                self._answers.append(self._returned(call.number, entry))
            case "raised":
                kind: Any = entry.error_kind if entry.error_kind in _ERROR_KINDS else "FunctionError"
                self._answers.append(Raised(call.number, kind, entry.error or ""))
            case "refused":
                self._answers.append(Raised(call.number, "PermissionError", f"{function.name}() was not approved"))
            case "waiting":
                self._waiting[call.number] = entry
            case "approved":
                arguments = entry.arguments if entry.changed is None else entry.changed
                known = jsontext.decode(call.arguments if entry.changed is None else arguments.encode())
                assert isinstance(known, dict)
                return _Under(call.number, function, known, entry.row)
            case "begun":
                known = jsontext.decode(call.arguments)
                assert isinstance(known, dict)
                under = _Under(call.number, function, known, entry.row)
                if function.repeatable:
                    return under
                message = (
                    f"{function.name}() was under way when this code was interrupted: nobody knows whether it was done, "
                    "so it is not made again"
                )
                self._done.append(_Done(under, None, ("RuntimeError", message), 0.0))
                os.write(self._wake, b"1")
        return None

    def _returned(self, number: int, entry: Entry) -> Answer:
        content_type = entry.content_type or data.JSON
        if entry.result is not None:
            return Returned(number, content_type, journal.unpacked(entry.result))
        row = entry.artifact_row
        found = (
            {}
            if row is None
            else self._scope.read(lambda c: store.by_row_ids(c, self._scope.source, self._scope.row, [row]))
        )
        if row is None or row not in found:
            return Raised(
                number, "RuntimeError", f"what {entry.function}() returned before the interruption has expired"
            )
        return Returned(number, content_type, found[row].payload.read())

    def _write(
        self,
        program: Program,
        new: Sequence[tuple[Call, Function, dict[str, Any], Key, dict[str, Any]]],
        again: Sequence[tuple[Entry, _Under]],
    ) -> None:
        limited = {function.name: function.max_calls for _, function, *_ in new if function.max_calls is not None}

        def work(connection: Connection) -> tuple[list[tuple[int, str]], set[int]]:
            over: set[int] = set()
            if limited:
                ledger.lock(connection, self._scope.row)
            journal.see(connection, program.row)
            if limited:
                so_far = journal.calls_so_far(connection, self._scope.row, [*limited])
                for at, (_, function, *_rest) in enumerate(new):
                    if function.max_calls is not None:
                        count = so_far.get(function.name, 0)
                        so_far[function.name] = count + 1
                        if count >= function.max_calls:
                            over.add(at)
            rows = [row for at, (*_, row) in enumerate(new) if at not in over]
            made = journal.begin(connection, self._scope, program.row, rows) if rows else []
            if again:
                journal.begin_again(connection, [under.row for _, under in again])
            return made, over

        made, over = self._stage(work)
        rows = iter(made)
        for at, (call, function, arguments, _key, row) in enumerate(new):
            if at in over:
                words = f"{function.name}() may be called {function.max_calls:,} times in this conversation; that is used up"
                self._answers.append(Raised(call.number, "RuntimeError", words))
            elif row["state"] == "waiting":
                row_id, id_ = next(rows)
                self._waiting[call.number] = Entry(
                    row_id, id_, function.name, row["arguments"], "waiting", None, None, None, None, None, None, 0
                )
            else:
                self._queue.append(_Under(call.number, function, arguments, next(rows)[0]))
        self._queue.extend(under for _, under in again)

    def _start(self) -> None:
        """Make the calls whose turn it is."""
        left: deque[_Under] = deque()
        at_once: dict[str, int] = {}
        for one in self._under.values():
            at_once[one.function.name] = at_once.get(one.function.name, 0) + 1
        while self._queue and len(self._under) < AT_ONCE:
            one = self._queue.popleft()
            name = one.function.name
            if at_once.get(name, 0) >= one.function.concurrency:
                left.append(one)
                continue
            at_once[name] = at_once.get(name, 0) + 1
            self._under[one.number] = one
            one.began = time.monotonic()
            self._make(one)
        self._queue.extendleft(reversed(left))

    def _make(self, one: _Under) -> None:
        loop = self._scope.loop
        if one.function.is_async:
            from byref.calling.loops import submit

            one.finish = submit(loop, self._context.copy(), lambda: self._awaited(one))
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="byref-function")
        self._threads.submit(self._context.copy().run, self._called, one)

    def _called(self, one: _Under) -> None:
        try:
            value = one.function.call(**_converted(one.function, one.arguments))
        except BaseException as error:  # noqa: BLE001  whatever a function raises is the code's to see
            self._came_back(one, None, _error_of(one.function, error))
            return
        self._encode(one, value)

    async def _awaited(self, one: _Under) -> None:
        try:
            value = await one.function.call(**_converted(one.function, one.arguments))
        except asyncio.CancelledError:
            return
        except BaseException as error:  # noqa: BLE001  the same
            self._came_back(one, None, _error_of(one.function, error))
            return
        # What is long to encode must not hold the loop up.
        await asyncio.get_running_loop().run_in_executor(None, self._encode, one, value)

    def _encode(self, one: _Under, value: object) -> None:
        try:
            made = results.made(self._scope, one.function.name, value)
        except ByrefError as error:
            self._came_back(one, None, ("FunctionError", f"{one.function.name}(): its result cannot be kept: {error}"))
        except Exception as error:  # noqa: BLE001  an object of the host's that says something wrong of itself
            words = f"{one.function.name}(): its result, a {type(value).__name__}, cannot be given to code: {one_line(error)}"
            self._came_back(one, None, ("FunctionError", words))
        else:
            self._came_back(one, made, None)

    def _came_back(self, one: _Under, made: Made | None, error: tuple[ErrorKind, str] | None) -> None:
        wall_ms = round((time.monotonic() - one.began) * 1000, 3)
        with self._closed:
            if not self._is_closed:
                self._done.append(_Done(one, made, error, wall_ms))
                os.write(self._wake, b"1")

    def _expire(self) -> None:
        now = time.monotonic()
        for one in list(self._under.values()):
            if one.began and now - one.began > one.function.timeout:
                words = f"{one.function.name}() did not return within {one.function.timeout:g} s"
                self._done.append(_Done(one, None, ("TimeoutError", words), one.function.timeout * 1000))
                if one.finish is not None:
                    one.finish()

    def _journal_ends(self, done: Sequence[_Done]) -> None:
        """Write down what calls have come to; only then the code is told."""
        program = self._opened()

        def work(connection: Connection) -> dict[int, int]:
            artifacts: dict[int, int] = {}
            if any(one.made is not None and one.made.staged is not None for one in done):
                ledger.lock(connection, self._scope.row)
            journal.see(connection, program.row)
            rows: list[dict[str, Any]] = []
            for one in done:
                row: dict[str, Any] = {"of_call": one.under.row, "new_wall_ms": one.wall_ms}
                made = one.made
                if made is not None:
                    row |= {
                        "new_state": "returned",
                        "new_content_type": made.content_type,
                        "new_size_bytes": len(made.payload),
                        "new_tokens": made.tokens,
                    }
                    if made.staged is not None and made.about is not None:
                        room.check_within(connection, self._scope, {made.staged.digest: made.staged.size})
                        blob = staging.publish_kept(connection, self._scope.place, made.staged)
                        artifact = self._scope.publish(connection, blob, made.about, step=None, origin="output")
                        artifacts[one.under.number] = row["new_artifact_id"] = artifact.row_id
                    else:
                        row["new_result"] = journal.packed(made.payload)
                else:
                    assert one.error is not None
                    row |= {"new_state": "raised", "new_error_kind": one.error[0], "new_error": _bounded(one.error[1])}
                rows.append(row)
            journal.end(connection, rows)
            return artifacts

        artifacts = self._stage(work)
        for one in done:
            self._under.pop(one.under.number, None)
            self.tally.calls += 1
            if one.made is None:
                assert one.error is not None
                self.tally.failed += 1
                self._answers.append(Raised(one.under.number, one.error[0], _bounded(one.error[1])))
                continue
            self.tally.tokens += one.made.tokens
            self._bytes += len(one.made.payload)
            self._answers.append(Returned(one.under.number, one.made.content_type, one.made.payload))
            if one.under.number in artifacts:
                self._results.append((one.under.function, artifacts[one.under.number], one.made))

    def _name_results(self, connection: Connection, step: int) -> None:
        for function, artifact_row, made in self._results:
            assert made.about is not None
            is_table = made.content_type == EXACT and str(made.about.shape).startswith("DataFrame")
            shape = made.about.shape if isinstance(made.about.shape, str) else json.dumps(made.about.shape)
            part = Part(f"{function.name}_result", (), shape, "dataframe" if is_table else "value")
            [name] = variables.free(connection, self._scope.row, [part.wanted])
            variables.bind(
                connection,
                tenant=self._scope.tenant,
                session_row=self._scope.row,
                artifact_row=artifact_row,
                named=[(name, part)],
                step=step,
                origin="output",
            )
            self.tally.kept[name] = artifact_row

    def _path_changed(self, function: Function, arguments: Mapping[str, Any]) -> str:
        made = ", ".join(sorted({self._journal[key].function for key in self._unclaimed})[:5])
        return (
            f"{function.name}() was not called: this code was interrupted and runs again, and its path has changed. "
            f"Before, it called {made} at this point"
        )

    def _why(self, function: str) -> str:
        return "it needs approval" if self._functions[function].approval is True else "its arguments need approval"


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


def _error_of(function: Function, error: BaseException) -> tuple[ErrorKind, str]:
    """Return the exception that the code gets: of the same kind where Python has it, else a FunctionError."""
    kind: Any = next((each.__name__ for each in type(error).__mro__ if each.__name__ in _ERROR_KINDS), "FunctionError")
    words = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if kind == "RuntimeError" and type(error) is not RuntimeError:
        kind = "FunctionError"
    if kind == "FunctionError" and type(error).__name__ not in ("FunctionError", "Exception"):
        words = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return kind, f"{function.name}(): {words}"


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else f"{text[: MAX_MESSAGE_CHARS - 1]}…"
