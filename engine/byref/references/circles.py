"""Detection of untrusted schemas whose check would never end, or take too long, before any data is checked against them.

A schema may apply another one to the same value (`allOf`, `not`, `$ref`). If a chain of these returns to its start, a check never
ends. If each of twenty schemas applies the next one twice, one value takes a million checks. A schema that returns to itself only
for a part of the value (a tree) is fine: the check ends with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from byref.errors import ConfigurationError

MAX_LEVELS = 100
"""Maximum levels of a schema's own JSON, and of schemas that apply one another to the same value."""
MAX_CHECKS = 10_000
"""Maximum schemas that one value is checked against, each counted as often as it is applied."""
MAX_SCHEMAS = 100_000
"""Maximum schemas inside one schema."""
_APPLICATORS = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "type", "extends", "disallow")
_APPLICATORS_BY_NAME = ("dependentSchemas", "dependencies")
"""Keywords of all drafts that apply schemas to the same value. A circle is refused even if the draft does not know its keyword."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def check_circles(schema: dict[str, Any], in_time: Callable[[], None]) -> str | None:
    """Refuse a schema that applies itself to the same value again, or too many schemas to one value.

    Return a reference to what is not in the schema, if it has one: a check that comes to it fails.

    `in_time` is called at every step and raises when the time is up.

    Raises:
        ConfigurationError: the schema is refused; the message says why.
    """
    walk = _Walk(schema, in_time)
    walk.run()
    return walk.missing


def check_levels(schema: Any) -> None:
    """Refuse a schema that is nested too deeply to be read.

    Raises:
        ConfigurationError: the schema has more than `MAX_LEVELS` levels.
    """
    level, levels = [schema], 0
    while level:
        levels += 1
        if levels > MAX_LEVELS:
            raise ConfigurationError(f"the schema of the target tool has more than {MAX_LEVELS} levels")
        level = [
            member
            for one in level
            for member in (one.values() if isinstance(one, dict) else one)
            if isinstance(member, dict | list)
        ]


class _Walk:
    """Follows, for every schema inside one, the schemas that it applies to the same value; depth first, without recursion."""

    def __init__(self, root: dict[str, Any], in_time: Callable[[], None]) -> None:
        self.missing: str | None = None
        self._in_time = in_time
        self._specification = specification_with(str(root.get("$schema", "")), default=DRAFT202012)
        resource = self._specification.create_resource(root)
        uri = resource.id() or ""
        self._root = root, Registry().with_resource(uri, resource).crawl().resolver(uri)
        self._checks: dict[int, int] = {}
        """The checks that one value takes, by the `id()` of each finished schema."""
        self._anchored: list[tuple[str, dict[str, Any], Any]] = []

    def run(self) -> None:
        found, left = dict[int, tuple[dict[str, Any], Any]](), [self._root]
        while left:
            self._in_time()
            schema, resolver = left.pop()
            if id(schema) in found:
                continue
            found[id(schema)] = schema, resolver
            if len(found) > MAX_SCHEMAS:
                raise ConfigurationError(f"the schema of the target tool has more than {MAX_SCHEMAS:,} within it")
            for keyword in ("$dynamicAnchor", "$recursiveAnchor"):
                if keyword in schema:
                    self._anchored.append((keyword, schema, resolver))
            inner = [one for one in self._specification.subresources_of(schema) if isinstance(one, dict)]
            left += [(one, self._within(one, resolver)) for one in inner]
            left += self._referred(schema, resolver)
        for schema, resolver in found.values():
            self._follow(schema, resolver)

    def _within(self, schema: dict[str, Any], resolver: Any) -> Any:
        return resolver.in_subresource(self._specification.create_resource(schema))

    def _follow(self, schema: dict[str, Any], resolver: Any) -> None:
        if id(schema) in self._checks:
            return
        way: list[tuple[dict[str, Any], Iterator[tuple[dict[str, Any], Any]]]] = [
            (schema, self._applied(schema, resolver))
        ]
        on_way, counts = {id(schema)}, [1]
        while way:
            self._in_time()
            following = next(way[-1][1], None)
            if following is None:
                done, _ = way.pop()
                on_way.discard(id(done))
                self._checks[id(done)] = count = counts.pop()
                if count > MAX_CHECKS:
                    raise ConfigurationError(
                        f"the schema of the target tool applies more than {MAX_CHECKS:,} schemas to one value"
                    )
                if counts:
                    counts[-1] += count
                continue
            inner, scope = following
            if id(inner) in on_way:
                raise ConfigurationError("the schema of the target tool applies itself to the same value again")
            if (known := self._checks.get(id(inner))) is not None:
                counts[-1] += known
                continue
            if len(way) >= MAX_LEVELS:
                raise ConfigurationError(
                    f"the schema of the target tool has more than {MAX_LEVELS} levels that apply to one value"
                )
            way.append((inner, self._applied(inner, scope)))
            on_way.add(id(inner))
            counts.append(1)

    def _applied(self, schema: dict[str, Any], resolver: Any) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield the schemas that a schema applies to the same value, each with the resolver of its references."""
        inner: list[Any] = []
        for keyword in _APPLICATORS:
            given = schema.get(keyword)
            inner += given if isinstance(given, list) else [given]
        for keyword in _APPLICATORS_BY_NAME:
            given = schema.get(keyword)
            inner += given.values() if isinstance(given, dict) else ()
        for one in inner:
            if isinstance(one, dict):
                yield one, self._within(one, resolver)
        yield from self._referred(schema, resolver)

    def _referred(self, schema: dict[str, Any], resolver: Any) -> list[tuple[dict[str, Any], Any]]:
        """Return the schemas that a schema refers to; for a dynamic reference, every schema that it may mean."""
        found = []
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str):
                continue
            try:
                resolved = resolver.lookup(reference)
            except Unresolvable:  # the check that uses the reference reports it
                self.missing = self.missing or reference
                continue
            if isinstance(resolved.contents, dict):
                found.append((resolved.contents, resolved.resolver))
            if keyword != "$ref":
                name = reference.rpartition("#")[2]
                found += [
                    (one, scope)
                    for anchor, one, scope in self._anchored
                    if (anchor == "$dynamicAnchor") == (keyword == "$dynamicRef")
                    and (one[anchor] == name or anchor == "$recursiveAnchor")
                ]
        return found
