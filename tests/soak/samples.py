"""What is looked at every few seconds of a soak, and the verdict: flat or growing."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GROWTH = {
    "host MB": 0.10,
    "sandbox MB": 0.10,
    "descriptors": 0.10,
    "threads": 0.0,
    "processes": 0.25,
    "database MB": 0.15,
    "p50 ms": 0.50,
}
"""By how much of its mean the line through the second half may rise from its beginning to its end."""
SLACK = {
    "host MB": 8.0,
    "sandbox MB": 40.0,
    "descriptors": 4.0,
    "threads": 1.0,
    "processes": 3.0,
    "database MB": 4.0,
    "p50 ms": 5.0,
}
"""What it may rise by in any case: what comes and goes with what happens to be open."""


@dataclass(frozen=True)
class Verdict:
    """Of one series: mean and rise over the second half, and what it may rise by."""

    name: str
    mean: float
    rise: float
    bound: float

    @property
    def is_flat(self) -> bool:
        """Whether it rises by no more than its bound."""
        return self.rise <= self.bound


def sample(
    host: Sequence[int], sandbox: Sequence[int], database_bytes: int, latencies: Sequence[float]
) -> dict[str, float]:
    """One look at the processes, by their ids, and at what they made."""
    pids = [*host, *sandbox]
    return {
        "host MB": sum(map(memory, host)) / 1e6,
        "sandbox MB": sum(map(memory, sandbox)) / 1e6,
        "descriptors": sum(map(descriptors, pids)),
        "threads": sum(map(threads, host)),
        "processes": len(pids),
        "database MB": database_bytes / 1e6,
        "p50 ms": sorted(latencies)[len(latencies) // 2] * 1000 if latencies else 0.0,
    }


def verdicts(samples: Sequence[dict[str, float]]) -> list[Verdict]:
    """Fit a line through the second half of each series; what rises more than its bound leaks."""
    found = []
    for name, share in GROWTH.items():
        series = [one[name] for one in samples[len(samples) // 2 :]]
        mean = sum(series) / len(series)
        found.append(Verdict(name, mean, slope(series) * (len(series) - 1), max(SLACK[name], share * mean)))
    return found


def slope(series: Sequence[float]) -> float:
    """Of the straight line that fits best, by sample."""
    middle, mean = (len(series) - 1) / 2, sum(series) / len(series)
    spread = sum((at - middle) ** 2 for at in range(len(series)))
    return sum((at - middle) * (value - mean) for at, value in enumerate(series)) / spread if spread else 0.0


def memory(pid: int) -> float:
    """Bytes: proportional set size, which counts what is shared once in all; resident where that may not be read."""
    with suppress(OSError, StopIteration):
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024.0
    with suppress(OSError):
        return int((Path("/proc") / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0.0


def descriptors(pid: int) -> int:
    """Open descriptors of a process."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def threads(pid: int) -> int:
    """Threads of a process."""
    if pid == os.getpid():
        return threading.active_count()
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/task"))
    return 0
