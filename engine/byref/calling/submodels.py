"""Models that code asks about a part of its data: functions of the host whose answers are remembered and whose tokens are bounded.

Before a call is made, the most tokens that it may use are reserved in SQL, under the session's lock and together with the journal's
row (`admitted`). When it has come back, the reservation becomes what was used (`settle`). So any number of calls at once, in any number
of processes, stay within a session's budget.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from blake3 import blake3
from sqlalchemy import Connection, case, func, select
from sqlalchemy.dialects import postgresql, sqlite

from byref.accounting import ledger
from byref.artifacts.store import batched
from byref.calling import budgets
from byref.calling.budgets import Full, Spent
from byref.calling.journal import packed, unpacked
from byref.conversation.scope import Scope
from byref.db.tables import AnswerRow, CallRow, ProgramRow, SessionRow
from byref.errors import ByrefError, ConfigurationError, one_line, shown
from byref.functions import Function
from byref.usage import Usage, normalise
from byref.usage.answers import text_of
from byref.usage.objects import find, is_name
from byref_sandbox import jsontext

MAX_TOKENS: Final = 1_000
"""Default of `max_tokens`."""
REMEMBERED: Final = timedelta(days=30)
MAX_REMEMBERED_BYTES: Final = 1 << 20
"""Larger answers are not remembered."""
SCHEMA_CHARS: Final = 20_000
_COMPLAINT_CHARS: Final = 500
_ANSWER_AS: Final = "\n\nAnswer with JSON alone, which fits this JSON Schema:\n"
_ONCE_MORE: Final = "\n\nAn earlier answer to this did not fit: "
_DESCRIPTION: Final = (
    "Ask a language model about a part of the data, and get its text; with a JSON Schema, the JSON value of its answer. It sees the "
    "prompt alone: put the data into it. Many questions at once: await asyncio.gather(*[{name}(…) for …])."
)
_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string"},
        "schema": {"type": ["object", "null"], "default": None},
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


@dataclass(slots=True)
class _Seen:
    """What calls of this process have shown of a model function."""

    extra: int = 0
    """The most tokens that a request has used beyond what was known of it: a system prompt, say, that the host's function adds."""
    has_answered: bool = False


@dataclass(frozen=True, slots=True)
class ModelFunction(Function):
    """A function that asks a model. `model_function` makes it."""

    model: str | None = None
    max_tokens: int = MAX_TOKENS
    budget_tokens: int | None = None
    added_tokens: int = 0
    ttl: timedelta | None = REMEMBERED
    seen: _Seen = field(default_factory=_Seen, repr=False, compare=False)

    def digest(self, arguments: Mapping[str, Any]) -> bytes | None:
        """Return what an answer is remembered by; None if answers are not remembered."""
        if self.ttl is None:
            return None
        asked = json.dumps([self.name, arguments["prompt"], arguments.get("schema")], sort_keys=True)
        return bytes(blake3(asked.encode()).digest())

    def most(self, arguments: Mapping[str, Any]) -> int:
        """Return the most tokens that a call may use: a token has at least one byte of text."""
        schema = arguments.get("schema")
        size = len(arguments["prompt"].encode("utf-8", "surrogatepass"))
        if schema is None:
            return self.bound(size)
        size += len(_ANSWER_AS) + len(json.dumps(schema))
        return self.bound(size) + self.bound(size + len(_ONCE_MORE) + 4 * _COMPLAINT_CHARS)

    def bound(self, prompt_bytes: int) -> int:
        """Return the most tokens of one request."""
        return prompt_bytes + self.max_tokens + max(self.added_tokens, self.seen.extra)


