"""The bodies of runs of Python: a model's code under the language, and plain CPython as if the language had fallen.

Both run inside the jail. What the code leaves behind may lie about itself, so everything here that looks at it may raise anything.
"""

from __future__ import annotations

import functools
import itertools
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from byref_sandbox import wire
from byref_sandbox.code import readonly
from byref_sandbox.code.analysis import FRAME
from byref_sandbox.code.sources import Definitions, NoSource, Source, is_definition
from byref_sandbox.jsontext import encodable
from byref_sandbox.outcome import DELETED, STOPPED, Failure
from byref_sandbox.run import sharing
from byref_sandbox.run.aliases import Alias, Watch
from byref_sandbox.run.changes import Changes
from byref_sandbox.run.worker import (
    Body,
    Captured,
    Expired,
    disarm,
    error_frame,
    failure_of,
    lessen_depth,
    out_of_memory,
)
from byref_sandbox.values import files, plots, shown, values
from byref_sandbox.values.bindings import Bindings

_MAX_KEPT: Final = 1_000
_MAX_NAMED: Final = 10_000
"""Names that are looked at; of those beyond it the reply says nothing."""
_MAX_REASON_CHARS: Final = 300
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_RAW_FILE: Final = "<raw>"
_EARLIER_FILE: Final = "<earlier code>"

_Name = object | Alias | Source | NoSource
"""What a top-level name stands for: its value, what the run was given, the source that defines it again, or why there is none."""


def language_body(language: Any, request: wire.Request, bindings: Bindings) -> Body:
    """Return the body that runs `request.source` under the language. Names that it bound before an error are sent as well."""

    def body(stdout: Captured) -> list[wire.Frame]:
        from byref_sandbox.language.policy import Refused

        try:
            program = language.compile(request.source)
        except Refused as refusal:
            return [error_frame(refusal.failure)]
        variables = bindings.all()
        is_read_only = functools.cache(functools.partial(_is_read_only, request, bindings))
        changes = Changes(request, bindings, is_read_only)
        space = language.space(variables, bindings.df, bindings.files)
        _define(language, request.sources, space, stdout)
        before = dict(space)
        watch = Watch(request, bindings, is_read_only)

        def names() -> dict[str, _Name]:
            assigned = _names(language, program, space, before, watch)
            return assigned | changes.names(space) | _deleted(request, space, before)

        def with_shares(named: dict[str, _Name], frames: list[wire.Frame]) -> list[wire.Frame]:
            # Only of names that runs left. What tools stored is changed for one run only, so sharing it has no effect later.
            kept = {one.name for one in request.variables if one.is_kept}
            aliases = {name: one for name, one in named.items() if isinstance(one, Alias)}
            new = {name: one for name, one in named.items() if name not in aliases}
            new |= {name: one.value for name, one in aliases.items() if one.of.variable in kept}
            given = {name: space[name] for name in kept if name in space and name not in named}
            return sharing.with_shares(frames, sharing.shared(new, given))

        try:
            value = language.execute(program, space, stdout)
            named = names()
            return with_shares(named, _reply_of(language, value, named, request.terms))
        except BaseException as error:  # noqa: BLE001  (hostile code may raise anything)
            disarm()
            failed = error_frame(_explained(language, error, program, request))
            if isinstance(error, Expired) or out_of_memory(error):
                return [failed, *_stopped([*language.bound(space, before), *changes.names_told(space)])]
            images = _images(language.figures(is_done=False)[0])
            written, room = files.frames_of(language.files.written(), request.terms.result_bytes)
            lessen_depth()
            named = names()
            return [failed, *images, *written, *with_shares(named, _frames_of(named, room))]

    return body


def _is_read_only(request: wire.Request, bindings: Bindings) -> bool:
    scalars = [name for name, value in bindings.values.items() if type(value) in _SCALARS]
    return readonly.is_read_only("\n".join((*request.sources, request.source)), bindings.values, scalars)


