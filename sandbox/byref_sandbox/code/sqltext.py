"""Finds, before a SQL query runs, its tables, functions and words. The host imports this module: it uses only the standard
library and never raises.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_REFERENCES: Final = 1_000
MAX_STEPS: Final = 20
"""Maximum steps of a path inside a variable. For a deeper path the query's own error is shown."""

_TOKEN: Final = re.compile(
    r"""
      (?P<skipped>\s+|--[^\r\n]*|/\*.*?(?:\*/|\Z))
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z)|'(?:[^']|'')*+(?:'|\Z))
    | (?P<literal>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<quoted>"(?:[^"]|"")*+(?:"|\Z)|`[^`]*+(?:`|\Z))
    | (?P<name>\$?[^\W\d][\w$]*)
    | (?P<other>\d[\w.]*|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BEFORE_TABLES: Final = frozenset({"from", "join"})
_BEFORE_ONE_TABLE: Final = frozenset({"table", "describe", "desc", "summarize", "show", "pivot", "unpivot"})
_BEFORE_BRACKETS: Final = frozenset(
    {"in", "exists", "as", "any", "some", "all", "array", "and", "or", "not", "then", "else", "when"}
)
"""Words before a bracket that call no function."""
_PASSED_OVER: Final = frozenset({"lateral", "only"})
_AFTER_TABLES: Final = frozenset(
    "select where group order having limit offset window qualify union intersect except values with".split()  # noqa: SIM905
)
_IDENTIFIER: Final = re.compile(r"\$?[^\W\d]\w*")


class Reference(NamedTuple):
    """A table that a query names: a variable, or the data at a path of keys inside one."""

    name: str
    path: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A text that identifies the reference."""
        return json.dumps([self.name, *self.path])


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def word(self) -> str:
        """A bare word in lower case, which may be a keyword."""
        return self.text.lower() if self.kind == "name" and self.text[0] != "$" else ""

    @property
    def identifier(self) -> str:
        """The name that the token means, without quotes and dollar; empty if it is no name."""
        if self.kind == "quoted":
            mark = self.text[0]
            return self.text[1:].removesuffix(mark).replace(mark * 2, mark).removeprefix("$")
        if self.kind == "string":  # a string is a name only where a table is expected
            return self.text[1:-1].removeprefix("$") if _IDENTIFIER.fullmatch(self.text[1:-1]) else ""
        return self.text.removeprefix("$") if self.kind == "name" else ""

    def in_quotes(self, *, keeps_dollar: bool = False) -> str:
        """Return the identifier as SQL writes it, in double quotes."""
        dollar = "$" * (keeps_dollar and self.text[1:2] == "$")
        return '"' + dollar + self.identifier.replace('"', '""') + '"'


def references(query: str) -> list[Reference]:
    """Return the tables that a query may name, each once.

    The result is a superset: every name where a table is expected, and every name after a `$`. `orders.items` means the records
    at `items` inside `orders`.
    """
    found: dict[Reference, None] = {}
    tokens = [token for token in _tokens(query) if token.kind != "skipped"]
    for start, end in _tables(tokens):
        steps = [token.identifier for token in tokens[start:end:2]]
        if len(steps) <= MAX_STEPS:
            found[Reference(steps[0], tuple(steps[1:]))] = None
    for token in tokens:
        if token.kind in ("name", "quoted") and "$" in token.text[:2]:
            found[Reference(token.identifier)] = None
    return list(found)[:MAX_REFERENCES]


def as_sql(query: str) -> str:
    """Return the query as the database expects it. `$orders`, "$orders", `orders` in backticks, and 'orders' after FROM become
    "orders". In quotes, the dollar of what is no table is part of the name of a column: `"$ref"`.

    A path of several steps becomes one schema and one table: `$page.result.rows` is "page.result"."rows".
    """
    tokens = list(_tokens(query))
    positions = [position for position, token in enumerate(tokens) if token.kind != "skipped"]
    significant = [tokens[position] for position in positions]
    spans = list(_tables(significant))
    named = {significant[start].identifier for start, _ in spans}
    texts = [
        token.in_quotes(keeps_dollar=token.kind == "quoted" and token.identifier not in named)
        if token.kind == "quoted" or (token.kind == "name" and token.text[0] == "$")
        else token.text
        for token in tokens
    ]
    for start, end in spans:
        steps = significant[start:end:2]
        if len(steps) == 1 and steps[0].word:
            continue
        schema = ".".join(step.identifier for step in steps[:-1]).replace('"', '""')
        texts[positions[start]] = (f'"{schema}".' if schema else "") + steps[-1].in_quotes()
        for position in positions[start + 1 : end]:
            texts[position] = ""
    return "".join(texts)


def functions(query: str) -> set[str]:
    """Return the names that are followed by a bracket, in lower case; those after WITH, which call nothing, are left out."""
    tokens = [token for token in _tokens(query) if token.kind != "skipped"]
    threes = zip(["", *(token.word for token in tokens)], tokens, tokens[1:], strict=False)
    return {
        token.identifier.lower()
        for before, token, following in threes
        if following.text == "(" and before not in ("with", "recursive")
    } - {""}


def tables(query: str) -> set[str]:
    """Return the last names of everything where a table is expected, in lower case."""
    tokens = [token for token in _tokens(query) if token.kind != "skipped"]
    return {tokens[end - 1].identifier.lower() for _, end in _tables(tokens)}


def identifiers(query: str) -> set[str]:
    """Return all bare and quoted names, in their own case."""
    return {token.identifier for token in _tokens(query) if token.kind in ("name", "quoted")} - {""}


def words(query: str) -> set[str]:
    """Return the bare words, in lower case."""
    return {token.word for token in _tokens(query)} - {""}


def _tokens(query: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(query):
        yield _Token("literal" if match["literal"] else match.lastgroup or "other", match[0])


class _Bracket:
    """What is known of a query inside of an open bracket."""

    def __init__(self, *, is_list: bool = False, is_call: bool = False) -> None:
        self.is_list = is_list
        """Whether the query is inside a list of tables there."""
        self.is_call = is_call
        """Whether it has the arguments of a function, so far without a query: FROM is a word between them, as in `trim(x FROM y)`."""


def _tables(tokens: list[_Token]) -> Iterator[tuple[int, int]]:
    """Return the spans of tokens where a table is expected and no function is called: a name, or names with dots between them."""
    brackets = [_Bracket()]
    expected = False
    position = 0
    while position < len(tokens):
        token, before = tokens[position], tokens[max(position - 1, 0)]
        word = "" if before.text == "." and position else token.word
        inner = brackets[-1]
        position += 1
        if (
            word in _BEFORE_TABLES
            and not (inner.is_call and before.text != "(")
            and not _is_comparison(tokens, position)
        ):
            inner.is_list = expected = True
        elif word in _BEFORE_ONE_TABLE and not (expected and before.text != "("):
            expected = True
        elif word in _PASSED_OVER and expected:
            continue
        elif word in _AFTER_TABLES:
            inner.is_list = expected = False
            inner.is_call = inner.is_call and word != "select"
        elif token.text == ",":
            expected = inner.is_list
        elif token.text == "(":
            is_name = before.kind in ("name", "quoted") and before.word not in _BEFORE_BRACKETS
            brackets.append(_Bracket(is_list=expected, is_call=is_name and position > 1 and not expected))
        elif token.text == ")":
            if len(brackets) > 1:
                brackets.pop()
            expected = False
        elif expected and token.identifier:
            start = position - 1
            while position + 1 < len(tokens) and tokens[position].text == "." and tokens[position + 1].identifier:
                position += 2
            expected = False
            if position == len(tokens) or tokens[position].text != "(":
                yield start, position
        else:
            expected = False


def _is_comparison(tokens: list[_Token], end: int) -> bool:
    """Whether the token before `end` is the last word of IS [NOT] DISTINCT FROM."""
    words = [token.word for token in tokens[max(end - 3, 0) : end]]
    return len(words) == 3 and words[1] == "distinct" and words[0] in ("is", "not")


def is_available() -> bool:
    """Tell whether queries can be run here: DuckDB is installed, in a version that works without threads."""
    try:
        return int(importlib.metadata.version("duckdb").partition(".")[0]) >= 2
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False
