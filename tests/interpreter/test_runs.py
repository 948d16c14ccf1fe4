"""Model-written code over all of the data: exact answers, readable mistakes, names that stay."""

from __future__ import annotations

import ast
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot
from material import prose, records
from sqlalchemy import text

from byref import ConfigurationError, Engine, Policy, Session, ToolError
from byref.artifacts import staging, variables
from byref_sandbox import Outcome, Sandbox, State

COUNT = 10_000
NO_OUTPUT = "[no output: nothing was printed, and the last statement is no expression]"


@pytest.fixture
def stocked(session: Session) -> Session:
    """10,000 records as `users`, with one needle in the middle."""
    rows = records(COUNT)
    rows[4_999]["needle"] = "found"
    result = session.process({"users": rows, "pagination": {"page": 1}, "total": COUNT}, tool="list_users")
    assert "found" not in result.content
    return session


def ask(session: Session, code: str) -> str:
    reply = session.call("code_interpreter", {"code": code})
    assert not reply.is_error, reply.content
    return reply.content


def mistake(session: Session, code: str) -> str:
    reply = session.call("code_interpreter", {"code": code})
    assert reply.is_error, reply.content
    return reply.content


@pytest.mark.quick_cases(1)
@pytest.mark.postgresql("bytes are cut into frames that the driver writes and reads")
def test_answers_are_exact_over_all_of_the_data(stocked: Session) -> None:
    for code, answer in [
        ("len(users)", "10000"),
        ("len($users)", "10000"),
        ("sum(r['id'] for r in users)", "50005000"),
        ("[r['id'] for r in $users if 'needle' in r]", "[5000]"),
        ("len(var_step_1['users'])", "10000"),
        ("len($var_step_1)", "3"),
        ("list_users['total']", "10000"),
        ("pagination['page'] + 1", "2"),
        ("df(users)['id'].sum()", "50005000"),
        ("df(users).query('id == 5000').needle.iloc[0]", "found"),
        ("f'{len($users)} users cost $users'", "10000 users cost $users"),
        ("'$users'", "$users"),
        ("max(users, key=lambda r: r['id'])['id']", "10000"),
    ]:
        assert ask(stocked, code) == answer, code


def test_print_value_and_nothing(stocked: Session) -> None:
    assert ask(stocked, "print('a', 1)\nprint('b')\n40 + 2") == "a 1\nb\n42"
    assert ask(stocked, "print('only')") == "only"
    assert ask(stocked, "None") == "[no output: nothing was printed, and the last statement is no expression]"
    assert ask(stocked, "") == "[no output: nothing was printed, and the last statement is no expression]"
    assert ask(stocked, "'abc'.strip('abc')") == "[the value is an empty text]"
    assert ask(stocked, "empty = ''\nempty").splitlines()[0] == "[the value is an empty text]"
    assert ask(stocked, "print(1)\n''") == "1\n"


def test_names_stay_and_can_be_changed(stocked: Session, engine: Engine) -> None:
    assert ask(stocked, "ids = [r['id'] for r in users]\nn = len(ids)") == (
        "[kept for later calls: ids (array(10000) of integer), n (integer)]"
    )
    assert ask(stocked, "n = n + sum(ids)\nn") == "50015000\n[kept for later calls: n (integer)]"
    later = engine.session(stocked.id, tenant=stocked.tenant)
    assert ask(later, "n, len(ids)") == "[50015000,10000]"
    assert later.variable("n").value() == 50_015_000
    assert (later.variable("n").revision, later.variable("n").origin) == (2, "run")
    assert ask(later, "frame = df(users)[['id']].head(3)").startswith("[kept for later calls: frame (")
    assert ask(later, "frame['id'].tolist()") == "[1,2,3]"