def _reply_of(language: Any, value: object, names: Mapping[str, _Name], terms: wire.Terms) -> list[wire.Frame]:
    """Return the reply of code that ended well, with its figures and files: they leave less room for value and names."""
    max_bytes = terms.result_bytes
    drawn, dropped = language.figures(value)
    images = _images(drawn)
    if (failure := plots.too_big(images, max_bytes)) is not None:
        return [error_frame(failure), *_frames_of(names, max_bytes)]
    room = max_bytes - sum(len(each.png) for each in drawn)
    written: list[wire.Frame] = []
    try:
        written, room = files.frames_of(language.files.written(), room)
        *frames, last = reply(None if language.is_drawing(value) else value, names, room)
    except MemoryError as error:  # of the value: a name for which there is no memory becomes a `Lost`
        return [error_frame(failure_of(error, terms)), *images, *written, *_frames_of(names, room)]
    if isinstance(last, wire.Done):
        last = msgspec.structs.replace(last, figures_dropped=dropped)
    return [*images, *written, *frames, last]


def _images(drawn: Iterable[Any]) -> list[wire.Frame]:
    return [wire.Image(encodable(each.name), each.png) for each in drawn]


def _define(language: Any, sources: list[str], space: dict[str, Any], stdout: Captured) -> None:
    """Run the definitions of earlier runs under the same language; one that fails leaves its name undefined."""
    if not sources:
        return
    for text in ("\n".join(sources), *sources):
        try:
            language.execute(language.compile(text, _EARLIER_FILE), space, stdout)
        except Expired:
            raise
        except BaseException:  # noqa: BLE001  (hostile code may raise anything; then each definition is tried alone)
            continue
        if text is not sources[0] or len(sources) == 1:
            return


def _names(
    language: Any, program: Any, space: Mapping[str, Any], before: Mapping[str, Any], watch: Watch
) -> dict[str, _Name]:
    """Return what the code bound at its top level: definitions as their source, anything else as its value."""
    definitions: Definitions | None = None
    names: dict[str, _Name] = {}
    for name, value in itertools.islice(space.items(), _MAX_NAMED):
        if name.startswith(("__", ".")) or (name in before and before[name] is value):
            continue
        if language.is_file(value):
            continue
        if language.is_drawing(value):
            names[name] = NoSource("part of a figure")
            continue
        is_import = language.is_imported(value)
        if not is_import and not is_definition(value):
            names[name] = watch.of(value) or value
            continue
        definitions = definitions or Definitions(program.source)
        found = definitions.imported(name)
        if found is None and is_import and not callable(value):
            names[name] = NoSource("a module: import it under this name")
        elif found is not None:
            if language.builtins.get(name) is not value:  # those are there in each run
                names[name] = found
        else:
            try:
                names[name] = definitions.of(name, value)
            except NoSource as error:
                names[name] = error
    return names


def _deleted(request: wire.Request, space: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, _Name]:
    """Return the names of earlier runs that the code deleted."""
    given = before.keys() if request.sources else {variable.name for variable in request.variables}
    gone = [name for name in given if name in before and name not in space and name.isidentifier()]
    return {name: NoSource(DELETED) for name in gone if name != FRAME or FRAME in request.names}


def _stopped(names: list[str]) -> list[wire.Frame]:
    """Return frames that say of names that they were lost: no time or memory is left to look at their values."""
    made = [name for name in names if name.isidentifier()]
    return [wire.Lost(name, STOPPED) for name in made[:_MAX_KEPT]]


def _explained(language: Any, error: BaseException, program: Any, request: wire.Request) -> Failure:
    data = len(request.names) - request.others
    explained: Failure = language.explain(error, program, request.names[:data], request.names[data:])
    if isinstance(error, Expired) or out_of_memory(error):
        known = failure_of(error, request.terms)
        return Failure(known.kind, known.message, explained.line, known.hint)
    return explained


