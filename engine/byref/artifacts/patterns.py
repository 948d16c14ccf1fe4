"""Regular expressions that a model wrote, compiled for a linear-time search within single lines."""

from __future__ import annotations

import re
from typing import Protocol

import re2

from byref.errors import ToolError

__all__ = ["MAX_PATTERN_BYTES", "SHOWN_CHARS", "Match", "Regexp", "compile_pattern", "forget_patterns", "shortened"]

MAX_PATTERN_BYTES = 16 * 1024
_MAX_PROGRAM = 20_000
SHOWN_CHARS = 80
"""Of a pattern or a reason, in an answer."""
_BY_LINE = "(?m)"

_SYNTAX = re.compile(
    r"\\Q.*?(?:\\E|\Z)"  # quoted text and character classes stay as they are
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*(?:\]|\Z)"
    r"|\\(?P<escape>.)"
    r"|\(\?(?P<on>[imsU]*)-(?P<off>[imsU]*)(?P<end>[:)])",
    re.DOTALL,
)


class Match(Protocol):
    """A match's place in the bytes searched."""

    def start(self) -> int:
        """The offset at which the match begins."""


class Regexp(Protocol):
    """What is used of a compiled RE2 pattern."""

    @property
    def programsize(self) -> int:
        """Instructions: what a byte costs at worst."""

    def search(self, data: bytes, position: int, end: int) -> Match | None:
        """The leftmost match between two offsets; what stands around them decides on anchors."""


def compile_pattern(pattern: str, *, ignore_case: bool) -> tuple[Regexp, str]:
    """Return the compiled pattern, and why it is searched as literal text (empty if it is not).

    Raises:
        ToolError: the pattern is empty or too large.
    """
    data = pattern.encode("utf-8", "surrogatepass")
    if not data:
        raise ToolError("pattern is empty: give a regular expression or some text")
    if len(data) > MAX_PATTERN_BYTES:
        raise ToolError(f"pattern has {len(data):,} bytes: expected at most {MAX_PATTERN_BYTES:,}")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.never_nl = True
    options.case_sensitive = not ignore_case
    reason = ""
    try:
        regexp = re2.compile((_BY_LINE + _SYNTAX.sub(_by_line, pattern)).encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        reason = _reason(error)
        if "too large" in reason:
            raise ToolError(
                "pattern is too complex: it compiles to too large a program; shorten its repetitions"
            ) from None
        options.literal = True
        if not data.isascii() and "UTF-8" in reason:
            options.encoding = re2.Options.Encoding.LATIN1
        regexp = re2.compile(data, options)
    if regexp.programsize > _MAX_PROGRAM:
        raise ToolError(
            f"pattern is too complex: it compiles to {regexp.programsize:,} instructions, expected at most "
            f"{_MAX_PROGRAM:,}; shorten its repetitions"
        )
    return regexp, reason


def _by_line(token: re.Match[str]) -> str:
    r"""Make `\A`, `\z`, `\Z` a line's ends, keep `\C` within a line, and let no flag switch that off."""
    if token["end"]:
        off = token["off"].replace("m", "")
        flags = f"{token['on']}-{off}" if off else token["on"]
        return f"(?{flags}{token['end']}" if flags or token["end"] == ":" else ""
    return {"A": "(?m:^)", "z": "(?m:$)", "Z": "(?m:$)", "C": "."}.get(token["escape"] or "", token[0])


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    message = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return shortened(message.replace(_BY_LINE, "", 1))


def shortened(text: str, most: int = SHOWN_CHARS) -> str:
    """Return at most `most` characters of `text` that can stand in one line, and a mark where there are more."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "…"


def forget_patterns() -> None:
    """Free what the re2 module remembers: 128 patterns, with up to 16 MiB of automata each."""
    re2.purge()
