"""The engine: one per process, shared by all its conversations."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
import sqlalchemy
from sqlalchemy import Connection

from byref.accounting.models import ModelInfo, Models
from byref.accounting.telemetry import Telemetry
from byref.accounting.tokens import SampledCounter, TokenCounter
from byref.artifacts.background import Background
from byref.artifacts.learning import Learning, learned
from byref.artifacts.uses import Uses
from byref.calling import approvals
from byref.conversation import clearing, lifecycle, listing
from byref.conversation.interpreters import Interpreter, check_interpreter, modules_of
from byref.conversation.lifecycle import Opened, Swept
from byref.conversation.listing import SessionInfo, TenantInfo
from byref.conversation.result import Format, PendingRun
from byref.conversation.scope import Host, Scope, join
from byref.db import discards
from byref.db.database import Database, Durability, retried
from byref.db.tables import GRACE
from byref.errors import ByrefError, ConfigurationError, StorageFailure, UnknownSession, shown
from byref.functions import Function, all_of
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
"""Minimum seconds between the sweeps that an engine makes by itself, when a session is opened."""
MAX_LEARNED = 1_000
"""Answers of the database about what was learned that are kept in memory."""
SHRINK_PAGES = 100
"""Pages of a SQLite file that one statement releases: at 4 KiB each, other writers wait up to 10 ms for it."""


class Engine:
    """A database, a sandbox and a policy. One engine can be shared; it is safe to use from any thread and after a fork.

    `url` is a SQLAlchemy URL of SQLite or PostgreSQL, or your own SQLAlchemy Engine. `create=None` makes the tables in a new
    SQLite database and only checks any other; True migrates to head; False only checks. `schema` (PostgreSQL) holds the tables.
    With `durability="full"` each commit waits until it is on disk; without it, a power cut may lose the last commits on SQLite.

    `policy` holds for sessions that have none of their own. `blobs` stores the bytes of artifacts outside of the database: a
    store of `byref.stores`, or one of your own. `counter` counts tokens. `models` knows windows and prices; a dict adds those of
    your own models. `telemetry` selects what is reported to OpenTelemetry, if that is installed.

    `jail` says which walls the engine's own sandbox must have: "full", or "language-only", which is no security boundary (code
    that escapes from the language has the rights of the host's user) and is meant for code that you would run yourself.
    `interpreter` runs model-written code in place of that sandbox: a `byref_sandbox.Sandbox` or a
    `byref.adapters.dask.DaskInterpreter`, which you close yourself. `modules` are names of further packages of pure Python that
    code may import, such as `["humanize"]`. Each is checked now, and loaded when code first names it; code gets only the parts
    that reach no files, network, threads or processes (`byref modules check` lists the others). `functions` are what code of
    every session may call: callables, or `byref.Function`.

    Raises:
        SchemaMismatch: the database is at another revision; the message says what to do.
        StorageFailure: the database cannot be reached.
        ConfigurationError: an argument is invalid.
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
        models: Models | Mapping[str, ModelInfo] | None = None,
        schema: str | None = None,
        durability: Durability = "normal",
        telemetry: Telemetry | None = None,
        modules: Sequence[str] = (),
        functions: Iterable[Function | Callable[..., Any]] = (),
    ) -> None:
        if blobs is not None:
            check_store(blobs)
        if interpreter is not None:
            check_interpreter(interpreter)
        if policy is not None and not isinstance(policy, Policy):
            raise ConfigurationError(f"policy={policy!r}: expected a byref.Policy")
        if counter is not None and (isinstance(counter, type) or not callable(getattr(counter, "count", None))):
            raise ConfigurationError(f"counter={counter!r:.200}: expected a byref.TokenCounter, as byref.CharCounter()")
        if telemetry is not None and not isinstance(telemetry, Telemetry):
            raise ConfigurationError(f"telemetry={telemetry!r:.200}: expected a byref.Telemetry")
        allowed = _checked_modules(modules, interpreter)
        self._database = Database(url, schema=schema, durability=durability)
        self._database.prepare(create)
        self._policy = policy or Policy()
        self._counter = SampledCounter() if counter is None else counter
        self._models = models if isinstance(models, Models) else Models(models)
        self._telemetry = Telemetry() if telemetry is None else telemetry
        self._objects = None if blobs is None else Guarded(blobs)
        self._warned: set[str] = set()
        """Requested tools that are not installed and about which a warning was logged, so that each is logged once."""
        self._own_sandbox = interpreter is None
        self._sandbox = _sandbox(jail, allowed) if interpreter is None else interpreter
        self._unknown_models: set[str] = set()
        self._learning = Learning(self._database.write, in_background=self._database.takes_threads)
        self._learned: dict[tuple[str, int, tuple[str, ...]], Mapping[str, dict[str, Any]]] = {}
        """What sessions see of what was learned: by tenant, the newest row that they see, and tools."""
        self._uses = Uses(self._database.write, in_background=self._database.takes_threads)
        self._swept_at = time.monotonic()
        self._sweeping = threading.Lock()
        self._functions = _checked(functions)

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
        """The interpreter of model-written code; None if this platform lacks a mandatory wall."""
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
        functions: Iterable[Function | Callable[..., Any]] | None = None,
        db: Host | None = None,
        create: bool = True,
    ) -> Session:
        """Open a conversation, or create it; with `create=False`, only open it, and write nothing.

        You choose `id` and `tenant`, each 1 to 512 bytes of UTF-8. `model`, `context_window`, `policy` and `tools` are stored if
        they are given at creation; given later they apply only to this handle. `tools` are names of tools, as in `Policy.tools`.
        `functions` are what code of this handle may call in addition to the engine's: callables, or `byref.Function`. With `db`,
        a SQLAlchemy Session or Connection, every commit joins the host's transaction, in a SAVEPOINT.

        Raises:
            InvalidId: the id or tenant cannot be stored unchanged.
            ConfigurationError: an argument is invalid.
            UnknownSession: there is no such conversation, and `create` is False.
            StorageFailure: the database failed.
        """
        name, tenant = lifecycle.check_id("id", id), lifecycle.check_id("tenant", tenant)
        if model is not None:
            if not isinstance(model, str):
                raise ConfigurationError(f"model={shown(model)}: expected its name")
            model = str.__str__(model)  # a subclass may override `__str__`
        if policy is not None and not isinstance(policy, Policy):
            raise ConfigurationError(f"policy={shown(policy)}: expected a byref.Policy")
        if context_window is not None and not (is_count(context_window) and context_window):
            raise ConfigurationError(f"context_window={shown(context_window)}: expected a positive integer of tokens")
        wanted = None if tools is None else check_tools(tools)
        given = None if functions is None else _checked(functions)
        opened = self._open(name, tenant, model, context_window, policy, wanted, db, create)
        if create:
            self._sweep_now_and_then(joined=db is not None)
        return self._session_of(opened, name, tenant, model, context_window, policy, wanted, given, db)

    def _session_of(
        self,
        opened: Opened,
        name: str,
        tenant: str,
        model: str | None = None,
        context_window: int | None = None,
        policy: Policy | None = None,
        wanted: tuple[str, ...] | None = None,
        functions: Iterable[Function | Callable[..., Any]] | None = None,
        db: Host | None = None,
    ) -> Session:
        """Return the handle of a session that was found."""
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
                functions=self._with_learned(
                    tenant, opened.learned_through, effective, self._functions_with(functions)
                ),
                learning=self._learning,
                learned_through=opened.learned_through,
            )
        )

    def tools(
        self,
        format: Format = "openai",
        *,
        tools: Sequence[str] | None = None,
        policy: Policy | None = None,
        functions: Iterable[Function | Callable[..., Any]] | None = None,
    ) -> list[Any]:
        """Return the definitions of the tools of a new session, for a host that needs them before it opens one.

        `tools`, `policy` and `functions` are the arguments with which the session will be opened.

        Raises:
            ConfigurationError: an argument is invalid.
        """
        policy = policy or self._policy
        names = policy.tools if tools is None else check_tools(tools)
        offered = [TOOLS[name] for name in names if self._is_offered(TOOLS[name])]
        return render(offered, format, policy, modules_of(self._sandbox), self._functions_with(functions))

    def _functions_with(self, functions: Iterable[Function | Callable[..., Any]] | None) -> tuple[Function, ...]:
        return self._functions if functions is None else all_of([*self._functions, *all_of(functions)])

    def tool_schema(self, tool: str, *, tenant: str = "default") -> dict[str, Any] | None:
        """Return the JSON Schema of what a tool has returned to a tenant so far; None if nothing is known.

        It is learned from outputs given to `Session.process` and from calls by code. It begins with `ToolPolicy(schema=…)` of the
        engine's policy.

        Raises:
            StorageFailure: the database failed.
        """
        tenant = lifecycle.check_id("tenant", tenant)
        if not isinstance(tool, str):
            raise ConfigurationError(f"tool={shown(tool)}: expected its name")
        self._learning.write(tenant)
        found = self._database.read(lambda connection: learned(connection, tenant, [tool])).get(tool)
        return _seeded(self._policy, tool, found)

    def _with_learned(
        self, tenant: str, through: int | None, policy: Policy, functions: tuple[Function, ...]
    ) -> tuple[Function, ...]:
        """Return functions with what the session sees of what they return, where nobody says it."""
        unsaid = tuple(one.name for one in functions if one.returns is None)
        found = self._seen(tenant, through, policy, unsaid) if unsaid else {}
        return tuple(
            one if (schema := found.get(one.name)) is None else replace(one, learned=schema) for one in functions
        )

    def _seen(
        self, tenant: str, through: int | None, policy: Policy, tools: tuple[str, ...]
    ) -> dict[str, dict[str, Any] | None]:
        """Return what a session sees of what tools return, by tool."""
        key = tenant, through or 0, tools
        known = self._learned.get(key)
        if known is None:
            known = (
                {}
                if through is None
                else self._database.read(lambda connection: learned(connection, tenant, tools, through))
            )
            if len(self._learned) >= MAX_LEARNED:
                self._learned.clear()
            self._learned[key] = known
        return {name: _seeded(policy, name, known.get(name)) for name in tools}

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
        """Return a tenant's conversations, oldest first, each with its stored bytes, tokens and cost; None means all tenants.

        A page has at most `limit` conversations, beginning behind `after`; the last page has fewer. For all tenants, `after`
        must be an entry of an earlier page, because another tenant may have a conversation with the same id.

        Raises:
            ConfigurationError: there is no conversation `after` (any more), or `limit` is not a valid number.
        """
        whose = None if tenant is None else lifecycle.check_id("tenant", tenant)
        behind, most = _behind(whose, after), check_limit(limit)
        found = self._database.read(lambda c: listing.sessions(c, whose, after=behind, limit=most))
        if found is None:
            raise ConfigurationError(f"after={shown(after)}: no conversation of this list, or none any more")
        return found

    def pending(self, tenant: str | None = "default", *, limit: int | None = None) -> list[PendingRun]:
        """Return a tenant's runs of code that wait for approvals, oldest first; None means all tenants.

        At most `limit` runs are returned, and never more than 1,000: decide these to see the next ones.

        Raises:
            ConfigurationError: `limit` is not a valid number.
        """
        whose = None if tenant is None else lifecycle.check_id("tenant", tenant)
        most = check_limit(limit)
        return self._database.read(lambda connection: approvals.runs(connection, whose, most))

    def tenants(self, *, after: str | None = None, limit: int | None = None) -> list[TenantInfo]:
        """Return the tenants that have conversations, ordered by name, each with its stored bytes, tokens and cost.

        A page has at most `limit` tenants, beginning behind the name `after`; the last page has fewer.

        Raises:
            ConfigurationError: `limit` is not a valid number.
        """
        behind, most = None if after is None else lifecycle.check_id("after", after), check_limit(limit)
        return self._database.read(lambda connection: listing.tenants(connection, after=behind, limit=most))

    def delete_session(self, id: str, *, tenant: str = "default") -> bool:
        """Delete a conversation, its ledger, its artifacts and their bytes; return False if it does not exist.

        One short transaction hides the conversation first. Its rows are then deleted in steps, between which others can write.

        Raises:
            StorageFailure: the database or the object store failed; the next `sweep` deletes the rest.
        """
        name, tenant = lifecycle.check_id("id", id), lifecycle.check_id("tenant", tenant)
        gone = clearing.delete_session(partial(retried, self._database.write), tenant, name)
        self._delete_objects(f"the session {name!r} is deleted")
        return gone

    def delete_tenant(self, tenant: str) -> int:
        """Delete all data of a tenant and return the number of its conversations. Raises like `delete_session`."""
        tenant = lifecycle.check_id("tenant", tenant)
        self._learning.forget(tenant)
        self._learned = {key: known for key, known in self._learned.items() if key[0] != tenant}
        gone = clearing.delete_tenant(self._database.read, partial(retried, self._database.write), tenant)
        self._delete_objects(f"the tenant {tenant!r} is deleted", tenant)
        return gone

    def sweep(self, *, grace: timedelta = GRACE) -> Swept:
        """Delete expired data, staged bytes that were never committed, and bytes without an artifact; return the amounts.

        Staged bytes younger than `grace` stay, because a call of `process` may still commit them. Any number of processes may
        sweep at once. A SQLite file shrinks by the deleted data. In a store of `byref.stores` all objects that this database
        does not know are deleted, so its folder or prefix must belong to one database only.
        """
        self._uses.write()
        self._learning.write()
        gone = lifecycle.sweep(self._database.write, grace)
        write, objects = self._database.write, self._objects
        emptied = self._delete_objects("the database is swept")
        discards.delete_drafts(objects, grace)
        gone += Swept(objects=emptied + discards.delete_strays(write, objects, grace))
        while self._database.shrink(SHRINK_PAGES):
            time.sleep(clearing.PAUSE_SECONDS)
        return gone

    def close(self) -> None:
        """Stop the engine's own sandbox and close its own connections; those that you gave to it stay open.

        After this, every call of the engine and of its sessions that needs the database raises ConfigurationError.
        """
        with ExitStack() as last_first:  # each of them is called, whatever another raises
            last_first.callback(self._database.close, for_good=True)
            if self._own_sandbox and self._sandbox is not None:
                last_first.callback(self._sandbox.close)
            last_first.callback(_closed, self._learning, "what it has learned of tools")
            last_first.callback(_closed, self._uses, "what was used last")

    def _open(
        self,
        name: str,
        tenant: str,
        model: str | None,
        context_window: int | None,
        policy: Policy | None,
        tools: tuple[str, ...] | None,
        db: Host | None,
        create: bool,
    ) -> Opened:
        def work(connection: Connection) -> Opened:
            found = lifecycle.find_session(connection, tenant, name)
            if found is None and not create:
                raise UnknownSession(f"there is no session {name!r} of tenant {tenant!r}")
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
            # Each try has its own SAVEPOINT, so that it finds a session that another transaction created meanwhile.
            return retried(lambda unit: join(self._database, db, unit), work)
        found = self._database.ask(lambda connection: lifecycle.find_session(connection, tenant, name))
        if found is not None:
            return found
        if not create:
            raise UnknownSession(f"there is no session {name!r} of tenant {tenant!r}")
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
        """Sweep one batch in passing. Once nothing is left, wait `SWEEP_SECONDS`. Never sweep in a host's transaction."""
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
        """Delete the objects of deleted blobs and return their number. If that fails, the error says what is `done` already.

        With `tenant`, the unfinished objects that its killed writes left are deleted, too. Objects in stores that this engine does
        not have are left, and a warning names one of them.
        """
        try:
            gone = discards.empty(self._database.write, self._objects)
            if tenant is not None:
                discards.delete_drafts(self._objects, tenant=tenant)
            if (other := discards.left_in(self._database.ask, self._objects)) is not None:
                logger.warning(
                    "%s, but objects of deleted data are still in the store %r, which this engine does not have; an engine with "
                    "it deletes them: Engine(…, blobs=…).sweep(), or `byref --blobs … sweep`",
                    done,
                    other,
                )
            return gone
        except StorageFailure as error:
            name = self._objects.name if self._objects else ""
            raise StorageFailure(
                f"{done}, but not all of its objects in the store {name!r}: `sweep` deletes those that are left ({error})"
            ) from error


