"""What every attack on the jail begins with, and system calls by name."""

from __future__ import annotations

from seccompy import syscall_nr

PRELUDE = """
import ctypes, errno, os, sys, signal, time, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *arguments):
    ctypes.set_errno(0)
    passed = [a if isinstance(a, (bytes, ctypes.Array, type(None))) or hasattr(a, '_obj') else ctypes.c_long(a) for a in arguments]
    got = libc.syscall(ctypes.c_long(number), *passed)
    if got == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
def buffer(size, data=b''):
    return ctypes.create_string_buffer(data, size)
def page():
    global kept
    kept = buffer(12288)
    return (ctypes.addressof(kept) + 4095) & ~4095
result = None
"""


def number(name: str) -> int:
    """The number of a system call here; -1, which no kernel knows, where it does not exist."""
    try:
        return syscall_nr(name)
    except ValueError:
        return -1


def calls(name: str, *argument_lists: str) -> dict[str, str]:
    """One attack for each list of arguments: that the call returns at all is its loot."""
    return {
        f"{name}({arguments})": f"result = ['{name}', call({number(name)}{', ' if arguments else ''}{arguments})]"
        for arguments in argument_lists
    }
