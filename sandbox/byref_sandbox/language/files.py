"""Files as code reads and writes them: in memory, by name. They come out of a run, and a later run finds them again."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath, PurePosixPath
from typing import Any, Final

from byref_sandbox.language.refusal import NotAllowed, no_files
from byref_sandbox.outcome import MAX_FILE_NAME_CHARS

_MODE: Final = re.compile(r"(?=[^rwax]*[rwax][^rwax]*\Z)(?!.*(.).*\1)[rwaxbt+]+")
_COMPRESSED: Final = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}


class NoSuchFile(NotAllowed, FileNotFoundError):
    """The refusal of a file that is not there. Code may catch it as the error that Python raises."""


NoSuchFile.__name__ = NotAllowed.__name__


def is_path(value: object) -> bool:
    """Whether a value names a file."""
    return isinstance(value, str | PurePath)


def name_of(path: object) -> str:
    """Return the name of the file at a path: its parts, without a root and `..`; raise NotAllowed or TypeError."""
    if not is_path(path):
        raise TypeError(f"expected the name of a file, not {type(path).__name__}")
    text = str.__str__(path) if isinstance(path, str) else str(path)
    parts = [part for part in re.split(r"[/\\]", text[:10_000]) if part not in ("", ".", "..")]
    name = "/".join(parts)
    if not name or len(name) > MAX_FILE_NAME_CHARS or not name.isprintable():
        raise NotAllowed(
            f"{text[:60]!r} is no name for a file here", f"use a plain one of at most {MAX_FILE_NAME_CHARS} characters"
        )
    return name


def compression_of(path: object, given: object = "infer") -> object:
    """Return how pandas compresses a file: as the code says, else by the ending of its name."""
    if given != "infer":
        return given
    return _COMPRESSED.get(PurePosixPath(name_of(path)).suffix.lower())


class Files:
    """The files of one run."""

    def __init__(self) -> None:
        self._given: dict[str, bytes] = {}
        self._now: dict[str, bytes] = {}
        self._before: dict[str, bytes | None] = {}
        """The content of each file before it was last opened for writing."""
        self._open: list[TextFile | BinaryFile] = []

    def reset(self, given: Mapping[str, bytes]) -> None:
        """Begin a run with the files of earlier ones."""
        self._given, self._now, self._before, self._open = dict(given), dict(given), {}, []

    def written(self) -> dict[str, bytes]:
        """Return the files that the run wrote and did not remove, those left open too; unchanged files are left out."""
        for file in list(self._open):
            with contextlib.suppress(Exception):  # the encoding lacks a character that was written
                file.flush()
        return {name: data for name, data in self._now.items() if self._given.get(name) != data}

    def has(self, path: object) -> bool:
        """Whether there is a file at a path."""
        return is_path(path) and name_of(path) in self._names()

    def names(self) -> list[str]:
        """Return the names of all files."""
        return sorted(self._names())

    def read(self, path: object, what: str = "open()") -> bytes:
        """Return the content of a file; raise NotAllowed."""
        name = name_of(path)
        for file in self._open:
            if file.key == name:
                file.flush()
        if name not in self._now:
            if not self._now:
                raise _as_missing(no_files(what))
            raise _as_missing(
                NotAllowed(f"there is no file {name!r}; there are: {', '.join(self.names()[:20])}", about_files=True)
            )
        return self._now[name]

    def write(self, path: object, data: bytes) -> None:
        """Write a file."""
        self._now[name_of(path)] = bytes(data)

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
    ) -> TextFile | BinaryFile:
        """The builtin, over files in memory."""
        if type(file) is int or opener is not None:
            raise no_files("open() of a descriptor")
        name, mode = name_of(file), str.__str__(mode)
        if not _MODE.fullmatch(mode) or ("b" in mode and "t" in mode):
            raise ValueError(f"invalid mode: {mode[:20]!r}")
        if "b" in mode and (encoding is not None or errors is not None or newline is not None):
            raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
        exists = name in self._names()
        if "x" in mode and exists:
            raise FileExistsError(17, "File exists", name)
        data = b"" if "w" in mode or "x" in mode or ("a" in mode and not exists) else self.read(name)
        if "b" in mode:
            opened: TextFile | BinaryFile = BinaryFile(self, name, str(file), mode, data)
        else:
            opened = TextFile(self, name, str(file), mode, data, encoding, errors, newline)
        if opened.writable():
            self._before[name] = self._now.get(name)
            self._now[name] = data  # it exists from now on, as on a disk
            self._open.append(opened)
        return opened

    def abandon(self, file: TextFile | BinaryFile) -> None:
        """Close a file that could not be written to its end, and restore its content from before."""
        self._closed(file)
        before = self._before.get(file.key)
        if before is None:
            self._now.pop(file.key, None)
        else:
            self._now[file.key] = before

    def _names(self) -> set[str]:
        return set(self._now)

    def _closed(self, file: TextFile | BinaryFile) -> None:
        self._open = [each for each in self._open if each is not file]


def _as_missing(refusal: NotAllowed) -> NoSuchFile:
    return NoSuchFile(refusal.message, refusal.hint, about_files=refusal.about_files)


_BUFFER: Any = object
"""For mypy: the buffer that comes after `_Handle` among the bases."""


class _Handle(_BUFFER):  # type: ignore[misc]
    """What a text file and a binary one have in common. It comes before the buffer among their bases, so that `super()` is the buffer.

    A handle writes its content into its file when it is flushed or closed.
    """

    def _begin(self, files: Files, key: str, name: str, mode: str) -> None:
        self._files, self.key, self.name, self.mode = files, key, name, mode
        self._writes = any(letter in mode for letter in "wax+")
        self._reads = "r" in mode or "+" in mode

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
        if self._writes and not self.closed:
            self._files.write(self.key, self._content())

    def close(self) -> None:
        if not self.closed:
            try:
                self.flush()
            finally:
                self._files._closed(self)
                super().close()


class TextFile(_Handle, io.StringIO):  # type: ignore[misc]
    """A file opened as text."""

    def __init__(
        self,
        files: Files,
        key: str,
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
        ends = newline if not self._writes or newline == "\r\n" else ""
        text = data.decode(self._encoding, self._errors)
        io.StringIO.__init__(self, text.replace("\r\n", "\n") if ends == "\r\n" else text, ends)
        if "a" in mode:
            self.seek(0, io.SEEK_END)

    encoding = property(lambda self: self._encoding)
    errors = property(lambda self: self._errors)

    def write(self, text: Any, /) -> int:
        if self._writes and isinstance(text, str):
            text.encode(
                self._encoding, self._errors
            )  # an error belongs to the line that writes, not to the one that closes
        return super().write(text)

    def _content(self) -> bytes:
        return self.getvalue().encode(self._encoding, self._errors)


class BinaryFile(_Handle, io.BytesIO):  # type: ignore[misc]
    """A file opened as bytes."""

    def __init__(self, files: Files, key: str, name: str, mode: str, data: bytes) -> None:
        self._begin(files, key, name, mode)
        io.BytesIO.__init__(self, data)
        if "a" in mode:
            self.seek(0, io.SEEK_END)

    def _content(self) -> bytes:
        return self.getvalue()


BUFFERS: Final = (io.StringIO, io.BytesIO, TextFile, BinaryFile)
"""Exactly these types may be read from and written to: a subclass could have methods of the code's."""
TEXT_BUFFERS: Final = (io.StringIO, TextFile)


