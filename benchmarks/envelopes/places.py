"""What a reader of an envelope knows of the data: a tree of places, made of its schema, its values, or raw text that breaks off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.envelopes import outline

ITEM, KEY = "[]", "*"
Path = tuple[str, ...]
"""Steps down: a member's name, `[]` for each item of an array, `*` for each value of a map. No output here has a member of these names."""


@dataclass(eq=False)
class Place:
    """What is known of the values at one place."""

    members: dict[str, Place] = field(default_factory=dict)
    each: Place | None = None
    """The values of a map, whatever their keys."""
    items: Place | None = None
    examples: list[object] = field(default_factory=list)
    """Scalars that stand there, other than null."""

    def member(self, name: str) -> Place:
        """The place of a member, made if need be."""
        return self.members.setdefault(name, Place())

    def of_each(self) -> Place:
        """The place of a map's values, made if need be."""
        self.each = self.each or Place()
        return self.each

    def of_items(self) -> Place:
        """The place of an array's items, made if need be."""
        self.items = self.items or Place()
        return self.items

    def at(self, path: Path, asked: str = "") -> list[Place]:
        """All places that a path leads to. A name leads through a map's values only if the question that is asked says it."""
        if not path:
            return [self]
        step, rest = path[0], path[1:]
        below: list[Place | None] = []
        if step == ITEM:
            below = [self.items]
        elif step == KEY:
            below = [self.each, *self.members.values()]
        elif step in self.members:
            below = [self.members[step]]
        elif step in asked:
            below = [self.each]
        return [found for place in below if place is not None for found in place.at(rest, asked)]

    @property
    def has_example(self) -> bool:
        """Whether a value stands there or below."""
        pending: list[Place | None] = [self]
        seen: set[Place] = set()
        while pending:
            place = pending.pop()
            if place is None or place in seen:
                continue
            if place.examples:
                return True
            seen.add(place)
            pending += [*place.members.values(), place.each, place.items]
        return False


@dataclass(frozen=True)
class Known:
    """All that an envelope tells: several trees of the same data, of a schema, of a preview, of values."""

    trees: tuple[Place, ...]

    def at(self, path: Path, asked: str = "") -> list[Place]:
        """All places of a path, in any of the trees."""
        return [place for tree in self.trees for place in tree.at(path, asked)]


def parsed(path: str) -> Path:
    """The steps of a written path: names joined by dots, other names as JSON strings, `[]` and `*`; `$` is the value itself."""
    steps: list[str] = []
    rest = path.removeprefix("$")
    while rest:
        if rest.startswith("[]"):
            steps.append(ITEM)
            rest = rest[2:]
        elif found := re.match(r"\[\d+\]", rest):
            steps.append(found[0])
            rest = rest[found.end() :]
        elif rest[0] == ".":
            rest = rest[1:]
        elif rest[0] == '"':
            name, end = json.JSONDecoder().raw_decode(rest)
            steps.append(name)
            rest = rest[end:]
        else:
            found = re.match(r"[^.\[\"]+", rest)
            if found is None:
                raise ValueError(f"no path: {path!r}")
            steps.append(found[0])
            rest = rest[found.end() :]
    return tuple(steps)


# Readers -----------------------------------------------------------------------------------------------------------------


def read(envelope: str, text: str) -> Known:
    """All that an envelope tells of an output: ours in any form, or another system's, in which the text itself begins."""
    try:
        given = json.loads(envelope)
    except ValueError:
        given = None
    if isinstance(given, dict) and ("schema" in given or "preview" in given or "shape" in given):
        return Known(tuple(_ours(given)))
    if text[:1] not in "[{":
        return Known((_of_text(envelope, text),))
    start = envelope.find(text[:20])
    for opening in ("{\n", "[\n"):
        start = envelope.find(opening) if start < 0 else start
    return Known((of_value(_Broken(envelope[start:]).value()),) if start >= 0 else ())


def _ours(given: dict[str, Any]) -> Iterator[Place]:
    schema = given.get("schema")
    if isinstance(schema, str):
        yield of_node(outline.read(schema))
    elif isinstance(schema, dict):
        yield of_node(outline.of_schema(schema))
    if "preview" in given:
        yield of_value(given["preview"])
    for written, said, _ in statements(given.get("values") or {}):
        is_value = not isinstance(said, str) or re.match(r"null \d|unique|'' |empty |\d+ to \d+ items", said) is None
        try:
            steps = parsed(written.removeprefix(KEYS))
        except ValueError:
            continue
        root = place = Place()
        for step in steps:
            place = place.of_items() if step == ITEM else place.of_each() if step == KEY else place.member(step)
        if written.startswith(KEYS):
            place = place.of_each()
        place.examples += [said] if is_value else []
        yield root


