"""Facts about values are true of all values, or of as many as they say; they are short, and soon found."""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from byref.describe.formats import format_of
from byref.describe.paths import ITEM, KEY, Path
from byref.describe.samples import Work, places
from byref.describe.schema import infer
from byref.describe.values import Fact, listed
from byref.jsonscan import describe_text


def facts(value: Any, size: int = 1_000_000_000) -> list[Fact]:
    return infer(value, plain=True).values(size)


def stated(value: Any, size: int = 1_000_000_000) -> dict[str, Any]:
    """Everything that is said of records, by the name of their member."""
    return {
        ".".join(map(str, fact.path[1:])) + (" keys" if fact.of_keys else ""): fact.stated
        for fact in facts(value, size)
    }


def column(*cells: Any) -> Any:
    """What is said of a column of records."""
    return stated([{"first": None, "x": cell} for cell in cells]).get("x")


COLUMNS: dict[str, tuple[list[Any], Any]] = {
    "few words": (["open"] * 30 + ["paid"] * 12, "open 30, paid 12"),
    "words that need quotes": (
        ["a, b"] * 4 + ["1"] * 3 + ["null"] * 2 + ["x 7"] * 2,
        "'a, b' 4, '1' 3, 'null' 2, 'x 7' 2",
    ),
    "one word": (["EUR"] * 5, "always EUR"),
    "words, nulls and empty strings": (["a", "b", "", None] * 4, "a 4, b 4, '' 4, null 4"),
    "only empty strings": ([""] * 4, "always ''"),
    "many words": (
        [f"city{n % 40}" for n in range(400)] + ["Oslo"] * 50,
        "41 values: Oslo 50, city0 10, city1 10, city2 10, …",
    ),
    "long words": (["x" * 60, "y" * 60] * 5, None),
    "a long word among others": (["y", "x" * 60, "z"] * 5, f"y 5, '{'x' * 40}…' 5, z 5"),
    "prose": ([f"once {n} upon a time " * 20 for n in range(50)], None),
    "free text": ([f"name {n * 7919 % 1000} of it" for n in range(500)], None),
    "integers": ([n * n % 97 for n in range(500)], [0, 96]),
    "few integers": ([200] * 50 + [404] * 7, "200 50, 404 7"),
    "floats": ([n / 8 for n in range(-80, 500)] * 2, [-10.0, 62.375]),
    "long floats": ([math.sqrt(n) for n in range(2, 500)], "~1.414 to ~22.34"),
    "integers with nulls": ([*range(50), *range(50), None], "0 to 49, null 1"),
    "unique integers": (list(range(7, 400)), [7, 399]),
    "booleans": ([True] * 5 + [False] * 2, "true 5, false 2"),
    "always true": ([True] * 5, "always true"),
    "mixed types": ([1, 2.5, "a", "b", "c", None, {"y": 1}, [1]] * 3, "str 9, num 6, object 3, list 3, null 3"),
    "lists": ([[1] * (n % 5) for n in range(50)], "0 to 4 items, empty 10"),
    "nulls only": ([None] * 9, None),
    "epoch seconds elsewhere": (
        [1_700_000_000 + n * 7 % 86_400 for n in range(900)],
        "1700000000 to 1700006293",
    ),
    "dates": ([f"2024-0{n % 9 + 1}-{n % 28 + 1:02}" for n in range(300)], "dates 2024-01-01 to 2024-09-28"),
    "times": (
        [f"2024-0{n % 9 + 1}-{n % 28 + 1:02}T10:{n % 60:02}:00Z" for n in range(600)],
        "times 2024-01-01 to 2024-09-28",
    ),
    "times with and without fractions": (
        [f"2024-01-{n % 28 + 1:02}T10:00:00{'.5' if n % 2 else ''}Z" for n in range(600)],
        "times, 2024-01-01 to 2024-01-28, like 2024-01-01T10:00:00Z or 2024-01-02T10:00:00.5Z",
    ),
    "times with an offset": (
        [f"2024-01-{n % 28 + 1:02}T10:{n % 60:02}:00+01:00" for n in range(600)],
        "times 2024-01-01 to 2024-01-28, +01:00",
    ),
    "times of PostgreSQL": (
        [f"2024-01-{n % 28 + 1:02} 10:{n % 60:02}:00.{n}+01" for n in range(100, 700)],
        "times 2024-01-01 to 2024-01-28, +01",
    ),
    "times in summer and winter": (
        [f"2024-0{n % 9 + 1}-05T10:{n % 60:02}:00+0{1 + (n % 9 > 3)}00" for n in range(600)],
        "times 2024-01-05 to 2024-09-05, +0100 or +0200: UTC in tables",
    ),
    "no dates": ([f"2024-{n % 90 + 10}-{n % 60 + 10}" for n in range(600)], "text like 2024-10-10"),
    "days first": ([f"{n % 28 + 1:02}/{n % 12 + 1:02}/2024" for n in range(600)], "text like 01/01/2024"),
    "versions": ([f"{n % 9}.{n % 11}.{n % 7 + 10}" for n in range(600)], None),
    "prices": ([f"${n * 10 % 9999 / 100:,.2f}" for n in range(1, 900)], "text of numbers, $0.10 to $89.90"),
    "grouped": ([f"{n * 3701:,}" for n in range(1, 900)], "text of numbers, 3,701 to 3,327,199"),
    "decimal comma": ([f"{n},{n % 90 + 10}" for n in range(900)], "text of numbers with decimal comma, like 0,10"),
    "weights": ([f"{n * 7 % 400} kg" for n in range(900)], "text of numbers, 0 kg to 399 kg"),
    "units": (
        [f"{n} kg" for n in range(100)] + [f"{n} g" for n in range(40)],
        "text of numbers with units: kg 100, g 40",
    ),
    "percent": ([f"{n / 10}%" for n in range(900)], "text of numbers, 0.0% to 89.9%"),
    "postal codes": ([f"{n * 7919 % 99999:05}" for n in range(900)], "text of 5 digits"),
    "numbers as text": ([str(n * 7919 % 9973) for n in range(9000)] * 2, "text of numbers like 0"),
    "numbers or NA": (
        [str(n / 8) if n % 40 else "NA" for n in range(900)],
        "text of numbers, 0.125 to 112.375, NA 23",
    ),
    "dates, or two words": (
        [f"2024-01-{n % 28 + 1:02}" if n % 9 else ("unknown", "-")[n % 2] for n in range(600)],
        "dates 2024-01-01 to 2024-01-28, unknown 34, '-' 33",
    ),
    "codes or a word": ([f"{n * 7919 % 99999:05}" if n else "none" for n in range(900)], "text of 5 digits, none 1"),
    "numbers among many words": ([str(n) if n % 9 else "abcd"[n % 4] for n in range(900)], None),
    "numbers or NA, which stands where it is looked first": (
        [str(n) if n % 9 else "NA" for n in range(200)],
        "text of numbers, 1 to 199, NA 23",
    ),
    "more words than numbers": (["NA" if n % 5 < 3 else str(n * 7) for n in range(900)], None),
    "names with numbers": ([f"user {n}" for n in range(900)], None),
    "codes": ([f"{'yna'[n % 3]} #{n % 50}" for n in range(900)], "first words: y 300, n 300, a 300"),
    "huge integers": ([10**400 + n for n in range(50)], None),
    "infinities": ([*map(float, range(100)), float("nan"), float("inf")] * 2, "0.0 to 99.0, not finite 4"),
    "infinities among huge integers": ([10**400, *map(float, range(100)), float("inf")] * 2, "not finite 2"),
    "lone surrogates": (["\ud800a", "b"] * 9, "'\\\\ud800a' 9, b 9"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_is_said_of_a_column(name: str) -> None:
    cells, expected = COLUMNS[name]
    assert column(*cells) == expected


def test_times_as_numbers_are_told_by_the_name_of_their_column() -> None:
    rows = [
        {"created_at": 1_700_000_000 + n * 86_400 % 1_000_000, "updatedMs": 1, "ts": 1_700_000_000_000 + n}
        for n in range(50)
    ]
    said = stated(rows)
    assert said["created_at"] == "epoch s, 2023-11-14 to 2023-11-26"
    assert said["ts"] == "epoch ms, 2023-11-14"


def test_keys_that_find_records_and_what_refers_to_them() -> None:
    value = {
        "customers": [{"id": n, "name": f"c{n}"} for n in range(1, 60)],
        "orders": [
            {"id": 1000 + n, "customer_id": n * 7 % 50 + 1, "qty": n % 9 + 1, "lang": "ab"[n % 2] + "x"}
            for n in range(200)
        ],
        "agents": {name: {"share": n} for n, name in enumerate(("ie", "edge", "firefox", "chrome", "safari"))},
        "features": {
            f"f{n}-x": {"stats": {name: {"1": "y"} for name in ("ie", "edge", "firefox", "chrome", "safari")}}
            for n in range(40)
        },
    }
    shown = listed(facts(value))
    assert shown["orders[]"]["customer_id"].endswith("in customers[].id")
    assert shown["orders[]"]["id"] == "1000 to 1199, unique"
    assert "in" not in str(shown["orders[]"]["qty"]).split()
    assert shown["keys of agents"] == "ie, edge, firefox, chrome, safari"
    assert shown["features.*"]["keys of stats"] == "= keys of agents"


def test_of_matched_text_only_a_sample_is_said() -> None:
    rows = [{"id": n, "state": ("open", "paid")[n % 3 == 0], "at": f"2024-01-{n % 28 + 1:02}"} for n in range(40_000)]
    text = orjson.dumps(rows)
    described = describe_text(text)
    assert described is not None
    shown = listed(described.schema.values(len(text)))
    said = json.dumps(shown)
    assert "unique" not in said
    count, state = re.search(r'of a sample of ([\d,]+)": \{"state": "([^"]+)"', said).groups()  # type: ignore[union-attr]
    counted = [int(part.rsplit(" ", 1)[1].replace(",", "")) for part in state.split(", ")]
    assert sum(counted) == int(count.replace(",", "")) < len(rows)
    assert said.count("of a sample of") == len(shown)


HOSTILE: dict[str, Any] = {
    "empty": [],
    "scalars": [None, True, 1, 1.5, "x"],
    "a million values": [{"x": f"{n}"} for n in range(200_000)],
    "many columns": [{f"c{n}": n for n in range(30_000)}] * 4,
    "maps of many keys": {f"k{n}": {"a": n} for n in range(50_000)},
    "huge strings": [{"x": "y" * 3_000_000}] * 9,
    "huge keys": [{"k" * 300_000: n} for n in range(20)],
    "huge integers": [{"x": 10**20_000}] * 20,
    "NaN": [{"x": float("nan")}] * 20,
    "surrogates": [{"\udc00": "\ud800"}] * 20,
    "separators": [{"x": "1\0002"}, {"x": "3"}] * 20,
    "ragged": [{f"c{n * m % 3000}": n for m in range(20)} for n in range(3_000)],
    "many tables": {f"t{n}": [{"id": m} for m in range(9)] for n in range(3_000)},
}


def nested(levels: int) -> Any:
    value: Any = [1, 2, 3]
    for level in range(levels):
        value = [value, value] if level < 3 else [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize("name", [*HOSTILE, "deep"])
def test_hostile_values_are_soon_done_and_can_be_written(name: str) -> None:
    value = HOSTILE[name] if name in HOSTILE else nested(240)
    schema = infer(value, plain=True)
    began = time.process_time()
    found = schema.values(1_000_000)
    spent = time.process_time() - began
    assert spent < 1.5
    for fact in found:
        text = json.dumps(listed([fact]), ensure_ascii=False)
        text.encode()
        assert len(text) < 900


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "a", "b", "2024-01-01"])
)
CELLS = (
    SCALARS | st.lists(st.integers(0, 3), max_size=3) | st.fixed_dictionaries({}, optional={"a": SCALARS, "b": SCALARS})
)
RECORDS = st.lists(st.fixed_dictionaries({}, optional={"x": CELLS, "y": CELLS, "z": SCALARS}), max_size=30)


