"""The contract of the HTTP API, over both databases; and what hostile clients get."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from service_kit import House

from byref import AsyncSession
from byref.service import events

ORDERS = [{"id": n, "country": ("DE", "FR", "US")[n % 3], "total": n % 500} for n in range(5_000)]


def problem(answer: httpx.Response, status: int, kind: str) -> str:
    assert answer.headers["Content-Type"] == "application/problem+json", answer.text
    told = answer.json()
    assert (answer.status_code, told["status"], told["type"]) == (status, status, f"urn:byref:{kind}"), told
    return str(told["detail"])


@pytest.mark.quick_cases(1)
def test_a_chat_over_http(house: House, tenant: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        opened = (await client.put("/sessions/chat-1", json={"model": "claude-sonnet-5"})).json()
        assert "code_interpreter" in opened["tools"]
        given = {"output": ORDERS, "tool": "list_orders", "call_id": "toolu_1", "format": "anthropic"}
        first = await client.post("/sessions/chat-1/process", json=given)
        assert first.status_code == 200, first.text
        done = first.json()
        assert done["route"] == "variables" and done["tokens"] < done["original_tokens"] / 10
        assert done["message"]["content"][0]["tool_use_id"] == "toolu_1"
        again = await client.post("/sessions/chat-1/process", json=given)
        assert again.content == first.content
        code = {"name": "code_interpreter", "arguments": {"code": "len(list_orders)"}, "call_id": "toolu_2"}
        assert (await client.post("/sessions/chat-1/call", json=code)).json()["text"] == "5000"
        wrong = {"name": "code_interpreter", "arguments": {"code": "nothing_of_the_kind"}}
        assert (await client.post("/sessions/chat-1/call", json=wrong)).json()["is_error"] is True
        arguments = {"ids": {"$var": "list_orders", "jq": "map(select(.total > 498) | .id)"}}
        resolved = (await client.post("/sessions/chat-1/resolve", json={"arguments": arguments})).json()
        assert resolved["arguments"]["ids"] == [one["id"] for one in ORDERS if one["total"] > 498]
        unknown = await client.post("/sessions/chat-1/resolve", json={"arguments": {"ids": {"$var": "nobody"}}})
        assert "nobody" in problem(unknown, 422, "tool-error")
        usage = {"usage": {"input_tokens": 1_000, "output_tokens": 10}, "request_id": "r1"}
        for _ in range(2):
            assert (await client.post("/sessions/chat-1/usage", json=usage)).status_code == 204
        sums = (await client.get("/sessions/chat-1/usage")).json()
        assert (sums["requests"], sums["input_tokens"], sums["context_tokens"]) == (1, 1_000, 1_010)
        said = (await client.get("/sessions/chat-1/explain", params={"call_id": "toolu_1"})).json()
        assert said["text"].startswith("list_orders (step 1): variables")
        assert "list_orders" in (await client.get("/sessions/chat-1/reminder")).json()["text"]
        assert (await client.post("/sessions/chat-1/compaction", json={"tokens": 500})).status_code == 204
        ran = (await client.post("/sessions/chat-1/run", json={"code": "print('hi')\n[1, None]"})).json()
        assert (ran["value"], ran["stdout"], ran["error"]) == ([1, None], "hi\n", None)
        kinds = [one["kind"] for one in (await client.get("/sessions/chat-1/ledger")).json()["items"]]
        assert kinds[:2] == ["output", "reply"] and kinds[-2:] == ["usage", "compaction"]
        history = (await client.get("/sessions/chat-1/history")).json()["items"]
        assert history[0]["processed"] == done["content"] and history[0]["original"]["artifact"].startswith("art_")
        assert (await client.post("/sessions/chat-1/end")).status_code == 204
        problem(await client.post("/sessions/chat-1/process", json=given | {"call_id": "x"}), 410, "session-gone")
        assert (await client.delete("/sessions/chat-1")).status_code == 204
        problem(await client.get("/sessions/chat-1/usage"), 404, "unknown-session")

    house.talk(house.token(tenant), talk)


def test_what_is_another_tenants_is_not_there(house: House, tenant: str) -> None:
    async def mine(client: httpx.AsyncClient) -> str:
        await client.put("/sessions/chat", json={})
        done = await client.post("/sessions/chat/process", json={"output": ORDERS, "tool": "orders"})
        return str(done.json()["artifacts"][0]["id"])

    token = house.token(tenant)
    artifact = house.talk(token, mine)

    async def others(client: httpx.AsyncClient) -> None:
        for path in ("", "/ledger", "/variables/orders", f"/artifacts/{artifact}", f"/artifacts/{artifact}/content"):
            problem(await client.get(f"/sessions/chat{path}"), 404, "unknown-session")
        problem(await client.delete("/sessions/chat"), 404, "unknown-session")
        await client.put("/sessions/chat", json={})
        problem(await client.get(f"/sessions/chat/artifacts/{artifact}"), 404, "not-found")
        assert [one["id"] for one in (await client.get("/sessions")).json()["items"]] == ["chat"]
        assert (await client.delete("/tenant")).json() == {"sessions": 1}

    house.talk(house.token(f"{tenant}-other"), others)
    assert house.talk(token, lambda client: client.get("/sessions/chat")).json()["steps"] == 1


def test_pages_go_on_behind_the_last(house: House, tenant: str) -> None:
    async def pages(client: httpx.AsyncClient, path: str) -> list[Any]:
        found, after = [], None
        while True:
            page = (await client.get(path, params={"limit": 2} | ({} if after is None else {"after": after}))).json()
            found += page["items"]
            if (after := page["next"]) is None:
                return found

    async def talk(client: httpx.AsyncClient) -> None:
        for name in "abcde":
            await client.put(f"/sessions/{name}", json={})
            await client.post("/sessions/a/process", json={"output": f"{name} " * 3_000, "tool": name})
        assert [one["id"] for one in await pages(client, "/sessions")] == list("abcde")
        assert [one["step"] for one in await pages(client, "/sessions/a/ledger")] == [1, 2, 3, 4, 5]
        assert [one["tool"] for one in await pages(client, "/sessions/a/history")] == list("abcde")
        assert len(await pages(client, "/sessions/a/artifacts")) == 5
        assert len(await pages(client, "/sessions/a/variables")) >= 5

    house.talk(house.token(tenant), talk)


@pytest.mark.parametrize(
    "name", ["a/b", "../../sessions", "ü 🚗", "a?b#c", "%2F", "a\nb", "\x85\u2028", ".", "GET ", "x" * 512]
)
def test_any_id_can_be_in_a_path(local_house: House, tenant: str, name: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        path = f"/sessions/{quote(name, safe='').replace('.', '%2E')}"
        assert (await client.put(path, json={})).json()["id"] == name
        assert (await client.get(path)).json()["id"] == name

    local_house.talk(local_house.token(tenant), talk)


def test_rights(local_house: House, tenant: str) -> None:
    async def reads(client: httpx.AsyncClient) -> None:
        assert (await client.get("/sessions")).status_code == 200
        assert "'chat'" in problem(await client.put("/sessions/a", json={}), 403, "not-allowed")
        problem(await client.post("/sweep"), 403, "not-allowed")

    local_house.talk(local_house.token(tenant, "read"), reads)


HOSTILE = {
    "no JSON": (b"{", 400),
    "nested": (b'{"tool": "t", "output": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    "no UTF-8": (b'{"tool": "\xff", "output": 1}', 400),
    "no UTF-8 in what is looked over": (b'{"tool": "t", "output": "\xe9"}', 400),
    "of another type": (b'{"tool": 1, "output": 1}', 422),
    "unknown": (b'{"tool": "t", "output": 1, "tenant": "other"}', 422),
    "half a character": (b'{"tool": "t", "output": "\\ud800"}', 400),
    "a list": (b"[]", 422),
    "empty": (b"", 400),
    "many values": (b'{"tool": "t", "output": [' + b"[]," * 1_000_000 + b"1]}", 413),
    "huge": (b'{"tool": "t", "output": "' + b"x" * (9 << 20) + b'"}', 413),
}


@pytest.mark.parametrize("body, status", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bodies_are_problems(local_house: House, tenant: str, body: bytes, status: int) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        await client.put("/sessions/a", json={})
        headers = {"Content-Type": "application/json"}
        answer = await client.post("/sessions/a/process", content=body, headers=headers)
        assert answer.json()["status"] == answer.status_code == status
        assert (await client.get("/sessions/a/ledger")).json()["items"] == []

    local_house.talk(local_house.token(tenant), talk)


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("1e999", "1E+999"),
        ("1" * 400, "1" * 400),
        ('{"a": 1, "a": 2}', '{"a":2}'),
        (r'"\u0000"', "\0"),
        ("[0.12345678901234567890, 1e22, 1.5]", "[0.12345678901234567890,1e22,1.5]"),
    ],
)
def test_any_json_is_an_output(house: House, tenant: str, output: str, content: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        await client.put("/sessions/a", json={})
        body = f'{{"tool": "t", "output": {output}}}'
        done = await client.post("/sessions/a/process", content=body, headers={"Content-Type": "application/json"})
        assert done.status_code == 200, done.text
        assert done.json()["content"] == content
        assert (await client.get("/sessions/a/history")).json()["items"][0]["processed"] == done.json()["content"]

    house.talk(house.token(tenant), talk)


BODIES = {
    "Latin-1": ("text/csv; charset=iso-8859-1", "id;city\n1;Zürich\n".encode("latin-1") * 900),
    "a wrong byte in JSON": ("application/json", b'["a\xff"]'),
    "a picture that is called text": ("text/plain", b"\x89PNG\r\n\x1a\n" + bytes(300)),
    "nothing": ("text/plain", b""),
    "nothing of no type": ("", b""),
}


@pytest.mark.parametrize(("kind", "body"), BODIES.values(), ids=BODIES)
def test_uploads_are_kept_as_they_come(house: House, tenant: str, kind: str, body: bytes) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        await client.put("/sessions/a", json={})
        headers = {"Content-Type": kind} if kind else {}
        stored = await client.post("/sessions/a/artifacts?name=x", content=body, headers=headers)
        assert stored.status_code == 200, stored.text
        kept = await client.get(f"/sessions/a/artifacts/{stored.json()['id']}/content")
        assert kept.content == body
        path = f"/sessions/a/artifacts/{stored.json()['id']}/content"
        head = await client.head(path, headers={"Range": "bytes=0-0"})
        assert (head.status_code, head.content, head.headers) == (200, b"", kept.headers)
        assert int(head.headers["Content-Length"]) == len(body)
        known = await client.head(path, headers={"If-None-Match": head.headers["ETag"]})
        assert known.status_code == 304
        done = await client.post("/sessions/a/outputs?tool=t", content=body, headers=headers)
        assert done.status_code == 200, done.text
        if not body:
            assert done.json()["content"] == ""
        if done.json()["artifacts"]:
            output = await client.get(f"/sessions/a/artifacts/{done.json()['artifacts'][0]['id']}/content")
            assert output.content == body
        refused = await client.post("/sessions/a/outputs?tool=t", content=body, headers={"Content-Encoding": "gzip"})
        problem(refused, 415, "encoded")

    house.talk(house.token(tenant), talk)


def test_an_idempotency_key_is_heeded_or_refused(local_house: House, tenant: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        await client.put("/sessions/a", json={})
        key = {"Idempotency-Key": "k1"}
        for _ in range(3):
            await client.post("/sessions/a/process", json={"output": "hello", "tool": "t"}, headers=key)
            await client.post("/sessions/a/usage", json={"usage": {"input_tokens": 5}}, headers=key)
        assert [one["kind"] for one in (await client.get("/sessions/a/ledger")).json()["items"]] == ["output", "usage"]
        refused = await client.post("/sessions/a/run", json={"code": "1"}, headers=key)
        assert "Idempotency-Key" in problem(refused, 422, "invalid-request")

    local_house.talk(local_house.token(tenant), talk)


def test_paths_methods_and_queries_that_there_are_not(local_house: House, tenant: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        for path in ("/", "/nothing", "/sessions/", "/sessions//ledger", "/sessions/a/ledger/1"):
            problem(await client.get(path), 404, "not-found")
        answer = await client.patch("/sessions/a")
        problem(answer, 405, "method-not-allowed")
        assert answer.headers["Allow"] == "PUT, GET, DELETE"
        await client.put("/sessions/a", json={})
        for query in ("limit=0", "limit=x", "limit=1001", "limit=1&limit=2", "else=1", "after=-1"):
            problem(await client.get(f"/sessions/a/ledger?{query}"), 422, "invalid-request")
        problem(await client.post("/sessions/a/process", content=b"{}"), 415, "not-json")

    local_house.talk(local_house.token(tenant), talk)


def test_it_mounts_in_an_application_of_the_hosts(local_house: House, tenant: str) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    host = Starlette(routes=[Mount("/deep/byref", app=local_house.app)])

    async def work() -> None:
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://host/deep/byref/v1") as client:
            client.headers["Authorization"] = f"Bearer {local_house.token(tenant)}"
            assert (await client.put("/sessions/a%2Fb", json={})).json()["id"] == "a/b"
            assert json.loads((await client.get("/openapi.json")).content)["openapi"] == "3.1.0"

    local_house.loop.run_until_complete(work())


def test_an_integer_may_be_written_with_a_point(local_house: House, tenant: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        await client.put("/sessions/a", json={"context_window": 5_000.0})
        headers = {"Content-Type": "application/json"}
        assert (await client.post("/sessions/a/compaction", content=b'{"tokens": 3.0}', headers=headers)).is_success
        assert (await client.get("/sessions/a/usage")).json()["context_tokens"] == 3
        for body in (b'{"tokens": 3.5}', b'{"tokens": "3"}', b'{"tokens": 1e30}', b'{"tokens": -1.0}'):
            problem(await client.post("/sessions/a/compaction", content=body, headers=headers), 422, "invalid-request")

    local_house.talk(local_house.token(tenant), talk)


@pytest.mark.quick_cases(1)
def test_a_table_too_big_to_be_stored_as_json_comes_as_records(house: House, tenant: str) -> None:
    async def talk(client: httpx.AsyncClient) -> None:
        await client.put("/sessions/a", json={})
        await client.post("/sessions/a/run", json={"code": "big = pd.DataFrame({'a': range(200_001)})"})
        artifact = (await client.get("/sessions/a/variables/big")).json()["artifact_id"]
        content = await client.get(f"/sessions/a/artifacts/{artifact}/content")
        assert content.headers["Content-Type"] == "application/json"
        assert content.json()[-1] == {"a": 200_000}
        lines = (await client.get(f"/sessions/a/artifacts/{artifact}/lines", params={"start": 3, "limit": 1})).json()
        assert (lines["lines"][0]["text"], lines["total"]) == ('{"a":1},', 200_003)
        resolved = await client.post("/sessions/a/resolve", json={"arguments": {"x": "$big[7].a"}})
        assert resolved.json()["arguments"] == {"x": 7}

    house.talk(house.token(tenant), talk)


def test_streams_share_one_look_at_the_database(house: House, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads its ledger at its begin and when its session has new steps, from whatever process; it ends with its session."""
    monkeypatch.setattr(events, "POLL_SECONDS", 0.2)
    looks, reads, told = list[Any](), list[str](), dict[str, list[bytes]]()
    look, ledger = events._last_steps, AsyncSession.ledger

    def watched(connection: Any, rows: Any) -> Any:
        looks.append(rows)
        return look(connection, rows)

    def reading(session: AsyncSession, **about: Any) -> Any:
        reads.append(session.id)
        return ledger(session, **about)

    async def follow(session: AsyncSession, news: events.News, stopping: asyncio.Event) -> None:
        async for piece in events._events(session, 0, news, stopping):
            told.setdefault(session.id, []).append(piece.partition(b"\ndata")[0])

    async def work() -> None:
        sessions = [await house.engine.session(name, tenant=tenant) for name in ("busy", "idle", "idler")]
        await sessions[1].process("hello", tool="t")
        monkeypatch.setattr(events, "_last_steps", watched)
        monkeypatch.setattr(AsyncSession, "ledger", reading)
        stopping = asyncio.Event()
        news = events.News(house.engine, stopping)
        following = [asyncio.ensure_future(follow(one, news, stopping)) for one in sessions]
        while len(looks) < 4:
            await asyncio.sleep(0.05)
        before, looks[:] = len(reads), []
        elsewhere = await house.engine.session("busy", tenant=tenant)
        await elsewhere.process("hello", tool="t")
        await house.engine.delete_session("idler", tenant=tenant)
        while len(told["busy"]) < 2 or len(told["idler"]) < 2 or len(looks) < 5:
            await asyncio.sleep(0.05)
        assert reads[before:] == ["busy"]
        stopping.set()
        await asyncio.gather(*following)
        assert told["idle"][1:] == [b"id: 1\nevent: step"] == told["busy"][1:]
        assert told["idler"][1:] == [b"event: gone"]

    house.loop.run_until_complete(asyncio.wait_for(work(), 30))
