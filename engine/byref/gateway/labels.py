"""In whose name something is shown: the server's name comes first, in a place that the server's own text cannot take.

A line that is ours begins with `[server NAME]` or, among the instructions, with `## NAME`; each further line that a server
wrote begins with `> `. What a server's text says of itself beyond that deceives nobody.
"""

from __future__ import annotations

import re

from byref.errors import one_line, visible

MAX_TEXT_CHARS = 10_000
"""Of one question, or of what one server tells the model about itself."""
MAX_TEXT_LINES = 200
MAX_TITLE_CHARS = 300
_BLANKS = re.compile(r"\s{3,}")


def label(server: str) -> str:
    """Return the words that say whose something is; configurations have names without control characters."""
    return f"[server {server}]"


def titled(server: str, title: str) -> str:
    """Return a title under its server's name: one line."""
    return f"{label(server)} {one_line(title, MAX_TITLE_CHARS)}".rstrip()


def quoted(server: str, text: str) -> str:
    """Return a text for a user under its server's name: the first line beside the name, the others quoted."""
    first, *others = lines(text)
    return "\n".join([f"{label(server)} {first}".rstrip(), *map(_quoted, others)])


def introduced(server: str, text: str) -> str:
    """Return what a server tells the model about itself: under a heading that is ours, each line quoted."""
    return "\n".join([f"## {server}", *map(_quoted, lines(text))])


def lines(text: str) -> list[str]:
    """Return the lines of a text, at least one; what is hidden in them is made visible, and what is too much cut and counted."""
    found = text[:MAX_TEXT_CHARS].splitlines() or [""]
    kept = [_BLANKS.sub("  ", visible(line)).rstrip() for line in found[:MAX_TEXT_LINES]]
    left = len(text) - sum(map(len, found[:MAX_TEXT_LINES]))
    return kept if left <= len(found) else [*kept, f"… ({left:,} characters left out)"]


def _quoted(line: str) -> str:
    return f"> {line}".rstrip()
