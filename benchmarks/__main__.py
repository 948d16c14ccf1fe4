"""Run every benchmark, or those named: `python -m benchmarks [--short] [--write] [process tokens …]`."""

from __future__ import annotations

import argparse
import inspect
import sys
import time
import traceback
from importlib import import_module

from benchmarks import facts, page, results
from benchmarks.page import NAMES
from benchmarks.results import Figure


def main(arguments: list[str]) -> int:
    """Run the benchmarks one after another; 1 if one of them failed. A target that is missed fails nothing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of: {', '.join(NAMES)}; all of them by default")
    parser.add_argument("--short", action="store_true", help="small sizes and few runs: a minute for all")
    parser.add_argument("--write", action="store_true", help="keep the figures, write RESULTS.md and results.svg")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    print(*(f"{name}: {value}" for name, value in facts.machine().items()), sep="\n")
    missed: list[tuple[str, Figure]] = []
    failed: list[str] = []
    for name in options.names or NAMES:
        print(f"\n{name}")
        start = time.perf_counter()
        figures: list[Figure] = []
        try:
            module = import_module(f"benchmarks.bench_{name}")
            for figure in module.main(short=options.short):
                figures.append(figure)
                print(figure.line(), flush=True)
        except Exception:  # noqa: BLE001  the others are measured all the same
            traceback.print_exc()
            failed.append(name)
        print(f"  ({time.perf_counter() - start:.0f} s)", flush=True)
        missed += [(name, figure) for figure in figures if figure.verdict is False]
        if options.write and figures and name not in failed:
            results.keep(name, inspect.cleandoc(module.__doc__ or ""), facts.machine(), figures)
    if options.write:
        page.write()
    print(f"\n{len(missed)} targets missed" if missed else "\nall targets met")
    for name, figure in missed:
        print(
            f"  {name}: {figure.step}: {results.shown(figure.value)} {figure.unit}, {results.shown(figure.ratio)}x; {figure.target}"
        )
    for name in failed:
        print(f"  {name} FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
