"""One run as the host sees it: the order is sent, payloads are sent when they are asked for, and the reply is read until it
ends or its time is over.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from byref_sandbox import wire
from byref_sandbox.functions import Callee
from byref_sandbox.host.calling import Calling
from byref_sandbox.values.data import Load, reading_of

START_SECONDS = 5.0
"""A zygote answers an order within this time unless it is known to be busy. One that does not is wedged."""
LIBRARY_SECONDS: Final = 20.0
"""Seconds for loading matplotlib or another library, which happens once."""
END_SECONDS = 2.0
"""How much longer the host waits than the zygote, which ends a run in time; also how long it waits for the news of a run's end."""
FRAMES_SLACK_BYTES: Final = 2 << 20
"""Bytes in a reply for names, reasons and framing, in addition to those that the limits count."""
_NEWS: Final = msgspec.msgpack.Decoder(wire.News)

Fault = Literal["", "silent", "gone", "unfinished", "too big", "broken", "suspended"]


@dataclass(slots=True)
class Vitals:
    """What the host knows of a zygote; all runs in the zygote share it."""

    since: float = field(default_factory=time.monotonic)
    runs: int = 0
    running: int = 0
    busy_until: float = 0.0
    """The time until which the zygote loads payloads or makes tables of them, and therefore may not answer."""

    def is_busy_for(self, seconds: float) -> None:
        """Add work of so many seconds after the work that the zygote has already; negative seconds take work back."""
        start = max(self.busy_until, time.monotonic()) if seconds > 0 else self.busy_until
        self.busy_until = start + seconds


@dataclass(slots=True)
class Answer:
    """Everything that one run sent back."""

    frames: list[wire.Frame] = field(default_factory=list)
    done: wire.Done | None = None
    refused: wire.Refused | None = None
    ended: wire.Ended | None = None
    started: bool = False
    fault: Fault = ""
    """silent: the zygote does not answer. gone: the zygote died. unfinished: the run closed its reply too early, and is not
    known to have ended. too big, broken: the reply is. suspended: it waited for a call that is not answered now."""
    detail: str = ""
    printed: bytes = b""
    """Printed output as it arrived; `done` contains it again."""
    dump: bytes = b""
    """The place at which a run was when it was killed, as `faulthandler` writes it."""
    held_bytes: int = 0
    wall_ms: float = 0.0

    def take(self, reader: wire.FrameReader, data: bytes) -> bool:
        """Read data of the reply; tell whether more may come."""
        try:
            for frame in reader.feed(data):
                if isinstance(frame, wire.Done):
                    self.done = frame
                    return False
                self.frames.append(frame)
        except OverflowError:
            self.fault = "too big"
            return False
        except wire.Broken as error:
            self.fault, self.detail = "broken", str(error)
            return False
        return True


def reply_bytes(terms: wire.Terms) -> int:
    """Return the maximum bytes that a run with these limits sends."""
    return terms.result_bytes + (1 + wire.PRINTED_COST) * terms.stdout_bytes + FRAMES_SLACK_BYTES


def reader_of(request: wire.Request) -> wire.FrameReader:
    """Return the reader for the reply of a run. It refuses a reply that is larger than the run's limits allow."""
    printed = request.terms.stdout_bytes
    return wire.FrameReader(
        reply_bytes(request.terms), printed + wire.MAX_TEXT_BYTES, printed, of_document=request.mode == "tables"
    )


def exchange(
    orders: socket.socket,
    request: wire.Request,
    loads: Sequence[Load],
    vitals: Vitals,
    callee: Callee | None = None,
) -> Answer:
    """Run a request to its end, however it ends, in bounded time; `loads` reads its payloads, by index. `callee`
    answers its calls of functions.

    Raises Broken if the order could not be given, SandboxUnavailable if the system refuses the necessary resources, and whatever
    a `loads` function raises.
    """
    # `kept` descriptors stay open for the whole exchange. `handed_over` ones are closed here once the zygote has them: while this
    # process held the write end, the reply would never end.
    with contextlib.ExitStack() as kept:
        with contextlib.ExitStack() as handed_over:
            ours, theirs = wire.packet_sockets()
            kept.enter_context(ours)
            handed_over.enter_context(theirs)
            with wire.granted():
                reply, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            kept.callback(os.close, reply)
            handed_over.callback(os.close, write_end)
            body = wire.memory_file([msgspec.msgpack.encode(request)])
            handed_over.callback(os.close, body)
            os.set_blocking(write_end, True)  # the run waits when the pipe is full; only the host must not block
            given = [index for index, payload in enumerate(request.payloads) if payload.inline is None]
            descriptors = [theirs.fileno(), write_end, body]
            calling = None
            if request.functions and callee is not None:
                with wire.granted():
                    line, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
                kept.enter_context(line)
                handed_over.enter_context(far_end)
                descriptors.append(far_end.fileno())
                calling = Calling(line, callee, request.terms.result_bytes)
            seconds = request.terms.wall_seconds + request.terms.wait_seconds
            order = wire.Run(seconds, given, request.plots, request.libraries)
            wire.send(orders, order, tuple(descriptors))
        following = _Exchange(ours, reply, request, loads, vitals, calling)
        try:
            return following.follow()
        finally:
            following.expect_no_more()


