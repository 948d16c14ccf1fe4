"""Conversion of any Python value to JSON: each type that JSON lacks has a rule of its own, or becomes a note in brackets.

Nothing here raises, whatever a tool returned.
"""

from __future__ import annotations

import base64
import io
import math
import re
import secrets
import sys
from collections import UserString
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

import msgspec

from byref.content.arrays import NO_TABLE, key_text, of_arrow, of_numpy, of_pandas, unique
from byref.jsonscan import chunks, parse
from byref.jsonscan.marks import compiled
from byref_sandbox import jsontext
from byref_sandbox.values.fields import as_written, fields_of, first_parts, is_misread, with_whole_minutes

MAX_DEPTH = 200
"""Maximum levels of a Python value; deeper parts become a note, because every JSON reader has a limit (msgspec's is near 1,000)."""
_END = object()
MAX_ITEMS = 1_000_000
"""Maximum items that are read from an iterable of unknown length inside a value."""

RAISED = (Exception, SystemExit, GeneratorExit)
"""Exceptions that are caught around a tool's own code. Only KeyboardInterrupt, which is the host's, passes."""
_CONTAINERS = (dict, list, tuple)
_SCALARS = (str, int, float, bool, type(None))
_WEIGHED = (str, bytes, *_CONTAINERS)
_OWN_TYPES = {dict, list, *_SCALARS}
_OF_TEXTS = {"fractions", "ipaddress", "zoneinfo"}
"""Modules whose objects are known by their text."""
_DATABASES = {"asyncpg", "sqlalchemy", "sqlite3"}
"""Modules whose rows iterate over their values, and know the names of their columns."""
_MANY_DIGITS = re.compile(rb"[0-9][0-9.]{15}|[0-9]E[+-]?[0-9]")
_MAYBE_INEXACT = re.compile(rb"[0-9][0-9.]{15}|[0-9][eE]\+?[0-9]{3}")
"""Numbers that a float may not hold, in text that somebody else has written."""
_OUTSIDE = (0, 0, 0, 0, 0, 0)
"""The place before and behind a value: see `_marks.c`."""
_LIGHT = 16
"""Weight of a number, or of an object that is converted."""
_LEVELS = 3
"""Objects nested in each other whose members begin lines of their own."""
_SHORT = 64
"""Most elements of an array that are encoded together with what stands around it."""
_LOOKED_AT = 2_000
"""Containers that are sampled to see whether a value may repeat its own parts."""
_FIRST_KEYS = 10
_LIKELY = 20
"""A value may repeat itself if the sampled containers occur this often on average."""
_MOST_REPEATED = 300_000
"""Parts of a value that is no plain JSON after which no list or dict of lists or dicts is written a second time."""
_MOST_ENDLESS = 20
"""Objects that give ever more of their own kind that are tried."""
MAX_PARTS = 20_000_000
"""Maximum arrays and objects of a value that repeats its own parts, each counted as often as it would be written."""


def written(value: object) -> tuple[object, bytes, int]:
    """Return a value in JSON's types, its JSON with one record per line, and the number of line feeds in that."""
    consumed: dict[int, tuple[object, object]] = {}
    token = _consumed.set(consumed)
    try:
        _check_depth(value)
        _check_first(value)
        value, data, line_feeds = _top(value)
        if consumed:  # iterators inside are exhausted now, so the value is read back from its JSON
            value = parse(data)
    except RAISED:
        value = _Plain().of(value, 0)
        data, line_feeds = _escaped(value)
    finally:
        _consumed.reset(token)
    return value, data, line_feeds


def plain(value: object) -> bytes | None:
    """Return the JSON of a value on one line; None if any part of it has a type that JSON lacks."""
    try:
        _check_depth(value)
        _check_first(value)
        return _checked(_plain_encoder.encode(value))
    except RAISED:
        return None


