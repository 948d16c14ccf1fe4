"""The body of a jq run: libjq in a jailed process. Its outputs are read one by one, under caps."""

from __future__ import annotations

import math
import mmap
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

import jq
import msgspec
import re2

from byref_sandbox import jsontext, wire
from byref_sandbox.code import plainjq
from byref_sandbox.code.picks import NotPlain
from byref_sandbox.outcome import TOO_DEEP, Failure
from byref_sandbox.run import bignumbers
from byref_sandbox.run.worker import Body, Captured, error_frame, failure_of, lessen_depth
from byref_sandbox.values import data, exact, values

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


_CLAMPED: Final = re.compile(rb"1\.7976931348623157[eE]\+?308")
"""What jq writes for an infinity and for numbers beyond the range of floats: the largest float."""
_LARGE: Final = re.compile(r"(?:^|[\[,:\s])(-?(?:[0-9]{309,}|[0-9]+(?:\.[0-9]*)?[eE]\+?[0-9]{3,}))")
_LARGE_OR_STRING: Final = re.compile(rf'"(?:[^"\\]++|\\.)*+"|{_LARGE.pattern}', re.DOTALL)
_NAN: Final = re.compile(r"(?:^|[\[,:\s])-?[nN][aA][nN]")
_UNUSUAL: Final = re2.compile(r"(?:^|[\[,:\s])-?(?:[nN][aA][nN]|[0-9]{100}|[0-9]+(?:\.[0-9]*)?[eE]\+?[0-9]{3})")
"""Finds all that these two find, and more, at a fraction of their time."""
_WRITES: Final = re.compile("tojson|tostring|@|\\\\\\(")
_CHECK: Final = f'((tojson | contains("null")) and {plainjq.HAS_NAN})'

_RUNS_MORE: Final = 8
"""A program is run three times more if it took no more than this part of its time."""
_NOT_FINITE: Final[tuple[wire.Doubt, ...]] = ("not finite",)
_LONG_NUMBER: Final = re.compile(rb"[0-9]{16}|[eE]\+?1[5-9]")

_HALF: Final = re2.compile(r"\\u[dD][89a-fA-F]")
"""Begins the escape of half of a character, or of a pair of halves."""
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

_IsNan = Callable[[], bool]


