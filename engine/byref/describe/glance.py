"""What a glance over the lines of a text tells: times, levels of a log, a frequent message, stack traces, headings.

It reads a few stretches of the text, since reading all of a long text would take longer than storing it. What it says of counts
it says of the lines that it read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

from byref.describe.truncate import Ends

_STRETCHES: Final = 12
_STRETCH: Final = 1_000
"""Characters of each stretch."""
_LINE: Final = 200
"""Characters of a line that are read."""
_LEAST: Final = 8
"""Lines below which nothing is said."""
_SHARE: Final = 0.3
"""Share of the lines that have to have a time, or a level, for the text to be called a log."""
_COMPARED: Final = 64
"""Lines among which the most frequent message is looked for."""
_REPEATED: Final = 0.1
"""Share of these lines that have it, if it is worth saying."""
_MESSAGE: Final = 60
"""Characters of a message or a heading that are shown."""
_NAMED: Final = 4
"""Levels, kinds of errors, or headings that are named."""

_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"  # ISO 8601, Python's logging
    r"|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?"  # Apache, nginx
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"  # syslog
    r"|\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"  # Go, nginx's errors
)
_TIME_WITHIN: Final = 80
"""Characters at the beginning of a line among which its time is."""
_LEVEL: Final = re.compile(
    r"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE|PANIC)\b"
    r"|(?:level=|[\[<])(trace|debug|info|notice|warn|warning|error|critical|crit|alert|emerg|fatal|panic)\b"
)
_LEVEL_WITHIN: Final = 120
_TRACE: Final = re.compile(r"Traceback \(most recent call last\)|\s+at [\w.$<>]+\(|goroutine \d+ \[|stack backtrace:")
_RAISED: Final = re.compile(
    r"(?:Caused by: |Exception in thread \"[^\"]*\" )?((?:\w+\.)*\w+(?:Error|Exception))(?::|\s*$)"
)
_HEADING: Final = re.compile(r"(?:#{1,6} +|=+ +)(\S.*?)(?: +[#=]+)?\s*$")
_VARIES: Final = re.compile(
    r"\"[^\"]*\"|'[^']*'|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\b0x[0-9a-fA-F]+|\b(?=\w*\d)[0-9a-fA-F]{7,}\b|\d+(?:[.,:]\d+)*"
)
"""What differs between messages of one kind: quoted texts, ids, numbers."""
_WORD: Final = re.compile(r"[^\W\d_]{2}")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")


def stretches(text: str | Ends) -> Sequence[str]:
    """Return parts of a text, spread evenly over what is in memory of it, that together are short; of a short text, all of it."""
    if isinstance(text, Ends):
        half = _STRETCHES * _STRETCH // 2
        return [text.head[:half], text.tail[-half:]]
    if len(text) <= _STRETCHES * _STRETCH:
        return [text]
    step = (len(text) - _STRETCH) / (_STRETCHES - 1)
    return [text[start : start + _STRETCH] for start in (round(step * at) for at in range(_STRETCHES))]


def glance(parts: Sequence[str]) -> str:
    """Return what the lines in a text's parts tell, in one line; empty if that is nothing.

    The first part begins where the text begins, the last one ends where it ends. A line that another part's end cuts is not read.
    """
    read: list[list[str]] = []
    for at, part in enumerate(parts):
        found = part.splitlines()
        whole = found[at > 0 : len(found) - (at < len(parts) - 1)]
        read.append([line[:_LINE] for line in whole if line.strip()])
    lines = list(chain.from_iterable(read))
    if len(lines) < _LEAST:
        return ""
    times, counts = _times(read), _counts(lines)
    if counts and len(parts) > 1:
        counts[0] = f"in a sample of {len(lines):,} lines {counts[0]}"
    return "; ".join([*times, *counts])


def _times(read: Sequence[Sequence[str]]) -> list[str]:
    """Say the first and the last time, if most parts of the text have times: other lines' times need not be between them."""
    times = [
        [found[0] for line in lines if ":" in line and (found := _TIME.search(line[:_TIME_WITHIN]))] for lines in read
    ]
    if not times[0] or not times[-1] or sum(map(len, times)) < max(_SHARE * sum(map(len, read)), 2):
        return []
    return [f"first time {times[0][0]}, last {times[-1][-1]}"]


def _counts(lines: Sequence[str]) -> list[str]:
    said: list[str] = []
    levels = Counter((found[1] or found[2]).upper() for line in lines if (found := _LEVEL.search(line[:_LEVEL_WITHIN])))
    is_log = levels.total() >= _SHARE * len(lines)
    if is_log:
        said.append(_listed(levels))
    traces = sum(1 for line in lines if _TRACE.match(line))
    raised = Counter(found[1] for line in lines if "E" in line and (found := _RAISED.match(line)))
    if traces or raised:
        said.append(f"stack traces{f' ({_listed(raised)})' if raised else ''}")
    some = lines[:: -(-len(lines) // _COMPARED)]
    [(message, count)] = Counter(map(_message, some)).most_common(1)
    if count >= max(_REPEATED * len(some), 3) and _WORD.search(message):
        said.append(f"often {_shown(message)}")
    headings = list(dict.fromkeys(found[1] for line in lines if (found := _HEADING.match(line))))
    if headings and not is_log:
        said.append(f"headings {', '.join(map(_shown, headings[:_NAMED]))}")
    return said


def _message(line: str) -> str:
    """Return a line without what differs between messages of its kind."""
    line = _TIME.sub("", line[:_TIME_WITHIN], count=1) + line[_TIME_WITHIN:]
    line = _LEVEL.sub("", line, count=1)
    return " ".join(_VARIES.sub("#", line).strip(" \t-|:,.").split())


def _listed(counts: Counter[str]) -> str:
    named = counts.most_common(_NAMED)
    return ", ".join(f"{_clean(name)} {count:,}" for name, count in named) + (", …" if len(counts) > _NAMED else "")


def _shown(text: str) -> str:
    text = _clean(text)
    return f'"{text[:_MESSAGE]}…"' if len(text) > _MESSAGE else f'"{text}"'


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text[: 2 * _MESSAGE])