def _check_depth(value: object) -> None:
    """Raise RecursionError if a value nests so deeply that writing it could crash the process.

    It is needed only if the host raised Python's recursion limit beyond `jsontext.MAX_LEVELS`.
    """
    if sys.getrecursionlimit() <= jsontext.MAX_LEVELS:
        return
    level: list[Any] = [value]
    for _ in range(jsontext.MAX_LEVELS):
        level = [one for one in level if type(one) in _CONTAINERS]
        if not level:
            return
        members: Iterator[Any] = chain.from_iterable(one.values() if type(one) is dict else one for one in level)
        level = list({id(member): member for member in members if type(member) in _CONTAINERS}.values())
    raise RecursionError


def _check_first(value: object) -> None:
    """Raise TypeError if msgspec would write one of the first parts of a value otherwise than it is.

    It writes a Decimal that is a key without quotes, the keys 1 and "1" as the same, and some objects otherwise than
    `is_misread` has it.
    """
    for one in first_parts(value):
        if type(one) is dict:
            kinds = {type(next(reversed(one), "")), *map(type, islice(one, _FIRST_KEYS))}
            if kinds == {str}:
                continue
            if any(issubclass(kind, Decimal) for kind in kinds):
                raise TypeError("Decimal as a key")
            if len(kinds) > 1 and len(set(map(key_text, one))) < len(one):
                raise TypeError("two keys are written as one")
        elif is_misread(one):
            raise TypeError("it is not written as it is")


def type_name(value: object) -> str:
    """Return the name of a value's type without running code of its metaclass."""
    return str(type.__dict__["__name__"].__get__(type(value)))


def repeats_itself(value: object) -> bool:
    """Tell whether a value refers to the same few parts so often that writing it would never end.

    YAML's aliases make such values from a few lines of text ("billion laughs"). In ordinary data, nearly all of the first
    `_LOOKED_AT` containers are distinct; only a value that repeats itself there is counted completely.
    """
    if type(value) not in _CONTAINERS:
        return False
    seen: set[int] = set()
    pending: list[Any] = [value]
    for _ in range(_LOOKED_AT):
        if not pending or len(seen) * _LIKELY > _LOOKED_AT:
            return False
        one = pending.pop()
        seen.add(id(one))
        members = one.values() if type(one) is dict else one
        pending += [member for member in islice(members, _LOOKED_AT) if type(member) in _CONTAINERS]
    return _written_out(value, {}) > MAX_PARTS


def _written_out(value: Any, known: dict[int, int]) -> int:
    """Count the containers of a value as often as they would be written; each one is visited once."""
    if id(value) not in known:
        known[id(value)] = 0  # ends the recursion for a value that contains itself
        members = value.values() if type(value) is dict else value
        inner = [member for member in members if type(member) in _CONTAINERS]
        known[id(value)] = 1 + sum(_written_out(member, known) for member in inner)
    return known[id(value)]


def _top(value: object) -> tuple[object, bytes, int]:
    """Return what `written` does. Lists, dicts and scalars stay what they are; any other value becomes the JSON that it encodes to."""
    if type(value) in _OWN_TYPES:
        return value, *_lines(value)
    text, is_decimal = _encoded(value), isinstance(value, Decimal)
    value = parse(text)
    data, line_feeds = _lines(value)
    # Of a Decimal with more digits than floats have some are lost, or all if it is too large. Most data has none, which is seen sooner.
    if (is_decimal or _MANY_DIGITS.search(text)) and chunks.unbroken(data).encode() != text:
        value = _exactly(text)
        data, line_feeds = _lines(value)
    return value, data, line_feeds


def decoded(text: bytes) -> object:
    """Return the value of JSON text, with Decimals for numbers that floats cannot hold; raise NotJSON."""
    return _exactly(text) if _MAYBE_INEXACT.search(text) else jsontext.decode(text)


def _exactly(text: bytes) -> object:
    """Return the value of JSON text, with Decimals for numbers that `_encoder` would write otherwise if they were floats."""
    return jsontext.decode(text, _exact.decode)


