"""Landlock with no rules: no file can be opened and no TCP port be used, even if the system calls were allowed.

Landlock denies each right that a ruleset *handles* and no rule allows. Here a ruleset handles all that the kernel knows and has
no rule. It is a wall behind the filter of system calls and covers those that take a path, whichever name they have. It does not
cover `stat` and descriptors that are open already.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

from byref_sandbox.jail.libc import libc

# System calls that are younger than the common table have the same number on every architecture.
_CREATE_RULESET: Final = 444
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1

# Rights over files that can be handled, by ABI (include/uapi/linux/landlock.h). A bit that the kernel does not know yet makes it
# refuse the ruleset as a whole, so each version gets just those it knows.
_FILE_RIGHTS: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}
_FILE_RIGHTS_SINCE_5: Final = 0xFFFF
_TCP_RIGHTS: Final = 0x3
_SCOPES: Final = 0x3
"""Abstract UNIX sockets, and signals to processes outside."""


def abi() -> int:
    """Return the kernel's Landlock version; raise OSError where there is none."""
    version: int = libc.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)
    )
    if version < 0:
        _fail("landlock_create_ruleset")
    return version


def prepare() -> int:
    """Return a descriptor of a ruleset without rules that handles everything this kernel knows; raise OSError."""
    version = abi()
    # The kernel takes the struct in any length it knows: fields that are left out are not handled.
    fields = [_FILE_RIGHTS.get(version, _FILE_RIGHTS_SINCE_5)]
    if version >= 4:
        fields.append(_TCP_RIGHTS)
    if version >= 6:
        fields.append(_SCOPES)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    descriptor: int = libc.syscall(
        ctypes.c_long(_CREATE_RULESET), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)
    )
    if descriptor < 0:
        _fail("landlock_create_ruleset")
    os.set_inheritable(descriptor, False)
    return descriptor


def restrict(descriptor: int) -> None:
    """Put the calling thread and all that it starts under the ruleset, for good; needs no_new_privs; raise OSError."""
    if libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(descriptor), ctypes.c_uint32(0)) != 0:
        _fail("landlock_restrict_self")


def _fail(call: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), call)
