"""The bodies of runs: model-written code under the language, and plain Python as if the language had fallen."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Mapping
from typing import Any, Final

from byref_sandbox import values, wire
from byref_sandbox.bindings import Bindings
from byref_sandbox.outcome import Failure
from byref_sandbox.worker import Body, Captured, Expired, clean, disarm, error_frame, failure_of, out_of_memory

_MAX_KEPT: Final = 1_000
_MAX_NAMED: Final = 10_000
"""Beyond it, names that were not kept are not named either."""
_MAX_REASON_CHARS: Final = 300
_RAW_FILE: Final = "<raw>"


def language_body(language: Any, request: wire.Request, bindings: Bindings) -> Body:
    """Runs `request.source` under the language wall."""

    def body(stdout: Captured) -> list[wire.Frame]:
        from byref_sandbox.language.policy import Refused

        try:
            program = language.compile(request.source)
        except Refused as refusal:
            return [error_frame(refusal.failure)]
        try:
            ran = language.run(program, bindings.all(), stdout)
            return _reply(ran.value if ran.has_value else None, ran.names, request.terms.result_bytes)
        except BaseException as error:  # noqa: BLE001  (hostile code may raise anything)
            disarm()
            return [error_frame(_explained(language, error, program, request))]

    return body


def _explained(language: Any, error: BaseException, program: Any, request: wire.Request) -> Failure:
    explained: Failure = language.explain(error, program, request.names)
    if isinstance(error, Expired) or out_of_memory(error):
        known = failure_of(error, request.terms)
        return Failure(known.kind, known.message, explained.line, known.hint)
    return explained


def raw_body(request: wire.Request, bindings: Bindings) -> Body:
    """Runs `request.source` as plain CPython; its `result`, if any, is the value."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        names: dict[str, object] = {"__name__": "__main__", **bindings.all()}
        try:
            exec(compile(request.source, _RAW_FILE, "exec"), names)
            return _reply(names.get("result"), {}, request.terms.result_bytes)
        except BaseException as error:  # noqa: BLE001
            disarm()
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _RAW_FILE]
            failure = failure_of(error, request.terms)
            return [error_frame(Failure(failure.kind, failure.message, lines[-1] if lines else None, failure.hint))]

    return body


def _reply(value: object, names: Mapping[str, object], max_bytes: int) -> list[wire.Frame]:
    shown = values.present(value)
    room = max_bytes - len(shown.data) - len(shown.text or "")
    if room < 0:
        failure = Failure(
            "OutputLimit",
            f"the value takes {max_bytes - room:,} bytes as JSON; at most {max_bytes:,} come out of a run",
            hint="aggregate it, or take a slice",
        )
        return [error_frame(failure), *_kept(names, max_bytes)]
    done = wire.Done(kind=shown.kind, value=shown.data, text=shown.text)
    return [*_kept(names, room), done]


def _kept(names: Mapping[str, object], room: int) -> list[wire.Frame]:
    frames: list[wire.Frame] = []
    names = dict(itertools.islice(names.items(), _MAX_NAMED))
    for number, name in enumerate(names):
        if number >= _MAX_KEPT:
            frames.append(wire.Lost(name, f"more than {_MAX_KEPT:,} names"))
            continue
        try:
            kind, data = values.keep(names[name])
        except values.NotData as error:
            frames.append(wire.Lost(name, clean(str(error))[:_MAX_REASON_CHARS]))
            continue
        if len(data) > room:
            frames.append(
                wire.Lost(name, f"too big: {len(data):,} bytes as JSON, {room:,} left of what a run may send")
            )
            continue
        room -= len(data)
        frames.append(wire.Kept(name, kind, data, values.stands_for(names[name])))
    return frames
