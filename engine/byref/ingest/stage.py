"""Stage: the bytes that a plan stores are prepared for its commit.

Few bytes are compressed here and written by the commit itself, which saves two transactions. Many bytes are written ahead, in
short transactions of their own: they stay invisible until the commit publishes them, and a sweep deletes them if it never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import Connection

from byref.artifacts import staging
from byref.artifacts.blobs import Published
from byref.artifacts.staging import BUFFERED_BYTES, Buffered, Content
from byref.content import Block
from byref.conversation import room
from byref.ingest.outlook import Outlook
from byref.ingest.plan import PlannedArtifact, Replan, is_too_large
from byref.ingest.prepare import Measured, Prepared
from byref.stores.frames import Ahead

ALONE_BYTES = 2 << 20
"""Maximum bytes of a payload that is compressed only when it is stored; a larger one may be compressed ahead."""


class Stage:
    """The prepared bytes of one output, shared by all plans that are tried for it.

    Use it with `with`: leaving it stops the compression ahead. Bytes that were written and not published stay for a sweep.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._ready: dict[bytes, Buffered | int] = {}
        """By digest: the compressed bytes for the commit to write, or the id of the blob that is already written."""
        self._ahead: Ahead | None = None
        self._may_buffer = prepared.can_buffer

    def __enter__(self) -> Self:
        """Return the stage itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the compression ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def begin(self, outlook: Outlook) -> None:
        """Start to compress JSON that is too big, while it is described: compression runs on threads without Python's GIL."""
        prepared = self._prepared
        [measured, *more] = prepared.blocks
        block = measured.piece.block
        if more or prepared.verdict.fits or prepared.ingested or not isinstance(block, Block) or block.kind != "json":
            return
        if block.stored_size > ALONE_BYTES and not is_too_large(prepared, measured) and outlook.given.first is None:
            self._ahead = staging.begun(prepared.scope.place, block.data)

    def bring(self, artifacts: Sequence[PlannedArtifact], outlook: Outlook) -> None:
        """Prepare the payloads of a plan, equal ones once; raise Replan if a quota leaves no room for them.

        The quota is checked here so that nothing is written in vain. The commit checks it again under its lock, since others
        may store at the same time.
        """
        if not artifacts:
            return
        adding = sizes(artifacts)
        is_small = sum(adding.values()) <= BUFFERED_BYTES
        if excess := room.excess(self._prepared.scope, adding, outlook.stored_bytes if is_small else None):
            raise Replan("quota", excess=excess)
        # An output that was given before is probably stored already. `write` checks those bytes before they are used again.
        is_buffered = self._may_buffer and is_small and outlook.given.first is None
        for artifact in artifacts:
            digest, content_type = artifact.block.digest, artifact.about.content_type
            if digest not in self._ready:
                buffered = is_buffered and staging.buffer(_content(artifact.block, content_type))
                self._ready[digest] = buffered or self.write(artifact.block, content_type)

    def has(self, block: Measured) -> bool:
        """Tell whether a block's payload is prepared."""
        return block.digest in self._ready

    def write(self, block: Measured, content_type: str) -> int:
        """Write a payload and return its blob's id. If its bytes are already published, they are used, and mended if damaged."""
        if self._prepared.ingested is not None:
            return self._prepared.ingested.staged.blob_id
        ahead, self._ahead = self._ahead, None  # taken once: a second attempt compresses anew
        try:
            return staging.stage(self._prepared.scope.place, _content(block, content_type), ahead).blob_id
        finally:
            if ahead is not None:
                ahead.close()

    def buffered(self, artifact: PlannedArtifact) -> Buffered | None:
        """Return a payload that the commit writes; None if its bytes are written already."""
        ready = self._ready[artifact.block.digest]
        return ready if isinstance(ready, Buffered) else None

    def publish(self, connection: Connection, artifact: PlannedArtifact) -> Published:
        """Make a payload visible within the commit's transaction; raise Replan if it has to be prepared again.

        That is so if a sweep deleted the written bytes, or if another process published the same bytes meanwhile: those have
        to be checked first.
        """
        tenant, ready = self._prepared.scope.tenant, self._ready[artifact.block.digest]
        if isinstance(ready, Buffered):
            published = staging.publish_buffered(connection, tenant, ready)
        else:
            published = staging.publish(connection, tenant, ready, artifact.block.digest)
        if published is not None:
            return published
        # The staged bytes are gone, or equal bytes were published that nobody has checked. The next attempt goes through `write`,
        # which checks published bytes before the transaction, because that would take too long under the session's lock.
        if self._prepared.ingested is not None:
            self._prepared.ingested.lose()
        self._ready.clear()
        self._may_buffer = False
        raise Replan("blob_gone")


def sizes(artifacts: Sequence[PlannedArtifact]) -> Mapping[bytes, int]:
    """Return the sizes of the payloads to store, by digest."""
    stored = {artifact.block.digest: artifact.block.piece.block for artifact in artifacts}
    return {digest: block.stored_size for digest, block in stored.items() if block is not None}


def _content(measured: Measured, content_type: str) -> Content:
    block = measured.piece.block
    assert block is not None
    return Content(block.data, measured.digest, block.line_count, content_type)
