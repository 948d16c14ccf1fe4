"""What comes out of a run: data only, as JSON, and with its types for the next run.

This runs inside the jail, on whatever the code left behind: a `__repr__` that lies, loops or bombs does so in there.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import itertools
import json
import re
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec
import numpy as np
import pandas as pd

from byref_sandbox.jsontext import encodable
from byref_sandbox.outcome import TOO_DEEP
from byref_sandbox.values import exact
from byref_sandbox.values.fields import as_written, fields_of

MAX_CELLS_AS_JSON: Final = 200_000
"""Cells of a table that is stored as JSON too. A bigger one takes seconds to write as JSON, and is stored as Arrow alone."""
_LONG_BYTES: Final = 64 << 10
_LINED_LEVELS: Final = 2
_LINES_AT_ONCE: Final = 1_000
_MOST_NUMBERS: Final = 1_000_000
"""Numbers of a range that is data. A longer one takes no memory by itself."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_HOLDERS: Final[tuple[Any, ...]] = (dict, list, tuple)
_MANY_LEVELS: Final = 40
"""Levels of nesting of which few data have as many, and below which it is asked whether a value contains itself."""


_Place = tuple["_Place", object] | None
"""Where something is in data: the place of what has it, and its key or number."""


class NotData(ValueError):
    """The value cannot be expressed as data; the message says what it is."""


class Keepsake(NamedTuple):
    """A value as hosts and tools have it."""

    kind: Literal["json", "dataframe"]
    data: bytes
    """JSON, for readers other than Python; empty if it is a table too big for it."""
    exact: bytes = b""
    """A table with its types (`exact`)."""
    shape: str = ""
    """What it is, in words, where JSON does not tell."""


def keep(value: object) -> Keepsake:
    """Return a top-level name's value as hosts and tools have it; raise NotData with the reason."""
    if isinstance(value, types.ModuleType):
        raise NotData("a module: import it again")
    if isinstance(value, types.MethodType | types.BuiltinMethodType):
        raise NotData("a method of an object: call it where it is used")
    if not isinstance(value, pd.DataFrame | pd.Series | np.ndarray):
        return Keepsake("json", to_json(value), shape=stands_for(value))
    try:
        packed = exact.encode(value)
    except exact.NotExact as error:
        raise NotData(str(error)) from None
    if value.size > MAX_CELLS_AS_JSON:
        return Keepsake(_form(value), b"", packed, shape_of(value))
    return Keepsake(_form(value), to_json(data_of(value)), packed, shape_of(value))


def data_of(value: object) -> object:
    """Return what JSON has of a table: its records, or the data of a Series; of anything else the value itself."""
    if isinstance(value, pd.DataFrame):
        return records_of(value)
    return series_data(value) if isinstance(value, pd.Series) else value


def _form(value: object) -> Literal["json", "dataframe"]:
    return "dataframe" if isinstance(value, pd.DataFrame) else "json"


def shape_of(value: object) -> str:
    """Say in a few words what a value is that JSON has no word for."""
    if isinstance(value, pd.DataFrame):
        return f"DataFrame of {counted(len(value), 'row')} and {counted(value.shape[1], 'column')}"
    if isinstance(value, pd.Series):
        return f"Series of {counted(len(value), 'value')}"
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)} of {value.dtype}"[:100]
    return type_name(value)


def stands_for(value: object) -> str:
    """Return the name of a value's type if JSON gives back another one; else nothing."""
    kind = type(value)
    if kind in (dict, list, str, int, bool, type(None)) or (kind is float and value - value == 0):  # type: ignore[operator]
        return ""
    return type_name(value)


def type_name(value: object) -> str:
    """Return the name of a value's type."""
    name: str = type.__dict__["__name__"].__get__(type(value))
    return encodable(name)[:60]


