"""Files as code reads and writes them: in memory, by name. They come out of a run, and a later run finds them again."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import itertools
import lzma
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import PurePath, PurePosixPath
from typing import Any, Final, Protocol

from byref_sandbox.language.refusal import NotAllowed, no_files
from byref_sandbox.outcome import MAX_FILE_NAME_CHARS

MODE: Final = re.compile(r"(?=[^rwax]*[rwax][^rwax]*\Z)(?!.*(.).*\1)[rwaxbt+]+")
_COMPRESSED: Final = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}


_TEMPORARY: Final = "tmp"
"""The folder of temporary files. It is always there."""
UNPACK: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.decompress,
    "bz2": bz2.decompress,
    "lzma": lzma.decompress,
}
"""How each kind of compressed file is read."""
Pack = Callable[[bytes], bytes]


class NoSuchFile(NotAllowed, FileNotFoundError):
    """The refusal of a file that is not there. Code that catches it finds the error that Python raises."""

    def __init__(self, refusal: NotAllowed, path: object) -> None:
        OSError.__init__(self, *missing_error(path).args, text_of(path))
        self.message, self.hint, self.about_files = refusal.message, refusal.hint, refusal.about_files


NoSuchFile.__name__ = NoSuchFile.__qualname__ = FileNotFoundError.__name__
NoSuchFile.__module__ = FileNotFoundError.__module__


def is_path(value: object) -> bool:
    """Whether a value names a file."""
    return isinstance(value, str | PurePath)


def name_of(path: object) -> str:
    """Return the name of the file at a path: its parts from the root, which is the working directory; raise NotAllowed or TypeError."""
    name = folder_of(path)
    if not name:
        raise _no_name(text_of(path))
    return name


def folder_of(path: object) -> str:
    """Return the same of a folder; empty of the root."""
    text = text_of(path)
    parts: list[str] = []
    for part in re.split(r"[/\\]", text[:10_000]):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    name = "/".join(parts)
    if len(name) > MAX_FILE_NAME_CHARS or (name and not name.isprintable()):
        raise _no_name(text)
    return name


def text_of(path: object) -> str:
    """Return a path as a plain text; raise TypeError of what is none."""
    if not is_path(path):
        raise TypeError(f"expected the name of a file, not {type(path).__name__}")
    return str.__str__(path) if isinstance(path, str) else str(path)


def _no_name(text: str) -> NotAllowed:
    hint = f"use a plain one of at most {MAX_FILE_NAME_CHARS} characters"
    return NotAllowed(f"{text[:60]!r} is no name for a file here", hint)


def missing_error(path: object) -> FileNotFoundError:
    """Return the error that Python raises of a file or folder that is not there."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text_of(path))


def compression_of(path: object, given: object = "infer") -> object:
    """Return how pandas compresses a file: as the code says, else by the ending of its name."""
    if given != "infer":
        return given
    return _COMPRESSED.get(PurePosixPath(name_of(path)).suffix.lower())


class Handle(Protocol):
    """What holds content of a file that the file does not have yet."""

    @property
    def key(self) -> str | None:
        """The file's name."""

    def flush(self) -> None:
        """Write the content into the file."""


