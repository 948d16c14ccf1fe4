"""What ends a server when the gateway itself was killed and cannot.

A server that ignores the end of its input would live for ever. `PR_SET_PDEATHSIG` would end it at once, and it alone: not what it
started, and it could not leave in order. So a shell waits beside it for the end of a pipe that only the gateway holds.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SHELL = "/bin/sh"
_SCRIPT = """
read -r word
for signal in TERM KILL; do
    for second in 1 2; do
        kill -s 0 -- "-$1" || exit 0
        sleep 1
    done
    kill -s "$signal" -- "-$1"
done
"""
"""Of a process group: two seconds to end by itself, two more after SIGTERM."""


@contextmanager
def guarded(group: int) -> Iterator[None]:
    """See to it that a process group ends some seconds after this process has ended without a chance to end it.

    Where there is no shell nothing is done.
    """
    try:
        guard = subprocess.Popen(
            [SHELL, "-c", _SCRIPT, "byref-guard", str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        yield
        return
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
        assert guard.stdin is not None
        with suppress(OSError):
            guard.stdin.close()
