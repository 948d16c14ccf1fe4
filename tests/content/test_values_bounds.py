"""Values that have no end, or very many parts, are written in bounded time."""

from __future__ import annotations

import itertools
import time
from collections import UserString
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pandas as pd
import pytest

from byref import Engine
from byref.content import values
from byref.content.values import written
from byref_sandbox import jsontext


class Endless(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[str]:
        return (f"k{number}" for number in itertools.count())


class Twins:
    def __iter__(self) -> Iterator[Twins]:
        return iter([Twins(), Twins()])


def referring(count: int) -> list[dict[str, Any]]:
    """Objects each of which refers to all others."""
    made: list[dict[str, Any]] = [{"id": number} for number in range(count)]
    for one in made:
        one["others"] = [other for other in made if other is not one]
    return made


@pytest.mark.parametrize(
    "value", [referring(10), Twins(), Endless(), [UserString("h" * 300)]], ids=["graph", "twins", "mapping", "texts"]
)
def test_values_that_would_never_end_are_written_in_bounds(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are a tenth of what they are, and so is what they allow: without them neither would be kept to."""
    monkeypatch.setattr(values, "MAX_ITEMS", values.MAX_ITEMS // 10)
    monkeypatch.setattr(values, "_MOST_REPEATED", values._MOST_REPEATED // 10)
    began = time.process_time()
    made, data, _ = written(value)
    assert time.process_time() - began < 3 and len(data) < 10_000_000
    if isinstance(value, list) and isinstance(value[0], UserString):
        assert made == ["h" * 300]


@pytest.mark.parametrize("turn", [list, reversed])
def test_keys_that_are_spelt_the_same_are_kept_apart(turn: Any) -> None:
    members = [*((n, "int") for n in range(30)), *((f"{n}", "text") for n in range(30)), (None, 0), ("null", 1)]
    of_both = dict(turn(members))
    for value, path in ((of_both, ()), ([of_both], (0,)), ({"a": {"b": of_both}}, ("a", "b"))):
        made, data, _ = written(value)
        assert jsontext.decode(data) == made
        for key in path:
            made = made[key]  # type: ignore[index]
        assert len(made) == 62 and sorted(map(str, made.values())) == ["0", "1"] + ["int"] * 30 + ["text"] * 30  # type: ignore[arg-type,attr-defined]
    _, data, _ = written({1: 1, "2": 2, None: 3, 4.5: 4})
    assert jsontext.decode(data) == {"1": 1, "2": 2, "null": 3, "4.5": 4}


def test_values_that_many_rows_share_are_written_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have more parts than may be repeated, of which the bound is lowered as the rows are."""
    monkeypatch.setattr(values, "_MOST_REPEATED", values._MOST_REPEATED // 10)
    day, flat, circular = date(2026, 1, 2), {"n": 1}, list[Any]()
    circular.append(circular)  # with it nothing but notes is possible
    _, data, _ = written([*({"day": day, "flat": flat} for _ in range(15_000)), circular])
    made: Any = jsontext.decode(data)
    assert made[-1] == ["[circular reference to list]"]
    assert made[:-1] == [{"day": "2026-01-02", "flat": {"n": 1}}] * 15_000


def test_columns_of_one_name_are_told_apart() -> None:
    frame = pd.DataFrame([range(2_000)], columns=["a", "a_2", *["a"] * 1_998])
    made, _, _ = written(frame)
    assert isinstance(made, list) and len(made[0]) == 2_000 and list(made[0])[:4] == ["a", "a_2", "a_3", "a_4"]


def test_a_stream_may_begin_with_an_integer_of_any_length(local: Engine) -> None:
    def pieces() -> Iterator[str]:
        yield '[{"a": ' + "9" * 8_100
        yield from ['},{"a": 1, "t": "%s"' % ("x" * 50_000)] * 200
        yield "}]"

    result = local.session("long").process(pieces(), tool="t")
    assert result.route == "variables" and result.variables[0].shape.startswith("array(201)")
