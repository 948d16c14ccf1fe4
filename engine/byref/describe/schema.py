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
    """The schema of a value. It keeps the value, which `full` reads again where maps were folded."""

    __slots__ = ("_node", "_value", "cut_at", "folded")

    def __init__(self, node: Node, value: object, *, folded: bool, is_cut: bool = False) -> None:
        self._node = node
        self._value = value
        self.folded = folded
        """Whether maps were folded: then `full` reads the value again, and may be larger than the value."""
        self.cut_at = cut_at(node) if is_cut else None
        """The path to the first place that nests too deeply to be described; None if there is none."""

    def full(self) -> dict[str, object]:
        """Return the schema that `genson.SchemaBuilder` builds from the value, down to the levels that are described.

        Raises Abridged where maps were folded in `Rows`, whose elements cannot be read again.
        """
        # The first reading has shown that the value is plain, or knew it.
        node = Inference(fold=False, plain=True).read(self._value) if self.folded else self._node
        return {"$schema": SCHEMA_URI, **render(node)}

    def fitted(self, budget: int, measure: Callable[[str], int]) -> dict[str, object]:
        """Return the schema in at most `budget` tokens of compact JSON, as `measure` counts them.

        It is the full schema if that fits and no map was folded. Else it is more general: what is valid against the full schema
        is valid against this one, and `description` says what was left out. Raises ValueError if not even `{}` fits.
        """
        return fit(self._node, budget, measure, head={} if self.folded else {"$schema": SCHEMA_URI})


class Elements:
    """What the elements of one array are like. They are read part by part, with what `infer` would find in all of them."""

    def __init__(self, depth: int) -> None:
        self._inference = Inference(fold=True, plain=True)
        self._depth = depth
        """How many containers the elements are in."""
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
        """Return what the elements so far are like; None where that is not exact: maps were folded, or one nests too deeply."""
        if self._pending:
            self._read(self._pending)
            self._pending = []
        unsaid = self._too_deep is not None or self._inference.folded or self._inference.is_cut
        return None if unsaid else self._node

    def end(self) -> tuple[Node, bool]:
        """Return what all elements are like, and whether maps were folded. Raises TooDeep if an element nests too deeply."""
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
    """Infer the schema of a parsed JSON value: a tree of dict, list, str, int, float, bool and None.

    `Rows` stand for lists, with what `Elements` found. The schema is that of the whole value. But where a map's folded keys have
    arrays, maps within these may be folded otherwise than if all of them had been read at once.

    Say that a value is `plain` if our own decoder made it of JSON text. Then it is read faster, and its floats need not be
    finite. Of a plain value, containers below 250 levels of nesting (fewer where the caller is deep in calls) are not read:
    the schema says that they are there, and `cut_at` says where.

    Raises:
        NotPlain: a value has another type, a subclass included; or a float is not finite.
        TooDeep: a value that is not known to be plain nests deeper than that, as one does that holds itself; or Python's stack
            has no room for 30 levels.
    """
    inference = Inference(fold=True, plain=plain)
    node = inference.read(value)
    return Schema(node, value, folded=inference.folded, is_cut=inference.is_cut)
