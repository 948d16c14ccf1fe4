"""The host's end of the line on which a run calls functions. What comes from the run is hostile."""

from __future__ import annotations

import math
import os
import select
import socket
from collections import deque
from collections.abc import Sequence

from byref_sandbox import functions, wire
from byref_sandbox.functions import MAX_CALLS_AT_ONCE, Answer, Call, Callee, Malformed, Raised, Returned
from byref_sandbox.jsontext import encodable

MAX_UNSENT_BYTES = 64 << 20
"""While more bytes of answers than these wait for a run that does not read them, no further answer is taken."""


class Calling:
    """Hands a run's calls to whoever answers them, and the answers to the run. Neither side can make it wait.

    Raises Broken of what is no message, and of more messages than a run has reason to send.
    """

    def __init__(self, line: socket.socket, callee: Callee, max_bytes: int) -> None:
        line.setblocking(False)
        self._line = line
        self._callee = callee
        self._reader = functions.from_run(max_bytes)
        self._number = 0
        self._waits = 0
        """How often the run has said that it waits."""
        self._waits_for: int | None = None
        """For how many answers the run waits; None if it was at work when it was last heard."""
        self._open: set[int] = set()
        self._unsent: deque[Answer] = deque()
        self._unsent_bytes = 0
        self._leaving: deque[memoryview] = deque()
        """What is left of the answer that is being sent, in pieces."""
        self._has_ended = False
        self.is_suspended = False
        """The run waits for what will not be answered: it is to be ended."""

    def register(self, poll: select.poll) -> None:
        """Have a poll watch what this needs to know."""
        poll.register(self._callee.fileno(), select.POLLIN)
        self._watch(poll)

    def patience(self) -> float:
        """Return the seconds after which `handle` wants to be called even if nothing happens."""
        return math.inf if self._is_full else max(0.0, self._callee.patience())

    @property
    def _is_full(self) -> bool:
        return self._unsent_bytes > MAX_UNSENT_BYTES

    def _watch(self, poll: select.poll) -> None:
        # An end that nobody reads from now would be ready for ever.
        poll.register(self._callee.fileno(), 0 if self._is_full else select.POLLIN)
        if not self._has_ended:
            poll.register(self._line, select.POLLIN | (select.POLLOUT if self._unsent_bytes else 0))

    def handle(self, ready: dict[int, int], poll: select.poll) -> None:
        """Do what the poll says can be done."""
        if self._line.fileno() in ready and not self._has_ended:
            self._receive(poll)
        self._answer()
        if self._waits_for == len(self._open) > 0 and not self._unsent_bytes:  # else an answer is on its way to it
            self.is_suspended = self._callee.waits_for_ever()
            self._answer()
        self._send()
        self._watch(poll)

    def _receive(self, poll: select.poll) -> None:
        try:
            data = wire.read_some(self._line.fileno())
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._has_ended = True
            self._forget()
            poll.unregister(self._line)
            return
        calls: list[Call] = []
        try:
            for message in self._reader.feed(data):
                if not isinstance(message, Call):
                    self._waits_for = message.unanswered
                    self._waits += 1
                    # It says so once after a call, and once after an answer to one.
                    if self._waits > 2 * self._number + 1:
                        raise Malformed("it says again and again that it waits")
                    continue
                if message.number != self._number:
                    raise Malformed("a call that has another number than the next")
                self._number += 1
                # What it said before holds no more: it has gone on since.
                self._waits_for = None if message.is_awaited else message.unanswered
                calls.append(message)
        except Malformed as error:
            raise wire.Broken(str(error)) from None
        self._open.update(call.number for call in calls)
        if len(self._open) > MAX_CALLS_AT_ONCE:
            raise wire.Broken(f"more than {MAX_CALLS_AT_ONCE:,} calls at once")
        if calls:
            self._callee.begin(calls)

    def _answer(self) -> None:
        """Take answers, as far as there is room for them. Where nobody reads them any more they are taken all the same: a callee
        may have to write them down.
        """
        if self._is_full:
            return
        for answer in self._callee.answers():
            if answer.number in self._open:
                self._open.discard(answer.number)
                if not self._has_ended:
                    self._unsent.append(answer)
                    self._unsent_bytes += _size(answer)

    def _send(self) -> None:
        while self._unsent_bytes:
            if not self._leaving:
                answer = self._unsent.popleft()
                self._leaving.extend(map(memoryview, _pieces(answer)))
                self._unsent_bytes += sum(map(len, self._leaving)) - _size(answer)
            try:
                sent = os.write(self._line.fileno(), self._leaving[0])
            except BlockingIOError:
                return
            except OSError:  # the run has closed its end: what it says, or the news of its end, comes by itself
                self._forget()
                return
            self._leaving[0] = self._leaving[0][sent:]
            if not self._leaving[0]:
                self._leaving.popleft()
            self._unsent_bytes -= sent

    def _forget(self) -> None:
        self._unsent.clear()
        self._leaving.clear()
        self._unsent_bytes = 0


def _size(answer: Answer) -> int:
    """Return about how many bytes an answer takes; never 0."""
    return 100 + len(answer.data if isinstance(answer, Returned) else answer.message)


def _pieces(answer: Answer) -> Sequence[bytes | bytearray]:
    """Return an answer as it is sent, in pieces: without what cannot be, which a function may have said."""
    if isinstance(answer, Returned) and len(answer.data) > functions.MAX_DATA_BYTES:
        answer = Raised(answer.number, "FunctionError", f"its result is larger than {functions.MAX_DATA_BYTES:,} bytes")
    if isinstance(answer, Raised):
        message = encodable(answer.message[: functions.MAX_MESSAGE_CHARS])
        answer = Raised(answer.number, answer.kind, message[: functions.MAX_MESSAGE_CHARS])
    return functions.pieces(answer)
