"""Sessions of two runs and more, compared with one plain Python process."""

from __future__ import annotations

import calendar
import contextlib
import decimal
import functools
import importlib
import random
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import KEPT, REFUSED
from notebook import Notebook

from byref_sandbox.code.words import words
from byref_sandbox.language.policy import Language
from byref_sandbox.state.known import Known

_MODULES = words("""math statistics json re datetime itertools functools random decimal fractions collections string textwrap heapq bisect
    copy time typing dataclasses enum calendar zoneinfo hashlib base64 uuid operator warnings csv io types""")


@pytest.fixture(scope="module")
def language() -> Language:
    return Language()


@pytest.fixture(autouse=True)
def same_process(language: Language) -> Iterator[None]:
    """A run has a process of its own, which is as new as this one must be again."""
    reset()
    yield
    reset()


def reset() -> None:
    random.seed(0)
    np.random.seed(0)
    for name in ("display.max_rows", "display.precision", "display.float_format"):
        pd.reset_option(name)
    decimal.setcontext(decimal.Context())
    np.set_printoptions(precision=8, suppress=False)
    np.seterr(divide="warn")
    calendar.setfirstweekday(0)
    warnings.simplefilter("ignore")


def plain(cells: tuple[str, ...]) -> Any:
    """The value of the last expression of the last cell, in one process that runs them all."""
    import ast

    main = types.ModuleType("__main__")  # in which the classes say that they are
    space = vars(main)
    space.update({"pd": pd, "np": np} | {name: importlib.import_module(name) for name in _MODULES})
    with (
        tempfile.TemporaryDirectory() as place,  # some write files
        contextlib.chdir(place),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setitem(sys.modules, "__main__", main)
        for cell in cells:
            tree = ast.parse(cell)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<plain>", "exec", dont_inherit=True), space)
            code = None if last is None else compile(ast.Expression(last.value), "<plain>", "eval", dont_inherit=True)
            value = None if code is None else eval(code, space)
        return repr(value)


@functools.cache
def known_of(language: Language) -> Known:
    return Known(language)


def kept(language: Language, cells: tuple[str, ...]) -> Any:
    notebook = Notebook(language, known=known_of(language))
    for cell in cells[:-1]:
        notebook.run(cell)
        assert not notebook.lost
        reset()
        notebook.run("None")  # that it was read once must not change it
        assert not notebook.lost
        reset()
    return repr(notebook.run(cells[-1]))


@pytest.mark.parametrize("name", KEPT)
def test_a_session_is_one_process(language: Language, name: str) -> None:
    expected = plain(KEPT[name])
    reset()
    assert kept(language, KEPT[name]) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_named_and_its_neighbours_stay(language: Language, name: str) -> None:
    cell, lost, look, expected = REFUSED[name]
    notebook = Notebook(language, known=known_of(language))
    notebook.run(cell)
    assert notebook.lost.keys() == lost.keys()
    assert all(word in notebook.lost[each] for each, word in lost.items())
    assert notebook.run(look) == expected
    with pytest.raises(NameError):
        notebook.run(next(iter(lost)))
