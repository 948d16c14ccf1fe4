"""`gzip`, `bz2`, `lzma` and `zipfile` over the files of a run and over buffers in memory."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import posixpath
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from byref_sandbox.language.files import UNPACK, BinaryFile, Files, Pack, TextFile, folder_of, is_path, name_of, text_of
from byref_sandbox.language.guards import Guards
from byref_sandbox.language.refusal import NotAllowed


def packed_names(files: Files, guards: Guards) -> dict[str, dict[str, object]]:
    """Return the names of each module that touch files."""
    zip_file = _zip_file(files)
    return {
        "gzip": {"open": _opener(files, _gzip), "GzipFile": guards.replace(gzip.GzipFile, make=_gzip_file(files))},
        "bz2": {"open": _opener(files, _bz2), "BZ2File": guards.replace(bz2.BZ2File, make=_opener(files, _bz2, "rb"))},
        "lzma": {
            "open": _opener(files, _lzma),
            "LZMAFile": guards.replace(lzma.LZMAFile, make=_opener(files, _lzma, "rb")),
        },
        "zipfile": {
            "ZipFile": zip_file,
            "ZipInfo": guards.replace(zipfile.ZipInfo, make=_zip_info),
            "is_zipfile": lambda filename: zipfile.is_zipfile(_stored(files, filename)),
        },
    }


# Files of one stream -----------------------------------------------------------------------------------------------------------


def _gzip(level: Any = 9, *, mtime: float | None = None, **_options: Any) -> tuple[str, Pack]:
    return "gzip", lambda data: gzip.compress(data, level, mtime=mtime)


def _bz2(level: Any = 9, **_options: Any) -> tuple[str, Pack]:
    return "bz2", lambda data: bz2.compress(data, level)


def _lzma(**options: Any) -> tuple[str, Pack]:
    known = {name: options[name] for name in ("format", "check", "preset") if name in options and name != "format"}
    return "lzma", lambda data: lzma.compress(data, **known)


def _opener(files: Files, packing: Callable[..., tuple[str, Pack]], default: str = "rb") -> Callable[..., Any]:
    def call(
        filename: Any,
        mode: str = default,
        *arguments: Any,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **options: Any,
    ) -> TextFile | BinaryFile:
        if "compresslevel" in options:
            arguments = (options.pop("compresslevel"), *arguments[1:])
        name, pack = packing(*arguments[:1], **options)
        return _opened(files, filename, mode, name, pack, (encoding, errors, newline))

    call.__name__ = call.__qualname__ = "open"
    return call


def _gzip_file(files: Files) -> Callable[..., Any]:
    def make(
        filename: Any = None,
        mode: str | None = None,
        compresslevel: int = 9,
        fileobj: Any = None,
        mtime: float | None = None,
    ) -> TextFile | BinaryFile:
        name, pack = _gzip(compresslevel, mtime=mtime)
        target = filename if fileobj is None else fileobj
        writes = fileobj is not None and "w" in getattr(fileobj, "mode", "r")
        return _opened(files, target, mode or ("wb" if writes else "rb"), name, pack, None)

    return make


def _opened(
    files: Files, target: Any, mode: str, packing: str, pack: Pack, as_text: tuple[str | None, ...] | None
) -> TextFile | BinaryFile:
    """Open a compressed file of the run, or what is compressed in a buffer."""
    mode = str.__str__(mode)
    if "t" not in mode and "b" not in mode:
        mode += "b"
    text = () if "b" in mode or as_text is None else as_text
    if is_path(target):
        encoding, errors, newline = text or (None, None, None)
        return files.open(target, mode, -1, encoding, errors, newline, packing=packing, pack=pack)
    if type(target) not in (io.BytesIO, BinaryFile):
        raise NotAllowed(f"a {type(target).__name__} cannot be opened here", "name a file, or use an io.BytesIO")
    reads = "r" in mode
    opened = files.stream(UNPACK[packing](target.read()) if reads else b"", "", mode, target.write, *text)
    opened.pack_with(pack)
    return opened


def text_of_bytes(
    files: Files,
    buffer: Any,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *_arguments: Any,
    **_options: Any,
) -> TextFile | BinaryFile:
    """`io.TextIOWrapper`: read bytes of a handle as text, or write text into it."""
    if type(buffer) not in (io.BytesIO, BinaryFile):
        raise NotAllowed(f"a {type(buffer).__name__} cannot be read as text here", "use an io.BytesIO")
    reads = type(buffer) is io.BytesIO or buffer.readable()
    return files.stream(
        buffer.read() if reads else b"", "", "r" if reads else "w", buffer.write, encoding, errors, newline
    )


# Archives ----------------------------------------------------------------------------------------------------------------------


def _stored(files: Files, source: Any) -> io.BytesIO:
    """Return an archive's bytes as a buffer: of a file of the run, or of a buffer of the code's."""
    if is_path(source):
        return io.BytesIO(files.read(source))
    if type(source) not in (io.BytesIO, BinaryFile):
        raise NotAllowed(f"a {type(source).__name__} cannot be an archive here", "name a file, or use an io.BytesIO")
    return io.BytesIO(source.getvalue())


def _zip_info(filename: str = "NoName", date_time: tuple[int, ...] = (1980, 1, 1, 0, 0, 0)) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(str.__str__(filename), tuple(map(int, date_time)))  # type: ignore[arg-type]


class _Archive(zipfile.ZipFile):
    def __del__(self) -> None:
        """Nothing is left to close: the archive lies in memory."""


class NotKept(Exception):
    """A session cannot keep it; the message says why."""


class _Unclosed:
    """An archive that is being written. Python closes a forgotten one when it is deleted, here that is when its file is read."""

    def __init__(self, key: str, close: Callable[[], None]) -> None:
        self.key = key
        self.flush = close


def _zip_file(files: Files) -> type:
    class ZipFile:
        """An archive: zipfile's own class over a copy in memory, which is stored when it is closed."""

        def __init__(
            self,
            file: Any,
            mode: str = "r",
            compression: int = zipfile.ZIP_STORED,
            allowZip64: bool = True,  # noqa: N803
            compresslevel: int | None = None,
            **_options: Any,
        ) -> None:
            if mode not in ("r", "w", "x", "a"):
                raise ValueError("ZipFile requires mode 'r', 'w', 'x', or 'a'")
            exists = files.has(file) if is_path(file) else True
            if mode == "x" and is_path(file) and exists:
                raise FileExistsError(17, "File exists", text_of(file))
            fresh = mode in "wx" or (mode == "a" and not exists)
            self._buffer = io.BytesIO() if fresh else _stored(files, file)
            self._target = file
            kind: Any = "a" if mode == "a" and not fresh else "w" if fresh else "r"
            self._zip = _Archive(self._buffer, kind, compression, compresslevel=compresslevel)
            self.mode = mode
            self.filename = text_of(file) if is_path(file) else None
            self.compression = compression
            if mode != "r" and is_path(file):
                files.write(file, b"")
                self._unclosed = _Unclosed(name_of(file), self.close)
                files.remember(self._unclosed)

        def _parts(self) -> tuple[Any, ...]:
            """What a session keeps of it; raise NotKept of one that is being written."""
            if self.mode != "r" and self._zip.fp is not None:
                raise NotKept("an archive that is not closed")
            how = self.mode, self.filename, self.compression, self._zip.pwd, self._zip.fp is not None
            return self._buffer.getvalue(), *how

        @classmethod
        def _of(cls, data: bytes, mode: str, filename: Any, compression: int, pwd: Any, is_open: bool) -> Self:
            """Make one of its parts."""
            made = cls.__new__(cls)
            made._buffer, made._target = io.BytesIO(data), None
            made._zip = _Archive(made._buffer)
            made._zip.pwd = pwd
            made.mode, made.filename, made.compression = mode, filename, compression
            if not is_open or mode != "r":
                made._zip.close()
            return made

        @property
        def comment(self) -> bytes:
            """The archive's comment."""
            return self._zip.comment

        @property
        def filelist(self) -> list[zipfile.ZipInfo]:
            """The same as `infolist()`."""
            return self.infolist()

        def namelist(self) -> list[str]:
            """Return the names of what is in the archive."""
            return self._zip.namelist()

        def infolist(self) -> list[zipfile.ZipInfo]:
            """Return what is known of each."""
            return list(self._zip.infolist())

        def getinfo(self, name: str) -> zipfile.ZipInfo:
            """Return what is known of one; raise KeyError."""
            return self._zip.getinfo(name)

        def printdir(self, file: object = None) -> None:
            """Print a table of contents."""
            self._zip.printdir()

        def testzip(self) -> str | None:
            """Return the first damaged name."""
            return self._zip.testzip()

        def setpassword(self, pwd: bytes) -> None:
            """Set the password to read with."""
            self._zip.setpassword(pwd)

        def read(self, name: Any, pwd: bytes | None = None) -> bytes:
            """Return the content of one."""
            return self._zip.read(name, pwd)

        def open(self, name: Any, mode: str = "r", pwd: bytes | None = None, **_options: Any) -> TextFile | BinaryFile:
            """Return a handle of one."""
            called = name.filename if type(name) is zipfile.ZipInfo else str.__str__(name)
            if mode == "r":
                return files.stream(self._zip.read(name, pwd), called, "rb", lambda _content: None)
            return files.stream(b"", called, "wb", functools.partial(self.writestr, name))

        def writestr(
            self, zinfo_or_arcname: Any, data: Any, compress_type: int | None = None, compresslevel: int | None = None
        ) -> None:
            """Write one."""
            content = data.encode("utf-8") if isinstance(data, str) else bytes(data)
            self._zip.writestr(zinfo_or_arcname, content, compress_type, compresslevel)

        def write(self, filename: Any, arcname: Any = None, *arguments: Any, **options: Any) -> None:
            """Write a file of the run under its name; a folder as an empty one."""
            name = folder_of(filename if arcname is None else arcname)
            if files.has_folder(filename) and not files.has(filename):
                self._zip.mkdir(name) if hasattr(self._zip, "mkdir") else self._zip.writestr(f"{name}/", b"")
                return
            self.writestr(name, files.read(filename), *arguments, **options)

        def extract(self, member: Any, path: Any = None, pwd: bytes | None = None) -> str:
            """Write one as a file of the run, and return its path."""
            info = member if type(member) is zipfile.ZipInfo else self._zip.getinfo(member)
            target = posixpath.join("/" if path is None else text_of(path), folder_of(info.filename))
            if info.is_dir():
                files.make_folder(target, exist_ok=True)
            else:
                files.write(target, self._zip.read(info, pwd))
            return target

        def extractall(self, path: Any = None, members: Iterable[Any] | None = None, pwd: bytes | None = None) -> None:
            """Write all, or the named ones, as files of the run."""
            for member in self._zip.namelist() if members is None else members:
                self.extract(member, path, pwd)

        def close(self) -> None:
            """Store the archive."""
            if self._zip.fp is None:
                return
            self._zip.close()
            if self.mode == "r":
                return
            if is_path(self._target):
                files.forget(self._unclosed)
                files.write(self._target, self._buffer.getvalue())
            else:
                self._target.seek(0)
                self._target.truncate()
                self._target.write(self._buffer.getvalue())

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_error: object) -> None:
            self.close()

    ZipFile.__module__ = "zipfile"
    ZipFile.__qualname__ = "ZipFile"
    return ZipFile


def zip_folder(files: Files, archive: str, root: Any, base: Any = None) -> str:
    """Put all files of a folder, or of the part `base` of it, into a new archive and return its path."""
    made = io.BytesIO()
    folder = folder_of(root)
    start = f"{folder}/" if folder else ""
    part = start + folder_of(base) if base is not None else start
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in _names_in(files, part):
            packed.writestr(name[len(start) :], files.read(name))
    files.write(archive, made.getvalue())
    return archive


def unzip(files: Files, archive: Any, folder: Any) -> None:
    """Write all that is in an archive as files into a folder."""
    with zipfile.ZipFile(_stored(files, archive)) as packed:
        for info in packed.infolist():
            if not info.is_dir():
                files.write(posixpath.join(text_of(folder), folder_of(info.filename)), packed.read(info))


def _names_in(files: Files, start: str) -> Iterator[str]:
    return (name for name in files.names() if name.startswith(start))
