"""Names, written as a text."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """A set of names, written as a text."""
    return frozenset(text.split())
