"""The schema is genson's; fitted, it keeps within its budget and every value stays valid."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from genson import SchemaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from json_values import EVERYDAY, VALUES, compatibility, installed_packages, load, nested, records, spread, wide_records
from jsonschema import Draft202012Validator

from byref.describe.schema import NotPlain, TooDeep, infer


def characters(text: str) -> int:
    return -(-len(text) // 3)


def genson_schema(value: object) -> dict[str, Any]:
    builder = SchemaBuilder()
    builder.add_object(value)
    schema: dict[str, Any] = builder.to_schema()
    return schema


def fitted_text(value: object, budget: int) -> str:
    return msgspec.json.encode(infer(value).fitted(budget, characters)).decode()


@given(VALUES)
def test_full_is_gensons(value: object) -> None:
    assert infer(value).full() == genson_schema(value)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=5))
def test_full_is_gensons_over_ragged_records(value: object) -> None:
    assert infer(value).full() == genson_schema(value)


@pytest.mark.parametrize("name", EVERYDAY)
def test_full_is_gensons_over_everyday_values(name: str) -> None:
    value = EVERYDAY[name]
    full, expected = infer(value).full(), genson_schema(value)
    assert full == expected
    assert json.dumps(full) == json.dumps(expected), "keys stand in the order of the source"


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("count", [15, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("package", installed_packages())
def test_full_is_gensons_over_real_files(package: str, count: int) -> None:
    for path in spread(installed_packages()[package], count):
        value = load(path)
        assert infer(value).full() == genson_schema(value), path


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("name", [name for name in EVERYDAY if name != "deep"])  # jsonschema recurses too deep there
def test_the_value_is_valid_against_its_full_schema(name: str) -> None:
    Draft202012Validator(infer(EVERYDAY[name]).full()).validate(EVERYDAY[name])


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("budget", [12, 50, 150, 400, 1_000, 5_000])
@pytest.mark.parametrize("name", EVERYDAY)
def test_fitted_keeps_its_budget_and_generalises(name: str, budget: int) -> None:
    value = EVERYDAY[name]
    schema = infer(value).fitted(budget, characters)
    assert characters(msgspec.json.encode(schema).decode()) <= budget
    if name != "deep":
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(value)


@settings(deadline=None)
@given(VALUES, st.integers(12, 600))
def test_fitted_keeps_its_budget_and_generalises_for_any_value(value: object, budget: int) -> None:
    schema = infer(value).fitted(budget, characters)
    text = msgspec.json.encode(schema).decode()
    assert characters(text) <= budget
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(value)
    assert msgspec.json.encode(infer(value).fitted(budget, characters)).decode() == text


def test_fitted_is_the_full_schema_where_it_fits() -> None:
    value = {"users": records(1_200), "total": 1_200}
    assert infer(value).fitted(400, characters) == genson_schema(value)


def test_a_budget_that_holds_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="a budget of 0 tokens"):
        infer([1]).fitted(0, characters)


@pytest.mark.parametrize(
    "foreign",
    [
        dt.date(2026, 1, 1),
        Decimal("1.5"),
        (1, 2),
        {1, 2},
        b"bytes",
        {1: "integer key"},
        {None: "null key"},
        OrderedDict(a=1),
        enum.Enum("Colour", "RED", type=str)["RED"],
        {f"k{i}" if i else 7: {} for i in range(60)},
    ],
    ids=repr,
)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [1, "a", x], lambda x: [{"a": 1}] * 700 + [{"a": x}]])
def test_what_json_does_not_have_is_refused(foreign: object, wrap: Any) -> None:
    with pytest.raises(NotPlain):
        infer(wrap(foreign))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [1, 2.5, x], lambda x: [{"a": 0.5}] * 700 + [{"a": x}]])
def test_numbers_that_are_not_finite_are_refused_unless_allowed(number: float, wrap: Any) -> None:
    with pytest.raises(NotPlain, match=repr(number)):
        infer(wrap(number))
    infer(wrap(number), plain=True).full()


def test_finite_numbers_whose_sum_overflows_are_plain() -> None:
    assert infer([1e308] * 10).full() == genson_schema([1e308])


def test_nesting_is_bounded() -> None:
    infer(nested(250)).full()
    with pytest.raises(TooDeep, match="250 levels"):
        infer(nested(251))
    assert infer(nested(250), plain=True).cut_at is None
    for levels in (251, 600):
        schema = infer({"deep": [nested(levels - 2)]}, plain=True)
        assert schema.cut_at is not None and schema.cut_at.startswith(".deep[]")
        assert "nested too deeply" in str(schema.full()) and schema.fitted(100, characters)


def test_a_circular_value_is_too_deep() -> None:
    circular: list[Any] = []
    circular += [{"self": circular, "again": circular}, *[circular] * 1_000]
    with pytest.raises(TooDeep):
        infer(circular)


def test_a_map_is_folded_to_the_shape_of_its_members() -> None:
    value = {f"id-{i}": {"name": "x", "size": i} for i in range(5_000)}
    assert infer(value).fitted(200, characters) == snapshot(
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                "required": ["name", "size"],
            },
            "description": "5,000 keys: id-0, id-1, id-2, id-3, id-4, id-5, id-6, id-7, ...",
        }
    )


def test_wide_rows_keep_their_first_names() -> None:
    assert fitted_text(wide_records(3), 120) == snapshot(
        '{"type":"array","items":{"type":"object","properties":{"column_0":{"type":"string"},"column_1":{"type":"integer"},"column_2":{"type":"integer"},"column_3":{"type":"string"},"column_4":{"type":"integer"},"column_5":{"type":"integer"},"column_6":{"type":"string"}},"additionalProperties":{"type":["integer","string"]},"description":"593 more keys"}}'
    )


def test_maps_of_maps_show_their_common_shape() -> None:
    assert fitted_text(compatibility(), 700) == snapshot(
        '{"type":"object","properties":{"__meta":{"type":"object","properties":{"version":{"type":"string"},"timestamp":{"type":"string"}},"required":["timestamp","version"]},"api":{"type":"object","additionalProperties":{"type":"object","properties":{"__compat":{"type":"object","properties":{"mdn_url":{"type":"string"},"support":{"type":"object"},"status":{"type":"object"},"tags":{"type":"array","description":"items not shown"}},"required":["mdn_url","status","support"]}},"required":["__compat"],"additionalProperties":{"type":"object","properties":{"__compat":{"type":"object","properties":{"mdn_url":{"type":"string"},"support":{"type":"object"}},"description":"2 more keys"}},"required":["__compat"]},"description":"120 more keys: member1_0, member2_0, member2_1, member3_0, member3_1, ..."},"description":"60 keys: Interface0, Interface1, Interface2, Interface3, Interface4, ..."},"browsers":{"type":"object","additionalProperties":{"type":"object","properties":{"name":{"type":"string"},"type":{"type":"string"},"releases":{"type":"object","additionalProperties":{"type":"object","properties":{"status":{"type":"string"}},"required":["status"]},"description":"40 keys"}},"required":["name","releases","type"]},"description":"9 keys: chrome, chrome_android, deno, edge, firefox, nodejs, opera, ..."},"css":{"type":"object","properties":{"properties":{"type":"object","additionalProperties":{"type":"object","properties":{"__compat":{"type":"object","description":"4 keys"}},"required":["__compat"],"additionalProperties":{"type":"object"},"description":"120 more keys"},"description":"60 keys: property-0, property-1, property-2, property-3, property-4, ..."},"selectors":{"type":"object","additionalProperties":{"type":"object","properties":{"__compat":{"type":"object","description":"4 keys"}},"required":["__compat"],"additionalProperties":{"type":"object"},"description":"120 more keys"},"description":"60 keys: selector-0, selector-1, selector-2, selector-3, selector-4, ..."}},"required":["properties","selectors"]}},"required":["__meta","api","browsers","css"]}'
    )


def test_a_small_budget_still_says_something() -> None:
    assert [fitted_text(compatibility(), budget) for budget in (12, 50, 100)] == snapshot(
        [
            '{"type":"object"}',
            '{"type":"object","properties":{"__meta":{"type":"object"},"api":{"type":"object"},"browsers":{"type":"object"},"css":{"type":"object"}}}',
            '{"type":"object","properties":{"__meta":{"type":"object","properties":{"version":{"type":"string"},"timestamp":{"type":"string"}},"required":["timestamp","version"]},"api":{"type":"object"},"browsers":{"type":"object"},"css":{"type":"object"}},"required":["__meta","api","browsers","css"]}',
        ]
    )
