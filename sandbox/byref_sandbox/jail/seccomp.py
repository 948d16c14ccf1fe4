"""The system calls a run may make: an allow-list, compiled once to BPF and installed last.

What is not named here fails with EPERM (x32 numbers and calls of newer kernels included); what no honest program
tries kills the process. Arguments are checked where an allowed call could do more than the run needs.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

from seccompy import Action, ArgCmp, CmpOp, Filter, syscall_nr

from byref_sandbox.jail.libc import libc

_SET_MODE_FILTER: Final = 1
_PROT_EXEC: Final = 4
_F_GETFD, _F_GETFL = 1, 3
_INT: Final = 0xFFFFFFFF
"""What the kernel looks at where an argument is an int."""
_MAP_LOCKED, _MAP_HUGETLB = 0x2000, 0x40000
_MAX_CLOCK: Final = 15
"""Clock numbers beyond it stand for other processes."""
_FUTEX_FLAGS: Final = 128 | 256
_FUTEX_PLAIN: Final = (0, 1, 3, 4, 5, 9, 10)
"""Waiting and waking; what inherits priorities has been a way into the kernel, and nothing here needs it."""
_ADVICE: Final = (0, 1, 2, 3, 4, 8, 14, 15)
"""What allocators ask for. Memory that is merged or paged out can be timed by others, who share it."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ALLOWED: Final = _names("""
    read write readv writev pread64 lseek close fstat munmap brk mremap sched_yield getcpu rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall exit
    exit_group nanosleep gettimeofday time getrandom getpid gettid
    getppid getuid geteuid getgid getegid getrusage times sysinfo poll ppoll select pselect6
""")

_CLOCKS: Final = _names("clock_gettime clock_getres clock_nanosleep")

# Reading what exists is refused as "no access" rather than "not permitted": libraries that look for optional files
# take EACCES for an answer.
_NO_ACCESS: Final = _names("""
    open openat openat2 creat newfstatat stat lstat statx access faccessat faccessat2 readlink readlinkat
    getdents getdents64 getcwd chdir
""")

_KILLED: Final = _names("""
    execve execveat ptrace process_vm_readv process_vm_writev process_madvise kcmp mount umount2 pivot_root
    chroot setns unshare move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr bpf perf_event_open
    keyctl add_key request_key kexec_load kexec_file_load init_module finit_module delete_module userfaultfd
    io_uring_setup io_uring_enter io_uring_register socket socketpair connect bind listen accept accept4 sendto
    sendmsg sendmmsg recvfrom recvmsg recvmmsg reboot swapon swapoff setuid setgid setreuid setregid setresuid
    setresgid setgroups setfsuid setfsgid capset open_by_handle_at name_to_handle_at memfd_create memfd_secret
    pidfd_open pidfd_getfd pidfd_send_signal landlock_create_ruleset landlock_add_rule landlock_restrict_self
    seccomp shmget shmat shmctl msgget msgsnd semget mq_open fanotify_init inotify_init1 iopl ioperm modify_ldt
    acct quotactl
""")


def build() -> bytes:
    """The BPF program for this machine; raises OSError on an architecture it does not know."""
    rules = Filter(default=int(Action.ERRNO) | errno.EPERM)
    for name in _ALLOWED:
        _rule(rules, "allow", name)
    not_executable = ArgCmp(2, CmpOp.MASKED_EQ, 0, mask=_PROT_EXEC)
    # Locked memory and huge pages are taken from what the whole machine has.
    rules.allow("mmap", args=[not_executable, ArgCmp(3, CmpOp.MASKED_EQ, 0, mask=_MAP_LOCKED | _MAP_HUGETLB)])
    rules.allow("mprotect", args=[not_executable])
    for advice in _ADVICE:
        rules.allow("madvise", args=[ArgCmp(2, CmpOp.MASKED_EQ, advice, mask=_INT)])
    for operation in _FUTEX_PLAIN:
        rules.allow("futex", args=[ArgCmp(1, CmpOp.MASKED_EQ, operation, mask=_INT & ~_FUTEX_FLAGS)])
    # Of this process, not of others: both would tell which processes there are, clocks also what they do.
    rules.allow("sched_getaffinity", args=[ArgCmp(0, CmpOp.MASKED_EQ, 0, mask=_INT)])
    for name in _CLOCKS:
        rules.allow(name, args=[ArgCmp(0, CmpOp.MASKED_EQ, 0, mask=_INT & ~_MAX_CLOCK)])
    # F_SETOWN and F_SETSIG would let the kernel send signals to other processes for us.
    rules.allow("fcntl", args=[ArgCmp(1, CmpOp.EQ, _F_GETFL)])
    rules.allow("fcntl", args=[ArgCmp(1, CmpOp.EQ, _F_GETFD)])
    # Limits may be read, of this process only.
    rules.allow("prlimit64", args=[ArgCmp(0, CmpOp.EQ, 0), ArgCmp(2, CmpOp.EQ, 0)])
    _rule(rules, "allow", "getrlimit")
    rules.errno("ioctl", errno.ENOTTY)
    # glibc falls back to clone, which is not permitted.
    rules.errno("clone3", errno.ENOSYS)
    for name in _NO_ACCESS:
        _rule(rules, "errno", name)
    for name in _KILLED:
        _rule(rules, "kill", name)
    return rules.program


def _rule(rules: Filter, action: str, name: str) -> None:
    try:
        if action == "allow":
            rules.allow(name)
        elif action == "errno":
            rules.errno(name, errno.EACCES)
        else:
            rules.kill(name)
    except ValueError:
        return  # this architecture has no such call: the default covers it


def install(program: bytes) -> None:
    """Puts the calling thread and all it starts under `program`, for good; needs no_new_privs; raises OSError."""
    number = syscall_nr("seccomp")
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = _SockFprog(len(program) // 8, ctypes.addressof(buffer))
    if libc.syscall(ctypes.c_long(number), ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(0), ctypes.byref(fprog)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "seccomp")


class _SockFprog(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))
