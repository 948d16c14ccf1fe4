"""The sandbox as a host uses it: one root zygote, warm session zygotes of which the least recently used is ended first, and
runs from any thread.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import socket
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal

from byref_sandbox import wire
from byref_sandbox.code.libraries import LIBRARIES
from byref_sandbox.functions import Callee
from byref_sandbox.host.exchange import Answer, Vitals, exchange
from byref_sandbox.host.process import ANSWER_SECONDS, RootProcess, check_layers
from byref_sandbox.host.runner import Runner
from byref_sandbox.jail.jail import LANGUAGE_ONLY, Layer, SandboxClosed, SandboxUnavailable, require
from byref_sandbox.outcome import Limits
from byref_sandbox.values.data import Load

_ATTEMPTS: Final = 3
"""Attempts to begin a run: a zygote that died or does not answer is replaced. A run that has begun is never repeated."""
_WITHOUT: Final = {"full": frozenset[str](), "language-only": LANGUAGE_ONLY}

Jail = Literal["full", "language-only"]


@dataclass(slots=True, eq=False)
class _Warm:
    """A session zygote."""

    name: str
    number: int
    root: RootProcess
    orders: socket.socket
    libraries: frozenset[str] = frozenset()
    """What it had when it was forked from the root's branch; empty if it was forked from the root itself."""
    held_bytes: int = 0
    vitals: Vitals = field(default_factory=Vitals)


