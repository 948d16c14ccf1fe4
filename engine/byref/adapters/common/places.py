"""Bytes stored under keys in one byref conversation, on which the adapters of frameworks' stores are built."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sqlalchemy import ColumnElement, Connection, Text, delete, func, literal, select, type_coerce

from byref.accounting import ledger
from byref.artifacts import blobs
from byref.artifacts.store import batched, by_names
from byref.content.output import OCTETS
from byref.conversation import lifecycle
from byref.db.column_types import EscapedText
from byref.db.database import retried
from byref.db.tables import ArtifactRow
from byref.engine import Engine
from byref.errors import ArtifactMissing
from byref.policy import Policy
from byref.session import Session
from byref.tools.storage import insert_value, store_value

MOST_READS: Final = 5
"""Attempts to read a value that others keep overwriting."""


def unbounded(policy: Policy) -> Policy:
    """Return the policy for values that stay until they are overwritten or deleted."""
    return replace(policy, ttl=None, ledger_ttl=None, max_session_bytes=None)


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation that holds artifacts under their names."""

    engine: Engine
    tenant: str
    session: str
    policy: Policy | None

    def opened(self) -> Session:
        """Open the conversation."""
        return self.engine.session(self.session, tenant=self.tenant, policy=self.policy)

    def write(self, values: Mapping[str, bytes]) -> None:
        """Store values in one transaction, replacing all artifacts with the same names."""
        scope = self.opened()._scope
        made = [
            (name, *store_value(scope, data, name=name, content_type=OCTETS, preview_chars=0))
            for name, data in values.items()
        ]

        def work(connection: Connection) -> None:
            ledger.lock(connection, scope.row)
            for name, staged, about in made:
                new = insert_value(connection, scope, staged, about, name=name, origin="host", step=None)
                _delete(connection, scope.row, ArtifactRow.name == name, ArtifactRow.public_id != new)

        scope.write(work)

    def read(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the values that exist under the names; a value overwritten while it is read is read again."""
        scope = self.opened()._scope
        values: dict[str, bytes] = {}
        left = set(names)
        for tries in range(1, MOST_READS + 1):
            found = scope.read(partial(by_names, source=scope.source, session_row=scope.row, names=left))
            for name, artifact in found.items():
                try:
                    values[name] = artifact.payload.read()
                except ArtifactMissing:
                    if tries == MOST_READS:
                        raise
            left = found.keys() - values.keys()
            if not left:
                break
        return values

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin with a prefix."""

        def work(connection: Connection) -> list[str]:
            opened = lifecycle.find_session(connection, self.tenant, self.session)
            if opened is None:
                return []
            named = select(ArtifactRow.name).where(ArtifactRow.session_id == opened.row, begins(prefix)).distinct()
            return [name for name in connection.execute(named).scalars() if name is not None]

        return self.engine.database.read(work)

    def remove(self, names: Sequence[str]) -> None:
        """Delete the artifacts with these names, in one transaction."""
        self.delete(*[ArtifactRow.name.in_(some) for some in batched(names)])

    def delete(self, *which: ColumnElement[bool]) -> None:
        """Delete the host's artifacts that meet any of the conditions, in one transaction."""

        def work(connection: Connection) -> None:
            opened = lifecycle.find_session(connection, self.tenant, self.session)
            if opened is not None:
                for one in which:
                    _delete(connection, opened.row, one)

        retried(self.engine.database.write, work)


def _delete(connection: Connection, session: int, *which: ColumnElement[bool]) -> None:
    """Delete artifacts of the host, to which no variable and no step refers."""
    gone = delete(ArtifactRow).where(ArtifactRow.session_id == session, ArtifactRow.origin == "host", *which)
    ids = set(connection.execute(gone.returning(ArtifactRow.blob_id)).scalars())
    blobs.delete_unused(connection, sorted(ids))


def begins(prefix: str) -> ColumnElement[bool]:
    """Return the condition for names with a prefix. It compares stored text, because LIKE ignores case on SQLite."""
    stored = literal(prefix, EscapedText())
    return func.substr(type_coerce(ArtifactRow.name, Text), 1, func.length(stored)) == stored
