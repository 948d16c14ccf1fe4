"""The ledger: one numbered step for each output, reply, usage, compaction and resolution of a session, append-only.

`take_step` locks the session's row until the transaction ends. So everything that is decided and written after it is atomic,
and parallel calls cannot pass the headroom gate together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any, TypedDict

import msgspec
from blake3 import blake3
from sqlalchemy import Connection, bindparam, func, insert, literal_column, select, text, union_all, update
from sqlalchemy.orm import aliased

from byref.accounting.calibration import Standing
from byref.content import text_of
from byref.db import sums
from byref.db.column_types import EscapedText
from byref.db.tables import (
    ENDS_TURN,
    EXPIRED_CALL,
    EXPIRED_CALL_CHARS,
    LedgerRow,
    SessionRow,
)
from byref.errors import SessionGone
from byref.policy.routes import Route
from byref.usage import Usage

ARGUMENT_CHARS = 16_384
"""Characters of a call's arguments that are kept; the rest is cut, because they are evidence, not data."""
CALL_ID_CHARS = 512
NANOS = 1_000_000_000
MAX_COST = 1_000_000
"""Largest cost of one request in US dollars that is kept: more is surely a mistake in the usage, and sums would not fit SQL's
integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Standing):
    """A step taken under the session's lock, and the context as it stood before it."""

    step: int
    bytes: sums.Bytes
    same: int | None = None
    """The step that recorded the output which `take_step` was asked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the ledger."""

    step: int
    kind: str
    """output, reply, usage, compaction or resolution; or call: of a function, by the code whose reply has the step"""
    tool: str | None
    call_id: str | None
    """The call's id; for usage, the request's id."""
    arguments: str | None
    """As the model wrote them; for a resolution, before its references were replaced."""
    route: str | None
    reason: str | None
    content: str | None
    """The text that the model read."""
    tokens: int
    """Tokens that the step added to the context, by our count; for usage and compaction, the context that they set."""
    original_tokens: int | None
    original_bytes: int | None
    is_error: bool
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost: Decimal | None
    """US dollars; None if the price is unknown, or the cost is above `MAX_COST`."""
    detail: Mapping[str, Any]
    """The numbers behind a decision, the usage as the provider gave it, or the values of references."""
    artifact_row: int | None
    at: datetime

    @property
    def tokens_saved(self) -> int:
        """Tokens that the model did not have to read."""
        return max(0, self.original_tokens - self.tokens) if self.original_tokens is not None else 0


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a session's usage; None for a number that no request reported."""

    requests: int
    """Usages that were recorded: the sum over several requests is one."""
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost: Decimal | None
    outputs: int
    original_tokens: int
    """Tokens of all outputs as they came, and of what functions returned to code, with its replies."""
    tokens: int
    """Tokens of the same as the model read them."""
    tokens_saved: int
    cost_saved: Decimal | None = None
    """US dollars that reading `tokens_saved` once, as uncached input of the session's model, would have cost; None if its
    price is unknown."""


@dataclass(frozen=True, slots=True)
class Given:
    """The steps at which an output with the same content came before."""

    first: int | None = None
    """The first such step, whatever its tool and call id."""
    seen: int | None = None
    """The first such step whose text the context still holds, because no compaction was recorded since."""


NEVER = Given()


class Recorded(Exception):
    """Raised if the step is already in the ledger; nothing was written."""


