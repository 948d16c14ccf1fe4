"""Things that models use and that do not exist here: each reply names the construct and its line, and says what to use instead."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from corpus import Piece, pieces

from byref_sandbox.language import missing
from byref_sandbox.language.policy import Language, Refused
from byref_sandbox.outcome import Failure

REFUSALS = pieces("refusals.txt")
"""What is written, the kind of the failure and its line, its message and its hint."""


def reply(language: Language, code: str) -> Failure:
    variables = {"users": pd.DataFrame({"id": [1]}), "orders": [1]}
    try:
        program = language.compile(code)
    except Refused as refused:
        return refused.failure
    with pytest.raises(BaseException) as caught:
        language.run(program, variables, io.StringIO())
    return language.explain(caught.value, program, variables)


def test_there_are_enough() -> None:
    assert len({refusal.code for refusal in REFUSALS}) >= 100


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.code)
def test_what_is_not_there_is_refused_in_words(
    language: Language, refusal: Piece, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing, "_INSTALLED", frozenset())  # as without byref[science]
    failed = reply(language, refusal.code)
    assert f"{failed.kind} in line {failed.line}" == refusal.name
    assert "".join(f"{text}\n" for text in (failed.message, failed.hint) if text) == refusal.recorded


def test_what_is_installed_and_not_loaded_is_not_said_to_be_missing(language: Language) -> None:
    pytest.importorskip("scipy")
    failed = reply(language, "import scipy.stats")
    assert failed.hint == "scipy is installed: write `import scipy` in the same code, which loads it"


def test_every_module_named_in_a_hint_is_there(language: Language) -> None:
    for code in (
        "posixpath",
        "pathlib",
        "zoneinfo",
        "tomllib",
        "html.parser",
        "xml.etree.ElementTree",
        "dateutil",
        "ast",
    ):
        language.run(language.compile(f"import {code}"), {}, io.StringIO())


def test_no_module_that_is_there_is_said_not_to_be(language: Language) -> None:
    from byref_sandbox.language.missing import instead_of

    there = [
        name
        for name in language._modules.facades
        if name not in ("numpy", "pandas", "pyarrow", "numpy.typing", "pandas.io.formats.style", "yaml", "texttable")
    ]
    assert [name for name in there if instead_of(name) is not None] == []


@pytest.mark.parametrize("has_plots", [True, False])
def test_what_is_not_installed_is_told_with_its_extra(has_plots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from byref_sandbox.language import missing

    monkeypatch.setattr(missing, "_HAS_PLOTS", has_plots)
    monkeypatch.setattr(missing, "_INSTALLED", frozenset())
    hints = {name: (missing.instead_of(name) or ("",))[0] for name in ("yaml", "seaborn", "plotly")}
    assert "byref[tables]" in hints["yaml"] and "byref[science]" in hints["seaborn"]
    for name in ("seaborn", "plotly"):
        assert ("byref[plots]" not in hints[name]) is ("use matplotlib.pyplot" in hints[name]) is has_plots
