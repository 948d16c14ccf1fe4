"""The functions of one run: what answers its calls, from the journal or by calling them.

All SQL is done by the thread that waits for the run, and many calls share a transaction. Functions run in threads of their own, or on
an event loop, and hand their results over.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import staging, store, variables
from byref.artifacts.variables import Part
from byref.calling import budgets, journal, submodels
from byref.calling.budgets import Full, Spent
from byref.calling.journal import Entry, Key, Program, Start
from byref.calling.making import ERROR_KINDS, Back, CallUnderWay, Maker
from byref.calling.results import Made
from byref.calling.submodels import Asked, Hit, Make, ModelFunction, Verdict
from byref.conversation import room
from byref.conversation.result import Pending
from byref.conversation.scope import Scope
from byref.errors import ByrefError, QuotaExceeded, ToolError, one_line
from byref.functions import Function
from byref_sandbox import EXACT, jsontext
from byref_sandbox.functions import MAX_MESSAGE_CHARS, Answer, Beginning, Call, ErrorKind, Raised, Returned, Stub
from byref_sandbox.values import data

logger = logging.getLogger("byref")

HANDED_BYTES: Final = 16 << 20
"""Bytes of results that are handed over at once, or one result."""
MAX_CHECK_SECONDS: Final = 20.0
"""How long the arguments of one run's calls are checked against schemas: that is the host's time, not the run's."""
ROOM_SECONDS: Final = 0.1
"""How often calls that wait for other runs' calls to end are tried again."""
SHOWN_ARGUMENT_CHARS: Final = 300
_NEVER: Final = 3600.0
_UNMADE: Final = {
    "new_state": "raised",
    "new_error_kind": "RuntimeError",
    "new_error": "it was not made: the code had ended before its turn",
}


class PathChanged(Exception):
    """A program that is run again asks for other calls than before."""


@dataclass(slots=True)
class _New:
    """A call that is not in the journal yet, or is there and was not made: it was approved, say."""

    under: CallUnderWay
    entry: Entry | None
    row: dict[str, Any]
    """What the journal is to have of it, if it has nothing yet."""

    @property
    def is_made(self) -> bool:
        """It does not wait for anybody's approval."""
        return self.entry is not None or self.row["state"] == "begun"


@dataclass(slots=True)
class Tally:
    """What a run's calls came to."""

    calls: int = 0
    failed: int = 0
    left: int = 0
    """Calls that were under way when the code had ended."""
    tokens: int = 0
    """Of results, which the model did not read."""
    departed: dict[str, str] = field(default_factory=dict)
    """Functions that have returned something else than before, each with what is different."""
    kept: dict[str, int] = field(default_factory=dict)
    """Artifacts of results, by a number of their own, each with its function."""


_First = tuple[Call, Function, dict[str, Any], Key]
"""A call that no earlier run of its program has made: its function, its arguments as values, and by what the journal knows it."""


