"""numpy's own files, `.npy` and `.npz`, over the files of a run. Objects are never stored in them: that would take pickles."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from byref_sandbox.language.files import BinaryFile, Files, is_path, text_of
from byref_sandbox.language.refusal import NotAllowed

_BUFFERS = (io.BytesIO, BinaryFile)


class NpzFile(Mapping[str, Any]):
    """The arrays of an `.npz` file, by name."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays
        self.files = list(arrays)

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing is left open."""

    def close(self) -> None:
        """Nothing is left open."""

    def __repr__(self) -> str:
        return f"NpzFile with keys: {', '.join(self.files[:5])}"


def array_file_names(files: Files) -> dict[str, Callable[..., Any]]:
    """Return the functions of numpy that read and write such files."""

    def load(file: Any, mmap_mode: object = None, allow_pickle: object = False, **_options: Any) -> Any:
        if mmap_mode is not None or allow_pickle:
            raise NotAllowed("np.load() of pickles and memory maps is not available", "leave the option out")
        # A handle may hold several arrays, one after the other.
        source = file if type(file) in _BUFFERS else io.BytesIO(_bytes_of(files, file, "np.load()"))
        loaded: Any = np.load(source, allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            return NpzFile({name: loaded[name] for name in loaded.files})
        return loaded

    def save(file: Any, arr: Any, *_arguments: Any, **_options: Any) -> None:
        made = io.BytesIO()
        np.save(made, _plain(arr), allow_pickle=False)
        _put(files, file, ".npy", made)

    def savez(file: Any, *arguments: Any, **arrays: Any) -> None:
        _save_all(np.savez, file, arguments, arrays)

    def savez_compressed(file: Any, *arguments: Any, **arrays: Any) -> None:
        _save_all(np.savez_compressed, file, arguments, arrays)

    def _save_all(write: Callable[..., None], file: Any, arguments: tuple[Any, ...], arrays: dict[str, Any]) -> None:
        made = io.BytesIO()
        write(made, *map(_plain, arguments), **{name: _plain(array) for name, array in arrays.items()})
        _put(files, file, ".npz", made)

    def fromfile(
        file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0, **_options: Any
    ) -> Any:
        data = _bytes_of(files, file, "np.fromfile()")[operator.index(offset) :]
        if sep:
            return np.fromstring(data.decode(), dtype, operator.index(count), sep=str(sep))
        kind = np.dtype(dtype)
        if kind.hasobject:
            raise NotAllowed("np.fromfile() of objects is not available", "use np.array(list, dtype=...)")
        whole = len(data) // max(kind.itemsize, 1)
        taken = whole if count < 0 else min(operator.index(count), whole)
        return np.frombuffer(data, kind, taken).copy()

    return {
        "load": load,
        "save": save,
        "savez": savez,
        "savez_compressed": savez_compressed,
        "fromfile": fromfile,
    }


def tofile(files: Files) -> Callable[[Callable[..., Any], str], Callable[..., Any]]:
    """Return a wrapper of `array.tofile`."""

    def wrap(method: Callable[..., Any], _name: str) -> Callable[..., Any]:
        array: Any = method.__self__  # type: ignore[attr-defined]

        def call(fid: Any, sep: str = "", format: str = "%s") -> None:
            plain = _plain(array)
            data = (
                sep.join(str(format) % value for value in plain.ravel().tolist()).encode() if sep else plain.tobytes()
            )
            _put(files, fid, "", io.BytesIO(data))

        return call

    return wrap


def _plain(array: Any) -> Any:
    found = np.array(array, copy=None, subok=False)
    if found.dtype.hasobject:
        raise NotAllowed(
            "arrays of objects cannot be stored: that would take pickles", "use JSON, or a list of numbers or texts"
        )
    return found


def _bytes_of(files: Files, source: Any, what: str) -> bytes:
    if is_path(source):
        return files.read(source)
    if type(source) not in _BUFFERS:
        raise NotAllowed(f"{what} of a {type(source).__name__} is not available", "name a file, or use an io.BytesIO")
    data: bytes = source.read()
    return data


def _put(files: Files, target: Any, suffix: str, made: io.BytesIO) -> None:
    if is_path(target):
        path = text_of(target)
        files.write(path if path.endswith(suffix) else path + suffix, made.getvalue())
    elif type(target) in _BUFFERS:
        target.write(made.getvalue())
    else:
        raise NotAllowed(f"a {type(target).__name__} cannot be written to", "name a file, or use an io.BytesIO")
