"""Formats of text: what strings have in common that code has to know before it reads them as numbers or times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final, Literal

from byref.describe.jsontext import encodable

LONGEST: Final = 64
"""Maximum characters of a string that can have a format."""
_FIRST: Final = 24
"""Strings that are looked at before all are: text without a format is given up after these."""
_PIECE: Final = 4_096
"""Strings whose digits are replaced in one call."""
_TEMPLATES: Final = 256
"""Maximum templates of one format; text with more has none."""
_PARSED: Final = 8_192
"""Maximum strings that are parsed as numbers, to find the least and the greatest."""
_UNITS: Final = 6
"""Maximum units, or formats of time, that one column may mix."""
_WORD: Final = 16
"""Maximum characters of a word that stands for no value, `NA` or `unknown`."""
_DIGITS: Final = 15
"""Digits that a float holds; text with more is an id, not a number."""

_ZEROS: Final = str.maketrans("123456789", "000000000")
_CURRENCIES: Final = "USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK PLN CZK HUF BRL MXN KRW ZAR SGD HKD TRY ILS"
_NUMBER: Final = re.compile(
    rf"((?:[-+]?(?:[^\w\s.,+\"'#/:-]|{_CURRENCIES.replace(' ', '|')}) ?)?)"  # a currency
    r"([-+]?(?:0+(?:,000)*(?:\.0+)?|0+(?:\.000)*,0+|\.0+)(?:[eE][-+]0+)?)"
    r"( ?(?:[%°‰]|[^\W\d_]{1,3}[²³]?(?:/[^\W\d_]{1,3}[²³]?)?|°[CF]|[^\w\s.,+\"'#/:-])| [^\W\d_]{4,5})?"  # a unit
)
"""A template of a number with a currency before it or a unit behind it."""
_CLOCK: Final = r"00:00(?::00(?:[.,]0{1,9})?)?(?: ?(?:Z|UTC|[+-]00(?::?00)?))?"
_ISO: Final = re.compile(rf"0000-00-00(?:[T ]{_CLOCK})?")
"""A template of a date, or of a time with a date, that sorts as text."""
_TIME: Final = re.compile(
    rf"{_ISO.pattern}|0000-00|00?:00(?::00(?:\.0+)?)?|00?/00?/(?:0000|00)|00\.00\.(?:0000|00)"
    r"|(?:[A-Z][a-z]{2}, )?00? [A-Z][a-z]{2} 0000 00:00:00 (?:GMT|UTC|[+-]0000)"
)
"""A template of any date or time."""
_OFFSET: Final = re.compile(r":[0-9.,]+ ?[+-]00(?::?00)?$")
"""The end of a template of a time with an offset from UTC."""
_AT_THE_END: Final = re.compile(r"[+-][0-9]{2}(?::?[0-9]{2})?$")
_OFFSET_CHARS: Final = 6
_DAY_CHARS: Final = 10
_MONTH_AND_DAY: Final = re.compile(r"(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])")
_GROUPED: Final = re.compile(r"[^0-9]*[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]+)?[^0-9,]*|[^,]*")
_SECONDS: Final = (8e8, 4.2e9)
"""Numbers from 1995 to 2103 as seconds since 1970."""
_TIME_NAMES: Final = re.compile(
    r"(?:^|_)(?:ts|time|date|epoch|timestamp|created|updated|modified|expires|start|end|since|until|seen)(?:$|_)|_at$|_on$"
)
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Format:
    """What strings have in common."""

    kind: Literal["time", "number", "digits"]
    stated: str
    """The format in words, with the least and the greatest value where they are known: `dates 2024-01-03 to 2024-09-30`."""
    words: Mapping[str, int] = field(default_factory=dict)
    """How often words stand in place of a value: `NA`, `-`."""


def format_of(texts: Sequence[str], *, words: int = 0) -> Format | None:
    """Return the format that all of these strings have; None if there is none. They are not empty, and at least one.

    Up to `words` different ones without a digit may be among them, in at most half of the places: they stand for no value.
    """
    first = texts[:: -(-len(texts) // _FIRST)]
    if any(len(text) > LONGEST for text in first):
        return None
    templates = _templates(first)
    if templates is None:
        return None
    taken = _take_words(templates, words)
    if taken and not templates:  # the words stand where it was looked
        templates = _templates(list(islice((text for text in texts if text not in taken), _FIRST))) or Counter()
    is_time = _are_times(templates)
    if not templates or not (is_time or _units(templates) is not None):
        return None
    templates = _templates(texts)
    if templates is None:
        return None
    if taken := _take_words(templates, words):
        if 2 * sum(taken.values()) > len(texts):
            return None
        texts = [text for text in texts if text not in taken]
    if is_time:
        return Format("time", _times(texts, templates), taken) if _are_times(templates) else None
    units = _units(templates)
    found = None if units is None else _numbers(texts, units)
    return None if found is None else replace(found, words=taken)


def _take_words(templates: Counter[str], most: int) -> dict[str, int]:
    """Take the words out of templates, and return them, if there are at most so many; else none."""
    words = {text: count for text, count in templates.items() if "0" not in text and len(text) <= _WORD} if most else {}
    if len(words) > most:
        return {}
    for word in words:
        del templates[word]
    return words


def first_words(texts: Sequence[str], most: int) -> dict[str, int] | None:
    """Return how often each first word occurs, if these strings begin with few words, at most `most`, and go on in many ways."""
    first = texts[:: -(-len(texts) // _FIRST)]
    begun = {text.partition(" ")[0] for text in first}
    if sum(map(len, first)) > 16 * len(first) or not 1 < len(begun) <= len(first) // 3:
        return None
    words: Counter[str] = Counter()
    for at in range(0, len(texts), _PIECE):
        words.update([text.partition(" ")[0] for text in texts[at : at + _PIECE]])
        if len(words) > most:
            return None
    return dict(words.most_common())


def epoch(key: str, least: float, greatest: float) -> str | None:
    """Return the days that numbers stand for if they are seconds or milliseconds since 1970: `as epoch s: 2024-01-03 to …`.

    Ids may be as large as seconds are. So numbers are taken as times only under a key that is a word for times.
    """
    if not _TIME_NAMES.search(_WORDS.sub("_", key).lower()):
        return None
    for unit, divisor in (("s", 1), ("ms", 1_000), ("µs", 1_000_000)):
        if _SECONDS[0] <= least / divisor and greatest / divisor <= _SECONDS[1]:
            days = [datetime.fromtimestamp(number / divisor, UTC).date().isoformat() for number in (least, greatest)]
            return f"epoch {unit}, {_span(*days)}"
    return None


def _templates(texts: Sequence[str]) -> Counter[str] | None:
    """Return how often each template occurs, a template being a text with `0` for each digit; None if there are many."""
    templates: Counter[str] = Counter()
    for at in range(0, len(texts), _PIECE):
        piece = texts[at : at + _PIECE]
        joined = "\0".join(piece)
        # Digits of a few texts are replaced in one call: `translate` is fast for ASCII, and slow to start.
        if len(joined) > (LONGEST + 1) * len(piece) or (not joined.isascii() and len(joined) > 32 * len(piece)):
            return None
        split = joined.translate(_ZEROS).split("\0")
        if len(split) != len(piece):
            return None
        templates.update(split)
        if len(templates) > _TEMPLATES:
            return None
    return templates


def _are_times(templates: Counter[str]) -> bool:
    if not all(_TIME.fullmatch(template) for template in templates):
        return False
    return len({_shape(template) for template in templates}) <= _UNITS


def _shape(text: str) -> str:
    """Return the text with one `0` for each number in it."""
    return re.sub("[0-9]+", "0", text)


def _times(texts: Sequence[str], templates: Counter[str]) -> str:
    if all(_ISO.fullmatch(template) for template in templates) and _have_days(texts):
        # Times with different offsets or fractions may sort otherwise than their texts, but not from one written day to another.
        span = _span(min(texts)[:10], max(texts)[:10])
        offsets = _offsets(texts, templates)
        if len({_shape(template) for template in templates}) == 1:
            return f"{'dates' if len(texts[0]) == 10 else 'times'} {span}{offsets}"
        return f"times, {span}{offsets}, like {_examples(texts, templates)}"
    return f"text like {_examples(texts, templates)}"


def _offsets(texts: Sequence[str], templates: Counter[str]) -> str:
    """Return the offsets from UTC in words: where there are several, the columns of a table have all times in UTC."""
    if not any(map(_OFFSET.search, templates)):
        return ""
    ends = {text[-_OFFSET_CHARS:] for text in texts if len(text) > _DAY_CHARS}  # few, where there are a million times
    found = sorted({match[0] if (match := _AT_THE_END.search(end)) else "Z" for end in ends})
    if len(found) == 1:
        return f", {found[0]}"
    return f", {' or '.join(found) if len(found) <= _UNITS else f'{len(found)} offsets'}: UTC in tables"


def _have_days(texts: Sequence[str]) -> bool:
    """Tell whether the second and third number of ISO dates are a month and a day."""
    days = {text[5:10] for text in texts}
    return len(days) <= 366 and all(map(_MONTH_AND_DAY.fullmatch, days))


def _examples(texts: Sequence[str], templates: Counter[str]) -> str:
    """Return one text of each shape."""
    shapes = {_shape(template) for template in templates}
    examples: dict[str, str] = {}
    for text in texts:
        examples.setdefault(_shape(text), text)
        if len(examples) == len(shapes):
            break
    return " or ".join(examples.values())


def _span(least: str, greatest: str) -> str:
    return least if least == greatest else f"{least} to {greatest}"


def _units(templates: Counter[str]) -> Counter[tuple[str, str]] | None:
    """Return how often each pair of currency and unit occurs if all templates are numbers, of few units; else None."""
    units: Counter[tuple[str, str]] = Counter()
    for template, count in templates.items():
        match = _NUMBER.fullmatch(template)
        if match is None or (template.count("0") > _DIGITS and not template.isdigit()):
            return None
        units[match[1], match[3] or ""] += count
        if len(units) > _UNITS:
            return None
    return units


def _numbers(texts: Sequence[str], units: Counter[tuple[str, str]]) -> Format | None:
    looked = texts if len(texts) <= _PARSED else texts[:: len(texts) // _PARSED]
    if list(units) == [("", "")] and all(map(str.isdecimal, looked)) and any(map(_is_code, looked)):
        if not all(map(str.isdecimal, texts)):
            return None
        lengths = set(map(len, texts))
        least, greatest = min(lengths), max(lengths)
        return Format("digits", f"text of {least if least == greatest else f'{least} to {greatest}'} digits")
    if len(units) > 1:
        listed = ", ".join(
            f"{encodable((before + after).strip()) or '(none)'} {count:,}"
            for (before, after), count in units.most_common()
        )
        return Format("number", f"text of numbers with units: {listed}")
    if any("," in text for text in looked) and not _is_grouped(looked):
        example = next(text for text in looked if "," in text)
        return Format("number", f"text of numbers with decimal comma, like {encodable(example)}")
    if len(looked) < len(texts):
        return Format("number", f"text of numbers like {encodable(texts[0])}")
    [(before, after)] = units
    low, high = _extremes(texts, len(before), len(after))
    return Format("number", f"text of numbers, {_span(encodable(low), encodable(high))}")


def _is_code(digits: str) -> bool:
    """Tell whether digits are no number: a leading zero would get lost, or there are more than a float holds."""
    return len(digits) > _DIGITS or (digits[0] == "0" and len(digits) > 1)


def _is_grouped(texts: Sequence[str]) -> bool:
    """Tell whether all commas stand between groups of three digits."""
    return all(_GROUPED.fullmatch(text) for text in texts)


def _extremes(texts: Sequence[str], before: int, after: int) -> tuple[str, str]:
    """Return the texts of the least and of the greatest number."""
    numbers = [float(text[before : len(text) - after].replace(",", "")) for text in texts]
    return texts[numbers.index(min(numbers))], texts[numbers.index(max(numbers))]
