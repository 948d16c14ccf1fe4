"""`os`, `os.path`, `glob`, `shutil` and `tempfile` over the files of a run: the parts of them that reach nothing else."""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from byref_sandbox.language import paths
from byref_sandbox.language.files import BUFFERS, BinaryFile, Files, TextFile, folder_of, text_of
from byref_sandbox.language.packed import unzip, zip_folder
from byref_sandbox.language.refusal import NotAllowed

_TEXT_OF_PATHS: Final = [
    "basename",
    "dirname",
    "join",
    "split",
    "splitext",
    "splitdrive",
    "normpath",
    "normcase",
    "commonprefix",
    "commonpath",
    "isabs",
    "sep",
    "extsep",
    "pardir",
    "curdir",
    "pathsep",
    "altsep",
    "devnull",
    "defpath",
]
_CONSTANTS: Final = [
    "name",
    "sep",
    "altsep",
    "extsep",
    "pardir",
    "curdir",
    "pathsep",
    "linesep",
    "devnull",
    "SEEK_SET",
    "SEEK_CUR",
    "SEEK_END",
    "F_OK",
    "R_OK",
    "W_OK",
    "X_OK",
]


def system_names(files: Files) -> dict[str, dict[str, object]]:
    """Return the names of each module."""
    path = _path_names(files)
    return {
        "os": _os_names(files),
        "os.path": path,
        "posixpath": path,
        "glob": _glob_names(files),
        "shutil": _shutil_names(files),
        "tempfile": _tempfile_names(files),
    }


def _absolute(path: Any) -> str:
    return posixpath.normpath(posixpath.join("/", text_of(path)))


def _path_names(files: Files) -> dict[str, object]:
    def is_there(path: Any) -> bool:
        return files.has(path) or files.has_folder(path)

    def changed(path: Any) -> float:
        return files.status(path).st_mtime

    def relpath(path: Any, start: Any = "/") -> str:
        return posixpath.relpath(_absolute(path), _absolute(start))

    made = {
        "exists": is_there,
        "lexists": is_there,
        "isfile": lambda path: files.has(path),
        "isdir": lambda s: files.has_folder(s),
        "islink": lambda path: False,
        "ismount": lambda path: folder_of(path) == "",
        "getsize": lambda filename: files.status(filename).st_size,
        **dict.fromkeys(("getmtime", "getctime", "getatime"), changed),
        **dict.fromkeys(("abspath", "realpath"), lambda path, **_options: _absolute(path)),
        **dict.fromkeys(("expanduser", "expandvars"), lambda path: text_of(path)),
        "samefile": lambda f1, f2: folder_of(f1) == folder_of(f2),
        "relpath": relpath,
    }
    return {name: getattr(posixpath, name) for name in _TEXT_OF_PATHS} | made


