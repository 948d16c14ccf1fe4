"""The body of a jq run: libjq in a jailed process, its outputs taken one by one under caps."""

from __future__ import annotations

import math
import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

import jq
import msgspec

from byref_sandbox import wire
from byref_sandbox.code import plainjq
from byref_sandbox.outcome import Failure
from byref_sandbox.run.worker import Body, Captured, error_frame, failure_of, lessen_depth
from byref_sandbox.values import data, values

_KIND: Final = "JqError"
_PARSED_BYTES: Final = 20
"""Memory for one byte of JSON, as text and as libjq holds it: 4 to 18 were measured, over 30 where objects are tiny."""
_MOST_PARSED_BYTES: Final = 4 << 30
_HALTED: Final = "__halt"
_HALTED_ERROR: Final = "__halt_error"
# A program that halts ends without a word, its message lost with it: these halt with an error, which has the message.
_HALTS: Final = f"""
def halt: error({{{_HALTED}: true}});
def halt_error($code): if $code | type == "number" then error({{{_HALTED_ERROR}: .}})
  else error("halt_error/1: number required") end;
def halt_error: halt_error(5);
"""


_CLAMPED: Final = re.compile(rb"1\.7976931348623157e\+?308")
"""What jq makes of an infinity, and of numbers that are too large: the largest float."""
_LARGE: Final = re.compile(r"(?:^|[\[,:\s])(-?(?:[0-9]{309,}|[0-9]+(?:\.[0-9]*)?[eE]\+?[0-9]{3,}))")
_NAN: Final = re.compile(r"(?:^|[\[,:\s])-?[nN][aA][nN]")
_WRITES: Final = re.compile("tojson|tostring|@|\\\\\\(")
_CHECK: Final = f'(., ((tojson | contains("null")) and {plainjq.HAS_NAN}))'

_IsNan = Callable[[object], bool]


def jq_body(request: wire.Request, text: str) -> Body:
    """Runs the jq program in `request.source` over a JSON text."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        frames: list[wire.Frame] = []
        try:
            program, is_checked = _compiled(request.source, text)
            return _taken(
                _told_of(program.input_text(text), is_checked),
                frames,
                request,
                not_finite=_is_beyond(request.source, text),
            )
        except ValueError as error:
            message = str(error)
            raised = _raised(message)
            if frames and isinstance(raised, dict) and _HALTED in raised:
                return [*frames, wire.Done()]
            return [*frames, error_frame(Failure(_KIND, _told(message, raised), hint=_hint(message)))]
        except BaseException as error:  # noqa: BLE001
            return [*frames, error_frame(failure_of(error, request.terms))]

    return body


def pick_body(request: wire.Request, value: object) -> Body:
    """Runs the plain jq program in `request.source` over a decoded value."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        try:
            outputs = plainjq.compiled(request.source)(value)
            return _taken(((output, plainjq.has_not_finite) for output in outputs), [], request)
        except plainjq.NotPlain:
            return [error_frame(Failure(plainjq.NOT_PLAIN, "the program, or what it meets, is for jq"))]
        except BaseException as error:  # noqa: BLE001
            return [error_frame(failure_of(error, request.terms))]

    return body


def _taken(
    outputs: Iterable[tuple[object, _IsNan]],
    frames: list[wire.Frame],
    request: wire.Request,
    *,
    not_finite: bool = False,
) -> list[wire.Frame]:
    """Adds the outputs to `frames`, under the request's caps, and the end."""
    lessen_depth()
    room = request.max_output_bytes
    for output, is_nan in outputs:
        encoded = values.to_json(output)
        room -= len(encoded)
        if room < 0 or len(frames) == request.max_outputs:
            return [*frames, wire.Done(truncated=True, not_finite=not_finite)]
        frames.append(wire.Output(encoded))
        not_finite = not_finite or bool(_CLAMPED.search(encoded)) or (b"null" in encoded and is_nan(output))
    return [*frames, wire.Done(not_finite=not_finite)]