class Files:
    """The files of one run."""

    def __init__(self) -> None:
        self._given: dict[str, bytes] = {}
        self._now: dict[str, bytes] = {}
        self._before: dict[str, bytes | None] = {}
        """The content of each file before it was last opened for writing."""
        self._open: list[Handle] = []
        self._images: dict[str, bytes] = {}
        """Images of figures that the code saved, which come out of the run as such."""
        self._folders: set[str] = set()
        """Folders that the run made. Others are parts of the names of files."""
        self._changed: dict[str, float] = {}
        """When each file was last written in this run."""
        self._begun = 0.0
        self._numbers = itertools.count(1)
        self.numbered: dict[int, str] = {}
        """Paths by the numbers that stand for descriptors."""
        self.environment: dict[str, str] = {}
        """Variables that the run has set: there are no others."""

    def reset(self, given: Mapping[str, bytes]) -> None:
        """Begin a run with the files of earlier ones."""
        self._given, self._now, self._before, self._open = dict(given), dict(given), {}, []
        self._folders, self._changed, self._begun = set(), {}, time.time()
        self._images = {}
        self._numbers = itertools.count(1)
        self.numbered.clear()
        self.environment.clear()

    def written(self) -> dict[str, bytes]:
        """Return the files that the run wrote and did not remove, those left open too; unchanged files are left out."""
        for file in list(self._open):
            with contextlib.suppress(Exception):  # the encoding lacks a character that was written
                file.flush()
        known = self._given | self._images
        return {name: data for name, data in self._now.items() if known.get(name) != data}

    def has(self, path: object) -> bool:
        """Whether there is a file at a path."""
        return is_path(path) and folder_of(path) in self._now

    def names(self) -> list[str]:
        """Return the names of all files."""
        return sorted(self._now)

    def read(self, path: object, hint: str = "") -> bytes:
        """Return the content of a file; raise NotAllowed. The hint is for runs that have no files."""
        name = name_of(path)
        for file in self._open:
            if file.key == name:
                file.flush()
        if name not in self._now:
            if not self._now:
                none = NotAllowed(f"there is no file {name!r}: code has written none yet", hint, about_files=True)
                raise NoSuchFile(none, path)
            there = f"there is no file {name!r}; there are: {', '.join(self.names()[:20])}"
            raise NoSuchFile(NotAllowed(there, about_files=True), path)
        return self._now[name]

    def write(self, path: object, data: bytes) -> None:
        """Write a file."""
        name = name_of(path)
        self._now[name] = bytes(data)
        self._changed[name] = time.time()

    def update(self, name: str, data: bytes) -> None:
        """Write what a handle holds; a file that has it already is as old as before."""
        if self._now.get(name) != data:
            self.write(name, data)

    def status(self, path: object) -> os.stat_result:
        """Return kind, size and time of a file or folder; one of an earlier run is as old as this run. Raises FileNotFoundError."""
        name = folder_of(path)
        if name not in self._now and self.has_folder(name):
            mode, size = stat.S_IFDIR | 0o755, 0
        else:
            mode, size = stat.S_IFREG | 0o644, len(self.read(path))
        changed = self._changed.get(name, self._begun)
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, changed, changed, changed))

    # Folders ---------------------------------------------------------------------------------------------------------------

    def has_folder(self, path: object) -> bool:
        """Whether there is a folder at a path: one that was made, or that a file or folder lies in."""
        name = folder_of(path)
        if name in ("", _TEMPORARY) or name in self._folders:
            return True
        return any(each.startswith(f"{name}/") for each in self._all())

    def entries(self, path: object) -> list[str]:
        """Return the names of what is in a folder; raise FileNotFoundError or NotADirectoryError."""
        folder = folder_of(path)
        if not self.has_folder(folder):
            if folder in self._now:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), text_of(path))
            raise missing_error(path)
        start = f"{folder}/" if folder else ""
        return sorted(
            {each[len(start) :].partition("/")[0] for each in self._all() if each.startswith(start) and each != folder}
        )

    def folders(self) -> set[str]:
        """Return the names of all folders."""
        parts = (each.split("/") for each in self._all())
        inner = {"/".join(each[:depth]) for each in parts for depth in range(1, len(each))}
        return inner | self._folders

    def make_folder(self, path: object, exist_ok: bool = False) -> None:
        """Make a folder and those that it lies in; raise FileExistsError."""
        name = folder_of(path)
        if name in self._now or (not exist_ok and self.has_folder(name)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), text_of(path))
        if name:
            self._folders.add(name)

    def remove_folder(self, path: object, *, with_all: bool = False) -> None:
        """Remove a folder; raise OSError of one that is not empty, unless all that is in it is to go too."""
        name = folder_of(path)
        inside = self.entries(path)
        if inside and not with_all:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), text_of(path))
        for each in [each for each in self._now if each.startswith(f"{name}/") or not name]:
            self.remove(each)
        self._folders = {each for each in self._folders if each != name and not each.startswith(f"{name}/")}

    def move(self, source: object, target: object) -> None:
        """Give a file, or a folder with all that is in it, another name; raise FileNotFoundError or NotAllowed."""
        old, new = folder_of(source), folder_of(target)
        if old == new:
            return
        if old in self._now:
            data = self.read(old)
            self.remove(old)
            self.write(new, data)
            return
        self.entries(source)  # raises
        if not old or f"{new}/".startswith(f"{old}/"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), text_of(source))
        for each in [each for each in self._now if each.startswith(f"{old}/")]:
            self.move(each, new + each[len(old) :])
        self._folders = {
            new + each[len(old) :] if f"{each}/".startswith(f"{old}/") else each for each in self._folders
        } | {new}

    def temporary_name(self, suffix: str | None = None, prefix: str | None = None, folder: object = None) -> str:
        """Return the path of a file or folder that is not there yet."""
        place = f"/{_TEMPORARY}" if folder is None else text_of(folder)
        while True:
            path = f"{place}/{'tmp' if prefix is None else prefix}{next(self._numbers):08d}{suffix or ''}"
            if not self.has(path) and not self.has_folder(path):
                return path

    def _all(self) -> set[str]:
        return self._folders | set(self._now)

    # Reading and writing ---------------------------------------------------------------------------------------------------

    def put_image(self, path: object, png: bytes) -> None:
        """Have this run find the image of a figure under the path to which the code saved it; the figure itself comes out of the run."""
        name = name_of(path)
        self.write(name, png)
        if name not in self._given:  # a file of the session is written anew
            self._images[name] = self._now[name]

    def remove(self, path: object) -> None:
        """Remove a file of this run; raise NotAllowed."""
        name = name_of(path)
        self.read(name, "unlink()")
        if name in self._given:
            raise NotAllowed(f"{name!r} is a file of an earlier call and stays", "write it again to replace it")
        self._open = [file for file in self._open if file.key != name]
        del self._now[name]

    def open(
        self,
        file: object,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: object = None,
        *,
        packing: str | None = None,
        pack: Pack | None = None,
    ) -> TextFile | BinaryFile:
        """The builtin, over files in memory. `packing` names how the file is compressed, `pack` compresses what is written."""
        if type(file) is int or opener is not None:
            raise no_files("open() of a descriptor")
        name, mode = name_of(file), str.__str__(mode)
        if not MODE.fullmatch(mode) or ("b" in mode and "t" in mode):
            raise ValueError(f"invalid mode: {mode[:20]!r}")
        if "b" in mode and (encoding is not None or errors is not None or newline is not None):
            raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
        exists = name in self._now
        if "x" in mode and exists:
            raise FileExistsError(17, "File exists", name)
        if not exists and self.has_folder(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), text_of(file))
        stored = b"" if "w" in mode or "x" in mode or ("a" in mode and not exists) else self.read(name)
        data = UNPACK[packing](stored) if packing is not None and stored else stored
        if "b" in mode:
            opened: TextFile | BinaryFile = BinaryFile(self, name, str(file), mode, data)
        else:
            opened = TextFile(self, name, str(file), mode, data, encoding, errors, newline)
        if pack is not None:
            opened.pack_with(pack)
        if opened.writable():
            self._before[name] = self._now.get(name)
            self._now[name] = stored  # it exists from now on, as on a disk
            self._changed[name] = time.time()
            self.remember(opened)
        return opened

    def stream(
        self, data: bytes, name: str, mode: str, save: Callable[[bytes], object], *as_text: str | None
    ) -> TextFile | BinaryFile:
        """Return a handle that is not of a file: `save` gets its content when it is closed. `as_text` are encoding, errors and newline."""
        opened = (
            TextFile(self, None, name, mode, data, *as_text) if as_text else BinaryFile(self, None, name, mode, data)
        )
        opened.on_close(save)
        return opened

    def reopened(
        self, key: Any, name: str, mode: str, content: Any, place: int, *as_text: Any
    ) -> TextFile | BinaryFile:
        """Make a handle of what `_parts` gave: a closed one, or one from which the rest is read."""
        made: Any = (TextFile if as_text else BinaryFile)(self, key, name, mode, b"", *as_text)
        # The buffer's own methods neither check the mode nor write into the file.
        buffer: Any = io.StringIO if as_text else io.BytesIO
        if content is None:
            buffer.close(made)
        else:
            text = content.replace("\r\n", "\n") if as_text and made._ends == "\r\n" else content
            buffer.__init__(made, text, *([made._ends] if as_text else []))
            made.seek(place)
        opened: TextFile | BinaryFile = made
        return opened

    def abandon(self, file: TextFile | BinaryFile) -> None:
        """Close a file that could not be written to its end, and restore its content from before."""
        self.forget(file)
        if file.key is None:
            return
        before = self._before.get(file.key)
        if before is None:
            self._now.pop(file.key, None)
        else:
            self._now[file.key] = before

    def remember(self, handle: Handle) -> None:
        """Have a handle write what it holds before its file is read."""
        self._open.append(handle)

    def forget(self, handle: Handle) -> None:
        """Undo `remember`."""
        self._open = [each for each in self._open if each is not handle]


