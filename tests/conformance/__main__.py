"""`make conformance`: requests that schemathesis makes out of the OpenAPI document, and whether the answers are as it says.

    python tests/conformance [--cases 10000] [--seed N] [--database sqlite:///…]

Exit code 1 where an answer was not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "support"))  # it runs alone, too

from conformance_kit import ask
from serving import serving

import byref
from byref.service import auth


def main(arguments: list[str]) -> int:
    """Ask until there are enough cases, each round with another seed."""
    parser = argparse.ArgumentParser(prog="python tests/conformance", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--database", help="default: SQLite in a folder that goes")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="byref-conformance-") as folder:
        url = options.database or f"sqlite:///{folder}/service.db"
        byref.db.upgrade(url)
        with byref.Engine(url, jail="language-only") as engine:
            token = auth.create(engine.database, tenant="acme", name="t", rights=["read", "chat", "admin"])
        with serving(url) as (_, base):
            failed, cases, seed = False, 0, options.seed
            while cases < options.cases and not failed:
                failed, some = ask(base, token, seed=seed, examples=100)
                cases, seed = cases + some, seed + 1
    print(f"{cases:,} cases from seed {options.seed} on, {'some failed' if failed else 'none failed'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
