"""Templates over tool outputs: Jinja, sandboxed, bounded in time and size.

A template is its host's, but what it renders comes from anywhere: a member named `items` is data and not a method of
Python's, no number in the data decides how wide a text gets, and every turn of a loop looks at the clock.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from typing import Any

import jinja2
from jinja2 import meta, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_FACTOR = 100_000
"""Most that a text is repeated or padded to; Jinja's own bound of `range` is the same."""
MAX_POWER = 10_000
"""Bits of the result of `**`."""
_DEADLINE = "_byref_deadline"
_WIDE_FORMAT = re.compile(r"%(?:\([^)]*\))?[^a-zA-Z%]*(?:\*|[0-9]{5})|\{[^{}]*:[^{}]*(?:\{|[0-9]{5})")
"""A width of five digits, or one that an argument gives."""
_SIZED_FILTERS = ("batch", "center", "format", "indent", "round", "slice")


class Unbounded(Exception):
    """A rendering takes longer, or gives more, than is allowed."""


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        # As a template is written in YAML or Python: lines that only hold a block tag leave nothing behind.
        super().__init__(autoescape=False, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        del self.globals["lipsum"]
        for name in _SIZED_FILTERS:
            self.filters[name] = _sized(self.filters[name])
        self.filters["_timed"] = _timed

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a member of the data before a method of the same name."""
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse what would multiply a text, or a number, beyond measure."""
        if operator == "*":
            sizes = [len(side) for side in (left, right) if isinstance(side, str | list | tuple)]
            factors = [side for side in (left, right) if isinstance(side, int)]
            if sizes and any(size * factor > MAX_FACTOR for size in sizes for factor in factors):
                raise SecurityError(f"a text or list is not repeated to more than {MAX_FACTOR:,}")
        elif operator == "**":
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MAX_POWER:
                raise SecurityError(f"a power has at most {MAX_POWER:,} bits")
        elif isinstance(left, str):
            _check_format(left)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Refuse to pad a text beyond measure."""
        if isinstance(getattr(obj, "__self__", None), str | int):
            _check_sizes(args, kwargs)
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Refuse a format that pads beyond measure."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_format(value.__self__)
        return wrapped


def fault(source: str) -> str | None:
    """Return what keeps a text from being a template, or None."""
    try:
        _compiled(source)
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        return f"{error.message}" if line is None else f"{error.message} at line {line}"
    except RecursionError:
        return "nested too deeply"
    return None


def render(source: str, value: object, *, seconds: float, max_bytes: int) -> str:
    """Return a template's text: `output` is the value, `data` too, and each key of an object is a name of its own.

    A key `data` goes before the value, so that a template reads the same members as a jq program does.

    Raises:
        Unbounded: it takes longer, or is larger.
        Exception: whatever a template can do wrong; nothing in the data may be undefined.
    """
    template, names = _compiled(source)
    given: dict[str, object] = {name: value[name] for name in names & value.keys()} if isinstance(value, dict) else {}
    deadline = time.monotonic() + seconds
    parts, size = [], 0
    for part in template.generate({"data": value, **given, "output": value, _DEADLINE: (deadline, seconds)}):
        parts.append(part)
        size += len(part.encode("utf-8", "surrogatepass"))
        if size > max_bytes:
            raise Unbounded(f"the text is larger than {max_bytes:,} bytes")
        _see_the_clock(deadline, seconds)
    return "".join(parts)


@lru_cache(maxsize=256)
def _compiled(source: str) -> tuple[jinja2.Template, set[str]]:
    """A template, and the names it takes from the data."""
    environment = _environment()
    tree = environment.parse(source)
    if next(meta.find_referenced_templates(tree), ...) is not ...:
        raise jinja2.TemplateSyntaxError("a template stands alone: no include, import or extends", 1)
    names = meta.find_undeclared_variables(tree) - environment.globals.keys()
    for loop in tree.find_all(nodes.For):
        loop.iter = nodes.Filter(loop.iter, "_timed", [], [], None, None)
    return jinja2.Template.from_code(environment, environment.compile(tree), environment.globals), names


@lru_cache(maxsize=1)
def _environment() -> _Environment:
    return _Environment()


@pass_context
def _timed(context: Context, items: Iterable[Any]) -> Iterator[Any]:
    """The items of a loop, as long as there is time: a loop that writes nothing would never be looked at."""
    deadline, seconds = context.parent[_DEADLINE]
    for item in items:
        _see_the_clock(deadline, seconds)
        yield item


def _see_the_clock(deadline: float, seconds: float) -> None:
    if time.monotonic() > deadline:
        raise Unbounded(f"it takes longer than {seconds:g} seconds")


def _sized(work: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(work)
    def run(value: Any, *args: Any, **kwargs: Any) -> Any:
        if work.__name__ == "do_format":
            _check_format(str(value))
        _check_sizes(args, kwargs)
        return work(value, *args, **kwargs)

    return run


def _check_sizes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if any(isinstance(each, int) and each > MAX_FACTOR for each in (*args, *kwargs.values())):
        raise SecurityError(f"a text is not made wider than {MAX_FACTOR:,}")


def _check_format(text: str) -> None:
    if _WIDE_FORMAT.search(text):
        raise SecurityError("a format has widths of at most four digits, written out")
