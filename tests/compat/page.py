"""The part of docs/language.md that says how much of the corpora runs: counts, and reasons without any text of a program."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "language.md"
BEGIN, END = "<!--- compat: written by `make compat WRITE=1` -->", "<!--- compat: end -->"
TITLES = {
    "ds1000": "DS-1000",
    "bigcodebench": "BigCodeBench",
    "humaneval": "HumanEval",
    "mbpp": "MBPP",
    "pandaseval": "PandasEval",
    "numpyeval": "NumpyEval",
    "handbook": "Python Data Science Handbook, cells",
    "pydata": "Python for Data Analysis, cells",
    "documentation": "documentation",
}
_LEAST = 2
"""Reasons of fewer programs are counted together."""


def keep(folder: Path, corpus: str, found: dict[str, Any], every: int = 1) -> None:
    """Remember the counts of a corpus, of which each `every`th program was run."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = {
        group: {
            "every": every,
            "native": count.native,
            "language": count.passes["language"],
            "both": count.passes["both"],
            "left_out": count.left_out,
            "misses": Counter({text: len(names) for text, names in count.misses["both"].items()}),
        }
        for group, count in found.items()
    }
    (folder / f"{corpus}.json").write_text(json.dumps(counts))


def write(folder: Path, missing: Iterable[str]) -> Path:
    """Write what is remembered into the page, between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE} lacks the lines {BEGIN!r} and {END!r}")
    PAGE.write_text(f"{before}{BEGIN}\n{text(folder, missing)}\n{END}{after}")
    return PAGE


def text(folder: Path, missing: Iterable[str]) -> str:
    """The tables."""
    lines = ["", "| programs | pass in plain Python | in the language | behind both walls | |", "|---|--:|--:|--:|--:|"]
    reasons: Counter[str] = Counter()
    left_out: list[str] = []
    where: dict[str, list[str]] = {}
    for corpus, title in TITLES.items():
        path = folder / f"{corpus}.json"
        groups = json.loads(path.read_text()) if path.is_file() else {}
        for group, count in sorted(groups.items()):
            name = title if len(groups) == 1 else f"{title}, {group}"
            name += "" if count["every"] == 1 else f" (each {count['every']}th program)"
            share = count["both"] / count["native"] if count["native"] else 1.0
            lines.append(f"| {name} | {count['native']:,} | {count['language']:,} | {count['both']:,} | {share:.1%} |")
            if found := count.get("left_out"):
                rest = count["native"] - len(found)
                lines.append(
                    f"| {name}, without what needs files or raw memory | {rest:,} | {count['language']:,} | {count['both']:,} "
                    f"| {count['both'] / rest:.1%} |"
                )
                left_out += found
            for reason, number in count["misses"].items():
                told = public(reason)
                reasons[told] += number
                if title not in where.setdefault(told, []):
                    where[told].append(title)
    lines += ["", "| misses | reason | where |", "|--:|---|---|"]
    few = [reason for reason, number in reasons.items() if number < _LEAST]
    for reason, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        if reason not in few:
            lines.append(f"| {number} | {reason} | {', '.join(where[reason])} |")
    if few:
        lines.append(f"| {len(few)} | a reason of its own each | |")
    if left_out:
        lines += ["", f"What needs files or raw memory: {', '.join(f'`{name}`' for name in left_out)}."]
    absent = [text.partition(":")[0] for text in missing]
    if absent:
        lines += ["", f"Not measured, because they were not to be had: {', '.join(absent)}."]
    return "\n".join([*lines, ""])


def public(reason: str) -> str:
    """A reason without what could be text of a program: its names, files and values."""
    if (module := re.match(r"ModuleNotFoundError: No module named '(urllib\.\w+|\w+)", reason)) is not None:
        return (
            f"the module `{module[1]}` is not there".replace("sqliteN", "sqlite3")
            .replace("blakeN", "blake3")
            .replace("bsN", "bs4")
        )
    kind, colon, message = reason.partition(": ")
    kind = kind.rpartition(".")[2]
    if kind == "NotAllowed":
        message = re.sub(r"'[^']*[^\w'][^']*'", "…", message)
        return re.split(r"[;:|]", message)[0].strip()[:90]
    if kind == "ImportError":
        return re.sub(r" \(.*", "", message)[:90]
    if not colon:
        return reason if re.fullmatch(r"[a-z ,]+", reason) else f"raises {kind[:40]}"
    return {"TimeLimit": "more time than a program may take", "Crash": "the process ended"}.get(
        kind, f"raises {kind[:40]}"
    )
