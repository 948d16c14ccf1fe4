"""The context of work within one session: its database, its policy, its counter."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session as HostSession

from byref.accounting import ledger
from byref.accounting.calibration import Standing
from byref.accounting.models import Models
from byref.accounting.telemetry import Telemetry
from byref.accounting.tokens import Kind, TokenCounter
from byref.artifacts import at_once, store, variables
from byref.artifacts.at_once import Inserted
from byref.artifacts.blobs import Published
from byref.artifacts.learning import Learning
from byref.artifacts.staging import Buffered, Place
from byref.artifacts.store import Artifact, Description
from byref.artifacts.uses import Uses
from byref.artifacts.variables import Part
from byref.conversation.interpreters import Interpreter
from byref.db.database import Database, keeps_snapshot, retried
from byref.db.payloads import PayloadLoad, Source, StoredPayload
from byref.db.sums import Bytes
from byref.db.tables import SessionRow
from byref.errors import ToolError
from byref.functions import Function
from byref.policy import Policy
from byref.stores.protocol import BlobStore, is_model_readable
from byref.usage import Usage
from byref_sandbox import EXACT, Data, Limits

T = TypeVar("T")


class AsyncHost(ABC):
    """Gives the threads that work for asynchronous calls access to a host's transaction on an event loop.

    Methods are called from such a thread, never from the event loop's own, which they would block. The transaction belongs
    to the host: nothing here begins, commits or closes it. If a callback raises, the method raises the same exception.
    """

    @abstractmethod
    def run(self, unit: Callable[[HostSession | Connection], T]) -> T:
        """Run a unit of work on the event loop, with the host's Session or Connection, and return what it returns.

        Units of one transaction run one at a time. A unit should send statements and compute little, because the loop waits
        for it. ConfigurationError if this thread works for no call of this transaction.
        """

    @abstractmethod
    def compute(self, work: Callable[[], T]) -> T:
        """Run work that takes time but needs no connection: called within a unit, it runs on the thread that sent the unit."""

    @abstractmethod
    def on_leave(self, work: Callable[[], None]) -> None:
        """Have `work` done, on some thread and in its own units, if the call of this thread is cancelled."""


Host = HostSession | Connection | AsyncHost


def join(database: Database, host: Host, work: Callable[[Connection], T]) -> T:
    """Run `work` inside a host's transaction, in a SAVEPOINT."""

    def unit(inside: HostSession | Connection) -> T:
        with database.joined(inside) as connection:
            return work(connection)

    return host.run(unit) if isinstance(host, AsyncHost) else unit(host)


@dataclass(frozen=True, slots=True)
class Called:
    """The model's call that is being answered."""

    id: str | None
    tool: str
    arguments: str
    """As the model wrote them."""
    digest: bytes
    """BLAKE3 of the tool's name and the arguments."""
    program: int | None = None
    """The row of the program with which it goes on; None: that is found by the call, or begins."""


