"""The system calls that a run may make: an allow-list, compiled once to BPF and installed last.

A call that is not named here fails with EPERM. That includes the numbers of the x32 ABI, which reach the same code of the kernel
under other numbers, and calls of kernels newer than this list. A call that no honest program makes kills the process: whoever
probes for a way out gets no second try. Arguments are checked where an allowed call could do more than a run needs.

The filter sees registers and no memory. So a call whose danger lies behind a pointer (`clone3`, `openat2`) is refused as a whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final

from seccompy import Action, ArgCmp, CmpOp, Filter, audit_arch, bpf, syscall_nr

from byref_sandbox.jail.libc import libc

_SET_MODE_FILTER: Final = 1
_AT_NUMBER, _AT_ARCHITECTURE = 0, 4
"""Where `struct seccomp_data` has them."""
_REFUSED: Final = int(Action.ERRNO) | errno.EPERM
_CHECKED: Final = "checked"
"""The label of calls that are allowed with some arguments only."""
_PROT_EXEC: Final = 4
"""Memory that is code: without it, whoever can write to memory still has to make do with the code that is there."""
_F_GETFD, _F_GETFL = 1, 3
_INT: Final = 0xFFFFFFFF
"""The bits of a register that the kernel reads where an argument is an int. A filter that compared all 64 could be passed by
setting one of the upper bits."""
_MAP_LOCKED, _MAP_HUGETLB = 0x2000, 0x40000
_MAX_CLOCK: Final = 15
"""Larger clock numbers stand for the processor time of other processes."""
_FUTEX_FLAGS: Final = 128 | 256
_FUTEX_PLAIN: Final = (0, 1, 3, 4, 5, 9, 10)
"""Waiting and waking. The operations that inherit priorities have been a way into the kernel, and nothing here needs them."""
_ADVICE: Final = (0, 1, 2, 3, 4, 8, 14, 15)
"""The advice that allocators give. Not MADV_MERGEABLE or MADV_PAGEOUT: how long an access then takes tells others who share the
page what is in it."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Nothing in this list opens, connects or starts anything. `write` reaches one descriptor, the reply's pipe: no other is open. Signals
# are not in it, not even to oneself: `tgkill` would reach other processes of the same user as well.
_ALLOWED: Final = _names("""
    read write readv writev pread64 lseek close fstat munmap brk mremap sched_yield getcpu rt_sigaction rt_sigprocmask
    rt_sigreturn sigaltstack restart_syscall exit exit_group nanosleep gettimeofday time getrandom getpid gettid getppid
    getuid geteuid getgid getegid getrusage getrlimit times sysinfo poll ppoll select pselect6
""")

# These are refused as "no access" (EACCES) instead of "not permitted" (EPERM): a library that looks for an optional file takes the
# first for "it is not there" and goes on, and the second for an error of its own.
_NO_ACCESS: Final = _names("""
    open openat openat2 creat newfstatat stat lstat statx access faccessat faccessat2 readlink readlinkat
    getdents getdents64 getcwd chdir
""")

# What no honest program does in here: execute, trace, mount, load code into the kernel, open sockets, change who it is, share memory.
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


def _conditions() -> Iterator[tuple[str, list[ArgCmp]]]:
    """The calls that are allowed with some arguments only; each with one set of conditions."""
    not_executable = ArgCmp(2, CmpOp.MASKED_EQ, 0, mask=_PROT_EXEC)
    # Locked memory and explicit huge pages come out of a store of the whole machine, past the limits of this process.
    yield "mmap", [not_executable, ArgCmp(3, CmpOp.MASKED_EQ, 0, mask=_MAP_LOCKED | _MAP_HUGETLB)]
    yield "mprotect", [not_executable]  # or written memory could be made code afterwards
    for advice in _ADVICE:
        yield "madvise", [ArgCmp(2, CmpOp.MASKED_EQ, advice, mask=_INT)]
    for operation in _FUTEX_PLAIN:
        yield "futex", [ArgCmp(1, CmpOp.MASKED_EQ, operation, mask=_INT & ~_FUTEX_FLAGS)]
    # Of this process (0) and of no other: both calls would tell which process ids exist, clocks also how busy each one is.
    yield "sched_getaffinity", [ArgCmp(0, CmpOp.MASKED_EQ, 0, mask=_INT)]
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        yield name, [ArgCmp(0, CmpOp.MASKED_EQ, 0, mask=_INT & ~_MAX_CLOCK)]
    # Reading flags only. F_SETOWN and F_SETSIG would have the kernel send signals to other processes in our name, F_DUPFD would
    # make descriptors.
    yield "fcntl", [ArgCmp(1, CmpOp.EQ, _F_GETFL)]
    yield "fcntl", [ArgCmp(1, CmpOp.EQ, _F_GETFD)]
    # Limits may be read (no new ones given: argument 2 is null), of this process only (argument 0).
    yield "prlimit64", [ArgCmp(0, CmpOp.EQ, 0), ArgCmp(2, CmpOp.EQ, 0)]


