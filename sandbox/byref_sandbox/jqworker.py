"""The body of a jq run: libjq in a jailed process, its outputs taken one by one under caps."""

from __future__ import annotations

import re
from typing import Final

import jq

from byref_sandbox import data, values, wire
from byref_sandbox.outcome import Failure
from byref_sandbox.worker import Body, Captured, error_frame, failure_of

_KIND: Final = "JqError"


def jq_body(request: wire.Request, payload: bytes) -> Body:
    """Runs the jq program in `request.source` over a JSON text."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        frames: list[wire.Frame] = []
        room = request.max_output_bytes
        try:
            outputs = iter(jq.compile(request.source).input_text(payload.decode("utf-8", "replace")))
            for output in outputs:
                encoded = values.to_json(output)
                room -= len(encoded)
                if room < 0 or len(frames) == request.max_outputs:
                    return [*frames, wire.Done(truncated=True)]
                frames.append(wire.Output(encoded))
        except ValueError as error:
            return [*frames, error_frame(Failure(_KIND, _readable(str(error)), hint=_hint(str(error))))]
        except BaseException as error:  # noqa: BLE001
            return [*frames, error_frame(failure_of(error, request.terms))]
        return [*frames, wire.Done()]

    return body


def _readable(message: str) -> str:
    lines = [re.sub(r"^jq: (error|compile error): ", "", line).strip() for line in message.splitlines()]
    kept = [line for line in lines if line and not re.match(r"^jq: \d+ compile error", line)]
    return "; ".join(kept) or "the program failed"


def _hint(message: str) -> str | None:
    if "Cannot iterate over null" in message or "Cannot index" in message:
        return "the path does not exist in every item: use `.a?`, or look at `keys` and `type` first"
    if "syntax error" in message:
        return "check brackets, quotes and pipes of the program"
    return None


def value_text(payload: bytes, content_type: str, path: list[str | int]) -> bytes:
    """The JSON text that a program is given: the payload's value, or what is at `path` inside it; raises Unusable."""
    is_json = content_type == data.JSON or content_type.endswith("+json")
    if is_json and not path:
        return payload.removeprefix(b"\xef\xbb\xbf")
    value = data.at_path(data.decode(content_type, payload), path)
    try:
        return values.to_json(value)
    except values.NotData as error:
        raise data.Unusable(str(error)) from None
