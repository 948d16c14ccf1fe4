"""All that the servers offer, under the names that clients see."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from byref import Policy
from byref.adapters.mcp_schemas import sound, with_offloading, with_references
from byref.gateway.containment import is_failure
from byref.gateway.names import Names
from byref.gateway.upstream import Upstream

Json = dict[str, Any]

_EXPRESSION = re.compile(r"\{[^{}]*\}")
MAX_TEMPLATE_CHARS = 1_000
SHOWING_SECONDS = 20.0
"""Of a processor, to check the schemas of one list of one server; the tools that are left then are left out."""

OnThread = Callable[[Callable[[], dict[str, "Offered"]]], Awaitable[dict[str, "Offered"]]]

logger = logging.getLogger("byref")


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool or a prompt of a server's."""

    upstream: Upstream
    original: str
    """What the server calls it."""
    definition: Json
    """As the server gave it."""
    shown: Json
    """As the client gets it."""


class Catalogue:
    """Tools, prompts and resources of several servers."""

    def __init__(
        self, upstreams: Sequence[Upstream], policy: Policy, own_tools: Sequence[str], thread: OnThread
    ) -> None:
        self._thread = thread
        self._showing = {"tools": anyio.Lock(), "prompts": anyio.Lock()}
        self._upstreams = upstreams
        self._policy = policy
        self._names = {"tools": Names(own_tools), "prompts": Names()}
        self._offered: dict[str, dict[str, Offered]] = {"tools": {}, "prompts": {}}

    async def offered(self, kind: str) -> list[Offered]:
        """Return the tools, or the prompts, of all servers: in the order of the configuration, each server's as it lists them."""
        listed = await self._listed(kind)
        async with self._showing[kind]:
            names = self._names[kind].assign((upstream.name, item["name"]) for upstream, item in listed)
            named = [(names[upstream.name, item["name"]], upstream, item) for upstream, item in listed]
            before = self._offered[kind]
            if all(name in before and before[name].definition is item for name, _, item in named):
                found = {name: before[name] for name, _, _ in named}
            else:
                found = await self._thread(lambda: self._all_shown(kind, named))
            self._offered[kind] = found
        return list(found.values())

    def _all_shown(self, kind: str, named: Sequence[tuple[str, Upstream, Json]]) -> dict[str, Offered]:
        """Make what clients see; of a server whose schemas take too long to be checked, what was made in time."""
        before, found = self._offered[kind], dict[str, Offered]()
        spent, left_out = defaultdict[str, float](float), Counter[str]()
        for name, upstream, item in named:
            same = before.get(name)
            if same is not None and same.definition is item:
                found[name] = same
                continue
            if spent[upstream.name] > SHOWING_SECONDS:
                left_out[upstream.name] += 1
                continue
            began = time.thread_time()
            try:
                found[name] = Offered(upstream, item["name"], item, self._shown(kind, name, item))
            except BaseException as error:
                if not is_failure(error):
                    raise
                left_out[upstream.name] += 1
            spent[upstream.name] += time.thread_time() - began
        for server, count in left_out.items():
            logger.warning("server %r: %d of its %s are left out: they cannot be shown", server, count, kind)
        return found

    async def find(self, kind: str, name: str) -> Offered | None:
        """Return what has a name; a list that is out of date is asked for again."""
        found = self._offered[kind].get(name)
        if found is not None and any(item is found.definition for item in found.upstream.known(kind)):
            return found
        await self.offered(kind)
        return self._offered[kind].get(name)

    def unknown(self, kind: str, name: str) -> str:
        """Return what to say of a name that nothing has; of one that something had, whose it was."""
        owner = self._names[kind].server_of(name)
        gone = "" if owner is None else f": the server {owner!r} had it, and lists it no more; ask for the list again"
        return f"Unknown {kind.removesuffix('s')}: {name[:200]}{gone}"

    async def resources(self, kind: str) -> list[Json]:
        """Return the resources, or the templates, of all servers; of those with the same URI the first."""
        key = "uri" if kind == "resources" else "uriTemplate"
        found: dict[str, Json] = {}
        for _, item in await self._listed(kind):
            found.setdefault(item[key], item)
        return list(found.values())

    async def owners(self, uri: str) -> list[Upstream]:
        """Return the servers that may have a resource, the likeliest first: who lists it, who has a template for it."""
        serving = [upstream for upstream in self._upstreams if upstream.has("resources")]
        listing = [one for one in serving if any(item["uri"] == uri for item in one.known("resources"))]
        if not listing:
            for one in serving:
                templates = await one.items("templates")
                if any(item["uriTemplate"] == uri or _matches(item["uriTemplate"], uri) for item in templates):
                    listing.append(one)
        return [*listing, *(one for one in serving if one not in listing)]

    async def _listed(self, kind: str) -> list[tuple[Upstream, Json]]:
        found: dict[int, list[Json]] = {}

        async def ask(at: int, upstream: Upstream) -> None:
            found[at] = await upstream.items(kind) if upstream.settled.is_set() else upstream.left_out(kind)

        async with anyio.create_task_group() as tasks:
            for at, upstream in enumerate(self._upstreams):
                tasks.start_soon(ask, at, upstream)
        return [(upstream, item) for at, upstream in enumerate(self._upstreams) for item in found[at]]

    def _shown(self, kind: str, name: str, item: Json) -> Json:
        if kind == "tools":
            own, item = self._policy.tool(name), sound(item)
            item = with_references(item) if own.references else item
            item = with_offloading(item) if self._policy.for_tool(name).enabled else item
        return {**item, "name": name}


def _matches(template: str, uri: str) -> bool:
    """Whether a URI may have been made from a template: a guess, as the server itself has the last word."""
    first, *others = _EXPRESSION.split(template[:MAX_TEMPLATE_CHARS])
    if not uri.startswith(first) or (others and not uri.endswith(others[-1])):
        return False
    at = len(first)
    for part in others:
        if (at := uri.find(part, at)) < 0:
            return False
        at += len(part)
    return bool(others) or uri == first
