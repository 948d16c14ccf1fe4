"""Lookup of the data that a tool's argument names: an artifact, by id, pointer or name, or a variable."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import listing as listings
from byref.artifacts import store, tombstones, variables
from byref.artifacts.counted import Counted
from byref.artifacts.lines import Payload
from byref.artifacts.store import Artifact
from byref.content import to_block
from byref.conversation.failures import readable_failures
from byref.conversation.scope import Scope
from byref.errors import ToolError
from byref.ingest.documents import MARKUP
from byref.interpreter.inputs import data_of
from byref.stores.frames import line_count
from byref_sandbox import Data
from byref_sandbox.values.gathering import Step, gathered, gathering

_LISTED = 20
_COMPARED = 100
"""Maximum names with which an unknown name is compared."""
_KEY_CHARS = 40
_SHOWN_CHARS = 100
_READ_CHARS = 4096
_STEP = re.compile(
    r"""\.?(?: (?P<key>[^.\[\]"'\s][^.\[\]]*) | \[(?P<position>[0-9]{1,15})\] | \[(?P<quoted>"(?:[^"\\]|\\.)*")\]
              | \['(?P<single>[^'\\]*)'\] )""",
    re.VERBOSE | re.DOTALL,
)


class NotThere(ToolError):
    """There is nothing at the path."""


@dataclass(frozen=True, slots=True)
class Target:
    """An artifact, or the part of one that a variable names."""

    artifact: Artifact
    path: variables.Path = ()
    value: object = None
    """The part's value, if `path` is not empty and the value was loaded."""
    is_variable: bool = False
    """Whether a variable names it. If so, a text that holds JSON means the parsed value, not the text."""

    @property
    def payload(self) -> Payload:
        """The bytes to read: the stored bytes of the artifact, or the part as JSON with one record per line."""
        return Extract(to_block(self.value).data) if self.path else self.artifact.payload


@dataclass(frozen=True, slots=True)
class Extract:
    """A part of an artifact as a payload in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.data)

    @property
    def line_count(self) -> int:
        """The number of lines; a last line without a line feed counts."""
        return line_count(self.data)

    def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
        """Yield all bytes as one chunk that begins at line 1."""
        if self.data:
            yield 1, self.data


def lookup(scope: Scope, keys: Collection[str]) -> dict[str, Target]:
    """Return the targets of the keys, without the values of parts. Unknown keys are left out.

    A key is looked up as an artifact's id or pointer first, then as a variable (with or without `$`), then as an artifact's
    name; the newest artifact of that name counts.
    """
    ids = [key for key in keys if store.is_id(key)]
    found = scope.ask(lambda connection: _by_ids(connection, scope, ids)) if ids else {}
    left = [key for key in keys if key not in found]
    if left:
        with readable_failures(scope):
            found |= scope.read(lambda connection: _by_names(connection, scope, left))
    for target in found.values():
        target.artifact.use()
    return found


def document_of(scope: Scope, tables: Artifact) -> Artifact | None:
    """Return the text of markup or YAML whose tables are an artifact; None of any other artifact."""
    if tables.kind != "json" or tables.step is None or not tables.has_own_text or tables.reading is not None:
        return None
    return scope.read(lambda connection: _document_of(connection, scope, tables))


def _document_of(connection: Connection, scope: Scope, tables: Artifact) -> Artifact | None:
    entry = ledger.entry(connection, scope.row, tables.step or 0)
    if entry is None or entry.kind != "output":
        return None
    # What is stored of a document: its tables, and the document.
    groups = [rows for _, *rows in entry.detail.get("stands", [])] or [entry.detail.get("artifacts", [])]
    rows: list[int] = next((rows[1:] for rows in groups if len(rows) == 2 and rows[0] == tables.row_id), [])
    found = store.by_row_ids(connection, scope.source, scope.row, rows).values()
    return next((one for one in found if one.kind == "text" and one.content_type in MARKUP.values()), None)


def as_it_came(scope: Scope, target: Target) -> Target:
    """Return the document that a name stands for as text, if its data are the tables of one; else the target itself."""
    document = document_of(scope, target.artifact) if target.is_variable and not target.path else None
    return target if document is None else replace(target, artifact=document)


def expired(scope: Scope, keys: Collection[str]) -> dict[str, str]:
    """Return, for each key of expired data, a text that says what it was, when it expired, and how to get it again."""
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
    """Return the target of a key, found as by `lookup`, as tools read it.

    Raises ToolError if there is none, which lists the existing names, and of a value that is too big to be read as JSON.
    """
    bare = key.strip().removeprefix("$")
    target = lookup(scope, [bare]).get(bare)
    if target is None:
        raise unknown(scope, key)
    if target.artifact.is_exact:
        with readable_failures(scope):
            return replace(target, artifact=target.artifact.readable)
    if not target.path or not load_parts:
        return target
    return replace(target, value=walk(target.artifact.parsed, target.path, key))


def unknown(scope: Scope, key: str) -> ToolError:
    """Return the error for a key that is unknown, or whose data has expired."""
    if gone := expired(scope, [key]):
        return ToolError(gone[key])
    return ToolError(f"no artifact or variable {key[:_SHOWN_CHARS]!r} in this conversation{listing(scope, key)}")


def walk(value: Any, path: Sequence[Step], named: str) -> Any:
    """Return the value at a path of keys and positions. Raises NotThere, which says where the path ends and what is there.

    With `Every` steps it is the list of the records there, up to the last such step; further steps go on in that list.
    """
    if last := gathering(path):
        value, path = gathered(value, path[:last]), path[last:]
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
    """Yield the possible meanings of a path as text: split at each dot, then read as code, `rows[0]["a b"].id`."""
    plain = tuple(path.split("."))
    yield plain
    spelled = path.removeprefix("$")
    if (steps := _steps(spelled)) and steps != plain:
        yield steps


def _steps(path: str) -> tuple[str, ...]:
    """Return the steps of a path in the notation of code; empty if the text is not such a path."""
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


def _position(key: Step) -> int | None:
    if isinstance(key, int):
        return key if key >= 0 else None
    return int(key) if isinstance(key, str) and key.isdecimal() and len(key) < 18 else None


def _there(value: object) -> str:
    if isinstance(value, list):
        return f"; there are {len(value):,} items, the first is 0"
    if not isinstance(value, dict):
        return ""
    names = [_short(key) for key in islice(value, _LISTED)]
    more = f" and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
    return f"; there are {', '.join(names)}{more}"


def listing(scope: Scope, key: str) -> str:
    """Return the end of an error about an unknown `key`: the newest variables and artifacts, and the name closest to the key."""
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
    """Return the newest names as a list in words, the newest last, with the number of further ones."""
    shown = [_short(name) for name in reversed(names[:_LISTED])]
    more = total.beside(len(shown))
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _short(name: str) -> str:
    return name if len(name) <= _KEY_CHARS else name[:_KEY_CHARS] + "…"


def jq_within(path: Sequence[Step], program: str) -> str:
    """Return a jq program that runs on the value at a path, where a str is an object's key and an int a position."""
    if not path:
        return program
    steps = "".join(f"[{json.dumps(key)}]" for key in path)
    return f".{steps} |\n{program}"  # the pipe binds most loosely, so the program needs no brackets


def queried_in(target: Target, program: str, path: Sequence[Step] = ()) -> tuple[Data, str]:
    """Return the data for jq, and the program that runs on the value at a path inside a target.

    jq itself walks to it. Only records of many places are gathered before: the sandbox decodes the data, and writes them as JSON.
    """
    if gathering(target.path):
        return data_of(target.artifact, target.path, for_jq=True), jq_within(path, program)
    return data_of(target.artifact, for_jq=True), jq_within((*target.path, *path), program)


def jq_fault(message: str) -> str:
    """Return jq's message about a program of `jq_within` without its position, which would count the text put before it."""
    return message.partition(" at <top-level>")[0]
