"""Everyday analytics runs as written: each snippet of everyday.txt gives what is recorded there, which is what plain Python gives."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import io
import json
import types
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from corpus import pieces

from byref_sandbox import Sandbox
from byref_sandbox.code.source import strip_dollars
from byref_sandbox.language.policy import Language

ORDERS = [
    (1, "north", "paid", 120.5, "2024-01-03"),
    (2, "south", "open", 80.0, "2024-01-15"),
    (1, "north", "paid", 60.25, "2024-02-02"),
    (3, "west", "lost", 15.0, "2024-02-20"),
    (4, "south", "paid", 200.0, "2024-02-28"),
    (2, "north", "open", 99.99, "2024-03-05"),
    (9, "west", "paid", 500.0, "2024-03-31"),
    (3, "south", "paid", 42.5, "2024-04-01"),
]
VARIABLES = {
    "users": [
        {"id": 1, "name": "Ann", "age": 34, "city": "Oslo"},
        {"id": 2, "name": "Bob", "age": 25, "city": "Rome"},
        {"id": 3, "name": "Cy", "age": 25, "city": "Oslo"},
        {"id": 4, "name": "Di", "age": 51, "city": "Bern"},
    ],
    "orders": [
        {"id": 100 + i, "customer_id": c, "region": r, "status": s, "amount": a, "date": d}
        for i, (c, r, s, a, d) in enumerate(ORDERS)
    ],
    "text": "2024-01-01 ERROR disk full on node7, mail ops@example.com\n2024-01-01 INFO request took 250 ms\n"
    "2024-01-02 WARN  retry after 90 ms, ask dev.team@example.org\n2024-01-02 INFO request took 120 ms\n",
}
PREBOUND = {"pd": pd, "np": np, "Counter": Counter, "defaultdict": defaultdict, "functools": functools, "json": json}
SNIPPETS = {piece.name: (piece.code, piece.recorded) for piece in pieces("everyday.txt")}


def shown(output: str, value: object) -> str:
    return output + (f"{value!r}\n" if value is not None else "")


def test_there_are_enough_snippets() -> None:
    assert len(SNIPPETS) >= 220


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippet_runs_as_recorded(language: Language, name: str) -> None:
    code, recorded = SNIPPETS[name]
    output = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stderr(output):
        warnings.simplefilter("ignore")
        ran = language.run(language.compile(code), copy.deepcopy(VARIABLES), output)
    assert shown(output.getvalue(), ran.value) == recorded


@pytest.mark.slow  # it tells of the file and of the libraries, nothing of this language
@pytest.mark.parametrize("name", SNIPPETS)
def test_what_is_recorded_is_what_plain_python_gives(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # plain Python writes files
    code, recorded = SNIPPETS[name]
    tree = ast.parse(strip_dollars(code))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    space = {"__name__": "__main__", **PREBOUND, **copy.deepcopy(VARIABLES)}
    monkeypatch.setitem(__import__("sys").modules, "__main__", types.ModuleType("__main__"))
    output = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        warnings.simplefilter("ignore")
        exec(compile(tree, "<plain>", "exec", dont_inherit=True), space)
        value = (
            eval(compile(ast.Expression(last.value), "<plain>", "eval", dont_inherit=True), space)
            if isinstance(last, ast.Expr)
            else None
        )
    assert shown(output.getvalue(), value) == recorded


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if at % 3 else []) for at, name in enumerate(SNIPPETS)]
)
def test_snippet_runs_in_the_jail(sandbox: Sandbox, name: str) -> None:
    """A quick run takes every third: what the language lets pass is the same, and system calls differ by library, not by snippet."""
    code, recorded = SNIPPETS[name]
    tree = ast.parse(strip_dollars(code))
    if isinstance(last := tree.body[-1], ast.Expr):
        shown = ast.parse("if (the_value := None) is not None: print(repr(the_value))").body[0]
        next(n for n in ast.walk(shown) if isinstance(n, ast.NamedExpr)).value = last.value
        tree.body[-1] = shown
    outcome = sandbox.run(ast.unparse(tree), VARIABLES)
    assert outcome.error is None
    assert outcome.stderr + outcome.stdout == recorded
