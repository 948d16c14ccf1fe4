"""`regex` as the language has it: `re` under the name of the package that models import for the same functions.

What is written for both means the same in both. A pattern that only the package understands is refused where `re` would read it as
something else; elsewhere `re` has an error of its own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from byref_sandbox.language.refusal import NotAllowed

_FUNCTIONS: Final = ("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")
_OTHERWISE: Final = re.compile(r"\[:\^?\w+:\]|\{(?:\d*<=?)?[eids][<=:,}]")
"""Classes by name, `[[:alpha:]]`, and fuzzy matches, `(?:word){e<=1}`: to `re` they are sets and texts."""


def regex_names(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of `regex`, of those of `re`."""
    return {**plain, **{name: _checked(plain[name]) for name in _FUNCTIONS}}


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(pattern: Any, *arguments: Any, **options: Any) -> Any:
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        if isinstance(text, str) and (found := _OTHERWISE.search(text)) is not None:
            raise NotAllowed(
                f"{found[0]!r} is not available in a pattern: regex is re here", "write the pattern for re"
            )
        return function(pattern, *arguments, **options)

    return call