_CONTEXT = (
    SessionRow.context_base,
    SessionRow.base_output_tokens,
    SessionRow.pending_tokens,
    SessionRow.calibration_reported,
    SessionRow.calibration_estimated,
)
_OPEN = SessionRow.id == bindparam("of_session"), SessionRow.ended_at.is_(None), ~SessionRow.is_deleted
_SETTLED = (*(column.key for column in _CONTEXT), "pending_after")
# Built once, because building a statement takes longer than running it.
_TAKE_STEP = (
    update(SessionRow)
    .where(*_OPEN)
    .values(next_step=SessionRow.next_step + 1, pending_tokens=SessionRow.pending_tokens + bindparam("tokens"))
    .returning(SessionRow.next_step - 1, SessionRow.totals_through, *_CONTEXT, *sums.BYTES)
)
_SEEN_SESSION = aliased(SessionRow)
_LOCK = update(SessionRow).where(*_OPEN).values(next_step=SessionRow.next_step).returning(SessionRow.next_step - 1)
_RESERVE = (
    update(SessionRow)
    .where(SessionRow.id == bindparam("of_session"))
    .values(pending_tokens=SessionRow.pending_tokens + bindparam("tokens"))
)
_SEE = select(SessionRow.id).where(*_OPEN)
_READ_CONTEXT = select(*_CONTEXT).where(SessionRow.id == bindparam("of_session"))
_APPEND = insert(LedgerRow).inline()  # nobody needs the row's id
_COLUMNS = tuple(column.name for column in LedgerRow.__table__.c if column.name != "id")
_RESERVE_AND_APPEND = (
    insert(LedgerRow).values({name: bindparam(f"new_{name}") for name in _COLUMNS}).add_cte(_RESERVE.cte("reserved"))
)
"""Both in one statement, which spares a round trip; PostgreSQL only, as SQLite has no UPDATE inside another statement."""
_SETTLE = (
    update(SessionRow)
    .where(SessionRow.id == bindparam("of_session"))
    .values({name: bindparam(f"new_{name}") for name in _SETTLED})
)
_COUNTS = "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"
_REQUESTS = select(LedgerRow.call_digest, *(getattr(LedgerRow, name) for name in _COUNTS)).where(
    LedgerRow.session_id == bindparam("of_session"),
    LedgerRow.kind == "usage",
    LedgerRow.call_digest.in_((bindparam("request"), bindparam("other"))),
)


def _last(kind: str) -> Any:
    """Select the last step of a kind that has ended a turn; 0 if there is none."""
    of_kind = LedgerRow.session_id == bindparam("of_session"), text(ENDS_TURN), text(f"kind = '{kind}'")
    last = select(LedgerRow.step).where(*of_kind, ~LedgerRow.in_turn).order_by(LedgerRow.step.desc()).limit(1)
    return func.coalesce(last.scalar_subquery(), 0)


IN_TURN = LedgerRow.step > _last("usage"), LedgerRow.step > _last("compaction")
"""Conditions: the step is after the last usage, but that of side calls, and the last compaction of the session `of_session`."""
_ENTRIES: Any = select(  # SQLAlchemy 2.0 and 2.1 spell the type of a query differently
    *(column for column in LedgerRow.__table__.c if column.name not in ("id", "tenant", "session_id"))
).where(LedgerRow.session_id == bindparam("of_session"))
_OUTPUT = (
    text("kind = 'output'"),  # the same text as in the partial index, or it is not used
    LedgerRow.call_digest == bindparam("call"),
    LedgerRow.content_digest == bindparam("content"),
)
_OUTPUT_BEFORE = _ENTRIES.where(*_OUTPUT)
_SAME = select(LedgerRow.step).where(LedgerRow.session_id == bindparam("of_session"), *_OUTPUT)
_SEEN_STEP = {
    "sqlite": SessionRow.next_step - 1,
    "postgresql": select(_SEEN_SESSION.next_step).where(_SEEN_SESSION.id == bindparam("of_session")).scalar_subquery(),
}
"""The next step as the statement that takes it sees it. On PostgreSQL it may have waited for the lock, and look at a moment
before that."""
_TAKE_STEP_AND_LOOK = {
    dialect: _TAKE_STEP.returning(seen.label("seen"), _SAME.scalar_subquery().label("same"))
    for dialect, seen in _SEEN_STEP.items()
}


def _first(*routes: Route, after: Any = 0) -> Any:
    """Select the first step at which an output with this content took one of the routes.

    The same content may have been given any number of times, so each route is one look-up in the index. The look-up is
    written once, for a list of the routes: PostgreSQL takes 3 ms to plan one for each of nine, whether or not any finds a
    row.
    """
    each = union_all(*(select(literal_column(f"'{route}'").label("route")) for route in routes)).subquery("routes")
    same = LedgerRow.session_id == bindparam("of_session"), LedgerRow.content_digest == bindparam("content")
    given = select(func.min(LedgerRow.step)).where(*same, LedgerRow.route == each.c.route, LedgerRow.step > after)
    return select(func.min(given.scalar_subquery().correlate(each))).select_from(each).scalar_subquery()


