"""Libraries that are loaded only where code names them: which there are, and which a program needs. The host imports this."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from byref_sandbox.code.analysis import Analysed

LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "scipy": (),
    "sklearn": ("scipy",),
    "statsmodels": ("scipy",),
    "seaborn": ("scipy",),
    "sympy": (),
    "networkx": ("scipy",),
}
"""By import name, in the order in which they are loaded: the other libraries that each needs. `byref[science]` brings them."""
ENVIRONMENT: Final[Mapping[str, str]] = {
    # A process that forks must have one thread.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_MAX_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "JOBLIB_MULTIPROCESSING": "0",
    "MPLBACKEND": "agg",
}
"""What libraries ask for when they are loaded."""
PARTS: Final[Mapping[str, str]] = {"mpmath": "sympy", "patsy": "statsmodels", "scikit-learn": "sklearn"}
"""Packages that come with a library, and which code may import by themselves; and another name of one."""
_MENTIONED: Final = re.compile(rf"\b(?:{'|'.join((*LIBRARIES, *PARTS))})\b")
_PANDAS_NEEDS_SCIPY: Final = re.compile(
    r"""\b(?:kde|density|kendall|win_type|to_coo|from_coo|from_spmatrix)\b|\.interpolate\(\s*[^\s)]"""
)
"""What pandas leaves to scipy, as code writes it. A text that merely looks so costs time, and nothing else."""
_SYMPY_NEEDS_SCIPY: Final = re.compile(r"\blambdify\b")
_DRAWS: Final = re.compile(
    r"\b(?:seaborn|dendrogram|\w*plots?|plot_\w+|draw\w*|from_estimator|from_predictions|Display)\b"
)
"""What of these libraries draws, beside what `values.plots` knows."""


@cache
def is_installed(library: str) -> bool:
    """Whether a library, and what it needs, is installed here."""
    return all(importlib.util.find_spec(name) is not None for name in (*LIBRARIES[library], library))


def named(texts: Iterable[Analysed], also: Iterable[str] = (), allowed: Sequence[str] = ()) -> list[str]:
    """Return the libraries that the code needs and that are installed here, in the order in which they are loaded.

    `also` are further ones that it needs. `allowed` are further modules that the host allows: those that it needs come last.
    """
    wanted = {*also}
    tops = {name.partition(".")[0]: name for name in allowed}
    for text in texts:
        if tops and (mentioned := {top for top in tops if top in text}):
            wanted.update(tops[top] for top in (mentioned if text.tree is None else mentioned & text.uses.imports))
        if not _MENTIONED.search(text):
            if _PANDAS_NEEDS_SCIPY.search(text):
                wanted.add("scipy")
            continue
        uses = text.uses
        # Code that cannot be parsed here may still be run: the language takes IPython's lines out first.
        imports = uses.imports if text.tree is not None else frozenset(_MENTIONED.findall(text))
        wanted.update(imports)
        if "sympy" in imports and _SYMPY_NEEDS_SCIPY.search(text):
            wanted.add("scipy")
    further = [name for name in allowed if name in wanted]
    wanted = {PARTS.get(name, name) for name in wanted} & LIBRARIES.keys()
    wanted = {name for name in wanted if is_installed(name)}
    return [name for name in LIBRARIES if name in wanted.union(*(LIBRARIES[each] for each in wanted))] + further


def draw(libraries: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether the code may draw with one of these libraries."""
    return bool([*libraries]) and any(_DRAWS.search(text) for text in texts)
