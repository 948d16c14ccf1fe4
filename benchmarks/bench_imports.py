"""How long `import byref` takes in a fresh process, and that it leaves the heavy packages alone."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

HEAVY = ("pandas", "pyarrow", "numpy", "genai_prices", "tiktoken", "alembic", "jsonschema", "RestrictedPython", "rich")
RUNS = 7


def main() -> None:
    """Print the median above a bare interpreter."""
    bare = statistics.median(_seconds("pass") for _ in range(RUNS))
    whole = statistics.median(_seconds("from byref import Engine") for _ in range(RUNS))
    check = f"from byref import Engine; import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    loaded = subprocess.check_output([sys.executable, "-c", check], text=True).split()
    print(
        f"imports: from byref import Engine {(whole - bare) * 1e3:.0f} ms; heavy packages loaded by it: {loaded or 'none'}"
    )


def _seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
