"""A sample of the notebooks that `make notebooks` runs, and the measurement itself."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pandas as pd
import plain
import pytest
import sessions
from sampled import sampled

from byref import Session
from byref_sandbox import Sandbox

SAMPLE = (
    "aliases_lists", "closures", "collections_mix", "dataclasses_orders", "errors_keep_going", "groupby_objects", "last_value",
    "late_globals", "multiindex", "numpy_views", "seeds", "unpack_many_names",
)  # fmt: skip


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", sampled(SAMPLE, 6))
def test_a_notebook_gives_what_it_gives_elsewhere(name: str, chat: Session, sandbox: Sandbox) -> None:
    [notebook] = [one for one in sessions.own() if one.name == name]
    shell, wanted, run = plain.Plain({"__name__": "__main__", "np": np, "pd": pd}), [], sessions.Run()
    for number, code in enumerate(notebook.cells):
        output, error, value = io.StringIO(), None, ""
        try:
            with contextlib.redirect_stdout(output):
                value = plain.value_of(shell.run(code))
        except Exception as raised:
            error = type(raised).__name__
        wanted.append((error, output.getvalue(), value, 0))
        if number % 2:
            sandbox._forget_sessions()
        sessions._call(chat, code, run)
    assert sessions.differences(notebook, wanted, run) == []


def test_what_differs_is_told_or_silent() -> None:
    notebook = sessions.Notebook("n", "own", ("g = iter({})", "a", "b"))
    wanted = [(None, "", "json 1 ", 0)] * 3
    run = sessions.Run(
        [wanted[0], (None, "", "json 2 ", 0), ("NameError", "", "", 0)], ["g: an iterator", "", "NameError: b"]
    )
    found = sessions.differences(notebook, wanted, run)
    assert [(one.cell, one.told) for one in found] == [(1, "g: an iterator"), (2, "NameError: b")]
    silent = sessions.Run(run.cells[:2] + wanted[:1], ["", "", ""])
    assert [(one.cell, one.told) for one in sessions.differences(notebook, wanted, silent)] == [(1, "")]
