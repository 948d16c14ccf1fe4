"""Budgets of calls: what one run, and all runs of a session together, may call, send and take.

The session's are in SQL. What a call may need is written with the call before it is made, while the session's row is locked, so runs
of any process together keep to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, func, select

from byref.calling import journal
from byref.conversation import programs
from byref.db.tables import CallRow, ProgramRow
from byref.functions import Function
from byref.policy import Policy

KNOBS: Final = ("max_session_calls", "max_session_calls_at_once", "max_session_call_bytes", "max_session_call_seconds")
MAX_REFUSED: Final = 1_000
"""Calls beyond a budget that a run may try before it is ended."""


class Spent(Exception):
    """A budget is used up; the message is for the code."""


class Full(Exception):
    """As much is under way as may be at once: the call has to wait for another one's end."""


class OfRun:
    """What one run has used of its own budget."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._calls = 0
        self._bytes = 0
        self._refused = 0

    def take_call(self, name: str, size: int) -> None:
        """Count a call with arguments of `size` bytes; raise Spent."""
        if self._calls >= self._policy.run_calls:
            self._refused += 1
            raise Spent(f"{name}() was not called: one run may make {self._policy.run_calls:,} calls")
        if self._bytes + size > self._policy.run_call_bytes:
            self._refused += 1
            raise Spent(f"{name}() was not called: {self._about_bytes()}")
        self._calls += 1
        self._bytes += size

    @property
    def is_ignored(self) -> bool:
        """Whether the code goes on calling although nothing is left."""
        return self._refused > MAX_REFUSED

    def take_result(self, name: str, size: int) -> None:
        """Count a result; raise Spent."""
        if self._bytes + size > self._policy.run_call_bytes:
            raise Spent(f"{name}() returned {size:,} bytes, which are not given to the code: {self._about_bytes()}")
        self._bytes += size

    def _about_bytes(self) -> str:
        most = self._policy.run_call_bytes
        return f"arguments and results of one run may take {most:,} bytes, and {most - self._bytes:,} are left"


@dataclass(slots=True)
class OfSession:
    """What the runs of a session have used, and what calls under way may still use. It is read under the session's lock."""

    policy: Policy
    calls: int
    bytes: int
    ms: float
    at_once: int
    by_function: dict[str, int]

    def take_call(self, function: Function, size: int, *, is_made: bool) -> float | None:
        """Reserve what a call needs; return its milliseconds, if these are limited. With `is_made` False it waits for approval.

        Raises:
            Spent: a budget does not allow it.
            Full: it has to wait.
        """
        policy, name = self.policy, function.name
        if function.max_calls is not None and self.by_function.get(name, 0) >= function.max_calls:
            raise Spent(f"{name}() may be called {function.max_calls:,} times in this conversation; that is used up")
        if policy.max_session_calls is not None and self.calls >= policy.max_session_calls:
            raise Spent(
                f"{name}() was not called: {policy.max_session_calls:,} calls may be made in this conversation, "
                "and they are used up"
            )
        if policy.max_session_call_bytes is not None and self.bytes + size > policy.max_session_call_bytes:
            raise Spent(f"{name}() was not called: {self._about_bytes(policy.max_session_call_bytes)}")
        reserved = self.begin(function) if is_made else None
        self.calls += 1
        self.bytes += size
        self.by_function[name] = self.by_function.get(name, 0) + 1
        return reserved

    def begin(self, function: Function) -> float | None:
        """Reserve what a call needs that is made now; return its milliseconds, if these are limited. Raises like `take_call`."""
        policy, reserved = self.policy, None
        if policy.max_session_calls_at_once is not None and self.at_once >= policy.max_session_calls_at_once:
            raise Full
        if policy.max_session_call_seconds is not None:
            reserved = min(function.timeout * 1000, policy.max_session_call_seconds * 1000 - self.ms)
            if reserved <= 0:
                if self.at_once:  # they have reserved more than they will need
                    raise Full
                raise Spent(
                    f"{function.name}() was not called: calls of this conversation may take "
                    f"{policy.max_session_call_seconds:g} s together, and they are used up"
                )
            self.ms += reserved
        self.at_once += 1
        return reserved

    def take_result(self, name: str, size: int) -> None:
        """Count a result; raise Spent."""
        most = self.policy.max_session_call_bytes
        if most is not None and self.bytes + size > most:
            raise Spent(f"{name}() returned {size:,} bytes, which are not given to the code: {self._about_bytes(most)}")
        self.bytes += size

    def _about_bytes(self, most: int) -> str:
        return (
            f"arguments and results of this conversation's calls may take {most:,} bytes, "
            f"and {max(0, most - self.bytes):,} are left"
        )


def are_limited(policy: Policy) -> bool:
    """Whether a session's calls have a budget."""
    return any(getattr(policy, knob) is not None for knob in KNOBS)


def is_running() -> ColumnElement[bool]:
    """Return the condition that some process is running a program."""
    heard = ProgramRow.seen_at > datetime.now(UTC) - timedelta(seconds=programs.LEASE_SECONDS)
    return and_(ProgramRow.state == "running", ProgramRow.owner != "", heard)


def of_session(
    connection: Connection, session_row: int, policy: Policy, counted: list[str], program: int, own: int
) -> OfSession:
    """Return what a session has used; the caller holds its lock.

    `counted` are functions that have a number of calls of their own, and `own` is how many calls the program itself has under way.
    """
    calls, sizes, ms, at_once = 0, 0, 0.0, own
    if are_limited(policy):
        sums: tuple[Any, ...] = (
            func.count(),
            func.coalesce(func.sum(CallRow.argument_bytes), 0),
            func.coalesce(func.sum(CallRow.size_bytes), 0),
            func.coalesce(func.sum(CallRow.wall_ms), 0.0),
        )
        query = select(*sums).where(CallRow.session_id == session_row, CallRow.state != "refused")
        calls, given, returned, ms = connection.execute(query).one()
        sizes = int(given) + int(returned)
        at_once += connection.execute(
            select(func.count())
            .select_from(CallRow)
            .join(ProgramRow, ProgramRow.id == CallRow.program_id)
            .where(CallRow.session_id == session_row, CallRow.state == "begun", CallRow.program_id != program)
            .where(is_running())
        ).scalar_one()
    by_function = journal.calls_so_far(connection, session_row, counted) if counted else {}
    return OfSession(policy, calls, sizes, float(ms), at_once, by_function)
