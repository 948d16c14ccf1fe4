"""XML of repeated records: elements of one name beside each other are the rows of a table.

An element becomes an object: attributes as `@name`, children by their names, a list where a name is repeated, text beside them as
`#text`; an element with text alone is that text. Texts lose the blanks at their ends, unless `xml:space` keeps them. Elements that are
not repeated stand before the tables, with their paths.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree
from xml.parsers import expat

from byref_sandbox import wire
from byref_sandbox.documents.building import NotATable, check_width, of_texts
from byref_sandbox.documents.inflating import Room

_MAX_DEPTH: Final = 200
_MAX_TABLES: Final = 1_000
_MAX_ASIDES: Final = 1_000
_MIXED_SHARE: Final = 0.1
"""Records with text between their elements; with more it is prose."""
_ELEMENT: Final = ElementTree.Element
_NAMESPACE: Final = re.compile(rb"xmlns|\x00")
_SPACE: Final = "xml:space"
_COMMENT: Final = re.compile(rb"<!--")


class _Stop(Exception):
    pass


def read(data: bytes, room: Room) -> Iterator[wire.Frame]:
    """Yield the tables of a document; raise NotATable if it has none, or declares entities."""
    _check(data)
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise NotATable(f"it is no XML that can be read: {error}") from None
    _rename(root, _prefixes(data))
    _strip(root)
    found = _Groups()
    found.walk(root, f"/{root.tag}", 1)
    if not found.groups:
        raise NotATable("no elements of one name stand beside each other")
    notes = ["comments are left out"] if _COMMENT.search(data) else []
    asides = found.asides[:_MAX_ASIDES]
    if len(found.asides) > _MAX_ASIDES:
        notes.append(f"{len(found.asides) - _MAX_ASIDES:,} further texts stand outside of the tables")
    for number, (path, records) in enumerate(found.groups):
        if number >= _MAX_TABLES:
            yield wire.LeftOut(
                path, f"one of {len(found.groups):,} lists of elements, of which {_MAX_TABLES:,} are read"
            )
            return
        try:
            yield _table(path, records, asides if number == 0 else [], notes if number == 0 else [], room)
        except NotATable as error:
            yield wire.LeftOut(path, str(error))


def _check(data: bytes) -> None:
    """Read what stands before the first element; raise NotATable of a document that declares entities."""
    parser = expat.ParserCreate()

    def begin(_name: str, _attributes: Any) -> None:
        raise _Stop

    def declare(name: str, *_rest: Any) -> None:
        raise NotATable(f"it declares an entity, {name!r}: entities are not put in")

    parser.EntityDeclHandler = declare
    parser.StartElementHandler = begin
    try:
        parser.Parse(data, True)
    except _Stop:
        return
    except expat.ExpatError as error:
        raise NotATable(f"it is no XML that can be read: {error}") from None


def _prefixes(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    if _NAMESPACE.search(data) is None:
        return found
    for _, (prefix, uri) in ElementTree.iterparse(io.BytesIO(data), events=("start-ns",)):
        found.setdefault(uri, prefix)
    return found


def _rename(root: Any, prefixes: dict[str, str]) -> None:
    """Write names without their namespaces, or with their prefixes where two namespaces have the same name."""
    names = {each.tag for each in root.iter()}
    local = Counter(name.rpartition("}")[2] for name in names)
    made = {name: _short(name, prefixes, is_only=local[name.rpartition("}")[2]] == 1) for name in names}
    for each in root.iter():
        each.tag = made[each.tag]
        if any(key[0] == "{" for key in each.attrib):
            each.attrib = {_short(key, prefixes, is_only=False): value for key, value in each.attrib.items()}


def _short(name: str, prefixes: dict[str, str], *, is_only: bool) -> str:
    if not name.startswith("{"):
        return name
    uri, _, local = name[1:].rpartition("}")
    if is_only:
        return local
    prefix = prefixes.get(uri, "xml" if uri.endswith("/XML/1998/namespace") else "")
    return f"{prefix}:{local}" if prefix else local


def _strip(root: Any) -> None:
    """Take the blanks at the ends of all texts, but where `xml:space` keeps them: there, those between elements."""
    pending = [(root, False)]
    while pending:
        element, keeps = pending.pop()
        keeps = element.attrib.get(_SPACE, "preserve" if keeps else "") == "preserve"
        if not keeps or len(element):
            element.text = _text(element.text, keeps=keeps)
        for child in element:
            child.tail = _text(child.tail, keeps=keeps)
            pending.append((child, keeps))


def _text(text: str | None, *, keeps: bool) -> str | None:
    stripped = text.strip() if text else None
    return text if keeps and stripped else stripped


class _Groups:
    """The lists of elements that are tables, and what stands outside of them."""

    def __init__(self) -> None:
        self.groups: list[tuple[str, list[Any]]] = []
        self.asides: list[wire.Aside] = []

    def walk(self, element: Any, path: str, depth: int) -> None:
        """Look for repeated children of an element, then into those that are not."""
        _check_depth(depth)
        for name, value in element.attrib.items():
            self.asides.append(wire.Aside(f"{path}/@{name}", [value]))
        if text := element.text:
            self.asides.append(wire.Aside(path, [text]))
        counts = Counter(child.tag for child in element)
        repeated: dict[str, list[Any]] = {}
        for child in element:
            if text := child.tail:
                self.asides.append(wire.Aside(path, [text]))
            if counts[child.tag] > 1:
                if child.tag not in repeated:
                    repeated[child.tag] = []
                    self.groups.append((f"{path}/{child.tag}", repeated[child.tag]))
                repeated[child.tag].append(child)
            else:
                self.walk(child, f"{path}/{child.tag}", depth + 1)


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise NotATable(f"its elements are nested more than {_MAX_DEPTH:,} levels deep")


def _table(path: str, elements: list[Any], before: list[wire.Aside], notes: list[str], room: Room) -> wire.Table:
    lists = _repeated(elements)
    mixed = 0
    objects = []
    for element in elements:
        value = _value(element, lists, ())
        mixed += any(child.tail for child in element)
        objects.append(value if type(value) is dict else {} if value is None else {"#text": value})
    if mixed > len(elements) * _MIXED_SHARE:
        raise NotATable("text stands between the elements: it is prose")
    names = [*dict.fromkeys(name for each in objects for name in each)]
    names = names or ["#text"]
    shown = [path.rpartition("/")[2]] if names == ["#text"] else names
    check_width(len(names))
    if len(names) * len(objects) > 10_000_000:
        raise NotATable(f"it has {len(names):,} columns and {len(objects):,} rows, most of them empty")
    rows = [[each.get(name) for name in names] for each in objects]
    records, types = of_texts(shown, rows, room.left)
    return records.table(path.rpartition("/")[2], path, types=types, before=before, notes=notes)


def _repeated(elements: list[Any]) -> set[tuple[str, ...]]:
    """Return the paths below these elements of children that are repeated in any: they are lists in all."""
    found: set[tuple[str, ...]] = set()
    level: list[tuple[tuple[str, ...], list[Any]]] = [((), elements)]
    while level:
        below: dict[tuple[str, ...], list[Any]] = {}
        for path, parents in level:
            _check_depth(len(path))
            for parent in parents:
                seen: set[str] = set()
                for child in parent:
                    inner = (*path, child.tag)
                    if child.tag in seen:
                        found.add(inner)
                    seen.add(child.tag)
                    if len(child):
                        below.setdefault(inner, []).append(child)
        level = [*below.items()]
    return found


def _value(element: Any, lists: set[tuple[str, ...]], path: tuple[str, ...]) -> Any:
    text = element.text
    if not len(element) and not element.attrib:
        return text or None
    made: dict[str, Any] = {f"@{name}": value for name, value in element.attrib.items()}
    texts = [text] if text else []
    for child in element:
        inner = (*path, child.tag)
        value = _value(child, lists, inner)
        if inner in lists:
            made.setdefault(child.tag, []).append(value)
        else:
            made[child.tag] = value
        if tail := child.tail:
            texts.append(tail)
    if texts:
        made["#text"] = texts[0] if len(texts) == 1 else texts
    return made
