"""Who a zygote is: no root, no capabilities, no network or IPC namespace shared with the host."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from pathlib import Path
from typing import Final

from byref_sandbox.jail.libc import PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_CAPBSET_DROP, libc, prctl

_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_NOBODY: Final = 65534
_CAPSET: Final = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3: Final = 0x20080522


def isolate() -> str:
    """Moves the process into network and IPC namespaces of its own and says which; must be single-threaded; OSError."""
    flags = _CLONE_NEWNET | _CLONE_NEWIPC
    if os.geteuid() == 0:
        _unshare(flags)
        return "own network and IPC namespaces"
    uid, gid = os.getuid(), os.getgid()
    _unshare(flags | _CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    return "own user, network and IPC namespaces"


def become_nobody() -> str:
    """Gives up root for nobody (65534), for good, and says who it is now; raises OSError where that is refused."""
    if os.geteuid() != 0:
        return f"the host's own user {os.geteuid()}, not root"
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    return f"root dropped for user {_NOBODY}"


def can_nobody_read(path: Path) -> bool:
    """Whether what root reads now can still be read by who it becomes."""
    if os.geteuid() != 0:
        return True
    try:
        return bool(path.stat().st_mode & 0o4) and all(folder.stat().st_mode & 0o1 for folder in path.parents)
    except OSError:
        return False


def drop_capabilities() -> None:
    """Empties every capability set; never fails (what cannot be dropped is not held)."""
    for capability in range(64):
        with contextlib.suppress(OSError):
            prctl(PR_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
        libc.syscall(ctypes.c_long(number), header, bytes(24))


def effective_capabilities() -> int:
    """The process's effective capability mask."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    raise OSError("/proc/self/status names no capabilities")


def _unshare(flags: int) -> None:
    if libc.unshare(ctypes.c_int(flags)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "unshare")
