from collections.abc import Callable
from typing import Any

from byref.describe.nodes import Node

def read(
    value: object,
    make: Callable[[tuple[Any, ...], dict[str, None] | None, list[str]], Node],
    known: dict[object, Node],
    plain: bool,
    fold: bool,
    deepest: int,
    map_keys: int,
    wide_keys: int,
    few_objects: int,
    chunk: int,
    /,
) -> tuple[Node, bool, bool] | None:
    """Return a value's node, whether keys were folded, and whether places were cut; None if `columns` has to read it."""