_GIVEN = _first(*Route)
_SEEN = _first(*(route for route in Route if route.shows_text), after=_last("compaction"))
_GIVEN_AND_SEEN = select(_GIVEN.label("first"), _SEEN.label("seen"))
BEFORE = SessionRow.next_step, *_CONTEXT
"""Columns: the state of the session `of_session` before an output takes a step."""
ANY_STEP = (
    select(LedgerRow.step)
    .where(LedgerRow.session_id == bindparam("of_session"), LedgerRow.content_digest == bindparam("content"))
    .limit(1)
    .scalar_subquery()
    .label("came")
)
"""Column: some step of that session with the content `content`, or NULL."""
CAME = (
    select(LedgerRow.step)
    .where(LedgerRow.session_id == bindparam("of_session"), *_OUTPUT)
    .scalar_subquery()
    .label("same"),
    _GIVEN.label("first"),
    _SEEN.label("seen"),
)
"""Columns: the steps at which that session got the output `content` of the call `call`, or the same content, before."""
_REPLY_BEFORE = _ENTRIES.where(
    LedgerRow.kind == "reply",
    LedgerRow.route.is_(None),
    LedgerRow.call_digest == bindparam("call"),
    LedgerRow.content_digest == bindparam("content"),
    *IN_TURN,
)
_OF_CALL = (
    _ENTRIES.where(LedgerRow.call_digest == bindparam("call"), LedgerRow.kind.in_(("output", "reply")))
    .order_by(LedgerRow.step.desc())
    .limit(1)
)
_EXPIRED = (
    _ENTRIES.where(
        LedgerRow.call_digest.is_(None),
        LedgerRow.call_id == bindparam("call"),
        LedgerRow.kind.in_(("output", "reply")),
    )
    .order_by(LedgerRow.step.desc())
    .limit(1)
)
_EXPIRED_SHORT = _EXPIRED.where(text(EXPIRED_CALL))
_OF_STEP = _ENTRIES.where(LedgerRow.step == bindparam("number"))
_FORGET = (
    update(LedgerRow)
    .where(LedgerRow.session_id == bindparam("of_session"), LedgerRow.step == bindparam("number"))
    .values(call_digest=None)
)


def digest(text: str) -> bytes:
    """Return the digest by which a host's call id or request id is found."""
    return bytes(blake3(text.encode("utf-8", "surrogatepass")).digest())


def take_step(
    connection: Connection, session_row: int, pending: int = 0, *, output: tuple[bytes, bytes] | None = None
) -> Turn:
    """Lock the session, take its next step and add `pending` tokens to its context; SessionGone if it has ended.

    With the digests of an output's call and content as `output`, also look for the step that recorded it before.
    """
    about: dict[str, Any] = {"of_session": session_row, "tokens": pending}
    if output is None:
        row = connection.execute(_TAKE_STEP, about).one_or_none()
    else:
        about |= {"call": output[0], "content": output[1]}
        row = connection.execute(_TAKE_STEP_AND_LOOK[connection.dialect.name], about).one_or_none()
    if row is None:
        raise SessionGone
    step, through, base, base_output, pending_now, reported, estimated, *more = row
    kept, looked, same = more[: len(sums.BYTES)], more[len(sums.BYTES) :], None
    if output is not None:
        seen, same = looked
        if seen != step:  # others took steps while this statement waited for the lock, and it saw none of theirs
            same = connection.execute(_SAME, about).scalar_one_or_none()
    # Sums of the ledger are kept every so many steps, so that `totals` reads only the steps since.
    if step - through > sums.EVERY:
        sums.keep(connection, session_row, step - 1)
    return Turn(
        step=step,
        base=base,
        base_output=base_output,
        pending=pending_now - pending,  # as it was before this step: RETURNING gives the new value
        reported=reported,
        estimated=estimated,
        bytes=sums.Bytes(*kept),
        same=same,
    )


