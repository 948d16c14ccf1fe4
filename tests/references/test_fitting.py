"""Arguments against the schema of their tool: coerced where the meaning is plain, else an error that the model can act on."""

from __future__ import annotations

from typing import Any

import pytest
from material import page
from misfits import misfit, of

from byref import Engine, Policy, Session, ToolError

IDS = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}, "required": ["ids"]}


@pytest.fixture
def stocked(chat: Session) -> Session:
    chat.process(page(1_200), tool="list_users")
    return chat


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
        ({"k": 1}, of(k=False), 'the whole has no place for "k".'),
        ({"o": {"k": 1}}, of(o=of(k=False)), 'o has no place for "k".'),
        ({"kk": 1}, {"patternProperties": {"^k": False}}, 'the whole has no place for "kk".'),
        ({"kk": 1}, {**of(k={}), "unevaluatedProperties": False}, 'the whole has no place for "kk".'),
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
