"""JSON Schemas of other tools: checked in bounded time against data that is hostile, with nothing fetched.

What most schemas say is a type that msgspec checks 150 times as fast as jsonschema (100 MB of records: 0.3 s for 45 s);
what it does not accept goes to jsonschema, whose keywords are replaced where they would print the data or run a
backtracking regular expression over it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema
import msgspec
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from byref.errors import ConfigurationError, ToolError
from byref.tools.fastcheck import fast_type, is_fast
from byref.tools.regexes import matches

CHECK_SECONDS = 10.0
_PROBE_SECONDS = 0.2
MOST_ERRORS = 20
"""Looked at, to tell the model of the one that matters."""
_CACHED_BYTES = 1 << 20
_NAMED = 5

_until: ContextVar[float] = ContextVar("_until")

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class _OutOfTime(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, compiled."""

    source: Mapping[str, Any]
    validator: Any
    """jsonschema's."""
    quick: Any
    """The type whose values all fit; None where there is none. What is not of it may fit all the same."""

    def errors(self, value: object, until: float) -> list[ValidationError]:
        """Return the first errors of a value, none if it fits; `until` is the time (monotonic) to give up at.

        Raises:
            ToolError: it could not be checked in time, or is nested too deeply.
            ConfigurationError: the schema refers to what it does not hold.
        """
        if self.quick is not None and is_fast(value, self.quick):
            return []
        found: list[ValidationError] = []
        before = _until.set(until)
        try:
            found.extend(islice(self.validator.iter_errors(value), MOST_ERRORS))
        except _OutOfTime:
            if not found:
                raise ToolError(
                    f"the arguments are too large to be checked against the tool's schema in {CHECK_SECONDS:g} s; "
                    "pass less: a part of the data, or a reference to fewer fields of it"
                ) from None
        except Unresolvable as error:
            raise ConfigurationError(
                f"the schema of the target tool refers to {str(error.ref)[:200]!r}, which is not in it; "
                "nothing is fetched: put it under $defs"
            ) from error
        except BaseException as error:
            if not _is_too_deep(error):
                raise
            raise ToolError("the arguments are nested too deeply to be checked against the tool's schema") from None
        finally:
            _until.reset(before)
        return found

    def accepts(self, value: object, schema: Any) -> bool:
        """Tell whether a value fits a part of the schema; one that takes long to check does not."""
        before = _until.set(time.monotonic() + _PROBE_SECONDS)
        try:
            return bool(self.validator.evolve(schema=schema).is_valid(value))
        except (_OutOfTime, Unresolvable):
            return False
        except BaseException as error:
            if not _is_too_deep(error):
                raise
            return False
        finally:
            _until.reset(before)


def _is_too_deep(error: BaseException) -> bool:
    """Tell whether the stack was too short: rpds, written in Rust, panics where Python raises, by no exception's type."""
    return isinstance(error, RecursionError) or type(error).__name__ == "PanicException"


def compiled(schema: Mapping[str, Any]) -> Schema:
    """Return a schema ready for checks; ConfigurationError if it is none. Its `$schema` says the draft, else 2020-12."""
    try:
        source = msgspec.json.encode(schema)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigurationError(f"the schema of the target tool is no JSON: {error!s:.200}") from error
    return _compiled(source) if len(source) <= _CACHED_BYTES else _compile(source)


def _compile(source: bytes) -> Schema:
    schema = msgspec.json.decode(source)
    if not isinstance(schema, dict):
        raise ConfigurationError("the schema of the target tool must be a JSON object")
    base = validator_for(schema, default=Draft202012Validator)
    try:
        base.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ConfigurationError(f"the schema of the target tool is invalid: {error.message[:500]}") from error
    own = {
        name: keyword
        for name, keyword in _KEYWORDS.items()
        if base.VALIDATORS.get(name) is Draft202012Validator.VALIDATORS[name]
    }
    if b'"patternProperties"' in source:  # jsonschema looks for what is evaluated with regular expressions of its own
        own["unevaluatedProperties"] = _unchecked
    timed = {name: _timed(keyword) for name, keyword in {**base.VALIDATORS, **own}.items()}
    bounded: Any = extend(base, timed)  # type: ignore[no-untyped-call]
    return Schema(schema, bounded(schema, registry=Registry()), fast_type(schema, base))