def see_that_it_is_open(connection: Connection, session_row: int) -> None:
    """Raise SessionGone if the session has ended, without a lock."""
    if connection.execute(_SEE, {"of_session": session_row}).scalar() is None:
        raise SessionGone


def lock(connection: Connection, session_row: int) -> int:
    """Lock the session without taking a step and return its last one; SessionGone if it has ended."""
    step = connection.execute(_LOCK, {"of_session": session_row}).scalar_one_or_none()
    if step is None:
        raise SessionGone
    return int(step)


def standing(connection: Connection, session_row: int) -> Standing:
    """Return the session's context without locking it; an empty one if the session is gone."""
    row = connection.execute(_READ_CONTEXT, {"of_session": session_row}).one_or_none()
    base, output, pending, reported, estimated = (0, None, 0, 1, 1) if row is None else row
    return Standing(base=base, base_output=output, pending=pending, reported=reported, estimated=estimated)


def append(
    connection: Connection, *, tenant: str, session_row: int, step: int, kind: str, pending: int = 0, **columns: Any
) -> None:
    """Insert one step, and add `pending` tokens, by our count, to the session's context."""
    about = {"tenant": tenant, "session_id": session_row, "step": step, "kind": kind, "created_at": datetime.now(UTC)}
    row, reserved = about | stored(columns), {"of_session": session_row, "tokens": pending}
    if pending and connection.dialect.name == "postgresql":
        connection.execute(_RESERVE_AND_APPEND, reserved | {f"new_{name}": row.get(name) for name in _COLUMNS})
        return
    if pending:
        connection.execute(_RESERVE, reserved)
    connection.execute(_APPEND, row)


