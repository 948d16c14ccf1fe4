"""Sessions: a handle on one conversation processes tool outputs and returns the content that the model reads."""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import IO, Any, Self

from sqlalchemy import Connection

from byref.accounting import explain, ledger
from byref.accounting.explain import Explanation
from byref.accounting.ledger import Entry, Recorded, Totals
from byref.artifacts import export, store, tombstones, variables
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.calling import approvals, journal
from byref.calling.running import Calls
from byref.conversation import clearing, lifecycle, reminder, tracing
from byref.conversation.interpreters import modules_of
from byref.conversation.result import Format, Pending, Result, ToolReply
from byref.conversation.scope import Scope
from byref.db import discards
from byref.errors import ByrefError, ConfigurationError, shown
from byref.ingest import ingested, process, replay
from byref.interpreter import persistence, runs
from byref.policy import Policy
from byref.policy.checks import check_limit
from byref.references import resolve as references
from byref.tools import TOOLS, calls, storage
from byref.tools.render import render
from byref.usage import is_count, normalise
from byref_sandbox import Outcome

NAMED = 50
"""Maximum variables that the error for an unknown name lists."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One tool result in both its forms."""

    step: int
    tool: str
    call_id: str | None
    arguments: str | None
    original: Artifact | str | list[Any] | None
    """The output as it arrived: an artifact, or the content itself if the model read all of it; for several blocks a list of
    either; None if the data has expired or was not stored."""
    processed: str | list[Any]
    """The content that the model read, byte for byte."""


