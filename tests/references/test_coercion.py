"""The target tool's schema: checked after resolution, mended where the meaning is plain, told to the model where not."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from material import page

from byref import ConfigurationError, Engine, Policy, Session, ToolError
from byref.references.schemas import compiled

IDS = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}, "required": ["ids"]}


@pytest.fixture
def stocked(chat: Session) -> Session:
    chat.process(page(1_200), tool="list_users")
    return chat


def misfit(session: Session, arguments: Any, schema: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as caught:
        session.resolve(arguments, schema)
    assert len(str(caught.value)) < 1_500
    return str(caught.value)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_the_data_is_checked(stocked: Session) -> None:
    ids = {"$var": "users", "jq": "map(.id)"}
    assert len(stocked.resolve({"ids": ids}, IDS)["ids"]) == 1_200


def test_a_misfit_names_place_expectation_reference_and_remedy(stocked: Session) -> None:
    assert misfit(stocked, {"ids": "$users"}, IDS) == (
        "the arguments do not fit the tool's schema: ids[0] expects integer and is object(3 keys). "
        "$users is array(1200) of object(3 keys); ids expects array of integer: "
        'select a field with {"$var": "users", "jq": "map(.id)"}'
    )
    for reference in ("$list_users", {"$var": "list_users"}):
        assert misfit(stocked, {"q": {"rows": reference}}, of(q=of(rows={"type": "array"}))).endswith(
            'q.rows expects array: select a member with {"$var": "list_users", "path": "users"}'
        )
    assert misfit(stocked, {"name": {"$var": "users", "path": "0"}}, of(name={"type": "string"})).endswith(
        '{"$var": "users", "path": "0"} is object(3 keys); name expects string. '
        'Select what fits with "path" or "jq" in {"$var": …}.'
    )


@pytest.mark.parametrize(
    ("given", "schema", "message"),
    [
        ({}, IDS, "the whole lacks a member: 'ids' is a required property"),
        ({"n": "five"}, of(n={"type": "integer"}), 'n expects integer and is string "five".'),
        ({"n": [1, None]}, of(n={"items": {"type": "integer"}}), "n[1] expects integer and is null."),
        ({"a b": {"c": 1}}, of(**{"a b": of(c={"type": "string"})}), '["a b"].c expects string and is integer 1.'),
        ({"k": "c"}, of(k={"enum": ["a", "b"]}), 'k expects one of "a", "b" and is string "c".'),
        ({"k": "c"}, of(k={"const": "a"}), 'k expects "a" and is string "c".'),
        ({"k": True}, of(k={"enum": [1]}), "k expects 1 and is boolean true."),
        ({"k": 11}, of(k={"maximum": 10}), "k does not satisfy maximum 10 and is integer 11."),
        ({"k": []}, of(k={"minItems": 1}), "k does not satisfy minItems 1 and is array(0)."),
        ({"k": [1, 1.0]}, of(k={"uniqueItems": True}), "k does not satisfy uniqueItems true and is array(2) of number."),
        ({"k": "ab"}, of(k={"pattern": "^a+$"}), 'k does not satisfy pattern "^a+$" and is string "ab".'),
        ({"k": {}}, of(k={"anyOf": [{"type": "integer"}, {"type": "null"}]}), "k expects integer"),
        ({"k": 1}, of(k={"not": {"type": "integer"}}), "k is what the schema rules out."),
        ({"k": 1}, of(k={"oneOf": [{"type": "integer"}, {"type": "number"}]}), "k fits more than one of what it may be."),
        ({"kk": 1}, {**of(k={}), "additionalProperties": False}, 'the whole has no place for "kk"; there are k.'),
        ({"kk": 1}, {"patternProperties": {"^a": {}}, "additionalProperties": False}, 'no place for "kk"'),
        ({"ab": 1}, {"patternProperties": {"^a": {"type": "string"}}}, "ab expects string"),
        ({"k": "x" * 10**6}, of(k={"type": "integer"}), 'k expects integer and is string "xxx'),
        ({"k": {"d": 1}}, {**of(k={"$ref": "#/$defs/d"}), "$defs": {"d": of(d={"type": "null"})}}, "k.d expects null"),
    ],
)  # fmt: skip
def test_misfits_of_what_the_model_wrote(chat: Session, given: Any, schema: dict[str, Any], message: str) -> None:
    assert message in misfit(chat, given, schema)


@pytest.mark.parametrize("schema", [
    {"type": "string"}, {"enum": ["a"]}, {"maxItems": 1}, {"const": 1}, {"uniqueItems": True}, {"contains": {"type": "null"}},
    {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"not": {}}, {"items": {"type": "integer"}},
    {"items": {"properties": {"id": {}}, "additionalProperties": False}},
])  # fmt: skip
def test_data_is_never_printed(chat: Session, schema: dict[str, Any]) -> None:
    chat.store_artifact(
        [{"id": i, "s": "SECRET" * 20} for i in range(10_000)] + [{"id": 1, "s": "SECRET" * 20}] * 2, name="rows"
    )
    assert "SECRET" not in misfit(chat, {"k": "$rows"}, of(k=schema))


@pytest.mark.parametrize(
    ("given", "meant", "schema"),
    [
        ("[1, 2]", [1, 2], {"type": "array"}),
        (' {"a": "5"} ', {"a": 5}, of(a={"type": "integer"})),
        ("5", 5, {"type": "integer"}),
        ("-5.5", -5.5, {"type": "number"}),
        ("5.0", 5, {"type": "integer"}),
        ("12345678901234567890", 12345678901234567890, {"type": "integer"}),
        ("true", True, {"type": "boolean"}),
        ("False", False, {"type": "boolean"}),
        ("5", 5, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("[1]", [1], {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
        (["1", "2"], [1, 2], {"type": "array", "items": {"type": "integer"}}),
        ("5", "5", {"type": ["string", "integer"]}),
        ("5", "5", {}),
        ("[1]", "[1]", {"anyOf": [{"type": "array"}, {"type": "string"}]}),
        ('{"$var": "held"}', [1, 2], {"type": "array"}),
        ('["$held.0", 7]', [1, 7], {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_text_is_mended_only_where_the_schema_asks(
    chat: Session, given: Any, meant: Any, schema: dict[str, Any]
) -> None:
    chat.store_artifact([1, 2], name="held")
    resolved = chat.resolve({"k": given}, {**of(k=schema), "type": "object"})["k"]
    assert resolved == meant
    assert type(resolved) is type(meant)


@pytest.mark.parametrize(
    "text", ["five", "05", "0x5", "NaN", "1e999", "5 5", "", "٣", "1_000", "[1", "yes", "9" * 5_000]
)
def test_other_text_stays_a_misfit(chat: Session, text: str) -> None:
    for kind in ("integer", "number", "array", "boolean"):
        assert f"expects {kind} and is string" in misfit(chat, {"k": text}, of(k={"type": kind}))


def test_data_is_never_mended(chat: Session) -> None:
    chat.store_artifact({"n": "5", "rows": ["1", "2"]}, name="held")
    assert "k expects integer and is string." in misfit(chat, {"k": "$held.n"}, of(k={"type": "integer"}))
    assert "k[0] expects integer" in misfit(chat, {"k": "$held.rows"}, of(k={"items": {"type": "integer"}}))


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


def test_large_data_is_checked_fast_or_refused(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": i, "name": f"name {i}", "tags": ["a"], "score": i / 2} for i in range(80_000)]
    chat.store_artifact(rows, name="rows")
    record = {
        **of(id={"type": "integer"}, name={"type": "string", "minLength": 1}, score={"type": "number"}),
        "required": ["id"],
    }
    start = time.monotonic()
    chat.resolve({"k": "$rows"}, of(k={"type": "array", "items": record}))
    assert time.monotonic() - start < 3
    monkeypatch.setattr("byref.references.fitting.CHECK_SECONDS", 0.25)
    start = time.monotonic()
    assert "too large to be checked" in misfit(chat, {"k": "$rows"}, of(k={"items": {**record, "allOf": [{}, {}]}}))
    assert time.monotonic() - start < 4
    assert "k[0].id expects string" in misfit(chat, {"k": "$rows"}, of(k={"items": of(id={"type": "string"})}))


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


@pytest.mark.parametrize("schema", [
    {"type": "array", "items": {"type": "integer"}},
    {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "N"},
    {"type": "array", "items": {"$ref": "#/$defs/d"}},
    {"type": "object", "properties": {"class": {"type": "string"}, "a b": {"type": "number"}}, "required": ["class"]},
    {"enum": ["a", "b"]}, {"type": "string", "format": "date"},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}, "b": {"type": "number", "minimum": 0}}},
])  # fmt: skip
def test_common_schemas_have_a_fast_type(schema: Any) -> None:
    assert compiled({"$defs": {"d": {"type": "boolean"}}, "properties": {"k": schema}}).quick is not None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("$vehicles", "no artifact or variable 'vehicles' in this conversation; there are: list_users, users, pagination"),
        ("$usrs", "no artifact or variable 'usrs' in this conversation; there are: list_users, users, pagination. Did you mean 'users'?"),
        ("$users.9999", "users.9999: no '9999' at its top; there are 1,200 items, the first is 0"),
        ("$pagination.nope", "pagination.nope: no 'nope' at its top; there are page, pages"),
        ("art_nope", "no artifact or variable 'art_nope' in this conversation; there are: list_users, users, pagination"),
    ],
)  # fmt: skip
def test_a_misfit_that_looks_like_a_reference_is_told_what_there_is(stocked: Session, given: str, why: str) -> None:
    told = misfit(stocked, {"ids": given}, IDS)
    assert told == f'the arguments do not fit the tool\'s schema: ids expects array and is string "{given}"; {why}'


@pytest.mark.parametrize("given", ["vehicles", "$5.00", "$", "$$vehicles", "costs $5"])
def test_other_text_is_told_nothing_of_references(stocked: Session, given: str) -> None:
    assert misfit(stocked, {"ids": given}, IDS).endswith(f'is string "{given}".')


def test_a_tool_without_references_is_told_nothing_of_them(local: Engine, stocked: Session) -> None:
    policy = Policy(per_tool={"sh": {"references": False}})
    session = local.session("chat", tenant=stocked.tenant, policy=policy)
    with pytest.raises(ToolError) as caught:
        session.resolve({"ids": "$HOME"}, IDS, tool="sh")
    assert str(caught.value).endswith('is string "$HOME".')