def model_function(
    call: Callable[..., Any],
    *,
    name: str = "ask",
    max_tokens: int = MAX_TOKENS,
    budget_tokens: int | None = None,
    added_tokens: int = 0,
    model: str | None = None,
    ttl: timedelta | None = REMEMBERED,
    description: str | None = None,
    **options: Any,
) -> Function:
    """Return a function by which code asks a model about a part of its data: `ask(prompt)`, or `ask(prompt, schema={…})`.

    `call`, plain or async, sends a prompt to the model. It gets the prompt, and `max_tokens` and `schema` if it has parameters of these
    names. It returns the text, or a pair of text and usage, or a provider's response; usage is anything that
    `byref.usage.normalise` takes, and is counted where there is none. It is recorded in the ledger beside the conversation's own, with
    the price of `model` where the response names none.

    With a schema, the answer is parsed as JSON and checked. If it does not fit, the model is asked once more, with the error; then the
    code gets a ValueError. Answers are remembered within the tenant for `ttl` by name, prompt and schema, and cost nothing then; None:
    not at all. `budget_tokens` is the most that all calls of one session may use. The tokens of each are reserved before it is made: its
    prompt's bytes, `max_tokens`, which `call` has to keep to, and `added_tokens`, those that `call` adds to each prompt, a system prompt
    say; what it adds is learned from the first answer on, too. A call that does not fit waits until others have come back, and is a
    RuntimeError in code if that cannot help. `options` are further fields of `byref.Function`.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    about = f"model function {shown(name)}"
    for what, value in (("max_tokens", max_tokens), ("budget_tokens", budget_tokens)):
        if value is None and what == "budget_tokens":
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigurationError(f"{about}: {what}={shown(value)}: expected a number of tokens from 1 on")
    if not isinstance(added_tokens, int) or isinstance(added_tokens, bool) or added_tokens < 0:
        raise ConfigurationError(f"{about}: added_tokens={shown(added_tokens)}: expected a number of tokens from 0 on")
    if ttl is not None and not (isinstance(ttl, timedelta) and ttl > timedelta(0)):
        raise ConfigurationError(f"{about}: ttl={shown(ttl)}: expected a positive timedelta, or None")
    if model is not None and not is_name(model):
        raise ConfigurationError(f"{about}: model={shown(model)}: expected its name")
    if not callable(call):
        raise ConfigurationError(f"{about}: call={shown(call)}: expected something to call")
    taken = {"parameters", "returns", "positional", "types"} & options.keys()
    if taken:
        raise ConfigurationError(f"{about}: {', '.join(sorted(taken))}: those of a model function are given")
    question = partial(_Question, takes=_takes(call), max_tokens=max_tokens)
    is_async = Function(name, call).is_async
    return ModelFunction(
        name,
        partial(_ask_async if is_async else _ask, call, question),
        parameters=_PARAMETERS,
        returns={},
        description=_DESCRIPTION.format(name=name) if description is None else description,
        positional=("prompt", "schema"),
        model=model,
        max_tokens=max_tokens,
        budget_tokens=budget_tokens,
        added_tokens=added_tokens,
        ttl=ttl,
        **{"repeatable": True, **options},
    )


# One question ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model: what was sent, what came, and its usage, if that was said."""

    sent: str
    came: str
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What has come of a question."""

    requests: tuple[Request, ...]
    value: Any = None
    error: Exception | None = None


class _Question:
    """A question to a model, which is asked at most twice."""

    def __init__(
        self, prompt: str, schema: Mapping[str, Any] | None, *, takes: Collection[str], max_tokens: int
    ) -> None:
        self._prompt = prompt
        self._schema = schema
        self._requests: list[Request] = []
        self._complaint = ""
        self._says_schema = schema is not None and "schema" not in takes
        known = {"max_tokens": max_tokens, "schema": None if schema is None else dict(schema)}
        self.options = {name: value for name, value in known.items() if name in takes}

    @property
    def text(self) -> str:
        """What is sent."""
        text = self._prompt + (_ANSWER_AS + json.dumps(self._schema) if self._says_schema else "")
        return text + (f"{_ONCE_MORE}{self._complaint}" if self._complaint else "")

    def check(self) -> Answered | None:
        """Return the error of a schema that is none."""
        if self._schema is None:
            return None
        from byref.references.fitting import misfit  # imported late because jsonschema takes long to import

        try:
            if len(json.dumps(self._schema)) > SCHEMA_CHARS:
                raise ConfigurationError(f"more than {SCHEMA_CHARS:,} characters")
            misfit(None, self._schema)
        except ByrefError as error:
            return self.failed(ValueError(f"schema: {error}"))
        return None

    def failed(self, error: Exception) -> Answered:
        """Return what came of it where the model could not be asked."""
        return Answered(tuple(self._requests), error=error)

    def take(self, response: object) -> Answered | None:
        """Take a response; return what came of the question, or None if it is to be asked once more."""
        value, usage = response if isinstance(response, tuple) and len(response) == 2 else (response, None)
        try:
            known = normalise(response if usage is None and value is response else usage)
        except ConfigurationError:
            known = None
        is_value = self._schema is not None and isinstance(value, dict | list) and find(value) is None
        text = json.dumps(value) if is_value else text_of(value)
        self._requests.append(Request(self.text, text or "", known))
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            return self.failed(
                TypeError("the model's function is async, and does not say so: give the coroutine function itself")
            )
        if text is None:
            return self.failed(TypeError(f"the model's function returned a {type(value).__name__} without a text"))
        if self._schema is None:
            return Answered(tuple(self._requests), text)
        read, wrong = _read(text, self._schema)
        if not wrong:
            return Answered(tuple(self._requests), read)
        if len(self._requests) == 1:
            self._complaint = wrong[:_COMPLAINT_CHARS]
            return None
        return self.failed(
            ValueError(f"the model's answer does not fit the schema, nor did its first: {wrong[:_COMPLAINT_CHARS]}")
        )


def _ask(
    call: Callable[..., Any], question: Callable[..., _Question], prompt: str, schema: Mapping[str, Any] | None = None
) -> Answered:
    asked = question(prompt, schema)
    answered = asked.check()
    while answered is None:
        try:
            response = call(asked.text, **asked.options)
        except Exception as error:  # noqa: BLE001  whatever the host's function raises is the code's to see
            return asked.failed(error)
        answered = asked.take(response)
    return answered


async def _ask_async(
    call: Callable[..., Any], question: Callable[..., _Question], prompt: str, schema: Mapping[str, Any] | None = None
) -> Answered:
    asked = question(prompt, schema)
    answered = asked.check()
    while answered is None:
        try:
            response = await call(asked.text, **asked.options)
        except Exception as error:  # noqa: BLE001  the same
            return asked.failed(error)
        answered = asked.take(response)
    return answered


def _takes(call: Callable[..., Any]) -> frozenset[str]:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return frozenset(("max_tokens", "schema"))
    return frozenset(one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))


def _read(text: str, schema: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the JSON value of an answer, and why it does not fit."""
    from byref.references.fitting import misfit

    bare = text.strip()
    if bare.startswith("```"):
        bare = bare.partition("\n")[2].rstrip().removesuffix("```")
    try:
        value = jsontext.decode(bare.encode("utf-8", "surrogatepass"))
    except jsontext.NotJSON as error:
        return None, f"it is no JSON: {error}"
    try:
        return value, misfit(value, schema) or ""
    except ByrefError as error:
        return None, one_line(error)


