"""Stage: the bytes of what a plan stores are made ready for its commit.

Few are compressed here and written by the commit itself, which saves two transactions. Many are written ahead, in short
transactions of their own: nobody sees them until the commit publishes them, and a sweep takes them if it never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import Connection

from byref.artifacts import staging
from byref.artifacts.blobs import Published
from byref.artifacts.staging import HELD_BYTES, Content, Held
from byref.content import Block
from byref.conversation import room
from byref.ingest.outlook import Outlook
from byref.ingest.plan import PlannedArtifact, Replan, is_too_large
from byref.ingest.prepare import Measured, Prepared
from byref.stores.frames import Ahead

ALONE_BYTES = 2 << 20
"""Up to so many, a payload is compressed when it is stored, and not before."""


class Stage:
    """The bytes of one output on their way into the store; each plan of it takes from here what is ready already.

    Used with `with`: leaving it frees what was compressed ahead. What was written and not published stays for a sweep.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._ready: dict[bytes, Held | int] = {}
        """By digest: what the commit writes, or the blob that is written."""
        self._ahead: Ahead | None = None
        self._may_hold = prepared.ingested is None and prepared.scope.objects is None

    def __enter__(self) -> Self:
        """Return the stage itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what compresses ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def begin(self, outlook: Outlook) -> None:
        """Have JSON that is too big compressed while it is described: other threads do so without the interpreter's lock."""
        prepared = self._prepared
        [measured, *more] = prepared.blocks
        block = measured.piece.block
        if more or prepared.verdict.fits or prepared.ingested or not isinstance(block, Block) or block.kind != "json":
            return
        if block.stored_size > ALONE_BYTES and not is_too_large(prepared, measured) and outlook.given.first is None:
            self._ahead = staging.begun(prepared.scope.place, block.data)

    def bring(self, artifacts: Sequence[PlannedArtifact], outlook: Outlook) -> None:
        """Make ready what a plan stores, equal payloads once; raise Replan where a quota leaves no room for it.

        The quota is asked for here so that nothing is written in vain; the commit asks again under its lock, since others
        store at the same time.
        """
        if not artifacts:
            return
        adding = sizes(artifacts)
        is_small = sum(adding.values()) <= HELD_BYTES
        if excess := room.excess(self._prepared.scope, adding, outlook.stored_bytes if is_small else None):
            raise Replan("quota", excess=excess)
        # What was given before is stored, most likely: its bytes are looked at before they are trusted.
        holds = self._may_hold and is_small and outlook.given.first is None
        for artifact in artifacts:
            digest, content_type = artifact.block.digest, artifact.about.content_type
            if digest not in self._ready:
                held = holds and staging.hold(_content(artifact.block, content_type))
                self._ready[digest] = held or self.write(artifact.block, content_type)

    def write(self, block: Measured, content_type: str) -> int:
        """Write a payload, or find its bytes published already and mend them if they are damaged; return the blob's id."""
        if self._prepared.ingested is not None:
            return self._prepared.ingested.staged.blob_id
        ahead, self._ahead = self._ahead, None
        try:
            return staging.stage(self._prepared.scope.place, _content(block, content_type), ahead).blob_id
        finally:
            if ahead is not None:
                ahead.close()

    def publish(self, connection: Connection, artifact: PlannedArtifact) -> Published:
        """Make a payload visible within the commit's transaction; raise Replan where it is gone, to be brought again.

        A sweep took what was written, or somebody published the same bytes meanwhile, which are to be looked at first.
        """
        tenant, ready = self._prepared.scope.tenant, self._ready[artifact.block.digest]
        if isinstance(ready, Held):
            published = staging.publish_held(connection, tenant, ready)
        else:
            published = staging.publish(connection, tenant, ready, artifact.block.digest)
        if published is not None:
            return published
        if self._prepared.ingested is not None:
            self._prepared.ingested.lose()
        self._ready.clear()
        self._may_hold = False
        raise Replan("blob_gone")


def sizes(artifacts: Sequence[PlannedArtifact]) -> Mapping[bytes, int]:
    """Return what is to be stored, as sizes by digest."""
    stored = {artifact.block.digest: artifact.block.piece.block for artifact in artifacts}
    return {digest: block.stored_size for digest, block in stored.items() if block is not None}


def _content(measured: Measured, content_type: str) -> Content:
    block = measured.piece.block
    assert block is not None
    return Content(block.data, measured.digest, block.line_count, content_type)
