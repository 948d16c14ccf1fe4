"""Blocks too large for memory: they were stored while they arrived, and memory holds only their description."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

from byref.content.blocks import Block, Kind, Parsed
from byref.content.media import Media
from byref.describe.truncate import Ends
from byref.jsonscan import Described, Scanned, chunks
from byref_sandbox.tabletext import NotATable, Passed

Load = Callable[[], bytes]
"""Reads the stored bytes back, which is done only for a block that passes whole. Raises StorageFailure if they are gone."""


class Large(Block):
    """Large text or JSON: the two ends of its text, and a value in which `Rows` stand for big arrays."""

    def __init__(self, scanned: Scanned, digest: bytes, load: Load, *, is_written: bool) -> None:
        self._scanned = scanned
        self._load = load
        self.digest = digest
        self.lossy = scanned.lossy
        self.value = scanned.value
        self.from_value = False
        self._is_written = is_written
        self.passed: Passed | Scanned | NotATable | None = None
        """What table the text was found to be while it passed; None if nobody looked."""
        is_text = scanned.parse_error is not None
        self._found = Parsed("text" if is_text else "json", None if is_text else scanned.value, scanned.parse_error)

    @cached_property
    def data(self) -> bytes:  # type: ignore[override]  # read, and only if it is asked for
        """All bytes, read back from the store on first use."""
        return self._load()

    @cached_property
    def text(self) -> str:  # type: ignore[override]
        """The whole text, read back from the store on first use."""
        return chunks.decode(self.data, "replace")

    @property
    def is_written(self) -> bool:
        """Whether byref wrote its JSON, which it does for a stream of records; see `Block.is_written`."""
        return self._is_written

    @property
    def ends(self) -> Ends:
        """Its beginning and its end."""
        return self._scanned.text

    def tokens(self, count: Callable[[str, Kind], int], kind: Kind) -> int:
        """Return the estimated tokens of the text, from samples spread evenly over it."""
        samples = self._scanned.samples
        return round(count(samples, kind) * self.ends.characters / len(samples)) if samples else 0

    @property
    def stored_size(self) -> int:
        """Bytes of `data`, known without reading it."""
        return self._scanned.size

    @cached_property
    def size(self) -> int:
        """UTF-8 bytes of `text`."""
        return self._scanned.text.size

    @property
    def line_count(self) -> int:
        """Lines of `data`."""
        return self._scanned.lines

    def discard(self) -> None:
        """Do nothing: the parsed description is small, so it need not be freed early."""

    @cached_property
    def _description(self) -> Described | None:
        schema = self._scanned.schema
        return None if schema is None else Described(self.value, schema)


class LargeMedia(Media):
    """An image or a document whose bytes are in the store."""

    def __init__(
        self, kind: Literal["image", "document"], content_type: str, size: int, lines: int, digest: bytes, load: Load
    ) -> None:
        self.kind = kind
        self.content_type = content_type
        self.name = None
        self.digest = digest
        self._size = size
        self._lines = lines
        self._load = load

    @cached_property
    def data(self) -> bytes:  # type: ignore[override]  # read, and only if it is asked for
        """All bytes, read back from the store on first use."""
        return self._load()

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._size

    @property
    def stored_size(self) -> int:
        """Bytes of `data`."""
        return self._size

    @cached_property
    def line_count(self) -> int:
        """The number of lines, counted as in a text."""
        return self._lines
