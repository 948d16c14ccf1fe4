"""The verbs that add to a session: what `process`, `run` and `tool` print, where they print it, and their exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli_kit import RECORDS, Run

from byref.cli import main
from byref_sandbox.code import sqltext


def test_process_prints_what_the_model_reads_and_nothing_else(run: Run, users: Path) -> None:
    ran = run("process", str(users))
    assert (ran.code, ran.err) == (0, "")
    envelope = json.loads(ran.out)
    assert list(envelope["variables"]) == ["users", "users_2"]
    assert envelope["preview"]["total"] == 3000


def test_process_reads_standard_input_byte_for_byte(run: Run) -> None:
    assert run("process", "-", stdin="größer\n".encode()).out == "größer\n"
    assert run("sessions").out.splitlines()[1].startswith("cli\t")


def test_process_json_is_the_whole_result(run: Run, users: Path) -> None:
    ran = run(
        "process", "--json", "--tool", "list_users", "--call-id", "c1", "--model", "claude-sonnet-4-5", str(users)
    )
    result = ran.json
    assert (result["route"], result["reason"], result["step"]) == ("variables", "max_result_tokens", 1)
    assert result["tokens_saved"] == result["original_tokens"] - result["tokens"] > 0
    assert [variable["name"] for variable in result["variables"]] == ["list_users", "users"]
    assert result["artifacts"][0]["size_bytes"] == users.stat().st_size
    assert json.loads(result["content"]) == result["envelope"]
    again = run("process", "--json", "--tool", "list_users", "--call-id", "c1", str(users)).json
    assert again["step"] == 1
    assert again["content"] == result["content"]


def test_an_error_output_is_marked(run: Run) -> None:
    ran = run("process", "-", "--error", "--json", stdin=b"no such table\n")
    assert ran.json["is_error"] is True
    assert ran.json["reason"] == "error"


def test_binary_is_taken_in_and_given_back(run: Run, tmp_path: Path) -> None:
    data = bytes(range(256)) * 400
    (tmp_path / "image.bin").write_bytes(data)
    shown = run("process", "image.bin", "--context-window", "16000", "--json").json
    assert shown["route"] == "placeholder"
    with (tmp_path / "shown.bin").open("w") as shown_in, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", shown_in)
        assert main(("show", shown["artifacts"][0]["id"])) == 0
    assert (tmp_path / "shown.bin").read_bytes() == data


def test_run_prints_the_reply_and_a_mistake_is_exit_code_1(run: Run, users: Path) -> None:
    run("process", str(users))
    assert run("run", "sum(user['score'] for user in $users_2)")[:2] == (0, f"{sum(u['score'] for u in RECORDS)}\n")
    assert run("run", "-", stdin=b"top = users_2[:2]\nlen(top)").out.startswith("2\n[kept for later calls: top")
    assert run("run", "top[1]['id']").out == "1\n"
    wrong = run("run", "user_2")
    assert wrong.code == 1
    assert "Did you mean 'users_2'" in wrong.out
    assert run("run", "1/0", "--json").json["is_error"] is True


def test_tools_are_called_with_json(run: Run, users: Path) -> None:
    run("process", str(users))
    jq = '{"artifact_id": "users_2", "expression": "map(.score) | add"}'
    assert run("tool", "artifact_jq", jq).out == f"{sum(u['score'] for u in RECORDS)}\n"
    assert run("tool", "artifact_jq", "-", stdin=jq.encode()).code == 0
    assert json.loads(run("tool", "list_artifacts", "{}").out)[0]["sizeBytes"] == users.stat().st_size
    wrong = run("tool", "artifact_jq", "{nope")
    assert wrong.code == 1
    assert "no valid JSON" in wrong.out
    unknown = run("tool", "artifact_jk", "{}")
    assert unknown.code == 2
    assert "there are: code_interpreter, artifact_jq" in unknown.err


def test_an_extra_that_is_not_installed_is_named_to_whoever_asks_for_it_alone(
    run: Run, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqltext, "is_available", lambda: False)
    assert run("process", str(users)).err == ""
    assert run("run", "len(users_2)")[1:] == ("3000\n", "")
    assert run("tool", "list_artifacts", "{}").err == ""
    offered = run("tool", "nosuch", "{}").err
    assert "artifact_jq" in offered and "artifact_sql" not in offered
    asked = run("tool", "artifact_sql", '{"query": "SELECT 1"}')
    assert asked == (1, "", "byref: artifact_sql is not offered: it needs DuckDB: pip install 'byref[sql]'\n")
