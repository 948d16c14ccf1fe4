"""obstore in a forked process.

obstore's threads do not survive a fork and it cannot start new ones: in a child of a process that has used it, every call
would wait for ever (https://github.com/tokio-rs/tokio/issues/4301). A second copy of its library, under another path, has
a state of its own and starts afresh: 30 ms and 16 MB, once for each child that goes on using a store.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

from byref.errors import StorageFailure

_STARTED_IN = os.getpid()
_LIBRARY = "obstore._obstore"
_REGISTERS = ("obstore._store", "obstore.exceptions")
"""Modules that the library puts into `sys.modules` when it is loaded; the copy must not replace the original ones."""


def here(store: Any) -> tuple[Any, Any]:
    """Return (obstore's library, the store) for use in this process: in a forked child a copy, and a store like this one."""
    import obstore._obstore

    if os.getpid() == _STARTED_IN:
        return obstore._obstore, store
    library = _copy(os.getpid())
    arguments, options = store.__getnewargs_ex__()
    return library, getattr(library._store, type(store).__name__)(*arguments, **options)


@cache
def _copy(pid: int) -> Any:
    original = sys.modules[_LIBRARY]
    assert original.__file__
    registered = {name: sys.modules[name] for name in _REGISTERS}
    try:
        with Path(original.__file__).open("rb") as source:
            file = os.memfd_create("obstore")  # kept open: a path in use is never that of another copy
            left = os.fstat(source.fileno()).st_size
            while sent := os.sendfile(file, source.fileno(), None, left):
                left -= sent
        path = f"/proc/{pid}/fd/{file}"
        spec = importlib.util.spec_from_file_location(_LIBRARY, path, loader=ExtensionFileLoader(_LIBRARY, path))
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (OSError, ImportError) as error:
        raise StorageFailure(
            f"obstore was used before this process was forked, and could not be loaded anew ({error}): "
            "start processes by spawn or forkserver"
        ) from None
    finally:
        sys.modules.update(registered)
    return module
