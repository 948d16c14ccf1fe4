"""Unpacking under a bound: of all that one document unpacks to, whatever its headers say."""

from __future__ import annotations

import zipfile
import zlib
from typing import Final

from byref_sandbox.documents.building import NotATable

_PIECE: Final = 1 << 18
_LARGE_RATIO: Final = 3


class Room:
    """How many bytes a document may still unpack to, and its tables may still take."""

    def __init__(self, left: int, unpacked: int) -> None:
        self.left = left
        """Bytes of records and texts that may still leave the run."""
        self.unpacked = unpacked
        self._most = unpacked

    def unpack(self, size: int) -> None:
        """Count bytes that were unpacked; raise NotATable beyond the bound."""
        self.unpacked -= size
        if self.unpacked < 0:
            raise NotATable(f"it unpacks to more than {self._most:,} bytes")

    def check_declared(self, archive: zipfile.ZipFile) -> None:
        """Raise NotATable if the members of an archive together are more than may be unpacked by what they say of themselves."""
        if sum(info.file_size for info in archive.infolist()) > self.unpacked * _LARGE_RATIO:
            raise NotATable(f"it unpacks to more than {self._most:,} bytes")


def member_of(archive: zipfile.ZipFile, name: str, room: Room) -> bytes:
    """Return a member of an archive; raise NotATable if it cannot be unpacked."""
    parts = []
    try:
        with archive.open(name) as file:
            while part := file.read(_PIECE):
                room.unpack(len(part))
                parts.append(part)
    except RuntimeError as error:
        raise NotATable("it is encrypted" if "encrypted" in str(error) else str(error)) from None
    except (zipfile.BadZipFile, NotImplementedError, zlib.error, EOFError, OSError, ValueError) as error:
        raise NotATable(f"it cannot be unpacked: {error}") from None
    return b"".join(parts)


def gunzip(data: bytes, room: Room) -> bytes:
    """Return what gzip has packed, all its members one after another; raise NotATable."""
    parts = []
    while data:
        stream = zlib.decompressobj(wbits=31)
        try:
            while not stream.eof:
                part = stream.decompress(data, _PIECE)
                data = stream.unconsumed_tail
                room.unpack(len(part))
                parts.append(part)
                if not part and not data and not stream.eof:
                    raise NotATable("it ends before its end: the file is not whole")
        except zlib.error as error:
            raise NotATable(f"it cannot be unpacked: {error}") from None
        data = stream.unused_data.lstrip(b"\x00")
    return b"".join(parts)
