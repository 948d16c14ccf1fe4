"""Run every benchmark, or those named: `python -m benchmarks process tokens`."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("process", "interpreter", "imports", "describe", "tokens", "storage")


def main(names: list[str]) -> int:
    """Run the benchmarks one after another."""
    for name in names or NAMES:
        if name not in NAMES:
            print(f"no benchmark {name!r}; there are: {', '.join(NAMES)}", file=sys.stderr)
            return 2
        import_module(f"benchmarks.bench_{name}").main()
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
