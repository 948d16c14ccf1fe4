"""Routes: what becomes of an output, and what each route means to those who store, explain or answer it again."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple, Self


class _Meaning(NamedTuple):
    passes_whole: bool = False
    shows_text: bool = False
    is_reference: bool = False
    explained: str = "{route}, because {because}."


_UNKNOWN = _Meaning()


class Route(StrEnum):
    """What became of an output. A member equals its name as text, which is what the ledger keeps.

    Its order is the one in the ledger's CHECK constraint: a new route comes with a migration.
    """

    passes_whole: bool
    """Whether the model reads every block as it came."""
    shows_text: bool
    """Whether the model's context holds text of the output, whole or cut: the same again need not be shown once more."""
    is_reference: bool
    """Whether the model reads an envelope alone: the output is useless to it without the stored data."""
    explained: str
    """What `explain` says of it, with `{route}` and `{because}`, the rule that decided."""

    INLINE = "inline", _Meaning(passes_whole=True, shows_text=True)
    VARIABLES = "variables", _Meaning(is_reference=True)
    ARTIFACT = "artifact", _Meaning(is_reference=True)
    TRUNCATE = "truncate", _Meaning(shows_text=True)
    WHOLESALE = (
        "wholesale",
        _Meaning(
            passes_whole=True,
            shows_text=True,
            explained="{route}: {because}, but the policy lets plaintext through whole.",
        ),
    )
    PLACEHOLDER = "placeholder", _Meaning()

    def __new__(cls, name: str, meaning: _Meaning = _UNKNOWN) -> Self:
        """Make a member out of its name and its meaning."""
        member = str.__new__(cls, name)
        member._value_ = member._name_ = name
        member.passes_whole, member.shows_text, member.is_reference, member.explained = meaning
        return member

    @classmethod
    def _missing_(cls, value: object) -> Any:
        """Read a route that a later byref wrote into the same ledger: nothing is known of it but its name."""
        return cls.__new_member__(cls, value) if isinstance(value, str) else None  # type: ignore[attr-defined]

    __repr__ = str.__repr__
