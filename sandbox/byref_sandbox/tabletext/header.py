"""Which of the first rows of delimited text name its columns: told by what stands below them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from byref_sandbox.tabletext.kinds import NO_VALUE, kind_of, type_of

_MAX_HEADER: Final = 3
"""Rows of names, the most."""
_LONG_NAME: Final = 80
_LONGEST_NAME: Final = 400
"""Characters of a name above columns of text: of any, and of a question above its answers."""
_YEAR: Final = re.compile(r"1[5-9][0-9]{2}|2[01][0-9]{2}")
_INDEX: Final = re.compile(r"index|level_[0-9]")
_FEW_ROWS: Final = 5
"""Rows from which on what comes again is no chance."""
_NO_NAMES: Final = tuple(
    map(
        re.compile,
        (
            r"\d[\d.,]*\s?(?:[KMGTPE]i?B?|[kKMGT]B|B|%)?(?:\s|$)",  # 4.0K, and what git writes before a path
            r"(?:~|\.{1,2})?/|[A-Za-z]:\\",
            r"[0-9a-f]{7,}\b|(?=.*\d)[0-9A-F]{4,}\b",
            r"[a-z]+://",
            r"\S+@\S+\.\S",
            r"\d+ [-+]*$",  # git diff --stat
            r".*\S:$",  # the keys of a status
        ),
    )
)
"""How cells begin that name no column."""


def has_letter(cell: str) -> bool:
    """Whether a cell has a letter of any script, as a name has."""
    return any(map(str.isalpha, cell))


def header_rows(rows: list[list[str]], width: int) -> int:
    """How many of the first rows are names of the columns: those without a value where the others have values."""
    if not rows:
        return 0
    filled = [
        column for column in range(width) if any(row[column : column + 1] and row[column].strip() for row in rows)
    ]
    if not filled:
        return 0
    if len(filled) < width:
        rows, width = [[row[at] if at < len(row) else "" for at in filled] for row in rows], len(filled)
    body = rows[min(len(rows) - 1, _MAX_HEADER) :] or rows
    typed = []
    for column in range(width):
        kinds = {kind_of(row[column]) for row in body if len(row) == width} - {"empty"}
        if kinds and "text" not in kinds and type_of(kinds).name != "text":
            typed.append(column)
    if len(rows) == 1:
        return int(_are_names(rows[0], width))
    if _has_unnamed_index(rows, width) or _has_numbers_for_names(rows, width) or _has_names_of_pandas(rows, width):
        return 1
    if not typed and _is_like(rows[0], rows[1:], width):
        return 0
    if not typed:
        is_unlike = _is_unlike(rows, width)
        are_names = _are_names(rows[0], width, _LONGEST_NAME if is_unlike and _has_choices(rows, width) else _LONG_NAME)
        return int(are_names and (is_unlike or len(rows) < 64))
    count = 0
    for row in rows[: min(_MAX_HEADER, len(rows) - 1)]:
        if any(column < len(row) and kind_of(row[column]) not in ("text", "empty") for column in typed):
            break
        values = [row[column] for column in typed if column < len(row)]
        if not any(value.strip() for value in values) and count:
            break
        if not any(has_letter(value) and not NO_VALUE.fullmatch(value.strip()) for value in values):
            break
        if count and sum(kind_of(value) == "text" for value in values) < max(2, len(typed)):
            break
        count += 1
    return count


def _are_names(row: list[str], width: int, longest: int = _LONG_NAME) -> bool:
    """Whether the cells of a row may be names: each another, most there, none a value."""
    there = [cell.strip() for cell in row if cell.strip()]
    return (
        len(there) >= max(1, width - max(1, width // 4))
        and len(set(there)) == len(there)
        and all(kind_of(cell) == "text" and len(cell) <= longest and not NO_VALUE.fullmatch(cell) for cell in there)
    )


def _below(rows: list[list[str]], column: int) -> list[str]:
    """What stands below the first row in a column."""
    return [row[column].strip() for row in rows[1:] if column < len(row)]


def _is_unlike(rows: list[list[str]], width: int) -> bool:
    """Whether a first row of text is unlike the rows below it: no cell of it comes again in its column."""
    return all(
        not (cell := rows[0][column].strip()) or cell not in _below(rows, column)
        for column in range(min(width, len(rows[0])))
    )


def _has_choices(rows: list[list[str]], width: int) -> bool:
    """Whether the cells of two columns are one of a few, as answers to a question are: what stands above them may be long."""
    columns = [_below(rows, column) for column in range(width)]
    return len(rows) > _FEW_ROWS and sum(all(cells) and 2 * len(set(cells)) <= len(cells) for cells in columns) > 1


def _has_unnamed_index(rows: list[list[str]], width: int) -> bool:
    """Whether the first row has names but above the first columns, which tell the rows below it apart: an index of pandas, or R's names."""
    first = [cell.strip() for cell in rows[0]]
    unnamed = next((at for at, cell in enumerate(first) if cell), 0)
    keys = [tuple(cell.strip() for cell in row[:unnamed]) for row in rows[1:] if len(row) == width]
    return (
        len(first) == width
        and unnamed > 0
        and len(keys) > 1
        and len(set(keys)) == len(keys)
        and all(map(all, keys))
        and all(first[unnamed:])
        and _are_names(first[unnamed:], width - unnamed)
        and _is_unlike(rows, width)
    )


