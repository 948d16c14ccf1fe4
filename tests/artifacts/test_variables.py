"""Names of data: Python identifiers, unique in their session, never rebound, with exactly the data they name."""

from __future__ import annotations

import builtins
import json
import keyword
import secrets
import sys
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from material import page, prose, records
from sqlalchemy import Connection, select

from byref import ConfigurationError, Engine, Policy, Session
from byref.artifacts.variables import (
    MAX_PARTS,
    NAME_CHARS,
    SANDBOX_NAMES,
    Part,
    Path,
    bind,
    free,
    from_text,
    identifier,
    parts,
    parts_with_tables,
    to_text,
)
from byref.db.tables import ArtifactRow
from byref.describe.schema import infer
from byref.describe.shape import shape
from byref.describe.tables import tables
from byref_sandbox import Every, Sandbox

NAMES = {
    "users": "users",
    "list_users": "list_users",
    "get-user.list": "get_user_list",
    "a  b": "a_b",
    "": "value",
    "\0": "value",
    "___": "value",
    "🦊": "value",
    "123": "v_123",
    "1st": "v_1st",
    "__class__": "class_",
    "_private": "private",
    "class": "class_",
    "None": "None_",
    "match": "match_",
    "list": "list_",
    "print": "print_",
    "pd": "pd_",
    "time": "time_",
    "Counter": "Counter_",
    "var_step_3": "var_step_3_",
    "$var_step_3": "var_step_3_",
    "var_step": "var_step_",
    "var_step_0": "var_step_0",
    "naïve": "naïve",
    "ﬁle": "file",
    "ｕｓｅｒｓ": "users",
    "데이터": "데이터",
    "a\u0301": "á",
    "\ud800x": "x",
    "x" * 10_240: "x" * NAME_CHARS,
    "a'; import os #": "a_import_os",
}


@pytest.mark.parametrize("text", NAMES, ids=[ascii(text)[:20] for text in NAMES])
def test_the_nearest_identifier(text: str) -> None:
    assert identifier(text) == NAMES[text]


@given(
    st.one_of(st.text(st.characters(codec=None)), st.sampled_from([*keyword.kwlist, *dir(builtins), *SANDBOX_NAMES]))
)
def test_any_text_becomes_a_free_identifier(text: str) -> None:
    name = identifier(text)
    assert name.isidentifier()
    assert not keyword.iskeyword(name) and not keyword.issoftkeyword(name)
    assert name not in dir(builtins) and name not in SANDBOX_NAMES
    assert len(name) <= NAME_CHARS + 2
    assert identifier(name) == name
    assert not name.startswith("_")


@pytest.mark.slow
def test_names_that_the_sandbox_binds_are_all_kept_free(sandbox: Sandbox) -> None:
    usual = {name for name in sys.stdlib_module_names if not name.startswith("_")} | {
        "np",
        "numpy",
        "pd",
        "pandas",
        "Counter",
    }
    tries = "".join(
        f"try:\n    {name}\n    bound.append({name!r})\nexcept NameError:\n    pass\n" for name in sorted(usual)
    )
    outcome = sandbox.run(f"bound = []\n{tries}bound")
    assert outcome.error is None
    assert set(outcome.value) <= SANDBOX_NAMES
    for name in SANDBOX_NAMES:
        assert sandbox.run(f"{name}\nNone").error is None, name


