"""The JSON Schema of a parsed JSON value, as genson infers it, and fitted to a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from byref.describe.alike import Alike
from byref.describe.columns import CHUNK, Abridged, Inference, NotPlain, TooDeep
from byref.describe.fit import fit, render
from byref.describe.nodes import Node, cut_at

__all__ = ["Abridged", "Elements", "NotPlain", "Schema", "TooDeep", "infer"]

SCHEMA_URI: Final = "http://json-schema.org/schema#"
"""The `$schema` that genson states."""


class Schema:
    """What a value's schema is made from; the value is read again if `full` must undo the folding of maps."""

    __slots__ = ("_node", "_value", "cut_at", "folded")

    def __init__(self, node: Node, value: object, *, folded: bool, is_cut: bool = False) -> None:
        self._node = node
        self._value = value
        self.folded = folded
        """Whether maps were folded: then `full` costs another reading and may exceed the value itself in size."""
        self.cut_at = cut_at(node) if is_cut else None
        """The path to the first place that nests too deeply to be described, if there is one."""

    def full(self) -> dict[str, object]:
        """The schema that `genson.SchemaBuilder` builds from the value, down to the levels that are described.

        Raises Abridged where maps were folded in `Rows`, of which nothing is left to read again.
        """
        # That a value is plain was seen, or known, when it was read first.
        node = Inference(fold=False, plain=True).read(self._value) if self.folded else self._node
        return {"$schema": SCHEMA_URI, **render(node)}

    def fitted(self, budget: int, measure: Callable[[str], int]) -> dict[str, object]:
        """The schema in at most `budget` tokens of compact JSON, as `measure` counts them.

        The full schema if it fits and no map was folded, else one that generalises it: every value that is valid
        against the full schema is valid against this one. What was left out is said in `description`.
        Raises ValueError if not even `{}` fits.
        """
        return fit(self._node, budget, measure, head={} if self.folded else {"$schema": SCHEMA_URI})


class Elements:
    """What the elements of one array are like, read part by part as `infer` reads a whole one."""

    def __init__(self, depth: int) -> None:
        self._inference = Inference(fold=True, plain=True)
        self._depth = depth
        """Containers that the elements are in."""
        self._node = Node()
        self._alike = Alike(self._node)
        self._pending: list[Any] = []
        self._too_deep: TooDeep | None = None

    def add(self, values: Sequence[Any]) -> None:
        """Read further elements."""
        self._pending += values
        whole = len(self._pending) // CHUNK * CHUNK
        for at in range(0, whole, CHUNK):
            self._read(self._pending[at : at + CHUNK])
        del self._pending[:whole]

    def known(self) -> Node | None:
        """Return what they are like so far; None where no expression can say it: maps were folded, or one nests too deeply."""
        if self._pending:
            self._read(self._pending)
            self._pending = []
        unsaid = self._too_deep is not None or self._inference.folded or self._inference.is_cut
        return None if unsaid else self._node

    def end(self) -> tuple[Node, bool]:
        """Return what they are like, and whether maps were folded. Raises TooDeep if one of them was."""
        self.known()
        if self._too_deep is not None:
            raise self._too_deep
        return self._node, self._inference.folded

    def _read(self, values: Sequence[Any]) -> None:
        if self._too_deep is None and not self._alike.add(values):
            try:
                self._inference.add(self._node, values, self._depth)
            except TooDeep as error:
                self._too_deep = error.with_traceback(None)


def infer(value: object, *, plain: bool = False) -> Schema:
    """Infer the schema of a parsed JSON value, a tree of dict, list, str, int, float, bool and None.

    `Rows` stand for lists and say what `Elements` found. The schema is that of the whole value; but where the arrays of a
    map's keys are one place, maps in them may be folded otherwise than if all had been read in one go.

    Beyond 250 levels of nesting, fewer where the caller is deep in calls, containers of a `plain` value are not looked at:
    the schema says that they are there, `cut_at` where. Raises NotPlain for any other type (a subclass included) and for a
    float that is not finite; TooDeep for a value that nests deeper and is not known to be plain, as in a circular one, and
    where there is no room for 30 levels. A value that our own decoder made of JSON text is known to be `plain`: not all of
    it is looked at so closely then, which is faster, and floats need not be finite.
    """
    inference = Inference(fold=True, plain=plain)
    node = inference.read(value)
    return Schema(node, value, folded=inference.folded, is_cut=inference.is_cut)