class Calls:
    """Answers the calls of one run of code (`byref_sandbox.functions.Callee`). It is used by one thread, and closed by it.

    `start` is that of an earlier run, where the program goes on.
    """

    def __init__(self, scope: Scope, start: Start | None = None) -> None:
        functions = scope.functions
        self.stubs: Sequence[Stub] = [function.stub for function in functions]
        self._maker = Maker(scope)
        self.tally = Tally(departed=self._maker.departed)
        self._scope = scope
        self._can_wait = scope.called is not None and scope.called.id is not None
        """Whether somebody can go on with the code once its calls are approved."""
        self._functions = {function.name: function for function in functions}
        self._start_of = start
        self._program: Program | None = None
        self._stage_by: Callable[[Callable[[Connection], Any]], Any] | None = None
        """Runs what is to be in SQL before the code goes on."""
        self._journal: dict[Key, Entry] = {}
        self._unclaimed: set[Key] = set()
        """Calls of an earlier run of the program that this one has not asked for yet."""
        self._put_off: list[_First] = []
        """Calls that the earlier run did not make. They are made once this one has asked for all of the earlier run's: code that
        awaits several calls may ask for the next ones in another order, because all answers of the journal come at once."""
        self._came: dict[bytes, int] = {}
        self._budget = budgets.OfRun(scope.policy)
        self._checked_seconds = 0.0
        self._held: list[_New] = []
        """Calls that wait until the session's calls at once are fewer."""
        self._tried = 0.0
        self._followers: dict[bytes, list[CallUnderWay]] = {}
        """Questions to models that are under way, each with the calls that wait for the same answer."""
        self._waiting: dict[int, Entry] = {}
        """Calls that wait for somebody's approval, by number."""
        self._answers: deque[Answer | tuple[int, Entry]] = deque()
        """Those of the journal are read when their turn comes."""
        self.new_results = 0
        """Calls whose results this run has written into the journal."""
        self._results: list[tuple[Function, int, Made]] = []
        self._seen = 0.0

    # What the sandbox asks -----------------------------------------------------------------------------------------------------

    @property
    def beginning(self) -> Beginning:
        """The clock and the random numbers of the run: those of the first run of its program."""
        start = self._started()
        return Beginning(start.at.timestamp(), start.seed)

    def fileno(self) -> int:
        """Return the descriptor that is readable when a function has come back."""
        return self._maker.fileno()

    def begin(self, calls: Sequence[Call]) -> None:
        """Answer calls out of the journal, or write them down and make them."""
        self._check_given_up()
        program = self._opened()
        new: list[_New] = []
        for call in calls:
            try:
                function, arguments, key = self._checked(call)
            except ToolError as error:
                self._refuse(call.number, "ValueError", str(error))
                continue
            except Spent as error:
                self._refuse(call.number, "RuntimeError", str(error))
                continue
            entry = self._journal.get(key)
            self._unclaimed.discard(key)
            if entry is None:
                self._put_off.append((call, function, arguments, key))
            else:
                under = self._from_journal(call, function, entry)
                if under is not None:
                    new.append(_New(under, entry, {}))
        if self._budget.is_ignored:
            raise ToolError("the code was ended: it went on calling functions although its budget was used up")
        if not self._unclaimed:
            put_off, self._put_off = self._put_off, []
            for one in put_off:
                self._add(new, *one)
        if new:
            self._write(program, new)
        self._maker.start()

    def answers(self) -> Sequence[Answer]:
        """Journal what has come back, and return it."""
        done = self._maker.came_back()
        if done:
            self._journal_ends(done)
        self._check_given_up()
        if self._held and (done or time.monotonic() - self._tried > ROOM_SECONDS):
            held, self._held = self._held, []
            self._write(self._opened(), held)
        self._maker.start()
        if self._program is not None and time.monotonic() - self._seen > journal.SEEN_SECONDS:
            program = self._program
            self._stage(lambda connection: journal.see(connection, program))
        return self._handed_over()

    def patience(self) -> float:
        """Return the seconds until a call's time is over, or this process has to say that it is still at it."""
        if self._program is None:
            return _NEVER
        now = time.monotonic()
        until = self._maker.deadlines()
        if self._held:
            until.append(self._tried + ROOM_SECONDS)
        return max(0.0, min([self._seen + journal.SEEN_SECONDS, *until]) - now) + 0.01

    def waits_for_ever(self) -> bool:
        """Whether only approvals are missing."""
        if self._held or self._answers or not self._maker.is_idle:
            return False
        if self._put_off:
            # The code has all answers that there are, waits, and has not asked for calls that it made before.
            for call, function, _, _ in self._put_off:
                self._refuse(call.number, "RuntimeError", self._path_changed(function))
            self._put_off.clear()
            return False
        return bool(self._waiting)

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

    @property
    def again(self) -> Start | None:
        """With what the program goes on if this run was interrupted; None if it has not called anything, now or before."""
        start = self._start_of
        if start is not None and self._program is not None:
            start = replace(start, row=self._program.row)
        return None if start is None or start.row is None else start

    def conclude(self) -> None:
        """Count the calls that only earlier runs of the program have asked for, and let `commit` end it also if this one has called
        nothing.
        """
        if self.again is not None:
            self._opened()
            for key in self._unclaimed:
                self._count(self._journal[key])

    def wait(self) -> None:
        """Note that the program waits for approvals."""
        program = self._opened()
        self._stage(lambda connection: journal.wait(connection, program))
        self.committed()

    def commit(self, connection: Connection, step: int | None) -> None:
        """End the program, with its reply's step; large results get names. It may be called again after a rollback."""
        if self._program is None:
            return
        unmade = self._maker.unmade
        self.tally.left = len(self._maker) - len(unmade)
        if unmade:
            journal.end(connection, [{"of_call": row, "new_wall_ms": None, **_UNMADE} for row in unmade])
        journal.commit(connection, self._program, step)
        if step is not None:
            self._name_results(connection, step)

    def committed(self) -> None:
        """Note that the transaction of `commit` was."""
        if self._program is not None:
            journal.leave(self._program)
        self._program = None

    def settle(self) -> None:
        """Wait until all calls that are under way have come back, so that the journal has what they have come to."""
        self._held.clear()  # nobody has written them down or made them
        while len(self._maker):
            self._maker.wait(self.patience())
            self.answers()

    def close(self) -> None:
        """Let go of threads; a program that has not ended may be begun again at once."""
        if not self._maker.close():
            return
        if self._program is not None:
            program, self._program = self._program, None
            try:
                self._stage(lambda connection: journal.give_up(connection, program))
            except ByrefError:
                logger.warning("byref could not let go of a program", exc_info=True)
            finally:
                journal.leave(program)

    # Within --------------------------------------------------------------------------------------------------------------------

    def _check_given_up(self) -> None:
        if self._maker.is_given_up:
            raise asyncio.CancelledError  # the program ends here, and may be begun again under its call id

    def _stage(self, work: Callable[[Connection], Any]) -> Any:
        self._seen = time.monotonic()
        if self._stage_by is None:
            self._stage_by = self._scope.stage_under_lock()
        return self._stage_by(work)

    def _started(self) -> Start:
        if self._start_of is None:
            self._start_of = journal.start_of(self._scope)
        return self._start_of

    def _opened(self) -> Program:
        if self._program is None:
            start = self._started()
            program = journal.open_program(self._scope, start, self._stage)
            self._program, self._seen = program, time.monotonic()
            if start.row is not None:
                self._journal = self._scope.read(lambda connection: journal.entries(connection, program.row))
                self._unclaimed = {
                    key for key, entry in self._journal.items() if entry.state in ("returned", "raised", "begun")
                }
        return self._program

    def _checked(self, call: Call) -> tuple[Function, dict[str, Any], Key]:
        """Return a call's function, arguments and key; raise ToolError and Spent, in words for the code."""
        self._budget.take_call(call.function, len(call.arguments))
        function = self._functions.get(call.function)
        if function is None:
            raise ToolError(f"there is no function {call.function[:80]!r}")
        try:
            arguments = _arguments_of(call.arguments)
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

        if self._checked_seconds > MAX_CHECK_SECONDS:
            raise Spent(f"{function.name}() was not called: the arguments of this run's calls take too long to check")
        began = time.monotonic()
        try:
            wrong = misfit(arguments, function.parameters)
        except RecursionError:
            wrong = "its arguments are nested too deeply"
        finally:
            self._checked_seconds += time.monotonic() - began
        if wrong is not None:
            raise ToolError(f"{function.name}(): {wrong}; it is {function.signature}")
        return arguments

    def _row(self, call: Call, function: Function, arguments: dict[str, Any], key: Key) -> dict[str, Any]:
        waits = function.needs_approval(arguments)
        # Who approves a call sees what it is called with: of keys that are there twice only one is.
        text = ledger.dump(arguments) if waits else call.arguments.decode("utf-8", "replace")
        return {
            "function": function.name,
            "arguments": ledger.cut_arguments(text),
            "argument_bytes": len(call.arguments),
            "digest": key[0],
            "occurrence": key[1],
            "state": "waiting" if waits else "begun",
        }

    def _from_journal(self, call: Call, function: Function, entry: Entry) -> CallUnderWay | None:
        """Answer a call that the journal has; return it if it is to be made."""
        self._count(entry)
        match entry.state:
            case "returned":
                self._answers.append((call.number, entry))
            case "raised":
                kind: Any = entry.error_kind if entry.error_kind in ERROR_KINDS else "FunctionError"
                self._refuse(call.number, kind, entry.error or "")
            case "refused":
                self._refuse(call.number, "PermissionError", f"{function.name}() was not approved")
            case "waiting":
                self._waiting[call.number] = entry
            case "approved":
                arguments = entry.arguments if entry.changed is None else entry.changed
                known = jsontext.decode(call.arguments if entry.changed is None else arguments.encode())
                assert isinstance(known, dict)
                asked = _asked(function, known)
                return CallUnderWay(
                    call.number,
                    function,
                    known,
                    entry.row,
                    asked=asked,
                    lost=entry.spent,
                    id=entry.id,
                    is_approved=True,
                )
            case "begun":
                known = jsontext.decode(call.arguments if entry.changed is None else entry.changed.encode())
                assert isinstance(known, dict)
                asked = _asked(function, known)
                under = CallUnderWay(
                    call.number,
                    function,
                    known,
                    entry.row,
                    asked=asked,
                    lost=entry.spent,
                    id=entry.id,
                    is_approved=entry.changed is not None,
                )
                if function.repeatable:
                    return under
                message = (
                    f"{function.name}() was under way when this code was interrupted: nobody knows whether it was done, "
                    "so it is not made again"
                )
                self._maker.answer(Back(under, None, ("RuntimeError", message), 0.0))
        return None

    def _count(self, entry: Entry) -> None:
        self.tally.calls += entry.state in ("returned", "raised", "refused")
        self.tally.failed += entry.state in ("raised", "refused")
        self.tally.tokens += entry.tokens

    def _refuse(self, number: int, kind: ErrorKind, message: str) -> None:
        self._answers.append(Raised(number, kind, _bounded(message)))

    def _handed_over(self) -> list[Answer]:
        """Return the answers whose turn it is: not more at once than a run can be expected to take."""
        handed: list[Answer] = []
        size = 0
        while self._answers and size < HANDED_BYTES:
            answer = self._answers.popleft()
            if isinstance(answer, tuple):
                entry = answer[1]
                answer = self._returned(*answer)
                if isinstance(answer, Returned):
                    try:
                        self._budget.take_result(entry.function, len(answer.data))
                    except Spent as error:
                        answer = Raised(answer.number, "RuntimeError", _bounded(str(error)))
            handed.append(answer)
            size += len(answer.data) if isinstance(answer, Returned) else len(answer.message)
        if self._answers:
            self._maker.wake_up()
        return handed

    def _returned(self, number: int, entry: Entry) -> Answer:
        content_type = entry.content_type or data.JSON
        if entry.result is not None:
            try:
                return Returned(number, content_type, journal.unpacked(entry.result))
            except ValueError:
                return Raised(
                    number, "RuntimeError", f"what {entry.function}() returned before the interruption is damaged"
                )
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

    def _add(self, new: list[_New], call: Call, function: Function, arguments: dict[str, Any], key: Key) -> None:
        """Add a call that nobody has made before."""
        try:
            row = self._row(call, function, arguments, key)
        except Exception as error:  # the host's predicate does not understand what hostile code gave it
            logger.warning("byref could not ask whether %s() needs approval", function.name, exc_info=True)
            words = f"{function.name}() was not called: whether it needs approval is not known: {one_line(error)}"
            self._refuse(call.number, "FunctionError", words)
            return
        if row["state"] == "waiting" and not self._can_wait:
            self._refuse(call.number, "PermissionError", _cannot_wait(function))
            return
        new.append(
            _New(CallUnderWay(call.number, function, arguments, 0, asked=_asked(function, arguments)), None, row)
        )

    def _write(self, program: Program, new: Sequence[_New]) -> None:
        """Reserve what calls need, and write them down; those for which there is no room wait."""
        policy = self._scope.policy
        counted = sorted({one.under.function.name for one in new if one.under.function.max_calls is not None})
        is_limited = bool(counted) or budgets.are_limited(policy)
        asks = {one.under.number: one.under.asked for one in new if one.under.asked is not None and one.is_made}
        is_bounded = any(asked.function.budget_tokens is not None for asked in asks.values())
        at_it = self._maker.by_function()

        def work(
            connection: Connection,
        ) -> tuple[list[tuple[int, str]], dict[int, Spent | Full], dict[int, float | None], dict[int, Verdict]]:
            if not (is_limited or asks) and all(one.entry is None for one in new):
                rows = [{**one.row, "wall_ms": None, "spent_tokens": 0} for one in new]
                return journal.see_and_begin(connection, self._scope, program, rows), {}, {}, {}
            refused: dict[int, Spent | Full] = {}
            reserved: dict[int, float | None] = {}
            verdicts: dict[int, Verdict] = {}
            if is_limited or is_bounded:
                ledger.lock(connection, self._scope.row)
            journal.see(connection, program)
            if asks:
                decided = submodels.admitted(
                    connection, self._scope, [*asks.values()], program.row, self._followers, at_it
                )
                verdicts = dict(zip(asks, decided, strict=True))
                refused = {number: one for number, one in verdicts.items() if isinstance(one, Spent | Full)}
            if is_limited:
                journal.release(connection, [one.under.row for one in new if one.entry is not None])
                left = budgets.of_session(connection, self._scope.row, policy, counted, program.row, len(self._maker))
                for one in new:
                    number = one.under.number
                    if number in refused:
                        continue
                    try:
                        if one.entry is None:
                            size = one.row["argument_bytes"]
                            reserved[number] = left.take_call(one.under.function, size, is_made=one.is_made)
                        else:
                            reserved[number] = left.begin(one.under.function)
                    except (Spent, Full) as error:
                        refused[number] = error
            going = [one for one in new if one.under.number not in refused]
            needs = [(reserved.get(one.under.number), _tokens(verdicts.get(one.under.number))) for one in going]
            rows = [
                {**one.row, "wall_ms": ms, "spent_tokens": tokens}
                for one, (ms, tokens) in zip(going, needs, strict=True)
                if one.entry is None
            ]
            made = journal.begin(connection, self._scope, program, rows) if rows else []
            again = [
                (one.under.row, ms, tokens)
                for one, (ms, tokens) in zip(going, needs, strict=True)
                if one.entry is not None
            ]
            if again:
                journal.begin_again(connection, again)
            return made, refused, reserved, verdicts

        made, refused, reserved, verdicts = self._stage(work)
        self._tried = time.monotonic()
        rows = iter(made)
        for one in new:
            under, row = one.under, one.row
            error = refused.get(under.number)
            if isinstance(error, Full):
                self._held.append(one)
                continue
            if error is not None and one.entry is None:
                self._refuse(under.number, "RuntimeError", str(error))
                continue
            if error is not None:
                self._maker.answer(Back(under, None, ("RuntimeError", str(error)), 0.0))
                continue
            under.reserved_ms = reserved.get(under.number)
            if one.entry is None:
                under.row, under.id = next(rows)
                if not one.is_made:
                    self._waiting[under.number] = _waiting(under, row["arguments"])
                    continue
            self._take(under, verdicts.get(under.number))

    def _take(self, under: CallUnderWay, verdict: Verdict | None) -> None:
        """Let a call that is begun be made, or be answered by what a model has answered before or answers another call."""
        digest = None if under.asked is None else under.asked.digest
        if isinstance(verdict, Hit):
            made = Made(verdict.content_type, verdict.data, verdict.tokens)
            self._maker.answer(Back(under, made, None, 0.0, (), is_known=True))
        elif verdict == "follow" and digest in self._followers:
            self._followers[digest].append(under)
        else:
            if digest is not None:
                self._followers.setdefault(digest, [])
            self._maker.add(under)

    def _journal_ends(self, done: Sequence[Back]) -> None:
        """Write down what calls have come to; only then the code is told."""
        program = self._opened()
        policy = self._scope.policy
        if not self._can_wait:
            done = [
                replace(one, waits=False, error=("PermissionError", _cannot_wait(one.call.function)))
                if one.waits
                else one
                for one in done
            ]
        done = [*done, *(other for one in done for other in self._followed(one))]
        asked = [(one.call.asked.function, one.usages) for one in done if one.usages and one.call.asked is not None]
        answers = [
            (one.call.asked, Hit(one.made.content_type, one.made.payload, one.made.tokens))
            for one in done
            if one.call.asked is not None and one.made is not None and not one.is_known
        ]
        spent: dict[int, str] = {}
        for one in done:
            if one.made is not None:
                try:
                    self._budget.take_result(one.call.function.name, len(one.made.payload))
                except Spent as error:
                    spent[one.call.number] = str(error)

        def work(connection: Connection) -> tuple[dict[int, int], dict[int, str]]:
            artifacts: dict[int, int] = {}
            refused = dict(spent)
            is_staged = any(one.made is not None and one.made.staged for one in done)
            is_locked = policy.max_session_call_bytes is not None or is_staged or bool(asked)
            is_plain = not (is_locked or answers) and not any(one.waits for one in done)
            if is_locked:
                ledger.lock(connection, self._scope.row)
            if not is_plain:
                journal.see(connection, program)
            if policy.max_session_call_bytes is not None:
                left = budgets.of_session(connection, self._scope.row, policy, [], program.row, len(self._maker))
                for one in done:
                    if one.made is not None and one.call.number not in refused:
                        try:
                            left.take_result(one.call.function.name, len(one.made.payload))
                        except Spent as error:
                            refused[one.call.number] = str(error)
            journal.ask(connection, [(one.call.row, _shown(one.call)) for one in done if one.waits])
            rows: list[dict[str, Any]] = []
            for one in done:
                if one.waits:
                    continue
                row: dict[str, Any] = {"of_call": one.call.row, "new_wall_ms": one.wall_ms}
                made = one.made
                if made is not None and made.staged is not None and one.call.number not in refused:
                    try:
                        room.check_within(connection, self._scope, {made.staged.digest: made.staged.size})
                    except QuotaExceeded as error:  # others have used up the room since it was staged
                        refused[one.call.number] = f"{one.call.function.name}(): its result cannot be kept: {error}"
                if made is not None and one.call.number not in refused:
                    row |= {
                        "new_state": "returned",
                        "new_content_type": made.content_type,
                        "new_size_bytes": len(made.payload),
                        "new_tokens": made.tokens,
                    }
                    if made.staged is not None and made.about is not None:
                        blob = staging.publish_kept(connection, self._scope.place, made.staged)
                        artifact = self._scope.publish(connection, blob, made.about, step=None, origin="output")
                        artifacts[one.call.number] = row["new_artifact_id"] = artifact.row_id
                    else:
                        row["new_result"] = journal.packed(made.payload)
                else:
                    kind, words = _failure(one, refused)
                    row |= {"new_state": "raised", "new_error_kind": kind, "new_error": _bounded(words)}
                if one.usages is not None:
                    row["new_spent_tokens"] = one.call.lost + submodels.spent_of(one.usages)
                rows.append(row)
            if is_plain:
                journal.see_and_end(connection, program, rows)
            elif rows:
                journal.end(connection, rows)
            for function, usages in asked:
                submodels.record(connection, self._scope, function, usages)
            submodels.remember(connection, self._scope, answers)
            return artifacts, refused

        artifacts, refused = self._stage(work)
        for one in done:
            self._maker.forget(one.call.number)
            if one.waits:
                self._waiting[one.call.number] = _waiting(one.call, _shown(one.call))
                continue
            self.tally.calls += 1
            self.new_results += 1
            if one.made is None or one.call.number in refused:
                self.tally.failed += 1
                self._refuse(one.call.number, *_failure(one, refused))
                continue
            self.tally.tokens += one.made.tokens
            self._answers.append(Returned(one.call.number, one.made.content_type, one.made.payload))
            if one.call.number in artifacts:
                self._results.append((one.call.function, artifacts[one.call.number], one.made))

    def _followed(self, done: Back) -> list[Back]:
        """Return the ends of the calls that have waited for the same answer of a model."""
        digest = None if done.call.asked is None else done.call.asked.digest
        if digest is None or done.is_known:
            return []
        made = None if done.made is None else Made(done.made.content_type, done.made.payload, done.made.tokens)
        followers = self._followers.pop(digest, ())
        return [Back(under, made, done.error, done.wall_ms, (), is_known=True) for under in followers]

    def _name_results(self, connection: Connection, step: int) -> None:
        self.tally.kept = {}
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

    def _path_changed(self, function: Function) -> str:
        made = ", ".join(sorted({self._journal[key].function for key in self._unclaimed})[:5])
        return (
            f"{function.name}() was not called: this code was interrupted and runs again, and its path has changed. "
            f"Before, it called {made} at this point"
        )

    def _why(self, function: str) -> str:
        approval = self._functions[function].approval
        if approval is False:
            return "it asks for approval"
        return "it needs approval" if approval is True else "its arguments need approval"


