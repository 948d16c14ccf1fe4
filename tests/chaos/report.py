"""What a scenario of faults says of itself: its figures, and what was wrong in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass
class Report:
    """One scenario that ran: figures by name, and failures, of which there should be none."""

    name: str
    figures: dict[str, int | float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """The report as one line."""
        state = f"{len(self.failures)} FAILED" if self.failures else "ok"
        return f"{self.name}: {state}; {_figures(self.figures, ', ')}"


Scenario = Callable[[Path, float, int], Report]
"""`scenario(folder, seconds, seed)`: a folder of its own to write in, about how long to go on, and what chance starts from."""


def print_table(reports: list[Report], *, console: Console | None = None) -> None:
    """Print the reports as a table, and below it every failure."""
    console = console or Console(highlight=False)
    table = Table("scenario", "", "figures", box=None)
    for report in reports:
        table.add_row(report.name, "FAILED" if report.failures else "ok", _figures(report.figures, "\n"))
        table.add_section()
    console.print(table)
    for report in reports:
        for failure in report.failures[:50]:
            console.print(f"FAILED {report.name}: {failure}", markup=False, soft_wrap=True)


def _figures(figures: dict[str, int | float], between: str) -> str:
    return between.join(
        f"{name} {value:,.2f}" if isinstance(value, float) else f"{name} {value:,}" for name, value in figures.items()
    )
