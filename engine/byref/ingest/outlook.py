"""What the database says of an output before it is planned, without a lock: new content by one short statement."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from byref.accounting import ledger
from byref.accounting.calibration import Standing
from byref.accounting.ledger import NEVER, Given
from byref.db.tables import SessionRow


@dataclass(frozen=True, slots=True)
class Outlook:
    """A session at one moment, and what it knows of an output."""

    step: int
    """The session's next: as long as it is, nothing that the ledger said has changed."""
    same: int | None
    """The step that recorded the same content under the same call id."""
    given: Given
    standing: Standing
    kept: int
    """Bytes that the session has stored, by what its row keeps: what came last is not among them."""


UNKNOWN = Outlook(0, None, NEVER, Standing(base=0, base_output=None, pending=0, reported=1, estimated=1), 0)
"""Of an output for which nobody looked."""

_OF_SESSION = SessionRow.id == bindparam("of_session")
_LOOK = select(*ledger.BEFORE, SessionRow.stored_bytes, ledger.ANY_STEP).where(_OF_SESSION)
_LOOK_AT_THE_SAME = select(*ledger.BEFORE, SessionRow.stored_bytes, *ledger.CAME).where(_OF_SESSION)


def look(connection: Connection, session_row: int, call: bytes | None, content: bytes) -> Outlook:
    """Return what is known of an output by the digests of its call id and its content: nothing, if the session is gone.

    Most content is new, and then one short statement is enough: PostgreSQL plans it in a tenth of the time of the other,
    which sees one moment by itself.
    """
    about = {"of_session": session_row, "content": content}
    row = connection.execute(_LOOK, about).one_or_none()
    if row is None:
        return UNKNOWN
    *_, came = row
    if came is not None:
        row = connection.execute(_LOOK_AT_THE_SAME, about | {"call": call}).one_or_none()
        if row is None:
            return UNKNOWN
    step, base, output, pending, reported, estimated, kept, *before = row
    standing = Standing(base=base, base_output=output, pending=pending, reported=reported, estimated=estimated)
    same, first, seen = before if came is not None else (None, None, None)
    return Outlook(step, same, Given(first, seen), standing, kept)
