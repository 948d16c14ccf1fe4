"""Compile regular expressions written by a model, for a linear-time search within single lines."""

from __future__ import annotations

import re
from typing import Protocol

import re2

from byref.errors import ToolError

__all__ = [
    "MAX_PATTERN_BYTES",
    "MAX_SYNTAX_BYTES",
    "SHOWN_CHARS",
    "Match",
    "Regexp",
    "compile_pattern",
    "forget_patterns",
    "sees_line_ends",
    "shortened",
]

MAX_PATTERN_BYTES = 256 * 1024
MAX_SYNTAX_BYTES = 16 * 1024
"""Limit of the bytes in classes, repetitions and dots; plain text, `|`, brackets and anchors are cheap and not counted.
RE2 needs 2 s and 260 MB for a pattern that consists of classes only."""
_MEMORY = 8 << 20
_MAX_PROGRAM = 20_000
_LONG_MEMORY = 64 << 20
"""RE2's memory for a pattern over `MAX_SYNTAX_BYTES`: 25,000 words of 6 to 12 letters compile to 195,000 instructions
in 0.1 s."""
_LONG_MAX_PROGRAM = 265_000
_SORTED_FROM = 100
_MAX_DEPTH = 1_000
"""Nesting of brackets, limited as in RE2."""
SHOWN_CHARS = 80
"""Characters of a pattern or a reason that an answer shows."""
_BY_LINE = "(?m)"
_CLASS = r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]])*(?:\]|\Z)"

_SYNTAX = re.compile(
    r"\\Q.*?(?:\\E|\Z)"  # quoted text stays as it is
    rf"|(?P<class>{_CLASS})"
    r"|(?P<edge>\\b(?=[^\W\x00-\x7F])|(?<=[^\W\x00-\x7F])\\b)"  # `\b` beside a letter that is not ASCII
    r"|\\(?P<escape>.)"
    r"|\(\?(?P<on>[imsU]*)-(?P<off>[imsU]*)(?P<end>[:)])",
    re.DOTALL,
)
_WORD = r"\w\x{80}-\x{10FFFF}"
r"""What `\w` stands for, for RE2 knows ASCII alone: all else counts as letters, as naming these takes a thousand instructions each time."""
_COSTLY = re.compile(rf"{_CLASS}" r"|\\[pP].?|\\[^\WbB]|(?P<plain>\\.)|\{[0-9,]*\}?|[.?*+]", re.DOTALL)
_PIECES = re.compile(
    rf"\\Q.*?(?:\\E|\Z)|{_CLASS}"
    r"|\\.|(?P<flags>\(\?[imsU-]*\))|(?P<open>\((?:\?(?:P?<\w+>|[imsU-]*:))?)|(?P<close>\))|(?P<bar>\|)|[^\\\[()|]+|.",
    re.DOTALL,
)
_ENDS_IN_TEXT = re.compile(r"(?s:.*)[\w \"':;,=<>@#%&!~`/-]\)*")
_HIDDEN_END = re.compile(r"\\.{0,5}\Z|\(\?[^()]*\)*\Z", re.DOTALL)


class Match(Protocol):
    """The position of a match in the bytes searched."""

    def start(self) -> int:
        """The offset at which the match begins."""


class Regexp(Protocol):
    """The part of a compiled RE2 pattern's interface that is used."""

    @property
    def programsize(self) -> int:
        """Number of instructions; the worst-case cost of one byte is proportional to it."""

    def search(self, data: bytes, position: int, end: int) -> Match | None:
        """Return the leftmost match between two offsets; anchors also look at the bytes around the range."""


def compile_pattern(pattern: str, *, ignore_case: bool) -> tuple[Regexp, str]:
    """Return the compiled pattern, and the reason why it is searched as literal text (empty if it is not).

    Raises:
        ToolError: the pattern is empty or too large.
    """
    data = pattern.encode("utf-8", "surrogatepass")
    if not data:
        raise ToolError("pattern is empty: give a regular expression or some text")
    if len(data) > MAX_PATTERN_BYTES:
        raise ToolError(f"pattern has {len(data):,} bytes: expected at most {MAX_PATTERN_BYTES:,}")
    long = len(data) > MAX_SYNTAX_BYTES
    if long and (syntax := _syntax_bytes(pattern)) > MAX_SYNTAX_BYTES:
        raise ToolError(
            f"pattern has {len(data):,} bytes, {syntax:,} of them in classes, repetitions and unescaped dots: expected at "
            f"most {MAX_SYNTAX_BYTES:,} of those; search for plain text, or for less at once"
        )
    options = re2.Options()
    options.max_mem = _LONG_MEMORY if long else _MEMORY
    options.log_errors = False
    options.never_capture = True
    options.never_nl = True
    options.case_sensitive = not ignore_case
    reason = ""
    try:
        by_line = _SYNTAX.sub(_by_line, _sorted(pattern, ignore_case=ignore_case))
        regexp = re2.compile((_BY_LINE + by_line).encode("utf-8", "surrogatepass"), options)
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
    most = _LONG_MAX_PROGRAM if long else _MAX_PROGRAM
    if regexp.programsize > most:
        raise ToolError(
            f"pattern is too complex: it compiles to {regexp.programsize:,} instructions, expected at most "
            f"{most:,}; shorten its repetitions"
        )
    return regexp, reason


