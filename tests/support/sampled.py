"""Of many cases of the same walk, a quick run takes some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def sampled(cases: Sequence[Any], step: int) -> list[Any]:
    """The cases of a parametrized test; all but the first of each `step` are slow."""
    return [
        pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.slow if place % step else [])
        for place, case in enumerate(cases)
    ]