def to_json(value: object) -> bytes:
    """Return data as compact JSON; raise NotData.

    Dates are ISO strings, NaN and infinities null, sets and arrays lists, bytes base64, keys strings, Decimals strings,
    complex numbers strings. Of keys with the same text the later ones are numbered.
    """
    has_twins = _has_twin_keys(value)  # asked first: what contains itself would be written as deep as the stack allows
    try:
        if not has_twins:
            encoded = bytearray()
            _encoder.encode_into(as_written(value), encoded)  # where memory runs out, `encode` crashes: msgspec 0.22
            return bytes(encoded)
    except msgspec.EncodeError as error:  # of a value of more than 4 GiB
        raise NotData(str(error)) from None
    except RecursionError:
        raise NotData(TOO_DEEP) from None
    except (TypeError, ValueError):
        pass  # keys that are no strings, lone surrogates, or no data at all
    try:
        return json.dumps(_plain_deep(value), separators=(",", ":"), allow_nan=False).encode()
    except RecursionError:
        raise NotData(TOO_DEEP) from None
    except NotData:
        raise
    except (TypeError, ValueError) as error:
        raise NotData(str(error)) from None


def not_finite(value: object) -> str:
    """Say where in data there is a number that JSON has no form for: `['rows'][3] is nan`; nothing if there is none.

    What is missing in a table is no number, so null says what it is.
    """
    # What msgspec refuses, half of a surrogate pair say, is looked through as far as it is of plain types.
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        value = msgspec.to_builtins(value, enc_hook=_plain)
    left: list[tuple[object, _Place]] = [(value, None)]
    while left:
        one, place = left.pop()
        if isinstance(one, dict):
            left += [(member, (place, key)) for key, member in one.items()]
        elif isinstance(one, list | tuple):
            left += [(item, (place, number)) for number, item in enumerate(one)]
        elif isinstance(one, float) and one - one != 0:
            return f"{_written(place)} is {one}"
    return ""


def _written(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step!r:.60}]")
    return "".join(reversed(steps))


def in_lines(value: object, data: bytes) -> bytes:
    """Return the JSON of a value with a line for each element of a long array, for tools that read or search lines.

    JSON has no other line feeds. The array may also be a member of an object, or of an object in that.
    """
    if len(data) < _LONG_BYTES:
        return data
    try:
        written = bytearray(2 * len(data))  # where memory runs out, `encode_lines` crashes: msgspec 0.22
        written.clear()
        _write_lines(as_written(value), written, _LINED_LEVELS)
    except (TypeError, ValueError, RecursionError, MemoryError):
        return data
    if len(written) - written.count(b"\n") != len(data):  # it has keys with the same text, which are numbered in `data`
        return data
    return bytes(written)


def _write_lines(value: object, written: bytearray, levels: int) -> None:
    if type(value) is list and value:
        written += b"["
        for at in range(0, len(value), _LINES_AT_ONCE):
            lines = _encoder.encode_lines(value[at : at + _LINES_AT_ONCE])
            written += b"\n" if at == 0 else b",\n"
            written += lines[:-1].replace(b"\n", b",\n")
        written += b"\n]"
    elif type(value) is dict and value and levels:
        for number, (key, member) in enumerate(value.items()):
            written += b",\n" if number else b"{\n"
            written += _encoder.encode({key: None})[1:-5]
            _write_lines(member, written, levels - 1)
        written += b"\n}"
    else:
        _encoder.encode_into(value, written, len(written))


def records_json(frame: pd.DataFrame) -> bytes:
    """Return a DataFrame as a JSON array of records. An index that says something becomes their first fields."""
    return to_json(records_of(frame))


