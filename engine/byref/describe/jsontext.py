"""JSON text that any strict decoder reads."""

from __future__ import annotations

import msgspec


def compact(value: object) -> str:
    """The compact JSON text of a JSON value. Raises UnicodeEncodeError for a lone surrogate."""
    return msgspec.json.encode(value).decode()


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, written as escapes."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which neither UTF-8 nor any API takes; two halves become their character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def noted(text: str, note: str, name: str = "[INCOMPLETE]") -> str:
    """Return the JSON text of an array or object with a note inside, so that it still parses.

    The note is the last element of the array; of the object it is the last member, of that name.
    """
    members = text[1:-1].rstrip()
    last = compact(f"[{note}]") if text.startswith("[") else f"{compact(name)}:{compact(f'[{note}]')}"
    return f"{text[0]}{members}{',' if members else ''}{last}{text[-1]}"


def is_container(text: str) -> bool:
    """Tell whether JSON text is that of an array or object."""
    return text[:1] in ("[", "{")