def stored(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a step as they are stored."""
    return {"is_error": False, "in_turn": False, **columns, "detail": dump(columns.get("detail", {}))}


def given_before(
    connection: Connection, session_row: int, kind: str, call_digest: bytes, content_digest: bytes
) -> Entry | None:
    """Return the step that recorded the same content under the same call id; a reply only within the current turn.

    Providers reuse call ids (`call_0` in every turn), and a later call with the same id may have another answer; a turn ends
    with the next recorded usage, but that of side calls, or compaction. An output is known by its content, so it is the same
    at any time.
    """
    query = _REPLY_BEFORE if kind == "reply" else _OUTPUT_BEFORE
    about = {"of_session": session_row, "call": call_digest, "content": content_digest}
    row = connection.execute(query, about).one_or_none()
    return None if row is None else _entry(row)


def forget_call(connection: Connection, session_row: int, step: int) -> None:
    """Let the same content under an output's call id be another output, under the session's lock."""
    connection.execute(_FORGET, {"of_session": session_row, "number": step})


def given(connection: Connection, session_row: int, content_digest: bytes) -> Given:
    """Return the steps at which an output had this content before."""
    found = connection.execute(_GIVEN_AND_SEEN, {"of_session": session_row, "content": content_digest}).one()
    return Given(*found) if found.first is not None else NEVER


def record_usage(
    connection: Connection,
    *,
    tenant: str,
    session_row: int,
    usage: Usage,
    request_id: str | None,
    sets_context: bool,
    through: int | None,
    cost: Decimal | None,
) -> int:
    """Record one request's usage and return its step; `Recorded` if that request was recorded before, with the same counts.

    A request that does not set the context is another's than the conversation's model's, as that of a title or of code. It does not
    end the model's turn, in which a call may still be repeated.
    """
    # The lock comes first: only under it can two reports of one request at the same moment see each other. `Recorded` rolls
    # the step back.
    turn = take_step(connection, session_row)
    request = _new_request(connection, session_row, request_id, usage) if request_id else None
    known = usage.context_tokens
    detail: dict[str, Any] = {"sets_context": sets_context and known is not None, "usage": usage.raw}
    if detail["sets_context"]:
        detail["through"] = turn.step if through is None else min(through, turn.step)
        detail |= _set_context(connection, session_row, turn, usage, detail["through"])
    append(
        connection,
        tenant=tenant,
        session_row=session_row,
        step=turn.step,
        kind="usage",
        call_id=request_id[:CALL_ID_CHARS] if request_id else None,
        call_digest=request,
        tokens=known or 0,
        model=usage.model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_nanos=None if cost is None or cost > MAX_COST else int(cost * NANOS),
        in_turn=not sets_context,
        detail=detail,
    )
    return turn.step


def _new_request(connection: Connection, session_row: int, request_id: str, usage: Usage) -> bytes:
    """Return the digest under which a request is recorded; `Recorded` if it is in the ledger.

    Some servers give several responses of a conversation one id. The first is found by its id, the others by id and counts.
    """
    request, counts = digest(request_id), tuple(getattr(usage, name) for name in _COUNTS)
    other = bytes(blake3(request + repr(counts).encode()).digest())
    rows = connection.execute(_REQUESTS, {"of_session": session_row, "request": request, "other": other})
    found = {row.call_digest: tuple(row)[1:] for row in rows}
    if counts in found.values():
        raise Recorded
    return other if request in found else request


def record_compaction(connection: Connection, *, tenant: str, session_row: int, tokens: int) -> int:
    """Record that the host compacted the context to `tokens`, and return the step."""
    turn = take_step(connection, session_row)
    _settle(
        connection,
        session_row,
        context_base=tokens,
        base_output_tokens=None,
        pending_after=turn.step,
        pending_tokens=0,
        calibration_reported=turn.reported,
        calibration_estimated=turn.estimated,
    )
    append(connection, tenant=tenant, session_row=session_row, step=turn.step, kind="compaction", tokens=tokens)
    return turn.step


def _set_context(connection: Connection, session_row: int, turn: Turn, usage: Usage, through: int) -> dict[str, Any]:
    """Set the context to a provider's count and learn from it; return what was learned, for the ledger.

    The request contained the steps up to `through`; later ones stay pending.
    """
    of = usage.context or usage
    pending, sent = 0, of.input_tokens or 0
    if through < turn.step:
        later = select(func.sum(LedgerRow.tokens)).where(
            LedgerRow.session_id == session_row,
            LedgerRow.step > through,
            LedgerRow.kind.in_(("output", "reply")),
        )
        pending = int(connection.execute(later).scalar() or 0)
    # `settled` is our count of what the request contained beyond the last known context; the provider's count of the same is about
    # `sent - base`. Their ratio is the calibration.
    settled = turn.pending - pending
    learned = (
        turn.learned(settled=settled, sent=sent) if of is usage else None
    )  # else it grew by the provider's own tools, too
    reported, estimated = learned or (turn.reported, turn.estimated)
    _settle(
        connection,
        session_row,
        context_base=usage.context_tokens,
        base_output_tokens=of.output_tokens,
        pending_after=through,
        pending_tokens=pending,
        calibration_reported=reported,
        calibration_estimated=estimated,
    )
    if learned is None:
        return {}
    return {"learned": {"counted": settled, "grown": sent - turn.base, "calibration": round(reported / estimated, 4)}}


def _settle(connection: Connection, session_row: int, **settled: int | None) -> None:
    """Set the columns from which the session's context is computed: all of `_SETTLED`."""
    connection.execute(_SETTLE, {"of_session": session_row} | {f"new_{name}": settled[name] for name in _SETTLED})


_PAGE = _ENTRIES.where(LedgerRow.step > bindparam("after")).order_by(LedgerRow.step)
_OUTPUTS = _PAGE.where(LedgerRow.kind == "output")
_PASSING = [route.value for route in Route if route.passes_whole]
_CALLS = select(LedgerRow.step, LedgerRow.tool, LedgerRow.arguments).where(
    LedgerRow.session_id == bindparam("of_session"),
    LedgerRow.step.in_(bindparam("steps", expanding=True)),
    LedgerRow.kind == "output",
    LedgerRow.route.in_(bindparam("routes", expanding=True)),
)


def entries(
    connection: Connection, session_row: int, *, after: int = 0, limit: int | None = None, outputs: bool = False
) -> list[Entry]:
    """Return at most `limit` steps after the step `after`, in order; only outputs if `outputs` is True."""
    query, page = _OUTPUTS if outputs else _PAGE, {"of_session": session_row, "after": after}
    return [_entry(row) for row in connection.execute(query.limit(limit), page).all()]


def entry(connection: Connection, session_row: int, key: str | int) -> Entry | None:
    """Return the step with that number, or the newest output or reply with that call id."""
    if isinstance(key, int):
        numbered = {"of_session": session_row, "number": max(0, min(key, 2**63 - 1))}
        row = connection.execute(_OF_STEP, numbered).one_or_none()
        return None if row is None else _entry(row)
    shown = key[:CALL_ID_CHARS]
    is_short = len(EscapedText().process_bind_param(shown, connection.dialect) or "") <= EXPIRED_CALL_CHARS
    rows = [connection.execute(_OF_CALL, {"of_session": session_row, "call": digest(key)}).one_or_none()]
    if shown == key:  # of a longer id that has expired too little is left to tell it from others
        expired = _EXPIRED_SHORT if is_short else _EXPIRED
        rows.append(connection.execute(expired, {"of_session": session_row, "call": shown}).one_or_none())
    return max((_entry(row) for row in rows if row is not None), key=attrgetter("step"), default=None)


def calls_that_passed(
    connection: Connection, session_row: int, steps: Collection[int]
) -> dict[int, tuple[str, str | None]]:
    """Return the tool and arguments of those of the steps, a few, whose outputs passed whole."""
    rows = connection.execute(_CALLS, {"of_session": session_row, "steps": list(steps), "routes": _PASSING}).all()
    return {row.step: (row.tool, row.arguments) for row in rows}


def totals(connection: Connection, session_row: int) -> Totals:
    """Return the session's sums without `cost_saved`, which needs the model's price."""
    found = sums.of_session(connection, session_row)
    given, made, cached, written, nanos = (found[name] for name in sums.USED)
    cost = None if nanos is None else Decimal(nanos) / NANOS
    original, read = found["original_tokens"], found["tokens"]
    saved = max(0, original - read)
    return Totals(found["requests"], given, made, cached, written, cost, found["outputs"], original, read, saved)


def dump(value: object) -> str:
    """Return any value as JSON text."""
    return text_of(value)


def cut_arguments(arguments: object) -> str | None:
    """Return a call's arguments as the model wrote them, cut at `ARGUMENT_CHARS`."""
    if arguments is None:
        return None
    text = arguments if isinstance(arguments, str) else dump(arguments)
    return text if len(text) <= ARGUMENT_CHARS else f"{text[:ARGUMENT_CHARS]}… ({len(text):,} characters)"


_AS_STORED = [one.name for one in fields(Entry) if one.name not in ("cost", "detail", "artifact_row", "at")]


_RowId = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Members(TypedDict, total=False):
    """The members of a detail by which something is done; all others are only shown."""

    stands: list[Annotated[list[_RowId], msgspec.Meta(min_length=1)]]
    artifacts: list[_RowId]
    beside: list[_RowId]
    variables: list[str]
    images: list[str]
    shown: str
    instructions: str
    sets_context: bool
    through: int
    value: float
    limit: float
    context: float
    window: float
    calibration: float


def detail_in(column: str) -> Mapping[str, Any]:
    """Return the detail of a step; of a damaged column none, and none of the members of a type that they never have."""
    try:
        detail = json.loads(column)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(detail, dict):
        return {}
    return detail if _is_sound(detail) else {key: each for key, each in detail.items() if _is_sound({key: each})}


def _is_sound(detail: dict[str, Any]) -> bool:
    try:
        msgspec.convert(detail, _Members)
    except msgspec.ValidationError:
        return False
    return True


def _entry(row: Any) -> Entry:
    return Entry(
        **{name: getattr(row, name) for name in _AS_STORED},
        cost=None if row.cost_nanos is None else Decimal(row.cost_nanos) / NANOS,
        detail=detail_in(row.detail),
        artifact_row=row.artifact_id,
        at=row.created_at,
    )