def records_of(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return a DataFrame as records."""
    names, columns = columns_of(frame)
    if not names:
        return [{} for _ in range(len(frame))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def index_says_something(index: pd.Index) -> bool:
    """Whether labels mean more than a row number: they are named, have several levels, or are no integers."""
    return index.nlevels > 1 or index.name is not None or index.dtype.kind not in "iu"


def labels_of(index: pd.Index) -> list[str]:
    """Return the labels of an index as text."""
    if index.nlevels > 1:
        return [", ".join(map(str, label)) for label in index]
    return [_key(label) for label in column_of(index.to_series())]


def series_data(series: pd.Series) -> object:
    """Return a Series as plain data: a dict by label if its index says something, else a list."""
    values = column_of(series)
    if not index_says_something(series.index):
        return values
    labels = labels_of(series.index)
    if len(set(labels)) < len(labels):
        return [{"index": label, "value": value} for label, value in zip(labels, values, strict=True)]
    return dict(zip(labels, values, strict=True))


def columns_of(frame: pd.DataFrame, *, for_text: bool = False) -> tuple[list[str], list[list[object]]]:
    """Return the names and the values of the columns. An index that says something comes first."""
    names: list[str] = []
    columns: list[list[object]] = []
    if index_says_something(frame.index):
        for level in range(frame.index.nlevels):
            default = "index" if frame.index.nlevels == 1 else f"level_{level}"
            name = frame.index.names[level]
            names.append(default if name is None else _key(name))
            columns.append(column_of(frame.index.get_level_values(level).to_series(), for_text=for_text))
    for position, name in enumerate(frame.columns):
        names.append("_".join(str(part) for part in name if part != "") if isinstance(name, tuple) else _key(name))
        columns.append(column_of(frame.iloc[:, position], for_text=for_text))
    return unique(names), columns


def unique(names: list[str], fold: Callable[[str], str] = str) -> list[str]:
    """Return the names, numbered where two of them are the same once `fold` is applied to both."""
    seen: set[str] = set()
    numbers: dict[str, Iterator[int]] = collections.defaultdict(lambda: itertools.count(2))
    found = []
    for name in names:
        candidates = itertools.chain([name], (f"{name}_{number}" for number in numbers[name]))
        made = next(candidate for candidate in candidates if fold(candidate) not in seen)
        seen.add(fold(made))
        found.append(made)
    return found


def column_of(series: pd.Series, *, for_text: bool = False) -> list[object]:
    """Return the values as plain Python, None for missing ones. `for_text` drops the time of day where it is always midnight."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind in "biu":
            return list(series.to_numpy().tolist())
        if dtype.kind == "f":
            return [None if value != value else value for value in series.to_numpy().tolist()]
        if dtype.kind == "M":
            return _moments(series.to_numpy(), for_text=for_text)
    missing = series.isna().to_numpy()
    values = series.astype(object).to_numpy()
    return [None if gone else value for value, gone in zip(values.tolist(), missing.tolist(), strict=True)]


def _moments(values: np.ndarray[Any, np.dtype[np.datetime64]], *, for_text: bool) -> list[object]:
    present_ones = values[~np.isnat(values)]
    unit = "ns"
    for candidate in ("D", "s", "ms", "us") if for_text else ("s", "ms", "us"):
        if (present_ones.astype(f"M8[{candidate}]") == present_ones).all():
            unit = candidate
            break
    return [None if text == "NaT" else text for text in np.datetime_as_string(values, unit=cast(Any, unit)).tolist()]


def _plain(value: object) -> object:
    """Turn a value that msgspec does not know into one that it may know, one step at a time; raise NotData."""
    if value is None or isinstance(value, bool):  # as a key
        return "null" if value is None else str(value).lower()
    if value is pd.NaT or value is pd.NA:
        return None
    for kinds, step in _STEPS:
        if isinstance(value, kinds):
            return step(value)
    raise NotData(f"{_article(type(value).__name__)} is no data")


def _array_data(array: np.ndarray[Any, Any]) -> object:
    return _nested(_moments(array.ravel(), for_text=False), array.shape) if array.dtype.kind == "M" else array.tolist()


def _items_of(numbers: range) -> list[int]:
    if numbers[_MOST_NUMBERS:]:  # `len` fails of more than 2**63
        raise NotData(f"a range of more than {_MOST_NUMBERS:,} numbers is no data")
    return list(numbers)


# The first that fits is taken: numpy's scalars are before the Python numbers that some of them inherit from.
_STEPS: Final[tuple[tuple[Any, Callable[[Any], object]], ...]] = (
    (str, str.__str__),
    (np.datetime64, lambda v: None if np.isnat(v) else np.datetime_as_string(v)),
    (np.timedelta64, lambda v: None if np.isnat(v) else pd.Timedelta(v).isoformat()),
    (np.generic, lambda v: v.item()),
    (np.ndarray, _array_data),
    (pd.DataFrame, records_of),
    (pd.Series, series_data),
    (pd.Index, lambda v: column_of(v.to_series()) if v.nlevels == 1 else [list(label) for label in v]),
    (pd.api.extensions.ExtensionArray, lambda v: column_of(pd.Series(v))),
    ((pd.Timestamp, pd.Timedelta), lambda v: v.isoformat()),
    ((pd.Period, pd.Interval, complex), str),
    (int, int),
    (float, float),
    (re.Pattern, lambda v: v.pattern),
    (range, _items_of),
    ((collections.deque, collections.abc.Set, collections.abc.KeysView, collections.abc.ValuesView), list),
    (collections.abc.Mapping, dict),
)
_encoder: Final = msgspec.json.Encoder(enc_hook=_plain)


def _plain_deep(value: object) -> object:
    """Return the whole value in terms of what `json` can write. It is slow, and only for what msgspec refuses."""
    if value is None or isinstance(value, bool):
        return value
    if type(value) is str:
        return value
    if type(value) is int:
        if value.bit_length() > 14_000:  # Python writes at most 4,300 digits
            raise NotData(f"an integer of about {int(value.bit_length() * 0.30103):,} digits")
        return value
    if type(value) is float:
        return value if value - value == 0 else None
    if isinstance(value, dict):
        members = map(_plain_deep, value.values())
        return dict(zip(unique(list(map(_key_in_json, value))), members, strict=True))
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain_deep(item) for item in value]
    if (found := fields_of(value)) is not None:
        return {name: _plain_deep(member) for name, member in found.items()}
    try:
        return json.loads(msgspec.json.encode(value))  # dates, decimals, UUIDs, enums, bytes
    except (TypeError, ValueError):
        return _plain_deep(_plain(value))


