"""The table of operations: docs/service.md and the OpenAPI document have all of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from service_kit import House

from byref.service.operations import OPERATIONS

PAGE = Path(__file__).parents[2] / "docs/service.md"
BEGIN, END = "<!-- operations -->\n", "<!-- end of operations -->"


def table() -> str:
    rows = [f"| `{one.name}` | `{one.method} {one.path}` | {one.right} | {one.summary} |\n" for one in OPERATIONS]
    return "| operation | below `/v1` | right | |\n|---|---|---|---|\n" + "".join(rows)


def test_the_page_has_the_table() -> None:
    """`UPDATE=1 pytest tests/service/test_operations.py` writes it anew."""
    before, rest = PAGE.read_text().split(BEGIN)
    written, after = rest.split(END)
    if os.environ.get("UPDATE"):
        PAGE.write_text(before + BEGIN + table() + END + after)
        return
    assert written == table()


def test_names_and_paths_are_each_there_once() -> None:
    assert len({one.name for one in OPERATIONS}) == len(OPERATIONS)
    assert len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)
    assert all(one.summary for one in OPERATIONS)


def test_the_openapi_document_has_every_operation(local_house: House) -> None:
    answer = local_house.talk("", lambda client: client.get("/openapi.json"))
    document = json.loads(answer.content)
    assert {one["operationId"] for path in document["paths"].values() for one in path.values()} == {
        one.name for one in OPERATIONS
    }
    said = document["paths"]["/v1/sessions/{session}/process"]["post"]
    assert said["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Process"}
    given = document["components"]["schemas"]["Process"]
    assert (given["required"], given["additionalProperties"]) == (["output", "tool"], False)
    limit = next(
        one
        for one in document["paths"]["/v1/sessions"]["get"]["parameters"]
        if (one["name"], one["in"]) == ("limit", "query")
    )
    assert limit["schema"]["maximum"] == 1_000
