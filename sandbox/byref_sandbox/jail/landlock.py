"""Landlock with no rules: no file can be opened and no TCP port used, even were the system calls allowed."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

from byref_sandbox.jail.libc import libc

# The same numbers on every architecture.
_CREATE_RULESET: Final = 444
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1

# Handled file-system rights, by ABI (include/uapi/linux/landlock.h).
_FILE_RIGHTS: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}
_FILE_RIGHTS_SINCE_5: Final = 0xFFFF
_TCP_RIGHTS: Final = 0x3
_SCOPES: Final = 0x3


def abi() -> int:
    """The kernel's Landlock version; raises OSError where there is none."""
    version: int = libc.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)
    )
    if version < 0:
        _fail("landlock_create_ruleset")
    return version


def prepare() -> int:
    """A descriptor of an empty ruleset that handles everything this kernel knows; raises OSError."""
    version = abi()
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
    """Puts the calling process under the ruleset, for good; needs no_new_privs; raises OSError."""
    if libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(descriptor), ctypes.c_uint32(0)) != 0:
        _fail("landlock_restrict_self")


def _fail(call: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), call)