def path_class(files: Files) -> type[PurePosixPath]:
    """Return `pathlib.Path` over the files of a run."""

    class Path(PurePosixPath):
        __slots__ = ()

        def open(self, mode: str = "r", *arguments: Any, **options: Any) -> TextFile | BinaryFile:
            return files.open(self, mode, *arguments, **options)

        def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
            with files.open(self, "r", encoding=encoding, errors=errors) as file:
                return str(file.read())

        def read_bytes(self) -> bytes:
            return files.read(self)

        def write_text(
            self, data: str, encoding: str | None = None, errors: str | None = None, newline: str | None = None
        ) -> int:
            if not isinstance(data, str):
                raise TypeError(f"data must be str, not {type(data).__name__}")
            with files.open(self, "w", encoding=encoding, errors=errors, newline=newline) as file:
                return file.write(data)

        def write_bytes(self, data: Any) -> int:
            with files.open(self, "wb") as file:
                return file.write(data)

        def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
            with files.open(self, "a" if exist_ok else "x"):
                pass

        def exists(self) -> bool:
            return files.has(self) or self.is_dir()

        def is_file(self) -> bool:
            return files.has(self)

        def is_dir(self) -> bool:
            return any(True for _ in self.iterdir()) or not name_parts(self)

        def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
            """Folders are parts of names: there is nothing to make."""

        def unlink(self, missing_ok: bool = False) -> None:
            if files.has(self) or not missing_ok:
                files.remove(self)

        def iterdir(self) -> Iterator[Path]:
            depth, start = len(name_parts(self)), name_parts(self)
            found = dict.fromkeys(
                tuple(name.split("/")[: depth + 1]) for name in files.names() if name.split("/")[:depth] == start
            )
            return (type(self)(*parts) for parts in found if len(parts) > depth)

        def glob(self, pattern: str) -> Iterator[Path]:
            return (type(self)(name) for name in files.names() if fnmatch.fnmatchcase(name, str(self / pattern)))

        def absolute(self) -> Path:
            return self

        resolve = expanduser = absolute

        @classmethod
        def cwd(cls) -> Path:
            return cls()

    Path.__module__ = "pathlib"
    return Path


def name_parts(path: PurePath) -> list[str]:
    """Return the parts of a path that are in the file's name."""
    return [part for part in path.parts if part not in ("/", "..", ".")]
