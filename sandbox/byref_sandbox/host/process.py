"""The root zygote's process as the host holds it: it is started, given orders, and ended."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import weakref
from collections.abc import Sequence
from typing import IO, Final

import msgspec

from byref_sandbox import wire
from byref_sandbox.host import launch
from byref_sandbox.host.exchange import LIBRARY_SECONDS, Vitals
from byref_sandbox.jail.jail import Layer, SandboxUnavailable

START_SECONDS: Final = 120.0
"""Importing pandas takes one second, and much longer on a machine under heavy load."""
CHECK_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 5.0
"""A root that does not do the simplest thing within this time is wedged."""
_CLOSE_SECONDS: Final = 5.0
_READY: Final = msgspec.msgpack.Decoder(wire.Ready)
_LAYERS: Final = msgspec.json.Decoder(list[Layer])
_MAX_COMPLAINT: Final = 2_000
_BRANCH: Final = 0
"""The number of a root's branch among its sessions, which begin at 1."""


class RootProcess:
    """A root zygote's process; it accepts orders once `greet` has returned."""

    ready: wire.Ready

    def __init__(self, without: frozenset[str], modules: Sequence[str] = ()) -> None:
        if sys.platform != "linux":
            raise SandboxUnavailable(f"the sandbox needs Linux; this is {sys.platform!r}")
        self.vitals = Vitals()
        self.orders, theirs = wire.packet_sockets()
        with contextlib.ExitStack() as failed, wire.granted(), theirs:
            failed.callback(self.orders.close)
            self._complaints = os.fdopen(os.memfd_create("byref-zygote", os.MFD_CLOEXEC))
            failed.callback(self._complaints.close)
            self._process = subprocess.Popen(
                launch.command(
                    "zygote", str(theirs.fileno()), ",".join(sorted(without)), ",".join(modules), modules=modules
                ),
                env=launch.environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C at the host's terminal is meant for the host
            )
            failed.pop_all()
        # It runs at the interpreter's exit, or when nothing refers to this object any more.
        self._sessions: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._branch: socket.socket | None = None
        self._finalizer = weakref.finalize(self, _end, self.orders, self._sessions, self._process, self._complaints)

    @property
    def pid(self) -> int:
        """The root zygote's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def has_greeted(self) -> bool:
        """Whether `greet` returns at once."""
        return bool(self._poll(0))

    def greet(self) -> None:
        """Wait until everything is imported, and fill `ready`; raises SandboxUnavailable."""
        with self._complaints:
            fault = f"no answer within {START_SECONDS:g} s"
            if self._poll(START_SECONDS):
                try:
                    self.ready = wire.receive(self.orders, _READY)[0]
                except wire.Broken:
                    fault = "it ended while starting"
                else:
                    return
            complaint = os.pread(self._complaints.fileno(), 1 << 20, 0).decode("utf-8", "replace").strip()
            self.kill()
        raise SandboxUnavailable(f"the sandbox process did not start: {fault}. {complaint[-_MAX_COMPLAINT:]}")

    def _poll(self, seconds: float) -> object:
        poll = select.poll()
        poll.register(self.orders, select.POLLIN)
        return poll.poll(seconds * 1000)

    def orders_for(self, libraries: Sequence[str]) -> socket.socket:
        """Return the order socket for code that needs these libraries: the branch's, which is forked at first use; raises Broken."""
        if not libraries:
            return self.orders
        if self._branch is None:
            self._branch = self._fork(self.orders, wire.Fork(_BRANCH, 0, is_branch=True))
        return self._branch

    def fork_session(
        self, number: int, memory_bytes: int, *, plots: bool = False, libraries: Sequence[str] = ()
    ) -> socket.socket:
        """Return the order socket of a new session zygote; raises Broken."""
        if loaded := plots + len(libraries):
            self.vitals.is_busy_for(loaded * LIBRARY_SECONDS)
        order = wire.Fork(number, memory_bytes, plots, [*libraries])
        try:
            return self._fork(self.orders_for(libraries), order)
        except wire.Broken:
            if not libraries:
                raise
            self.end_branch()  # somebody killed it: the kernel perhaps, for want of memory
            return self._fork(self.orders_for(libraries), order)

    def _fork(self, orders: socket.socket, order: wire.Fork) -> socket.socket:
        ours, theirs = wire.packet_sockets()
        with theirs:
            try:
                wire.send(orders, order, (theirs.fileno(),))
            except wire.Broken:
                ours.close()
                raise
        self._sessions.add(ours)
        return ours

    def kill_session(self, number: int, *, in_branch: bool = False) -> None:
        """End a session zygote that no longer answers, or everything if the root does not answer either."""
        orders = self._branch if in_branch else self.orders
        if orders is None or self._has_killed(orders, number):
            return
        if in_branch:
            self.end_branch()
        else:
            self.kill()

    def end_branch(self) -> None:
        """End the branch, and with it all that was forked from it; the next use forks another."""
        if self._branch is not None:
            self._branch.close()
            self._branch = None
            if not self._has_killed(self.orders, _BRANCH):
                self.kill()

    def _has_killed(self, orders: socket.socket, number: int) -> bool:
        ours, theirs = wire.packet_sockets()
        with ours:
            ours.settimeout(ANSWER_SECONDS)
            try:
                with theirs:
                    wire.send(orders, wire.Kill(number), (theirs.fileno(),))
                ours.recv(1)
            except (wire.Broken, OSError):
                return False
        return True

    def kill(self) -> None:
        """Kill the root, and with it everything that was forked from it."""
        self._process.kill()
        self._finalizer()

    def interrupt(self) -> None:
        """End the process while another thread is in `greet`, which releases the rest."""
        self._process.kill()

    def close(self) -> None:
        """Let the root end by itself, and kill it if it does not."""
        self._finalizer()

    def abandon(self) -> None:
        """In a forked copy of the host, close only the descriptor: the process is the parent's."""
        self._finalizer.detach()
        self.orders.close()
        if self._branch is not None:
            self._branch.close()
        self._complaints.close()
        self._process.returncode = 0  # it is not this copy's child, so it cannot be waited for


