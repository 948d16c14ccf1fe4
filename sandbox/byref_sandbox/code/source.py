"""What can be told from code before it runs. The host imports this: standard library only, nothing raises."""

from __future__ import annotations

import ast
import os
import re
import threading
import tokenize
import warnings
from collections.abc import Iterator

MAX_SOURCE_CHARS = 1_000_000
"""Beyond it names are found by a plain scan: parsing such a text could take the host seconds."""
_MAX_NESTING = 200
"""CPython's parser gives up at 200 open brackets; below it the C stack is safe as well."""

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_QUERY_VARIABLE = re.compile(r"@\s*([^\W\d]\w*)")
_FRAME_CALL = "df"
_NAMESPACES = frozenset({"globals", "locals", "vars"})
"""Where these are used, any string may name a variable."""
_MAX_TEMPLATE_CHARS = 10_000
UNPARSED = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError)
"""What `parsed` raises for code that cannot be; the last one where others parse beside it."""

_parsing = threading.Lock()


def _begin_in_child() -> None:
    global _parsing
    _parsing = threading.Lock()  # whoever held it is not in this process


os.register_at_fork(after_in_child=_begin_in_child)


def parsed(source: str) -> ast.Module:
    """Return `ast.parse` of code, without warnings, one thread at a time.

    CPython counts the depth of all threads' trees together, and raises SystemError where they meet (gh-106905).
    """
    with _parsing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def strip_dollars(source: str) -> str:
    """Take the `$` off `$name`, outside strings and comments; line numbers stay, broken code comes back as well as it can."""
    if "$" not in source:
        return source
    lines = [line + "\n" for line in source.split("\n")]
    lines[-1] = lines[-1][:-1]
    for line, column in sorted(_dollars(lines), reverse=True):
        text = lines[line]
        lines[line] = text[:column] + text[column + 1 :]
    return "".join(lines)


def _dollars(lines: list[str]) -> set[tuple[int, int]]:
    """Places (line index, column) of the dollars that stand right before an identifier."""
    places: set[tuple[int, int]] = set()

    def note(line: int, column: int) -> None:
        text = lines[line] if line < len(lines) else ""
        if text[column : column + 1] == "$" and _IDENTIFIER.match(text, column + 1):
            places.add((line, column))

    # Tokenising stops at the first token that cannot be (an unclosed bracket, a bad dedent); what was found until then holds.
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            line, column = token.start
            if token.string == "$" and token.type in (tokenize.ERRORTOKEN, tokenize.OP):
                note(line - 1, column)
            elif token.type == tokenize.STRING and "$" in token.string and _is_fstring(token.string):
                # Before Python 3.12 an f-string is one token; the dollars of its fields are found by hand.
                for offset_line, offset_column in _field_dollars(token.string):
                    note(line - 1 + offset_line, offset_column + (column if offset_line == 0 else 0))
    except (tokenize.TokenError, SyntaxError, RecursionError, MemoryError, ValueError):
        pass
    return places


def _is_fstring(literal: str) -> bool:
    return "f" in literal[: literal.find(literal[-1])].lower()


def _field_dollars(literal: str) -> Iterator[tuple[int, int]]:
    """Dollars inside the replacement fields of an f-string literal, outside strings nested in them."""
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


def free_names(source: str) -> frozenset[str]:
    """Names the code may read: identifiers, and those inside short strings (`df("users")`, `.query("a > @limit")`).

    A superset, never less: binding is lazy, so a name that is missed would be missing. On broken or hostile code every identifier found by
    a plain scan counts.
    """
    if len(source) > MAX_SOURCE_CHARS or _nesting(source) > _MAX_NESTING:
        return frozenset(_IDENTIFIER.findall(source[:MAX_SOURCE_CHARS]))
    try:
        return frozenset(_names(parsed(strip_dollars(source))))
    except UNPARSED:
        return frozenset(_IDENTIFIER.findall(source))


def assigned_names(source: str) -> frozenset[str]:
    """Names that the code binds itself, by whatever statement; none of code that cannot be parsed."""
    try:
        tree = parsed(strip_dollars(source))
    except UNPARSED:
        return frozenset()
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return frozenset(bound | defined | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)})


def _nesting(source: str) -> int:
    """An upper bound of how deep brackets and unary operators nest, strings included."""
    depth = deepest = 0
    for char in re.findall(r"[\[({\])}]", source):
        depth = depth + 1 if char in "[({" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return max(deepest, max(map(len, re.findall(r"(?:[-+~]\s*|not\s+)+", source)), default=0) // 2)


def _names(tree: ast.AST) -> Iterator[str]:
    texts: list[str] = []
    by_name = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
            by_name = by_name or node.id in _NAMESPACES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _FRAME_CALL:
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                yield from (
                    p.value for p in ast.walk(argument) if isinstance(p, ast.Constant) and isinstance(p.value, str)
                )
    for text in texts:
        if by_name and len(text) <= _MAX_TEMPLATE_CHARS:
            yield from _IDENTIFIER.findall(text)
        elif "@" in text:
            yield from _QUERY_VARIABLE.findall(text)