def test_stored_data_is_assigned_for_one_run_only(stocked: Session) -> None:
    assert ask(stocked, "users = users[:2]\nlen(users)") == (
        "2\n[users: assigned for this run only; the stored data is unchanged]"
    )
    assert ask(stocked, "users = 5") == "[users: assigned for this run only; the stored data is unchanged]"
    assert ask(stocked, "users.clear()\nlen(users)") == (
        "0\n[users: changed for this run only; the stored data is unchanged]"
    )
    assert ask(stocked, "len(users)") == "10000"
    assert len(stocked.variable("users").value()) == COUNT  # type: ignore[arg-type]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("code", "check", "shape"),
    [
        ("[r for r in users]", "len(result)", "array(10000) of"),
        ("'x' * 100_000", "len(result)", "string"),
        ("{r['id']: r for r in users}", "len(result)", "object(10000 keys)"),
        ("df(users)", "len(result)", "10000"),
        ("df(users)['id']", "len(result)", "10000"),
        ("10 ** 20_000", "len(str(result))", ""),
    ],
)
def test_a_big_value_becomes_a_variable(stocked: Session, code: str, check: str, shape: str) -> None:
    content = ask(stocked, code)
    limit = Policy().reply_tokens
    assert stocked.ledger()[-1].tokens <= limit
    if "10 **" in code:
        return
    assert "[INCOMPLETE: the value is too big to show; all of it is now the variable result: " in content
    assert shape in content
    if code[0] in "[{":
        assert isinstance(json.loads(content), list | dict), "what is left out is said inside"
    assert ask(stocked, check) == str(100_000 if "'x'" in code else COUNT)


@pytest.mark.slow
def test_what_is_not_kept_is_said(stocked: Session) -> None:
    content = ask(stocked, "f = pd.DataFrame().iterrows()\n" + "\n".join(f"n_{i} = {i}" for i in range(1_005)))
    assert "f (a generator of a library: make a list of it)" in content
    assert "n_1000, n_1001, n_1002, n_1003, n_1004 (more than 1,000 names)" in content
    assert "n_5 (integer)" in content
    assert ask(stocked, "n_999") == "999"
    assert "'n_1000' was not kept: more than 1,000 names" in mistake(stocked, "n_1000")
    assert "lost: names (" in ask(stocked, ";".join(f"a{i:x}=1" for i in range(11_000)))
    assert "var_step_7 (no name to keep)" in ask(stocked, "var_step_7 = 1")


@pytest.mark.slow
def test_what_cannot_be_kept_is_not_what_it_was(stocked: Session) -> None:
    ask(stocked, "x = 1\ny = 2\nz = 3\ndef f(): return 4")
    told = ask(stocked, "x = pd.DataFrame().iterrows()\nw = pd.DataFrame().iterrows()")
    assert told == "[not kept: x, w (a generator of a library: make a list of it)]"
    assert "name 'x' is not defined" in mistake(stocked, "x")
    assert ask(stocked, "del y, f, users") == NO_OUTPUT
    assert "name 'y' is not defined" in mistake(stocked, "y")
    assert "name 'f' is not defined" in mistake(stocked, "f()")
    assert ask(stocked, "len(users), z") == "[10000,3]"
    assert "z, new (the run was stopped)" in mistake(stocked, "z = 5\nnew = 6\nx = [0] * 10**12")
    assert ask(stocked, "z") == "3"
    assert "'new' was not kept: the run was stopped" in mistake(stocked, "new")
    assert ask(stocked, "new = 7") and ask(stocked, "del new, z") == NO_OUTPUT
    assert "not kept" not in mistake(stocked, "new") + mistake(stocked, "z")


def test_reset_takes_what_nothing_names(session: Session) -> None:
    ask(session, "x = list(range(100))\ny = {1, 2}\nplt.plot(x)\nkept = [7]")
    ask(session, "x = 5\nbig = pd.DataFrame({'a': range(300_000)})")
    stored = session.store_artifact("notes", name="notes")
    kept = session.keep(session.variable("kept").artifact)
    session.reset()
    assert {(artifact.id, artifact.name) for artifact in session.artifacts()} == {
        (stored.id, "notes"),
        (kept.id, None),
        *((artifact.id, "plot_1") for artifact in session.artifacts() if artifact.kind == "image"),
    }
    assert "No variable with data is bound yet." in mistake(session, "x")
    assert session.get_artifact("plot_1") is not None


