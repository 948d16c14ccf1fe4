"""Scores what was read of Pollock's files, with the code that its authors publish: `python -m benchmarks.tables.score POLLOCK SYSTEM …`.

POLLOCK is a checkout of the benchmark. What a system read is in `results/SYSTEM/polluted_files/loading/FILE_converted.csv` there.
Their code judges each file by ten measures; here these are only added up, as their `evaluate.py` does it: the simple score is the sum
of the ten means, the weighted one is that of the files' sums, by how often files have such a pollution. The cells are normalised
once each, because their reading of dates is slow. Written as JSON to standard output.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from functools import lru_cache
from pathlib import Path

MEASURES = (
    "success",
    *(f"{part}_{what}" for part in ("header", "record", "cell") for what in ("precision", "recall", "f1")),
)


def main(folder: str, systems: list[str]) -> None:
    """Score each of the systems."""
    sys.path.insert(0, folder)
    os.chdir(folder)
    import evaluate  # type: ignore[import-not-found]

    evaluate.metrics.normalize_cell = lru_cache(1 << 20)(evaluate.metrics.normalize_cell)
    files = sorted(path.name for path in Path("polluted_files/csv").glob("*.csv"))
    weights = json.loads(Path("pollock_weights.json").read_text())
    scores = {}
    for system in systems:
        with redirect_stdout(sys.stderr):
            judged = {name: evaluate.evaluate_single_file(name, "polluted_files", system) for name in files}
        rows = {name: [row[f"{system}_{measure}"] for measure in MEASURES] for name, row in judged.items()}
        total = sum(weights.get(name, -1) for name in files)
        scores[system] = {
            "simple": sum(map(sum, rows.values())) / len(files),
            "weighted": sum(sum(row) * weights.get(name, -1) for name, row in rows.items()) / total,
            "measures": {
                measure: sum(row[at] for row in rows.values()) / len(files) for at, measure in enumerate(MEASURES)
            },
            "files": {name: sum(row) for name, row in rows.items()},
        }
    json.dump(scores, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