@pytest.mark.parametrize(
    ("bound", "wanted", "also", "names"),
    [
        ([], ["a", "a", "b"], [], ["a", "a_2", "b"]),
        (["a", "a_2", "b"], ["a", "a_2", "b"], [], ["a_3", "a_2_2", "b_2"]),
        (["a"], ["a", "a_2", "a"], [], ["a_2", "a_2_2", "a_3"]),
        (["a", "a_3"], ["a", "a"], ["a_2"], ["a_4", "a_5"]),
        (["a", *(f"a_{n}" for n in range(2, 700))], ["a", "a", "b"], ["b"], ["a_700", "a_701", "b_2"]),
        (["a", *(f"a_{n}" for n in range(2, 700) if n != 20)], ["a"], [], ["a_20"]),
        (["a", *(f"a_{n}" for n in range(2, 65))], ["a"] * 3, ["a_66"], ["a_67", "a_68", "a_69"]),
    ],
)
def test_names_are_made_unique(
    session: Session, bound: list[str], wanted: list[str], also: list[str], names: list[str]
) -> None:
    """The first free number, in a row of any length; in few statements."""
    scope = session._scope
    session.process({"rows": [{"n": 1}] * 9_000}, tool="rows", call_id="c")

    def work(connection: Connection) -> list[str]:
        artifact = connection.execute(select(ArtifactRow.id).where(ArtifactRow.session_id == scope.row)).scalar_one()
        named = [(name, Part(name, (), "string")) for name in bound]
        if named:
            about: Any = {"tenant": scope.tenant, "session_row": scope.row, "artifact_row": artifact}
            bind(connection, named=named, step=1, origin="run", **about)
        return free(connection, scope.row, wanted, also)

    assert scope.write(work) == names


def test_one_part_per_top_level_container() -> None:
    value = {"users": [1], "meta": {}, "total": 5, "title": "x", "none": None, "": [2], "a b": [3], "a-b": [4]}
    assert [(part.wanted, part.path, part.shape) for part in parts("tool", value, shape(value))] == [
        ("tool", (), "object(8 keys)"),
        ("users", ("users",), "array(1) of integer"),
        ("meta", ("meta",), "object(0 keys)"),
        ("value", ("",), "array(1) of integer"),
        ("a_b", ("a b",), "array(1) of integer"),
        ("a_b", ("a-b",), "array(1) of integer"),
    ]
    assert [part.wanted for part in parts("tool", [[1], {"a": []}], "array(2) of mixed")] == ["tool"]
    odd = {"a": 1, "…": [1], "b": 2}
    assert [part.shape for part in parts("tool", odd, shape(odd))] == ["object(3 keys)", "array(1) of integer"]


PATHS: dict[Path, str] = {
    (): "[]",
    ("a", "*", "[]"): '["a", "*", "[]"]',
    ("repos", Every("*", "repos_key"), "pulls", Every("[]")): (
        '{"repos.*.pulls[]": ["repos", ["*", "repos_key", ""], "pulls", ["[]", "", ""]]}'
    ),
    ("\ud800\0", Every("[]", "at", "id")): (r'{"\"\\\\ud800\\u0000\"[]": ["\ud800\u0000", ["[]", "at", "id"]]}'),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_stored_as_text_that_releases_before_read_as_a_key_that_is_not_there(path: Path) -> None:
    text = to_text(path)
    assert text == PATHS[path]
    assert from_text(text) == path
    before = tuple(json.loads(text))  # what releases up to 0.3 take it for
    assert all(isinstance(step, str) for step in before)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (
            {"data": {"items": records(3)}, "items": records(2)},
            {"tool": (), "data_items": ("data", "items"), "items": ("items",), "data": ("data",)},
        ),
        (
            {"a": {"nodes": records(4)}, "b": {"nodes": records(3)}},
            {"tool": (), "a_nodes": ("a", "nodes"), "b_nodes": ("b", "nodes"), "a": ("a",), "b": ("b",)},
        ),
        (
            {"web": {"data": {"pulls": records(4)}}, "app": {"data": {"pulls": records(3)}}, "pulls": 3},
            {
                "tool": (),
                "web_pulls": ("web", "data", "pulls"),
                "app_pulls": ("app", "data", "pulls"),
                "web": ("web",),
                "app": ("app",),
            },
        ),
        ({"x": {"tool": records(3)}}, {"tool": (), "x_tool": ("x", "tool"), "x": ("x",)}),
        ({"x": {"class": records(3)}}, {"tool": (), "class_": ("x", "class"), "x": ("x",)}),
        (
            [{"id": 1, "tags": records(2)}, {"id": 2, "tags": []}],
            {"tool": (), "tags": (Every("[]", "row_id", "id"), "tags", Every("[]"))},
        ),
        (
            [{"x": 1, "tags": [{"row_index": 1, "y": 2}] * 2}] * 2,
            {"tool": (), "tags": (Every("[]", "row_index_2"), "tags", Every("[]"))},
        ),
        (
            {f"2026-01-0{n}": records(2) for n in range(1, 8)},
            {"tool": (), "records": (Every("*", "row_key"), Every("[]"))},
        ),
        ({f"{n}": {"x": n} for n in range(8)}, {"tool": ()}),
        ({"users": records(9)}, {"tool": (), "users": ("users",)}),
    ],
)
def test_tables_come_before_other_members_under_names_that_tell_them_apart(value: Any, named: dict[str, Path]) -> None:
    found = parts_with_tables("tool", value, shape(value), tables(value, infer(value).node))
    ours = {part.wanted: part.path for part in found if part.rows is not None or part.wanted in named}
    assert ours == named
    assert list(ours) == list(named)