class Sandbox(Runner):
    """Runs model-written Python and jq in jailed processes. It may be used from any thread, and after a fork.

    It starts at the first use. `jail="full"` raises SandboxUnavailable if a mandatory layer is missing. "language-only" is the
    host's explicit choice to do without the operating system's layers, and no security boundary: code that gets out of the
    language has the rights of this user. At most `sessions` warm sessions are kept, and only while their decoded data fits into
    `memory_bytes`. At most `runs` runs go on at once; others wait. A process from which runs are forked is replaced after
    `recycle_runs` runs or `recycle_seconds`, once it is idle. Code may import the packages named in `modules`, too, which are of pure
    Python: ValueError says of one that reads files, loads code, opens sockets or starts threads or processes through what it does so.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        jail: Jail = "full",
        sessions: int = 16,
        memory_bytes: int = 4 << 30,
        runs: int | None = None,
        recycle_runs: int = 10_000,
        recycle_seconds: float = 86_400.0,
        modules: Iterable[str] = (),
    ) -> None:
        if jail not in _WITHOUT:
            raise ValueError(f"jail is {jail!r}; expected one of {sorted(_WITHOUT)!r}")
        if min(sessions, memory_bytes, 1 if runs is None else runs, recycle_runs) < 1 or not recycle_seconds > 0:
            raise ValueError("sessions, memory_bytes, runs, recycle_runs and recycle_seconds must be positive")
        super().__init__(limits, modules)
        self._jail = jail
        self._max_sessions = sessions
        self._memory_bytes = memory_bytes
        self._runs = runs or max(4, 2 * (os.cpu_count() or 1))
        self._recycle_runs = recycle_runs
        self._recycle_seconds = recycle_seconds
        self._numbers = itertools.count(1)
        self._closed = False
        self._renew()
        _sandboxes.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._slots = threading.BoundedSemaphore(self._runs)
        self._begun = threading.Condition(self._lock)
        self._root: RootProcess | None = None
        self._starting: RootProcess | None = None
        """A root that one thread is starting; other threads wait for that thread."""
        self._successor: RootProcess | None = None
        """The next root, while it imports its packages."""
        self._retired: list[RootProcess] = []
        """Replaced roots in which runs still go on."""
        self._warm: OrderedDict[str, _Warm] = OrderedDict()
        self._gave_up: tuple[float, str] | None = None
        """The time at which a root last failed to start, and the reason."""

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Sandbox:
        """Start the root zygote now, which takes about two seconds; raises SandboxUnavailable."""
        asked = time.monotonic()
        with self._lock:
            self._rooted(asked)
        return self

    def close(self) -> None:
        """End every process of the sandbox; runs in progress raise SandboxClosed."""
        with self._lock:
            self._closed = True
            if self._starting is not None:
                self._starting.interrupt()
            if self._successor is not None:
                self._successor.kill()  # while it imports, it reads no orders
            roots = self._roots()
            self._root = self._successor = None
            self._retired.clear()
            self._forget_sessions()
        for root in roots:
            root.close()

    def report(self) -> tuple[Layer, ...]:
        """Return every layer: whether it is in force here, whether it is mandatory, and what it does or why it is missing."""
        with self._lock:
            if self._root is not None and self._root.alive:
                return tuple(self._root.ready.layers)
        return probe(jail=self._jail)

    def answer(
        self, request: wire.Request, loads: Sequence[Load], session: str | None, callee: Callee | None = None
    ) -> Answer:
        """Run one request to its end: in the session's warm process or, without a session, in a fork of the root.

        Raises:
            SandboxClosed: it is closed, or was closed meanwhile.
        """
        asked = time.monotonic()
        with self._slots:
            for attempt in range(_ATTEMPTS):
                with self._zygote(session, request.plots, request.libraries, asked=asked) as (root, warm):
                    try:
                        if warm is None:
                            with self._lock:
                                orders, vitals = root.orders_for(request.libraries), root.vitals
                        else:
                            orders, vitals = warm.orders, warm.vitals
                        answer = exchange(orders, request, loads, vitals, callee)
                    except wire.Broken as error:
                        answer = Answer(fault="gone", detail=str(error))
                    if answer.fault in ("silent", "gone"):
                        self._lost(root, warm, in_branch=bool(request.libraries))
                    elif warm is not None and answer.started:
                        warm.held_bytes = answer.held_bytes
                # From here on the caller waits anew, so that an earlier failure to start does not end the next attempt.
                asked = time.monotonic()
                # A zygote that does not answer costs a long wait, so nobody waits three times.
                if answer.started or answer.fault not in ("gone", "silent") or (answer.fault == "silent" and attempt):
                    break
        if self._closed and answer.fault in ("silent", "gone", "unfinished"):
            raise SandboxClosed("the sandbox was closed during the run")
        return answer

    @contextlib.contextmanager
    def _zygote(
        self, session: str | None, plots: bool = False, libraries: Sequence[str] = (), *, asked: float = math.inf
    ) -> Iterator[tuple[RootProcess, _Warm | None]]:
        """Yield the root and, with `session`, its warm zygote, which is not evicted meanwhile."""
        with self._lock:
            root = self._rooted(asked)
            warm = None if session is None else self._session(root, session, plots, frozenset(libraries))
            root = root if warm is None else warm.root
            vitals = root.vitals if warm is None else warm.vitals
            vitals.runs += 1
            vitals.running += 1  # counted under the lock: `_evict` and `_close_retired` spare zygotes with runs
        try:
            yield root, warm
        finally:
            with self._lock:
                vitals.running -= 1
                self._evict()
                self._close_retired()

    def _rooted(self, asked: float) -> RootProcess:
        """Return the root once it is ready. The lock is held, except while a root starts.

        `asked` is the time at which the caller began to wait: a caller that waited while a root failed to start does not wait
        for another one.
        """
        while True:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            if self._root is not None and not self._root.alive:
                self._root.kill()
                self._root = None
                self._forget_sessions()
            if self._root is not None:
                if self._is_worn(self._root.vitals):
                    self._succeed(self._root)
                return self._root
            if self._gave_up is not None and asked < self._gave_up[0]:
                raise SandboxUnavailable(self._gave_up[1])
            if self._starting is None:
                self._begin()
            else:
                self._begun.wait()

    def _begin(self) -> None:
        """Start a root and wait, without the lock, until it is ready; raises SandboxUnavailable."""
        root, self._successor = self._successor or self._new_root(), None
        self._starting, began, fault = root, time.monotonic(), None
        # Starting takes seconds, and nobody else needs to wait for the lock meanwhile, `close` for example.
        self._lock.release()
        try:
            _greeted(root)
        except SandboxUnavailable as error:
            fault = error
        finally:
            self._lock.acquire()
            self._starting = None
            self._begun.notify_all()
        if self._closed:
            root.close()
        elif fault is None:
            self._root = root
        else:
            # A root that ended soon may have been killed, so those who wait try again.
            if time.monotonic() - began > ANSWER_SECONDS:
                self._gave_up = time.monotonic(), str(fault)
            raise fault

    def _new_root(self) -> RootProcess:
        return RootProcess(_WITHOUT[self._jail], self.modules)

    def _succeed(self, worn: RootProcess) -> None:
        """Start the successor of a root without waiting for it; once it is ready, replace the root by it."""
        if self._successor is None:
            self._successor = self._new_root()
        elif self._successor.has_greeted:
            successor, self._successor = self._successor, None
            try:
                self._root = _greeted(successor)
            except SandboxUnavailable:  # the old root still does its work
                worn.vitals.runs, worn.vitals.since = 0, time.monotonic()
                return
            self._retired.append(worn)
            self._close_retired()

    def _is_worn(self, vitals: Vitals) -> bool:
        return vitals.runs >= self._recycle_runs or time.monotonic() - vitals.since >= self._recycle_seconds

    def _close_retired(self) -> None:
        """Release the idle sessions of retired roots, and close the roots in which nothing is left."""
        for warm in [each for each in self._warm.values() if each.root in self._retired and not each.vitals.running]:
            self._let_go(warm)
        in_use = [warm.root for warm in self._warm.values()]
        for root in list(self._retired):
            if not root.vitals.running and root not in in_use:
                self._retired.remove(root)
                root.close()

    def _roots(self) -> list[RootProcess]:
        return [root for root in (self._root, self._successor, *self._retired) if root is not None]

    def _session(self, root: RootProcess, name: str, plots: bool, libraries: frozenset[str]) -> _Warm:
        warm = self._warm.get(name)
        # An idle session of a replaced root, or a worn one, is started again under the current root; its data is decoded again.
        # A session that begins to need libraries is forked anew from the branch, which shares them with others. While it has
        # other runs it loads them by itself.
        if (
            warm is not None
            and not warm.vitals.running
            and (warm.root is not root or self._is_worn(warm.vitals) or not libraries <= warm.libraries)
        ):
            self._let_go(warm)
            libraries |= warm.libraries
            warm = None
        if warm is None:
            number = next(self._numbers)
            listed = [library for library in (*LIBRARIES, *self.modules) if library in libraries]
            try:
                orders = root.fork_session(number, self._memory_bytes, plots=plots, libraries=listed)
            except wire.Broken:
                root.kill()  # the next attempt finds out that it is dead
                orders = root.orders
            warm = self._warm[name] = _Warm(name, number, root, orders, libraries)
            self._evict(keep=warm)
        self._warm.move_to_end(name)
        return warm

    def _evict(self, keep: _Warm | None = None) -> None:
        """End the least recently used idle sessions beyond the limits of number and memory."""
        held = sum(warm.held_bytes for warm in self._warm.values())
        for warm in list(self._warm.values()):
            if len(self._warm) <= self._max_sessions and held <= self._memory_bytes:
                return
            if warm is keep or warm.vitals.running:
                continue
            held -= warm.held_bytes
            self._let_go(warm)

    def _let_go(self, warm: _Warm) -> None:
        del self._warm[warm.name]
        warm.orders.close()

    def _lost(self, root: RootProcess, warm: _Warm | None, *, in_branch: bool) -> None:
        """End a zygote that died or does not answer; the next run gets a new one."""
        with self._lock:
            if warm is None:
                if in_branch:
                    root.end_branch()
                else:
                    root.kill()
                return
            # Another thread may have found out first, and have replaced it.
            if self._warm.get(warm.name) is warm:
                root.kill_session(warm.number, in_branch=bool(warm.libraries))
                self._let_go(warm)

    def _forget_sessions(self) -> None:
        for warm in self._warm.values():
            warm.orders.close()
        self._warm.clear()

    def _after_fork(self) -> None:
        """In a forked copy of the host, give up the processes, which are the parent's; this copy starts its own."""
        # Nothing is sent or killed here: the sockets are shared with the parent, whose processes go on.
        roots = self._roots() + ([] if self._starting is None else [self._starting])
        warm = list(self._warm.values())
        self._renew()
        for each in warm:
            each.orders.close()
        for root in roots:
            root.abandon()


def _greeted(root: RootProcess) -> RootProcess:
    """Return the root once it is ready; raises SandboxUnavailable if a mandatory layer is missing."""
    root.greet()
    try:
        require(root.ready.layers)
    except BaseException:
        root.kill()
        raise
    return root


def probe(*, jail: Jail = "full") -> tuple[Layer, ...]:
    """Return the layers that a sandbox on this machine would have. They are tested in a small process of their own; never
    raises.
    """
    return check_layers(_WITHOUT[jail])


_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


def _forked() -> None:
    for sandbox in list(_sandboxes):
        sandbox._after_fork()


os.register_at_fork(after_in_child=_forked)
