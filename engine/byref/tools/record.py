"""The record of a tool, which is independent of providers, and the answer of its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection

from byref.artifacts.store import Artifact
from byref.calling.running import Calls
from byref.conversation.scope import Scope
from byref.functions import Function
from byref.interpreter.plots import Plot
from byref.policy import Policy

KEYS = (
    *("id", "reference", "ref", "pointer", "name", "variable", "var", "artifact", "artifact_id", "artifact_name"),
    *("pointer_or_name", "id_or_name", "artifact_ref", "variable_name"),
)
"""Names that models give to the argument that says which data is meant."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments that a model may pass. The fields' types and descriptions become the tool's JSON Schema."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's answer. `commit`, if any, runs in the transaction of the reply's step and returns the reply's text."""

    content: str | None
    """The reply's text; None if only `commit` can make it."""
    is_error: bool = False
    commit: Callable[[Connection, int], str] | None = None
    shown: Artifact | None = None
    """An image or a document that is shown to the model; `content` is its placeholder."""
    images: tuple[Plot, ...] = ()
    """Figures that are shown to the model beside the text."""
    calls: Calls | None = None
    """The functions that the code has called, or waits for."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One of the session's own tools."""

    name: str
    description: str
    arguments: type[Arguments]
    handler: Callable[[Scope, Any], Answer]
    """The function that answers a call; it raises ToolError with text for the model."""
    example: Mapping[str, object]
    """Arguments of a typical call, for error texts and documentation."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other names of arguments, which models know from other systems. Case, `_` and `-` make no difference."""
    coerce: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """By argument: a function that turns a value as models write it into the value meant, before its type is checked."""
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """A function that replaces several arguments, which together mean some of the tool's own, by these."""
    needs_sandbox: bool = False
    is_installed: Callable[[], bool] = lambda: True
    """A function that tells whether the optional packages that the tool needs are installed."""
    cure: str = ""
    """What to do if they are not installed."""
    describe_more: Callable[[Policy, Sequence[str], Sequence[Function]], str] = lambda _policy, _modules, _functions: ""
    """A function that returns what the description adds for a session's policy, the modules that its code may also import, and the
    functions that it may call."""

    def described(self, policy: Policy, modules: Sequence[str], functions: Sequence[Function] = ()) -> str:
        """Return the description for sessions with that policy, whose code may also import `modules` and call `functions`."""
        return self.description + self.describe_more(policy, modules, functions)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, in keywords that every provider accepts.

        It has no references, unions or defaults. Arguments that are not required are optional, and descriptions state defaults.
        A null that a model writes nevertheless counts as an argument that was left out.
        """
        _, components = msgspec.json.schema_components([self.arguments], ref_template="{name}")
        schema = _plain(components[self.arguments.__name__], components)
        schema.pop("description", None)  # msgspec takes it from the class's docstring
        return schema


def _plain(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with its references and `| null` replaced by the types that they mean. Our arguments have no cycles."""
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


def most_characters(scope: Scope, least: int = 0) -> int:
    """Return the characters of the longest reply that `bounded` asks for; most text has more than three a token, so it fits."""
    return max(least, scope.policy.reply_tokens * 3)


def bounded(scope: Scope, make: Callable[[int], str], *, least: int = 0) -> str:
    """Return `make(characters)` for the largest number of characters, at least `least`, whose text fits into `reply_tokens`.

    No number is above `most_characters`.
    """
    limit, characters = scope.policy.reply_tokens, most_characters(scope, least)
    for _ in range(_ROUNDS):
        text = make(characters)
        tokens = scope.count(text)
        if tokens <= limit or characters == least:
            return text
        characters = max(least, min(characters - 1, int(characters * limit / tokens * 0.95)))
    return make(least)
