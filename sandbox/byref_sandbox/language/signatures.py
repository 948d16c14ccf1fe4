"""`inspect` and `timeit`: what code may know of functions and classes, and how long they take."""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import time
from collections.abc import Callable
from typing import Any, Final

from byref_sandbox.code.words import words
from byref_sandbox.language.facades import Facade, FullStandInMeta
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.inspecting import is_own_function, plain_hint
from byref_sandbox.language.refusal import NotAllowed

_AS_THEY_ARE: Final = words("""cleandoc isabstract isasyncgen isasyncgenfunction isawaitable isbuiltin isclass iscoroutine
    iscoroutinefunction isdatadescriptor isfunction isgenerator isgeneratorfunction ismethod ismethoddescriptor isroutine FullArgSpec""")
_CLASSES: Final = (inspect.Signature, inspect.Parameter, inspect.BoundArguments)
_PLAIN: Final = frozenset({int, float, complex, str, bytes, bool, type(None), type(...), tuple})


class _Shown:
    """Stands for a default of a library's function."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def inspect_names(guards: Guards) -> dict[str, object]:
    """Return the names of `inspect`. Nothing of it leads to frames, sources and modules."""

    def is_own(value: Any) -> bool:
        if type(value) is functools.partial:
            return is_own(value.func)
        function = getattr(value, "__func__", value) if inspect.ismethod(value) else value
        return is_own_function(function) or guards.is_user_class(value)

    def plain_default(default: Any, own: bool) -> Any:
        is_plain = own or default is inspect.Parameter.empty or type(default) in _PLAIN
        return default if is_plain else _Shown(repr(default)[:200])

    def plain_annotation(hint: Any, own: bool) -> Any:
        is_plain = own or hint is inspect.Parameter.empty or isinstance(hint, str)
        return plain_hint(hint if is_plain else inspect.formatannotation(hint))

    def plain(parameter: inspect.Parameter, own: bool) -> inspect.Parameter:
        return parameter.replace(
            default=plain_default(parameter.default, own), annotation=plain_annotation(parameter.annotation, own)
        )

    def signature(obj: Any, *, follow_wrapped: bool = True, **options: Any) -> inspect.Signature:
        if options:
            raise NotAllowed(f"signature({next(iter(options))}=...) is not available", "leave it out")
        found, own = inspect.signature(obj), is_own(obj)
        parameters = [plain(parameter, own) for parameter in found.parameters.values()]
        return inspect.Signature(parameters, return_annotation=plain_annotation(found.return_annotation, own))

    def getfullargspec(func: Any) -> inspect.FullArgSpec:
        found, own = inspect.getfullargspec(func), is_own(func)
        return found._replace(
            defaults=found.defaults and tuple(plain_default(value, own) for value in found.defaults),
            kwonlydefaults=found.kwonlydefaults
            and {name: plain_default(value, own) for name, value in found.kwonlydefaults.items()},
            annotations={name: plain_annotation(hint, own) for name, hint in found.annotations.items()},
        )

    def getmembers(object: Any, predicate: Callable[[Any], Any] | None = None) -> list[tuple[str, Any]]:
        members = []
        for name in dir(object):
            with contextlib.suppress(AttributeError, NotAllowed):
                if not name.startswith("_"):
                    members.append((name, guards.getattr(object, name)))
        return [member for member in members if predicate is None or predicate(member[1])]

    def getdoc(object: Any) -> str | None:
        text = guards.getattr(object, "__doc__", None)
        return inspect.cleandoc(text) if isinstance(text, str) else None

    for cls in _CLASSES:
        guards.replace(cls, make=cls, kind=FullStandInMeta)  # `from_callable` evaluates hints that are texts
    return {name: getattr(inspect, name) for name in _AS_THEY_ARE} | {
        **{cls.__name__: guards.stand_ins[cls] for cls in _CLASSES},
        "signature": signature,
        "getfullargspec": getfullargspec,
        "getmembers": getmembers,
        "getdoc": getdoc,
        "ismodule": lambda object: type(object) is Facade,
    }


Prepare = Callable[[list[Any], Any], list[Callable[[], object]]]
"""Makes functions of texts of statements, in a namespace of the names of a dict; raises SyntaxError and NotAllowed."""


def timeit_names(prepare: Prepare) -> dict[str, object]:
    """Return the names of `timeit`, which measures functions, and statements of the language."""

    class Timer:
        """Measures a function, or statements given as a text."""

        def __init__(
            self, stmt: Any = "pass", setup: Any = "pass", timer: Any = time.perf_counter, globals: object = None
        ) -> None:
            texts = [each for each in (setup, stmt) if isinstance(each, str)]
            made = iter(prepare(texts, globals))
            self._setup, self._work = (next(made) if isinstance(each, str) else each for each in (setup, stmt))
            if not callable(self._setup) or not callable(self._work):
                raise ValueError("stmt is neither a string nor callable")
            self._timer = timer

        def timeit(self, number: int = 1_000_000) -> float:
            """Return the seconds that so many calls take."""
            self._setup()
            work, count, began = self._work, operator.index(number), self._timer()
            for _ in range(count):
                work()
            return self._timer() - began  # type: ignore[no-any-return]

        def repeat(self, repeat: int = 5, number: int = 1_000_000) -> list[float]:
            """Return the same, several times."""
            return [self.timeit(number) for _ in range(repeat)]

        def autorange(self, callback: Callable[[int, float], object] | None = None) -> tuple[int, float]:
            """Return how many calls take a fifth of a second or more, and how long they take."""
            number = 1
            while (taken := self.timeit(number)) < 0.2:
                if callback is not None:
                    callback(number, taken)
                number *= 2
            return number, taken

    Timer.__module__, Timer.__qualname__ = "timeit", "Timer"

    def timeit(
        stmt: Any = "pass",
        setup: Any = "pass",
        timer: Any = time.perf_counter,
        number: int = 1_000_000,
        globals: object = None,
    ) -> float:
        return Timer(stmt, setup, timer, globals).timeit(number)

    def repeat(
        stmt: Any = "pass",
        setup: Any = "pass",
        timer: Any = time.perf_counter,
        repeat: int = 5,
        number: int = 1_000_000,
        globals: object = None,
    ) -> list[float]:
        return Timer(stmt, setup, timer, globals).repeat(repeat, number)

    return {"Timer": Timer, "timeit": timeit, "repeat": repeat}
