"""Fitting of arguments to the JSON Schema of their tool.

A value whose meaning is plain is coerced; for any other misfit, the model reads an error that says what does not fit.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import ValidationError
from jsonschema.exceptions import best_match

from byref.describe.shape import kind_of
from byref.errors import ToolError
from byref.references.arguments import PlainMisfit
from byref.references.schemas import CHECK_SECONDS, Schema, compiled
from byref.references.substitution import Place, Substituter, Substitution
from byref_sandbox import jsontext

MAX_ROUNDS = 8
"""Maximum rounds of coercion: a value decoded from a string may contain further text that stands for a value."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][+-]?[0-9]{1,4})?", re.ASCII)
_WORDS: Mapping[str, bool] = {"true": True, "True": True, "false": False, "False": False}
_SEEN = 100
"""Maximum records that are searched for a field that would fit."""
_NAMED = 5
_TOLD = frozenset(
    {
        "additionalProperties",
        "not",
        "oneOf",
        "patternProperties",
        "properties",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose own errors say what does not fit."""


def fitted(arguments: dict[str, Any], schema: Mapping[str, Any], references: Substituter) -> dict[str, Any]:
    """Return arguments that fit the schema: unchanged, or with text coerced where the model wrote text for a value.

    JSON, a number or a boolean written as text is replaced by its value if the schema refuses the text and accepts the value.
    Data that a reference brought is never changed, with one exception: JSON that came as text may be used as the text or as
    its value.

    Raises:
        ToolError: they do not fit; the message names the place, the expectation, the given value and the reference to it.
        PlainMisfit: the same, and none of it looks like a reference that is none.
        ConfigurationError: the schema is invalid, or refers to something that it does not contain.
    """
    wanted = compiled(schema)
    until = time.monotonic() + CHECK_SECONDS
    errors = wanted.errors(arguments, until)
    for _ in range(MAX_ROUNDS):
        coerced = [error for error in errors if _coerced(arguments, error, wanted, references)]
        if not coerced:
            break
        errors = wanted.errors(arguments, until)
    if errors:
        errors.sort(key=lambda error: len(error.absolute_path))
        # What looks like a reference is told before the rest: nobody else can say why it is not one.
        first, why = next(((one, why) for one in errors if (why := _why_text(one, references))), (errors[0], ""))
        text = _misfit(best_match([first]) or first, wanted, arguments, references, why)
        raise ToolError(text) if why else PlainMisfit(text)
    return arguments


def misfit(arguments: object, schema: Mapping[str, Any]) -> str | None:
    """Say in words why a value does not fit a schema; None if it fits. Nothing is coerced. Raises like `fitted`."""
    wanted = compiled(schema)
    errors = wanted.errors(arguments, time.monotonic() + CHECK_SECONDS)
    if not errors:
        return None
    first = min(errors, key=lambda error: len(error.absolute_path))
    wrong = best_match([first]) or first
    return f"{_spelled(tuple(wrong.absolute_path))} {_complaint(wrong, wanted, False)}"


def _coerced(arguments: dict[str, Any], error: ValidationError, wanted: Schema, references: Substituter) -> bool:
    """Replace a text by the value that it stands for, if the error is that it is text; tell whether that was done."""
    at: Place = tuple(error.absolute_path)
    text = error.instance
    if not at or error.validator not in ("type", "anyOf", "oneOf"):
        return False
    if references.brought(at) is not None:
        other = references.other_form(at, text)
        fits = other is not None and wanted.accepts(other, _types_of(error))
        if fits:
            _put(arguments, at, other)
        return fits
    if not isinstance(text, str):
        return False
    for value in _meant(text):
        if wanted.accepts(value, _types_of(error)) or (isinstance(value, dict) and "$var" in value):
            _put(arguments, at, references.substituted(value, at))
            return True
    return False


def _types_of(error: ValidationError) -> Any:
    """Return the types of the schema that refused the text. They come without its members, which may need coercion in turn."""
    if error.validator == "type":
        return {"type": error.validator_value}
    kinds: set[str] = set()
    for inner in error.context or ():
        if inner.validator == "type" and not inner.relative_path:
            value: Any = inner.validator_value
            kinds.update([value] if isinstance(value, str) else value)
    return {"type": sorted(kinds)} if kinds else False


def _meant(text: str) -> Iterator[Any]:
    """Yield the values that a text may stand for."""
    bare = text.strip()
    if bare in _WORDS:
        yield _WORDS[bare]
    elif number := _NUMBER.fullmatch(bare):
        value = float(bare) if number[2] or number[3] else int(bare)
        if math.isfinite(value):
            yield int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
    elif bare[:1] in ("{", "["):
        try:
            yield jsontext.decode(bare.encode("utf-8", "surrogatepass"))
        except jsontext.NotJSON:
            return


def _put(arguments: Any, at: Place, value: Any) -> None:
    """Set the value at a place. The containers on the way may be changed: they are copies of what the model wrote."""
    for key in at[:-1]:
        arguments = arguments[key]
    arguments[at[-1]] = value


def _why_text(error: ValidationError, references: Substituter) -> str:
    """Return why what does not fit is a text and no reference; empty if it does not look like one."""
    text = error.instance
    if not isinstance(text, str) or references.brought(tuple(error.absolute_path)) is not None:
        return ""
    return references.why_text(text)


def _misfit(
    error: ValidationError, wanted: Schema, arguments: dict[str, Any], references: Substituter, why: str
) -> str:
    at: Place = tuple(error.absolute_path)
    brought = references.brought(at)
    text = (
        f"the arguments do not fit the tool's schema: {_spelled(at)} {_complaint(error, wanted, brought is not None)}."
    )
    if brought is None:
        return f"{text[:-1]}; {why}" if why else text
    given: Any = arguments
    for key in brought.at:
        given = given[key]
    inner = _schema_at(wanted, brought.at)
    expects = _words(inner, wanted, 0)
    named = brought.reference if isinstance(brought.reference, str) else json.dumps(brought.reference)
    text += f" {named[:300]} is {_kind(given)}"
    if expects:
        text += f"; {_spelled(brought.at)} expects {expects}"
    hint = _selection(given, inner, brought, wanted)
    return f"{text}: {hint}" if hint else f'{text}. Select what fits with "path" or "jq" in {{"$var": …}}.'


def _complaint(error: ValidationError, wanted: Schema, is_data: bool) -> str:
    """Return a description of the error at a place; it does not quote data that a reference brought."""
    keyword, value = str(error.validator), error.validator_value
    if keyword in ("required", "dependentRequired", "dependencies"):
        return f"lacks a member: {error.message[:200]}"
    given = (
        _kind(error.instance)
        if is_data or not isinstance(error.instance, str | int | float)
        else (
            f"{_kind(error.instance)} {json.dumps(error.instance[:60] if isinstance(error.instance, str) else error.instance)[:80]}"
        )
    )
    if keyword in _TOLD and error.message:
        return error.message[:700]
    if keyword in ("type", "enum", "const", "anyOf", "oneOf"):
        return f"expects {_words({keyword: value}, wanted, 0) or 'something else'} and is {given}"
    return f"does not satisfy {keyword} {json.dumps(value, default=str)[:200]} and is {given}"


def _kind(value: object) -> str:
    try:
        return kind_of(value)
    except TypeError:
        return type(value).__name__


def _spelled(at: Place) -> str:
    """Return a place in the notation of code: `ids[0].name`."""
    if not at:
        return "the whole"
    text = ""
    for key in at:
        if isinstance(key, str) and key.isidentifier():
            text += f".{key}"
        else:
            text += f"[{json.dumps(key if isinstance(key, int) else key[:60])}]"
    text = text.removeprefix(".")
    return text if len(text) <= 200 else f"{text[:100]}…{text[-99:]}"


def _local(schema: Any, wanted: Schema) -> Any:
    """Return a schema, or the schema that it refers to within the whole one."""
    for _ in range(_NAMED):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Any = wanted.source
        for part in reference[2:].split("/"):
            found = found.get(part) if isinstance(found, dict) else None
        schema = found
    return schema


def _schema_at(wanted: Schema, at: Place) -> Any:
    """Return the schema of a place if `properties` and `items` lead to it; else None."""
    schema: Any = wanted.source
    for key in at:
        schema = _local(schema, wanted)
        if not isinstance(schema, dict):
            return None
        properties, items = schema.get("properties"), schema.get("items")
        if isinstance(key, int):
            schema = items
        else:
            schema = properties[key] if isinstance(properties, dict) and key in properties else None
    return _local(schema, wanted)


def _words(schema: Any, wanted: Schema, depth: int) -> str:
    """Return the expectation of a schema in a few words; empty if there is nothing to say."""
    schema = _local(schema, wanted)
    if not isinstance(schema, dict) or depth > _NAMED:
        return ""
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        shown = ", ".join(json.dumps(value)[:40] for value in values[:_NAMED])
        more = f" or {len(values) - _NAMED:,} more" if len(values) > _NAMED else ""
        return f"one of {shown}{more}" if len(values) > 1 else shown
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            words = [text for one in schema[keyword][:_NAMED] if (text := _words(one, wanted, depth + 1))]
            return " or ".join(dict.fromkeys(words))[:200]
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if kind == "array":
        inner = _words(schema.get("items"), wanted, depth + 1)
        return f"array of {inner}"[:200] if inner else "array"
    if kind == "object" and isinstance(schema.get("required"), list):
        return f"object with {', '.join(map(str, schema['required'][:_NAMED]))}"[:200]
    return str(kind) if kind else ""


def _selection(given: object, schema: Any, brought: Substitution, wanted: Schema) -> str:
    """Return a hint how to select a fitting part of the given data: a field of its records, or a member; else empty."""
    reference = (
        {"$var": brought.reference.removeprefix("$")} if isinstance(brought.reference, str) else dict(brought.reference)
    )
    if not isinstance(schema, dict) or reference.get("jq") is not None or len(json.dumps(reference)) > 200:
        return ""
    items = _local(schema.get("items"), wanted)
    if isinstance(given, list) and isinstance(items, dict) and given and type(given[0]) is dict:
        rows = given[:_SEEN]
        for key in islice(given[0], 20):
            if len(key) <= 60 and all(
                type(row) is dict
                and key in row
                and not isinstance(row[key], dict | list)
                and wanted.accepts(row[key], items)
                for row in rows
            ):
                field = f".{key}" if key.isascii() and key.isidentifier() else f".[{json.dumps(key)}]"
                return f"select a field with {json.dumps({**reference, 'jq': f'map({field})'})}"
    if isinstance(given, dict):
        for key in islice(given, 20):
            if len(key) <= 60 and wanted.accepts(given[key], schema):
                path = reference.get("path")
                steps = [*path, key] if isinstance(path, list) else key if not path and "." not in key else None
                if steps is not None:
                    return f"select a member with {json.dumps({**reference, 'path': steps})}"
    return ""
