"""Figures and models in a graph: the classes and functions of matplotlib, seaborn and scikit-learn that a stream may name.

A figure is taken apart by matplotlib's own `__getstate__`, which leaves out the canvas, the window and everything that can be
computed again. Code cannot make subclasses of matplotlib's classes, so these methods are always the library's.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any, Final

from byref_sandbox.code.words import words

PREFIX: Final = "drawings:"
"""Prefix of the names that this module gives."""
_MODULES: Final = words("""_enums artist axis category cbook collections colorbar colorizer colors container contour dates figure gridspec
    hatch image layout_engine legend legend_handler lines markers mlab offsetbox patches path patheffects quiver sankey scale spines
    stackplot streamplot table text textpath ticker transforms units axes projections tri""")
"""Modules and packages of matplotlib whose classes figures consist of. None of them opens a file, a window or a program."""
_PACKAGES: Final = (
    "mpl_toolkits.mplot3d",
    "mpl_toolkits.axes_grid1",
    "pandas.plotting._matplotlib",
    "cycler",
)
"""The same of other packages."""
_LIBRARIES: Final = (
    "seaborn.axisgrid", "seaborn.matrix", "seaborn.palettes", "seaborn._core", "seaborn._marks", "seaborn._stats", "sklearn",
    "scipy.sparse", "scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate", "scipy.spatial", "scipy._lib._bunch",
    "scipy._lib._util", "statsmodels", "patsy", "sympy", "networkx.classes",
)  # fmt: skip
"""Packages of libraries that are loaded by themselves: what seaborn's grids, models, results, expressions and graphs consist of."""
DISTRIBUTIONS: Final = ("scipy.stats._continuous_distns", "scipy.stats._discrete_distns")
"""Modules of the classes of which scipy's distributions are."""
OF_DISTRIBUTIONS: Final = ("scipy.stats._distn_infrastructure", "scipy.stats._continuous_distns")
VARIABLES: Final = "scipy.stats._new_distributions"
TABULATED: Final = {"rv_sample": "rv_discrete", "rv_histogram": "rv_histogram"}
"""Classes of distributions that are made from numbers, and the names under which scipy's stats makes them."""
_LEFT_OUT: Final = (
    "sklearn.datasets", "sklearn.externals", "sklearn.utils._testing", "sklearn.utils.parallel",
    "scipy.spatial.tests", "scipy.stats.tests", *DISTRIBUTIONS, "statsmodels.datasets", "statsmodels.tools.web", "statsmodels.tools.rng_qrng",
    "sympy.testing", "sympy.utilities", "sympy.external", "sympy.plotting", "sympy.interactive", "sympy.printing",
)  # fmt: skip
_ALSO: Final = {
    "matplotlib.artist": "_stale_axes_callback",
    "matplotlib.backend_bases": "_key_handler _mouse_handler",
    "matplotlib.cbook": "_exception_printer _picklable_class_constructor",
    "matplotlib.colorbar": "_remove_cbar_axes",
    "matplotlib.colors": "_create_empty_object_of_class _picklable_norm_constructor",
    "matplotlib.figure": "_stale_figure_callback",
    "matplotlib.font_manager": "FontProperties",
    "pandas.plotting._matplotlib.converter": "_daily_finder _monthly_finder _quarterly_finder _annual_finder",
    "pandas.plotting._matplotlib.timeseries": "_format_coord",
    "networkx.classes.function": "frozen",
    "patsy.builtins": "I Q",
    "patsy.categorical": "C",
    "scipy._lib.array_api_compat.numpy": "asarray",
    "scipy.stats._distribution_infrastructure": "_null",
    "seaborn.categorical": "BoxPlotContainer",
    "sklearn.metrics._dist_metrics": "newObj",
    "sklearn.neighbors._ball_tree": "newObj",
    "sklearn.neighbors._kd_tree": "newObj",
}
"""Functions that figures contain and that their `__reduce__` calls, and a class of a module that is left out."""


