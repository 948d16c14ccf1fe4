"""Random jq programs near those that are answered without jq, and documents for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

NAMES = ("a", "b", "c_1", "A", "length", "keys", "map", "if", "and", "__loc__", "not")
OPERATORS = ("//", "or", "and", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "==", "%")
WORDS = ("length", "keys", "..", "not", "true", "false", "null", "empty", "type", "add", "any", "all", "first", "last", "reverse",
         "to_entries", "from_entries", "tostring", "ascii_downcase", "ascii_upcase", "floor", "ceil", "round", "values", "nulls",
         "booleans", "numbers", "strings", "arrays", "objects", "iterables", "scalars", "sort", "unique", "min", "max")  # fmt: skip
CALLS = ("map", "map", "select", "select", "add", "any", "all", "first", "last", "sort_by", "group_by", "unique_by", "min_by", "max_by",
         "with_entries", "has", "join", "startswith", "contains", "limit")  # fmt: skip
CALLS_OF_TEXT = ("has", "join", "startswith", "endswith", "contains")
STRINGS = ("a", "b c", "", "é", ".", "..", "0", "a\nb", "\U0001f600", "length", "{}", "#")
NUMBERS = ("0", "1", "-1", "2", "-2", "7", "-0", "007", "999999999999999", "-999999999999999")
OTHER_NUMBERS = ("9" * 41, "1.5", "2.0", "-1.5", "- 1", "1e1")
SPACES = ("", " ", "\t", "\n", "\r", "\r\n")
OTHER_SPACES = ("\f", "\v", "\xa0", "\u2028", "\x1c", "\x85", "\ufeff", "\0")
LOOSE = (".", "..", "...", "|", ",", ":", "(", ")", "[", "]", "{", "}", "[]", "?", "+", "-", "*", "#", "\\", '"', "'", "$", "//",
         "==", "<", ">=", "and", "or", "+", "-", "/", ";", "=", "not", "select(", "empty", "\"",
         "é", "a", "0", "1e3", ".a", '."a"', '"a"', ".a.", "map(", "length", "keys", "[0]", '["a"]', "[1:]", "[:]", "\0", "\ud800")  # fmt: skip


def random_program(chance: random.Random) -> str:
    """A program as the grammar says, or one that had some of its characters or tokens moved or exchanged."""
    text = _program(chance, 2)
    for _ in range(chance.choice((0, 0, 0, 0, 1, 1, 2, 3))):
        at, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        match chance.randrange(4):
            case 0:
                text = text[:at] + chance.choice(LOOSE) + text[at:]
            case 1:
                text = text[:at] + text[at + 1 :]
            case 2:
                text = text[:at] + chance.choice(LOOSE) + text[at + 1 :]
            case 3:
                text = text[:end] + text[at:end] + text[end:]
    return text


def document(chance: random.Random, depth: int = 4) -> Any:
    """A document with the names and positions that programs ask for."""
    kind = chance.randrange(4 if depth else 1)
    if kind == 3:  # a table, or a list of one kind
        made = chance.choice((_row, _row, lambda _: chance.randrange(5), lambda _: chance.choice(STRINGS)))
        return [made(chance) for _ in range(chance.randrange(6))]
    if kind == 1:
        return [document(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 2:
        return {name: document(chance, depth - 1) for name in chance.sample(NAMES + STRINGS[1:], chance.randrange(6))}
    return _scalar(chance)


def _row(chance: random.Random) -> dict[str, Any]:
    return {name: _scalar(chance) if chance.random() < 0.3 else chance.randrange(3) for name in NAMES[:4]}


def _scalar(chance: random.Random) -> Any:
    return chance.choice(
        (None, True, False, 0, -1, 1, 2, 1.5, -0.5, 2.5, 0.1, 2.0, "", "text", "a", "B", "\U0001f600é", 2**53 - 1)
    )


def _program(chance: random.Random, depth: int) -> str:
    sign = chance.choice("||||||,")
    return sign.join(_value(chance, depth) for _ in range(chance.choice((1, 1, 2, 3))))


def _value(chance: random.Random, depth: int) -> str:
    text = _pick(chance, depth)
    while chance.random() < 0.25:
        text += f" {chance.choice(OPERATORS)} {_pick(chance, depth)}"
    return text


def _pick(chance: random.Random, depth: int) -> str:
    kinds: list[Callable[[], str]] = [
        lambda: ".",
        lambda: _field(chance),
        lambda: chance.choice(WORDS),
        lambda: chance.choice((_string, _number))(chance),
    ]
    if depth:
        kinds += [
            lambda: f"{chance.choice(CALLS)}({_program(chance, depth - 1)})",
            lambda: f"{chance.choice(CALLS_OF_TEXT)}({_string(chance)})",
            lambda: f"[{_program(chance, depth - 1)}]",
            lambda: f"({_program(chance, depth - 1)})",
            lambda: f"{chance.choice(('any', 'all'))}({_program(chance, depth - 1)}; {_program(chance, depth - 1)})",
            lambda: f"limit({chance.choice('123')}; {_program(chance, depth - 1)})",
            lambda: (
                f"if {_value(chance, depth - 1)} then {_value(chance, depth - 1)} else {_program(chance, depth - 1)} end"
            ),
            lambda: _object(chance, depth - 1),
        ]
    text = chance.choice((*kinds[:2], *kinds))()
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        text += _space(chance) + chance.choice((_field, _index))(chance) + ("?" if chance.random() < 0.15 else "")
    return _space(chance) + text + _space(chance)


def _field(chance: random.Random) -> str:
    return "." + chance.choice((chance.choice(NAMES), _string(chance)))


def _index(chance: random.Random) -> str:
    first, second = _number(chance), _number(chance)
    inside = chance.choice(("", "", first, f"{first}:{second}", f"{first}:", f":{second}", _string(chance)))
    return f"[{_space(chance)}{inside}{_space(chance)}]"


def _object(chance: random.Random, depth: int) -> str:
    members = [
        chance.choice((chance.choice(NAMES), _string(chance)))
        + chance.choice(("", f"{_space(chance)}:{_pick(chance, depth)}"))
        for _ in range(chance.choice((0, 1, 1, 2, 3)))
    ]
    return "{" + ",".join(members) + ("," if _rarely(chance) else "") + "}"


def _string(chance: random.Random) -> str:
    return f'"{chance.choice(STRINGS)}"'


def _number(chance: random.Random) -> str:
    return chance.choice(OTHER_NUMBERS if _rarely(chance) else NUMBERS)


def _space(chance: random.Random) -> str:
    if chance.random() < 0.8:
        return ""
    return chance.choice(OTHER_SPACES if _rarely(chance) else SPACES)


def _rarely(chance: random.Random) -> bool:
    return chance.random() < 0.05
