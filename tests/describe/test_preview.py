"""The preview keeps its budget, parses, shows both ends whole, and says exactly what is missing."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from json_values import (
    EVERYDAY,
    VALUES,
    compatibility,
    features,
    installed_files,
    installed_packages,
    load,
    nested,
    records,
    spread,
    wide_records,
)

from byref.describe.preview import Preview, preview

ITEMS = re.compile(r"\.\.\. \(([\d,]+) tokens omitted\) \.\.\.")
KEYS = re.compile(r"([\d,]+) (?:more )?keys?")
CHARACTERS = re.compile(r"(.*)… \(([\d,]+) (?:more )?characters\)", re.DOTALL)


def characters(text: str) -> int:
    return -(-len(text) // 3)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def whole_text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def look(value: object, budget: int) -> Preview:
    return preview(value, budget=budget, measure=characters, total=characters(whole_text(value)))


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    parsed = json.loads(text, parse_constant=refuse)
    msgspec.json.decode(text)
    return parsed


class Reconciliation:
    """Walks a value beside its preview; fails unless all that is missing is stated with its exact count."""

    def __init__(self, value: object, seen: Preview) -> None:
        self.counts: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.tokens = 0
        self.bare = self.compare(value, seen.value)

    def compare(self, value: Any, shown: Any) -> Any:
        """Returns what is shown without the marks."""
        if isinstance(value, dict):
            return self.compare_objects(value, shown)
        if isinstance(value, list):
            return self.compare_arrays(value, shown)
        if isinstance(value, float) and not math.isfinite(value):
            assert shown in ("NaN", "Infinity", "-Infinity")
        elif isinstance(value, (str, int)) and not isinstance(value, bool):
            return self.compare_texts(value, shown)
        else:
            assert shown == value and type(shown) is type(value)
        return shown

    def compare_texts(self, value: str | int, shown: Any) -> Any:
        if shown == value:
            return shown
        text = value if isinstance(value, str) else str(value)
        escaped = text.encode(errors="backslashreplace").decode()
        if shown == escaped:
            return shown
        match = CHARACTERS.fullmatch(shown)
        assert match, shown
        omitted = number(match[2])
        assert match[1] == text[: len(text) - omitted].encode(errors="backslashreplace").decode()
        self.counts["characters"] += omitted
        self.kept["characters"] += len(text) - omitted
        return match[1]

    def compare_objects(self, value: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
        names = {}
        for key in value:
            names.setdefault(key.encode(errors="backslashreplace").decode(), key)
        bare, missing = {}, len(value)
        mark = next((key for key in shown if set(key) == {"."} and len(key) > 2 and key not in value), None)
        for name, member in shown.items():
            if name == mark:
                continue
            missing -= 1
            if name not in names:
                match = CHARACTERS.fullmatch(name)
                assert match, name
                omitted = number(match[2])
                key = next(
                    k
                    for k in value
                    if len(k) > 80 and k[: len(k) - omitted].encode(errors="backslashreplace").decode() == match[1]
                )
                self.counts["characters"] += omitted
                self.kept["characters"] += len(key) - omitted
            else:
                key = names[name]
            bare[name] = self.compare(value[key], member)
        assert (mark is None) == (missing == 0)
        if mark is not None:
            match = KEYS.fullmatch(shown[mark])
            assert match and number(match[1]) == missing
            assert list(shown)[-1] == mark
            self.counts["keys"] += missing
            self.kept["keys"] += len(value) - missing
        order = [names[name] for name in bare if name in names]
        assert order == [key for key in value if key in set(order)], "members stand in the order of the source"
        return bare

    def compare_arrays(self, value: list[Any], shown: list[Any]) -> list[Any]:
        marks = [i for i, element in enumerate(shown) if isinstance(element, str) and ITEMS.fullmatch(element)]
        if len(shown) == len(value) and (not marks or all(shown[i] == value[i] for i in marks)):
            return [self.compare(one, other) for one, other in zip(value, shown, strict=True)]
        marks = [i for i in marks if shown[i] not in value[:1] + value[-1:]] or marks
        assert len(marks) == 1, shown
        (gap,) = marks
        match = ITEMS.fullmatch(shown[gap])
        assert match
        self.tokens += number(match[1])
        head, tail = shown[:gap], shown[gap + 1 :]
        missing = len(value) - len(head) - len(tail)
        assert missing > 0
        self.counts["items"] += missing
        self.kept["items"] += len(head) + len(tail)
        bare = [self.compare(one, other) for one, other in zip(value, head, strict=False)]
        return bare + [
            self.compare(one, other) for one, other in zip(value[len(value) - len(tail) :], tail, strict=True)
        ]


def check(value: object, budget: int) -> Preview:
    seen = look(value, budget)
    assert seen.tokens == characters(seen.text) <= budget
    assert strict(seen.text) == seen.value
    assert look(value, budget) == seen, "the same value gives the same preview"
    if seen.value == "..." and value != "...":
        assert seen.omitted == {"tokens": characters(whole_text(value))}
        return seen
    told = Reconciliation(value, seen)
    if seen.omitted is None:
        assert not told.counts
        return seen
    total = characters(whole_text(value))
    bare = characters(msgspec.json.encode(told.bare).decode())
    assert seen.omitted["tokens"] == max(total - bare, 0)
    if set(told.counts) == {"items"}:
        assert told.tokens == seen.omitted["tokens"]
    else:
        assert told.tokens <= seen.omitted["tokens"]
    if "more" not in seen.omitted:
        for kind, omitted in told.counts.items():
            places: Any = seen.omitted[kind]
            assert sum(place["omitted"] for place in places.values()) == omitted
            assert sum(place["kept"] for place in places.values()) == told.kept[kind]
    assert len(whole_text(seen.omitted)) < 1_500
    return seen


@settings(deadline=None)
@given(VALUES, st.integers(20, 400))
def test_a_preview_of_any_value_keeps_its_promises(value: object, budget: int) -> None:
    check(value, budget)


@pytest.mark.parametrize("budget", [20, 60, 100, 400, 1_000, 5_000])
@pytest.mark.parametrize("name", EVERYDAY)
def test_a_preview_of_everyday_values_keeps_its_promises(name: str, budget: int) -> None:
    check(EVERYDAY[name], budget)


@pytest.mark.quick_cases(10)
@pytest.mark.parametrize("count", [2, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("package", installed_packages())
def test_a_preview_of_real_files_keeps_its_promises(package: str, count: int) -> None:
    for path in spread(installed_packages()[package], count):
        print(path)  # which one it was, where it fails
        value = load(path)
        for budget in (25, 100, 1_000):
            check(value, budget)


@given(VALUES)
def test_a_value_that_fits_is_shown_whole(value: object) -> None:
    seen = look(value, 1_000_000)
    assert seen.omitted is None
    again = preview(seen.value, budget=seen.tokens, measure=characters, total=seen.tokens)
    assert again == seen


@pytest.mark.parametrize("budget", [200, 1_000])
def test_both_ends_of_an_array_are_whole_records(budget: int) -> None:
    rows = records(10_000)
    shown: Any = check(rows, budget).value
    gap = next(i for i, row in enumerate(shown) if isinstance(row, str))
    assert shown[:gap] == rows[:gap]
    assert shown[gap + 1 :] == rows[gap + 1 - len(shown) :]
    assert gap >= len(shown) - gap - 1 >= 1


def test_a_preview_of_a_hundred_tokens_still_shows_first_and_last() -> None:
    rows = records(10_000)
    seen = check(rows, 100)
    shown: Any = seen.value
    assert (shown[0], shown[-1]) == (rows[0], rows[-1])
    assert seen.omitted is not None
    assert seen.omitted["items"] == {"$": {"kept": 3, "omitted": 9_997}}


def test_the_scalar_siblings_of_a_big_array_are_always_kept() -> None:
    page = {"rows": records(5_000), "total": 5_000, "next_cursor": "abc", "query": {"limit": 50}}
    for budget in (50, 100, 1_000):
        shown: Any = check(page, budget).value
        assert (shown["total"], shown["next_cursor"]) == (5_000, "abc")


def test_more_budget_shows_more() -> None:
    page = {"rows": records(5_000), "total": 5_000}
    kept = [check(page, budget).omitted["items"]["rows"]["kept"] for budget in (100, 300, 1_000, 3_000)]  # type: ignore[index]
    assert kept == sorted(set(kept))


def test_a_real_key_of_dots_is_never_overwritten() -> None:
    value = {"...": "mine", "....": "too"} | {f"column {i}": "x" * 30 for i in range(100)}
    shown: Any = check(value, 100).value
    assert (shown["..."], shown["...."]) == ("mine", "too")
    assert KEYS.fullmatch(shown["....."])


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        {"k" * 1_000_000: 1},
        {f"{i}" * 5_000: i for i in range(50)},
        [10**4_200, -(10**4_200)],
        {"a": "\ud800" * 3_000, "\udfff" * 500: 1},
        "\x00" * 20_000,
        [math.nan, math.inf, -math.inf, 1e308] * 500,
        [[]] * 100_000,
        [""] * 100_000,
        {str(i): None for i in range(100_000)},
        nested(250, "leaf"),
        [nested(200, i) for i in range(50)],
        ["... (5 tokens omitted) ..."] * 1_000,
        {"...": {"...": {"...": list(range(500))}}},
    ],
    ids=lambda value: repr(value)[:30].encode("ascii", "backslashreplace").decode(),
)
@pytest.mark.parametrize("budget", [20, 100, 1_000])
def test_hostile_values_keep_the_budget_and_parse(value: object, budget: int) -> None:
    seen = look_unchecked(value, budget)
    assert seen.tokens == characters(seen.text) <= budget
    assert strict(seen.text) == seen.value
    assert seen.omitted is None or seen.omitted["tokens"] > 900_000


def look_unchecked(value: object, budget: int) -> Preview:
    return preview(value, budget=budget, measure=characters, total=1_000_000)


def test_keys_that_differ_only_in_lone_surrogates_stay_apart() -> None:
    seen = look_unchecked({"\ud800": 1, "\\ud800": 2}, 50)
    assert seen.value == {"\\ud800": 1, "\\ud800_": 2}


def test_integers_that_python_will_not_write_in_decimal() -> None:
    assert look_unchecked(2**100_000, 50).text == snapshot(
        '"0x1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000… (24,883 more characters)"'
    )


def test_a_budget_that_holds_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="a budget of 1 tokens"):
        look_unchecked(records(100), 1)


def test_the_whole_value_is_never_measured() -> None:
    rows = records(100_000)
    lengths: list[int] = []

    def measure(text: str) -> int:
        lengths.append(len(text))
        return characters(text)

    preview(rows, budget=500, measure=measure, total=3_000_000)
    assert sum(lengths) < 20 * 500 * 3


def test_what_a_model_reads_of_records() -> None:
    seen = check({"users": records(1_200), "pagination": {"total": 1_200, "next": "abc"}}, 130)
    assert seen.text == snapshot(
        '{"users":[{"id":1,"name":"User 1","email":"user1@example.com","active":false,"score":0.5},{"id":2,"name":"User 2","email":"user2@example.com","active":false,"score":1.0},"... (35,004 tokens omitted) ...",{"id":1200,"name":"User 1200","email":"user1200@example.com","active":true,"score":600.0}],"pagination":{"total":1200,"next":"abc"}}'
    )
    assert seen.omitted == snapshot({"tokens": 35004, "items": {"users": {"kept": 3, "omitted": 1197}}})


def test_what_a_model_reads_of_wide_rows() -> None:
    seen = check(wide_records(40), 130)
    assert seen.text == snapshot(
        '[{"column_0":"value 0","column_1":0,"column_2":0,"column_3":"value 3","column_4":0,"column_5":0,"column_6":"value 6","column_7":0,"column_8":0,"...":"591 more keys"},"... (157,401 tokens omitted) ...",{"column_0":"value 0","column_1":39,"column_2":78,"column_3":"value 3","column_4":156,"column_5":195,"column_6":"value 6","column_7":273,"column_8":312,"...":"591 more keys"}]'
    )
    assert seen.omitted == snapshot(
        {"tokens": 160395, "items": {"$": {"kept": 2, "omitted": 38}}, "keys": {"$[]": {"kept": 18, "omitted": 1182}}}
    )


def test_what_a_model_reads_of_maps() -> None:
    seen = check(compatibility(), 400)
    assert seen.text == snapshot(
        '{"__meta":{"version":"8.1.9","timestamp":"2026-01-01T00:00:00Z"},"api":{"Interface0":{"__compat":{"mdn_url":"https://example.org/docs/0","support":{"chrome":[{"version_added":"9","prefix":"-x-"},{"version_added":false}],"chrome_android":{"version_added":"1"},"...":"7 more keys"},"status":{"experimental":false,"standard_track":true,"deprecated":true},"tags":["web-features:x"]}},"Interface1":{"...":"2 keys"},"Interface2":{"...":"3 keys"},"...":"57 more keys"},"browsers":{"chrome":{"name":"Chrome","type":"desktop","releases":{"0":{"status":"current"},"1":{"status":"current"},"...":"38 more keys"}},"chrome_android":{"...":"3 keys"},"deno":{"...":"3 keys"},"...":"6 more keys"},"css":{"properties":{"property-0":{"__compat":{"mdn_url":"https://example.org/docs/0","support":{"...":"9 keys"},"tags":["web-features:x"],"...":"1 more key"}},"property-1":{"...":"2 keys"},"...":"58 more keys"},"selectors":{"selector-0":{"__compat":{"mdn_url":"https://example.org/docs/0","support":{"...":"9 keys"},"tags":["web-features:x"],"...":"1 more key"}},"selector-1":{"...":"2 keys"},"...":"58 more keys"}}}'
    )
    assert seen.omitted == snapshot(
        {
            "tokens": 103189,
            "keys": {
                "css.properties": {"kept": 2, "omitted": 58},
                "css.selectors": {"kept": 2, "omitted": 58},
                "api": {"kept": 3, "omitted": 57},
                "browsers": {"kept": 3, "omitted": 6},
                "api.Interface2": {"kept": 0, "omitted": 3},
                "browsers.chrome_android": {"kept": 0, "omitted": 3},
                "browsers.deno": {"kept": 0, "omitted": 3},
                "api.Interface1": {"kept": 0, "omitted": 2},
            },
            "more": 8,
        }
    )


def test_what_a_model_reads_of_geojson() -> None:
    seen = check(features(500), 200)
    assert seen.text == snapshot(
        '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"id":0,"mag":0.0},"geometry":{"type":"Polygon","coordinates":[[[0.0,0.0],[0.1,0.2],[0.2,0.4],[0.3,0.6],[0.4,0.8],[0.5,1.0],[0.6,1.2],[0.7,1.4],"... (65 tokens omitted) ...",[2.6,5.2],[2.7,5.4],[2.8,5.6],[2.9,5.8]]]}},"... (66,651 tokens omitted) ...",{"type":"Feature","properties":{"id":499,"mag":49.9},"geometry":{"type":"Polygon","coordinates":[[[0.0,0.0],[0.1,0.2],[0.2,0.4],[0.3,0.6],[0.4,0.8],[0.5,1.0],[0.6,1.2],"... (70 tokens omitted) ...",[2.6,5.2],[2.7,5.4],[2.8,5.6],[2.9,5.8]]]}}]}'
    )
    assert seen.omitted == snapshot(
        {
            "tokens": 66786,
            "items": {
                "features": {"kept": 2, "omitted": 498},
                "features[].geometry.coordinates[]": {"kept": 23, "omitted": 37},
            },
        }
    )


def test_what_a_model_reads_of_a_long_string() -> None:
    seen = check({"title": "t", "body": "lorem ipsum " * 5_000, "pages": 3}, 60)
    assert seen.text == snapshot(
        '{"title":"t","body":"lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ips… (59,883 more characters)","pages":3}'
    )
    assert seen.omitted == snapshot({"tokens": 19961, "characters": {"body": {"kept": 117, "omitted": 59883}}})


def test_what_a_model_reads_of_scalars() -> None:
    assert check(list(range(10_000)), 60).text == snapshot(
        '[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,"... (16,252 tokens omitted) ...",9987,9988,9989,9990,9991,9992,9993,9994,9995,9996,9997,9998,9999]'
    )


def test_what_a_model_reads_of_real_records() -> None:
    cars = load(installed_files()["vega_datasets/_data/cars.json"])
    seen = check(cars, 250)
    assert seen.text == snapshot(
        '[{"Name":"chevrolet chevelle malibu","Miles_per_Gallon":18,"Cylinders":8,"Displacement":307,"Horsepower":130,"Weight_in_lbs":3504,"Acceleration":12,"Year":"1970-01-01","Origin":"USA"},{"Name":"buick skylark 320","Miles_per_Gallon":15,"Cylinders":8,"Displacement":350,"Horsepower":165,"Weight_in_lbs":3693,"Acceleration":11.5,"Year":"1970-01-01","Origin":"USA"},{"Name":"plymouth satellite","Miles_per_Gallon":18,"Cylinders":8,"Displacement":318,"Horsepower":150,"Weight_in_lbs":3436,"Acceleration":11,"Year":"1970-01-01","Origin":"USA"},"... (23,652 tokens omitted) ...",{"Name":"chevy s-10","Miles_per_Gallon":31,"Cylinders":4,"Displacement":119,"Horsepower":82,"Weight_in_lbs":2720,"Acceleration":19.4,"Year":"1982-01-01","Origin":"USA"}]'
    )
    assert seen.omitted == snapshot({"tokens": 23652, "items": {"$": {"kept": 4, "omitted": 402}}})
