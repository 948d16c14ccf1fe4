"""Code calls functions of a host that polls, over both databases: approvals, failures, two services, and servers that are killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import httpx
import pytest
from service_kit import House

from byref.service import app

GET_ORDERS = {
    "name": "get_orders",
    "description": "Orders of a region.",
    "parameters": {
        "type": "object",
        "properties": {"region": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["region"],
    },
}
TWO = '{"result": 1, "error": {"message": "no"}}'
TAKE = {"worker": "backend-1", "wait_seconds": 5}
Answering = Callable[[dict[str, Any]], dict[str, Any]]


async def code(client: httpx.AsyncClient, text: str, call_id: str = "c1", session: str = "chat") -> dict[str, Any]:
    given = {"name": "code_interpreter", "arguments": {"code": text}, "call_id": call_id}
    answer = await client.post(f"/sessions/{session}/call", json=given, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def take(client: httpx.AsyncClient, **further: Any) -> list[dict[str, Any]]:
    answer = await client.post("/calls/take", json=TAKE | further, timeout=60)
    assert answer.status_code == 200, answer.text
    return list(answer.json())


async def answer(client: httpx.AsyncClient, call: str, **said: Any) -> int:
    return (await client.post(f"/calls/{call}/answer", json=said)).status_code


async def while_answering(client: httpx.AsyncClient, working: Coroutine[Any, Any, Any], how: Answering) -> Any:
    """Return what comes of the work, while a worker answers calls."""
    task = asyncio.create_task(working)
    while not task.done():
        for call in await take(client, wait_seconds=0.3):
            assert await answer(client, call["id"], **how(call)) == 204
    return await task


def talk(house: House, tenant: str, work: Callable[[httpx.AsyncClient], Awaitable[Any]], *functions: Any) -> Any:
    async def opened(client: httpx.AsyncClient) -> Any:
        made = await client.put("/sessions/chat", json={"functions": [*functions] or [GET_ORDERS]})
        assert made.status_code == 200, made.text
        return await work(client)

    return house.talk(house.token(tenant), opened)


@pytest.mark.quick_cases(1)
def test_code_calls_functions_of_a_client(house: House, tenant: str) -> None:
    asked: list[dict[str, Any]] = []

    def orders(call: dict[str, Any]) -> dict[str, Any]:
        asked.append(call)
        region = call["arguments"]["region"]
        if region == "XX":
            return {"error": {"kind": "KeyError", "message": "no region XX"}}
        if region == "YY":
            return {"error": {"kind": "Unheard", "message": "of"}}
        return {"result": [{"region": region, "n": n, "big": 2**70} for n in range(call["arguments"].get("limit", 2))]}

    async def work(client: httpx.AsyncClient) -> None:
        told = json.dumps((await client.get("/sessions/chat/tools")).json())
        assert "get_orders(region: str, limit: int = ...)" in told
        text = (
            "import asyncio\n"
            "found = await asyncio.gather(*[get_orders(r, limit=500) for r in ('EU', 'US')])\n"
            "seen = []\n"
            "for r in ('XX', 'YY'):\n"
            "    try:\n        get_orders(r)\n"
            "    except Exception as e:\n        seen.append(f'{type(e).__name__} {e}')\n"
            "[len(found[0]), found[1][3]['region'], found[0][0]['big'] == 2**70, seen]"
        )
        done = await while_answering(client, code(client, text), orders)
        assert not done["is_error"], done["text"]
        assert json.loads(done["text"].splitlines()[0]) == [
            500,
            "US",
            True,
            ["KeyError 'get_orders(): no region XX'", "FunctionError get_orders(): Unheard: of"],
        ]
        assert sorted(one["arguments"]["region"] for one in asked) == ["EU", "US", "XX", "YY"]
        assert {(one["session"], one["call_id"], one["function"]) for one in asked} == {("chat", "c1", "get_orders")}
        ledger = (await client.get("/sessions/chat/ledger")).json()["items"]
        assert [one["tool"] for one in ledger if one["kind"] == "call"] == ["get_orders"] * 4
        assert await code(client, text) == done  # the same call again: nothing is asked
        assert await take(client, wait_seconds=0) == []
        ran = await while_answering(
            client, client.post("/sessions/chat/run", json={"code": "get_orders('EU')[0]['n']"}), orders
        )
        assert ran.json()["value"] == 0
        kept = (await client.put("/sessions/chat", json={})).json()
        assert kept["id"] == "chat"
        assert "get_orders" in json.dumps((await client.get("/sessions/chat/tools")).json())
        await client.put("/sessions/chat", json={"functions": []})
        assert "get_orders(region" not in json.dumps((await client.get("/sessions/chat/tools")).json())

    talk(house, tenant, work)


def test_variables_of_outputs_have_no_name_that_is_a_function_in_code(house: House, tenant: str) -> None:
    rows = [{"region": "EU", "n": n} for n in range(3_000)]

    async def work(client: httpx.AsyncClient) -> None:
        given = {"tool": "get_orders", "output": rows}
        done = (await client.post("/sessions/chat/process", json=given)).json()
        raw = json.dumps({"get_orders": rows, "next": 7}).encode()
        more = (await client.post("/sessions/chat/outputs", params={"tool": "get_page"}, content=raw)).json()
        named = [[one["name"] for one in each["variables"]] for each in (done, more)]
        assert named == [["get_orders_result"], ["get_page", "get_orders_result_2"]]
        assert (await code(client, "len(get_orders_result)"))["text"].startswith("3000")

    talk(house, tenant, work)


def test_answers_that_are_wrong_late_double_or_of_others(house: House, tenant: str) -> None:
    stranger = house.token(f"{tenant}-other")

    async def work(client: httpx.AsyncClient) -> None:
        task = asyncio.create_task(code(client, "get_orders('EU')"))
        [call] = await take(client)
        assert await take(client) == [call], "its worker gets it again until it is answered"
        assert await take(client, known=[call["id"]], wait_seconds=0) == []
        assert await take(client, worker="backend-2", wait_seconds=0) == []
        assert await answer(client, call["id"], result=1, worker="backend-2") == 409
        async with house.client(stranger) as other:
            assert await take(other, wait_seconds=0) == []
            assert await answer(other, call["id"], result="stolen") == 404
        for wrong in ("{", "{}", TWO, '{"result": NaN}', '{"result": 1, "more": 2}', '{"error": "x"}', "[" * 100_000):
            sent = await client.post(
                f"/calls/{call['id']}/answer", content=wrong, headers={"Content-Type": "application/json"}
            )
            assert 400 <= sent.status_code < 500, wrong[:40]
        assert await answer(client, call["id"], result={"n": 1}, worker="backend-1") == 204
        assert await answer(client, call["id"], result={"n": 1}) in (204, 410)
        assert await answer(client, call["id"], result={"n": 2}) in (409, 410)
        assert '"n":1' in (await task)["text"].replace(" ", "")
        assert await answer(client, call["id"], result={"n": 2}) == 410
        assert await answer(client, "call_nobody", result=1) == 404

    talk(house, tenant, work)


def test_a_client_that_never_answers(house: House, tenant: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        task = asyncio.create_task(code(client, "try:\n    get_orders('EU')\nexcept TimeoutError as e:\n    print(e)"))
        [call] = await take(client)
        assert "get_orders() did not return within 0.5 s" in (await task)["text"]
        assert await answer(client, call["id"], result=1) == 410
        assert await take(client, wait_seconds=0) == []

    talk(house, tenant, work, GET_ORDERS | {"timeout": 0.5})


def test_a_call_that_needs_approval_is_asked_for_after_it(local_house: House, tenant: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        waits = await code(client, "get_orders('EU')")
        [pending] = waits["pending"]
        assert await take(client, wait_seconds=0) == []
        decided = {"call_id": "c1", "decisions": {pending["id"]: {"region": "US"}}}
        task = asyncio.create_task(client.post("/sessions/chat/resume", json=decided, timeout=30))
        [call] = await take(client)
        assert call["arguments"] == {"region": "US"}
        assert await answer(client, call["id"], result="paid") == 204
        assert "paid" in (await task).json()["text"]

    talk(local_house, tenant, work, GET_ORDERS | {"approval": True})


@pytest.mark.quick_cases(1)
def test_two_services_on_one_database(house: House, tenant: str) -> None:
    """The run is the one's, the answer the other's; workers share the calls, and each is given out once."""
    second = House(house.engine, house.loop)
    assert second.app is not house.app

    async def work(client: httpx.AsyncClient) -> None:
        calls = 40
        text = f"import asyncio\nsum(await asyncio.gather(*[get_orders(str(n)) for n in range({calls})]))"
        task = asyncio.create_task(code(client, text))
        given: list[str] = []

        async def worker(name: str) -> None:
            async with second.client(client.headers["Authorization"].split()[1]) as other:
                while not task.done():
                    for call in await take(other, worker=name, limit=3, wait_seconds=0.3):
                        given.append(call["id"])
                        assert (
                            await answer(other, call["id"], result=int(call["arguments"]["region"]), worker=name) == 204
                        )

        await asyncio.gather(*[worker(f"w{n}") for n in range(4)])
        assert (await task)["text"].startswith(str(sum(range(calls))))
        assert len(given) == len(set(given)) == calls

    talk(house, tenant, work, GET_ORDERS | {"concurrency": 64})


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"name": "print"}, "Python has another meaning"),
        ({"name": "a b"}, "identifier"),
        ({"name": "f", "timeout": 0}, "functions"),
        ({"name": "f", "parameters": {"type": "array"}}, "expected an object"),
        ({"name": "f", "parameters": {"$ref": "file:///etc/passwd"}}, "'file:///etc/passwd', which is not in it"),
        ({"name": "f", "url": "http://169.254.169.254/"}, "url"),
        ({"name": "f", "max_calls": -1}, "functions"),
    ],
)
def test_functions_that_make_no_sense(local_house: House, tenant: str, wrong: Any, what: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        refused = await client.put("/sessions/new", json={"functions": [wrong]})
        assert refused.status_code == 422 and what in refused.json()["detail"], refused.text
        assert (await client.get("/sessions/new")).status_code == 404

    local_house.talk(local_house.token(tenant), work)


@pytest.mark.slow
def test_the_end_of_a_session_and_of_the_service(local_house: House, tenant: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        task = asyncio.create_task(client.post("/sessions/chat/run", json={"code": "get_orders('EU')"}, timeout=30))
        [call] = await take(client)
        assert (await client.delete("/sessions/chat")).status_code == 204
        assert await answer(client, call["id"], result=1) in (404, 410)
        assert await take(client, wait_seconds=0) == []
        ended = await task
        assert ended.status_code in (200, 404, 410), ended.text

    talk(local_house, tenant, work, GET_ORDERS | {"timeout": 2})


def test_who_waits_for_calls_is_let_go_when_the_service_ends(local_house: House, tenant: str) -> None:
    async def work(_: httpx.AsyncClient) -> None:
        service = app(local_house.engine)
        transport = httpx.ASGITransport(service)
        token = await asyncio.to_thread(local_house.token, tenant)
        head = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://byref/v1", headers=head) as client:
            task = asyncio.create_task(take(client, wait_seconds=30))
            await asyncio.sleep(0.2)
            service.state.stopping.set()
            async with asyncio.timeout(5):
                assert await task == []

    local_house.talk(local_house.token(tenant), work)
