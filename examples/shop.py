"""The tools of the example loops: one lists a shop's orders, one refunds many of them at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import byref

_IDS = {"type": "array", "items": {"type": "integer"}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "list_orders": {"type": "object", "properties": {}},
    "refund": {"type": "object", "properties": {"ids": _IDS}, "required": ["ids"]},
}
DESCRIPTIONS = {"list_orders": "List all orders of the shop.", "refund": "Refund orders by their ids."}


def list_orders() -> dict[str, Any]:
    """Return 4,000 orders: far more than a model should read."""
    regions = ("north", "east", "south", "west")
    orders = [
        {"id": n, "region": regions[n % 4], "amount": n * 7919 % 500 + 0.5, "is_late": n % 97 == 0}
        for n in range(1, 4_001)
    ]
    return {"count": len(orders), "orders": orders}


def refund(ids: list[int]) -> str:
    """Refund some orders."""
    return f"{len(ids)} orders refunded, the last one is {ids[-1]}" if ids else "nothing to refund"


TOOLS = {"list_orders": list_orders, "refund": refund}


def answer(session: byref.Session, name: str, arguments: str | Mapping[str, Any], call_id: str) -> Any:
    """Answer one call of the model: by one of byref's tools, or by one of ours with its references resolved."""
    if session.owns(name):
        return session.call(name, arguments, call_id=call_id)
    output: object
    try:
        resolved = session.resolve(arguments, SCHEMAS.get(name), tool=name, call_id=call_id)
        output, failed = TOOLS[name](**resolved), False
    except Exception as error:  # noqa: BLE001  the model reads what went wrong, and corrects it
        output, failed = error, True
    return session.process(output, tool=name, call_id=call_id, arguments=arguments, is_error=failed)


def refuse(session: byref.Session, name: str, arguments: Any, call_id: str) -> Any:
    """Answer a call that was cut off: its arguments may be a part of what the model was about to write."""
    text = "not run: your message was cut off inside its calls"
    return session.process(text, tool=name, call_id=call_id, arguments=arguments, is_error=True)


def definitions(format: str) -> list[dict[str, Any]]:
    """Return our tools' definitions in a provider's format."""
    made: list[dict[str, Any]] = []
    for name, schema in SCHEMAS.items():
        about = {"name": name, "description": DESCRIPTIONS[name]}
        match format:
            case "anthropic":
                made.append({**about, "input_schema": schema})
            case "openai":
                made.append({"type": "function", "function": {**about, "parameters": schema}})
            case _:
                made.append({"type": "function", **about, "parameters": schema, "strict": False})
    return json.loads(json.dumps(made))
