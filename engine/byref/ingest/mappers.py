"""Mappers and templates: a host's programs that shape a tool's output before any other code reads it.

A jq program or a template runs in the sandbox's worker, which can be killed. A plain one, which cannot multiply data, runs
in this process. A callable is the host's own code and runs here, too. Every failure becomes one exception, `MapperFailed`, so
that the caller can go on with the unmapped output.
"""

from __future__ import annotations

import copy
import json
import marshal
import math
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, DecimalException
from pathlib import PurePath
from types import CoroutineType
from typing import Any

import msgspec
import re2

from byref.content import values
from byref.conversation.scope import Scope
from byref.errors import one_line
from byref.policy import ToolPolicy
from byref.policy.checks import MissingMapper, collected
from byref_sandbox import Data, Failure, Limits, jsontext
from byref_sandbox.code import plainjq
from byref_sandbox.code.picks import EXACT_BELOW, NotPlain
from byref_sandbox.outcome import TOO_DEEP
from byref_sandbox.values import data, plain, weight

MAX_BYTES = 64 << 20
"""Maximum bytes that a jq program or a template may return."""
MAX_OBJECT_BYTES = 8 * MAX_BYTES
"""Maximum memory of a jq result as Python objects: empty arrays, for one, take 24 times the bytes of their JSON."""
_OWN = frozenset({"TimeLimit", "CpuLimit", "MemoryLimit", "OutputLimit", "NotAllowed", "Busy", "Crash"})
"""Kinds of failure whose message the sandbox itself writes, so that it quotes no data."""
_QUOTED = frozenset({"JqError", "UndefinedError", "SecurityError", "FilterArgumentError"})
"""Kinds of failure of jq and Jinja that only their message explains. For Python's own exceptions, kind and line suffice."""
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a access added an and any are argument array arrays as at attempt attribute be because before boolean both bounds break
    but callable cannot check checked codepoint column comparison containment converting csv data datetime deep delete depth dict divided
    divisor does element encoding end epoch equality error escaped exceeded exceeds exist explode expression failed failure field fields file float
    for format formatted from gmtime halt halt_error has have implode in index indices input inputs int integers invalid is it iterate
    iterated iterator json key large length limit line list literal long longer match matched merge method modifier module
    multiplied must name nan near negated negative no not null number numbers numeric object of offset only operand or out
    output over parsed parsing path paths pattern program range regex remainder repeat representation required requires result row safely
    searched seconds separator set shell since slice slices sorted specified split stopped str string strings subtracted support the
    their they through to too trim tsv tuple undefined unfinished unknown unsafe update uri use utf valid value values
    whether while with zero""",
    )
)
"""Words of jq's and Jinja's messages, and names of types. They are not data, so they are kept in a message that is logged."""
_SIGNS = frozenset("""'"()[]{}:;,./%…""")
_MOST_READ = 3_000
"""Maximum characters of a message that are read; the rest is dropped."""


_BEYOND = "mapper: it computes infinity, or numbers beyond 1.8e308, for which jq has 1.797e308; use a Python callable"


def _fraction_of(digits: int) -> re2._Regexp:
    """Return a pattern of fractions with at least so many significant digits, and of those near zero."""
    around = (rf"[0-9]{{{before}}}\.[0-9]{{{digits - 1 - before}}}" for before in range(digits - 1))
    long = rf"[1-9](?:{'|'.join(around)}|[0-9]{{{digits - 1},}}\.[0-9])|\.0*[1-9][0-9]{{{digits - 1}}}"
    return re2.compile(rf"{long}|[0-9][eE]-[0-9]{{3}}")


_LONG = _fraction_of(18)
"""Finds what no tool writes of a 64-bit float: that has at most 17 digits."""
_LONG_DECIMAL = _fraction_of(16)
"""Finds what a float may not hold: it holds any number of 15 digits."""
_HELD = 16
"""Characters of such a number with its point."""
_UNUSUAL = re2.compile(r"[1-9][0-9.]{18}|\.0*[1-9][0-9]{17}|[eE][+-]?[0-9]{3}|NaN|Inf")
"""Finds what `_LONG` finds, NaN, and numbers beyond floats, and more; of text with many floats in a tenth of the time."""