class Session:
    """A handle on one conversation, made by `Engine.session`. Handles are cheap, and any number may be open at once.

    Methods may be called from any thread. With a host's transaction (`db=`) they join it, and must be called on its thread.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def _on(self, loop: AbstractEventLoop) -> Session:
        """Return the session for calls from an event loop, on which coroutine functions run."""
        return Session(replace(self._scope, loop=loop))

    def __repr__(self) -> str:
        """Name the conversation and its tenant."""
        return f"Session({self._scope.name!r}, tenant={self._scope.tenant!r})"

    def __enter__(self) -> Self:
        """Return the session itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the handle."""
        self.close()

    @property
    def id(self) -> str:
        """The host's own id of the conversation."""
        return self._scope.name

    @property
    def tenant(self) -> str:
        """The tenant to which the conversation belongs."""
        return self._scope.tenant

    @property
    def context_window(self) -> int:
        """Tokens of the model's window, as the gates see it."""
        return self._scope.window

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._scope.policy

    # What tools return

    def process(
        self,
        output: object,
        *,
        tool: str,
        call_id: str | None = None,
        arguments: object = None,
        is_error: bool = False,
    ) -> Result:
        """Process the output of a tool and return the result that the model reads.

        `output` is any Python object; no value makes this raise. If the same content of the same tool was processed before under
        the same `call_id`, the first result is returned, byte for byte. `arguments` are stored as the model wrote them. An open
        file, or an iterator of text or bytes, is read to its end and then judged; an exception that it raises is raised here, and
        nothing is stored.

        Raises:
            SessionGone: the conversation has ended or was deleted.
            StorageFailure: the database failed and the policy says `on_storage_failure="raise"`.
        """
        tool, call_id = _text("tool", tool) or "tool", _call_id(call_id)
        about: dict[str, Any] = {"tool": tool, "call_id": call_id, "arguments": arguments, "is_error": bool(is_error)}
        return tracing.process(
            self._scope, tool, call_id, arguments, lambda: process.process(self._scope, output, **about)
        )

    # The session's own tools

    def tools(self, format: Format = "openai") -> list[Any]:
        """Return the definitions of the session's tools as a provider's API takes them."""
        scope = self._scope
        tools = [TOOLS[name] for name in scope.tools]
        return render(tools, format, scope.policy, modules_of(scope.sandbox), scope.functions)

    def owns(self, name: str) -> bool:
        """Tell whether a tool that the model called is the session's own, so that `call` has to answer it."""
        return name in self._scope.tools

    def call(self, name: str, arguments: Mapping[str, Any] | str | None, *, call_id: str | None = None) -> ToolReply:
        """Answer a call of one of the session's tools. A mistake of the model gives an error reply, not an exception.

        In one turn, the same call under the same `call_id` gets the first reply and does not run again. A turn ends when a
        compaction or usage is recorded (except the usage of a side call), because providers reuse call ids in later turns.
        """
        call_id = _call_id(call_id)
        return tracing.call(
            self._scope, name, call_id, arguments, lambda: calls.call(self._scope, name, arguments, call_id)
        )

    def resume(self, call_id: str, decisions: Mapping[str, bool | Mapping[str, Any]]) -> ToolReply:
        """Decide about calls that wait for approval, and continue the code that made them, in this or any other process.

        `call_id` is that of the model's call whose reply has `pending`. `decisions` maps ids of pending calls to True, False, or
        other arguments with which to make the call. The code runs again from its beginning; earlier calls get their results from
        the journal, and none of them is made twice. The new reply may have `pending` again.

        Raises:
            ConfigurationError: no code waits under that id, it has ended meanwhile, or a decision names none of its calls.
        """
        scope, checked = self._scope, _call_id(call_id)
        if checked is None:
            raise ConfigurationError(f"call_id={shown(call_id)}: expected the id of the call whose code waits")
        found = approvals.decide(scope, checked, decisions)
        return tracing.call(
            scope,
            found.tool,
            checked,
            found.arguments,
            lambda: calls.call(scope, found.tool, found.arguments, checked, found.row),
        )

    def pending(self, call_id: str | None = None) -> list[Pending]:
        """Return the calls that wait for approval, oldest first; with `call_id`, those of its code."""
        checked = _call_id(call_id)
        return [one for _, one in self._scope.read(lambda c: approvals.listed(c, self._scope.row, checked))]

    def run(self, code: str) -> Outcome:
        """Run your own code over the session's variables; return the interpreter's outcome, whole and without counting tokens.

        Names that the code assigns are bound as for the model, or listed in `unkept` with the reason; the run is recorded. If the
        code names expired data, the error's hint says what it was and which call creates it again.

        Raises:
            ToolError: the code has more than 200,000 characters or names more than 10,000 variables; there is no interpreter on
                this platform, or it cannot be started; or data that the code names cannot be read, because it is JSON too large
                for a value, is damaged, or expired or was deleted after it was looked up.
            QuotaExceeded: the names that the code left no longer fit, because others have stored data meanwhile.
            SessionGone: the conversation has ended or was deleted.
            StorageFailure: the database failed.
        """
        scope = self._scope
        calls = Calls(scope) if scope.functions else None
        try:
            execution = runs.run(scope, code, inline_tokens=1 << 62, functions=calls)

            def work(connection: Connection) -> Mapping[str, str]:
                step = ledger.lock(connection, scope.row)
                if calls is not None:
                    calls.commit(connection, None)
                return runs.commit(connection, scope, execution, step, replied=False).gone

            outcome, gone = execution.outcome, scope.write(work)
            if calls is not None:
                calls.committed()
        finally:
            if calls is not None:
                calls.close()
        return replace(outcome, unkept={**outcome.unkept, **gone}) if gone else outcome

    def reset(self) -> None:
        """Forget the names that code bound: values, functions, classes, imports. Variables of outputs stay.

        Their values are deleted, except those marked by `keep`. Figures and files stay, because replies name them. The work is
        done in steps, between which others can write; names that another call binds meanwhile stay.

        Raises:
            SessionGone: the conversation has ended or was deleted.
            StorageFailure: the database failed.
        """
        persistence.reset(self._scope)

    def resolve(
        self,
        arguments: Mapping[str, Any] | str,
        schema: Mapping[str, Any] | None = None,
        *,
        tool: str | None = None,
        call_id: str | None = None,
    ) -> dict[str, Any]:
        """Return another tool's arguments with references replaced by their data.

        References are `"$users"`, `"$orders.items"`, an artifact's id, or `{"$var": "users", "jq": "map(.id)"}`. A string that is
        not bound passes unchanged. `schema` is the tool's JSON Schema, checked afterwards. `tool` is the tool's name; its policy
        may disable references. The ledger records the replaced references as the model wrote them.

        Raises:
            ToolError: text for the model: the reference is unknown, its jq fails, or the data does not fit the schema.
            SessionGone: the arguments have a reference, and the conversation has ended or was deleted.
        """
        return references.resolve(self._scope, arguments, schema, tool=tool, call_id=_call_id(call_id))

    # Accounting

    def record_usage(
        self, usage: object, *, request_id: str | None = None, context: bool = True, through: int | None = None
    ) -> None:
        """Record the usage of one request to a model; the same counts under the same `request_id` are recorded once.

        `usage` is anything that `byref.usage.normalise` accepts: a response, its usage, or the events of its stream. With
        `context`, it ends the turn and sets the session's context to input + output, in which the pending outputs up to step
        `through` (None: all so far) are included. For side calls (titles, guards) pass `context=False`.

        Raises:
            ConfigurationError: the object has no token counts that byref knows.
        """
        known = normalise(usage)
        if through is not None and not is_count(through):
            raise ConfigurationError(
                f"through={shown(through)}: expected the step up to which the request carried outputs"
            )
        scope = self._scope
        stated, cost = scope.priced(known, scope.model)

        def work(connection: Connection) -> None:
            ledger.record_usage(
                connection,
                tenant=scope.tenant,
                session_row=scope.row,
                usage=stated,
                request_id=_call_id(request_id),
                sets_context=context,
                through=through,
                cost=cost,
            )

        try:
            scope.write(work)
        except Recorded:
            return
        tracing.usage(scope, stated)

    def on_compaction(self, tokens: int) -> None:
        """Record that the host compacted the conversation to this many tokens."""
        if not is_count(tokens):
            raise ConfigurationError(f"tokens={shown(tokens)}: expected the number of tokens that the context now has")
        scope = self._scope
        scope.write(
            lambda connection: ledger.record_compaction(
                connection, tenant=scope.tenant, session_row=scope.row, tokens=tokens
            )
        )

    def context_tokens(self) -> int:
        """Return the tokens of the next request: the last recorded usage plus everything that was added since."""
        return self._scope.standing().context

    def usage(self) -> Totals:
        """Return the sums over the session, and what its saved tokens would have cost if they had been read once."""
        scope = self._scope
        totals = scope.read(lambda connection: ledger.totals(connection, scope.row))
        saved = None if scope.model is None else scope.models.input_cost(scope.model, totals.tokens_saved)
        return replace(totals, cost_saved=saved)

    def ledger(self, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the steps behind `after` in order, at most `limit`; None means all. Calls by code stand before their code's step.

        Raises:
            ConfigurationError: `after` is not a step, or `limit` is not a valid number.
        """
        page = _steps(after, limit)
        row = self._scope.row

        def work(connection: Connection) -> list[Entry]:
            steps = ledger.entries(connection, row, **page)
            replies = [entry.step for entry in steps if "calls" in entry.detail]
            calls = journal.of_steps(connection, row, replies) if replies else {}
            return [one for entry in steps for one in (*calls.get(entry.step, ()), entry)]

        return self._scope.read(work)

    def explain(self, call_id_or_step: str | int) -> Explanation:
        """Return why an output took its route: the output of a step, or the newest one with a call id.

        Raises:
            ConfigurationError: there is no such output or reply.
        """
        if type(call_id_or_step) not in (str, int):
            raise ConfigurationError(f"explain({shown(call_id_or_step)}): expected a call id or the number of a step")
        found = self._scope.read(lambda connection: ledger.entry(connection, self._scope.row, call_id_or_step))
        if found is None or found.kind not in ("output", "reply"):
            raise ConfigurationError(f"no output or reply {shown(call_id_or_step)} in session {self.id!r}")
        return explain.explanation(found)

    def history(self, *, after: int = 0, limit: int | None = None) -> list[HistoryEntry]:
        """Return each tool result in order, as it arrived (by reference) and as the model read it.

        A page has at most `limit` results, beginning behind the step `after`; None means all.

        Raises:
            ConfigurationError: `after` is not a step, or `limit` is not a valid number.
        """
        scope, page = self._scope, _steps(after, limit)

        def work(connection: Connection) -> list[HistoryEntry]:
            steps = ledger.entries(connection, scope.row, **page, outputs=True)
            rows = [row for entry in steps for row in replay.artifact_rows(entry)]
            kept = store.by_row_ids(connection, scope.source, scope.row, rows)
            return [
                HistoryEntry(
                    step=entry.step,
                    tool=entry.tool or "",
                    call_id=entry.call_id,
                    arguments=entry.arguments,
                    original=replay.original_of(entry, kept),
                    processed=replay.content_of(entry),
                )
                for entry in steps
            ]

        return scope.read(work)

    def reminder(self, *, max_tokens: int = reminder.TOKENS) -> str:
        """Return a text for the model after a compaction: names and shapes of the existing data, newest first, bounded.

        Raises:
            ConfigurationError: `max_tokens` is not an integer of at least 50.
        """
        return reminder.reminder(self._scope, max_tokens)

    # Data

    def variables(self, *, after: str | None = None, limit: int | None = None) -> list[Variable]:
        """Return the session's variables in the order in which they were first bound.

        A page has at most `limit` variables, beginning behind `after`. It has fewer if data of some has expired; the end of the
        list is an empty page.

        Raises:
            ConfigurationError: there is no variable `after` (any more), or `limit` is not a valid number.
        """
        scope, most = self._scope, check_limit(limit)
        name = None if after is None else _text("after", after).removeprefix("$")
        found = scope.read(lambda c: variables.all_of(c, scope.source, scope.row, after=name, limit=most))
        if found is None:
            raise ConfigurationError(f"after={shown(after)}: no variable of session {self.id!r}, or none any more")
        return found

    def variable(self, name: str) -> Variable:
        """Return a variable by its name, with or without `$`, or by its alias `var_step_N`.

        Raises:
            ConfigurationError: nothing is bound to the name.
        """
        scope, name = self._scope, _text("name", name)
        found = scope.read(lambda connection: variables.find(connection, scope.source, scope.row, [name]))
        if name not in found:
            gone = scope.read(lambda connection: tombstones.find(connection, scope.row, [name]))
            if gone:
                raise ConfigurationError(gone[name].message(name))
            names = scope.read(lambda connection: variables.newest_names(connection, scope.row, NAMED))
            raise ConfigurationError(f"no variable {shown(name)} in session {self.id!r}; the newest are {names}")
        found[name].artifact.use()
        return found[name]

    def artifacts(self, *, after: str | None = None, limit: int | None = None) -> list[Artifact]:
        """Return the session's artifacts, oldest first, each once.

        A page has at most `limit` artifacts, beginning behind the one with the id or pointer `after`; the last page has fewer.

        Raises:
            ConfigurationError: there is no artifact `after` (any more), or `limit` is not a valid number.
        """
        scope, most = self._scope, check_limit(limit)
        id_ = None if after is None else _text("after", after)
        found = scope.read(lambda c: store.all_of(c, scope.source, scope.row, after=id_, limit=most))
        if found is None:
            raise ConfigurationError(f"after={shown(after)}: no artifact of session {self.id!r}, or none any more")
        return found

    def get_artifact(self, id_pointer_or_name: str) -> Artifact | None:
        """Return an artifact by id (`art_…`), pointer (`art:…`) or name, the newest of that name; None if there is none."""
        scope, key = self._scope, _text("id_pointer_or_name", id_pointer_or_name)
        found = scope.read(lambda connection: store.find(connection, scope.source, scope.row, key))
        if found is not None:
            found.use()
        return found

    def store_artifact(
        self,
        value: object,
        *,
        name: str | None = None,
        content_type: str | None = None,
        preview_chars: int = store.PREVIEW_CHARS,
    ) -> Artifact:
        """Store a value of your own as an artifact: text, bytes, JSON, or a stream of text or bytes.

        Raises:
            QuotaExceeded: it is larger than the policy's `max_artifact_bytes`, or with it the session or the tenant would have
                more stored than `max_session_bytes` or `max_tenant_bytes`.
            ConfigurationError: the name or content type is unusable.
        """
        scope = self._scope
        storage.check(name, content_type, preview_chars)
        value = ingested.of_host(scope, value, content_type)
        with ingested.settled(scope, value) as used:
            staged, about = storage.store_value(
                scope, value, name=name, content_type=content_type, preview_chars=preview_chars
            )

            def work(connection: Connection) -> str:
                ledger.lock(connection, scope.row)
                return storage.insert_value(connection, scope, staged, about, name=name, origin="host", step=None)

            public_id = scope.write(work)
            found = self.get_artifact(public_id)
            if found is None:
                raise ByrefError(f"the artifact {public_id!r} was deleted while it was stored")
            used.add(found.payload.blob_id)
        return found

    def share(self, artifact: Artifact | str, with_: str) -> Artifact:
        """Give another session of the same tenant an artifact of this one's, without a copy of the bytes.

        Returns the other session's artifact, under an id of its own.

        Raises:
            ConfigurationError: there is no such artifact here, or no such session.
            InvalidId: `with_` is no id that a session can have.
            QuotaExceeded: the other session or the tenant would have more stored than this handle's policy allows.
        """
        return lifecycle.share(self._scope, self._own(artifact), with_)

    def keep(self, artifact: Artifact | str) -> Artifact:
        """Mark an artifact so that it does not expire and `end` does not delete it: handles on the ended session still read it.

        It is deleted with the session or the tenant, and counts for the quotas until then.

        Raises:
            ConfigurationError: there is no such artifact here.
            SessionGone: the conversation has ended or was deleted.
        """
        found = self._own(artifact)
        kept = self._scope.write(lambda connection: lifecycle.keep(connection, self._scope.row, found.row_id))
        if not kept:
            raise ConfigurationError(f"the artifact {found.id!r} expired before it was kept")
        return self._own(found)

    def export(self, artifact: Artifact | str, target: str | os.PathLike[str] | IO[bytes]) -> int:
        """Write an artifact's bytes, as they are stored, to a path or an open binary file; return their number.

        The artifact is read frame by frame, so it is never all in memory. A path gets the whole file or nothing: a file that
        was there before is replaced at the end.

        Raises:
            ConfigurationError: there is no such artifact here, or bytes cannot be written to the target.
            ArtifactMissing: its bytes are damaged, or were deleted meanwhile.
            OSError: the file cannot be written.
        """
        return export.export(self._own(artifact), target)

    def delete_artifact(self, artifact: Artifact | str) -> bool:
        """Delete an artifact and the variables that are bound to it; return False if there is none.

        Only the text that the model has read stays. Its bytes are deleted with the tenant's last artifact that has them.

        Raises:
            StorageFailure: the database failed.
        """
        scope = self._scope
        found = self.get_artifact(artifact.id if isinstance(artifact, Artifact) else _text("artifact", artifact))
        if found is None:
            return False
        gone = scope.write(lambda connection: lifecycle.delete_artifact(connection, scope.row, found.row_id))
        if scope.host is None:
            clearing.drain(scope.write)
            discards.try_to_empty(scope.database.write, scope.objects)
        return gone

    def _own(self, artifact: Artifact | str) -> Artifact:
        """The session's own artifact: one that is given may be another session's, or another tenant's."""
        key = artifact.id if isinstance(artifact, Artifact) else _text("artifact", artifact)
        found = self.get_artifact(key)
        if found is None:
            raise ConfigurationError(f"no artifact {shown(key)} in session {self.id!r}")
        return found

    # The end

    def end(self) -> None:
        """End the conversation: delete its variables, and its artifacts without `keep`; the ledger stays, later writes fail.

        Raises:
            StorageFailure: the database failed.
        """
        scope = self._scope

        def work(connection: Connection) -> None:
            lifecycle.end(connection, scope.row)
            if scope.host is not None:
                clearing.clear_within(connection, scope.row)

        scope.write(work)
        if scope.host is None:
            clearing.clear_session(scope.write, scope.row)
            discards.try_to_empty(scope.database.write, scope.objects)

    def close(self) -> None:
        """Release the handle; the conversation is not changed."""


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}={shown(value)}: expected a string")
    return str.__str__(value)  # whatever a subclass makes of itself


def _steps(after: object, limit: object) -> dict[str, Any]:
    """A page of steps."""
    if not is_count(after):
        raise ConfigurationError(f"after={shown(after)}: expected the number of a step, 0 for the first page")
    return {"after": after, "limit": check_limit(limit)}


def _call_id(value: object) -> str | None:
    """Host call ids are whatever a model or provider made up; an empty one is none."""
    return None if value is None or value == "" else _text("call_id", value)