_compiled = lru_cache(maxsize=128)(_compile)


def _in_time() -> None:
    if time.monotonic() > _until.get(float("inf")):
        raise _OutOfTime


def _timed(keyword: Keyword) -> Keyword:
    def check(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _in_time()
        return keyword(validator, wanted, instance, schema) or iter(())

    return check


def _leaf(fits: Callable[[Any, Any, Any], bool]) -> Keyword:
    """A keyword whose error says nothing: the data may be large."""

    def check(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not fits(validator, wanted, instance):
            yield ValidationError("")

    return check


def _is_type(validator: Any, wanted: Any, instance: Any) -> bool:
    return any(validator.is_type(instance, one) for one in ([wanted] if isinstance(wanted, str) else wanted))


def _is_unique(validator: Any, wanted: Any, instance: Any) -> bool:
    if not wanted or not isinstance(instance, list):
        return True
    seen = set()
    for item in instance:
        _in_time()
        if (key := _hashable(item)) in seen:
            return False
        seen.add(key)
    return True


def _hashable(value: Any) -> Any:
    """A value equal to another's where JSON Schema calls the two equal."""
    if isinstance(value, dict):
        return "object", frozenset((key, _hashable(member)) for key, member in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_hashable, value))
    return ("boolean", value) if isinstance(value, bool) else value


def _same(validator: Any, wanted: Any, instance: Any) -> bool:
    return (
        bool(_hashable(wanted) == _hashable(instance))
        if type(wanted) is type(instance)
        else (not isinstance(wanted, bool) and not isinstance(instance, bool) and wanted == instance)
    )


def _is_one_of(validator: Any, wanted: Any, instance: Any) -> bool:
    return any(_same(validator, one, instance) for one in wanted)


def _sized(kind: type[list[Any] | str | dict[str, Any]], fits: Callable[[int, Any], bool]) -> Keyword:
    return _leaf(lambda validator, wanted, instance: not isinstance(instance, kind) or fits(len(instance), wanted))


def _fits_pattern(validator: Any, wanted: Any, instance: Any) -> bool:
    return not isinstance(instance, str) or matches(wanted, instance) is not False


def _pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, inner in wanted.items():
            for key, member in instance.items():
                if matches(pattern, key):
                    yield from validator.descend(member, inner, path=key, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", ())
    extra = (
        key for key in instance if key not in known and all(matches(pattern, key) is False for pattern in patterns)
    )
    if isinstance(wanted, dict):
        for key in extra:
            yield from validator.descend(instance[key], wanted, path=key)
    elif wanted is False and (named := [json.dumps(key[:40]) for key in islice(extra, _NAMED)]):
        there = f"; there are {', '.join(islice(known, 20))}"[:500] if known else ""
        yield ValidationError(f"has no place for {', '.join(named)}{there}")


def _any_of(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    context: list[ValidationError] = []
    for index, inner in enumerate(wanted):
        errors = list(islice(validator.descend(instance, inner, schema_path=index), _NAMED))
        if not errors:
            return
        context += errors
    yield ValidationError("", context=context)


def _one_of(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    context: list[ValidationError] = []
    fitting = 0
    for index, inner in enumerate(wanted):
        errors = list(islice(validator.descend(instance, inner, schema_path=index), _NAMED))
        fitting += not errors
        context += errors
    if fitting != 1:
        yield ValidationError("fits more than one of what it may be" if fitting else "", context=context)


def _not(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.evolve(schema=wanted).is_valid(instance):
        yield ValidationError("is what the schema rules out")


def _unchecked(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    return iter(())


_KEYWORDS: Mapping[str, Keyword] = {
    "type": _leaf(_is_type),
    "enum": _leaf(_is_one_of),
    "const": _leaf(_same),
    "uniqueItems": _leaf(_is_unique),
    "pattern": _leaf(_fits_pattern),
    "minItems": _sized(list, lambda length, wanted: length >= wanted),
    "maxItems": _sized(list, lambda length, wanted: length <= wanted),
    "minLength": _sized(str, lambda length, wanted: length >= wanted),
    "maxLength": _sized(str, lambda length, wanted: length <= wanted),
    "minProperties": _sized(dict, lambda length, wanted: length >= wanted),
    "maxProperties": _sized(dict, lambda length, wanted: length <= wanted),
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