_BUFFER: Any = object
"""For mypy: the buffer that comes after `_Handle` among the bases."""


class _Handle(_BUFFER):  # type: ignore[misc]
    """What a text file and a binary one have in common. It comes before the buffer among their bases, so that `super()` is the buffer.

    A handle writes its content into its file when it is flushed or closed.
    """

    _pack: Pack | None = None
    _save: Callable[[bytes], object] | None = None

    def _begin(self, files: Files, key: str | None, name: str, mode: str) -> None:
        self._files, self.key, self.name, self.mode = files, key, name, mode
        self._writes = any(letter in mode for letter in "wax+")
        self._reads = "r" in mode or "+" in mode

    def _parts(self) -> tuple[Any, ...] | None:
        """What a session keeps of it; None of one that is open for writing."""
        if self.closed:
            return self.key, self.name, self.mode, None, 0
        return None if self._writes else (self.key, self.name, self.mode, self.getvalue(), self.tell())

    def pack_with(self, pack: Pack) -> None:
        """Compress what is written."""
        self._pack = pack

    def on_close(self, save: Callable[[bytes], object]) -> None:
        """Hand on the content when the handle is closed."""
        self._save = save

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return self._writes

    def _check(self, is_allowed: bool, what: str) -> None:
        if not is_allowed:
            raise io.UnsupportedOperation(f"not {what}")

    def read(self, size: int | None = -1, /) -> Any:
        self._check(self._reads, "readable")
        return super().read(size)

    def readline(self, size: int = -1, /) -> Any:
        self._check(self._reads, "readable")
        return super().readline(size)

    def __next__(self) -> Any:
        self._check(self._reads, "readable")
        return super().__next__()

    def write(self, data: Any, /) -> int:
        self._check(self._writes, "writable")
        if "a" in self.mode:
            self.seek(0, io.SEEK_END)
        written: int = super().write(data)
        return written

    def writelines(self, lines: Any, /) -> None:
        for line in lines:
            self.write(line)

    def truncate(self, size: int | None = None, /) -> Any:
        self._check(self._writes, "writable")
        return super().truncate(size)

    def flush(self) -> None:
        if self._writes and not self.closed and self.key is not None:
            self._files.update(self.key, self._packed())

    def _packed(self) -> bytes:
        return self._content() if self._pack is None else self._pack(self._content())

    def close(self) -> None:
        if not self.closed:
            try:
                self.flush()
                if self._writes and self._save is not None:
                    self._save(self._packed())
            finally:
                self._files.forget(self)
                super().close()


