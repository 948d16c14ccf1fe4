"""How many of pandas' own docstring examples give the same output in the language as in plain Python.

`python tests/compat/pandas_docstrings.py` prints the share and every object that differs, with its reason.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import os
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from byref_sandbox.language.policy import Language, Refused

_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class Difference:
    path: str
    code: str
    reason: str


def documented() -> Iterator[tuple[str, str]]:
    """Path and docstring of every public object of pandas with examples, each docstring once."""
    seen: set[str] = set()
    roots = [(f"pandas.{n}", getattr(pd, n)) for n in pd.__dict__["__all__"]]
    roots += [(f"pandas.api.typing.{n}", getattr(pd.api.typing, n)) for n in pd.api.typing.__dict__["__all__"]]
    for path, value in roots:
        members = [n for n in dir(value) if not n.startswith("_")] if inspect.isclass(value) else []
        for name, member in [(path, value), *((f"{path}.{n}", getattr(value, n, None)) for n in members)]:
            text = getattr(member, "__doc__", None)
            if isinstance(text, str) and ">>>" in text and text not in seen:
                seen.add(text)
                yield name, text


def _plain(examples: list[doctest.Example]) -> list[str | None]:
    """Output of each example in plain Python; None where it fails."""
    space: dict[str, Any] = {"pd": pd, "np": np, "__name__": "__main__"}
    outputs: list[str | None] = []
    shown, sys.displayhook = sys.displayhook, lambda value: print(repr(value)) if value is not None else None
    try:
        for example in examples:
            output = io.StringIO()
            try:
                with contextlib.redirect_stdout(output):
                    exec(compile(example.source, "<example>", "single", dont_inherit=True), space)
                outputs.append(output.getvalue())
            except Exception:
                outputs.append(None)
    finally:
        sys.displayhook = shown
    return outputs


def _difference(language: Language, path: str, examples: list[doctest.Example]) -> Difference | bool | None:
    """The first example that differs; None if there is none, False if nothing could be compared."""
    _reset()
    plain = _plain(examples)
    _reset()
    names: dict[str, object] = {}
    imports, compared = "", False
    for example, expected in zip(examples, plain, strict=True):
        output = io.StringIO()
        own_imports = "".join(f"{line}\n" for line in example.source.splitlines() if re.match("(import|from) ", line))
        try:
            ran = language.run(language.compile(imports + example.source), names, output)
            names |= ran.names
            got = output.getvalue() + (f"{ran.value!r}\n" if ran.has_value else "")
            imports += own_imports
        except Refused as refused:
            got = refused.failure.message
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
        if expected is None:
            continue
        compared = True
        if _ADDRESS.sub("0x", got) != _ADDRESS.sub("0x", expected):
            return Difference(path, example.source.strip(), got.strip())
    return None if compared else False


def _reset() -> None:
    np.random.seed(0)
    random.seed(0)
    pd.reset_option("^display")


def measure() -> tuple[int, list[Difference]]:
    """How many objects were compared, and those that differ."""
    language, parser = Language(), doctest.DocTestParser()
    compared, differences = 0, []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        warnings.simplefilter("ignore")
        for path, text in documented():
            try:
                examples = [e for e in parser.get_examples(text) if not e.options.get(doctest.SKIP)]
            except ValueError:
                continue
            found = _difference(language, path, examples)
            compared += found is not False
            if isinstance(found, Difference):
                differences.append(found)
    return compared, differences


if __name__ == "__main__":
    total, differing = measure()
    for difference in differing:
        print(f"{difference.path}: {difference.code[:80]!r}: {difference.reason[:160]}")
    print(f"{total - len(differing)} of {total} objects give identical output ({1 - len(differing) / total:.2%})")
    os._exit(0)
