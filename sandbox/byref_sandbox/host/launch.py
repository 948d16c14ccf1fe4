"""Starts sandbox processes: this Python, isolated, with only those environment variables that keep libraries single-threaded."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from byref_sandbox.code.libraries import ENVIRONMENT, LIBRARIES

_PACKAGES: Final = (
    "numpy",
    "pandas",
    "pyarrow",
    "RestrictedPython",
    "jq",
    "msgspec",
    "seccompy",
    "dateutil",
    "pytz",
    "matplotlib",
    "duckdb",
    *LIBRARIES,
)
_ENVIRONMENT: Final = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # Memory in huge pages if the kernel gives them on request: a run's allocations cause fewer page faults, and a fork
    # copies fewer page tables.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    **ENVIRONMENT,
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
# Loads this very package from the host's place. The folders that only the host knows come last in the path.
_START: Final = """
import importlib.util, sys
sys.path.extend(sys.argv[2:])
spec = importlib.util.spec_from_file_location("{package}", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["{package}"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from {package}.zygote.boot import {entry}
{entry}({passed})
"""
_PASSED_ON: Final = ("LD_LIBRARY_PATH",)
"""Some builds of Python find their libraries only with this variable."""


def command(entry: str, *arguments: str, modules: Sequence[str] = ()) -> list[str]:
    """Return the command line of `byref_sandbox.zygote.boot.<entry>(*arguments)`; numbers are passed as int.

    The process finds `modules`, which were checked, where the host does.
    """
    passed = ", ".join(argument if argument.isdigit() else repr(argument) for argument in arguments)
    start = _START.format(package=__name__.partition(".")[0], entry=entry, passed=passed)
    return [sys.executable, "-I", "-c", start, str(Path(__file__).resolve().parents[1]), *_roots(modules)]


def environment() -> dict[str, str]:
    """Return the environment in which everything is imported; the process then deletes it."""
    return _ENVIRONMENT | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def _roots(modules: Sequence[str]) -> list[str]:
    """Return the folders in which the host finds the packages. The child needs them, because it ignores PYTHONPATH and the
    user's site.
    """
    roots: dict[str, None] = {}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            package = Path(spec.origin).parent
            roots[str(package.parent if spec.submodule_search_locations else package)] = None
    if modules:
        from byref_sandbox.code.checking import check

        roots.update(dict.fromkeys(folder for name in modules for folder in check(name).folders))
    return list(roots)
