"""A real browser: the machine's Chromium, or the one in an npm package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from gateway_kit import npm_programs

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGE = "@sparticuz/chromium"
PRINT_PATH = f"import('{PACKAGE}').then(async (found) => console.log(await found.default.executablePath()))"


def chromium() -> str:
    """The path of a Chromium; the test is skipped where there is none."""
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    folder = npm_programs("chromium", PACKAGE).parents[1]
    kept = folder / "unpacked"
    kept.mkdir(exist_ok=True)
    asked = subprocess.run(
        ["node", "-e", PRINT_PATH], cwd=folder, env=os.environ | {"TMPDIR": str(kept)}, capture_output=True, text=True
    )
    path = Path(asked.stdout.strip() or "none")
    if not path.exists():
        pytest.skip(f"there is no Chromium on this machine, and {PACKAGE} has none for it: {asked.stderr[-300:]}")
    return str(path)
