"""Tables inside a value: found wherever they are, counted exactly, the ones that matter first."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_values import VALUES

from byref.describe.paths import ITEM, KEY, Each, Path, written
from byref.describe.schema import infer
from byref.describe.tables import MAX_TABLES, Table, tables
from byref.jsonscan import Scanner, describe_text, groups, memory, sizes


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


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short text is matched, and read in small blocks, as long text is."""
    for name, size in {"LEAST": 200, "_WINDOW": 900, "_END": 700, "_FIRST": 8, "LOST": 1_000}.items():
        monkeypatch.setattr(memory, name, size)
    for name, size in {"_PIECE": 300}.items():
        monkeypatch.setattr(groups, name, size)
    for name, size in {"BLOCK": 4_000, "END": 4_000, "ENDS": 40_000}.items():
        monkeypatch.setattr(sizes, name, size)


def users(count: int) -> list[dict[str, Any]]:
    return [{"login": f"u{n}", "id": n} for n in range(count)]


LINES = [{"id": n, "lines": [{"sku": f"s{k}", "qty": k, "taxes": rows(k)} for k in range(n % 4)]} for n in range(200)]
MATCHED: dict[str, tuple[bytes, set[str]]] = {
    "records of records": (
        json.dumps({"issues": rows(300, labels=rows(2)), "users": rows(7)}).encode(),
        {"issues[].labels[]"},
    ),
    "three levels, compact": (
        json.dumps({"orders": LINES}, separators=(",", ":")).encode(),
        {"orders[].lines[]", "orders[].lines[].taxes[]"},
    ),
    "lines": (
        b"[%s]" % b",\n".join(json.dumps(one).encode() for one in LINES),
        {"$[].lines[]", "$[].lines[].taxes[]"},
    ),
    "people everywhere, some null": (
        json.dumps(
            [
                {"number": n, "user": users(1)[0], "by": users(1)[0] if n % 3 else None, "assignees": users(n % 3)}
                for n in range(200)
            ]
        ).encode(),
        {"$[].assignees[]"},
    ),
    "through maps": (
        json.dumps(
            {"repos": {f"r-{n}/{n}": {"pulls": rows(n * 99, labels=rows(n))} for n in range(1, 4)}, "at": 1}
        ).encode(),
        {"repos.*.pulls[].labels[]"},
    ),
    "maps in records": (
        json.dumps(
            [{"host": n, "disks": {f"/dev/{d}": {"gb": n, "used": n / 7} for d in "abc"[: n % 4]}} for n in range(300)]
        ).encode(),
        {"$[].disks.*"},
    ),
    "strings that look like records": (
        json.dumps([{"id": n, "note": '"id":{"id": 1}' * (n % 3), "parts": rows(n % 2)} for n in range(300)]).encode(),
        {"$[].parts[]"},
    ),
    "a table that comes late": (
        json.dumps([{"id": n, "parts": rows(2 if n > 200 else 0)} for n in range(300)]).encode(),
        {"$[].parts[]"},
    ),
    "keys that msgspec has no field for": (
        json.dumps([{"id": n, 'a"b': rows(2), "parts": rows(1)} for n in range(300)]).encode(),
        {"$[].parts[]"},
    ),
    "numbers that msgspec refuses": (
        b"[%s]" % b",".join(b'{"id":%d,"x":[{"a":1},%s]}' % (n, b"1e999" if n % 2 else b"1.5") for n in range(900)),
        set(),
    ),
}


def all_in(value: Any) -> dict[Path, int]:
    return {table.path: table.rows for table in tables(value, infer(value, plain=True).node, 100)}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("what", MATCHED)
def test_tables_inside_of_matched_records_are_counted(what: str) -> None:
    text, expected = MATCHED[what]
    described = describe_text(text)
    assert described is not None
    value = json.loads(text)
    found = {written(one.path): one for one in tables(described.outline, described.schema.node)}
    assert expected < found.keys()
    parsed = {one.path: one for one in tables(value, infer(value, plain=True).node)}
    assert all(one.rows == len(at(value, one.path)) for one in found.values())
    if what != "keys that msgspec has no field for":
        assert {one.path for one in found.values()} == parsed.keys()
    first = {
        "id",
        "number",
        "",
    }  # what tells the records apart that were matched, but not what tells those inside them apart
    for one in found.values():
        assert list(one.ids.items())[:1] == list(parsed[one.path].ids.items())[:1] and first.issuperset(
            one.ids.values()
        )


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("what", MATCHED)
def test_tables_inside_of_streams_are_counted_or_not_told(what: str) -> None:
    text, expected = MATCHED[what]
    scanned, everything = stream(text), all_in(json.loads(text))
    found = {one.path: one.rows for one in tables(scanned.value, scanned.schema.node)}
    assert found.items() <= everything.items()
    assert expected <= set(map(written, found)) or what == "a table that comes late"


RECORDS = st.recursive(
    st.sampled_from([1, 2.5, None, "x", '"id":{', "é", True]),
    lambda inner: st.one_of(
        st.lists(st.dictionaries(st.sampled_from(["id", "name", "é", "a b", "labels"]), inner, max_size=3), max_size=3),
        st.dictionaries(st.sampled_from(["id", "name", "2026-01-01", "2026-01-02", "labels"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), RECORDS, min_size=1), min_size=1, max_size=5), st.booleans())
def test_no_count_of_matched_or_streamed_text_is_wrong(short: None, kinds: list[dict[str, Any]], plain: bool) -> None:
    value = {"rows": [{"id": n, **kinds[n * n % len(kinds)]} for n in range(120)]}
    text = json.dumps(value, indent=None if plain else 1, ensure_ascii=plain).encode()
    matched, scanned = describe_text(text), stream(text)
    outlines = [(scanned.value, scanned.schema.node)]
    for outline, node in [*outlines, *([(matched.outline, matched.schema.node)] if matched else [])]:
        for table in tables(outline, node):
            assert [type(record) for record in at(value, table.path)] == [dict] * table.rows


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
