"""What work within one session needs: its database, its policy, its counter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.orm import Session as HostSession

from byref.accounting import ledger
from byref.accounting.calibration import Standing
from byref.accounting.models import Models
from byref.accounting.telemetry import Telemetry
from byref.accounting.tokens import Kind, TokenCounter
from byref.artifacts import store
from byref.artifacts.blobs import Published
from byref.artifacts.staging import Place
from byref.artifacts.store import Artifact, Description
from byref.artifacts.uses import Uses
from byref.conversation.interpreters import Interpreter
from byref.db.database import Database, keeps_snapshot, retried
from byref.db.payloads import Source
from byref.policy import Policy
from byref.stores.protocol import BlobStore, is_model_readable

T = TypeVar("T")


class AsyncHost(ABC):
    """A host's transaction on an event loop, which the threads that work for its calls reach through this.

    Methods are called from such a thread, never from the event loop's own, which they would block. The transaction is the
    host's: nothing here begins, commits or closes it. Whatever a callback raises, the method raises too.
    """

    @abstractmethod
    def run(self, unit: Callable[[HostSession | Connection], T]) -> T:
        """Run a unit of work on the event loop, with the host's Session or Connection, and return what it returns.

        Units of one transaction run one at a time. The unit sends statements and computes little, for the loop waits for
        it. ConfigurationError where this thread works for no call of this transaction.
        """

    @abstractmethod
    def compute(self, work: Callable[[], T]) -> T:
        """Run work that takes time and no connection: called within a unit, it is done on the thread that sent the unit."""

    @abstractmethod
    def on_leave(self, work: Callable[[], None]) -> None:
        """Have `work` done, on some thread and in units of its own, if the call of this thread is cancelled before its end."""


Host = HostSession | Connection | AsyncHost


def join(database: Database, host: Host, work: Callable[[Connection], T]) -> T:
    """Run `work` inside a host's transaction, in a SAVEPOINT."""

    def unit(inside: HostSession | Connection) -> T:
        with database.joined(inside) as connection:
            return work(connection)

    return host.run(unit) if isinstance(host, AsyncHost) else unit(host)


NO_ROW: Final = -1


@dataclass(frozen=True, slots=True)
class Scope:
    """One session as the layers below `Session` see it; a handle's own overrides applied."""

    database: Database
    host: Host | None
    """The host's transaction, joined by every commit; None: transactions of our own."""
    sandbox: Interpreter | None
    counter: TokenCounter
    models: Models
    tenant: str
    name: str
    row: int
    """Of the database; `NO_ROW` of a conversation that could not be opened, or has ended."""
    model: str | None
    window: int
    policy: Policy
    tools: tuple[str, ...]
    uses: Uses | None = field(default=None, compare=False)
    """The engine's: what was used of any session and is to be written."""
    objects: BlobStore | None = None
    """Where payloads are written to; None: into SQL."""
    telemetry: Telemetry = field(default_factory=Telemetry, compare=False)

    @property
    def source(self) -> Source:
        """Where payloads are read from."""
        return Source(self.ask, self.objects, self.stage, self.uses.follow if self.uses else None)

    @property
    def place(self) -> Place:
        """Where payloads are written to."""
        return Place(self.stage, self.tenant, self.objects, self)

    @property
    def reads_paths(self) -> bool:
        """Whether the model reads payloads where they are kept, with tools of the host's."""
        return is_model_readable(self.objects)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction, within the host's where there is one."""
        return self.database.read(work) if self.host is None else join(self.database, self.host, work)

    def ask(self, work: Callable[[Connection], T]) -> T:
        """Run `work` of one statement that reads, within the host's transaction where there is one."""
        return self.database.ask(work) if self.host is None else join(self.database, self.host, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a write transaction: the host's in a SAVEPOINT, or one of our own, retried where that helps.

        Raises:
            StorageFailure: the database failed, or a constraint refused the work each time.
        """
        host = self.host
        if host is None:
            return retried(self.database.write, work)
        return retried(lambda unit: join(self.database, host, unit), work)

    def stage(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction of its own; in the host's on SQLite, with its one writer, and where it sees no other."""
        if self._stages_in_the_hosts():
            return self.write(work)
        return retried(self.database.write, work, races=1)

    def on_leave(self, undo: Callable[[Connection], object]) -> None:
        """Have what is staged in a host's transaction undone there if the caller of an asynchronous call leaves."""
        if isinstance(self.host, AsyncHost) and self._stages_in_the_hosts():

            def work() -> None:
                self.write(undo)

            self.host.on_leave(work)

    def apart(self, work: Callable[[Connection], T]) -> T | None:
        """Run `work` in a transaction of its own, when the host's is out of reach; not on SQLite, where that one is in the way."""
        return None if self.database.dialect == "sqlite" else retried(self.database.write, work, races=1)

    def _stages_in_the_hosts(self) -> bool:
        return self.host is not None and (
            self.database.dialect == "sqlite" or join(self.database, self.host, keeps_snapshot)
        )

    def compute(self, work: Callable[[], T]) -> T:
        """Run what a unit of work computes without its connection; where that would keep an event loop, elsewhere."""
        return self.host.compute(work) if isinstance(self.host, AsyncHost) else work()

    def count(self, text: str, kind: Kind = "text") -> int:
        """Count the tokens of a text."""
        return self.counter.count(text, kind)

    def standing(self) -> Standing:
        """Return the session's context, as it is before the next commit."""
        return self.ask(lambda connection: ledger.standing(connection, self.row))

    def publish(
        self,
        connection: Connection,
        blob: Published,
        about: Description,
        *,
        step: int | None,
        origin: str,
        public_id: str | None = None,
    ) -> Artifact:
        """Make an artifact of the session of a published blob: the one place where rows of artifacts come to be."""
        where: Any = {"tenant": self.tenant, "session_row": self.row, "ttl": self.policy.ttl, "public_id": public_id}
        return store.publish(connection, self.source, blob, about, step=step, origin=origin, **where)

    def append(
        self, connection: Connection, turn: ledger.Turn, kind: str, columns: Mapping[str, Any], pending: int = 0
    ) -> None:
        """Append a step to the session's ledger, and add `pending` tokens to its context."""
        whose: Any = {"tenant": self.tenant, "session_row": self.row, "pending": pending}
        ledger.append(connection, step=turn.step, kind=kind, **whose, **columns)
