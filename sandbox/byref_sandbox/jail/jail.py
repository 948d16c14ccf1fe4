"""The jail: what the operating system takes away from a run, layer by layer. It is the second wall and the security boundary.

The language wall makes errors clear; it is assumed to fall. Whoever gets past it has all of CPython and, in this process,
`ctypes`. The jail must hold against that.

A `Jail` has three moments, in this order:

1. `isolate`, first thing in the root zygote, while the process still has its rights and a single thread.
2. `prepare`, in the root zygote after its last import. It builds what runs enter and gives up the zygote's own rights.
3. `enter`, in each run, after its fork and before any hostile code.

`check` enters the jail in a process of its own and then tests each layer. So a report says what is in force on this machine,
not what ought to be.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from byref_sandbox.jail import identity, landlock, seccomp
from byref_sandbox.jail.libc import (
    PR_GET_DUMPABLE,
    PR_GET_NO_NEW_PRIVS,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    c_environment,
    parent_death_signal,
    prctl,
)

DESCRIPTORS: Final = 4096
"""No process of the sandbox has a descriptor at or above this number."""

_REFUSALS: Final = (OSError, ValueError)
"""How a kernel's refusal shows: the module `resource` turns EPERM into a ValueError."""

LANGUAGE_ONLY: Final = frozenset({"identity", "capabilities", "namespaces", "landlock", "seccomp"})
"""The layers that `jail="language-only"` leaves out. The bounds on processes, descriptors, environment and resources stay."""
NO_BOUNDARY: Final = (
    "jail='language-only' is no security boundary: code that gets out of the language has the rights of this user, "
    "so choose it only for code that you would run yourself"
)
"""The warning that stands wherever a host can choose it."""


class Layer(msgspec.Struct, frozen=True):
    """The state of one layer of the jail on this machine."""

    name: str
    in_force: bool
    mandatory: bool
    """`jail="full"` refuses to work without it."""
    detail: str
    """What it does, or why it is missing."""
    startup_ms: float = 0.0
    """Milliseconds that preparing it took, once in each root zygote."""
    run_us: float = 0.0
    """Microseconds that entering it took; each run pays this."""


class SandboxUnavailable(RuntimeError):
    """The sandbox cannot be offered on this machine: a mandatory layer is missing."""


class SandboxClosed(RuntimeError):
    """The sandbox was closed, before a run or while it was going on. Of such a run nothing is known."""


def require(layers: Iterable[Layer]) -> None:
    """Raise SandboxUnavailable that names every mandatory layer that is not in force."""
    found = {layer.name: layer for layer in layers}
    missing = [f"{layer.name} ({layer.detail})" for layer in found.values() if layer.mandatory and not layer.in_force]
    # The report comes from a process that may have died half-way. A layer that it does not mention counts as missing.
    missing += [f"{layer.name} (not reported)" for layer in _LAYERS if layer.name not in found]
    if missing:
        raise SandboxUnavailable(
            f"no safe sandbox here: missing {', '.join(missing)}. Run on Linux with seccomp. {NO_BOUNDARY}."
        )


class Terms(NamedTuple):
    """What one run is allowed."""

    keep: Collection[int]
    """Descriptors that stay open: the write end of the reply pipe."""
    address_space: int
    """Bytes, including everything that is already mapped."""
    cpu_seconds: float
    parent: int
    """The process id of the zygote: the run dies with it."""


