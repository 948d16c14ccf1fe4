"""The jq program that queries are measured against: the current one, whatever the machine comes with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.registries import Package, Unavailable

SOURCES = Package(
    "pip", "jq", "1.13.0", "sha256:e62bdddeab3b8a0a404581a7bb6f1e8c4cc6082280870031f746074f4cac52c0", is_source=True
)
"""The bindings that the jail has; their source distribution carries jq's own release, 1.8.2."""
CURRENT = (1, 7)
"""The least release that is measured as it is found; the ones before, of 2018 and earlier, are slower by far."""
BUILD_SECONDS = 900


@dataclass(frozen=True)
class Program:
    """A jq to run: where it is, and what it says its version is."""

    path: str
    version: str

    @property
    def is_current(self) -> bool:
        """Whether it is one of the releases that are maintained."""
        found = re.search(r"(\d+)\.(\d+)", self.version)
        return found is not None and (int(found[1]), int(found[2])) >= CURRENT


def program(*, build: bool) -> tuple[Program | None, str]:
    """The jq of this machine if that is current, else the one that was built, else whatever there is; and why no better one."""
    found = shutil.which("jq")
    installed = _asked(found) if found else None
    if installed is not None and installed.is_current:
        return installed, ""
    built = SOURCES.folder / "bin" / "jq"
    if not built.exists():
        if not build:
            return installed, "the current jq was not built yet, and the short form builds nothing"
        try:
            _build(built)
        except Unavailable as error:
            return installed, str(error)
    return _asked(str(built)), ""


def _asked(path: str) -> Program:
    return Program(path, subprocess.check_output([path, "--version"], text=True).split("\n")[0].strip())


def _build(into: Path) -> None:
    """Half a minute of processor time: configure and make, as jq's own instructions have it."""
    SOURCES.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SOURCES.folder) as name:
        folder = Path(name)
        _unpack(SOURCES.download(folder), folder)
        release = next(folder.glob("jq-*/deps/jq-*.tar.gz"), None)
        if release is None:
            raise Unavailable(f"{SOURCES}: it carries no release of jq")
        _unpack(release, folder / "release")
        sources = next((folder / "release").iterdir())
        flags = ("--disable-docs", "--disable-maintainer-mode", "--disable-shared", "--with-oniguruma=builtin")
        for command in (("./configure", *flags), ("make", f"-j{os.cpu_count() or 1}")):
            try:
                done = subprocess.run(
                    command, cwd=sources, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unavailable(f"{SOURCES}: {command[0]}: {error}") from None
            if done.returncode:
                raise Unavailable(
                    f"{SOURCES}: {command[0]}: {(done.stderr.strip() or 'failed').splitlines()[-1][:200]}"
                )
        into.parent.mkdir(exist_ok=True)
        (sources / "jq").replace(into)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tarball:
        tarball.extractall(folder, filter="data")
