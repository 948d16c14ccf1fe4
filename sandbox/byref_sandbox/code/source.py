"""Parses Python as models write it, with `$name` for a variable."""

from __future__ import annotations

import ast
import os
import re
import threading
import tokenize
import warnings
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal, overload

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
TOO_DEEP = (RecursionError, MemoryError, SystemError)
"""What Python's parser and compiler raise for code that is nested too deeply; SystemError too, where they have lost count of the depth."""
UNPARSED = (SyntaxError, ValueError, *TOO_DEEP)
"""The exceptions that `parsed` raises for code that cannot be parsed."""

_parsing = threading.Lock()


def _begin_in_child() -> None:
    global _parsing
    _parsing = threading.Lock()  # the thread that held it does not exist in this process


os.register_at_fork(after_in_child=_begin_in_child)


@overload
def parsed(source: str, filename: str = ..., mode: Literal["exec"] = ...) -> ast.Module: ...
@overload
def parsed(source: str, filename: str, mode: Literal["exec", "eval"]) -> ast.AST: ...
def parsed(source: str, filename: str = "<unknown>", mode: str = "exec") -> ast.AST:
    """Return `ast.parse` of code, without warnings, one thread at a time.

    CPython adds up the depths of the trees of all threads, and raises SystemError if they parse at the same time (gh-106905).
    """
    with _parsing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, filename, mode)


def shows_no_value(source: str, tree: ast.Module) -> bool:
    """Whether a semicolon ends the code, as notebooks write it to have no value shown."""
    if not tree.body:
        return False
    line, column = tree.body[-1].end_lineno or 1, tree.body[-1].end_col_offset or 0
    rest = re.split("\r\n?|\n", source)[line - 1].encode("utf-8", "surrogatepass")[column:]
    return rest.lstrip().startswith(b";")


def strip_dollars(source: str) -> str:
    """Remove the `$` of `$name` outside strings and comments. Line numbers stay; broken code is changed up to the break."""
    if "$" not in source:
        return source
    lines = [line + "\n" for line in source.split("\n")]
    lines[-1] = lines[-1][:-1]
    for line, places in groupby(sorted(_dollars(lines)), itemgetter(0)):
        # All of a line at once: a copy of it for each would be quadratic in a long one.
        bounds = [-1, *(column for _, column in places), len(lines[line])]
        lines[line] = "".join([lines[line][start + 1 : end] for start, end in pairwise(bounds)])
    return "".join(lines)


def _dollars(lines: list[str]) -> set[tuple[int, int]]:
    """Return the places (line index, column) of dollars directly before an identifier."""
    places: set[tuple[int, int]] = set()

    def note(line: int, column: int) -> None:
        text = lines[line] if line < len(lines) else ""
        if text[column : column + 1] == "$" and _IDENTIFIER.match(text, column + 1):
            places.add((line, column))

    # The tokeniser stops at the first fault (an unclosed bracket, a bad dedent); the places found until then are valid.
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            line, column = token.start
            if token.string == "$" and token.type in (tokenize.ERRORTOKEN, tokenize.OP):
                note(line - 1, column)
            elif token.type == tokenize.STRING and "$" in token.string and _is_fstring(token.string):
                # Before Python 3.12 an f-string is one token, so the dollars in its fields are searched for here.
                for offset_line, offset_column in _field_dollars(token.string):
                    note(line - 1 + offset_line, offset_column + (column if offset_line == 0 else 0))
    except (tokenize.TokenError, SyntaxError, RecursionError, MemoryError, ValueError):
        pass
    return places


def _is_fstring(literal: str) -> bool:
    return "f" in literal[: literal.find(literal[-1])].lower()


def _field_dollars(literal: str) -> Iterator[tuple[int, int]]:
    """Yield dollars inside the replacement fields of an f-string literal, but outside strings nested in them."""
    depth = line = column = 0
    quote = ""
    opening = literal.find(literal[-1])
    position = opening + (3 if literal[opening : opening + 3] == literal[-1] * 3 else 1)
    column = position
    while position < len(literal):
        char = literal[position]
        if not depth and literal[position : position + 2] in ("{{", "}}"):
            position += 2
            column += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char == "{":
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
        elif depth and char in "'\"":
            quote = char
        elif depth and char == "$":
            yield line, column
        line, column = (line + 1, 0) if char == "\n" else (line, column + 1)
        position += 1