def raw_body(request: wire.Request, bindings: Bindings) -> Body:
    """Return the body that runs `request.source` as plain CPython; its variable `result`, if it sets one, is the value."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        names: dict[str, object] = {"__name__": "__main__", **bindings.all()}
        try:
            exec(compile(request.source, _RAW_FILE, "exec"), names)
            return reply(names.get("result"), {}, request.terms.result_bytes)
        except BaseException as error:  # noqa: BLE001
            disarm()
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _RAW_FILE]
            failure = failure_of(error, request.terms)
            return [error_frame(Failure(failure.kind, failure.message, lines[-1] if lines else None, failure.hint))]

    return body


def reply(value: object, names: Mapping[str, _Name], max_bytes: int) -> list[wire.Frame]:
    """Return the frames of a run that ended well: its names, then the value; an error frame where the value is too big."""
    lessen_depth()
    made = shown.present(value)
    if len(made.data) > max_bytes:
        made = made._replace(data=made.data.replace(b"\n", b""))  # without lines for the elements
    packed = made.exact
    if any(value is (kept.value if isinstance(kept, Alias) else kept) for kept in names.values()):
        packed = b""  # the name is sent with it
    if len(packed) + len(made.data) > max_bytes and not made.is_partial:
        packed = b""
    text = _text_of(value, made)
    room = max_bytes - len(made.data) - len(text or "") - len(packed)
    if room < 0:
        failure = Failure(
            "OutputLimit",
            f"the value takes {max_bytes - room:,} bytes; at most {max_bytes:,} come out of a run",
            hint="aggregate it, or take a slice",
        )
        return [error_frame(failure), *_frames_of(names, max_bytes)]
    done = wire.Done(
        kind=made.kind,
        value=made.data,
        text=text,
        exact=packed,
        shape=encodable(values.shape_of(value)) if packed else "",
        is_partial=made.is_partial,
    )
    return [*_frames_of(names, room), done]


def _text_of(value: object, made: shown.Presented) -> str | None:
    """Return the text that shows a value; None where the host can make it of the JSON."""
    if isinstance(value, str) or made.kind == "repr":
        return None
    if made.text is None and made.data.startswith(b'"') and len(made.data) <= shown.MAX_REPR_CHARS:
        return made.data.decode()
    return made.text


def _frames_of(names: Mapping[str, _Name], room: int) -> list[wire.Frame]:
    """Return a frame for each name; what does not fit into `room` bytes is sent as lost."""
    frames: list[wire.Frame] = []
    for number, (name, value) in enumerate(names.items()):
        if number >= _MAX_KEPT:
            frames.append(wire.Lost(name, f"more than {_MAX_KEPT:,} names"))
            continue
        frame = _frame(name, value)
        size = len(frame.data) + len(frame.exact) if isinstance(frame, wire.Kept) else 0
        if size > room:
            frame = wire.Lost(name, f"too big: {size:,} bytes, {room:,} left of what a run may send")
            size = 0
        room -= size
        frames.append(frame)
    return frames


def _frame(name: str, value: _Name) -> wire.Kept | wire.Same | wire.Defined | wire.Lost:
    if isinstance(value, Alias):
        return value.frame(name)
    if isinstance(value, Source):
        return wire.Defined(name, value.what, encodable(value.text))
    try:
        if isinstance(value, NoSource):
            raise values.NotData(str(value))
        kept = values.keep(value)
    except values.NotData as error:
        return wire.Lost(name, encodable(str(error))[:_MAX_REASON_CHARS])
    except MemoryError:
        return wire.Lost(name, "too big: no memory is left to write it down")
    except Exception as error:  # noqa: BLE001  an object that is not what it seems hides neither the others nor an error
        return wire.Lost(name, f"it could not be written down: {type(error).__name__}")
    return wire.Kept(name, kept.kind, kept.data, kept.was, kept.exact, encodable(kept.shape))
