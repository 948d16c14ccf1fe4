"""A failed expectation says what happened instead, and why."""

from __future__ import annotations

import pytest

from byref import Engine
from byref.testing import assert_routes, assert_tokens


def test_routes_and_tokens_are_as_expected_or_the_failure_says_why(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, context_window=200_000)
    session.process([{"id": number, "name": "x" * 20} for number in range(5_000)], tool="list_orders")
    for _ in range(2):
        session.process("pong", tool="ping")
    assert_routes(session, list_orders="variables", ping="inline")
    assert_routes(session, ping=["inline", "inline"])
    assert_tokens(session, 1_500)
    with pytest.raises(AssertionError, match=r"ping: expected \['inline'\], took \['inline', 'inline'\]"):
        assert_routes(session, ping=["inline"])
    with pytest.raises(
        AssertionError, match=r"(?s)list_orders: expected 'inline'.*because its .* tokens are more than"
    ):
        assert_routes(session, list_orders="inline")
    with pytest.raises(
        AssertionError, match=r"refund: there is no output of it\n\(outputs came from list_orders, ping\)"
    ):
        assert_routes(session, refund="inline")
    with pytest.raises(AssertionError, match=r"10 were expected at most; the largest:\n  step 1, list_orders: "):
        assert_tokens(session, 10)
