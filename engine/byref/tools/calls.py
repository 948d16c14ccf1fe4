"""One call of a session's own tool: it is checked, answered, bounded and recorded in the ledger, but never gated."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from blake3 import blake3
from sqlalchemy import Connection

from byref.accounting import ledger
from byref.accounting.tokens import CountedOnce
from byref.artifacts import store
from byref.calling.journal import UnderWay
from byref.calling.running import Calls
from byref.content import to_block
from byref.conversation import programs
from byref.conversation.failures import cure
from byref.conversation.result import ToolReply
from byref.conversation.scope import Called, Scope
from byref.describe.truncate import truncate
from byref.errors import ArtifactMissing, QuotaExceeded, StorageFailure, ToolError
from byref.tools import TOOLS, viewing
from byref.tools.arguments import parse
from byref.tools.record import Answer
from byref_sandbox.jsontext import NotJSON

logger = logging.getLogger("byref")

TOO_DEEP = "what came is nested too deeply to be told; give or name a part of it"

LOST = "this code was interrupted; nobody knows which of its calls were made: look before you run it again"
"""Said of code that has no call id, by which it could go on."""

UNDER_WAY_SECONDS = 0.05
"""How often a call looks whether another run of the same code has ended."""

NAME_CHARS = 256
"""Maximum characters of a tool's name in the ledger. Our names are shorter, but a model may write anything."""


class _Replay(Exception):
    def __init__(self, entry: ledger.Entry) -> None:
        super().__init__(entry.step)
        self.entry = entry


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: object
    call_id: str | None
    digest: bytes
    """Digest of name and arguments. Within a turn, the same call under the same call id gets the first reply again."""

    @property
    def call_digest(self) -> bytes | None:
        """The digest by which the ledger finds the call id."""
        return ledger.digest(self.call_id) if self.call_id else None

    def before(self, connection: Connection, scope: Scope) -> ledger.Entry | None:
        """Return the reply that this call got earlier in this turn."""
        key = self.call_digest
        return None if key is None else ledger.given_before(connection, scope.row, "reply", key, self.digest)


def call(scope: Scope, name: str, arguments: object, call_id: str | None, program: int | None = None) -> ToolReply:
    """Answer a call under the tool's own policy. A mistake of the model becomes text for the model, marked as an error.

    With `program`, its row, the call goes on with that one, and begins no other; ConfigurationError if it has ended meanwhile.
    """
    if not isinstance(name, str):
        name = str(to_block(name).text)
    written = arguments if isinstance(arguments, str) else ledger.dump(arguments)
    digest = bytes(blake3(f"{name}\0{written}".encode("utf-8", "surrogatepass")).digest())
    made = _Call(name, arguments, call_id or None, digest)
    called = Called(made.call_id, name, written, digest, program)
    scope = replace(scope, policy=scope.policy.for_tool(name), counter=CountedOnce(scope.counter), called=called)
    try:
        until: float | None = None
        while True:
            try:
                return _called(scope, made)
            except UnderWay:
                if made.call_id is None:
                    return _commit(scope, made, Answer(LOST, True))
                now = time.monotonic()
                until = now + _patience(scope) if until is None else until
                if now >= until:
                    return _under_way(scope, made)
                time.sleep(min(UNDER_WAY_SECONDS, until - now))
    except StorageFailure:
        if scope.policy.on_storage_failure == "raise":
            raise
        logger.exception("byref could not answer the call of %r; the turn goes on without it", name)
        return ToolReply(f"{name}: the stored data cannot be reached right now; try again later.", True, tool=name)


def _patience(scope: Scope) -> float:
    """Return how many seconds a call waits for another run of the same code: as long as that may take.

    A host's transaction may hold what the other run needs, so that within one there is no wait.
    """
    limits = scope.limits
    return 0.0 if scope.host is not None else limits.wall_seconds + limits.wait_seconds + programs.LEASE_SECONDS


def _under_way(scope: Scope, made: _Call) -> ToolReply:
    """Return the reply while somebody else runs the same code. It has no step: the other's reply is that of this call."""
    text = f"{made.name}: this code is already running under the same call id; its result comes once it has ended."
    return ToolReply(text, True, None, scope.count(text), made.name)


def _called(scope: Scope, made: _Call) -> ToolReply:
    """Answer a call, or give its reply again; raise UnderWay if somebody else is running its code."""
    calls: Calls | None = None
    try:
        if made.call_id is not None and (before := scope.ask(lambda c: made.before(c, scope))) is not None:
            return _replayed(scope, before)
        answer = _answer(scope, made)
        calls = answer.calls
        if calls is not None and calls.pending:
            return _waiting(scope, made, answer, calls)
        try:
            return _commit(scope, made, answer)
        except QuotaExceeded as error:  # another call used up the room since the value was staged
            return _commit(scope, made, Answer(f"{made.name}: {error}", True, calls=calls))
        except ArtifactMissing as error:  # the image or document that was to be shown cannot be read
            return _commit(scope, made, Answer(_gone(scope, made.name, error), True, calls=calls))
        except RecursionError:
            return _commit(scope, made, replace(_too_deep(made), calls=calls))
    except _Replay as replay:
        return _replayed(scope, replay.entry)
    finally:
        if calls is not None:
            calls.close()


