"""Checks of data against the JSON Schemas of other tools: in bounded time, for hostile data, and with nothing fetched.

Most schemas can be written as a type that msgspec checks 150 times as fast as jsonschema (100 MB of records: 0.3 s instead of
45 s). A value that this type refuses goes to jsonschema, with those keywords replaced that would print the data, run a
backtracking regular expression over it, or take too long. Why jsonschema-rs is not used:
docs/decisions/schemas-of-strangers.md.
"""

from __future__ import annotations

import json
import logging
import operator
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal, Union, cast

import attrs
import msgspec
import re2
from blake3 import blake3
from jsonschema import Draft3Validator, Draft4Validator, Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import lookup_recursive_ref

from byref.describe.alike import object_type
from byref.errors import ConfigurationError
from byref.references.arguments import PlainMisfit
from byref.references.circles import check_circles, check_levels

logger = logging.getLogger("byref")

CHECK_SECONDS = 10.0
COMPILE_SECONDS = 10.0
"""Maximum seconds to check the schema itself."""
_PROBE_SECONDS = 0.2
MOST_ERRORS = 20
"""Maximum errors that are collected to find the one that the model should read."""
_CACHED_BYTES = 1 << 20
_REFUSED_SECONDS = 600
"""A refusal is remembered for at most so long."""
_NAMED = 5

_until: ContextVar[float] = ContextVar("_until")

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class _OutOfTime(Exception):
    pass


class _Failed(Exception):
    """The check itself failed; the message says how."""


@contextmanager
def _bounded(until: float) -> Iterator[None]:
    """Run checks until a time (monotonic). Every failure becomes `_OutOfTime`, `_Failed`, Unresolvable or ConfigurationError.

    A panic of rpds, which is written in Rust, is not an Exception and has no importable type: it is recognised by its name.
    """
    before = _until.set(until)
    try:
        yield
    except (_OutOfTime, Unresolvable, ConfigurationError):
        raise
    except BaseException as error:
        if isinstance(error, RecursionError) or is_panic(error):
            raise _Failed("nested too deeply to be checked") from None
        if not isinstance(error, Exception):
            raise
        raise _Failed(f"not to be checked ({type(error).__name__})") from error
    finally:
        _until.reset(before)


