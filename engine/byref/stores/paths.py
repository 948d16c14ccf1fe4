"""Create and read files at paths that people name: new ones are private to their owner, and reads are bounded.

New files and folders get their mode whatever the umask is; existing ones keep theirs.
"""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

from byref.errors import ConfigurationError

FILE_MODE = 0o600
FOLDER_MODE = 0o700
PIPE_SECONDS = 60.0
"""How long to wait for the first byte of a named pipe, to which perhaps nobody will ever write."""


def make_file(path: str | os.PathLike[str]) -> None:
    """Create an empty file unless the path exists; a failure is ignored, because opening the file will say why."""
    try:
        os.close(create(os.path.realpath(path), os.O_WRONLY))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return


def create(path: str | os.PathLike[str], flags: int, *, parent: int | None = None) -> int:
    """Create a file, never through a symbolic link, and return its descriptor; `path` is relative to the open `parent`.

    Raises:
        OSError: the file cannot be created, or the path exists.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=parent)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != FILE_MODE:
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents.

    Raises:
        OSError: a folder cannot be created, or something else is in its place.
    """
    missing = [path]
    while not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        make_folder(folder)


def make_folder(path: str | os.PathLike[str], *, parent: int | None = None) -> bool:
    """Create a folder and return True, or False if it exists already; raises as `make_folders` does."""
    try:
        os.mkdir(path, FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        if stat.S_ISDIR(os.stat(path, dir_fd=parent).st_mode):
            return False
        raise
    mode = stat.S_IMODE(os.stat(path, dir_fd=parent, follow_symlinks=False).st_mode)
    if mode & 0o777 != FOLDER_MODE:
        os.chmod(path, mode & ~0o777 | FOLDER_MODE, dir_fd=parent)
    return True


def check_own(folder: Path) -> None:
    """Raise ConfigurationError unless a folder chosen by byref belongs to this user and nobody else can put files there."""
    about = folder.lstat()
    if stat.S_ISLNK(about.st_mode):
        what = "is a symbolic link"
    elif about.st_uid != os.geteuid():
        what = "belongs to another user"
    elif about.st_mode & 0o022:
        what = "can be written to by other users"
    else:
        return
    raise ConfigurationError(f"the folder {str(folder)!r} {what}: expected one of this user alone, or none yet")


def open_to_read(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, a pipe or a device for reading. The caller must limit what it reads, which may be endless.

    Raises:
        TimeoutError: nobody wrote to a named pipe for `PIPE_SECONDS`.
        OSError: the path cannot be opened, or is a folder.
        ValueError: the path has a NUL.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and stat.S_ISFIFO(os.lstat(path).st_mode):
            _await_writer(descriptor)  # not for a shell's `<(command)`, a link to a pipe that surely has a writer
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_whole(path: str | os.PathLike[str], limit: int) -> bytes | None:
    """Return the bytes at a path, or None if they are more than `limit`; raises as `open_to_read` does."""
    with open_to_read(path) as file:
        data = file.read(limit + 1)
    return None if len(data) > limit else data


def _await_writer(pipe: int) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if not poll.poll(PIPE_SECONDS * 1000):
        raise TimeoutError(f"it is a pipe, and nothing was written to it for {PIPE_SECONDS:g} s")
