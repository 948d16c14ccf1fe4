"""How much of pandas' and numpy's own documentation gives the same output in the language as in plain Python.

`python tests/compat/docstrings.py` (`make compat`) prints the shares and every object that differs, by reason; then it runs
what is the same once more in the jail. An example counts if plain
Python runs it, twice with the same output; an object counts if one of its examples does.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import os
import random
import re
import sys
import tempfile
import types
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from byref_sandbox import Limits, Sandbox
from byref_sandbox.code.libraries import LIBRARIES
from byref_sandbox.language.policy import Language, Refused

_ADDRESS = re.compile(r"0x[0-9a-f]+")
_UNINITIALISED = re.compile(r"\bempty(_like)?\(|\bndarray\(shape=")
_REASONS = (
    ("needs files", r"no files|to_parquet|read_parquet|No such file"),
    ("needs another package", r"No module named|packages? is not installed|pyarrow"),
    ("stands for a class that must not be had", r"cannot be called|StandIn"),
    ("takes code or names of modules in a string", r"\.eval is not available"),
    (
        "reaches memory or the interpreter",
        r"is not available|cannot be set|cannot be defined|cannot inherit|cannot be used",
    ),
)
NEED_FILES = frozenset({
    "pandas.DataFrame.to_parquet",
    "pandas.read_parquet",
    "pandas.ExcelWriter",
    "pandas.errors.CategoricalConversionWarning",  # a file of Stata
    "numpy.get_include",  # a folder of this machine
    "numpy.load",  # with a file mapped into memory
    "numpy.memmap",
})  # fmt: skip
NEED_MEMORY = frozenset({
    "pandas.arrays.SparseArray.from_spmatrix",  # compiled code goes by the matrix' positions, unchecked
    "pandas.api.indexers.BaseIndexer",  # compiled code goes by its bounds, unchecked
    "numpy.info",  # prints an address
    "numpy.matrix.ctypes",
    "numpy.matrix.getfield",
    "numpy.matrix.resize",  # with refcheck=False
    "numpy.matrix.setfield",
    "numpy.nditer",  # with updateifcopy
    "numpy.nested_iters",
    "numpy.str_",  # by memoryview
})  # fmt: skip
"""Objects whose documentation shows what no program gets here: they are counted, named on the page, and left out of a second share."""


@dataclass(frozen=True)
class Difference:
    """The first example of an object's documentation that differs."""

    path: str
    code: str
    got: str
    wanted: str

    @property
    def reason(self) -> str:
        """Which of the few reasons there are."""
        return next((name for name, pattern in _REASONS if re.search(pattern, self.got)), "differs")


@dataclass
class Measure:
    """Counts of one library, and what differs."""

    objects: int = 0
    examples: int = 0
    same_examples: int = 0
    differences: list[Difference] = field(default_factory=list)
    same: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Objects whose examples all run and are the same: the examples as one program, and what it prints."""

    @property
    def left_out(self) -> list[str]:
        """Objects that differ because they need files or raw memory."""
        return [one.path for one in self.differences if one.path in NEED_FILES | NEED_MEMORY]

    @property
    def share_of_others(self) -> float:
        """Objects of which every example is the same, of those that need neither files nor raw memory."""
        return 1 - (len(self.differences) - len(self.left_out)) / (self.objects - len(self.left_out))

    @property
    def object_share(self) -> float:
        """Objects of which every example is the same."""
        return 1 - len(self.differences) / self.objects

    @property
    def example_share(self) -> float:
        """Examples that are the same."""
        return self.same_examples / self.examples


def _walk(roots: list[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Path and docstring of all that has examples, each docstring once."""
    seen: set[str] = set()
    for path, value in roots:
        members = [n for n in dir(value) if not n.startswith("_")] if inspect.isclass(value) else []
        for name, member in [(path, value), *((f"{path}.{n}", getattr(value, n, None)) for n in members)]:
            text = getattr(member, "__doc__", None)
            if isinstance(text, str) and ">>>" in text and text not in seen:
                seen.add(text)
                yield name, text


