"""Tables inside a value: found wherever they are, counted exactly, the ones that matter first."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from json_values import VALUES

from byref.describe.paths import ITEM, KEY, Each, Path, written
from byref.describe.rows import Rows
from byref.describe.schema import infer
from byref.describe.tables import MAX_TABLES, Table, tables
from byref.jsonscan import Scanner, describe_text


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}", "size": number % 7, **more} for number in range(count)]


def told(value: Any) -> list[tuple[str, int]]:
    return [(written(table.path), table.rows) for table in found_in(value)]


def found_in(value: Any) -> list[Table]:
    return tables(value, infer(value).node)


def at(value: Any, path: Path) -> list[Any]:
    """All values at a path, by a walk of its own."""
    found = [value]
    for step in path:
        if step is ITEM:
            found = [one for each in found if type(each) is list for one in each]
        elif step is KEY:
            found = [one for each in found if type(each) is dict for one in each.values()]
        else:
            found = [each[step] for each in found if type(each) is dict and step in each]
    return found


PULLS = {
    "repos": {
        f"org/repo-{number}": {"stars": number, "data": {"pulls": rows(number * 10, labels=rows(2)), "branch": "main"}}
        for number in range(1, 6)
    },
    "at": "2026-01-01",
}
INSIDE: dict[str, tuple[Any, list[tuple[str, int]]]] = {
    "through a map": (
        PULLS,
        [("repos.*.data.pulls[]", 150), ("repos.*.data.pulls[].labels[]", 300), ("repos.*", 5)],
    ),
    "one deep array": (
        {"data": {"search": {"nodes": rows(20)}, "cost": 1}},
        [("data.search.nodes[]", 20)],
    ),
    "the top": (rows(9), [("$[]", 9)]),
    "the top is a map": ({f"2026-01-0{day}": {"open": 1, "shut": day} for day in range(1, 9)}, [("*", 8)]),
    "arrays of a map": ({f"2026-01-0{day}": rows(day) for day in range(1, 9)}, [("*[]", 36)]),
    "four lists alike": ({name: rows(3) for name in ("admins", "users", "guests", "bots")}, [("*[]", 12)]),
    "arrays in arrays": ({"pages": [rows(2), rows(3), []]}, [("pages[][]", 5)]),
    "a map in records": (
        {"hosts": [{"name": str(n), "disks": {f"/dev/{n}{d}": {"gb": d, "used": n} for d in "abc"}} for n in range(8)]},
        [("hosts[]", 8), ("hosts[].disks.*", 24)],
    ),
    "a map of few beside maps of many": (
        {
            f"{name}/{name}": {"name": name, "releases": {f"{v}": {"at": "x", "by": 1} for v in versions}}
            for name, versions in {"a": range(40), "b": range(50), "c": range(60), "d": ["preview"]}.items()
        },
        [("*.releases.*", 151), ("*", 4)],
    ),
    "null arrays": (
        {"orders": [{"id": n, "lines": rows(2) if n % 2 else None} for n in range(10)]},
        [("orders[]", 10), ("orders[].lines[]", 10)],
    ),
    "records of fields": ({"ship": {"street": "a", "city": "b"}, "bill": {"street": "c", "city": "d"}}, []),
    "a record of one object": ({"user": {"id": 1, "address": {"city": "x"}}}, []),
    "scalars": ({"a": [1, 2, 3], "b": {"x": 1}}, []),
    "mixed items": ({"rows": [{"a": 1}, 2, {"a": 3}]}, []),
    "items or one of them": ({"orders": [{"line": {"a": 1, "b": 2}}, {"line": rows(4)}]}, [("orders[]", 2)]),
    "one row": ({"rows": rows(1)}, []),
    "keys that are no names": (
        {"a b": {"x.y": rows(3)}, "*": rows(2), "[]": {"": rows(4)}},
        [('"[]".""[]', 4), ('"a b"."x.y"[]', 3), ('"*"[]', 2)],
    ),
    "keys beyond UTF-8": ({"\ud800": rows(5), "ok": rows(2)}, [("ok[]", 2)]),
    "a key of a megabyte": ({"k" * (1 << 20): rows(5), "ok": rows(2)}, [("ok[]", 2)]),
}


@pytest.mark.parametrize("what", INSIDE)
def test_tables_are_found_and_counted(what: str) -> None:
    value, expected = INSIDE[what]
    assert told(value) == expected


@settings(max_examples=60)
@given(VALUES)
def test_every_row_is_counted_and_is_a_record(value: Any) -> None:
    for table in found_in(value) if type(value) in (dict, list) else ():
        records = at(value, table.path)
        assert len(records) == table.rows >= 2
        assert all(type(record) is dict for record in records)
        assert set().union(*records) == {*table.node.members, *table.node.rest_keys}
        for step, name in table.ids.items():
            for parents in at(value, table.path[:step]):
                if type(parents) is list:
                    assert len({parent[name] for parent in parents}) == len(parents)


def test_an_id_tells_the_owners_apart_where_there_is_one() -> None:
    def ids(orders: list[Any]) -> dict[int, str]:
        return next(dict(one.ids) for one in found_in({"orders": orders}) if written(one.path) == "orders[].lines[]")

    many = [{"code": f"c{n}", "lines": rows(3)} for n in range(5)]
    assert ids([{"id": n, **one} for n, one in enumerate(many)]) == {1: "id"}
    assert ids([{"id": 7, **one} for one in many]) == {1: "code"}, "not unique"
    assert ids([{"id": n / 2, **one} for n, one in enumerate(many)]) == {1: "code"}, "no scalar of a key's kind"
    by_repo = {f"r/{n}": {"pulls": [{"number": k, "labels": rows(2)} for k in range(9)]} for n in range(3)}
    labels = next(one for one in found_in(by_repo) if written(one.path) == "*.pulls[].labels[]")
    assert labels.ids == {2: "number"}, "in each array, with the map's key"
    assert ids([*({"id": n, **one} for n, one in enumerate(many)), {"lines": rows(2)}]) == {}, "not everywhere"


def test_there_are_a_handful_and_the_largest_is_first() -> None:
    value = {"meta": {"count": 1}, **{f"list{n}": [{f"{n}{k}": k for k in range(9)}] * (n * 3 + 2) for n in range(12)}}
    assert told(value) == [(f"list{n}[]", n * 3 + 2) for n in reversed(range(12))][:MAX_TABLES]


def stream(text: bytes) -> Any:
    scanner = Scanner()
    scanner.feed(text)
    return scanner.finish()


def test_text_that_was_matched_tells_the_arrays_whose_length_is_known() -> None:
    value = {"total": 4, "issues": rows(9_000, labels=rows(2)), "users": rows(7)}
    text = json.dumps(value).encode()
    described = describe_text(text)
    assert described is not None and type(described.outline["issues"]) is Rows  # type: ignore[index]
    expected = [("issues[]", 9_000), ("users[]", 7)]
    assert [(written(one.path), one.rows) for one in tables(described.outline, described.schema.node)] == expected
    by_repo = {"repos": {f"r-{n}/{n}": {"data": {"pulls": rows(n * 4_000)}} for n in range(1, 4)}}
    for value, path, count in (
        (by_repo, "repos.*.data.pulls[]", 24_000),
        ({f"2026-01-{n}": rows(9_000) for n in range(10, 14)}, "*[]", 36_000),
    ):
        text = json.dumps(value).encode()
        described = describe_text(text)
        found = tables(described.outline, described.schema.node) if described else found_in(value)
        assert (path, count) in [(written(one.path), one.rows) for one in found]
        scanned = stream(text)
        found = tables(scanned.value, scanned.schema.node)
        assert (path, count) in [(written(one.path), one.rows) for one in found] or not found


DEEP: Any = {"x": 1}
for _ in range(100):
    DEEP = {"a": [DEEP, DEEP and {"x": 2}]}
HOSTILE: dict[str, Any] = {
    "deep": DEEP,
    "20,000 keys": {f"key {n}": {"a": n} for n in range(20_000)},
    "20,000 keys of arrays": {f"key {n}": [{"a": n}] for n in range(20_000)},
    "keys of their own": [{f"k{n}": n, f"l{n}": [{"a": 1}]} for n in range(20_000)],
    "maps in maps": {str(a): {str(b): {str(c): {"x": 1} for c in range(20)} for b in range(20)} for a in range(20)},
    "many places": {f"f{n}": {f"g{m}": [{f"h{m}": 1}] * 2 for m in range(10)} for n in range(500)},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_looking_for_tables_is_quick_beside_reading(what: str) -> None:
    value = HOSTILE[what]
    began = time.thread_time()
    node = infer(value).node
    read = time.thread_time() - began
    spent = []
    for _ in range(3):
        began = time.thread_time()
        found = tables(value, node)
        spent.append(time.thread_time() - began)
        assert all(isinstance(step, str | Each) for one in found for step in one.path)
    assert min(spent) < max(0.02, 0.5 * read)
