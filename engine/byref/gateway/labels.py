"""Labels that say which server a text is from. The label stands where the server's own text cannot put one.

A line of the gateway begins with `[server NAME]` or, in the instructions, with `## NAME`; each further line that a server wrote
begins with `> `. So a server that writes a false label inside its text deceives nobody.
"""

from __future__ import annotations

import re

from byref.errors import one_line, visible

MAX_TEXT_CHARS = 10_000
"""Characters of one question, or of one server's instructions to the model."""
MAX_TEXT_LINES = 200
MAX_TITLE_CHARS = 300
_BLANKS = re.compile(r"\s{3,}")


def label(server: str) -> str:
    """Return the label of a server; the configuration refuses names with control characters."""
    return f"[server {server}]"


def titled(server: str, title: str) -> str:
    """Return a title with its server's label, on one line."""
    return f"{label(server)} {one_line(title, MAX_TITLE_CHARS)}".rstrip()


def quoted(server: str, text: str) -> str:
    """Return a text for a user: the first line after the server's label, the others quoted."""
    first, *others = lines(text)
    return "\n".join([f"{label(server)} {first}".rstrip(), *map(_quoted, others)])


def introduced(server: str, text: str) -> str:
    """Return a server's instructions to the model: each line quoted, under a heading that the gateway writes."""
    return "\n".join([f"## {server}", *map(_quoted, lines(text))])


def lines(text: str) -> list[str]:
    """Return a text's lines, at least one: hidden characters are made visible, an excess is cut and its characters counted."""
    found = text[:MAX_TEXT_CHARS].splitlines() or [""]
    kept = [_BLANKS.sub("  ", visible(line)).rstrip() for line in found[:MAX_TEXT_LINES]]
    left = len(text) - sum(map(len, found[:MAX_TEXT_LINES]))
    return kept if left <= len(found) else [*kept, f"… ({left:,} characters left out)"]


def _quoted(line: str) -> str:
    return f"> {line}".rstrip()