def _number(text: str) -> float | Decimal:
    number = float(text)
    return number if _plain_encoder.encode(number) == text.encode() else Decimal(text)


def _lines(value: object) -> tuple[bytes, int]:
    r"""Encode with one record per line, so that lines, grep and `line_count` mean something; count the line feeds.

    Elements of an array and members of an object begin lines of their own, down to the first array and at most three
    objects deep. A raw newline occurs nowhere else in JSON text, so removing the newlines gives the compact form.
    """
    if compiled is not None and type(value) is dict:
        try:
            return _broken(value)
        except _Untold:
            pass
    lines = _Lines()
    lines.add(value, _LEVELS)
    return lines.end()


class _Untold(Exception):
    """Text does not tell where the lines of an object begin."""


def _broken(value: dict[Any, Any]) -> tuple[bytes, int]:
    """Return what `_Lines` makes of an object, broken into lines by the compiled form. Raises _Untold.

    NaN and Infinity are left to `_Lines`, which refuses them.
    """
    assert compiled is not None
    text, line_feeds, place = io.BytesIO(), 0, _OUTSIDE
    for piece in _compact(value, _encoder.encode, lambda members: _check_types(members, _LEVELS)):
        if b"\n" in piece:  # something was JSON already
            raise _Untold
        for at in range(0, len(piece), chunks.CHUNK):
            lines, count, place = compiled.broken(piece[at : at + chunks.CHUNK], place)
            text.write(lines)
            line_feeds += count
    if place != _OUTSIDE:
        raise _Untold
    return text.getvalue(), line_feeds


def _check_types(members: Iterable[Any], levels: int) -> None:
    """Raise _Untold if among members of objects, down to so many levels, one is written as an object or array and is no dict or list."""
    members = iter(members)
    while some := list(islice(members, chunks.ITEMS)):
        types = set(map(type, some))
        if not types <= _OWN_TYPES:
            raise _Untold
        if levels > 1 and dict in types:
            objects = some if len(types) == 1 else [one for one in some if type(one) is dict]
            _check_types(chain.from_iterable(map(dict.values, objects)), levels - 1)


