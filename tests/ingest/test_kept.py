"""An output that passes whole is stored and bound from `keep_tokens` on: the model reads it as it came, and need not retype it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from material import prose, records
from sqlcheck import statements_of

from byref import Engine, Policy, Session, ToolPolicy

ORDERS = {"orders": records(40), "region": "EU"}
TEXT = prose(4_000)


@pytest.fixture
def session(engine: Engine, tenant: str) -> Session:
    """A session of the default policy over each kind of database."""
    return engine.session("kept", tenant=tenant, model="claude-sonnet-5")


@pytest.mark.parametrize(
    ("output", "data"),
    [(ORDERS, ORDERS), (json.dumps(ORDERS, indent=1), ORDERS), (TEXT, TEXT)],
    ids=["values", "JSON text", "text"],
)
def test_it_passes_unaltered_and_is_a_variable(session: Session, output: Any, data: object) -> None:
    result = session.process(output, tool="get_orders", call_id="c1", arguments={"region": "EU"})
    assert (result.route, result.tokens) == ("inline", result.original_tokens)
    assert result.content == output or json.loads(str(result.content)) == output
    assert [(one.name, one.path, one.step) for one in result.variables] == [("get_orders", (), result.step)]
    assert session.resolve({"given": "$get_orders"}) == {"given": data}
    assert "It is stored, too, as get_orders." in str(session.explain("c1"))
    again = session.process(output, tool="get_orders", call_id="c1")
    assert (again.step, again.content, again.variables) == (result.step, result.content, result.variables)


@pytest.mark.postgresql("there one statement inserts the payload, its artifact and its name")
def test_it_takes_few_statements(engine: Engine, session: Session) -> None:
    session.process(ORDERS, tool="get_orders", call_id="c1")
    with statements_of(engine) as statements:
        session.process(ORDERS | {"region": "US"}, tool="get_orders", call_id="c2")
    sent = [one for one in statements if not one.startswith("BEGIN")]
    assert len(sent) <= (6 if engine.database.dialect == "postgresql" else 10), sent


def test_code_computes_with_it_and_the_reply_says_which_call_a_number_means(session: Session) -> None:
    for region in ("EU", "US"):
        session.process(ORDERS | {"region": region}, tool="get_orders", arguments={"region": region})
    first = session.call("code_interpreter", {"code": "get_orders['region']"})
    second = session.call("code_interpreter", {"code": "get_orders_2['region']"})
    assert first.content == "EU"
    assert second.content == 'US\n[get_orders_2 is what get_orders({"region":"US"}) gave]'
    lost = str(session.call("code_interpreter", {"code": "orders_of_us"}).content)
    assert 'get_orders_2 (object(2 keys), from get_orders({"region":"US"}))' in lost


def test_the_number_of_an_output_with_an_envelope_is_in_the_envelope_alone(session: Session) -> None:
    for number in range(2):
        session.process({"rows": records(2_000), "page": number}, tool="get_rows", arguments={"page": number})
    assert session.call("code_interpreter", {"code": "get_rows_2['page']"}).content == "1"


@pytest.mark.parametrize(
    ("output", "policy", "told"),
    [
        ("small", Policy(), {}),
        (TEXT, Policy(keep_tokens=None), {}),
        (TEXT, Policy(per_tool={"read": ToolPolicy(keep_tokens=None)}), {}),
        (TEXT, Policy(enabled=False), {}),
        (TEXT, Policy(), {"is_error": True}),
        (TEXT, Policy(max_artifact_bytes=3_000), {}),
        (TEXT, Policy.variables(), {}),
        (TEXT, Policy.references(), {}),
        (TEXT, Policy.pointers(), {}),
        (TEXT, Policy.previews(), {}),
    ],
    ids=[
        "small",
        "off",
        "off for the tool",
        "disabled",
        "an error",
        "too large",
        "variables",
        "references",
        "pointers",
        "previews",
    ],
)
def test_what_is_not_kept(local: Engine, tenant: str, output: str, policy: Policy, told: dict[str, Any]) -> None:
    session = local.session("unkept", tenant=tenant, policy=policy, model="claude-sonnet-5")
    result = session.process(output, tool="read", **told)
    assert (result.route, result.content, result.artifacts, result.variables) == ("inline", output, [], [])


def test_of_several_blocks_those_that_are_large_enough_are_kept(local: Engine, tenant: str) -> None:
    blocks = [{"type": "text", "text": text} for text in ("A caption.", TEXT, json.dumps(ORDERS))]
    result = local.session("blocks", tenant=tenant, model="claude-sonnet-5").process(blocks, tool="read")
    assert (result.route, result.content) == ("inline", blocks)
    assert [(one.name, one.shape) for one in result.variables] == [
        ("read", "text(50 lines)"),
        ("read_2", "object(2 keys)"),
    ]


def test_a_full_quota_lets_it_pass_unkept(local: Engine, tenant: str) -> None:
    session = local.session("full", tenant=tenant, policy=Policy(max_session_bytes=1_000), model="claude-sonnet-5")
    result = session.process(TEXT, tool="read", call_id="c")
    assert (result.route, result.content, result.variables) == ("inline", TEXT, [])
    assert "max_session_bytes leaves no room" in str(session.explain("c"))


def test_only_a_policy_that_keeps_says_so_in_the_interpreters_description(local: Engine, tenant: str) -> None:
    def described(policy: Policy) -> str:
        opened = local.session("s", tenant=tenant, policy=policy).tools("anthropic")
        assert opened == local.tools("anthropic", policy=policy)
        return str(opened[0]["description"])

    assert "Outputs from 700 tokens on that you read whole are variables too" in described(Policy(keep_tokens=700))
    assert "read whole" not in described(Policy.variables())
