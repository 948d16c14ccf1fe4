"""List conversations and tenants, a page at a time, with the sums of their stored bytes and usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    case,
    cast,
    func,
    literal,
    select,
    tuple_,
    type_coerce,
)

from byref.accounting import ledger
from byref.artifacts import store
from byref.db.tables import ArtifactRow, BlobRow, LedgerRow, NameRow, SessionRow


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a listing shows it. Sums have the names and meanings of `Totals`."""

    id: str
    tenant: str
    model: str | None
    steps: int
    created_at: datetime
    ended_at: datetime | None
    stored_bytes: int = 0
    """The bytes that count for `max_session_bytes`: payloads before compression, each once, and values kept by code."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int = 0
    tokens_saved: int = 0
    cost: Decimal | None = None
    """US dollars of all requests whose price is known; None if there is no such request."""


@dataclass(frozen=True, slots=True)
class TenantInfo:
    """A tenant as a listing shows it: the sums over its sessions."""

    id: str
    sessions: int
    steps: int
    created_at: datetime
    """When its first session was created."""
    stored_bytes: int
    """The bytes that count for `max_tenant_bytes`; payloads shared by several sessions count once."""
    input_tokens: int | None
    output_tokens: int | None
    tokens: int
    tokens_saved: int
    cost: Decimal | None


def sessions(
    connection: Connection,
    tenant: str | None,
    name: str | None = None,
    *,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
    newest_first: bool = False,
    containing: str | None = None,
) -> list[SessionInfo] | None:
    """Return the sessions of a tenant, or of all tenants (None), oldest first; with `name` only that one.

    A page begins after the session `after` = (tenant, name); None if that does not exist. With `containing`, only sessions with
    this text in their names are returned, whatever its case.
    """
    here = [
        column == value for column, value in ((SessionRow.tenant, tenant), (SessionRow.name, name)) if value is not None
    ]
    here.append(~SessionRow.is_deleted)
    if after is not None:
        last = select(SessionRow.created_at, SessionRow.id).where(
            SessionRow.tenant == after[0], SessionRow.name == after[1]
        )
        behind = connection.execute(last).one_or_none()
        if behind is None:
            return None
        at = literal(behind.created_at, SessionRow.created_at.type), literal(behind.id, SessionRow.id.type)
        place, beyond = tuple_(SessionRow.created_at, SessionRow.id), tuple_(*at)
        here.append(place < beyond if newest_first else place > beyond)
    if containing is not None:
        here.append(SessionRow.name.icontains(containing, autoescape=True))
    if limit is not None:
        order = (SessionRow.created_at, SessionRow.id)
        page = select(SessionRow.id).where(*here).limit(limit)
        page = page.order_by(*(column.desc() for column in order)) if newest_first else page.order_by(*order)
        whose: Any = connection.execute(page).scalars().all()
        here = [SessionRow.id.in_(whose)]
    else:
        whose = select(SessionRow.id).where(*here)
    held = (  # a payload counts once for a session, however many artifacts of it there are
        select(ArtifactRow.session_id, ArtifactRow.blob_id, BlobRow.size_bytes)
        .join(BlobRow, BlobRow.id == ArtifactRow.blob_id)
        .where(ArtifactRow.session_id.in_(whose), store.is_live())
        .distinct()
        .subquery()
    )
    stored = (
        _bytes_of(held.c.session_id, held.c.size_bytes),
        _bytes_of(NameRow.session_id, NameRow.size_bytes, NameRow.session_id.in_(whose)),
    )
    sums = *stored, *_ledger_sums(connection, SessionRow.id, here)
    query = _with_sums(select(SessionRow).where(*here), SessionRow.id, *sums)
    return [
        SessionInfo(
            row.name,
            row.tenant,
            row.model,
            row.next_step - 1,
            row.created_at,
            row.ended_at,
            int(row.stored),
            *_read_sums(row),
        )
        for row in sorted(connection.execute(query), key=attrgetter("created_at", "id"), reverse=newest_first)
    ]


def tenants(
    connection: Connection, name: str | None = None, *, after: str | None = None, limit: int | None = None
) -> list[TenantInfo]:
    """Return at most `limit` tenants with sessions, sorted by name, after the tenant `after`; with `name` only that one."""
    chosen = None if limit is None else list(islice(_names(connection, after), limit))
    if name is not None:
        chosen = [name]

    def some(tenant: Any) -> list[ColumnElement[bool]]:
        if chosen is not None:
            return [tenant.in_(chosen)]
        return [] if after is None else [tenant > after]

    stored = (
        _bytes_of(BlobRow.tenant, BlobRow.size_bytes, BlobRow.published_at.is_not(None), *some(BlobRow.tenant)),
        _bytes_of(NameRow.tenant, NameRow.size_bytes, *some(NameRow.tenant)),
    )
    mine = [~SessionRow.is_deleted, *some(SessionRow.tenant)]
    own = (
        select(
            SessionRow.tenant.label("id"),
            func.count().label("sessions"),
            func.sum(SessionRow.next_step - 1).label("steps"),
            func.min(SessionRow.created_at).label("created_at"),
        )
        .where(*mine)
        .group_by(SessionRow.tenant)
        .subquery()
    )
    sums = *stored, *_ledger_sums(connection, SessionRow.tenant, mine)
    query = _with_sums(select(own).order_by(own.c.id), own.c.id, *sums)
    return [
        TenantInfo(row.id, int(row.sessions), int(row.steps), row.created_at, int(row.stored), *_read_sums(row))
        for row in connection.execute(query)
    ]


def _names(connection: Connection, after: str | None) -> Iterator[str]:
    """Yield the tenants with sessions by name. Each is one look-up, because a tenant may have any number of sessions."""
    while True:
        behind = [] if after is None else [SessionRow.tenant > after]
        after = connection.execute(select(func.min(SessionRow.tenant)).where(*behind, ~SessionRow.is_deleted)).scalar()
        if after is None:
            return
        yield after


_SUMMED = {"input_tokens": "usage", "output_tokens": "usage", "cost_nanos": "usage"} | {
    "tokens": "output",
    "original_tokens": "output",
}
"""The numbers that a listing sums, and the kind of step that has each: usage by the providers' counts, outputs by ours."""


