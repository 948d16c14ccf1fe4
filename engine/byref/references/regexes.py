"""Patterns of a tool's schema, matched in linear time: the text they meet may be hostile."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

import re2

_BACKTRACKING_CHARS = 1_000
"""Of a pattern that is none of linear time: Python compiles it to see whether it is one at all."""

logger = logging.getLogger("byref")


def matches(pattern: str, text: str) -> bool | None:
    """Tell whether a pattern is found in a text; None, and logged once, if it cannot be matched in linear time."""
    regex = _compiled(pattern)
    return None if regex is None else regex.search(text.encode("utf-8", "replace")) is not None


def is_regex(pattern: str) -> bool:
    """Tell whether a text is a regular expression, of linear time or not."""
    if _re2(pattern) is not None:
        return True
    try:
        re.compile(pattern[:_BACKTRACKING_CHARS])
    except (re.error, RecursionError, OverflowError):
        return False
    return len(pattern) <= _BACKTRACKING_CHARS


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    if (regex := _re2(pattern)) is None:
        logger.warning("the pattern %r of a tool's schema is not checked: it is no linear-time pattern", pattern[:200])
    return regex


def _re2(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error:
        return None
