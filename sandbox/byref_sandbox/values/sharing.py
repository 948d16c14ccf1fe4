"""Large arrays of JSON records as a value in which equal texts of a member are one object, where few of them are different.

A reader makes an object for each text, although most texts of records are some of a few: states, regions, days. So an array is decoded
some records at a time, and of these each member is looked through at once, while they are still in the processor's caches. Code cannot
tell such a value from another, since texts do not change.

Where the array is cut is guessed: where there is what stands between its first two records. The guess was right if the records before
it are a JSON array by themselves: whatever ends as an element there does so in the whole text. Otherwise the next place is tried.
"""

from __future__ import annotations

import json
import mmap
import re
from collections import deque
from itertools import repeat
from operator import itemgetter, setitem
from typing import Any, Final, NamedTuple

import msgspec

from byref_sandbox import jsontext

MIN_BYTES: Final = 16 << 20
"""Less is decoded as it is: to look through all texts takes a third of the time again."""
_HEAD_BYTES: Final = 1 << 16
"""In which the first record ends."""
_SLICE_BYTES: Final = 1 << 16
_MAX_MISSES: Final = 16
_MAX_DIFFERENT: Final = 1 << 12
"""Texts of a member of which each is one object."""
_MAX_MEMBERS: Final = 200
"""Members of a record. To look through one takes a while, however few records there are."""

_BEFORE_RECORDS: Final = re.compile(rb'(?:[^"\[]|"(?:[^"\\]|\\.)*+"|\[(?!\s*+\{))*+\[', re.DOTALL)
_BETWEEN: Final = re.compile(rb',\s*+\{\s*+"(?:[^"\\]|\\.)*+"', re.DOTALL)
_ENDS: Final = re.compile(r"[\]}\s]+\Z")
_NOT_SHARED: Final[dict[str, str]] = {}
_TEXTS: Final = frozenset({str, type(None)})
_decode: Final = msgspec.json.Decoder().decode
_read_one: Final = json.JSONDecoder().raw_decode


class _Cut(NamedTuple):
    begin: int
    """Where the first record begins."""
    ends: bytes
    """The last bytes of a record."""
    between: bytes
    """What follows, up to the first key of the next one."""


def decode(text: bytes | mmap.mmap | memoryview) -> object:
    """Return the value of JSON as `jsontext.decode` does."""
    is_cut = not isinstance(text, memoryview) and len(text) >= MIN_BYTES
    return jsontext.decode(text, _decode_in_slices if is_cut else _decode)


def _decode_in_slices(text: Any) -> Any:
    """Raises DecodeError and RecursionError."""
    head = text[:_HEAD_BYTES]
    cut = _cut_of(head)
    if cut is None:
        return _decode(text)
    records: list[Any] = []
    known: dict[str, dict[str, str]] = {}
    begin, misses = cut.begin, 0
    found = text.find(cut.ends + cut.between, begin + _SLICE_BYTES)
    while found >= 0 and misses < _MAX_MISSES:
        end = found + len(cut.ends)
        try:
            some = _decode(b"[%b]" % text[begin:end])
        except msgspec.DecodeError:
            misses += 1
            found = text.find(cut.ends + cut.between, end)
            continue
        _share(some, known)
        records += some
        begin = end + 1  # behind the comma
        found = text.find(cut.ends + cut.between, begin + _SLICE_BYTES)
    if len(text) - begin > len(text) // 2:  # of which no copy is made
        records.clear()
        return _decode(text)
    return _with_records(head[: cut.begin], records, text[begin:])


def _cut_of(head: bytes) -> _Cut | None:
    """Return how the first array of records is cut; None if there is none, or no second record."""
    before = _BEFORE_RECORDS.match(head)
    if before is None:
        return None
    letters = head.decode("latin-1")  # one for each byte
    begin = len(letters) - len(letters[before.end() :].lstrip())
    try:
        _, end = _read_one(letters, begin)
    except (ValueError, RecursionError):
        return None
    ends, between = _ENDS.search(letters[begin:end]), _BETWEEN.match(head, end)
    return _Cut(before.end(), ends[0].encode(), between[0]) if ends and between else None


def _with_records(before: bytes, records: list[Any], rest: bytes) -> Any:
    """Return the value of `before` and `rest` together, where these records are in the array that begins between them."""
    mark = f"{hash(rest):x}"  # nobody writes a text that has its own hash in it
    value = _decode(b'%b"%b",%b' % (before, mark.encode(), rest))
    waiting = [value]
    for one in waiting:
        if type(one) is list and one[:1] == [mark]:
            one[:1] = records
            return value
        if type(one) is dict:
            waiting += one.values()
    raise msgspec.DecodeError("what was taken for an array is none")


def _share(records: list[Any], known: dict[str, dict[str, str]]) -> None:
    """Put one object in the place of equal texts of a member, where all of these records have it. `known` has the texts of each member."""
    if {*map(type, records)} != {dict} or len(records[0]) > _MAX_MEMBERS:
        return
    for name in records[0]:
        texts = known.setdefault(name, {})
        if texts is _NOT_SHARED:
            continue
        before = len(texts)
        try:
            values = [*map(itemgetter(name), records)]
            values = [*map(texts.setdefault, values, values)]
        except KeyError:
            continue
        except TypeError:  # an array or object
            known[name] = _NOT_SHARED
            continue
        # Equal numbers may be different ones, as 1 and 1.0 are: such a member stays as it is.
        if len(texts) > before and (len(texts) > _MAX_DIFFERENT or not _TEXTS.issuperset(map(type, texts))):
            known[name] = _NOT_SHARED
            continue
        deque(map(setitem, records, repeat(name), values), maxlen=0)
