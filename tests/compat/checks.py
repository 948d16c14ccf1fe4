"""How a task is run and checked, whatever runs its code: each function is the check of one format of corpus.

The code of the task goes through `Python`, which is plain or the language. The tests of a corpus are no model's code: where they
can be told apart from it they run in plain Python, in the same process.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import io
import os
import random
import re
import sys
import time
import types
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mocks import Mocks

if TYPE_CHECKING:
    from disk import Disk

_FILES = re.compile(r"\b(os|open|tempfile|shutil|pathlib|Path|glob|savefig|to_csv|read_csv|to_json)\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Python(Protocol):
    """Runs the code of tasks."""

    def execute(self, code: str, space: dict[str, Any], stdout: io.StringIO) -> object:
        """Run code in a namespace and return the value of its last expression."""

    def give(self, files: dict[str, bytes]) -> None:
        """Have the code find these files."""

    def plain(self, space: dict[str, Any]) -> dict[str, Any]:
        """Return what code left in a namespace, as plain Python has it: real modules for what stands for them."""

    def follow_mocks(self, space: dict[str, Any], module: types.ModuleType) -> None:
        """Have code that ran in a namespace find what tests in a module mock."""


class Plain:
    """Plain Python."""

    def execute(self, code: str, space: dict[str, Any], stdout: io.StringIO) -> object:
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(stdout):
            exec(compile(tree, "<task>", "exec", dont_inherit=True), space)
            if isinstance(last, ast.Expr):
                return eval(compile(ast.Expression(last.value), "<task>", "eval", dont_inherit=True), space)
        return None

    def give(self, files: dict[str, bytes]) -> None:
        """They are in the working directory."""

    def plain(self, space: dict[str, Any]) -> dict[str, Any]:
        return space

    def follow_mocks(self, space: dict[str, Any], module: types.ModuleType) -> None:
        """It does: its names are the modules' own."""


class InLanguage:
    """The sandbox's language."""

    def __init__(self, language: Any, disk: Disk | None = None) -> None:
        self._language = language
        self._disk = disk
        self._files: dict[str, bytes] = {}

    def execute(self, code: str, space: dict[str, Any], stdout: io.StringIO) -> object:
        from byref_sandbox.language.policy import Refused

        try:
            program = self._language.compile(code)
        except Refused as refused:
            raise AsRefused(f"{refused.failure.kind}: {refused.failure.message}") from None
        if "__builtins__" not in space:
            space.update(self._language.space(space, files=self._files))
        execute = functools.partial(self._language.execute, program, space, stdout)
        return execute() if self._disk is None else self._disk.during(execute)()

    def give(self, files: dict[str, bytes]) -> None:
        self._files = files

    def plain(self, space: dict[str, Any]) -> dict[str, Any]:
        from byref_sandbox.language.facades import Facade, facade_name

        found = {name: value for name, value in space.items() if not name.startswith("__")}
        found = {
            name: importlib.import_module(facade_name(value)) if type(value) is Facade else value
            for name, value in found.items()
        }
        return found if self._disk is None else self._disk.bridged(found)

    def follow_mocks(self, space: dict[str, Any], module: types.ModuleType) -> None:
        Mocks(self._language, space, module).follow()


class AsRefused(Exception):
    """The language refused the code before it ran."""


class Failed(Exception):
    """A test of the corpus failed."""


Cells = list[tuple[bool, str]]
"""Whether each part of a task ran without an error, and its output or error."""


def run(task: dict[str, Any], python: Python) -> Cells:
    """Run a task; never raises."""
    try:
        return _FORMATS[task["format"]](task, python)
    except BaseException as error:
        return [(False, described(error))]


def described(error: BaseException) -> str:
    """An error on one line."""
    if isinstance(error, AsRefused | Failed):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def imports(task: dict[str, Any]) -> None:
    """Import what a task and its tests import: inside the jail nothing can be read any more, and the tests may get modules of the task's."""
    for text in (task["test"], task["code"]) if task["format"] == "unittest" else (task["test"],):
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(text)):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                    if isinstance(node, ast.ImportFrom) and node.module
                    else []
                )
                for name in names:
                    with contextlib.suppress(Exception):
                        importlib.import_module(name)
        for mentioned, warm_up in _LAZY.items():
            if mentioned in text:
                with contextlib.suppress(Exception):
                    warm_up()


def _warm_faker() -> None:
    importlib.import_module("faker").Faker()