class Jail:
    """The layers, prepared once for all runs of a root and its sessions.

    `without` names the layers that the host chose to leave out; ValueError of a name that is no layer's.
    """

    def __init__(self, without: Collection[str] = ()) -> None:
        unknown = set(without) - {layer.name for layer in _LAYERS}
        if unknown:
            raise ValueError(f"unknown layers {sorted(unknown)!r}; there are {[layer.name for layer in _LAYERS]!r}")
        self.without = frozenset(without)
        self._notes: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._startup_ms: dict[str, float] = {}
        self._program: bytes | None = None
        self._ruleset: int | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that must stay open until a run has entered the jail: the Landlock ruleset."""
        return () if self._ruleset is None else (self._ruleset,)

    def less(self, without: Collection[str]) -> Jail:
        """Return this jail without some more of its layers, for tests that try one layer alone."""
        if not without:
            return self
        lesser = Jail(self.without | set(without))
        lesser._program, lesser._ruleset = self._program, self._ruleset
        return lesser

    def isolate(self) -> None:
        """Move the root zygote into namespaces of its own. Call it first of all, before any import starts a thread."""
        # Before any other descriptor is opened: none may get a number that `close_descriptors` does not reach.
        self._attempt("limits", _bound_descriptors)
        self._attempt("namespaces", self._isolate)

    def prepare(self) -> None:
        """In the root zygote, after its last import: build what runs enter, and give up the zygote's own rights.

        A layer that cannot be prepared is noted, not raised: `check` reports it, and `require` decides.
        """
        # Both are built once, here, and only entered by each run: to compile the filter takes some 10 ms, as much as a short run.
        self._attempt("seccomp", self._build_filter)
        self._attempt("landlock", self._build_ruleset)
        # The identity goes before the capabilities: changing user and groups needs CAP_SETUID and CAP_SETGID. Both go after
        # the last import: root's own Python may lie where only root can read.
        self._attempt("identity", self._drop_identity)
        self._attempt("capabilities", identity.drop_capabilities)
        # The host's environment never came here (`launch.environment`). What is left names settings of libraries, all read by now.
        self._attempt("environment", os.environ.clear)
        # The zygote itself needs these two as well. They come after the change of user, at which the kernel decides anew
        # whether a process is dumpable.
        self._attempt("no_new_privs", lambda: _ignore(prctl(PR_SET_NO_NEW_PRIVS, 1)))
        self._attempt("undumpable", lambda: _ignore(prctl(PR_SET_DUMPABLE, 0)))

    def enter(self, terms: Terms) -> None:
        """In a run, before any hostile code: take everything away. Raise OSError where a layer cannot be put in force.

        There is no way back. The caller must end the process when this raises: it is half in the jail.
        """
        for layer in _LAYERS:
            if layer.name not in self.without and layer.enter is not None:
                layer.enter(self, terms)

    def rehearse(self, terms: Terms) -> None:
        """Do what `enter` does, as far as it changes nothing: calls that the kernel refuses, and limits as they are."""
        prctl(PR_GET_DUMPABLE)
        die_with(terms.parent)
        for name in (resource.RLIMIT_CPU, resource.RLIMIT_AS, *_ZERO_LIMITS):
            _lower(name, *resource.getrlimit(name))
        with contextlib.suppress(OSError):
            landlock.restrict(-1)
        with contextlib.suppress(OSError):
            seccomp.install(b"")

    def check(self, terms: Terms) -> tuple[Layer, ...]:
        """Enter the jail in this process, for good, and test each layer right after it is entered; never raises."""
        return tuple(self._check(layer, terms) for layer in _LAYERS)

    def _check(self, layer: _LayerSpec, terms: Terms) -> Layer:
        if layer.name in self.without:
            return Layer(layer.name, False, False, "left out by the host's choice")
        fault = self._faults.get(layer.name)
        run_us = 0.0
        if fault is None:
            try:
                if layer.enter is not None:
                    began = time.perf_counter()
                    layer.enter(self, terms)
                    run_us = round((time.perf_counter() - began) * 1e6, 1)
                if not layer.test(self, terms):
                    fault = "put in force, yet its test shows no effect"
            except _REFUSALS as error:
                fault = str(error)
        detail = self._notes.get(layer.name, layer.detail) if fault is None else fault
        return Layer(layer.name, fault is None, layer.mandatory, detail, self._startup_ms.get(layer.name, 0.0), run_us)

    def _attempt(self, name: str, step: Callable[[], None]) -> None:
        if name in self.without:
            return
        began = time.perf_counter()
        try:
            step()
        except _REFUSALS as error:
            self._faults[name] = str(error)
        self._startup_ms[name] = round((time.perf_counter() - began) * 1000, 3)

    def _isolate(self) -> None:
        self._notes["namespaces"] = identity.isolate()

    def _drop_identity(self) -> None:
        self._notes["identity"] = identity.become_nobody()

    def _build_filter(self) -> None:
        self._program = seccomp.build()

    def _build_ruleset(self) -> None:
        self._ruleset = landlock.prepare()
        self._notes["landlock"] = f"no files, no TCP (ABI {landlock.abi()})"

    def _filter(self, _terms: Terms) -> None:
        if self._program is None:
            # Going on without a filter would be a run without its boundary.
            raise OSError(errno.ENOSYS, self._faults.get("seccomp", "the jail was not prepared"))
        seccomp.install(self._program)

    def _restrict(self, _terms: Terms) -> None:
        if self._ruleset is not None:  # Landlock is optional: older kernels have none
            landlock.restrict(self._ruleset)


def address_space() -> int:
    """Return how many bytes of address space this process has mapped."""
    return _pages()[0] * mmap.PAGESIZE


def resident() -> int:
    """Return how many bytes of memory this process has resident, including what it shares with others."""
    return _pages()[1] * mmap.PAGESIZE


def _pages() -> list[int]:
    """How many pages this process has mapped, how many are resident, and more."""
    # A file object would take ten system calls more, and each run asks twice.
    descriptor = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return [int(number) for number in os.read(descriptor, 256).split()]
    finally:
        os.close(descriptor)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the process that forked it ends; call it again after any setuid.

    `parent` is the id of that process, as it was before the fork.
    """
    # A run that outlives its zygote would escape its deadline. The kernel forgets this wish at a fork, so that each process has
    # to ask for itself, and at a change of user.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended between the fork and the call above, so no signal will come