def _closed(background: Background, what: str) -> None:
    try:
        background.close()
    except ByrefError:
        logger.warning("byref could not write down %s", what, exc_info=True)


def _checked(given: Iterable[object]) -> tuple[Function, ...]:
    """Return functions; raise ConfigurationError if one cannot be, or its parameters refer to what is not in their schema."""
    functions = all_of(given)
    for one in functions:
        try:
            source = msgspec.json.encode(one.parameters)
        except (TypeError, ValueError, OverflowError, RecursionError):  # the first call reports it
            continue
        if b'ref"' in source.lower():  # `$ref`, `$dynamicRef`
            # Imported late, because jsonschema takes long to import.
            from byref.references.schemas import check_references

            try:
                check_references(one.parameters)
            except ConfigurationError as error:
                raise ConfigurationError(f"function {one.name!r}: {error}") from error
    return functions


def _behind(tenant: str | None, after: object) -> tuple[str, str] | None:
    """Return the tenant and the id of the conversation behind which a page begins."""
    if after is None:
        return None
    if isinstance(after, SessionInfo):
        if tenant in (None, after.tenant):
            return after.tenant, after.id
        raise ConfigurationError(f"after={shown(after)}: that is no conversation of the tenant {tenant!r}")
    if tenant is None:
        raise ConfigurationError(f"after={shown(after)}: of all tenants, expected the last entry of the page before")
    return tenant, lifecycle.check_id("after", after)


def _seeded(policy: Policy, tool: str, known: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema that is known of a tool, with what the policy says of it."""
    seed = policy.tool(tool).schema
    if not policy.for_tool(tool).learn:
        known = None
    if seed is None:
        return known
    given: dict[str, Any] = json.loads(json.dumps(seed))
    if known is None:
        return given
    from byref.describe.learned import merged

    return merged([given, known])


_NEEDING_THE_SANDBOX = "code_interpreter, artifact_jq and artifact_sql"


def _checked_modules(modules: Sequence[str], interpreter: object) -> tuple[str, ...]:
    if not modules:
        return ()
    if interpreter is not None:
        raise ConfigurationError(f"modules={shown(modules)}: the interpreter that you gave has modules of its own")
    from byref_sandbox.code.checking import check_all  # only those who ask for modules need it

    try:
        return check_all(modules)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from None


def _sandbox(jail: Literal["full", "language-only"], modules: Sequence[str]) -> Sandbox | None:
    """Return a new sandbox; None, with a warning, if a mandatory wall is missing on this platform."""
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
        return Sandbox(jail=jail, modules=modules)
    except SandboxUnavailable as error:
        logger.warning("%s are not offered: %s", _NEEDING_THE_SANDBOX, error)
        return None
