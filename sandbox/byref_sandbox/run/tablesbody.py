"""The body of a run that reads a document: its tables, as frames."""

from __future__ import annotations

import msgspec

from byref_sandbox import wire
from byref_sandbox.documents import reading
from byref_sandbox.documents.building import NotATable
from byref_sandbox.documents.inflating import Room
from byref_sandbox.outcome import Failure
from byref_sandbox.run.worker import (
    Body,
    Captured,
    Expired,
    disarm,
    error_frame,
    failure_of,
    lessen_depth,
    out_of_memory,
)

_MAX_TEXT = wire.MAX_TEXT_BYTES - (1 << 20)
"""Bytes of names, cells around tables, notes and reasons in one reply, with room for what is said at its end."""
_UNPACKED_SHARE = 4
"""The part of a run's memory that a document may unpack to: its tables are made beside that."""


def tables_body(request: wire.Request, data: bytes) -> Body:
    """Return the body that reads the tables of a document. `request.source` has its type and its name, which are hints.

    Libraries are imported here, before the jail is entered; they see the bytes inside of it.
    """
    content_type, name = msgspec.json.decode(request.source, type=tuple[str, str])
    reading.load(reading.kind_of(data, content_type, name))
    room = Room(request.max_output_bytes, request.terms.memory_bytes // _UNPACKED_SHARE)

    def body(_stdout: Captured) -> list[wire.Frame]:
        frames: list[wire.Frame] = []
        text = 0
        try:
            for frame in reading.read(data, content_type, name, room):
                text += wire.text_bytes(frame)
                if len(frames) >= wire.MAX_DOCUMENT_FRAMES or text > _MAX_TEXT:
                    frames.append(wire.LeftOut("", "there is more in it than one reply can name"))
                    break
                frames.append(frame)
        except NotATable as error:
            disarm()
            frames.append(wire.LeftOut("", str(error)))
        except BaseException as error:  # noqa: BLE001  (libraries raise what they like at hostile bytes, panics too)
            disarm()
            if isinstance(error, Expired) or out_of_memory(error):
                failure = failure_of(error, request.terms)
                failure = Failure(failure.kind, failure.message, hint="give it as a smaller document")
            else:
                failure = Failure("DocumentError", f"it cannot be read: {type(error).__name__}: {error}")
            if not any(isinstance(frame, wire.Table) for frame in frames):
                return [error_frame(failure)]
            frames.append(wire.LeftOut("", f"what follows the tables that were read: {failure.message}"))
        lessen_depth()
        return [*frames, wire.Done()]

    return body
