"""Packages of other versions: this one with other migrations, as processes import them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]

EXPAND = '''"""A column, an index and a table that older code need not know.

Revision ID: {revision}
Revises: {before}
"""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"
branch_labels = None
depends_on = None

oldest = "{oldest}"


def upgrade() -> None:
    op.add_column("byref_ledger", sa.Column("written_by", sa.String(16)))
    op.create_index("ix_byref_sessions_created_at", "byref_sessions", ["created_at"])
    op.create_table("byref_notes", sa.Column("id", sa.Integer(), primary_key=True), sa.Column("text", sa.Text()))


def downgrade() -> None:
    op.drop_table("byref_notes")
    op.drop_index("ix_byref_sessions_created_at", "byref_sessions")
    op.drop_column("byref_ledger", "written_by")
'''
"""A migration that might be the next."""


class Package:
    """A copy of the package with the migrations up to a revision, or with one that there is not yet."""

    def __init__(self, folder: Path, revisions: tuple[str, ...], *, oldest: str | None = None) -> None:
        self.folder = folder
        package = folder / "byref"
        shutil.copytree(CHECKOUT / "engine/byref", package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(CHECKOUT / "migrations", package / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
        self._replace("db/revisions.py", r"^REVISIONS = .*$", f"REVISIONS = {revisions!r}")
        versions = package / "migrations/versions"
        there = {script.name.split("_")[1]: script for script in versions.glob("*.py")}
        for revision in there.keys() - set(revisions):
            there[revision].unlink()
        if revisions[-1] not in there:
            script = EXPAND.format(revision=revisions[-1], before=revisions[-2], oldest=oldest or revisions[-2])
            (versions / f"20990101_{revisions[-1]}_next.py").write_text(script)
            column = '    written_by: Mapped[str | None] = mapped_column(String(16), default="newer")\n'
            self._replace("db/tables.py", r'^    __tablename__ = "byref_ledger"\n', rf"\g<0>{column}")

    def _replace(self, name: str, pattern: str, by: str) -> None:
        path = self.folder / "byref" / name
        text, count = re.subn(pattern, by, path.read_text(), flags=re.MULTILINE)
        assert count == 1, f"{name}: {pattern} is there {count} times"
        path.write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that imports this package."""
        return os.environ | {"PYTHONPATH": str(self.folder)}

    def start(self, script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a process; its output is to be read."""
        command = [sys.executable, "-c", script, *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.PIPE}
        return subprocess.Popen(command, env=self.environment, text=True, **pipes | options)

    def run(self, script: str, *arguments: str) -> tuple[str, str]:
        """Run a script to its end; what it printed and complained of."""
        process = self.start(script, *arguments)
        output, complaints = process.communicate(timeout=120)
        assert process.returncode == 0, complaints
        return output, complaints
