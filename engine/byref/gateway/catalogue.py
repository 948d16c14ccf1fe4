"""All that the servers offer, under the names that clients see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from byref import Policy
from byref.adapters.mcp_schemas import sound, with_offloading, with_references
from byref.gateway.names import Names
from byref.gateway.upstream import Upstream

Json = dict[str, Any]

_EXPRESSION = re.compile(r"\{[^{}]*\}")
MAX_TEMPLATE_CHARS = 1_000


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

    def __init__(self, upstreams: Sequence[Upstream], policy: Policy, own_tools: Sequence[str]) -> None:
        self._upstreams = upstreams
        self._policy = policy
        self._names = {"tools": Names(own_tools), "prompts": Names()}
        self._offered: dict[str, dict[str, Offered]] = {"tools": {}, "prompts": {}}

    async def offered(self, kind: str) -> list[Offered]:
        """Return the tools, or the prompts, of all servers: in the order of the configuration, each server's as it lists them."""
        listed = await self._listed(kind)
        names = self._names[kind].assign((upstream.name, item["name"]) for upstream, item in listed)
        before, found = self._offered[kind], {}
        for upstream, item in listed:
            name = names[upstream.name, item["name"]]
            same = before.get(name)
            if same is not None and same.definition is item:
                found[name] = same
            else:
                found[name] = Offered(upstream, item["name"], item, self._shown(kind, name, item))
        self._offered[kind] = found
        return list(found.values())

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
