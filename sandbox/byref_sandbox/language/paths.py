"""Paths over the files of a run: `pathlib.Path`, and the patterns of `glob`."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePath, PurePosixPath
from typing import Any, Final

from byref_sandbox.language.files import BinaryFile, Files, TextFile, text_of

_MAGIC: Final = re.compile(r"[*?\[]")


def matching(files: Files, pattern: str, *, recursive: bool = True, hidden: bool = False) -> Iterator[str]:
    """Yield the paths of files and folders that a pattern matches, in order, spelled as in the pattern.

    `**` stands for any folders if `recursive`; names that begin with a dot match only patterns that do, unless `hidden`.
    """
    parts = [part for part in pattern.split("/") if part]
    start, end = "/" if pattern.startswith("/") else "", "/" if pattern.endswith("/") else ""

    reached: set[str] = set()
    """Folders that `**` led to. One that the pattern itself names before a last `**` is given with a slash."""

    def inside(folder: str, part: str) -> Iterator[str]:
        if not files.has_folder(folder):
            return
        for name in files.entries(folder):
            if (hidden or part.startswith(".") or not name.startswith(".")) and fnmatch.fnmatchcase(name, part):
                yield posixpath.join(folder, name)

    def expanded(base: str, rest: list[str]) -> Iterator[str]:
        if not rest:
            if base and (files.has_folder(base) or (files.has(base) and not end)):
                yield base + end
            return
        part, later = rest[0], rest[1:]
        if part == "**" and recursive:
            if later:
                yield from expanded(base, later)
            elif base and files.has_folder(base):
                yield base + end if base.endswith("/") or end or base in reached else posixpath.join(base, "")
            for found in inside(base, "*"):
                if files.has_folder(found):
                    reached.add(found)
                    yield from expanded(found, rest)
                elif not later and not end:
                    yield found
        elif _MAGIC.search(part):
            for found in inside(base, part):
                yield from expanded(found, later)
        else:
            yield from expanded(posixpath.join(base, part), later)

    yield from dict.fromkeys(expanded(start, parts))


def path_class(files: Files) -> type[PurePosixPath]:
    """Return `pathlib.Path` over the files of a run."""

    class Path(PurePosixPath):
        __slots__ = ()

        def __repr__(self) -> str:
            return f"PosixPath({self.as_posix()!r})"

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
            return self.is_file() or self.is_dir()

        def is_file(self) -> bool:
            return files.has(self)

        def is_dir(self) -> bool:
            return files.has_folder(self)

        def is_symlink(self) -> bool:
            return False

        def stat(self) -> Any:
            return files.status(self)

        def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
            files.make_folder(self, exist_ok)

        def rmdir(self) -> None:
            files.remove_folder(self)

        def unlink(self, missing_ok: bool = False) -> None:
            if files.has(self) or not missing_ok:
                files.remove(self)

        def rename(self, target: Any) -> Path:
            files.move(self, target)
            return type(self)(target)

        replace = rename

        def iterdir(self) -> Iterator[Path]:
            return (self / name for name in files.entries(self))

        def glob(self, pattern: str) -> Iterator[Path]:
            found = matching(files, posixpath.join(text_of(self), pattern), hidden=True)
            return (type(self)(path) for path in found)

        def rglob(self, pattern: str) -> Iterator[Path]:
            return self.glob(posixpath.join("**", pattern))

        def absolute(self) -> Path:
            return type(self)("/") / self

        def resolve(self, strict: bool = False) -> Path:
            return type(self)(posixpath.normpath(self.absolute()))

        def expanduser(self) -> Path:
            return self

        def samefile(self, other_path: Any) -> bool:
            return name_parts(self) == name_parts(PurePosixPath(other_path))

        @classmethod
        def cwd(cls) -> Path:
            return cls("/")

        home = cwd

    Path.__module__ = "pathlib"
    return Path


def name_parts(path: PurePath) -> list[str]:
    """Return the parts of a path that are in the file's name."""
    return [part for part in path.parts if part not in ("/", "..", ".")]