class _Lines:
    """The text of a value, line by line. What stands alone on its line is encoded together with many others, which is much faster.

    `_marks.c` makes the same of plain objects, where it was compiled. What changes here changes there; a test compares them.
    """

    def __init__(self) -> None:
        self._text = io.BytesIO()  # grows in place, where joining would hold all parts beside the whole
        self._few: list[bytes] = []
        self._size = 0
        self._line_feeds = 0
        self._before = b""
        """Text that was not added to the pieces yet; it stands before the next value."""
        self._befores: list[bytes] = []
        self._values: list[object] = []
        """Values to encode, and what stands before each."""
        self._weight = 0
        self._keys: dict[str, bytes] = {}

    def add(self, value: Any, depth: int) -> None:
        """Write a value whose members begin lines down to this depth."""
        if type(value) is dict and value and depth:
            self._before += b"{\n"
            for key, member in value.items():
                self._before += self._key(key)
                if type(member) in _SCALARS:
                    self._add_one(member)
                else:
                    self.add(member, depth - 1)
                self._before += b",\n"
            self._before = self._before[:-2] + b"\n}"
        elif type(value) is list and 0 < len(value) <= _SHORT:
            self._before += b"[\n"
            for element in value:
                self._add_one(element)
                self._before += b",\n"
            self._before = self._before[:-2] + b"\n]"
        elif type(value) is list and value:
            self._add_list(value)
        else:
            self._add_one(value)

    def end(self) -> tuple[bytes, int]:
        """Return the text, and its number of line feeds."""
        self._encode()
        self._text.writelines(self._few)
        return self._text.getvalue(), self._line_feeds

    def _key(self, key: object) -> bytes:
        if type(key) is not str:
            return _encoder.encode({key: None})[1:-5]  # the key as JSON, without `null}`
        if (known := self._keys.get(key)) is None:
            if len(self._keys) >= chunks.ITEMS:
                self._keys.clear()
            known = self._keys[key] = _encoder.encode(key) + b":"
        return known

    def _add_one(self, value: object) -> None:
        """Write a value on one line."""
        weight = chunks.weight(value) if type(value) in _WEIGHED else _LIGHT
        if weight > chunks.CHUNK:
            self._encode()
            for piece in _on_one_line(value):
                self._put(piece, 0)
            return
        self._befores.append(self._before)
        self._values.append(value)
        self._before = b""
        self._weight += weight
        if self._weight > chunks.CHUNK:
            self._encode()

    def _add_list(self, elements: list[Any]) -> None:
        self._before += b"[\n"
        for run in chunks.runs(elements):
            self._encode()
            if len(run) == 1:
                for piece in _on_one_line(run[0]):
                    self._put(piece, 0)
            else:
                lines = _checked(_encoder.encode_lines(run))[:-1]
                piece = lines.replace(b"\n", b",\n")
                # More line feeds than records: some records were JSON already, written on several lines.
                if len(piece) - len(lines) >= len(run):
                    piece = b",\n".join(_unbroken(_encoded(element)) for element in run)
                self._put(piece, len(run) - 1)
            self._before = b",\n"
        self._before = b"\n]"

    def _encode(self) -> None:
        """Encode the values, and put them and what stands before the next one to the pieces."""
        if self._values:
            lines = _encoder.encode_lines(self._values)
            encoded = lines.split(b"\n")[:-1]
            if len(encoded) == len(self._values):
                _checked(lines)
            else:  # some were JSON already, written on several lines
                encoded = [_unbroken(_encoded(value)) for value in self._values]
            piece = b"".join(chain.from_iterable(zip(self._befores, encoded, strict=True)))
            self._put(piece, piece.count(b"\n"))
            self._befores, self._values, self._weight = [], [], 0
        self._put(self._before, self._before.count(b"\n"))
        self._before = b""

    def _put(self, piece: bytes, line_feeds: int) -> None:
        self._few.append(piece)
        self._size += len(piece)
        self._line_feeds += line_feeds
        if self._size > chunks.CHUNK:
            self._text.writelines(self._few)
            self._few, self._size = [], 0


def _on_one_line(value: object) -> Iterable[bytes]:
    return map(_unbroken, _compact(value, _encoded))


def _unbroken(data: bytes) -> bytes:
    return data.replace(b"\n", b" ")


def _compact(
    value: Any, encode: Callable[[Any], bytes], check: Callable[[Iterable[Any]], None] | None = None
) -> Iterable[bytes]:
    """Yield the JSON of a value on one line, in pieces. Of an object, `check` gets the members before they are written."""
    if not chunks.is_heavy(value):
        if check is not None:
            check(value.values())
        yield encode(value)
    elif type(value) is str:
        yield b'"'
        for piece in chunks.pieces(value):
            yield encode(piece)[1:-1]
        yield b'"'
    elif type(value) is dict:
        before, members = b"{", iter(value.items())
        while some := list(islice(members, chunks.ITEMS)):
            for run in chunks.runs(some):
                if check is not None:
                    check(member for _, member in run)
                yield before
                if len(run) == 1:
                    yield _encoder.encode({run[0][0]: None})[1:-5]
                    yield from _compact(run[0][1], encode)
                else:
                    yield encode(dict(run))[1:-1]
                before = b","
        yield b"}"
    elif type(value) is list or type(value) is tuple:
        before = b"["
        for run in chunks.runs(value):
            yield before
            if len(run) == 1:
                yield from _compact(run[0], encode)
            else:
                yield encode(run)[1:-1]
            before = b","
        yield b"]"
    else:
        yield encode(value)


def _encoded(value: object) -> bytes:
    return _checked(_encoder.encode(value))


