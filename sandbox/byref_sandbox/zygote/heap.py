"""One piece of memory for what all runs share, of huge pages where the kernel has them, so that a fork has little to copy.

A fork copies an entry for each page in use and an ending process frees each, 30,000 of 4 KiB once pandas is there: some ten
milliseconds. Of a huge page there is one entry, until somebody writes to it. Python's own memory lies in arenas of 1 MiB between the
libraries, each too small for a huge page. So while libraries are loaded, arenas are parts of the C library's heap, and that grows
at once to what it will need. Without glibc all stays as it is.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

from byref_sandbox.jail.libc import give_back_memory, libc

_ROOM: Final = 256 << 20
"""By so much the heap grows at once: address space, of which only what is used becomes memory."""
_HUGE: Final = 2 << 20
_MADV_HUGEPAGE: Final = 14
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_PAD: Final = 128 << 10
"""glibc's default."""
_MOST_IN_HEAP: Final = 32 << 20
"""The largest M_MMAP_THRESHOLD that glibc takes."""
_ARENA: Final = 1 << 20
_POOL: Final = 16 << 10
"""Arenas are cut into pools, of which each holds objects of one size."""
_OBJECT: Final = 512
"""The largest size of objects in pools."""
_RAW: Final = 0
"""PYMEM_DOMAIN_RAW: memory that Python takes from the C library as it is."""


class _Allocator(ctypes.Structure):
    """PyMemAllocatorEx."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]


class _Arenas(ctypes.Structure):
    """PyObjectArenaAllocator. `free` is called with a size as well, which a function that takes none does not see."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "free")]


_own = _Arenas()
"""Python's own: `mmap` and `munmap`."""
_pins: list[bytes] = []


def gather() -> None:
    """Have all that is allocated from now on lie together, until `settle`. Call it before the imports, in a process with one thread."""
    if not hasattr(libc, "mallopt"):
        return
    libc.mallopt(_M_MMAP_THRESHOLD, _MOST_IN_HEAP)
    libc.mallopt(_M_TOP_PAD, _ROOM)
    libc.malloc.restype = ctypes.c_void_p
    first = libc.malloc(ctypes.c_size_t(_ARENA))
    if first is None:
        return
    begin = -(-first // _HUGE) * _HUGE
    libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(_ROOM - _HUGE), _MADV_HUGEPAGE)
    libc.free(ctypes.c_void_p(first))
    _pin_arenas()
    raw = _Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(_RAW, ctypes.byref(raw))
    ctypes.pythonapi.PyObject_GetArenaAllocator(ctypes.byref(_own))
    ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(_Arenas(raw.context, raw.malloc, raw.free)))


def _pin_arenas() -> None:
    """Put an object that stays into each arena that there is: none of them came from the heap, so none may be freed to it.

    New objects go into free pools of arenas before there is a new arena. An arena without a free pool is full of what Python needs
    as long as it lives.
    """
    filled = [bytes(_OBJECT - sys.getsizeof(b"") - 1) for _ in range(2 * _ARENA // _OBJECT)]
    _pins[:] = filled[:: _POOL // _OBJECT - 1]


def settle() -> None:
    """Let arenas be Python's own again, and the heap grow by what is needed. Call it after the last import, before a fork."""
    if _own.malloc is not None:
        # An arena of the heap that is emptied later is unmapped, or refused because it does not begin with a page. Either is safe: for
        # the C library it stays in use, and nothing that the library reads lies inside.
        ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(_own))
        libc.mallopt(_M_TOP_PAD, _PAD)
        # What a run frees it needs again, and the kernel would have to clear it; a session gives it back when it has read its data.
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _MOST_IN_HEAP)
    give_back_memory()
