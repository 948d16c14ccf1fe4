"""The JSON Schema of a parsed JSON value, as genson infers it, and fitted to a budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from byref.describe.columns import Inference, Node, NotPlain, TooDeep
from byref.describe.fit import fit, render

__all__ = ["NotPlain", "Schema", "TooDeep", "infer"]

SCHEMA_URI: Final = "http://json-schema.org/schema#"
"""The `$schema` that genson states."""


class Schema:
    """What a value's schema is made from; the value is read again if `full` must undo the folding of maps."""

    __slots__ = ("_node", "_value", "folded")

    def __init__(self, node: Node, value: object, *, folded: bool) -> None:
        self._node = node
        self._value = value
        self.folded = folded
        """Whether maps were folded: then `full` costs another reading and may exceed the value itself in size."""

    def full(self) -> dict[str, object]:
        """The schema that `genson.SchemaBuilder` builds from the value."""
        node = Inference(fold=False, allow_nonfinite=True).read(self._value) if self.folded else self._node
        return {"$schema": SCHEMA_URI, **render(node)}

    def fitted(self, budget: int, measure: Callable[[str], int]) -> dict[str, object]:
        """The schema in at most `budget` tokens of compact JSON, as `measure` counts them.

        The full schema if it fits and no map was folded, else one that generalises it: every value that is valid
        against the full schema is valid against this one. What was left out is said in `description`.
        Raises ValueError if not even `{}` fits.
        """
        return fit(self._node, budget, measure, head={} if self.folded else {"$schema": SCHEMA_URI})


def infer(value: object, *, allow_nonfinite: bool = False) -> Schema:
    """Infer the schema of a parsed JSON value, a tree of dict, list, str, int, float, bool and None.

    Raises NotPlain for any other type (a subclass included) and, unless allowed, for a float that is not finite;
    TooDeep beyond 250 levels of nesting, as in a circular value.
    """
    inference = Inference(fold=True, allow_nonfinite=allow_nonfinite)
    node = inference.read(value)
    return Schema(node, value, folded=inference.folded)
