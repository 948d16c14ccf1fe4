"""`make chaos`: everything that can break, broken under load; each scenario in a process of its own.

    python tests/chaos [--short] [--seconds N] [--seed N] [--list] [NAME…]

What was acknowledged has to be there afterwards, each database is verified to the last byte, nothing hangs, nothing is left.
Exit code 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "support"))

import kit
from report import Report, Scenario, print_table

SHORT, LONG = 1.5, 60.0
"""Seconds of each scenario's load."""
PATIENCE = 300.0
"""Seconds beyond its load after which a scenario hangs."""
MODULES = sorted(path.stem for path in Path(__file__).parent.glob("faults_*.py"))


def scenarios() -> dict[str, tuple[str, Scenario]]:
    """Every public function of the modules that takes (folder, seconds, seed), by name, with its module."""
    found: dict[str, tuple[str, Scenario]] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            is_ours = inspect.isfunction(value) and not key.startswith("_") and value.__module__ == name
            if is_ours and list(inspect.signature(value).parameters) == ["folder", "seconds", "seed"]:
                found[key] = name, value
    return found


def main() -> int:
    """Run all scenarios, or those that are named."""
    parser = argparse.ArgumentParser(prog="python tests/chaos", description="Break things under load, then verify.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; default: all")
    parser.add_argument("--short", action="store_true", help=f"{SHORT:g} seconds of load each, not {LONG:g}")
    parser.add_argument("--seconds", type=float, help="of load, each scenario")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--list", action="store_true", help="say which scenarios there are")
    parser.add_argument("--alone", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = scenarios()
    if options.list:
        for name, (module, _) in known.items():
            print(f"{name:36} {module}")
        return 0
    if unknown := set(options.names) - set(known):
        parser.error(f"no scenario {sorted(unknown)}; there are {list(known)}")
    seconds = options.seconds or (SHORT if options.short else LONG)
    if options.alone:
        _, scenario = known[options.names[0]]
        print(json.dumps(asdict(scenario(Path(options.alone), seconds, options.seed))))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what cleans up
    reports = []
    with tempfile.TemporaryDirectory(prefix="byref-chaos-") as folder, kit.server(Path(folder) / "postgresql") as url:
        for name in options.names or known:
            report = _apart(name, Path(folder) / name, seconds, options.seed, url)
            print(report, *(f"FAILED {failure}" for failure in report.failures[:5]), sep="\n", flush=True)
            reports.append(report)
    print(f"\nseed {options.seed}")
    print_table(reports)
    return 1 if any(report.failures for report in reports) else 0


def _apart(name: str, folder: Path, seconds: float, seed: int, url: str) -> Report:
    """Run one scenario in a process of its own, which is ended with all below it if it hangs."""
    folder.mkdir()
    command = [sys.executable, str(Path(__file__).parent), "--alone", str(folder), "--seconds", str(seconds)]
    began = time.monotonic()
    with subprocess.Popen(
        [*command, "--seed", str(seed), name],
        env=os.environ | {kit.POSTGRESQL: url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            told, complained = child.communicate(timeout=seconds * 8 + PATIENCE)
        except subprocess.TimeoutExpired:
            for pid in [*kit.below(child.pid), child.pid]:
                kit.send(pid, kit.signal.SIGKILL)
            return Report(name, failures=[f"hung: no end after {time.monotonic() - began:.0f} s"])
    if child.returncode:
        return Report(name, failures=[f"ended with {child.returncode}: {complained[-3000:]}"])
    report = Report(**json.loads(told.splitlines()[-1]))
    report.figures["seconds"] = round(time.monotonic() - began, 1)
    return report


if __name__ == "__main__":
    import leftovers

    leftovers.watch()
    sys.exit(main())