def _checked(data: bytes) -> bytes:
    """Return the data, or raise if it is not JSON: a Decimal may have been written as NaN or Infinity, which JSON lacks.

    A string may contain these words, too, so only a decoder can tell.
    """
    if chunks.holds(data, b"NaN") or chunks.holds(data, b"Infinity"):
        _validator.decode_lines(data)
    return data


def _hook(value: Any) -> object:
    """Convert an object of a type that msgspec does not know; msgspec calls this for each such object."""
    if value is None or isinstance(value, bool):  # as keys of a dict
        return "null" if value is None else str(value).lower()
    kind = type(value)
    module = (kind.__module__ or "").partition(".")[0]
    if module == "pandas":
        return as_written(of_pandas(value))
    if module == "numpy":
        return of_numpy(value)
    if module in ("pyarrow", "polars") and (found := of_arrow(value)) is not NO_TABLE:
        return found
    for name in ("model_dump", "to_pylist", "to_dicts"):  # pydantic, relatives of pyarrow and polars
        if callable(method := getattr(kind, name, None)):
            return as_written(method(value))
    if isinstance(value, str | UserString):
        return str.__str__(value) if isinstance(value, str) else str(value.data)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal):
        return Decimal(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, date | time | timedelta):
        return _moment(value)
    if isinstance(value, Mapping):
        return as_written(dict(_members(value)))
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, BaseException):
        return f"{kind.__name__}: {value}"
    modules = {str(base.__module__).partition(".")[0] for base in kind.__mro__}
    if modules & _OF_TEXTS:
        return str(value)
    if modules & _DATABASES and (names := _columns_of(value)):
        return dict(zip(unique(names), value, strict=True))
    if modules & {"pydantic", "pydantic_core"} and (core := sys.modules.get("pydantic_core")):
        return core.to_jsonable_python(value, fallback=_note)  # a URL, say, or a secret, which stays hidden
    if isinstance(value, Iterable) and not isinstance(value, type):
        consumed = _consumed.get()
        if id(value) not in consumed:
            try:
                items: object = _items(iter(value))
            except RAISED as error:  # kept, because a generator that failed is simply empty when it is read again
                items = _unreadable(value, error)
            consumed[id(value)] = value, items
        return as_written(consumed[id(value)][1])
    return _note(value)


def _moment(value: date | time | timedelta) -> object:
    """Return an object of a class derived from one of `datetime`'s as one of that class."""
    if isinstance(value, timedelta):
        return timedelta.__pos__(value)
    if isinstance(value, time):
        return time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)
    day = date(value.year, value.month, value.day)
    return with_whole_minutes(datetime.combine(day, datetime.timetz(value))) if isinstance(value, datetime) else day


def _note(value: object) -> str:
    return f"[{type(value).__name__} is not JSON: {_short_repr(value)}]"


def _items(source: Iterator[Any]) -> list[Any]:
    """Return the first items of an iterable, with a note in place of further ones."""
    items = list(islice(source, MAX_ITEMS))
    if len(items) == MAX_ITEMS and next(source, _END) is not _END:
        items.append(f"[{MAX_ITEMS:,} items were taken of an iterable; what followed was not read.]")
    return items


def _is_nested(value: Any) -> bool:
    """Whether a list, tuple or dict holds another one: flat ones may be shared as often as they like."""
    return any(type(member) in _CONTAINERS for member in (value.values() if type(value) is dict else value))


