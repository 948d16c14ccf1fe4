"""What the servers offer, under the names that clients see, with the server's name in every title."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from byref.adapters.mcp.schemas import sound, with_learned, with_offloading, with_references
from byref.gateway import labels
from byref.gateway.containment import is_failure
from byref.gateway.names import Names
from byref.gateway.upstream import Upstream
from byref.policy import TOOL_NAMES, Policy

Json = dict[str, Any]

_EXPRESSION = re.compile(r"\{[^{}]*\}")
MAX_TEMPLATE_CHARS = 1_000
SHOWING_SECONDS = 20.0
"""CPU seconds for checking the schemas of one list of one server; tools beyond that are left out."""

Learned = Callable[[tuple[str, ...]], Mapping[str, Json | None]]
OnThread = Callable[[Callable[[], dict[str, "Offered"]]], Awaitable[dict[str, "Offered"]]]
MAX_NAMED = 10
"""Names listed in one log line or one error."""
OWN = "byref://"
CHANGED = "[changed since this conversation began]"
"""First line of the description of a tool whose definition has changed since the client first got it."""
_DEFINES = ("title", "description", "inputSchema", "outputSchema", "annotations", "arguments")
"""The members of a definition that describe what it does; the others concern only programs."""

logger = logging.getLogger("byref")


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool or prompt of a server."""

    upstream: Upstream
    original: str
    """Its name at the server."""
    definition: Json
    """The definition as the server sent it."""
    shown: Json
    """The definition as the client gets it."""

    @property
    def shows_learned(self) -> bool:
        """Whether the client is shown what the tool has returned so far, because its server does not say what it returns."""
        return "outputSchema" in self.shown and "outputSchema" not in self.definition


