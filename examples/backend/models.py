"""The host's own table, in the same database as byref's tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Base of the tables that the host's Alembic manages."""


class Message(Base):
    """One message of a chat, in the provider's form."""

    __tablename__ = "messages"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str] = mapped_column(index=True)
    chat: Mapped[str] = mapped_column(index=True)
    role: Mapped[str]
    content: Mapped[Any] = mapped_column(JSON)
