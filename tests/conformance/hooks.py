"""What schemathesis has to know of the service: a session with data, and which problems no document can foretell."""

from __future__ import annotations

import json
import os
from typing import Any

import requests
import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

URL, HEAD = os.environ["API_URL"], {"Authorization": f"Bearer {os.environ['API_TOKEN']}"}
SESSION = f"{URL}/v1/sessions/live"
ENDING = {"delete_session", "end_session", "delete_tenant", "delete_artifact"}
ORDERS = [{"id": number, "total": number % 500} for number in range(1_000)]
OF_FORM = {"urn:byref:invalid-request", "urn:byref:not-json"}
"""Problems of requests that are not as the document says. Every other one is about what a request means."""

_is_there = False


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Make the session that requests are about, and let nobody wait for calls that do not come."""
    global _is_there
    if not _is_there:
        requests.delete(SESSION, headers=HEAD, timeout=60)
        requests.put(SESSION, json={}, headers=HEAD, timeout=60).raise_for_status()
        given = {"tool": "orders", "call_id": "c1", "output": ORDERS}
        requests.post(f"{SESSION}/process", json=given, headers=HEAD, timeout=60).raise_for_status()
        _is_there = True
    name = case.operation.definition.raw["operationId"]
    if name in ENDING:
        _is_there = False
    wait = case.body.get("wait_seconds", 20) if name == "take_calls" and isinstance(case.body, dict) else None
    if isinstance(wait, int | float) and 0 <= wait <= 30:
        case.body["wait_seconds"] = 0


@schemathesis.hook
def filter_failure(
    context: schemathesis.HookContext, failure: Any, case: schemathesis.Case, response: schemathesis.Response
) -> bool:
    """Keep no failure of a request that is well formed and was refused for what it means."""
    is_refusal = isinstance(failure, RejectedPositiveData)
    return not (is_refusal and json.loads(response.content)["type"] not in OF_FORM)