def _members(value: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the members of an object, the first ones of a type that may make them up, with a note in place of further ones."""
    members = iter(value.items())
    if isinstance(value, dict):
        yield from members
        return
    yield from islice(members, MAX_ITEMS)
    if next(members, _END) is not _END:
        yield "...", f"[{MAX_ITEMS:,} members were taken of an object; what followed was not read.]"


def _columns_of(row: Any) -> Iterable[str] | None:
    """Return the names of the columns of a database's row: SQLAlchemy's have fields, the others keys."""
    if (fields := getattr(row, "_fields", None)) is not None:
        return tuple(map(str, fields))
    keys = getattr(type(row), "keys", None)
    return keys(row) if callable(keys) and not hasattr(type(row), "__next__") else None


class _Plain:
    """Builds plain JSON from any value, with notes in place of cycles, excessive depth and unreadable objects."""

    def __init__(self) -> None:
        self._above: set[int] = set()
        """What the part that is being read is in."""
        self._read: dict[int, object] = {}
        """Lists, tuples and dicts that were read, held so that nothing else gets their ids."""
        self._parts = self._endless = 0

    def of(self, value: Any, depth: int) -> object:
        """Return plain JSON of a value that stands so many levels deep."""
        if value is None or type(value) is bool or type(value) is str:
            return value
        if type(value) is int:
            return value if value.bit_length() < 10_000 else f"[integer of {value.bit_length()} bits]"
        if type(value) is float:
            return value if math.isfinite(value) else None
        kind = type(value)  # `isinstance` would ask for `__class__`, which may run the object's own code
        if issubclass(kind, Decimal):
            return value if value.is_finite() else None
        if issubclass(kind, bytes | bytearray | memoryview):
            return base64.b64encode(value).decode()
        if depth >= MAX_DEPTH:
            return f"[nested deeper than {MAX_DEPTH} levels]"
        if id(value) in self._above:
            return f"[circular reference to {type_name(value)}]"
        self._parts += 1
        if self._parts > _MOST_REPEATED and id(value) in self._read and _is_nested(value):
            # Of parts that refer to each other every way through them would be written: factorially many.
            return f"[{type(value).__name__} that is written above]"
        self._above.add(id(value))
        if type(value) in _CONTAINERS:
            self._read[id(value)] = value
        try:
            if isinstance(value, Mapping):
                members = [*_members(value)]
                names = unique(key_text(key) for key, _ in members)
                return {name: self.of(member, depth + 1) for name, (_, member) in zip(names, members, strict=True)}
            if isinstance(value, list | tuple | set | frozenset):
                return [self.of(item, depth + 1) for item in value]
            return self.of(self._converted(value), depth + 1)
        except RAISED as error:
            return _unreadable(value, error)
        finally:
            self._above.discard(id(value))

    def _converted(self, value: object) -> object:
        """Convert a value of a type that JSON lacks by one step; the result may need further steps."""
        if self._endless > _MOST_ENDLESS:
            return f"[{type(value).__name__} is not read: what such objects give never ended]"
        if (found := fields_of(value)) is not None:
            return found
        try:
            return _exactly(_encoder.encode(with_whole_minutes(value) if isinstance(value, datetime) else value))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            self._endless += isinstance(error, RecursionError)
            converted = _hook(value)
            return str(converted) if type(converted) is type(value) else converted


def _escaped(value: object) -> tuple[bytes, int]:
    try:
        return _lines(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        import json

        # A Decimal goes as a text that nobody else can have written, because json knows no numbers but its own.
        mark = secrets.token_hex(8)
        text = json.dumps(value, separators=(",", ":"), default=lambda number: f"{mark}{number}")
        return re.sub(rf'"{mark}([^"]*)"', r"\1", text).encode(), 0


def _unreadable(value: object, error: BaseException) -> str:
    return f"[{type_name(value)} could not be read: {type_name(error)}]"


def _short_repr(value: object) -> str:
    try:
        return repr(value)[:200]
    except RAISED:
        return f"<{type(value).__name__}>"


_consumed: ContextVar[dict[int, tuple[object, object]]] = ContextVar("consumed")
"""The items of each iterator inside the value being written, or a note why it failed.

An iterator gives its items only once, but if one way of writing fails, the value is written again in another."""

_validator = msgspec.json.Decoder(msgspec.Raw)
_encoder = msgspec.json.Encoder(enc_hook=_hook, decimal_format="number")
_plain_encoder = msgspec.json.Encoder(decimal_format="number")
_exact = msgspec.json.Decoder(float_hook=_number)