def test_artifacts_are_named_by_id_or_name(session: Session) -> None:
    report = session.store_artifact(prose(2_000), name="a report")
    ask(session, "plt.plot([1])")
    plot = session.get_artifact("plot_1")
    assert plot is not None
    assert ask(session, f"type({report.id}).__name__, len({report.id})") == f'["str",{len(report.value)}]'
    assert ask(session, f"${plot.id} == plot_1, plot_1[:4] == bytes([137]) + b'PNG', type(plot_1).__name__") == (
        '[true,true,"bytes"]'
    )
    assert ask(session, "plot_1 = 3\nplot_1 + 1").startswith("4\n[kept for later calls: plot_1 (integer)]")
    assert "is not defined" in mistake(session, "art_aaaaaaaaaaaa")


def test_a_column_and_a_function_that_are_meant_are_named(stocked: Session) -> None:
    ask(stocked, "def total(rows): return len(rows)")
    assert "'field_0' is a key of the records of users: row['field_0'], or df(users)['field_0']" in mistake(
        stocked, "field_0 * 2"
    )
    told = mistake(stocked, "totl(1)")
    assert "Did you mean 'total'?\nFunctions and classes: total\nVariables with data: " in told


def test_mistakes_say_where_and_how_to_mend_them(stocked: Session) -> None:
    assert mistake(stocked, "x = 1\nusrs") == snapshot("""\
NameError at line 2: name 'usrs' is not defined
    usrs
Did you mean 'users'?
Variables with data: list_users (object(3 keys)), users (array(10000) of object), pagination (object(1 key))
[kept for later calls: x (integer)]\
""")
    assert mistake(stocked, "1 +\n") == snapshot("""\
SyntaxError at line 1: invalid syntax
in: 1 +\
""")
    assert mistake(stocked, "users[0]['nope']") == snapshot("""\
KeyError at line 1: nope
    users[0]['nope']
the keys are: id, field_0, field_1\
""")
    assert mistake(stocked, "open('/etc/passwd')") == snapshot("""\
NotAllowed at line 1: there is no file 'etc/passwd': code has written none yet
    open('/etc/passwd')
the data is in: list_users, pagination, users, x\
""")
    assert mistake(stocked, "import socket") == snapshot("""\
ModuleNotFoundError at line 1: No module named 'socket' in the sandbox
    import socket
there is no network; the data is in: list_users, pagination, users, x\
""")
    assert mistake(stocked, "users.name") == snapshot("""\
AttributeError at line 1: 'list' object has no attribute 'name'
    users.name
it is a list of 10000: use an index, or a loop over its items\
""")
    assert mistake(stocked, "raise ValueError('boo')") == snapshot("""\
ValueError at line 1: boo
    raise ValueError('boo')\
""")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("while True: pass", "Limit"),
        ("x = []\nwhile True: x.append('y' * 10**6)", "Memory"),
        ("'x' * 10**12", "Memory"),
    ],
)
def test_limits_are_the_policys_and_readable(local: Engine, tenant: str, code: str, kind: str) -> None:
    policy = Policy(run_seconds=3, run_cpu_seconds=1, run_memory_bytes=128 << 20)
    session = local.session("s", tenant=tenant, policy=policy)
    assert kind in mistake(session, code).splitlines()[0]
    assert ask(session, "1 + 1") == "2"


@pytest.mark.slow
def test_output_is_bounded(stocked: Session) -> None:
    for code in ("print('y' * 10**6)", "for i in range(10**5): print(i)", "for r in users: print(r)\nusers"):
        reply = stocked.call("code_interpreter", {"code": code})
        assert reply.tokens <= Policy().reply_tokens
        assert "truncated" in reply.content or "dropped" in reply.content
    reply = stocked.call("code_interpreter", {"code": "print('y' * 10**6)\nraise ValueError('x' * 10**6)"})
    assert reply.is_error
    assert reply.tokens <= Policy().reply_tokens
    assert "ValueError at line 2" in reply.content


