"""The host's migrations; byref has its own."""

from __future__ import annotations

import os

from alembic import context
from models import Base
from sqlalchemy import create_engine

import byref

engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///chat.db"))
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, include_name=byref.db.include_name)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
