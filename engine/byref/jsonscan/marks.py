"""`_marks.c`, which reads text by its brackets, quotes and commas: None where it cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byref.extensions import load

if TYPE_CHECKING:
    from byref.jsonscan import _marks as compiled
else:
    compiled = load("byref.jsonscan._marks", 3)

__all__ = ["compiled"]