@pytest.mark.parametrize(
    "code",
    [
        "\0",
        "'\ud800'",
        "\ud800 = 1",
        "x" * 300_000,
        "(" * 100_000,
        "-" * 50_000 + "1",
        pytest.param("1;" * 50_000, marks=pytest.mark.slow),
        "é = 1\né",
        "# \0",
    ],
)
def test_hostile_code_gets_a_reply(session: Session, code: str) -> None:
    reply = session.call("code_interpreter", {"code": code}, call_id="c")
    assert reply.content
    assert reply.tokens <= Policy().reply_tokens
    assert session.call("code_interpreter", {"code": code}, call_id="c").content == reply.content
    assert ask(session, "1 + 1") == "2"


@pytest.mark.slow
@pytest.mark.postgresql("a statement takes only so many parameters")
def test_more_names_than_a_statement_takes(stocked: Session) -> None:
    names = [
        "".join(letters)
        for letters in itertools.product("abcdefghijklmnopqrstuvwxyz", "abcdefghij", "abcdefghij", "xyzw")
    ]
    code = "len(users)\n" + ";".join(["x", *names])
    assert "name 'x' is not defined" in mistake(stocked, code[:200_000].rpartition(";")[0])


@pytest.mark.slow
def test_more_variables_than_the_sandbox_takes(local: Engine, tenant: str) -> None:
    session = local.session("chat", tenant=tenant, context_window=200_000)
    session.run("first = [1]")
    scope, artifact = session._scope, session.variable("first").artifact
    named = [(f"v{i}", variables.Part(f"v{i}", ("first",), "array(1)")) for i in range(10_001)]
    scope.write(
        lambda connection: variables.bind(
            connection,
            tenant=tenant,
            session_row=scope.row,
            artifact_row=artifact.row_id,
            named=named,
            step=1,
            origin="run",
        )
    )
    names = [name for name, _ in named]
    assert "the code names 10,001 variables; at most 10,000 can be bound" in mistake(
        session, f"len([{','.join(names)}])"
    )
    assert ask(session, f"len([{','.join(names[:500])}])") == "500"


@pytest.mark.parametrize("code", ["df('$users').shape", "df($users).shape", "df('users').shape", "df(users).shape"])
def test_a_frame_by_any_spelling_of_its_name(stocked: Session, code: str) -> None:
    assert ask(stocked, code) == "[10000,4]"


