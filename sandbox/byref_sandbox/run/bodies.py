"""The bodies of runs of Python: a model's code under the language, and plain CPython as if the language had fallen.

Both run inside the jail. What the code leaves behind may lie about itself, so everything here that looks at it may raise anything.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from byref_sandbox import wire
from byref_sandbox.contents import LAST
from byref_sandbox.jsontext import encodable
from byref_sandbox.language.calling import Functions, Line
from byref_sandbox.language.policy import Language, Refused
from byref_sandbox.language.refusal import not_loaded
from byref_sandbox.outcome import FOREIGN_STATE, Failure
from byref_sandbox.run.names import BlobOf, Foreign, Names
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
from byref_sandbox.state.known import Known
from byref_sandbox.values import files, plots, shown, values
from byref_sandbox.values.bindings import Bindings

_RAW_FILE: Final = "<raw>"


def language_body(
    language: Language,
    known: Known,
    request: wire.Request,
    bindings: Bindings,
    blob_of: BlobOf,
    line: Line | None = None,
) -> Body:
    """Return the body that runs `request.source` under the language. Names that it bound before an error are sent as well.

    `line` carries the code's calls of the functions in `request`.
    """

    def body(stdout: Captured) -> list[wire.Frame]:
        try:
            program = language.compile(request.source)
        except Refused as refusal:
            return [error_frame(refusal.failure)]
        functions = None if line is None else Functions(request.functions, line)
        bindings.refusal = not_loaded
        space = language.space(bindings.all(), bindings.df, bindings.files, functions, bindings.not_loaded)
        try:
            names = Names(language, known, request, bindings, blob_of, space)
        except Foreign:
            return [error_frame(Failure(FOREIGN_STATE, "the session's names were kept by another version"))]
        names.read(program)
        try:
            value = language.execute(program, space, stdout)
            names.value = value
            return _reply_of(language, value, names, request.terms)
        except BaseException as error:  # noqa: BLE001  (hostile code may raise anything)
            disarm()
            failed = error_frame(_explained(language, error, program, request, names.why_no_last))
            if isinstance(error, Expired) or out_of_memory(error):
                return [failed, *names.told_of_stop()]
            images = _images(language.figures(is_done=False)[0])
            written, room = files.frames_of(language.files.written(), request.terms.result_bytes)
            lessen_depth()
            return [failed, *images, *written, *names.frames(room)]

    return body


def _reply_of(language: Language, value: object, names: Names, terms: wire.Terms) -> list[wire.Frame]:
    """Return the reply of code that ended well, with its figures and files: they leave less room for value and names."""
    max_bytes = terms.result_bytes
    drawn, dropped = language.figures(value)
    images = _images(drawn)
    if (failure := plots.too_big(images, max_bytes)) is not None:
        return [error_frame(failure), *names.frames(max_bytes)]
    room = max_bytes - sum(len(each.png) for each in drawn)
    written: list[wire.Frame] = []
    try:
        written, room = files.frames_of(language.files.written(), room)
        *frames, last = reply(None if language.is_drawing(value) else value, names.frames, room, names.stands_for)
    except MemoryError as error:  # of the value: a name for which there is no memory is lost by itself
        return [error_frame(failure_of(error, terms)), *images, *written, *names.frames(room)]
    if isinstance(last, wire.Done):
        last = msgspec.structs.replace(last, figures_dropped=dropped)
    return [*images, *written, *frames, last]


def _images(drawn: Iterable[Any]) -> list[wire.Frame]:
    return [wire.Image(encodable(each.name), each.png) for each in drawn]


def _explained(
    language: Language, error: BaseException, program: Any, request: wire.Request, why_no_last: str
) -> Failure:
    data = len(request.names) - request.others
    explained = language.explain(error, program, request.names[:data], request.names[data:])
    if explained.line is None and isinstance(error, Expired) and error.__context__ is not None:
        # Compiled code has run beyond its time, and then failed: the timer was heard only on the way out.
        explained = language.explain(error.__context__, program, ())
    if isinstance(error, Expired) or out_of_memory(error):
        known = failure_of(error, request.terms)
        return Failure(known.kind, known.message, explained.line, known.hint)
    if why_no_last and type(error) is NameError and error.name == LAST:
        hint = f"the last value was not kept: {why_no_last}"
        return Failure(explained.kind, explained.message, explained.line, hint)
    return explained


def raw_body(request: wire.Request, bindings: Bindings) -> Body:
    """Return the body that runs `request.source` as plain CPython; its variable `result`, if it sets one, is the value."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        names: dict[str, object] = {"__name__": "__main__", **bindings.all()}
        try:
            exec(compile(request.source, _RAW_FILE, "exec"), names)
            return reply(names.get("result"), lambda _room: [], request.terms.result_bytes)
        except BaseException as error:  # noqa: BLE001
            disarm()
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _RAW_FILE]
            failure = failure_of(error, request.terms)
            return [error_frame(Failure(failure.kind, failure.message, lines[-1] if lines else None, failure.hint))]

    return body


def reply(
    value: object,
    names: Callable[[int], list[wire.Frame]],
    max_bytes: int,
    has_name: Callable[[object], bool] = lambda _value: False,
) -> list[wire.Frame]:
    """Return the frames of a run that ended well: those of its names, then the value; an error frame where the value is too big.

    `names` returns what the reply says of names in so many bytes. A value that has a name is sent with it.
    """
    lessen_depth()
    made = shown.present(value)
    if len(made.data) > max_bytes:
        made = made._replace(data=made.data.replace(b"\n", b""))  # without lines for the elements
    packed = b"" if has_name(value) else made.exact
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
        return [error_frame(failure), *names(max_bytes)]
    done = wire.Done(
        kind=made.kind,
        value=made.data,
        text=text,
        exact=packed,
        shape=encodable(values.shape_of(value)) if packed else "",
        is_partial=made.is_partial,
    )
    return [*names(room), done]


def _text_of(value: object, made: shown.Presented) -> str | None:
    """Return the text that shows a value; None where the host can make it of the JSON."""
    if isinstance(value, str) or made.kind == "repr":
        return None
    if made.text is None and made.data.startswith(b'"') and len(made.data) <= shown.MAX_REPR_CHARS:
        return made.data.decode()
    return made.text