class TextFile(_Handle, io.StringIO):  # type: ignore[misc]
    """A file opened as text."""

    def __init__(
        self,
        files: Files,
        key: str | None,
        name: str,
        mode: str,
        data: bytes,
        encoding: str | None,
        errors: str | None,
        newline: str | None,
    ) -> None:
        self._encoding = "utf-8" if encoding in (None, "locale") else str(encoding)
        self._errors = "strict" if errors is None else str(errors)
        self._begin(files, key, name, mode)
        # Line ends are translated only on reading: written ones stay as they are.
        self._ends = ends = newline if not self._writes or newline == "\r\n" else ""
        text = data.decode(self._encoding, self._errors)
        io.StringIO.__init__(self, text.replace("\r\n", "\n") if ends == "\r\n" else text, ends)
        if "a" in mode:
            self.seek(0, io.SEEK_END)

    def _parts(self) -> tuple[Any, ...] | None:
        parts = super()._parts()
        return None if parts is None else (*parts, self._encoding, self._errors, self._ends)

    encoding = property(lambda self: self._encoding)
    errors = property(lambda self: self._errors)

    def write(self, text: Any, /) -> int:
        if self._writes and isinstance(text, str):
            # an error belongs to the line that writes, not to the one that closes
            text.encode(self._encoding, self._errors)
        return super().write(text)

    def _content(self) -> bytes:
        return self.getvalue().encode(self._encoding, self._errors)


class BinaryFile(_Handle, io.BytesIO):  # type: ignore[misc]
    """A file opened as bytes."""

    def __init__(self, files: Files, key: str | None, name: str, mode: str, data: bytes) -> None:
        self._begin(files, key, name, mode)
        io.BytesIO.__init__(self, data)
        if "a" in mode:
            self.seek(0, io.SEEK_END)

    def _content(self) -> bytes:
        return self.getvalue()


BUFFERS: Final = (io.StringIO, io.BytesIO, TextFile, BinaryFile)
"""Exactly these types may be read from and written to: a subclass could have methods of the code's."""
TEXT_BUFFERS: Final = (io.StringIO, TextFile)
Files.open.__qualname__ = "open"  # as errors about its arguments show it
