"""What a cell's text is, and the type that a column has by its cells.

A column is a number, a date or a truth value only if every cell is one in one notation, and nothing that matters would go. Leading
zeros, a plus sign, more than 15 digits of an integer, digits that a float does not keep, `NA`, and dates and commas (`1,234`) that can be
read in two ways make it text. An empty cell is no value, in a column of any type.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence, Set
from typing import Final, Literal, NamedTuple

Kind = Literal[
    "empty", "integer", "either.", "decimal", "long", "comma", "either,", "boolean", "date", "datetime", "zoned",
    "day/month", "month/day", "either/", "day.month", "month.day", "day.day", "text",
]  # fmt: skip

TypeName = Literal["empty", "integer", "number", "boolean", "date", "datetime", "text", "json"]


class Type(NamedTuple):
    """The type of a column."""

    name: TypeName
    notation: str = ""
    """How its values are written where that is not JSON's or ISO 8601's way: `1,5`, `day/month/year`."""
    nullable: bool = False
    """Whether a cell is empty."""


_DAY: Final = "(?:0[1-9]|1[0-2])"
_MONTH_ISO: Final = "(?:0[1-9]|1[0-2])"
_DAY_ISO: Final = "(?:0[1-9]|[12][0-9]|3[01])"
_DATE: Final = f"[0-9]{{4}}-{_MONTH_ISO}-{_DAY_ISO}"
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_SMALL: Final = "(?:0?[1-9]|1[0-2])"
_LARGE: Final = "(?:1[3-9]|2[0-9]|3[01])"
_YEAR: Final = "[0-9]{4}"

PATTERNS: Final[dict[Kind, str]] = {
    "empty": "",
    "integer": "(?:0|-?[1-9][0-9]{0,14})",
    "either.": r"-?[1-9][0-9]{0,2}\.[0-9]{3}",
    "decimal": r"-?(?:0|[1-9][0-9]{0,8})?\.[0-9]{1,6}",
    "long": r"-?(?:(?:0|[1-9][0-9]{0,14})?\.[0-9]{1,24}(?:[eE][+-]?[0-9]{1,3})?|(?:0|[1-9][0-9]{0,14})[eE][+-]?[0-9]{1,3})",
    "comma": "-?(?:0,[0-9]{1,6}|[1-9][0-9]{0,8},(?:[0-9]{1,2}|[0-9]{4,6})|[1-9][0-9]{3,8},[0-9]{3})",
    "either,": "-?[1-9][0-9]{0,2},[0-9]{3}",
    "boolean": "(?:true|false|True|False|TRUE|FALSE)",
    "date": _DATE,
    "datetime": f"{_DATE}[T ]{_TIME}",
    "zoned": f"{_DATE}[T ]{_TIME} ?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}}|[+-][0-9]{{2}})",
    "day/month": f"{_LARGE}/{_SMALL}/{_YEAR}",
    "month/day": f"{_SMALL}/{_LARGE}/{_YEAR}",
    "either/": f"{_SMALL}/{_SMALL}/{_YEAR}",
    "day.month": rf"{_LARGE}\.{_SMALL}\.{_YEAR}",
    "month.day": rf"{_SMALL}\.{_LARGE}\.{_YEAR}",
    "day.day": rf"{_SMALL}\.{_SMALL}\.{_YEAR}",
}
"""The expression of each kind but text, in what Python's `re` and RE2 both understand. `long` is checked by `is_exact`, too."""

_ORDER: Final = tuple((kind, re.compile(pattern)) for kind, pattern in PATTERNS.items())
_FIRSTS: Final = frozenset("-.0123456789tTfF")
"""What a cell of a kind that is not text begins with."""


def kind_of(cell: str) -> Kind:
    """What the text of a cell is, without the blanks around it."""
    cell = cell.strip()
    if not cell:
        return "empty"
    if cell[0] not in _FIRSTS or len(cell) > 40:
        return "text"
    for kind, pattern in _ORDER:
        if pattern.fullmatch(cell):
            return kind if kind != "long" or is_exact(cell) else "text"
    return "text"


