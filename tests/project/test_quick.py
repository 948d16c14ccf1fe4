"""What a quick run takes of long tables: this one is two times as long as it may be."""

from __future__ import annotations

import pytest
from engines import LARGE, MOST

from byref_sandbox import Sandbox


@pytest.mark.parametrize("kind", ["files", "objects"])
@pytest.mark.parametrize("case", range(MOST))
def test_of_cases_that_have_a_sandbox_some_are_quick(
    sandbox: Sandbox, request: pytest.FixtureRequest, case: int, kind: str
) -> None:
    is_quick = request.node.get_closest_marker("slow") is None
    assert is_quick == (kind == "files")  # every second


@pytest.mark.every_case("the mark is what is tested")
@pytest.mark.parametrize("case", range(MOST + 1))
def test_of_those_that_are_marked_all_are(sandbox: Sandbox, request: pytest.FixtureRequest, case: int) -> None:
    assert request.node.get_closest_marker("slow") is None


@pytest.mark.parametrize("case", range(MOST + 1))
def test_of_those_that_have_none_all_are(request: pytest.FixtureRequest, case: int) -> None:
    assert request.node.get_closest_marker("slow") is None


@pytest.mark.parametrize("size", range(9))
@pytest.mark.parametrize("form", range(3))
def test_of_a_large_product_each_value_is_taken_once(request: pytest.FixtureRequest, size: int, form: int) -> None:
    assert LARGE < 9 * 3
    is_quick = request.node.get_closest_marker("slow") is None
    assert is_quick == (form == size % 3)


@pytest.mark.parametrize("case", range(3))
def test_of_cases_on_databases_the_first_is_taken_on_each_and_the_others_in_turn(
    shared_url: str, request: pytest.FixtureRequest, case: int
) -> None:
    is_quick = request.node.get_closest_marker("slow") is None
    assert is_quick == (case == 0 or (case == 1) == shared_url.startswith("postgresql"))
