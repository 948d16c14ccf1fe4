"""Reads a server's lists page by page, within bounds."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import anyio
from mcp.shared.exceptions import MCPError

from byref.gateway.channel import Unavailable
from byref.gateway.messages import size_of, weight_of

MAX_PAGES = 100
MAX_ITEMS = 5_000
MAX_BYTES = 16 << 20
"""Bytes kept of one list of one server."""
MAX_READ_BYTES = 2 * MAX_BYTES
"""Bytes read of one list's pages, whether their items are usable or not."""
MAX_ITEM_BYTES = 1 << 20
_HEAVIEST = 4 * MAX_ITEM_BYTES
"""Upper bound of the memory weight of an item that is short enough; heavier items are dropped before they are dumped."""
MAX_NAME_CHARS = 1_000

logger = logging.getLogger("byref")


@dataclass(slots=True)
class Items:
    """A list, and when the server was asked for it."""

    items: list[dict[str, Any]]
    asked_at: float = field(default_factory=time.monotonic)
    error: Unavailable | MCPError | None = None
    """Why the server did not send all of it when it was last asked."""
    is_cut: bool = False
    """Whether these are the items of the first pages alone; a list that was whole stays when the next one is not."""


@dataclass(frozen=True, slots=True)
class List:
    """One kind of list."""

    method: str
    key: str
    capability: str
    identity: str
    """The key whose value no two items share."""
    is_usable: Callable[[Mapping[str, Any]], bool] = lambda item: True


def _is_tool(item: Mapping[str, Any]) -> bool:
    schema = item.get("inputSchema")
    description = item.get("description")
    return isinstance(schema, dict) and isinstance(description, str | None)


LISTS: Final[Mapping[str, List]] = {
    "tools": List("tools/list", "tools", "tools", "name", _is_tool),
    "prompts": List("prompts/list", "prompts", "prompts", "name"),
    "resources": List("resources/list", "resources", "resources", "uri"),
    "templates": List("resources/templates/list", "resourceTemplates", "resources", "uriTemplate"),
}


class Server(Protocol):
    """A server that can be asked for its lists."""

    @property
    def name(self) -> str:
        """The server's name in the configuration."""

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return a request's result; raises Unavailable, and MCPError where the server answered with an error."""


async def listed(server: Server, kind: str, seconds: float) -> Items:
    """Return the items of one list: page by page, until the list ends, an error comes, a bound is reached, or the seconds are over."""
    form = LISTS[kind]
    asked_at = time.monotonic()
    found: dict[str, dict[str, Any]] = {}
    cursors: set[str] = set()
    cursor: object = None
    error: Unavailable | MCPError | None = None
    size = read = dropped = 0
    cut = ""
    for _ in range(MAX_PAGES):
        params = {"cursor": cursor} if isinstance(cursor, str) else None
        left = seconds - (time.monotonic() - asked_at)
        if left <= 0:
            cut = f"they do not end within {seconds:g} s"
            break
        try:
            page = await server.request(form.method, params, timeout=left)
        except (Unavailable, MCPError) as failure:
            error = failure
            break
        read += size_of(page)
        if read > MAX_READ_BYTES:
            cut = f"their pages have more than {MAX_READ_BYTES >> 20} MB"
            break
        given = page.get(form.key)
        items = given if isinstance(given, list) else []
        cursor = page.get("nextCursor")
        # Measured on a thread: a page may be megabytes, and dumping it would block the event loop.
        for item, length in await anyio.to_thread.run_sync(partial(_measured, items, form)):
            if not 0 < length <= MAX_ITEM_BYTES:
                dropped += 1
            elif len(found) >= MAX_ITEMS or size + length > MAX_BYTES:
                cut = f"there is room for {MAX_ITEMS:,}, and for {MAX_BYTES >> 20} MB of them"
                break
            else:
                size += length
                found.setdefault(item[form.identity], item)
        if cut or not isinstance(cursor, str):
            break
        if cursor in cursors:
            cut = "their pages go in a circle"
            break
        cursors.add(cursor)
    else:
        cut = f"they do not end within {MAX_PAGES} pages"
    if cut:
        logger.warning("server %r: of its %s the first %d are used: %s", server.name, kind, len(found), cut)
    if dropped:
        logger.warning("server %r: %d of its %s are left out: they are not well formed", server.name, dropped, kind)
    return Items(list(found.values()), asked_at, error, is_cut=error is not None)


def _measured(items: list[Any], form: List) -> list[tuple[Any, int]]:
    """Pair each item with its length as JSON, or with 0 if it is unusable; items beyond twice the limit are ignored."""
    return [(item, _length(item) if _is_usable(item, form) else 0) for item in items[: 2 * MAX_ITEMS]]


def _length(item: Any) -> int:
    # Weighed first: dumping a huge item would cost more time and memory than the item may take.
    if weight_of(item, _HEAVIEST) > _HEAVIEST:
        return MAX_ITEM_BYTES + 1
    try:
        return len(json.dumps(item))
    except (ValueError, RecursionError):
        return 0


def _is_usable(item: object, form: List) -> bool:
    if not isinstance(item, dict):
        return False
    name = item.get(form.identity)
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and form.is_usable(item)
