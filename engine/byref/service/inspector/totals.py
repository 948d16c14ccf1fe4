"""The page of totals: where the tokens and the dollars of a session went, by tool and by model."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, case, func, select

from byref.accounting.ledger import NANOS
from byref.db.tables import LedgerRow
from byref.service.inspector.looks import Look, Page

MOST = 200
"""Tools, and models, that are listed: those with the most tokens."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What the requests to one model took."""

    model: str | None
    sums: Row[Any]
    cost: Decimal | None
    """Of the requests whose price is known."""


def ledger(look: Look) -> Page:
    """Show the sums of a session by tool and by model."""
    row = look.scope.row

    def work(connection: Connection) -> tuple[list[Any], list[Any], list[Any]]:
        mine = LedgerRow.session_id == row
        read = func.sum(LedgerRow.tokens).label("read")
        came = func.sum(LedgerRow.original_tokens)
        of_tools = (
            select(
                LedgerRow.tool,
                LedgerRow.kind,
                func.count().label("steps"),
                func.sum(case((LedgerRow.is_error, 1), else_=0)).label("errors"),
                came.label("came"),
                func.sum(LedgerRow.original_bytes).label("size"),
                read,
                func.max(LedgerRow.step).label("last"),
            )
            .where(mine, LedgerRow.kind.in_(["output", "reply"]))
            .group_by(LedgerRow.tool, LedgerRow.kind)
            .order_by(func.coalesce(came, func.sum(LedgerRow.tokens)).desc(), LedgerRow.tool)
            .limit(MOST)
        )
        of_models = (
            select(
                LedgerRow.model,
                func.count().label("requests"),
                func.sum(LedgerRow.input_tokens).label("given"),
                func.sum(LedgerRow.output_tokens).label("made"),
                func.sum(LedgerRow.cache_read_tokens).label("cached"),
                func.sum(LedgerRow.cache_write_tokens).label("written"),
                func.sum(LedgerRow.cost_nanos).label("nanos"),
                func.sum(case((LedgerRow.cost_nanos.is_(None), 1), else_=0)).label("unpriced"),
            )
            .where(mine, LedgerRow.kind == "usage")
            .group_by(LedgerRow.model)
            .order_by(func.sum(LedgerRow.input_tokens).desc())
            .limit(MOST)
        )
        of_routes = (
            select(LedgerRow.route, func.count().label("outputs"), came.label("came"), read)
            .where(mine, LedgerRow.kind == "output")
            .group_by(LedgerRow.route)
            .order_by(func.count().desc())
        )
        tools, models, routes = (connection.execute(query).all() for query in (of_tools, of_models, of_routes))
        return list(tools), list(models), list(routes)

    tools, models, routes = look.read(work)
    spent = [Spent(one.model, one, None if one.nanos is None else Decimal(int(one.nanos)) / NANOS) for one in models]
    about = {"totals": look.of.usage(), "tools": tools, "models": spent, "routes": routes, "most": MOST}
    return Page("ledger", about)
