"""What of the texts of tools and models somebody may see, and how much of one at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from byref.describe.jsontext import without_surrogates

Redact = Callable[[str], str]
"""A host's own: returns a text with what nobody is to see replaced. It is called on threads, for each text by itself."""

TEXT_CHARS = 20_000
"""Characters of one text that a page shows."""
LINE_CHARS = 300
"""Characters of one text in a list."""
REDACTED_AHEAD = 1 << 16
"""Characters behind a cut that are redacted, too, so that the cut does not hide a secret's end from `Redact`."""
DECODED_TIMES = 8
"""So often are the escapes of a text decoded for `Redact`: those of JSON in JSON, or in code, come out one after the other."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|([\"'\\/abfnrtv]))")
_MEANT = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


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
        is_cut = len(value) > most + REDACTED_AHEAD
        # The text may become shorter, which brings the cut nearer to what is shown: half of what is ahead stays behind it.
        shown = self.redacted(value[: most + REDACTED_AHEAD], REDACTED_AHEAD // 2 if is_cut else 0)
        left_out = len(value) - most if is_cut else max(0, len(shown) - most)
        return Text(shown[:most], len(value), left_out)

    def line(self, value: str | None) -> Text | None:
        """Return what is seen of a text in a list."""
        return self.text(value, LINE_CHARS)

    def name(self, value: str) -> str:
        """Return a name or a shape, which everybody sees, redacted."""
        return self.redacted(value)

    def redacted(self, value: str, ahead: int = 0) -> str:
        """Return a text redacted, without its last `ahead` characters: a secret in them may lack its end.

        What its escapes stand for is redacted, too. If that hides more, the text is returned with its escapes decoded: a place in
        the one is none in the other.
        """
        if self.redact is None:
            return value[: len(value) - ahead]
        behind = value[len(value) - ahead :]
        shown = meant = self.redact(value)
        for _ in range(DECODED_TIMES):
            decoded = _decoded(meant)
            if decoded == meant:
                break
            meant, behind = self.redact(decoded), _decoded(behind)
            if meant != decoded:
                shown, ahead = meant, len(behind)
        return shown[: max(0, len(shown) - ahead)]


def _decoded(text: str) -> str:
    """Return a text with what the escapes of JSON and of Python in it stand for, wherever they are."""
    return without_surrogates(_ESCAPE.sub(_meant, text)) if "\\" in text else text


def _meant(escape: re.Match[str]) -> str:
    *codes, letter = escape.groups()
    if letter is not None:
        return _MEANT.get(letter, letter)
    code = int(next(code for code in codes if code is not None), 16)
    return chr(code) if code < 0x110000 else escape[0]
