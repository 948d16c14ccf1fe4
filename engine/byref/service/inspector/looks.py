"""A request for a page, and what a page is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from byref.conversation.interpreters import Interpreter
from byref.conversation.scope import Scope
from byref.db.database import Database
from byref.service.inspector.sight import Sight
from byref.service.problems import Problem
from byref.session import Session


@dataclass(frozen=True, slots=True)
class Look:
    """One request for a page: who asks, and for what."""

    database: Database
    tenant: str
    sight: Sight
    query: Mapping[str, str]
    interpreter: Interpreter | None = None
    """The engine's."""
    session: Session | None = None
    """The one that the query names, for pages that show one."""

    @property
    def of(self) -> Session:
        """The session that is shown."""
        assert self.session is not None
        return self.session

    @property
    def scope(self) -> Scope:
        """The context of that session."""
        return self.of._scope

    @property
    def name(self) -> str | None:
        """The id of the session that is shown."""
        return None if self.session is None else self.session.id

    def text(self, name: str) -> str:
        """Return what the query says; a Problem if it says nothing."""
        if not (given := self.query.get(name, "")):
            raise Problem(404, "not-found", f"the link lacks {name}=")
        return given

    def number(self, name: str, default: int) -> int:
        """Return a number of the query; a Problem if it is none from 0 on."""
        given = self.query.get(name) or str(default)
        if not (given.isascii() and given.isdecimal()) or len(given) > 18:
            raise Problem(422, "invalid-request", f"{name}={given[:40]!r}: expected a number")
        return int(given)

    def read(self, work: Callable[[Connection], Any]) -> Any:
        """Run work in a transaction that reads."""
        return self.database.read(work)


@dataclass(frozen=True, slots=True)
class Page:
    """What a template needs."""

    template: str
    values: dict[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that browsers show as such, and as nothing else."""

    data: bytes
    content_type: str