class MapperFailed(Exception):
    """The mapper or template of a tool failed. The message says why in one line and quotes no data, since it is logged and stored."""


def apply(scope: Scope, tool: ToolPolicy, value: object, text: bytes = b"") -> object:
    """Return a tool's output after its mapper and then its template were applied.

    `value` is the parsed JSON of a structured output, or the text of any other; it is not changed. `text` is that JSON, if it came
    as text. The single output of a jq program is returned as it is, several as a list, and as msgspec.Raw where it has numbers
    with more digits than floats hold. A template returns a str, a callable any object. Of the exceptions that these programs
    raise, only KeyboardInterrupt passes.

    Raises:
        MapperFailed: the program, callable or template has an error, takes too long or returns too much.
    """
    mapper = tool.mapper
    if isinstance(mapper, str):
        value = _by_jq(scope, tool, mapper, value, text)
    elif isinstance(mapper, MissingMapper):
        raise MapperFailed(
            f"the mapper {mapper.name!r} of tool {mapper.tool!r} is a Python callable and is not kept with the session: "
            "give policy= again"
        )
    elif mapper is not None:
        value = _by_callable(mapper, value)
    if tool.template is None:
        return value
    if isinstance(value, msgspec.Raw):
        value = values.decoded(bytes(value))
    return _by_template(scope, tool, tool.template, value)


def _by_jq(scope: Scope, tool: ToolPolicy, program: str, value: object, text: bytes) -> object:
    if isinstance(value, str):
        raise MapperFailed("mapper: a jq program needs JSON, and the output is plaintext")
    long, unusual = _LONG, not text or _UNUSUAL.search(text) is not None
    if not plain.is_plain(value, values.MAX_PARTS):  # jq is given what the model would read: a date is text there
        text, long, unusual = values.written(value)[1], _LONG_DECIMAL, True
        value = jsontext.decode(text)
    encoded = b""
    try:
        if unusual and _has_more_digits(text, long):
            raise NotPlain
        text = b""
        outputs = list(plainjq.compiled(program)(value))
    except NotPlain:
        encoded = _outputs(scope, tool, program, value, text)
        outputs = _decoded(encoded, value)
    if unusual or encoded:
        _check_finite(outputs)
    mapped = outputs[0] if len(outputs) == 1 else outputs
    if isinstance(mapped, str) or not _has_more_digits(encoded, _LONG_DECIMAL):
        return mapped
    return msgspec.json.decode(encoded, type=list[msgspec.Raw])[0].copy() if len(outputs) == 1 else msgspec.Raw(encoded)


def _outputs(scope: Scope, tool: ToolPolicy, program: str, value: object, text: bytes = b"") -> bytes:
    """Return the outputs of a program as the JSON of one array; jq is given `text`, if there is one, for the value."""
    if scope.sandbox is None:
        raise MapperFailed("mapper: jq is not available here, but for plain programs")
    most = _max_bytes(scope, tool)
    try:
        is_finite = not plainjq.has_not_finite(value)
        reply = scope.sandbox.jq(
            collected(program, without_nan=not is_finite or plainjq.may_make_nan(program)),
            Data("", lambda: text) if text else value if is_finite else _as_it_is(value),
            limits=_limits(scope, tool),
            max_bytes=most,
        )
    except (TypeError, ValueError) as error:  # the error's message may quote data, so only its type is reported
        raise MapperFailed(f"mapper: the output is nothing that jq can be given: {type(error).__name__}") from error
    except Exception as error:
        raise MapperFailed(f"mapper: jq could not be run: {one_line(error)}") from error
    if reply.error is not None and reply.error.message == TOO_DEEP:
        raise MapperFailed("mapper: what it gives is nested too deeply")
    if reply.error is not None:
        raise MapperFailed(f"mapper: {_shown(reply.error, program)}")
    if reply.truncated:
        raise MapperFailed(f"mapper: it gives more than {most:,} bytes")
    if reply.rounded == "yes":
        raise MapperFailed(
            "mapper: it computes with integers beyond 2**53, which jq rounds; use a Python callable, or pass them on unchanged"
        )
    if not reply.outputs:
        raise MapperFailed("mapper: the program ends itself, and gives nothing")
    return reply.outputs[0]


