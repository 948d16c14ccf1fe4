"""Tables inside an output are names of their own: in code, in every tool, in any process, however the output is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from byref import Engine, Policy, Session
from byref.interpreter.inputs import look_up
from byref.jsonscan.memory import LEAST
from byref.stores import MemoryStore
from byref_sandbox import Every, Sandbox
from byref_sandbox.code.analysis import Analysed

TOOLS = ["code_interpreter", "artifact_jq", "artifact_grep", "artifact_read", "artifact_sql", "list_artifacts"]
TOOLS += ["get_artifact", "retrieve_offloaded_content"]


def pulls_of(repos: int) -> dict[str, Any]:
    def pull(repo: int, number: int) -> dict[str, Any]:
        labels = [{"name": f"l{n}"} for n in range(number % 3)]
        return {"number": 1_000 * repo + number, "title": f"pull {number}", "user": {"login": "x"}, "labels": labels}

    repositories = {
        f"org/r{repo}": {"stars": repo, "data": {"pulls": [pull(repo, number) for number in range(100 + repo)]}}
        for repo in range(repos)
    }
    return {"repos": repositories, "search": {"hits": {"nodes": [{"id": n, "score": n / 7} for n in range(300)]}}}


VALUE = pulls_of(5)
PULLS = [{"repos_key": repo, **pull} for repo, about in VALUE["repos"].items() for pull in about["data"]["pulls"]]
NODES = VALUE["search"]["hits"]["nodes"]
LABELS = sum(len(pull["labels"]) for pull in PULLS)


def opened(engine: Engine, tenant: str) -> Session:
    policy = Policy(envelope_form="outline")
    return engine.session("chat", tenant=tenant, tools=TOOLS, context_window=200_000, policy=policy)


def checked(session: Session) -> None:
    """Everything that can name a table, by what it answers."""

    def text(tool: str, **arguments: Any) -> str:
        reply = session.call(tool, arguments)
        assert not reply.is_error, reply.text
        return reply.text

    assert session.variable("pulls").value() == PULLS
    said = session.run(
        """{
            "ends": pulls[:3] + pulls[-3:],
            "lists": [len(pulls), type(pulls).__name__, type(pulls[0]).__name__, len(labels), labels[0]],
            "frames": [len(df(pulls)), len(pd.DataFrame(pulls)), len(df("pulls")), int(df(pulls).number.sum())],
            "by repository": df(pulls).groupby("repos_key").size().to_dict(),
            "a map": [type(repos).__name__, repos["org/r1"]["stars"], list(df(repos)["key"])],
            "the very objects": nodes[3] is get_all["search"]["hits"]["nodes"][3]
            and pulls[1]["labels"] is get_all["repos"]["org/r0"]["data"]["pulls"][1]["labels"],
        }"""
    )
    assert said.error is None, said.error
    assert said.value == {
        "ends": PULLS[:3] + PULLS[-3:],
        "lists": [510, "list", "dict", LABELS, {"repos_key": "org/r0", "pulls_number": 1, "name": "l0"}],
        "frames": [510, 510, 510, sum(pull["number"] for pull in PULLS)],
        "by repository": {f"org/r{n}": 100 + n for n in range(5)},
        "a map": ["dict", 1, list(VALUE["repos"])],
        "the very objects": True,
    }
    given = {"all": "$pulls", "one": "$pulls.7.title", "many": [{"$var": "pulls", "jq": "map(.number) | max"}]}
    assert session.resolve(given) == {"all": PULLS, "one": "pull 7", "many": [4103]}
    assert session.resolve({"a": {"$var": "pulls", "path": "[0].user.login"}}) == {"a": "x"}
    assert session.resolve({"a": {"$var": "$pulls", "jq": ".[1].labels"}}) == {"a": PULLS[1]["labels"]}
    assert text("artifact_jq", artifact_id="pulls", expression="length") == "510"
    assert json.loads(text("artifact_jq", artifact_id="$pulls", expression=".[2]")) == PULLS[2]
    assert text("artifact_jq", artifact_id="pulls", expression="map(.number) | add") == str(
        sum(pull["number"] for pull in PULLS)
    )
    assert text("artifact_jq", artifact_id="nodes", expression="map(select(.id > 297)) | length") == "2"
    assert "org/r4" in text("artifact_grep", artifact_id="pulls", pattern='"number":4007,', context_lines=0)
    assert '{"repos_key":"org/r0","number":0,' in text("artifact_read", artifact_id="pulls", start_line=2, end_line=2)
    sql = "SELECT repos_key, count(*) AS n FROM $pulls GROUP BY 1 ORDER BY n DESC LIMIT 1"
    assert "org/r4 | 104" in text("artifact_sql", query=sql)
    assert "org/r2 | 2" in text("artifact_sql", query="SELECT key, stars FROM $repos WHERE stars = 2")
    joined = "SELECT sum(r.stars) AS s FROM $pulls p JOIN $repos r ON p.repos_key = r.key"
    assert str(sum(n * (100 + n) for n in range(5))) in text("artifact_sql", query=joined)
    assert '"repos_key":"org/r0"' in text("get_artifact", pointer_or_name="pulls")
    assert '"repos_key":"org/r0"' in text("retrieve_offloaded_content", reference="pulls", line_range={"start": 1})


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("a path of many places is stored as text of another form, and read again")
def test_a_table_is_a_name_everywhere(engine: Engine, tenant: str) -> None:
    session = opened(engine, tenant)
    result = session.process(VALUE, tool="get_all")
    found = {variable.name: (variable.shape, variable.path) for variable in result.variables}
    number = Every("[]", "pulls_number", "number")
    assert found == {
        "get_all": ("object(2 keys)", ()),
        "pulls": ("array(510) of object(5 keys)", ("repos", Every("*", "repos_key"), "data", "pulls", Every("[]"))),
        "nodes": ("array(300) of object(2 keys)", ("search", "hits", "nodes")),
        "labels": (
            f"array({LABELS}) of object(3 keys)",
            ("repos", Every("*", "repos_key"), "data", "pulls", number, "labels", Every("[]")),
        ),
        "repos": ("map(5) of object(2 keys)", ("repos",)),
        "search": ("object(1 key)", ("search",)),
    }
    again = opened(engine, tenant)
    assert {variable.name: (variable.shape, variable.path) for variable in again.variables()} == found
    checked(again)


@pytest.mark.slow
def test_an_output_in_a_store_has_them_too(tenant: str, sandbox: Sandbox) -> None:
    with Engine("sqlite:///:memory:", blobs=MemoryStore(), interpreter=sandbox) as engine:
        opened(engine, tenant).process(json.dumps(VALUE), tool="get_all")
        checked(opened(engine, tenant))


@pytest.mark.slow
def test_the_language_alone_has_them_too(tenant: str) -> None:
    with Engine("sqlite:///:memory:", jail="language-only") as engine:
        opened(engine, tenant).process(json.dumps(VALUE), tool="get_all")
        checked(opened(engine, tenant))


def test_a_top_level_of_one_key_is_not_what_is_named_first(local: Engine, tenant: str) -> None:
    session = opened(local, tenant)
    rows = [{"id": number, "name": f"n{number}", "state": "open"} for number in range(900)]
    listed = [
        list(json.loads(session.process(value, tool=tool).content)["variables"].items())
        for tool, value in {
            "query": {"data": {"search": {"nodes": rows, "total": 900}}},
            "list": {"users": rows, "total": 900},
            "people": {"result": {"people": {f"u{row['id']}@example.com": row for row in rows}}},
        }.items()
    ]
    assert listed == [
        [
            ("nodes", "array(900), at data.search.nodes"),
            ("query", "object(1 key)"),
            ("data", "object(1 key)"),
        ],
        [("list_", "object(2 keys)"), ("users", "array(900) of object(3 keys)")],
        [
            ("result_people", "map(900), at result.people"),
            ("people", "object(1 key)"),
            ("result", "object(1 key)"),
        ],
    ]
    tiny = local.session("tiny", tenant=tenant, policy=Policy(envelope_form="outline", envelope_tokens=100))
    said = json.loads(tiny.process({"data": {"x" * 70: {"nodes": rows}}}, tool="y" * 80).content)
    assert said["variables"] == {"var_step_1": "object(1 key)", "…": "2 more variables"}


def some(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": number, "v": f"x{number}", **more} for number in range(count)]


HOSTILE: dict[str, Any] = {
    "columns of its own": {"a b": {f"k/{i}": {"": some(20, a_b_key=1, a_b_key_2=2, key=3)} for i in range(40)}},
    "marks as keys": {"*": {"[]": some(900)}, "$": {"x": {"…": some(300)}}, "": {"": some(400)}},
    "keys beyond UTF-8, and NUL": {"m\0": {f"\ud800{i}\0": {"rows": some(30)} for i in range(40)}},
    "names that are taken": {
        "x": {"list": some(400), "class": some(401, z=1), "df": some(402, y=2)},
        "y": {"x": some(9)},
    },
    "not everywhere": {"r": {f"r/{i}": {"data": {"p": some(50)} if i % 3 else None} for i in range(60)}},
    "arrays in arrays": {"pages": {"all": [some(20) for _ in range(50)]}},
    "twice the same key": '{"a":{"r":[{"x":1}]},"a":{"r":[' + ",".join(f'{{"y":{n}}}' for n in range(2_000)) + "]}}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_every_name_has_its_own_rows_whatever_the_keys_are(local: Engine, tenant: str, what: str) -> None:
    session = opened(local, tenant)
    result = session.process(HOSTILE[what], tool="x")
    assert result.tokens <= Policy().envelope_budget
    names = [variable.name for variable in result.variables]
    told = {v.name: int(v.shape.split("(")[1].split(")")[0]) for v in result.variables if " of object" in v.shape}
    assert told
    values = {name: session.variable(name).value() for name in names}
    tables = ", ".join(f"{name!r}: len(df({name}))" for name in told)
    ran = session.run(f"[{{{', '.join(f'{name!r}: {name}' for name in names)}}}, {{{tables}}}]")
    assert ran.error is None, ran.error
    assert ran.value == [values, told]
    assert {name: len(value) for name, value in values.items() if name in told} == told
    assert session.resolve({name: f"${name}" for name in names}) == values
    for name in told:
        assert session.call("artifact_jq", {"artifact_id": name, "expression": "[.[]] | length"}).text == str(
            told[name]
        )


def test_code_keeps_what_it_took_of_a_table_and_stored_data_stays(local: Engine, tenant: str) -> None:
    session = opened(local, tenant)
    result = session.process(VALUE, tool="get_all")
    stored = result.artifacts[0]
    first = session.call("code_interpreter", {"code": "mine, third = pulls, pulls[3]\nlast = nodes[-1]\nlen(mine)"})
    assert first.text.startswith("510\n[kept for later calls: mine (array(510) of object(5 keys)), ")
    again = opened(local, tenant)
    mine = again.variable("mine")
    assert (mine.origin, mine.artifact.digest, mine.path) == ("run", stored.digest, again.variable("pulls").path)
    assert again.run("[mine[3] == third, len(mine), third['title'], last]").value == [True, 510, "pull 3", NODES[-1]]
    changed = again.call("code_interpreter", {"code": "pulls[0]['title'] = 'x'\nnodes.append(1)\npulls[0]['title']"})
    assert changed.text.startswith("x\n[nodes, pulls: changed for this run only; the stored data is unchanged]")
    whole = "get_all['repos']['org/r0']['data']['pulls'][0]"
    inside = f"pulls[0]['title'] = 'x'\npulls[0]['user']['login'] = 'y'\n[{whole}['title'], {whole}['user']]"
    assert again.run(inside).value == ["pull 0", {"login": "y"}]
    assert again.run("[len(nodes), pulls[0]['title'], pulls[0]['user']]").value == [300, "pull 0", {"login": "x"}]


def test_only_what_code_names_is_given(local: Engine, tenant: str) -> None:
    session = opened(local, tenant)
    session.process(VALUE, tool="get_all")
    for code, names in (("1 + 1", set()), ("len(pulls)", {"pulls"}), ("df(labels), repos", {"labels", "repos"})):
        assert look_up(session._scope, Analysed(code)).data.keys() == names


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}", "size": number % 7, **more} for number in range(count)]


NAMES: dict[str, tuple[dict[str, Any], list[str]]] = {
    # what the tool `get` gave; the names, in their order
    "builtins, keywords and the interpreter's own names": (
        {
            "a": {"list": rows(90), "z": 1},
            "b": {"class": rows(80), "z": 1},
            "c": {"df": rows(70), "y": {"print": rows(60)}},
        },
        ["get", "list_", "class_", "df_", "print_", "a", "b", "c"],
    ),
    "an alias and an id": (
        {"a": {"var_step_1": rows(90)}, "b": {"art_k7m2p9x4q8wz": rows(80), "z": 1}},
        ["get", "var_step_1_", "art_k7m2p9x4q8wz_", "a", "b"],
    ),
    "no ASCII, equal as identifiers": (
        {"a": {"\ufb01le": rows(90)}, "b": {"file": rows(80), "z": 1}, "c": {"名前": rows(70), "y": 1}, "😀": rows(60)},
        ["get", "a_file", "b_file", "名前", "value", "a", "b", "c"],
    ),
    "dots, brackets, blanks and digits": (
        {
            "a.b": {"c[0]": rows(90), "c.d": {"e f": rows(80)}},
            "2024": {"1": rows(70), "z": 1},
            "a": {"b": rows(60), "y": 1},
        },
        ["get", "c_0", "e_f", "v_1", "b", "a_b", "v_2024", "a"],
    ),
    "a key of 10 KB": (
        {"data": {"k" * 10_000: rows(90), "users": rows(20)}, "x" * 10_000: rows(80)},
        ["get", "users", "data", "x" * 64],
    ),
    "one shape at two places": (
        {"left": {"users": rows(90), "z": 1}, "right": {"users": rows(80), "y": 1}},
        ["get", "left_users", "right_users", "left", "right"],
    ),
    "the tool's own name": ({"get": {"get": rows(90)}}, ["get", "get_get", "get_2"]),
    "one key": ({"data": rows(90)}, ["get", "data"]),
    "one key, deep": ({"a": {"b": {"c": rows(90)}}}, ["get", "c", "a"]),
    "a map's key that is a column, too": (
        {"repos": {f"r/{at}": {"pulls": rows(30, repos_key=1, repos_key_2=2), "z": at} for at in range(9)}},
        ["get", "pulls", "repos"],
    ),
    "a position that is a column, too": (
        {"orders": [{"id": 1, "lines": rows(5, orders_index=1, orders_id=2)} for _ in range(40)]},
        ["get", "lines", "orders"],
    ),
    "a map of tables": (
        {f"team {at}": {"rows": rows(30 + at)} for at in range(5)},
        ["get", "rows", *(f"team_{at}" for at in range(5))],
    ),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("what", NAMES)
def test_names_mean_what_they_say(local: Engine, tenant: str, what: str) -> None:
    value, expected = NAMES[what]
    session = local.session(
        "chat", tenant=tenant, tools=TOOLS, context_window=200_000, policy=Policy(max_result_tokens=500)
    )
    result = session.process(value, tool="get")
    names = [variable.name for variable in result.variables]
    assert names == expected
    listed = result.envelope["variables"]  # type: ignore[index]
    instruction = result.envelope["instruction"]  # type: ignore[index]
    assert next(iter(listed)) == (names[1] if len(value) == 1 else names[0])
    assert f'"${names[1]}" hands it' in instruction, "the first table is the example"
    again = [variable.name for variable in session.process({**value, "more": 1}, tool="get").variables]
    assert len({*names, *again}) == len(names) + len(again)
    measured = session.run("[" + ", ".join(f"len({name})" for name in [*names, *again]) + "]")
    assert measured.error is None, measured.error
    values = [session.variable(name).value() for name in [*names, *again]]
    assert measured.value == [len(one) for one in values]  # type: ignore[arg-type]
    for variable, one in zip(result.variables, values, strict=False):
        assert session.resolve({"given": f"${variable.name}"}) == {"given": one}
        if variable.shape.startswith("array"):
            columns = list(one[0])  # type: ignore[index]
            assert f" of object({len(columns)} keys)" in variable.shape and len(set(columns)) == len(columns)
            count = session.call("artifact_sql", {"query": f"SELECT count(*) AS n FROM ${variable.name}"})
            assert str(len(one)) in count.text, count.text  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [3_400, 4_600], ids=["parsed", "matched"])
def test_text_of_any_size_binds_what_the_same_objects_bind(local: Engine, tenant: str, count: int) -> None:
    value = {
        "data": {
            "orders": [
                {"id": n, "lines": [{"sku": f"s{n}-{k}", "qty": k, "note": "x" * 20} for k in range(n % 4)]}
                for n in range(count)
            ]
        },
        "at": "2026-01-01",
    }
    text = json.dumps(value)
    assert (len(text) >= LEAST) == (count > 4_000)
    session = opened(local, tenant)
    of_value, of_text = (session.process(output, tool=tool) for output, tool in ((value, "a"), (text, "b")))
    assert [(one.path, one.shape) for one in of_value.variables] == [(one.path, one.shape) for one in of_text.variables]
    names = [one.name for one in of_text.variables]
    assert {"orders_2", "lines_2"} <= set(names)
    said = session.run("(lines == lines_2, len(lines_2), lines_2[0], orders == orders_2)").value
    first = {"orders_id": 1, "sku": "s1-0", "qty": 0, "note": "x" * 20}
    assert said == [True, sum(n % 4 for n in range(count)), first, True]


ANSWER = {
    "statement": "select …",
    "result": {
        "columns": [{"name": name, "type": "text"} for name in ("id", "unit price", "tags", "land")],
        "rows": [[n, None if n % 9 == 0 else n / 4, ["a"] * (n % 2), ("FR", "US")[n % 2]] for n in range(800)],
    },
}
RECORDS = [{"id": row[0], "unit price": row[1], "tags": row[2], "land": row[3]} for row in ANSWER["result"]["rows"]]


@pytest.mark.postgresql("a path with the names of columns is stored as text of another form, and read again")
def test_rows_without_keys_are_a_table_everywhere(engine: Engine, tenant: str) -> None:
    result = opened(engine, tenant).process(ANSWER, tool="query")
    cells = ("id", "unit price", "tags", "land")
    named = {variable.name: (variable.shape, variable.path) for variable in result.variables}
    path = ("result", "rows", Every("[]", cells=cells))
    assert named["rows_table"] == ("array(800) of object(4 keys)", path)
    assert next(iter(json.loads(result.content)["variables"])) == "query"
    session = opened(engine, tenant)
    assert session.variable("rows_table").path == path
    assert session.variable("rows_table").value() == RECORDS
    said = session.run(
        "[rows_table[9], len(df(rows_table)), df(rows_table).groupby('land')['unit price'].sum().to_dict()]"
    )
    assert said.error is None, said.error
    sums = {land: sum(one["unit price"] or 0 for one in RECORDS if one["land"] == land) for land in ("FR", "US")}
    assert said.value == [RECORDS[9], 800, sums]
    assert session.run("rows_table[0]['id'] = 7; query['result']['rows'][0][0]").value == 0
    given = {"all": "$rows_table", "one": "$rows_table.7.land", "last": {"$var": "rows_table", "jq": "map(.id) | max"}}
    assert session.resolve(given) == {"all": RECORDS, "one": "US", "last": 799}
    for tool, arguments, part in (
        ("artifact_jq", {"artifact_id": "rows_table", "expression": 'map(select(.land == "US")) | length'}, "400"),
        ("artifact_read", {"artifact_id": "rows_table", "start_line": 3, "end_line": 3}, '{"id":1,"unit price":0.25,'),
        ("artifact_grep", {"artifact_id": "rows_table", "pattern": '"id":799'}, '"land":"US"'),
        ("artifact_sql", {"query": 'SELECT sum("unit price") AS s FROM $rows_table'}, str(sum(sums.values()))),
        ("get_artifact", {"pointer_or_name": "rows_table"}, '"unit price":'),
    ):
        reply = session.call(tool, arguments)
        assert not reply.is_error and part in reply.text, reply.text
    missed = session.run("df(rows_table)['unit_price']").error
    assert missed is not None and "unit price" in str(missed.hint)
    again = session.process(ANSWER, tool="query")
    assert "rows_table_2" in [variable.name for variable in again.variables]


def test_a_header_in_the_first_row_is_no_record(local: Engine, tenant: str) -> None:
    session = opened(local, tenant)
    rows = [["name", "day"], *([f"n{n}", f"2026-11-{1 + n % 28:02d}"] for n in range(900))]
    result = session.process(rows, tool="get_sheet")
    envelope = json.loads(result.content)
    assert envelope["variables"] == {
        "get_sheet": "array(901) of array(2)",
        "get_sheet_table": "array(900) of object(2 keys), at $[]",
    }
    assert (envelope["schema"], envelope["preview"][:2]) == ("[header,900 of [(name,day):str]]", rows[:2])
    assert session.variable("get_sheet_table").value()[0] == {"name": "n0", "day": "2026-11-01"}
    assert session.run("str(df(get_sheet_table).day.max().date()), len(get_sheet_table)").value == ["2026-11-28", 900]
