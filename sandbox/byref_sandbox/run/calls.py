"""A run's end of the line to its host's functions. It is made before the jail is entered, and used inside of it, by the code's process."""

from __future__ import annotations

import fcntl
import select
from collections.abc import Mapping, Sequence
from typing import Any, Final

from byref_sandbox import functions, wire
from byref_sandbox.language.calling import Came, FunctionError
from byref_sandbox.run.worker import Pauses
from byref_sandbox.values import data, values

_FIRST: Final = 3
"""The first descriptor that is no standard one: a library that prints must not write to the host."""
_ERRORS: Final[dict[str, type[Exception]]] = {
    each.__name__: each
    for each in (
        *(TypeError, ValueError, KeyError, IndexError, LookupError, PermissionError, FileNotFoundError),
        *(TimeoutError, ConnectionError, NotImplementedError, RuntimeError),
    )
}


class Calls:
    """Sends calls to the host, and receives what they return.

    `max_bytes` bounds the arguments of one call.
    """

    def __init__(self, descriptor: int, max_bytes: int, pauses: Pauses) -> None:
        # `select` cannot name higher ones, and `poll` fails in the jail, where no further descriptors may be opened.
        self.descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST)
        self._max_bytes = max_bytes
        self._pauses = pauses
        self._number = 0
        self._open = 0
        """Calls that were not answered yet."""
        self._answers = functions.Answers()
        self._came: list[Came] = []
        self._is_told = False
        """Whether the host knows that the code waits."""

    def send(self, function: str, arguments: Mapping[str, object], *, is_awaited: bool) -> int:
        """Send a call and return its number; raise ValueError of arguments that are no data, or too much."""
        if self._open >= functions.MAX_CALLS_AT_ONCE:
            raise ValueError(
                f"{function}(): {self._open:,} calls are under way; await some of them before there are more"
            )
        try:
            packed = values.to_json(dict(arguments))
        except values.NotData as error:
            raise ValueError(f"{function}(): an argument is no data: {error}") from None
        if b"null" in packed and (where := values.not_finite(arguments)):
            raise ValueError(
                f"{function}(): its arguments{where}: functions take finite numbers, and None for what is missing"
            )
        if len(packed) > self._max_bytes:
            raise ValueError(f"{function}(): its arguments take {len(packed):,} bytes; at most {self._max_bytes:,} may")
        number, self._number = self._number, self._number + 1
        self._open += 1
        self._is_told = not is_awaited
        self._write(functions.Call(number, function, packed, is_awaited, self._open))
        return number

    def wait(self, seconds: float | None) -> Sequence[Came]:
        """Return the calls that have ended; if there are none, wait for the first, but at most so long."""
        if not self._came and not self._is_ready(0):
            if seconds == 0:
                return ()
            if seconds is None and not self._is_told:
                self._is_told = True
                self._write(functions.Waiting(self._open))
            left = self._pauses.left
            with self._pauses.pause():
                is_ready = self._is_ready(left if seconds is None else min(seconds, left))
            if seconds is None and not is_ready:
                return self.wait(None)  # which raises, since the time is over
        while not self._came and self._is_ready(0):
            try:
                answers = self._answers.read(self.descriptor)
            except EOFError:
                raise ConnectionError("the host no longer answers") from None
            for answer in answers:
                self._is_told = False
                self._open -= 1
                self._came.append(_came(answer))
        came, self._came = self._came, []
        return came

    def _is_ready(self, seconds: float) -> bool:
        return bool(select.select([self.descriptor], [], [], seconds)[0])

    def _write(self, message: functions.Call | functions.Waiting) -> None:
        wire.write_all(self.descriptor, functions.pack(message))


def _came(answer: functions.Answer | functions.Received) -> Came:
    if isinstance(answer, functions.Raised):
        return Came(answer.number, None, _ERRORS.get(answer.kind, FunctionError)(answer.message))
    try:
        return Came(answer.number, _decoded(answer), None)
    except data.Unusable as error:
        return Came(answer.number, None, FunctionError(f"its result cannot be read: {error}"))


def _decoded(answer: functions.Returned | functions.Received) -> Any:
    value = data.decode(answer.content_type, answer.data)
    if isinstance(value, data.Exact):
        from byref_sandbox.values import exact

        return exact.decode(value.data)
    return value
