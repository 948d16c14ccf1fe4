"""What tools return is learned for each tenant, and a conversation sees what was known when it was created."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from json_values import EVERYDAY
from sqlalchemy import func, select, update

from byref import ConfigurationError, Engine, Function, Policy, Session, ToolPolicy, db
from byref.artifacts import learning
from byref.db.tables import SchemaRow
from byref.describe.learned import merged, of_value

written = pytest.mark.postgresql("the rows of what was learned")
START = learning.Learning._start
"""As it is outside of tests: see `learns_when_asked`."""
ORDERS = [{"id": 1, "who": "Ann", "paid": True}, {"id": 2, "who": None}]


def described(session: Session) -> str:
    [text] = [t["function"]["description"] for t in session.tools() if t["function"]["name"] == "code_interpreter"]
    return str(text)


@written
def test_what_a_tool_returns_is_learned_from_outputs_and_from_calls(engine: Engine, tenant: str) -> None:
    given: list[Any] = [ORDERS]

    def get_orders(region: str):  # type: ignore[no-untyped-def]
        """Orders."""
        return given[0]

    def opened(name: str) -> Session:
        return engine.session(name, tenant=tenant, functions=[get_orders])

    first = opened("one")
    assert engine.tool_schema("get_orders", tenant=tenant) is None
    first.process(ORDERS, tool="get_orders")
    first.process([{"id": 1.5, "who": "Bo", "paid": False}] * 2_000, tool="get_orders")
    first.process("it failed", tool="get_orders", is_error=True)
    schema = engine.tool_schema("get_orders", tenant=tenant)
    assert schema == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "number"},
                "who": {"type": ["null", "string"]},
                "paid": {"type": "boolean"},
            },
            "required": ["id", "who"],
        },
    }
    second = opened("two")
    stub = "get_orders(region: str) -> list[{'id': float, 'who': None | str, 'paid': bool}]"
    assert stub in described(second)
    assert (
        "get_orders(region: str)  # Orders." in described(first) == described(opened("one"))
    )  # as when it was created
    given[0] = [{"id": "A7", "who": "Ann"}]
    reply = second.call("code_interpreter", {"code": "len(get_orders('EU'))"})
    assert reply.text == '1\nget_orders() returned something else than before: [0].id expects number and is string "A7"'
    found = engine.tool_schema("get_orders", tenant=tenant)
    assert found is not None and found["items"]["properties"]["id"] == {"type": ["number", "string"]}
    assert stub in described(second) and stub in described(opened("two"))
    assert "'id': float | str" in described(opened("three"))
    assert engine.tool_schema("get_orders", tenant=f"{tenant}-") is None
    engine.delete_tenant(tenant)
    assert engine.tool_schema("get_orders", tenant=tenant) is None


FORGED = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
"""A frame of zstandard that says it holds a tebibyte."""


@written
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"!" + data[1:], lambda data: FORGED])
def test_a_damaged_schema_counts_as_not_learned(
    engine: Engine, tenant: str, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    def get_orders():  # type: ignore[no-untyped-def]
        """Orders."""
        return ORDERS

    engine.session("one", tenant=tenant).process(ORDERS, tool="get_orders")
    assert engine.tool_schema("get_orders", tenant=tenant) is not None
    with engine.database.engine.begin() as connection:
        mine = SchemaRow.tenant == tenant
        data = connection.execute(select(SchemaRow.data).where(mine)).scalar_one()
        connection.execute(update(SchemaRow).where(mine).values(data=damage(data)))
    assert any(problem.check == "damaged schema" for problem in db.verify(engine.database.engine, deep=True))
    session = engine.session("two", tenant=tenant, functions=[get_orders])
    assert "get_orders() " in described(session) and "the tool 'get_orders' returns" in caplog.text
    engine._learning._known.clear()  # as in another process
    session.process(ORDERS, tool="get_orders")
    assert engine.tool_schema("get_orders", tenant=tenant) is not None


def test_an_engine_closes_its_database_whatever_its_other_parts_raise(sqlite_url: str) -> None:
    engine = Engine(sqlite_url)

    def fail() -> None:
        raise ZeroDivisionError

    engine._learning.close = engine._uses.close = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        engine.close()
    with pytest.raises(ConfigurationError):
        engine.session("one")


@written
def test_outputs_without_news_are_not_written(engine: Engine, tenant: str) -> None:
    session = engine.session("chat", tenant=tenant)
    for each in range(30):
        session.process([{"id": each}], tool="get")
        if each % 10 == 0:
            engine.tool_schema("get", tenant=tenant)
    session.process("Dear all", tool="mail")
    assert engine.tool_schema("mail", tenant=tenant) == {"type": "string"}
    count = select(func.count()).where(SchemaRow.tenant == tenant)
    assert engine.database.read(lambda c: c.execute(count).scalar()) == 2


def test_a_thread_learns_in_the_background(local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning.Learning, "_start", START)
    monkeypatch.setattr(learning, "PAUSE_SECONDS", 0.01)
    local.session("chat", tenant=tenant)
    notes = learning.Learning(local.database.write, in_background=True)
    count = select(func.count()).where(SchemaRow.tenant == tenant)
    notes.note(tenant, "get", learning.Sample(b"7"))
    until = time.monotonic() + 30
    while not local.database.read(lambda c: c.execute(count).scalar()):
        assert time.monotonic() < until
        time.sleep(0.01)
    notes.close()


def test_a_schema_that_a_host_gives_is_where_learning_begins(local: Engine, tenant: str) -> None:
    seed = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    policy = Policy(per_tool={"sums": ToolPolicy(schema=seed)})
    assert hash(policy) == hash(Policy(per_tool={"sums": ToolPolicy(**policy.tool("sums").settings)}))
    sums = Function("sums", lambda: {"total": "many"})
    session = local.session("chat", tenant=tenant, policy=policy, functions=[sums])
    assert "sums() -> {'total': int}" in described(session)
    reply = session.call("code_interpreter", {"code": "sums()['total']"})
    assert "sums() returned something else than before: total expects integer" in reply.text
    stated = Function("sums", lambda: 1, returns={"type": "array"})
    assert "sums() -> list" in described(local.session("other", tenant=tenant, policy=policy, functions=[stated]))
    for wrong in ("object", {"x": {1, 2}}):
        with pytest.raises(ConfigurationError, match="schema="):
            ToolPolicy(schema=wrong)  # type: ignore[arg-type]


def test_a_policy_turns_learning_off(engine: Engine, tenant: str) -> None:
    def get_order(n: int):  # type: ignore[no-untyped-def]
        return {"id": n}

    def opened(name: str, policy: Policy | None = None) -> Session:
        return engine.session(name, tenant=tenant, policy=policy, functions=[get_order])

    off = Policy(per_tool={"get_order": {"learn": False, "schema": {"type": "object"}}})
    for session in (opened("one", Policy(learn=False)), opened("two", off)):
        session.process([{"id": 1}], tool="get_order")
        session.run("get_order(1)")
    assert engine.tool_schema("get_order", tenant=tenant) is None
    opened("three").process([{"id": 1}], tool="get_order")
    assert engine.tool_schema("get_order", tenant=tenant) is not None
    shown = [opened(name, policy).tools("mcp")[0]["description"] for name, policy in (("4", None), ("5", off))]
    assert ["'id': int" in text for text in shown] == [True, False]


def test_ids_and_addresses_are_not_learned() -> None:
    outputs: list[Any] = [
        {"users": {f"user-{each:05}": {"age": each, "bob@example.org": 1}}, "ann@example.org": each}
        for each in range(40)
    ]
    schema: dict[str, Any] = {}
    for output in outputs:
        schema = merged([schema, of_value(output)] if schema else [of_value(output)])
    assert not any(word in json.dumps(schema) for word in ("@", "user-0"))
    inner = schema["properties"]["users"]["additionalProperties"]
    assert inner["properties"] == {"age": {"type": "integer"}}


@pytest.mark.parametrize(
    "outputs",
    [
        [[], [{}], [{"a": [1]}], [{"a": [None, "x"]}], {"b": 1}, "t", None, 1.5],
        [{"a": {"type": "x", "items": 1, "properties": {"y": 2}, "anyOf": 5, "description": "d"}}] * 2,
        [{"": 1, "properties": {"": []}, "required": "no"}, {"required": 1}],
        [{chr(97 + each % 26) * (each + 1): each} for each in range(60)],
        [[[[[[{"deep": [each]}]]]]] for each in range(3)],
        [{f"key {each}": "x" * 40 for each in range(3_000)}, {"other": [{f"k{each}": {} for each in range(999)}]}],
    ],
)
def test_all_outputs_fit_what_was_learned_of_them(outputs: list[Any]) -> None:
    from byref.references.fitting import misfit

    schema = of_value(outputs[0])
    for output in outputs:
        schema = merged([schema, of_value(output)])
        assert merged([schema, of_value(output)]) == schema
    assert [misfit(output, schema) for output in outputs] == [None] * len(outputs)
    assert len(json.dumps(schema, separators=(",", ":"))) <= 16_000


@pytest.mark.parametrize("way", ["deleted", "rolled back"])
def test_of_a_tenant_without_conversations_nothing_is_learned(local: Engine, tenant: str, way: str) -> None:
    """Another process may have deleted it meanwhile, and a host may have rolled its first conversation back."""
    notes = learning.Learning(local.database.write, in_background=False)
    if way == "deleted":
        local.session("chat", tenant=tenant)
        local.delete_tenant(tenant)
    notes.note(tenant, "records", learning.Sample(b'{"secret_field": 1}'))
    notes.close()
    assert local.tool_schema("records", tenant=tenant) is None
    assert not local.database.read(lambda c: c.execute(select(SchemaRow.id).where(SchemaRow.tenant == tenant)).all())


def test_what_cannot_be_learned_from_is_left_out(local: Engine, tenant: str) -> None:
    local.session("chat", tenant=tenant)
    notes = learning.Learning(local.database.write, in_background=False)
    for tool, sample in (
        ("a", learning.Sample(b"{")),
        ("b", learning.Sample(b"x", is_schema=True, is_packed=True)),
        ("c" * 201, learning.Sample(b"1")),
        ("d\n", learning.Sample(b"1")),
        ("e", learning.Sample(b"[" * 60_000 + b"]" * 5)),
        ("f", learning.Sample(b" " * 70_000)),
        ("g", learning.Sample(b"7")),
    ):
        notes.note(tenant, tool, sample)
    notes.close()
    query = select(SchemaRow.tool).where(SchemaRow.tenant == tenant)
    assert local.database.read(lambda c: c.execute(query).scalars().all()) == ["g"]
    assert learning.of_value({1, 2}) is not None and learning.of_value(object()) is None


def test_many_writers_in_a_schema_of_their_own(empty_postgres_url: str, tenant: str) -> None:
    """What is committed in turn is seen in turn, also where the tables are not in the connection's first schema."""
    db.upgrade(empty_postgres_url, schema="learned")
    with Engine(empty_postgres_url, schema="learned", interpreter=None) as engine:
        engine.session("chat", tenant=tenant)
        tools = [f"tool {each}" for each in range(4)]
        notes = [learning.Learning(engine.database.write, in_background=False) for _ in tools]

        def teach(each: int) -> None:
            for number in range(5):
                notes[each].note(
                    tenant, tools[each], learning.of_value({f"k{number}": number}) or learning.Sample(b"1")
                )
                notes[each].write()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(teach, range(4)))
        for tool in tools:
            schema = engine.tool_schema(tool, tenant=tenant)
            assert schema is not None and len(schema["properties"]) == 5


@pytest.mark.parametrize("name", EVERYDAY)
def test_one_schema_alone_is_what_it_is_beside_itself(name: str) -> None:
    """One alone is not merged; two are, by genson."""
    schema = of_value(json.loads(json.dumps(EVERYDAY[name])))
    alone = merged([schema])
    assert json.dumps(alone) == json.dumps(merged([schema, schema])) == json.dumps(merged([alone, schema]))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("depth", [9, 11, 15])
def test_outputs_of_very_many_places_hold_nobody_up(local: Engine, tenant: str, depth: int) -> None:
    """Of what no schema of a tool could show, nothing is learned; of the rest, before the transaction."""
    text = '"x"'
    for _ in range(depth):
        text = f'{{"a":{text},"b":{text}}}'
    for number in range(4):
        local.session(f"{number}", tenant=tenant).process(text, tool="get_tree")
    began, spent = time.process_time(), []
    write = local._learning._write

    def timed(work: Any) -> Any:
        entered = time.process_time()
        try:
            return write(work)
        finally:
            spent.append(time.process_time() - entered)

    local._learning._write = timed
    try:
        local._learning.write(tenant)
    finally:
        local._learning._write = write
    assert sum(spent) < 0.5 and time.process_time() - began < 5
