"""Find the usage in a response or event of a provider's SDK, a mapping or an object, and read it as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial, wraps
from inspect import isroutine
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from byref.errors import ConfigurationError
from byref.usage.formats import MARKS, NAMES

_MAX_FIELDS = 100
_MAX_VALUES = 300
"""Limit of the values inside one field."""
_MAX_DEPTH = 6
_MAX_CHARS = 200
_MAX_WRAPPERS = 4

_Read = TypeVar("_Read")

_USAGE = ("usage", "usage_metadata", "usageMetadata")
_WRAPPERS = ("response", "message", "metadata", "chunk", "event", "data")
"""Fields of events that hold the object with the usage, in this order: OpenAI's Responses, Anthropic, Bedrock, the OpenAI
SDK's stream helper, Strands, Mistral."""
_MODEL = ("model", "model_name", "model_version", "modelVersion")
_ID = ("id", "response_id", "responseId")


class Found(NamedTuple):
    """A usage as plain data, and the model and response that it belongs to."""

    fields: dict[str, Any]
    model: str | None = None
    response_id: str | None = None
    is_part: bool = False
    """Whether counts are to be added up: each chunk of LangChain carries its own part, other events the total so far."""
    is_whole: bool = False
    """Whether a request has just one such event: Bedrock's `metadata`."""


def stream_of(value: object) -> Iterable[object] | None:
    """Return the value if it is an iterable of a stream's events; None if it is a single object."""
    # A pydantic model is iterable too, but iterates over its fields.
    if _is_pydantic(value) or isinstance(value, Mapping | str | bytes | bytearray | memoryview):
        return None
    return value if isinstance(value, Iterable) else None


def readable(read: Callable[[Any], _Read]) -> Callable[[Any], _Read]:
    """Turn exceptions into a ConfigurationError, because reading a host's objects runs their own code."""

    @wraps(read)
    def guarded(value: Any) -> _Read:
        try:
            return read(value)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"usage: {type(value).__name__!r} cannot be read: {type(error).__name__}"
            ) from error

    return guarded


@readable
def find(event: object) -> Found | None:
    """Return the usage that a response or event carries, or the object itself if it is one; else None."""
    view, wrapper = event, ""
    for _ in range(_MAX_WRAPPERS):
        get = getter(view)
        counts = [(name, value) for name in _USAGE if (value := get(name)) is not MISSING] + _aside(get)
        for name, value in counts:
            if fields := _fields(value):
                is_part = name == "usage_metadata" and ("input_tokens" in fields or "output_tokens" in fields)
                return Found(fields, _model(get), _text(get, _ID), is_part, wrapper == "metadata")
        if counts:
            return None  # the object has a field for usage, and it is empty: do not look further inside
        found = next(((name, value) for name in _WRAPPERS if not _is_scalar(value := get(name))), None)
        if found is None:
            break
        wrapper, view = found
    fields = _fields(event)
    return Found(fields, _model(getter(event))) if fields else None


def _aside(get: _Getter) -> list[tuple[str, object]]:
    """Return the usage that Groq (`x_groq`) and Moonshot (in the first choice) put beside the chunks' own, which is empty."""
    choices = get("choices")
    places = (get("x_groq"), choices[0] if isinstance(choices, list) and choices else None)
    found = [getter(place)("usage") for place in places if not _is_scalar(place)]
    return [("usage", usage) for usage in found if not _is_scalar(usage)]


def _model(get: _Getter) -> str | None:
    if own := _text(get, _MODEL):
        return own
    metadata = get("response_metadata")  # LangChain's
    return None if _is_scalar(metadata) else _text(getter(metadata), _MODEL)


def _text(get: _Getter, names: tuple[str, ...]) -> str | None:
    """Return the first of the named fields that holds a name."""
    return next((str(value) for name in names if is_name(value := get(name))), None)


def _fields(usage: object) -> dict[str, Any]:
    """Return a usage object's fields as JSON values; empty if no token count is among them."""
    if _is_scalar(usage):
        return {}
    members = _members(usage)
    if members.keys().isdisjoint(MARKS):
        if isinstance(usage, Mapping) or _is_pydantic(usage):
            return {}
        members = _known(usage)
    if all(members.get(name) is None for name in MARKS):
        return {}
    if not isinstance(usage, Mapping):
        members = {name: value for name, value in members.items() if not name.startswith("_")}
    fields: dict[str, Any] = plain(members)
    return fields


_Getter = Callable[[str], Any]
MISSING = object()


def getter(view: object) -> _Getter:
    """Return a function that reads a field of a mapping or object, and returns `MISSING` if there is none."""
    if isinstance(view, Mapping):
        read = view.get
    elif _is_pydantic(view):  # `getattr` of a missing attribute is slow in a pydantic model
        read = _members(view).get
    else:
        read = partial(getattr, view)

    def get(name: str) -> Any:
        try:
            return read(name, MISSING)
        except Exception as error:
            raise ConfigurationError(f"usage: {name!r} cannot be read: {type(error).__name__}") from error

    return get


def _members(value: object) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    own: dict[str, Any] = getattr(value, "__dict__", {})
    if _is_pydantic(value):
        extra = getattr(value, "__pydantic_extra__", None)
        return {**own, **extra} if extra else own
    return own or _known(value)


def _known(value: object) -> dict[str, Any]:
    """Return the known fields of an object that has slots or properties instead of a `__dict__`."""
    get = getter(value)
    return {name: found for name in NAMES if (found := get(name)) is not MISSING}


def _is_pydantic(value: object) -> bool:
    return hasattr(type(value), "__pydantic_fields_set__")


def _is_scalar(value: object) -> bool:
    return (
        value is None
        or value is MISSING
        or isinstance(value, str | bytes | int | float | type | list | tuple)
        or isroutine(value)
    )


@readable
def plain(value: object) -> Any:
    """Return any value as JSON values, cut where it is deeper, longer or wider than any usage."""
    if not isinstance(value, Mapping):
        return _cut(value, _MAX_DEPTH, iter(range(_MAX_VALUES)))
    items = list(islice(value.items(), _MAX_FIELDS + 1))
    if len(items) > _MAX_FIELDS:
        raise ConfigurationError(f"usage: more than {_MAX_FIELDS} fields; expected token counts alone")
    return {str(name)[:_MAX_CHARS]: _cut(item, _MAX_DEPTH, iter(range(_MAX_VALUES))) for name, item in items}


def _cut(value: Any, depth: int, room: Iterator[int]) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value[:_MAX_CHARS]
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    members = {} if isroutine(value) or isinstance(value, type) else _members(value)
    if depth == 0 or not (members or isinstance(value, Mapping | list | tuple)):
        return f"<{type(value).__name__}>"
    if isinstance(value, list | tuple):
        return [_cut(item, depth - 1, room) for item, _ in zip(value, room, strict=False)]
    return {
        str(name)[:_MAX_CHARS]: _cut(item, depth - 1, room)
        for (name, item), _ in zip(members.items(), room, strict=False)
    }


def is_name(value: object) -> bool:
    """Tell whether a value may be the name of a model."""
    return isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()
