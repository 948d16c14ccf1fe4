"""Packages of npm and PyPI, by name and version, through the clients of these registries as they are configured here."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CACHE = Path(__file__).parents[1] / ".cache" / "benchmarks"
"""What is made of packages once; never committed, and gone with `make clean`."""
SECONDS = 300
"""That a client may take for one package."""


class Unavailable(Exception):
    """A package that cannot be had here; the message says why, in one line."""


@dataclass(frozen=True)
class Package:
    """One version of a package. `digest` is what its registry tells of the archive: `sha512-…` of npm, or pip's `sha256:…`."""

    client: Literal["npm", "pip"]
    name: str
    version: str
    digest: str
    is_source: bool = False
    """Of pip: the source distribution, not the wheel."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def folder(self) -> Path:
        """Where to keep what is made of it."""
        return CACHE / self.client / self.name.replace("/", "+") / self.version

    def download(self, folder: Path) -> Path:
        """Its archive, in a folder of the caller's, with the digest that it has to have; else `Unavailable`."""
        command = self._command(folder)
        if shutil.which(command[0]) is None:
            raise Unavailable(f"{self}: {self.client} is not installed")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{self}: {self.client} took longer than {SECONDS} s") from None
        archives = [path for path in folder.iterdir() if path.suffix in (".tgz", ".gz", ".whl")]
        if done.returncode or len(archives) != 1:
            raise Unavailable(f"{self}: {self.client} {_reason(done.stderr)}")
        if not self._is(archives[0].read_bytes()):
            raise Unavailable(f"{self}: the archive that {self.client} brought has another digest than {self.digest}")
        return archives[0]

    def _command(self, folder: Path) -> list[str]:
        if self.client == "npm":
            flags = ("--loglevel", "error", "--fetch-retries", "1", "--pack-destination", str(folder))
            return ["npm", "pack", *flags, f"{self.name}@{self.version}"]
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{self.name}=={self.version} --hash={self.digest}\n", encoding="utf-8")
        kind = ("--no-binary", self.name) if self.is_source else ("--only-binary", ":all:")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--retries", "1")
        return [*pip, "download", "--no-deps", *kind, "--require-hashes", "--dest", str(folder), "-r", str(wanted)]

    def _is(self, archive: bytes) -> bool:
        if self.client == "npm":
            return self.digest == f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
        return self.digest == f"sha256:{hashlib.sha256(archive).hexdigest()}"


def _reason(said: str) -> str:
    """The first error that a client tells, else the last line; without addresses, which are those of one machine."""
    lines = [line.strip().removeprefix("npm ") for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("err")]
    return re.sub(r"\w+://\S+", "…", (errors or lines[-1:] or ["failed and said nothing"])[0])[:200]
