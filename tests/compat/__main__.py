"""Counts, corpus by corpus, how many of the programs that pass in plain Python pass in the language and behind both walls.

`python tests/compat [corpus …] [--every N] [--alone] [--misses] [--task NAME] [--into FOLDER] [--write]`: without names all corpora, without `--every` all of
their tasks. `--alone` leaves the jail out. `--misses` runs what did not pass last time. `--task` runs the tasks with these names (`3,5`),
else those whose name contains the text, and says what each did. `--into` writes a file for each corpus
with the misses by reason; `--write` puts the counts, and reasons without any text of a program, into docs/language.md. Corpora come from the folder that the environment names in CORPORA; what passes in plain Python is
remembered there, so that it is run once.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import checks
import corpora
import page
from walls import WALLS, Walls

DOCUMENTATION = "documentation"
"""The name of the corpus that the libraries bring themselves."""
_LIBRARIES = ("pandas", "numpy", "matplotlib", "scipy", "scikit-learn", "seaborn", "statsmodels")


class Natives:
    """What tasks give in plain Python, remembered in the folder of the corpora under the versions of the libraries."""

    def __init__(self, folder: Path | None) -> None:
        self._path = (folder or corpora.FETCHED) / "natives.json"
        self._known: dict[str, Any] = json.loads(self._path.read_text()) if self._path.is_file() else {}
        self._versions = [sys.version, *(_version(name) for name in _LIBRARIES)]
        self._walls: Walls | None = None

    def of(self, task: corpora.Task) -> checks.Cells:
        """What the task gives, twice the same where it has output; the differing parts count as failed."""
        how = ["seeded"] if task.format == "notebook" else []
        key = hashlib.sha256(json.dumps([task.as_json(), self._versions, *how]).encode()).hexdigest()[:24]
        if key not in self._known:
            self._walls = self._walls or Walls("plain")
            first = self._walls.run(task.as_json())
            if task.format == "notebook":
                again = self._walls.run(task.as_json())
                first = [one if one == other else (False, "varies") for one, other in zip(first, again, strict=False)]
            self._known[key] = first
            if len(self._known) % 50 == 0:
                self._write()
        return [(bool(ok), text) for ok, text in self._known[key]]

    def save(self) -> None:
        """Write what was found."""
        if self._walls is not None:
            self._walls.close()
            self._walls = None
            self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._known))
        new.replace(self._path)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


class Found:
    """What tasks gave behind walls, remembered in a file, so that a run that was stopped, or one after a mend, need not begin anew."""

    def __init__(self, path: Path, *, only_misses: bool = False) -> None:
        self._path = path
        self._known: dict[str, Any] = json.loads(path.read_text()) if only_misses and path.is_file() else {}
        self._written = time.monotonic()

    def of(self, task: corpora.Task, walls: str, native: checks.Cells, side: Walls) -> checks.Cells:
        """What the task gives: as remembered if it passed wherever it passes in plain Python, else what it gives now."""
        key = f"{task.name} {walls}"
        known = [(bool(ok), text) for ok, text in self._known.get(key, [])]
        if known and all(one == wanted for one, wanted in zip(known, native, strict=False) if wanted[0]):
            return known
        got = self._known[key] = side.run(task.as_json())
        got += [got[-1]] * (len(native) - len(got))
        if time.monotonic() > self._written + 10:
            self.save()
        return got

    def save(self) -> None:
        """Write what was found."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._known))
        new.replace(self._path)
        self._written = time.monotonic()


class Count:
    """Of one group of a corpus: how many parts pass where, and the misses by reason."""

    def __init__(self, behind: tuple[str, ...] = WALLS[1:]) -> None:
        self.behind = behind
        self.native = 0
        self.passes: Counter[str] = Counter()
        self.left_out: list[str] = []
        """Of the misses those that are named on the page, as objects of documentation that need files or raw memory."""
        self.misses: dict[str, dict[str, list[str]]] = {walls: defaultdict(list) for walls in WALLS[1:]}


def reason(text: str) -> str:
    """An error without what differs from task to task: numbers, addresses, long quotes."""
    text = re.sub(r"\(also .*", "", text)
    text = re.sub(r"line \d+:? ?", "", text)
    text = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", text)
    if text.startswith("AssertionError"):
        return "another result"
    return text[:160].strip()


def measure(
    tasks: list[corpora.Task], natives: Natives, remembered: Found, behind: tuple[str, ...] = WALLS[1:]
) -> dict[str, Count]:
    """Run tasks behind these walls and count; tasks that fail in plain Python count nowhere."""
    found: dict[str, Count] = defaultdict(lambda: Count(behind))
    with _sides(behind) as sides:
        _measure(tasks, natives, remembered, sides, found)
    remembered.save()
    return found


@contextlib.contextmanager
def _sides(behind: tuple[str, ...] = WALLS[1:]) -> Iterator[dict[str, Walls]]:
    """The processes for some walls."""
    sides = {walls: Walls(walls) for walls in behind}
    try:
        yield sides
    finally:
        for side in sides.values():
            side.close()


def _measure(
    tasks: list[corpora.Task], natives: Natives, remembered: Found, sides: dict[str, Walls], found: dict[str, Count]
) -> None:
    for number, task in enumerate(tasks):
        if sys.stderr.isatty():
            print(f"\r{number}/{len(tasks)} {task.name[:50]:50}", end="", file=sys.stderr)
        native = natives.of(task)
        count = found[task.group]
        count.native += sum(ok for ok, _ in native)
        if not any(ok for ok, _ in native):
            continue
        reasons: dict[str, list[str | None]] = {}
        for walls, side in reversed(sides.items()):
            # What passes behind both walls passes in the language: there is nothing more in its way.
            passed = bool(reasons) and not any(reasons["both"])
            got = native if passed else remembered.of(task, walls, native, side)
            reasons[walls] = _reasons(got, native)
        for walls, texts in reasons.items():
            count.passes[walls] += sum(ok and text is None for (ok, _), text in zip(native, texts, strict=True))
            for place, (text, first) in enumerate(zip(texts, reasons.get("language", texts), strict=True)):
                if (
                    text is not None
                ):  # what the first wall says is the reason, whatever a test meets behind the second one
                    count.misses[walls][first or text].append(task.name + (f"#{place}" if len(native) > 1 else ""))