def jq_body(request: wire.Request, text: str) -> Body:
    """Return the body that runs the jq program in `request.source` over a JSON text."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        nonlocal text
        frames: list[wire.Frame] = []
        began = time.monotonic()
        try:
            text = _without_halves(text)
            is_unusual = _UNUSUAL.search(text) is not None
            has_nan = is_unusual and _NAN.search(text) is not None and not _is_strict(text)
            is_large = bignumbers.may_be_large(text)
            answers = _answers(request.source, text, has_nan=has_nan)
            not_finite = is_unusual and _is_beyond(request.source, text, has_nan=has_nan)
            _add_frames(answers, frames, request, not_finite=not_finite)
        except ValueError as error:
            message = str(error)
            raised = _raised(message)
            if frames and isinstance(raised, dict) and _HALTED in raised:
                return [*frames, wire.Done()]
            return [*frames, error_frame(Failure(_KIND, _message_of(message, raised), hint=_hint(message)))]
        except BaseException as error:  # noqa: BLE001
            return [*frames, error_frame(failure_of(error, request.terms))]
        try:
            return _with_rounding(frames, request, text, is_large=is_large, took=time.monotonic() - began)
        except BaseException:  # noqa: BLE001  its time or memory ended while it was looked into: the answer is there
            return _doubted(frames, "maybe rounded")

    return body


def exact_body(request: wire.Request, payload: bytes) -> Body:
    """Return the body that runs `request.source` over a value that another run wrote with its types, as the JSON that it has.

    The program `.` gives that JSON with a line for each record, and costs no more than to write it.
    """

    def body(stdout: Captured) -> list[wire.Frame]:
        try:
            value = values.data_of(exact.decode(payload))
            text = values.to_json(value)
            if request.source == ".":
                frames: list[wire.Frame] = []
                _add_frames([(values.in_lines(value, text), _no)], frames, request)
                return frames
        except ValueError as error:  # it is no such value, or no data
            return [error_frame(Failure(_KIND, str(error)))]
        except BaseException as error:  # noqa: BLE001
            return [error_frame(failure_of(error, request.terms))]
        return jq_body(request, text.decode())(stdout)

    return body


def _doubted(frames: list[wire.Frame], doubt: wire.Doubt) -> list[wire.Frame]:
    *shown, done = frames
    assert isinstance(done, wire.Done)
    return [*shown, msgspec.structs.replace(done, doubts=(*done.doubts, doubt))]


def _with_rounding(
    frames: list[wire.Frame], request: wire.Request, text: str, *, is_large: bool, took: float
) -> list[wire.Frame]:
    """Return the frames of a program that has ended, with what is known of rounding in the last of them."""
    *shown, done = frames
    assert isinstance(done, wire.Done)
    encoded = [frame.data for frame in shown if isinstance(frame, wire.Output)]
    if not is_large and not any(map(_LONG_NUMBER.search, encoded)):
        return frames
    outputs = [jsontext.decode(one) for one in encoded]
    computes: bool | None = None
    if is_large and took * _RUNS_MORE < min(request.terms.wall_seconds, request.terms.cpu_seconds):

        def again(source: str, text: str) -> list[object]:
            answers = _answers(source, text, has_nan=False)
            return [jsontext.decode(each) for each, _ in islice(answers, len(outputs) + 1 - done.truncated)]

        computes = bignumbers.computes(request.source, text, outputs, again)
    elif bignumbers.makes(request.source, text, outputs):
        computes = True
    if computes:
        return _doubted(frames, "rounded")
    return _doubted(frames, "maybe rounded") if is_large and computes is None else frames


def pick_body(request: wire.Request, value: object) -> Body:
    """Return the body that runs `request.source`, a program that `plainjq` answers, over a decoded value."""

    def body(_stdout: Captured) -> list[wire.Frame]:
        try:
            frames: list[wire.Frame] = []
            outputs = plainjq.compiled(request.source)(value)
            _add_frames(
                ((values.to_json(one), partial(plainjq.has_not_finite, one)) for one in outputs), frames, request
            )
            return frames
        except NotPlain:
            return [error_frame(Failure(plainjq.NOT_PLAIN, "the program, or what it meets, is for jq"))]
        except BaseException as error:  # noqa: BLE001
            return [error_frame(failure_of(error, request.terms))]

    return body


def _add_frames(
    outputs: Iterable[tuple[bytes, _IsNan]],
    frames: list[wire.Frame],
    request: wire.Request,
    *,
    not_finite: bool = False,
) -> None:
    """Add the outputs to `frames`, under the request's caps, and the last frame.

    Each output comes with a function that says whether NaN is among its nulls.
    """
    lessen_depth()
    room = request.max_output_bytes
    for encoded, is_nan in outputs:
        room -= len(encoded)
        if room < 0 or len(frames) == request.max_outputs:
            frames.append(wire.Done(truncated=True, doubts=_NOT_FINITE if not_finite else ()))
            return
        frames.append(wire.Output(encoded))
        not_finite = not_finite or bool(_CLAMPED.search(encoded)) or (b"null" in encoded and is_nan())
    frames.append(wire.Done(doubts=_NOT_FINITE if not_finite else ()))


def _answers(source: str, text: str, *, has_nan: bool) -> Iterator[tuple[bytes, _IsNan]]:
    """Yield a program's outputs as JSON, each with a function that says whether NaN is in it."""
    program, is_checked, is_text = _compiled(source, has_nan=has_nan)
    found = iter(program.input_text(text))
    for output in found:
        encoded = output.encode("utf-8", "surrogatepass") if is_text else values.to_json(output)
        if is_text and not jsontext.is_json(encoded):
            raise values.NotData(TOO_DEEP)
        yield encoded, _yes if is_checked and next(found) is True else _no


def _without_halves(text: str) -> str:
    """Return JSON text with U+FFFD for escapes of half a character, which libjq refuses."""
    if _HALF.search(text) is None:
        return text
    return _ESCAPE.sub(lambda found: "\ufffd" if found[1] else found[0], text)


def _yes() -> bool:
    return True


def _no() -> bool:
    return False


def _is_beyond(source: str, text: str, *, has_nan: bool) -> bool:
    """Whether a JSON text has a number that jq computes wrongly: one beyond the range of 64-bit floats.

    So is NaN where the program itself writes JSON, in which it becomes null.
    """
    if has_nan and _WRITES.search(source):
        return True
    if not any(math.isinf(float(found[1])) for found in _LARGE.finditer(text)):
        return False
    return any(found[1] and math.isinf(float(found[1])) for found in _LARGE_OR_STRING.finditer(text))


def _is_strict(text: str) -> bool:
    """Whether a text is JSON by the standard, so that what looks like NaN is in one of its strings."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def with_data(terms: wire.Terms, size: int) -> wire.Terms:
    """Return the limits with memory for data of `size` bytes added: libjq parses it in the run itself."""
    room = min(size * _PARSED_BYTES, _MOST_PARSED_BYTES)
    return msgspec.structs.replace(terms, memory_bytes=terms.memory_bytes + room)


def _compiled(source: str, *, has_nan: bool) -> tuple[jq._Program, bool, bool]:
    """Return the compiled program, whether it says behind each output if NaN is in it, and whether its outputs are JSON as text.

    In text numbers that it only moves keep all digits. jq writes null for NaN. The check costs as much as the program, so it is added
    only where NaN may come out.
    """
    program = jq.compile(source)
    definitions = _HALTS if "halt" in source else ""
    is_checked = has_nan or plainjq.may_make_nan(source)
    with suppress(ValueError):  # a comment that ends in a backslash takes the closing bracket with it
        shown = f"(tojson, {_CHECK})" if is_checked else "tojson"
        return jq.compile(f"{definitions}({source}\n) | {shown}"), is_checked, True
    return jq.compile(definitions + source) if definitions else program, False, False


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
