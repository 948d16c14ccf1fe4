"""What was seen at a place as a regular expression, for RE2: it matches JSON text that would teach the place nothing new.

That text is then known to be JSON and of the place's schema, without a value having been made of it: RE2 reads it faster
than any parser, and without the interpreter's lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Any, Final

import msgspec
import re2

from byref.describe.columns import may_be_folded
from byref.describe.nodes import ARRAY, BOOLEAN, CONTAINER, INTEGER, NULL, NUMBER, OBJECT, STRING, Node, places
from byref_sandbox import jsontext

_MAX_LEVELS: Final = 10
_MAX_ORDERS: Final = 8
"""Ways in which an object's keys follow each other that are each written out."""
_MAX_OPTIONAL: Final = 64
"""Members that may each be missing, one behind the other; RE2's states hold all of those that may follow."""
_MAX_COLON: Final = 64
MAX_BYTES: Final = 1 << 15
"""Of an expression; that of an array's items is in it twice."""
_MEMORY: Final = 32 << 20
"""Bytes that RE2 may take for the states of one expression; one has about as many states as it has characters."""
_BLANKS: Final = rb"[ \t\n\r]*"
_NO_FEEDS: Final = rb"[ \t\r]*"
_WHOLE: Final = rb"-?(?:0|[1-9][0-9]*)"
_DIGITS: Final = 128
"""Digits at a place by which longer integers than any are found: the decoder makes strings of these."""
_FRACTION: Final = rb"\.[0-9]+"
_EXPONENT: Final = rb"[eE][+-]?[0-9]+"
_INTEGER: Final = _WHOLE
_FLOAT: Final = _WHOLE + rb"(?:" + _FRACTION + rb"(?:" + _EXPONENT + rb")?|" + _EXPONENT + rb")"
_NUMBER: Final = _WHOLE + rb"(?:" + _FRACTION + rb")?(?:" + _EXPONENT + rb")?"
_BEHIND_STRINGS: Final = (" ", ",", ":", "]", "}")
"""What may follow the last quote of a string, other blanks aside, which are escaped in keys."""
_STRING: Final = rb'"(?:[^%s"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'


class Irregular(ValueError):
    """No expression can be made, or none of a reasonable size."""


class Matcher:
    """The text of an array's elements that are like some that were decoded: objects, rows of scalars, or numbers."""

    def __init__(self, node: Node, seen: Sequence[Any], colon: bytes, *, lines: bool, most: int = MAX_BYTES) -> None:
        """`node` is what is known of the elements, from those that were `seen` and others; `colon` has its blanks.

        `lines`: each element is a line, so that its commas are followed by line feeds and there are no others. Raises
        Irregular, also where it would have more than `most` bytes.
        """
        if len(colon) > _MAX_COLON:
            raise Irregular("its keys are too far from their values")
        are_rows = node.kinds == ARRAY and node.items is not None and not node.items.kinds & CONTAINER
        if not are_rows and node.kinds != OBJECT and node.kinds & (CONTAINER | STRING):
            raise Irregular("they are of several kinds, or of none that can be counted")
        making = _Making(colon, _NO_FEEDS if lines else _BLANKS, rb"\[" if are_rows else b"", min(most, MAX_BYTES))
        element = making.rows(node.items, seen) if are_rows and node.items else making.value(node, seen, _MAX_LEVELS)
        self.size = len(element)
        """Bytes of the expression: what it takes to make is about as much."""
        of_kind = b"[" if are_rows else b","
        self.marker = b"\n" if lines else _marker(node, making.keys, colon) if node.kinds == OBJECT else of_kind
        """What each element's text, with its comma, has once."""
        around = (b"", rb",\n") if lines else (_BLANKS, _BLANKS + b",")
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.longest_match = options.never_capture = True
        options.log_errors = False
        options.max_mem = _MEMORY
        try:
            self._elements = re2.compile(b"(?:%s%s%s)*" % (around[0], element, around[1]), options)
        except re2.error as error:
            raise Irregular(str(error)) from None
        re2.purge()  # its cache would hold the states of the last 128 expressions

    def run(self, text: bytes, start: int, stop: int) -> int:
        """Return where the longest run of elements ends, each with the comma behind it, from `start` on, before `stop`."""
        end = int(self._elements.match(text, start, stop).end())
        places = range(start, end, jsontext.MAX_INTEGER_DIGITS - _DIGITS)
        return start if any(text[at : at + _DIGITS].isdigit() for at in places) else end


