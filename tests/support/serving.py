"""`byref serve` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BYREF = str(Path(sys.executable).with_name("byref"))


@contextmanager
def serving(url: str, jail: str = "language-only") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server on a database, and give its address; it is killed in the end, if nobody has killed it before."""
    words = [BYREF, "serve", "--db", url, "--port", "0", "--jail", jail]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:  # a warning about the jail may come first
                said += line
                if "serving http://" in line:
                    break
            assert "serving http://" in said, said
            yield process, line.split()[-1].removesuffix("/").removesuffix("/v1")
        finally:
            process.kill()
