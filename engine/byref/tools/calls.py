"""A call of one of the session's own tools: checked, answered, bounded, accounted; never gated."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from blake3 import blake3
from sqlalchemy import Connection

from byref.accounting import ledger
from byref.accounting.tokens import CountedOnce
from byref.artifacts import store, tombstones
from byref.content import to_block
from byref.conversation.result import ToolReply
from byref.conversation.scope import Scope
from byref.describe.truncate import truncate
from byref.errors import ArtifactMissing, QuotaExceeded, StorageFailure, ToolError
from byref.tools import TOOLS, native
from byref.tools.arguments import parse
from byref.tools.record import Answer
from byref_sandbox.jsontext import NotJSON

logger = logging.getLogger("byref")

TOO_DEEP = "what came is nested too deeply to be told; give or name a part of it"

NAME_CHARS = 256
"""Kept of a tool's name in the ledger; ours are shorter, a model may write anything."""


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
    """Of name and arguments: the same call under the same call id is answered as before in the same turn."""


def call(scope: Scope, name: str, arguments: object, call_id: str | None) -> ToolReply:
    """Answer a call under the tool's own policy; what the model did wrong is text for the model, marked as an error."""
    if not isinstance(name, str):
        name = str(to_block(name).text)
    scope = replace(scope, policy=scope.policy.for_tool(name), counter=CountedOnce(scope.counter))
    written = f"{name}\0{arguments if isinstance(arguments, str) else ledger.dump(arguments)}"
    made = _Call(name, arguments, call_id or None, bytes(blake3(written.encode("utf-8", "surrogatepass")).digest()))
    try:
        if made.call_id is not None:
            key = ledger.digest(made.call_id)
            before = scope.ask(lambda c: ledger.given_before(c, scope.row, "reply", key, made.digest))
            if before is not None:
                return _replayed(scope, before)
        answer = _answer(scope, made)
        try:
            return _commit(scope, made, answer)
        except QuotaExceeded as error:  # what another call stored meanwhile
            return _commit(scope, made, Answer(f"{made.name}: {error}", True))
        except ArtifactMissing as error:  # of an image or a document, which is read to be shown
            return _commit(scope, made, _gone(scope, made, error))
        except RecursionError:
            return _commit(scope, made, _too_deep(made))
    except _Replay as replay:
        return _replayed(scope, replay.entry)
    except StorageFailure:
        if scope.policy.on_storage_failure == "raise":
            raise
        logger.exception("byref could not answer the call of %r; the turn goes on without it", name)
        return ToolReply(f"{name}: the stored data cannot be reached right now; try again later.", True, tool=name)


def _answer(scope: Scope, made: _Call) -> Answer:
    tool = TOOLS.get(made.name)
    if tool is None or made.name not in scope.tools:
        return Answer(f"there is no tool {made.name[:100]!r} here; there are: {', '.join(scope.tools) or 'none'}", True)
    try:
        return tool.handler(scope, parse(tool, made.arguments))
    except ToolError as error:
        return Answer(str(error), True)
    except ArtifactMissing as error:
        return _gone(scope, made, error)
    except (NotJSON, RecursionError):
        return _too_deep(made)


def _too_deep(made: _Call) -> Answer:
    logger.exception("byref could not hold what %r gave", made.name)
    return Answer(TOO_DEEP, True)


def _gone(scope: Scope, made: _Call, error: ArtifactMissing) -> Answer:
    return Answer(_cure(scope, made.name, error), True)


def _cure(scope: Scope, tool: str | None, error: ArtifactMissing) -> str:
    logger.error("byref could not read what %r was pointed at, or had shown", tool, exc_info=error)
    told: str = scope.read(lambda connection: tombstones.cure(connection, scope.row, error.blob_id))
    return told


def _commit(scope: Scope, made: _Call, answer: Answer) -> ToolReply:
    shown = None if answer.shown is None else native.blocks(answer.shown)
    known = None if answer.content is None else _said(scope, answer, answer.content)

    def work(connection: Connection) -> ToolReply:
        turn = ledger.take_step(connection, scope.row, known.tokens if known else 0)
        digest = ledger.digest(made.call_id) if made.call_id is not None else None
        if digest is not None:
            before = ledger.given_before(connection, scope.row, "reply", digest, made.digest)
            if before is not None:
                raise _Replay(before)
        text = answer.content if answer.commit is None else answer.commit(connection, turn.step)
        said = known
        if said is None:
            assert text is not None
            said = _said(scope, answer, text)
        columns = {
            "tool": made.name[:NAME_CHARS],
            "call_id": made.call_id[: ledger.CALL_ID_CHARS] if made.call_id else None,
            "call_digest": digest,
            "content_digest": made.digest,
            "arguments": ledger.cut_arguments(made.arguments),
            "content": said.text,
            "tokens": said.tokens,
            "is_error": answer.is_error,
            "detail": _seen(answer),
        }
        scope.append(connection, turn, "reply", columns, 0 if known else said.tokens)
        beside = _beside(said.text, [plot.block for plot in answer.images])
        return ToolReply(shown or beside, answer.is_error, turn.step, said.tokens, made.name)

    return scope.write(work)


class _Said(NamedTuple):
    text: str
    tokens: int
    """With those of what is shown."""


def _said(scope: Scope, answer: Answer, text: str) -> _Said:
    """What a reply says, within the bound of all replies."""
    tokens, most = scope.count(text), scope.policy.reply_tokens
    if answer.shown is not None:
        tokens = native.tokens_of(scope, answer.shown)
    elif tokens > most:  # an error's text, or notes around a value, under a small bound
        text = truncate(text, budget=most, measure=scope.count).text
        tokens = scope.count(text)
    return _Said(text, tokens + sum(plot.tokens for plot in answer.images))


def _seen(answer: Answer) -> dict[str, Any]:
    """What the ledger keeps of images and documents: which they were."""
    if answer.shown is not None:
        return {"shown": answer.shown.id}
    return {"images": [plot.id for plot in answer.images]} if answer.images else {}


def _beside(text: str, blocks: list[dict[str, Any]]) -> str | list[Any]:
    """A text, with images after it if there are any."""
    return [{"type": "text", "text": text}, *blocks] if blocks else text


def _replayed(scope: Scope, entry: ledger.Entry) -> ToolReply:
    """The same reply; an image or a document, which the ledger has no copy of, as long as it is there."""
    content: str | list[Any] = entry.content or ""
    if (shown := entry.detail.get("shown")) is not None:
        found = scope.read(lambda connection: store.find(connection, scope.source, scope.row, shown))
        try:
            content = content if found is None else native.blocks(found)
        except ArtifactMissing as error:
            return ToolReply(_cure(scope, entry.tool, error), True, entry.step, entry.tokens, entry.tool or "")
    elif ids := entry.detail.get("images"):
        there = scope.read(lambda connection: store.by_ids(connection, scope.source, scope.row, ids))
        told, blocks = [entry.content or ""], list[dict[str, Any]]()
        for plot in (there[id_] for id_ in ids if id_ in there):
            try:
                blocks += native.blocks(plot)
            except ArtifactMissing as error:
                told.append(f"[{plot.name}: {_cure(scope, entry.tool, error)}]")
        content = _beside("\n".join(told), blocks)
    return ToolReply(content, entry.is_error, entry.step, entry.tokens, entry.tool or "")
