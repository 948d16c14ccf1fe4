"""Ordered lists of short texts that a framework keeps with a conversation, such as a chat's items or a file's versions.

They are deleted with the session or the tenant, and when an idle session expires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from byref.accounting import ledger
from byref.conversation import lifecycle
from byref.db.database import retried
from byref.db.tables import ItemRow
from byref.engine import Engine
from byref.errors import SessionGone

T = TypeVar("T")


class Items:
    """The lists of one session. `name` is the name of a list, 1 to 512 bytes of UTF-8.

    Texts are numbered under the session's lock, so any number of processes may append at once. Reading a list of a session that
    does not exist creates no session.

    Raises:
        InvalidId: a name cannot be stored unchanged.
        SessionGone: a write, and the conversation has ended.
        StorageFailure: the database failed.
    """

    def __init__(self, engine: Engine, session: str, tenant: str) -> None:
        self._engine = engine
        self._session = lifecycle.check_id("session", session)
        self._tenant = lifecycle.check_id("tenant", tenant)

    def append(self, name: str, texts: Sequence[str], also: Callable[[Connection, int], object] | None = None) -> int:
        """Append texts, all or none, and return the number of the first one; a list's first number is 0.

        `also` is called in the same transaction with the session's row id.
        """
        name = lifecycle.check_id("list", name)

        def work(connection: Connection, session: int) -> int:
            last = select(func.max(ItemRow.number)).where(*_of(session, name))
            found = connection.execute(last).scalar_one()
            first = 0 if found is None else int(found) + 1
            self._insert(connection, session, name, first, texts)
            if also is not None:
                also(connection, session)
            return first

        return self._write(work)

    def last(self, name: str, limit: int | None = None) -> list[tuple[int, str]]:
        """Return the last `limit` texts (None: all) with their numbers, in their order."""

        def work(connection: Connection, session: int) -> list[tuple[int, str]]:
            newest = select(ItemRow.number, ItemRow.text).where(*_of(session, name))
            rows = connection.execute(newest.order_by(ItemRow.number.desc()).limit(limit)).all()
            return [(number, text) for number, text in reversed(rows)]

        return self._read(work) or []

    def replace(self, name: str, expected: Sequence[tuple[int, str]], texts: Sequence[str]) -> bool:
        """Replace the list's last texts in one transaction; if they are not `expected`, change nothing and return False."""
        name = lifecycle.check_id("list", name)

        def work(connection: Connection, session: int) -> bool:
            newest = select(ItemRow.number, ItemRow.text).where(*_of(session, name)).order_by(ItemRow.number.desc())
            found = connection.execute(newest.limit(len(expected) or 1)).all()
            # Compared under the session's lock, so that texts that others appended meanwhile are not lost.
            if [(number, text) for number, text in reversed(found)] != list(expected):
                return False
            first = expected[0][0] if expected else 0
            connection.execute(delete(ItemRow).where(*_of(session, name), ItemRow.number >= first))
            self._insert(connection, session, name, first, texts)
            return True

        return self._write(work)

    def at(self, name: str, number: int) -> str | None:
        """Return the text with a number, or None."""

        def work(connection: Connection, session: int) -> str | None:
            one = select(ItemRow.text).where(*_of(session, name), ItemRow.number == number)
            return connection.execute(one).scalar_one_or_none()

        return self._read(work)

    def names(self) -> list[str]:
        """Return the sorted names of the lists that are not empty."""

        def work(connection: Connection, session: int) -> list[str]:
            every = select(ItemRow.list).where(ItemRow.session_id == session).distinct()
            return sorted(connection.execute(every).scalars())

        return self._read(work) or []

    def pop(self, name: str) -> str | None:
        """Remove and return the last text; None if there is none."""

        def work(connection: Connection, session: int) -> str | None:
            newest = select(ItemRow.id, ItemRow.text).where(*_of(session, name))
            found = connection.execute(newest.order_by(ItemRow.number.desc()).limit(1)).one_or_none()
            if found is None:
                return None
            connection.execute(delete(ItemRow).where(ItemRow.id == found.id))
            return str(found.text)

        return self._write(work)

    def clear(self, name: str, also: Callable[[Connection, int, list[str]], object] | None = None) -> None:
        """Remove a list. `also` is called in the same transaction with the session's row id and the list's texts."""

        def work(connection: Connection, session: int) -> None:
            every = select(ItemRow.text).where(*_of(session, name)).order_by(ItemRow.number)
            texts = list(connection.execute(every).scalars())
            connection.execute(delete(ItemRow).where(*_of(session, name)))
            if also is not None:
                also(connection, session, texts)

        self._write(work)

    def _insert(self, connection: Connection, session: int, name: str, first: int, texts: Sequence[str]) -> None:
        same = {"tenant": self._tenant, "session_id": session, "list": name, "created_at": datetime.now(UTC)}
        rows = [{**same, "number": first + index, "text": text} for index, text in enumerate(texts)]
        if rows:
            connection.execute(insert(ItemRow), rows)

    def _read(self, work: Callable[[Connection, int], T]) -> T | None:
        def found(connection: Connection) -> T | None:
            opened = lifecycle.find_session(connection, self._tenant, self._session)
            return None if opened is None else work(connection, opened.row)

        return self._engine.database.read(found)

    def _write(self, work: Callable[[Connection, int], T]) -> T:
        def locked(connection: Connection) -> T:
            opened = lifecycle.find_session(connection, self._tenant, self._session)
            if opened is None:
                raise SessionGone
            ledger.lock(connection, opened.row)
            return work(connection, opened.row)

        # Opening creates the session; it is a transaction of its own, so `locked` looks the session up again.
        self._engine.session(self._session, tenant=self._tenant)
        return retried(self._engine.database.write, locked)


def _of(session: int, name: str) -> tuple[ColumnElement[bool], ...]:
    return ItemRow.session_id == session, ItemRow.list == name