def is_panic(error: BaseException) -> bool:
    """Tell whether a library written in Rust panicked, which no `except Exception` catches."""
    return type(error).__name__ == "PanicException"


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, compiled."""

    source: Mapping[str, Any]
    validator: Any
    """The validator of jsonschema."""
    quick: Any
    """A msgspec type whose values all fit the schema, or None. A value that it refuses may still fit."""
    missing: str | None
    """A reference to what is not in the schema."""

    def errors(self, value: object, until: float) -> list[ValidationError]:
        """Return the first errors of a value, or an empty list if it fits. The check stops at the time `until` (monotonic).

        Raises:
            PlainMisfit: the value could not be checked in time, nests too deeply, or the check failed.
            ConfigurationError: the schema refers to something that it does not contain.
        """
        if self.quick is not None and _is_of(value, self.quick):
            return []
        found: list[ValidationError] = []
        try:
            with _bounded(until):
                found.extend(islice(self.validator.iter_errors(value), MOST_ERRORS))
        except _OutOfTime:
            if not found:
                raise PlainMisfit(
                    f"the arguments are too large to be checked against the tool's schema in {CHECK_SECONDS:g} s; "
                    "pass less: a part of the data, or a reference to fewer fields of it"
                ) from None
        except Unresolvable as error:
            raise ConfigurationError(_is_missing(error.ref)) from error
        except _Failed as error:
            raise PlainMisfit(f"the arguments are {error} against the tool's schema") from error
        return found

    def accepts(self, value: object, schema: Any) -> bool:
        """Tell whether a value fits a part of the schema. A value that takes too long to check counts as not fitting."""
        try:
            with _bounded(time.monotonic() + _PROBE_SECONDS):
                return bool(self.validator.evolve(schema=schema).is_valid(value))
        except (_OutOfTime, _Failed, Unresolvable):
            return False


def _is_missing(reference: object) -> str:
    return (
        f"the schema of the target tool refers to {str(reference)[:200]!r}, which is not in it; "
        "nothing is fetched: put it under $defs"
    )


def check_references(schema: Mapping[str, Any]) -> None:
    """Refuse a schema that refers to what is not in it, or whose references `compiled` refuses.

    Raises:
        ConfigurationError: the schema is refused; the message says why.
    """
    if (missing := compiled(schema).missing) is not None:
        raise ConfigurationError(_is_missing(missing))


def compiled(schema: Mapping[str, Any]) -> Schema:
    """Return a schema that is ready for checks. Its `$schema` names the draft; the default is 2020-12.

    Raises ConfigurationError if it is not a valid schema, applies itself to the same value again, or exceeds a bound of `circles`.
    """
    try:
        source = msgspec.json.encode(schema)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigurationError(f"the schema of the target tool is no JSON: {error!s:.200}") from error
    refused = _refused(blake3(source).digest(), int(time.monotonic() // _REFUSED_SECONDS))
    if refused:
        raise ConfigurationError(refused[0])
    try:
        return _compiled(source) if len(source) <= _CACHED_BYTES else _compile(source)
    except ConfigurationError as error:
        refused.append(str(error))
        raise


@lru_cache(maxsize=1_000)
def _refused(digest: bytes, period: int) -> list[str]:
    """Return the list in which the refusal of a schema is remembered, so that a hostile one does not cost its time at every call.

    Each period has another one: a schema that a busy machine did not check in time is tried again.
    """
    return []


def _compile(source: bytes) -> Schema:
    schema = msgspec.json.decode(source)
    if not isinstance(schema, dict):
        raise ConfigurationError("the schema of the target tool must be a JSON object")
    missing = None
    try:
        with _bounded(time.monotonic() + COMPILE_SECONDS):
            check_levels(schema)
            base: Any = validator_for(schema, default=Draft202012Validator)
            form = _validator_of(validator_for(base.META_SCHEMA, default=base))
            wrong = next(form(base.META_SCHEMA, format_checker=_FORMATS).iter_errors(_without_plain(schema)), None)
            if wrong is None:
                missing = check_circles(schema, _in_time)
    except _OutOfTime:
        raise ConfigurationError(
            f"the schema of the target tool is too large to be checked in {COMPILE_SECONDS:g} s"
        ) from None
    except (_Failed, Unresolvable) as error:
        raise ConfigurationError(f"the schema of the target tool is {error}") from error
    if wrong is not None:
        raise ConfigurationError(f"the schema of the target tool is invalid: {_what_is(wrong)[:500]}")
    return Schema(schema, _validator_of(base)(schema, registry=Registry()), _fast_type(schema, base), missing)


_compiled = lru_cache(maxsize=128)(_compile)


def _without_plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out properties that are valid in every draft: to check thousands of them by the draft's own schema takes seconds."""
    if not isinstance(properties := schema.get("properties"), dict):
        return schema
    return {**schema, "properties": {name: inner for name, inner in properties.items() if not _is_plain(inner)}}


def _is_plain(schema: object) -> bool:
    return (
        isinstance(schema, dict)
        and schema.keys() <= {"type", "title", "description"}
        and all(isinstance(value, str) for value in schema.values())
        and schema.get("type", "string") in _PLAIN
    )


# The types that msgspec checks in place of a schema. Every value of the type fits the schema, so an acceptance is always right

MAX_DEPTH = 30
MAX_TYPES = 500
"""Maximum types made of one schema: references are followed, so a small schema may expand to many."""
_REFUSALS = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
_ANNOTATIONS = frozenset(
    "$schema $comment $defs definitions title description default examples example deprecated readOnly writeOnly format "  # noqa: SIM905
    "contentEncoding contentMediaType".split()
)
"""Keywords that refuse no value. `format` is among them: jsonschema, too, ignores it without a format checker."""
_OLD = (Draft3Validator, Draft4Validator)
_COMPARED: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("ge", operator.ge),
    "maximum": ("le", operator.le),
    "exclusiveMinimum": ("gt", operator.gt),
    "exclusiveMaximum": ("lt", operator.lt),
}
_BOUNDS: Mapping[str, Mapping[str, str]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "integer": {keyword: name for keyword, (name, _) in _COMPARED.items()},
}
"""msgspec's names of the bounds of each type."""
_SCALARS: Mapping[str, Any] = {"string": str, "integer": int, "boolean": bool, "null": None, "number": int | float}
_PLAIN = {*_SCALARS, "array", "object"}


