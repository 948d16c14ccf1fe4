"""Substitution of references by their data, in one pass over the arguments of one call.

The arguments come from a model and the data from tools, so all work is bounded: depth, references, bytes and jq runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import tombstones
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Path, is_name
from byref.conversation.failures import readable_failures
from byref.conversation.scope import Scope
from byref.errors import ToolError, shown
from byref.references.projection import Unfit, cut_out, projected
from byref.references.targets import (
    NotThere,
    Target,
    document_of,
    jq_fault,
    lookup,
    queried_in,
    readings,
    unknown,
    walk,
)
from byref_sandbox import jsontext
from byref_sandbox.code import plainjq
from byref_sandbox.code.picks import Filter, NotPlain, Pick

MAX_DEPTH = 100
MAX_REFERENCES = 1_000
"""Maximum references in one call; a name used in two places counts twice."""
MAX_BYTES = 256 << 20
"""Maximum bytes of JSON that one call reads, and that it passes on, where each use counts. A single artifact may be larger."""
MAX_JQ_RUNS = 20
JQ_BYTES = 64 << 20
NAME_CHARS = 1024
"""Maximum characters of a reference; a longer string is plain text."""
_KEYS = frozenset({"$var", "jq", "path"})

T = TypeVar("T")

Place = tuple[str | int, ...]
"""A place in the arguments: the keys and positions that lead to it from the top."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """A reference that was replaced."""

    reference: str | Mapping[str, Any]
    """The reference as the model wrote it."""
    artifact: Artifact
    at: Place
    size: int
    """Bytes of the data as JSON."""
    is_whole: bool
    """Whether it brought the whole artifact rather than a part of it."""


class TooMuch(ToolError):
    """All references of the call together exceed a bound."""


class Substituter:
    """Replaces the references of one call.

    Each payload is read once. If only one reference names it, only the part that this reference needs is decoded.
    """

    def __init__(self, scope: Scope, *, enabled: bool = True) -> None:
        self.done: dict[Place, Substitution] = {}
        self._enabled = enabled
        self._scope = scope
        self._found: dict[str, Target] = {}
        self._gone: dict[str, tombstones.Tombstone] = {}
        """Tombstones of names whose data has expired."""
        self._counted: set[int] = set()
        self._shared: set[int] = set()
        self._payloads: dict[int, Any] = {}
        self._texts: dict[int, str] = {}
        self._parts: dict[tuple[int, Path], tuple[Any, int]] = {}
        self._answers: dict[tuple[int, Path, str], tuple[Any, int]] = {}
        self._readable: dict[int, Artifact] = {}
        self._jq_runs = self._read = self._handed = 0
        self._jq_seconds = scope.policy.run_seconds

    def substituted(self, value: Any, at: Place = ()) -> Any:
        """Return a copy of the value that the model wrote at a place, with data in place of its references.

        Raises ToolError for a reference that cannot be replaced, and SessionGone for one of a conversation that has ended.
        """
        names = list(_names(value, 0))
        if not self._enabled:
            return _copy(value)
        heads = {head for name in names for head in _heads(name)}
        self._found |= lookup(self._scope, heads - self._found.keys())
        if unknown_heads := heads - self._found.keys() - self._gone.keys():
            self._gone |= self._scope.read(lambda connection: self._gone_in(connection, unknown_heads))
        # Data that several references name is decoded once as a whole; a single reference gets only its part decoded.
        self._shared |= {row for row, times in Counter(self._rows(names)).items() if times > 1}
        return self._copied(value, at)

    def _gone_in(self, connection: Connection, heads: Collection[str]) -> dict[str, tombstones.Tombstone]:
        # A deleted conversation binds no names, so its references would pass as texts, as names that never were.
        ledger.see_that_it_is_open(connection, self._scope.row)
        return tombstones.find(connection, self._scope.row, heads)

    def _rows(self, names: list[str]) -> Iterator[int]:
        """Yield, for each name, the row ids of the artifacts that it may mean."""
        for name in names:
            yield from {self._found[head].artifact.row_id for head in _heads(name) if head in self._found}

    def brought(self, at: Place) -> Substitution | None:
        """Return the reference that brought the data at a place; None if the model itself wrote that value."""
        return next((self.done[at[:end]] for end in range(len(at) + 1) if at[:end] in self.done), None)

    def why_text(self, text: str) -> str:
        """Return why a text that looks like a reference was not replaced.

        The result is empty if the text does not look like one, or if references are disabled.
        """
        name = _name_of(text)
        if not self._enabled or name is None or not (is_name(_heads(name)[-1]) or name == text):
            return ""
        try:
            self._reference({"$var": name}, ())
        except ToolError as error:
            return str(error)
        return ""

    def _copied(self, value: Any, at: Place) -> Any:
        if isinstance(value, str):
            return self._string(value, at)
        if isinstance(value, Mapping):
            if self._is_reference(value):
                return self._reference(value, at)
            return {key: self._copied(member, (*at, key)) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self._copied(item, (*at, index)) for index, item in enumerate(value)]
        return value

    def _is_reference(self, value: Mapping[str, Any]) -> bool:
        """Tell whether a mapping is a reference, even a mistaken one, rather than data that happens to have a key `$var`."""
        if "$var" not in value:
            return False
        if value.keys() <= _KEYS:
            return True
        # With other keys beside it, a mapping may be data of another tool. It is a (mistaken) reference only if it names ours.
        named = value["$var"]
        return isinstance(named, str) and any(head in self._found for head in _heads(named.removeprefix("$")))

    def _string(self, text: str, at: Place) -> Any:
        name = _name_of(text)
        if name is None:
            return text
        by_id = name is text
        for target, path in self._meanings(name, by_id=by_id):
            try:
                value, size = self._part(target, path, text)
            except NotThere:
                continue  # it may belong to a query language: `"$orders.total"` in a session with a variable `orders`
            return self._handed_over(value, Substitution(text, target.artifact, at, size, not (*target.path, *path)))
        # The text passes unchanged if it names nothing. If it names data that has expired, the tool would get a useless text, so
        # the model is told what expired and how to get it again.
        for head in _heads(name):
            if (gone := self._gone.get(head)) is not None and (not by_id or _is_id(head, gone.id)):
                raise ToolError(gone.message(head))
        return text

    def _reference(self, reference: Mapping[str, Any], at: Place) -> Any:
        named, path, program = reference["$var"], reference.get("path"), reference.get("jq")
        if not isinstance(named, str) or not reference.keys() <= _KEYS:
            raise ToolError(
                'a reference is {"$var": "name"}, with "path" or "jq" beside it if wanted, and nothing else'
            )
        if program is not None and not isinstance(program, str):
            raise ToolError(f'"jq" must be a string, not {type(program).__name__}')
        first: ToolError | None = None
        for target, inner in self._meanings(named.removeprefix("$")):
            # `orders.items` may be a variable of that name or a path inside `orders`: the first meaning that leads to data counts,
            # and if none does, the error of the likeliest one.
            for further in _paths(path):
                keys = (*inner, *further)
                try:
                    if program is None:
                        value, size = self._part(target, keys, named)
                    else:
                        value, size = self._jq(target, keys, program, named)
                except NotThere as error:
                    first = first or error
                    continue
                is_whole = program is None and not (*target.path, *keys)
                return self._handed_over(value, Substitution(reference, target.artifact, at, size, is_whole))
        raise first or unknown(self._scope, named)

    def _meanings(self, name: str, *, by_id: bool = False) -> Iterator[tuple[Target, tuple[str, ...]]]:
        """Yield what a name may mean: a target, and a path inside it. The caller takes the first one that leads to data.

        With `by_id`, only an artifact's own id counts, not a variable or artifact whose name merely looks like an id.
        """
        for head in _heads(name):
            target = self._found.get(head)
            if target is not None and (not by_id or _is_id(head, target.artifact.id)):
                rest = name[len(head) :]
                for path in readings(rest.removeprefix(".")) if rest else ((),):
                    yield target, path

    def _part(self, target: Target, path: tuple[str, ...], named: str) -> tuple[Any, int]:
        """Return the data at a path inside a target, and its size in bytes of JSON. Raises NotThere if nothing is at the path."""
        artifact, keys = self._read_as(target.artifact), (*target.path, *path)
        if not keys:
            is_string = artifact.is_string and not target.is_variable
            return self._text(artifact) if is_string else self._payload(artifact), artifact.payload.size
        place = artifact.row_id, keys
        if place not in self._parts:
            try:
                self._parts[place] = self._decoded(artifact, lambda text: cut_out(text, keys))
            except Unfit:
                value = walk(walk(self._payload(artifact), target.path, named), path, named)
                self._parts[place] = value, _encoded_size(value, artifact.payload.size)
        return self._parts[place]

    def _read_as(self, artifact: Artifact) -> Artifact:
        """Return an artifact as it is handed over, made once: the JSON of a value that is stored with its types alone."""
        if not artifact.is_exact:
            return artifact
        if artifact.row_id not in self._readable:
            self._check_time()
            start = time.monotonic()
            try:
                with readable_failures(self._scope):
                    self._readable[artifact.row_id] = artifact.readable
            finally:
                self._jq_seconds -= time.monotonic() - start
        return self._readable[artifact.row_id]

    def _payload(self, artifact: Artifact) -> Any:
        if artifact.row_id not in self._payloads:
            self._count(artifact)
            with readable_failures(self._scope):
                self._payloads[artifact.row_id] = artifact.parsed
        return self._payloads[artifact.row_id]

    def _text(self, artifact: Artifact) -> str:
        if artifact.row_id not in self._texts:
            self._count(artifact)
            with readable_failures(self._scope):
                self._texts[artifact.row_id] = artifact.text
        return self._texts[artifact.row_id]

    def other_form(self, at: Place, value: object) -> Any:
        """Return the other form of the data that a reference brought: a JSON text's parsed value, or a parsed value's text.

        Return None if no reference brought the value, if it is only a part of the artifact, or if the artifact never was a text.
        """
        brought = self.done.get(at)
        if brought is None or not brought.is_whole or not brought.artifact.has_own_text:
            return None
        if not isinstance(value, str):
            return self._text(document_of(self._scope, brought.artifact) or brought.artifact)
        try:
            return self._payload(brought.artifact) if brought.artifact.kind == "json" else None
        except jsontext.NotJSON:
            return None

    def _queried(self, artifact: Artifact) -> Any:
        """Return the payload as jq reads it: text or bytes whose content type is JSON are parsed."""
        payload = self._payload(artifact)
        if artifact.kind == "json" or not artifact.is_json:
            return payload
        try:
            return jsontext.decode(payload if isinstance(payload, bytes) else payload.encode("utf-8", "surrogatepass"))
        except jsontext.NotJSON as error:
            raise ToolError(
                f"artifact {artifact.id} is {artifact.content_type}, and what it says is no JSON ({error}): "
                "name it without jq"
            ) from None

    def _decoded(self, artifact: Artifact, part: Callable[[bytes], T]) -> T:
        """Decode a part of a JSON payload that has not been read yet.

        Raises Unfit if the part cannot be decoded alone. If the payload was read by then, all of it is decoded and kept, so that
        it is not read a second time.
        """
        if artifact.kind != "json" or artifact.reading is not None or artifact.row_id in self._counted | self._shared:
            raise Unfit
        self._count(artifact)
        with readable_failures(self._scope):
            text = artifact.payload.read()
        try:
            return part(text)
        except Unfit:
            self._payloads[artifact.row_id] = jsontext.decode(text)
            raise

    def _count(self, artifact: Artifact) -> None:
        """Count the bytes that are read, once for each artifact. The first artifact may be larger than the bound."""
        if artifact.row_id not in self._counted:
            self._read += artifact.payload.size
            # Checked before the bytes are read, not after.
            if self._counted and self._read > MAX_BYTES:
                raise TooMuch(f"the references of one call are to more than {MAX_BYTES >> 20} MB of data; name less")
            self._counted.add(artifact.row_id)

    def _handed_over(self, value: Any, substitution: Substitution) -> Any:
        """Count a reference and its bytes, and return its value. A single reference may be larger than the bound."""
        self.done[substitution.at] = substitution
        if len(self.done) > MAX_REFERENCES:
            raise TooMuch(f"more than {MAX_REFERENCES:,} references in one call; resolve fewer")
        self._handed += substitution.size
        if len(self.done) > 1 and self._handed > MAX_BYTES:
            raise TooMuch(f"the references of one call stand for more than {MAX_BYTES >> 20} MB; hand over less")
        return value

    def _jq(self, target: Target, path: tuple[str, ...], program: str, named: str) -> tuple[Any, int]:
        """Return the result of a jq program and its size. A result that jq would round raises ToolError instead."""
        target = replace(target, artifact=self._read_as(target.artifact))
        artifact, keys = target.artifact, (*target.path, *path)
        place = artifact.row_id, keys, program
        if place not in self._answers:
            try:
                pick = plainjq.parsed(program)
            except NotPlain:
                pick = None
            answer = None if pick is None else self._projected(artifact, keys, pick)
            self._answers[place] = answer or self._answered(target, path, program, pick, named)
        return self._answers[place]

    def _projected(self, artifact: Artifact, keys: Path, pick: Pick) -> tuple[Any, int] | None:
        """Run a plain pick on only the part of the data that it needs; return None if all of the data has to be decoded."""
        need = pick.needs(None)
        if need is None and not keys:
            return None
        try:
            value = self._decoded(artifact, lambda text: projected(text, need, keys))
            return self._pick(pick.run, walk(value, keys, artifact.id), artifact)
        except (Unfit, NotThere, NotPlain):
            return None

    def _answered(
        self, target: Target, path: tuple[str, ...], program: str, pick: Pick | None, named: str
    ) -> tuple[Any, int]:
        value = walk(walk(self._queried(target.artifact), target.path, named), path, named)
        self._check_time()
        start = time.monotonic()
        try:
            if pick is not None:
                with suppress(NotPlain):
                    return self._pick(pick.run, value, target.artifact)
            return self._run_jq(target, path, program, named)
        finally:
            # All programs of one call share the time of one run: their number must not multiply it.
            self._jq_seconds -= time.monotonic() - start

    def _check_time(self) -> None:
        if self._jq_seconds <= 0:
            limit = self._scope.policy.run_seconds
            raise TooMuch(f"the jq programs and big tables of one call took more than {limit:g} s together; name fewer")

    def _pick(self, pick: Filter, value: Any, artifact: Artifact) -> tuple[Any, int]:
        """Return the outputs of a plain pick and their size.

        Each output may be as large as the data, so the sum is checked after each one.
        """
        outputs, size, most = [], 0, max(MAX_BYTES, artifact.payload.size)
        for output in pick(value):
            outputs.append(output)
            size += _encoded_size(output, artifact.payload.size)
            if size > most:
                raise TooMuch(f"a jq program gives more than {most >> 20} MB; select less")
        return outputs[0] if len(outputs) == 1 else outputs, size

    def _run_jq(self, target: Target, path: tuple[str, ...], program: str, named: str) -> tuple[Any, int]:
        scope = self._scope
        if scope.sandbox is None:
            raise ToolError("jq is not available here, but for plain programs; name the variable alone, or with a path")
        self._jq_runs += 1
        if self._jq_runs > MAX_JQ_RUNS:
            raise TooMuch(f"more than {MAX_JQ_RUNS} jq programs in one call; use paths, or code")
        steps: list[str | int] = []
        value = walk(self._queried(target.artifact), target.path, named)
        for name in path:
            steps.append(int(name) if isinstance(value, list) else name)
            value = value[steps[-1]]
        data, program_there = queried_in(target, program, steps)
        limits = scope.limits
        limits = replace(limits, wall_seconds=max(0.01, min(limits.wall_seconds, self._jq_seconds)))
        with readable_failures(self._scope):
            reply = scope.sandbox.jq(program_there, data, limits=limits, max_bytes=JQ_BYTES)
        if reply.error is not None:
            raise ToolError(f"jq {program[:200]!r}: {jq_fault(reply.error.message)}")
        if reply.truncated:
            raise ToolError(f"jq {program[:200]!r} gives more than can be handed over; select less")
        outputs = [jsontext.decode(output) for output in reply.outputs]
        if reply.not_finite:
            raise ToolError(
                f"jq {program[:200]!r} meets NaN, an infinity or a number beyond 1.8e308, for which jq has null or "
                "1.797e308; plain picks are exact (.[0].id, .[2:5], map(.id), .rows[].id), and so is code"
            )
        if reply.rounded == "yes":
            raise ToolError(
                f"jq {program[:200]!r} computes with integers beyond 2**53, which jq rounds; plain picks are exact "
                "(.[0].id, .[2:5], map(.id), .rows[].id), and so is code"
            )
        return outputs[0] if len(outputs) == 1 else outputs, sum(map(len, reply.outputs))


def _names(value: object, depth: int) -> Iterator[str]:
    """Yield every name in the value that may be a reference, with its path. Raises ToolError if the value nests too deeply."""
    if depth > MAX_DEPTH:
        raise ToolError(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        if (name := _name_of(value)) is not None:
            yield name
    elif isinstance(value, Mapping):
        named = value.get("$var")
        if isinstance(named, str) and len(named) <= NAME_CHARS:
            yield named.removeprefix("$")
        for member in value.values():
            yield from _names(member, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names(item, depth + 1)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(member) for key, member in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value


def _name_of(text: str) -> str | None:
    """Return the name in a string that may be a reference: an id as it is, or the text after `$`; None for any other string.

    `$$name` belongs to query languages and is never a reference.
    """
    if len(text) > NAME_CHARS or text.startswith("$$"):
        return None
    if text.startswith("$"):
        return text[1:]
    return text if text.startswith(("art:", "art_")) else None


def _is_id(key: str, id_: str) -> bool:
    """Tell whether a key is an artifact's id or its pointer."""
    return key.replace("art:", "art_", 1) == id_


def _heads(name: str) -> tuple[str, ...]:
    """Return the parts of a name that may be bound: the whole name, the part before `[`, and the part before the first `.` or `[`.

    The whole name comes first because names of artifacts may contain dots.
    """
    before = name.partition("[")[0]
    return tuple(dict.fromkeys((name, before, before.partition(".")[0])))


def _paths(given: object) -> Iterator[tuple[str, ...]]:
    """Yield the possible meanings of a reference's `path`, each as keys."""
    if given is None or given == "":
        yield ()
    elif isinstance(given, str):
        yield from readings(given)
    elif isinstance(given, list | tuple) and all(type(key) in (str, int) for key in given):
        if any(type(key) is int and not 0 <= key < 1 << 53 for key in given):
            raise ToolError('"path": positions are counted from 0')
        yield tuple(str(key) for key in given)
    else:
        raise ToolError(f'"path" must be text like "rows.0.id" or an array of keys and positions, not {shown(given)}')


def _encoded_size(value: Any, otherwise: int) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (ValueError, OverflowError, RecursionError):  # lone surrogates, integers over 64 bits, depth
        return otherwise
