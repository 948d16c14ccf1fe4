"""What the operating system takes away from a run, layer by layer: the second wall, and the security boundary.

A `Jail` is prepared once in the root zygote, after its last import, and entered by every run right after its fork.
`check` enters it in a process of its own and tests each layer as it comes, so that a report says what is in force on
this machine and not what ought to be.
"""

from __future__ import annotations

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
"""The second is what `resource` makes of EPERM."""

LANGUAGE_ONLY: Final = frozenset({"identity", "capabilities", "namespaces", "landlock", "seccomp"})
"""What `jail="language-only"` leaves out; processes, descriptors, environment and limits stay."""
NO_BOUNDARY: Final = (
    "jail='language-only' is no security boundary: code that gets out of the language has the rights of this user, "
    "so choose it only for code that you would run yourself"
)
"""What is said wherever it can be chosen."""


class Layer(msgspec.Struct, frozen=True):
    """One layer of the jail, as it is on this machine."""

    name: str
    in_force: bool
    mandatory: bool
    """`jail="full"` refuses to work without it."""
    detail: str
    """What it does, or why it is missing."""
    startup_ms: float = 0.0
    """What preparing it took, once for each zygote."""
    run_us: float = 0.0
    """What entering it took, once for each run."""


class SandboxUnavailable(RuntimeError):
    """The sandbox cannot be offered on this machine: a mandatory layer is missing."""


def require(layers: Iterable[Layer]) -> None:
    """Raises SandboxUnavailable that names every mandatory layer not in force."""
    found = {layer.name: layer for layer in layers}
    missing = [f"{layer.name} ({layer.detail})" for layer in found.values() if layer.mandatory and not layer.in_force]
    # A check that could not tell is no check passed.
    missing += [f"{wall.name} (not reported)" for wall in _WALLS if wall.name not in found]
    if missing:
        raise SandboxUnavailable(
            f"no safe sandbox here: missing {', '.join(missing)}. Run on Linux with seccomp. {NO_BOUNDARY}."
        )


class Terms(NamedTuple):
    """What one run is allowed."""

    keep: Collection[int]
    """Descriptors that stay open."""
    address_space: int
    """Bytes, everything already mapped included."""
    cpu_seconds: float
    parent: int
    """The process whose death ends the run."""


class Jail:
    """The layers, prepared for the runs of one zygote; `without` names those left out by the host's choice."""

    def __init__(self, without: Collection[str] = ()) -> None:
        unknown = set(without) - {wall.name for wall in _WALLS}
        if unknown:
            raise ValueError(f"unknown layers {sorted(unknown)!r}; there are {[wall.name for wall in _WALLS]!r}")
        self.without = frozenset(without)
        self._notes: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._startup_ms: dict[str, float] = {}
        self._program: bytes | None = None
        self._ruleset: int | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What must stay open until a run has entered the jail."""
        return () if self._ruleset is None else (self._ruleset,)

    def less(self, without: Collection[str]) -> Jail:
        """The same without more of its layers: for tests of one layer alone."""
        if not without:
            return self
        lesser = Jail(self.without | set(without))
        lesser._program, lesser._ruleset = self._program, self._ruleset
        return lesser

    def isolate(self) -> None:
        """First thing in the root zygote: a new namespace needs a single thread and rights not yet lost."""
        self._attempt("limits", _bound_descriptors)
        self._attempt("namespaces", self._isolate)

    def prepare(self) -> None:
        """In the root zygote, after its last import: builds what runs enter and gives up the zygote's own rights."""
        self._attempt("seccomp", self._build_filter)
        self._attempt("landlock", self._build_ruleset)
        self._attempt("identity", self._drop_identity)
        self._attempt("capabilities", identity.drop_capabilities)
        self._attempt("environment", os.environ.clear)
        self._attempt("no_new_privs", lambda: _ignore(prctl(PR_SET_NO_NEW_PRIVS, 1)))
        self._attempt("undumpable", lambda: _ignore(prctl(PR_SET_DUMPABLE, 0)))

    def enter(self, terms: Terms) -> None:
        """In a run, before any hostile code: takes everything away; raises OSError if a layer cannot be put in force."""
        for wall in _WALLS:
            if wall.name not in self.without and wall.enter is not None:
                wall.enter(self, terms)

    def check(self, terms: Terms) -> tuple[Layer, ...]:
        """Enters the jail in this process, for good, and tests each layer as it comes; never raises."""
        return tuple(self._check(wall, terms) for wall in _WALLS)

    def _check(self, wall: _Wall, terms: Terms) -> Layer:
        if wall.name in self.without:
            return Layer(wall.name, False, False, "left out by the host's choice")
        fault = self._faults.get(wall.name)
        run_us = 0.0
        if fault is None:
            try:
                if wall.enter is not None:
                    began = time.perf_counter()
                    wall.enter(self, terms)
                    run_us = round((time.perf_counter() - began) * 1e6, 1)
                if not wall.test(self, terms):
                    fault = "put in force, yet its test shows no effect"
            except _REFUSALS as error:
                fault = str(error)
        detail = self._notes.get(wall.name, wall.detail) if fault is None else fault
        return Layer(wall.name, fault is None, wall.mandatory, detail, self._startup_ms.get(wall.name, 0.0), run_us)

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
            raise OSError(errno.ENOSYS, self._faults.get("seccomp", "the jail was not prepared"))
        seccomp.install(self._program)

    def _restrict(self, _terms: Terms) -> None:
        if self._ruleset is not None:
            landlock.restrict(self._ruleset)


