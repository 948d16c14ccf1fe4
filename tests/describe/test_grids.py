"""Rows without keys: what their cells are, by position, and what a header calls them."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.envelopes import outline, untrue

from byref.describe.grids import MAX_COLUMNS, Grid
from byref.describe.paths import written
from byref.describe.schema import infer
from byref.describe.tables import tables

ROWS = [[n, f"customer {n}", None if n % 3 else 1.5, ["a"] * (n % 2)] for n in range(40)]
NAMES = ["id", "name", "amount", "tags"]
TYPED = "[id:int,name:str,amount:num|null,tags:[str]]"
COLUMNS = [{"name": name, "type": "x"} for name in NAMES]


def characters(text: str) -> int:
    return -(-len(text) // 3)


def grid(value: object) -> Grid | None:
    found = list(infer(value).grids.values())
    return found[0] if found else None


def shown(value: object, budget: int = 2_000) -> str:
    found = infer(value).outline.fitted(budget, characters)
    assert found is not None and found.tokens <= budget
    assert not list(untrue._of_node(outline.read(found.text), value, is_closed=True))
    return found.text


HEADED: dict[str, tuple[object, str]] = {
    "names beside the rows": ({"columns": NAMES, "rows": ROWS}, "rows[]"),
    "objects with names": ({"fields": COLUMNS, "data": ROWS}, "data[]"),
    "names in an object beside": ({"resultSetMetaData": {"rowType": COLUMNS}, "data": ROWS}, "data[]"),
    "names in an object beside one above": (
        {"manifest": {"schema": {"columns": COLUMNS}}, "result": {"data_array": ROWS}},
        "result.data_array[]",
    ),
    "below arrays of one": (
        {"results": [{"series": [{"name": "cpu", "columns": NAMES, "values": ROWS}]}]},
        "results[].series[].values[]",
    ),
    "a vague key beside rows": ({"meta": COLUMNS, "data": ROWS, "rows": 40}, "data[]"),
    "in the first row": ({"values": [NAMES, *ROWS]}, "values[]"),
    "in the first row of all": ([NAMES, *ROWS], "$[]"),
}


@pytest.mark.parametrize("form", HEADED)
def test_columns_have_the_names_of_a_header(form: str) -> None:
    value, path = HEADED[form]
    found = grid(value)
    assert found is not None
    assert (list(found.names), found.rows) == (NAMES, 40)
    text = shown(value)
    assert TYPED in text
    assert ("[header,40 of " in text) == found.has_header
    [table] = tables(value, infer(value).node, grids=infer(value).grids)[:1]
    assert (written(table.path), table.rows, table.cells) == (path, 40, tuple(NAMES))


UNNAMED: dict[str, object] = {
    "no header": {"rows": ROWS},
    "a header of another length": {"columns": NAMES[:3], "rows": ROWS},
    "a name that comes twice": {"columns": ["id", "name", "name", "tags"], "rows": ROWS},
    "an empty name": {"columns": ["id", "", "amount", "tags"], "rows": ROWS},
    "a name that no database stores": {"columns": ["id", "\udc80", "amount", "tags"], "rows": ROWS},
    "no names": {"columns": [1, 2, 3, 4], "rows": ROWS},
    "labels of something else": {"labels": NAMES, "rows": ROWS},
    "several arrays of rows": [{"columns": NAMES, "rows": ROWS}, {"columns": NAMES[::-1], "rows": ROWS}],
    "a first row that is one of the rows": [
        ["a", "b", "c", "d"],
        *([str(row[0]) + "x", "b", "c", "d"] for row in ROWS),
    ],
}


@pytest.mark.parametrize("form", UNNAMED)
def test_what_names_no_column_is_not_taken_for_a_name(form: str) -> None:
    value = UNNAMED[form]
    found = grid(value)
    assert found is None or not found.names
    shown(value)
    assert not any(table.cells for table in tables(value, infer(value).node, grids=infer(value).grids))


def test_a_header_names_the_rows_beside_it_and_no_others() -> None:
    points = [[n / 7, f"p{n}", n / 9, "x"] for n in range(40)]
    value = {"columns": NAMES, "rows": ROWS, "points": points, "debug": {"timings": points}}
    named = [table.cells for table in tables(value, infer(value).node, grids=infer(value).grids)]
    assert named == [tuple(NAMES)]
    assert "points:[40 of [num,str,num,str]]" in shown(value)


NO_GRIDS: dict[str, object] = {
    "rows of several lengths": {"columns": ["a", "b"], "rows": [[1, "x"], [2]] * 20},
    "coordinates": {"fields": ["x", "y"], "shape": {"coordinates": [[[0.5, 1.5], [2.5, 3.5]]] * 20}},
    "numbers alone": {"matrix": [[1, 2, 3]] * 20},
    "rows and something else": {"columns": ["a", "b"], "rows": [[1, "x"], None, [2, "y"]]},
    "one row": {"columns": ["a", "b"], "rows": [[1, "x"]]},
    "no rows": {"columns": ["a", "b"], "rows": []},
    "empty rows": {"columns": [], "rows": [[], []]},
    "too many columns": {"columns": list(map(str, range(MAX_COLUMNS + 1))), "rows": [[1, "x"] * MAX_COLUMNS] * 3},
}


@pytest.mark.parametrize("form", NO_GRIDS)
def test_what_is_no_grid(form: str) -> None:
    assert grid(NO_GRIDS[form]) is None
    shown(NO_GRIDS[form])


def test_cells_without_names_are_told_by_position() -> None:
    result = [{"metric": {"job": "api"}, "values": [[1_790_000_000 + n, str(n)] for n in range(9)]} for _ in range(5)]
    assert shown({"result": result}) == "{result:[5 of {metric:{job:str},values:[[int,str]]}]}"


def test_names_that_look_like_types_or_are_no_identifiers_are_quoted() -> None:
    value = {"columns": ["int", "unit price", "User"], "rows": [["a", 1, "b"]] * 5}
    assert shown(value) == '{columns:[3 of str],rows:[5 of ["int":str,"unit price":int,User:str]]}'
    assert (
        shown({"columns": ["count"], "rows": [[n] for n in range(5)]}) == "{columns:[1 of str],rows:[5 of [count:int]]}"
    )


def test_many_cells_have_the_type_of_all() -> None:
    value = {"columns": ["a", "b"], "rows": [[n, "x"] for n in range(110_000)]}
    assert shown(value) == "{columns:[2 of str],rows:[110,000 of [(a,b):str|int]]}"


@pytest.mark.parametrize("budget", [8, 30, 80, 200, 700])
def test_cells_give_way_to_the_budget(budget: int) -> None:
    value = {"columns": [f"column_{n}" for n in range(90)], "rows": [[n, "x"] * 45 for n in range(9)], "total": 9}
    found = infer(value).outline.fitted(budget, characters)
    if found is not None:
        assert found.tokens <= budget
        assert not list(untrue._of_node(outline.read(found.text), value, is_closed=True))
        assert found.is_whole == ("more cells" not in found.text and "column_89" in found.text)


def test_columns_of_an_object_are_fields_and_no_map() -> None:
    value: dict[str, Any] = {name: [row[at] for row in ROWS] for at, name in enumerate(NAMES)}
    assert shown(value) == "{id:[40 of int],name:[40 of str],amount:[40 of num|null],tags:[40 of [str]]}"
    series = {f"2026-01-{day}": [[n, "x"] for n in range(day)] for day in range(10, 20)}
    assert shown(series) == "{*(10):[[int,str]]}"


def test_columns_that_hold_arrays_or_objects_are_told_apart() -> None:
    rows = [
        [n, [f"t{n}"], [n, n + 0.5], [{"sku": n}] * 2, {"email": "a"} if n % 2 else {"fax": 1}, None] for n in range(40)
    ]
    rows[0][5] = {"seen": "x"}
    value = {"columns": ["id", "tags", "scores", "items", "contact", "last"], "rows": rows}
    typed = "tags:[str],scores:[num],items:[{sku:int}],contact:{fax?(20):int,email?(20):str},last:{seen:str}|null"
    assert shown(value) == f"{{columns:[6 of str],rows:[40 of [id:int,{typed}]]}}"
    found = tables(value, infer(value).node, grids=infer(value).grids)
    assert (written(found[0].path), found[0].rows) == ("rows[]", 40)