class DirEntry:
    """What `os.scandir` gives for a file or folder."""

    __slots__ = ("_files", "name", "path")

    def __init__(self, files: Files, folder: str, name: str) -> None:
        self._files, self.name, self.path = files, name, posixpath.join(folder, name)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return self._files.has(self.path)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return self._files.has_folder(self.path)

    def is_symlink(self) -> bool:
        """There are no links."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return its kind, size and time."""
        return self._files.status(self.path)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class _Entries:
    """An iterator that can be closed, as that of `os.scandir`."""

    def __init__(self, entries: list[DirEntry]) -> None:
        self._left = iter(entries)

    def __iter__(self) -> Iterator[DirEntry]:
        return self._left

    def __next__(self) -> DirEntry:
        return next(self._left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give out no more."""
        self._left = iter(())


def _os_names(files: Files) -> dict[str, object]:
    def scandir(path: Any = ".") -> _Entries:
        return _Entries([DirEntry(files, text_of(path), name) for name in files.entries(path)])

    def walk(
        top: Any, topdown: bool = True, onerror: Any = None, followlinks: bool = False
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        try:
            entries = list(scandir(top))
        except OSError as error:
            if onerror is not None:
                onerror(error)
            return
        folders = [entry.name for entry in entries if entry.is_dir()]
        plain = [entry.name for entry in entries if not entry.is_dir()]
        if topdown:
            yield text_of(top), folders, plain
        for name in folders:
            yield from walk(posixpath.join(text_of(top), name), topdown, onerror)
        if not topdown:
            yield text_of(top), folders, plain

    def makedirs(name: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        files.make_folder(name, exist_ok)

    def rename(src: Any, dst: Any) -> None:
        files.move(src, dst)

    def remove(path: Any) -> None:
        files.remove(path)

    def status(path: Any, **_options: Any) -> os.stat_result:
        return files.status(path)

    return {name: getattr(os, name) for name in _CONSTANTS} | {
        "error": OSError,
        "access": lambda path, mode=0, **_options: files.has(path) or files.has_folder(path),
        "PathLike": os.PathLike,
        "DirEntry": DirEntry,
        "environ": files.environment,
        "getenv": lambda key, default=None: files.environment.get(key, default),
        "getcwd": lambda: "/",
        "cpu_count": lambda: 1,
        "urandom": lambda size: os.urandom(size),
        "strerror": lambda code: os.strerror(code),
        "fspath": lambda path: text_of(path),
        "get_terminal_size": lambda *_arguments: os.terminal_size((80, 24)),
        "listdir": lambda path=".": files.entries(path),
        "scandir": scandir,
        "walk": walk,
        "mkdir": lambda path, mode=0o777: files.make_folder(path),
        "makedirs": makedirs,
        "rmdir": lambda path: files.remove_folder(path),
        **dict.fromkeys(("remove", "unlink"), remove),
        **dict.fromkeys(("rename", "replace", "renames"), rename),
        **dict.fromkeys(("stat", "lstat"), status),
        "close": lambda fd: _descriptor_name(files, fd) and None,
        "fdopen": lambda fd, *arguments, **options: files.open(_descriptor_name(files, fd), *arguments, **options),
    }


def _glob_names(files: Files) -> dict[str, object]:
    def iglob(
        pathname: Any, *, root_dir: Any = None, recursive: bool = False, include_hidden: bool = False
    ) -> Iterator[str]:
        root = "" if root_dir is None else posixpath.join(text_of(root_dir), "")
        pattern = root + text_of(pathname)
        for found in paths.matching(files, pattern, recursive=bool(recursive), hidden=bool(include_hidden)):
            yield found[len(root) :]

    def escape(pathname: Any) -> str:
        return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text_of(pathname))

    return {
        "glob": lambda pathname, **options: list(iglob(pathname, **options)),
        "iglob": iglob,
        "escape": escape,
        "has_magic": lambda s: any(letter in "*?[" for letter in text_of(s)),
    }


def _shutil_names(files: Files) -> dict[str, object]:
    def into(src: Any, dst: Any) -> str:
        """Return the path of what is put into a folder under its own name, else the path itself."""
        path = text_of(dst)
        return posixpath.join(path, posixpath.basename(text_of(src).rstrip("/"))) if files.has_folder(dst) else path

    def copyfile(src: Any, dst: Any, *, follow_symlinks: bool = True) -> Any:
        if folder_of(src) == folder_of(dst):
            raise shutil.SameFileError(f"{text_of(src)!r} and {text_of(dst)!r} are the same file")
        if files.has_folder(src) or files.has_folder(dst):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), text_of(dst))
        files.write(dst, files.read(src))
        return dst

    def copy(src: Any, dst: Any, *, follow_symlinks: bool = True) -> str:
        return str(copyfile(src, into(src, dst)))

    def copytree(
        src: Any,
        dst: Any,
        symlinks: bool = False,
        ignore: Callable[[str, list[str]], Any] | None = None,
        copy_function: Callable[[str, str], object] = copy,
        ignore_dangling_symlinks: bool = False,
        dirs_exist_ok: bool = False,
    ) -> Any:
        names = files.entries(src)
        left_out = set() if ignore is None else set(ignore(text_of(src), list(names)))
        files.make_folder(dst, dirs_exist_ok)
        for name in names:
            old, new = (posixpath.join(text_of(each), name) for each in (src, dst))
            if name in left_out:
                continue
            if files.has_folder(old):
                copytree(old, new, ignore=ignore, copy_function=copy_function, dirs_exist_ok=dirs_exist_ok)
            else:
                copy_function(old, new)
        return dst

    def ignore_patterns(*patterns: str) -> Callable[[str, list[str]], set[str]]:
        import fnmatch

        return lambda _folder, names: {name for pattern in patterns for name in fnmatch.filter(names, pattern)}

    def move(src: Any, dst: Any, copy_function: object = None) -> Any:
        target = into(src, dst)
        if (
            files.has_folder(dst)
            and (files.has(target) or files.has_folder(target))
            and folder_of(src) != folder_of(dst)
        ):
            raise shutil.Error(f"Destination path '{target}' already exists")
        files.move(src, target)
        return target if target != text_of(dst) else dst

    def rmtree(path: Any, ignore_errors: bool = False, onerror: Any = None, **_options: Any) -> None:
        try:
            files.remove_folder(path, with_all=True)
        except OSError:
            if not ignore_errors:
                raise

    def copyfileobj(fsrc: Any, fdst: Any, length: int = 0) -> None:
        if not {type(fsrc), type(fdst)} <= {*BUFFERS}:
            raise NotAllowed("copyfileobj() needs open files", "use target.write(source.read())")
        fdst.write(fsrc.read())

    def make_archive(base_name: Any, format: str, root_dir: Any = None, base_dir: Any = None, **_options: Any) -> str:
        if format != "zip":
            raise NotAllowed(f"make_archive() of {str(format)[:20]!r} is not available", "use 'zip'")
        return zip_folder(files, f"{text_of(base_name)}.zip", "." if root_dir is None else root_dir, base_dir)

    def unpack_archive(filename: Any, extract_dir: Any = None, format: str | None = None, **_options: Any) -> None:
        unzip(files, filename, "." if extract_dir is None else extract_dir)

    return {
        "Error": shutil.Error,
        "SameFileError": shutil.SameFileError,
        "copyfile": copyfile,
        **dict.fromkeys(("copy", "copy2"), copy),
        "copytree": copytree,
        "copyfileobj": copyfileobj,
        "ignore_patterns": ignore_patterns,
        "move": move,
        "rmtree": rmtree,
        "make_archive": make_archive,
        "unpack_archive": unpack_archive,
        "get_terminal_size": lambda *_arguments, **_options: os.terminal_size((80, 24)),
    }


_FIRST_DESCRIPTOR: Final = 1000


def _descriptor_name(files: Files, descriptor: Any) -> str:
    """Return the path of the file that `tempfile.mkstemp` gave a number for; raise OSError."""
    name = files.numbered.get(descriptor) if type(descriptor) is int else None
    if name is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return name


def _tempfile_names(files: Files) -> dict[str, object]:
    class TemporaryDirectory:
        """A folder that is gone with all that is in it when its block ends."""

        def __init__(
            self, suffix: str | None = None, prefix: str | None = None, dir: Any = None, **_options: Any
        ) -> None:
            self.name = mkdtemp(suffix, prefix, dir)

        def cleanup(self) -> None:
            """Remove the folder."""
            if files.has_folder(self.name):
                files.remove_folder(self.name, with_all=True)

        def __enter__(self) -> str:
            return self.name

        def __exit__(self, *_error: object) -> None:
            self.cleanup()

    def mkdtemp(suffix: str | None = None, prefix: str | None = None, dir: Any = None) -> str:
        path = files.temporary_name(suffix, prefix, dir)
        files.make_folder(path)
        return path

    def mkstemp(
        suffix: str | None = None, prefix: str | None = None, dir: Any = None, text: bool = False
    ) -> tuple[int, str]:
        path = files.temporary_name(suffix, prefix, dir)
        files.write(path, b"")
        descriptor = _FIRST_DESCRIPTOR + len(files.numbered)
        files.numbered[descriptor] = path
        return descriptor, path

    def named(
        mode: str = "w+b",
        buffering: int = -1,
        encoding: str | None = None,
        newline: str | None = None,
        suffix: str | None = None,
        prefix: str | None = None,
        dir: Any = None,
        delete: bool = True,
        *,
        errors: str | None = None,
        delete_on_close: bool = True,
    ) -> TextFile | BinaryFile:
        opened = files.open(files.temporary_name(suffix, prefix, dir), mode, buffering, encoding, errors, newline)
        if delete:
            opened.on_close(lambda _content: files.remove(opened.name))
        return opened

    def unnamed(
        mode: str = "w+b",
        buffering: int = -1,
        encoding: str | None = None,
        newline: str | None = None,
        *_arguments: Any,
        errors: str | None = None,
        **_options: Any,
    ) -> TextFile | BinaryFile:
        as_text = () if "b" in mode else (encoding, errors, newline)
        return files.stream(b"", "", mode, lambda _content: None, *as_text)

    def spooled(max_size: int = 0, *arguments: Any, **options: Any) -> TextFile | BinaryFile:
        return unnamed(*arguments, **options)

    return {
        "TemporaryDirectory": TemporaryDirectory,
        "NamedTemporaryFile": named,
        "TemporaryFile": unnamed,
        "SpooledTemporaryFile": spooled,
        "mkdtemp": mkdtemp,
        "mkstemp": mkstemp,
        "gettempdir": lambda: "/tmp",
        "gettempprefix": lambda: "tmp",
    }
