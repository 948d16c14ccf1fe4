"""What the libraries of `byref[science]` lack here, and what to use instead."""

from __future__ import annotations

from typing import Final

from byref_sandbox.language.refusal import KEPT

_NO_DATA: Final = "there is no network: use the data that is bound, load_iris() and its like, or make_classification()"
_THREADS: Final = "a run has one thread: leave n_jobs and workers out"
HINTS: Final[dict[str, dict[str, str]]] = {
    "scipy": {
        "io": "it is not available: have the tool return JSON or CSV",
        "LowLevelCallable": "give a Python function",
    },
    "scipy.sparse": {"save_npz": KEPT, "load_npz": "it is not available: make the matrix of arrays"},
    "scipy.linalg": {"blas": "use numpy and scipy.linalg", "lapack": "use numpy and scipy.linalg"},
    "sklearn": {"show_versions": "print(sklearn.__version__)"},
    "sklearn.datasets": {
        **{
            f"fetch_{name}": _NO_DATA
            for name in [
                "california_housing",
                "openml",
                "20newsgroups",
                "20newsgroups_vectorized",
                "covtype",
                "kddcup99",
                "lfw_pairs",
                "lfw_people",
                "olivetti_faces",
                "rcv1",
                "species_distributions",
            ]
        },
        "load_files": "it is not available: give the texts themselves",
        "load_sample_image": "there are no images here: make an array",
        "load_boston": "it was removed from scikit-learn: load_diabetes() is a regression of that size",
    },
    "sklearn.utils": {"parallel_backend": _THREADS},
    "seaborn": {
        "load_dataset": "there is no network: use the data that is bound",
        "get_dataset_names": "there is no network: use the data that is bound",
    },
    "statsmodels.api": {"datasets": "there is no network: use the data that is bound", "load": KEPT},
    "sympy": {
        "preview": "sympy.latex(expr) is the text",
        "var": "use symbols()",
    },
    "networkx": {"nx_agraph": "use nx.spring_layout() and its like", "nx_pydot": "use nx.spring_layout() and its like"},
}
"""By module and name."""
MISSING: Final = {
    "scipy.io": "it is not available: have the tool return JSON or CSV",
    "scipy.datasets": "there is no network: use the data that is bound",
    "scipy.misc": "use scipy.special, scipy.optimize or numpy",
    "scipy.odr": "use scipy.optimize.curve_fit",
    "scipy.weave": "use numpy",
    "statsmodels.datasets": "there is no network: use the data that is bound",
    "sklearn.externals": "use the public modules of scikit-learn",
    "sympy.plotting": "lambdify the expression and draw it with matplotlib",
}
"""By module that code does not get."""


def parts_left_out(module: str) -> str | None:
    """Return what to use instead of a module of these libraries that code does not get."""
    steps = module.split(".")
    return next((hint for n in range(len(steps), 0, -1) if (hint := MISSING.get(".".join(steps[:n])))), None)