def _named(name: str, module: types.ModuleType) -> list[tuple[str, Any]]:
    listed = module.__dict__.get("__all__") or [n for n in dir(module) if not n.startswith("_")]
    found = [(f"{name}.{n}", getattr(module, n, None)) for n in sorted(listed) if not n.startswith("_")]
    return [(path, value) for path, value in found if not isinstance(value, types.ModuleType)]


def pandas_documentation() -> Iterator[tuple[str, str]]:
    """Public objects of pandas, their members, and the accessors of Series."""
    accessors = [
        (f"pandas.Series.{n}", getattr(pd.Series, n)) for n in ("str", "dt", "cat", "list", "struct", "sparse")
    ]
    named = [
        ("pandas.api.typing", pd.api.typing),
        ("pandas.api.types", pd.api.types),
        ("pandas.api.indexers", pd.api.indexers),
    ]
    parts = [part for name, module in [("pandas", pd), *named] for part in _named(name, module)]
    for name, module in (
        ("offsets", pd.offsets),
        ("arrays", pd.arrays),
        ("testing", pd.testing),
        ("errors", pd.errors),
    ):
        parts += _named(f"pandas.{name}", module)
    return _walk(parts + accessors)


def numpy_documentation() -> Iterator[tuple[str, str]]:
    """Public objects of numpy and of its parts, and their members."""
    parts = _named("numpy", np)
    for name in ("linalg", "fft", "random", "polynomial", "ma", "char", "strings", "emath", "exceptions"):
        parts += _named(f"numpy.{name}", getattr(np, name))
    parts += [(f"numpy.polynomial.{n}", getattr(np.polynomial, n)) for n in np.polynomial.__all__]
    return _walk([*parts, ("numpy.lib.stride_tricks.sliding_window_view", np.lib.stride_tricks.sliding_window_view)])


def _plain(examples: list[doctest.Example]) -> list[str | None]:
    """Output of each example in plain Python; None where it fails."""
    space: dict[str, Any] = {"pd": pd, "np": np, "__name__": "__main__"}
    outputs: list[str | None] = []
    for example in examples:
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                value = _run(example.source, space)
            outputs.append(_ADDRESS.sub("0x", output.getvalue() + ("" if value is None else f"{value!r}\n")))
        except Exception:
            outputs.append(None)
    return outputs


