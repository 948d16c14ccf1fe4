"""scikit-learn as the language has it: one process, no caches on disk, its small data sets loaded, trees that can only be read."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
from typing import Any

import numpy as np

from byref_sandbox.code.words import words
from byref_sandbox.language.refusal import NotAllowed
from byref_sandbox.language.science.walls import Given, Names, in_form, patch, plain_text

SETTINGS = words("transform_output display print_changed_only working_memory")
"""Settings that code may change. Others leave out checks of what compiled code gets, or ask for other libraries."""
_BASES = words("""BaseEstimator TransformerMixin ClassifierMixin RegressorMixin ClusterMixin OutlierMixin DensityMixin BiclusterMixin
    MetaEstimatorMixin OneToOneFeatureMixin ClassNamePrefixFeaturesOutMixin MultiOutputMixin""")
_DATASETS = words("load_iris load_wine load_breast_cancer load_diabetes load_digits load_linnerud")
_CHECKS = words("check_array check_X_y check_is_fitted check_random_state check_consistent_length")


def sklearn(given: Given) -> Names:
    """Put the walls of scikit-learn up."""
    sklearn = importlib.import_module("sklearn")
    base = importlib.import_module("sklearn.base")
    tree = importlib.import_module("sklearn.tree")
    patch("joblib.parallel", "Parallel.__init__", _one_job)
    patch("joblib.parallel", "effective_n_jobs", lambda _real: lambda n_jobs=-1: 1)
    patch("joblib.memory", "Memory.__init__", _no_cache)
    patch("joblib", "cpu_count", lambda _real: lambda only_physical_cores=False: 1)
    for module in (
        "sklearn.metrics.pairwise",
        "sklearn.decomposition._dict_learning",
        "sklearn.decomposition._lda",
        "sklearn.ensemble._base",
    ):
        patch(module, "effective_n_jobs", lambda _real: lambda n_jobs=-1: 1)
    patch("sklearn.feature_extraction.text", "_VectorizerMixin.decode", _no_file_of_text)
    for name in ("load_csv_data", "load_gzip_compressed_csv_data", "load_descr"):
        patch("sklearn.datasets._base", name, _loaded_once)
    for name in _DATASETS - {"load_linnerud"}:
        getattr(importlib.import_module("sklearn.datasets"), name)()
    linnerud = _loaded_once(importlib.import_module("sklearn.datasets").load_linnerud)
    for options in ({}, {"as_frame": True}, {"return_X_y": True}, {"return_X_y": True, "as_frame": True}):
        linnerud(**options)
    for name in ("set_config", "config_context"):
        in_form(getattr(sklearn, name), _harmless_settings(getattr(sklearn, name)))
    guards = given.guards
    guards.bases.update(getattr(base, name) for name in _BASES if hasattr(base, name))
    guards.writable_rules.append((base.BaseEstimator, _is_parameter))
    guards.substitutes["tree_"] = _tree
    return {
        "sklearn": {name: _harmless_settings(getattr(sklearn, name)) for name in ("set_config", "config_context")},
        "sklearn.tree": {"export_graphviz": _to_text(tree.export_graphviz)},
        "sklearn.datasets": {"load_linnerud": linnerud},
    }


def warm_sklearn() -> None:
    """Fit once: libraries count threads, and look up what they have, on first use."""
    linear = importlib.import_module("sklearn.linear_model")
    cluster = importlib.import_module("sklearn.cluster")
    ensemble = importlib.import_module("sklearn.ensemble")
    numbers = np.arange(12.0).reshape(6, 2) % 5
    repr(linear.LogisticRegression().fit(numbers, [0, 1, 0, 1, 0, 1]))
    cluster.KMeans(2, n_init=1).fit(numbers)
    ensemble.RandomForestClassifier(2).fit(numbers, [0, 1, 0, 1, 0, 1]).predict(numbers)


def _one_job(real: Any) -> Any:
    @functools.wraps(real)
    def init(self: Any, n_jobs: Any = None, *arguments: Any, **options: Any) -> None:
        return_as = options.get("return_as", "list")
        real(self, 1, verbose=0, return_as=return_as)

    return init


def _no_cache(real: Any) -> Any:
    @functools.wraps(real)
    def init(self: Any, location: Any = None, *arguments: Any, **options: Any) -> None:
        if location is not None:
            raise NotAllowed("a cache on disk is not available", "leave memory out")
        real(self, None)

    return init


def _no_file_of_text(real: Any) -> Any:
    @functools.wraps(real)
    def decode(self: Any, doc: Any) -> Any:
        if plain_text(self.input) == "filename":
            raise NotAllowed("input='filename' is not available", "give the texts themselves")
        return real(self, doc)

    return decode


def _loaded_once(real: Any) -> Any:
    """Have a function that reads a file of the library read it now, and give out copies later."""
    known: dict[str, Any] = {}

    @functools.wraps(real)
    def call(*arguments: Any, **options: Any) -> Any:
        key = repr((arguments, sorted(options.items())))
        if key not in known:
            known[key] = real(*arguments, **options)
        return copy.deepcopy(known[key])

    return call


def _harmless_settings(real: Any) -> Any:
    @functools.wraps(real)
    def call(**options: Any) -> Any:
        for name, value in options.items():
            if name not in SETTINGS and value is not None and value is not False:
                raise NotAllowed(f"the setting {name!r} cannot be changed", f"these can: {', '.join(sorted(SETTINGS))}")
        return real(**{name: value for name, value in options.items() if name in SETTINGS})

    return call


def _to_text(real: Any) -> Any:
    @functools.wraps(real)
    def call(decision_tree: Any, out_file: Any = None, **options: Any) -> Any:
        if out_file is not None:
            raise NotAllowed("export_graphviz(out_file=…) is not available", "leave out_file out: the text is returned")
        return real(decision_tree, out_file=None, **options)

    return call


@functools.cache
def _parameters(kind: type) -> frozenset[str]:
    init: Any = vars(kind).get("__init__") or kind.__init__  # type: ignore[misc]
    return frozenset(inspect.signature(init).parameters) - {"self"}


def _is_parameter(kind: type, name: str) -> bool:
    """Whether an attribute of an estimator is a parameter of its constructor: those are checked when it is fitted."""
    return name in _parameters(kind)


class TreeView:
    """A decision tree as code reads it. Compiled code follows the numbers of a tree without a check, so these are copies."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'Tree' object has no attribute {name!r}", name=name)
        found = getattr(self._tree, name)
        return found.copy() if isinstance(found, np.ndarray) else found

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._tree) if not name.startswith("_")]


TreeView.__name__ = TreeView.__qualname__ = "Tree"


def _tree(value: Any) -> Any:
    """Return the attribute `tree_`, of an estimator in a form that can only be read."""
    found = value.tree_
    return TreeView(found) if type(found).__module__.startswith("sklearn.") else found
