"""A tool as a record that is independent of providers, and the answer of its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection

from byref.artifacts.store import Artifact
from byref.conversation.scope import Scope
from byref.interpreter.plots import Plot

KEYS = (
    *("id", "reference", "ref", "pointer", "name", "variable", "var", "artifact", "artifact_id", "artifact_name"),
    *("pointer_or_name", "id_or_name", "artifact_ref", "variable_name"),
)
"""Names that models give to the argument that says which data is meant."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model may pass: the fields' types and descriptions are the tool's JSON Schema."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's answer; `commit`, if any, runs in the transaction of the reply's step and returns the reply's text."""

    content: str | None
    """The reply's text; None if only `commit` can make it."""
    is_error: bool = False
    commit: Callable[[Connection, int], str] | None = None
    shown: Artifact | None = None
    """An image or a document that the model is to see; `content` is its placeholder."""
    images: tuple[Plot, ...] = ()
    """Figures that the model is to see beside the text."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of the session's own."""

    name: str
    description: str
    arguments: type[Arguments]
    handler: Callable[[Scope, Any], Answer]
    """Raises ToolError with text for the model."""
    example: Mapping[str, object]
    """Arguments of a typical call, for error texts and documentation."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other names of arguments that models know from other systems; case, `_` and `-` make no difference."""
    coerce: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """By argument: turns a value as a model wrote it into what it plainly means, before its type is checked."""
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Replaces several arguments that together mean some of the tool's own by these."""
    needs_sandbox: bool = False
    is_installed: Callable[[], bool] = lambda: True
    """Whether the optional packages that it needs are installed."""
    cure: str = ""
    """What to do if they are not installed."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, in the words that every provider takes.

        No references, no unions, no defaults: optional arguments are those that are not required, and descriptions state
        defaults. What is null all the same is taken as left out.
        """
        _, components = msgspec.json.schema_components([self.arguments], ref_template="{name}")
        schema = _plain(components[self.arguments.__name__], components)
        schema.pop("description", None)  # the docstring of a class
        return schema


def _plain(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with its references and `| null` replaced by what they stand for; our arguments refer to no cycles."""
    schema = dict(schema)
    if "anyOf" in schema:
        (one,) = (option for option in schema.pop("anyOf") if option.get("type") != "null")
        return _plain({**one, **schema}, components)
    if "$ref" in schema:
        return _plain({**components[schema.pop("$ref")], **schema}, components)
    schema.pop("title", None)
    schema.pop("default", None)
    if schema.get("type") == "object":
        members = {name: _plain(member, components) for name, member in schema["properties"].items()}
        schema |= {"properties": members, "required": schema.get("required", []), "additionalProperties": False}
    return schema


_ROUNDS = 7


def bounded(scope: Scope, make: Callable[[int], str], *, least: int = 0) -> str:
    """Return what `make(characters)` gives for the most characters, from `least` on, that keep within `reply_tokens`."""
    limit = scope.policy.reply_tokens
    characters = max(least, limit * 3)  # most text takes more characters a token, so that the first try holds
    for _ in range(_ROUNDS):
        text = make(characters)
        tokens = scope.count(text)
        if tokens <= limit or characters == least:
            return text
        characters = max(least, min(characters - 1, int(characters * limit / tokens * 0.95)))
    return make(least)
