"""Tokens: what they allow, and when they do not any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from service_kit import House
from sqlalchemy import text

from byref import ConfigurationError, InvalidId
from byref.service import auth


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