def close_descriptors(keep: Collection[int]) -> None:
    """Close every descriptor below `DESCRIPTORS` but those in `keep`; the standard ones are closed as well."""
    # By number, since /proc/self/fd can no longer be read: Landlock is in force by now.
    start = 0
    for descriptor in sorted(keep):
        # closerange(0, 0) would reach the kernel as close_range(0, -1), which is every descriptor
        if start < descriptor:
            os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, DESCRIPTORS)


def _bound_descriptors() -> None:
    """Lower the limit of open descriptors for good, so that `close_descriptors` reaches each that there can be."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard > DESCRIPTORS:
        hard = DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _limit(_jail: Jail, terms: Terms) -> None:
    # The run's own timer comes first, since it can say in which line the code stopped. The soft CPU limit (SIGXCPU) comes a
    # second later, for code that blocks the timer's signal; the hard one (SIGKILL) another second later, for code that
    # handles SIGXCPU.
    cpu = math.ceil(terms.cpu_seconds) + 1
    _lower(resource.RLIMIT_CPU, cpu, cpu + 1)
    _lower(resource.RLIMIT_AS, terms.address_space, terms.address_space)
    for name in _ZERO_LIMITS:
        resource.setrlimit(name, (0, 0))


def _lower(name: int, soft: int, hard: int) -> None:
    """Set a limit; leave a stricter one, which the host's own limits may be."""
    ceiling = resource.getrlimit(name)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(name, (soft, hard))


_ZERO_LIMITS: Final = (
    resource.RLIMIT_CORE,  # a core dump would write the session's data to the disk
    resource.RLIMIT_FSIZE,  # a file that is open nevertheless does not grow
    resource.RLIMIT_MEMLOCK,  # locked memory is taken from the whole machine
    resource.RLIMIT_MSGQUEUE,  # POSIX message queues outlive the process that filled them
    resource.RLIMIT_NOFILE,  # no call can give the run a new descriptor; the reply's is open already
    resource.RLIMIT_NPROC,  # no fork bombs: not a single thread or process more
    resource.RLIMIT_SIGPENDING,  # queued signals are memory of the kernel, counted for all processes of this user
)


def _limited(_jail: Jail, terms: Terms) -> bool:
    """Whether the limits are set, and memory beyond the bound is really refused: a kernel may take a limit and not enforce it."""
    if any(resource.getrlimit(name) != (0, 0) for name in _ZERO_LIMITS):
        return False
    try:
        mmap.mmap(-1, terms.address_space).close()
    except OSError:
        return True
    return False