def _has_twin_keys(value: object) -> bool:
    """Whether a dict in a value, or in the dicts, lists and tuples of it, has keys that are the same text in JSON: 1 and "1".

    Raises NotData if one of them contains itself.
    """
    level: list[Any] = [value] if issubclass(type(value), _HOLDERS) else []
    for depth in itertools.count():
        if not level:
            break
        if depth == _MANY_LEVELS and _contains_itself(value):
            raise NotData(TOO_DEEP)
        dicts, lists, tuples = ([one for one in level if issubclass(type(one), kind)] for kind in _HOLDERS)
        keys = itertools.chain.from_iterable(map(dict.__iter__, dicts))
        if not {str} >= set(map(type, keys)) and any(map(_is_twinned, dicts)):
            return True
        held = itertools.chain(map(dict.values, dicts), map(list.__iter__, lists), map(tuple.__iter__, tuples))
        members = itertools.chain.from_iterable(held)
        level = [one for one in members if type(one) not in _SCALARS and issubclass(type(one), _HOLDERS)]
    return False


def _contains_itself(value: object) -> bool:
    """Whether a dict, list or tuple is among its own members, however deep. Each is looked at once."""
    above: set[int] = set()
    done: set[int] = set()
    left: list[tuple[Any, bool]] = [(value, False)]
    while left:
        one, is_left = left.pop()
        if is_left:
            above.discard(id(one))
            done.add(id(one))
        elif id(one) in above:
            return True
        elif id(one) not in done:
            above.add(id(one))
            left.append((one, True))
            kind = next(kind for kind in _HOLDERS if issubclass(type(one), kind))
            members = dict.values(one) if kind is dict else kind.__iter__(one)
            left += [(member, False) for member in members if issubclass(type(member), _HOLDERS)]
    return False


def _is_twinned(one: dict[Any, Any]) -> bool:
    if set(map(type, dict.__iter__(one))) in ({str}, {int}):
        return False
    return len(set(map(_key_in_json, dict.__iter__(one)))) < len(one)


def _key_in_json(key: object) -> str:
    """Return the text of a key of a dict."""
    if type(key) is str:
        return key
    try:
        return str(next(iter(msgspec.json.decode(_encoder.encode({key: None})))))
    except (TypeError, ValueError, RecursionError):
        return _key(key)


def _key(key: object) -> str:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, tuple):
        return ", ".join(map(_key, key))
    if isinstance(key, np.datetime64):
        return str(np.datetime_as_string(key))
    if isinstance(key, datetime.datetime | datetime.date):
        return key.isoformat()
    text = str(key)
    if text.startswith("<") and " at 0x" in text:  # an address says nothing to a later reader
        raise NotData(f"a key that is {_article(type(key).__name__)} is no data")
    return text


def _nested(flat: Iterable[object], shape: tuple[int, ...]) -> object:
    return np.array(list(flat), dtype=object).reshape(shape).tolist()


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