# Budget and memory -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hit:
    """An answer that is remembered."""

    content_type: str
    data: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Make:
    """The call is made; it may use at most so many tokens."""

    most: int


Verdict = Hit | Make | Literal["follow"] | Full | Spent
"""What becomes of a call: it is answered, made, answered with another one's answer, waits for room in the budget, or never fits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a model function that is about to be made."""

    function: ModelFunction
    arguments: Mapping[str, Any]
    digest: bytes | None

    @classmethod
    def of(cls, function: ModelFunction, arguments: Mapping[str, Any]) -> Asked:
        """Return it with the digest of its question."""
        return cls(function, arguments, function.digest(arguments))


def admitted(
    connection: Connection,
    scope: Scope,
    asks: Sequence[Asked],
    program: int,
    leading: Collection[bytes],
    under_way: Mapping[str, int],
) -> list[Verdict]:
    """Decide about calls; the caller holds the session's lock and reserves the tokens of those that are made.

    `leading` are the questions that this run asks at this moment, and `under_way` how many calls of each function it waits for.
    """
    known = _remembered(connection, scope.tenant, {one.digest for one in asks if one.digest is not None})
    bounded = {one.function.name for one in asks if one.function.budget_tokens is not None}
    accounts = _accounts(connection, scope.row, program, bounded) if bounded else {}
    at_it = dict(under_way)
    leaders = set(leading)
    verdicts: list[Verdict] = []
    for one in asks:
        name, budget = one.function.name, one.function.budget_tokens
        if one.digest is not None and one.digest in known:
            verdicts.append(known[one.digest])
            continue
        if one.digest is not None and one.digest in leaders:
            verdicts.append("follow")
            continue
        # Read before `most`: `has_answered` is set after `extra`.
        is_known = one.function.seen.has_answered
        most = one.function.most(one.arguments)
        if budget is not None:
            account = accounts.setdefault(name, _Account())
            refusal = account.refusal(one.function, most, budget, is_known=is_known, is_first=not at_it.get(name))
            if refusal is not None:
                verdicts.append(refusal)
                continue
            most = account.reserve(most, is_known=is_known)
        at_it[name] = at_it.get(name, 0) + 1
        if one.digest is not None:
            leaders.add(one.digest)
        verdicts.append(Make(most))
    return verdicts


