"""Code objects, identified by the text of their program: no bytecode is ever written."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from blake3 import blake3

_DIGEST_BYTES: Final = 16


class Unkept(Exception):
    """A value cannot be part of a graph; the message says why, for the model."""


class Code(NamedTuple):
    """Represents a code object in a stream."""

    program: bytes
    """The digest of the program's text."""
    number: int
    """The number among the program's code objects: the module's own is 0, and each comes before those inside it."""
    qualname: str
    """A check: if the text now compiles to other code, the number must not lead to another function."""


class Codes:
    """The programs that this process knows, and their code objects; `compile` is the language's."""

    def __init__(self, compile: Callable[[str], types.CodeType]) -> None:
        self._compile = compile
        self.texts: dict[bytes, str] = {}
        """The texts of the programs, by digest."""
        self._programs: dict[bytes, list[types.CodeType]] = {}
        self._by_id: dict[int, Code] = {}
        self.classes: dict[type, Code] = {}
        """The places where the code's classes were defined."""

    def learn(self, texts: Mapping[bytes, str]) -> None:
        """Add programs that can be compiled when they are needed."""
        self.texts |= texts

    def add(self, text: str, code: types.CodeType) -> None:
        """Add a program that is compiled already."""
        program = blake3(text.encode("utf-8", "surrogatepass")).digest(_DIGEST_BYTES)
        self.texts[program] = text
        if program not in self._programs:
            self._number(program, code)

    def _number(self, program: bytes, code: types.CodeType) -> None:
        self._programs[program] = found = [code]
        for each in found:  # the list grows while it is walked
            found += [inner for inner in each.co_consts if type(inner) is types.CodeType]
        self._by_id |= {id(each): Code(program, number, each.co_qualname) for number, each in enumerate(found)}

    def place_of(self, code: types.CodeType) -> Code:
        """Return the place of a code object. Raises Unkept for one that belongs to no program."""
        try:
            return self._by_id[id(code)]
        except KeyError:
            raise Unkept("a function that no code of this session defines") from None

    def place_of_class(self, cls: type) -> Code | None:
        """Return the place of a class's body; None for a class that was made by a call."""
        if cls not in self.classes:
            name = cls.__qualname__
            bodies = [place for place in self._by_id.values() if place.qualname == name and self._is_body(place)]
            if not bodies:
                return None
            self.classes[cls] = bodies[-1]
        return self.classes[cls]

    def only_classes(self, *, but: Collection[str]) -> dict[Code, type]:
        """Return the classes by place of which there is one of a place, except those of some names."""
        places = Counter(self.classes.values())
        return {
            place: cls
            for cls, place in self.classes.items()
            if places[place] == 1 and place.qualname not in but and "<locals>" not in place.qualname
        }

    def _is_body(self, place: Code) -> bool:
        return "__module__" in self._programs[place.program][place.number].co_names

    def at(self, place: Code) -> types.CodeType | None:
        """The code object at a place; None where its program was not compiled, for nothing needed it."""
        found = self._programs.get(place.program)
        return None if found is None else found[place.number]

    def find(self, program: bytes, number: int, qualname: str) -> types.CodeType:
        """Return a code object; its program is compiled if necessary. Raises Unkept, and whatever compiling raises."""
        if type(program) is not bytes or type(number) is not int:
            raise Unkept("no place of a code object")
        if program not in self._programs:
            if program not in self.texts:
                raise Unkept("a function whose text is missing")
            self._number(program, self._compile(self.texts[program]))
        found = self._programs[program]
        if not 0 < number < len(found) or found[number].co_qualname != qualname:
            raise Unkept("a function whose text compiles to something else now")
        return found[number]