class _Leaf:
    """A custom type whose values msgspec passes to `fits`, one by one."""

    __slots__ = ()
    fits: Callable[[Any], bool | None]


class _NoType(Exception):
    """The schema cannot be expressed as a type."""


def _is_of(value: object, quick: Any) -> bool:
    try:
        msgspec.convert(value, quick, dec_hook=_checked)
    except _REFUSALS:
        return False
    return True


def _checked(kind: type[_Leaf], value: object) -> _Leaf:
    if not kind.fits(value):
        raise ValueError
    return kind()


def _leaf_of(fits: Callable[..., bool | None]) -> type[_Leaf]:
    return type("Leaf", (_Leaf,), {"fits": staticmethod(fits), "__slots__": ()})


def _fast_type(schema: Mapping[str, Any], draft: Any) -> Any:
    """Return a type whose values all fit the schema as objects; None if there is no such type."""
    if draft in _OLD:
        return None
    try:
        made = _Types(schema).of({"type": "object", **{k: v for k, v in schema.items() if k != "$id"}}, 0)
        msgspec.json.Decoder(made)  # raises if msgspec does not support the type, some unions for example
    except (_NoType, *_REFUSALS):
        return None
    return made


class _Types:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._made = 0

    def of(self, schema: Any, depth: int) -> Any:
        self._made += 1
        if depth > MAX_DEPTH or self._made > MAX_TYPES:
            raise _NoType
        if schema is True:
            return Any
        if not isinstance(schema, dict):
            raise _NoType
        left = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
        if not left:
            return Any
        if left.keys() == {"$ref"}:
            return self.of(self._referred(left["$ref"]), depth + 1)
        if left.keys() == {"anyOf"}:
            return Union[tuple(self.of(one, depth + 1) for one in left["anyOf"])]  # noqa: UP007
        if left.keys() <= {"enum", "type"} and "enum" in left:
            return self._literal(left["enum"], left.get("type"))
        kind = left.pop("type", None)
        if isinstance(kind, list):
            if left:
                raise _NoType
            return Union[tuple(self.of({"type": one}, depth + 1) for one in kind)]  # noqa: UP007
        return self._object(left, depth) if kind == "object" else self._typed(str(kind), left, depth)

    def _typed(self, kind: str, left: dict[str, Any], depth: int) -> Any:
        """Return the type of values of one kind. A keyword that is left over raises _NoType, since the type would ignore it."""
        if kind == "string" and left.keys() == {"pattern"}:
            return _leaf_of(lambda value, pattern=left["pattern"]: type(value) is str and matches(pattern, value))
        if kind == "number" and left and left.keys() <= _COMPARED.keys():
            bounds = [(_COMPARED[key][1], limit) for key, limit in left.items()]
            return _leaf_of(
                lambda value: type(value) in (int, float) and all(holds(value, limit) for holds, limit in bounds)
            )
        names = _BOUNDS.get(kind, {})
        meta = {names[key]: left.pop(key) for key in list(left) if key in names}
        if kind == "array":
            made: Any = list[self.of(left.pop("items", True), depth + 1)]  # type: ignore[misc]
        elif kind in _SCALARS:
            made = _SCALARS[kind]
        else:
            raise _NoType
        if left:
            raise _NoType
        return Annotated[made, msgspec.Meta(**meta)] if meta else made

    def _object(self, left: dict[str, Any], depth: int) -> Any:
        properties, required = left.pop("properties", {}), left.pop("required", [])
        more = left.pop("additionalProperties", True)
        if left or (more is False and not properties.keys() >= set(required)):
            raise _NoType
        members = {**dict.fromkeys(required, True), **properties}
        if not members and more is not False:
            return dict[str, self.of(more, depth + 1)]  # type: ignore[misc]
        if not isinstance(more, bool):
            raise _NoType
        types = {key: self.of(inner, depth + 1) for key, inner in members.items()}
        return object_type(types, required, is_closed=not more)

    def _literal(self, values: Any, kind: object) -> Any:
        if kind not in (None, "string") or not all(type(value) is str for value in values):
            raise _NoType
        return Literal[tuple(values)]

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/") or "$id" in self._root:
            raise _NoType
        found: Any = self._root
        for part in reference[2:].split("/"):
            if not isinstance(found, dict) or part not in found:
                raise _NoType
            found = found[part]
        return found


