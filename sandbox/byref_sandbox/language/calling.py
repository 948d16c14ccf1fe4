"""Functions of the host as code sees them: they are called like any other, and return the whole result.

Where the code awaits a call (`code.awaiting` says which calls these are), it gives an awaitable, and the code goes on meanwhile.
Everywhere else it waits and gives the result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from byref_sandbox.functions import Parameter, ParameterKind, Stub
from byref_sandbox.language import eventloop
from byref_sandbox.language.eventloop import Future

_KINDS: Final[dict[ParameterKind, Any]] = {
    "positional": inspect.Parameter.POSITIONAL_ONLY,
    "either": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "keyword": inspect.Parameter.KEYWORD_ONLY,
    "further": inspect.Parameter.VAR_KEYWORD,
}


class FunctionError(RuntimeError):
    """A function of the host has failed; the message says how."""


FunctionError.__module__ = "builtins"


class Came(NamedTuple):
    """The end of a call."""

    number: int
    value: object
    error: Exception | None


class Line(Protocol):
    """What carries calls to the host."""

    def send(self, function: str, arguments: Mapping[str, object], *, is_awaited: bool) -> int:
        """Send a call and return its number; raise ValueError of arguments that are no data, or too much."""

    def wait(self, seconds: float | None) -> Sequence[Came]:
        """Return the calls that have ended; if there are none, wait for the first, but at most so long."""


class Completable(Protocol):
    """A future of asyncio's, or of concurrent.futures'."""

    def done(self) -> bool:
        """Whether it is complete, or cancelled."""

    def set_result(self, result: Any, /) -> None:
        """Complete it with a result."""

    def set_exception(self, exception: Any, /) -> None:
        """Complete it with an error."""


class Functions:
    """The functions of one run. It is the part outside of its event loop."""

    def __init__(self, stubs: Sequence[Stub], line: Line | None) -> None:
        self.all: Final = {stub.name: HostFunction(stub, self) for stub in stubs}
        self._line: Any = line
        self._awaited: dict[int, Completable] = {}
        self._joined: set[int] = set()
        """Those of them for which the run waits at its end."""
        self._ended: dict[int, Came] = {}
        """Calls that somebody waits for without awaiting them."""

    def begun(self, func: Callable[..., Any], arguments: Sequence[Any]) -> Future | None:
        """Call a function of the host without waiting for it; None: it is none."""
        called = awaited(func)
        return None if called is func else called(*arguments)

    def is_busy(self) -> bool:
        """Whether there are calls that the code awaits, or may await."""
        return bool(self._awaited)

    def wait(self, seconds: float | None) -> None:
        """Complete the futures of calls that have ended; wait for the first, but at most so long."""
        for came in self._line.wait(seconds):
            future = self._awaited.pop(came.number, None)
            self._joined.discard(came.number)
            if future is None:
                self._ended[came.number] = came
            elif not future.done():  # else the code has cancelled it
                if came.error is None:
                    future.set_result(came.value)
                else:
                    future.set_exception(came.error)

    def finish(self) -> None:
        """Wait for what the code's executors are at."""
        while self._joined:
            self.wait(None)

    def _now(self, name: str, arguments: Mapping[str, object]) -> object:
        number = self._line.send(name, arguments, is_awaited=False)
        while number not in self._ended:
            self.wait(None)
        came = self._ended.pop(number)
        if came.error is not None:
            raise came.error
        return came.value

    def _soon(self, future: Completable, name: str, arguments: Mapping[str, object]) -> int:
        number: int = self._line.send(name, arguments, is_awaited=True)
        self._awaited[number] = future
        return number


class HostFunction:
    """A function of the host."""

    @classmethod
    def absent(cls, name: str) -> HostFunction:
        """Return one that is not there in this run: it may be again in a later one."""
        return cls(Stub(name, text=f"{name}(…), which is not there now"), Functions((), None))

    def __init__(self, stub: Stub, functions: Functions) -> None:
        self._stub = stub
        self._functions = functions
        self.__name__ = stub.name
        self.__doc__ = stub.text
        self.__signature__ = inspect.Signature([_parameter(each) for each in stub.parameters])

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._functions._now(self._stub.name, self._bound(args, kwargs))

    def __repr__(self) -> str:
        return f"<function {self._stub.name}>"

    @property
    def name(self) -> str:
        """Its name, which the code cannot change."""
        return self._stub.name

    def _begin(self, /, *args: Any, **kwargs: Any) -> Future:
        future = eventloop.get_event_loop().create_future()
        self._functions._soon(future, self._stub.name, self._bound(args, kwargs))
        return future

    def complete(self, future: Completable, /, *args: Any, **kwargs: Any) -> Callable[[float | None], None]:
        """Call it without waiting. Return what waits for the first of all calls that have not ended, at most so long, and completes
        their futures. The run does not end before this call has.
        """
        functions = self._functions
        functions._joined.add(functions._soon(future, self._stub.name, self._bound(args, kwargs)))
        return functions.wait

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return arguments by name; raise TypeError as a call of a Python function does."""
        if self._functions._line is None:
            raise NameError(f"the function {self._stub.name} is not there now")
        try:
            bound = self.__signature__.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self._stub.name}() {error}; it is {self._stub.text.partition(chr(10))[0]}") from None
        for each in self._stub.parameters:
            if each.kind == "further":
                bound.update(bound.pop(each.name, {}))
        return bound


def _parameter(parameter: Parameter) -> inspect.Parameter:
    default: Any = inspect.Parameter.empty
    if not parameter.is_required and parameter.kind != "further":
        default = parameter.default[0] if parameter.default else ...
    return inspect.Parameter(parameter.name, _KINDS[parameter.kind], default=default)


def awaited(called: Any) -> Any:
    """Return what is called where code awaits the call: of a function of the host, what does not wait."""
    if (host := unwrapped(called)) is None:
        return called
    function, args, kwargs = host
    return functools.partial(function._begin, *args, **kwargs) if args or kwargs else function._begin


def unwrapped(called: Any) -> tuple[HostFunction, tuple[Any, ...], dict[str, Any]] | None:
    """Return the function of the host that is called, with the arguments that are given already; None: it is none of the host's."""
    if type(called) is HostFunction:
        return called, (), {}
    if type(called) is functools.partial and type(called.func) is HostFunction:
        return called.func, called.args, called.keywords
    return None


def functions_of(space: Mapping[str, Any]) -> dict[str, HostFunction]:
    """Return the functions of the host that code has, by name, whatever it has bound to these names since."""
    builtin: Mapping[str, Any] = space.get("__builtins__") or {}
    return {name: one for name, one in builtin.items() if type(one) is HostFunction}


class _There:
    """Awaits a value that is there already."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, object]:
        return self._value
        yield


def awaitable(value: Any) -> Any:
    """Return something that can be awaited: where there are functions of the host, a result can be, too."""
    if eventloop.has_outside() and not inspect.isawaitable(value):
        return _There(value)
    return value


def finder(functions: Mapping[str, HostFunction]) -> Callable[[str], str]:
    """Return what `functions(query)` does: it lists functions whose name or text has a word of the query."""

    def find(query: str = "") -> str:
        words = str(query).lower().split()
        found = [
            one.__doc__ or name for name, one in functions.items() if _fits(f"{name} {one.__doc__}".lower(), words)
        ]
        return "\n\n".join(found) or f"no function has a word of {str(query)[:100]!r}; there are {', '.join(functions)}"

    find.__name__ = find.__qualname__ = "functions"
    return find


def _fits(text: str, words: list[str]) -> bool:
    return not words or any(word in text for word in words)