@settings(max_examples=60, deadline=None)
@example([{"203": [["a"]], "232": {}}, {"232": [], "210": [[True, "a"]], "203": {}}])  # of a map, and a field beside it
@given(
    RECORDS
    | st.dictionaries(st.text(max_size=3), CELLS, max_size=12)
    | st.fixed_dictionaries({"l": RECORDS, "m": RECORDS})
)
def test_every_fact_is_true(value: Any) -> None:
    for fact in facts(value):
        assert fact.sample is None
        check(value, fact)


def test_facts_of_samples_are_true_of_some_values() -> None:
    random_ = random.Random(3)
    value = [{f"c{n}": random_.choice(["a", "b", f"w{random_.random()}"]) for n in range(60)} for _ in range(400)]
    found = facts(value, size=1)
    assert any(fact.sample for fact in found)
    for fact in found:
        if fact.sample is not None:
            assert fact.sample.count < 400


@pytest.mark.parametrize("rows", [5_000, 20_000])
def test_the_most_telling_columns_of_a_long_table_are_exact(rows: int) -> None:
    table = [
        {
            "id": n * 7919 % 999_983,
            "state": ("open", "paid", "void")[n % 3],
            "at": f"2024-0{n % 9 + 1}-01T10:00:00Z",
            "n": n % 50,
        }
        for n in range(rows)
    ]
    found = facts(table, len(orjson.dumps(table)))
    few = ", ".join(f"{word} {len(range(at, rows, 3)):,}" for at, word in enumerate(("open", "paid", "void")))
    assert few in [fact.stated for fact in found if fact.sample is None]
    assert any(fact.sample for fact in found)  # the work is bounded: reading all of it would take as long as parsing


