"""How the tables in a text are read is stored beside it. If that is damaged, forged, or another text's, it is an error; the text stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from byref import ArtifactMissing, Engine, Policy, Session, ToolError
from byref.db.tables import ArtifactRow

ROWS = 400
TEXT = "\n".join(["sku;day;amount", *(f"{n:05d};2026-05-{1 + n % 28:02d};{n % 90},{n % 10}" for n in range(ROWS))])
OTHER = "\n".join(["a,b,c,d", *(f"{n},x{n},{n % 7}.5,y" for n in range(ROWS))])


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Engine]:
    with Engine(f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path_factory.mktemp('readings') / 'a.db')}") as engine:
        yield engine


@pytest.fixture(scope="module")
def sales(stored: Engine) -> Session:
    session = stored.session("s", model="claude-sonnet-5", policy=Policy(keep_tokens=100))
    session.process(TEXT, tool="sales")
    session.process(OTHER, tool="other")
    return session


def columns(engine: Engine) -> list[tuple[int, str]]:
    with engine.database.engine.begin() as connection:
        rows = connection.execute(select(ArtifactRow.id, ArtifactRow.reading).order_by(ArtifactRow.id)).all()
    return [(row, reading) for row, reading in rows if reading is not None]


def store(engine: Engine, row: int, column: str) -> None:
    with engine.database.engine.begin() as connection:
        connection.execute(update(ArtifactRow).where(ArtifactRow.id == row).values(reading=column))


def table(change: Callable[[list[Any]], Any]) -> Callable[[str], str]:
    """A stored column whose table is changed: its name, number of rows, columns, and how its records are found."""

    def changed(column: str) -> str:
        shape, text = json.loads(column)
        reading = json.loads(text)
        change(reading[1][0])
        return json.dumps([shape, json.dumps(reading)])

    return changed


def reading(change: Callable[[list[Any]], Any]) -> Callable[[str], str]:
    def changed(column: str) -> str:
        shape, text = json.loads(column)
        read_as = json.loads(text)
        change(read_as)
        return json.dumps([shape, json.dumps(read_as)])

    return changed


def spans(*found: list[Any]) -> Callable[[str], str]:
    return table(lambda one: one[3].update(spans=list(found)))


def dialect(**changed: Any) -> Callable[[str], str]:
    return table(lambda one: one[3]["dialect"].update(changed))


DAMAGED: dict[str, str | Callable[[str], str]] = {
    **{f"the column is {text!r}": text for text in ("", "{", "null", "7", "[]", '["a"]', '["a","b","c"]', '{"a":1}')},
    "a shape that is none": '[7, "[]"]',
    "a reading that is none": '["array(3)", 5]',
    "nested too deeply": "[" * 100_000,
    "no reading": '["array(3)", ""]',
    "JSON lines": json.dumps(["array(3)", '["utf-8",[]]']),
    "an unknown encoding": reading(lambda one: one.__setitem__(0, "klingon")),
    "a codec that is no encoding": reading(lambda one: one.__setitem__(0, "hex")),
    "an encoding without errors": reading(lambda one: one.__setitem__(0, "idna")),
    "another encoding": reading(lambda one: one.__setitem__(0, "utf-16")),
    "the same table 200 times": reading(lambda one: one.__setitem__(1, one[1] * 200)),
    "rows without end": table(lambda one: one.__setitem__(1, 10**18)),
    "less than no rows": table(lambda one: one.__setitem__(1, -5)),
    "one row less": table(lambda one: one.__setitem__(1, ROWS - 1)),
    "no columns": table(lambda one: one.__setitem__(2, [])),
    "10,000 columns": table(lambda one: one.__setitem__(2, [[f"c{n}", "text"] for n in range(10_000)])),
    "one name twice": table(lambda one: one.__setitem__(2, [["c", "text"]] * 3)),
    "numbers that are none": table(lambda one: one.__setitem__(2, [[name, "integer"] for name in "abc"])),
    "dates that are none": table(lambda one: one.__setitem__(2, [[name, "date", "day/month/year"] for name in "abc"])),
    "a format that is none": table(lambda one: one.__setitem__(3, {"type": "x"})),
    "another format": table(lambda one: one.__setitem__(3, {"type": "expanded"})),
    "beyond the end": spans([0, 10**9, True]),
    "before the beginning": spans([-50, -1, True]),
    "backwards": spans([900, 10, True]),
    "the same bytes 50 times": spans(*[[0, 3_000, True]] * 50),
    "a place beyond all numbers": spans([0, 2**70, True]),
    "the middle": spans([7, 333, True]),
    "the middle, read with care": spans([7, 333, False]),
    "no bytes": spans(),
    "100,000 times none": spans(*[[0, 0, False]] * 100_000),
    "no delimiter": dialect(delimiter=""),
    "an escape that is none": dialect(escape="zz"),
    "a line's end that is none": dialect(newline="5"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_reading_is_an_error_and_the_text_stays(stored: Engine, sales: Session, what: str) -> None:
    """Neither a wrong record, nor another exception than those that hosts and models know, nor a long wait."""
    (row, good), *_ = columns(stored)
    damage = DAMAGED[what]
    store(stored, row, damage if isinstance(damage, str) else damage(good))
    try:
        variable = sales.variable("sales")
        assert variable.artifact.value == TEXT
        with pytest.raises(ArtifactMissing, match=r"its table|its lines"):
            variable.value()
        with pytest.raises(ToolError, match="the stored data is gone or damaged"):
            sales.resolve({"rows": "$sales"})
        assert sales.call("artifact_read", {"artifact_id": "sales", "start_line": 2, "end_line": 2}).text.endswith(
            "0,0"
        )
        if what in _RUN:
            for tool, arguments in (
                ("code_interpreter", {"code": "len(sales)"}),
                ("code_interpreter", {"code": "len(df(sales))"}),
                ("artifact_jq", {"artifact_id": "sales", "expression": "length"}),
            ):
                reply = sales.call(tool, arguments)
                assert reply.is_error and ("table" in reply.text or "could not be read" in reply.text), reply.text
        assert [one["a"] for one in sales.resolve({"rows": "$other"})["rows"][:3]] == [0, 1, 2], (
            "others are not concerned"
        )
    finally:
        store(stored, row, good)
    assert len(sales.resolve({"rows": "$sales"})["rows"]) == ROWS


_RUN = ("the column is '{'", "10,000 columns", "the middle", "an unknown encoding", "dates that are none")


def test_the_reading_of_another_text_is_an_error(stored: Engine, sales: Session) -> None:
    (row, good), (_, other) = columns(stored)
    store(stored, row, other)
    with pytest.raises(ArtifactMissing, match=r"does not fit|rows instead of"):
        sales.variable("sales").value()
    store(stored, row, good)
