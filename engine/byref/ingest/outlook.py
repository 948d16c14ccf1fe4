"""The outlook: a look at the database, without a lock, before an output is planned."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from byref.accounting import ledger
from byref.accounting.calibration import Standing
from byref.accounting.ledger import NEVER, Given
from byref.artifacts.staging import BUFFERED_BYTES
from byref.db.tables import SessionRow
from byref.ingest.prepare import Prepared


@dataclass(frozen=True, slots=True)
class Outlook:
    """The state of a session at one moment, and its earlier records of an output."""

    step: int
    """The session's next step. As long as it is the same, the ledger has not changed."""
    same: int | None
    """The step that recorded the same content under the same call id, if any."""
    given: Given
    standing: Standing
    stored_bytes: int
    """Bytes that the session has stored, as its row says; the latest writes are not included."""


UNKNOWN = Outlook(0, None, NEVER, Standing(base=0, base_output=None, pending=0, reported=1, estimated=1), 0)
"""The outlook of an output for which the database was not asked."""

_OF_SESSION = SessionRow.id == bindparam("of_session")
_LOOK = select(*ledger.BEFORE, SessionRow.stored_bytes, ledger.ANY_STEP).where(_OF_SESSION)
_LOOK_AT_THE_SAME = select(*ledger.BEFORE, SessionRow.stored_bytes, *ledger.CAME).where(_OF_SESSION)


def may_be_replayed(prepared: Prepared) -> bool:
    """Tell whether an earlier result of the same output under the same call id has data that may be gone or damaged."""
    is_small = prepared.size < prepared.scope.policy.min_threshold_bytes and not prepared.kept
    return prepared.call_digest is not None and not is_small


def look(prepared: Prepared) -> Outlook:
    """Return the outlook of an output; `UNKNOWN` if the session is gone, or if the output can be committed without a look.

    That is an output that passes whole, if the commit itself writes what is kept of it. Most such plans hold, and the commit,
    which checks them anyway, is then all that the database is asked.
    """
    stored = sum(block.piece.block.stored_size for block in prepared.kept if block.piece.block is not None)
    is_light = not prepared.kept or (prepared.can_buffer and stored <= BUFFERED_BYTES)
    return UNKNOWN if prepared.verdict.fits and is_light else look_again(prepared)


def look_again(prepared: Prepared) -> Outlook:
    """Return the current outlook of an output.

    Most content is new, and for that one short statement is enough: PostgreSQL plans it in a tenth of the time of the second
    one. For known content, the second statement reads everything again, so that all of it is of one moment.
    """
    about = {"of_session": prepared.scope.row, "content": prepared.digest}

    def work(connection: Connection) -> Outlook:
        row = connection.execute(_LOOK, about).one_or_none()
        is_new = row is None or row.came is None
        if not is_new:
            row = connection.execute(_LOOK_AT_THE_SAME, about | {"call": prepared.call_digest}).one_or_none()
        if row is None:
            return UNKNOWN
        step, base, output, pending, reported, estimated, stored, *before = row
        standing = Standing(base=base, base_output=output, pending=pending, reported=reported, estimated=estimated)
        same, first, seen = (None, None, None) if is_new else before
        return Outlook(step, same, Given(first, seen), standing, stored)

    return prepared.scope.ask(work)