@pytest.mark.parametrize(
    ("members", "count"), [(MAX_PARTS - 1, MAX_PARTS), (MAX_PARTS, MAX_PARTS + 1), (MAX_PARTS + 1, 1)]
)
def test_an_object_of_many_members_is_a_map(members: int, count: int) -> None:
    value = {f"key {i}": [i] for i in range(members)} | {"scalar": 1}
    assert len(parts("tool", value, shape(value))) == count


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_a_page_gives_the_whole_its_parts_and_an_alias(session: Session) -> None:
    result = session.process(page(), tool="list_users")
    assert [variable.name for variable in result.variables] == ["list_users", "users", "pagination"]
    assert json.loads(result.content)["variables"] == {
        "list_users": "object(4 keys)",
        "users": "array(1200) of object(3 keys)",
        "pagination": "object(2 keys)",
    }
    for name in ("list_users", "$list_users", f"var_step_{result.step}", f"$var_step_{result.step}"):
        assert session.variable(name).value() == page()
    assert session.variable("users").value() == page()["users"]
    assert session.variable("$pagination").value() == page()["pagination"]
    assert session.variable("var_step_1").name == "list_users"
    assert [v.origin for v in session.variables()] == ["output"] * 3


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_names_are_unique_across_outputs_and_never_rebound(session: Session) -> None:
    first = session.process(page(1_200), tool="users")
    second = session.process(page(1_201), tool="users")
    assert [v.name for v in first.variables] == ["users", "users_2", "pagination"]
    assert [v.name for v in second.variables] == ["users_3", "users_4", "pagination_2"]
    assert session.variable("users").value() == page(1_200)
    assert session.variable("users_2").value() == page(1_200)["users"]
    assert session.variable("users_4").value() == page(1_201)["users"]
    assert session.variable("var_step_2").value() == page(1_201)


HOSTILE_KEYS = [
    "",
    "1",
    "__class__",
    "var_step_1",
    "var_step",
    "users",
    "users ",
    "users\0",
    "\ud800",
    "k" * 10_240,
    "list",
    "🦊",
    "a.b",
    '"',
    "\\",
]


@pytest.mark.parametrize("tool", ["\0\ud800", "x" * 10_240, "var_step_1", "漢" * 300])
@pytest.mark.slow
def test_hostile_names_reach_their_own_data(session: Session, tool: str) -> None:
    value = {key: [[i] * 2_000] for i, key in enumerate(HOSTILE_KEYS)}
    for _ in range(2):
        result = session.process(value, tool=tool)
        assert result.route == "variables"
        assert result.tokens <= Policy().envelope_budget
        for variable in result.variables:
            found = session.variable(variable.name)
            assert (found.path, found.step) == (variable.path, result.step)
            assert found.value() == (value[variable.path[0]] if variable.path else value)
            got = session.run(f"{variable.name}")
            assert got.error is None
            assert got.value == found.value()
    names = [variable.name for variable in session.variables()]
    assert len(set(names)) == len(names) == 2 * (len(HOSTILE_KEYS) + 1)
    assert all(name.isidentifier() for name in names)