def _refused(call: Callable[[], object], *codes: int) -> bool:
    """Whether a call fails with one of these error numbers: another number would prove another obstacle."""
    try:
        call()
    except OSError as error:
        return error.errno in codes
    return False


def _closed(_jail: Jail, terms: Terms) -> bool:
    """Whether none of the first 256 descriptors is open but the kept ones."""
    return all(
        _refused(lambda number=number: os.fstat(number), errno.EBADF)  # type: ignore[misc]
        for number in range(256)
        if number not in terms.keep
    )


class _LayerSpec(NamedTuple):
    """How one layer is entered and tested."""

    name: str
    mandatory: bool
    detail: str
    enter: Callable[[Jail, Terms], None] | None
    """None where the layer has been in force since the zygote was prepared: the fork inherits it."""
    test: Callable[[Jail, Terms], bool]
    """Tries what the layer forbids, right after it was entered; what `Jail` noted is not asked where a try is possible."""


# In the order in which a run enters them. Each layer needs something that a later one takes away:
# - no_new_privs comes first: without it the kernel lets no unprivileged process enter Landlock and seccomp.
# - undumpable and parent_death are calls of prctl, which the filter refuses.
# - The test of capabilities reads /proc, which Landlock closes.
# - The test of Landlock opens a folder. Once `limits` has set RLIMIT_NOFILE to 0 that fails with another error number.
# - Landlock's ruleset is a descriptor, which `descriptors` closes with all others.
# - seccomp comes last, because it forbids the calls that the others are made of.
_LAYERS: Final = (
    # Python's copy and the array that C code reads: clearing the one is to have cleared the other.
    _LayerSpec(
        "environment", True, "no environment variables", None, lambda _j, _t: not os.environ and not c_environment()
    ),
    _LayerSpec(
        "no_new_privs",
        True,
        "no set-uid programs",
        lambda _j, _t: _ignore(prctl(PR_SET_NO_NEW_PRIVS, 1)),
        lambda _j, _t: prctl(PR_GET_NO_NEW_PRIVS) == 1,
    ),
    # All runs have the same user. One that is not dumpable cannot be traced by another, nor can its /proc/PID/mem be opened.
    _LayerSpec(
        "undumpable",
        True,
        "no core dumps, not traceable",
        lambda _j, _t: _ignore(prctl(PR_SET_DUMPABLE, 0)),
        lambda _j, _t: prctl(PR_GET_DUMPABLE) == 0,
    ),
    _LayerSpec(
        "parent_death",
        True,
        "killed when its zygote dies",
        lambda _j, terms: die_with(terms.parent),
        lambda _j, _t: parent_death_signal() == signal.SIGKILL,
    ),
    _LayerSpec("identity", False, "not root", None, lambda _j, _t: 0 not in (os.geteuid(), os.getegid())),
    _LayerSpec("capabilities", False, "none", None, lambda _j, _t: identity.effective_capabilities() == 0),
    _LayerSpec(
        "namespaces", False, "own network and IPC namespaces", None, lambda jail, _t: "namespaces" in jail._notes
    ),
    _LayerSpec(
        "landlock", False, "no files", Jail._restrict, lambda _j, _t: _refused(lambda: os.open("/", 0), errno.EACCES)
    ),
    _LayerSpec("limits", True, "memory, CPU, files, descriptors and processes bounded", _limit, _limited),
    _LayerSpec(
        "descriptors",
        True,
        "every descriptor closed but the reply's",
        lambda _j, terms: close_descriptors(terms.keep),
        _closed,
    ),
    _LayerSpec(
        "seccomp",
        True,
        "system calls by allow-list",
        Jail._filter,
        # Both error numbers are the filter's own. Without it `stat` would fail with ENOENT or succeed, and `uname` succeed.
        lambda _j, _t: _refused(lambda: Path("/").stat(), errno.EACCES) and _refused(os.uname, errno.EPERM),
    ),
)


def _ignore(_result: object) -> None:
    """Drop the result of a call that reports failure by an exception."""
