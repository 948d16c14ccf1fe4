"""Tokens: what they allow, and when they do not any more."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from service_kit import House
from sqlalchemy import text
from sqlcheck import statements_of

from byref import AsyncEngine, ConfigurationError, InvalidId
from byref.service import app, auth
from byref.service.operations import OPERATIONS


def test_a_token_is_refused_once_it_is_revoked(house: House, tenant: str) -> None:
    database = house.engine.database
    token = house.token(tenant, "read")
    ask = lambda: house.talk(token, lambda client: client.get("/sessions"))  # noqa: E731
    assert ask().status_code == 200
    (info,) = auth.listed(database, tenant)
    assert (info.name, info.rights, info.expires_at) == ("test", ("read",), None)
    assert auth.revoke(database, info.id) and not auth.revoke(database, info.id)
    refused = ask()
    assert refused.status_code == 401 and refused.headers["WWW-Authenticate"] == "Bearer"
    assert not auth.listed(database, tenant)


def test_one_statement_finds_a_token_and_its_tenants_session(house: House, tenant: str) -> None:
    token, other = house.token(tenant, "read"), house.token(f"{tenant} 2", "read", "chat")
    ask = lambda whose, name: house.talk(whose, lambda client: client.get(f"/sessions/{name}/tools"))  # noqa: E731
    house.talk(other, lambda client: client.put("/sessions/theirs", json={}))
    house.talk(house.token(tenant, "chat"), lambda client: client.put("/sessions/mine", json={}))
    with statements_of(house.engine) as sent:
        assert ask(token, "mine").status_code == 200
    (one,) = [statement for statement in sent if "byref_tokens" in statement]
    assert "byref_sessions" in one
    assert ask(token, "theirs").status_code == ask(token, "none").status_code == 404
    assert ask(other, "theirs").status_code == 200


@pytest.mark.quick_cases(1)
def test_a_name_that_nothing_can_have_is_refused_to_those_who_may_ask(house: House, tenant: str) -> None:
    all_rights, none, unknown = house.token(tenant, *auth.RIGHTS), house.token(tenant, "inspect"), "byref_unknown"

    async def work(client: httpx.AsyncClient) -> None:
        await client.put("/sessions/s", json={})
        for operation in OPERATIONS:
            for name in ("%00", "a%00b", "%ED%A0%80", "%FF"):
                path = re.sub(r"{\w+}$|{\w+}(?=/\w+$)", name, operation.path).replace("{session}", "s")
                if name not in path:
                    continue
                given = {} if operation.takes_json else None
                for token, statuses in ((all_rights, (400, 404, 415, 422)), (none, (403,)), (unknown, (401,))):
                    head = {"Authorization": f"Bearer {token}"}
                    reply = await client.request(operation.method, path, json=given, headers=head)
                    assert reply.status_code in statuses, (operation.name, name, reply.text)

    house.talk(all_rights, work)


def test_the_database_has_no_token(house: House, tenant: str) -> None:
    token = house.token(tenant)
    rows = house.engine.database.read(lambda c: c.execute(text("SELECT * FROM byref_tokens")).all())
    assert rows and token not in str(rows) and token.removeprefix(auth.PREFIX) not in str(rows)


def test_a_token_expires(local_house: House, tenant: str) -> None:
    database, past = local_house.engine.database, datetime.now(UTC) - timedelta(seconds=1)
    token = auth.create(database, tenant=tenant, name="", rights=["read"], expires_at=past)
    assert auth.find(database, token) is None


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "Bearer byref_x", "Bearer \udcff\udcfe"])
def test_no_token(local_house: House, header: str) -> None:
    async def talk(client):  # type: ignore[no-untyped-def]
        del client.headers["Authorization"]
        return await client.get("/sessions", headers=[(b"authorization", header.encode(errors="surrogateescape"))])

    assert local_house.talk("", talk).status_code == 401


def test_what_a_token_cannot_be(local_house: House) -> None:
    database = local_house.engine.database
    for rights in ([], ["write"], ["read", "root"]):
        with pytest.raises(
            ConfigurationError, match=r"expected some of \['read', 'chat', 'admin', 'inspect', 'content'\]"
        ):
            auth.create(database, tenant="t", name="", rights=rights)
    with pytest.raises(ConfigurationError, match="at most 200"):
        auth.create(database, tenant="t", name="x" * 201, rights=["read"])
    with pytest.raises(InvalidId):
        auth.create(database, tenant="", name="", rights=["read"])


def test_a_host_has_tokens_of_its_own(local_house: House, tenant: str) -> None:
    asked: list[str] = []

    async def known(token: str) -> auth.Grant | None:
        asked.append(token)
        return {"reads": auth.Grant(tenant, frozenset({"read"})), "talks": auth.Grant(tenant, frozenset({"chat"}))}.get(
            token
        )

    house = House(local_house.engine, local_house.loop)
    house.app = app(house.engine, auth=known)

    async def work(client: httpx.AsyncClient) -> None:
        given = {"output": [1, 2], "tool": "numbers"}
        assert (await client.put("/sessions/s", json={})).status_code == 200
        assert (await client.post("/sessions/s/process", json=given)).status_code == 200
        assert (await client.post("/sessions/other/process", json=given)).status_code == 404
        assert (await client.get("/sessions/s/ledger")).status_code == 403
        for header, status in {"Bearer reads": 200, "Bearer ": 401, "Bearer nobody": 401, "Basic reads": 401}.items():
            answer = await client.get("/sessions/s/ledger", headers={"Authorization": header})
            assert answer.status_code == status, (header, answer.text)

    house.talk("talks", work)
    assert set(asked) == {"talks", "reads", "nobody"}


def test_tokens_may_be_those_of_another_database(local_house: House, tenant: str, tmp_path: Path) -> None:
    """Or of a class made from `Tokens`: what the host gives is asked, and not the engine's own database."""
    own = local_house.token(tenant, "chat")

    async def work(client: httpx.AsyncClient) -> None:
        given = {"output": [1, 2], "tool": "numbers"}
        assert (await client.put("/sessions/s", json={})).status_code == 200
        assert (await client.post("/sessions/s/process", json=given)).status_code == 200
        refused = await client.post("/sessions/s/process", json=given, headers={"Authorization": f"Bearer {own}"})
        assert refused.status_code == 401

    async def talk() -> None:
        async with AsyncEngine(f"sqlite:///{tmp_path}/tokens.db", create=True, jail="language-only") as other:
            token = auth.create(other.database, tenant=tenant, name="", rights=["chat"])
            house = House(local_house.engine, local_house.loop)
            house.app = app(house.engine, auth=auth.Tokens(other))
            async with house.client(token) as client:
                await work(client)

    local_house.loop.run_until_complete(talk())