def _reasons(got: checks.Cells, native: checks.Cells) -> list[str | None]:
    """Why each part of a task misses what it gives in plain Python; None where it does not."""
    found: list[str | None] = []
    for (ok, text), (is_native, wanted) in zip(got, native, strict=False):
        if not is_native or (ok, text) == (is_native, wanted):
            found.append(None)
        elif ok:
            found.append("another output")
        elif any(found) and reason(text).startswith("NameError"):
            found.append("a name that an earlier cell would have made")
        else:
            found.append(reason(text))
    return found


def documentation() -> dict[str, Count]:
    """Count the objects of pandas and numpy whose documented examples all give the same output."""
    import docstrings

    found = {}
    with docstrings.Sandbox(docstrings.Limits(wall_seconds=20, cpu_seconds=10)) as sandbox:
        for library, texts in (("pandas", docstrings.pandas_documentation), ("numpy", docstrings.numpy_documentation)):
            measured, count = docstrings.measure(texts()), Count()
            count.left_out = measured.left_out
            jailed = docstrings.differs_in_the_jail(sandbox, measured)
            count.native = measured.objects
            for walls, differences in (("language", measured.differences), ("both", [*measured.differences, *jailed])):
                count.passes[walls] = measured.objects - len(differences)
                for one in differences:
                    text = "another output" if one.reason == "differs" else one.reason
                    count.misses[walls][text].append(one.path)
            found[library] = count
    return found


def report(corpus: str, found: dict[str, Count]) -> str:
    """The counts of a corpus, and its misses by reason with the names of the tasks."""
    lines = []
    for group, count in found.items():
        names = {"language": "language alone", "both": "both walls"}
        shares = ", ".join(f"{names[walls]} {count.passes[walls]}" for walls in count.behind)
        lines.append(f"{corpus} {group}: natively {count.native}, {shares}")
    for group, count in found.items():
        for walls in count.behind:
            by_count = sorted(count.misses[walls].items(), key=lambda item: (-len(item[1]), item[0]))
            if by_count and not (walls == "both" and count.misses["both"] == count.misses["language"]):
                lines.append(f"\n## {group}, {'the language alone' if walls == 'language' else 'both walls'}\n")
                for text, names in by_count:
                    lines.append(f"{len(names):4} {text}\n       {' '.join(names[:60])}")
    return "\n".join(lines)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", help=f"of {', '.join([*corpora.CORPORA, DOCUMENTATION])}")
    parser.add_argument("--every", type=int, default=1, help="take each Nth task")
    parser.add_argument("--alone", action="store_true", help="the language alone, without the jail")
    parser.add_argument("--task", help="only these tasks, told one by one")
    parser.add_argument(
        "--write", action="store_true", help="write what was found last of each corpus into docs/language.md"
    )
    parser.add_argument(
        "--misses", action="store_true", help="run only what did not pass, or was not reached, when it was run last"
    )
    parser.add_argument("--into", type=Path, help="a folder for a file of each corpus")
    arguments = parser.parse_args()
    folder = corpora.folder()
    natives = Natives(folder)
    kept = arguments.into or corpora.FETCHED / "found"
    missing = []
    for name in arguments.corpora or [*corpora.CORPORA, DOCUMENTATION]:
        if name == DOCUMENTATION:
            found = documentation()
            page.keep(kept, name, found, arguments.every)
            print(report(name, found), flush=True)
            continue
        try:
            tasks = corpora.CORPORA[name].tasks(folder)
        except corpora.Missing as error:
            missing.append(str(error))
            continue
        if arguments.task:
            wanted = arguments.task.split(",")
            whole = [task for task in tasks if task.name in wanted or task.name.rpartition("/")[2] in wanted]
            _tell(whole or [task for task in tasks if arguments.task in task.name], natives)
            continue
        remembered = Found(kept / f"{name}.tasks.json", only_misses=arguments.misses)
        found = measure(tasks[:: arguments.every], natives, remembered, WALLS[1:2] if arguments.alone else WALLS[1:])
        text = report(name, found)
        print(text if arguments.into is None else text.split("\n\n")[0], flush=True)
        if arguments.into is not None:
            arguments.into.mkdir(parents=True, exist_ok=True)
            (arguments.into / f"{name}.txt").write_text(text + "\n")
        if not arguments.alone:
            page.keep(kept, name, found, arguments.every)
        natives.save()
    natives.save()
    if arguments.write:
        print(f"{page.write(kept, missing)} written")
    for text in missing:
        print(f"MISSING {text}")


def _tell(tasks: list[corpora.Task], natives: Natives) -> None:
    with _sides() as sides:
        for task in tasks:
            print(f"=== {task.name}\n{task.code}\n")
            for walls, got in [
                ("plain", natives.of(task)),
                *((w, side.run(task.as_json())) for w, side in sides.items()),
            ]:
                for place, (ok, text) in enumerate(got):
                    where = f" cell {place}" if len(got) > 1 else ""
                    print(f"{walls}{where}: {'ok' if ok else 'failed'} {text}", flush=True)


if __name__ == "__main__":
    main()