def address_space() -> int:
    """Bytes of address space this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def resident() -> int:
    """Bytes of memory this process has resident, what it shares included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def die_with(parent: int) -> None:
    """Ends this process with SIGKILL when the process that forked it is gone; call it again after any setuid."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it went before we asked


def close_descriptors(keep: Collection[int]) -> None:
    """Closes every descriptor but those in `keep`, the standard ones included."""
    start = 0
    for descriptor in sorted(keep):
        if start < descriptor:  # of an empty range Python closes everything
            os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, DESCRIPTORS)


def _bound_descriptors() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard > DESCRIPTORS:
        hard = DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _limit(_jail: Jail, terms: Terms) -> None:
    # The soft CPU limit comes a second after the run's own timer, which can say in which line it stopped.
    cpu = math.ceil(terms.cpu_seconds) + 1
    _lower(resource.RLIMIT_CPU, cpu, cpu + 1)
    _lower(resource.RLIMIT_AS, terms.address_space, terms.address_space)
    for name in _ZERO_LIMITS:
        resource.setrlimit(name, (0, 0))


def _lower(name: int, soft: int, hard: int) -> None:
    """Sets a limit, or leaves what is stricter already."""
    ceiling = resource.getrlimit(name)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(name, (soft, hard))


_ZERO_LIMITS: Final = (
    resource.RLIMIT_CORE,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_MEMLOCK,
    resource.RLIMIT_MSGQUEUE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_SIGPENDING,
)


def _limited(_jail: Jail, terms: Terms) -> bool:
    if any(resource.getrlimit(name) != (0, 0) for name in _ZERO_LIMITS):
        return False
    try:
        mmap.mmap(-1, terms.address_space).close()
    except OSError:
        return True
    return False


def _refused(call: Callable[[], object], *codes: int) -> bool:
    try:
        call()
    except OSError as error:
        return error.errno in codes
    return False


def _closed(_jail: Jail, terms: Terms) -> bool:
    return all(
        _refused(lambda number=number: os.fstat(number), errno.EBADF)  # type: ignore[misc]
        for number in range(256)
        if number not in terms.keep
    )


class _Wall(NamedTuple):
    name: str
    mandatory: bool
    detail: str
    enter: Callable[[Jail, Terms], None] | None
    """None: in force since the zygote was prepared, and inherited."""
    test: Callable[[Jail, Terms], bool]


# In the order in which a run enters them: each needs something that a later one takes away.
_WALLS: Final = (
    _Wall("environment", True, "no environment variables", None, lambda _j, _t: not os.environ and not c_environment()),
    _Wall(
        "no_new_privs",
        True,
        "no set-uid programs",
        lambda _j, _t: _ignore(prctl(PR_SET_NO_NEW_PRIVS, 1)),
        lambda _j, _t: prctl(PR_GET_NO_NEW_PRIVS) == 1,
    ),
    _Wall(
        "undumpable",
        True,
        "no core dumps, not traceable",
        lambda _j, _t: _ignore(prctl(PR_SET_DUMPABLE, 0)),
        lambda _j, _t: prctl(PR_GET_DUMPABLE) == 0,
    ),
    _Wall(
        "parent_death",
        True,
        "killed when its zygote dies",
        lambda _j, terms: die_with(terms.parent),
        lambda _j, _t: parent_death_signal() == signal.SIGKILL,
    ),
    _Wall("identity", False, "not root", None, lambda _j, _t: 0 not in (os.geteuid(), os.getegid())),
    _Wall("capabilities", False, "none", None, lambda _j, _t: identity.effective_capabilities() == 0),
    _Wall("namespaces", False, "own network and IPC namespaces", None, lambda jail, _t: "namespaces" in jail._notes),
    _Wall(
        "landlock", False, "no files", Jail._restrict, lambda _j, _t: _refused(lambda: os.open("/", 0), errno.EACCES)
    ),
    _Wall("limits", True, "memory, CPU, files, descriptors and processes bounded", _limit, _limited),
    _Wall(
        "descriptors",
        True,
        "every descriptor closed but the reply's",
        lambda _j, terms: close_descriptors(terms.keep),
        _closed,
    ),
    _Wall(
        "seccomp",
        True,
        "system calls by allow-list",
        Jail._filter,
        # The first would be ENOENT or EMFILE, the second would succeed.
        lambda _j, _t: _refused(lambda: Path("/").stat(), errno.EACCES) and _refused(os.uname, errno.EPERM),
    ),
)


def _ignore(_result: object) -> None:
    """For a call whose result says nothing: failure is an exception."""
