"""A fork ahead of its run: what a fork costs is paid before anybody waits for it.

It has rehearsed a run of its own, so that the pages which a run writes to are its own already, and then waits for one
message. From there it is what a fork made for that run would be: the same data, and the jail still ahead of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from byref_sandbox import wire
from byref_sandbox.jail.jail import close_descriptors, die_with

MAX_FILES: Final = 16
"""Memfds that are handed over; a run that needs more is forked."""
_TAKES: Final = msgspec.msgpack.Decoder(wire.Take)

_SCHEDULED: Final = 2
"""CPUCLOCK_SCHED: behind the inverted number of a process, it names the clock of its processor time."""

Work = Callable[[int, int, dict[int, int]], NoReturn]
"""Does a run, of these descriptors: write end of the reply, request, payloads by index."""


class Standby:
    """The zygote's side of one: it takes one run, or is killed."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self._channel = channel

    def take(self, reply: int, body: int, files: Mapping[int, int]) -> bool:
        """Hands a run over; False where it is gone, and then nothing was begun."""
        with self._channel:
            try:
                wire.send(self._channel, wire.Take([*files]), (reply, body, *files.values()))
            except wire.Broken:
                return False
        return True

    def cpu_seconds(self) -> float:
        """Processor time it has used, which is not the run's."""
        with contextlib.suppress(OSError):
            return time.clock_gettime(~self.pid << 3 | _SCHEDULED)
        return 0.0

    def close(self) -> None:
        """Lets go of one that has ended."""
        self._channel.close()

    def discard(self) -> None:
        """Ends it; it must not have been waited for."""
        self._channel.close()
        os.kill(self.pid, signal.SIGKILL)


def fork(keep: Sequence[int], rehearse: Callable[[], None], work: Work) -> Standby:
    """Forks one that keeps these descriptors; raises OSError."""
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
        close_descriptors((0, 1, 2, theirs.fileno(), *keep))
        rehearse()
        take, (reply, body, *files) = wire.receive(theirs, _TAKES, 2 + MAX_FILES)
        theirs.close()
        os.closerange(
            0, 3
        )  # kept until now, so that what was received has higher numbers, as in a fork made for the run
        work(reply, body, dict(zip(take.files, files, strict=True)))
    finally:
        os._exit(1)
