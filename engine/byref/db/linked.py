"""Rows of several tables that refer to each other, inserted by one statement; PostgreSQL only.

SQLite has no INSERT inside another statement. There a statement costs no round trip either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, bindparam, select, true
from sqlalchemy.dialects import postgresql

from byref.db.tables import Base

_SHARED: Final = frozenset({"tenant", "session_id"})
"""Columns that have one value in all rows of a statement and are given once: psycopg keeps what it has made of a statement for the
next time only if that has at most 50 parameters.
"""


class Link(NamedTuple):
    """One row of the statement."""

    table: type[Base]
    columns: Sequence[str]
    """The columns that are given; the database fills in the others."""
    refers: str = ""
    """The column that gets the id of an earlier row; each row but the first has one."""
    to: int = 0
    """The number of that row in the statement."""
    gives_id: bool = False
    """Whether the statement selects the row's id, which later rows can refer to."""
    may_conflict: bool = False
    """Whether the row is left out, and its id is NULL, if it conflicts with one that is there."""


def statement(*links: Link, beside: Sequence[Select[Any]] = ()) -> Select[Any]:
    """Return a statement that inserts the rows and selects their ids, and the one row of each query `beside`.

    If the first row conflicts with one that is there, nothing is inserted, and nothing is selected. The queries see the database
    as it was before the statement.
    """
    rows: list[Any] = []
    for number, link in enumerate(links):
        its = link.table.__table__.c
        given = {name: bindparam(_parameter(number, name), type_=its[name].type) for name in link.columns}
        row: Any
        if link.refers:
            values = select(rows[link.to].c.id, *given.values())
            row = postgresql.insert(link.table).from_select([link.refers, *given], values)
            row = row.on_conflict_do_nothing() if link.may_conflict else row
        else:
            row = postgresql.insert(link.table).values(given).on_conflict_do_nothing()
        rows.append((row.returning(its.id) if link.gives_id else row).cte(f"row_{number}"))
    [first, *more] = [(row, link) for row, link in zip(rows, links, strict=True) if link.gives_id]
    looks = [query.subquery() for query in beside]
    joined: Any = first[0]
    for row, link in more:
        joined = joined.join(row, true(), isouter=link.may_conflict)
    for look in looks:
        joined = joined.join(look, true())
    silent = (row for row, link in zip(rows, links, strict=True) if not link.gives_id)
    columns = [*(row.c.id for row, _ in (first, *more)), *(column for look in looks for column in look.c)]
    return select(*columns).select_from(joined).add_cte(*silent)


def parameters(*rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a `statement` for its rows, which are of one tenant and one session."""
    return {_parameter(number, name): value for number, row in enumerate(rows) for name, value in row.items()}


def _parameter(number: int, column: str) -> str:
    return column if column in _SHARED else f"{number}_{column}"