def _told_of(outputs: Iterable[object], is_checked: bool) -> Iterator[tuple[object, _IsNan]]:
    """Yields each output, and what tells whether NaN is among its nulls: by what follows it, if the program is checked."""
    told = iter(outputs)
    for output in told:
        has_nan = is_checked and next(told) is True
        yield output, _yes if has_nan else _no


def _yes(_: object) -> bool:
    return True


def _no(_: object) -> bool:
    return False


def _is_beyond(source: str, text: str) -> bool:
    """Whether a number of a JSON text is beyond the range of 64-bit floats: what jq computes of it is wrong.

    Or it is NaN, and the program writes JSON itself, in which that is null.
    """
    if _WRITES.search(source) and _NAN.search(text):
        return True
    return any(math.isinf(float(found[1])) for found in _LARGE.finditer(text))


def with_data(terms: wire.Terms, size: int) -> wire.Terms:
    """The limits with room for data of `size` bytes, which libjq parses in the run itself."""
    room = min(size * _PARSED_BYTES, _MOST_PARSED_BYTES)
    return msgspec.structs.replace(terms, memory_bytes=terms.memory_bytes + room)


def _compiled(source: str, text: str) -> tuple[jq._Program, bool]:
    """The program for a JSON text, and whether each of its outputs is followed by whether NaN is in it.

    jq writes null for NaN, and looking costs as much as the program: it is for those that may give one.
    """
    program = jq.compile(source)
    definitions = _HALTS if "halt" in source else ""
    if plainjq.may_make_nan(source) or _NAN.search(text):
        with suppress(ValueError):  # a backslash before the line break: the comment goes on
            return jq.compile(f"{definitions}({source}\n) | {_CHECK}"), True
    return jq.compile(definitions + source) if definitions else program, False


def _raised(message: str) -> object:
    """The value that a program raised as its error; the message itself if that is text."""
    try:
        return msgspec.json.decode(message)
    except (ValueError, RecursionError):
        return message


def _told(message: str, raised: object) -> str:
    """The message, which says of a value, and of what a program halted with, what it is."""
    if raised is message:
        return _readable(message)
    if isinstance(raised, dict) and _HALTED in raised:
        return "the program stopped (halt) before any output"
    if isinstance(raised, dict) and _HALTED_ERROR in raised:
        value = raised[_HALTED_ERROR]
        message = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"the program stopped with: {message.strip()}"


def _readable(message: str) -> str:
    lines = [re.sub(r"^jq: (error|compile error): ", "", line).strip() for line in message.splitlines()]
    kept = [line for line in lines if line and not re.match(r"^jq: \d+ compile error", line)]
    return "; ".join(kept) or "the program failed"


def _hint(message: str) -> str | None:
    if "Cannot iterate over null" in message or "Cannot index" in message:
        return "the path does not exist in every item: use `.a?`, or look at `keys` and `type` first"
    if message == "break":
        return "there is no further input: the data is `.`"
    if "syntax error" in message:
        return "check brackets, quotes and pipes of the program"
    return None


def value_text(source: int | bytes, content_type: str, path: list[str | int]) -> str:
    """The JSON text that a program is given: a payload's value, or what is at `path` inside it; raises Unusable.

    The payload is in an anonymous file, by its descriptor, or at hand.
    """
    is_json = content_type == data.JSON or content_type.endswith("+json")
    if is_json and not path:
        return (source.decode("utf-8", "replace") if isinstance(source, bytes) else _text(source)).removeprefix(
            "\ufeff"
        )
    payload = source if isinstance(source, bytes) else wire.read_memory_file(source)
    value = data.at_path(data.decode(content_type, payload), path)
    try:
        return values.to_json(value).decode("utf-8", "replace")
    except values.NotData as error:
        raise data.Unusable(str(error)) from None


def _text(descriptor: int) -> str:
    if not os.fstat(descriptor).st_size:
        return ""
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as view:
        return str(view, "utf-8", "replace")
