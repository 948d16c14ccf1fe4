"""Pollock's files, as byref and others read them, scored with its authors' code.

Rivals and scores run in a Python that has what they import (`SCORER`, this one by default).
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from byref_sandbox.tabletext import NotATable, recognise

HERE = Path(__file__).parent
RIVALS = ("clevercsv", "duckdb")


class Unavailable(RuntimeError):
    """What others need is not there."""


def folder() -> Path:
    """The checkout of the benchmark; raise Unavailable if there is none."""
    found = Path(os.environ.get("CORPORA", ".cache/tables"), "pollock")
    if not (found / "polluted_files/csv").is_dir():
        raise Unavailable(f"{found} is no checkout of HPI-Information-Systems/Pollock")
    return found.absolute()


def read(pollock: Path, format: str | None) -> tuple[str, dict[str, str]]:
    """Read all files, known to be of a format or not; return the name of the results, and why which files stay text."""
    system = "byref" + (format or "")
    loading = pollock / "results" / system / "polluted_files/loading"
    loading.mkdir(parents=True, exist_ok=True)
    refused = {}
    for path in sorted((pollock / "polluted_files/csv").glob("*.csv")):
        found = recognise(path.read_bytes(), format)
        with (loading / f"{path.name}_converted.csv").open("w", newline="", encoding="utf-8") as file:
            if isinstance(found, NotATable):
                refused[path.name] = str(found)
                file.write("Application Error\n")
                continue
            writer, table = csv.writer(file), found.tables[0]  # the measures know only the first of several tables
            if table.header is not None:
                writer.writerow(table.header)
            writer.writerows(table.records())
    return system, refused


def read_by_rivals(pollock: Path) -> dict[str, str]:
    """Read all files with the others; return their versions."""
    return dict(_run("rivals.py", pollock, *RIVALS))


def scores(pollock: Path, *systems: str) -> dict[str, Any]:
    """Return what each system's reading is worth."""
    return dict(_run("score.py", pollock, *systems))


def _run(script: str, *arguments: object) -> Any:
    scorer = os.environ.get("SCORER", sys.executable)
    done = subprocess.run([scorer, HERE / script, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{scorer} {script}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)
