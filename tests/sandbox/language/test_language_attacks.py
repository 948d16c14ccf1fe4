"""Attacks on the language alone: each would succeed in plain Python, where its loot is seen, and gets nothing here."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from breach import Run, attempt, attempts, in_plain_python
from corpus import pieces

from byref_sandbox.language.policy import Language

ATTACKS = {attack.name: attack.code for attack in pieces("attacks.txt")}


@pytest.fixture(scope="module")
def achieved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What each attack achieved."""
    language = Language()

    def attack(name: str) -> Run:
        def run(given: dict[str, Any], output: io.StringIO) -> object:
            ran = language.run(language.compile(ATTACKS[name]), given, output)
            return [ran.value, *ran.names.values()]

        return run

    return attempts({name: attack(name) for name in ATTACKS}, tmp_path_factory.mktemp("attacks"))


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 300


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_gets_nothing(achieved: dict[str, str | None], name: str) -> None:
    assert achieved[name] is None


CLOSED_ELSEWHERE = {
    "datetime sys": sys.version_info >= (3, 12),
    "numpy array interface by getattr": np.lib.NumpyVersion(np.__version__) >= "2.5.0",
    "the modules that classes of paths hold": sys.version_info < (3, 14),
    "the module of windows paths": sys.version_info < (3, 14),
    "a file as an entity of a table in XML": True,
    "a file as an entity of a table in XML, by another parser": True,
    "a style sheet of a table in XML": importlib.util.find_spec("lxml") is None,
}
"""Attacks that some versions of Python and of the libraries withstand by themselves."""


@pytest.mark.parametrize("name", [name for name in ATTACKS if not CLOSED_ELSEWHERE.get(name)])
@pytest.mark.slow
def test_attack_would_be_seen(name: str, tmp_path: Path) -> None:
    assert attempt(in_plain_python(ATTACKS[name]), tmp_path) is not None
