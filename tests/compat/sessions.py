"""Counts how many notebooks of several calls give the same in sessions as in a notebook.

`python tests/compat/sessions.py [--only TEXT] [--database URL] [--ipython] [--write]`: each cell is a call of `code_interpreter`. A
notebook is run twice: in one engine, and with a new engine and new processes of the sandbox ten times in between. What a cell gives
is compared with plain Python (`plain.py`): printed text, last value, kind of error, number of figures. A cell that gives something else
is a difference: told, if a reply named what was lost or why, else silent.

The notebooks are those in `notebooks/`, and from the folder that the environment names in CORPORA the chapters of two books, without
cells that fail in plain Python (as where data is absent), vary there (as the contents of new memory) or take long, and without cells that the language refuses
(docs/language.md counts those). How many each lacks is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import corpora
import plain

from byref import Engine, Policy, Session

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE / "notebooks"
MARK = "# %%"
RESTARTS = 10
FILE_PART = 40_000
"""Bytes of a file that one call writes: four characters each, and code may have 200,000."""
GROUPS = {
    "own": "the repository's",
    "handbook": "the Handbook",
    "handbook1": "the Handbook's first edition",
    "pydata": "Python for Data Analysis",
}
BOOKS = ("handbook", "pydata")
SEEDED = "import random\nrandom.seed(0)\nnp.random.seed(0)"
"""The first cell of a book's notebooks, whose random numbers would vary otherwise."""
_OLD_STYLE = re.compile(r"""(["'])seaborn-(?!v0_8)""")
"""What matplotlib's styles of seaborn were called when the books were written."""
_OF_THE_MACHINE = re.compile(r"np\.empty\(|get_supported_filetypes|memory_usage\(deep=True")
"""Memory that nobody has written to, how much of it texts take (pyarrow leaves out what says that none is missing when it pickles
them), and the formats of pictures, which are PNG here."""
REFUSALS = ("NotAllowed", "ModuleNotFoundError", "ImportError", "SyntaxError")
"""Kinds of errors by which the language refuses what Python does."""
PAGE = HERE.parents[1] / "docs" / "sandbox.md"
BEGIN, END = "<!--- notebooks: written by `make notebooks WRITE=1` -->", "<!--- notebooks: end -->"

Cell = tuple[str | None, str, str, int]
"""The kind of an error or None, the printed text, the value, how many figures."""


