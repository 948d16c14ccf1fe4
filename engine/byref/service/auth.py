"""Bearer tokens: whose data a client sees, and what it may do with it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, and_, bindparam, delete, insert, select

from byref.aio import AsyncEngine
from byref.conversation import lifecycle
from byref.conversation.lifecycle import check_id
from byref.db.database import Database
from byref.db.tables import SessionRow, TokenRow
from byref.errors import ConfigurationError, shown

Right = Literal["read", "chat", "admin", "inspect", "content"]
"""`read`: look at sessions and their data. `chat`: open sessions, and give and do what a chat loop does. `admin`: delete, sweep.
`inspect`: open the inspector's pages, which show names, shapes and numbers. `content`: they show texts and data, too."""
RIGHTS: tuple[Right, ...] = get_args(Right)
PREFIX = "byref_"
"""Tokens begin with it, so that scanners of secrets find one that was published by mistake."""
NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client may do, and with whose data."""

    tenant: str
    rights: frozenset[Right]


Auth = Callable[[str], Awaitable[Grant | None]]
"""Returns the grant of a bearer token; None: it is not valid. A host with tokens of its own gives the service one of these."""


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as a list shows it."""

    id: int
    tenant: str
    name: str
    rights: tuple[Right, ...]
    created_at: datetime
    expires_at: datetime | None
    """From then on it is refused; None: it is valid until it is revoked."""


class Tokens:
    """The tokens that the database has; each request looks its token up, so that a revoked one is refused at once."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def __call__(self, token: str) -> Grant | None:
        """Return the grant of a token that is neither revoked nor expired."""
        await self._engine.open()
        return await asyncio.to_thread(find, self._engine.database, token)


# Built once, because building a statement takes longer than running it.
_FIND = select(TokenRow.tenant, TokenRow.rights, TokenRow.expires_at).where(TokenRow.digest == bindparam("of_token"))


def find(database: Database, token: str) -> Grant | None:
    """Return the grant of a token; None if there is no such token, or none any more."""
    digest = _digest(token)
    return _grant(database.ask(lambda connection: connection.execute(_FIND, {"of_token": digest}).one_or_none()))


_FIND_BOTH = (
    select(TokenRow.tenant, TokenRow.rights, TokenRow.expires_at, *lifecycle.OPENED)
    .outerjoin_from(
        TokenRow, SessionRow, and_(SessionRow.tenant == TokenRow.tenant, SessionRow.name == bindparam("named"))
    )
    .where(TokenRow.digest == bindparam("of_token"))
)


def find_both(database: Database, token: str, session: str) -> tuple[Grant | None, lifecycle.Opened | None]:
    """Return the grant of a token, as `find` does, and its tenant's session of a name, by one statement."""
    given = {"of_token": _digest(token), "named": session}
    row = database.ask(lambda connection: connection.execute(_FIND_BOTH, given).one_or_none())
    return _grant(row), None if row is None or row.id is None else lifecycle.opened(row)


def _grant(row: Row[*tuple[Any, ...]] | None) -> Grant | None:
    if row is None or (row.expires_at is not None and row.expires_at <= datetime.now(UTC)):
        return None
    return Grant(row.tenant, frozenset(right for right in RIGHTS if right in row.rights.split()))


def create(
    database: Database, *, tenant: str, name: str, rights: Collection[str], expires_at: datetime | None = None
) -> str:
    """Make a token and return it. It is shown this once: the database has only its digest.

    Raises:
        InvalidId: the tenant is no id.
        ConfigurationError: a right is unknown, or there is none, or the name is too long.
    """
    tenant = check_id("tenant", tenant)
    unknown = sorted(set(rights) - set(RIGHTS))
    if unknown or not rights:
        raise ConfigurationError(f"rights={shown(sorted(rights))}: expected some of {list(RIGHTS)}")
    if len(name) > NAME_CHARS:
        raise ConfigurationError(f"name={shown(name)}: expected at most {NAME_CHARS} characters")
    token = PREFIX + secrets.token_urlsafe(32)
    values = {
        "tenant": tenant,
        "name": name,
        "rights": " ".join(right for right in RIGHTS if right in rights),
        "digest": _digest(token),
        "created_at": datetime.now(UTC),
        "expires_at": expires_at,
    }
    database.write(lambda connection: connection.execute(insert(TokenRow).values(values)))
    return token


def listed(database: Database, tenant: str | None = None) -> list[TokenInfo]:
    """Return a tenant's tokens, oldest first; None: those of all tenants."""
    query = select(TokenRow.__table__).order_by(TokenRow.id)
    if tenant is not None:
        query = query.where(TokenRow.tenant == tenant)
    return [
        TokenInfo(
            row.id,
            row.tenant,
            row.name,
            tuple(right for right in RIGHTS if right in row.rights.split()),
            row.created_at,
            row.expires_at,
        )
        for row in database.ask(lambda connection: connection.execute(query).all())
    ]


def revoke(database: Database, id: int) -> bool:
    """Delete a token, which is refused from then on; False if there is none."""

    def work(connection: Connection) -> bool:
        gone = delete(TokenRow).where(TokenRow.id == id).returning(TokenRow.id)
        return connection.execute(gone).one_or_none() is not None

    return database.write(work)


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogateescape")).digest()
