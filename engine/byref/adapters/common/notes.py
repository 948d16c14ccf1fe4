"""What frameworks tell of models and conversations, where that is not given: hosts' tests put stand-ins in their place."""

from __future__ import annotations

from collections.abc import Mapping

from byref.usage import is_count


def text(value: object) -> str | None:
    """Return a name that a framework tells; None where it is no text, or an empty one."""
    return value if isinstance(value, str) and value else None


def count(value: object) -> int:
    """Return a number that a framework tells; 0 where it is no whole number, or a negative one."""
    return value if is_count(value) and isinstance(value, int) else 0


def member(value: object, name: str) -> object:
    """Return a member of an object that a framework tells; None where there is none, or it is no object."""
    return value.get(name) if isinstance(value, Mapping) else None