def test_no_value_is_twice_in_a_sample() -> None:
    for count in (97, 120, 191, 192, 193, 5_000):
        (root, items) = places({"x": list(range(count))}, infer({"x": list(range(count))}).node, Work(1e9))
        assert root.path == ("x",) and items.sample is not None
        assert len(set(items.values)) == len(items.values) == items.sample.count == 96
        assert max(items.values) > 0.98 * count


def reached(value: Any, path: Path) -> Iterator[Any]:
    """All values at a path: an independent reading of what paths mean."""
    if not path:
        yield value
        return
    step, *rest = path
    if step is ITEM and type(value) is list:
        for one in value:
            yield from reached(one, tuple(rest))
    elif step is KEY and type(value) is dict:
        for one in value.values():
            yield from reached(one, tuple(rest))
    elif isinstance(step, str) and type(value) is dict and step in value:
        yield from reached(value[step], tuple(rest))


def check(value: Any, fact: Fact) -> None:
    """Assert that a fact is true, by an independent reading of its words; facts that are not understood are not true."""
    cells = list(reached(value, fact.path))
    if fact.of_keys:
        return
    said = fact.stated if isinstance(fact.stated, str) else f"{fact.stated[0]!r} to {fact.stated[1]!r}"
    present = [cell for cell in cells if cell is not None and cell != ""]
    numbers = [cell for cell in present if type(cell) in (int, float) and math.isfinite(cell)]
    for part in re.findall(r"(?:'(?:[^'\\]|\\.)*'|[^,'])+", said):
        part = part.strip()
        counted = re.fullmatch(r"(.+?) ([\d,]+)(?: of ([\d,]+))?", part)
        if part == "unique":
            assert len(set(present)) == len(cells)
        elif spanned := re.fullmatch(r"(-?[\d.e+-]+) to (-?[\d.e+-]+)(?: items)?", part):
            low, high = map(float, spanned.groups())
            measured = [len(cell) for cell in cells if type(cell) is list] if part.endswith("items") else numbers
            assert (min(measured), max(measured)) == (low, high)
        elif part.startswith("~") or " to ~" in part:
            low, high = (float(number.strip("~")) for number in part.split(" to "))
            assert math.isclose(min(numbers), low, rel_tol=1e-3) and math.isclose(max(numbers), high, rel_tol=1e-3)
        elif part.startswith("dates "):
            assert (
                f"{min(present)} to {max(present)}".removeprefix(f"{min(present)} to " * (min(present) == max(present)))
                in part
            )
        elif always := re.fullmatch("always (.+)", part):
            assert {words(cell) for cell in cells if cell is not None} <= {always[1], "''"}
        elif part.startswith("in "):
            continue
        else:
            assert counted is not None, part
            word, count = counted[1], int(counted[2].replace(",", ""))
            kinds = Counter(kind(cell) for cell in cells)
            exact = Counter(words(cell) for cell in cells if type(cell) in (str, bool, int, float))
            if word == "empty":
                assert count == sum(cell == [] for cell in cells)
            elif word == "not finite":
                assert count == sum(type(cell) is float and not math.isfinite(cell) for cell in cells)
            else:
                assert count in (exact[word], kinds[word]), part
            if counted[3]:
                assert int(counted[3]) == len(cells)


def words(cell: Any) -> str:
    if type(cell) is str:
        return cell if cell in ("a", "b") else repr(cell)
    return json.dumps(cell) if type(cell) is bool else repr(cell)


def kind(cell: Any) -> str:
    names = {dict: "object", list: "list", str: "str", bool: "bool", int: "num", float: "num", type(None): "null"}
    return names[type(cell)]


@pytest.mark.parametrize(
    "texts",
    [["1"], ["²"], ["１２"], ["1e5", "2"], ["-5", "+3.5"], [".5"], ["٣"], ["5 ", "6 "], ["1,2,3"], ["NaN"], ["0x1f"]],
)
def test_formats_of_odd_texts_do_not_raise(texts: list[str]) -> None:
    format_of(texts)
