"""Checks of settings. Each takes a knob's name and its value, and raises a ConfigurationError that says what was expected."""

from __future__ import annotations

import builtins
import inspect
import json
import keyword
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, NoReturn, TypeVar, get_args

from byref.errors import ConfigurationError, one_line, shown
from byref_sandbox.code.plainjq import HAS_NAN

MOST = 1 << 53
"""Maximum of a size, a count or a number of tokens: not every JSON reader keeps larger integers exact."""
MAX_PROGRAM_CHARS = 100_000
"""Most characters of a jq program or a template."""
MOST_DAYS = 36_500
"""Most days of a time to live."""
NAME_CHARS = 64

K = TypeVar("K")
V = TypeVar("V")
Check = Callable[[str, object], None]


@dataclass(frozen=True)
class MissingMapper:
    """Replaces a Python callable that a stored policy could not keep."""

    name: str
    """Module and qualified name of the callable."""
    tool: str


Mapper = str | Callable[[Any], Any] | MissingMapper
"""A jq program, or a function of the parsed output."""


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed, so that objects that contain it can be hashed."""

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("a policy does not change; make another one with policy.override()")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash the items, whatever their order."""
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a dict that is frozen again."""
        return FrozenDict, (dict(self),)


def frozen(value: Any) -> Any:
    """Return JSON values that cannot be changed."""
    if isinstance(value, Mapping):
        return FrozenDict({name: frozen(one) for name, one in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def check_limit(value: object) -> int | None:
    """Return the number of rows of a page; None: all."""
    if value is None or (type(value) is int and 0 < value < 2**63):
        return value
    raise ConfigurationError(f"limit={shown(value)}: expected how many at most, from 1 on, or None for all")


def flag(name: str, value: object) -> None:
    """Accept True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={shown(value)}: expected True or False")


def choice(words: Any) -> Check:
    """Accept one of the words of a Literal."""
    allowed = list(get_args(words))

    def check(name: str, value: object) -> None:
        if not isinstance(value, str) or value not in allowed:
            raise ConfigurationError(f"{name}={shown(value)}: expected one of {allowed}")

    return check


def between(low: float, high: float) -> Check:
    """Accept a number from `low` to `high`, both included."""

    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigurationError(f"{name}={shown(value)}: expected a number from {low} to {high}")

    return check


def integer(least: int) -> Check:
    """Accept an integer of at least `least`."""

    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigurationError(f"{name}={shown(value)}: expected an integer of at least {least}")
        if value > MOST:
            raise ConfigurationError(f"{name}={shown(value)}: expected an integer of at most 2**53")

    return check


def duration(name: str, value: object) -> None:
    """Accept a time to live: a timedelta or a number of seconds, above 0 when it is rounded to microseconds."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 < seconds <= MOST_DAYS * 86_400
        or not timedelta(seconds=seconds)
    ):
        raise ConfigurationError(
            f"{name}={shown(value)}: expected a timedelta, or seconds, above 0 and at most {MOST_DAYS} days"
        )


def as_timedelta(value: Any) -> Any:
    """Return a checked duration as a timedelta; None stays None."""
    return timedelta(seconds=value) if isinstance(value, int | float) else value


def optional(check: Check) -> Check:
    """Accept None, and whatever the other check accepts."""

    def or_none(name: str, value: object) -> None:
        if value is None:
            return
        try:
            check(name, value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{error}, or None") from None

    return or_none


def keywords(given: object) -> dict[str, Any]:
    """Return a mapping whose keys can be keyword arguments."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ConfigurationError(f"{shown(given)}: expected a byref.ToolPolicy, or a dict of its knobs")
    return dict(given)


def mapper(name: str, value: object) -> None:
    """Accept None, a jq program without a fault, or a callable that is not a coroutine function."""
    if isinstance(value, str):
        _written(name, value)
        fault = _fault_of_jq(value)
        if fault is not None:
            raise ConfigurationError(f"{name}={shown(value)}: no jq program: {fault}")
    elif inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
        raise ConfigurationError(f"{name}={shown(value)}: expected an ordinary function, not one to be awaited")
    elif value is not None and not callable(value) and not isinstance(value, MissingMapper):
        raise ConfigurationError(f"{name}={shown(value)}: expected a jq program or a function of the parsed output")


def schema(name: str, value: object) -> None:
    """Accept None, or a JSON Schema that is JSON."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name}={shown(value)}: expected a JSON Schema")
    try:
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name}={shown(value)}: expected a JSON Schema: {error}") from None


def template(name: str, value: object) -> None:
    """Accept None, or a Jinja template without a fault."""
    if value is None:
        return
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}={shown(value)}: expected the text of a Jinja template")
    _written(name, value)
    try:
        from byref_sandbox.code import templates
    except ImportError as error:
        raise ConfigurationError(
            f"{name}={shown(value)}: templates need Jinja2; pip install 'byref[templates]'"
        ) from error
    fault = templates.fault(value)
    if fault is not None:
        raise ConfigurationError(f"{name}={shown(value)}: no template: {fault}")


def names(name: str, value: object) -> dict[str, str]:
    """Return a mapping of keys to names of variables, each used once."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f'{name}={shown(value)}: expected a mapping of keys to names, like {{"users": "user_list"}}'
        )
    for key, variable in value.items():
        if not isinstance(key, str):
            raise ConfigurationError(f"{name}: {shown(key)} is no key of a JSON object; expected a string")
        if not isinstance(variable, str) or not _is_name(variable):
            raise ConfigurationError(
                f"{name}[{shown(key)}]={shown(variable)}: expected a Python identifier of at most {NAME_CHARS} "
                "characters, neither a keyword or builtin nor var_step, and without leading, trailing or doubled underscores"
            )
    twice = sorted({variable for variable in value.values() if list(value.values()).count(variable) > 1})
    if twice:
        raise ConfigurationError(f"{name}: {shown(twice[0])} is the name of two keys")
    return dict(value)


def collected(program: str, *, without_nan: bool = False) -> str:
    """Return a jq program that gives the outputs of another program as one array. With `without_nan`, NaN is an error; it would become null."""
    array = f"[({program}\n)]"  # a line break ends a comment
    if not without_nan:
        return array
    return f'{array} | if (tojson | contains("null")) and {HAS_NAN} then error("NaN has no JSON") else . end'


def _written(name: str, text: str) -> None:
    if not text.strip():
        raise ConfigurationError(f"{name}={shown(text)}: it is empty")
    if len(text) > MAX_PROGRAM_CHARS:
        raise ConfigurationError(f"{name}={shown(text)}: longer than {MAX_PROGRAM_CHARS:,} characters")
    if "\0" in text or text != text.encode("utf-8", "replace").decode():
        raise ConfigurationError(f"{name}={shown(text)}: it has a NUL character or half of a surrogate pair")


@lru_cache(maxsize=256)
def _fault_of_jq(program: str) -> str | None:
    import jq

    for source in (program, collected(program)):
        try:
            jq.compile(source)
        except ValueError as error:
            return one_line(str(error).partition("\n")[0]).removeprefix("jq: error: ").rstrip(":")
    return None


def _is_name(text: str) -> bool:
    return (
        text.isidentifier()
        and len(text) <= NAME_CHARS
        and text == unicodedata.normalize("NFKC", text)
        and text == text.strip("_")
        and "__" not in text
        and not keyword.iskeyword(text)
        and not keyword.issoftkeyword(text)
        and not hasattr(builtins, text)
        and not text.startswith("var_step")
    )
