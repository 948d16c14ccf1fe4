"""What of the texts of tools and models somebody may see, and how much of one at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Redact = Callable[[str], str]
"""A host's own: returns a text with what nobody is to see replaced. It is called on threads, for each text by itself."""

TEXT_CHARS = 20_000
"""Characters of one text that a page shows."""
LINE_CHARS = 300
"""Characters of one text in a list."""
REDACTED_AHEAD = 1 << 16
"""Characters behind a cut that are redacted, too, so that the cut does not hide a secret's end from `Redact`."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text as a page shows it."""

    text: str
    chars: int
    """Of the whole."""
    left_out: int = 0
    is_hidden: bool = False
    """Only its length may be seen."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one client sees."""

    has_content: bool
    """Whether it sees what was said and stored; otherwise names, shapes and numbers alone."""
    redact: Redact | None = None

    @property
    def has_bytes(self) -> bool:
        """Whether it gets data as it is stored, which nobody can redact."""
        return self.has_content and self.redact is None

    def text(self, value: str | None, most: int = TEXT_CHARS) -> Text | None:
        """Return what is seen of a text; None: there is none."""
        if value is None:
            return None
        if not self.has_content:
            return Text("", len(value), is_hidden=True)
        shown = value[: most + REDACTED_AHEAD]
        if self.redact is not None:
            shown = self.redact(shown)
        left_out = max(0, len(shown) - most) + max(0, len(value) - most - REDACTED_AHEAD)
        return Text(shown[:most], len(value), left_out)

    def line(self, value: str | None) -> Text | None:
        """Return what is seen of a text in a list."""
        return self.text(value, LINE_CHARS)

    def name(self, value: str) -> str:
        """Return a name or a shape, which everybody sees, redacted."""
        return value if self.redact is None else self.redact(value)
