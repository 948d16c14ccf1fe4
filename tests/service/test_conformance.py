"""A request of each operation, made by schemathesis; `make conformance` makes ten thousand."""

from __future__ import annotations

import asyncio

from conformance_kit import ask
from service_kit import House, served


def test_answers_are_as_the_openapi_document_says(local_house: House, tenant: str) -> None:
    async def work() -> tuple[bool, int]:
        async with served(local_house) as base:
            token = local_house.token(tenant, "read", "chat", "admin")
            return await asyncio.to_thread(ask, base, token, seed=5, examples=1, phases="fuzzing")

    failed, cases = local_house.loop.run_until_complete(work())
    assert not failed and cases > 30
