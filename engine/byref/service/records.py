"""What goes over the wire: the bodies of requests and replies, as msgspec Structs, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from byref.artifacts import store
from byref.conversation.result import Format, sendable

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

MOST_ITEMS = 1_000
"""Items of one page."""
Limit = Annotated[int, Meta(ge=1, le=MOST_ITEMS, description="most items of the page")]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Step = Annotated[int, Meta(ge=0, le=2**63 - 1)]
After = Annotated[str, Meta(min_length=1, description="the last of the page before")]


class Given(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a request says, in its body or in its query."""


class Record(msgspec.Struct, kw_only=True):
    """What a reply says."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of a list."""

    items: list[T]
    next: str | int | None
    """`after` of the next page; null: this is the last."""


# Requests


class RemoteFunction(Given):
    """A function of the client's that model-written code may call. The fields are those of `byref.Function`."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema of the arguments, an object."""
    returns: dict[str, Any] | None = None
    """JSON Schema of the result."""
    approval: bool = False
    """Each call waits until `resume` decides."""
    repeatable: bool = False
    """A call that another worker has taken, and not answered for 30 seconds, may be given to the next one."""
    max_calls: Count | None = None
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """Seconds after which code gets a TimeoutError."""
    concurrency: Count = 16


class Open(Given):
    """With what a session is created. An existing one keeps what it was created with, but for its functions."""

    model: str | None = None
    context_window: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    tools: list[str] | None = None
    functions: list[RemoteFunction] | None = None
    """From now on its code may call these; null: those that it has."""


class TakeCalls(Given):
    """Which calls a client wants to answer."""

    worker: Annotated[str, Meta(min_length=1, max_length=200)]
    """Who it is: a call is given to one worker, who gets it again until it is answered."""
    session: str | None = None
    """Only calls of this session; null: of all of the tenant's."""
    known: Annotated[list[str], Meta(max_length=1_000)] = []
    """Calls at which the worker is already."""
    limit: Annotated[int, Meta(ge=1, le=100)] = 16
    wait_seconds: Annotated[float, Meta(ge=0, le=30)] = 20.0
    """How long the reply waits for a call."""


class CallError(Given):
    """What code sees as an exception."""

    message: str
    kind: str = "FunctionError"
    """The name of an exception of Python's, say ValueError."""


class CallAnswer(Given):
    """What a call has come to: its result, or its error."""

    result: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b""))
    """Any JSON."""
    error: CallError | None = None
    """Instead of a result."""
    worker: str | None = None
    """Who answers; null: whoever may."""


class Process(Given):
    """An output of a tool."""

    output: msgspec.Raw
    """Any JSON. A text is an output of text."""
    tool: str
    call_id: str | None = None
    arguments: Any = None
    is_error: bool = False
    format: Format | None = None
    """Adds `message`: the tool result in the form of this provider's API."""


class Upload(Given):
    """What is said of an output that is the body of the request."""

    tool: str
    call_id: str | None = None
    arguments: str | None = None
    is_error: bool = False
    format: Format | None = None


class Call(Given):
    """A call of one of the session's own tools."""

    name: str
    arguments: dict[str, Any] | str | None = None
    call_id: str | None = None
    format: Format | None = None


class Resume(Given):
    """Decisions about calls that wait for approval, by their ids: true, false, or other arguments."""

    call_id: str
    decisions: dict[str, bool | dict[str, Any]]
    format: Format | None = None


class Resolve(Given):
    """Another tool's arguments, as the model wrote them."""

    arguments: dict[str, Any] | str
    schema: dict[str, Any] | None = None
    tool: str | None = None
    call_id: str | None = None


class Run(Given):
    """Code of the host's own."""

    code: str


class Requested(Given):
    """The usage of one request to a model."""

    usage: Any
    """A provider's response, its usage, or the events of its stream."""
    request_id: str | None = None
    context: bool = True
    through: Step | None = None


class Compaction(Given):
    """How many tokens the conversation has now."""

    tokens: Step


class Share(Given):
    """The session of the same tenant that gets the artifact."""

    session: str


class StoreArtifact(Given):
    """What is said of an artifact whose bytes are the body of the request."""

    name: str | None = None


class InFormat(Given):
    """A provider's form of definitions of tools."""

    format: Format = "openai"


class Reminding(Given):
    """How long the reminder may be."""

    max_tokens: Annotated[int, Meta(ge=50, le=100_000)] = 500


class Which(Given):
    """An output or a reply: its step, or the id of its call."""

    step: Step | None = None
    call_id: str | None = None


class Steps(Given):
    """A page of steps."""

    after: Step = 0
    limit: Limit = 100


class Names(Given):
    """A page of things with ids or names."""

    after: After | None = None
    limit: Limit = 100


class Most(Given):
    """The first of a list."""

    limit: Limit = 100


class Lines(Given):
    """A range of lines, counted from 1."""

    start: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 1
    limit: Limit = 100


class Nothing(Given):
    """Nothing is said."""


# Replies


class Artifact(Record):
    """Stored data with its description."""

    id: str
    name: str | None
    kind: str
    content_type: str
    size_bytes: int
    line_count: int
    preview: str
    tokens: int
    shape: Any
    step: int | None
    stored_at: datetime
    expires_at: datetime | None
    is_kept: bool


