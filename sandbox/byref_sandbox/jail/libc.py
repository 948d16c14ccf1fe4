"""Calls of the C library that Python has no function for.

`ctypes` finds the library by opening a file, so this module is imported, and all names are resolved, before the jail is entered.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Final

libc: Final = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long  # the default, int, would cut an address or a size

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
    """Make one call of prctl and return its result; raise OSError."""
    # prctl is variadic and the kernel reads all five registers. Some options refuse a call whose unused ones are not 0.
    padded = (*arguments, 0, 0, 0, 0)[:4]
    result: int = libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(value) for value in padded))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"prctl {option}")
    return result


def name_process(name: str) -> None:
    """Set the name that process listings show, at most 15 bytes of it; never fails."""
    text = ctypes.create_string_buffer(name.encode())
    with contextlib.suppress(OSError):
        prctl(PR_SET_NAME, ctypes.addressof(text))


def parent_death_signal() -> int:
    """Return the signal that this process gets when its parent dies, or 0 for none; raise OSError."""
    number = ctypes.c_int(0)
    prctl(PR_GET_PDEATHSIG, ctypes.addressof(number))
    return number.value


def c_environment() -> list[bytes]:
    """Return the environment as C code sees it, which may be more than Python's copy has."""
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
    found: list[bytes] = []
    while entries and (entry := entries[len(found)]) is not None:
        found.append(entry)
    return found


def give_back_memory() -> None:
    """Return freed memory to the system: forks would share it, and copy page by page what nobody needs."""
    trim = getattr(libc, "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(ctypes.c_size_t(0))
