"""The statements of a migration, as they were released."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path

from alembic import command

from byref.db import migrate

HERE = Path(__file__).parent


def statements(revision: str, url: str) -> str:
    """What makes an empty database one of that revision."""
    config = migrate._config()
    config.cmd_opts = Namespace(x=[f"url={url}"])
    config.output_buffer = written = io.StringIO()
    command.upgrade(config, revision, sql=True)
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines() if line.strip())


def released(revision: str, dialect: str) -> str:
    """The same when it was released."""
    return (HERE / f"{revision}.{dialect}.sql").read_text()
