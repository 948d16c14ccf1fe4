"""Which names of a stream cannot be read because others could not be: what they refer to is not there.

A stream has no boundaries that a reader could skip to, except those of names: each refers to objects of earlier ones by their numbers.
So after something has failed, the stream is taken apart opcode by opcode, and without being read.
"""

from __future__ import annotations

import contextlib
import io
import pickletools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from byref_sandbox.contents import Part
from byref_sandbox.state.builders import BUILDERS

NO_LONGER_THERE: Final = "it referred to something that is no longer there"


class Faults:
    """Finds the names of a part that cannot be read because others could not be.

    It takes the stream apart opcode by opcode. That is slow, so it is done only after something has failed.
    """

    def __init__(
        self,
        part: Part,
        body: bytes,
        given: int,
        filler: int,
        missing: Iterable[int],
        by_name: Mapping[str, object],
    ) -> None:
        self._bad = {*missing}
        """Numbers in the memo that belong to no object."""
        self._left_out: set[int] = set()
        self._gets: list[set[int]] = []
        self._puts: list[dict[int, object]] = []
        count = given + len(BUILDERS) + filler
        known = [*BUILDERS].index("known")
        at = 0
        for name in part.names:
            data, at = body[at : at + name.size], at + name.size
            gets, puts = _memo_of(data, count, known, by_name)
            count += len(puts)
            self._gets.append(gets)
            self._puts.append(puts)

    def add(self, number: int) -> None:
        """Count the objects of a name as missing, except texts and objects that are known by a name."""
        if number not in self._left_out:
            self._left_out.add(number)
            self._bad.update(at for at, one in self._puts[number].items() if one is _UNKNOWN)

    def in_place_of(self, number: int) -> list[object]:
        """Return what the memo has in place of a name's objects."""
        return [None if one is _UNKNOWN else one for one in self._puts[number].values()]

    def why(self, number: int) -> str:
        """Return why a name is lost together with the missing objects; empty if it is not."""
        if number in self._left_out or not self._bad.isdisjoint(self._gets[number]):
            self.add(number)
            return NO_LONGER_THERE
        return ""


_UNKNOWN: Final = object()


def _memo_of(data: bytes, count: int, known: int, by_name: Mapping[str, object]) -> tuple[set[int], dict[int, object]]:
    """Return the numbers in the memo to which a stream refers, and what it puts there, as far as that is visible without
    reading it.

    `count` is the first free number, `known` the number of the builder of objects that are known by a name.
    """
    gets: set[int] = set()
    puts: dict[int, object] = {}
    last: list[Any] = []
    """The results of the last opcodes: texts, numbers in the memo, and names of others."""
    file = io.BytesIO(data)
    with contextlib.suppress(ValueError):  # malformed: reading it reports that
        while file.tell() < len(data):
            for opcode, argument, _ in pickletools.genops(file):
                if opcode.name == "MEMOIZE":
                    is_text = bool(last) and type(last[-1]) is str and not last[-1].startswith(_OPCODE)
                    is_known = last[-1:] == [_OPCODE + "REDUCE"] and last[-4:-3] == [known] and type(last[-3]) is str
                    found = last[-1] if is_text else by_name.get(last[-3], _UNKNOWN) if is_known else _UNKNOWN
                    puts[count + len(puts)] = found
                elif opcode.name in ("BINGET", "LONG_BINGET", "GET") and isinstance(argument, int):
                    gets.add(argument)
                    last.append(argument)
                elif opcode.name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"):
                    last.append(argument)
                else:
                    last.append(_OPCODE + opcode.name)
                del last[:-8]
    return gets, puts


_OPCODE: Final = "\0opcode "
