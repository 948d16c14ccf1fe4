"""What a tool's argument points at: an artifact, by id, pointer or name, or a variable."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from byref.artifacts import listing as listings
from byref.artifacts import store, tombstones, variables
from byref.artifacts.counted import Counted
from byref.artifacts.lines import Payload
from byref.artifacts.store import Artifact
from byref.content import to_block
from byref.conversation.scope import Scope
from byref.errors import ToolError
from byref.stores.frames import line_count

_LISTED = 20
_COMPARED = 100
"""An unknown name is compared with so many names."""
_KEY_CHARS = 40
_SHOWN_CHARS = 100
_READ_CHARS = 4096
_STEP = re.compile(
    r"""\.?(?: (?P<key>[^.\[\]"'\s][^.\[\]]*) | \[(?P<position>[0-9]{1,15})\] | \[(?P<quoted>"(?:[^"\\]|\\.)*")\]
              | \['(?P<single>[^'\\]*)'\] )""",
    re.VERBOSE | re.DOTALL,
)


class NotThere(ToolError):
    """A path leads to nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """An artifact, or the part of one that a variable names."""

    artifact: Artifact
    path: tuple[str, ...] = ()
    value: object = None
    """The part's value; only where `path` is not empty."""
    is_variable: bool = False
    """Whether a variable names it: then a text that holds JSON means the parsed value, not the text."""

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


def lookup(scope: Scope, keys: Collection[str]) -> dict[str, Target]:
    """Return what the keys stand for, without the parts' values; what is not there is left out.

    There is one order: an artifact's id or pointer, then a variable (with or without `$`), then an artifact's name, of
    which the newest.
    """
    ids = [key for key in keys if store.is_id(key)]
    found = scope.ask(lambda connection: _by_ids(connection, scope, ids)) if ids else {}
    left = [key for key in keys if key not in found]
    if left:
        found |= scope.read(lambda connection: _by_names(connection, scope, left))
    for target in found.values():
        target.artifact.use()
    return found


def expired(scope: Scope, keys: Collection[str]) -> dict[str, str]:
    """Return the text for each key that names what has expired: what it was, when it went, how to have it again."""
    gone = scope.read(lambda connection: tombstones.find(connection, scope.row, keys)) if keys else {}
    return {key: tombstone.message(key) for key, tombstone in gone.items()}


def _by_ids(connection: Connection, scope: Scope, ids: Collection[str]) -> dict[str, Target]:
    return {key: Target(one) for key, one in store.by_ids(connection, scope.source, scope.row, ids).items()}


def _by_names(connection: Connection, scope: Scope, names: Collection[str]) -> dict[str, Target]:
    bound = variables.find(connection, scope.source, scope.row, names)
    found = {key: Target(variable.artifact, variable.path, is_variable=True) for key, variable in bound.items()}
    left = [key for key in names if key not in found]
    return found | {key: Target(one) for key, one in store.by_names(connection, scope.source, scope.row, left).items()}


def find(scope: Scope, key: str, *, load_parts: bool = True) -> Target:
    """Return what a key stands for, as `lookup`; ToolError names what there is."""
    bare = key.strip().removeprefix("$")
    target = lookup(scope, [bare]).get(bare)
    if target is None:
        raise unknown(scope, key)
    if not target.path or not load_parts:
        return target
    return replace(target, value=walk(target.artifact.parsed, target.path, key))


def unknown(scope: Scope, key: str) -> ToolError:
    """Return the error for a key that stands for nothing, or whose data has expired."""
    if gone := expired(scope, [key]):
        return ToolError(gone[key])
    return ToolError(f"no artifact or variable {key[:_SHOWN_CHARS]!r} in this conversation{listing(scope, key)}")


def walk(value: Any, path: Sequence[str | int], named: str) -> Any:
    """Return what is at a path: keys of objects, positions in arrays. NotThere says where it ends and what is there."""
    for depth, key in enumerate(path):
        if isinstance(value, dict) and (member := str(key)) in value:
            value = value[member]
        elif isinstance(value, list) and (index := _position(key)) is not None and index < len(value):
            value = value[index]
        else:
            at = ".".join(map(str, path[:depth]))[:_SHOWN_CHARS] or "its top"
            raise NotThere(f"{named[:200]}: no {str(key)[:_SHOWN_CHARS]!r} at {at}{_there(value)}")
    return value


def readings(path: str) -> Iterator[tuple[str, ...]]:
    """Yield what a path as text may mean: split at each dot, and then as code spells it, `rows[0]["a b"].id`."""
    plain = tuple(path.split("."))
    yield plain
    spelled = path.removeprefix("$")
    if (steps := _steps(spelled)) and steps != plain:
        yield steps


def _steps(path: str) -> tuple[str, ...]:
    """The steps of a path as code spells it; none if it is no such path."""
    steps: list[str] = []
    at = 0
    while at < len(path) <= _READ_CHARS:
        step = _STEP.match(path, at)
        if step is None or (at and step["key"] and path[at] != "."):
            return ()
        try:
            steps.append(json.loads(step["quoted"]) if step["quoted"] else step[step.lastgroup or 0])
        except ValueError:  # an escape that JSON does not have
            return ()
        at = step.end()
    return tuple(steps)


def _position(key: str | int) -> int | None:
    if isinstance(key, int):
        return key if key >= 0 else None
    return int(key) if key.isdecimal() and len(key) < 18 else None


def _there(value: object) -> str:
    if isinstance(value, list):
        return f"; there are {len(value):,} items, the first is 0"
    if not isinstance(value, dict):
        return ""
    names = [_short(key) for key in islice(value, _LISTED)]
    more = f" and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
    return f"; there are {', '.join(names)}{more}"


def listing(scope: Scope, key: str) -> str:
    """Return what there is, for the end of an error that `key` means nothing: variables and artifacts, the newest of each."""
    head = key[:_SHOWN_CHARS].removeprefix("$")
    heads = list(dict.fromkeys((head, re.split(r"[.\[]", head)[0])))
    (named, variable_count), (kept, artifact_count), beside = scope.read(
        lambda connection: (
            variables.newest(connection, scope.row, _COMPARED),
            listings.newest_unbound(connection, scope.row, _COMPARED),
            [name for head in heads for name in variables.beside(connection, scope.row, head)],
        )
    )
    names = [variable.name for variable in named]
    others = list(dict.fromkeys(artifact.name or artifact.id for artifact in kept))
    if not names and not others:
        return "; nothing is stored yet"
    text = f"; there are: {_newest(names, variable_count)}" if names else ""
    if others:
        text += f"; {'artifacts' if names else 'there are'}: {_newest(others, artifact_count)}"
    near = next((match for head in heads for match in get_close_matches(head, [*names, *others, *beside], 1)), None)
    return text if near is None else f"{text}. Did you mean {_short(near)!r}?"


def _newest(names: list[str], total: Counted) -> str:
    """The newest of some names, the last of all at the end."""
    shown = [_short(name) for name in reversed(names[:_LISTED])]
    more = total.beside(len(shown))
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _short(name: str) -> str:
    return name if len(name) <= _KEY_CHARS else name[:_KEY_CHARS] + "…"


def jq_within(path: Sequence[str | int], program: str) -> str:
    """Return a jq program that runs on what is at a path: text is an object's key, a number a position."""
    steps = "".join(f"[{json.dumps(key)}]" for key in path)
    return f".{steps} |\n{program}"  # nothing binds more loosely than the pipe, so that brackets are not needed


def jq_fault(message: str) -> str:
    """Return jq's message on a program of `jq_within` without the place, which counts what we put before it."""
    return message.partition(" at <top-level>")[0]
