"""Whether a jq program computes with integers that a 64-bit float rounds, or only moves and compares them.

jq keeps each digit of a number that it only moves, and compares all of them; it computes with 64-bit floats. What it makes of
`1700000000123456789 - 1700000000123456000` is wrong, and looks like any other number. So the program is run three times more,
with stand-ins for all large numbers, in the same order, which floats hold exactly. In the first set all differences are below one, in
the second above all differences of 64-bit integers, in the third random: a program that computes gives something else for each.
"""

from __future__ import annotations

import math
import random
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import re2

from byref_sandbox.code.picks import EXACT_BELOW

_MOST_CHARS: Final = 4 << 20
"""Characters of a text in which numbers are replaced: it takes jq's own time three times more."""
_MOST_NUMBERS: Final = 1 << 18
"""More would need stand-ins of which jq takes one for the length of a text or an array; of those that are used it says that they are too large."""
_LOOPS: Final = re.compile(r"\b(?:range|limit|until|while|repeat|nth|skip|recurse|combinations|def)\b")
"""What may go on as often as a number says: a stand-in would keep it busy for ever."""
_LARGE: Final = EXACT_BELOW >> 1
"""From here on all numbers are replaced, if one of them may be rounded: the stand-ins would be between them."""
_INTEGERS_BELOW: Final = 1 << 64
_MAY_BE_LARGE: Final = re2.compile(r"(?:^|[\[,:\s-])[0-9]{16}")
_LARGE_NUMBER: Final = r"-?[0-9]++(?:(?<=[0-9]{16})(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|(?:\.[0-9]++)?+[eE]\+?[0-9]++)"
_OF_DATA: Final = re.compile(rf'(?:^|(?<=[\[,\s])|(?<=":)){_LARGE_NUMBER}')
"""A number of JSON that may be large; rarely one in a string, which is translated back, too."""
_OF_PROGRAM: Final = re.compile(rf'"(?:[^"\\]++|\\.)*+"|(?<![\w.$]){_LARGE_NUMBER}', re.DOTALL)
"""A number of a program, or a string, in which none is."""
_NUMBER: Final = re.compile(r"-?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

Number = int | Decimal
"""With all digits, of which jq compares all."""
Read = int | float
Run = Callable[[str, str], list[Any]]


def may_be_large(text: str) -> bool:
    """Whether a JSON text may have an integer that a float rounds. Most have none, which is seen in a fraction of the time."""
    return _MAY_BE_LARGE.search(text) is not None


def makes(source: str, text: str, outputs: list[Any]) -> bool:
    """Whether outputs have large integers that neither the program nor the text has: jq has made them, of floats."""
    return _has_others(outputs, set()) and _has_others(outputs, {*map(_read, _numbers(source, text).values())})


def computes(source: str, text: str, outputs: list[Any], run: Run) -> bool | None:
    """Tell whether a program computes with large numbers of a text, or makes others; None if that is not known.

    `outputs` are jq's own, with every digit; `run` returns those of a program over a text, and may raise ValueError.
    """
    # What is a number of the program is not known, of comments and of strings with values in them.
    if len(text) > _MOST_CHARS or "#" in _STRING.sub("", source) or r"\(" in source or _LOOPS.search(source):
        return makes(source, text, outputs) or None
    numbers = _numbers(source, text)
    ordered = sorted({*numbers.values()})
    if len(ordered) > _MOST_NUMBERS:
        return makes(source, text, outputs) or None
    for stand_ins in (_near(ordered), _far(ordered), _between(ordered)) if ordered else ():
        texts = {token: repr(stand_ins[number]) for token, number in numbers.items()}
        back = {stand_in: _read(number) for number, stand_in in stand_ins.items()}
        back_texts = {stand_in: token for token, stand_in in texts.items()}
        try:
            found = run(_replaced(_OF_PROGRAM, source, texts), _replaced(_OF_DATA, text, texts))
            if _restored(found, back, back_texts) != outputs:
                return True
        except (ValueError, RecursionError, MemoryError):
            return True
    return _has_others(outputs, {*map(_read, ordered)})


def _numbers(source: str, text: str) -> dict[str, Number]:
    return _large(_OF_DATA.findall(text)) | _large(_OF_PROGRAM.findall(source))


def _replaced(tokens: re.Pattern[str], text: str, texts: dict[str, str]) -> str:
    return tokens.sub(lambda found: texts.get(found[0], found[0]), text)


def _restored(value: Any, back: dict[float, Read], texts: dict[str, str]) -> Any:
    """Return an output with the numbers that stand-ins stand for, also where the program has made text of them."""
    kind = type(value)
    if kind is list:
        return [_restored(item, back, texts) for item in value]
    if kind is dict:
        return {_restored(key, back, texts): _restored(item, back, texts) for key, item in value.items()}
    if kind is str:
        return _NUMBER.sub(lambda found: texts.get(found[0].lower(), found[0]), value)
    return back.get(value, value) if kind is int or kind is float else value


def _has_others(value: Any, known: set[Read]) -> bool:
    """Whether a value has large integers that are not known; jq writes some as `3e+18`."""
    kind = type(value)
    if kind is list or kind is dict:
        return any(_has_others(item, known) for item in (value if kind is list else value.values()))
    if kind is float:
        return EXACT_BELOW <= abs(value) < _INTEGERS_BELOW and value not in known
    return kind is int and not -EXACT_BELOW < value < EXACT_BELOW and value not in known


def _read(number: Number) -> Read:
    """Return a number as it is read from an output."""
    return float(number) if isinstance(number, Decimal) else number


def _large(tokens: Iterable[str]) -> dict[str, Number]:
    """The large numbers among tokens, by how they are written."""
    found: dict[str, Number] = {}
    for token in {*tokens}:
        if token[0] != '"' and math.isfinite(size := abs(float(token))) and size >= _LARGE:
            found[token] = int(token) if token.lstrip("-").isdigit() else Decimal(token)
    return found


def _near(ordered: Sequence[Number]) -> dict[Number, float]:
    """Stand-ins among which no difference is as much as one, as large as floats allow."""
    places = len(ordered).bit_length() + 1
    start = 1 << (51 - places)
    odd = secrets.randbelow(start >> 1) + secrets.randbelow(1 << places) / (1 << places)
    return _stand_ins(ordered, lambda at, half: start + half * start / 2 + odd / 2 + at / (1 << places))


def _far(ordered: Sequence[Number]) -> dict[Number, float]:
    """Stand-ins among which each difference is more than that of any two integers of 64 bits."""
    start = (1 << 40) + secrets.randbelow(1 << 40)
    return _stand_ins(ordered, lambda at, half: float((start + at + (half << 42)) << 70))


def _between(ordered: Sequence[Number]) -> dict[Number, float]:
    """Stand-ins that are integers at random distances: a remainder of them, or a part of one, is another one for each."""
    chosen = sorted(random.Random(secrets.randbits(64)).sample(range(_LARGE >> 1, _LARGE), len(ordered)))
    positive = sum(number > 0 for number in ordered)
    return _stand_ins(ordered, lambda at, half: float(chosen[at + half * positive]))


def _stand_ins(ordered: Sequence[Number], of: Callable[[int, int], float]) -> dict[Number, float]:
    """Return one for each number. Those of negative ones have other amounts, so that one without its sign stands for nothing."""
    negative = [number for number in reversed(ordered) if number < 0]
    positive = [number for number in ordered if number > 0]
    below = {number: -of(at, 1) for at, number in enumerate(negative)}
    return below | {number: of(at, 0) for at, number in enumerate(positive)}
