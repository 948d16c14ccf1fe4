"""The context after each step, against the model's window and the headroom, as SVG of our own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, case, select

from byref.accounting import ledger
from byref.db.tables import LedgerRow

MOST_STEPS = 20_000
"""The newest steps, of which the chart is made."""
COLUMNS = 160
WIDTH, HEIGHT = 960, 180


class Point(NamedTuple):
    """The context after a step, in tokens."""

    step: int
    counted: int
    """As the provider counted it last, or the host said after a compaction."""
    outputs: int
    """Of outputs of tools since then, by our own count."""
    replies: int
    """Of replies of the session's own tools since then."""

    @property
    def context(self) -> int:
        """All of it."""
        return self.counted + self.outputs + self.replies


_STEPS = (
    select(
        LedgerRow.step,
        LedgerRow.kind,
        LedgerRow.tokens,
        case((LedgerRow.kind == "usage", LedgerRow.detail)).label("detail"),
    )
    .order_by(LedgerRow.step.desc())
    .limit(MOST_STEPS)
)


def points(connection: Connection, session_row: int) -> list[Point]:
    """Return the context after each step, oldest first."""
    rows = connection.execute(_STEPS.where(LedgerRow.session_id == session_row)).all()
    found: list[Point] = []
    counted = outputs = replies = settled = 0
    pending: list[tuple[int, str, int]] = []
    for step, kind, tokens, written in reversed(rows):
        through = 0
        if kind == "output":
            outputs += tokens
        elif kind == "reply":
            replies += tokens
        elif kind == "compaction":
            counted, through = tokens, step
        elif kind == "usage":
            detail = ledger.detail_in(written or "{}")
            if detail.get("sets_context"):
                counted, through = tokens, detail.get("through", step)
        if kind in ("output", "reply"):
            pending.append((step, kind, tokens))
        while settled < len(pending) and pending[settled][0] <= through:
            _, of, its = pending[settled]
            outputs, replies = (outputs - its, replies) if of == "output" else (outputs, replies - its)
            settled += 1
        found.append(Point(step, counted, outputs, replies))
    return found


@dataclass(frozen=True, slots=True)
class Bar:
    """One column of the chart: the largest context of some steps."""

    x: float
    width: float
    point: Point
    last_step: int
    counted: float
    """Heights, from the bottom up."""
    outputs: float
    replies: float


@dataclass(frozen=True, slots=True)
class Line:
    """A bound of the context."""

    name: str
    tokens: int
    y: float
    is_above: bool
    """It is above what the chart shows."""


@dataclass(frozen=True, slots=True)
class Chart:
    """What the template draws."""

    bars: list[Bar]
    lines: list[Line]
    top: int
    """Tokens at the upper edge."""
    first: int
    last: int
    width: int = WIDTH
    height: int = HEIGHT


def chart(found: Sequence[Point], *, window: int, headroom: int) -> Chart | None:
    """Return the chart; None: there is no step."""
    if not found:
        return None
    contexts = [counted + outputs + replies for _, counted, outputs, replies in found]
    peak = max(contexts)
    top = max(1, round(window * 1.04) if peak * 5 > window else round(peak * 1.15))
    columns = min(COLUMNS, len(found))
    scale, width = HEIGHT / top, WIDTH / columns
    bars = []
    for place in range(columns):
        some = range(place * len(found) // columns, (place + 1) * len(found) // columns)
        point = found[max(some, key=contexts.__getitem__)]
        heights = (point.counted * scale, point.outputs * scale, point.replies * scale)
        bars.append(Bar(place * width, width, point, found[some[-1]].step, *(round(each, 2) for each in heights)))
    lines = [
        Line(name, tokens, round(HEIGHT - min(tokens, top) * scale, 2), tokens > top)
        for name, tokens in (("window", window), ("headroom", headroom))
    ]
    return Chart(bars, lines, top, found[0].step, found[-1].step)
