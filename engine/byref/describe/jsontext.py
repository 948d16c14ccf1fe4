"""JSON text that any strict decoder accepts."""

from __future__ import annotations

import msgspec


def compact(value: object) -> str:
    """Return the compact JSON text of a JSON value. Raises UnicodeEncodeError for a lone surrogate."""
    return msgspec.json.encode(value).decode()


def encodable(text: str) -> str:
    """Return the text with lone surrogates written as escapes, because UTF-8 cannot hold them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate, which neither UTF-8 nor any API accepts.

    Two surrogates that form a pair become their character.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def noted(text: str, note: str, name: str = "[INCOMPLETE]") -> str:
    """Return the JSON text of an array or object with a note inside, so that it still parses.

    The note is the last element of the array, or the last member of the object, under `name`.
    """
    members = text[1:-1].rstrip()
    last = compact(f"[{note}]") if text.startswith("[") else f"{compact(name)}:{compact(f'[{note}]')}"
    return f"{text[0]}{members}{',' if members else ''}{last}{text[-1]}"


def is_container(text: str) -> bool:
    """Tell whether the JSON text is an array or object."""
    return text[:1] in ("[", "{")
