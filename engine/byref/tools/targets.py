"""What a reader is pointed at: an artifact by id, pointer or name, or a variable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from byref import variables
from byref.artifacts import store
from byref.artifacts.frames import line_count
from byref.artifacts.lines import Payload
from byref.artifacts.store import Artifact
from byref.errors import ToolError
from byref.outputs import to_block
from byref.scope import Scope

_LISTED = 20


@dataclass(frozen=True, slots=True)
class Target:
    """An artifact, or the part of one that a variable names."""

    artifact: Artifact
    path: tuple[str, ...] = ()
    value: object = None
    """The part's value; only where `path` is not empty."""

    @property
    def payload(self) -> Payload:
        """The bytes to read: the artifact's as stored, or the part written one record a line."""
        return Extract(to_block(self.value).data) if self.path else self.artifact.payload


@dataclass(frozen=True, slots=True)
class Extract:
    """A part of an artifact, as a payload of its own."""

    data: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    @property
    def line_count(self) -> int:
        """Lines; a last line without line feed counts."""
        return line_count(self.data)

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield everything at once, from line 1 on."""
        if self.data:
            yield 1, self.data


def find(scope: Scope, key: str, *, load_parts: bool = True) -> Target:
    """Return what an id, pointer, name or variable's name stands for; ToolError names what there is."""
    bare = key.strip().removeprefix("$")
    artifact = scope.read(lambda connection: store.find(connection, scope.read, scope.row, bare))
    if artifact is not None:
        return Target(artifact)
    found = scope.read(lambda connection: variables.find(connection, scope.read, scope.row, [bare]))
    if variable := found.get(bare):
        value = variable.value() if variable.path and load_parts else None
        return Target(variable.artifact, variable.path, value)
    raise ToolError(f"no artifact or variable {key[:100]!r} in this conversation{listing(scope)}")


def listing(scope: Scope) -> str:
    """Return what there is, for an error's end."""
    bound = scope.read(lambda connection: variables.all_of(connection, scope.read, scope.row))
    if bound:
        names = [variable.name for variable in bound]
    else:
        kept = scope.read(lambda connection: store.all_of(connection, scope.read, scope.row))
        names = [artifact.name or artifact.id for artifact in kept]
    if not names:
        return "; nothing is stored yet"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"; there are: {', '.join(names[-_LISTED:])}{more}"


def jq_path(path: tuple[str, ...]) -> str:
    """Return a path as a jq filter."""
    return "." + "".join(f"[{json.dumps(key)}]" for key in path)