def _ledger_sums(connection: Connection, whose: Any, which: Sequence[ColumnElement[bool]]) -> tuple[Any, Any]:
    """Select the ledger's sums grouped by `whose`: the sums kept by sessions, and the sums of the steps since."""
    is_text = connection.dialect.name == "sqlite"
    totals: Any = type_coerce(SessionRow.totals, JSON) if is_text else cast(SessionRow.totals, JSON)
    kept = (
        select(whose.label("whose"), *(func.sum(cast(totals[n].as_string(), BigInteger)).label(n) for n in _SUMMED))
        .where(*which, SessionRow.totals.is_not(None))
        .group_by(whose)
    )
    later = (LedgerRow.session_id == SessionRow.id) & (LedgerRow.step > SessionRow.totals_through)
    since = (
        select(
            whose.label("whose"),
            *(func.sum(case((LedgerRow.kind == kind, getattr(LedgerRow, n)))).label(n) for n, kind in _SUMMED.items()),
        )
        .join(LedgerRow, later)
        .where(*which)
        .group_by(whose)
    )
    return kept.subquery(), since.subquery()


def _bytes_of(whose: Any, size: Any, *which: ColumnElement[bool]) -> Any:
    """Select the sum of sizes grouped by `whose`."""
    return select(whose.label("whose"), func.sum(size).label("size")).where(*which).group_by(whose).subquery()


def _with_sums(query: Any, own: Any, payloads: Any, names: Any, kept: Any, since: Any) -> Any:
    """Add the sums of stored bytes and of the ledger to a query, joined by the column `own`.

    A sum of the ledger is NULL if neither the kept sums nor the steps since have the number.
    """
    for sums in (payloads, names, kept, since):
        query = query.outerjoin(sums, sums.c.whose == own)
    stored = func.coalesce(payloads.c.size, 0) + func.coalesce(names.c.size, 0)
    pairs = ((n, kept.c[n], since.c[n]) for n in _SUMMED)
    return query.add_columns(
        stored.label("stored"), *(func.coalesce(one + other, one, other).label(n) for n, one, other in pairs)
    )


def _read_sums(row: Any) -> tuple[int | None, int | None, int, int, Decimal | None]:
    """Return (input, output, tokens read, tokens saved, cost) of a row of `_with_sums`, whose numbers may be decimals."""
    given, made = (None if value is None else int(value) for value in (row.input_tokens, row.output_tokens))
    read, came = int(row.tokens or 0), int(row.original_tokens or 0)
    cost = None if row.cost_nanos is None else Decimal(int(row.cost_nanos)) / ledger.NANOS
    return given, made, read, max(0, came - read), cost
