"""Read Pollock's files and terminals' outputs: `CORPORA=folder python -m benchmarks.tables [csv]`; with `csv` their format is stated."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks.tables import pollock
from byref_sandbox.tabletext import NotATable, recognise


def main(format: str | None) -> int:
    """Read what is there, and say what came of it."""
    try:
        _pollock(pollock.folder(), format)
    except pollock.Unavailable as error:
        print(f"Pollock: skipped: {error}")
    _terminal(Path(os.environ.get("CORPORA", ".cache/tables"), "terminal"))
    return 0


def _pollock(folder: Path, format: str | None) -> None:
    start = time.process_time()
    system, refused = pollock.read(folder, format)
    print(f"Pollock: read in {time.process_time() - start:.0f} s of processor time")
    print(*(f"{name} stays text: {reason}" for name, reason in refused.items()), sep="\n")
    for name, score in pollock.scores(folder, system).items():
        print(f"{name}: simple {score['simple']:.3f}, weighted {score['weighted']:.3f}")
        print(*(f"  {measure}: {value:.4f}" for measure, value in score["measures"].items()), sep="\n")


def _terminal(folder: Path) -> None:
    if not folder.is_dir():
        print(f"terminals: skipped, there is no folder {folder}")
        return
    for path in sorted(folder.iterdir()):
        found = recognise(path.read_bytes())
        if isinstance(found, NotATable):
            print(f"{path.name}: text: {found}")
        else:
            print(
                f"{path.name}: "
                + "; ".join(f"{one.format}, {one.rows} rows of {', '.join(one.names)}" for one in found.tables)
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
