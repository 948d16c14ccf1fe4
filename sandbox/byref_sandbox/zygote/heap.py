"""One piece of memory for what all runs share, of huge pages where the kernel has them, so that a fork has little to copy.

A fork copies an entry for each page in use and an ending process frees each, 30,000 of 4 KiB once pandas is there: some ten
milliseconds. Of a huge page there is one entry, until somebody writes to it. Python's own memory lies in arenas of 1 MiB between the
libraries, each too small for a huge page. So while libraries are loaded, arenas are parts of the C library's heap, and that grows
at once to what it will need. Without glibc, or where address space is limited, all stays as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
from collections.abc import Iterator
from typing import Final

from byref_sandbox.jail.libc import libc

_ROOM: Final = 256 << 20
"""By so much the heap grows at once: address space, of which only what is used becomes memory."""
_HUGE: Final = 2 << 20
_MADV_HUGEPAGE: Final = 14
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_PAD: Final = 128 << 10
"""glibc's default of M_TOP_PAD."""
_MOST_IN_HEAP: Final = 32 << 20
"""The largest M_MMAP_THRESHOLD that glibc takes."""
_LARGE: Final = 1 << 20
_ARENA: Final = 1 << 20
_RAW: Final = 0
"""PYMEM_DOMAIN_RAW: memory that Python takes from the C library as it is."""


class _Allocator(ctypes.Structure):
    """PyMemAllocatorEx."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]


class _Arenas(ctypes.Structure):
    """PyObjectArenaAllocator."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "free")]


@contextlib.contextmanager
def gathered() -> Iterator[None]:
    """Have all that is allocated in here lie together. It is for imports, in a process with one thread that does not fork in here."""
    limits = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    if not hasattr(libc, "mallopt") or any(limit != resource.RLIM_INFINITY for limit in limits):
        yield
        return
    libc.mallopt(_M_MMAP_THRESHOLD, _MOST_IN_HEAP)
    libc.mallopt(_M_TRIM_THRESHOLD, 2 * _ROOM)
    _grow()
    raw, own = _Allocator(), _Arenas()
    ctypes.pythonapi.PyMem_GetAllocator(_RAW, ctypes.byref(raw))
    ctypes.pythonapi.PyObject_GetArenaAllocator(ctypes.byref(own))
    # Python goes on to free arenas by `munmap`, wherever they are from. One of the heap is unmapped, or stays because it does not begin
    # with a page. Either is safe: for the C library it stays in use, and nothing that the library reads lies inside.
    ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(_Arenas(raw.context, raw.malloc, own.free)))
    try:
        yield
    finally:
        ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(own))
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _MOST_IN_HEAP)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)


def use_for_run() -> None:
    """Have large allocations lie in the heap, in the process of a run: what it frees it needs again, and the kernel would have to clear it.

    In a zygote each has a place of its own, which goes when it is freed. A hole in the heap would be filled by a run's first results,
    one page of 4 KiB after the other, since there are no huge pages between others; now they lie behind the heap, where there are.
    """
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _MOST_IN_HEAP)


def _grow() -> None:
    """Have the heap grow by `_ROOM`, and its new pages be huge. Where there is no room for that, it grows by what is needed."""
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.mallopt(_M_TOP_PAD, _ROOM)
    first = libc.malloc(ctypes.c_size_t(_ARENA))
    libc.mallopt(_M_TOP_PAD, _PAD)
    if first is None:
        return
    begin, end = -(-first // _HUGE) * _HUGE, libc.sbrk(ctypes.c_ssize_t(0)) // _HUGE * _HUGE
    if begin < end <= begin + _ROOM:  # else it is no part of the heap
        libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_HUGEPAGE)
    libc.free(ctypes.c_void_p(first))
