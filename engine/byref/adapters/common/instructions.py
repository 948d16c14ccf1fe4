"""Tools' instructions to the model, kept with the conversation for frameworks whose messages have no place for them."""

from __future__ import annotations

import logging
from typing import Final

from byref.adapters.common.conversations import Name, Recent
from byref.adapters.common.items import Items
from byref.engine import Engine
from byref.errors import ByrefError

LIST: Final = "byref.instructions"
"""The session's list that holds the instructions."""
MOST: Final = 20
"""Instructions in one request; the newest are kept."""

logger = logging.getLogger("byref")


class Instructions:
    """The instructions of conversations, each text once: in the database, and in memory for when the database is away."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: Recent[Name, tuple[str, ...]] = Recent()

    def add(self, name: Name, text: str) -> None:
        """Keep a tool's instructions for a conversation; failures are logged, not raised."""
        known = self.of(name)
        if text in known:
            return
        self._known.put(name, (*known, text)[-MOST:])
        try:
            self._of(name).append(LIST, [text])
        except ByrefError:
            logger.warning("byref could not keep instructions of a tool of %r", name[1], exc_info=True)

    def of(self, name: Name) -> tuple[str, ...]:
        """Return the instructions for the model's system message, the newest last."""
        known = self._known.get(name) or ()
        try:
            kept = [text for _, text in self._of(name).last(LIST, MOST)]
        except ByrefError:
            logger.warning("byref could not read the instructions of tools of %r", name[1], exc_info=True)
            return known
        return tuple(dict.fromkeys(kept))

    def _of(self, name: Name) -> Items:
        tenant, session = name
        return Items(self._engine, session, tenant)