def is_exact(cell: str) -> bool:
    """Whether a number in decimals keeps all its digits as a 64-bit float, or is one as programs write it that write each with 17 digits."""
    value = float(cell)
    if repr(value) == cell:
        return True
    mantissa = re.split("[eE]", cell)[0]
    digits = mantissa.lstrip("-0.").replace(".", "").rstrip("0")
    if math.isinf(value):
        return False
    if not digits or (len(digits) <= 15 and abs(value) >= sys.float_info.min):  # smaller ones have fewer digits
        return True
    if "." not in mantissa:
        return False
    shown = re.split("[eE]", repr(value))[0]
    is_shown = shown.lstrip("-0.").replace(".", "").rstrip("0") == digits
    return is_shown or f"{abs(value):.16e}"[:18].replace(".", "").rstrip("0") == digits


NO_VALUE: Final = re.compile(
    r"\(?(?:n\.? ?/?[av]\.?|null|none|nil|nan|k\. ?a\.|no data|(?:not|nicht) \w+"
    r"|н/д|нет(?: данных)?|[无無]|暂?无数据|未知|不明|(?:データ)?なし|(?:데이터 ?)?없음)\)?",
    re.IGNORECASE,
)
"""What is written where there is no value: no column is called so."""
NUMBERS: Final[frozenset[Kind]] = frozenset({"integer", "either.", "decimal", "long"})
"""What numbers are that JSON may write."""
_POINTS: Final[frozenset[Kind]] = frozenset({"decimal", "long"})
"""Numbers whose point divides no thousands."""
_TYPES: Final[tuple[tuple[frozenset[Kind], frozenset[Kind], Type], ...]] = (
    (frozenset({"integer"}), frozenset(), Type("integer")),
    (NUMBERS, frozenset(), Type("number")),
    (frozenset({"integer", "comma", "either,"}), frozenset({"comma"}), Type("number", "1,5")),
    (frozenset({"boolean"}), frozenset(), Type("boolean")),
    (frozenset({"date"}), frozenset(), Type("date")),
    (frozenset({"datetime"}), frozenset(), Type("datetime")),
    (frozenset({"zoned"}), frozenset(), Type("datetime", "with zone")),
    (frozenset({"day/month", "either/"}), frozenset({"day/month"}), Type("date", "day/month/year")),
    (frozenset({"month/day", "either/"}), frozenset({"month/day"}), Type("date", "month/day/year")),
    (frozenset({"day.month", "day.day"}), frozenset({"day.month"}), Type("date", "day.month.year")),
    (frozenset({"month.day", "day.day"}), frozenset({"month.day"}), Type("date", "month.day.year")),
)
"""For each type: the kinds that its cells may be of, those of which one has to be there, and the type."""


def type_of(kinds: Set[Kind]) -> Type:
    """The type of a column whose cells are of these kinds."""
    values, nullable = frozenset(kinds) - {"empty"}, "empty" in kinds
    if not values:
        return Type("empty", nullable=nullable)
    for allowed, needed, found in _TYPES:
        if values <= allowed and needed <= values:
            return found._replace(nullable=nullable)
    return Type("text", nullable=nullable)


def types_of(columns: Sequence[Set[Kind]]) -> tuple[Type, ...]:
    """The types of a table's columns: where one has decimal commas, the point of another may divide thousands, as in `1.037`."""
    types = tuple(map(type_of, columns))
    if all(one.notation != "1,5" for one in types):
        return types
    return tuple(
        type_of({*kinds, "text"}) if "either." in kinds and not kinds & _POINTS else one
        for one, kinds in zip(types, columns, strict=True)
    )


def may_have(type_: TypeName, notation: str, kind: Kind) -> bool:
    """Whether a column of a type and notation may have a cell of a kind beside those that made it so."""
    if kind == "empty" or type_ == "text":
        return True
    return any(kind in allowed for allowed, _, found in _TYPES if found[:2] == (type_, notation))
