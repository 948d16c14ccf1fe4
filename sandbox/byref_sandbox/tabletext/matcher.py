"""An expression of a table's rows, with which RE2 matches as many rows at once as have the cells that are known so far.

It says how many cells a row has, how each is quoted, and of which kinds the cells of each column are. What it matches needs no look
at a cell; a row that it does not match is read by itself, and tells the next expression something new. RE2 takes time linear in the
text, whatever the text is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import re2

from byref_sandbox.tabletext.kinds import PATTERNS, Kind
from byref_sandbox.tabletext.result import Dialect

MAX_COLUMNS: Final = 6_000
"""A table of more columns is read row by row: its expression would have too many states."""
_MEMORY: Final = 64 << 20
"""Bytes that RE2 may take for the states of one expression."""


class Matcher:
    """Matches rows of one width, by a dialect, whose cells are of known kinds."""

    def __init__(self, dialect: Dialect, kinds: Sequence[set[Kind]], *, lines: bool) -> None:
        """Make the expression. `lines` says that a quoted cell may have line feeds.

        Raises:
            ValueError: the table is too wide for an expression.
        """
        if len(kinds) > MAX_COLUMNS:
            raise ValueError("too many columns")
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are
        options.max_mem = _MEMORY
        options.log_errors = False
        takes_returns = dialect.newline == "\n"
        cells = [_cell(dialect, column, lines=lines, returns=False) for column in kinds[:-1]]
        cells.append(_cell(dialect, kinds[-1], lines=lines, returns=takes_returns))
        end = b"\r?\n" if takes_returns else dialect.newline.encode()
        row = re2.escape(dialect.delimiter.encode()).join(cells) + end
        try:
            self._rows = re2.compile(b"(?:%s)*" % row, options)
        except re2.error as error:
            raise ValueError(str(error)) from None
        finally:
            re2.purge()  # the module keeps the last expressions with their states otherwise

    def end(self, data: bytes, start: int) -> int:
        """Where the rows end that match one after another, the first at `start`; `start` if that one does not match."""
        return self._rows.match(data, start).end()  # type: ignore[no-any-return]


def _bare(ends: bytes, quote: bytes, *, returns: bool) -> bytes:
    """A cell without quotes around it, up to the bytes at which it ends; with `returns` it does not end with a carriage return."""
    if not returns:
        return b"[^%s%s][^%s]*" % (quote, ends, ends)
    return b"[^%s%s\r]|[^%s%s][^%s]*[^%s\r]" % (quote, ends, quote, ends, ends, ends)


def _cell(dialect: Dialect, kinds: set[Kind], *, lines: bool, returns: bool) -> bytes:
    """A cell of known kinds; with `returns` a carriage return may stand between it and the line feed that ends its row."""
    quote = (dialect.quote or "").encode()
    mark, feeds = re2.escape(dialect.delimiter[:1].encode()), b"\r\n"
    ends = dialect.newline[-1].encode()  # without quotes around it, a line end of another kind is text
    if "text" in kinds:
        # A cell of nothing is read by itself the first time, so that it is known exactly whether a column has any.
        empty = "empty" in kinds
        if not quote:
            return b"(?:%s)%s" % (_bare(mark + ends, b"", returns=returns), b"?" if empty else b"")
        inside = b"[^%s%s%s]" % (quote, b"\\\\" if dialect.escape == "backslash" else b"", b"" if lines else feeds)
        ways = [inside, quote + quote]
        if dialect.escape == "backslash":
            ways.append(b"\\\\[^\r\n]")
        if dialect.escape == "none":
            inside, *ways = ways
            ways = [inside, b"%s+[^%s%s%s]" % (quote, quote, mark, feeds)]
        # Where line feeds are counted by the quotes around them, no other quote may be there.
        bare = _bare(mark + ends + (quote if lines else b""), quote, returns=returns)
        last = quote + b"+" if dialect.escape == "none" else quote
        if empty:
            return b"(?:(?:%s)?|%s(?:%s)*%s)" % (bare, quote, b"|".join(ways), last)
        return b"(?:%s|%s(?:%s)+%s)" % (bare, quote, b"|".join(ways), last)
    patterns = [PATTERNS[kind].encode() for kind in sorted(kinds) if kind != "empty"]
    if dialect.delimiter[:1] in ".,":
        patterns = [PATTERNS[kind].encode() for kind in sorted(kinds) if kind not in ("empty", "comma", "either,")]
    body = b"(?:%s)%s" % (b"|".join(patterns), b"?" if "empty" in kinds else b"") if patterns else b""
    return b"(?:%s|%s%s%s)" % (body, quote, body, quote) if quote else body
