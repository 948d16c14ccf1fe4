"""How the host starts a sandbox process: this Python, isolated, with no environment but what keeps libraries single-threaded."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("numpy", "pandas", "pyarrow", "RestrictedPython", "jq", "msgspec", "seccompy", "dateutil", "pytz")
_ENVIRONMENT: Final = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # A process that forks must have one thread.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_MAX_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_PASSED_ON: Final = ("LD_LIBRARY_PATH",)
"""Some builds of Python find their libraries only through it."""


def command(entry: str, *arguments: str) -> list[str]:
    """The command line of `byref_sandbox.boot.<entry>(*arguments)`; numbers are passed as int."""
    passed = ", ".join(argument if argument.isdigit() else repr(argument) for argument in arguments)
    start = f"import sys; sys.path.extend(sys.argv[1:]); from byref_sandbox.boot import {entry}; {entry}({passed})"
    return [sys.executable, "-I", "-c", start, *_roots()]


def environment() -> dict[str, str]:
    """The environment until everything is imported; after that there is none."""
    return _ENVIRONMENT | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def _roots() -> list[str]:
    """Where this package and what it needs were found, for a Python that ignores PYTHONPATH and the user's site."""
    roots = {str(Path(__file__).resolve().parent.parent): None}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            package = Path(spec.origin).parent
            roots[str(package.parent if spec.submodule_search_locations else package)] = None
    return list(roots)