@dataclass(frozen=True)
class Notebook:
    """A notebook."""

    name: str
    group: str
    cells: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that its code names, with their paths."""

    def as_json(self) -> str:
        """The notebook as it goes to another process."""
        return json.dumps({"cells": self.cells, "files": self.files})


@dataclass(frozen=True)
class Difference:
    """A cell that gave something else."""

    notebook: Notebook
    cell: int
    wanted: Cell
    got: Cell
    told: str
    """What the replies have said about it; empty if nothing."""


def own() -> list[Notebook]:
    """The notebooks in the repository."""
    return [_read(path) for path in sorted(NOTEBOOKS.glob("*.py"))]


def _read(path: Path) -> Notebook:
    _, *cells = f"\n{path.read_text()}".split(f"\n{MARK}")
    return Notebook(path.stem, "own", tuple(cell.partition("\n")[2].strip("\n") for cell in cells))


def books(folder: Path | None) -> Iterator[Notebook]:
    """The chapters of the books, if they are to be had."""
    for book in BOOKS:
        with contextlib.suppress(corpora.Missing):
            for task in corpora.CORPORA[book].tasks(folder):
                files = {name: str(Path(task.folder) / name) for name in task.given}
                cells = [_OLD_STYLE.sub(r"\1seaborn-v0_8-", cell) for cell in task.cells]
                cells = [cell for cell in cells if not _OF_THE_MACHINE.search(cell)]
                group = "handbook1" if task.name.startswith("notebooks_v1/") else book
                yield Notebook(task.name, group, (SEEDED, *cells), files)


class Reference:
    """Plain Python, or IPython."""

    def __init__(self, *options: str) -> None:
        environment = {
            **os.environ,
            "MPLBACKEND": "Agg",
            "TZ": "UTC",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "plain.py"), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(self, notebook: Notebook) -> list[Cell]:
        """What its cells give."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(notebook.as_json() + "\n")
        self._process.stdin.flush()
        return [tuple(cell) for cell in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@dataclass
class Run:
    """What the cells of a notebook gave in a session, and what was said about names."""

    cells: list[Cell] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


def in_sessions(notebooks: Sequence[Notebook], url: str, restarts: int, name: str = "") -> list[Run]:
    """Run notebooks in sessions, with new processes so many times in between."""
    runs = [Run() for _ in notebooks]
    for part in range(restarts + 1):
        # The clock of a busy machine stops no cell; the limit of a processor's time stays.
        with Engine(url, create=True, policy=Policy(run_seconds=10 * plain.WAITING_SECONDS)) as engine:
            for notebook, run in zip(notebooks, runs, strict=True):
                session = engine.session(f"{notebook.name}.{restarts}{name}")
                if part == 0:
                    _give_files(session, notebook)
                for code in _part(notebook.cells, part, restarts + 1):
                    _call(session, code, run)
    return runs


def _part(cells: Sequence[str], number: int, parts: int) -> Sequence[str]:
    """Cells between two restarts. A notebook with fewer cells than that is restarted after each."""
    if len(cells) <= parts:
        return cells[number : number + 1]
    return cells[len(cells) * number // parts : len(cells) * (number + 1) // parts]


def _give_files(session: Session, notebook: Notebook) -> None:
    for name, path in notebook.files.items():
        data = Path(path).read_bytes()
        for at in range(0, max(len(data), 1), FILE_PART):
            part = data[at : at + FILE_PART]
            code = f"with open({name!r}, {'ab' if at else 'wb'!r}) as file:\n    file.write({part!r})\ndel file"
            assert session.run(code).error is None


def _call(session: Session, code: str, run: Run) -> None:
    outcome = session.run(code)
    error = outcome.error
    value = "" if error is not None else plain.shown(outcome.kind, outcome.json.decode(), outcome.text)
    cell = (error and error.kind, plain._ADDRESS.sub("0x", outcome.stdout), value, len(outcome.figures))
    run.cells.append(cell)
    told = [
        f"{name}: {why}" for name, why in {**outcome.unkept, **outcome.missed}.items() if why != "deleted by the code"
    ]
    run.told.append("; ".join([*told, *([f"{error.kind}: {error.message}"] if error is not None else [])]))


def differences(notebook: Notebook, wanted: Sequence[Cell], run: Run) -> list[Difference]:
    """The cells that gave something else, each with what was told until then."""
    found = []
    for number, (want, got) in enumerate(zip(wanted, run.cells, strict=True)):
        if _same(want, got):
            continue
        told = run.told[number] if got[0] is not None else "; ".join(filter(None, run.told[: number + 1]))
        found.append(Difference(notebook, number, want, got, told))
    return found


def _same(want: Cell, got: Cell) -> bool:
    """A session shows a figure again that a later call has changed, which Jupyter does not."""
    return tuple(want[:3]) == got[:3] and want[3] <= got[3]


def prepared(notebooks: Iterable[Notebook], plain_python: Reference, url: str) -> list[tuple[Notebook, list[Cell]]]:
    """The notebooks of at least two cells that are the same in plain Python each time, with what those give."""
    found = []
    for whole in notebooks:
        notebook, wanted = (whole, plain_python.run(whole)) if whole.group == "own" else suitable(whole, plain_python)
        refused = _refused(notebook, url) if whole.group != "own" else []
        if refused:
            cells = tuple(code for number, code in enumerate(notebook.cells) if number not in refused)
            notebook, wanted = suitable(replace(notebook, cells=cells), plain_python)
        if missing := len(whole.cells) - len(notebook.cells):
            print(f"{whole.name}: {missing} of {len(whole.cells)} cells left out, {len(refused)} refused", flush=True)
        if len(notebook.cells) > 1:
            found.append((notebook, wanted))
    return found


def suitable(notebook: Notebook, plain_python: Reference) -> tuple[Notebook, list[Cell]]:
    """The notebook without cells that fail or vary in plain Python, and what the others give."""
    before = plain_python.run(notebook)
    while True:
        good = [number for number, cell in enumerate(before) if cell[0] is None]
        notebook = replace(notebook, cells=tuple(notebook.cells[number] for number in good))
        before = [before[number] for number in good]
        now = plain_python.run(notebook)
        if now == before:
            return notebook, now
        before = [after if after == one else _VARIES for one, after in zip(before, now, strict=True)]


_VARIES: Cell = ("varies", "", "", 0)


def _refused(notebook: Notebook, url: str) -> list[int]:
    """Cells that the language refuses."""
    [run] = in_sessions([notebook], url, 0, name="refused")
    return [number for number, cell in enumerate(run.cells) if cell[0] in REFUSALS]


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only notebooks whose name contains this")
    parser.add_argument("--group", default="", choices=["", *GROUPS], help="only these notebooks")
    parser.add_argument("--database", help="run them in this database too")
    parser.add_argument("--restarts", type=int, nargs="*", default=[0, RESTARTS])
    parser.add_argument("--every", type=int, default=1, help="take each Nth notebook")
    parser.add_argument("--ipython", action="store_true", help="compare plain Python with IPython, and nothing else")
    parser.add_argument("--write", action="store_true", help="write the counts into docs/sandbox.md")
    options = parser.parse_args()
    notebooks = [
        one
        for one in (*own(), *books(corpora.folder()))
        if options.only in one.name and options.group in ("", one.group)
    ][:: options.every]
    reference = Reference()
    if options.ipython:
        _compare(notebooks, reference, Reference("--ipython"))
        return
    lines = []
    with tempfile.TemporaryDirectory() as place:
        ready = prepared(notebooks, reference, f"sqlite:///{place}/refused.db")
        notebooks, wanted = [one for one, _ in ready], [cells for _, cells in ready]
        reference.close()
        urls = {"SQLite": f"sqlite:///{place}/notebooks.db"} | (
            {"PostgreSQL": options.database} if options.database else {}
        )
        for database, url in urls.items():
            for restarts in options.restarts:
                runs = in_sessions(notebooks, url, restarts)
                for group, name in GROUPS.items():
                    of_group = [number for number, one in enumerate(notebooks) if one.group == group]
                    given = ([each[number] for number in of_group] for each in (notebooks, wanted, runs))
                    if of_group:
                        lines.append(report(f"{name}, {database}, {restarts or 'no'} restarts", *given))
    if options.write:
        write(lines)


def _compare(notebooks: Sequence[Notebook], reference: Reference, shell: Reference) -> None:
    for one in notebooks:
        for number, (want, got) in enumerate(zip(reference.run(one), shell.run(one), strict=True)):
            if want != got:
                print(f"{one.name} cell {number}\n  plain   {want}\n  ipython {got}")
    reference.close()
    shell.close()


def report(
    title: str, notebooks: Sequence[Notebook], wanted: Sequence[Sequence[Cell]], runs: Sequence[Run]
) -> tuple[str, int, int, int, int]:
    """Print the differences; return the title, and how many notebooks and calls there are, and notebooks with differences: told, silent."""
    all_found = [differences(n, w, r) for n, w, r in zip(notebooks, wanted, runs, strict=True)]
    for found in all_found:
        for one in found:
            print(f"--- {one.notebook.name} cell {one.cell} {'told ' + one.told if one.told else 'SILENT'}")
            print("    " + one.notebook.cells[one.cell].replace("\n", "\n    ")[:600])
            print(f"  wanted {str(one.wanted)[:700]}\n  got    {str(one.got)[:700]}")
    silent = sum(any(not one.told for one in found) for found in all_found)
    told = sum(bool(found) for found in all_found) - silent
    calls = sum(len(notebook.cells) for notebook in notebooks)
    print(f"{title}: {len(notebooks)} notebooks of {calls} calls: told {told}, silent {silent}", flush=True)
    return title, len(notebooks), calls, told, silent


def write(lines: Sequence[tuple[str, int, int, int, int]]) -> None:
    """Write the counts into the page, between its marks; of books and databases that were not run those from before stay."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    old, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{PAGE} lacks the lines {BEGIN!r} and {END!r}")
    rows = {
        row.split("|")[1].strip(): row for row in old.splitlines() if row.startswith("| ") and "notebooks" not in row
    }
    rows |= {
        title: f"| {title} | {number} | {calls:,} | {told} | {silent} |" for title, number, calls, told, silent in lines
    }
    table = [
        "| run | notebooks | calls | with a difference that a reply told | silent |",
        "|---|--:|--:|--:|--:|",
        *rows.values(),
    ]
    PAGE.write_text("\n".join([before + begin, "", *table, "", end + after]))


if __name__ == "__main__":
    main()
