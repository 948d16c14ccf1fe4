"""Bodies of requests in progress: a tenant's are bounded together, and others' wait for none of them."""

from __future__ import annotations

import asyncio

from byref.adapters.common.bodies import Bodies


def test_a_body_waits_for_room_of_its_tenant_alone() -> None:
    async def work() -> None:
        bodies = Bodies(100)
        await bodies.take("a", 300)  # the first one has room, whatever its size
        waiting = asyncio.create_task(bodies.take("a", 60))
        await bodies.take("b", 90)
        await bodies.take("a", 0)
        bodies.give_back("a", 250)
        await asyncio.sleep(0)
        assert not waiting.done()
        bodies.give_back("a", 10)
        await asyncio.wait_for(waiting, 1)
        bodies.give_back("a", 100)
        bodies.give_back("b", 90)
        assert not bodies._bytes

    asyncio.run(work())
