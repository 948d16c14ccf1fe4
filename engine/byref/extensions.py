"""byref's modules in C: each is used where it was compiled, and where it is of this version; docs/decisions/compiled-inference.md has
the reasons.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


def load(name: str, version: int) -> Any:
    """Return a module in C, or None if it was not compiled or its `VERSION` is another: then what is in Python does the work."""
    try:
        module = import_module(name)
    except ImportError:  # it was installed without a compiler
        return None
    if getattr(module, "VERSION", None) == version:
        return module
    warnings.warn(
        "byref's compiled part is of another version than its Python code, which works without it, and slower. It is compiled anew"
        " when byref is installed: in a checkout by `pip install --editable .`.",
        RuntimeWarning,
        stacklevel=1,
    )
    return None
