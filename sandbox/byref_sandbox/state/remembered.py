"""What a `functools.lru_cache` remembers.

Python gives it out to the collector of garbage alone. It is put back by calling the cache, with the code of the function in it replaced
for that time by code that returns the result, or that fails, which counts as a miss.
"""

from __future__ import annotations

import contextlib
import gc
import types
from typing import Any, Final

MAX_COUNTED: Final = 100_000
"""Calls by which the numbers of hits and misses are put back, in some milliseconds. Of more than these a count says fewer."""
_PLAIN: Final = (str, bytes, int, float, bool, type(None))
_PARTS: Final = 6
"""What a cache holds beside its results: a dict, the function, a mark before arguments by name, a class of links, that of `cache_info`, attributes."""

Results = list[tuple[tuple[Any, ...], dict[str, Any], object]]
"""Arguments by place and by name, and what the function returned for them, the one that goes first from a full cache first."""


def of(cached: Any) -> Results:
    """Return what a function remembers, if it is one of the code's: none where Python keeps it in another way."""
    size, is_typed = cached.cache_info().currsize, cached.cache_parameters()["typed"]
    held = gc.get_referents(cached)
    if inner_of(cached) is None or not any(cached.cache_info()[:2]) or len(held) < _PARTS:
        return []
    *links, cache, function, mark, link, _, _ = held
    if type(cache) is not dict or function is not cached.__wrapped__ or type(mark) is not object:
        return []
    if cached.cache_parameters()["maxsize"] is None:
        pairs = [*cache.items()]
    else:
        links = links[1:]
        pairs = [*zip(links[::3], links[1::3], strict=False)]
        if len(links) != 3 * size or any(each is not link for each in links[2::3]):
            return []
    return [(*_arguments(key, mark, is_typed), result) for key, result in pairs]


def inner_of(cached: Any) -> types.FunctionType | None:
    """Return the function that a cache calls, if that is a function or a method."""
    inner = cached.__wrapped__
    if type(inner) is types.MethodType:
        inner = inner.__func__
    return inner if type(inner) is types.FunctionType else None


def fill(cached: Any, inner: types.FunctionType, results: Results, hits: int, misses: int) -> None:
    """Have a cache that is empty remember results, as after so many hits and misses."""
    waiting: list[object] = []

    def answer() -> object:
        if not waiting:
            raise _NothingError
        return waiting.pop()

    own = inner.__code__
    consts = tuple(answer if each == _PLACE else each for each in _stub.__code__.co_consts)
    inner.__code__ = _stub.__code__.replace(co_consts=consts, co_freevars=own.co_freevars)
    try:
        for _ in range(min(misses, MAX_COUNTED) - len(results)):
            with contextlib.suppress(_NothingError):
                cached(object())
        for arguments, options, result in results:
            waiting.append(result)
            cached(*arguments, **options)
            if hits and all(map(_runs_no_code, (*arguments, *options.values()))):
                for _ in range(min(hits, MAX_COUNTED)):
                    cached(*arguments, **options)
                hits = 0
    finally:
        inner.__code__ = own


def _runs_no_code(argument: object) -> bool:
    """Whether a look-up runs no code of a class: what it finds is the same object, and need not be compared."""
    return type(argument) in _PLAIN or type(argument).__hash__ is object.__hash__


class _NothingError(Exception):
    """There is no result: a miss that is only counted."""


_PLACE: Final = "where the function goes that answers"


def _stub(*_arguments: Any, **_options: Any) -> Any:
    answer: Any = "where the function goes that answers"
    return answer()


def _arguments(key: Any, mark: object, is_typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if type(key) is not tuple:
        return (key,), {}
    at = next((number for number, each in enumerate(key) if each is mark), None)
    if at is None:
        return key[: len(key) // 2] if is_typed else key, {}
    named = key[at + 1 :]
    if is_typed:  # the types of all arguments come last
        named = named[: 2 * ((len(named) - at) // 3)]
    return key[:at], dict(zip(named[::2], named[1::2], strict=True))
