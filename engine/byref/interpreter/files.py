"""Files that code wrote become artifacts of the session under their names; later code opens them again."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from sqlalchemy import Connection

from byref.artifacts import staging, store
from byref.artifacts.staging import Staged
from byref.artifacts.store import Description
from byref.conversation import room
from byref.conversation.scope import Scope
from byref.describe.truncate import head_of
from byref.errors import QuotaExceeded
from byref_sandbox import File, Outcome

_OCTETS: Final = "application/octet-stream"
_TYPES: Final = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".html": "text/html",
    ".md": "text/markdown",
    ".xml": "text/xml",
}
"""Content types of texts, by the ending of the file's name; any other text is text/plain."""
_READ_BYTES: Final = 1 << 20
_COUNTED_BYTES: Final = 1 << 16
"""The tokens of a longer file are estimated from this many bytes of its beginning."""
_NAMED: Final = 10
_TEXT_TOOLS: Final = ("artifact_read", "artifact_grep")


@dataclass(frozen=True, slots=True)
class Written:
    """One file, staged as an artifact."""

    name: str
    about: Description
    staged: Staged = field(repr=False)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one run."""

    staged: tuple[Written, ...] = ()
    lost: tuple[str, ...] = ()
    """The reasons why other files were not stored, one sentence each."""
    last_before: int | None = None
    """`Inputs.last_file` of the run."""


def stage(scope: Scope, outcome: Outcome, last_before: int | None) -> Files:
    """Store the files of a run as far as quotas allow; `last_before` is as in `Files`."""
    staged: list[Written] = []
    lost = [f"{name} is not stored: {reason}" for name, reason in outcome.files_lost.items()]
    for file in outcome.files:
        try:
            staged.append(_stage(scope, file))
        except QuotaExceeded as error:
            lost.append(f"{file.name} is not stored: {error}")
    return Files(tuple(staged), tuple(lost), last_before)


def commit(connection: Connection, scope: Scope, files: Files, step: int | None) -> tuple[str, ...]:
    """Make artifacts of the staged files; from now on, a name that existed before means the newer file.

    Return the names that another run has written since this one was given its files: this one had not read that.
    """
    if not files.staged:
        return ()
    newer = set() if files.last_before is None else store.files_since(connection, scope.row, files.last_before)
    room.check_within(connection, scope, {one.staged.digest: one.staged.size for one in files.staged})
    for one in files.staged:
        blob = staging.publish_kept(connection, scope.place, one.staged)
        scope.publish(connection, blob, one.about, step=step, origin="run")
    return tuple(one.name for one in files.staged if one.name in newer)


def text_of(scope: Scope, files: Files) -> str:
    """Return the reply's text about its files; empty if there are none."""
    lines = []
    if files.staged:
        shown = [f"{one.name} ({one.about.size_bytes:,} bytes)" for one in files.staged[:_NAMED]]
        more = len(files.staged) - len(shown)
        names = ", ".join(shown) + (f" and {more:,} more" if more else "")
        is_text = any(one.about.kind == "text" for one in files.staged)
        tools = " and ".join(name for name in _TEXT_TOOLS if name in scope.tools and is_text)
        lines.append(
            f"[written: {names}; later code opens {'it' if len(files.staged) == 1 else 'them'} by name{f', {tools} too' if tools else ''}]"
        )
    lines += [f"[{sentence}]" for sentence in files.lost[:_NAMED]]
    if (more := len(files.lost) - _NAMED) > 0:
        lines.append(f"[{more:,} more files are not stored]")
    return "\n".join(lines)


def _stage(scope: Scope, file: File) -> Written:
    about = _described(scope, file)
    return Written(file.name, about, room.stage(scope, file.data, about.content_type))


def _described(scope: Scope, file: File) -> Description:
    """Return the description of a file. JSON is not parsed here, because untrusted code wrote it: jq reads it in the jail."""
    size = len(file.data)
    if not _is_text(file.data):
        about = f"[{file.name}: {size:,} bytes]"
        return Description("document", _OCTETS, size, about, size // 3, f"file({size:,} bytes)", name=file.name)
    start = store.decode_text(file.data[:_COUNTED_BYTES])
    tokens = scope.count(start) * max(size, 1) // max(min(size, _COUNTED_BYTES), 1)
    kind = _TYPES.get(PurePosixPath(file.name).suffix.lower(), "text/plain")
    return Description("text", kind, size, head_of(start, store.PREVIEW_CHARS), tokens, "text", name=file.name)


def _is_text(data: bytes) -> bool:
    """Tell whether bytes are UTF-8. They are decoded in pieces, and never kept as text: one wide character makes Python store
    four bytes for every character.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _READ_BYTES):
            decoder.decode(data[start : start + _READ_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
