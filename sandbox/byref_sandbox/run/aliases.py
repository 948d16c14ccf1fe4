"""Values that a run was given and leaves under further names: its reply names them instead of sending them once more.

Only what is provably as it was: the code changes nothing it was given, or a digest of all of it is the same before and after.
"""

from __future__ import annotations

import ast
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from blake3 import blake3

from byref_sandbox import wire
from byref_sandbox.code.analysis import FRAME, Analysed
from byref_sandbox.values import values
from byref_sandbox.values.bindings import Bindings

_MARSHAL: Final = 2
"""The version whose bytes depend on the value alone, not on what else refers to its parts."""
_MAX_STEPS: Final = 8
_MAX_REFERENCES: Final = 32


class Reference(NamedTuple):
    """What code can name of what it was given: a variable, what is at a path inside it, or its DataFrame."""

    variable: str
    path: tuple[str, ...] = ()
    frame: bool = False


class Alias(NamedTuple):
    """A further name's value, as it was given."""

    value: object
    of: Reference

    def frame(self, name: str) -> wire.Same:
        """What the reply says of it."""
        shape = values.shape_of(self.value) if self.of.frame else ""
        return wire.Same(name, self.of.variable, list(self.of.path), self.of.frame, shape)


class _Watched(NamedTuple):
    value: Any
    """None: a DataFrame that the code makes, if it does."""
    of: Reference
    before: bytes | None
    """None: the code changes nothing."""


class Watch:
    """Follows, from before the code runs, the values that it may leave under further names."""

    def __init__(self, request: wire.Request, bindings: Bindings, is_read_only: Callable[[], bool]) -> None:
        self._watched: list[_Watched] = []
        self._frames = bindings.frames
        parts = {variable.name: variable.parts for variable in request.variables if variable.parts}
        named = references(request.source) if parts else ()
        found = [one for one in named if list(one.path) in parts.get(one.variable, ())]
        if not found:
            return
        reads = is_read_only()
        for reference in found[:_MAX_REFERENCES]:
            value, is_frame = _at(bindings, reference)
            before = None if value is None or reads else digest_of(value)
            if before is not None or (reads and (value is not None or is_frame)):
                self._watched.append(_Watched(value, reference._replace(frame=is_frame), before))

    def of(self, value: object) -> Alias | None:
        """The value as what was given, if it is that, and nothing in it has changed."""
        for number, watched in enumerate(self._watched):
            known = self._frames.get(watched.of.variable) if watched.value is None else watched.value
            if known is value and known is not None:
                if watched.before is not None:
                    if digest_of(value) != watched.before:
                        return None
                    self._watched[number] = watched._replace(before=None)  # the code has run
                return Alias(value, watched.of)
        return None


def _at(bindings: Bindings, reference: Reference) -> tuple[Any, bool]:
    """The value, None where there is none that is worth it, and whether it is a DataFrame."""
    if reference.frame:
        return bindings.frames.get(reference.variable), True
    value = bindings.values.get(reference.variable)
    for step in reference.path:
        value = value.get(step) if type(value) is dict else None
    return (value, type(value) is pd.DataFrame) if type(value) in (dict, list, pd.DataFrame) else (None, False)


# Before the code runs: what it may give a further name


def references(source: str) -> list[Reference]:
    """What is assigned as it is, anywhere in the code; a name that is assigned twice stands for both."""
    tree = Analysed.of(source).tree
    if tree is None:
        return []
    known: dict[str, list[Reference]] = {}
    found: dict[Reference, None] = {}
    for target, value in _assignments(tree):
        named = _named(value, known, 0)
        known.setdefault(target, []).extend(named[:_MAX_REFERENCES])
        found.update(dict.fromkeys(named))
        if len(found) > _MAX_REFERENCES:
            break
    return list(found)


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs: Iterable[tuple[ast.expr, ast.expr]] = ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            pairs = ((node.target, node.value),)
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from ((t.id, v) for t, v in zip(target.elts, value.elts, strict=False) if isinstance(t, ast.Name))
            elif isinstance(target, ast.Name):
                yield target.id, value


def _named(node: ast.expr, known: Mapping[str, list[Reference]], depth: int) -> list[Reference]:
    if depth > _MAX_STEPS:
        return []
    if isinstance(node, ast.Name):
        return [Reference(node.id), *known.get(node.id, ())]
    step: ast.expr | None = None
    inner: ast.expr | None = None
    if isinstance(node, ast.Subscript):
        inner, step = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        inner, step = node.func.value, node.args[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == FRAME and node.args:
        given = node.args[0]
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return [Reference(given.value.removeprefix("$"), (), True)]
        return [one._replace(frame=True) for one in _named(given, known, depth + 1) if not one.path]
    if inner is None or not isinstance(step, ast.Constant) or not isinstance(step.value, str):
        return []
    found = _named(inner, known, depth + 1)
    return [one._replace(path=(*one.path, step.value)) for one in found if not one.frame and len(one.path) < _MAX_STEPS]


# Whether a value has changed


def digest_of(value: Any) -> bytes | None:
    """A digest that equal data of plain kinds has in common, and no other; None of what is no data."""
    digest = blake3()
    try:
        if type(value) is pd.DataFrame:
            _add_table(digest, value)
        else:
            _add(digest, value)
    except (TypeError, ValueError, OverflowError, RecursionError, MemoryError, pa.ArrowException):
        return None
    return bytes(digest.digest())


def _add(digest: Any, value: Any) -> None:
    """Raises ValueError of what is no data; types show, and reading leaves each page of memory as it is."""
    if type(value) not in (list, dict):
        raise TypeError(type(value).__name__)
    digest.update(marshal.dumps(value, _MARSHAL))


def _add_table(digest: Any, frame: pd.DataFrame) -> None:
    """Raises TypeError of a table that `df` does not make."""
    labels, index = frame.columns, frame.index
    if frame.attrs or not frame.flags.allows_duplicate_labels or type(index) is not pd.RangeIndex:
        raise TypeError("not as it was made")
    words = [index.start, index.stop, index.step, index.name, type(labels).__name__, str(labels.dtype), labels.name]
    _add(digest, [*words, *map(str, frame.dtypes)])
    _add(digest, list(labels))
    for number in range(frame.shape[1]):
        column = frame.iloc[:, number]
        if not isinstance(column.dtype, np.dtype):
            _add_arrow(digest, column)
        elif column.dtype.kind == "O":
            _add(digest, column.to_numpy().tolist())
        else:
            digest.update(np.ascontiguousarray(column.to_numpy()).view(np.uint8))


def _add_arrow(digest: Any, column: Any) -> None:
    made = pa.array(column.array, from_pandas=True)
    for chunk in made.chunks if isinstance(made, pa.ChunkedArray) else (made,):
        digest.update(b"%d %d" % (chunk.offset, len(chunk)))
        for buffer in chunk.buffers():
            digest.update(b"-" if buffer is None else b"+%d" % buffer.size)
            if buffer is not None:
                digest.update(buffer)