def _decoded(encoded: bytes, value: object) -> list[Any]:
    """Return the outputs of a program over a value; raise MapperFailed for numbers that would be silently wrong."""
    try:
        if weight.decoded_bytes(encoded, MAX_OBJECT_BYTES) > MAX_OBJECT_BYTES:
            raise MapperFailed("mapper: it gives too many arrays, objects and values")
        outputs = jsontext.decode(encoded)
    except jsontext.NotJSON as error:
        raise MapperFailed("mapper: what it gives is nested too deeply") from error
    assert isinstance(outputs, list)
    # jq computes with 64-bit floats, and writes infinity as the largest of them.
    floats = _big_numbers(value, float)
    if any(abs(number) == sys.float_info.max for number in _big_numbers(outputs, float) - floats):
        raise MapperFailed(_BEYOND)
    return outputs


def _check_finite(outputs: list[Any]) -> None:
    """Raise MapperFailed for NaN and for infinities, which would be written as null."""
    written = values.plain(outputs)
    if written is not None and b"null" not in written:
        return
    if not plain.is_json(outputs):
        raise MapperFailed(_BEYOND if any(map(math.isinf, _big_numbers(outputs, float))) else "mapper: NaN has no JSON")


def _has_more_digits(text: bytes, long: re2._Regexp) -> bool:
    """Whether JSON has a number that the pattern finds and a 64-bit float does not hold."""
    if long.search(text) is None:
        return False
    has_more = False

    def read(token: str) -> float:
        nonlocal has_more
        number = float(token)
        if has_more or (len(token) <= _HELD and number > sys.float_info.min) or repr(number) == token:
            return number
        with suppress(DecimalException):  # an exponent that Decimals have not
            has_more = math.isfinite(number) and Decimal(token) != Decimal(repr(number))
        return number

    with suppress(ValueError, RecursionError):
        json.loads(str(text, "utf-8", "surrogatepass").removeprefix("\ufeff"), parse_float=read, parse_int=len)
    return has_more


def _as_it_is(value: object) -> Data:
    """Return the value as JSON that keeps its NaN and infinities: jq reads them as Python writes them."""
    text = json.dumps(value, separators=(",", ":")).encode("ascii")
    return Data("", lambda: text)