def _warm_spreadsheets() -> None:
    file = io.BytesIO()
    importlib.import_module("pandas").DataFrame({"a": [1]}).to_excel(file)
    importlib.import_module("pandas").read_excel(file)


_LAZY = {"faker": _warm_faker, "excel": _warm_spreadsheets}
"""What tests use of libraries that import more when they are used."""


def contexts(task: dict[str, Any]) -> list[str]:
    """The code that the harness of a task puts around it: texts in its test that import something."""
    try:
        nodes = ast.walk(ast.parse(task["test"]))
    except SyntaxError:
        return []
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if "import " in text]


def uses_files(task: dict[str, Any]) -> bool:
    """Whether the tests of a task seem to read or write files, or have its code do so."""
    return bool(_FILES.search(task["test"]))


def _program(task: dict[str, Any], python: Python) -> Cells:
    python.execute(task["code"], {"__name__": "__main__"}, io.StringIO())
    return [(True, "")]


def _ds1000(task: dict[str, Any], python: Python) -> Cells:
    """The harness of DS-1000 calls `exec` on the solution: it finds ours."""

    def execute(code: str, space: dict[str, Any]) -> None:
        python.execute(code, space, io.StringIO())

    space: dict[str, Any] = {"exec": execute, "__name__": "__harness__"}
    exec(compile(task["test"], "<harness>", "exec", dont_inherit=True), space)
    with contextlib.redirect_stdout(io.StringIO()):
        space["test_execution"](task["code"])
        if "test_string" in space:
            space["test_string"](task["code"])
    return [(True, "")]


def _unittest(task: dict[str, Any], python: Python) -> Cells:
    module = types.ModuleType("__test__")
    sys.modules["__test__"] = module
    space: dict[str, Any] = vars(module) if isinstance(python, Plain) else {"__name__": "__main__"}
    python.execute(task["code"], space, io.StringIO())
    vars(module).update(python.plain(space))
    python.follow_mocks(space, module)
    exec(compile(task["test"], "<test>", "exec", dont_inherit=True), vars(module))
    if not isinstance(python, Plain):
        _import_too(task["test"], python, space)
    found = unittest.TestResult()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        unittest.defaultTestLoader.loadTestsFromTestCase(vars(module)["TestCases"]).run(found)
    bad = [text for _, text in (*found.errors, *found.failures)]
    if bad or not found.testsRun:
        lines = [line for line in bad[0].splitlines() if re.match(r"[\w.]+(: |$)", line)] if bad else ["no tests"]
        raise Failed(" ".join((lines or bad[0].splitlines())[-1].split())[:400])
    return [(True, "")]


def _import_too(test: str, python: Python, space: dict[str, Any]) -> None:
    """Import at the top level of the code what its tests do there: in plain Python both are one module, and some code lives on that."""
    for node in ast.parse(test).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            with contextlib.suppress(Exception):
                python.execute(ast.unparse(node), space, io.StringIO())


def _notebook(task: dict[str, Any], python: Python) -> Cells:
    with contextlib.suppress(OSError):  # in the jail there is none
        os.chdir(task["folder"])
    random.seed(0)
    importlib.import_module("numpy").random.seed(
        0
    )  # before the runs draw, whose processes are copies of different ones
    space: dict[str, Any] = {"__name__": "__main__"}
    cells: Cells = []
    for code in task["cells"]:
        output = io.StringIO()
        try:
            value = python.execute(code, space, output)
            shown = "" if value is None else f"{value!r}\n"
            cells.append((True, _ADDRESS.sub("0x", output.getvalue() + shown)))
        except BaseException as error:
            cells.append((False, described(error)))
    return cells


def given(task: dict[str, Any]) -> dict[str, bytes]:
    """The files that a task's code is given."""
    return {name: (Path(task["folder"]) / name).read_bytes() for name in task["given"]}


def _timed(task: dict[str, Any], python: Python) -> Cells:
    """The cells are preparation, work, and how often that is done; the output is the processor time of it, the least of three."""
    preparation, work, times = task["cells"]
    space: dict[str, Any] = {"__name__": "__main__"}
    python.execute(preparation, space, io.StringIO())
    took = []
    for _ in range(3):
        began = time.process_time()
        for _ in range(int(times)):
            python.execute(work, space, io.StringIO())
        took.append(time.process_time() - began)
    return [(True, str(min(took)))]


_FORMATS = {"timed": _timed, "program": _program, "ds1000": _ds1000, "unittest": _unittest, "notebook": _notebook}
