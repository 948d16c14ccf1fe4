"""A standby is a fork made ahead of its run, so that nobody waits for what a fork costs.

After the fork it rehearses a run. That makes the memory pages to which runs write its own: a fork shares all pages, and the kernel
copies each at the first write. Then it waits for one message. From there it is what a fork made for that run would be: it has the same
data, and it has not yet entered the jail. It runs no hostile code before that message and takes one run only, so no run finds
anything that another left.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from byref_sandbox import wire
from byref_sandbox.jail.jail import close_descriptors, die_with

MAX_FILES: Final = 16
"""Payloads that can be handed over, as memfds beside one message; a run that needs more is forked for itself."""
IDLE_SECONDS = 120.0
"""A zygote that has heard of no run for so long ends its standby, which takes most of an idle session's memory. The next run waits
for a fork.
"""
_TAKES: Final = msgspec.msgpack.Decoder(wire.Take)

_SCHEDULED: Final = 2
"""CPUCLOCK_SCHED of the kernel: the clock with the number `~pid << 3 | 2` counts the processor time of that process."""

Work = Callable[[int, int, dict[int, int]], NoReturn]
"""Does a run and ends the process. Its arguments are descriptors: the reply pipe's write end, the request, the payloads by index."""


class Standby:
    """A standby as its zygote holds it: it takes one run, or is killed."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self._channel = channel

    def take(self, reply: int, body: int, files: Mapping[int, int]) -> bool:
        """Hand a run over. False if the standby is gone: then nothing has begun, and another process may do the run."""
        with self._channel:
            try:
                wire.send(self._channel, wire.Take([*files]), (reply, body, *files.values()))
            except wire.Broken:
                return False
        return True

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used so far: its rehearsal is not charged to the run."""
        with contextlib.suppress(OSError):
            return time.clock_gettime(~self.pid << 3 | _SCHEDULED)
        return 0.0

    def close(self) -> None:
        """Let go of a standby that has ended."""
        self._channel.close()

    def discard(self) -> None:
        """Kill it. The caller must not have reaped it yet: its number could belong to another process by now."""
        self._channel.close()
        os.kill(self.pid, signal.SIGKILL)


def fork(keep: Sequence[int], rehearse: Callable[[], Iterable[None]], work: Work) -> Standby:
    """Fork a standby that keeps the descriptors in `keep`, rehearses and waits for its run; raise OSError.

    `rehearse` returns the steps, of which no further one is begun once the run is there.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid:
        theirs.close()
        return Standby(pid, ours)
    try:
        die_with(parent)
        # The zygote's sockets and pipes go before anything else happens: with the order socket a run could give orders.
        close_descriptors((0, 1, 2, theirs.fileno(), *keep))
        poll = select.poll()
        poll.register(theirs, select.POLLIN)
        for _ in rehearse():
            if poll.poll(0):
                break
        take, (reply, body, *files) = wire.receive(theirs, _TAKES, 2 + MAX_FILES)
        theirs.close()
        # The standard descriptors were kept until now so that none of those received got their numbers: a library that prints to
        # descriptor 1 must not write into the reply.
        os.closerange(0, 3)
        work(reply, body, dict(zip(take.files, files, strict=True)))
    finally:
        os._exit(1)  # whatever happened: a fork must never return into its zygote's loop