def _run(source: str, space: dict[str, Any]) -> object:
    """The last expression's value, as in the language; a doctest would show the others' too."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<example>", "exec", dont_inherit=True), space)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<example>", "eval", dont_inherit=True), space)


def _inside(language: Language, examples: list[doctest.Example]) -> list[str]:
    """Output of each example in the language, or its error."""
    space = language.space({})
    outputs = []
    for example in examples:
        output = io.StringIO()
        try:
            value = language.execute(language.compile(example.source), space, output)
            outputs.append(_ADDRESS.sub("0x", output.getvalue() + ("" if value is None else f"{value!r}\n")))
        except Refused as refused:
            outputs.append(refused.failure.message)
        except Exception as error:
            outputs.append(f"{type(error).__name__}: {error}")
    return outputs


def _reset() -> None:
    np.random.seed(0)
    random.seed(0)
    np.set_printoptions(
        edgeitems=3,
        infstr="inf",
        linewidth=75,
        nanstr="nan",
        precision=8,
        suppress=False,
        threshold=1000,
        formatter=None,
    )
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.reset_option("^(display|mode)")
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def _seeded(example: doctest.Example) -> doctest.Example:
    example.source = re.sub(
        r"(default_rng|RandomState|SeedSequence|PCG64|MT19937|Philox|SFC64)\(\)", r"\1(0)", example.source
    )
    return example


def measure(documentation: Iterator[tuple[str, str]]) -> Measure:
    """Run all documented examples in plain Python and in the language, both with matplotlib where it is installed."""
    language, parser, found = Language(), doctest.DocTestParser(), Measure()
    language.learn_plots()
    for library in LIBRARIES:
        language.learn(library)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for path, text in documentation:
            try:
                examples = [_seeded(e) for e in parser.get_examples(text) if not e.options.get(doctest.SKIP)]
            except ValueError:
                continue
            runs: list[Callable[[], list[Any]]] = [lambda e=examples: _plain(e)] * 2 + [
                lambda e=examples: _inside(language, e)
            ]  # type: ignore[misc]
            outputs = []
            for run in runs:
                _reset()
                warnings.resetwarnings()
                warnings.simplefilter("ignore")
                outputs.append(run())
            compared = [
                (example.source.strip(), got, wanted)
                for example, wanted, again, got in zip(examples, *outputs, strict=True)
                if wanted is not None and wanted == again and not _UNINITIALISED.search(example.source)
            ]
            different = [Difference(path, *one) for one in compared if one[1] != one[2]]
            found.objects += bool(compared)
            found.examples += len(compared)
            found.same_examples += len(compared) - len(different)
            found.differences += different[:1]
            if len(compared) == len(examples) and not different:
                found.same[path] = _as_one_program(examples), "".join(wanted for _, _, wanted in compared)
    _reset()
    return found


def differs_in_the_jail(sandbox: Sandbox, found: Measure) -> list[Difference]:
    """Of the objects that are the same in the language, those that are not in a real run: it can import and read nothing more."""
    differences = []
    for path, (source, wanted) in found.same.items():
        outcome = sandbox.run(source)
        got = f"{outcome.error.kind}: {outcome.error.message}" if outcome.error else _ADDRESS.sub("0x", outcome.stdout)
        if got != wanted:
            differences.append(Difference(path, source, got, wanted))
    return differences


def _as_one_program(examples: list[doctest.Example]) -> str:
    """The examples in a row, each printing what it would show."""
    lines = ["import random, warnings", "warnings.simplefilter('ignore')", "np.random.seed(0)", "random.seed(0)"]
    for example in examples:
        tree = ast.parse(example.source)
        if tree.body and isinstance(last := tree.body[-1], ast.Expr):
            shown = ast.parse("if (the_value := None) is not None: print(repr(the_value))").body[0]
            next(n for n in ast.walk(shown) if isinstance(n, ast.NamedExpr)).value = last.value
            tree.body[-1] = shown
        lines.append(ast.unparse(tree))
    return "\n".join(lines)


def report(library: str, found: Measure) -> str:
    """A table of what differs, by reason."""
    lines = [
        f"{library}: {found.objects - len(found.differences)} of {found.objects} objects ({found.object_share:.2%}), "
        f"{found.same_examples} of {found.examples} examples ({found.example_share:.2%}) give identical output",
        f"without those that need files or raw memory {found.share_of_others:.2%} of the objects; these were left out: {', '.join(found.left_out)}",
        "",
        "| reason | object | example | here |",
        "|---|---|---|---|",
    ]
    by_reason: dict[str, list[Difference]] = defaultdict(list)
    for difference in found.differences:
        by_reason[difference.reason].append(difference)
    for reason, differences in sorted(by_reason.items()):
        for one in differences:
            code, got = (re.sub(r"\s+", " ", text)[:70].replace("|", r"\|") for text in (one.code, one.got))
            lines.append(f"| {reason} | {one.path} | `{code}` | {got} |")
    return "\n".join(lines)


if __name__ == "__main__":
    with Sandbox(Limits(wall_seconds=20, cpu_seconds=10)) as sandbox:
        for library, documentation in (("pandas", pandas_documentation()), ("numpy", numpy_documentation())):
            measured = measure(documentation)
            print(report(f"{library} {sys.modules[library].__version__}", measured))
            jailed = differs_in_the_jail(sandbox, measured)
            print(
                f"\nof {len(measured.same)} objects whose examples all run, {len(measured.same) - len(jailed)} do so in the jail as well"
            )
            for one in jailed:
                print(f"- {one.path}: {one.got.strip()[:100]!r} for {one.wanted.strip()[:100]!r}")
            print()
    sys.stdout.flush()
    os._exit(0)
