"""gzip and zip: what is packed in them is recognised by its own content, archives in archives too."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from byref_sandbox import wire
from byref_sandbox.documents import kinds
from byref_sandbox.documents.building import NotATable
from byref_sandbox.documents.inflating import Room, gunzip, member_of

MAX_MEMBERS: Final = 1_000
MAX_LEVELS: Final = 3
"""Archives within archives."""
_SAMPLE: Final = 64 << 10
_TYPES: Final = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".ndjson": "application/x-ndjson",
}
Read = Callable[[bytes, str, Room, int], Iterator[wire.Frame]]


def read_gzip(data: bytes, name: str, room: Room, level: int, read: Read) -> Iterator[wire.Frame]:
    """Yield what is in a gzip file; raise NotATable."""
    inner = name.removesuffix(".gz") if name.endswith(".gz") else ""
    yield from _content(gunzip(data, room), inner, room, level, read)


def read_zip(data: bytes, room: Room, level: int, read: Read) -> Iterator[wire.Frame]:
    """Yield what is in a zip archive, member by member; raise NotATable."""
    if (words := kinds.other_office(data)) is not None:
        raise NotATable(f"it is {words}")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = [info for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise NotATable(f"it is no archive that can be read: {error}") from None
    room.check_declared(archive)
    if not members:
        raise NotATable("the archive is empty")
    names = Counter(info.filename for info in members)
    for number, info in enumerate(members):
        if number >= MAX_MEMBERS:
            yield wire.LeftOut(info.filename, f"one of {len(members):,} members, of which {MAX_MEMBERS:,} are read")
            return
        name = info.filename.encode("utf-8", "backslashreplace").decode()
        if names[info.filename] > 1:
            yield wire.LeftOut(name, "several members of the archive have this name")
            continue
        if name.startswith("__MACOSX/"):
            continue
        try:
            for frame in _content(member_of(archive, info.filename, room), name, room, level, read):
                yield _within(frame, name)
        except NotATable as error:
            yield wire.LeftOut("", str(error), name)
            if room.unpacked < 0:
                return


def _within(frame: wire.Frame, name: str) -> wire.Frame:
    if isinstance(frame, wire.Table | wire.Member | wire.LeftOut):
        return msgspec.structs.replace(frame, source=f"{name}/{frame.source}" if frame.source else name)
    return frame


def _content(data: bytes, name: str, room: Room, level: int, read: Read) -> Iterator[wire.Frame]:
    if level >= MAX_LEVELS:
        raise NotATable(f"archives are read {MAX_LEVELS} levels deep")
    kind = kinds.looks_like(data, name=name)
    if kind is not None:
        yield from read(data, name, room, level + 1)
        return
    if not data:
        raise NotATable("it is empty")
    if not _is_text(data[:_SAMPLE]):
        raise NotATable("it is neither text nor a document that has tables")
    if len(data) > room.left:
        raise NotATable(f"it has {len(data):,} bytes, and there is room for {room.left:,}")
    room.left -= len(data)
    suffix = next((suffix for suffix in _TYPES if name.lower().endswith(suffix)), "")
    yield wire.Member("", _TYPES.get(suffix, "text/plain"), data)


def _is_text(sample: bytes) -> bool:
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    return (
        b"\x00" not in sample
        and sum(byte < 32 and byte not in (9, 10, 12, 13, 27) for byte in sample) <= len(sample) // 1000
    )
