"""In which order the parts of an outline give way as the budget shrinks (docs/texts.md), and that nothing is untrue on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.envelopes import untrue

from byref import Engine, Policy


def user(number: int) -> dict[str, Any]:
    return {
        "login": f"user{number}",
        "id": number,
        "url": f"https://api.example.com/users/user{number}/profile/and/more",
    }


def order(number: int) -> dict[str, Any]:
    return {
        "id": f"5f0c1c7e-0000-4000-8000-{number:012d}",
        "state": ("open", "closed", "paid")[number % 3],
        "total": number * 1.25,
        "url": f"https://api.example.com/orders/{number}",
        "html_url": f"https://example.com/orders/{number}",
        "note": "A rather long text that a customer wrote about what he ordered, and when. " * 2,
        "buyer": user(number % 9),
        "seller": user(number % 5),
        **({"coupon": "c"} if number % 4 == 0 else {}),
        "ship": {"street": "a", "city": "b", "geo": {"lat": 1.5, "lon": 2.5, "src": None}},
        "lines": [{"sku": f"s{k}", "qty": k, "tax": {"rate": 0.2, "code": "x"}} for k in range(1, 4)],
    }


SOURCE = {
    "orders": [order(number) for number in range(300)],
    "users": [user(number) for number in range(40)],
    "page": 1,
    "more": {"next": "abc", "prev": None},
}
BUDGETS = (1_200, 800, 600, 450, 350, 300, 299, 220, 180, 150, 149, 100)
GIVES_WAY: dict[str, tuple[str, str]] = {
    "2, beyond the aim: long strings": ("preview", "A rather long text that a customer wrote about w… +100"),
    "2, beyond the aim: ids": ("preview", "5f0c1c7e-0000-4000-8000-000000000000"),
    "2, beyond the aim: values but the most telling ones": ("values", '"total"'),
    "3, example: the second link": ("preview", '"html_url"'),
    "3, example: whole objects, the furthest from the top first": ("preview", '"tax"'),
    "3, example: whole objects, then of the next level": ("preview", '"users"'),
    "4, shape: how many objects have a key": ("schema", "coupon?(75)"),
    "4, shape: objects deep inside": ("schema", "geo:{"),
    "4, shape: the last members": ("schema", "lines:"),
    "5, values: the least telling ones": ("values", "open 100"),
    "5, values: all": ("values", "unique"),
    "6, words: the example": ("instruction", "e.g. len(orders)"),
    "6, words: how to hand data on": ("instruction", "hands it to another tool"),
}
ORDER = [
    ["2, beyond the aim: long strings", "3, example: the second link", "4, shape: how many objects have a key"],
    ["2, beyond the aim: ids", "3, example: whole objects, the furthest from the top first"],
    ["2, beyond the aim: values but the most telling ones", "5, values: the least telling ones", "5, values: all"],
    [
        "3, example: whole objects, the furthest from the top first",
        "3, example: whole objects, then of the next level",
        "4, shape: objects deep inside",
        "4, shape: the last members",
    ],
    ["6, words: the example", "6, words: how to hand data on"],
]
"""What goes before what; later ones of a line go at the same budget at the earliest."""


@pytest.fixture(scope="module")
def envelopes() -> dict[int, dict[str, Any]]:
    found = {}
    with Engine("sqlite:///:memory:") as engine:
        for budget in BUDGETS:
            session = engine.session(f"s{budget}", model="claude-sonnet-5", policy=Policy(envelope_tokens=budget))
            result = session.process(SOURCE, tool="get_orders")
            assert result.envelope is not None and result.tokens <= budget
            found[budget] = result.envelope
    return found


def text_of(envelope: dict[str, Any], part: str) -> str:
    return json.dumps(envelope.get(part), ensure_ascii=False) if part != "schema" else str(envelope[part])


def last(envelopes: dict[int, dict[str, Any]], what: str) -> int:
    """The smallest budget at which something is shown."""
    part, text = GIVES_WAY[what]
    return min(budget for budget, envelope in envelopes.items() if text in text_of(envelope, part))


@pytest.mark.parametrize("what", GIVES_WAY)
def test_each_step_is_seen_and_is_not_taken_back(envelopes: dict[int, dict[str, Any]], what: str) -> None:
    part, text = GIVES_WAY[what]
    shown = [text in text_of(envelopes[budget], part) for budget in BUDGETS]
    assert shown == sorted(shown, reverse=True), "what gave way does not come back where there is less room"
    assert shown[0] and not shown[-1]


@pytest.mark.parametrize("steps", ORDER, ids=lambda steps: steps[0])
def test_they_give_way_in_their_order(envelopes: dict[int, dict[str, Any]], steps: list[str]) -> None:
    budgets = [last(envelopes, what) for what in steps]
    assert budgets == sorted(budgets, reverse=True), dict(zip(steps, budgets, strict=True))


def test_equal_shapes_are_written_once_however_much_room_there_is(envelopes: dict[int, dict[str, Any]]) -> None:
    assert "(buyer,seller):{login,id:int,url}" in envelopes[BUDGETS[0]]["schema"]


def test_words_are_fewer_below_300_and_below_150(envelopes: dict[int, dict[str, Any]]) -> None:
    assert last(envelopes, "6, words: the example") == 300
    assert last(envelopes, "6, words: how to hand data on") == 150


def test_names_give_way_from_the_last_and_are_counted(envelopes: dict[int, dict[str, Any]]) -> None:
    every = list(envelopes[BUDGETS[0]]["variables"])
    assert every == ["get_orders", "orders", "lines", "users", "more"]
    for budget in BUDGETS[1:-1]:
        names = list(envelopes[budget]["variables"])
        left = names[:-1] if names[-1] == "…" else names
        assert left == every[: len(left)]
        if names[-1] == "…":
            assert int(envelopes[budget]["variables"]["…"].split()[0]) == len(every) - len(left)


@pytest.mark.parametrize("budget", BUDGETS)
def test_nothing_is_untrue_at_any_step(envelopes: dict[int, dict[str, Any]], budget: int) -> None:
    told = {
        key: part for key, part in envelopes[budget].items() if part is not None
    }  # no room for a preview: it is null
    assert untrue.untruths(json.dumps(told), SOURCE) == []
