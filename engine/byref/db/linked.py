"""Rows of several tables that refer to each other, inserted by one statement; PostgreSQL only.

SQLite has no INSERT inside another statement. There a statement costs no round trip either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, bindparam, literal_column, select, true
from sqlalchemy.dialects import postgresql

from byref.db.tables import Base

_TIMES: Final = ("staged_at", "published_at", "created_at")
_SHARED: Final = {name: name for name in ("tenant", "session_id", "step")} | dict.fromkeys(_TIMES, "written_at")
"""Columns that have one value in all rows of a statement, and its parameter: psycopg keeps what it has made of a statement for the
next time only if that has at most 50 parameters.
"""


class Link(NamedTuple):
    """One row of the statement."""

    table: type[Base]
    columns: Sequence[str]
    """The columns that are given; the database fills in the others."""
    constants: Mapping[str, str] = MappingProxyType({})
    """Columns that have the same value at each use, and that value in SQL."""
    refers: str = ""
    """The column that gets the id of an earlier row, or what that gives under the same name; each row but the first has one."""
    to: int = 0
    """The number of that row in the statement. If it is left out, this one is, too."""
    gives: Sequence[str] = ()
    """Columns that later rows can refer to. If the id is among them, the statement selects it."""
    may_conflict: bool = False
    """Whether the row is left out, and its id is NULL, if it conflicts with one that is there."""
    condition: str = ""
    """A column of the query beside the rows; if it is false, this row is left out."""


def statement(*links: Link, beside: Select[Any] | None = None) -> Select[Any]:
    """Return a statement that inserts the rows and selects their ids, and the one row of the query `beside`.

    If the first row conflicts with one that is there, nothing is inserted, and nothing is selected. The query sees the database
    as it was before the statement.
    """
    look: Any = None if beside is None else beside.cte("look")
    rows: list[Any] = []
    for number, link in enumerate(links):
        its = link.table.__table__.c
        given: dict[str, Any] = {
            name: bindparam(_parameter(number, name), type_=its[name].type) for name in link.columns
        }
        given |= {name: literal_column(value) for name, value in link.constants.items()}
        row: Any
        if link.refers:
            to = rows[link.to]
            values = select(to.c.get(link.refers, to.c.id), *given.values()).select_from(to)
            if link.condition:
                values = values.join(look, look.c[link.condition])
            row = postgresql.insert(link.table).from_select([link.refers, *given], values)
            row = row.on_conflict_do_nothing() if link.may_conflict else row
        else:
            row = postgresql.insert(link.table).values(given).on_conflict_do_nothing()
        rows.append((row.returning(*(its[name] for name in link.gives)) if link.gives else row).cte(f"row_{number}"))
    first, *more = rows
    # Each id by itself: PostgreSQL plans that faster than joins.
    ids = [select(row.c.id).scalar_subquery() for row, link in zip(more, links[1:], strict=True) if "id" in link.gives]
    silent = (row for row, link in zip(rows, links, strict=True) if not link.gives)
    found = select(first.c.id, *ids).select_from(first).add_cte(*silent)
    return found if look is None else found.add_columns(*look.c).join(look, true())


def parameters(*rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a `statement` for its rows, which are of one tenant, session, step and time: the last row's."""
    return {_parameter(number, name): value for number, row in enumerate(rows) for name, value in row.items()}


@cache
def _parameter(number: int, column: str) -> str:
    return _SHARED.get(column, f"{number}_{column}")
