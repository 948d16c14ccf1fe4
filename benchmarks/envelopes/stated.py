"""Whether what `values` of an envelope states about the values of a place is true: counts, ranges, formats, keys, joins."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.envelopes.places import KEYS, SAMPLE, Path, parsed, statements

WORD = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s,'\"][^,'\"]*?"
COUNTED = re.compile(rf"({WORD}) ([\d,]*\d)(?=, |$)")
UNITS = {"s": 1, "ms": 1_000, "µs": 1_000_000}
At = Callable[[Any, Path], list[Any]]


def untruths(values: dict[str, Any], source: Any, at: At) -> Iterator[str]:
    """Each statement that is not true, or that cannot be understood; `at` returns all values of a path."""
    for written, statement, is_sample in statements(values):
        if (reason := _reason(written, statement, source, at, is_sample=is_sample)) is not None:
            yield f"values: {written}: {statement!r}: {reason}"


def _reason(written: str, said: Any, source: Any, at: At, *, is_sample: bool) -> str | None:
    """Why a statement is not true; None if it is."""
    of_keys = written.startswith(KEYS)
    try:
        values = at(source, parsed(written.removeprefix(KEYS)))
    except ValueError as error:
        return str(error)
    if of_keys:
        values = [key for value in values if isinstance(value, dict) for key in value]
    if not values:
        return "nothing is there"
    if isinstance(said, list):
        low, high = _range([value for value in values if type(value) in (int, float)])
        fits = low <= said[0] <= said[1] <= high if is_sample else [low, high] == said
        return None if fits else f"it is {low} to {high}"
    if sample := SAMPLE.search(said):
        said, is_sample = said[: sample.start()], True
    return _Judge(values, source, at, of_keys=of_keys, is_sample=is_sample).reason(said)


def _range(numbers: list[Any]) -> tuple[Any, Any]:
    finite = [number for number in numbers if math.isfinite(number)]
    return min(finite), max(finite)


class _Judge:
    """Judges the parts of a statement about some values one after another."""

    def __init__(self, values: list[Any], source: Any, at: At, *, of_keys: bool, is_sample: bool) -> None:
        self._all = values
        self._values = [value for value in values if value is not None and value != ""]
        self._source, self._at = source, at
        self._of_keys, self._is_sample = of_keys, is_sample

    def reason(self, said: str) -> str | None:
        """Why it is not true; None if it is."""
        while said:
            for pattern, judge in _PARTS:
                if found := re.match(pattern, said):
                    if not judge(self, found):
                        return f"not {found[0]!r}"
                    said = said[found.end() :].removeprefix(", ")
                    break
            else:
                if self._of_keys and (found := re.match(rf"(?:{WORD})(?=, |$)", said)):
                    if _plain(found[0]) not in self._all:
                        return f"there is no key {found[0]!r}"
                    said = said[found.end() :].removeprefix(", ")
                    continue
                return f"{said!r} is not understood"
        return None

    def _fits(self, said: int, actual: int) -> bool:
        return 0 < said <= actual if self._is_sample else said == actual

    def nulls(self, found: re.Match[str]) -> bool:
        return self._fits(_number(found[1]), self._all.count(None)) and (
            found[2] is None or self._fits(_number(found[2]), len(self._all))
        )

    def blanks(self, found: re.Match[str]) -> bool:
        return self._fits(_number(found[1]), self._all.count(""))

    def empty(self, found: re.Match[str]) -> bool:
        return self._fits(_number(found[1]), sum(value == [] for value in self._all))

    def infinite(self, found: re.Match[str]) -> bool:
        return self._fits(
            _number(found[1]), sum(isinstance(one, float) and not math.isfinite(one) for one in self._all)
        )

    def always(self, found: re.Match[str]) -> bool:
        fits = [_is_word(found[1], value) for value in self._values or [""]]
        return any(fits) if self._is_sample else all(fits)

    def unique(self, _: re.Match[str]) -> bool:
        return len(self._values) == len(self._all) == len(set(self._values))

    def joined(self, found: re.Match[str]) -> bool:
        others = self._at(self._source, parsed(found[2]))
        keys = {key for one in others if isinstance(one, dict) for key in one} if found[1] else set(others)
        return set(self._values) <= keys

    def same_keys(self, found: re.Match[str]) -> bool:
        others = self._at(self._source, parsed(found[1]))
        return set(self._values) == {key for one in others if isinstance(one, dict) for key in one}

    def lengths(self, found: re.Match[str]) -> bool:
        lengths = [len(value) for value in self._values if isinstance(value, list)]
        return self._is_within(_number(found[1]), _number(found[2]), lengths)

    def _is_within(self, low: Any, high: Any, actual: list[Any]) -> bool:
        if self._is_sample:
            return bool(min(actual) <= low <= high <= max(actual))
        return bool((low, high) == (min(actual), max(actual)))

    def numbers(self, found: re.Match[str]) -> bool:
        low, high = _range([value for value in self._values if type(value) in (int, float)])
        said = [float(text.removeprefix("~")) for text in found.groups()]
        if self._is_sample:
            return low <= said[0] * 1.001 + 1 and said[1] <= high * 1.001 + 1
        return all(
            math.isclose(number, actual, rel_tol=1e-3 if "~" in text else 0)
            for number, actual, text in zip(said, (low, high), found.groups(), strict=True)
        )

    def epoch(self, found: re.Match[str]) -> bool:
        days = [f"{datetime.fromtimestamp(value / UNITS[found[1]], UTC):%Y-%m-%d}" for value in self._values]
        return self._is_within(found[2], found[3] or found[2], days)

    def times(self, found: re.Match[str]) -> bool:
        days = [value[:10] for value in self._values]
        likes = found[4].split(" or ") if found[4] else []
        return self._is_within(found[2], found[3] or found[2], days) and all(like in self._values for like in likes)

    def like(self, found: re.Match[str]) -> bool:
        return all(one in self._values for one in found[1].split(" or "))

    def digits(self, found: re.Match[str]) -> bool:
        lengths = [len(value) for value in self._values]
        return all(value.isdecimal() for value in self._values) and self._is_within(
            int(found[1]), int(found[2] or found[1]), lengths
        )

    def amounts(self, found: re.Match[str]) -> bool:
        low, high = found[1], found[2] or found[1]
        number = {value: float(re.sub(r"[^\d.eE-]", "", value) or "nan") for value in self._values}
        return {low, high} <= number.keys() and (
            self._is_sample or (number[low] == min(number.values()) and number[high] == max(number.values()))
        )

    def units(self, found: re.Match[str]) -> bool:
        actual = Counter(re.sub(r"[-+]?[\d.,]+", "", value).strip() or "(none)" for value in self._values)
        return all(self._fits(_number(count), actual[_plain(unit)]) for unit, count in COUNTED.findall(found[1]))

    def first_words(self, found: re.Match[str]) -> bool:
        actual = Counter(value.partition(" ")[0] for value in self._values)
        said = COUNTED.findall(found[1])
        return all(self._fits(_number(count), actual[_plain(word)]) for word, count in said) and (
            self._is_sample or len(said) == len(actual)
        )

    def many(self, found: re.Match[str]) -> bool:
        return self._fits(_number(found[1]), len(set(map(str, self._values))))

    def counted(self, found: re.Match[str]) -> bool:
        word, count = found[1], _number(found[2])
        kinds = {str: "str", bool: "bool", int: "num", float: "num", list: "list", dict: "object"}
        of_kind = sum(kinds[type(value)] == word for value in self._all if value is not None)
        return self._fits(count, sum(_is_word(word, value) for value in self._values)) or self._fits(count, of_kind)


def _is_word(word: str, value: Any) -> bool:
    plain = _plain(word)
    if isinstance(value, str) and plain.endswith("…") and value != plain:
        return value.startswith(plain[:-1])
    return _same(value) == plain


def _same(value: Any) -> str:
    return (
        {True: "true", False: "false"}[value]
        if isinstance(value, bool)
        else value
        if isinstance(value, str)
        else repr(value)
    )


def _plain(word: str) -> str:
    return str(ast.literal_eval(word)) if word[:1] in "'\"" else word


def _number(text: str) -> int:
    return int(text.replace(",", ""))


DAY = r"(\d{4}-\d\d-\d\d)(?: to (\d{4}-\d\d-\d\d))?"
END = r"(?=, |$)"
_PARTS: tuple[tuple[str, Callable[[_Judge, re.Match[str]], bool]], ...] = (
    (rf"null ([\d,]*\d)(?: of ([\d,]*\d))?{END}", _Judge.nulls),
    (rf"'' ([\d,]*\d){END}", _Judge.blanks),
    (rf"empty ([\d,]*\d){END}", _Judge.empty),
    (rf"not finite ([\d,]*\d){END}", _Judge.infinite),
    (rf"always ({WORD}){END}", _Judge.always),
    (rf"unique{END}", _Judge.unique),
    (rf"in (keys of )?(\S+?){END}", _Judge.joined),
    (rf"= keys of (\S+?){END}", _Judge.same_keys),
    (rf"([\d,]*\d) to ([\d,]*\d) items{END}", _Judge.lengths),
    (rf"epoch (s|ms|µs), {DAY}{END}", _Judge.epoch),
    (rf"(dates|times),? {DAY}(?:, like (.+))?{END}", _Judge.times),
    (r"text like (.+)$", _Judge.like),
    (rf"text of (\d+)(?: to (\d+))? digits{END}", _Judge.digits),
    (r"text of numbers with units: (.+)$", _Judge.units),
    (r"text of numbers(?: with decimal comma,)? like (.+)$", _Judge.like),
    (r"(?:text of )?numbers, (.+?)(?: to (.+?))?(?=, null|, ''|, unique|, in |$)", _Judge.amounts),
    (r"first words: (.+?)(?=, null|, ''|$)", _Judge.first_words),
    (r"([\d,]*\d) values: ", _Judge.many),
    (rf"…{END}", lambda _, __: True),
    (rf"(~?-?[\d.e+-]+) to (~?-?[\d.e+-]+){END}", _Judge.numbers),
    (COUNTED.pattern, _Judge.counted),
)
