"""What work within one session needs: its database, its policy, its counter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.orm import Session as HostSession

from byref import ledger
from byref.db.database import Database
from byref.models import Models
from byref.policy import Policy
from byref.tokens import Kind, TokenCounter
from byref_sandbox import Sandbox

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """One session as the layers below `Session` see it; a handle's own overrides applied."""

    database: Database
    host: HostSession | Connection | None
    """The host's transaction, joined by every commit; None: transactions of our own."""
    sandbox: Sandbox | None
    counter: TokenCounter
    models: Models
    tenant: str
    name: str
    row: int
    model: str | None
    window: int
    policy: Policy
    tools: tuple[str, ...]

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction, within the host's where there is one."""
        return self.database.read(work) if self.host is None else self._joined(self.host, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a write transaction: the host's in a SAVEPOINT, or one of our own, retried where that helps."""
        return self.database.write(work) if self.host is None else self._joined(self.host, work)

    def stage(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction of its own; on SQLite, which has one writer, in the host's."""
        if self.host is not None and self.database.dialect == "sqlite":
            return self._joined(self.host, work)
        return self.database.write(work)

    def count(self, text: str, kind: Kind = "text") -> int:
        """Count the tokens of a text."""
        return self.counter.count(text, kind)

    def context(self) -> int:
        """Return the tokens that the session's next request carries."""
        return self.read(lambda connection: ledger.context(connection, self.row))

    def append(self, connection: Connection, turn: ledger.Turn, kind: str, columns: Mapping[str, Any]) -> None:
        """Append a step to the session's ledger."""
        ledger.append(connection, tenant=self.tenant, session_row=self.row, step=turn.step, kind=kind, **columns)

    def _joined(self, host: HostSession | Connection, work: Callable[[Connection], T]) -> T:
        with self.database.joined(host) as connection:
            return work(connection)
