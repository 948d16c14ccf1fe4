"""A Session of the OpenAI Agents SDK in byref's database."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from byref.adapters.common.extras import check_engine, missing
from byref.adapters.common.items import Items
from byref.engine import Engine
from byref.errors import ByrefError
from byref_sandbox import jsontext

try:
    from agents import SessionSettings, TResponseInputItem
    from agents.memory import session as sdk
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise missing("byref.adapters.openai_agents", "openai-agents", "openai-agents") from error

T = TypeVar("T")

CHAT = "openai_agents"
"""The list of a session that holds the items."""

logger = logging.getLogger("byref")


class ByrefSession(sdk.SessionABC):
    """A conversation's items in byref's database; `Engine.delete_session` of the same id and tenant deletes them.

    `session_settings` is the SDK's. Any number of processes may use a session at once. If a writing call is cancelled, the write
    ends before its caller goes on. A row that is not an item, because somebody else wrote it, is logged and left out.

    The SDK's `OpenAIResponsesCompactionSession` may wrap it: the compacted items are replaced in one transaction, earlier items
    stay, and the conversation's ledger gets a compaction.

    Raises:
        ConfigurationError: `engine` is not a `byref.Engine`.
        InvalidId: the id or tenant cannot be stored unchanged.
        SessionGone: items are added after `Session.end`.
        StorageFailure: the database failed.
    """

    def __init__(
        self,
        session_id: str,
        engine: Engine,
        *,
        tenant: str = "default",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._engine, self._tenant = check_engine(engine), tenant
        self._items = Items(engine, session_id, tenant)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the last `limit` items in their order; None: as many as the settings say, or all."""
        most = resolve_session_limit(limit, self.session_settings)
        return await asyncio.to_thread(self._last, None if most is None or most < 0 else most)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all or none."""
        texts = _texts(items)
        if texts:
            await _ended(lambda: self._items.append(CHAT, texts))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none."""
        return await _ended(self._pop)

    async def clear_session(self) -> None:
        """Remove every item; artifacts, variables and the ledger stay."""
        await _ended(lambda: self._items.clear(CHAT))

    async def _get_compaction_snapshot(self, limit: int) -> Any:
        """Return the last `limit` items and a function that replaces their end, for the SDK's compaction; None: its default."""
        snapshot = getattr(sdk, "_CompactionSnapshot", None)  # private in the SDK, which uses it for its own stores
        if snapshot is None or self._keeps_otherwise():
            return None
        stored = await asyncio.to_thread(self._items.last, CHAT, limit + 1)
        rows = [(row, item) for row in stored[-limit:] if (item := self._item(row[1])) is not None]

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            if start >= len(rows):
                return False
            first = rows[start][0][0]
            return await _ended(lambda: self._exchanged([row for row in stored if row[0] >= first], output))

        return snapshot([item for _, item in rows], len(stored) <= limit, replace_suffix)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Replace all items, for the SDK's compaction; return False if it must clear and add instead."""
        if self._keeps_otherwise():
            return False
        return await _ended(lambda: self._exchanged(self._items.last(CHAT), items))

    def _keeps_otherwise(self) -> bool:
        """Tell whether a host's subclass stores items in another form: then only its own methods may read and write them."""
        own = ("get_items", "add_items", "pop_item", "clear_session")
        return any(getattr(type(self), name) is not getattr(ByrefSession, name) for name in own)

    def _exchanged(self, stored: list[tuple[int, str]], items: list[TResponseInputItem]) -> bool:
        if not self._items.replace(CHAT, stored, _texts(items)):
            return False
        try:
            session = self._engine.session(self.session_id, tenant=self._tenant)
            if session.context_tokens():
                session.on_compaction(sum(session._scope.count(text, "json") for _, text in self._items.last(CHAT)))
        except ByrefError:
            logger.warning("byref could not note a compaction of %r", self.session_id, exc_info=True)
        return True

    def _last(self, most: int | None) -> list[TResponseInputItem]:
        asked = most
        while True:
            texts = [text for _, text in self._items.last(CHAT, asked)]
            items = [item for item in map(self._item, texts) if item is not None]
            if most is None or asked is None or len(items) >= most or len(texts) < asked:
                return items if most is None else items[len(items) - min(most, len(items)) :]
            asked *= 2

    def _pop(self) -> TResponseInputItem | None:
        while (text := self._items.pop(CHAT)) is not None:
            item = self._item(text)
            if item is not None:
                return item
        return None

    def _item(self, text: str) -> TResponseInputItem | None:
        try:
            item = jsontext.loads(text)
        except ValueError:
            item = None
        if isinstance(item, dict):
            return cast(TResponseInputItem, item)
        logger.error("an item of the session %r is not the JSON of one, and left out", self.session_id)
        return None


def _texts(items: list[TResponseInputItem]) -> list[str]:
    return [json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items]


async def _ended(work: Callable[[], T]) -> T:
    """Run work on a thread to its end, even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
