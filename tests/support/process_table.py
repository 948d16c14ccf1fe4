"""The machine's processes, as tests look at them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STANDBY = "byref:standby"


def stat(pid: int) -> list[str]:
    """State, parent, group and what follows of /proc/PID/stat; X and nothing for who is gone."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", "0"]


def name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    return ""


def root_pid(sandbox: Any) -> int:
    """The process of a sandbox's root, which is started if it is not there."""
    return int(sandbox.start()._root.pid)


def computes(pid: int) -> bool:
    """Whether a process wants the processor, or the disk, at this moment."""
    return stat(pid)[0] in "RD"


def everyone(pid: int) -> set[int]:
    """Every living process below `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state, parent, *_ = stat(int(entry.name))
            if state not in "ZX":
                parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found


def descendants(pid: int) -> set[int]:
    """Every living process below `pid` but those that stand by, or were forked a moment ago and are not yet anything."""
    return {each for each in everyone(pid) if name(each) not in (STANDBY, name(int(stat(each)[1])))}


def children(pid: int) -> set[int]:
    """Living processes right below `pid` but those that stand by."""
    return {each for each in descendants(pid) if stat(each)[1] == str(pid)}


def standbys(pid: int) -> set[int]:
    """Of one zygote: none or one."""
    return {each for each in everyone(pid) if name(each) == STANDBY and stat(each)[1] == str(pid)}


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if stat(pid)[0] not in "ZX"}


def settled(found: Callable[[], set[int]]) -> set[int]:
    """What is found once it stays the same for 0.1 s: after an answer, a session's process still forks the next one ahead."""
    last, since = found(), time.monotonic()
    while time.monotonic() < since + 0.1:
        time.sleep(0.02)
        if (now := found()) != last:
            last, since = now, time.monotonic()
    return last


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def only(found: Callable[[], set[int]]) -> int:
    """The one process that is found, as soon as there is just one: for a moment a run may look like what it was."""
    seen: set[int] = set()

    def is_alone() -> bool:
        nonlocal seen
        seen = found()
        return len(seen) == 1

    assert until(is_alone), seen
    return seen.pop()