class Catalogue:
    """The tools, prompts and resources of all servers of a conversation."""

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        policy: Policy,
        thread: OnThread,
        learned: Learned,
        reserved: Sequence[str] = (),
    ) -> None:
        """`learned` gives what tools have returned so far, by their names; `reserved` are names of tools of the gateway's own."""
        self._learned = learned
        self._thread = thread
        self._showing = {"tools": anyio.Lock(), "prompts": anyio.Lock()}
        self._upstreams = upstreams
        self._policy = policy
        servers = [upstream.name for upstream in upstreams]
        self._names = {"tools": Names((*TOOL_NAMES, *reserved), servers), "prompts": Names((), servers)}
        self._offered: dict[str, dict[str, Offered]] = {"tools": {}, "prompts": {}}
        self._first: dict[tuple[str, str], bytes] = {}
        """A digest of the definition that each name had when the client first got it."""

    async def offered(self, kind: str) -> list[Offered]:
        """Return the tools or prompts of all servers, in the order of the configuration and of each server's own list."""
        is_all = all(upstream.settled.is_set() for upstream in self._upstreams)
        listed = await self._listed(kind)
        async with self._showing[kind]:
            names = self._names[kind].assign(
                ((upstream.name, item["name"]) for upstream, item in listed), is_all=is_all
            )
            keys = [(upstream.name, item["name"]) for upstream, item in listed]
            named = [(names[key], *one) for key, one in zip(keys, listed, strict=True) if key in names]
            before = self._offered[kind]
            # Making the shown form checks schemas, which is slow: unchanged definitions, which are the same objects, are used
            # again.
            if all(name in before and before[name].definition is item for name, _, item in named):
                found = {name: before[name] for name, _, _ in named}
            else:
                found = await self._thread(lambda: self._all_shown(kind, named))
            self._offered[kind] = found
        return list(found.values())

    def _all_shown(self, kind: str, named: Sequence[tuple[str, Upstream, Json]]) -> dict[str, Offered]:
        """Make the definitions that clients see; if a server's schemas take too long to check, only those made in time."""
        before, found = self._offered[kind], dict[str, Offered]()
        spent, left_out = defaultdict[str, float](float), Counter[str]()
        changed = defaultdict[str, list[str]](list)
        unsaid = tuple(name for name, _, item in named if kind == "tools" and "outputSchema" not in item)
        learned = self._learned(unsaid) if unsaid else {}
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
                is_changed = self._first.setdefault((kind, name), digest := _digest(item)) != digest
                if is_changed and (same is None or _digest(same.definition) != digest):
                    changed[upstream.name].append(name)
                shown = self._shown(kind, name, item, upstream.name, is_changed=is_changed)
                shown = with_learned(shown, learned.get(name))
                found[name] = Offered(upstream, item["name"], item, shown)
            except BaseException as error:
                if not is_failure(error):
                    raise
                left_out[upstream.name] += 1
            spent[upstream.name] += time.thread_time() - began
        for server, count in left_out.items():
            logger.warning("server %r: %d of its %s are left out: they cannot be shown", server, count, kind)
        for server, some in changed.items():
            names = ", ".join(some[:MAX_NAMED]) + (
                f" and {len(some) - MAX_NAMED} more" if len(some) > MAX_NAMED else ""
            )
            logger.warning("server %r: %s changed since the conversation began: %s", server, kind, names)
        return found

    def is_given(self, kind: str, name: str) -> bool:
        """Tell whether a name was given to a tool or prompt; it is never given to another."""
        return name in self._names[kind]

    async def find(self, kind: str, name: str) -> Offered | None:
        """Return the tool or prompt with this name, or None; a list that is out of date is asked for again."""
        found = self._offered[kind].get(name)
        if found is not None and any(item is found.definition for item in found.upstream.known(kind)):
            return found
        await self.offered(kind)
        return self._offered[kind].get(name)

    def unknown(self, kind: str, name: str) -> str:
        """Return the error text for an unknown name; it names the server that had the name before, or similar names."""
        owner = self._names[kind].server_of(name)
        gone = "" if owner is None else f": the server {owner!r} had it, and lists it no more; ask for the list again"
        if owner is None and (like := self._names[kind].like(name)):
            gone = f": there is {', '.join(like[:MAX_NAMED])}"
        return f"Unknown {kind.removesuffix('s')}: {name[:200]}{gone}"

    async def resources(self, kind: str) -> list[Json]:
        """Return the resources or templates of all servers; of several with one URI, that of the first server configured."""
        key = "uri" if kind == "resources" else "uriTemplate"
        found: dict[str, Json] = {}
        for upstream, item in await self._listed(kind):
            if not is_own(item[key]):
                title = next((item[key] for key in ("title", "name") if isinstance(item.get(key), str)), item[key])
                found.setdefault(item[key], {**item, "title": labels.titled(upstream.name, title)})
        return list(found.values())

    async def owners(self, uri: str) -> tuple[list[Upstream], int]:
        """Return the servers that may have a resource, the likeliest first, and how many of them claim it.

        A server that lists the URI is the only candidate. Otherwise servers with a matching template come first, the longest fixed
        beginning before others, then the servers without one. Ties are in the order of the configuration.
        """
        serving = [upstream for upstream in self._upstreams if upstream.has("resources")]
        for kind, key in (("resources", "uri"), ("templates", "uriTemplate")):
            for upstream, item in await self._listed(kind, is_fresh=False):
                if item[key] == uri:
                    return [upstream], 1
        fits: dict[Upstream, int] = {}
        for one in serving:
            templates = (item["uriTemplate"] for item in one.known("templates"))
            fitting = [len(_EXPRESSION.split(text, maxsplit=1)[0]) for text in templates if _matches(text, uri)]
            if fitting:
                fits[one] = max(fitting)
        likely = sorted(fits, key=lambda one: -fits[one])
        return [*likely, *(one for one in serving if one not in fits)], sum(map(bool, fits.values()))

    def may_have(self, upstream: Upstream, uri: str) -> bool:
        """Tell whether a resource may be a server's: it is not byref's, and this server lists it first or none does."""
        listing = (one for one in self._upstreams if any(item["uri"] == uri for item in one.known("resources")))
        return not is_own(uri) and next(listing, upstream) is upstream

    async def _listed(self, kind: str, *, is_fresh: bool = True) -> list[tuple[Upstream, Json]]:
        found: dict[int, list[Json]] = {}

        async def ask(at: int, upstream: Upstream) -> None:
            listed = upstream.items if is_fresh else upstream.last
            found[at] = await listed(kind) if upstream.settled.is_set() else upstream.left_out(kind)

        async with anyio.create_task_group() as tasks:
            for at, upstream in enumerate(self._upstreams):
                tasks.start_soon(ask, at, upstream)
        return [(upstream, item) for at, upstream in enumerate(self._upstreams) for item in found[at]]

    def _shown(self, kind: str, name: str, item: Json, server: str, *, is_changed: bool) -> Json:
        if is_changed:
            item = {**item, "description": f"{CHANGED}\n{item.get('description') or ''}".rstrip()}
        if kind == "tools":
            own, item = self._policy.tool(name), sound(item)
            item = with_references(item) if own.references else item
            item = with_offloading(item) if self._policy.for_tool(name).enabled else item
        return {**_titled(item, server), "name": name}


def is_own(uri: str) -> bool:
    """Tell whether a URI has byref's scheme, in any case of letters: no server may imitate it."""
    return uri[: len(OWN)].casefold() == OWN


def _titled(item: Json, server: str) -> Json:
    """Return an item with its server's label in each of its titles."""
    titled = {**item, "title": labels.titled(server, item["title"])} if isinstance(item.get("title"), str) else {**item}
    annotations = item.get("annotations")
    if isinstance(annotations, dict) and isinstance(annotations.get("title"), str):
        titled["annotations"] = {**annotations, "title": labels.titled(server, annotations["title"])}
    return titled


def _digest(item: Json) -> bytes:
    defined = json.dumps({key: item[key] for key in _DEFINES if key in item}, sort_keys=True)
    return hashlib.blake2b(defined.encode(), digest_size=16).digest()


def _matches(template: str, uri: str) -> bool:
    """Tell whether a URI may have been made from a template. This is a guess: the server has the last word."""
    first, *others = _EXPRESSION.split(template[:MAX_TEMPLATE_CHARS])
    if not uri.startswith(first) or (others and not uri.endswith(others[-1])):
        return False
    at = len(first)
    for part in others:
        if (at := uri.find(part, at)) < 0:
            return False
        at += len(part)
    return bool(others) or uri == first
