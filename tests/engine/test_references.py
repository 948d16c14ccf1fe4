"""Stored data as another tool's argument: by name, pointer or path, in one pass, and only where it is meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from material import page, records

from byref import ConfigurationError, Engine, Policy, Session, ToolError


@pytest.fixture
def stocked(session: Session) -> Session:
    session.process(page(1_500), tool="list_users")
    session.run("small = {'a': ['$users', {'$var': 'users'}], 'n': 5}")
    return session


USERS = page(1_500)["users"]


def test_names_become_their_data(stocked: Session) -> None:
    for given, value in [
        ("$users", USERS),
        ("$list_users", page(1_500)),
        ("$var_step_1", page(1_500)),
        ("$users.0", USERS[0]),
        ("$list_users.users.1499.id", 1_500),
        ("$pagination.pages", 12),
        ({"$var": "users"}, USERS),
        ({"$var": "$users"}, USERS),
        ({"$var": "users", "path": "0.id"}, 1),
        ({"$var": "users", "path": [1, "id"]}, 2),
        ({"$var": "users", "jq": "map(.id)"}, [user["id"] for user in USERS]),
        ({"$var": "users", "jq": ".[0].id, .[1].id"}, [1, 2]),
        ({"$var": "users", "jq": "length"}, 1_500),
        ({"$var": "list_users", "path": "users", "jq": "length"}, 1_500),
        ({"$var": "list_users.pagination", "jq": ".page"}, 1),
    ]:
        assert stocked.resolve({"x": given}) == {"x": value}, given
        assert stocked.resolve({"x": [{"y": given}]}) == {"x": [{"y": value}]}


def test_ids_and_pointers_become_their_data(stocked: Session) -> None:
    artifact = stocked.variable("users").artifact
    assert stocked.resolve({"a": artifact.id, "b": artifact.pointer}) == {"a": page(1_500), "b": page(1_500)}
    assert stocked.resolve({"a": {"$var": artifact.id, "jq": ".total"}}) == {"a": 15_000}


@pytest.mark.parametrize(
    "value",
    ["$HOME", "$amount", "$amount.total", "users", "$$users", "$users ", " $users", "cost: $users", "$", "$.users", "$1",
     "art_nope", "art:nope", "art_", "art_\0", "$a\0", "$\ud800", "art_\ud800", "x" * 100_000, "$" + "x" * 100_000,
     {"$var": "users", "other": 1}, {"$match": {"a": "$b"}}, None, 5, 1.5, True, [], {}],
)  # fmt: skip
def test_what_is_no_reference_passes_unchanged(stocked: Session, value: Any) -> None:
    assert stocked.resolve({"x": value, "y": [value]}) == {"x": value, "y": [value]}


def test_one_pass_only(stocked: Session) -> None:
    assert stocked.resolve({"x": "$small"}) == {"x": {"a": ["$users", {"$var": "users"}], "n": 5}}
    assert stocked.resolve({"$users": "$small.n"}) == {"$users": 5}


@pytest.mark.parametrize("arguments", ['{"x": "$small.n"}', '"{\\"x\\": \\"$small.n\\"}"', {"x": "$small.n"}])
def test_json_text_is_taken(stocked: Session, arguments: Any) -> None:
    assert stocked.resolve(arguments) == {"x": 5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": {"$var": "nope"}}, "no artifact or variable 'nope' in this conversation; there are: list_users, users, pagination, small"),
        ({"x": {"$var": "users", "path": "9999"}}, "no '9999' at its top"),
        ({"x": {"$var": "pagination", "path": "nope"}}, "no 'nope' at its top; there are page, pages"),
        ({"x": "$users.0.nope"}, "$users.0.nope: no 'nope' at 0; there are id, field_0, field_1"),
        ({"x": {"$var": "users", "jq": "map("}}, "jq 'map('"),
        ({"x": {"$var": "users", "jq": ".[0] | error(\"boo\")"}}, "boo"),
        ({"x": {"$var": "users", "jq": 5}}, '"jq" must be a string, not int'),
        ({"x": {"$var": "users", "jq": "def f: f; f"}}, "jq"),
        ('{"x": ', "the arguments are no valid JSON"),
        ("[1]", "the arguments must be one JSON object, not list"),
        ({"x": {"$var": "\ud800\0"}}, "no artifact or variable"),
    ],
)  # fmt: skip
def test_mistakes_are_text_for_the_model(engine: Engine, stocked: Session, arguments: Any, message: str) -> None:
    quick = engine.session(stocked.id, tenant=stocked.tenant, policy=Policy(run_seconds=2, run_cpu_seconds=1))
    with pytest.raises(ToolError) as caught:
        quick.resolve(arguments)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 2_000


def test_depth_and_number_are_bounded(stocked: Session) -> None:
    deep: Any = "$users"
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ToolError, match="nested deeper"):
        stocked.resolve({"x": deep})
    with pytest.raises(ToolError, match="2,000 references"):
        stocked.resolve({"x": [f"$name_{i}" for i in range(2_000)]})


def test_the_schema_of_the_tool_is_checked_afterwards(stocked: Session) -> None:
    schema = {
        "type": "object",
        "properties": {"ids": {"type": "array", "items": {"type": "integer"}}},
        "required": ["ids"],
    }
    ids = {"$var": "users", "jq": "map(.id)"}
    assert len(stocked.resolve({"ids": ids}, schema)["ids"]) == 1_500
    with pytest.raises(ToolError, match=r'arguments\["ids"\]\[\d+\] do not fit the tool\'s schema'):
        stocked.resolve({"ids": "$users"}, schema)
    with pytest.raises(ToolError, match="'ids' is a required property"):
        stocked.resolve({}, schema)
    with pytest.raises(ConfigurationError, match="schema of the target tool is invalid"):
        stocked.resolve({}, {"type": "nonsense"})


def test_what_is_handed_over_is_a_copy(stocked: Session) -> None:
    stocked.resolve({"x": "$users"})["x"].clear()
    assert stocked.resolve({"x": "$users"})["x"] == USERS
    given = {"x": ["$small.n"]}
    stocked.resolve(given)
    assert given == {"x": ["$small.n"]}


def test_nothing_of_another_session_or_tenant(engine: Engine, stocked: Session) -> None:
    artifact = stocked.variable("users").artifact
    for other in (
        engine.session("other", tenant=stocked.tenant),
        engine.session(stocked.id, tenant=stocked.tenant + "x"),
    ):
        for value in ("$users", artifact.id, artifact.pointer):
            assert other.resolve({"x": value}) == {"x": value}
            with pytest.raises(ToolError, match="nothing is stored yet"):
                other.resolve({"x": {"$var": value}})


def test_a_reference_survives_the_round_trip_through_json(stocked: Session) -> None:
    envelope = stocked.process(records(2_000), tool="more").envelope
    assert envelope
    assert '"$more"' in envelope["instruction"]
    assert stocked.resolve(json.dumps({"rows": "$more"}))["rows"] == records(2_000)
