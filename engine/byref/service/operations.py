"""The operations of the service. Routes, OpenAPI and the table in docs/service.md are made of `OPERATIONS`.

An operation is a coroutine function. Its first parameter is the place that the path names; the second, a `Given`, is what the
request says: its JSON body, or its query if it has no JSON body. An operation with a third parameter takes the body as a
stream of bytes. What it returns is the reply.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, get_origin

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from byref.aio import AsyncEngine, AsyncSession
from byref.artifacts import store
from byref.artifacts.variables import Variable, written
from byref.calling.journal import UnderWay
from byref.content.values import decoded
from byref.conversation import listing, result
from byref.errors import ConfigurationError
from byref.service import events, records, transfers
from byref.service.auth import Grant, Right
from byref.service.problems import Problem, not_found
from byref.service.records import Page, artifact, page, record
from byref.service.remote import Remote
from byref.session import HistoryEntry

MAX_PARSED_BYTES = 64 << 10
"""A larger JSON value is parsed on a thread, so that other requests need not wait for it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the path of a request names, for the client that sent it."""

    engine: AsyncEngine
    grant: Grant
    names: dict[str, str]
    request: Request
    stopping: asyncio.Event
    """Set when the service ends: what lasts has to end, too."""
    remote: Remote
    """Calls that clients answer."""
    news: events.News
    _opened: list[AsyncSession] = field(default_factory=list)

    @property
    def tenant(self) -> str:
        """Whose data it is."""
        return self.grant.tenant

    @property
    def session(self) -> AsyncSession:
        """The session that the path names."""
        return self._opened[0]

    async def open(self, *, create: bool = False, **about: Any) -> AsyncSession:
        """Open the session that the path names.

        Raises:
            UnknownSession: the tenant has no such session, and `create` is False.
        """
        opened = await self.engine.session(self.names["session"], tenant=self.tenant, create=create, **about)
        self._opened[:] = [opened]
        return opened

    async def artifact(self) -> store.Artifact:
        """Return the artifact that the path names; a Problem if the session has none of this id, pointer or name."""
        found = await self.session.get_artifact(self.names["artifact"])
        if found is None:
            raise not_found(f"no artifact {self.names['artifact'][:100]!r} in session {self.session.id!r}")
        return found

    async def readable(self) -> store.Artifact:
        """As `artifact`, but of a value that code left with its types alone, its JSON."""
        return await asyncio.to_thread(getattr, await self.artifact(), "readable")

    async def variable(self) -> Variable:
        """Return the variable that the path names; a Problem if nothing is bound to the name."""
        try:
            return await self.session.variable(self.names["variable"])
        except ConfigurationError as error:
            raise not_found(str(error)) from error


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that clients can have done."""

    name: str
    method: str
    path: str
    """Below `/v1`; a part in braces is a name, percent-encoded."""
    right: Right
    summary: str
    given: type[records.Given]
    reply: Any
    """The type of the reply's JSON; None: it has no body; Response: it is no JSON."""
    takes_stream: bool
    opens: bool
    """The session that the path names has to exist."""
    with_functions: bool
    """The functions of the session's client are needed."""
    work: Callable[..., Awaitable[Any]]

    @property
    def takes_json(self) -> bool:
        """Whether the request has a JSON body."""
        return self.method in ("POST", "PUT") and not self.takes_stream and self.given is not records.Nothing


OPERATIONS: list[Operation] = []


