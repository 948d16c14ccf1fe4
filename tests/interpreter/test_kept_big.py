"""Tables of code that are too big to be stored as JSON too: tools and hosts get of them what they get of smaller ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from byref import AsyncEngine, Engine, Policy, Session, ToolError
from byref_sandbox import Sandbox

ROWS = 50_001
MADE = {
    "table": "pd.DataFrame({'n': range(n), 'f': [1.5, None, float('inf')] * (n // 3), 't': '2024-01-01T00:00:00Z', 's': 'ä\"'})",
    "dated": "pd.DataFrame({'a': 1, 'b': True}, index=pd.date_range('2024-01-01', periods=2 * n, tz='UTC', freq='s'))",
    "series": "pd.Series(range(5 * n), index=[f'r{i}' for i in range(5 * n)])",
    "matrix": "np.arange(4 * n).reshape(-1, 2)",
    "objects": "pd.DataFrame({'a': [2**70, {'b': (1, 2)}, None] * n, 'c': 1})",
}


def made(session: Session, name: str) -> Any:
    """Make a big table and a small one of its kind; return what the small one is for hosts."""
    for kind, rows in {"small": 3, "big": ROWS}.items():
        assert f"{kind} (" in session.call("code_interpreter", {"code": f"n = {rows}\n{kind} = {MADE[name]}"}).text
    return session.variable("small").value()


QUICK = ("table", "series", "matrix")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MADE])
def test_a_reference_brings_what_a_smaller_one_brings(session: Session, name: str) -> None:
    small = made(session, name)
    schema = {"type": "object", "properties": {"x": {"type": "object" if name == "series" else "array"}}}
    [value] = session.resolve({"x": "$big"}, schema).values()
    assert len(value) in (ROWS, 2 * ROWS, 3 * ROWS, 5 * ROWS)
    begin = dict(list(value.items())[: len(small)]) if isinstance(value, dict) else value[: len(small)]
    assert begin == small
    assert session.variable("big").value() == value
    artifact = session.variable("big").artifact.id
    assert session.get_artifact(artifact).value == value  # type: ignore[union-attr]
    assert session.resolve({"x": artifact}) == {"x": value}
    program = {"$var": "big", "jq": "[length, type]"}
    assert session.resolve({"x": program}) == {"x": [len(value), "object" if name == "series" else "array"]}


@pytest.mark.slow
def test_paths_programs_and_readers(session: Session) -> None:
    small = made(session, "table")
    given = {"a": "$big[2].n", "b": {"$var": "big", "path": "1.s"}, "c": {"$var": "big", "jq": "map(.n) | add"}}
    assert session.resolve(given) == {"a": 2, "b": 'ä"', "c": ROWS * (ROWS - 1) // 2}
    assert session.resolve({"x": "$big.nothing"}) == {"x": "$big.nothing"}
    with pytest.raises(ToolError, match=r"no 'nothing' at its top; there are 50,001 items"):
        session.resolve({"x": {"$var": "big", "path": "nothing"}})

    def ask(tool: str, **arguments: object) -> str:
        return session.call(tool, {"artifact_id": "big", **arguments}).text

    assert ask("artifact_jq", expression=".[2].n, length") == f"2\n{ROWS}"
    assert json.loads(ask("artifact_jq", expression=".[:3]")) == small
    assert ask("artifact_jq", expression="map(.n) | max") == str(ROWS - 1)
    assert '    4| {"n":2,' in ask("artifact_read", start_line=4, end_line=4)
    assert '{"n":50000,' in ask("artifact_grep", pattern='"n":50000', context_lines=0)


def test_what_a_query_left_is_handed_on(engine: Engine, tenant: str) -> None:
    session = engine.session("chat", tenant=tenant, tools=["artifact_sql"])
    query = f"SELECT i, i % 7 AS m, 'x' AS t, 1 AS one FROM range({ROWS}) r(i)"
    session.call("artifact_sql", {"query": query, "save_as": "q"})
    value = session.resolve({"x": "$q"})["x"]
    assert (len(value), value[8]) == (ROWS, {"i": 8, "m": 1, "t": "x", "one": 1})
    by_id = session.variable("q").artifact.id
    assert session.call("artifact_sql", {"query": f"SELECT sum(i) AS s FROM {by_id}"}).text.endswith("\n1250025000")


def test_a_file_of_it_is_json(session: Session, tmp_path: Path) -> None:
    small = made(session, "table")
    session.export(session.variable("big").artifact, tmp_path / "big.json")
    assert json.loads((tmp_path / "big.json").read_bytes())[:3] == small


@pytest.mark.slow
def test_what_is_too_big_says_what_to_do(session: Session, engine: Engine) -> None:
    made(session, "table")
    again = engine.session(session.id, tenant=session.tenant, policy=Policy(run_result_bytes=1 << 20))
    words = r"DataFrame of 50,001 rows and 4 columns \(art_\w+\) cannot be handed on: as JSON it has more than 1 MB; keep fewer"
    for given in ({"x": "$big"}, {"x": {"$var": "big", "jq": "length"}}, {"x": {"$var": "big", "path": "0"}}):
        with pytest.raises(ToolError, match=words):
            again.resolve(given)
    with pytest.raises(ToolError, match=words):
        again.variable("big").value()
    asked: dict[str, dict[str, str]] = {"read": {}, "grep": {"pattern": "x"}, "jq": {"expression": "."}}
    for tool, arguments in asked.items():
        assert "cannot be handed on" in again.call(f"artifact_{tool}", {"artifact_id": "big", **arguments}).text


def test_without_a_sandbox_it_is_not_read(session: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    made(session, "matrix")
    monkeypatch.setattr(engine, "_sandbox", None)
    again = engine.session(session.id, tenant=session.tenant)
    assert again.resolve({"x": "$small[0]"}) == {"x": [0, 1]}
    with pytest.raises(ToolError, match="only a sandbox reads"):
        again.resolve({"x": "$big"})


def test_asynchronous_hosts_have_it_too(database_url: str, sandbox: Sandbox) -> None:
    async def talk() -> Any:
        async with AsyncEngine(database_url, interpreter=sandbox) as engine:
            session = await engine.session("chat")
            await session.call("code_interpreter", {"code": f"big = np.arange({4 * ROWS})"})
            resolved = await session.resolve({"x": "$big"})
            return resolved["x"], await session.value(await session.variable("big"))

    assert asyncio.run(talk()) == (list(range(4 * ROWS)),) * 2


@pytest.mark.slow
def test_a_table_whose_state_does_not_fit_is_the_table_it_was(local: Engine, tenant: str) -> None:
    """Its columns take more than a run may send; with its types, compressed, it takes less."""
    session = local.session("chat", tenant=tenant, policy=Policy(run_result_bytes=3 << 20))

    def ask(code: str) -> str:
        return session.call("code_interpreter", {"code": code}).text

    columns = (
        "'a': np.zeros(n), 'b': 1.5, 'o': 'text', 'd': [datetime.date(2024, 1, 1)] * n, 'c': pd.Categorical(['x'] * n)"
    )
    made = ask(
        f"import datetime\nn = 150_000\nh = pd.DataFrame({{{columns}}})\nh.attrs = {{'unit': 'EUR', 'at': (1, 2)}}"
    )
    assert made == "[kept for later calls: n (integer), h (DataFrame of 150,000 rows and 5 columns)]"
    for _ in range(2):
        assert ask("[h.attrs == {'unit': 'EUR', 'at': (1, 2)}, str(h.d.iloc[0]), str(h.c.dtype)]") == (
            '[true,"2024-01-01","category"]'
        )
    assert "[kept for later calls: h " in ask("h.attrs['unit'] = 'USD'")
    assert "[kept for later calls: h " in ask("h.loc[5, 'd'] = None")
    assert ask("h.attrs['unit'], int(h.d.isna().sum())") == '["USD",1]'
    assert "columns, no longer DataFrame with its attrs)]" in ask("h.attrs['f'] = lambda: 1")
    assert ask("h.attrs") == "{}"


def test_a_change_in_a_cell_of_such_a_table_is_kept(local: Engine, tenant: str) -> None:
    session = local.session("chat", tenant=tenant, policy=Policy(run_result_bytes=3 << 20))
    session.run("h = pd.DataFrame({'a': np.zeros(400_000), 'l': [[1] for _ in range(400_000)]})")
    assert not session.run("len(h)").bound
    session.run("cells = h.l.tolist()\ncells[7].append(2)\ndel cells")
    assert session.run("h.l[7]").value == [1, 2]
