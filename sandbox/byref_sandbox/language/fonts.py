"""matplotlib's fonts in memory, since a run can read no files.

Only the fonts that come with matplotlib are used, so a plot looks the same on every machine. They are read once, in the zygote. What
FreeType makes of them survives a fork, because no open file is behind it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import logging
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from byref_sandbox.language.refusal import no_files

_NOWHERE = "/nonexistent"


def import_matplotlib() -> None:
    """Import matplotlib with only its own settings and fonts, whatever the machine has; raise ImportError."""
    if "matplotlib.font_manager" in sys.modules:
        return
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
    data = Path(spec.origin).parent / "mpl-data"
    with _changed(os.environ, "MATPLOTLIBRC", str(data / "matplotlibrc")):
        import matplotlib
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its warnings of fonts that are not there
    matplotlib.use("Agg")
    for name in ("get_configdir", "get_cachedir"):
        setattr(matplotlib, name, lambda: _NOWHERE)  # the real ones make a folder
    walk = os.walk
    with (
        _changed(
            vars(os), "walk", lambda top, **options: walk(top, **options) if Path(top).is_relative_to(data) else ()
        ),
        _changed(vars(subprocess), "check_output", _no_program),
        _changed(vars(threading), "Timer", _NoTimer),
    ):
        import matplotlib.font_manager


def hold_fonts() -> None:
    """Read all fonts into memory, and have matplotlib use those instead of the files."""
    from matplotlib import font_manager, ft2font

    manager: Any = font_manager
    if isinstance(manager.ft2font, types.SimpleNamespace):
        return
    folder = Path(manager.cbook._get_data_path("fonts", "ttf"))
    held = {os.path.realpath(path): path.read_bytes() for path in folder.glob("*.ttf")}
    manager.fontManager.ttflist = [font for font in manager.fontManager.ttflist if os.path.realpath(font.fname) in held]

    def open_font(path: Any, *arguments: Any, **options: Any) -> Any:
        data = held.get(str(path))
        if data is None:
            raise no_files("a font by its path")
        return ft2font.FT2Font(io.BytesIO(data), *arguments, **options)

    members = {name: getattr(ft2font, name) for name in dir(ft2font) if not name.startswith("__")}
    manager.ft2font = types.SimpleNamespace(**members | {"FT2Font": open_font})
    # Its own is emptied after each fork, since the files would be shared; these are none.
    manager._get_font = functools.lru_cache(64)(manager._get_font.__wrapped__)
    manager._cached_realpath = str
    known = {font.fname for font in manager.fontManager.ttflist} | held.keys()
    files = _files(known)
    manager.os = files
    setattr(importlib.import_module("matplotlib._mathtext"), "os", files)  # noqa: B010


def _files(known: set[str]) -> types.SimpleNamespace:
    """Return a stand-in for `os` that answers questions about font files."""

    def is_known(name: Any) -> bool:
        return str(name) in known  # a FontPath is a str with a hash of its own

    path = types.SimpleNamespace(**vars(os.path) | {"isfile": is_known, "exists": is_known, "realpath": str})
    return types.SimpleNamespace(**vars(os) | {"path": path})


class _NoTimer:
    """Stands for a timer thread that would warn after five seconds."""

    def __init__(self, *_arguments: object) -> None: ...

    def start(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""


def _no_program(*_arguments: object, **_options: object) -> bytes:
    raise OSError("no programs are started here")


@contextlib.contextmanager
def _changed(names: Any, name: str, value: object) -> Iterator[None]:
    missing = object()
    before = names.get(name, missing)
    names[name] = value
    try:
        yield
    finally:
        if before is missing:
            del names[name]
        else:
            names[name] = before
