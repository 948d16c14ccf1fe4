"""`functools.singledispatch` and `singledispatchmethod` by classes alone: Python's own would evaluate an annotation that is text."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

from byref_sandbox.language.inspecting import is_own_function
from byref_sandbox.language.refusal import NotAllowed


class _Dispatcher:
    """Finds the function for a class. It holds nothing but what the code gave, so that it can be kept between runs."""

    def __init__(self, func: Any) -> None:
        if not callable(func) and not hasattr(func, "__get__"):
            raise TypeError(f"{func!r} is not callable or a descriptor")
        self._function = func
        self._kinds: dict[Any, Any] = {}
        self._made: Any = None
        for name in ("__name__", "__qualname__", "__doc__"):
            if type(text := getattr(func, name, None)) is str:
                self.__dict__[name] = text

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": None}

    @property
    def _real(self) -> Any:
        if self._made is None:
            self._made = functools.singledispatch(self._function)
            for kind, function in self._kinds.items():
                self._made.register(kind, function)
        return self._made

    @property
    def registry(self) -> Mapping[Any, Any]:
        """The functions by class."""
        found: Mapping[Any, Any] = self._real.registry
        return found

    def dispatch(self, cls: type) -> Any:
        """Return the function for a class."""
        return self._real.dispatch(cls)

    def register(self, cls: Any, method: Any = None) -> Any:
        """Register a function for a class; of a function alone the class is the annotation of its first parameter, which the language's `eval` reads if it is text."""
        if method is None:
            if isinstance(cls, type | types.UnionType):
                return functools.partial(self.register, cls)
            given = next(iter(getattr(cls, "__annotations__", {}).values()), None)
            if type(given) is str and is_own_function(cls):
                given = cls.__globals__["__builtins__"]["eval"](given)
            if not isinstance(given, type | types.UnionType):
                raise NotAllowed("register() needs a class here", "write @function.register(int)")
            cls, method = given, cls
        functools.singledispatch(self._function).register(cls, method)  # says what is wrong with them
        self._kinds[cls], self._made = method, None
        return method


class SingleDispatch(_Dispatcher):
    """functools.singledispatch."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not arguments:
            raise TypeError("a function that dispatches by its first argument needs one")
        return self.dispatch(type(arguments[0]))(*arguments, **options)

    def __repr__(self) -> str:
        return f"<function {getattr(self, '__name__', '?')}>"


class SingleDispatchMethod(_Dispatcher):
    """functools.singledispatchmethod."""

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., Any]:
        def method(*arguments: Any, **options: Any) -> Any:
            if not arguments:
                raise TypeError("a method that dispatches by its first argument needs one")
            return self.dispatch(type(arguments[0])).__get__(instance, owner)(*arguments, **options)

        setattr(method, "register", self.register)  # noqa: B010
        return method


SingleDispatch.__name__ = SingleDispatch.__qualname__ = "singledispatch"
SingleDispatchMethod.__name__ = SingleDispatchMethod.__qualname__ = "singledispatchmethod"
