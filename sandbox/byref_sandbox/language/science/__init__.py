"""The libraries of `byref[science]` as the language has them: allow-listed names, and walls where a library would reach further.

`names.json` is made by a tool that follows each function to what it reaches (`make allowed`); `walls` holds what was written by hand:
functions that the language has in another form, because they make code of text, take paths, or hand unchecked numbers to compiled code.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from byref_sandbox.code.libraries import ENVIRONMENT, LIBRARIES, is_installed
from byref_sandbox.jail.identity import can_nobody_read
from byref_sandbox.language.facades import Facade
from byref_sandbox.language.modules import Modules, public
from byref_sandbox.language.science import formulas, graphs, learning, numbers, symbols, walls
from byref_sandbox.language.science.hints import HINTS
from byref_sandbox.language.science.walls import Given

_WALLS: Final = {
    "scipy": numbers.scipy,
    "sklearn": learning.sklearn,
    "statsmodels": formulas.statsmodels,
    "patsy": formulas.patsy,
    "seaborn": graphs.seaborn,
    "networkx": graphs.networkx,
    "sympy": symbols.sympy,
    "mpmath": symbols.mpmath,
}
_WARM: Final[Mapping[str, Callable[[], None]]] = {
    "sklearn": learning.warm_sklearn,
    "seaborn": graphs.warm_seaborn,
    "sympy": symbols.warm_sympy,
}
_COMES_WITH: Final = {"sympy": ("mpmath",), "statsmodels": ("patsy",)}
"""Packages that code may import once a library is loaded."""


def load(library: str, given: Given) -> None:
    """Import a library, put its walls up and add its modules; raise ImportError where it is not installed."""
    lists = _lists()
    with _as_at_the_start(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packages = [library, *_COMES_WITH.get(library, ())]
        for package in packages:
            importlib.import_module(package)
            for name in (*lists[package]["loads"], *lists[package]["imports"]):
                with contextlib.suppress(ImportError):  # another version of the library
                    importlib.import_module(name)
        for package in packages:
            _replace_methods(lists[package]["replaced"])
        others = {package: _WALLS[package](given) for package in packages}
        for package in packages:
            _add(package, lists[package]["modules"], others[package], given.modules)
        _WARM.get(library, lambda: None)()


def must_be_loaded_early(library: str) -> bool:
    """Whether a package that is installed must be loaded before root becomes nobody, who cannot read root's own folders."""
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        return False
    if library not in LIBRARIES and not can_nobody_read(Path(os.__file__).resolve()):
        return True  # what it imports of Python's own is known for libraries alone: `load_parts_of_python`
    return not can_nobody_read(Path(spec.origin).resolve())


def load_parts_of_python() -> None:
    """Import what the libraries import of Python's own, where nobody could not read it later: uv and pyenv put Python into root's folder."""
    if any(map(is_installed, LIBRARIES)) and not can_nobody_read(Path(os.__file__).resolve()):
        for name in _lists()["python"]:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


@functools.cache
def _lists() -> dict[str, Any]:
    made: dict[str, Any] = json.loads((Path(__file__).parent / "names.json").read_text())
    return made


@contextlib.contextmanager
def _as_at_the_start() -> Any:
    """Set the environment of a zygote's start: libraries ask it for their number of threads when they are loaded."""
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name in ENVIRONMENT.keys() - before.keys():
            del os.environ[name]


def _replace_methods(replaced: Mapping[str, str]) -> None:
    for place, why in replaced.items():
        module, _, name = place.partition(":")
        owner, _, method = name.partition(".")
        kind = getattr(sys.modules.get(module), owner, None)
        if isinstance(kind, type) and method in vars(kind):
            setattr(kind, method, walls.refused(f".{method}()", f"it would reach {why.partition(':')[0]}"))


def _add(package: str, listed: Mapping[str, str], others: Mapping[str, Mapping[str, Any]], modules: Modules) -> None:
    """Add the facades of a package. `others` are, by module, names that code has in another form."""
    made: dict[str, Facade] = {}
    names = {package, *others, *listed}
    for name in [*names]:
        parts = name.split(".")
        names.update(".".join(parts[:count]) for count in range(1, len(parts)))
    for name in sorted(names):
        real = sys.modules.get(name)
        attributes: dict[str, Any] = {}
        if isinstance(real, types.ModuleType):
            attributes = public(real, listed.get(name, "").split())
            if isinstance(version := vars(real).get("__version__"), str):
                attributes["__version__"] = version
        # What a module hands on of another one's is in another form there too.
        attributes = {n: walls.forms.get(id(value), value) for n, value in attributes.items()}
        made[name] = modules.add(name, attributes | dict(others.get(name, {})), real, HINTS.get(name))
    by_module = {id(sys.modules[name]): facade for name, facade in made.items() if name in sys.modules}
    for name, facade in made.items():
        for attribute, value in vars(sys.modules[name]).items() if name in sys.modules else ():
            if type(value) is types.ModuleType and id(value) in by_module and not attribute.startswith("_"):
                vars(facade).setdefault(attribute, by_module[id(value)])
    for name, facade in made.items():
        above, _, part = name.rpartition(".")
        if above and part not in vars(made[above]):
            vars(made[above])[part] = facade