KEYS = "keys of "
SAMPLE = re.compile(r", of a sample of ([\d,]+)$")


def statements(values: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """What `values` says: the path, with `keys of` before it if it is about keys, the statement, and whether of a sample."""
    for place, said in values.items():
        sample = SAMPLE.search(place)
        path = place[: sample.start()] if sample else place
        for name, statement in said.items() if isinstance(said, dict) else (("", said),):
            written = _below(path, name) if name else path
            yield (
                written,
                statement,
                sample is not None or (isinstance(statement, str) and bool(SAMPLE.search(statement))),
            )


def _below(path: str, name: str) -> str:
    """A name below a table: a path, or a key that needs no quotes there."""
    if name.startswith(KEYS):
        return f"{KEYS}{_below(path, name.removeprefix(KEYS))}"
    if name.startswith("[") or '"' in name or re.fullmatch(r"[\w.\[\]*]+", name):
        return f"{path}{name}" if name.startswith("[") else f"{path}.{name}"
    return f'{path}."{name}"'


def of_node(node: outline.Node) -> Place:
    """What is said of types, as a tree; shapes that hold themselves make it endless."""
    return _of_node(node, {})


def _of_node(node: outline.Node, known: dict[int, Place]) -> Place:
    place = Place()
    if node.items is not None:
        place.items = _of_node(node.items, known)
    for name, cell in node.cells:
        if name:
            place.members[name] = _of_node(cell, known)
    if node.shape is not None:
        shared = known.get(id(node.shape))
        if shared is None:
            shared = known[id(node.shape)] = Place()
            for name, member in node.shape.members.items():
                shared.members[name] = _of_node(member, known)
            shared.each = _of_node(node.shape.each, known) if node.shape.each is not None else None
        place.members = shared.members
        place.each = shared.each
    return place


GAP = re.compile(r"\.\.\.|\.\.\. \(.*\) \.\.\.|\.\.\. [\d,]+ more \.\.\.|\.\.\. ?\[.*\].*")
"""What stands in a list in place of what is left out."""
MORE = ("...", "…")
"""Members that say what is left out of an object."""


def of_value(value: Any) -> Place:
    """What a value tells that stands there, marks of what is left out aside."""
    place = Place()
    _learn(place, value)
    return place


def _learn(place: Place, value: Any) -> None:
    if isinstance(value, dict):
        for name, member in value.items():
            if name not in MORE or not isinstance(member, str):
                _learn(place.member(name), member)
    elif isinstance(value, list):
        for item in value:
            if not (isinstance(item, str) and GAP.fullmatch(item)):
                _learn(place.of_items(), item)
    elif value is not None:
        place.examples.append(value)


def type_of(value: object) -> str:
    """The JSON type; whole numbers are integers."""
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return kinds.get(type(value), "null")


class _Broken:
    """Reads JSON that may break off anywhere: what is whole before the break."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._is_broken = False

    def value(self) -> Any:
        """The value that begins here."""
        self._skip()
        opening = self._text[self._at : self._at + 1]
        if opening == "{":
            return self._object()
        if opening == "[":
            return self._array()
        try:
            value, end = json.JSONDecoder().raw_decode(self._text, self._at)
        except ValueError:
            self._is_broken = True
            return None
        self._is_broken = end == len(self._text)
        self._at = end
        return value

    def _skip(self, more: str = "") -> None:
        while self._text[self._at : self._at + 1] and self._text[self._at] in " \n\r\t" + more:
            self._at += 1

    def _object(self) -> dict[str, Any]:
        self._at += 1
        found: dict[str, Any] = {}
        while True:
            self._skip(",")
            if self._text[self._at : self._at + 1] == "}":
                self._at += 1
                return found
            name = self.value()
            self._skip()
            if self._is_broken or not isinstance(name, str) or self._text[self._at : self._at + 1] != ":":
                self._is_broken = True
                return found
            self._at += 1
            value = self.value()
            if not self._is_broken or value not in (None, [], {}):
                found[name] = value
            if self._is_broken:
                return found

    def _array(self) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        while True:
            self._skip(",")
            if self._text[self._at : self._at + 1] == "]":
                self._at += 1
                return found
            value = self.value()
            if not self._is_broken or value not in (None, [], {}):
                found.append(value)
            if self._is_broken:
                return found


def _of_text(envelope: str, text: str) -> Place:
    """Of a table or lines: the columns, if their names stand there, with an example if a whole line does."""
    place = Place()
    header, *lines = text.splitlines()
    shown = any(line in envelope for line in (*lines[:3], *lines[-3:]) if len(line) > 10)
    if shown or header in envelope:
        place.member("line").examples.append(header)
    if "," in header and header in envelope:
        for name in header.split(","):
            column = place.of_items().member(name)
            column.examples += ["…"] if shown else []
    return place
