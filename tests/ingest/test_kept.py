"""An output that passes whole is stored and bound from `keep_tokens` on: the model reads it as it came, and need not retype it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy
from material import prose, records
from sqlalchemy.orm import Session as HostSession
from sqlcheck import check_invariants, statements_of

from byref import AsyncEngine, Engine, Policy, Session, ToolError, ToolPolicy
from byref.artifacts import variables
from byref_sandbox import Sandbox

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


@pytest.mark.postgresql(
    "there one statement inserts the payload, its artifact, its name and the step, and looks at the quota"
)
def test_it_takes_few_statements(engine: Engine, session: Session) -> None:
    def sent(output: object, call: str, to: Session = session) -> int:
        with statements_of(engine) as statements:
            to.process(output, tool="get_orders", call_id=call)
        return len([one for one in statements if not one.startswith("BEGIN")])

    sent(ORDERS, "c1")
    is_one = engine.database.dialect == "postgresql"
    assert sent(ORDERS | {"region": "US"}, "c2") == (2 if is_one else 7)
    assert sent("small", "c3") == 2
    unkept = engine.session("unkept", tenant=session.tenant, policy=Policy(keep_tokens=None), model="claude-sonnet-5")
    assert sent(2 * TEXT, "c4", unkept) == 2, "above the floor, so that it needs headroom"


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


@pytest.mark.postgresql("there the quota is looked at by the statement that inserts")
def test_a_full_quota_lets_it_pass_unkept(engine: Engine, tenant: str) -> None:
    session = engine.session("full", tenant=tenant, policy=Policy(max_session_bytes=9_000), model="claude-sonnet-5")
    kept = [len(session.process(f"{n}: {TEXT}", tool="read", call_id=f"c{n}").variables) for n in range(4)]
    assert kept == [1, 1, 0, 0]
    assert "max_session_bytes leaves no room" in str(session.explain("c2"))
    assert [(one.name, one.payload.size) for one in session.artifacts()] == [(None, len(TEXT) + 3)] * 2
    assert session.context_tokens() == sum(entry.tokens for entry in session.ledger())
    again = session.process(f"0: {TEXT}", tool="read", call_id="other")  # equal bytes are free
    assert [one.name for one in again.variables] == ["read_3"]


@pytest.mark.postgresql("there a name is taken before it is known to be free")
def test_a_name_that_this_process_does_not_know_of_is_found_taken(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(number: int) -> str:
        result, again = (session.process(f"{number}: {TEXT}", tool="read", call_id=f"c{number}") for _ in range(2))
        [variable] = result.variables
        assert (again.step, again.variables) == (result.step, result.variables), "as the ledger has them"
        assert session.resolve({"a": f"${variable.name}"}) == {"a": f"{number}: {TEXT}"}
        return variable.name

    assert [name(number) for number in range(3)] == ["read", "read_2", "read_3"]
    monkeypatch.setattr(variables, "_given", OrderedDict())  # as in a process that has just begun
    assert [name(number) for number in range(3, 5)] == ["read_4", "read_5"]
    with engine.database.engine.begin() as connection:
        last = {"tenant": session.tenant}
        connection.execute(
            sqlalchemy.text("DELETE FROM byref_variables WHERE name = 'read_5' AND tenant = :tenant"), last
        )
    assert [name(number) for number in range(5, 7)] == ["read_5", "read_6"]


@pytest.mark.postgresql("there the step of a call that came meanwhile is not seen by the statement that waits for it")
@pytest.mark.parametrize("output", ["small", TEXT], ids=["small", "kept"])
def test_one_call_that_comes_many_times_at_once_is_one_step(
    engine: Engine, session: Session, tenant: str, output: str
) -> None:
    handles = [engine.session("kept", tenant=tenant) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for call in range(3):
            made = list(threads.map(lambda one: one.process(output, tool="read", call_id=f"c{call}"), handles))
            assert {(one.step, one.content) for one in made} == {(call + 1, output)}
            assert len({tuple(variable.name for variable in one.variables) for one in made}) == 1
    assert [entry.step for entry in session.ledger()] == [1, 2, 3]
    assert session.context_tokens() == sum(entry.tokens for entry in session.ledger())


def test_only_a_policy_that_keeps_says_so_in_the_interpreters_description(local: Engine, tenant: str) -> None:
    def described(policy: Policy) -> str:
        opened = local.session("s", tenant=tenant, policy=policy).tools("anthropic")
        assert opened == local.tools("anthropic", policy=policy)
        return str(opened[0]["description"])

    assert "Outputs from 700 tokens on that you read whole are variables too" in described(Policy(keep_tokens=700))
    assert "read whole" not in described(Policy.variables())


@pytest.mark.parametrize(
    ("output", "data"),
    [
        ("x " * 998, None),  # 499 tokens of four characters
        ("x " * 1_000, "x " * 1_000),
        ("x " * 1_002, "x " * 1_002),
        (b"\x00\xff" * 4_000, None),  # no text: nothing to compute with
        (b"hello world " * 300, "hello world " * 300),
        ("\ud800x " * 900, "\ud800x " * 900),
        ('"' + "x" * 3_000 + '"', '"' + "x" * 3_000 + '"'),
        ([{"left": timedelta(1)}] * 200, [{"left": "P1D"}] * 200),
        ([TEXT, TEXT], [TEXT, TEXT]),
    ],
    ids=["499", "500", "501", "bytes", "bytes of text", "surrogates", "a JSON string", "Python objects", "a list"],
)
def test_what_is_kept_is_what_was_read(exact: Engine, tenant: str, output: Any, data: object) -> None:
    session = exact.session("kept", tenant=tenant, model="claude-sonnet-5")
    result = session.process(output, tool="read", call_id="c")
    assert result.route == "inline"
    assert [one.name for one in result.variables] == (["read"] if data is not None else [])
    assert session.resolve({"given": "$read"}) == {"given": "$read" if data is None else data}
    again = session.process(output, tool="read", call_id="c")
    assert (again.step, again.content, again.variables) == (result.step, result.content, result.variables)


def test_equal_calls_have_a_name_each_and_equal_bytes_are_stored_once(session: Session, engine: Engine) -> None:
    first, second, other = (session.process(TEXT, tool="read", call_id=call) for call in ("a", "b", "c"))
    assert [one.variables[0].name for one in (first, second, other)] == ["read", "read_2", "read_3"]
    beside = engine.session("beside", tenant=session.tenant, model="claude-sonnet-5").process(TEXT, tool="read")
    assert [one.name for one in beside.variables] == ["read"]
    assert {one.artifacts[0].payload.blob_id for one in (first, second, other, beside)} == {
        first.artifacts[0].payload.blob_id
    }
    blocks = [{"type": "text", "text": text} for text in (TEXT, TEXT)]
    assert [one.name for one in session.process(blocks, tool="read").variables] == ["read_4", "read_5"]


@pytest.mark.postgresql("commits at the same time wait for the session's lock there")
def test_parallel_calls_of_a_session_have_a_name_each(engine: Engine, session: Session, tenant: str) -> None:
    handles = [engine.session("kept", tenant=tenant) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        made = list(
            threads.map(lambda at: handles[at % 4].process(f"{at}: {TEXT}", tool="read", call_id=f"c{at}"), range(8))
        )
    assert {one.variables[0].name for one in made} == {"read", *(f"read_{number}" for number in range(2, 9))}
    assert all(session.resolve({"a": f"${one.variables[0].name}"})["a"] == one.content for one in made)


@contextmanager
def hosts_engine(url: sqlalchemy.URL) -> Iterator[sqlalchemy.Engine]:
    """A host's own engine on byref's database."""
    made = sqlalchemy.create_engine(url)
    yield made
    made.dispose()


@pytest.mark.postgresql("a savepoint of the host's transaction is rolled back there")
def test_the_hosts_rollback_takes_it_back(engine: Engine, tenant: str) -> None:
    engine.session("kept", tenant=tenant, model="claude-sonnet-5")
    with hosts_engine(engine.database.engine.url) as own, HostSession(own) as host:
        within = engine.session("kept", tenant=tenant, db=host)
        assert within.process(TEXT, tool="read", call_id="c").variables[0].name == "read"
        host.rollback()
    session = engine.session("kept", tenant=tenant)
    assert session.variables() == [] and session.ledger() == []
    result = session.process(TEXT, tool="read", call_id="c")
    assert (result.step, [one.name for one in result.variables]) == (1, ["read"])
    with hosts_engine(engine.database.engine.url) as own, HostSession(own) as host:
        engine.session("kept", tenant=tenant, db=host).process(ORDERS, tool="get_orders")
        host.commit()
    assert session.resolve({"given": ["$read", "$get_orders"]}) == {"given": [TEXT, ORDERS]}


@contextmanager
def gone_at_the_payload(engine: Engine) -> Iterator[None]:
    """Break the first transaction where it writes a payload: PostgreSQL ends its connection, SQLite has no page left."""
    drivers: list[Any] = []

    def end(connection: Any, _cursor: object, statement: str, *_: object) -> None:
        if "INSERT INTO byref_blobs" not in statement or drivers:
            return
        drivers.append(driver := connection.connection.driver_connection)
        if engine.database.dialect == "sqlite":
            driver.execute("PRAGMA max_page_count = 1")  # SQLite takes it for the pages that there are
            driver.execute("CREATE TABLE filling AS SELECT randomblob(1000000)")
        else:
            with hosts_engine(engine.database.engine.url) as own, own.begin() as other:
                ended = sqlalchemy.text("SELECT pg_terminate_backend(:pid, 5000)")
                assert other.execute(ended, {"pid": driver.info.backend_pid}).scalar()

    sqlalchemy.event.listen(engine.database.engine, "before_cursor_execute", end)
    yield
    sqlalchemy.event.remove(engine.database.engine, "before_cursor_execute", end)
    [driver] = drivers
    if engine.database.dialect == "sqlite":
        driver.execute("PRAGMA max_page_count = 4294967294")


def test_a_database_that_fails_amid_it_leaves_nothing_half_written(shared_url: str, sandbox: Sandbox) -> None:
    with Engine(shared_url, interpreter=sandbox) as engine:
        session = engine.session("kept", model="claude-sonnet-5")
        with gone_at_the_payload(engine):
            result = session.process(TEXT, tool="read", call_id="c")
        if engine.database.dialect == "sqlite":
            assert (result.content, result.step, result.variables) == (TEXT, None, [])
            assert (session.ledger(), session.variables(), session.artifacts()) == ([], [], [])
            assert session.context_tokens() == 0
        result = session.process(TEXT, tool="read", call_id="c")  # on PostgreSQL the first was tried again, and stored
        assert (result.content, result.step, [one.name for one in result.variables]) == (TEXT, 1, ["read"])
        assert session.resolve({"given": "$read"}) == {"given": TEXT}
        assert (len(session.ledger()), len(session.artifacts())) == (2, 1)
    check_invariants(shared_url)


@pytest.mark.slow
def test_the_hundredth_call_of_a_tool_has_the_hundredth_name(local: Engine, tenant: str) -> None:
    session = local.session("many", tenant=tenant, model="claude-sonnet-5")
    made = [session.process(f"{number}: {TEXT}", tool="read").variables[0].name for number in range(1, 101)]
    assert made == ["read", *(f"read_{number}" for number in range(2, 101))]
    assert str(session.resolve({"given": "$read_100"})["given"]).startswith("100: ")


IN_A_PROCESS = """
import logging, os
from byref import Engine
url, tenant, text = sys.argv[1:]
logging.disable()  # nothing is run, behind whatever wall
with Engine(url, create=False, jail="language-only") as engine:
    session = engine.session("kept", tenant=tenant, model="claude-sonnet-5")
    go()
    for number in range(5):
        own = f"{os.getpid()} {number}: {text}"
        [variable] = session.process(own, tool="read").variables
        assert session.resolve({"given": f"${variable.name}"}) == {"given": own}
        print(variable.name)
