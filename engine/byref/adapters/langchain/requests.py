"""Requests to a LangChain model, and the usage in its answers, for the session of the conversation."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from operator import is_
from typing import Any, Final
from weakref import WeakKeyDictionary

from byref.adapters.common import lenient
from byref.adapters.common.conversations import Name, Recent, callers
from byref.adapters.common.extras import missing
from byref.adapters.langchain.results import INSTRUCTIONS
from byref.artifacts import listing
from byref.conversation import reminder
from byref.engine import Engine
from byref.errors import ByrefError, QuotaExceeded, StorageFailure
from byref.session import Session

try:
    from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
    from langchain_core.messages.utils import count_tokens_approximately
    from langchain_core.runnables.config import ensure_config
except ImportError as error:
    raise missing("byref.adapters.langchain", "langchain", "langchain") from error

logger = logging.getLogger("byref")

REMINDER: Final = "reminder-"
"""Prefix of the names of artifacts that keep the text added to a summary, so that each request has the same text."""
_OURS: Final = re.compile(REMINDER + "[0-9a-f]{16}")
KEPT: Final = 3
"""How many of these artifacts a conversation keeps: agents that run in parallel have a summary each."""

Path = tuple[tuple[str | None, str], ...]
"""For each graph around an agent, from the outermost: the graph's checkpoint, and its task that contains the agent."""
_leaders: WeakKeyDictionary[Engine, Recent[Name, Path]] = WeakKeyDictionary()
_lock = threading.Lock()


def leads(engine: Engine, conversation: Name) -> bool:
    """Tell whether the current agent's usage is its conversation's context.

    It is not if a tool runs the agent. Of agents that run in parallel on one thread, it is the first one's: those are tasks of one
    step of a graph, which LangGraph's namespaces tell apart.
    """
    if conversation in callers.get():
        return False
    configurable = ensure_config().get("configurable", {})  # empty outside of a run
    tasks = str(configurable.get("checkpoint_ns") or "").split("|")[:-1]
    checkpoints = configurable.get("checkpoint_map") or {}
    path = tuple((checkpoints.get("|".join(tasks[:depth])), task) for depth, task in enumerate(tasks))
    with _lock:
        leaders = _leaders.setdefault(engine, Recent())
        for mine, other in zip(path, leaders.get(conversation) or (), strict=False):
            if mine != other:
                if mine[0] == other[0] and mine[0] is not None:
                    return False
                break
        leaders.put(conversation, path)
    return True


def model_of(model: Any) -> tuple[str | None, int | None]:
    """Return a chat model's name, and its context window in tokens if its profile states one."""
    params: Callable[[], object] = getattr(model, "_get_ls_params", dict)
    named = (getattr(model, attribute, None) for attribute in ("model_name", "model"))
    others = (lenient.member(params(), "ls_model_name"), getattr(model, "model_id", None))
    name = next(filter(None, map(lenient.text, (*named, *others))), None)
    window = lenient.count(lenient.member(getattr(model, "profile", None), "max_input_tokens"))
    return name, window or None


def record(session: Session, answers: Iterable[object], *, context: bool) -> None:
    """Record the usage in a model's answers; failures are logged, so that the answers are not lost."""
    for message in answers:
        if isinstance(message, AIMessage) and any(map(lenient.count, (message.usage_metadata or {}).values())):
            try:
                session.record_usage(message, request_id=message.id, context=context)
            except ByrefError:
                logger.exception("byref could not record the usage of %r; the next answer sets the context", message.id)


class Messages:
    """The messages of a request as the model sees them: the given list itself, until a message in it is replaced.

    If the given list is the conversation's state, changes that an inner middleware makes to the list must reach it.
    """

    def __init__(self, given: list[AnyMessage]) -> None:
        self.shown = self._given = given
        self._meant: dict[int, AnyMessage] = {}
        """The original message for the id of each message shown in its place."""

    def show(self, message: AnyMessage, instead: AnyMessage) -> None:
        """Show another message in place of one, only in this request."""
        if instead == message:
            return
        if self.shown is self._given:
            self.shown = [*self._given]
        at = next(at for at, one in enumerate(self.shown) if one is message)
        self.shown[at] = instead
        self._meant[id(instead)] = message

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Apply changes of the shown list to the given list, at the end of this context."""
        before = [*self.shown]
        try:
            yield
        finally:
            is_same = len(before) == len(self.shown) and all(map(is_, before, self.shown))
            if self.shown is not self._given and not is_same:
                self._given[:] = [self._meant.get(id(message), message) for message in self.shown]


def summary_in(messages: list[AnyMessage]) -> AnyMessage | None:
    """Return the summary by which a middleware has replaced messages, if any."""
    return next((one for one in messages if one.additional_kwargs.get("lc_source") == "summarization"), None)


def reminder_of(
    session: Session, messages: list[AnyMessage], summary: AnyMessage, noted: Recent[object, bool], *, context: bool
) -> str:
    """Return the text added to a summary: the data present when it was made, the same in each request; empty if there was none.

    A summary may be made again for each request, without an id, so it is recognised by its text.

    Raises:
        StorageFailure: the database failed.
        StorageFailure: the database failed.
    """
    words = f"{summary.id} {summary.content}".encode("utf-8", "replace")
    name = REMINDER + blake2b(words, digest_size=8).hexdigest()
    kept = session.get_artifact(name)
    if kept is not None:
        return str(kept.value)
    key = session.tenant, session.id, name
    if noted.get(key):
        return ""
    if context:
        session.on_compaction(count_tokens_approximately(messages))
    scope = session._scope
    ours = scope.read(lambda c: listing.page_of(c, scope.row, prefix=REMINDER, after=0, limit=listing.MOST_BY_AGE))
    mine = [] if ours is None else [one for one in ours.listed if _OURS.fullmatch(one.name or "")]
    kept_before = [one.id for one in mine]
    if all(one.id in kept_before for one in session.artifacts(limit=len(kept_before) + 1)):
        noted.put(key, True)
        return ""
    for old in kept_before[: 1 - KEPT]:
        session.delete_artifact(old)
    text = reminder.reminder(scope, reminder.TOKENS, but=[one.row_id for one in mine])
    try:
        session.store_artifact(text, name=name)
    except (StorageFailure, QuotaExceeded):
        logger.warning("byref could not keep a reminder; the next request gets another", exc_info=True)
    return text


def with_text(message: AnyMessage, text: str) -> AnyMessage:
    """Return the message with a text added at its end."""
    if isinstance(message.content, str):
        return message.model_copy(update={"content": f"{message.content}\n\n{text}"})
    return message.model_copy(update={"content": [*message.content, {"type": "text", "text": text}]})


def instructed(system: SystemMessage | None, messages: list[AnyMessage]) -> SystemMessage | None:
    """Return the system message with the instructions of these messages' tools at its end, each text once."""
    texts = dict.fromkeys(
        str(message.additional_kwargs[INSTRUCTIONS])
        for message in messages
        if isinstance(message, ToolMessage) and INSTRUCTIONS in message.additional_kwargs
    )
    if not texts:
        return system
    added = {"type": "text", "text": "\n\n".join(texts)}
    if system is None:
        return SystemMessage(content=[added])
    content = system.content
    before: list[Any] = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    return system.model_copy(update={"content": [*before, added]})
