"""Writes RESULTS.md, and its chart, from the stored figures."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

from benchmarks import chart, results
from benchmarks.results import Figure, figures_of, shown

HEAD = """\
# Results

Written by `make bench WRITE=1`; do not edit. Times and ratios are those of this one machine. Each ratio is that of ours to a
baseline that was measured in the same rounds; less is better unless it says otherwise.
`xoj` is the time `orjson.loads` takes for the same bytes, without a garbage collector. Targets that are missed are named as such.

![The ratios on a logarithmic scale](results.svg)
"""
NAMES = (
    "process",
    "offloading",
    "describe",
    "tables",
    "tokens",
    "envelopes",
    "storage",
    "ledger",
    "reading",
    "growth",
    "deletion",
    "interpreter",
    "state",
    "calls",
    "loca",
    "imports",
    "serving",
    "service",
    "cluster",
)
"""The order of the sections, which is that of the runs."""


def write() -> None:
    """Write the page and the chart."""
    kept = ordered(results.read())
    (results.FOLDER / "RESULTS.md").write_text(rendered(kept), encoding="utf-8")
    figures = {name: figures_of(section) for name, section in kept.items()}
    (results.FOLDER / "results.svg").write_bytes(chart.drawn(figures))


def ordered(kept: dict[str, Any]) -> dict[str, Any]:
    """The sections in the order of the flow."""
    return {name: kept[name] for name in NAMES if name in kept} | kept


def rendered(kept: dict[str, Any]) -> str:
    """The page: the machine, what was missed, and a section per benchmark."""
    if not kept:
        return HEAD
    facts: dict[str, str] = max((section["facts"] for section in kept.values()), key=lambda given: given["date"])
    missed = [
        f"- {name}: {figure.step}: {_value(figure)}{_against(figure)}; target {_escaped(figure.target)}"
        for name, section in kept.items()
        for figure in figures_of(section)
        if figure.verdict is False
    ]
    judged = sum(figure.verdict is not None for section in kept.values() for figure in figures_of(section))
    machine = ["## Machine", "", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]
    targets = [
        "## Targets",
        "",
        f"{judged - len(missed)} of {judged} targets are met." + (" Missed:" if missed else ""),
    ]
    sections = chain.from_iterable(_section(name, section, facts) for name, section in kept.items())
    return "\n".join([HEAD, *machine, "", *targets, *([""] if missed else []), *missed, "", *sections])


def _section(name: str, kept: dict[str, Any], facts: dict[str, str]) -> list[str]:
    figures = figures_of(kept)
    others = [f"{fact}: {value}" for fact, value in kept["facts"].items() if facts.get(fact) != value]
    return [
        f"## {name}",
        "",
        kept["about"],
        *(["", f"Measured apart from the rest: {'; '.join(others)}."] if others else []),
        "",
        "| step | ours | ratio | to | target | |",
        "|---|--:|--:|---|---|---|",
        *(_row(figure) for figure in figures),
        *([""] if any(figure.note for figure in figures) else []),
        *(f"- {_escaped(figure.step)}: {_escaped(figure.note)}" for figure in figures if figure.note),
        "",
    ]


def _row(figure: Figure) -> str:
    verdict = {None: "", True: "met", False: "**missed**"}[figure.verdict]
    against = "" if figure.ratio is None else f"{shown(figure.ratio)}x"
    cells = (figure.step, _value(figure), against, figure.baseline, figure.target)
    return f"| {' | '.join(map(_escaped, cells))} | {verdict} |"


def _value(figure: Figure) -> str:
    return f"{shown(figure.value)} {figure.unit}".strip()


def _against(figure: Figure) -> str:
    return "" if figure.ratio is None else f", {shown(figure.ratio)}x of {figure.baseline}"


def _escaped(text: str) -> str:
    return re.sub(r"[|*_]|<(?=\w)", r"\\\g<0>", text)
