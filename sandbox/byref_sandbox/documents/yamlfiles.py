"""YAML: a list of mappings, or a document for each record, is a table; of anything else the value is given as JSON.

Plain words are read by the rules of YAML 1.2 that JSON shares: `no`, `012`, `1_000`, `12:30` and dates are texts as they stand, as they
are in the author's eyes. Only `true`, `false`, `null`, `~` and numbers as JSON writes them, with digits that a 64-bit float keeps,
are more. Merge keys (`<<: *base`) are those of YAML 1.1, as files rely on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from byref_sandbox import wire
from byref_sandbox.documents.building import NotATable, Records, batches, check_width
from byref_sandbox.documents.inflating import Room
from byref_sandbox.tabletext.kinds import is_exact

_MAX_NODES: Final = 5_000_000
"""Values, those counted again that an alias repeats."""
_MAX_MERGED: Final = 300_000
"""Members that mappings have from others; each of them is held."""
_MAX_DEPTH: Final = 200
_MAX_BRACKETS: Final = 500
_BRACKETS: Final = re.compile(r"[\[{]+|[\]}]+")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,24})?(?:[eE][-+]?[0-9]{1,3})?\Z")
_COMMENT: Final = re.compile(r"(?m)^\s*#")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain values alone, by fewer rules than YAML 1.1 has."""

    merged = 0
    """Members that mappings have from others."""
    yaml_implicit_resolvers: Final[dict[str, Any]] = {}
    yaml_constructors: Final = {
        tag: made
        for tag, made in yaml.SafeLoader.yaml_constructors.items()
        if tag is not None and tag.rpartition(":")[2] in ("str", "seq", "map", "null", "bool")
    }


def _number(loader: Any, node: Any) -> Any:
    text = loader.construct_scalar(node)
    if not set(text) & set(".eE"):
        return int(text)
    return float(text) if is_exact(text) else text


def _merge(loader: Any, node: Any, depth: int = 0) -> int:
    """Give a mapping the members of those that it merges, before its own, which replace them; return how many of its members these are."""
    if hasattr(node, "inherited"):
        return int(node.inherited)
    own = [pair for pair in node.value if not _merges(pair[0])]
    merged = [value for key, value in node.value if _merges(key)]
    node.value, node.inherited = own, 0  # a mapping may merge itself
    inherited: list[Any] = []
    for value in merged:
        for each in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
            if not isinstance(each, yaml.MappingNode):
                raise NotATable(f"line {each.start_mark.line + 1}: what is merged is no mapping")
            if depth > _MAX_DEPTH:
                raise NotATable(f"line {each.start_mark.line + 1}: more than {_MAX_DEPTH:,} mappings merge one another")
            _merge(loader, each, depth + 1)
            inherited += each.value
            loader.merged += len(each.value)
            if loader.merged > _MAX_MERGED:
                raise NotATable(f"its merge keys stand for more than {_MAX_MERGED:,} values")
    node.value, node.inherited = inherited + own, len(inherited)
    return len(inherited)


def _merges(key: Any) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style


def _mapping(loader: Any, node: Any) -> Iterator[Any]:
    made: dict[Any, Any] = {}
    yield made
    own = set()
    inherited = _merge(loader, node)
    for at, (key_node, value_node) in enumerate(node.value):
        key = loader.construct_object(key_node, deep=True)
        key = (
            key
            if isinstance(key, str)
            else loader.construct_scalar(key_node)
            if isinstance(key_node, yaml.ScalarNode)
            else None
        )
        if key is None:
            raise NotATable(f"line {key_node.start_mark.line + 1}: a key is a list or a mapping")
        if key in own:
            raise NotATable(f"line {key_node.start_mark.line + 1}: the key {key[:100]!r} comes twice")
        if at >= inherited:
            own.add(key)
        made[key] = loader.construct_object(value_node, deep=False)


def _other(_loader: Any, node: Any) -> Any:
    raise NotATable(f"line {node.start_mark.line + 1}: the tag {str(node.tag)[:100]!r} is not known")


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:null|Null|NULL|~|)\Z"), ["n", "N", "~", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:true|false)\Z"), ["t", "f"])
_Loader.add_implicit_resolver("tag:byref:number", _NUMBER, list("-0123456789"))
_Loader.add_constructor("tag:byref:number", _number)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor(None, _other)


def read(data: bytes, room: Room) -> Iterator[wire.Frame]:
    """Yield the table, or the value as JSON; raise NotATable."""
    try:
        text = data.decode("utf-8-sig")
        _check_brackets(text)
        documents = [*yaml.load_all(text, _Loader)]
    except UnicodeDecodeError:
        raise NotATable("it is no text in UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise NotATable(f"{where}{getattr(error, 'problem', None) or 'it is no YAML'}") from None
    _check(documents)
    value = documents[0] if len(documents) == 1 else [each for each in documents if each is not None]
    notes = ["comments are left out"] if _COMMENT.search(text) else []
    if isinstance(value, list) and len(value) > 1 and all(type(each) is dict for each in value):
        yield _table(value, notes, room)
    elif isinstance(value, dict | list) and value:
        written = msgspec.json.encode(value)
        if len(written) > room.left:
            raise NotATable(f"its value takes more than the {room.left:,} bytes that there is room for")
        yield wire.Member("", "application/json", written)
    else:
        raise NotATable("it is one text")


def _table(value: list[dict[str, Any]], notes: list[str], room: Room) -> wire.Table:
    names = [*dict.fromkeys(name for each in value for name in each)]
    check_width(len(names))
    if len(names) * len(value) > _MAX_NODES:
        raise NotATable(f"it has {len(names):,} columns and {len(value):,} rows, most of them empty")
    records = Records(names, room.left)
    for batch in batches(value):
        records.add([[each.get(name) for name in names] for each in batch])
    return records.table("", "", notes=notes)


def _check_brackets(text: str) -> None:
    """Raise NotATable where more brackets are open than any document has: the parser's stack would be full."""
    level = 0
    for found in _BRACKETS.finditer(text):
        level += len(found[0]) if found[0][0] in "[{" else -len(found[0])
        if level > _MAX_BRACKETS:
            raise NotATable(f"more than {_MAX_BRACKETS:,} brackets are open at once")


def _check(value: Any) -> None:
    """Raise NotATable of a value that contains itself, is nested too deeply, or becomes too much where aliases are written out."""
    sizes: dict[int, int] = {}
    open_ones: set[int] = set()

    def size(each: Any, depth: int) -> int:
        if type(each) not in (dict, list):
            return 1
        if id(each) in open_ones:
            raise NotATable("an alias refers to what it stands in")
        if depth > _MAX_DEPTH:
            raise NotATable(f"it is nested more than {_MAX_DEPTH:,} levels deep")
        if id(each) not in sizes:
            open_ones.add(id(each))
            sizes[id(each)] = 1 + sum(
                size(inner, depth + 1) for inner in (each.values() if type(each) is dict else each)
            )
            open_ones.discard(id(each))
        if sizes[id(each)] > _MAX_NODES:
            raise NotATable(f"its aliases stand for more than {_MAX_NODES:,} values")
        return sizes[id(each)]

    size(value, 0)
