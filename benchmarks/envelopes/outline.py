"""Readers of what our envelopes say of types: the outline, by its description in docs/texts.md alone, and JSON Schema."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

TYPES = {"str": "string", "int": "integer", "num": "number", "bool": "boolean", "null": "null"}


@dataclass(eq=False)
class Shape:
    """What is said of objects; objects at several places may have one shape."""

    members: dict[str, Node] = field(default_factory=dict)
    each: Node | None = None
    """Of the values of a map."""
    count: int | None = None
    """Of the keys of a map, if it is told."""
    more: int = 0
    """Keys that are told of by their number only."""
    is_open: bool = False
    """Whether nothing is said of further members."""
    is_named: bool = False
    """Whether it has a name, under which it stands for objects at several places, of which some may not be written out."""


@dataclass(eq=False)
class Node:
    """What is said of the values at one place."""

    types: set[str] = field(default_factory=set)
    """JSON types; none if nothing is said of them."""
    items: Node | None = None
    length: int | None = None
    shape: Shape | None = None
    cells: list[tuple[str, Node]] = field(default_factory=list)
    """Of the items of an array that is a row: the columns' names, empty ones where they have none, and what is said of each."""
    more_cells: int = 0
    has_header: bool = False
    """Whether the first item is said to name the columns."""
    is_optional: bool = False
    """Of a member: whether it is said not to be in every object."""
    count: int | None = None
    """Of an optional member: how many objects are said to have it."""


def of_schema(schema: Any) -> Node:
    """What a JSON Schema says."""
    node = Node()
    for one in [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        types = one.get("type", ())
        node.types |= {types} if isinstance(types, str) else set(types)
        if one.get("properties") or isinstance(one.get("additionalProperties"), dict):
            node.shape = node.shape or Shape(is_open=True)
        for name, member in one.get("properties", {}).items():
            assert node.shape is not None
            node.shape.members[name] = of_schema(member)
            node.shape.members[name].is_optional = name not in one.get("required", ())
        if node.shape is not None and isinstance(one.get("additionalProperties"), dict):
            node.shape.each = of_schema(one["additionalProperties"])
        if isinstance(one.get("items"), dict):
            node.items = of_schema(one["items"])
    return node


def read(text: str) -> Node:
    """What an outline says, the empty one nothing; ValueError if it is none."""
    return _Reader(text).whole() if text else Node()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._shapes: dict[str, Shape] = {}
        self._unmarked: list[Node] = []

    def whole(self) -> Node:
        node = self._type()
        if self._takes("; unmarked: "):
            said = self._type()
            for unmarked in self._unmarked:
                unmarked.types |= said.types
        elif self._unmarked:
            raise ValueError("a key stands without a type, and nothing says which type it is of")
        if self._at < len(self._text):
            raise ValueError(f"no outline from character {self._at} on: {self._text[self._at : self._at + 40]!r}")
        return node

    def _takes(self, mark: str) -> bool:
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) * found
        return found

    def _match(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def _needs(self, mark: str) -> None:
        if not self._takes(mark):
            raise ValueError(f"{mark!r} is missing at character {self._at}: {self._text[self._at : self._at + 40]!r}")

    def _type(self) -> Node:
        node = Node()
        while True:
            if self._takes("["):
                node.types.add("array")
                node.has_header = self._match(r"header,(?=[\d\[])") is not None
                found = self._match(r"([\d,]+) of ")
                node.length = _number(found[1]) if found else None
                if not self._takes("]"):
                    self._items(node)
            elif self._takes("{"):
                node.types.add("object")
                node.shape = Shape()
                self._members(node.shape)
            elif self._takes("…"):
                node.types.add("any")
            else:
                found = self._match(r"[A-Za-z_]\w*")
                if found is None:
                    raise ValueError(f"no type at character {self._at}: {self._text[self._at : self._at + 40]!r}")
                if found[0] in TYPES:
                    node.types.add(TYPES[found[0]])
                else:
                    node.types.add("object")
                    node.shape = self._shapes.setdefault(found[0], Shape())
                    node.shape.is_named = True
                    if self._takes("={"):
                        self._members(node.shape)
            if not self._takes("|"):
                return node

    def _items(self, node: Node) -> None:
        """What is said of the items: one type, or, of a row, the cells with names or without."""
        start, unmarked = self._at, list(self._unmarked)
        for read in (self._named, self._unnamed):
            self._at, self._unmarked = start, list(unmarked)
            node.cells, node.more_cells = [], 0
            try:
                read(node)
                self._needs("]")
            except ValueError:
                continue
            if len(node.cells) == 1 and not node.cells[0][0] and not node.more_cells:
                node.items, node.cells = node.cells[0][1], []
            return
        raise ValueError(f"no items at character {start}: {self._text[start : start + 40]!r}")

    def _named(self, node: Node) -> None:
        while True:
            names = self._names()
            if self._text[self._at : self._at + 1] == "?" or any(
                name in TYPES for name in names if self._is_bare(name)
            ):
                raise ValueError("no name of a column")
            cells = self._typed(names)
            if (
                len(names) == 1
                and not self._text.startswith(",", self._at)
                and not node.cells
                and cells[0] in self._unmarked
            ):
                raise ValueError("one column has a type")
            node.cells += zip(names, cells, strict=True)
            if not self._further(node):
                return

    def _is_bare(self, name: str) -> bool:
        return not self._text[: self._at].endswith('"')

    def _unnamed(self, node: Node) -> None:
        node.cells.append(("", self._type()))
        while self._further(node):
            node.cells.append(("", self._type()))

    def _further(self, node: Node) -> bool:
        """Whether a further cell is written."""
        if not self._takes(","):
            return False
        if found := self._match(r"([\d,]*\d) more cells?"):
            node.more_cells = _number(found[1])
            return False
        return True

    def _members(self, shape: Shape) -> None:
        while not self._takes("}"):
            self._takes(",")
            if found := self._match(r"([\d,]*\d) (?:more )?keys?"):
                shape.more = _number(found[1])
            elif self._takes("…"):
                shape.is_open = True
            elif found := self._match(r"\*(?:\(([\d,]+)\))?"):
                shape.count = _number(found[1]) if found[1] else None
                [shape.each] = self._typed([""])
            else:
                names = self._names()
                for name, node in zip(names, self._typed(names), strict=True):
                    node.is_optional, node.count = names[name]
                    shape.members[name] = node

    def _names(self) -> dict[str, tuple[bool, int | None]]:
        """The keys that stand here, one or several in brackets, whether each is optional, and in how many objects it is then."""
        names: dict[str, tuple[bool, int | None]] = {}
        several = self._takes("(")
        while True:
            if self._text.startswith('"', self._at):
                name, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
            elif found := self._match(r"[^\W\d]\w*"):
                name = found[0]
            else:
                raise ValueError(f"no key at character {self._at}: {self._text[self._at : self._at + 40]!r}")
            is_optional = self._takes("?")
            found = self._match(r"\(([\d,]+)\)") if is_optional else None
            names[name] = is_optional, _number(found[1]) if found else None
            if not several:
                return names
            if not self._takes(","):
                self._needs(")")
                return names

    def _typed(self, names: dict[str, tuple[bool, int | None]] | list[str]) -> list[Node]:
        """A node for each key of one type."""
        if not self._takes(":"):
            nodes = [Node() for _ in names]
            self._unmarked += nodes
            return nodes
        start = self._at
        nodes = []
        for _ in names:  # each has a shape of its own, though it is written once
            self._at = start
            nodes.append(self._type())
        return nodes


def _number(text: str) -> int:
    return int(text.replace(",", ""))
