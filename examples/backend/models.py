"""The host's own table; byref's tables stand beside it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """What the host's Alembic looks after."""


class Message(Base):
    """One message of a chat, as the provider takes it."""

    __tablename__ = "messages"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str] = mapped_column(index=True)
    chat: Mapped[str] = mapped_column(index=True)
    role: Mapped[str]
    content: Mapped[Any] = mapped_column(JSON)