def _end(
    orders: socket.socket,
    sessions: weakref.WeakSet[socket.socket],
    process: subprocess.Popen[bytes],
    complaints: IO[str],
) -> None:
    for each in (orders, *sessions):
        each.close()
    complaints.close()
    try:
        process.wait(_CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def check_layers(without: frozenset[str]) -> tuple[Layer, ...]:
    """Return the layers that are found in a small process, without starting anything heavy.

    An answer in which nothing is missing is remembered: a root checks the layers again when it starts.
    """
    asked = (without, os.geteuid())
    if asked not in _whole:
        layers = _ask_for_layers(without)
        if any(layer.mandatory and not layer.in_force for layer in layers):
            return layers
        _whole[asked] = layers
    return _whole[asked]


_whole: Final[dict[tuple[frozenset[str], int], tuple[Layer, ...]]] = {}
"""Answers in which no layer was missing, by the layers left out and the user who asked."""


def _ask_for_layers(without: frozenset[str]) -> tuple[Layer, ...]:
    if sys.platform != "linux":
        return (Layer("platform", False, True, f"the sandbox needs Linux; this is {sys.platform!r}"),)
    try:
        done = subprocess.run(
            launch.command("check", ",".join(sorted(without))),
            env=launch.environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHECK_SECONDS,
            start_new_session=True,
        )
        if layers := tuple(_LAYERS.decode(done.stdout)):
            return layers
        fault = "it printed nothing"
    except subprocess.TimeoutExpired:
        fault = f"no answer within {CHECK_SECONDS:g} s"
    except msgspec.DecodeError:
        fault = done.stderr.decode("utf-8", "replace").strip()[-_MAX_COMPLAINT:] or f"it ended with {done.returncode}"
    return (Layer("process", False, True, f"the check did not run: {fault}"),)