def _remembered(connection: Connection, tenant: str, digests: Collection[bytes]) -> dict[bytes, Hit]:
    now = datetime.now(UTC)
    found: dict[bytes, Hit] = {}
    for some in batched(digests):
        query = (
            select(AnswerRow.digest, AnswerRow.content_type, AnswerRow.data, AnswerRow.tokens)
            .join(SessionRow, SessionRow.id == AnswerRow.session_id)
            .where(AnswerRow.tenant == tenant, AnswerRow.digest.in_(some), AnswerRow.expires_at > now)
            .where(~SessionRow.is_deleted)
        )
        for row in connection.execute(query):
            with suppress(ValueError):  # it is damaged: the model is asked again
                found[bytes(row.digest)] = Hit(row.content_type, unpacked(row.data), row.tokens)
    return found


@dataclass(slots=True)
class _Account:
    """What the calls of a function have used of a session's budget, in tokens.

    What the host's function adds to a prompt is known to a process from its first answer on. Until then it makes one call at a time, and
    takes it for as much dearer than its prompt as the dearest of the session was in all; where none has come back, it makes none beside
    others. Calls of other processes may have been reserved by one that did not know it: they count as if they were.
    """

    spent: int = 0
    """Used or reserved."""
    held: int = 0
    """Of these, reserved by calls under way."""
    others: int = 0
    """Calls under way in other runs."""
    dearest: int = 0
    """Used by the dearest call."""

    def refusal(
        self, function: ModelFunction, most: int, budget: int, *, is_known: bool, is_first: bool
    ) -> Full | Spent | None:
        """Return why a call cannot be made now, or at all."""
        added = function.seen.extra if is_known else self.dearest
        most = self._most(most, is_known=is_known)
        is_alone = self.held == 0 if self.dearest == 0 else is_first
        if self.spent + self.others * added + most <= budget and (is_known or is_alone):
            return None
        if self.held > 0 and self.spent - self.held + most <= budget:
            return Full()
        return Spent(
            f"{function.name}() was not called: it may use {budget:,} tokens in this conversation, "
            "and this call might use more than is left"
        )

    def reserve(self, most: int, *, is_known: bool) -> int:
        """Reserve what a call may use, and return it."""
        most = self._most(most, is_known=is_known)
        self.spent += most
        self.held += most
        return most

    def _most(self, most: int, *, is_known: bool) -> int:
        return most if is_known else most + self.dearest


