"""Files that a run wrote, on their way out: the run sends them, the host checks what it gets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from byref_sandbox import wire
from byref_sandbox.outcome import MAX_FILE_NAME_CHARS, MAX_FILES, File

_NAMED: Final = re.compile(
    r"\b(?:open|Path|(?:read|to)_(?:csv|json|table|fwf|html|string|markdown|latex|excel)|ExcelFile|loadtxt|genfromtxt|savetxt"
    r"|read_text|read_bytes|write_text|write_bytes|iterdir|rglob|exists|is_file|is_dir|touch|unlink|mkdir"
    r"|os|glob|shutil|tempfile|sqlite3|gzip|bz2|lzma|zipfile|configparser|codecs|ElementTree|np\.(?:load|save)\w*)\b"
)
_MAX_REASON_CHARS = 300
_MAX_LOST = 100


def are_named(sources: Iterable[str]) -> bool:
    """Whether code may read or write files. Only such code gets the files of earlier runs."""
    return any(_NAMED.search(source) for source in sources)


def frames_of(written: Mapping[str, bytes], room: int) -> tuple[list[wire.Frame], int]:
    """Return frames of a run's files and the room that is left; a file that does not fit is sent as a reason, without its data."""
    frames: list[wire.Frame] = []
    for number, (name, data) in enumerate(list(written.items())[: MAX_FILES + _MAX_LOST]):
        if number >= MAX_FILES:
            frames.append(wire.File(name, b"", f"a run writes at most {MAX_FILES} files"))
        elif len(data) > room:
            frames.append(wire.File(name, b"", f"too big: {len(data):,} bytes, {room:,} left of what a run may send"))
        else:
            frames.append(wire.File(name, data))
            room -= len(data)
    return frames, room


def files_of(frames: Iterable[wire.Frame]) -> tuple[tuple[File, ...], dict[str, str]]:
    """Return the files in a hostile reply, and by name the reasons why others did not come; frames that are no valid file are dropped."""
    found: dict[str, File] = {}
    lost: dict[str, str] = {}
    for frame in frames:
        if not isinstance(frame, wire.File) or frame.name in found or frame.name in lost or not is_name(frame.name):
            continue
        if frame.lost:
            if len(lost) < _MAX_LOST:
                lost[frame.name] = frame.lost[:_MAX_REASON_CHARS]
        elif len(found) < MAX_FILES:
            found[frame.name] = File(frame.name, frame.data)
    return tuple(found.values()), lost


def is_name(name: str) -> bool:
    """Whether a file can have this name."""
    parts = name.split("/")
    return (
        0 < len(name) <= MAX_FILE_NAME_CHARS
        and name.isprintable()
        and "\\" not in name
        and not any(part in ("", ".", "..") for part in parts)
    )