def _waiting(scope: Scope, made: _Call, answer: Answer, calls: Calls) -> ToolReply:
    """Return the reply of code that waits for somebody's approval. It has no step: the code's result will have one."""
    pending = calls.pending
    calls.wait()
    return ToolReply(answer.content or "", False, None, scope.count(answer.content or ""), made.name, pending)


def _answer(scope: Scope, made: _Call) -> Answer:
    tool = TOOLS.get(made.name)
    if tool is None or made.name not in scope.tools:
        return Answer(f"there is no tool {made.name[:100]!r} here; there are: {', '.join(scope.tools) or 'none'}", True)
    try:
        return tool.handler(scope, parse(tool, made.arguments))
    except ToolError as error:
        return Answer(str(error), True)
    except ArtifactMissing as error:
        return Answer(_gone(scope, made.name, error), True)
    except (NotJSON, RecursionError):
        return _too_deep(made)


def _too_deep(made: _Call) -> Answer:
    logger.exception("byref could not hold what %r gave", made.name)
    return Answer(TOO_DEEP, True)


def _gone(scope: Scope, tool: str | None, error: ArtifactMissing) -> str:
    """Return the model's text for data that is missing, whether a tool was to read it or to show it."""
    logger.error("byref could not read what %r was pointed at, or had shown", tool, exc_info=error)
    return cure(scope, error)


def _commit(scope: Scope, made: _Call, answer: Answer) -> ToolReply:
    shown = None if answer.shown is None else viewing.blocks(answer.shown)
    known = None if answer.content is None else _bounded(scope, answer, answer.content)

    def work(connection: Connection) -> ToolReply:
        turn = ledger.take_step(connection, scope.row, known.tokens if known else 0)
        if (before := made.before(connection, scope)) is not None:
            raise _Replay(before)
        if answer.calls is not None:
            answer.calls.commit(connection, turn.step)
        text = answer.content if answer.commit is None else answer.commit(connection, turn.step)
        reply = known or _bounded(scope, answer, text or "")
        columns = {
            "tool": made.name[:NAME_CHARS],
            "call_id": made.call_id[: ledger.CALL_ID_CHARS] if made.call_id else None,
            "call_digest": made.call_digest,
            "content_digest": made.digest,
            "arguments": ledger.cut_arguments(made.arguments),
            "content": reply.text,
            "tokens": reply.tokens,
            "is_error": answer.is_error,
            "detail": _detail(answer),
        }
        if answer.calls is not None and answer.calls.tally.calls:
            columns["original_tokens"] = reply.tokens + answer.calls.tally.tokens
        scope.append(connection, turn, "reply", columns, 0 if known else reply.tokens)
        beside = _beside(reply.text, [plot.block for plot in answer.images])
        return ToolReply(shown or beside, answer.is_error, turn.step, reply.tokens, made.name)

    reply = scope.write(work)
    if answer.calls is not None:
        answer.calls.committed()
    return reply


class _Reply(NamedTuple):
    text: str
    tokens: int
    """Tokens of the text and of everything that is shown with it."""


def _bounded(scope: Scope, answer: Answer, text: str) -> _Reply:
    """Return the reply's text, cut to the bound of all replies, and its tokens."""
    tokens, most = scope.count(text), scope.policy.reply_tokens
    if answer.shown is not None:
        tokens = viewing.tokens_of(scope, answer.shown)
    elif tokens > most:  # an error's text, or notes around a value, under a small bound
        text = truncate(text, budget=most, measure=scope.count).text
        tokens = scope.count(text)
    return _Reply(text, tokens + sum(plot.tokens for plot in answer.images))


def _detail(answer: Answer) -> dict[str, Any]:
    """Return what the ledger keeps of images and documents: their ids."""
    if answer.shown is not None:
        return {"shown": answer.shown.id}
    detail: dict[str, Any] = {"images": [plot.id for plot in answer.images]} if answer.images else {}
    if answer.calls is not None and ((tally := answer.calls.tally).calls or tally.left):
        detail["calls"] = {"made": tally.calls + tally.left, "failed": tally.failed, "tokens": tally.tokens}
    return detail


def _beside(text: str, blocks: list[dict[str, Any]]) -> str | list[Any]:
    """Return the text; if there are images, a list of blocks with the images behind the text."""
    return [{"type": "text", "text": text}, *blocks] if blocks else text


def _replayed(scope: Scope, entry: ledger.Entry) -> ToolReply:
    """Return the same reply again. The ledger has no copy of images and documents, so they come with it only while they exist."""
    content: str | list[Any] = entry.content or ""
    if (shown := entry.detail.get("shown")) is not None:
        found = scope.read(lambda connection: store.find(connection, scope.source, scope.row, shown))
        try:
            content = content if found is None else viewing.blocks(found)
        except ArtifactMissing as error:
            return ToolReply(_gone(scope, entry.tool, error), True, entry.step, entry.tokens, entry.tool or "")
    elif ids := entry.detail.get("images"):
        there = scope.read(lambda connection: store.by_ids(connection, scope.source, scope.row, ids))
        texts, blocks = [entry.content or ""], list[dict[str, Any]]()
        for plot in (there[id_] for id_ in ids if id_ in there):
            try:
                blocks += viewing.blocks(plot)
            except ArtifactMissing as error:
                texts.append(f"[{plot.name}: {_gone(scope, entry.tool, error)}]")
        content = _beside("\n".join(texts), blocks)
    return ToolReply(content, entry.is_error, entry.step, entry.tokens, entry.tool or "")
