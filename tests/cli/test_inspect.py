"""The verbs that read: `sessions`, `tenants`, `show`, `ledger`, `explain`, `history`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli_kit import RECORDS, Run
from sqlalchemy import Connection, update

import byref
from byref.accounting import ledger
from byref.db.tables import ArtifactRow


def test_what_is_in_a_session(run: Run, users: Path) -> None:
    run("process", str(users), "--call-id", "call_7")
    listed = run("show")
    rows = [line.split("\t") for line in listed.out.splitlines()]
    assert rows[0] == ["what", "name", "holds", "step", "of"]
    assert [row[1] for row in rows[1:3]] == ["users", "users_2"]
    shown = run("show", "--json").json
    assert [variable["path"] for variable in shown["variables"]] == [[], ["users"]]
    assert json.loads(run("show", "users_2").out) == RECORDS
    assert json.loads(run("show", "$users").out)["next_cursor"] == "abc"
    assert run("show", shown["artifacts"][0]["id"], "--json").json["schema"]["type"] == "object"
    assert json.loads(run("show", "1").out)["omitted"]["tokens"]
    assert run("show", "1", "--json").json["route"] == "variables"
    missing = run("show", "nothing")
    assert missing.code == 1
    assert "no variable, artifact or step 'nothing'" in missing.err


def test_code_that_waits_for_approval(run: Run) -> None:
    def refund(order: int) -> int:
        return order

    with byref.Engine("sqlite:///byref.db") as engine:
        session = engine.session("cli", functions=[byref.Function.of(refund, approval=True)])
        session.call("code_interpreter", {"code": "refund(7)"}, call_id="call_1")
    [listed] = [line.split("\t") for line in run("pending").out.splitlines()[1:]]
    assert (listed[1:3], listed[4:]) == (["cli", "call_1"], ["refund", '{"order": 7}'])
    [waiting] = run("pending", "--all-tenants", "--json").json
    assert waiting["calls"][0]["id"] == listed[3] and waiting["calls"][0]["arguments"] == {"order": 7}
    assert "pending: 1 calls of code wait for approval: refund" in run("show").err
    assert run("pending", "--tenant", "other", "--json").json == []


def test_a_table_inside_an_output_is_a_name_too(run: Run) -> None:
    pulls = {
        f"org/r{n}": {"data": {"pulls": [{"number": 1_000 * n + k, "title": "t"} for k in range(300)]}}
        for n in range(5)
    }
    with byref.Engine("sqlite:///byref.db") as engine:
        session = engine.session("cli", policy=byref.Policy(envelope_form="outline"))
        session.process({"repos": pulls, "total": 1_500}, tool="get_pulls")
    row = next(line.split("\t") for line in run("show").out.splitlines() if "pulls[]" in line)
    assert (row[:3], row[4].split(" ")[1]) == (
        ["variable", "pulls", "array(1500) of object(3 keys)"],
        "repos.*.data.pulls[]",
    )
    assert json.loads(run("show", "pulls").out)[301] == {"repos_key": "org/r1", "number": 1_001, "title": "t"}
    shown = run("show", "$pulls", "--json").json
    assert len(shown["value"]) == 1_500
    assert (shown["path"], shown["at"], shown["columns"]) == (
        ["repos", "*", "data", "pulls", "[]"],
        "repos.*.data.pulls[]",
        ["repos_key"],
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("swept", [False, True])
def test_what_has_expired_says_what_it_was(run: Run, users: Path, swept: bool) -> None:
    run("process", str(users), "--tool", "list_users")
    with byref.Engine("sqlite:///byref.db") as engine:
        artifact = engine.session("cli").artifacts()[0]
        past = update(ArtifactRow).values(expires_at=datetime.now(UTC) - timedelta(minutes=1))
        engine.database.write(lambda connection: connection.execute(past))
    if swept:
        assert "artifacts\t1" in run("sweep").out
    for key in ("list_users", "$users", "var_step_1", artifact.id, artifact.pointer):
        ran = run("show", key)
        assert (ran.code, ran.out) == (run("show", "nothing").code, "")
        assert ran.err.startswith(f"byref: {key!r} is gone: it expired on 20")
        assert f"It was application/json, {artifact.size_bytes:,} bytes, " in ran.err
        assert ran.err.endswith("Call list_users again to have it again.\n")
        assert run("show", key, "--json")[:2] == (ran.code, "")
    assert "no variable, artifact or step 'nothing'" in run("show", "nothing").err


def test_the_ledger_and_its_reasons(run: Run, users: Path) -> None:
    run("process", str(users), "--call-id", "7")
    run("run", "nope")
    ledger = run("ledger")
    rows = [line.split("\t") for line in ledger.out.splitlines()]
    assert rows[1][:6] == ["1", "output", "users", "7", "variables", "max_result_tokens"]
    assert rows[2][1] == "reply (error)"
    assert "saved" in ledger.err
    whole = run("ledger", "--json").json
    assert whole["totals"]["outputs"] == 1
    assert whole["entries"][0]["tokens_saved"] == whole["totals"]["tokens_saved"]
    assert run("explain", "1").out == run("explain", "7").out
    assert run("explain", "1").out.startswith("users (step 1): variables, because its ")
    assert run("explain", "7", "--json").json["numbers"]["limit"] == 7000
    assert run("explain", "99").code == 1


def test_the_ledger_shows_resolutions(run: Run) -> None:
    written = '{"ids": "$users"}'
    with byref.Engine("sqlite:///byref.db") as engine:
        scope = engine.session("cli")._scope

        def resolve(connection: Connection) -> None:
            columns = {"call_id": "c", "arguments": written, "tokens": 0, "detail": {"tool": "send"}}
            scope.append(connection, ledger.take_step(connection, scope.row), "resolution", columns)

        scope.write(resolve)
    assert run("ledger").out.splitlines()[1].split("\t") == ["1", "resolution", "send", "c", *[""] * 8]
    assert run("ledger", "--json").json["entries"][0]["arguments"] == written
    assert run("show", "1").out == f"resolution: {written}\n"
    assert run("explain", "1").code == 1


def test_sessions_and_tenants_have_bytes_tokens_and_dollars(shop: Run, users: Path) -> None:
    with byref.Engine("sqlite:///byref.db") as engine:
        session = engine.session("chat 1", tenant="acme")
        session.record_usage({"input_tokens": 1_000, "output_tokens": 10, "model": "claude-sonnet-5"})
        spent, saved = session.usage().cost, session.usage().tokens_saved
    size = users.stat().st_size
    rows = [line.split("\t") for line in shop("sessions", "--all-tenants").out.splitlines()]
    assert rows[0][:9] == ["tenant", "session", "model", "steps", "bytes", "in", "out", "saved", "usd"]
    assert rows[1][:9] == ["acme", "chat 1", "gpt-5", "2", str(size), "1000", "10", str(saved), f"{spent:.4f}"]
    assert rows[2][:9] == ["acme", "chat-2", "gpt-5", "1", str(size), "", "", str(saved), ""]
    assert [row[0] for row in rows[1:]] == ["acme", "acme", "globex"]
    assert [row.split("\t")[:4] for row in shop("tenants").out.splitlines()] == [
        ["tenant", "sessions", "steps", "bytes"],
        ["acme", "2", "3", str(size)],  # equal bytes are stored once
        ["globex", "1", "1", str(size)],
    ]
    told = shop("tenants", "--json").json[0]
    assert (told["id"], told["input_tokens"], told["cost"]) == ("acme", 1_000, float(spent))
    empty = shop("sessions")
    assert "`byref tenants` lists the tenants" in empty.err


def test_a_session_of_another_tenant_is_found_by_what_the_error_says(shop: Run) -> None:
    elsewhere = shop("ledger", "--session", "chat 1").err
    assert elsewhere == "byref: there is no session 'chat 1' of tenant 'default', but of another: --tenant acme\n"
    assert "give --tenant with one of acme, globex" in shop("show", "--session", "chat-2").err
    nowhere = shop("explain", "1", "--session", "x", "--db", "./byref.db").err
    assert "`byref sessions --all-tenants --db ./byref.db` lists" in nowhere


def test_history_has_each_output_as_it_came_and_as_it_was_read(shop: Run, users: Path) -> None:
    words = ("--tenant", "acme", "--session", "chat-2")
    shop("process", "-", *words, "--tool", "small", stdin=b"all of it")
    rows = [line.split("\t") for line in shop("history", *words).out.splitlines()]
    assert rows[0] == ["step", "tool", "call", "arguments", "came", "read"]
    assert rows[1][:4] == ["1", "users", "call_1", ""]
    assert rows[1][4].endswith(f", {users.stat().st_size:,} bytes")
    assert rows[2][1:] == ["small", "", "", "as it was read", "all of it"]
    first, second = shop("history", *words, "--json").json
    assert first["original"]["size_bytes"] == users.stat().st_size
    assert json.loads(first["processed"])["preview"]
    assert (second["original"], second["processed"]) == ("all of it", "all of it")


@pytest.mark.slow  # readers of the service and of MCP are given one in a quick run
def test_a_table_too_big_to_be_stored_as_json_is_shown_as_records(run: Run) -> None:
    run("run", "big = pd.DataFrame({'a': range(200_001)})")
    assert run("show", "big").out.splitlines()[:3] == ["[", '{"a":0},', '{"a":1},']
    assert run("show", "big", "--json").json["value"][-1] == {"a": 200_000}
