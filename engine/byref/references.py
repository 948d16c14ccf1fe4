"""References in tool arguments: names of stored data that become the data before the tool runs.

One pass: what was substituted is never looked into. A string is a reference only as a whole, and only if it is bound, so
that `"$HOME"` or a query language's `"$amount"` pass unchanged; `{"$var": …}` always is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from byref import interpreter, variables
from byref.artifacts import store
from byref.artifacts.store import Artifact
from byref.errors import ConfigurationError, ToolError
from byref.scope import Scope
from byref.tools.arguments import as_object
from byref.tools.targets import Target, find, jq_path
from byref.variables import Variable
from byref_sandbox import jsontext

MAX_DEPTH = 100
MAX_REFERENCES = 1_000
JQ_BYTES = 64 << 20
_KEYS = {"$var", "jq", "path"}


def resolve(
    scope: Scope, arguments: Mapping[str, Any] | str, schema: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments with every reference replaced by its data.

    `schema`, the target tool's JSON Schema, is checked afterwards. ToolError where the model named what is not there, or
    the data does not fit the schema.
    """
    given = as_object(arguments)
    names = set(_names(given, 0))
    if len(names) > MAX_REFERENCES:
        raise ToolError(f"{len(names):,} references in one call; at most {MAX_REFERENCES:,} are resolved")
    bound: dict[str, Variable] = {}
    if names:
        bound = scope.read(lambda connection: variables.find(connection, scope.read, scope.row, names))
    resolved: dict[str, Any] = _Resolver(scope, bound).resolved(given)
    if schema is not None:
        _check(resolved, schema)
    return resolved


def _names(value: object, depth: int) -> Iterator[str]:
    """Every name that may be a variable's."""
    if depth > MAX_DEPTH:
        raise ToolError(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        if _names_data(value):
            yield value[1:].partition(".")[0]
    elif isinstance(value, Mapping):
        if "$var" in value:
            if isinstance(value["$var"], str):
                yield value["$var"].removeprefix("$").partition(".")[0]
        else:
            for member in value.values():
                yield from _names(member, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names(item, depth + 1)


def _names_data(text: str) -> bool:
    """Tell whether a string may be a reference; `$$name` is a query language's own."""
    return text.startswith("$") and not text.startswith("$$") and len(text) <= 1024


class _Resolver:
    """One pass over the arguments of one call; every payload is read once."""

    def __init__(self, scope: Scope, bound: Mapping[str, Variable]) -> None:
        self._scope = scope
        self._bound = bound
        self._payloads: dict[int, Any] = {}

    def resolved(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, Mapping):
            if "$var" in value:
                return self._reference(value)
            return {key: self.resolved(member) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.resolved(item) for item in value]
        return value

    def _string(self, text: str) -> Any:
        if text.startswith(("art:", "art_")) and len(text) <= 68:
            scope = self._scope
            artifact = scope.read(lambda connection: store.find(connection, scope.read, scope.row, text))
            return text if artifact is None else self._payload(artifact)
        name, *path = text[1:].split(".") if _names_data(text) else ("",)
        if name not in self._bound:
            return text
        try:
            return _walk(self._value(self._bound[name]), path, text)
        except ToolError:
            return text  # a query language's own: `"$orders.total"` where there is a variable orders

    def _reference(self, reference: Mapping[str, Any]) -> Any:
        named, program, given = reference["$var"], reference.get("jq"), reference.get("path", [])
        if not isinstance(named, str) or not reference.keys() <= _KEYS:
            raise ToolError(
                'a reference is {"$var": "name"}, with "path" or "jq" beside it if wanted, and nothing else'
            )
        if program is not None and not isinstance(program, str):
            raise ToolError(f'"jq" must be a string, not {type(program).__name__}')
        name, *path = named.removeprefix("$").split(".")
        path += given.split(".") if isinstance(given, str) else [str(key) for key in given]
        variable = self._bound.get(name)
        if variable is None:
            target = find(self._scope, named, load_parts=False)
        else:
            target = Target(variable.artifact, variable.path)
        if program is not None:
            return _jq(self._scope, target, tuple(path), program)
        return _walk(self._payload(target.artifact), [*target.path, *path], named)

    def _value(self, variable: Variable) -> Any:
        return _walk(self._payload(variable.artifact), list(variable.path), variable.name)

    def _payload(self, artifact: Artifact) -> Any:
        if artifact.row_id not in self._payloads:
            self._payloads[artifact.row_id] = artifact.value
        return self._payloads[artifact.row_id]


def _walk(value: Any, path: Sequence[str], named: str) -> Any:
    for depth, key in enumerate(path):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and len(key) < 18 and int(key) < len(value):
            value = value[int(key)]
        else:
            at = ".".join(path[:depth]) or "its top"
            there = f"; there are {', '.join(list(value)[:20])}" if isinstance(value, dict) else ""
            raise ToolError(f"{named[:200]}: no {key[:100]!r} at {at}{there}")
    return value


def _jq(scope: Scope, target: Target, path: tuple[str, ...], program: str) -> Any:
    if scope.sandbox is None:
        raise ToolError("jq is not available here; name the variable alone")
    whole = f"{jq_path(target.path + path)} | ({program}\n)"
    data = interpreter.data_of(target.artifact)
    with interpreter.readable_failures():
        reply = scope.sandbox.jq(whole, data, limits=interpreter.limits_of(scope), max_bytes=JQ_BYTES)
    if reply.error is not None:
        raise ToolError(f"jq {program[:200]!r}: {reply.error.message}")
    if reply.truncated:
        raise ToolError(f"jq {program[:200]!r} gives more than can be handed over; select less")
    outputs = [jsontext.decode(output) for output in reply.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


def _check(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    import jsonschema

    try:
        validator = jsonschema.validators.validator_for(dict(schema))
        validator.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise ConfigurationError(f"the schema of the target tool is invalid: {error.message}") from error
    misfit = jsonschema.exceptions.best_match(validator(schema).iter_errors(arguments))
    if misfit is not None:
        at = "".join(f"[{json.dumps(key)}]" for key in misfit.absolute_path)
        raise ToolError(f"arguments{at} do not fit the tool's schema: {misfit.message[:500]}")