def _has_numbers_for_names(rows: list[list[str]], width: int) -> bool:
    """Whether the first row has years one after another beside other names, or after an unnamed index the numbers of the columns."""
    if not _is_series(rows[0]) or len(rows[0]) != width or len(rows) < 3:
        return False
    others = [column for column in range(width) if not rows[0][column].strip().isdecimal()]
    if len(others) == width - 1:  # a single year may be a value
        [year] = set(range(width)) - set(others)
        below = _below(rows, year)
        are_years = 2 * sum(_YEAR.fullmatch(cell) is not None for cell in below) >= len(below)
        if "integer" in map(kind_of, below) and (are_years or not any(_is_typed(rows, column) for column in others)):
            return False
    again = sum(map(_is_series, rows[1:]))
    return (
        bool(others)
        and 2 * again < len(rows) - 1
        and all(kind_of(rows[0][column]) in ("text", "empty") for column in others)
        and _is_unlike([[row[column] for column in others if column < len(row)] for row in rows], len(others))
    )


def _has_names_of_pandas(rows: list[list[str]], width: int) -> bool:
    """Whether the first row has the names that pandas gives to columns without any: 0, 1 and so on above text, or 0 behind an index.

    A first record may look like the latter. It is none if what stands before the 0 is empty, pandas' own name of an index, or a word
    above numbers or out of the order that all keys below are in, as those of groups are.
    """
    first = [cell.strip() for cell in rows[0]]
    if len(first) != width or width < 2 or first[-1] not in ("0", str(width - 1)):
        return False
    body = [[cell.strip() for cell in row] for row in rows[1:] if len(row) == width]
    if len(body) < _FEW_ROWS:
        return False
    columns = [*zip(*body, strict=True)]
    types = [type_of(set(map(kind_of, column))) for column in columns]
    are_numbers = [one.name in ("integer", "number") and not one.notation and not one.nullable for one in types]
    are_words = [
        one.name in ("date", "datetime") or all(map(has_letter, column))
        for one, column in zip(types, columns, strict=True)
    ]
    if first == [*map(str, range(width))]:
        return any(are_words)
    *names, last = first
    values = [
        map(float, column) if is_number else column
        for column, is_number in zip(columns[:-1], are_numbers, strict=False)
    ]
    keys = [*zip(*values, strict=True)]
    if last != "0" or not (are_numbers[-1] or are_words[-1]) or len({*keys}) < len(keys) or not all(map(all, body)):
        return False
    if not any(names) or all(map(_INDEX.fullmatch, names)):
        return True
    if not _are_names(names, width - 1):
        return False
    if are_words[-1]:
        return True
    is_above = any(is_number and has_letter(name) for name, is_number in zip(names, are_numbers, strict=False))
    return (is_above or names > body[0][:-1]) and all(before < after for before, after in pairwise(keys))


def _is_typed(rows: list[list[str]], column: int) -> bool:
    """Whether a word stands above values that are all of a type other than text."""
    name = rows[0][column].strip()
    kinds = set(map(kind_of, _below(rows, column)))
    return has_letter(name) and not NO_VALUE.fullmatch(name) and type_of(kinds).name not in ("text", "empty")


def _is_series(row: list[str]) -> bool:
    """Whether the integers of a row are years that grow or fall, or in all cells but the first, which is empty, 0, 1, 2 and so on."""
    numbers = [int(cell) for cell in row if _YEAR.fullmatch(cell.strip())]
    if numbers and len(numbers) == sum(cell.strip().isdecimal() for cell in row):
        return numbers in (sorted(set(numbers)), sorted(set(numbers), reverse=True))
    return (
        len(row) > 2
        and not row[0].strip()
        and [cell.strip() for cell in row[1:]] == list(map(str, range(len(row) - 1)))
    )


def has_names(rows: list[list[str]], width: int) -> bool:
    """Whether the first row names the columns for sure: a word of it is above values."""
    return header_rows(rows, width) > 0 and any(_is_typed(rows, column) for column in range(width))


def is_sentence(row: list[str], below: list[list[str]]) -> bool:
    """Whether a blank is behind a comma of a row, as in prose, and behind none of those below it."""
    return any(_has_blank(row)) and bool(below) and not any(any(_has_blank(one)) for one in below)


def _has_blank(row: list[str]) -> Iterator[bool]:
    return (cell[:1] == " " for cell in row[1:])


def has_row_names(rows: list[list[str]], width: int) -> bool:
    """Whether there is one name less than columns, and the first column tells the rows apart: R writes names of rows so."""
    names, first, last = rows[0], _below(rows, 0), _below(rows, width - 1)
    return (
        len(names) == width - 1
        and all(map(str.strip, names))
        and all(first)
        and len(set(first)) == len(first)
        and any(last)
    )


def _is_like(first: list[str], others: list[list[str]], width: int) -> bool:
    """Whether a cell of the first row is of a kind that names are not, and that all others of its column are of: sizes, paths, digests.

    One word in all cells of a column is no name, either.
    """
    for column in range(min(width, len(first))):
        cells = [row[column].strip() for row in others if column < len(row)]
        for form in _NO_NAMES:
            if form.match(first[column].strip()) and cells and all(map(form.match, cells)):
                return True
        if first[column].strip() and len(cells) > 1 and set(cells) == {first[column].strip()}:
            return True
    return False
