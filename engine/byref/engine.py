"""The engine: one per process, shared by all its conversations."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import sqlalchemy
from sqlalchemy import Connection

from byref.accounting.models import Models
from byref.accounting.telemetry import Telemetry
from byref.accounting.tokens import SampledCounter, TokenCounter
from byref.artifacts.uses import Uses
from byref.conversation import clearing, lifecycle, listing
from byref.conversation.interpreters import Interpreter, check_interpreter
from byref.conversation.lifecycle import Opened, Swept
from byref.conversation.listing import SessionInfo, TenantInfo
from byref.conversation.result import Format
from byref.conversation.scope import Host, Scope, join
from byref.db import discards
from byref.db.database import Database, Durability, retried
from byref.db.tables import GRACE
from byref.errors import ByrefError, ConfigurationError, StorageFailure, shown
from byref.policy import Policy, check_tools, stored
from byref.policy.checks import check_limit
from byref.session import Session
from byref.stores.guarded import Guarded
from byref.stores.protocol import BlobStore, check_store
from byref.tools import TOOLS
from byref.tools.record import Tool
from byref.tools.render import render
from byref.usage import is_count
from byref_sandbox import NO_BOUNDARY, Sandbox, SandboxUnavailable, probe

logger = logging.getLogger("byref")

SWEEP_SECONDS = 300.0
"""Between the sweeps that an engine makes by itself, when a session is opened."""
SHRINK_PAGES = 100
"""Pages of a SQLite file that one statement gives back: at 4 KiB each, other writers wait up to 10 ms for it."""


class Engine:
    """A database, a sandbox, a policy. Cheap to share, safe to use from any thread and after a fork.

    `url`: a SQLAlchemy URL of SQLite or PostgreSQL, or a host's own Engine. `create=None` makes the tables in a SQLite
    database that is new and only checks any other; True migrates to head; False only checks. `schema` (PostgreSQL) is
    where the tables live. `interpreter` runs model-written code in place of a sandbox of the engine's own, and is yours to
    close: a `byref_sandbox.Sandbox`, a `byref.adapters.dask.DaskInterpreter`; `jail` says which walls its own must have:
    "full", or "language-only", which is no security boundary (code that gets out of the language has the rights of the
    host's user) and meant for code that you would run yourself.
    `durability="full"`: each commit waits until the disk has it, on SQLite too, where the last ones may otherwise go with a
    power cut.
    `counter` counts tokens, `models` knows windows and prices. `blobs` is where the bytes of artifacts go instead of into
    the database: a store of `byref.stores`, or one of your own. `telemetry` is what OpenTelemetry is told, where it is
    installed.

    Raises:
        SchemaMismatch: the database is at another revision; the text names the cure.
        StorageFailure: the database cannot be reached.
        ConfigurationError: an argument makes no sense.
    """

    def __init__(
        self,
        url: str | sqlalchemy.URL | sqlalchemy.Engine = "sqlite:///byref.db",
        *,
        create: bool | None = None,
        policy: Policy | None = None,
        blobs: BlobStore | None = None,
        interpreter: Interpreter | None = None,
        jail: Literal["full", "language-only"] = "full",
        counter: TokenCounter | None = None,
        models: Models | None = None,
        schema: str | None = None,
        durability: Durability = "normal",
        telemetry: Telemetry | None = None,
    ) -> None:
        if blobs is not None:
            check_store(blobs)
        if interpreter is not None:
            check_interpreter(interpreter)
        if policy is not None and not isinstance(policy, Policy):
            raise ConfigurationError(f"policy={policy!r}: expected a byref.Policy")
        self._database = Database(url, schema=schema, durability=durability)
        self._database.prepare(create)
        self._policy = policy or Policy()
        self._counter = counter or SampledCounter()
        self._models = models or Models()
        self._telemetry = telemetry or Telemetry()
        self._objects = None if blobs is None else Guarded(blobs)
        self._warned: set[str] = set()
        """Tools that are asked for and not installed, of which the log has a warning."""
        self._own_sandbox = interpreter is None
        self._sandbox = _sandbox(jail) if interpreter is None else interpreter
        self._unknown_models: set[str] = set()
        self._uses = Uses(self._database.write, in_background=self._database.takes_threads)
        self._swept_at = time.monotonic()
        self._sweeping = threading.Lock()

    def __enter__(self) -> Self:
        """Return the engine itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()

    @property
    def policy(self) -> Policy:
        """The policy of sessions that have none of their own."""
        return self._policy

    @property
    def url(self) -> str:
        """The database's URL, without its password."""
        return self._database.url

    @property
    def database(self) -> Database:
        """The database behind every session."""
        return self._database

    @property
    def sandbox(self) -> Interpreter | None:
        """What runs model-written code; None where this platform lacks a mandatory wall."""
        return self._sandbox

    def session(
        self,
        id: str,
        *,
        tenant: str = "default",
        model: str | None = None,
        context_window: int | None = None,
        policy: Policy | None = None,
        tools: Sequence[str] | None = None,
        db: Host | None = None,
    ) -> Session:
        """Open a conversation, or create it.

        `id` and `tenant` are the host's own, 1 to 512 bytes of UTF-8. What is given at creation is kept; what is given
        later holds for this handle. `tools` are names out of those of `Policy.tools`. With `db`, a SQLAlchemy Session or
        Connection, everything that is committed joins the host's transaction, in a SAVEPOINT.

        Raises:
            InvalidId: the id or tenant cannot be kept as it is.
            ConfigurationError: an argument makes no sense.
            StorageFailure: the database failed.
        """
        name, tenant = lifecycle.check_id("id", id), lifecycle.check_id("tenant", tenant)
        if model is not None:
            if not isinstance(model, str):
                raise ConfigurationError(f"model={shown(model)}: expected its name")
            model = str.__str__(model)  # whatever a subclass makes of itself
        if policy is not None and not isinstance(policy, Policy):
            raise ConfigurationError(f"policy={shown(policy)}: expected a byref.Policy")
        if context_window is not None and not (is_count(context_window) and context_window):
            raise ConfigurationError(f"context_window={shown(context_window)}: expected a positive integer of tokens")
        wanted = None if tools is None else check_tools(tools)
        opened = self._open(name, tenant, model, context_window, policy, wanted, db)
        self._sweep_now_and_then(joined=db is not None)
        effective = policy or (stored.loads(opened.policy, self._policy, name) if opened.policy else self._policy)
        if wanted is None:
            wanted = opened.tools if opened.tools is not None else effective.tools
        model = model or opened.model
        return Session(
            Scope(
                database=self._database,
                host=db,
                sandbox=self._sandbox,
                counter=self._counter,
                models=self._models,
                tenant=tenant,
                name=name,
                row=opened.row,
                model=model,
                window=context_window or opened.context_window or self._window(model, effective),
                policy=effective,
                tools=tuple(name for name in wanted if self._is_offered(TOOLS[name])),
                uses=self._uses,
                objects=self._objects,
                telemetry=self._telemetry,
            )
        )

    def tools(
        self, format: Format = "openai", *, tools: Sequence[str] | None = None, policy: Policy | None = None
    ) -> list[dict[str, Any]]:
        """Return the definitions of the tools that a new session has, for a host that wants them before there is one.

        `tools` and `policy` are what the session is to be opened with.

        Raises:
            ConfigurationError: an argument makes no sense.
        """
        names = (policy or self._policy).tools if tools is None else check_tools(tools)
        return render([TOOLS[name] for name in names if self._is_offered(TOOLS[name])], format)

    def _is_offered(self, tool: Tool) -> bool:
        if not tool.is_installed():
            if tool.name not in self._warned:
                self._warned.add(tool.name)
                logger.warning("%s is not offered, though it is asked for: %s", tool.name, tool.cure)
            return False
        return self._sandbox is not None or not tool.needs_sandbox

    def sessions(
        self, tenant: str | None = "default", *, after: str | SessionInfo | None = None, limit: int | None = None
    ) -> list[SessionInfo]:
        """Return a tenant's conversations, oldest first, with what each has stored, read and cost; None: of all tenants.

        A page has those behind the conversation `after`, at most `limit`; the last one has fewer. With None it is what a
        listing gave of it, for its id alone may be another tenant's, too.

        Raises:
            ConfigurationError: `after` is no conversation any more, or `limit` no number of them.
        """
        whose = None if tenant is None else lifecycle.check_id("tenant", tenant)
        behind, most = _behind(whose, after), check_limit(limit)
        found = self._database.read(lambda c: listing.sessions(c, whose, after=behind, limit=most))
        if found is None:
            raise ConfigurationError(f"after={shown(after)}: no conversation of this list, or none any more")
        return found

    def tenants(self, *, after: str | None = None, limit: int | None = None) -> list[TenantInfo]:
        """Return the tenants that have conversations, by name, with what each has stored, read and cost.

        A page has those behind the name `after`, at most `limit`; the last one has fewer.

        Raises:
            ConfigurationError: `limit` is no number of tenants.
        """
        behind, most = None if after is None else lifecycle.check_id("after", after), check_limit(limit)
        return self._database.read(lambda connection: listing.tenants(connection, after=behind, limit=most))

    def delete_session(self, id: str, *, tenant: str = "default") -> bool:
        """Delete a conversation, its ledger, its artifacts and their bytes; False if there is none.

        First nobody finds it any more, in one short transaction; then its rows go, in steps between which others write.

        Raises:
            StorageFailure: the database failed, or the store of objects did: what is left is `sweep`'s to delete.
        """
        name, tenant = lifecycle.check_id("id", id), lifecycle.check_id("tenant", tenant)
        gone = clearing.delete_session(partial(retried, self._database.write), tenant, name)
        self._delete_objects(f"the session {name!r} is deleted")
        return gone

    def delete_tenant(self, tenant: str) -> int:
        """Delete everything of a tenant and return how many conversations it had; it raises as `delete_session` does."""
        tenant = lifecycle.check_id("tenant", tenant)
        gone = clearing.delete_tenant(self._database.read, partial(retried, self._database.write), tenant)
        self._delete_objects(f"the tenant {tenant!r} is deleted", tenant)
        return gone

    def sweep(self, *, grace: timedelta = GRACE) -> Swept:
        """Delete what has expired, what was staged and never committed, and bytes that no artifact needs; say how much.

        What was staged and is younger than `grace` is left alone: a `process` may be about to commit it. Any number of
        processes may sweep at once. A SQLite file is made smaller by what was deleted. In the store of objects all go that
        this database does not know: its folder, or its prefix, is to be of one database only.
        """
        self._uses.write()
        gone = lifecycle.sweep(self._database.write, grace)
        write, objects = self._database.write, self._objects
        emptied = self._delete_objects("the database is swept")
        discards.delete_drafts(objects, grace)
        gone += Swept(objects=emptied + discards.delete_strays(write, objects, grace))
        while self._database.shrink(SHRINK_PAGES):
            time.sleep(clearing.PAUSE_SECONDS)
        return gone

    def close(self) -> None:
        """Stop the sandbox and close the connections that are the engine's own."""
        try:
            self._uses.close()
        except ByrefError:
            logger.warning("byref could not write down what was used last", exc_info=True)
        if self._own_sandbox and self._sandbox is not None:
            self._sandbox.close()
        self._database.close()

    def _open(
        self,
        name: str,
        tenant: str,
        model: str | None,
        context_window: int | None,
        policy: Policy | None,
        tools: tuple[str, ...] | None,
        db: Host | None,
    ) -> Opened:
        def work(connection: Connection) -> Opened:
            found = lifecycle.find_session(connection, tenant, name)
            return found or lifecycle.open_session(
                connection,
                tenant=tenant,
                name=name,
                model=model,
                context_window=context_window,
                policy=None if policy is None else stored.dumps(policy),
                tools=tools,
                ledger_ttl=(policy or self._policy).ledger_ttl,
            )

        if db is not None:
            # In a SAVEPOINT of its own each time: what another transaction created in between is found the next time.
            return retried(lambda unit: join(self._database, db, unit), work)
        found = self._database.ask(lambda connection: lifecycle.find_session(connection, tenant, name))
        if found is not None:
            return found
        return retried(self._database.write, work)

    def _window(self, model: str | None, policy: Policy) -> int:
        if model is None:
            return policy.default_context_window
        window = self._models.context_window(model)
        if window is None:
            asked_for = policy.context_percentage is not None or policy.headroom_percentage < 1  # by a gate
            if asked_for and model not in self._unknown_models and len(self._unknown_models) < 1000:
                self._unknown_models.add(model)
                logger.warning(
                    "the context window of %.100r is unknown: taking %d tokens; give context_window= to the session",
                    model,
                    policy.default_context_window,
                )
            return policy.default_context_window
        return window

    def _sweep_now_and_then(self, *, joined: bool) -> None:
        """Sweep one batch in passing, then none for minutes once nothing is left; never in a host's transaction."""
        if joined or time.monotonic() - self._swept_at < SWEEP_SECONDS or not self._sweeping.acquire(blocking=False):
            return
        try:
            before, self._swept_at = self._swept_at, time.monotonic()
            self._uses.write()
            _, is_more = lifecycle.sweep_batch(self._database.write)
            discards.empty(self._database.write, self._objects)
            self._database.shrink(SHRINK_PAGES)
            if is_more:
                self._swept_at = before
        except StorageFailure:
            logger.warning("byref could not sweep", exc_info=True)
        finally:
            self._sweeping.release()

    def _delete_objects(self, done: str, tenant: str | None = None) -> int:
        """Delete the objects of blobs that went and return how many; where that fails say what is `done` already.

        `tenant`: what killed writes of its have left goes with them.
        """
        try:
            gone = discards.empty(self._database.write, self._objects)
            if tenant is not None:
                discards.delete_drafts(self._objects, tenant=tenant)
            return gone
        except StorageFailure as error:
            name = self._objects.name if self._objects else ""
            raise StorageFailure(
                f"{done}, but not all of its objects in the store {name!r}: `sweep` deletes those that are left ({error})"
            ) from error


def _behind(tenant: str | None, after: object) -> tuple[str, str] | None:
    """The tenant and the id of the conversation that a page begins behind."""
    if after is None:
        return None
    if isinstance(after, SessionInfo):
        if tenant in (None, after.tenant):
            return after.tenant, after.id
        raise ConfigurationError(f"after={shown(after)}: that is no conversation of the tenant {tenant!r}")
    if tenant is None:
        raise ConfigurationError(f"after={shown(after)}: of all tenants, expected the last entry of the page before")
    return tenant, lifecycle.check_id("after", after)


_NEEDING_THE_SANDBOX = "code_interpreter, artifact_jq and artifact_sql"


def _sandbox(jail: Literal["full", "language-only"]) -> Sandbox | None:
    """The engine's own sandbox; None, with a warning, where a mandatory wall is missing."""
    if jail not in ("full", "language-only"):
        raise ConfigurationError(f'jail={jail!r}: expected "full" or "language-only"')
    missing = [layer for layer in probe(jail=jail) if layer.mandatory and not layer.in_force]
    if missing:
        logger.warning(
            "%s are not offered: %s. `byref doctor` tells more; %s.",
            _NEEDING_THE_SANDBOX,
            "; ".join(f"{layer.name}: {layer.detail}" for layer in missing),
            NO_BOUNDARY,
        )
        return None
    if jail == "language-only":
        logger.warning("%s.", NO_BOUNDARY)
    try:
        return Sandbox(jail=jail)
    except SandboxUnavailable as error:
        logger.warning("%s are not offered: %s", _NEEDING_THE_SANDBOX, error)
        return None