def _syntax_bytes(pattern: str) -> int:
    costly = "".join(token[0] for token in _COSTLY.finditer(pattern) if token["plain"] is None)
    return len(costly.encode("utf-8", "surrogatepass"))


def sees_line_ends(pattern: str) -> bool:
    """Return whether a carriage return before a line feed could decide a match; False only if it surely cannot.

    It cannot if every alternative ends in a visible character that must match: the carriage return is the line's last
    character, so a match that went over it would have to find that character behind it.
    """
    return not all(_ENDS_IN_TEXT.fullmatch(branch) and not _HIDDEN_END.search(branch) for branch in pattern.split("|"))


def _sorted(pattern: str, *, ignore_case: bool) -> str:
    """Sort the alternatives of a long alternation, so that RE2 joins those with a common beginning.

    Unsorted, RE2 tries thousands of them at every byte. Sorting is safe: the order decides only where a match ends, and
    only the place where it begins is used.
    """
    if pattern.count("|") < _SORTED_FROM:
        return pattern
    fold = ignore_case or "(?i" in pattern
    groups: list[_Group] = [_Group()]
    for piece in _PIECES.finditer(pattern):
        group = groups[-1]
        match piece.lastgroup:
            case "bar":
                group.branches.append([])
            case "open":
                if len(groups) > _MAX_DEPTH:
                    return pattern
                groups.append(_Group(piece[0]))
            case "close":
                if len(groups) == 1:
                    return pattern
                groups.pop()
                groups[-1].branches[-1].append(f"{group.joined(fold=fold)})")
            case "flags":
                # Flags also hold for the alternatives behind them, so the alternatives must keep their order; only flags
                # at the very beginning can be put before the sorted ones.
                group.free = group.free and len(group.branches) == 1 and not group.branches[0]
                (group.heads if group.free else group.branches[-1]).append(piece[0])
            case _:
                group.branches[-1].append(piece[0])
    return groups[0].joined(fold=fold) if len(groups) == 1 else pattern


class _Group:
    """An open bracket or the whole pattern, with the alternatives read so far."""

    def __init__(self, head: str = "") -> None:
        self.heads = [head]
        self.branches: list[list[str]] = [[]]
        self.free = True

    def joined(self, *, fold: bool) -> str:
        branches = ["".join(parts) for parts in self.branches]
        if self.free and len(branches) > 2:
            branches = sorted(dict.fromkeys(branches), key=str.lower if fold else None)
        return "".join(self.heads) + "|".join(branches)


def _by_line(token: re.Match[str]) -> str:
    r"""Turn `\A`, `\z` and `\Z` into a line's ends and `\C` into `.`, and drop flags that would switch `(?m)` off.

    `\w` and `\W` know other letters than ASCII's. So does `\b` beside one: for RE2 such a letter is none, so its word ends there where
    RE2 sees no end of a word.
    """
    if token["edge"]:
        return r"\B"
    if token["class"]:
        return re.sub(r"\\(?s:.)", lambda one: _WORD if one[0] == r"\w" else one[0], token["class"])
    if token["end"]:
        off = token["off"].replace("m", "")
        flags = f"{token['on']}-{off}" if off else token["on"]
        return f"(?{flags}{token['end']}" if flags or token["end"] == ":" else ""
    return {"A": "(?m:^)", "z": "(?m:$)", "Z": "(?m:$)", "C": ".", "w": f"[{_WORD}]", "W": f"[^{_WORD}]"}.get(
        token["escape"] or "", token[0]
    )


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    message = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return shortened(message.replace(_BY_LINE, "", 1))


def shortened(text: str, most: int = SHOWN_CHARS) -> str:
    """Return at most `most` characters of `text`, escaped so that they fit in one line, with `…` if there are more."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "…"


def forget_patterns() -> None:
    """Clear the cache of the re2 module, which keeps 128 patterns with up to 16 MiB of automata each."""
    re2.purge()
