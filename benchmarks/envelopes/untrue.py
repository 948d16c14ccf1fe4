"""Whether all that an envelope of ours says is true of the data: types, counts, shares, values, ranges, rows, what is left out."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.envelopes import outline, stated
from benchmarks.envelopes.places import GAP, ITEM, KEY, MORE, Path, parsed, type_of

NUMBER = re.compile(r"\d[\d,]*")
CUT = re.compile(r"… (?:\(([\d,]+) (?:more )?characters\)|\+([\d,]+) chars)$")


def untruths(envelope: str, source: Any) -> list[str]:
    """Each statement of an envelope of JSON that is not true of the data, in words."""
    given = json.loads(envelope)
    found: list[str] = []
    schema = given.get("schema")
    if isinstance(schema, str):
        found += _of_node(outline.read(schema), source, is_closed=True)
    elif isinstance(schema, dict):
        found += _of_node(outline.of_schema(schema), source, is_closed=False)
    if "preview" in given:
        found += _of_preview(given["preview"], source, "$")
    for name, said in (given.get("variables") or {}).items():
        found += _of_variable(name, said, source)
    found += stated.untruths(given.get("values") or {}, source, at)
    found += _of_omitted(given.get("omitted") or {}, source)
    return found


def at(source: Any, path: Path) -> list[Any]:
    """All values that a path leads to."""
    values = [source]
    for step in path:
        if step == ITEM:
            values = [item for value in values if isinstance(value, list) for item in value]
        elif step == KEY:
            values = [member for value in values if isinstance(value, dict) for member in value.values()]
        else:
            rows = [value for value in values if isinstance(value, list)]
            values = [value[step] for value in values if isinstance(value, dict) and step in value]
            values += _cells(source, rows, step)
    return values


def _cells(source: Any, rows: list[list[Any]], step: str) -> list[Any]:
    """The cells of one column, by its position in brackets, or by its name, which a header as long as the rows has."""
    if not rows:
        return []
    if found := re.fullmatch(r"\[(\d+)\]", step):
        return [row[int(found[1])] for row in rows]
    for header in _lists(source):
        names = [
            next((one for one in item.values() if one == step), None) if isinstance(item, dict) else item
            for item in header
        ]
        if len(names) == len(rows[0]) and step in names:
            return [row[names.index(step)] for row in rows if row != header]
    return []


def _lists(source: Any) -> Iterator[list[Any]]:
    pending = [source]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            yield one
        pending += one.values() if isinstance(one, dict) else one[:3] if isinstance(one, list) else ()


def types(values: list[Any]) -> set[str]:
    """The JSON types of values; integers among other numbers are numbers."""
    found = set(map(type_of, values))
    return found - {"integer"} if "number" in found else found


# Schemas -----------------------------------------------------------------------------------------------------------------


def _of_node(node: outline.Node, source: Any, *, is_closed: bool) -> Iterator[str]:
    """What is said of types. A shape is said of all objects that have it, so these are gathered first.

    A shape with a name may be that of further objects, which are not written out: of these, nothing is known here. So what is
    said of it, and below, has to hold for the objects that are; it may say more.
    """
    values: dict[int, tuple[outline.Node, str, list[Any]]] = {}
    objects: dict[int, tuple[outline.Shape, str, list[dict[str, Any]]]] = {}
    wide: set[int] = set()
    pending = [(node, [source], "$")]
    while pending:
        node, found, path = pending.pop()
        values.setdefault(id(node), (node, path, []))[2].extend(found)
        if node.shape is not None and (node.shape.is_named or id(node) in wide):
            wide.add(id(node.shape))
            wide |= {id(below) for below in (*node.shape.members.values(), node.shape.each) if below is not None}
        if id(node) in wide and node.items is not None:
            wide.add(id(node.items))
        lists = [value[node.has_header :] for value in found if isinstance(value, list)]
        if node.items is not None:
            pending.append((node.items, [item for value in lists for item in value], f"{path}[]"))
        if len(node.cells) > 1 and all(cell.types == node.cells[0][1].types for _, cell in node.cells):
            wide |= {id(cell) for _, cell in node.cells}  # of many cells, what all of them are is said of each column
        for place, (name, cell) in enumerate(node.cells):
            if any(len(value) != len(node.cells) + node.more_cells for value in lists):
                yield f"schema: {path} is said to have {len(node.cells) + node.more_cells} cells; it has not always"
                break
            if name and not _cells(source, lists, name):
                yield f"schema: {path} is said to have a column {name}; no header has it"
            pending.append((cell, [value[place] for value in lists], f"{path}[{place}]"))
        dicts = [value for value in found if isinstance(value, dict)]
        if node.shape is None or not dicts:
            continue
        objects.setdefault(id(node.shape), (node.shape, path, []))[2].extend(dicts)
        for name, member in node.shape.members.items():
            pending.append((member, [value[name] for value in dicts if name in value], f"{path}.{name}"))
        if node.shape.each is not None and not node.shape.more:  # else nobody can tell which keys are the map's
            others = [value[name] for value in dicts for name in value if name not in node.shape.members]
            pending.append((node.shape.each, others, f"{path}.*"))
    for node, path, found in values.values():
        yield from _of_types(node, path, found, is_wide=id(node) in wide)
    for shape, path, dicts in objects.values():
        yield from _of_shape(shape, path, dicts, is_closed=is_closed, is_wide=id(shape) in wide)


def _of_types(node: outline.Node, path: str, values: list[Any], *, is_wide: bool) -> Iterator[str]:
    actual = types(values)
    said = node.types - {"integer"} if "number" in node.types else node.types
    if not values and not path.endswith(("[]", ".*")):
        return  # told of where the member is missing
    actual -= {"integer"} if "number" in said else set()
    fits = actual <= said if is_wide else actual == said
    if "any" not in said and said and not fits:
        yield f"schema: {path} is said to be {_list(said)}; it is {_list(actual)}"
    lengths = {len(value) - node.has_header for value in values if isinstance(value, list)}
    if node.length is not None and lengths != {node.length}:
        yield f"schema: {path} is said to have {node.length} items; it has {sorted(lengths)[:5]}"


def _of_shape(
    shape: outline.Shape, path: str, objects: list[dict[str, Any]], *, is_closed: bool, is_wide: bool
) -> Iterator[str]:
    there = Counter(name for value in objects for name in value)
    for name, member in shape.members.items():
        if is_wide and member.is_optional:
            continue
        if not there[name]:
            yield f"schema: {path}.{name} is not in the data"
        elif not member.is_optional and there[name] < len(objects):
            yield f"schema: {path}.{name} is said to be there always; it is in {there[name]} of {len(objects)}"
        elif is_closed and member.is_optional and there[name] == len(objects):
            yield f"schema: {path}.{name} is said to be missing at times; it is in each of {len(objects)}"
        elif member.count is not None and member.count != there[name]:
            yield f"schema: {path}.{name} is said to be in {member.count}; it is in {there[name]}"
    others = there.keys() - shape.members.keys()
    if shape.count is not None and shape.count + shape.more != len(others):
        yield f"schema: {path} is said to have {shape.count} further keys; it has {len(others)}"
    elif (
        is_closed
        and not shape.is_open
        and shape.each is None
        and not (len(others) <= shape.more if is_wide else len(others) == shape.more)
    ):
        yield f"schema: {path} is said to have {shape.more} further keys; it has {len(others)}: {sorted(others)[:3]}"


def _list(names: set[str]) -> str:
    return " or ".join(sorted(names)) or "nothing"


# Previews ----------------------------------------------------------------------------------------------------------------


def _of_preview(shown: Any, value: Any, path: str) -> Iterator[str]:
    """What is shown in another way than it is in the data."""
    if isinstance(shown, dict) and isinstance(value, dict):
        yield from _of_object(shown, value, path)
    elif isinstance(shown, list) and isinstance(value, list):
        yield from _of_list(shown, value, path)
    elif not _is_scalar(shown, value):
        yield f"preview: {path} is shown as {json.dumps(shown, ensure_ascii=False)[:80]}; it is {json.dumps(value, ensure_ascii=False)[:80]}"


def _of_object(shown: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
    names = [name for name in shown if name not in MORE or name in value]
    known = 0
    for name in names:
        cut = CUT.search(name)
        if name in value:
            known += 1
            yield from _of_preview(shown[name], value[name], f"{path}.{name}")
        elif cut is None or not any(_is_scalar(name, key) for key in value):
            yield f"preview: {path}.{name} is not in the data"
        else:
            known += 1
    for name in shown.keys() - names:
        yield from _count(f"{path}.{name}", str(shown[name]), len(value) - known)
    if not shown.keys() - names and known < len(value):
        yield f"preview: {path} shows {known} of {len(value)} members, and says nothing of the others"


def _of_list(shown: list[Any], value: list[Any], path: str) -> Iterator[str]:
    items = [item for item in shown if not (isinstance(item, str) and GAP.fullmatch(item))]
    gaps = [item for item in shown if isinstance(item, str) and GAP.fullmatch(item)]
    if not gaps and len(items) != len(value):
        yield f"preview: {path} shows {len(items)} of {len(value)} items, and says nothing of the others"
    if gaps and all("token" not in gap for gap in gaps):
        counts = [NUMBER.search(gap) for gap in gaps]
        left_out = sum(_number(count[0]) for count in counts if count is not None)
        if left_out != len(value) - len(items):
            yield f"preview: {path} says that {left_out} items are left out; it shows {len(items)} of {len(value)}"
    for place, item in enumerate(items):
        near = value[place : place + 1] + value[place - len(items) :][:1]
        if all(next(_of_preview(item, one, ""), None) for one in near) and all(
            next(_of_preview(item, one, ""), None) for one in value
        ):
            reasons = list(_of_preview(item, near[0], f"{path}[{place}]")) if near else []
            yield f"preview: {path}[] shows an item that is none of the {len(value)}; {reasons[:1]}"


def _is_scalar(shown: Any, value: Any) -> bool:
    if isinstance(shown, str) and isinstance(value, str):
        cut = CUT.search(shown)
        if cut is not None:
            head = shown[: cut.start()]
            return value.startswith(head) and len(value) - len(head) == _number(cut[1] or cut[2])
        if shown.endswith("…") and value != shown:
            return value.startswith(shown[:-1])
    return type(shown) is type(value) and shown == value


def _count(path: str, said: str, actual: int) -> Iterator[str]:
    found = NUMBER.search(said)
    if found is None or _number(found[0]) != actual:
        yield f"preview: {path} says {said!r}; {actual} are left out"


def _number(text: str) -> int:
    return int(text.replace(",", ""))


# Words -------------------------------------------------------------------------------------------------------------------


def _of_variable(name: str, said: str, source: Any) -> Iterator[str]:
    """A variable's count, and where it is; one without a place is the whole, or a member of its name."""
    where = re.search(r", at (.+?)(?:, with (.+))?$", said)
    path: Path = (
        ()
        if where is None
        else parsed(where[1])
        if not where[1].startswith("['")
        else tuple(ast.literal_eval(where[1]))
    )
    if where is None and isinstance(source, dict) and name in source:
        path = (name,)
    values = at(source, path)
    counted = re.match(r"(array|object)\((\d+)(?: keys?)?\)(?: of object\((\d+) keys?\))?", said)
    if not values:
        yield f"variables: {name} is {said!r}; nothing is there"
    if counted is None or not values:
        return
    is_table = ITEM in path or KEY in path
    actual = len(values) if is_table else len(values[0])
    if (
        is_table
        and isinstance(values[0], list)
        and all(isinstance(cell, str) for cell in values[0])
        and int(counted[2]) == actual - 1
    ):
        actual -= 1  # the first row has the names of the columns
    if int(counted[2]) != actual:
        yield f"variables: {name} is {said!r}; it has {actual} entries"
    if counted[3] is not None:
        added = len(re.split(r", | and ", where[2])) if where is not None and where[2] else 0
        sizes = {len(item) + added for item in (values if is_table else values[0])}
        if sizes != {int(counted[3])}:
            yield f"variables: {name} is {said!r}; its objects have {sorted(sizes)[:5]} keys"


def _of_omitted(omitted: dict[str, Any], source: Any) -> Iterator[str]:
    for kind, classes in (("items", list), ("keys", dict), ("characters", str)):
        said = omitted.get(kind) or {}
        for path, counts in said.items() if isinstance(said, dict) else ():
            if "…" in path or not isinstance(counts, dict):
                continue
            values = [value for value in at(source, parsed(path)) or at(source, (path,)) if isinstance(value, classes)]
            whole = counts["kept"] + counts["omitted"]
            if whole > sum(map(len, values)) or (len(values) == 1 and whole != len(values[0])):
                yield f"omitted: {path} is said to have {counts}; it has {sum(map(len, values))} in {len(values)}"
