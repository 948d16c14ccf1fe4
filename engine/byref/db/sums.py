"""Sums over a session's ledger: the session's row keeps them up to some step; later steps are added when they are asked for.

The ledger is append-only, so the kept sums stay correct whoever appends, even an older byref. The kept sum of stored bytes
(`artifacts.quotas`) is different: it is only an upper bound once something was deleted, which `freed` records.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, or_, select, update

from byref.db.tables import BlobRow, LedgerRow, SessionRow, TenantRow


class Bytes(NamedTuple):
    """The kept sum of stored bytes of a session or tenant, and the row ids of the last payload and name that it covers."""

    stored: int
    payload: int
    name: int
    until: datetime | None


BYTES = SessionRow.stored_bytes, SessionRow.stored_artifact, SessionRow.stored_name, SessionRow.stored_until
EVERY = 64
"""Number of steps after which new ones are added to the sums in the session's row; fewer are summed when they are asked for."""
AT_ONCE = 4_096
"""Most steps that one step adds to the kept sums: a conversation written by an older byref may have many more. A sum of this
many still fits SQL's integers."""
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
        or_(LedgerRow.kind.in_(("usage", "output")), LedgerRow.original_tokens.is_not(None)),
    )
    .group_by(LedgerRow.kind)
)


def of_session(connection: Connection, session_row: int) -> Mapping[str, Any]:
    """Return the sums over all steps."""
    known = connection.execute(_TOTALS, {"of_session": session_row}).one_or_none()
    return _NO_SUMS if known is None else _with_those_since(connection, session_row, known, _ALL)


def keep(connection: Connection, session_row: int, last: int) -> bool:
    """Add the steps up to `last`, at most `AT_ONCE`, to the sums of a locked session; tell whether all of them were added."""
    known = connection.execute(_TOTALS, {"of_session": session_row}).one()
    upto = min(last, known.totals_through + AT_ONCE)
    sums = _with_those_since(connection, session_row, known, upto)
    kept = {"of_session": session_row, "new_totals": json.dumps(sums), "new_through": upto}
    connection.execute(_KEEP_TOTALS, kept)
    return bool(upto == last)


def _with_those_since(connection: Connection, session_row: int, known: Any, upto: int) -> dict[str, Any]:
    """Return the kept sums plus the steps since, up to the step `upto`."""
    kept = _kept(known.totals or "{}")
    if kept is None:
        kept = through(connection, session_row, known.totals_through)
    return _added(connection, session_row, {**_NO_SUMS, **kept}, known.totals_through, upto)


def _kept(totals: str) -> dict[str, Any] | None:
    """Return the kept sums; None if they are damaged, so that the steps have to be counted anew."""
    try:
        kept = json.loads(totals)
    except (ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) else None


def through(connection: Connection, session_row: int, last: int) -> dict[str, Any]:
    """Return the sums over all steps up to `last`, counted anew."""
    sums, after = dict(_NO_SUMS), 0
    while after < last:
        sums = _added(connection, session_row, sums, after, min(last, after + AT_ONCE))
        after += AT_ONCE
    return sums


def _added(connection: Connection, session_row: int, sums: dict[str, Any], after: int, through: int) -> dict[str, Any]:
    """Return the sums plus the steps after `after`, up to and including `through`."""
    since = {"of_session": session_row, "after": after, "through": through}
    for row in connection.execute(_SUMS, since).mappings():
        if row["kind"] == "usage":
            sums["requests"] += row["steps"]
            sums |= {name: int(row[name]) + (sums[name] or 0) for name in USED if row[name] is not None}
        else:
            if row["kind"] == "output":
                sums["outputs"] += row["steps"]
            sums |= {name: int(row[name] or 0) + sums[name] for name in ("original_tokens", "tokens")}
    return sums


def freed(connection: Connection, session_rows: Collection[int]) -> None:
    """Record that something of locked sessions was deleted: from now on their kept sums of stored bytes are only bounds."""
    connection.execute(_FREED, {"of_sessions": list(session_rows)})


_FREED = (
    update(SessionRow)
    .where(SessionRow.id.in_(bindparam("of_sessions", expanding=True)), SessionRow.stored_until.is_not(None))
    .values(stored_until=None)
)


def freed_of_tenants(connection: Connection, blob_ids: Collection[int]) -> None:
    """Record that blobs of tenants are about to be deleted, as `freed` does for sessions."""
    whose = TenantRow.tenant.in_(select(BlobRow.tenant).where(BlobRow.id.in_(blob_ids)))
    connection.execute(update(TenantRow).where(TenantRow.stored_until.is_not(None), whose).values(stored_until=None))
