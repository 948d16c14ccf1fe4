"""Read Pollock's files and terminals' outputs: `CORPORA=folder python -m benchmarks.tables [csv]`; with `csv` their format is stated.

Pollock's own code scores what was read, in a Python that has what it imports (`SCORER`, this one by default): see `score.py`.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from byref_sandbox.tabletext import NotATable, recognise

HERE = Path(__file__).parent


def main(format: str | None) -> int:
    """Read what is there, and say what came of it."""
    corpora = Path(os.environ.get("CORPORA", ".cache/tables"))
    _pollock(corpora / "pollock", format)
    _terminal(corpora / "terminal")
    return 0


def _pollock(folder: Path, format: str | None) -> None:
    if not (folder / "polluted_files/csv").is_dir():
        print(f"Pollock: skipped, {folder} is no checkout of HPI-Information-Systems/Pollock")
        return
    system = "byref" + (format or "")
    loading = folder / "results" / system / "polluted_files/loading"
    loading.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    for path in sorted((folder / "polluted_files/csv").glob("*.csv")):
        found = recognise(path.read_bytes(), format)
        with (loading / f"{path.name}_converted.csv").open("w", newline="", encoding="utf-8") as file:
            if isinstance(found, NotATable):
                print(f"{path.name} stays text: {found}")
                file.write("Application Error\n")
                continue
            writer, table = csv.writer(file), found.tables[0]  # the measures know only the first of several tables
            if table.header is not None:
                writer.writerow(table.header)
            writer.writerows(table.records())
    print(f"Pollock: read in {time.process_time() - start:.0f} s of processor time")
    scorer = os.environ.get("SCORER", sys.executable)
    done = subprocess.run([scorer, HERE / "score.py", folder, system], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"Pollock: not scored: {done.stderr.strip().splitlines()[-1]}")
        return
    for name, score in json.loads(done.stdout).items():
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
