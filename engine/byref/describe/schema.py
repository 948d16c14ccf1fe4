"""The JSON Schema of a parsed JSON value, as genson infers it, and fitted to a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from byref.describe.alike import Alike
from byref.describe.columns import CHUNK, Abridged, Inference, NotPlain, TooDeep
from byref.describe.fit import GUESS, fit, render
from byref.describe.grids import Grid, grids
from byref.describe.nodes import Node, cut_at
from byref.describe.outline import Outline
from byref.describe.search import ENOUGH
from byref.describe.values import Fact, values

__all__ = ["Abridged", "Elements", "NotPlain", "Schema", "TooDeep", "infer"]

SCHEMA_URI: Final = "http://json-schema.org/schema#"
"""The `$schema` that genson states."""


class Schema:
    """The schema of a value. It keeps the value, because `full` has to read it again if maps were folded."""

    __slots__ = ("_grids", "_node", "_value", "cut_at", "folded", "is_partial")

    def __init__(self, node: Node, value: object, *, folded: bool, is_cut: bool, is_partial: bool) -> None:
        self._node = node
        self._value = value
        self._grids: Mapping[int, Grid] | None = None
        self.folded = folded
        """Whether maps were folded. If so, `full` reads the value again, and its result may be larger than the value."""
        self.is_partial = is_partial
        """Whether only some elements of an array or map in the value are in memory."""
        self.cut_at = cut_at(node) if is_cut else None
        """The path to the first place that nests too deeply to be described; None if every place was read."""

    @property
    def node(self) -> Node:
        """What was observed at the value's own place; places below it are folded as `folded` says."""
        return self._node

    @property
    def grids(self) -> Mapping[int, Grid]:
        """The value's rows without keys, by the `id` of the node of their array."""
        if self._grids is None:
            self._grids = grids(self._value, self._node)
        return self._grids

    @property
    def outline(self) -> Outline:
        """The schema as types, which are written in a short notation."""
        return Outline(self._node, self._value, self.grids)

    def values(self, size: int, *, is_table: bool = False) -> list[Fact]:
        """Return what can be said of the values, the most telling first; `size`, the bytes of their text, bounds the work, less so if it
        was read as a table.
        """
        return values(self._value, self._node, size=size, is_table=is_table, grids=self.grids)

    def full(self) -> dict[str, object]:
        """Return the schema that `genson.SchemaBuilder` builds from the value, down to the deepest level that is described.

        Raises Abridged if maps were folded in `Rows`, because their elements cannot be read again.
        """
        # The first reading checked that the value is plain, or was told so; it need not be checked again.
        node = Inference(fold=False, plain=True).read(self._value) if self.folded else self._node
        return {"$schema": SCHEMA_URI, **render(node)}

    def fitted(
        self,
        budget: int,
        measure: Callable[[str], int],
        *,
        is_terse: bool = False,
        guess: int = GUESS,
        enough: float = ENOUGH,
        whole: int = 0,
    ) -> dict[str, object]:
        """Return the schema in at most `budget` tokens of compact JSON, counted by `measure`; one has about `guess` characters.

        A terse schema has no `$schema`, and `required` only if all of it fits. One that takes `enough` of the budget is detailed enough.
        If no map was folded, a schema of about `whole` characters or fewer is the full one, whatever the budget.

        It is the full schema if that fits and no map was folded. Otherwise it is more general: every value that is valid against
        the full schema is valid against it, and `description` names the omissions. Raises ValueError if not even `{}` fits.
        """
        head = {} if self.folded or is_terse else {"$schema": SCHEMA_URI}
        whole = 0 if self.folded else whole
        return fit(self._node, budget, measure, head=head, is_terse=is_terse, guess=guess, enough=enough, whole=whole)


class Elements:
    """The schema of the elements of one array that are read part by part; it is what `infer` would find in all of them."""

    def __init__(self, depth: int) -> None:
        self._inference = Inference(fold=True, plain=True)
        self._depth = depth
        """The number of containers around each element."""
        self._node = Node()
        self._alike = Alike(self._node)
        self._pending: list[Any] = []
        self._too_deep: TooDeep | None = None

    def add(self, values: Sequence[Any]) -> None:
        """Read further elements."""
        # Only full chunks are read: their borders are then those of `infer`, so that the same maps are folded.
        self._pending += values
        whole = len(self._pending) // CHUNK * CHUNK
        for at in range(0, whole, CHUNK):
            self._read(self._pending[at : at + CHUNK])
        del self._pending[:whole]

    def known(self) -> Node | None:
        """Return the schema of the elements so far; None if it is not exact: maps were folded, or an element nests too deeply."""
        if self._pending:
            self._read(self._pending)
            self._pending = []
        unsaid = self._too_deep is not None or self._inference.folded or self._inference.is_cut
        return None if unsaid else self._node

    def end(self) -> tuple[Node, bool]:
        """Return the schema of all elements, and whether maps were folded. Raises TooDeep if an element nests too deeply."""
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

    `Rows` may stand for lists; they carry what `Elements` found. The schema covers the whole value. If folded keys of a map hold
    arrays, however, maps inside these may be folded differently than if all of them had been read at once.

    Pass `plain` for a value that our own decoder made from JSON text. It is read faster, and its floats need not be finite.
    Containers of a plain value below 250 levels of nesting (fewer if the caller is deep in calls) are not read: the schema
    says that they exist, and `cut_at` says where.

    Raises:
        NotPlain: a value has another type, a subclass included; or a float is not finite.
        TooDeep: a value that is not known to be plain nests deeper than that, as a value that contains itself does; or Python's
            stack has no room for 30 levels.
    """
    inference = Inference(fold=True, plain=plain)
    node = inference.read(value)
    return Schema(node, value, folded=inference.folded, is_cut=inference.is_cut, is_partial=inference.is_partial)