"""


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("processes wait for the session's lock there")
def test_two_processes_give_each_output_a_name_of_its_own(
    engine: Engine, session: Session, race: Callable[..., list[str]]
) -> None:
    url = engine.database.engine.url.render_as_string(hide_password=False)
    printed = [name for names in race(2, IN_A_PROCESS, url, session.tenant, TEXT) for name in names.split()]
    assert sorted(printed, key=lambda name: (len(name), name)) == ["read", *(f"read_{n}" for n in range(2, 11))]
    assert [entry.step for entry in session.ledger()] == list(range(1, 21))


def test_an_asynchronous_session_keeps_too(sqlite_url: str) -> None:
    async def work() -> list[Any]:
        async with AsyncEngine(sqlite_url) as engine:
            session = await engine.session("kept", model="claude-sonnet-5")
            results = await asyncio.gather(*(session.process(f"{at}: {TEXT}", tool="read") for at in range(3)))
            return [
                (result.content, await session.resolve({"a": f"${result.variables[0].name}"})) for result in results
            ]

    assert asyncio.run(work()) == [(f"{at}: {TEXT}", {"a": f"{at}: {TEXT}"}) for at in range(3)]


@pytest.mark.parametrize("size", [2_500, 12_000], ids=["below the floor", "above it"])
def test_one_that_expired_is_kept_again_and_its_name_says_so(local: Engine, tenant: str, size: int) -> None:
    session = local.session("kept", tenant=tenant, policy=Policy(ttl=0.2), model="claude-sonnet-5")
    text = prose(size)
    first = session.process(text, tool="read", call_id="c")
    time.sleep(0.3)
    with pytest.raises(ToolError, match=r"'read' is gone: it expired.* Call read again"):
        session.resolve({"given": "$read"})
    again = session.process(text, tool="read", call_id="c")
    assert (again.content, [one.name for one in again.variables]) == (first.content, ["read"])
    assert session.resolve({"given": "$read"}) == {"given": text}


@pytest.mark.parametrize("gone", ["UPDATE byref_frames SET checksum = 1", "DELETE FROM byref_frames"])
def test_of_damaged_bytes_the_name_says_so_and_the_same_call_mends_them(
    local: Engine, tenant: str, gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = local.session("kept", tenant=tenant, model="claude-sonnet-5")
    result = session.process(TEXT, tool="read", call_id="c")
    with local.database.engine.begin() as connection:
        blob = {"blob": result.artifacts[0].payload.blob_id}
        connection.execute(sqlalchemy.text(f"{gone} WHERE blob_id = :blob"), blob)
    with pytest.raises(ToolError, match=r"the stored data is gone or damaged. Call read again to have it again"):
        session.resolve({"given": "$read"})
    assert session.process(TEXT, tool="read", call_id="c").step == result.step
    assert session.resolve({"given": "$read"}) == {"given": TEXT}


def test_replies_of_our_own_tools_are_not_kept(session: Session) -> None:
    assert session.process(TEXT, tool="code_interpreter").variables == []
    assert "z z z" in str(session.call("code_interpreter", {"code": "'z ' * 2_500"}).content)
    assert [one for one in session.variables() if one.origin == "output"] == []


def test_too_large_is_said_to_the_host(local: Engine, tenant: str, caplog: pytest.LogCaptureFixture) -> None:
    policy = Policy(max_artifact_bytes=3_000)
    session = local.session("large", tenant=tenant, policy=policy, model="claude-sonnet-5")
    assert session.process(TEXT, tool="read", call_id="c").content == TEXT
    assert "What passes is not stored: max_artifact_bytes leaves no room" in str(session.explain("c"))
    assert "max_artifact_bytes=3,000" in caplog.text
