"""A large map, of which most values are not parsed, is offered to the model as one that is parsed, but for what is said of its values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import pytest

from byref import Engine, Policy
from byref.describe.rows import Entries
from byref.describe.truncate import incomplete_json
from byref.jsonscan import LazyJSON, describe_text, groups

POLICIES = {
    "outline": Policy(max_result_tokens=600),
    "artifact": Policy(max_result_tokens=600, mode="artifact"),
    "truncate": Policy(max_result_tokens=600, mode="truncate"),
    "variables": Policy.variables(max_result_tokens=600),
    "previews": Policy.previews(),
}


def record(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": f"user {n}",
        "tags": ["a", "b"][: n % 3],
        "home": {"zip": f"{n:05d}", "floor": n % 4 or None},
    }


BY_ID = {f"user-{n}": record(n) for n in range(7_000)}
VALUES: dict[str, Any] = {
    "by id": BY_ID,
    "in a page": {"total": 7_000, "users": BY_ID, "next": None},
    "rows": {f"SYM{n}": [n, n / 4, "x" * (n % 9), None] for n in range(25_000)},
    "long keys": {f"{'/path' * 40}/{n}": {"status": n % 500, "is_ok": n % 2 == 0} for n in range(3_000)},
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    if not groups.available:
        pytest.skip("byref was installed without a compiler")
    with Engine("sqlite://", create=True, jail="language-only") as engine:
        yield engine


def said(engine: Engine, value: Any, name: str) -> tuple[str, list[tuple[str, str]]]:
    session = engine.session(token_hex(4), context_window=200_000, policy=POLICIES[name])
    result = session.process(value, tool="list_users")
    text = re.sub(r"art[_:][-\w]+|\"values\":\{.*?\}(?=,\"preview\")", "…", result.text)
    return text, [(variable.name, variable.shape) for variable in result.variables]


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("what", VALUES)
def test_a_large_map_is_offered_like_one_that_is_parsed(
    engine: Engine, what: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = VALUES[what]
    described = describe_text(json.dumps(value).encode())
    assert described is not None
    outline: Any = described.outline
    assert type(outline["users"] if what == "in a page" else outline) is Entries
    found = [said(engine, given, name) for given in (json.dumps(value), value)]
    monkeypatch.setattr(groups, "available", False)
    assert found == [said(engine, given, name) for given in (json.dumps(value), value)]


def test_what_is_said_of_some_values_is_said_to_be(engine: Engine) -> None:
    session = engine.session(token_hex(4), context_window=200_000, policy=POLICIES["outline"])
    envelope = session.process(BY_ID, tool="list_users").envelope
    assert envelope is not None
    facts = envelope["values"]
    assert facts and all("sample" in path or "sample" in str(fact) for path, fact in facts.items()), facts


@pytest.mark.parametrize("budget", [20, 60, 600])
def test_a_large_map_that_a_run_gives_is_cut_like_one_that_is_parsed(engine: Engine, budget: int) -> None:
    outline = LazyJSON(json.dumps(BY_ID).encode()).outline
    assert type(outline) is Entries
    cut = [
        incomplete_json(one, "n", budget=budget, measure=lambda text: len(text) // 3, size=10**6)
        for one in (outline, BY_ID)
    ]
    assert cut[0] == cut[1]
    assert "INCOMPLETE: n" in str(json.loads(cut[0]))
