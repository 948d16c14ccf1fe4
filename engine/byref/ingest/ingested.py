"""Ingestion of streams that are too large for memory: they are staged and described in one pass, before they are planned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain

from blake3 import blake3

from byref.accounting import ledger
from byref.artifacts import staging
from byref.artifacts.staging import Staged
from byref.content import Large, LargeMedia, media, values
from byref.content.blocks import MARKS
from byref.content.lifting import Lifting
from byref.content.output import OCTETS, is_textual
from byref.content.tables import TableScan
from byref.conversation.scope import NO_ROW, Scope
from byref.db.payloads import StoredPayload
from byref.errors import StorageFailure
from byref.ingest.streams import COLLECTED, Stream, read
from byref.jsonscan import Scanned, Scanner
from byref.policy import Policy, ToolPolicy
from byref_sandbox import jsontext

_DECODER = json.JSONDecoder()
_CUT = 32
"""A JSON error in the last characters of a cut text does not count: the cut itself may cause it."""


@dataclass(eq=False)
class Ingested:
    """A stream that was read to its end: its description, and its staged bytes. It belongs to one call."""

    block: Large | LargeMedia
    stored: Staged | StorageFailure
    """The staged blob, or the failure because of which there is none."""
    is_text: bool
    """Whether it arrived in pieces of text rather than bytes."""
    instructions: str | None = None
    """The instructions that were removed from it."""

    @property
    def staged(self) -> Staged:
        """The staged blob; raises StorageFailure if there is none."""
        if isinstance(self.stored, StorageFailure):
            raise self.stored
        return self.stored

    def read_back(self) -> None:
        """Load it into memory, because it passes whole. The commit calls this before its transaction begins."""
        self.block.data  # noqa: B018  read once

    def lose(self) -> None:
        """Record that the staged bytes are gone: a sweep deleted them, because the stream was read long ago."""
        self.stored = StorageFailure("the stream was swept before it was committed, and does not come again")


@contextmanager
def settled(scope: Scope, received: object) -> Iterator[set[int]]:
    """Delete the staged blob of a large stream at the end, unless the caller added its id to the set that this yields."""
    used: set[int] = set()
    try:
        yield used
    finally:
        stored = received.stored if type(received) is Ingested else None  # not isinstance: the object may be hostile
        if isinstance(stored, Staged) and stored.blob_id not in used:
            staging.abandon(scope.place, stored.blob_id)


def of_tool(scope: Scope, output: object, tool: str, *, is_error: bool) -> object:
    """Return what a tool returned: itself, a stream as the text or bytes that it gives, and a large one as `Ingested`.

    It is collected in memory, whatever its size, if the policy needs it whole. If the store fails, the stream is still described,
    provided that the policy lets the turn go on. An exception of the stream passes on, and nothing of the stream is kept.
    """
    policy, shaping = scope.policy.for_tool(tool), scope.policy.tool(tool)
    shapes = not is_error and (shaping.mapper is not None or shaping.template is not None)
    is_needed = shapes or not policy.enabled or tool in scope.tools or policy.plaintext == "wholesale"
    most = policy.max_artifact_bytes
    stream = read(output, most=most, collected=most if is_needed else COLLECTED, write=_array)
    if type(stream) is not Stream:  # not isinstance, which asks the object: it may be hostile
        return stream
    scans = partial(TableScan, shaping.format) if may_be_tables(policy, shaping) and not is_error else None
    return _ingest(scope, stream, None, survives=policy.on_storage_failure != "raise", lifts=True, scans=scans)


def may_be_tables(policy: Policy, shaping: ToolPolicy) -> bool:
    """Tell whether text and documents of a tool may be taken for tables, by the policy for it."""
    return policy.tables == "auto" if shaping.format is None else shaping.format != "text"


def of_host(scope: Scope, value: object, content_type: str | None) -> object:
    """Return a value that the host stores, like `of_tool`; bytes have the given `content_type`. A failing store raises."""
    stream = read(value, most=scope.policy.max_artifact_bytes, collected=COLLECTED, write=_array)
    return _ingest(scope, stream, content_type, survives=False, lifts=False) if type(stream) is Stream else stream


def _ingest(
    scope: Scope,
    stream: Stream,
    content_type: str | None,
    *,
    survives: bool,
    lifts: bool,
    scans: Callable[[], TableScan] | None = None,
) -> object:
    """Stage a stream. With `lifts`, its instructions are removed. UTF-16 or UTF-32 is not staged but returned as bytes.

    With `survives`, the stream is described even if the store fails. With `scans`, its text is looked at for a table.
    """
    if scope.row != NO_ROW:
        scope.ask(lambda connection: ledger.see_that_it_is_open(connection, scope.row))
    first = next(stream.pieces)
    pieces = chain([first], stream.pieces)
    if first.startswith(MARKS):  # UTF-16 is stored as UTF-8, and for that it is needed whole
        return b"".join(pieces)
    declared = None if stream.is_text or content_type is None or is_textual(content_type) else content_type
    guessed = declared or _guessed(first, is_text=stream.is_text)
    stage = partial(_stage, scope, stream, declared, guessed, survives, scans)
    if lifts and declared is None and (is_textual(guessed) or guessed == OCTETS):
        return _stage_without_instructions(scope, pieces, stage)
    return stage(pieces)[0]


_Stage = Callable[[Iterator[bytes]], tuple[Ingested, Scanned]]


def _stage_without_instructions(scope: Scope, pieces: Iterator[bytes], stage: _Stage) -> Ingested:
    """Stage a stream without its instructions. If it turns out not to be JSON, stage it once more with the removed bytes."""
    lifting = Lifting()
    ingested, scanned = stage(lifting.passing(pieces))
    if scanned.is_json:
        ingested.instructions = lifting.instructions
        again = Lifting(every=True).passing if lifting.has_removed and lifting.has_left else None
    else:
        again = lifting.restored if lifting.has_removed else None
    if again is None or isinstance(ingested.stored, StorageFailure):
        return ingested
    with settled(scope, ingested):
        other, _ = stage(again(_chunks(scope, ingested.stored)))
    other.instructions = ingested.instructions
    return other


def _stage(
    scope: Scope,
    stream: Stream,
    declared: str | None,
    guessed: str,
    survives: bool,
    scans: Callable[[], TableScan] | None,
    pieces: Iterator[bytes],
) -> tuple[Ingested, Scanned]:
    """Write the pieces to the store and describe them as they pass."""
    scanner, digest, size = Scanner(), blake3(), 0
    may_be_text = is_textual(guessed) or guessed == OCTETS
    tables = scans() if scans is not None and may_be_text and not stream.is_written else None
    failed: list[BaseException] = []

    def passing() -> Iterator[bytes]:
        nonlocal size
        try:
            for piece in pieces:
                scanner.feed(piece)
                if tables is not None:
                    tables.feed(piece)
                digest.update(piece)
                size += len(piece)
                yield piece
        except Exception as error:
            failed.append(error)
            raise

    stored: Staged | StorageFailure
    try:
        stored = staging.stage_stream(scope.place, passing(), guessed)
    except StorageFailure as error:
        if failed or not survives:
            raise
        stored = error
        for _ in passing():
            pass
    load = partial(_read_back, scope, stored)
    scanned = scanner.finish()
    block: Large | LargeMedia
    # Bytes that only look like a document are text if they are valid UTF-8.
    if declared is None and (is_textual(guessed) or (guessed == OCTETS and not scanned.lossy)):
        block = Large(scanned, digest.digest(), load, is_written=stream.is_written)
        block.passed = None if tables is None else tables.finish()
    else:
        made = media.of(guessed, b"")
        block = LargeMedia(made.kind, made.content_type, size, scanned.lines, digest.digest(), load)
    return Ingested(block, stored, stream.is_text), scanned


def _array(records: list[object]) -> bytes:
    return values.written(records)[1]


def _guessed(first: bytes, *, is_text: bool) -> str:
    """Guess the content type from the first piece: a store needs it before the end is known."""
    sniffed = None if is_text else media.sniffed(first)
    if sniffed is not None:
        return sniffed
    return "application/json" if _may_be_json(first[: media.SNIFFED]) else "text/plain"


def _may_be_json(beginning: bytes) -> bool:
    """Tell whether the text may be JSON: it begins like an object or array, and nothing follows one that ends here."""
    if jsontext.is_too_deep(beginning):
        return True
    text = beginning.decode("utf-8", "ignore").removeprefix("\ufeff").lstrip()
    if text[:1] not in ("{", "["):
        return False
    try:
        _, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        return error.pos > len(text) - _CUT or error.msg.startswith("Unterminated string")
    except (RecursionError, ValueError):  # an integer of more digits than Python converts
        return True
    return not text[end:].strip()


def _read_back(scope: Scope, stored: Staged | StorageFailure) -> bytes:
    if isinstance(stored, StorageFailure):
        raise stored
    return b"".join(_chunks(scope, stored))


def _chunks(scope: Scope, stored: Staged) -> Iterator[bytes]:
    payload = StoredPayload(stored.blob_id, stored.key, stored.store, stored.size, stored.lines, scope.source)
    return (data for _, data in payload.chunks())
