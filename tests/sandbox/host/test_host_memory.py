"""The host's memory that results of code take, each measured in a fresh process, at default limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MOST_MIB = 256
MEASURE = """
import json, sys
import byref
from byref_sandbox import Sandbox

def memory(field):
    lines = open("/proc/self/status")
    return int(next(line for line in lines if line.startswith(field)).split()[1]) >> 10

def shown(outcome):
    if outcome.error is not None:
        return f"{outcome.error.kind}: {outcome.error.message}; {outcome.error.hint}"
    kept = [*outcome.bound, *outcome.unkept.values(), *(figure.name for figure in outcome.figures)]
    return " ".join(map(str, (outcome.kind, type(outcome.value).__name__, len(outcome.text), outcome.is_partial, *kept)))

route, code, url = sys.argv[1:]
with byref.Engine(url) as engine, Sandbox() as sandbox:
    session = engine.session("memory", tools=["code_interpreter", "artifact_sql", "artifact_jq"])
    session.process([{"n": number} for number in range(3_000)], tool="rows")
    tools = {"call": ("code_interpreter", "code", "1"), "sql": ("artifact_sql", "query", "SELECT 1")}
    if route == "jq":
        def work(code):
            given = {"artifact_id": "rows", "expression": code}
            return str(session.call("artifact_jq", given).content)[-300:]
        work(".[0]")
    elif route in tools:
        tool, argument, first = tools[route]
        def work(code):
            return str(session.call(tool, {argument: code}).content)[-300:]
        work(first)
    else:
        def work(code):
            return shown(session.run(code) if route == "session.run" else sandbox.run(code))
        work("1")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = memory("VmRSS")
    told = work(code)
    print(json.dumps([memory("VmHWM") - before, told]))
"""
RECORDS = "[{'id': i, 'name': f'name {i}', 'total': i / 7, 'tags': ['a', 'b']} for i in range(%s)]"
WORST = {
    "empty texts": ("call", "[''] * 21_000_000", "array"),
    "empty texts, run by the host": ("sandbox.run", "[''] * 21_000_000", "OutputLimit"),
    "empty texts, kept": ("session.run", "x = [''] * 21_000_000\nlen(x)", "json int 8"),
    "as many empty texts as may come": ("session.run", "[''] * 7_900_000", "json"),
    "as many empty texts as may come, inside one": ("call", "[[''] * 7_900_000]", "INCOMPLETE"),
    "half as many objects": ("call", "[{'k': 1}] * 2_000_000", "array(2000000) of object(1 key)"),
    "objects": ("call", "[{'k': 1}] * 3_990_000", "array(3990000) of object(1 key)"),
    "objects, run by the host": ("sandbox.run", "[{'k': 1}] * 3_990_000", "True"),
    "objects, kept": ("call", "x = [{'k': 1}] * 3_990_000", "array(3990000) of object(1 key)"),
    "objects of keys of their own": ("call", "[{f'{i:06}{\"k\" * 50}': i} for i in range(900_000)]", "INCOMPLETE"),
    "one object": ("call", "{f'k{i}': i for i in range(1_000_000)}", "object(1000000 keys)"),
    "nested arrays": ("call", "[[[[[]]]]] * 1_300_000", "array(1300000)"),
    "records": ("session.run", RECORDS % "200_000", "json list"),
    "as many records as may come": ("call", f"x = {RECORDS % '700_000'}\nx", "array(700000) of object(4 keys)"),
    "integers": ("sandbox.run", "list(range(1_000_000))", "json list"),
    "a long text": ("sandbox.run", "'a' * 60_000_000", "json str 60000000"),
    "a long text of the model's": ("call", "'a' * 60_000_000", "variable"),
    "a long text with one wide character": ("session.run", "'\U0001f600' + 'a' * 60_000_000", "json"),
    "long texts with wide characters": ("session.run", "['\U0001f600' + 'a' * 6_000_000] * 10", "json NoneType"),
    "a long text and a value": ("call", "x = '\U0001f600' + 'a' * 30_000_000\n'\U0001f600' + 'b' * 30_000_000", "kept"),
    "a table": (
        "call",
        "x = pd.DataFrame({'a': np.random.rand(7_500_000)})\nx",
        "7,500,000 rows",
    ),
    "a table of texts": ("call", "pd.DataFrame({'a': [f'{i}' * 5 for i in range(1_000_000)]})", "rows"),
    "cells": ("call", "pd.DataFrame({'a': [[''] * 1000] * 7_000})", "rows"),
    "lone surrogates": ("call", "['\\ud800'] * 6_000_000", "INCOMPLETE"),
    "large integers": ("sandbox.run", "[10 ** 4000] * 15_000", "json"),
    "an error": ("call", "raise ValueError('\U0001f600' * 50_000_000)", "ValueError"),
    "what is printed": ("call", "for i in range(200): print('\U0001f600' * 1_000_000)", "printed"),
    "images": (
        "call",
        "for i in range(4):\n    plt.figure(figsize=(19, 19))\n    plt.imshow(np.random.rand(1900, 1900, 3))\n    plt.axis('off')",
        "plot_1",
    ),
    "a query": ("sql", "SELECT a.n AS a, b.n AS b FROM rows a, rows b LIMIT 3000000", "3,000,000 rows"),
    "a query of texts": (
        "sql",
        "SELECT repeat('ab', 30) AS a, b.n AS b FROM rows a, rows b LIMIT 600000",
        "600,000 rows",
    ),
    "outputs of jq": ("jq", 'range(10_000_000) | ""'.replace("_", ""), "outputs"),
}


def measured(place: Path, route: str, code: str) -> tuple[int, str]:
    command = [sys.executable, "-c", MEASURE, route, code, f"sqlite:///{place / 'memory.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]
    mib, told = json.loads(done.stdout.splitlines()[-1])
    return mib, told


@pytest.mark.slow  # what each is made of is weighed and bounded by quick tests of replies
@pytest.mark.parametrize("name", WORST)
def test_no_result_takes_more_of_the_host_than_a_small_multiple_of_its_bytes(tmp_path: Path, name: str) -> None:
    route, code, expected = WORST[name]
    mib, told = measured(tmp_path, route, code)
    print(f"{name:45} {mib:5} MiB  {told[-100:]!r}")
    assert mib < MOST_MIB
    assert expected in told
