"""Schemas of other tools: which are invalid, which data they accept, in which time, and which of them msgspec checks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from misfits import misfit, of

from byref import ConfigurationError, Session
from byref.references import schemas
from byref.references.circles import check_circles
from byref.references.schemas import compiled


def test_drafts_differ(chat: Session) -> None:
    schema = of(k={"type": "integer"})
    assert chat.resolve({"k": 1.0}, schema) == {"k": 1.0}
    old = {"$schema": "http://json-schema.org/draft-04/schema#", **schema}
    assert "k expects integer" in misfit(chat, {"k": 1.0}, old)
    tuples = {"$schema": "http://json-schema.org/draft-07/schema#", **of(k={"items": [{"type": "integer"}]})}
    assert "k[0] expects integer" in misfit(chat, {"k": [None]}, tuples)
    exclusive = {"$schema": "http://json-schema.org/draft-04/schema#", **of(k={"minimum": 1, "exclusiveMinimum": True})}
    assert "k does not satisfy minimum 1" in misfit(chat, {"k": 1}, exclusive)


def test_nothing_is_fetched(chat: Session) -> None:
    for schema in (
        of(k={"$ref": "http://127.0.0.1:9/x.json"}),
        {"$id": "http://127.0.0.1:9/root.json", **of(k={"$ref": "x.json"})},
        of(k={"$ref": "#/$defs/nope"}),
        of(k={"$ref": "file:///etc/passwd"}),
    ):
        with pytest.raises(ConfigurationError, match="which is not in it; nothing is fetched"):
            chat.resolve({"k": 1}, schema)


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"properties": 5}, {"type": {1, 2}}, {"enum": [object()]}])
def test_what_is_no_schema_is_the_hosts_to_mend(chat: Session, schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="the schema of the target tool is"):
        chat.resolve({}, schema)


@pytest.mark.parametrize("padding", [0, 2 << 20])
def test_a_refusal_is_remembered(monkeypatch: pytest.MonkeyPatch, padding: int) -> None:
    """Also of a schema that is too large to be kept."""
    tried: list[dict[str, Any]] = []

    def check(schema: dict[str, Any], in_time: Callable[[], None]) -> None:
        tried.append(schema)
        check_circles(schema, in_time)

    monkeypatch.setattr(schemas, "check_circles", check)
    refused = {"description": "x" * padding, "allOf": [{"$ref": "#"}]}
    for _ in range(3):
        with pytest.raises(ConfigurationError, match="applies itself to the same value again"):
            compiled(refused)
    assert len(tried) == 1
    monkeypatch.setattr(schemas, "_REFUSED_SECONDS", 1e-9)
    with pytest.raises(ConfigurationError, match="applies itself to the same value again"):
        compiled(refused)
    assert len(tried) == 2


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "draft",
    [
        *(f"http://json-schema.org/draft-{number}/schema#" for number in ("03", "04", "06", "07")),
        *(f"https://json-schema.org/draft/{date}/schema" for date in ("2019-09", "2020-12")),
    ],
)
def test_many_plain_properties_are_checked_in_time(draft: str) -> None:
    plain: dict[str, Any] = {f"p{n}": {"type": "string", "description": f"field {n}"} for n in range(20_000)}
    about = {"$schema": draft}
    started = time.process_time()
    compiled({**about, "properties": plain})
    assert time.process_time() - started < 2
    for wrong in ({"type": 5}, {"type": "string", "description": 5}):
        with pytest.raises(ConfigurationError, match="is invalid: properties/wrong"):
            compiled({**about, "properties": {**plain, "wrong": wrong}})


def nested(keyword: str, levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {keyword: [schema] if keyword == "allOf" else {"k": schema} if keyword == "properties" else schema}
    return schema


def doubled(levels: int) -> dict[str, Any]:
    """A schema that applies the last of its parts 2**levels times to one value."""
    parts: dict[str, Any] = {f"p{i}": {"allOf": [{"$ref": f"#/$defs/p{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**parts, f"p{levels}": of(k={})}, "$ref": "#/$defs/p0", "unevaluatedProperties": False}


OWN = {"$ref": "#/properties/k"}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (of(k={"not": OWN}), "itself"),
        (of(k=OWN), "itself"),
        (of(k={"if": OWN}), "itself"),
        (of(k={"else": OWN}), "itself"),
        (of(k={"anyOf": [{}, OWN]}), "itself"),
        (of(k={"oneOf": [{"allOf": [OWN]}]}), "itself"),
        (of(k={"dependentSchemas": {"a": OWN}}), "itself"),
        (of(k={"$anchor": "k", "not": {"$ref": "#k"}}), "itself"),
        (of(k={"$id": "http://k/", "not": {"$ref": "http://k/"}}), "itself"),
        ({"$id": "http://k/", **of(k={"$id": "a", "not": {"$ref": "http://k/a"}})}, "itself"),
        ({"unevaluatedProperties": False, "allOf": [{"$ref": "#"}]}, "itself"),
        ({"unevaluatedItems": False, "if": {"$ref": "#"}}, "itself"),
        ({"$dynamicAnchor": "k", "anyOf": [{"$dynamicRef": "#k"}]}, "itself"),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema", "not": {"$recursiveRef": "#"}}, "itself"),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "extends": [{"$ref": "#"}]}, "itself"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": {"$ref": "#"}}}, "itself"),
        ({**of(k={"$ref": "#/x"}), "x": {"not": {"$ref": "#/x"}}}, "itself"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "itself"),
        (nested("not", 400), "levels"),
        (nested("allOf", 400), "levels"),
        (nested("properties", 400), "levels"),
        (doubled(30), "more than 10,000"),
        ({**of(k={"$ref": "#/x"}), "x": {"allOf": 3, "properties": 5}}, "not to be checked"),
        ({"$schema": {}}, "not to be checked"),
        ({"$schema": "http://["}, "not to be checked"),
        ({"$id": "http://[", **of(k={"$ref": "x"})}, "not to be checked"),
        (of(k={"pattern": "(" * 10_000}), "properties/k/pattern"),
    ],
)
def test_a_schema_that_does_not_end_is_none(
    chat: Session, schema: dict[str, Any], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    start = time.monotonic()
    with pytest.raises(ConfigurationError, match="the schema of the target tool") as caught:
        chat.resolve({"k": "a $b"}, schema)
    assert told in str(caught.value)
    assert time.monotonic() - start < 2
    assert "panicked" not in capfd.readouterr().err


def test_what_ends_with_the_data_is_fine(chat: Session) -> None:
    tree = of(k={"$ref": "#/$defs/t"}) | {"$defs": {"t": of(c={"items": {"$ref": "#/$defs/t"}}, n={"type": "integer"})}}
    assert "k.c[0].n expects integer" in misfit(chat, {"k": {"c": [{"n": "five"}]}}, tree)
    assert "k expects integer" in misfit(chat, {"k": "five"}, nested("allOf", 20) | of(k={"type": "integer"}))
    shared = {"$defs": {"a": {"type": "integer"}}, **of(k={"anyOf": [{"$ref": "#/$defs/a"}] * 3})}
    assert chat.resolve({"k": 5}, shared) == {"k": 5}


def test_a_check_that_fails_is_told_to_the_model(chat: Session) -> None:
    assert "not to be checked (OverflowError)" in misfit(chat, {"k": 10**400}, of(k={"multipleOf": 0.1}))


def test_a_draft_within_a_schema_does_not_lift_the_bounds(chat: Session) -> None:
    inner = {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "^(a|a)*b$"}
    assert "k does not satisfy pattern" in misfit(chat, {"k": "a" * 50}, of(k=inner))
    older = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}
    assert "k expects integer" in misfit(chat, {"k": 1.0}, of(k=older))


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ({"a": 1, "b": 1}, {"allOf": [of(a={})]}, 'has no place for "b"'),
        ({"a": 1, "b": 1}, {"anyOf": [of(a={}), of(b={"type": "null"})]}, 'has no place for "b"'),
        ({"a": 1, "b": 1}, {"if": {"required": ["a"]}, "then": of(a={}), "else": of(b={})}, 'has no place for "b"'),
        ({"a": 1, "b": 1}, {"dependentSchemas": {"a": of(b={})}, **of(a={})}, None),
        ({"a": 1, "b": 1}, {"allOf": [{"additionalProperties": {"type": "integer"}}]}, None),
        ([1, 2, 3], {"prefixItems": [{}], "contains": {"const": 3}}, "has no place for 1"),
        ([1, 2], {"allOf": [{"items": {"type": "integer"}}]}, None),
    ],
)
def test_what_nothing_applies_to(chat: Session, value: Any, schema: dict[str, Any], message: str | None) -> None:
    keyword = "unevaluatedProperties" if isinstance(value, dict) else "unevaluatedItems"
    whole = of(k={**schema, keyword: False})
    assert Draft202012Validator(whole).is_valid({"k": value}) == (message is None)
    if message is None:
        assert chat.resolve({"k": value}, whole) == {"k": value}
    else:
        assert message in str([error.message for error in compiled(whole).errors({"k": value}, time.monotonic() + 9)])


def test_hostile_data_does_not_hang_a_pattern(chat: Session, caplog: pytest.LogCaptureFixture) -> None:
    chat.store_artifact(["a" * 50_000, {"a" * 5_000 + "!": 1}], name="held")
    start = time.monotonic()
    assert "pattern" in misfit(chat, {"k": "$held.0"}, of(k={"pattern": "^(a|a)*b$"}))
    chat.resolve({"k": "$held.1"}, of(k={"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}))
    with caplog.at_level(logging.WARNING, "byref"):
        assert chat.resolve({"k": "ab"}, of(k={"pattern": "^(?=zz)"})) == {"k": "ab"}
    assert "the pattern '^(?=zz)' of a tool's schema is not checked" in caplog.text
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_large_data_is_checked_fast_or_refused(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": i, "name": f"name {i}", "tags": ["a"], "score": i / 2} for i in range(80_000)]
    chat.store_artifact(rows, name="rows")
    record = {
        **of(id={"type": "integer"}, name={"type": "string", "minLength": 1}, score={"type": "number"}),
        "required": ["id"],
    }
    start = time.process_time()
    chat.resolve({"k": "$rows"}, of(k={"type": "array", "items": record}))
    assert time.process_time() - start < 3
    monkeypatch.setattr("byref.references.fitting.CHECK_SECONDS", 0.25)
    start = time.process_time()
    assert "too large to be checked" in misfit(chat, {"k": "$rows"}, of(k={"items": {**record, "allOf": [{}, {}]}}))
    assert time.process_time() - start < 4
    assert "k[0].id expects string" in misfit(chat, {"k": "$rows"}, of(k={"items": of(id={"type": "string"})}))


@pytest.mark.slow
def test_depth_is_bounded(chat: Session) -> None:
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}
    chat.store_artifact("[" * 300 + "]" * 300, name="deep")
    message = "nested too deeply to be checked"
    assert message in misfit(chat, {"k": "$deep"}, {**of(k={"$ref": "#/$defs/t"}), "$defs": tree["$defs"]})


SCHEMAS = st.recursive(
    st.sampled_from([
        {}, True, {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"},
        {"type": ["string", "null"]}, {"enum": ["a", "b"]}, {"type": "integer", "minimum": 0, "exclusiveMaximum": 3},
        {"type": "string", "minLength": 1, "maxLength": 2}, {"$ref": "#/$defs/d"}, {"type": "array", "maxItems": 1},
        {"type": "string", "pattern": "a$"}, {"type": "number", "minimum": 0.5}, {"type": "number", "exclusiveMaximum": 1},
    ]),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"anyOf": some}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
            optional={"required": st.lists(st.sampled_from("abc"), unique=True), "additionalProperties": st.booleans()},
        ),
        inner.map(lambda one: {"type": "object", "additionalProperties": one}),
    ),
    max_leaves=5,
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 4) | st.sampled_from([1.0, 0.5, 2**70, "", "a", "abc", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)


@given(schema=SCHEMAS, value=VALUES)
def test_what_is_accepted_is_what_jsonschema_accepts(schema: Any, value: Any) -> None:
    whole = {"$defs": {"d": {"type": "boolean"}}, "properties": {"k": schema}}
    ours = compiled(whole)
    valid = Draft202012Validator(whole).is_valid({"k": value})
    assert (ours.errors({"k": value}, time.monotonic() + 60) == []) == valid
    assert ours.validator.is_valid({"k": value}) == valid


FAST: list[tuple[dict[str, Any], Any, Any]] = [
    ({"type": "integer", "minimum": 1, "maximum": 5}, 5, 6),
    ({"type": "number", "exclusiveMinimum": 0}, 0.5, 0),
    ({"type": "number"}, 2, "2"),
    ({"type": "string", "minLength": 1, "maxLength": 2}, "ab", "abc"),
    ({"type": "string", "pattern": "^a+$"}, "aaa", "b"),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, [True, False], [1]),
    ({"type": ["string", "null"]}, None, 1),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 3, []),
    ({"enum": ["a", "b"]}, "b", "c"),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1, "b": 2}, {"b": 2}),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {"a": []}, {"b": 1}),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"x": 1}, {"x": "1"}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "N"}, None, "a"),
    (
        {"type": "object", "properties": {"class": {"type": "string"}, "a b": {}}, "required": ["class"]},
        {"class": ""},
        {},
    ),
    ({"type": "string", "format": "date"}, "no date", 1),
    ({"$ref": "#/$defs/row"}, {"id": 1}, {"id": "1"}),
]
SLOW: list[dict[str, Any]] = [
    {"type": "integer", "multipleOf": 2},
    {"type": "string", "pattern": "a", "minLength": 2},
    {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    {"enum": [1, 2]},
    {"$ref": "https://elsewhere"},
]


@pytest.mark.parametrize(("schema", "fits", "does_not"), FAST)
def test_what_most_schemas_say_is_checked_fast(schema: dict[str, Any], fits: Any, does_not: Any) -> None:
    of_rows = {
        "properties": {"rows": {"type": "array", "items": schema}},
        "$defs": {"row": FAST[9][0] | {"properties": {"id": {"type": "integer"}}, "required": ["id"]}},
    }
    wanted, until = compiled(of_rows), time.monotonic() + 10
    alone: Any = replace(wanted, validator=None)  # jsonschema is not asked
    assert alone.errors({"rows": [fits] * 3}, until) == []
    assert wanted.errors({"rows": [fits, does_not]}, until) != []


@pytest.mark.parametrize("schema", SLOW)
def test_what_else_they_say_is_left_to_jsonschema(schema: dict[str, Any]) -> None:
    assert compiled({"properties": {"a": schema}}).quick is None