def operation(
    method: str, path: str, right: Right, *, opens: bool = True, with_functions: bool = False
) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]:
    """Enter a coroutine function in the table of operations."""

    def enter(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        signature = inspect.signature(work, eval_str=True)
        parameters = [one.annotation for one in signature.parameters.values()]
        OPERATIONS.append(
            Operation(
                name=work.__name__,
                method=method,
                path=path,
                right=right,
                summary=" ".join((work.__doc__ or "").split()),
                given=parameters[1] if len(parameters) > 1 else records.Nothing,
                reply=signature.return_annotation,
                takes_stream=len(parameters) > 2,
                opens=opens and "{session}" in path,
                with_functions=with_functions,
                work=work,
            )
        )
        return work

    return enter


# Sessions


@operation("GET", "/sessions", "read")
async def list_sessions(at: Place, given: records.Names) -> Page[records.SessionInfo]:
    """List the tenant's conversations, oldest first, with their stored bytes, tokens and costs."""
    found = await at.engine.sessions(at.tenant, after=given.after, limit=given.limit)
    items = [record(one, records.SessionInfo) for one in found]
    return page(items, given.limit, items[-1].id if items else None)


@operation("PUT", "/sessions/{session}", "chat", opens=False)
async def open_session(at: Place, given: records.Open) -> records.Opened:
    """Open a conversation, or create it."""
    functions = (
        await asyncio.to_thread(at.remote.functions, at.tenant, at.names["session"])
        if given.functions is None
        else at.remote.made(given.functions)
    )
    about: dict[str, Any] = {"model": given.model, "context_window": given.context_window, "tools": given.tools}
    session = await at.open(create=True, functions=functions, **about)
    if given.functions is not None:
        await at.remote.declare(at.tenant, session.id, given.functions)
    definitions = await session.tools("mcp")
    return records.Opened(
        id=session.id,
        context_window=session.context_window,
        context_tokens=await session.context_tokens(),
        tools=[one["name"] for one in definitions],
    )


@operation("GET", "/sessions/{session}", "read")
async def show_session(at: Place) -> records.SessionInfo:
    """Return a conversation with its stored bytes, tokens and costs."""
    database, name = at.engine.database, at.session.id
    found = await asyncio.to_thread(database.read, lambda c: listing.sessions(c, at.tenant, name))
    if not found:
        raise not_found(f"there is no session {name!r} any more")
    return record(found[0], records.SessionInfo)


@operation("POST", "/sessions/{session}/end", "chat")
async def end_session(at: Place) -> None:
    """End a conversation: its data goes but for what is kept, its ledger stays, and it takes no more output."""
    await at.session.end()


@operation("DELETE", "/sessions/{session}", "admin")
async def delete_session(at: Place) -> None:
    """Delete a conversation with its ledger, its artifacts and their bytes."""
    await at.engine.delete_session(at.session.id, tenant=at.tenant)


# What tools return


@operation("POST", "/sessions/{session}/process", "chat", with_functions=True)
async def process(at: Place, given: records.Process) -> records.Result:
    """Process an output of a tool. The same output under the same `call_id` has the first answer."""
    raw = bytes(given.output)
    if len(raw) > MAX_PARSED_BYTES:
        output = await asyncio.to_thread(decoded, raw)
    else:
        output = decoded(raw)
    done = await at.session.process(
        output, tool=given.tool, call_id=given.call_id, arguments=given.arguments, is_error=given.is_error
    )
    return _result(done, given.format, given.call_id)


@operation("POST", "/sessions/{session}/outputs", "chat", with_functions=True)
async def upload_output(at: Place, given: records.Upload, body: AsyncIterator[bytes]) -> records.Result:
    """Process an output of any size, which is the body of the request, in bounded memory."""
    done = await at.session.process(
        body,
        tool=given.tool,
        call_id=given.call_id,
        arguments=given.arguments,
        is_error=given.is_error,
    )
    return _result(done, given.format, given.call_id)


@operation("POST", "/sessions/{session}/resolve", "chat")
async def resolve(at: Place, given: records.Resolve) -> records.Resolved:
    """Return another tool's arguments with references replaced by their data. The problem `tool-error` is text for the model."""
    about: dict[str, Any] = {"tool": given.tool, "call_id": given.call_id}
    return records.Resolved(arguments=await at.session.resolve(given.arguments, given.schema, **about))


# The session's own tools


@operation("GET", "/sessions/{session}/tools", "read", with_functions=True)
async def list_tools(at: Place, given: records.InFormat) -> records.Tools:
    """Return the definitions of the session's own tools."""
    return records.Tools(tools=await at.session.tools(given.format))


@operation("POST", "/sessions/{session}/call", "chat", with_functions=True)
async def call(at: Place, given: records.Call) -> records.Reply:
    """Answer a call of one of the session's own tools. A mistake of the model's is a reply with `is_error`, not a problem."""
    done = await at.session.call(given.name, given.arguments, call_id=given.call_id)
    return _reply(done, given.format, given.call_id)


@operation("GET", "/sessions/{session}/pending", "read")
async def list_pending(at: Place) -> list[records.Pending]:
    """List the calls by the session's code that wait for approval, oldest first."""
    return [record(one, records.Pending) for one in await at.session.pending()]


@operation("POST", "/sessions/{session}/resume", "chat", with_functions=True)
async def resume(at: Place, given: records.Resume) -> records.Reply:
    """Decide about calls that wait for approval, and go on with the code that made them."""
    done = await at.session.resume(given.call_id, given.decisions)
    return _reply(done, given.format, given.call_id)


@operation("POST", "/sessions/{session}/run", "chat", with_functions=True)
async def run(at: Place, given: records.Run) -> records.Outcome:
    """Run code of the host's own over the session's variables."""
    try:
        done = await at.session.run(given.code)
    except UnderWay as error:
        raise Problem(410, "session-gone", "the session ended or was deleted while its code ran") from error
    value = None if done.is_partial else msgspec.Raw(done.json)
    return record(done, records.Outcome, value=value, text=done.text)


@operation("POST", "/sessions/{session}/reset", "chat")
async def reset(at: Place) -> None:
    """Forget the names that code has bound; variables of outputs stay."""
    await at.session.reset()


# Functions of clients


@operation("POST", "/calls/take", "chat")
async def take_calls(at: Place, given: records.TakeCalls) -> list[records.RemoteCall]:
    """Return the calls by code that the client has to answer, oldest first, and wait for one if there is none."""
    return await at.remote.take(at.tenant, given)


@operation("POST", "/calls/{call}/answer", "chat")
async def answer_call(at: Place, given: records.CallAnswer) -> None:
    """Answer a call by code. The first answer holds; the same one again changes nothing."""
    await at.remote.answer(at.tenant, at.names["call"], given)


# Accounting


@operation("POST", "/sessions/{session}/usage", "chat")
async def record_usage(at: Place, given: records.Requested) -> None:
    """Record the usage of one request to a model; the same counts under the same `request_id` are recorded once."""
    await at.session.record_usage(
        given.usage, request_id=given.request_id, context=given.context, through=given.through
    )


@operation("GET", "/sessions/{session}/usage", "read")
async def show_usage(at: Place) -> records.Totals:
    """Return the sums over the session, its context and its window."""
    sums, context = await at.session.usage(), await at.session.context_tokens()
    return record(sums, records.Totals, context_tokens=context, context_window=at.session.context_window)


@operation("POST", "/sessions/{session}/compaction", "chat")
async def record_compaction(at: Place, given: records.Compaction) -> None:
    """Record that the host compacted the conversation to so many tokens."""
    await at.session.on_compaction(given.tokens)


@operation("GET", "/sessions/{session}/reminder", "read")
async def show_reminder(at: Place, given: records.Reminding) -> records.Reminder:
    """Return a text for the model after a compaction: names and shapes of the data that there is."""
    return records.Reminder(text=await at.session.reminder(max_tokens=given.max_tokens))


@operation("GET", "/sessions/{session}/explain", "read")
async def explain(at: Place, given: records.Which) -> records.Explanation:
    """Return why an output took its route; `step` or `call_id` says which."""
    which = given.step if given.step is not None else given.call_id
    if which is None or (given.step is not None and given.call_id is not None):
        raise Problem(422, "configuration-error", "expected either step or call_id")
    try:
        found = await at.session.explain(which)
    except ConfigurationError as error:
        raise not_found(str(error)) from error
    return record(found, records.Explanation, text=str(found))


@operation("GET", "/sessions/{session}/ledger", "read")
async def list_ledger(at: Place, given: records.Steps) -> Page[records.Entry]:
    """List the steps in order. Before a reply come the calls that its code made, which are no steps and are not counted."""
    found = await at.session.ledger(after=given.after, limit=given.limit)
    items = [record(one, records.Entry) for one in found]
    is_full = sum(one.kind != "call" for one in found) >= given.limit
    return Page(items, items[-1].step if is_full else None)


@operation("GET", "/sessions/{session}/history", "read")
async def list_history(at: Place, given: records.Steps) -> Page[records.HistoryEntry]:
    """List the results of tools in order, as they came and as the model read them."""
    found = await at.session.history(after=given.after, limit=given.limit)
    items = [record(one, records.HistoryEntry, original=_original(one)) for one in found]
    return page(items, given.limit, items[-1].step if items else None)


@operation("GET", "/sessions/{session}/events", "read")
async def follow_events(at: Place, given: records.Steps) -> Response:
    """Follow the session's new steps as server-sent events, from `Last-Event-ID` or `after` on."""
    return events.stream(at.session, at.request, at.tenant, after=given.after, news=at.news, stopping=at.stopping)


# Data


@operation("GET", "/sessions/{session}/variables", "read")
async def list_variables(at: Place, given: records.Names) -> Page[records.Variable]:
    """List the session's variables as they were first bound. A page may be shorter; the last one is empty."""
    found = await at.session.variables(after=given.after, limit=given.limit)
    return Page([_variable(one) for one in found], found[-1].name if found else None)


@operation("GET", "/sessions/{session}/variables/{variable}", "read")
async def show_variable(at: Place) -> records.Variable:
    """Return a variable by its name or its alias `var_step_N`."""
    return _variable(await at.variable())


@operation("GET", "/sessions/{session}/artifacts", "read")
async def list_artifacts(at: Place, given: records.Names) -> Page[records.Artifact]:
    """List the session's artifacts, oldest first."""
    items = [artifact(one) for one in await at.session.artifacts(after=given.after, limit=given.limit)]
    return page(items, given.limit, items[-1].id if items else None)


@operation("POST", "/sessions/{session}/artifacts", "chat")
async def store_artifact(at: Place, given: records.StoreArtifact, body: AsyncIterator[bytes]) -> records.Artifact:
    """Keep the body of the request, of any size, beside the outputs."""
    kind = at.request.headers.get("Content-Type")
    stored = await at.session.store_artifact(body, name=given.name, content_type=kind)
    return artifact(stored)


@operation("GET", "/sessions/{session}/artifacts/{artifact}", "read")
async def show_artifact(at: Place) -> records.Artifact:
    """Return an artifact's description; it is found by its id, its pointer or its name."""
    return artifact(await at.artifact())


@operation("GET", "/sessions/{session}/artifacts/{artifact}/content", "read")
async def download_artifact(at: Place) -> Response:
    """Return an artifact's bytes, or a range of them."""
    return await transfers.download(await at.readable(), at.request, at.tenant)


@operation("HEAD", "/sessions/{session}/artifacts/{artifact}/content", "read")
async def measure_artifact(at: Place) -> Response:
    """Return the headers of `download_artifact`, with the number of bytes and their `ETag`."""
    return await transfers.download(await at.readable(), at.request, at.tenant)


@operation("GET", "/sessions/{session}/artifacts/{artifact}/lines", "read")
async def read_lines(at: Place, given: records.Lines) -> records.LineRange:
    """Return some lines of an artifact's text."""
    return await asyncio.to_thread(transfers.lines, await at.readable(), given.start, given.limit)


@operation("POST", "/sessions/{session}/artifacts/{artifact}/keep", "chat")
async def keep_artifact(at: Place) -> records.Artifact:
    """Let an artifact neither expire nor go with the end of its session."""
    return artifact(await at.session.keep(await at.artifact()))


@operation("POST", "/sessions/{session}/artifacts/{artifact}/share", "chat")
async def share_artifact(at: Place, given: records.Share) -> records.Artifact:
    """Give another session of the tenant an artifact of this one's."""
    return artifact(await at.session.share(await at.artifact(), given.session))


@operation("DELETE", "/sessions/{session}/artifacts/{artifact}", "admin")
async def delete_artifact(at: Place) -> None:
    """Delete an artifact and the variables that are bound to it."""
    await at.session.delete_artifact(await at.artifact())


# The tenant


@operation("GET", "/pending", "read")
async def list_pending_runs(at: Place, given: records.Most) -> list[records.PendingRun]:
    """List the tenant's runs of code that wait for approvals, oldest first."""
    found = await at.engine.pending(at.tenant, limit=given.limit)
    return [record(one, records.PendingRun) for one in found]


@operation("GET", "/tools", "read")
async def list_new_tools(at: Place, given: records.InFormat) -> records.Tools:
    """Return the definitions of the tools of a new session."""
    return records.Tools(tools=await at.engine.tools(given.format))


@operation("GET", "/tools/{tool}/schema", "read")
async def show_tool_schema(at: Place) -> records.Schema:
    """Return the JSON Schema of what a tool has returned to the tenant so far."""
    return records.Schema(schema=await at.engine.tool_schema(at.names["tool"], tenant=at.tenant))


@operation("POST", "/sweep", "admin")
async def sweep(at: Place) -> records.Swept:
    """Delete what has expired, of all tenants, and what nothing needs."""
    return record(await at.engine.sweep(), records.Swept)


@operation("DELETE", "/tenant", "admin")
async def delete_tenant(at: Place) -> records.Deleted:
    """Delete all data of the tenant. Its tokens stay."""
    return records.Deleted(sessions=await at.engine.delete_tenant(at.tenant))


def is_response(operation: Operation) -> bool:
    """Tell whether an operation makes its response itself."""
    return get_origin(operation.reply) is None and operation.reply is Response


def _result(done: result.Result, format: result.Format | None, call_id: str | None) -> records.Result:
    return record(
        done,
        records.Result,
        artifacts=[artifact(one) for one in done.artifacts],
        variables=[_variable(one) for one in done.variables],
        message=None if format is None else done.message(format, call_id or ""),
    )


def _reply(done: result.ToolReply, format: result.Format | None, call_id: str | None) -> records.Reply:
    return record(done, records.Reply, message=None if format is None else done.message(format, call_id or ""))


def _variable(one: Variable) -> records.Variable:
    return record(one, records.Variable, path=written(one.path), artifact_id=one.artifact.id)


def _original(entry: HistoryEntry) -> Any:
    def told(one: Any) -> Any:
        return {"artifact": one.id} if isinstance(one, store.Artifact) else one

    original = entry.original
    return [told(one) for one in original] if isinstance(original, list) else told(original)
