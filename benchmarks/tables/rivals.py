"""Reads Pollock's files as other systems do that detect the dialect: `python rivals.py POLLOCK SYSTEM …`, in a Python that has them.

They are called as Pollock's authors call them (`sut/clevercs`, `sut/duckdbauto`). What a system read is in
`results/SYSTEM/polluted_files/loading/FILE_converted.csv`. Their versions are written as JSON to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path


def clevercsv(source: Path, target: Path) -> None:
    """CleverCSV: its sniffer, then its reader with what that found."""
    import clevercsv as library  # type: ignore[import-not-found]

    with source.open(newline="", encoding="ascii") as file:
        dialect = library.Sniffer().sniff(file.read())
        file.seek(0)
        rows = list(library.reader(file, dialect))
    with target.open("w", newline="") as file:
        library.write.writer(file).writerows(rows)


def duckdb(source: Path, target: Path) -> None:
    """DuckDB: `read_csv` with its sniffer, and nothing given but what makes it lenient."""
    import duckdb as library

    with library.connect() as connection:
        found = connection.read_csv(str(source), strict_mode=False, ignore_errors=True, null_padding=True)
        found.df().to_csv(target, index=False)


SYSTEMS: dict[str, Callable[[Path, Path], None]] = {"clevercsv": clevercsv, "duckdb": duckdb}


def main(folder: str, systems: list[str]) -> None:
    """Read all files with each of the systems."""
    for system in systems:
        loading = Path(folder, "results", system, "polluted_files/loading")
        loading.mkdir(parents=True, exist_ok=True)
        for source in sorted(Path(folder, "polluted_files/csv").glob("*.csv")):
            target = loading / f"{source.name}_converted.csv"
            try:
                SYSTEMS[system](source, target)
            except Exception as error:  # noqa: BLE001  the benchmark counts it
                target.write_text(f"Application Error\n{error}")
    json.dump({system: version(system) for system in systems}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