_ARRAYS: Final = "scipy._lib.array_api_compat.numpy"


def names() -> dict[str, Any]:
    """Return the objects that a stream may name in the packages that are loaded here, by name."""
    found: dict[str, Any] = {}
    for module in [name for name in sys.modules if _is_listed(name)]:
        listed = _classes(vars(sys.modules[module]), module, "")
        found |= {f"{_place(module)}:{path}": cls for path, cls in listed}
    for module, also in _ALSO.items():
        held = vars(sys.modules[module]) if module in sys.modules else {}
        found |= {f"{_place(module)}:{name}": held[name] for name in also.split() if name in held}
    if _ARRAYS in sys.modules:  # results of scipy hold it, where code does not get at it
        found[f"{_ARRAYS}:"] = sys.modules[_ARRAYS]
    return found


def function(owner: type, name: str, number: int) -> types.FunctionType:
    """Return a function that a class has under a name, or, of no negative number, the one with that number among those inside it.

    Raises AttributeError if there is no such function.
    """
    found = vars(owner).get(name)
    found = getattr(found, "__func__", found)
    if type(found) is types.FunctionType and type(number) is int:
        if number < 0:
            return found
        inner = found.__code__.co_consts[number] if number < len(found.__code__.co_consts) else None
        if type(inner) is types.CodeType and not inner.co_freevars:
            return types.FunctionType(inner, found.__globals__, inner.co_name)
    raise AttributeError(name)


def owner_of(function: types.FunctionType) -> type | None:
    """Return the class in which a library defines a function, if it does so in a class."""
    owner: Any = sys.modules.get(function.__module__)
    *path, _ = function.__qualname__.partition(".<locals>")[0].split(".")
    for each in path:
        owner = getattr(owner, each, None)
    return owner if path and isinstance(owner, type) else None


def place_of(function: types.FunctionType) -> tuple[type, str, int] | None:
    """Return what `function` finds a function by; None of one that it does not find."""
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        return None
    owner = owner_of(function)
    if owner is None:
        return None
    name = function.__qualname__.partition(".<locals>")[0].rpartition(".")[2]
    held = vars(owner).get(name)
    held = getattr(held, "__func__", held)
    if held is function:
        return owner, name, -1
    if type(held) is types.FunctionType:
        for number, one in enumerate(held.__code__.co_consts):
            if one is function.__code__:
                return owner, name, number
    return None


def is_mixed(kind: type, figures: frozenset[type]) -> bool:
    """Tell whether a class is made of two of figures."""
    bases: tuple[type, ...] = type.__dict__["__bases__"].__get__(kind)
    return len(bases) == 2 and figures.issuperset(bases)


def method(owner: Any, name: str) -> types.MethodType:
    """Return a method of a part of a figure. Raises AttributeError if its class has no such method written in Python."""
    function = getattr(type(owner), name)
    if type(function) is not types.FunctionType:
        raise AttributeError(name)
    return types.MethodType(function, owner)


def _place(module: str) -> str:
    """Return how a name of a module begins: with the library that has to be loaded."""
    return module if module.startswith((*_LIBRARIES, "scipy", "seaborn", "networkx")) else PREFIX + module


def _is_listed(module: str) -> bool:
    first, second, *_ = (*module.split("."), "")
    if first == "matplotlib":
        return second in _MODULES
    return module.startswith((*_PACKAGES, *_LIBRARIES)) and not module.startswith(_LEFT_OUT)


def _classes(namespace: Any, module: str, path: str) -> Iterator[tuple[str, type]]:
    """Yield the classes that a module defines, also those inside others, but none that makes classes."""
    for name, held in list(namespace.items()):
        if (
            isinstance(held, type)
            and not issubclass(held, type)
            and held.__module__ == module
            and held.__qualname__ == f"{path}{name}"
        ):
            yield held.__qualname__, held
            yield from _classes(vars(held), module, f"{held.__qualname__}.")
