"""Sums over a session's ledger: kept with the session up to a step, and added up from there when they are asked for.

The ledger is append-only, so that what is kept stays right whoever appends, an older byref as well. What is kept of stored
bytes (`artifacts.quotas`) is only a bound once something has gone: `freed` writes that down.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from byref.db.tables import BlobRow, LedgerRow, SessionRow, TenantRow


class Bytes(NamedTuple):
    """What a session's row, or a tenant's, keeps of what is stored: its bytes, and up to which payload and name."""

    stored: int
    payload: int
    name: int
    until: datetime | None


BYTES = SessionRow.stored_bytes, SessionRow.stored_artifact, SessionRow.stored_name, SessionRow.stored_until
EVERY = 64
"""So many steps are summed when the sums are asked for; then they are added to those that the session's row keeps."""
AT_ONCE = 4_096
"""By one step: those of a conversation that an older byref wrote are many. Sums of so many fit SQL's."""
_ALL = 2**63 - 1
USED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_nanos")
_NO_SUMS: Mapping[str, Any] = {
    **dict.fromkeys(("requests", "outputs", "original_tokens", "tokens"), 0),
    **dict.fromkeys(USED),
}
_TOTALS = select(SessionRow.totals, SessionRow.totals_through).where(SessionRow.id == bindparam("of_session"))
_KEEP_TOTALS = (
    update(SessionRow)
    .where(SessionRow.id == bindparam("of_session"))
    .values(totals=bindparam("new_totals"), totals_through=bindparam("new_through"))
)
_SUMS = (
    select(
        LedgerRow.kind,
        func.count().label("steps"),
        *(func.sum(getattr(LedgerRow, name)).label(name) for name in (*USED, "original_tokens", "tokens")),
    )
    .where(
        LedgerRow.session_id == bindparam("of_session"),
        LedgerRow.step > bindparam("after"),
        LedgerRow.step <= bindparam("through"),
        LedgerRow.kind.in_(("usage", "output")),
    )
    .group_by(LedgerRow.kind)
)


def of_session(connection: Connection, session_row: int) -> Mapping[str, Any]:
    """The sums over all steps."""
    known = connection.execute(_TOTALS, {"of_session": session_row}).one_or_none()
    return _NO_SUMS if known is None else _with_those_since(connection, session_row, known, _ALL)


def keep(connection: Connection, session_row: int, last: int) -> bool:
    """Add steps up to `last`, as many as one call may take, to the sums that the locked session keeps; tell whether all are."""
    known = connection.execute(_TOTALS, {"of_session": session_row}).one()
    upto = min(last, known.totals_through + AT_ONCE)
    sums = _with_those_since(connection, session_row, known, upto)
    kept = {"of_session": session_row, "new_totals": json.dumps(sums), "new_through": upto}
    connection.execute(_KEEP_TOTALS, kept)
    return bool(upto == last)


def _with_those_since(connection: Connection, session_row: int, known: Any, upto: int) -> dict[str, Any]:
    """The sums that are kept, and those of the steps since, up to `upto`."""
    kept = json.loads(known.totals or "{}")
    return _added(connection, session_row, {**_NO_SUMS, **kept}, known.totals_through, upto)


def through(connection: Connection, session_row: int, last: int) -> dict[str, Any]:
    """The sums over all steps up to `last`, counted anew."""
    sums, after = dict(_NO_SUMS), 0
    while after < last:
        sums = _added(connection, session_row, sums, after, min(last, after + AT_ONCE))
        after += AT_ONCE
    return sums


def _added(connection: Connection, session_row: int, sums: dict[str, Any], after: int, through: int) -> dict[str, Any]:
    """The sums with those of the steps behind `after` up to `through`."""
    since = {"of_session": session_row, "after": after, "through": through}
    for row in connection.execute(_SUMS, since).mappings():
        if row["kind"] == "usage":
            sums["requests"] += row["steps"]
            sums |= {name: int(row[name]) + (sums[name] or 0) for name in USED if row[name] is not None}
        else:
            sums["outputs"] += row["steps"]
            sums |= {name: int(row[name] or 0) + sums[name] for name in ("original_tokens", "tokens")}
    return sums


def freed(connection: Connection, session_rows: Collection[int]) -> None:
    """Write down that something of locked sessions has gone: what they keep of stored bytes is only a bound now."""
    known = SessionRow.id.in_(session_rows), SessionRow.stored_until.is_not(None)
    connection.execute(update(SessionRow).where(*known).values(stored_until=None))


def freed_of_tenants(connection: Connection, blob_ids: Collection[int]) -> None:
    """Write down that blobs of tenants are about to go, as `freed` does for sessions."""
    whose = TenantRow.tenant.in_(select(BlobRow.tenant).where(BlobRow.id.in_(blob_ids)))
    connection.execute(update(TenantRow).where(TenantRow.stored_until.is_not(None), whose).values(stored_until=None))
