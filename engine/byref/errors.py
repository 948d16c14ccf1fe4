"""Every error that byref raises, and how text of strangers is shown in one.

A `ByrefError` is for the host to mend; a `ToolError` is text for the model, which can act on it. An error's docstring is its
default message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ByrefError(Exception):
    """Something the host has to mend."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(visible(message or (type(self).__doc__ or "").strip()))


class ConfigurationError(ByrefError, ValueError):
    """A setting is unknown, out of range, or at odds with another."""


class InvalidId(ByrefError, ValueError):
    """An id that the host gave cannot be used."""


class SchemaMismatch(ByrefError):
    """The database is not at the revision that this version of byref needs."""


class SessionGone(ByrefError):
    """The session was deleted or has ended, or the transaction that created it was rolled back."""


class UnknownSession(SessionGone):
    """There is no session of this id."""


class StorageFailure(ByrefError):
    """The database or the blob store could not be reached or did not take the write."""


class TransactionConflict(ByrefError):
    """The host's transaction lost to a concurrent one: roll it back and run it again from the start."""


class ArtifactMissing(ByrefError):
    """An artifact has a record but its bytes are not there, or are not the ones that were stored."""

    def __init__(self, message: str | None = None, *, blob_id: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.blob_id = blob_id
        """The row of the stored bytes, where it is known."""
        self.name = name
        """What code called it, of a value that code kept."""


class QuotaExceeded(ByrefError):
    """A payload is larger than the policy allows to be stored."""


class ToolError(Exception):
    """Text for the model: what was wrong with a call and what to do instead."""


@contextmanager
def within(place: str) -> Iterator[None]:
    """Put a place before the message of a ConfigurationError that is raised within."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from error.__cause__


# Strangers' text reaches terminals, logs and errors. There all of it has to be seen, and none of it may steer anything. So three
# kinds of characters are written out as escapes, `\x1b` or `\u202e`: those that a terminal obeys (C0, DEL, C1), those that turn the
# order of text around, and those that nobody sees, which hide text from people but not from a model.

_JOINERS = "\u200c\u200d"
_VARIANTS = "\ufe00-\ufe0f"
_NO_ASCII = r"\x00-\x7f"
_PLAIN = re.compile(
    # Controls but for tab and line feed; soft hyphen, fillers, bidirectional marks, separators of lines, what has no width,
    # halves of surrogate pairs, tag characters and further variants (Unicode's Default_Ignorable_Code_Point and Bidi_Control).
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
    # Scripts and emoji need joiners and variant selectors: a single one, next to a character that is not ASCII. Others are escaped.
    f"|(?<![^{_NO_ASCII}{_JOINERS}])[{_JOINERS}]|[{_JOINERS}](?![^{_NO_ASCII}{_JOINERS}])"
    f"|(?<![^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f{_VARIANTS}])[{_VARIANTS}]"
)
_SEPARATOR = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]")
"""Characters at which some program begins a new line or a new cell."""


def shown(value: object) -> str:
    """Return a value's repr, cut where it is long; for a value without one, its type."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  integers of more than 4300 digits, and whatever a host's own classes do
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else f"{text[:100]}…"


def visible(text: str) -> str:
    """Return a text in which characters that steer a terminal or are not seen are escapes; line feeds and tabs stay."""
    return _PLAIN.sub(lambda found: _escape(found[0]), text)


def visible_in_json(text: str) -> str:
    """Return JSON that means the same, in which characters that steer a terminal or are not seen are JSON's escapes."""
    return _PLAIN.sub(lambda found: _units(found[0]), text)


def all_visible(value: Any, levels: int = 64) -> Any:
    """Return a JSON value with all its texts `visible`; what is nested deeper than `levels` becomes null."""
    if isinstance(value, str):
        return visible(value)
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [all_visible(item, levels - 1) for item in value]
    return {visible(str(key)): all_visible(member, levels - 1) for key, member in value.items()}


def one_line(message: object, most: int = 300) -> str:
    """Return a message, or that of an error, `visible` on one line and cut where it is long."""
    try:
        text = str(message)[: 10 * most]
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  an error's own __str__ may do anything, even exit
        text = ""
    line = visible(" ".join(text.split()))
    return line if len(line) <= most else f"{line[:most]}…"


def one_cell(text: str) -> str:
    """Return a text with spaces for line breaks and tabs, if it has some; else as it is."""
    return " ".join(text.split()) if _SEPARATOR.search(text) else text


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _units(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
