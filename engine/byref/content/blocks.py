"""Blocks of text and JSON: any Python object that is not a provider's content block becomes one, ready to be measured.

Nothing here raises, whatever a tool returned.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, NamedTuple

from blake3 import blake3

from byref.content import values
from byref.describe.truncate import Ends, head_of
from byref.jsonscan import Described, chunks, describe_text, parse
from byref_sandbox import jsontext

Kind = Literal["json", "text"]
MARKS: Final = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Byte order marks of UTF-32 and UTF-16. The longer ones come first, because a shorter one is the beginning of a longer one."""
NO_JSON: Final = "not a JSON object or array"
"""Why a text is not structured that does not even begin like JSON."""
_SAMPLES: Final = 64
_SAMPLE: Final = 1 << 10
"""Bytes of each sample from which the tokens of a long text are estimated."""


class Parsed(NamedTuple):
    """The result of parsing a block."""

    kind: Kind
    value: object
    """The parsed value; None for text."""
    error: str | None
    """Why the text is not structured; None if it was not expected to be."""


@dataclass(eq=False)
class Block:
    """One piece of content: the model reads `text` inline, and `data` is stored.

    It belongs to one call and is used on one thread at a time, because it is parsed on first use, without a lock.
    """

    text: str
    data: bytes
    value: object = field(default=None, repr=False)
    """The Python value that it was made of, or the value of its JSON if that had types that JSON lacks. Only with `from_value`."""
    from_value: bool = False
    lossy: bool = False
    """Whether `data` is not valid text; `text` then shows undecodable bytes as U+FFFD."""
    reading: str | None = field(default=None, init=False, repr=False)
    """How the tables in a text are read (`byref_sandbox.tabletext`); None if it is not taken for tables."""
    read_as: str | None = field(default=None, init=False, repr=False)
    """The same in words, with what stands around the tables."""
    _found: Parsed | None = field(default=None, init=False, repr=False)
    """The parsed form; None before the first use."""

    @cached_property
    def digest(self) -> bytes:
        """The BLAKE3 digest of `data`."""
        return bytes(blake3(self.data).digest())

    @property
    def is_written(self) -> bool:
        """Whether byref wrote its JSON from Python values. If not, it arrived as text, or as bytes that contain text."""
        return self.from_value

    @property
    def stored_size(self) -> int:
        """Bytes of `data`."""
        return len(self.data)

    @property
    def ends(self) -> str | Ends:
        """The part of the text that shortening needs: the whole text if it is in memory, else its two ends."""
        return self.text

    def head(self, kept: int) -> str:
        """Return the first `kept` characters of `text`, with a note of how many more there are."""
        return head_of(self.ends, kept)

    @cached_property
    def size(self) -> int:
        """UTF-8 bytes of `text`."""
        if self.from_value:
            return len(self.data) - self.line_feeds
        return chunks.size(self.text) if self.lossy else len(self.data)

    def tokens(self, count: Callable[[str, Kind], int], kind: Kind) -> int:
        """Return the tokens of `text`, counted by `count`."""
        return count(self.text, kind)

    @property
    def line_count(self) -> int:
        """The lines of `data`; a last line without a line feed counts."""
        return self.line_feeds + (not self.data.endswith(b"\n") if self.data else 0)

    @cached_property
    def line_feeds(self) -> int:
        """The line feeds in `data`."""
        return chunks.line_feeds(self.data)

    @property
    def parsed(self) -> tuple[Kind, object]:
        """The block's kind and value. JSON objects and arrays are structured; everything else is text, with None as its value."""
        return self._state.kind, self._state.value

    @property
    def parse_error(self) -> str | None:
        """Why the text is not structured; None if it is."""
        return self._state.error

    @property
    def kind(self) -> Kind:
        """The kind as in `parsed`. Long JSON that can be described from its text alone is not parsed for this."""
        if self._found is None and not self.from_value and self.described is not None:
            return "json"
        return self._state.kind

    @property
    def described(self) -> Described | None:
        """The outline and schema of long JSON, if its text alone gives them; else None."""
        return None if self._found is not None and self._found.error is not None else self._description

    @property
    def outline(self) -> object:
        """The value, in which `Rows` and `Entries` may stand for long arrays and maps; None for text."""
        described = self.described
        return self._state.value if described is None else described.outline

    def reparse(self) -> object:
        """Return the value of the stored JSON, for a block of a Python value that was not plain JSON.

        If the stored bytes are not JSON after all (`msgspec.Raw` may hold any bytes), the block becomes text and None is returned.
        """
        try:
            self.value = parse(self.data)
        except jsontext.NotJSON as error:
            self.give_up(f"invalid JSON: {error}")
            return None
        self._found = _of_value(self.value)
        return self.value

    def give_up(self, reason: str) -> None:
        """Treat the block as text from now on, for this reason."""
        self._found = Parsed("text", None, reason)

    def take_for_tables(self, reading: str, read_as: str, described: Described) -> None:
        """Treat a text as the tables in it from now on: it is described so, and its text stays what is stored."""
        self.reading, self.read_as, self._found = reading, read_as, Parsed("json", None, None)
        self.__dict__["_description"] = described

    def discard(self) -> None:
        """Free the parsed value. The block must not be used afterwards. A value that the tool gave is not ours to free."""
        if self._found is not None and not self.from_value and len(self.data) > chunks.BIG:
            chunks.free(self._found.value)

    @property
    def _state(self) -> Parsed:
        """The parsed form of the block; it is parsed on first use."""
        if self._found is None:
            self._found = _of_value(self.value) if self.from_value else self._parse()
        return self._found

    def _parse(self) -> Parsed:
        if self.lossy:
            return Parsed("text", None, "not UTF-8")
        if self.data[:4096].removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
            return Parsed("text", None, NO_JSON)
        try:
            return Parsed("json", parse(self.data), None)
        except jsontext.NotJSON as error:
            return Parsed("text", None, f"invalid JSON: {error}")

    @cached_property
    def _description(self) -> Described | None:
        return None if self.lossy else describe_text(self.data, self.line_feeds if self.from_value else None)


