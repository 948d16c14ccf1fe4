"""What the cells of a notebook give in a notebook's own way: one process, one namespace, and the last value of each cell is shown.

`python plain.py [--ipython]` reads a notebook from each line of standard input and answers each with a line. Each is run in a
process of its own that is forked from this one. With `--ipython` the cells are run by IPython, which is what Jupyter does.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import itertools
import json
import os
import re
import signal
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"0x[0-9a-f]+|^Time: +..:..:..", re.MULTILINE)
"""Addresses in memory, and the time of day in a summary of statsmodels."""
DRAWN, DEPTH = 20, 2
"""How many parts of a value are looked at for those of figures, and how deep."""
SECONDS = 5
"""How long a cell may take, of a processor's time: on a busy machine as on an idle one."""
WAITING_SECONDS = 120
"""How long it may take by the clock, if it waits."""
_PRELOADED = (
    "pandas",
    "numpy",
    "matplotlib.pyplot",
    "scipy.stats",
    "sklearn.linear_model",
    "seaborn",
    "statsmodels.api",
)


def value_of(made: object) -> str:
    """A last value as both sides compare it."""
    from byref_sandbox.values import shown as showing

    presented = showing.present(made)
    return shown(presented.kind, presented.data.decode(), presented.text)


def is_drawing(made: object, depth: int = 0) -> bool:
    """Whether a value is a part of a figure, a grid or plot of seaborn, or a list, array or dict with one: both sides have the figure
    in its place.
    """
    from matplotlib.artist import Artist
    from matplotlib.container import Container

    of_seaborn = [("seaborn.axisgrid", "_BaseGrid"), ("seaborn._core.plot", "Plot")]
    grids = [getattr(sys.modules[module], name) for module, name in of_seaborn if module in sys.modules]
    if isinstance(made, (Artist, Container, *grids)):
        return True
    parts = made.values() if type(made) is dict else made if type(made) in (list, tuple) else getattr(made, "flat", ())
    is_looked_into = depth < DEPTH and (
        type(made) in (list, tuple, dict) or str(getattr(made, "dtype", "")) == "object"
    )
    return is_looked_into and any(is_drawing(each, depth + 1) for each in itertools.islice(parts, DRAWN))


def shown(kind: str, data: str, text: str | None) -> str:
    """A value as both sides compare it: as data, tables also as text, without addresses in memory."""
    return _ADDRESS.sub("0x", f"{kind} {data} {text if kind in ('dataframe', 'series') else ''}")


class Plain:
    """Cells in one namespace."""

    def __init__(self, space: dict[str, Any]) -> None:
        self._space = space
        self._last: object = None

    def run(self, code: str) -> object:
        """Run a cell and return its last value."""
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self._execute(tree)
        value = self._execute(ast.Expression(last.value)) if isinstance(last, ast.Expr) else None
        if value is not None and self._space.get("_", self._last) is self._last:
            self._space["_"] = self._last = value
        return value

    def _execute(self, tree: ast.Module | ast.Expression) -> object:
        mode = "exec" if isinstance(tree, ast.Module) else "eval"
        code = compile(tree, "<cell>", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        value = eval(code, self._space)
        return asyncio.run(value) if code.co_flags & inspect.CO_COROUTINE else value


class InIPython:
    """Cells in a shell of IPython."""

    def __init__(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        self._shell: Any = InteractiveShell()
        self._shell.displayhook.write_format_data = lambda *_: None
        self._shell.displayhook.write_output_prompt = lambda *_: None
        self._shell.displayhook.finish_displayhook = lambda *_: None
        self._shell.showtraceback = self._shell.showsyntaxerror = lambda *_, **__: None

    def run(self, code: str) -> object:
        """Run a cell and return its last value."""
        result = self._shell.run_cell(code, store_history=True)
        result.raise_error()
        return result.result


QUIET = re.compile(r";[ \t]*(?:#[^\n]*)?\s*\Z")
"""The end of a cell whose value a notebook does not show."""


def cells_of(notebook: dict[str, Any], *, ipython: bool = False) -> list[list[Any]]:
    """What each cell gives: the kind of its error or None, the printed text, the value as data and text, how many figures."""
    from matplotlib import pyplot as plt

    figures = [0]

    def show(*_: object, **__: object) -> None:
        """Count the open figures as Jupyter shows them: not those without axes."""
        figures[0] += sum(bool(figure.axes or figure.lines) for figure in map(plt.figure, plt.get_fignums()))
        plt.close("all")

    plt.show = show  # type: ignore[assignment]
    module = types.ModuleType("__main__")
    if not ipython:
        sys.modules["__main__"] = module
    shell = InIPython() if ipython else Plain(vars(module))
    shell.run("import numpy as np, pandas as pd")  # in a session they are always there
    found: list[list[Any]] = []
    for each in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(each, _stop)
    for code in notebook["cells"]:
        output, error, value = io.StringIO(), None, ""
        figures[0] = 0
        try:
            _allow(SECONDS, WAITING_SECONDS)
            with contextlib.redirect_stdout(output):
                made = shell.run(code)
            _allow(0, 0)
            value = value_of(None if is_drawing(made) or QUIET.search(code) else made)
        except BaseException as raised:
            _allow(0, 0)
            error = type(raised).__name__
        show()
        found.append([error, _ADDRESS.sub("0x", output.getvalue()), value, figures[0]])
    return found


def _allow(seconds: float, waiting: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, waiting)


def _stop(*_: object) -> None:
    raise TimeoutError


def _child(notebook: dict[str, Any], reply: int, *, ipython: bool) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    warnings.simplefilter("ignore")
    place = tempfile.mkdtemp()
    os.chdir(place)
    for name, source in notebook["files"].items():
        path = Path(place) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Path(source).read_bytes())
    with os.fdopen(reply, "w") as file:
        file.write(json.dumps(cells_of(notebook, ipython=ipython)))


def _serve(*, ipython: bool) -> None:
    answers = os.fdopen(os.dup(1), "w")
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            __import__(name)
    for line in sys.stdin:
        read_end, write_end = os.pipe()
        if (pid := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                os.close(read_end)
                _child(json.loads(line), write_end, ipython=ipython)
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as file:
            answers.write((file.read() or "[]") + "\n")
            answers.flush()
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _serve(ipython="--ipython" in sys.argv)
