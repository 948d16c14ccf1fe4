"""Reports whether code that tried to break out succeeded: what it got, read and wrote."""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import json
import os
import pickle
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SECRET = "s3cr3t-5d1f7a"
_CODE_RUNNERS = (builtins.open, builtins.eval, builtins.exec, builtins.compile, builtins.__import__, type)
_LOOT_TYPES = (types.ModuleType, types.FrameType, types.CodeType, types.TracebackType)
_EVENTS = ("os.", "subprocess.", "socket.", "ctypes.", "pickle.find_class", "shutil.", "fcntl.", "mmap.", "sqlite3.")
_watching: list[str] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching is None:
        return
    if event == "sqlite3.connect" and arguments == (":memory:",):
        return
    if event == "sqlite3.enable_load_extension" and arguments[1] is False:
        return
    if event.startswith(_EVENTS) and event not in ("os.listdir", "os.scandir", "sqlite3.connect/handle"):
        _watching.append(f"{event} {arguments!r:.100}")
    elif event == "open" and str(arguments[0]).startswith(_place):
        _watching.append(f"open {arguments[0]}")


_place = "/nowhere"
_hooked = False


def variables(place: Path) -> dict[str, Any]:
    """What attacks are given: paths of a secret and of a file that must not come into being."""
    (place / "secret").write_text(SECRET)
    (place / "secret.json").write_text(json.dumps([{"a": SECRET}]))
    (place / "pickle").write_bytes(pickle.dumps(pd.DataFrame({"a": [SECRET]})))
    np.save(place / "array.npy", np.array([SECRET]))
    return {
        "secret_path": str(place / "secret"),
        "secret_json_path": str(place / "secret.json"),
        "pickle_path": str(place / "pickle"),
        "numpy_path": str(place / "array.npy"),
        "target_path": str(place / "target"),
        "command": f"touch {place / 'target'}",
        "secret_word": "secret_word",
        "breached": lambda: SECRET,
    }


def loot(value: object, depth: int = 0) -> str | None:
    """What of a value must not have been had, if anything."""
    if isinstance(value, _LOOT_TYPES) or any(value is runner for runner in _CODE_RUNNERS):
        return repr(value)[:100]
    if isinstance(value, (types.BuiltinFunctionType, types.MethodType)) and (
        isinstance(value.__self__, types.ModuleType)
        and value.__self__.__name__ in ("posix", "sys", "io", "_io")
        and value.__name__ not in ("_path_normpath", "_path_splitroot_ex")  # of os.path: text comes in, text goes out
    ):
        return repr(value)
    kind = type(value)
    if not isinstance(value, tuple) and kind.__module__ in (
        "ctypes",
        "_ctypes",
        "importlib._bootstrap",
        "_frozen_importlib",
        "_frozen_importlib_external",
    ):
        return repr(kind)
    if isinstance(value, Mapping):
        # Not by the methods of a library's own class: sympy's Cycle cannot be looped over while it is empty.
        held = dict.items(value) if isinstance(value, dict) else value.items()
        if not {"__builtins__", "__import__", "__spec__"}.isdisjoint(key for key, _ in held if isinstance(key, str)):
            return "a module's namespace"
        return _first([one for _, one in held], depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        if any(item is os._wrap_close or item is types.CodeType for item in value):
            return "all classes of the process"
        return _first(value, depth)
    if isinstance(value, str | bytes):
        return next(
            (mark for mark in (SECRET, "<module 'builtins'", "<built-in function __import__>") if mark in str(value)),
            None,
        )
    if isinstance(value, types.FunctionType) and value.__module__ in ("builtins", "os", "io"):
        return repr(value)
    return None


def _first(values: Any, depth: int) -> str | None:
    if depth > 4:
        return None
    return next((found for item in list(values)[:3000] if (found := loot(item, depth + 1))), None)


Run = Callable[[dict[str, Any], io.StringIO], object]
"""An attack, from what it is given and where it may print to its value."""


def attempt(run: Run, place: Path) -> str | None:
    """Run an attack in a process of its own; what it achieved, or None."""
    return attempts({"": run}, place)[""]


def attempts(runs: Mapping[str, Run], place: Path) -> dict[str, str | None]:
    """What each attack achieved, or None; they are run in one process, another after one that achieved something or ended it."""
    achieved: dict[str, str | None] = {}
    folders = (place / str(number) for number in count())
    while left := {name: run for name, run in runs.items() if name not in achieved}:
        achieved |= _achieved_in_a_process(left, next(folders))
    return achieved


def _achieved_in_a_process(runs: Mapping[str, Run], place: Path) -> dict[str, str | None]:
    """The same of the first attacks, as far as the first that achieved something."""
    place.mkdir()
    given = variables(place)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _attack(runs, given, place, writer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        reports = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    achieved = dict(zip(runs, reports, strict=False))
    if status or (len(reports) < len(runs) and not any(reports)):
        achieved[list(runs)[min(len(reports), len(runs) - 1)]] = f"the process died with status {status}"
    return achieved


def _attack(runs: Mapping[str, Run], given: dict[str, Any], place: Path, reports: int) -> None:
    """Write a line for each attack, up to the first that achieved something."""
    global _watching, _place, _hooked
    if not _hooked:
        sys.addaudithook(_audit)
    _hooked, _place = True, str(place)
    for run in runs.values():
        _watching, output, value = [], io.StringIO(), None
        with contextlib.suppress(BaseException), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = run(dict(given), output)
        events, _watching = _watching, None
        report = loot(value) or loot(output.getvalue()) or "; ".join(events) or None
        if list(place.glob("target*")):
            report = "a file was written"
        os.write(reports, json.dumps(report).encode() + b"\n")
        if report is not None:
            return


def in_plain_python(code: str) -> Run:
    """The attack without the language: shows that its success would be seen."""

    def run(given: dict[str, Any], output: io.StringIO) -> object:
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        space = {"__name__": "__main__", "pd": pd, "np": np, **given}
        if "__getattr__" in vars(pd.Series):  # a Language was made in this process
            del pd.Series.__getattr__
        with contextlib.redirect_stdout(output):
            exec(compile(tree, "<plain>", "exec", dont_inherit=True), space)
            if isinstance(last, ast.Expr):
                return eval(compile(ast.Expression(last.value), "<plain>", "eval", dont_inherit=True), space)
        return None

    return run