def _of_value(value: object) -> Parsed:
    return Parsed("json", value, None) if type(value) in (dict, list) else Parsed("text", None, None)


class Written(Block):
    """The long JSON of a Python value. Its text, which is the data on one line, is made only if it is needed.

    Raises UnicodeDecodeError if something was written that is not UTF-8, as `msgspec.Raw` may be.
    """

    def __init__(self, data: bytes, value: object, line_feeds: int) -> None:
        self.data = data
        self.line_feeds = line_feeds
        self._characters = chunks.characters(data) - line_feeds
        self.value = value
        self.from_value = True
        self.lossy = False

    @cached_property
    def text(self) -> str:  # type: ignore[override]
        """The data without its line feeds."""
        return chunks.unbroken(self.data)

    def head(self, kept: int) -> str:
        """Return the first `kept` characters of `text`, with a note of how many more there are.

        At most every second character of the data is a line feed, so eight bytes for each contain enough characters.
        """
        return head_of(Ends(_text_of(self.data[: 8 * kept + 8]), "", self._characters, self.size), kept)

    def tokens(self, count: Callable[[str, Kind], int], kind: Kind) -> int:
        """Return the estimated tokens of `text`, from samples spread evenly over it."""
        step = len(self.data) // _SAMPLES
        # The offsets are multiples of the golden ratio, modulo one, so that no period of the data can coincide with them.
        places = (at * step + (step - _SAMPLE) * (at * 40503 % 65536) // 65536 for at in range(_SAMPLES))
        samples = "".join(_text_of(self.data[place : place + _SAMPLE]) for place in places)
        return round(count(samples, kind) * self._characters / len(samples))


def _text_of(span: bytes) -> str:
    """Return a span of data without its line feeds, and without the parts of characters that it begins or ends with."""
    return span.replace(b"\n", b"").decode("utf-8", "ignore")


def to_block(output: object) -> Block:
    """Return any Python object as one block: text as it is, bytes as the text they contain, anything else as JSON; never raises."""
    # `__class__`, `__str__` and `__bytes__` may run the object's own code, so only its real type decides.
    try:
        if issubclass(type(output), str):
            return _text_block(str.__str__(output))
        if issubclass(type(output), bytes | bytearray | memoryview):
            return _bytes_block(output if type(output) is bytes else bytes(memoryview(output)))  # type: ignore[arg-type]
        return _value_block(output)
    except values.RAISED as error:
        return _text_block(f"[output of type {values.type_name(output)} could not be read: {values.type_name(error)}]")


def text_of(value: object) -> str:
    """Return the text of `to_block(value)`, with a fast path for a small value of plain JSON."""
    if type(value) in (dict, list) and not values.repeats_itself(value) and not chunks.is_heavy(value):
        data = values.plain(value)
        if data is not None:
            return chunks.decode(data)
    return to_block(value).text


def _text_block(text: str) -> Block:
    try:
        return Block(text, chunks.encode(text))
    except UnicodeEncodeError:
        return Block(text, text.encode("utf-8", "surrogatepass"))


def _bytes_block(data: bytes) -> Block:
    """Decode bytes as UTF-8, or as UTF-16 or UTF-32 if a byte order mark says so.

    In other bytes, the text shows each undecodable byte as U+FFFD, and the data keeps it.
    """
    try:
        return Block(chunks.decode(data), data)
    except UnicodeDecodeError:
        pass
    for mark in MARKS:
        if data.startswith(mark):
            try:
                return _text_block(data.decode("utf-32" if len(mark) == 4 else "utf-16"))
            except UnicodeDecodeError:
                break
    return Block(chunks.decode(data, "replace"), data, lossy=True)


def _value_block(value: object) -> Block:
    if values.repeats_itself(value):
        return _text_block(
            f"[output of type {values.type_name(value)} repeats its own parts more often than can be written out]"
        )
    value, data, line_feeds = values.written(value)
    if type(value) is str:
        return _text_block(value)
    if len(data) > chunks.BIG:
        return Written(data, value, line_feeds)
    return Block(chunks.unbroken(data), data, value, from_value=True)
