"""What tools instruct a model to show, kept with a conversation for frameworks whose messages have no place for it."""

from __future__ import annotations

import logging
from typing import Final

from byref.adapters.common.conversations import Name, Recent
from byref.adapters.common.items import Items
from byref.engine import Engine
from byref.errors import ByrefError

LIST: Final = "byref.instructions"
"""The list of a session that they are kept in."""
MOST: Final = 20
"""Of tools, in a request; the newest stay."""

logger = logging.getLogger("byref")


class Instructions:
    """The instructions of conversations, each text once: kept in the database, and in memory for when that is away."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: Recent[Name, tuple[str, ...]] = Recent()

    def add(self, name: Name, text: str) -> None:
        """Keep what a tool of a conversation instructs; nothing that goes wrong with that is raised."""
        known = self.of(name)
        if text in known:
            return
        self._known.put(name, (*known, text)[-MOST:])
        try:
            self._of(name).append(LIST, [text])
        except ByrefError:
            logger.warning("byref could not keep instructions of a tool of %r", name[1], exc_info=True)

    def of(self, name: Name) -> tuple[str, ...]:
        """Return what the model is to read in its system message, the newest last."""
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