class Variable(Record):
    """A name and the data to which it is bound."""

    name: str
    shape: str
    path: str
    """Where in the artifact it is; empty for all of it."""
    kind: str
    origin: str
    step: int | None
    revision: int
    artifact_id: str


class Result(Record):
    """What becomes of an output, and what the model reads of it."""

    content: Any
    text: str
    route: str
    reason: str
    step: int | None
    tokens: int
    original_tokens: int
    tokens_saved: int
    is_error: bool
    instructions: str | None
    envelope: Any
    artifacts: list[Artifact]
    variables: list[Variable]
    message: Any = None


class Pending(Record):
    """A call by code that waits for somebody's approval."""

    id: str
    function: str
    arguments: Any
    reason: str


class PendingRun(Record):
    """A run of code that waits for approvals."""

    session: str
    call_id: str
    calls: list[Pending]


class Reply(Record):
    """The answer of one of the session's own tools."""

    content: Any
    text: str
    is_error: bool
    step: int | None
    tokens: int
    pending: list[Pending]
    message: Any = None


class RemoteCall(Record):
    """A call by code of a client's function, for the client to answer."""

    id: str
    session: str
    call_id: str | None
    """Of the model's call in whose code it is."""
    function: str
    arguments: Any


class Resolved(Record):
    """Arguments with the data in the place of references."""

    arguments: Any


class Failure(Record):
    """Why code did not run to its end."""

    kind: str
    message: str
    line: int | None
    hint: str | None


class Cost(Record):
    """What a run cost."""

    wall_ms: float
    cpu_ms: float
    peak_bytes: int


class Outcome(Record):
    """What came of code: its value as JSON, and what it printed."""

    kind: str
    value: Any
    is_partial: bool
    """The value is too big to be held as objects: `value` is null and `text` a part of it."""
    text: str
    stdout: str
    stdout_dropped: int
    stderr: str
    error: Failure | None
    unkept: dict[str, str]
    missed: dict[str, str]
    usage: Cost


class SessionInfo(Record):
    """A conversation."""

    id: str
    model: str | None
    steps: int
    created_at: datetime
    ended_at: datetime | None
    stored_bytes: int
    input_tokens: int | None
    output_tokens: int | None
    tokens: int
    tokens_saved: int
    cost: Decimal | None


class Opened(Record):
    """A conversation that is open for work."""

    id: str
    context_window: int
    context_tokens: int
    tools: list[str]


class Totals(Record):
    """Sums of a session."""

    requests: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost: Decimal | None
    outputs: int
    original_tokens: int
    tokens: int
    tokens_saved: int
    cost_saved: Decimal | None
    context_tokens: int
    context_window: int


class Entry(Record):
    """A step of the ledger."""

    step: int
    kind: Literal["output", "reply", "usage", "compaction", "resolution", "call"] | str
    tool: str | None
    call_id: str | None
    arguments: str | None
    route: str | None
    reason: str | None
    content: str | None
    tokens: int
    original_tokens: int | None
    original_bytes: int | None
    tokens_saved: int
    is_error: bool
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost: Decimal | None
    detail: Any
    at: datetime


class Explanation(Record):
    """Why an output took its route."""

    text: str
    step: int
    tool: str
    call_id: str | None
    route: str
    reason: str
    numbers: Any
    original_tokens: int
    tokens: int
    tokens_saved: int


class HistoryEntry(Record):
    """A tool result in both its forms."""

    step: int
    tool: str
    call_id: str | None
    arguments: str | None
    original: Any
    """The content as it came, if the model read all of it; `{"artifact": id}` where it is stored; null: it is no longer there."""
    processed: Any


class Reminder(Record):
    """A text for the model after a compaction."""

    text: str


class Line(Record):
    """A line of an artifact's text."""

    number: int
    text: str
    is_cut: bool
    """Only its beginning is in `text`."""


class LineRange(Record):
    """Some lines."""

    lines: list[Line]
    next: int | None
    """The number of the next line; null: these are the last."""
    total: int


class Tools(Record):
    """Definitions of tools in a provider's form."""

    tools: list[Any]


class Schema(Record):
    """What is known of what a tool returns, as JSON Schema; null: nothing."""

    schema: Any


class Swept(Record):
    """How many things a sweep deleted."""

    artifacts: int
    blobs: int
    tombstones: int
    sessions: int
    objects: int
    held: int


class Deleted(Record):
    """How many sessions were deleted."""

    sessions: int


def record(of: object, kind: type[S], **further: Any) -> S:
    """Return a record with the attributes of an object of the library; `further` has those that the object lacks."""
    names = [name for name in kind.__struct_fields__ if name not in further]
    return kind(**{name: getattr(of, name) for name in names}, **further)


def artifact(of: store.Artifact) -> Artifact:
    """Return the record of an artifact."""
    return record(of, Artifact)


def page(items: Sequence[T], limit: int, key: str | int | None) -> Page[T]:
    """Return a page that ends at `key`; it is the last one if it is not full."""
    return Page(list(items), key if len(items) >= limit else None)


_encoder = msgspec.json.Encoder(decimal_format="string")


def encoded(value: object) -> bytes:
    """Return the JSON of a record. Lone surrogates, which no JSON in UTF-8 has, become U+FFFD."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):  # also integers that msgspec does not write
        plain = sendable(msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True))
        return json.dumps(plain, ensure_ascii=False, default=str).encode()
