"""Bring the database to the heads of two independent histories: the host's migrations and byref's."""

from __future__ import annotations

import os
from pathlib import Path

from alembic import command
from alembic.config import Config

import byref

if __name__ == "__main__":
    command.upgrade(Config(Path(__file__).parent / "alembic.ini"), "head")
    byref.db.upgrade(os.environ.get("DATABASE_URL", "sqlite:///chat.db"))
