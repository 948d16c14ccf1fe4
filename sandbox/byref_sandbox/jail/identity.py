"""Who a zygote is to the kernel: no root, no capabilities, and no network or IPC namespace that the host is in.

Runs inherit all of it. Nothing here is undone: each step gives up a right that it would take to go back.
"""

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
    """Move the process into network and IPC namespaces of its own and return which, in words; raise OSError.

    The process must have one thread: the kernel refuses a new user namespace to several.
    """
    # Network: not even the loopback device is up in a new namespace, so neither the host's services nor cloud metadata are in
    # reach. IPC: shared memory and queues of System V have names that any process of the namespace can use.
    flags = _CLONE_NEWNET | _CLONE_NEWIPC
    if os.geteuid() == 0:
        _unshare(flags)
        return "own network and IPC namespaces"
    # Only root may make these namespaces, or whoever has a user namespace of its own. The ids are read before: in the new
    # namespace nobody has a name until the maps are written, and the process looks like the overflow user.
    uid, gid = os.getuid(), os.getgid()
    _unshare(flags | _CLONE_NEWUSER)
    # The kernel takes a group map from an unprivileged process only after setgroups is denied: dropping a group could give
    # access to files that are closed to that group.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    return "own user, network and IPC namespaces"


def become_nobody() -> str:
    """Give up root for nobody (65534), for good, and return who the process is now, in words; raise OSError."""
    if os.geteuid() != 0:
        return f"the host's own user {os.geteuid()}, not root"  # only root can become somebody else
    # Groups first and the user last: without root neither can be changed. All three ids of each: from a saved id of root a
    # process could come back.
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    return f"root dropped for user {_NOBODY}"


def can_nobody_read(path: Path) -> bool:
    """Whether `become_nobody` keeps the right to read a file: it and each folder above must be open to all others."""
    if os.geteuid() != 0:
        return True
    try:
        return bool(path.stat().st_mode & 0o4) and all(folder.stat().st_mode & 0o1 for folder in path.parents)
    except OSError:
        return False


def drop_capabilities() -> None:
    """Empty every capability set. Never fails: a capability that cannot be dropped is not held."""
    # The bounding set is emptied one by one, while CAP_SETPCAP is still there. It bounds what a program may gain when it is
    # executed; numbers beyond the kernel's last are refused, which says nothing.
    for capability in range(64):
        with contextlib.suppress(OSError):
            prctl(PR_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
        # 24 bytes: effective, permitted and inheritable, of 32 bits each, twice. Emptying the permitted set is final.
        libc.syscall(ctypes.c_long(number), header, bytes(24))


def effective_capabilities() -> int:
    """Return this process's effective capabilities as a mask; raise OSError."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    raise OSError("/proc/self/status names no capabilities")


def _unshare(flags: int) -> None:
    if libc.unshare(ctypes.c_int(flags)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "unshare")
