"""The same sessions in the real jail: each run is a process of its own."""

from __future__ import annotations

import pytest
from cases import KEPT, REFUSED
from injail import JailedNotebook
from test_state_cases import plain, reset

from byref_sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", KEPT)
def test_a_session_is_one_process_behind_the_walls(sandbox: Sandbox, name: str) -> None:
    reset()
    expected = plain(KEPT[name])
    reset()
    notebook = JailedNotebook(sandbox)
    for cell in KEPT[name][:-1]:
        ran = notebook.run(cell)
        assert not ran.error
        assert not ran.lost
    assert not notebook.run("None").lost
    ran = notebook.run(KEPT[name][-1])
    assert ran.error is None
    assert ran.value == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_named_behind_the_walls(sandbox: Sandbox, name: str) -> None:
    cell, lost, look, expected = REFUSED[name]
    notebook = JailedNotebook(sandbox)
    assert notebook.run(cell).lost.keys() == lost.keys()
    assert notebook.run(look).value == repr(expected)