def build() -> bytes:
    """Return the BPF program for this machine; raise OSError on an architecture that the builder does not know."""
    by_number: dict[int, str] = {}
    for names, action in (
        (_KILLED, Action.KILL_PROCESS),
        (_NO_ACCESS, Action.ERRNO | errno.EACCES),
        # "No such call" makes glibc fall back to clone, which then fails with EPERM. It does not expect another answer.
        (("clone3",), Action.ERRNO | errno.ENOSYS),
        # Python asks whether its output is a terminal; ENOTTY is the honest answer.
        (("ioctl",), Action.ERRNO | errno.ENOTTY),
        (_ALLOWED, Action.ALLOW),
    ):
        for name in names:
            # An architecture may lack the call; its number, if it is used at all, meets the default.
            with contextlib.suppress(ValueError):
                by_number[syscall_nr(name)] = _label(action)
    checked = Filter(default=_REFUSED)
    for name, conditions in _conditions():
        checked.allow(name, args=conditions)
        by_number[syscall_nr(name)] = _CHECKED
    return _program(by_number) + checked.program


def _label(action: int) -> str:
    return str(int(action))


def _program(by_number: Mapping[int, str]) -> bytes:
    """Return a program that does what is said for each number of a call; what is checked goes on behind its end.

    It finds the number by halving. When a filter is installed, the kernel tries it with every number; a comparison for each call, one
    after the other, made that take longer than all other layers together.
    """
    refused = _label(_REFUSED)
    steps: list[tuple[int, str]] = [(0, refused)]
    """From which number on which label holds."""
    for number in sorted({*by_number, *(number + 1 for number in by_number)}):
        if (label := by_number.get(number, refused)) != steps[-1][1]:
            steps.append((number, label))
    killed = _label(Action.KILL_PROCESS)
    code: list[bpf.Insn] = [
        bpf.Load(_AT_ARCHITECTURE),
        bpf.Jump(bpf.BPF_JEQ, audit_arch(), None, killed),
        bpf.Load(_AT_NUMBER),
    ]
    labels: dict[str, int] = {}

    def halve(steps: list[tuple[int, str]]) -> None:
        middle = len(steps) // 2
        below, above = steps[:middle], steps[middle:]
        first = above[0][0]
        targets = [half[0][1] if len(half) == 1 else f"{half[0][0]} to {half[-1][0]}" for half in (above, below)]
        code.append(bpf.Jump(bpf.BPF_JGEQ, first, *targets))
        for half, target in zip((above, below), targets, strict=True):
            if len(half) > 1:
                labels[target] = len(code)
                halve(half)

    halve(steps)
    for label in {*by_number.values(), refused, killed} - {_CHECKED}:
        labels[label] = len(code)
        code.append(bpf.Ret(int(label)))
    labels[_CHECKED] = len(code)
    return bpf.assemble(code, labels)


def install(program: bytes) -> None:
    """Put the calling thread, and all that it starts, under `program` for good; needs no_new_privs; raise OSError.

    A run has one thread, so no other thread is left outside the filter.
    """
    number = syscall_nr("seccomp")
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = _SockFprog(len(program) // 8, ctypes.addressof(buffer))
    if libc.syscall(ctypes.c_long(number), ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(0), ctypes.byref(fprog)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "seccomp")


class _SockFprog(ctypes.Structure):
    """`struct sock_fprog`: how many instructions of 8 bytes, and where they are."""

    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))
