"""The host's end of the line on which a run calls functions. What comes from the run is hostile."""

from __future__ import annotations

import os
import select
import socket
from collections import deque

from byref_sandbox import functions, wire
from byref_sandbox.functions import Call, Callee, Malformed

MAX_CALLS_AT_ONCE = 10_000
"""Calls of a run that nobody has answered yet."""


class Calling:
    """Hands a run's calls to whoever answers them, and the answers to the run. Neither side can make it wait.

    Raises Broken of what is no message.
    """

    def __init__(self, line: socket.socket, callee: Callee, max_bytes: int) -> None:
        line.setblocking(False)
        self._line = line
        self._callee = callee
        self._reader = functions.from_run(max_bytes)
        self._number = 0
        self._open: set[int] = set()
        self._leaving: deque[memoryview] = deque()
        self._has_ended = False
        self.is_suspended = False
        """The run waits for what will not be answered: it is to be ended."""

    def register(self, poll: select.poll) -> None:
        """Have a poll watch what this needs to know."""
        poll.register(self._callee.fileno(), select.POLLIN)
        self._watch(poll)

    def patience(self) -> float:
        """Return the seconds after which `handle` wants to be called even if nothing happens."""
        return self._callee.patience()

    def _watch(self, poll: select.poll) -> None:
        if self._has_ended:
            return
        poll.register(self._line, select.POLLIN | (select.POLLOUT if self._leaving else 0))

    def handle(self, ready: dict[int, int], poll: select.poll) -> None:
        """Do what the poll says can be done."""
        if self._line.fileno() in ready and not self._has_ended:
            self._receive(poll)
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
            poll.unregister(self._line)
            return
        calls: list[Call] = []
        waits = False
        try:
            for message in self._reader.feed(data):
                if not isinstance(message, Call):
                    waits = True
                    continue
                if message.number != self._number:
                    raise Malformed("a call that has another number than the next")
                self._number += 1
                waits = waits or not message.is_awaited
                calls.append(message)
        except Malformed as error:
            raise wire.Broken(str(error)) from None
        self._open.update(call.number for call in calls)
        if len(self._open) > MAX_CALLS_AT_ONCE:
            raise wire.Broken(f"more than {MAX_CALLS_AT_ONCE:,} calls at once")
        if calls:
            self._callee.begin(calls)
            self._answer()
        if waits and self._open and not self._leaving and self._callee.waits_for_ever():
            self.is_suspended = True

    def _answer(self) -> None:
        for answer in self._callee.answers():
            if answer.number in self._open:
                self._open.discard(answer.number)
                self._leaving.append(memoryview(functions.pack(answer)))

    def _send(self) -> None:
        while self._leaving and not self._has_ended:
            first = self._leaving[0]
            try:
                sent = os.write(self._line.fileno(), first)
            except BlockingIOError:
                return
            except OSError:  # the run has closed its end: what it says, or the news of its end, comes by itself
                self._leaving.clear()
                return
            if sent == len(first):
                self._leaving.popleft()
            else:
                self._leaving[0] = first[sent:]
