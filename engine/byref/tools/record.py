"""A tool as a neutral record, and what its handler answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection

from byref.scope import Scope


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model may pass: the fields' types and descriptions are the tool's JSON Schema."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's answer; `commit`, if any, runs in the transaction of the reply's step and returns the final text."""

    content: str
    is_error: bool = False
    commit: Callable[[Connection, int], str] | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of the session's own."""

    name: str
    description: str
    arguments: type[Arguments]
    handler: Callable[[Scope, Any], Answer]
    """Raises ToolError with text for the model."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other names of arguments that models know from other systems."""
    needs_sandbox: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, without references."""
        _, components = msgspec.json.schema_components([self.arguments], ref_template="{name}")
        schema = _inlined(components[self.arguments.__name__], components)
        return {
            "type": "object",
            "properties": schema["properties"],
            "required": schema.get("required", []),
            "additionalProperties": False,
        }


def _inlined(schema: Any, components: Mapping[str, Any]) -> Any:
    """A schema with its references replaced by what they refer to; our arguments refer to no cycles."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(
                {**components[schema["$ref"]], **{k: v for k, v in schema.items() if k != "$ref"}}, components
            )
        return {key: _inlined(value, components) for key, value in schema.items() if key != "title"}
    if isinstance(schema, list):
        return [_inlined(item, components) for item in schema]
    return schema


def bounded(scope: Scope, make: Callable[[int], str]) -> str:
    """Return `make(characters)` for the most characters whose text keeps within the policy's `reply_tokens`."""
    limit = scope.policy.reply_tokens
    characters = limit * 3  # most text takes more characters a token, so that the first try holds
    for _ in range(6):
        text = make(characters)
        tokens = scope.count(text)
        if tokens <= limit:
            return text
        characters = max(200, int(characters * limit / tokens * 0.95))
    return text[: limit // 2]
