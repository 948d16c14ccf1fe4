"""Streams that are too large to be held: stored and described in one pass, before anything is decided about them."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain

from byref.artifacts import staging
from byref.artifacts.staging import Staged
from byref.db.payloads import StoredPayload
from byref.errors import StorageFailure
from byref.outputs import Large, LargeMedia, media
from byref.outputs.blocks import MARKS
from byref.outputs.output import is_textual
from byref.scope import Scope
from byref.skim import Skimmer
from byref.streams import COLLECTED, Stream, read

_SNIFFED = 8_192


@dataclass(eq=False)
class Taken:
    """A stream that has passed by: its description, and its bytes, staged."""

    block: Large | LargeMedia
    bytes: Staged | StorageFailure
    """Where they are, or why they are not stored."""

    @property
    def staged(self) -> Staged:
        """What was staged; raises StorageFailure where nothing was."""
        if isinstance(self.bytes, StorageFailure):
            raise self.bytes
        return self.bytes

    def read_back(self) -> None:
        """Hold it in memory after all, for it passes whole."""
        self.block.data  # noqa: B018  read once

    def lose(self) -> None:
        """Note that what was staged is gone: a sweep took it, for the stream was read long ago."""
        self.bytes = StorageFailure("the stream was swept before it was committed, and does not come again")

    def settle(self, scope: Scope, used: Container[int]) -> None:
        """Delete what was staged, unless it is one of the blobs that are used."""
        if isinstance(self.bytes, Staged) and self.bytes.blob_id not in used:
            staging.abandon(scope.place, self.bytes.blob_id)

    @contextmanager
    def released(self, scope: Scope) -> Iterator[None]:
        """Delete what was staged if the work fails."""
        try:
            yield
        except BaseException:
            self.settle(scope, ())
            raise


def receive(
    scope: Scope, output: object, *, most: int, whole: bool, survives: bool, content_type: str | None = None
) -> object:
    """Return an output as it is, a stream as the text or bytes that it gives, and one that goes on as Taken.

    `whole`: it is needed in memory, whatever its size. `survives`: where the store fails, the stream is described all
    the same. `content_type` is what the bytes are said to be. What the stream raises passes on, and nothing is left of it.
    """
    stream = read(output, most=most, collected=most if whole else COLLECTED)
    if type(stream) is not Stream:  # not isinstance, which asks the object: it may be hostile
        return stream
    first = next(stream.pieces)
    if first.startswith(MARKS):  # UTF-16 is stored as UTF-8, and for that it is needed whole
        return b"".join(chain([first], stream.pieces))
    found = _content_type(first, is_text=stream.is_text)
    said = content_type if content_type is not None and not is_textual(content_type) and not stream.is_text else found
    return _take(scope, chain([first], stream.pieces), said, survives=survives)


def _take(scope: Scope, pieces: Iterator[bytes], content_type: str, *, survives: bool) -> Taken:
    skimmer = Skimmer()
    size = 0

    def passing() -> Iterator[bytes]:
        nonlocal size
        for piece in pieces:
            skimmer.feed(piece)
            size += len(piece)
            yield piece

    staged: Staged | StorageFailure
    try:
        staged = staging.stage_stream(scope.place, passing(), content_type)
    except StorageFailure as error:
        if not survives:
            raise
        staged = error
        for _ in passing():
            pass
    load = partial(_read_back, scope, staged)
    digest = staged.digest if isinstance(staged, Staged) else bytes(32)
    skimmed = skimmer.finish()
    if is_textual(content_type):
        return Taken(Large(skimmed, digest, load), staged)
    made = media.of(content_type, b"")
    return Taken(LargeMedia(made.kind, made.content_type, size, skimmed.lines, digest, load), staged)


def _content_type(first: bytes, *, is_text: bool) -> str:
    sniffed = None if is_text else media.sniffed(first[:_SNIFFED])
    if sniffed is not None:
        return sniffed
    beginning = first[:_SNIFFED].removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")[:1]
    return "application/json" if beginning in (b"{", b"[") else "text/plain"


def _read_back(scope: Scope, staged: Staged | StorageFailure) -> bytes:
    if isinstance(staged, StorageFailure):
        raise staged
    return StoredPayload(staged.blob_id, staged.key, staged.store, staged.size, staged.lines, scope.source).read()