# Patterns are matched in linear time only, because the text may be hostile

_BACKTRACKING_CHARS = 1_000
"""Maximum characters of a pattern that RE2 refuses. Python's `re` compiles it only to see whether it is a valid pattern."""


def matches(pattern: str, text: str) -> bool | None:
    """Tell whether a pattern occurs in a text; None if it cannot be matched in linear time, which is logged once for a pattern."""
    regex = _logged(pattern)
    return None if regex is None else regex.search(text.encode("utf-8", "replace")) is not None


def _is_regex(pattern: str) -> bool:
    """Tell whether a text is a valid regular expression, whether or not it can be matched in linear time."""
    if _re2(pattern) is not None:
        return True
    try:
        re.compile(pattern[:_BACKTRACKING_CHARS])
    except (re.error, RecursionError, OverflowError):
        return False
    return len(pattern) <= _BACKTRACKING_CHARS


@lru_cache(maxsize=256)
def _logged(pattern: str) -> Any:
    if (regex := _re2(pattern)) is None:
        logger.warning("the pattern %r of a tool's schema is not checked: it is no linear-time pattern", pattern[:200])
    return regex


def _re2(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error:
        return None


# The keywords of jsonschema that are replaced


@lru_cache(maxsize=16)
def _validator_of(base: Any) -> Any:
    """Return jsonschema's validator class for a draft, with every keyword bounded in time."""
    own = {
        name: keyword
        for name, keyword in _KEYWORDS.items()
        if base.VALIDATORS.get(name) is Draft202012Validator.VALIDATORS[name]
    }
    own |= {name: _unevaluated(kind) for name, kind in _UNEVALUATED.items() if name in base.VALIDATORS}
    bounded: Any = extend(base, {name: _timed(keyword) for name, keyword in {**base.VALIDATORS, **own}.items()})  # type: ignore[no-untyped-call]

    def evolve(validator: Any, **changes: Any) -> Any:
        # jsonschema's own `evolve` takes its plain validator for an inner schema with a `$schema`, which would lose the bounds.
        inner: Any = validator_for(changes.get("schema", validator.schema), default=cast(Any, None))
        for field in attrs.fields(type(validator)):
            if field.init:
                changes.setdefault(field.alias, getattr(validator, field.name))
        return (type(validator) if inner is None else _validator_of(inner))(**changes)

    bounded.evolve = evolve
    return bounded


def _what_is(wrong: ValidationError) -> str:
    """Return the place of a schema's error and a description of it."""
    at = "/".join(str(part)[:40] for part in wrong.absolute_path) or "the whole"
    return f"{at}: {wrong.message or f'it does not satisfy {wrong.validator} {wrong.validator_value!s:.100}'}"


def _in_time() -> None:
    if time.monotonic() > _until.get(float("inf")):
        raise _OutOfTime


def _timed(keyword: Keyword) -> Keyword:
    def check(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _in_time()
        return keyword(validator, wanted, instance, schema) or iter(())

    return check


def _leaf(fits: Callable[[Any, Any, Any], bool]) -> Keyword:
    """Make a keyword whose error has no message: jsonschema's own would print the data, which may be large."""

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
    """Return a key that two values share exactly if JSON Schema calls them equal."""
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
                    yield from _member(validator, member, inner, key, pattern)


def _properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for key, inner in wanted.items():
            if key in instance:
                yield from _member(validator, instance[key], inner, key, key)


def _member(validator: Any, member: Any, inner: Any, key: str, at: str) -> Iterator[ValidationError]:
    """Check a member of an object; of one that the schema forbids (`false`), jsonschema's own error would not say which it is."""
    if inner is False:
        yield ValidationError(f"has no place for {json.dumps(key[:40])}")
    else:
        yield from validator.descend(member, inner, path=key, schema_path=at)


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


def _branches(validator: Any, wanted: Any, instance: Any) -> Iterator[list[ValidationError]]:
    """Yield the first errors of each schema of a list."""
    for index, inner in enumerate(wanted):
        yield list(islice(validator.descend(instance, inner, schema_path=index), _NAMED))


def _any_of(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    context: list[ValidationError] = []
    for errors in _branches(validator, wanted, instance):
        if not errors:
            return
        context += errors
    yield ValidationError("", context=context)


def _one_of(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    branches = list(_branches(validator, wanted, instance))
    if (fitting := branches.count([])) != 1:
        message = "fits more than one of what it may be" if fitting else ""
        yield ValidationError(message, context=[error for errors in branches for error in errors])


def _not(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.evolve(schema=wanted).is_valid(instance):
        yield ValidationError("is what the schema rules out")


def _unevaluated(kind: type[dict[str, Any] | list[Any]]) -> Keyword:
    """Return the keyword for the members of an object, or items of an array, to which no other part of the schema applies."""

    def check(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not isinstance(instance, kind):
            return
        left: dict[Any, None] = dict.fromkeys(instance if isinstance(instance, dict) else range(len(instance)))
        beside = {key: value for key, value in schema.items() if key not in _UNEVALUATED}
        _take_evaluated(validator, instance, beside, left)
        if wanted is False:
            if named := [json.dumps(key if isinstance(key, int) else key[:40]) for key in islice(left, _NAMED)]:
                yield ValidationError(f"has no place for {', '.join(named)}")
        else:
            for key in left:
                _in_time()
                yield from validator.descend(instance[key], wanted, path=key)

    return check


def _take_evaluated(validator: Any, instance: Any, schema: Any, left: dict[Any, None]) -> None:
    """Remove from `left` the members or items to which a schema applies. The instance must be valid against that schema."""
    _in_time()
    if not isinstance(schema, dict) or not left:
        return
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            resolver = validator._resolver
            found = lookup_recursive_ref(resolver) if keyword == "$recursiveRef" else resolver.lookup(schema[keyword])
            inner = validator.evolve(schema=found.contents, _resolver=found.resolver)
            _take_evaluated(inner, instance, found.contents, left)
    takes = _members if isinstance(instance, dict) else _items
    takes(validator, instance, schema, left)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for one in schema.get(keyword, ()):
            if keyword == "allOf" or _holds(validator, instance, one):
                _take_evaluated(validator, instance, one, left)
    if "if" in schema:
        holds = _holds(validator, instance, schema["if"])
        if holds:
            _take_evaluated(validator, instance, schema["if"], left)
        _take_evaluated(validator, instance, schema.get("then" if holds else "else"), left)
    for key, one in schema.get("dependentSchemas", {}).items():
        if isinstance(instance, dict) and key in instance:
            _take_evaluated(validator, instance, one, left)


def _holds(validator: Any, instance: Any, schema: Any) -> bool:
    return bool(validator.evolve(schema=schema).is_valid(instance))


def _members(validator: Any, instance: Any, schema: Any, left: dict[Any, None]) -> None:
    if not schema.keys().isdisjoint(("additionalProperties", "unevaluatedProperties", "patternProperties")):
        # These keywords report their own refusals, and patterns are not matched a second time: so nothing is left to check here.
        left.clear()
        return
    for key in schema.get("properties", ()):
        left.pop(key, None)


def _items(validator: Any, instance: Any, schema: Any, left: dict[Any, None]) -> None:
    items, first = schema.get("items"), schema.get("prefixItems", ())
    if isinstance(items, list):  # drafts until 2019-09
        items, first = schema.get("additionalItems"), items
    if items is not None or "unevaluatedItems" in schema:
        left.clear()
        return
    for index in range(len(first)):
        left.pop(index, None)
    if "contains" in schema and "contains" in validator.VALIDATORS:
        for index in list(left):
            _in_time()
            if _holds(validator, instance[index], schema["contains"]):
                del left[index]


_UNEVALUATED: Mapping[str, Any] = {"unevaluatedProperties": dict, "unevaluatedItems": list}
_FORMATS = FormatChecker(())
_FORMATS.checks("regex")(lambda value: not isinstance(value, str) or _is_regex(value))

_SIZED: Mapping[str, Any] = {"Items": list, "Length": str, "Properties": dict}
_KEYWORDS: Mapping[str, Keyword] = {
    "type": _leaf(_is_type),
    "enum": _leaf(_is_one_of),
    "const": _leaf(_same),
    "uniqueItems": _leaf(_is_unique),
    "pattern": _leaf(_fits_pattern),
    **{f"min{name}": _sized(kind, operator.ge) for name, kind in _SIZED.items()},
    **{f"max{name}": _sized(kind, operator.le) for name, kind in _SIZED.items()},
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
