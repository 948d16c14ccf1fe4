"""scipy as the language has it: one process, one thread, and no numbers that compiled code would follow beyond an array."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from byref_sandbox.code.words import words
from byref_sandbox.language.names import INDEX_ATTRIBUTES, UNCHECKED_ATTRIBUTES
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.language.science.walls import Given, Names, in_form, patch

_TRANSFORMS = words("""fft ifft fftn ifftn rfft irfft fft2 ifft2 dct idct dst idst dctn idctn dstn idstn fftfreq rfftfreq fftshift ifftshift
    next_fast_len""")
"""What scipy.fftpack shares with scipy.fft. The rest of it takes tables of its own as arguments, and its compiled code trusts them."""


def scipy(given: Given) -> Names:
    """Put the walls of scipy up."""
    sparse = importlib.import_module("scipy.sparse")
    spatial = importlib.import_module("scipy.spatial")
    patch("scipy._lib._util", "MapWrapper.__init__", _alone)
    for module in ("helper", "basic", "realtransforms"):
        patch(f"scipy.fft._pocketfft.{module}", "_workers", lambda _real: lambda workers=None: 1)
    patch("scipy.sparse._compressed", "_cs_matrix.__init__", _copied_indexes)
    patch("scipy.sparse._coo", "_coo_base.__init__", _copied_indexes)
    patch("scipy.sparse._coo", "_coo_base._check", _fixed_coordinates)
    patch("scipy.sparse._bsr", "_bsr_base.__init__", _copied_indexes)
    patch("scipy.sparse._compressed", "_cs_matrix.check_format", _whole_check)
    patch("scipy.sparse._bsr", "_bsr_base.check_format", _whole_check)
    for method in (
        "query",
        "query_ball_point",
        "query_ball_tree",
        "query_pairs",
        "count_neighbors",
        "sparse_distance_matrix",
    ):
        patch("scipy.spatial", f"KDTree.{method}", _on_this_thread)
    importlib.import_module("scipy.spatial._ckdtree").number_of_processors = 1  # type: ignore[attr-defined]
    for module in ("scipy.optimize._linprog_highs", "scipy.optimize._milp"):
        patch(module, "_highs_wrapper", _one_thread_of_highs)
    in_form(spatial.cKDTree, spatial.KDTree)
    given.guards.stand_ins[spatial.cKDTree] = given.guards.in_place_of(spatial.KDTree)
    kinds = (importlib.import_module("scipy.sparse._base")._spbase, spatial.cKDTree)
    for name in INDEX_ATTRIBUTES:
        given.guards.substitutes[name] = functools.partial(_fixed, name, kinds)
    given.guards.setters["data"] = (kinds[0], _Data)
    for name in UNCHECKED_ATTRIBUTES:
        given.guards.substitutes[name] = functools.partial(_unchecked, name)
    stats = importlib.import_module("scipy.stats")
    for module in ("_stats_py", "_hypotests", "_morestats"):
        patch(f"scipy.stats.{module}", "distributions", _Public)
    given.guards.bases.update((stats.rv_continuous, stats.rv_discrete))
    transforms = importlib.import_module("scipy.fftpack")
    importlib.import_module(
        "pandas.core.arrays.sparse.scipy_sparse"
    )  # which `Series.sparse.to_coo` would import in the run
    return {
        "scipy.sparse": {name: getattr(sparse, name) for name in ("spmatrix", "sparray") if hasattr(sparse, name)},
        "scipy.fftpack": {name: getattr(transforms, name) for name in _TRANSFORMS if hasattr(transforms, name)},
    }


class _Public:
    """The public names of a module, in which a test of scipy looks for the distribution that code names."""

    def __init__(self, module: Any) -> None:
        object.__setattr__(self, "_module", module)

    def __getattribute__(self, name: str) -> Any:
        if name == "__byref_wall__":
            return True
        if name.startswith("_"):
            raise AttributeError(f"scipy.stats has no distribution {name!r}")
        return getattr(object.__getattribute__(self, "_module"), name)


def _alone(_real: Any) -> Any:
    def init(self: Any, pool: Any = 1) -> None:
        self.pool = pool if callable(pool) else None
        self._mapfunc = pool if callable(pool) else map
        self._own_pool = False

    return init


def _on_this_thread(real: Any) -> Any:
    @functools.wraps(real)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if "workers" in options:
            options["workers"] = 1
        return real(self, *arguments, **options)

    return call


def _copied_indexes(real: Any) -> Any:
    """Copy the arrays that a sparse matrix is made of: whoever gave them could change them after they were checked."""

    @functools.wraps(real)
    def init(self: Any, arg1: Any, *arguments: Any, **options: Any) -> None:
        if type(arg1) is tuple and len(arg1) == 3:
            arg1 = (arg1[0], _own(arg1[1]), _own(arg1[2]))
        elif (
            type(arg1) is tuple
            and len(arg1) == 2
            and not np.isscalar(arg1[1])
            and isinstance(arg1[1], (tuple, list, np.ndarray))
        ):
            arg1 = (arg1[0], tuple(_own(each) for each in arg1[1]))
        real(self, arg1, *arguments, **options)

    return init


def _own(indexes: Any) -> Any:
    return np.array(indexes) if isinstance(indexes, np.ndarray) else indexes


def _whole_check(real: Any) -> Any:
    @functools.wraps(real)
    def check(self: Any, full_check: bool = True) -> None:
        real(self, full_check=True)

    return check


def _one_thread_of_highs(real: Any) -> Any:
    """Have HiGHS start no threads: it would take half of the machine's processors."""

    @functools.wraps(real)
    def call(*arguments: Any) -> Any:
        *problem, options = arguments
        return real(*problem, {**options, "threads": 1} if isinstance(options, dict) else options)

    return call


def _fixed_coordinates(real: Any) -> Any:
    @functools.wraps(real)
    def check(self: Any) -> None:
        real(self)
        self.coords = tuple(map(_read_only, self.coords))

    return check


def _fixed(name: str, kinds: tuple[type, ...], value: Any) -> Any:
    """Return the attribute of an object; of the given classes it is an array of positions, and can only be read."""
    found = getattr(value, name)
    return _read_only(found) if isinstance(value, kinds) else found


class _Data:
    """Stands for a sparse matrix whose `data` are set: as many numbers as before, and a copy of them."""

    __slots__ = ("_matrix",)

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    @property
    def data(self) -> Any:
        return self._matrix.data

    @data.setter
    def data(self, new: Any) -> None:
        old, array = self._matrix.data, np.array(new)
        if not isinstance(old, np.ndarray) or old.dtype.hasobject or array.dtype.hasobject or array.shape != old.shape:
            raise NotAllowed(
                f"the data of this matrix must be numbers of the shape {getattr(old, 'shape', ())}, not {array.shape}",
                "make a new matrix",
            )
        self._matrix.data = array


def _unchecked(name: str, _value: Any) -> Any:
    raise NotAllowed(f".{name}() is not available", "call the class: it checks its arguments")


def _read_only(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.setflags(write=False)
    return view
