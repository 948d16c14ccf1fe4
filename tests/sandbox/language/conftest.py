"""The language by itself, without processes."""

from __future__ import annotations

import pytest

from byref_sandbox.language.policy import Language


@pytest.fixture(scope="module")
def language() -> Language:
    return Language()


@pytest.fixture(scope="module")
def language_with_plots() -> Language:
    made = Language()
    made.load_plots()
    return made