@pytest.mark.postgresql("text as identifiers: NUL, lone surrogates, case, length")
@pytest.mark.parametrize(
    "name", ["nope", "", "$", "a b", "a\0b", "\ud800", "var_step_9", "var_step_99999999999999999999", "x" * 10**6]
)
def test_an_unknown_name_says_what_there_is(session: Session, name: str) -> None:
    session.process(page(), tool="t")
    with pytest.raises(ConfigurationError, match="the newest are"):
        session.variable(name)


def test_what_was_not_offloaded_has_no_alias(session: Session) -> None:
    assert session.process("x", tool="t").step == 1
    with pytest.raises(ConfigurationError):
        session.variable("var_step_1")


@pytest.mark.parametrize("route", ["variables", "artifact", "truncate"])
def test_every_route_binds_the_whole_and_the_variables_route_its_members_too(
    engine: Engine, tenant: str, route: Any
) -> None:
    session = engine.session("s", tenant=tenant, policy=Policy(mode=route))
    result = session.process({"rows": records(2_000)}, tool="t")
    names = [variable.name for variable in result.variables]
    assert names == [variable.name for variable in session.variables()]
    assert names == (["t", "rows"] if route == "variables" else ["t"])
    assert session.variable("var_step_1").value() == {"rows": records(2_000)}


def test_text_is_one_variable(session: Session) -> None:
    session.process(prose(2_000_000), tool="t")
    [text] = session.variables()
    assert (text.name, text.shape, text.value()) == ("t", "text(25000 lines)", prose(2_000_000))


class Naming(RuleBasedStateMachine):
    """Names given by any sequence of outputs and runs mean for ever what they meant first."""

    @initialize()
    def start(self) -> None:
        self.engine = Naming.shared
        self.session = self.engine.session(
            secrets.token_hex(8), tenant="naming", policy=Policy(max_result_tokens=20, min_threshold_bytes=0)
        )
        self.data: dict[str, Any] = {}
        self.aliases: set[str] = set()
        self.count = 0

    @rule(
        tool=st.sampled_from(["users", "rows", "var_step_2", "total"]),
        keys=st.sets(st.sampled_from(["users", "rows", "total", "x"]), max_size=3),
    )
    def output(self, tool: str, keys: set[str]) -> None:
        self.count += 1
        value = {key: [self.count] * 60 for key in sorted(keys)} | {"n": [f"output {self.count} ".ljust(400, "x")]}
        result = self.session.process(value, tool=tool)
        for variable in result.variables:
            assert variable.name not in self.data
            self.data[variable.name] = value[variable.path[0]] if variable.path else value
        if result.variables:
            self.aliases.add(f"var_step_{result.step}")
            self.data[f"var_step_{result.step}"] = value

    @rule(name=st.sampled_from(["users", "rows", "total", "mine"]))
    def assign(self, name: str) -> None:
        self.count += 1
        from_output = name in {v.name for v in self.session.variables() if v.origin == "output"}
        outcome = self.session.run(f"{name} = {self.count}")
        assert outcome.error is None
        if not from_output:
            self.data[name] = self.count

    @invariant()
    def everything_is_there(self) -> None:
        names = {variable.name for variable in self.session.variables()}
        assert names == {name for name in self.data if name not in self.aliases}
        for name, value in self.data.items():
            assert self.session.variable(name).value() == value

    shared: Engine


def test_naming_holds_over_any_sequence(local: Engine) -> None:
    Naming.shared = local
    run_state_machine_as_test(
        Naming,
        settings=settings(
            max_examples=settings.default.max_examples // 8, stateful_step_count=10, phases=[Phase.generate]
        ),
    )
