"""Attacks on what a session's graph has of libraries: with the language intact, and with streams that were forged."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import pytest
from attacks import pickled
from breach import Run, attempts
from library_attacks import FORGED, INTACT, SETTINGS
from notebook import Notebook
from reach import must_not_be_had
from test_state_attacks import read_forged

from byref_sandbox.code.libraries import LIBRARIES
from byref_sandbox.language.policy import Language, Refused
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.state.known import Known

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def known() -> Known:
    language = Language()
    language.learn_plots()
    for library in LIBRARIES:
        pytest.importorskip(library)
        language.learn(library)
    return Known(language)


@pytest.mark.parametrize("name", INTACT)
def test_no_code_runs_while_a_session_is_written_or_read(known: Known, name: str) -> None:
    notebook = Notebook(known.language, known=known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            notebook.run(INTACT[name])
        except (Refused, NotAllowed, AttributeError, ImportError, TypeError, ValueError):
            return  # the language refuses it, or the library
        for cell in ("x = 1", "y = 1"):
            assert "RAN" not in notebook.printed_by_graph
            notebook.run(cell)
    assert "RAN" not in notebook.printed_by_graph
    assert notebook.stored.table.names() >= {"x", "y"}


def test_what_is_forged_gives_no_more_than_the_language(known: Known, tmp_path: Path) -> None:
    language = known.language

    def attack(stream: bytes, code: str) -> Run:
        def go(given: dict[str, Any], output: io.StringIO) -> object:
            lost, space, _ = read_forged(known, pickled(stream))
            assert space["before"] == space["after"] == "whole"
            if "forged" not in space:
                return None if lost else "neither lost nor there"
            if why := must_not_be_had(language, space["forged"]):
                return [open, why]
            ran = language.run(language.compile(code), {**given, "forged": space["forged"]}, output)
            return [open, why] if (why := must_not_be_had(language, ran.value)) else ran.value

        return go

    achieved = attempts({name: attack(*attack_) for name, attack_ in FORGED.items()}, tmp_path)
    assert {name: what for name, what in achieved.items() if what is not None} == {}


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_settings_that_are_none_are_lost(known: Known, number: int) -> None:
    name, value = SETTINGS[number]
    with warnings.catch_warnings(), contextlib.suppress(ImportError):
        warnings.simplefilter("ignore")
        lost, space, _ = read_forged(known, pickled(b"N"), **{name: pickled(value)})
        assert name in lost
        assert space["after"] == "whole"
