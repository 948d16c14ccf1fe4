"""A Session of the OpenAI Agents SDK in byref's database."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from byref.adapters.extras import check_engine, missing
from byref.adapters.items import Items
from byref.engine import Engine

try:
    from agents import SessionSettings, TResponseInputItem
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise missing("byref.adapters.openai_agents", "openai-agents", "openai-agents") from error

T = TypeVar("T")

CHAT = "openai_agents"
"""The list of a session that its items are kept in."""

logger = logging.getLogger("byref")


class ByrefSession(SessionABC):
    """A conversation's items in byref's database, gone with `Engine.delete_session` of the same id and tenant.

    `session_settings` is the SDK's. Any number of processes may use a session at once; what is cancelled while it writes
    ends before its caller goes on. A row that is no item (somebody wrote to the database) is logged and left out.

    Raises:
        ConfigurationError: `engine` is no `byref.Engine`.
        InvalidId: the id or tenant cannot be kept as it is.
        SessionGone: something is added, and `Session.end` was called.
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
        self._items = Items(check_engine(engine), session_id, tenant)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the last `limit` items in their order; None: those that the settings say, or all."""
        most = resolve_session_limit(limit, self.session_settings)
        return await asyncio.to_thread(self._last, None if most is None or most < 0 else most)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all or none."""
        texts = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items]
        if texts:
            await _ended(lambda: self._items.append(CHAT, texts))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none."""
        return await _ended(self._pop)

    async def clear_session(self) -> None:
        """Remove every item; artifacts, variables and the ledger stay."""
        await _ended(lambda: self._items.clear(CHAT))

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
            item = json.loads(text)
        except (ValueError, RecursionError):
            item = None
        if isinstance(item, dict):
            return cast(TResponseInputItem, item)
        logger.error("an item of the session %r is not the JSON of one, and left out", self.session_id)
        return None


async def _ended(work: Callable[[], T]) -> T:
    """Run work on a thread to its end, even if its caller is cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
