"""Attacks through the libraries of `byref[science]` get nothing from the language; what code reaches from their objects is harmless."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import pytest
from breach import Run, attempts
from reach import reached
from science_attacks import ATTACKS
from science_samples import SAMPLES
from test_language_reach import in_a_fork

from byref_sandbox.language.policy import Language

QUICK = ("scipy", "networkx")
LIBRARIES = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in ATTACKS]


@pytest.fixture(scope="module")
def language() -> Language:
    return Language()


def _learned(language: Language, library: str) -> Language:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        language.learn(library)
    return language


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("library", LIBRARIES)
def test_attacks_get_nothing(language: Language, library: str, tmp_path: Path) -> None:
    _learned(language, library)

    def attack(code: str) -> Run:
        def run(given: dict[str, Any], output: io.StringIO) -> object:
            ran = language.run(language.compile(code), given, output)
            return [ran.value, *ran.names.values()]

        return run

    achieved = attempts({name: attack(code) for name, code in ATTACKS[library].items()}, tmp_path)
    assert {name: what for name, what in achieved.items() if what is not None} == {}


def test_there_are_enough_attacks() -> None:
    assert sum(map(len, ATTACKS.values())) >= 600


@pytest.mark.slow
@pytest.mark.parametrize("library", ATTACKS)
def test_what_their_objects_and_modules_lead_to(language: Language, library: str) -> None:
    _learned(language, library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = language.execute(
            language.compile("import warnings\n" + SAMPLES[library]), language.space({}), io.StringIO()
        )
    assert isinstance(values, list)
    starts: dict[str, object] = {f"<{type(value).__name__} {number}>": value for number, value in enumerate(values)}
    starts |= {name: facade for name, facade in language._modules.facades.items() if name.partition(".")[0] == library}

    def look() -> list[str]:
        reach = reached(language, starts, depth=2, most=40_000)
        return [*reach.found, *([] if len(reach.seen) > 3000 else [f"only {len(reach.seen)} were seen"])]

    assert in_a_fork(look) == []