NO_ROW: Final = -1
_LESS: Final = "keep fewer of its rows or columns under another name, in code or with SQL, and hand that on"
_PAUSES: Final = (0.0, 0.02, 0.05)
"""Seconds before each attempt to lock a session's row that may be the host's."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One session as the layers below `Session` see it, with the overrides of its handle applied."""

    database: Database
    host: Host | None
    """The host's transaction, which every commit joins; None: byref uses its own transactions."""
    sandbox: Interpreter | None
    counter: TokenCounter
    models: Models
    tenant: str
    name: str
    row: int
    """The session's row id; `NO_ROW` for a conversation that could not be opened, or has ended."""
    model: str | None
    window: int
    policy: Policy
    tools: tuple[str, ...]
    uses: Uses | None = field(default=None, compare=False)
    """The engine's noted uses of artifacts that wait to be written."""
    learning: Learning | None = field(default=None, compare=False)
    """Where outputs are noted, so that what tools return is learned; None: nothing is."""
    objects: BlobStore | None = None
    """The store to which payloads are written; None: they are written to SQL."""
    telemetry: Telemetry = field(default_factory=Telemetry, compare=False)
    functions: tuple[Function, ...] = ()
    """Functions of the host that code may call."""
    elsewhere: AbstractSet[str] = field(default=frozenset(), compare=False)
    """Names of functions that code may call where the session is opened for code: here it is opened for an output."""
    learned_through: int | None = field(default=None, compare=False)
    """The newest row of what was learned of tools that the session sees; None: there was none when it was created."""
    called: Called | None = None
    loop: AbstractEventLoop | None = field(default=None, compare=False)
    """The host's event loop, on which coroutine functions run; None: byref has one of its own."""

    @property
    def source(self) -> Source:
        """Where payloads are read from."""
        follow, as_json = self.uses.follow if self.uses else None, None if self.sandbox is None else self._as_json
        return Source(self.ask, self.objects, self.stage, follow, as_json)

    @property
    def limits(self) -> Limits:
        """The policy's limits of a run."""
        policy = self.policy
        return Limits(
            wall_seconds=policy.run_seconds,
            cpu_seconds=policy.run_cpu_seconds,
            memory_bytes=policy.run_memory_bytes,
            stdout_bytes=policy.run_output_bytes,
            result_bytes=policy.run_result_bytes,
            recursion_depth=policy.run_recursion_depth,
            wait_seconds=policy.run_wait_seconds,
        )

    def _as_json(self, payload: StoredPayload, digest: bytes) -> bytes:
        """Return the JSON of a value that code left with its types. Code wrote the bytes, so a run reads them, inside the jail."""
        assert self.sandbox is not None
        limits, value = self.limits, Data(digest.hex(), PayloadLoad(payload), EXACT)
        reply = self.sandbox.jq(".", value, limits=limits, max_outputs=1, max_bytes=limits.result_bytes)
        if reply.error is None and not reply.truncated and len(reply.outputs) == 1:
            return reply.outputs[0]
        why = f"as JSON it has more than {limits.result_bytes >> 20} MB"
        raise ToolError(f"{why if reply.error is None else reply.error.message}; {_LESS}")

    @property
    def place(self) -> Place:
        """Where payloads are written to."""
        return Place(self.stage, self.tenant, self.objects, self)

    @property
    def reads_paths(self) -> bool:
        """Whether the model can read payloads at their paths, with the host's own tools."""
        return is_model_readable(self.objects)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction, or in the host's transaction if there is one."""
        return self.database.read(work) if self.host is None else join(self.database, self.host, work)

    def ask(self, work: Callable[[Connection], T]) -> T:
        """Run `work` that consists of one reading statement, in the host's transaction if there is one."""
        return self.database.ask(work) if self.host is None else join(self.database, self.host, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a write transaction: in a SAVEPOINT of the host's, or in one of byref's own, retried if that helps.

        Raises:
            StorageFailure: the database failed, or a constraint refused the work each time.
        """
        host = self.host
        if host is None:
            return retried(self.database.write, work)
        return retried(lambda unit: join(self.database, host, unit), work)

    def stage(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in its own transaction, or in the host's if necessary.

        That is necessary on SQLite, whose one writer the host's transaction may be, and if the host's transaction keeps a
        snapshot, in which it would not see what another transaction has staged.
        """
        if self._stages_in_the_hosts():
            return self.write(work)
        return retried(self.database.write, work, races=1)

    def stage_under_lock(self) -> Callable[[Callable[[Connection], T]], T]:
        """Return `stage` for work that locks the session's row, or `write` if the host's transaction may hold that row.

        On PostgreSQL, work in another transaction would wait for the row until the host's ends, which waits for the work. Transactions of
        byref hold a row for milliseconds: one that stays locked, or is not seen, counts as the host's.
        """
        if self.host is None or self._stages_in_the_hosts():
            return self.stage
        free = select(SessionRow.id).where(SessionRow.id == self.row).with_for_update(skip_locked=True, key_share=True)
        for pause in _PAUSES:
            time.sleep(pause)
            if retried(self.database.write, lambda connection: connection.execute(free).scalar(), races=1) is not None:
                return self.stage
        return self.write

    def on_leave(self, undo: Callable[[Connection], object]) -> None:
        """If staging uses a host's transaction on an event loop, have `undo` run there if the call is cancelled."""
        if isinstance(self.host, AsyncHost) and self._stages_in_the_hosts():

            def work() -> None:
                self.write(undo)

            self.host.on_leave(work)

    def apart(self, work: Callable[[Connection], T]) -> T | None:
        """Run `work` in its own transaction when the host's is out of reach; None on SQLite, where the host's would block it."""
        return None if self.database.dialect == "sqlite" else retried(self.database.write, work, races=1)

    def _stages_in_the_hosts(self) -> bool:
        return self.host is not None and (
            self.database.dialect == "sqlite" or join(self.database, self.host, keeps_snapshot)
        )

    def compute(self, work: Callable[[], T]) -> T:
        """Run a computation of a unit that needs no connection; on another thread if it would block an event loop."""
        return self.host.compute(work) if isinstance(self.host, AsyncHost) else work()

    def count(self, text: str, kind: Kind = "text") -> int:
        """Count the tokens of a text."""
        return self.counter.count(text, kind)

    def priced(self, usage: Usage, model: str | None = None) -> tuple[Usage, Decimal | None]:
        """Return usage with its model, and its cost in US dollars; `model` is that of usage that names none."""
        model = usage.model or model
        if model is None:
            return usage, None
        costs = [
            self.models.cost(
                one.model or model,
                input_tokens=one.input_tokens,
                output_tokens=one.output_tokens,
                cache_read_tokens=one.cache_read_tokens,
                cache_write_tokens=one.cache_write_tokens,
                cache_write_1h_tokens=one.cache_write_1h_tokens,
                input_audio_tokens=one.input_audio_tokens,
                cache_read_audio_tokens=one.cache_read_audio_tokens,
            )
            for one in usage.rounds or (usage,)
        ]
        known = [cost for cost in costs if cost is not None]
        return replace(usage, model=model), sum(known, Decimal(0)) if len(known) == len(costs) else None

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
        """Insert an artifact of a published blob into the session."""
        where: Any = {"tenant": self.tenant, "session_row": self.row, "ttl": self.policy.ttl, "public_id": public_id}
        return store.publish(connection, self.source, blob, store.new_row(about, step=step, origin=origin, **where))

    def publish_at_once(
        self,
        connection: Connection,
        buffered: Buffered,
        about: Description,
        part: Part,
        wanted: str,
        *,
        kept: Bytes,
        step: int,
        origin: str,
        public_id: str,
        output: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> tuple[Inserted, str] | None:
        """Publish a payload, insert its artifact, and bind it to a free name like `wanted`, by one statement in most cases.

        Returns what was inserted and the name; None, and nothing is inserted, if the tenant has a published blob with these
        bytes. `kept` is the sum in the session's row, which is locked. `output` returns the columns of the output's step, given
        the name; that step is appended if the name `is_next`.
        """
        where: Any = {"tenant": self.tenant, "session_row": self.row, "step": step, "origin": origin}
        artifact = store.new_row(about, **where, ttl=self.policy.ttl, public_id=public_id)
        name, before = variables.probable(self.row, wanted)
        variable = variables.new_row(name, part, **where)
        row = None if output is None else ledger.stored(output(name))
        found = at_once.publish(connection, self.source, buffered, artifact, variable, kept, before, row)
        if found is None:
            return None
        if found.is_next:
            variables.took(self.row, wanted)
            return found, name
        [free] = variables.free(connection, self.row, [wanted])
        if not found.is_bound:
            variables.bind(connection, artifact_row=found.artifact.row_id, named=[(free, part)], **where)
        elif free != name:  # a name that was given up meanwhile is given again
            variables.rename(connection, self.row, name, free)
        return found, free

    def append(
        self, connection: Connection, turn: ledger.Turn, kind: str, columns: Mapping[str, Any], pending: int = 0
    ) -> None:
        """Append a step to the session's ledger, and add `pending` tokens to its context."""
        whose: Any = {"tenant": self.tenant, "session_row": self.row, "pending": pending}
        ledger.append(connection, step=turn.step, kind=kind, **whose, **columns)
