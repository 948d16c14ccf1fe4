"""Export an artifact's bytes to a file, frame by frame: completely or not at all."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

from blake3 import blake3

from byref.artifacts.store import Artifact
from byref.errors import ArtifactMissing, ConfigurationError, shown
from byref.stores.paths import create


def export(artifact: Artifact, target: str | os.PathLike[str] | IO[bytes]) -> int:
    """Write an artifact's bytes to a path or an open binary file and return their number.

    A file at the path is replaced atomically, once all bytes are written and their digest is right, and keeps its mode; a
    new file is private to its owner. If a part cannot be read, the bytes already written to an open file are removed again,
    provided that the file can seek.

    Raises:
        ConfigurationError: the path is a folder or a device, or the file is not open for bytes.
        ArtifactMissing: the bytes are gone, or are not the ones that were stored.
        OSError: the file cannot be written.
    """
    if isinstance(target, str | os.PathLike):
        return _to_path(artifact, Path(target))
    if isinstance(target, io.TextIOBase) or not callable(getattr(target, "write", None)):
        raise ConfigurationError(f"{shown(target)}: expected a path, or a file that is open for bytes")
    can_seek = callable(getattr(target, "seekable", None)) and target.seekable()
    begin = target.tell() if can_seek else None
    try:
        return _write(artifact, target)
    except BaseException:
        if begin is not None:
            with suppress(OSError):  # a device may refuse to truncate: the first error matters more
                target.seek(begin)
                target.truncate()
        raise


def _to_path(artifact: Artifact, path: Path) -> int:
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{str(path)!r} is no regular file: name another path, or give an open file")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb", opener=create) as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            written = _write(artifact, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return written


def _write(artifact: Artifact, file: IO[bytes]) -> int:
    artifact, digest, written = artifact.readable, blake3(), 0
    for _, data in artifact.payload.chunks():
        digest.update(data)
        left = memoryview(data)
        while left:  # an unbuffered file may write only a part, and a host's own may return None
            count = file.write(left)
            left = left[len(left) if count is None else count :]
        written += len(data)
    if digest.digest() != artifact.digest:
        raise ArtifactMissing(f"the bytes of {artifact.id} are not the ones that were stored")
    return written
