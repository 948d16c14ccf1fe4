"""Iterators that do not say how they are made again: which of them can be, and how.

What a generator has done is in its frame, which cannot be made from Python. But before it begins it is a call of a function, and
an expression with one `for` has done nothing but to ask its iterator, so the same expression over that iterator goes on. A cycle
gives in one turn all that it has, and stands then where it stood.
"""

from __future__ import annotations

import copy
import dis
import gc
import inspect
import itertools
import operator
import types
from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import Any, Final

from byref_sandbox.state.codes import Unkept

Call = tuple[types.FunctionType, tuple[Any, ...], dict[str, Any]]
MAX_OF_CYCLE: Final = 10_000
"""Items of an `itertools.cycle` that is kept."""
_OF_CONSTANTS: Final = tuple(map(type, (iter(()), iter(range(0)), iter(""), iter("\xe9"))))
"""Iterators over what nobody can change. They run no code of a class, and can be copied."""
_OF_LISTS: Final[type] = type(iter([]))


def call_of(generator: types.GeneratorType[Any, Any, Any], space: dict[str, Any]) -> Call | None:
    """Return the call by which a generator of functions of a namespace is made again; None of one that has ended."""
    stands = inspect.getgeneratorstate(generator)
    if stands == inspect.GEN_CLOSED:
        return None
    code, frame, begun = generator.gi_code, generator.gi_frame, stands != inspect.GEN_CREATED
    if frame is None or (begun and not _asks_one_iterator(code, frame.f_locals)):
        raise Unkept("a generator that has begun: make a list of it")
    functions = (each for each in gc.get_referents(generator) if type(each) is types.FunctionType)
    function = next((each for each in functions if each.__code__ is code), None)
    if function is None or function.__globals__ is not space:
        raise Unkept("a generator of a library: make a list of it")
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


def ended() -> Generator[Any]:
    """Return a generator that has ended."""
    nothing: Generator[Any] = (each for each in "")
    nothing.close()
    return nothing


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
