"""The types that msgspec checks in place of a JSON Schema: every value of the type fits, so that acceptance is exact."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union

import jsonschema
import msgspec

from byref.references.regexes import matches

_REFUSALS = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
MAX_DEPTH = 30
MAX_TYPES = 500
"""Of one schema: references are followed, so that a small schema may stand for many."""
_SAID_ONLY = frozenset(
    "$schema $comment $defs definitions title description default examples example deprecated readOnly writeOnly format "  # noqa: SIM905
    "contentEncoding contentMediaType".split()
)
"""Keywords that refuse nothing: `format` is an annotation, as it is without a checker in jsonschema."""
_OLD = (jsonschema.Draft3Validator, jsonschema.Draft4Validator)
_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
_LENGTHS = {
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
_SCALARS: Mapping[str, Any] = {"string": str, "integer": int, "boolean": bool, "null": None}


_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}


class _Leaf:
    """A type whose values are checked one by one."""

    __slots__ = ()
    fits: Callable[[Any], bool | None]


class _NoType(Exception):
    """The schema says more than a type can."""


def is_fast(value: object, quick: Any) -> bool:
    """Tell whether a value is of a schema's fast type; one that is not may fit the schema all the same."""
    try:
        msgspec.convert(value, quick, dec_hook=_leaf)
    except _REFUSALS:
        return False
    return True


def _leaf(kind: type[_Leaf], value: object) -> _Leaf:
    if not kind.fits(value):
        raise ValueError
    return kind()


def _leaf_of(fits: Callable[..., bool | None]) -> type[_Leaf]:
    return type("Leaf", (_Leaf,), {"fits": staticmethod(fits), "__slots__": ()})


def fast_type(schema: Mapping[str, Any], draft: Any) -> Any:
    """Return a type of which every value fits the schema of a JSON object, or None."""
    if draft in _OLD:
        return None
    try:
        made = _Types(schema).of({"type": "object", **{k: v for k, v in schema.items() if k != "$id"}}, 0)
        msgspec.json.Decoder(made)  # what msgspec cannot do in one union, or at all, is refused here
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
        says = {key: value for key, value in schema.items() if key not in _SAID_ONLY}
        if not says:
            return Any
        if says.keys() == {"$ref"}:
            return self.of(self._referred(says["$ref"]), depth + 1)
        if says.keys() == {"anyOf"}:
            return Union[tuple(self.of(one, depth + 1) for one in says["anyOf"])]  # noqa: UP007
        if says.keys() <= {"enum", "type"} and "enum" in says:
            return self._literal(says["enum"], says.get("type"))
        kind = says.pop("type", None)
        if isinstance(kind, list):
            if says:
                raise _NoType
            return Union[tuple(self.of({"type": one}, depth + 1) for one in kind)]  # noqa: UP007
        return self._typed(kind, says, depth)

    def _typed(self, kind: object, says: dict[str, Any], depth: int) -> Any:
        if kind == "object":
            return self._object(says, depth)
        lengths = _LENGTHS.get(str(kind), {})
        if kind == "string" and "pattern" in says and not says.keys() - {"pattern"}:
            return _leaf_of(lambda value, pattern=says["pattern"]: type(value) is str and matches(pattern, value))
        if kind == "number" and says and says.keys() <= _COMPARED.keys():
            bounds = [(_COMPARED[key], limit) for key, limit in says.items()]
            return _leaf_of(
                lambda value: type(value) in (int, float) and all(holds(value, limit) for holds, limit in bounds)
            )
        if kind == "integer":
            lengths = _BOUNDS
        meta = {lengths[key]: says.pop(key) for key in list(says) if key in lengths}
        if kind == "array":
            made: Any = list[self.of(says.pop("items", True), depth + 1)]  # type: ignore[misc]
        elif kind == "number":
            made = int | float
        elif kind in _SCALARS:
            made = _SCALARS[str(kind)]
        else:
            raise _NoType
        if says:
            raise _NoType
        return Annotated[made, msgspec.Meta(**meta)] if meta else made

    def _object(self, says: dict[str, Any], depth: int) -> Any:
        properties, required = says.pop("properties", {}), says.pop("required", [])
        more = says.pop("additionalProperties", True)
        if says or (more is False and not properties.keys() >= set(required)):
            raise _NoType
        members = {**dict.fromkeys(required, True), **properties}
        if not members and more is not False:
            return dict[str, self.of(more, depth + 1)]  # type: ignore[misc]
        if not isinstance(more, bool):
            raise _NoType
        fields: list[Any] = []
        for index, (key, inner) in enumerate(members.items()):
            made = self.of(inner, depth + 1)
            if key in required:
                fields.append((f"f{index}", made))
            else:
                fields.append((f"f{index}", made, msgspec.UNSET))
        names = {f"f{index}": key for index, key in enumerate(members)}
        return msgspec.defstruct(
            "Members", fields, kw_only=True, rename=names, forbid_unknown_fields=not more, gc=False
        )

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