def _accounts(connection: Connection, session_row: int, program: int, names: Collection[str]) -> dict[str, _Account]:
    is_held = (CallRow.state == "begun") & ((ProgramRow.id == program) | budgets.is_running())
    query = (
        select(
            CallRow.function,
            func.sum(CallRow.spent_tokens).label("spent"),
            func.sum(case((is_held, CallRow.spent_tokens), else_=0)).label("held"),
            func.sum(case((is_held & (ProgramRow.id != program), 1), else_=0)).label("others"),
            func.max(case((CallRow.state == "returned", CallRow.spent_tokens), else_=0)).label("dearest"),
        )
        .join(ProgramRow, ProgramRow.id == CallRow.program_id)
        .where(CallRow.session_id == session_row, CallRow.function.in_(names))
        .group_by(CallRow.function)
    )
    return {
        row.function: _Account(int(row.spent), int(row.held), int(row.others), int(row.dearest))
        for row in connection.execute(query)
    }


def usages_of(scope: Scope, function: ModelFunction, answered: Answered) -> list[Usage]:
    """Return the usage of each request, counted where nobody has said it, and learn from it what later ones may use."""
    found: list[Usage] = []
    for one in answered.requests:
        usage = one.usage
        if usage is None or usage.input_tokens is None:
            counted = Usage(
                input_tokens=scope.count(one.sent),
                output_tokens=scope.count(one.came) if usage is None else usage.output_tokens,
                model=None if usage is None else usage.model,
                raw={"counted": True},
            )
            usage = counted
        size = len(one.sent.encode("utf-8", "surrogatepass"))
        beyond = (usage.input_tokens or 0) + (usage.output_tokens or 0) - size - function.max_tokens
        function.seen.extra = max(function.seen.extra, beyond)
        found.append(usage)
    function.seen.has_answered |= bool(found)
    return found


def spent_of(usages: Sequence[Usage]) -> int:
    """Return the tokens of requests."""
    return sum((one.input_tokens or 0) + (one.output_tokens or 0) for one in usages)


def record(connection: Connection, scope: Scope, function: ModelFunction, usages: Sequence[Usage]) -> None:
    """Record usage in the ledger, beside the conversation's own."""
    for usage in usages:
        stated, cost = scope.priced(usage, function.model)
        ledger.record_usage(
            connection,
            tenant=scope.tenant,
            session_row=scope.row,
            usage=stated,
            request_id=None,
            sets_context=False,
            through=None,
            cost=cost,
        )


def remember(connection: Connection, scope: Scope, answers: Sequence[tuple[Asked, Hit]]) -> None:
    """Keep answers, by the digests of their questions."""
    if not answers:
        return
    now = datetime.now(UTC)
    known = [(one.digest, one.function.ttl, hit) for one, hit in answers if one.digest and one.function.ttl]
    rows = [
        {
            "tenant": scope.tenant,
            "session_id": scope.row,
            "digest": digest,
            "content_type": hit.content_type,
            "data": packed(hit.data),
            "tokens": hit.tokens,
            "created_at": now,
            "expires_at": now + ttl,
        }
        # In one order, so that no two processes wait for each other.
        for digest, ttl, hit in sorted(known, key=lambda one: one[0])
        if len(hit.data) <= MAX_REMEMBERED_BYTES
    ]
    if not rows:
        return
    dialect: Any = {"sqlite": sqlite, "postgresql": postgresql}[connection.dialect.name]
    add = dialect.insert(AnswerRow)
    newer = {
        name: add.excluded[name]
        for name in ("session_id", "content_type", "data", "tokens", "created_at", "expires_at")
    }
    connection.execute(add.on_conflict_do_update(index_elements=["tenant", "digest"], set_=newer), rows)
