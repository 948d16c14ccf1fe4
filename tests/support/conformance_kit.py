"""Requests that schemathesis makes out of a service's OpenAPI document."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SETTINGS = Path(__file__).parents[1] / "conformance"
_COUNTED = re.compile(r"(\d+) generated")


def ask(base: str, token: str, *, seed: int, examples: int, phases: str = "coverage,fuzzing") -> tuple[bool, int]:
    """Let schemathesis ask a service; return whether an answer was wrong, and how many cases there were."""
    command = [str(Path(sys.executable).with_name("st")), "--config-file", str(SETTINGS / "schemathesis.toml"), "run"]
    command += [f"{base}/v1/openapi.json", "--seed", str(seed), "--max-examples", str(examples), "--phases", phases]
    about = {"API_URL": base, "API_TOKEN": token, "PYTHONWARNINGS": "ignore"}
    asked = subprocess.run(command, env=os.environ | about, cwd=SETTINGS, capture_output=True, text=True)
    counted = _COUNTED.search(asked.stdout)
    if asked.returncode or counted is None:
        print(asked.stdout, asked.stderr, sep="\n")
    return bool(asked.returncode) or counted is None, int(counted[1]) if counted is not None else 0