def _by_callable(mapper: Callable[[Any], Any], value: object) -> object:
    try:
        given = _copied(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # objects inside the value may raise anything when they are copied
        raise MapperFailed(f"mapper: the output cannot be copied for it: {type(error).__name__}") from error
    try:
        mapped = mapper(given)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a failing mapper must not end the turn
        raise MapperFailed(f"mapper: {type(error).__name__}{_place()}") from error
    # `isinstance` would read the value's own `__class__`, which may run any code.
    if issubclass(type(mapped), CoroutineType):
        mapped.close()
        raise MapperFailed("mapper: it returned a coroutine; give an ordinary function")
    return mapped


def _place() -> str:
    """Return where in the callable's own file the exception now being handled was raised: the innermost line of that file."""
    _, *frames = traceback.walk_tb(sys.exc_info()[2])
    own = [(frame, line) for frame, line in frames if frame.f_code.co_filename == frames[0][0].f_code.co_filename]
    if not own:  # a compiled callable has no Python frames
        return ""
    code = own[-1][0].f_code
    return f" at {PurePath(code.co_filename).name}:{own[-1][1]} in {code.co_name}"


def _by_template(scope: Scope, tool: ToolPolicy, template: str, value: object) -> str:
    from byref_sandbox.code import templates

    content_type, encoded, value = _as_data(value)
    most, seconds = _max_bytes(scope, tool), _knob(scope, tool, "run_seconds")
    is_plain = content_type != data.EXACT and len(encoded) <= templates.MAX_PLAIN_BYTES and templates.is_plain(template)
    if not is_plain and scope.sandbox is None:
        raise MapperFailed(
            "template: nothing here can end it, so it has to be plain, and its data at most "
            f"{templates.MAX_PLAIN_BYTES >> 20} MB of JSON's own types"
        )
    if is_plain:
        try:
            seconds = seconds if scope.sandbox is None else min(seconds, templates.PLAIN_SECONDS)
            return templates.render(template, value, seconds=seconds, max_bytes=most).decode("utf-8", "surrogatepass")
        except templates.Late as error:
            if scope.sandbox is None:
                raise MapperFailed(f"template: {error}") from error
        except templates.Unbounded as error:
            raise MapperFailed(f"template: {error}") from error
        except Exception as error:
            raise MapperFailed(f"template: {_shown(templates.failure_of(error), template)}") from error
    assert scope.sandbox is not None
    try:
        reply = scope.sandbox.render(template, value, limits=_limits(scope, tool), max_bytes=most)
    except Exception as error:
        raise MapperFailed(f"template: it could not be rendered: {one_line(error)}") from error
    if reply.error is not None:
        raise MapperFailed(f"template: {_shown(reply.error, template)}")
    return reply.text


def _as_data(value: object) -> tuple[str, bytes, object]:
    """Return the content type, the bytes and the value that a template reads.

    A value of the types that the encoder knows keeps them; any other value is converted to JSON first.
    """
    try:
        if values.repeats_itself(value):
            raise MapperFailed("template: the value refers to its own parts so often that it cannot be written out")
        return *data.encode_exactly(value), value
    except TypeError:
        value = jsontext.decode(values.written(value)[1])
        return *data.encode_exactly(value), value


def _shown(failure: Failure, source: str) -> str:
    """Return a description of the failure without the data that its message may quote."""
    if failure.kind in _OWN:
        return one_line(failure.message)
    kind = [] if failure.kind == "JqError" else [failure.kind]
    message = [_without_data(failure.message, source)] if failure.kind in _QUOTED else []
    line = "" if failure.line is None else f" (line {failure.line})"
    return one_line(": ".join(kind + message) + line)


def _without_data(message: str, source: str) -> str:
    """Return the message with an ellipsis for each word that neither jq, Jinja nor the program uses, since it may be data."""
    known = {word.lower() for word in re.findall(r"\w+", source)} | _WORDS
    parts = re.findall(r"\s+|\w+|[^\w\s]", message[:_MOST_READ])
    kept = (part if part.isspace() or part in _SIGNS or part.lower() in known else "…" for part in parts)
    shown = re.sub(r"…(?:[^\w…]*…)+|[^\w\s…]{5,}", "…", "".join(kept))
    return shown if re.search(r"\w", shown) else "an error whose message is data"


def _copied(value: Any) -> object:
    """Return a copy that a callable may change: if the callable fails halfway, the original output is still intact."""
    with jsontext.collector_paused():
        try:
            return marshal.loads(marshal.dumps(value))
        except ValueError:  # a type of the host's own, or nested too deeply
            return copy.deepcopy(value)


def _big_numbers(value: object, *kinds: type) -> set[int | float]:
    """Return all numbers of these types beyond 2**53, from where on a 64-bit float cannot hold every integer."""
    found: set[int | float] = set()
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list | tuple):
            left.extend(item)
        elif isinstance(item, int | float) and isinstance(item, kinds) and not -EXACT_BELOW < item < EXACT_BELOW:
            found.add(item)
    return found


def _limits(scope: Scope, tool: ToolPolicy) -> Limits:
    return Limits(
        wall_seconds=_knob(scope, tool, "run_seconds"),
        cpu_seconds=_knob(scope, tool, "run_cpu_seconds"),
        memory_bytes=_knob(scope, tool, "run_memory_bytes"),
    )


def _knob(scope: Scope, tool: ToolPolicy, name: str) -> Any:
    return tool.knobs.get(name, getattr(scope.policy, name))


def _max_bytes(scope: Scope, tool: ToolPolicy) -> int:
    return min(MAX_BYTES, int(_knob(scope, tool, "max_artifact_bytes")))