class _Exchange:
    def __init__(
        self,
        channel: socket.socket,
        reply: int,
        request: wire.Request,
        loads: Sequence[Load],
        vitals: Vitals,
        calling: Calling | None = None,
    ) -> None:
        self._vitals = vitals
        self._calling = calling
        self._channel = channel
        self._reply = reply
        self._loads = loads
        self._payloads = request.payloads
        self._lacking = {index for index, payload in enumerate(request.payloads) if payload.inline is None}
        """Payloads that the zygote may still ask for. Each is sent only once."""
        self._run_seconds = request.terms.wall_seconds + request.terms.wait_seconds + wire.KILL_GRACE_SECONDS
        self._reader = reader_of(request)
        self._answer = Answer()
        self._deadline = time.monotonic() + START_SECONDS
        self._has_hung_up = False
        """Whether the run has closed its end of the reply, on purpose or because it ended."""
        self._expected = 0.0
        if loaded := request.plots + len(request.libraries):
            self._expect(loaded * LIBRARY_SECONDS)
        self._started = 0.0

    def follow(self) -> Answer:
        """Wait until nothing more can come."""
        answer = self._answer
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._reply, select.POLLIN)
        if self._calling is not None:
            self._calling.register(poll)
        while not (answer.done or answer.refused or answer.fault or answer.ended):
            left = self._deadline - time.monotonic()
            patience = left if self._calling is None else min(left, self._calling.patience())
            ready = dict(poll.poll(max(0, patience) * 1000 + 1)) if left > 0 else {}
            if not ready and patience < left and self._calling is not None:
                self._call(self._calling, ready, poll)
                continue
            # Silence is no fault while the zygote loads data, for this run or for another one.
            if not ready and not answer.started and self._deadline < self._vitals.busy_until:
                self._deadline = self._vitals.busy_until + START_SECONDS
            elif not ready:
                answer.fault = "unfinished" if answer.started and self._has_hung_up else "silent"
            if self._channel.fileno() in ready:
                self._hear()
            if self._reply in ready and not self._read():
                poll.unregister(self._reply)  # it would be ready for ever
                self._has_hung_up = True
                self._deadline = min(self._deadline, time.monotonic() + END_SECONDS)
            if self._calling is not None and not self._has_hung_up:
                self._call(self._calling, ready, poll)
        if answer.done is None and not answer.fault:
            self._read()  # everything that a dead process wrote is in the pipe by now
        answer.printed, answer.dump = bytes(self._reader.printed), self._reader.dump
        answer.wall_ms = round((time.monotonic() - self._started) * 1000, 3) if self._started else 0.0
        return answer

    def _call(self, calling: Calling, ready: dict[int, int], poll: select.poll) -> None:
        try:
            calling.handle(ready, poll)
        except wire.Broken as error:
            self._answer.fault, self._answer.detail = "broken", str(error)
        if calling.is_suspended:
            self._answer.fault = "suspended"

    def _hear(self) -> None:
        try:
            news, _ = wire.receive(self._channel, _NEWS)
        except wire.Broken:
            # The end of a run and the death of a zygote look the same here, unless the news of the end came before.
            self._answer.fault = "gone"
            return
        if isinstance(news, wire.Missing):
            # A zygote that has been broken into must not make the host load data again and again.
            if not self._lacking.issuperset(news.payloads):
                self._answer.fault, self._answer.detail = (
                    "broken",
                    "it asks for data that it already has, or that does not exist",
                )
                return
            for index in sorted(set(news.payloads)):
                self._give(index)
            self._lacking.difference_update(news.payloads)
        elif isinstance(news, wire.Working):
            self._expect(news.held_bytes / wire.LOAD_BYTES_PER_SECOND)
        elif isinstance(news, wire.Started):
            self._answer.started = True
            self.expect_no_more()
            self._answer.held_bytes = news.held_bytes
            self._started = time.monotonic()
            self._deadline = self._started + self._run_seconds + END_SECONDS
        elif isinstance(news, wire.Refused):
            self._answer.refused = news
        else:
            self._answer.ended = news

    def _expect(self, seconds: float) -> None:
        self._expected += seconds
        self._vitals.is_busy_for(seconds)

    def expect_no_more(self) -> None:
        """Take back the work that this run gave the zygote: it is done, or nobody waits for it any more."""
        self._vitals.is_busy_for(-self._expected)
        self._expected = 0.0

    def _give(self, index: int) -> None:
        payload = self._loads[index]()
        chunks = (payload,) if isinstance(payload, bytes | bytearray | memoryview) else payload
        if not isinstance(chunks, Iterable) or isinstance(chunks, str):
            raise TypeError(
                f"the load of {self._payloads[index].key!r} returned {type(payload).__name__}; expected bytes"
            )
        descriptor = wire.memory_file(chunks)
        is_read = reading_of(self._payloads[index].content_type) is not None
        rate = wire.READ_BYTES_PER_SECOND if is_read else wire.LOAD_BYTES_PER_SECOND
        seconds = os.fstat(descriptor).st_size / rate
        # Decoding the data is not the code's time: the deadline moves with its size.
        self._run_seconds += seconds
        self._expect(seconds)
        try:
            wire.send(self._channel, wire.Give(index, seconds), (descriptor,))
        except wire.Broken:
            self._answer.fault = "gone"
        finally:
            os.close(descriptor)
        self._deadline = max(self._deadline, time.monotonic() + START_SECONDS)

    def _read(self) -> bool:
        """Read what is in the pipe; tell whether more may come."""
        while True:
            try:
                data = wire.read_some(self._reply)
            except BlockingIOError:
                return True
            if not data:
                return False
            if not self._answer.take(self._reader, data):
                return False
