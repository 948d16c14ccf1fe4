"""What the envelope form `outline` says of values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from byref import Engine, Policy


def orders(count: int) -> dict[str, Any]:
    return {
        "customers": [{"id": n, "name": f"name {n} of it"} for n in range(1, 60)],
        "orders": [
            {
                "id": f"o-{n:05}",
                "customer_id": n * 7 % 59 + 1,
                "status": ("open", "paid", "void")[n % 3],
                "total": f"${n * 37 % 5000 / 100:.2f}",
                "at": f"2024-0{n % 9 + 1}-01T10:00:00Z",
                "note": "a long note of the order " * (n % 4),
            }
            for n in range(count)
        ],
    }


def test_values_stand_beside_the_shape(local: Engine, tenant: str) -> None:
    session = local.session("s", tenant=tenant, policy=Policy(envelope_form="outline"))
    envelope = json.loads(str(session.process(orders(270), tool="list_orders").content))
    said = envelope["values"]["orders[]"]
    assert said["status"] == "open 90, paid 90, void 90"
    assert said["total"] == "text of numbers, $0.00 to $49.95"
    assert said["at"] == "times 2024-01-01 to 2024-09-01"
    assert said["customer_id"].endswith("in customers[].id")


@pytest.mark.parametrize("tokens", [100, 150, 200, 300, 450, 700, 1_200, 4_000])
def test_values_keep_to_the_budget(local: Engine, tenant: str, tokens: int) -> None:
    policy = Policy(envelope_form="outline", envelope_tokens=tokens)
    session = local.session("s", tenant=tenant, policy=policy)
    result = session.process(orders(270), tool="list_orders")
    assert result.tokens <= tokens
    envelope = json.loads(str(result.content))
    assert ("values" in envelope) >= (tokens >= 450)