@pytest.mark.postgresql("rows are locked, and unique indexes refuse what others wrote meanwhile")
def test_what_was_deleted_between_staging_and_commit_is_written_again(
    engine: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, session = engine.session("other", tenant=tenant), engine.session("chat", tenant=tenant)
    code = f"q = [*range({staging.BUFFERED_EACH_BYTES // 4})]"  # what is smaller, the commit writes by itself
    other.run(code)
    real = staging.stage

    def stage(*given: Any) -> int:
        blob_id = real(*given)
        monkeypatch.setattr(staging, "stage", real)
        other.end()  # the same bytes: known when they were staged, gone when they are to be referred to
        return blob_id

    monkeypatch.setattr(staging, "stage", stage)
    assert ask(session, code) == "[kept for later calls: q (array(65536) of integer)]"
    assert session.variable("q").value() == [*range(65536)]


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.postgresql("a blob is inserted where there is none with its digest")
def test_few_bytes_that_are_stored_already_are_used_again(engine: Engine, tenant: str, breaks: bool) -> None:
    """They are compared with their checksum, and written anew where that does not hold."""
    first, second = (engine.session(name, tenant=tenant) for name in ("first", "second"))
    for session in (first, first, second):
        if breaks and session is second:
            damage = "UPDATE byref_frames SET checksum = :c WHERE tenant = :t"
            engine.database.write(lambda c: c.execute(text(damage), {"t": tenant, "c": bytes(8)}))
        assert ask(session, "q = [1, 2, 3]") == "[kept for later calls: q (array(3) of integer)]"
    assert first.variable("q").value() == second.variable("q").value() == [1, 2, 3]
    count = "SELECT count(*) FROM byref_blobs WHERE tenant = :t AND published_at IS NOT NULL"
    assert engine.database.read(lambda c: c.execute(text(count), {"t": tenant}).scalar()) == 1


def test_text_is_a_str(session: Session) -> None:
    session.process(prose(2_000_000), tool="report")
    assert ask(session, "[type(report).__name__, len(report), report[:6]]") == '["str",2000000,"000000"]'


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_every_run_is_recorded(engine: Engine, stocked: Session) -> None:
    ask(stocked, "print('hello')\nlen(users)")
    mistake(stocked, "1 / 0")
    stocked.call("artifact_jq", {"artifact_id": "users", "expression": "length"})
    assert stocked.run("6 * 7").value == 42

    def runs(connection: Any) -> Any:
        query = "SELECT r.* FROM byref_runs r JOIN byref_sessions s ON s.id = r.session_id WHERE s.tenant = :t ORDER BY r.id"
        return connection.execute(text(query), {"t": stocked.tenant}).all()

    first, failed, jq, host = engine.database.read(runs)
    assert (first.language, first.code, first.result, first.stdout) == (
        "python",
        "print('hello')\nlen(users)",
        "10000",
        "hello\n",
    )
    assert (first.step, failed.step, jq.step, host.step) == (2, 3, 4, None)
    assert "ZeroDivisionError" in failed.error
    assert (jq.language, jq.code, jq.result) == ("jq", "length", "10000")
    assert all(run.wall_ms > 0 and "wall_seconds" in run.limits for run in (first, failed, jq, host))


def test_the_host_gets_the_whole_outcome(stocked: Session) -> None:
    outcome = stocked.run("print('x')\n[r['id'] for r in users]")
    assert outcome.value == list(range(1, COUNT + 1))
    assert (outcome.stdout, outcome.error) == ("x\n", None)
    failed = stocked.run("1 / 0")
    assert failed.error is not None
    assert (failed.error.kind, failed.error.line) == ("ZeroDivisionError", 1)
    with pytest.raises(ToolError, match="200,000"):
        stocked.run("#" * 200_001)


def test_sessions_do_not_see_each_others_names(engine: Engine, stocked: Session) -> None:
    ask(stocked, "mine = 1")
    for other in (
        engine.session("other", tenant=stocked.tenant),
        engine.session(stocked.id, tenant=stocked.tenant + "x"),
    ):
        for name in ("mine", "users", "var_step_1"):
            assert f"name '{name}' is not defined" in mistake(other, name)


def test_data_of_a_page_is_exact(session: Session) -> None:
    value = {"rows": [{"i": 2**70 + i, "f": 0.1 + i, "s": "é\0", "n": None, "b": True} for i in range(3_000)]}
    session.process(value, tool="t")
    assert session.run("rows").value == value["rows"]
    assert session.run("rows[-1]['i'] - 2**70").value == 2_999
    ask(session, "copy_of_rows = rows")
    assert session.variable("copy_of_rows").value() == value["rows"]


def test_warnings_stand_apart_from_what_was_printed(stocked: Session) -> None:
    assert ask(stocked, "print('x')\nnp.array([1.0]) / 0\n7").splitlines()[:2] == [
        "x",
        "[stderr: line 2: RuntimeWarning: divide by zero encountered in divide]",
    ]
    content = ask(stocked, "import warnings\nfor n in range(900): warnings.warn(f'number {n}')\n7")
    told = content.rpartition("]\n7")[0]
    assert "number 0\n" in told and "truncated" in told and len(told) < 2_500


def test_what_is_cut_says_incomplete_and_how_to_go_on(stocked: Session) -> None:
    content = ask(stocked, "for n in range(9_000): print(n)")
    [note] = [line for line in content.splitlines() if "INCOMPLETE" in line]
    omitted = int(note.split()[1].replace(",", ""))
    shown = content.split("\n... [truncated")[0] + content.split("preserved] ...")[1].split("\n[INCOMPLETE")[0]
    assert omitted + len(shown) == pytest.approx(sum(len(f"{n}\n") for n in range(9_000)), abs=3)
    assert note.endswith("of what was printed are left out. Print less: keys, length, a slice, fewer fields.]")
    content = ask(stocked, "for n in range(100_000): print(n)")
    assert "characters at its end of what was printed are left out. Print less" in content
    content = ask(stocked, "\n".join(f"n_{i} = {i}" for i in range(40)))
    assert content.endswith("n_29 (integer). INCOMPLETE: 10 more are kept too: use them by name]")
    content = ask(stocked, "\n".join(f"m_{i} = {i}" for i in range(1_036)))
    assert content.endswith(". INCOMPLETE: 6 more are not kept: put what belongs together in one dict]")
    assert "INCOMPLETE: over 23 more are bound: the results that made them name them" in mistake(stocked, "nosuch")
    assert stocked.ledger()[-1].tokens <= Policy().reply_tokens


@pytest.mark.slow
def test_code_is_parsed_once_by_the_host(stocked: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its parts want to know what the code says; beside it the definitions of earlier code that it names."""
    double = "def double(n):\n    return 2 * n"
    ask(stocked, double)
    texts: list[str] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, *given: (texts.append(str(text)), parse(text, *given))[1])
    for run in (stocked.run, lambda code: stocked.call("code_interpreter", {"code": code})):
        for code, others in [
            ("1 + 1", []),
            ("len($users)", []),
            ("df('users').shape", []),
            ("users.append(1)\nrows = users", []),
            ("double(len(users))", [double]),
            ("usrs", []),
            ("open('a.txt', 'w').write('x')\nopen('a.txt').read()", []),
        ]:
            texts.clear()
            run(code)
            assert texts == [code.replace("$", ""), *others], code
        texts.clear()
        run("1 +")
        assert texts == ["1 +"], "of what cannot be parsed it is known, too"


@pytest.mark.slow
def test_names_for_hints_are_looked_up_where_an_error_may_want_them(
    stocked: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    names = variables.of_tools_first
    monkeypatch.setattr(variables, "of_tools_first", lambda *given: (asked.append(1), names(*given))[1])
    for code in ("1 + 1", "n = len(users)\nprint(n)", "df('users').shape", "sorted(r['id'] for r in $users)[:3]"):
        assert stocked.run(code).error is None
        assert asked == [], code
    for code in (
        "usrs",
        "import socket",
        "open('users.csv')",
        "pd.read_excel('users.xlsx')",
        "from urllib.request import urlopen",
        "def f():\n    import requests\nf()",
    ):
        asked.clear()
        error = stocked.run(code).error
        assert asked and error is not None and error.hint is not None and "users" in error.hint, code


def test_an_interpreter_of_a_hosts_own_is_given_plain_text(sandbox: Sandbox) -> None:
    """It may send it elsewhere: not every encoder takes what is more than a str."""

    class Own:
        def run(self, code: str, *given: Any, state: State | None = None, **options: Any) -> Outcome:
            code, definitions = msgspec.json.decode(msgspec.json.encode([code, state and state.definitions]))
            assert definitions is None
            return sandbox.run(code, *given, state=state, **options)

        jq, pick, render, sql, close = sandbox.jq, sandbox.pick, sandbox.render, sandbox.sql, sandbox.close

    with Engine("sqlite:///:memory:", interpreter=Own()) as engine:
        session = engine.session("chat")
        session.run("def double(n): return 2 * n")
        assert session.run("double($double and 4)").value == 8


@pytest.mark.slow
def test_a_call_during_which_the_interpreter_is_closed_is_an_error_and_runs_anew_afterwards(tmp_path: Path) -> None:
    url, code = f"sqlite:///{tmp_path}/closed.db", {"code": "import time\ntime.sleep(20)\n6 * 7"}
    own = Sandbox()
    with Engine(url, create=True, interpreter=own) as engine, ThreadPoolExecutor(1) as threads:
        session = engine.session("chat")
        assert session.run("1").value == 1
        going_on = threads.submit(session.call, "code_interpreter", code, call_id="call-1")
        time.sleep(0.5)
        own.close()
        with pytest.raises(ConfigurationError, match="the engine is closed"):
            going_on.result()
        for again in (lambda: session.run("1"), lambda: session.call("code_interpreter", {"code": "1"})):
            with pytest.raises(ConfigurationError, match="the engine is closed"):
                again()
    with Engine(url) as engine:
        short = {"code": "6 * 7"}
        assert engine.session("chat").call("code_interpreter", short, call_id="call-1").content == "42"
