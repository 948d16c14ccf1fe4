"""The language runs pandas' and numpy's own examples; what differs needs files, other packages, raw memory or private names."""

from __future__ import annotations

import pytest
from docstrings import differs_in_the_jail, measure, numpy_documentation, pandas_documentation

from byref_sandbox import Limits, Sandbox


@pytest.mark.slow
def test_pandas_examples_run_as_in_plain_python() -> None:
    found = measure(pandas_documentation())
    assert found.objects > 1200
    assert [d for d in found.differences if d.reason == "differs"] == []
    assert found.object_share >= 0.99
    assert found.example_share >= 0.99
    assert found.share_of_others >= 0.995


@pytest.mark.slow
def test_pandas_examples_run_in_the_jail() -> None:
    found = measure(pandas_documentation())
    assert len(found.same) > 1200
    with Sandbox(Limits(wall_seconds=20, cpu_seconds=10)) as sandbox:
        assert differs_in_the_jail(sandbox, found) == []


@pytest.mark.slow
def test_numpy_examples_run_as_in_plain_python() -> None:
    found = measure(numpy_documentation())
    assert found.objects > 800
    assert {d.path for d in found.differences if d.reason == "differs"} <= {"numpy.matrix.resize"}  # refcheck=False
    assert found.object_share >= 0.985
    assert found.example_share >= 0.985
    assert found.share_of_others >= 0.995
