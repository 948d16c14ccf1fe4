"""Stored data as another tool's argument: by name, pointer or path, in one pass, and only where it is meant."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from material import page, records

from byref import Engine, Policy, Session, ToolError
from byref.db.payloads import StoredPayload


@pytest.fixture
def stocked(session: Session) -> Session:
    session.process(page(1_500), tool="list_users")
    session.run("small = {'a': ['$users', {'$var': 'users'}], 'n': 5}")
    return session


USERS = page(1_500)["users"]


@pytest.fixture(scope="module")
def read(engine: Engine) -> Session:
    """The same for all tests that only read."""
    session = engine.session("read", tenant="references", context_window=200_000)
    session.process(page(1_500), tool="list_users")
    session.run("small = {'a': ['$users', {'$var': 'users'}], 'n': 5}")
    return session


def test_names_become_their_data(stocked: Session) -> None:
    for given, value in [
        ("$users", USERS),
        ("$list_users", page(1_500)),
        ("$var_step_1", page(1_500)),
        ("$users.0", USERS[0]),
        ("$list_users.users.1499.id", 1_500),
        ("$pagination.pages", 12),
        ("$users[0].id", 1),
        ("$users[3]", USERS[3]),
        ("$list_users.users[1499].id", 1_500),
        ("$list_users['pagination'][\"pages\"]", 12),
        ('$list_users["pagination"].pages', 12),
        ({"$var": "users[2].id"}, 3),
        ({"$var": "list_users", "path": "users[2].id"}, 3),
        ({"$var": "list_users", "path": ".users[2].id"}, 3),
        ({"$var": "list_users", "path": "$.users[2].id"}, 3),
        ({"$var": "list_users", "path": "users[2].id", "jq": None}, 3),
        ({"$var": "list_users", "path": None, "jq": ".users[2].id"}, 3),
        ({"$var": "users"}, USERS),
        ({"$var": "$users"}, USERS),
        ({"$var": "users", "path": "0.id"}, 1),
        ({"$var": "users", "path": [1, "id"]}, 2),
        ({"$var": "users", "jq": "map(.id)"}, [user["id"] for user in USERS]),
        ({"$var": "users", "jq": ".[0].id, .[1].id"}, [1, 2]),
        ({"$var": "users", "jq": "length"}, 1_500),
        ({"$var": "users", "jq": "length + 1"}, 1_501),
        ({"$var": "users", "path": "3", "jq": ".id + 1"}, 5),
        ({"$var": "list_users.users.3", "jq": "[.id + 1]"}, [5]),
        ({"$var": "users", "path": ""}, USERS),
        ({"$var": "list_users", "path": "users", "jq": "length"}, 1_500),
        ({"$var": "list_users.pagination", "jq": ".page"}, 1),
    ]:
        assert stocked.resolve({"x": given}) == {"x": value}, given
        assert stocked.resolve({"x": [{"y": given}]}) == {"x": [{"y": value}]}


@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_ids_and_pointers_become_their_data(stocked: Session) -> None:
    artifact = stocked.variable("users").artifact
    assert stocked.resolve({"a": artifact.id, "b": artifact.pointer}) == {"a": page(1_500), "b": page(1_500)}
    assert stocked.resolve({"a": {"$var": artifact.id, "jq": ".total"}}) == {"a": 15_000}
    assert stocked.resolve({"a": f"{artifact.id}.total", "b": f"{artifact.pointer}.users[0].id"}) == {
        "a": 15_000,
        "b": 1,
    }


@pytest.mark.parametrize(
    "value",
    ["$HOME", "$amount", "$amount.total", "users", "$$users", "$users ", " $users", "cost: $users", "$", "$.users", "$1",
     "art_nope", "art:nope", "art_", "art_\0", "$a\0", "$\ud800", "art_\ud800", "x" * 100_000, "$" + "x" * 100_000,
     "$users.nope", "$users.0.nope", "$users.9999", "$users[", "$users[]", "$users[-1]", "$users[0", "$users[0]id", "$users[9999]",
     "$users[0:2]", "$users['id", '$users["\\q"]', "$[0]", {"$var": "$amount", "in": "$total"}, {"$var": 5, "vars": {}}, {"$match": {"a": "$b"}}, None, 5, 1.5, True, [], {}],
)  # fmt: skip
def test_what_is_no_reference_passes_unchanged(read: Session, value: Any) -> None:
    assert read.resolve({"x": value, "y": [value]}) == {"x": value, "y": [value]}


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
        ({"x": {"$var": "users.0.nope"}}, "users.0.nope: no 'nope' at 0; there are id, field_0, field_1"),
        ({"x": {"$var": "users", "other": 1}}, 'a reference is {"$var": "name"}, with "path" or "jq" beside it'),
        ({"x": {"$var": "users", "path": 5}}, '"path" must be text like "rows.0.id" or an array of keys and positions, not 5'),
        ({"x": {"$var": "users", "path": [True]}}, '"path" must be text'),
        ({"x": {"$var": "users", "path": [-1]}}, "positions are counted from 0"),
        ({"x": {"$var": "users", "path": "1" * 5_000}}, "users: no '111"),
        ({"x": {"$var": "users." + "1" * 5_000}}, "users.1111"),
        ({"x": {"$var": "users", "path": "0.nope", "jq": ".x"}}, "users: no 'nope' at 0; there are id, field_0, field_1"),
        ({"x": {"$var": "users[0].nope"}}, "users[0].nope: no"),
        ({"x": {"$var": "users", "path": "[-1]"}}, "users: no '[-1]' at its top; there are 1,500 items"),
        ({"$var": "users"}, "the arguments must be one JSON object, not list"),
        ({"x": {"$var": 5}}, 'a reference is {"$var": "name"}, with "path" or "jq" beside it'),
        ({"x": {"$var": "users", "jq": "map("}}, "jq 'map('"),
        ({"x": {"$var": "users", "jq": ".[0] | error(\"boo\")"}}, "boo"),
        ({"x": {"$var": "users", "jq": 5}}, '"jq" must be a string, not int'),
        ({"x": {"$var": "users", "jq": "def f: f; f"}}, "jq"),
        ('{"x": ', "the arguments are no valid JSON"),
        ("[1]", "the arguments must be one JSON object, not list"),
        ({"x": {"$var": "\ud800\0"}}, "no artifact or variable"),
    ],
)  # fmt: skip
def test_mistakes_are_text_for_the_model(engine: Engine, read: Session, arguments: Any, message: str) -> None:
    quick = engine.session(read.id, tenant=read.tenant, policy=Policy(run_seconds=0.4, run_cpu_seconds=1))
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
    with pytest.raises(ToolError, match="more than 1,000 references in one call"):
        stocked.resolve({"x": ["$small.n"] * 1_001})
    assert stocked.resolve({"x": ["$small.n"] * 1_000}) == {"x": [5] * 1_000}
    unbound = [f"$name_{i}" for i in range(2_000)] + [f"art:abc{i}" for i in range(2_000)]
    assert stocked.resolve({"x": unbound}) == {"x": unbound}
    with pytest.raises(ToolError, match="no artifact or variable 'nope'"):
        stocked.resolve({"x": [{"$var": "nope"}] * 2_000})


@pytest.mark.slow
def test_what_one_call_hands_over_is_bounded(chat: Session) -> None:
    chat.process({"rows": ["x" * 1_000] * 3_000, "total": 3_000}, tool="big")
    start = time.monotonic()
    for given in ("$big", "$rows", {"$var": "big"}, chat.artifacts()[0].pointer, {"$var": "big", "jq": ".rows"}):
        with pytest.raises(ToolError, match="stand for more than 256 MB; hand over less"):
            chat.resolve({"x": [given] * 200})
    assert chat.resolve({"x": ["$big.total", "$rows.0"] * 500}) == {"x": [3_000, "x" * 1_000] * 500}
    chat.store_artifact({"total": 3_000}, name="few")
    with pytest.raises(ToolError, match="more than 20 jq programs in one call"):
        chat.resolve({"x": [{"$var": "few", "jq": f".total as $n | $n + {i}"} for i in range(21)]})
    assert chat.resolve({"x": [{"$var": "few", "jq": ".total as $n | $n + 1"}] * 100}) == {"x": [3_001] * 100}
    assert time.monotonic() - start < 20


@pytest.mark.postgresql("the statements that are issued are counted")
def test_every_artifact_is_read_once(stocked: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = StoredPayload.read

    def once(payload: StoredPayload) -> bytes:
        read.append(payload.size)
        return real(payload)

    monkeypatch.setattr(StoredPayload, "read", once)
    pointer = stocked.variable("users").artifact.pointer
    given = ["$users", "$list_users.total", pointer, {"$var": "pagination"}, {"$var": "users", "jq": "map(.id)"}]
    stocked.resolve({"x": given * 5})
    assert len(read) == 1


def test_what_is_handed_over_is_a_copy(stocked: Session) -> None:
    stocked.resolve({"x": "$users"})["x"].clear()
    assert stocked.resolve({"x": "$users"})["x"] == USERS
    given = {"x": ["$small.n"]}
    stocked.resolve(given)
    assert given == {"x": ["$small.n"]}


IDS = [1_700_000_000_000_000_001 + 2 * i for i in range(800)]


@pytest.fixture
def tweets(chat: Session) -> Session:
    chat.process({"tweets": [{"id": i, "id_str": str(i), "text": "x" * 30} for i in IDS]}, tool="timeline")
    return chat


@pytest.mark.parametrize(
    ("program", "value"),
    [("map(.id)", IDS), ("map(.id) | sort", sorted(IDS)), ("map(.id) | max", max(IDS)), ("map(.id)[:3]", IDS[:3]), ("[.[] | .id][2:5]", IDS[2:5]), (".[7].id", IDS[7]), (".[].id", IDS),
     (".[0].id, .[1].id", IDS[:2]), ("[.[].id] | flatten", IDS), ("[.[] | {id} | {id}] | map(.id)", IDS), ("map(.id + 1)[0]", IDS[0] + 1), ("map(.id_str) | join(\",\") | length", 800 * 20 - 1)],
)  # fmt: skip
def test_integers_that_are_no_floats_come_over_exactly(tweets: Session, program: str, value: Any) -> None:
    assert tweets.resolve({"x": {"$var": "tweets", "jq": program}}) == {"x": value}


@pytest.mark.parametrize("program", ["map(.id * 1.5)[0]", "map(.id % 100)", "[.[].id] | flatten | map(. / 7)"])
def test_integers_that_jq_rounds_are_not_handed_over(tweets: Session, program: str) -> None:
    with pytest.raises(
        ToolError, match=r"computes with integers beyond 2\*\*53, which jq rounds; plain picks are exact"
    ):
        tweets.resolve({"x": {"$var": "tweets", "jq": program}})


def test_names_with_dots(chat: Session) -> None:
    chat.store_artifact({"a": {"b": 1}}, name="report.json")
    chat.store_artifact({"json": 2}, name="report")
    for given, value in [
        ({"$var": "report.json"}, {"a": {"b": 1}}),
        ({"$var": "report.json", "path": "a.b"}, 1),
        ({"$var": "report.json", "jq": ".a.b"}, 1),
        ("$report.json", {"a": {"b": 1}}),
        ({"$var": "report"}, {"json": 2}),
    ]:
        assert chat.resolve({"x": given}) == {"x": value}, given


def test_a_listing_of_long_keys_is_short(chat: Session) -> None:
    chat.process({"m": {f"k{i}" + "z" * 20_000: i for i in range(50)}}, tool="mapped")
    with pytest.raises(ToolError, match=r"no 'nope' at its top; there are k0zzz.* and 30 more") as caught:
        chat.resolve({"x": {"$var": "m", "path": "nope"}})
    assert len(str(caught.value)) < 1_500


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


def test_a_fault_of_jq_is_that_of_the_models_own_program(stocked: Session) -> None:
    for program, fault in (
        ("map(.id", "syntax error, unexpected end of file, expecting ';' or ')'"),
        ("length +", "syntax error, unexpected end of file"),
        ("{a:", "syntax error, unexpected end of file"),
        ("nosuch", "nosuch/0 is not defined"),
    ):
        with pytest.raises(ToolError) as caught:
            stocked.resolve({"x": {"$var": "users", "jq": program}})
        assert str(caught.value) == f"jq {program!r}: {fault}"
        reply = stocked.call("artifact_jq", {"artifact_id": "users", "expression": program})
        assert reply.text.splitlines()[0] == f"JqError: {fault}"


@pytest.mark.parametrize(
    "program",
    ["def f: length; f", "length as $n | $n", "length # all", "1, 2", "label $out | 1, break $out", "-1", "length\n",
     "try error(1) catch .", "if length > 1 then 1 else 2 end", "reduce .[] as $r (0; . + $r.id)", ".[0].id = 5 | .[0].id"],
)  # fmt: skip
def test_a_program_means_the_same_on_a_part(chat: Session, program: str) -> None:
    rows = page(50)["users"]
    chat.store_artifact({"deep": {"rows": rows}}, name="held")
    chat.store_artifact(rows, name="rows")
    on_part = chat.resolve({"x": {"$var": "held", "path": "deep.rows", "jq": program}})
    assert on_part == chat.resolve({"x": {"$var": "rows", "jq": program}})


def refusal(session: Session, named: str) -> str:
    with pytest.raises(ToolError) as caught:
        session.resolve({"x": {"$var": named}})
    return str(caught.value)


def test_what_there_is_are_variables_and_artifacts(stocked: Session, chat: Session) -> None:
    assert refusal(chat, "nope").endswith("in this conversation; nothing is stored yet")
    note = chat.store_artifact("some text")
    chat.store_artifact("some text", name="report")
    chat.store_artifact("some other text", name="report")
    assert refusal(chat, "nope").endswith(f"; there are: {note.id}, report and 1 more")
    stocked.store_artifact("some text", name="report")
    known = "; there are: list_users, users, pagination, small; artifacts: report"
    assert refusal(stocked, "nope").endswith(f"'nope' in this conversation{known}")
    for named, near in (("usrs", "users"), ("$usrs.0.id", "users"), ("usrs[0]", "users"), ("reprot", "report")):
        assert refusal(stocked, named).endswith(f"{known}. Did you mean {near!r}?")


@pytest.mark.slow
def test_what_there_is_is_bounded_and_read_lightly(local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = local.session("many", tenant=tenant)
    for n in range(20):
        session.run("\n".join(f"n_{n}_{i} = {i}" for i in range(60)))
    for n in range(40):
        session.store_artifact("x", name=f"{n} " + "long " * 40)
    monkeypatch.setattr("byref.artifacts.store._artifact", lambda row, read: pytest.fail("an artifact was read whole"))
    told = refusal(session, "x" * 5_000)
    assert (
        len(told) < 2_000 and re.search(r" and over [0-9,]+ more; artifacts: ", told) and told.endswith(" and 20 more")
    )
