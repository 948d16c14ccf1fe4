"""The body of a jq run: libjq in a jailed process. Its outputs are read one by one, under caps."""

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
import re2

from byref_sandbox import wire
from byref_sandbox.code import plainjq
from byref_sandbox.code.picks import NotPlain
from byref_sandbox.outcome import Failure
from byref_sandbox.run.worker import Body, Captured, error_frame, failure_of, lessen_depth
from byref_sandbox.values import data, values

_KIND: Final = "JqError"
_PARSED_BYTES: Final = 20
"""Bytes of memory for a byte of JSON, as text and in libjq together. 4 to 18 were measured, and over 30 where objects are tiny."""
_MOST_PARSED_BYTES: Final = 4 << 30
_HALTED: Final = "__halt"
_HALTED_ERROR: Final = "__halt_error"
# libjq drops the message of a program that halts. These definitions halt by an error, which carries it.
_HALTS: Final = f"""
def halt: error({{{_HALTED}: true}});
def halt_error($code): if $code | type == "number" then error({{{_HALTED_ERROR}: .}})
  else error("halt_error/1: number required") end;
def halt_error: halt_error(5);
"""


_CLAMPED: Final = re.compile(rb"1\.7976931348623157e\+?308")
"""What jq writes for an infinity and for numbers beyond the range of floats: the largest float."""
_LARGE: Final = re.compile(r"(?:^|[\[,:\s])(-?(?:[0-9]{309,}|[0-9]+(?:\.[0-9]*)?[eE]\+?[0-9]{3,}))")
_NAN: Final = re.compile(r"(?:^|[\[,:\s])-?[nN][aA][nN]")
_UNUSUAL: Final = re2.compile(r"(?:^|[\[,:\s])-?(?:[nN][aA][nN]|[0-9]{100}|[0-9]+(?:\.[0-9]*)?[eE]\+?[0-9]{3})")
"""Finds all that these two find, and more, at a fraction of their time."""
_WRITES: Final = re.compile("tojson|tostring|@|\\\\\\(")
_CHECK: Final = f'(., ((tojson | contains("null")) and {plainjq.HAS_NAN}))'

_IsNan = Callable[[object], bool]


def jq_body(request: wire.Request, text: str) -> Body:
    """Return the body that runs the jq program in `request.source` over a JSON text."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        frames: list[wire.Frame] = []
        try:
            is_unusual = _UNUSUAL.search(text) is not None
            has_nan = is_unusual and _NAN.search(text) is not None
            program, is_checked = _compiled(request.source, has_nan=has_nan)
            return _frames_of(
                _with_nan(program.input_text(text), is_checked),
                frames,
                request,
                not_finite=is_unusual and _is_beyond(request.source, text, has_nan=has_nan),
            )
        except ValueError as error:
            message = str(error)
            raised = _raised(message)
            if frames and isinstance(raised, dict) and _HALTED in raised:
                return [*frames, wire.Done()]
            return [*frames, error_frame(Failure(_KIND, _message_of(message, raised), hint=_hint(message)))]
        except BaseException as error:  # noqa: BLE001
            return [*frames, error_frame(failure_of(error, request.terms))]

    return body


def pick_body(request: wire.Request, value: object) -> Body:
    """Return the body that runs `request.source`, a program that `plainjq` answers, over a decoded value."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        try:
            outputs = plainjq.compiled(request.source)(value)
            return _frames_of(((output, plainjq.has_not_finite) for output in outputs), [], request)
        except NotPlain:
            return [error_frame(Failure(plainjq.NOT_PLAIN, "the program, or what it meets, is for jq"))]
        except BaseException as error:  # noqa: BLE001
            return [error_frame(failure_of(error, request.terms))]

    return body


def _frames_of(
    outputs: Iterable[tuple[object, _IsNan]],
    frames: list[wire.Frame],
    request: wire.Request,
    *,
    not_finite: bool = False,
) -> list[wire.Frame]:
    """Add the outputs to `frames`, under the request's caps, and return them with the last frame.

    Each output comes with a function that says whether NaN is among its nulls.
    """
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


def _with_nan(outputs: Iterable[object], is_checked: bool) -> Iterator[tuple[object, _IsNan]]:
    """Yield each output with a function that says whether NaN is in it: a checked program (`_CHECK`) says so behind each output."""
    found = iter(outputs)
    for output in found:
        has_nan = is_checked and next(found) is True
        yield output, _yes if has_nan else _no


def _yes(_: object) -> bool:
    return True


def _no(_: object) -> bool:
    return False


def _is_beyond(source: str, text: str, *, has_nan: bool) -> bool:
    """Whether a JSON text has a number that jq computes wrongly: one beyond the range of 64-bit floats.

    So is NaN where the program itself writes JSON, in which it becomes null.
    """
    if has_nan and _WRITES.search(source):
        return True
    return any(math.isinf(float(found[1])) for found in _LARGE.finditer(text))


def with_data(terms: wire.Terms, size: int) -> wire.Terms:
    """Return the limits with memory for data of `size` bytes added: libjq parses it in the run itself."""
    room = min(size * _PARSED_BYTES, _MOST_PARSED_BYTES)
    return msgspec.structs.replace(terms, memory_bytes=terms.memory_bytes + room)


def _compiled(source: str, *, has_nan: bool) -> tuple[jq._Program, bool]:
    """Return the compiled program, and whether it is checked: then behind each output it says whether NaN is in it.

    jq writes null for NaN. The check costs as much as the program, so it is added only where NaN may come out.
    """
    program = jq.compile(source)
    definitions = _HALTS if "halt" in source else ""
    if has_nan or plainjq.may_make_nan(source):
        with suppress(ValueError):  # a comment that ends in a backslash takes the closing bracket with it
            return jq.compile(f"{definitions}({source}\n) | {_CHECK}"), True
    return jq.compile(definitions + source) if definitions else program, False


def _raised(message: str) -> object:
    """Return the value that a program raised as its error; the message itself if it is no JSON."""
    try:
        return msgspec.json.decode(message)
    except (ValueError, RecursionError):
        return message


def _message_of(message: str, raised: object) -> str:
    """Return the error's message in words, also where the program raised a value or halted."""
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
    """Return the JSON text that a program is given: a payload's value, or what is at `path` inside it; raise Unusable.

    `source` is the payload itself, or the descriptor of a memfd that holds it.
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
