"""byref's modules in C, compiled of the source as it is now, whatever was installed."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def build_script() -> ModuleType:
    return loaded("hatch_build", ROOT / "hatch_build.py")


def loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(module: str, folder: Path) -> ModuleType:
    """The module at this path below `engine`, without its suffix; the test is skipped where nothing can be compiled."""
    try:
        return loaded(Path(module).name, build_script().compile_(module, folder, "-Werror"))
    except OSError as error:
        pytest.skip(f"there is no compiler: {error}")
    except subprocess.CalledProcessError as error:
        if "Python.h" in error.stderr:
            pytest.skip("there are no headers of Python")
        raise AssertionError(error.stderr) from error
