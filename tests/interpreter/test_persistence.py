"""Names that code bound in one call are there in the next, whatever happened in between, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest
from material import records
from sqlalchemy import text

from byref import Engine, Policy, Session
from byref.db.integrity import examine
from byref_sandbox import Sandbox

SETUP = """
import statistics as st
from collections import Counter
class Basket:
    def __init__(self, *prices): self.prices = prices
    def total(self): return sum(self.prices)
def middle(values): return st.median(values)
seen = {1, 2}
counts = Counter('aab')
frame = pd.DataFrame({'day': pd.to_datetime(['2024-01-31', '2024-02-29']), 'kind': pd.Categorical(['x', 'y'])})
nothing = float('nan')
"""
CHECK = "[middle([1, 5, 9]), Basket(1, 2).total(), seen == {1, 2}, counts.most_common(1)[0][0], frame.day.dt.month.tolist(), str(frame.kind.dtype), nothing != nothing]"
FOUND = [5, 3, True, "a", [1, 2], "category", True]


def ask(session: Session, code: str, **arguments: object) -> str:
    return session.call("code_interpreter", {"code": code, **arguments}).content


def names(engine: Engine, session: Session) -> set[str]:
    query = text(
        "SELECT n.name FROM byref_names n JOIN byref_sessions s ON s.id = n.session_id WHERE s.name = :s AND s.tenant = :t"
    )
    values = {"s": session.id, "t": session.tenant}
    return set(engine.database.read(lambda connection: connection.execute(query, values).scalars().all()))


def test_the_reply_says_what_is_kept(session: Session) -> None:
    assert ask(session, SETUP) == (
        "[kept for later calls: seen (set), counts (Counter), frame (DataFrame of 2 rows and 2 columns), nothing (float), "
        "Basket (class), middle (function)]"
    )
    assert ask(session, "def middle(values): return st.median(values)") == "[kept for later calls: middle (function)]"
    assert session.run(CHECK).value == FOUND


@pytest.mark.slow
def test_another_process_goes_on(tmp_path: Path, sandbox: Sandbox) -> None:
    """A new engine on the same database knows nothing of the first one's zygotes: a crash, an eviction, another machine."""
    url = f"sqlite:///{tmp_path}/state.db"
    with Engine(url, interpreter=sandbox) as first:
        first.session("chat").run(SETUP)
    sandbox._forget_sessions()
    with Engine(url, interpreter=sandbox) as second:
        session = second.session("chat")
        assert session.run(CHECK).value == FOUND
        session.run("seen = seen | {3}\ndef middle(values): return 'changed'")
    sandbox._forget_sessions()
    with Engine(url, interpreter=sandbox) as third:
        assert third.session("chat").run("[sorted(seen), middle([]), Basket(4).total()]").value == [
            [1, 2, 3],
            "changed",
            4,
        ]
    assert examine(url, deep=True).problems == ()


def test_names_change_what_they_are(session: Session, engine: Engine) -> None:
    session.run("x = {1}")
    session.run("def x(): return 'function'")
    assert session.run("x()").value == "function"
    assert [variable.name for variable in session.variables()] == []
    session.run("x = [1]")
    assert session.run("x").value == [1]
    session.run("import math as x")
    assert session.run("x.floor(1.5)").value == 1


def test_other_tools_see_json(session: Session) -> None:
    session.run(
        "tags = {'b', 'a'}\ntable = pd.DataFrame({'n': [1, 2], 'day': pd.to_datetime(['2024-01-31', '2024-02-29'])})"
    )
    assert sorted(session.variable("tags").value()) == ["a", "b"]  # type: ignore[call-overload]
    reply = session.call("artifact_jq", {"artifact_id": "table", "expression": ".[1].day"})
    assert reply.content == '"2024-02-29T00:00:00"'


def test_a_function_over_the_data_of_an_output(session: Session) -> None:
    session.process({"users": records(3_000)}, tool="list_users")
    ask(session, "def count(): return len(users) + len(df('users'))")
    assert ask(session, "count()") == "6000"


def test_data_is_not_hidden_by_a_definition(session: Session) -> None:
    session.process({"users": records(3_000)}, tool="list_users")
    assert ask(session, "def users(): return 1") == "[users: assigned for this run only; the stored data is unchanged]"
    assert ask(session, "len(users)") == "3000"


def test_names_bound_before_an_error_are_kept(session: Session) -> None:
    content = ask(session, "a = (1, 2)\ndef f(): return a\nopen('x')")
    assert content.startswith("NotAllowed at line 3: there is no file")
    assert content.endswith("[kept for later calls: a (tuple), f (function)]")
    assert session.run("f() == (1, 2)").value is True


@pytest.mark.slow
def test_a_big_table_is_kept_and_shown_in_part(session: Session) -> None:
    content = ask(session, "pd.DataFrame({'n': range(2_100_000)})")
    assert content.startswith("2,100,000 rows × 1 column; first 10 and last 10 rows shown\nn\n0\n1\n")
    assert "all of it is now the variable result: DataFrame of 2,100,000 rows and 1 column" in content
    assert ask(session, "int(result.n.sum())") == str(sum(range(2_100_000)))
    assert session.call("artifact_jq", {"artifact_id": "result", "expression": "length"}).content == "2100000"


@pytest.mark.parametrize("by", ["argument", "method"])
def test_reset_forgets_what_code_bound(session: Session, engine: Engine, by: str) -> None:
    session.process({"users": records(3_000)}, tool="list_users")
    session.run(SETUP)
    if by == "argument":
        assert ask(session, "len(users)", reset=True) == "3000"
    else:
        session.reset()
    assert names(engine, session) <= {".last"}  # the value that this call has shown
    assert {variable.name for variable in session.variables()} == {"list_users", "users"}
    for name in ("seen", "frame", "middle", "Basket", "st"):
        assert f"name '{name}' is not defined" in ask(session, name)


def test_the_end_takes_names_along(engine: Engine, session: Session) -> None:
    session.run(SETUP)
    assert {".state", "frame"} < names(engine, session)
    session.end()
    assert names(engine, session) == set()


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("foreign keys and what is deleted with what")
def test_what_is_deleted_takes_names_along(engine: Engine, session: Session) -> None:
    session.run(SETUP)
    engine.delete_session(session.id, tenant=session.tenant)
    assert names(engine, session) == set()
    other = engine.session("other", tenant=session.tenant)
    other.run(SETUP)
    engine.delete_tenant(session.tenant)
    assert names(engine, other) == set()


@pytest.mark.postgresql("sums and counts are the database's, with types of its own")
def test_names_count_for_the_quota(engine: Engine, tenant: str) -> None:
    session = engine.session("small", tenant=tenant, policy=Policy(max_session_bytes=20_000))
    content = ask(session, "big = pd.DataFrame({'n': range(3_000)})")
    assert "not kept: big (the session would have" in content
    assert "more than max_session_bytes=20,000 allows" in content
    assert names(engine, session) == {".state"}
    content = ask(session, "big")
    assert "NameError" in content and "'big' was not kept: the session would have" in content


def test_sessions_share_no_definitions(engine: Engine, session: Session) -> None:
    session.run(SETUP)
    for other in (
        engine.session("other", tenant=session.tenant),
        engine.session(session.id, tenant=session.tenant + "x"),
    ):
        assert "name 'middle' is not defined" in ask(other, "middle([1])")
