"""Iterators that do not say how they are made again: which of them can be, and how.

What a generator or coroutine has done is in its frame, which cannot be made from Python. But before it begins it is a call of a
function, and an expression with one `for` has done nothing but to ask its iterator, so the same expression over that iterator
goes on. A cycle gives in one turn all that it has, and stands then where it stood.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import gc
import inspect
import itertools
import operator
import types
from collections.abc import AsyncGenerator, Mapping
from functools import lru_cache
from typing import Any, Final

from byref_sandbox.state.codes import Unkept

Call = tuple[types.FunctionType, tuple[Any, ...], dict[str, Any]]
MAX_OF_CYCLE: Final = 10_000
"""Items of an `itertools.cycle` that is kept."""
_OF_CONSTANTS: Final = tuple(map(type, (iter(()), iter(range(0)), iter(""), iter("\xe9"))))
"""Iterators over what nobody can change. They run no code of a class, and can be copied."""
_OF_LISTS: Final[type] = type(iter([]))
KINDS: Final[Mapping[type, str]] = {
    types.GeneratorType: "gi",
    types.CoroutineType: "cr",
    types.AsyncGeneratorType: "ag",
}
"""What is called and has not begun then, and how its attributes begin."""


def call_of(generator: Any, space: dict[str, Any]) -> Call | None:
    """Return the call by which a generator or coroutine of functions of a namespace is made again; None of one that has ended."""
    prefix = KINDS[type(generator)]
    code, frame = getattr(generator, f"{prefix}_code"), getattr(generator, f"{prefix}_frame")
    if frame is None:
        return None
    is_coroutine = type(generator) is types.CoroutineType
    cure = (
        ": await it in the same call, or wrap it in asyncio.create_task(…)" if is_coroutine else ": make a list of it"
    )
    what = "a coroutine" if is_coroutine else "a generator"
    if frame.f_lasti >= _begin_of(code) and not _asks_one_iterator(code, frame.f_locals):
        raise Unkept(f"{what} that has begun{cure}")
    functions = (each for each in gc.get_referents(generator) if type(each) is types.FunctionType)
    function = next((each for each in functions if each.__code__ is code), None)
    if function is None or function.__globals__ is not space:
        raise Unkept(f"{what} of a library{cure}")
    return function, *_arguments(code, frame.f_locals)


def items_of(cycle: Any) -> tuple[list[Any], int]:
    """Return what an `itertools.cycle` goes through, and how many of these it has given in its first turn.

    Of a list in its first turn it is the list itself, as later changes of it count.
    """
    *source, seen = (one for one in gc.get_referents(cycle) if one is not itertools.cycle)
    if not source:
        _check_length(seen)
        return [next(cycle) for _ in seen], 0
    if type(source[0]) in _OF_CONSTANTS:
        items = [*seen, *itertools.islice(copy.copy(source[0]), MAX_OF_CYCLE)]
        _check_length(items)
        return items, len(seen)
    held, place = _list_of(source[0])
    _check_length(held)
    if place != len(seen) or not all(map(operator.is_, held, seen)):
        raise Unkept("a cycle in its first turn, over a list that was changed")
    return held, place


def _list_of(iterator: Any) -> tuple[list[Any], int]:
    """Return the list of an iterator, and how many of its items were given."""
    parts: Any = iterator.__reduce__() if type(iterator) is _OF_LISTS else ()
    if len(parts) != 3:  # it is none of a list, or has ended
        raise Unkept("an open iterator: make a list of it")
    _, [held], place = parts
    return held, place


def _check_length(items: list[Any]) -> None:
    if len(items) >= MAX_OF_CYCLE:
        raise Unkept(f"a cycle of {MAX_OF_CYCLE:,} items or more")


def ended(prefix: str) -> Any:
    """Return a generator or coroutine that has ended."""
    if prefix == KINDS[types.AsyncGeneratorType]:
        return _ended_asynchronous()
    nothing: Any = _nothing() if prefix == KINDS[types.CoroutineType] else (each for each in "")
    nothing.close()
    return nothing


async def _nothing() -> None: ...


def _ended_asynchronous() -> Any:
    made = _no_items()
    with contextlib.suppress(StopIteration):
        made.aclose().send(None)
    return made


async def _no_items() -> AsyncGenerator[int]:
    for each in range(0):
        yield each


@lru_cache(256)
def _begin_of(code: types.CodeType) -> int:
    """Return the place in a generator's code where its first line begins."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")


def _asks_one_iterator(code: types.CodeType, held: Mapping[str, Any]) -> bool:
    """Tell whether an expression has one `for`, and was given the iterator itself, not what makes one."""
    return code.co_name == "<genexpr>" and _loops(code) == 1 and hasattr(type(held[".0"]), "__next__")


@lru_cache(256)
def _loops(code: types.CodeType) -> int:
    return sum(instruction.opname == "FOR_ITER" for instruction in dis.get_instructions(code))


def _arguments(code: types.CodeType, held: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a function was called with, by position and by name, from the variables that its frame holds."""
    by_position, by_name = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    end = by_position + by_name
    arguments = tuple(held[name] for name in names[:by_position])
    options = {name: held[name] for name in names[by_position:end]}
    if code.co_flags & inspect.CO_VARARGS:
        arguments += held[names[end]]
        end += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        options |= held[names[end]]
    return arguments, options