def _cannot_wait(function: Function) -> str:
    return f"{function.name}() needs approval, for which code of a call without an id cannot wait"


def _shown(under: CallUnderWay) -> str:
    """Return a call's arguments as who approves it sees them."""
    return ledger.cut_arguments(ledger.dump(under.arguments)) or ""


def _waiting(under: CallUnderWay, arguments: str) -> Entry:
    return Entry(
        row=under.row,
        id=under.id,
        function=under.function.name,
        arguments=arguments,
        state="waiting",
        changed=None,
        content_type=None,
        result=None,
        artifact_row=None,
        error_kind=None,
        error=None,
        tokens=0,
        spent=0,
    )


def _asked(function: Function, arguments: Mapping[str, Any]) -> Asked | None:
    return Asked.of(function, arguments) if isinstance(function, ModelFunction) else None


def _tokens(verdict: Verdict | None) -> int:
    return verdict.most if isinstance(verdict, Make) else 0


def _arguments_of(given: bytes) -> object:
    """Return the value of JSON text; raise NotJSON.

    Numbers are finite: NaN is neither above nor below any bound, so no predicate over arguments would hold for it.
    """
    try:
        return msgspec.json.decode(str(given, "utf-8"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        read = jsontext.decode(given)  # half of a surrogate pair, say
    try:
        json.dumps(read, allow_nan=False)
    except ValueError:
        raise jsontext.NotJSON("it has a number that is not finite") from None
    except RecursionError:
        raise jsontext.NotJSON("nested too deeply") from None
    return read


def _failure(one: Back, refused: Mapping[int, str]) -> tuple[ErrorKind, str]:
    """Return the error of a call, which may be that there is no room for what it returned."""
    return one.error or ("RuntimeError", refused[one.call.number])


def _bounded(text: str) -> str:
    """Return an error's text as SQL and the run take it: whatever a function, or hostile code, has put into it."""
    text = jsontext.encodable(text[:MAX_MESSAGE_CHARS])
    return text if len(text) < MAX_MESSAGE_CHARS else f"{text[: MAX_MESSAGE_CHARS - 1]}…"
