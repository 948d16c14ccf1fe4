"""The C library, resolved once while files can still be opened."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Final

libc: Final = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG: Final = 1
PR_GET_PDEATHSIG: Final = 2
PR_SET_NAME: Final = 15
PR_GET_DUMPABLE: Final = 3
PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_GET_NO_NEW_PRIVS: Final = 39
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4


def prctl(option: int, *arguments: int) -> int:
    """One call of prctl; raises OSError."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    result: int = libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(value) for value in padded))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"prctl {option}")
    return result


def name_process(name: str) -> None:
    """What process listings show, at most 15 bytes; never fails."""
    text = ctypes.create_string_buffer(name.encode())
    with contextlib.suppress(OSError):
        prctl(PR_SET_NAME, ctypes.addressof(text))


def parent_death_signal() -> int:
    """The signal this process gets when its parent dies; 0 for none."""
    number = ctypes.c_int(0)
    prctl(PR_GET_PDEATHSIG, ctypes.addressof(number))
    return number.value


def c_environment() -> list[bytes]:
    """The environment as C code sees it."""
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
    found: list[bytes] = []
    while entries and (entry := entries[len(found)]) is not None:
        found.append(entry)
    return found


def give_back_memory() -> None:
    """Returns freed memory to the system: a fork that got it would copy what nobody needs, page by page."""
    trim = getattr(libc, "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(ctypes.c_size_t(0))