class _Making:
    def __init__(self, colon: bytes, blanks: bytes, unsaid: bytes, most: int) -> None:
        """`unsaid` is what no string may hold, `most` how many bytes there may be."""
        self._most = most
        self._colon = re2.escape(colon)
        self._string = _STRING % unsaid
        self._blanks, self._comma = blanks, blanks + b"," + blanks
        self.keys: set[str] = set()

    def value(self, node: Node, seen: Sequence[Any], levels: int) -> bytes:
        if not levels:
            raise Irregular("nested too deeply")
        kinds, ways = node.kinds, list[bytes]()
        if kinds & NULL:
            ways.append(b"null")
        if kinds & BOOLEAN:
            ways.append(b"true|false")
        if kinds & (INTEGER | NUMBER):
            ways.append(_NUMBER if kinds & INTEGER and kinds & NUMBER else _INTEGER if kinds & INTEGER else _FLOAT)
        if kinds & STRING:
            ways.append(self._string)
        if kinds & ARRAY:
            ways.append(self._array(node.items, [value for value in seen if type(value) is list], levels - 1))
        if kinds & OBJECT and node.objects > 1:  # that there was one only, is said of some
            ways.append(self._object(node, [value for value in seen if type(value) is dict], levels - 1))
        expression = b"(?:%s)" % b"|".join(ways) if ways else rb"[^\x00-\xff]"
        self._check(len(expression))
        return expression

    def rows(self, items: Node, seen: Sequence[list[Any]]) -> bytes:
        """Arrays of scalars, as long as those that were seen if these are all of one length."""
        lengths = set(map(len, seen))
        if len(lengths) > 1 or not (length := max(lengths)):
            return self._array(items, seen, _MAX_LEVELS)
        item = self.value(items, list(chain.from_iterable(seen)), _MAX_LEVELS)
        self._check(len(item) * length)
        return b"".join((rb"\[", self._blanks, self._comma.join([item] * length), self._blanks, rb"\]"))

    def _array(self, items: Node | None, seen: Sequence[list[Any]], levels: int) -> bytes:
        if items is None or not items.kinds:
            return rb"\[" + self._blanks + rb"\]"
        item = self.value(items, list(chain.from_iterable(seen)), levels)
        return b"".join((rb"\[", self._blanks, b"(?:", item, b"(?:", self._comma, item, b")*", self._blanks, rb")?\]"))

    def _object(self, node: Node, seen: Sequence[dict[str, Any]], levels: int) -> bytes:
        if node.rest is not None or may_be_folded(node):
            raise Irregular("its keys are data")
        members, size = dict[str, bytes](), 0
        for key, member in node.members.items():
            self.keys.add(key)
            column = [one[key] for one in seen if key in one]
            members[key] = b"".join((_key(key), self._colon, self.value(member, column, levels)))
            size += len(members[key])
            self._check(size)
        orders = dict.fromkeys(map(tuple, seen))
        if len(orders) == 1 or (one := self._one_order(orders, members, node.required or set())) is None:
            if len(orders) > _MAX_ORDERS:
                raise Irregular("its keys come in any order, or none of them is certain")
            self._check(size * len(orders))
            one = b"|".join(self._comma.join(members[key] for key in keys) for keys in orders)
        return b"".join((rb"\{", self._blanks, b"(?:", one, b")", self._blanks, rb"\}"))

    def _one_order(
        self, orders: Iterable[tuple[str, ...]], members: Mapping[str, bytes], required: set[str]
    ) -> bytes | None:
        """All members in one order, of which those that are not required may be missing; None if that cannot be said.

        It cannot where none is required, where the order changes, and where the objects are alike in how many they have.
        """
        if not required or len(set(map(len, orders))) == 1:
            return None
        before: dict[str, set[str]] = {}
        for keys in orders:
            for first, second in pairwise(keys):
                before.setdefault(second, set()).add(first)
        try:
            order = list(TopologicalSorter(before).static_order())
        except CycleError:
            return None
        written, needs_comma, optional = list[bytes](), False, 0
        for key in order if before else members:
            behind, ahead = (b"", self._comma) if needs_comma else (self._comma, b"")
            optional = 0 if key in required else optional + 1
            if optional > _MAX_OPTIONAL:
                raise Irregular("too many members in a row may be missing")
            if optional:
                written += (b"(?:", ahead, members[key], behind, b")?")
            else:
                written += (ahead, members[key])
                needs_comma = True
        return b"".join(written)

    def _check(self, size: int) -> None:
        if size > self._most:
            raise Irregular("too large")


def _key(key: str) -> bytes:
    return b"(?:%s)" % b"|".join(map(re2.escape, _spellings(key)))


def _spellings(key: str) -> tuple[bytes, ...]:
    """The key as JSON, in UTF-8 and in ASCII."""
    in_ascii = json.dumps(key).encode()
    if key.isascii():
        return (in_ascii,)
    try:
        return msgspec.json.encode(key), in_ascii
    except UnicodeEncodeError:  # of two halves it is not certain how they were spelt
        raise Irregular("a key has half of a surrogate pair") from None


def _marker(node: Node, keys: set[str], colon: bytes) -> bytes:
    """Text that each element has once: a key that no other object in it has, and the colon.

    It is nowhere in a string, where quotes are escaped; nor does it begin with the last quote of one.
    """
    spelt = b"\0".join(spelling + colon for key in keys for spelling in _spellings(key))
    below = {key for one in places(node) if one is not node for key in one.members}
    alone = (key for key in node.members if key in (node.required or ()) and key not in below and key.isascii())
    for key in sorted(alone, key=len, reverse=True):  # the longest is found fastest
        marker = _spellings(key)[0] + colon
        if not key.startswith(_BEHIND_STRINGS) and spelt.count(marker) == 1:
            return marker
    raise Irregular("each key of its objects may be in other objects, too")
