"""Host processes that do everything to the same conversations at once, and are killed at any moment."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import hammer
import kit
import process_table
from report import Report

KILLS_A_SECOND = 3.0
_PR_SET_CHILD_SUBREAPER = 36


def hosts_hammer(folder: Path, seconds: float, seed: int) -> Report:
    """Eight processes, none of them killed, bytes in SQL and in files."""
    return _hammered("hosts_hammer", folder, seconds, seed, 0)


def hosts_killed(folder: Path, seconds: float, seed: int) -> Report:
    """Eight processes, of which one is killed three times a second, bytes in SQL and in files."""
    return _hammered("hosts_killed", folder, seconds, seed, max(4, int(seconds / 2 * KILLS_A_SECOND)))


def _hammered(name: str, folder: Path, seconds: float, seed: int, kills: int) -> Report:
    report, seconds = Report(name), seconds / 2
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what a killed host leaves behind is ours from then on
    figures = {"kills": 0, "acts": 0, "acknowledged looked for": 0}
    for blobs in (None, str(folder / "blobs")):
        with kit.databases(_made(folder / ("sql" if blobs is None else "files"))) as urls:
            for kind, url in urls.items():
                place = None if blobs is None else f"{blobs}-{kind}"
                outcome = hammer.hammer(url, seconds=seconds, kills=kills, seed=seed, folder=place)
                report.failures += [
                    f"{kind}, bytes in {'SQL' if blobs is None else 'files'}: {failure}" for failure in outcome.failures
                ]
                if left := kit.gone(kit.below(os.getpid())):
                    report.failures.append(f"left behind by killed hosts: {[process_table.name(pid) for pid in left]}")
                figures["kills"] += outcome.kills
                figures["acts"] += outcome.done.total()
                figures["acknowledged looked for"] += outcome.acknowledged
    report.figures |= figures
    return report


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
