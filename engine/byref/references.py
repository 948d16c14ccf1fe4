"""References in tool arguments: names of stored data that become the data before the tool runs.

One pass: what was substituted is never looked into. A string is a reference only as a whole, and only if it is bound, so
that `"$HOME"` or a query language's `"$amount"` pass unchanged; `{"$var": …}` always is one. What a name means is the same
everywhere (`targets.lookup`); only where all of it means nothing, what stands before its first dot is looked for, and the
rest is a path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from byref import interpreter
from byref.artifacts.store import Artifact
from byref.errors import ConfigurationError, ToolError
from byref.scope import Scope
from byref.tools import plainjq
from byref.tools.arguments import as_object
from byref.tools.targets import Target, jq_path, lookup, unknown, walk
from byref_sandbox import jsontext

MAX_DEPTH = 100
MAX_REFERENCES = 1_000
"""Of one call; each place counts."""
MAX_BYTES = 256 << 20
"""Of JSON that one call reads, and of what it hands over, counted at each place; a single artifact may be larger."""
MAX_JQ_RUNS = 20
JQ_BYTES = 64 << 20
_KEYS = {"$var", "jq", "path"}


def resolve(
    scope: Scope,
    arguments: Mapping[str, Any] | str,
    schema: Mapping[str, Any] | None = None,
    *,
    tool: str | None = None,
    call_id: str | None = None,
) -> dict[str, Any]:
    """Return the arguments with every reference replaced by its data.

    `schema`, the target tool's JSON Schema, is checked afterwards. ToolError where the model named what is not there, or
    the data does not fit the schema.
    """
    given = as_object(arguments)
    found = lookup(scope, {key for name in _names(given, 0) for key in (name, name.partition(".")[0])})
    resolved = _Resolver(scope, found).resolved(given)
    if not isinstance(resolved, dict):
        raise ToolError(f"the arguments must be one JSON object, not {type(resolved).__name__}")
    if schema is not None:
        _check(resolved, schema)
    return resolved


def _names(value: object, depth: int) -> Iterator[str]:
    """Every name that may be a reference's, its path included."""
    if depth > MAX_DEPTH:
        raise ToolError(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        if (name := _name_of(value)) is not None:
            yield name
    elif isinstance(value, Mapping):
        if "$var" in value:
            if isinstance(value["$var"], str):
                yield value["$var"].removeprefix("$")
        else:
            for member in value.values():
                yield from _names(member, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names(item, depth + 1)


def _name_of(text: str) -> str | None:
    """What a string names, if it may be a reference; `$$name` is a query language's own."""
    if text.startswith("$") and not text.startswith("$$") and len(text) <= 1024:
        return text[1:]
    return text if text.startswith(("art:", "art_")) and len(text) <= 68 else None


class _Resolver:
    """One pass over the arguments of one call; every payload is read once, all work has a bound."""

    def __init__(self, scope: Scope, found: Mapping[str, Target]) -> None:
        self._scope = scope
        self._found = found
        self._payloads: dict[int, Any] = {}
        self._sizes: dict[tuple[int, tuple[str, ...]], int] = {}
        self._answers: dict[tuple[int, tuple[str, ...], str], tuple[Any, int]] = {}
        self._references = self._jq_runs = self._read = self._handed = 0

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
        name = _name_of(text)
        target, path = (None, ()) if name is None else self._target(name)
        if target is None:
            return text
        try:
            value = walk(self._payload(target.artifact), target.path, text)
            value = walk(value, path, text)
        except _TooMuch:
            raise
        except ToolError:
            return text  # a query language's own: `"$orders.total"` where there is a variable orders
        return self._handed_over(value, self._size(target.artifact, (*target.path, *path), value))

    def _reference(self, reference: Mapping[str, Any]) -> Any:
        named, program = reference["$var"], reference.get("jq")
        if not isinstance(named, str) or not reference.keys() <= _KEYS:
            raise ToolError(
                'a reference is {"$var": "name"}, with "path" or "jq" beside it if wanted, and nothing else'
            )
        if program is not None and not isinstance(program, str):
            raise ToolError(f'"jq" must be a string, not {type(program).__name__}')
        target, inner = self._target(named.removeprefix("$"))
        if target is None:
            raise unknown(self._scope, named)
        path = (*inner, *_path(reference.get("path", "")))
        if program is not None:
            return self._handed_over(*self._jq(target, path, program, named))
        value = walk(walk(self._payload(target.artifact), target.path, named), path, named)
        return self._handed_over(value, self._size(target.artifact, (*target.path, *path), value))

    def _target(self, name: str) -> tuple[Target | None, tuple[str, ...]]:
        """What a name stands for, and the path behind it."""
        if name in self._found:
            return self._found[name], ()
        head, *path = name.split(".")
        return self._found.get(head), tuple(path)

    def _payload(self, artifact: Artifact) -> Any:
        if artifact.row_id not in self._payloads:
            self._read += artifact.payload.size
            if self._payloads and self._read > MAX_BYTES:
                raise _TooMuch(f"the references of one call are to more than {MAX_BYTES >> 20} MB of data; name less")
            self._payloads[artifact.row_id] = artifact.value
        return self._payloads[artifact.row_id]

    def _size(self, artifact: Artifact, path: tuple[str, ...], value: Any) -> int:
        if not path:
            return artifact.payload.size
        key = artifact.row_id, path
        if key not in self._sizes:
            try:
                self._sizes[key] = len(msgspec.json.encode(value))
            except (ValueError, OverflowError, RecursionError):  # lone surrogates, integers over 64 bits, depth
                self._sizes[key] = artifact.payload.size
        return self._sizes[key]

    def _handed_over(self, value: Any, size: int) -> Any:
        """Count a reference and its bytes."""
        self._references += 1
        if self._references > MAX_REFERENCES:
            raise _TooMuch(f"more than {MAX_REFERENCES:,} references in one call; resolve fewer")
        self._handed += size
        if self._references > 1 and self._handed > MAX_BYTES:
            raise _TooMuch(f"the references of one call stand for more than {MAX_BYTES >> 20} MB; hand over less")
        return value

    def _jq(self, target: Target, path: tuple[str, ...], program: str, named: str) -> tuple[Any, int]:
        """The answer of a jq program, exact or an error, and its size."""
        key = target.artifact.row_id, (*target.path, *path), program
        if key not in self._answers:
            try:
                pick = plainjq.compiled(program)
                value = walk(walk(self._payload(target.artifact), target.path, named), path, named)
                outputs = list(pick(value))
                whole = outputs[0] if len(outputs) == 1 else outputs
                self._answers[key] = whole, self._size(target.artifact, (*target.path, *path, f"jq {program}"), whole)
            except plainjq.NotPlain:
                self._answers[key] = self._run_jq(target, path, program, named)
        return self._answers[key]

    def _run_jq(self, target: Target, path: tuple[str, ...], program: str, named: str) -> tuple[Any, int]:
        scope = self._scope
        if scope.sandbox is None:
            raise ToolError("jq is not available here, but for plain paths; name the variable alone, or with a path")
        self._jq_runs += 1
        if self._jq_runs > MAX_JQ_RUNS:
            raise ToolError(f"more than {MAX_JQ_RUNS} jq programs in one call; use paths, or code")
        steps: list[str | int] = list(target.path)
        if path:
            value = walk(self._payload(target.artifact), target.path, named)
            walk(value, path, named)
            for name in path:
                steps.append(int(name) if isinstance(value, list) else name)
                value = value[steps[-1]]
        # A line break ends a comment, so that one in the program cannot take the bracket away.
        whole = f"{jq_path(steps)} | ({program}\n)"
        data = interpreter.data_of(target.artifact)
        with interpreter.readable_failures():
            reply = scope.sandbox.jq(whole, data, limits=interpreter.limits_of(scope), max_bytes=JQ_BYTES)
        if reply.error is not None:
            raise ToolError(f"jq {program[:200]!r}: {reply.error.message}")
        if reply.truncated:
            raise ToolError(f"jq {program[:200]!r} gives more than can be handed over; select less")
        outputs = [jsontext.decode(output) for output in reply.outputs]
        if plainjq.has_rounded(outputs):
            raise ToolError(
                f"jq {program[:200]!r} gives integers beyond 2**53, which jq rounds; plain picks are exact "
                "(.[0].id, .[2:5], map(.id), .rows[].id), and so is code"
            )
        return outputs[0] if len(outputs) == 1 else outputs, sum(map(len, reply.outputs))


class _TooMuch(ToolError):
    """A bound of the call as a whole."""


def _path(given: object) -> Sequence[str]:
    """A reference's `path` as keys."""
    if isinstance(given, str):
        return given.split(".") if given else []
    if isinstance(given, list | tuple) and all(type(key) in (str, int) for key in given):
        if any(type(key) is int and not 0 <= key < 1 << 53 for key in given):
            raise ToolError('"path": positions are counted from 0')
        return [str(key) for key in given]
    raise ToolError(f'"path" must be text like "rows.0.id" or an array of keys and positions, not {given!r:.100}')


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
