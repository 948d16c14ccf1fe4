"""A disk in memory for the tests of a corpus, where the real one is out of reach, and the same files for the code under test."""

from __future__ import annotations

import functools
import io
import shutil
import sqlite3
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from pyfakefs.fake_file import FakeDirectory, FakeFile
from pyfakefs.fake_filesystem_unittest import Patcher

from byref_sandbox.language import databases


class _Written:
    """What a connection knows of the run's files, over the disk."""

    def __init__(self, write: Callable[[str, bytes], None]) -> None:
        self.write = write

    def forget(self, _connection: object) -> None:
        """Nothing is remembered."""


class _OnDisk(databases._Connection):
    """A real connection whose blocks end with a commit, as those of the tests do."""

    def __exit__(self, *error: Any) -> Any:
        ended = super().__exit__(*error)
        self.flush()
        return ended


class Disk:
    """What tests read and write as files on a disk are the files of the language while its code runs, and the other way round."""

    def __init__(self, language: Any) -> None:
        self._language = language
        self._files = language.files
        self._given: set[str] = set()
        self._given_folders: set[str] = set()
        ours = [
            name
            for name in sys.modules
            if name.partition(".")[0] in ("byref_sandbox", "checks", "disk", "walls", "__main__")
        ]
        self._patcher = Patcher(additional_skip_names=ours)

    def warm_up(self) -> None:
        """Look through all modules for what a disk replaces in them: later disks of this process and its children know it."""
        with self._patcher:
            pass

    def mount(self) -> None:
        """From now on this process has only this disk."""
        self._patcher.setUp()
        assert self._patcher.fs is not None
        self._disk = self._patcher.fs
        shutil._use_fd_functions = False  # type: ignore[attr-defined]  # descriptors of folders are those of the real disk
        self._disk.cwd = "/"  # so that a file has one name with and without its folder
        self._save_figures()
        self._open_databases()

    def _open_databases(self) -> None:
        """SQLite opens files by itself, past the disk in memory: here a database is read from it, and written when it is committed."""
        real = sqlite3.connect

        def connect(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
            name = str(database).lstrip("/")
            if name == ":memory:":
                return real(database, *arguments, **options)
            made = real(":memory:", factory=_OnDisk)
            if self._disk.exists(f"/{name}") and (data := self._disk.get_object(f"/{name}").byte_contents):
                made.deserialize(data)
            made.files, made.key = _Written(self._write), name
            return made

        sqlite3.connect = connect  # type: ignore[assignment]

    def _save_figures(self) -> None:
        """A figure that tests save is a file on their disk too, not only one of the run."""
        from matplotlib.figure import Figure

        save = Figure.savefig

        def saved(figure: Figure, target: object = None, *arguments: Any, **options: Any) -> None:
            save(figure, target, *arguments, **options)
            path = "" if isinstance(target, io.IOBase) else str(target)
            if path and self._files.has(path):
                self._write(path.lstrip("/"), self._files.read(path))

        Figure.savefig = saved  # type: ignore[method-assign]

    def _write(self, name: str, data: bytes) -> None:
        if self._disk.exists(f"/{name}"):
            self._disk.remove(f"/{name}")
        self._disk.create_file(f"/{name}", contents=data)

    def give(self) -> None:
        """Have the language find what is on the disk."""
        there = {file.path.lstrip("/"): file for file in _files_in(self._disk.root_dir)}
        for name in self._files.names():
            if name not in there:
                self._files.remove(name)
        for name, file in there.items():
            self._files.write(name, file.byte_contents or b"")
            self._files._changed[name] = file.st_mtime
        self._given = set(there)
        self._given_folders = {folder.path.lstrip("/") for folder in _folders_in(self._disk.root_dir)}
        for name in sorted(self._files.folders() - self._given_folders, reverse=True):
            if name in self._files.folders():  # an empty one goes with the last file below it
                self._files.remove_folder(name, with_all=True)
        for name in self._given_folders:
            self._files.make_folder(name, exist_ok=True)

    def take(self) -> None:
        """Have the disk hold what the language wrote."""
        self._files.written()  # files left open are flushed
        there = {file.path.lstrip("/"): file for file in _files_in(self._disk.root_dir)}
        for name in self._files.names():
            data = self._files.read(name)
            if name not in there or there[name].byte_contents != data:
                self._write(name, data)
        for name in self._given & there.keys() - set(self._files.names()):
            self._disk.remove(f"/{name}")
        folders = self._files.folders()
        for name in sorted(self._given_folders - folders, reverse=True):
            self._disk.remove_object(f"/{name}")
        for name in sorted(folders):
            if not self._disk.exists(f"/{name}"):
                self._disk.create_dir(f"/{name}")

    def during(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the language for callers outside of it."""

        @functools.wraps(call)
        def called(*arguments: Any, **options: Any) -> Any:
            self.give()
            try:
                return call(*arguments, **options)
            finally:
                self.take()

        return called

    def bridged(self, space: dict[str, Any]) -> dict[str, Any]:
        """A namespace whose functions are for callers outside of the language."""
        return {
            name: self.during(value) if isinstance(value, types.FunctionType) else value
            for name, value in space.items()
        }


def _files_in(folder: FakeDirectory) -> Iterator[FakeFile]:
    for entry in list(folder.entries.values()):
        if isinstance(entry, FakeDirectory):
            yield from _files_in(entry)
        elif type(entry) is FakeFile:
            yield entry


def _folders_in(folder: FakeDirectory) -> Iterator[FakeDirectory]:
    for entry in list(folder.entries.values()):
        if isinstance(entry, FakeDirectory):
            yield entry
            yield from _folders_in(entry)
