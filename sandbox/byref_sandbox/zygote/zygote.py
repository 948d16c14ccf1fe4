"""Zygotes are the processes that runs are forked from: a root with everything imported, and one for each warm session with its data.

The root forks session zygotes, and the runs that belong to no session. A session zygote keeps the session's data decoded and forks
the session's runs, which share that data copy-on-write: a run that changes it changes its own copy.

A branch is a second root for code that needs libraries such as scipy, which other sessions are not to carry. It is forked from the
root, takes the same orders, and loads each library when it is first named.

A zygote has one thread, since a fork copies only the thread that calls it. One loop waits for orders, calls, ended children and
deadlines, and must never block on any of them: all sessions of the host wait for the root, all runs of a session for its zygote.

Whom does a zygote trust? Its host alone. Runs are hostile, and nothing that they say is read here: they write into the reply pipe,
which leads to the host. A zygote knows of a run only its process id and, from the kernel, how it ended.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import msgspec

from byref_sandbox import wire
from byref_sandbox.jail.jail import Jail, SandboxUnavailable, address_space, close_descriptors, die_with, resident
from byref_sandbox.jail.libc import give_back_memory, name_process
from byref_sandbox.outcome import CRASH
from byref_sandbox.state.known import Known
from byref_sandbox.values import data
from byref_sandbox.values.loaded import CALL_SECONDS, Budget, Loaded, Store, Wanted, wanted_of
from byref_sandbox.zygote import standby
from byref_sandbox.zygote.runs import Runs, read_request

MAX_CALLS: Final = 256
"""Calls that are open at once; each takes three descriptors."""
_OWN_DESCRIPTORS: Final = 64
"""Descriptors left free for the zygote itself: sockets, pipes, the standby's."""
_BIG_BYTES: Final = 1 << 20
"""From this size on a payload is worth giving memory back to the system, and trimming the store."""
_TRIM_EVERY: Final = 64
"""After so many small payloads the store is trimmed as well. A call may have thousands, and trimming looks at each entry."""
_RETRY_SECONDS: Final = 1.0
"""After a standby could not be made, or was killed, none is made for so long: the machine may be short of memory."""
_ORDERS: Final = msgspec.msgpack.Decoder(wire.Order)
_REHEARSED: Final = msgspec.msgpack.encode(wire.Request("code", "", wire.Terms(1.0, 1.0, 0, 0, 0, 0)))
_GIVES: Final = msgspec.msgpack.Decoder(wire.Give)
_PLOTS: Final = "matplotlib"
_LULL_MS, _BUSY_LULL_MS = 1, 100
"""A zygote that has heard nothing for so long forks the standby of the next run. While a run goes on it waits longer: a standby takes as
much of the processors and of memory as a short run, which is slowed down by it.
"""


@dataclass(slots=True, eq=False)
class _Call:
    """One run, from its order to its end."""

    channel: socket.socket
    reply: int
    body: int
    """The request's memfd."""
    wall_seconds: float
    request: wire.Request | None = None
    """None in the root, which does not read it: what it had read, all runs forked later could find in its memory."""
    wanted: list[Wanted] = field(default_factory=list)
    budget: Budget = field(default_factory=lambda: Budget(CALL_SECONDS))
    waiting: set[int] = field(default_factory=set)
    """Payloads the host still has to give, by index."""
    files: dict[int, int] = field(default_factory=dict)
    """Payloads for this run alone, as memfds by index: the root hands them on unread."""
    decode_seconds: float = 0.0
    """How long the run may take to decode them."""
    pid: int = 0
    cpu_before: float = 0.0
    """Processor time that its process had used as a standby, before the run."""
    deadline: float = 0.0
    asked: bool = False
    """It was asked, shortly before its deadline, to write down in which line it is."""
    timed_out: bool = False
    """It was killed at its deadline."""

    def close_files(self) -> None:
        """Close what only the run itself needs. If it stayed open here, the host would wait in vain for the reply pipe's end."""
        for descriptor in (self.reply, self.body, *self.files.values()):
            os.close(descriptor)
        self.files.clear()


class Zygote:
    """The loop of one zygote. `store` holds a session's data; the root has none, so that its runs leave nothing behind."""

    def __init__(
        self,
        orders: socket.socket,
        jail: Jail,
        language: Any,
        known: Known,
        store: Store | None = None,
        learned: Iterable[str] = (),
    ) -> None:
        self._orders = orders
        self._jail = jail
        self._language = language
        self._store = store
        self._calls: list[_Call] = []
        self._sessions: dict[int, int] = {}
        """Process ids of the root's session zygotes, by the host's number of the session."""
        self._learned = {*learned}
        """Libraries that are loaded here, or that could not be."""
        self._runs = Runs(jail, language, store, known)
        self._standby: standby.Standby | None = None
        self._no_standby_before = 0.0
        self._idle_from = time.monotonic() + standby.IDLE_SECONDS
        # Without a free descriptor no order could be received any more, not even one that ends something. So payloads get those
        # that are left when each possible call has its four and the zygote has its own.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._max_files = max(standby.MAX_FILES, limit - wire.MAX_ORDER_DESCRIPTORS * MAX_CALLS - _OWN_DESCRIPTORS)
        # SIGCHLD must wake the poll. A signal handler alone cannot: the child may end between the look at the children and the poll.
        # So the interpreter writes a byte into this pipe, which the poll watches. Non-blocking: a full pipe wakes just as well.
        self._wake, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)

    def serve(self) -> NoReturn:
        """Work until the host closes the order socket, or dies."""
        while True:
            poll = select.poll()
            poll.register(self._orders, select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            calls = {call.channel.fileno(): call for call in self._calls}
            if calls:
                self._idle_from = time.monotonic() + standby.IDLE_SECONDS
            for descriptor in calls:
                poll.register(descriptor, select.POLLIN)
            ready = poll.poll(self._patience())
            if not ready:
                self._use_lull()
            for descriptor, _events in ready:
                if descriptor == self._orders.fileno():
                    self._receive_order()
                elif descriptor == self._wake:
                    os.read(self._wake, 4096)
                elif calls[descriptor] in self._calls:  # what was heard before in this round may have ended it
                    self._receive_payload(calls[descriptor])
            self._reap()
            self._enforce()

    def _use_lull(self) -> None:
        """Make the standby of the next run; end it where none has come for long."""
        now = time.monotonic()
        if now >= self._idle_from and not self._calls:
            self._dismiss_standby()
        elif self._standby is None and now >= self._no_standby_before:
            self._make_standby()
            self._rehearse()

    def _patience(self) -> int | None:
        """Return the milliseconds until there is something to do without news; None if there is nothing."""
        deadlines = [
            call.deadline - (0 if call.asked else wire.ASK_SECONDS)
            for call in self._calls
            if call.pid and not call.timed_out
        ]
        waits = [max(0, int((deadline - time.monotonic()) * 1000) + 1) for deadline in deadlines]
        idle_ms = max(0, int((self._idle_from - time.monotonic()) * 1000) + 1)
        if self._standby is not None:
            waits.append(idle_ms)
        elif idle_ms:
            lull = _BUSY_LULL_MS if any(call.pid for call in self._calls) else _LULL_MS
            waits.append(max(lull, int((self._no_standby_before - time.monotonic()) * 1000) + 1))
        return min(waits, default=None)

    def _receive_order(self) -> None:
        try:
            order, descriptors = wire.receive(self._orders, _ORDERS, wire.MAX_ORDER_DESCRIPTORS)
        except wire.Broken:
            # The host is gone, or what came is no order. After the second nobody knows what the host believes, so all end, and
            # the host starts anew.
            self._quit()
        if isinstance(order, wire.Run):
            self._begin(order, *descriptors)
        elif isinstance(order, wire.Fork):
            self._fork_session(order, *descriptors)
        else:
            # The number is a child's that has not been reaped yet: `_reap` forgets both at once. So it is nobody else's.
            if (pid := self._sessions.get(order.session)) is not None:
                os.kill(pid, signal.SIGKILL)
            os.close(*descriptors)  # the host waits for this end of the stream

    def _quit(self) -> NoReturn:
        # Their parent-death signal would do the same a moment later, in which a run could still reply.
        self._dismiss_standby()
        for pid in (*self._sessions.values(), *(call.pid for call in self._calls if call.pid)):
            os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _begin(self, order: wire.Run, channel: int, reply: int, body: int, *calls: int) -> None:
        call = _Call(socket.socket(fileno=channel), reply, body, order.wall_seconds)
        for descriptor in calls:  # one, if the code may call functions
            call.files[wire.CALLS] = descriptor
        self._calls.append(call)
        if len(self._calls) > MAX_CALLS:
            self._refuse(call, "Busy", f"more than {MAX_CALLS} runs at once")
            return
        self._learn(order)
        call.waiting = set(order.given)
        if self._store is None and not self._has_room(call):
            return
        if self._store is not None and not self._look_up(call, self._store):
            return
        if call.waiting:
            self._tell(call, wire.Missing(sorted(call.waiting)))
        else:
            self._start(call)

    def _has_room(self, call: _Call) -> bool:
        """Whether there are descriptors for all that is given to this run alone."""
        if len(call.waiting) > self._max_files:
            self._refuse(
                call,
                "ValueError",
                f"{len(call.waiting):,} stored values for one run; at most {self._max_files:,} without a session",
            )
            return False
        if sum(len(each.files) + len(each.waiting) for each in self._calls) > self._max_files:
            self._refuse(call, "Busy", f"more than {self._max_files:,} stored values for runs at once")
            return False
        return True

    def _look_up(self, call: _Call, store: Store) -> bool:
        """Have the call wait only for payloads that the store lacks. False, and the call is refused, if the request makes no sense."""
        try:
            request = read_request(call.body)
            wanted = wanted_of(request)
            call.waiting = {
                index for index in call.waiting if store.entry(request.payloads[index].entry).lacks(wanted[index])
            }
        except (msgspec.DecodeError, IndexError) as error:
            self._refuse(call, "ValueError", f"the request could not be read: {error}")
            return False
        call.request, call.wanted = request, wanted
        return True

    def _receive_payload(self, call: _Call) -> None:
        """Receive a payload that was missing, or the end of the call: the host no longer wants the run."""
        try:
            give, (descriptor,) = wire.receive(call.channel, _GIVES, 1)
        except (wire.Broken, ValueError):
            self._drop(call)
            return
        call.waiting.discard(give.payload)
        if self._store is None or call.request is None:
            call.files[give.payload] = descriptor
            call.decode_seconds += give.seconds
        elif not self._load(call, self._store, call.request, give.payload, descriptor):
            return
        if not call.waiting:
            self._start(call)

    def _load(self, call: _Call, store: Store, request: wire.Request, index: int, descriptor: int) -> bool:
        """Decode a payload into the store. False, and the call is refused, if that did not work.

        The payload came from a tool, so it may be as hostile as a run. Decoding it here is what sessions are for: it is done
        once for all runs. The readers are bounded, and what takes long is left to the run itself (`Budget`).
        """
        payload = request.payloads[index]
        entry = store.entry(payload.entry)
        self._dismiss_standby()  # it was forked before this payload came
        try:
            raw = wire.map_memory_file(descriptor)
            size = len(raw)
            call.budget.grow(size / wire.LOAD_BYTES_PER_SECOND)
            with _sized(entry, size):
                entry.load(payload.content_type, raw, call.wanted[index], call.budget)
                del raw
                if size > _BIG_BYTES:
                    give_back_memory()
        except data.Unusable as error:
            self._refuse(call, "ValueError", f"the data of this variable is {error}")
            return False
        except MemoryError:
            store.trim(())
            self._refuse(call, "MemoryLimit", "the data does not fit into the memory of a session")
            return False
        except Exception as error:  # noqa: BLE001  (a library may raise anything at odd data; the session's other data stays)
            self._refuse(call, "ValueError", f"the data of this variable could not be read: {error}")
            return False
        finally:
            os.close(descriptor)
        if size > _BIG_BYTES or len(call.waiting) % _TRIM_EVERY == 0:
            store.trim({each.entry for each in request.payloads})
        return True

    def _start(self, call: _Call) -> None:
        """Begin the run, in the standby or in a fork of its own; its clock starts."""
        if self._store is not None and call.request is not None:
            self._build_frames(call, call.request, self._store)
        # Before the fork: if the zygote dies in between, the host thinks that the run began, and does not repeat it. The other way
        # round a run could happen twice.
        self._tell(call, wire.Started(self._store.held_bytes if self._store is not None else 0))
        if not self._hand_over(call):
            gc.freeze()  # what was decoded since: the run's collector would write to it, and so copy it page by page
            parent = os.getpid()
            try:
                call.pid = os.fork()
            except OSError as error:
                self._refuse(call, CRASH, f"no process could be started: {error}")
                return
            if call.pid == 0:
                self._run(call, parent)
        # The run's own timer is due first, and what it has to decode by itself is added. This deadline is for a run that ignores it.
        seconds = call.wall_seconds + wire.KILL_GRACE_SECONDS + call.decode_seconds
        call.deadline = time.monotonic() + seconds
        call.close_files()

    def _hand_over(self, call: _Call) -> bool:
        """Give the run to the standby. False if there is none, or it cannot take it."""
        if self._standby is None or len(call.files) > standby.MAX_FILES:
            return False
        ahead, self._standby = self._standby, None
        call.cpu_before = ahead.cpu_seconds()
        if not ahead.take(call.reply, call.body, call.files):
            return False
        call.pid = ahead.pid
        return True

    def _make_standby(self) -> None:
        gc.freeze()
        work = functools.partial(self._runs.run, os.getpid())  # asked here: in the fork the number is another
        try:
            self._standby = standby.fork(self._jail.descriptors, self._runs.rehearsals, work)
        except OSError:  # then runs are forked when they come
            self._no_standby_before = time.monotonic() + _RETRY_SECONDS

    def _rehearse(self) -> None:
        """Do what an order makes this process do before the run begins. The fork of the standby has left all pages shared: those that
        this writes are copied now, while nobody waits.
        """
        with contextlib.suppress(OSError, wire.Broken, SandboxUnavailable), contextlib.ExitStack() as stack:
            ours, theirs = map(stack.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            body = wire.memory_file([_REHEARSED])
            stack.callback(os.close, body)
            wire.send(ours, wire.Run(1.0, [], False, []), (ours.fileno(), body, body))
            _, (channel, reply, request) = wire.receive(theirs, _ORDERS, wire.MAX_ORDER_DESCRIPTORS)
            call = _Call(stack.enter_context(socket.socket(fileno=channel)), reply, request, 1.0)
            stack.callback(call.close_files)
            self._look_up(call, Store(0))
            self._tell(call, wire.Started(0))

    def _dismiss_standby(self) -> None:
        """End the standby: it was forked before something that the next run must find."""
        if self._standby is not None:
            self._standby.discard()
            self._standby = None

    def _run(self, call: _Call, parent: int) -> NoReturn:
        """In the new process: close all that is the zygote's, and do the run."""
        try:
            die_with(parent)
            close_descriptors((call.reply, call.body, *call.files.values(), *self._jail.descriptors))
            self._runs.run(parent, call.reply, call.body, call.files)
        finally:
            os._exit(1)

    def _build_frames(self, call: _Call, request: wire.Request, store: Store) -> None:
        """Build the DataFrames that the request wants of stored values here, once: the session's runs share them."""
        is_sql = request.mode == "sql"
        for payload, wanted in zip(request.payloads, call.wanted, strict=True):
            if call.budget.is_spent:
                return
            entry = store.entry(payload.entry) if payload.inline is None else None
            if entry is None or not entry.is_to_build(wanted, arrow=is_sql):
                continue
            self._tell(call, wire.Working(entry.size))
            self._dismiss_standby()
            with _sized(entry, 0):
                entry.build(wanted, call.budget)
                if is_sql:
                    entry.build_arrow(wanted, call.budget)

    def _learn(self, order: wire.Run | wire.Fork) -> None:
        """Load what the order names and this zygote, or the one that it was forked from, has not loaded."""
        for name in [*([_PLOTS] if order.plots else []), *order.libraries]:
            if name in self._learned:
                continue
            self._learned.add(name)
            self._dismiss_standby()
            self._language.learn_plots() if name == _PLOTS else self._language.learn(name)
            self._runs.known = Known(self._language)

    def _fork_session(self, order: wire.Fork, channel: int) -> None:
        if not order.is_branch:
            self._learn(order)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os.close(channel)  # the host sees the end of the stream
            return
        if pid:
            self._sessions[order.session] = pid
            os.close(channel)
            return
        try:
            die_with(parent)
            # Of the root's descriptors all go but the jail's: a session must not hear other sessions' calls. The standard ones are the
            # null device and stay, so that no pipe or socket of this zygote gets a number to which a library may print.
            close_descriptors((0, 1, 2, channel, *self._jail.descriptors))
            if order.is_branch:
                name_process("byref:libraries")
                Zygote(
                    socket.socket(fileno=channel), self._jail, self._language, self._runs.known, None, self._learned
                ).serve()
            name_process("byref:session")
            # The store trims itself to the order's bytes. This bound is for what it cannot foresee, such as one payload whose
            # objects are far larger than its text: decoding then ends in a MemoryError, and not in the machine's memory.
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (address_space() + 2 * order.memory_bytes, hard))
            store = Store(order.memory_bytes)
            Zygote(
                socket.socket(fileno=channel), self._jail, self._language, self._runs.known, store, self._learned
            ).serve()
        finally:
            os._exit(1)

    def _refuse(self, call: _Call, kind: str, message: str) -> None:
        self._tell(call, wire.Refused(kind, message))
        self._drop(call)

    def _drop(self, call: _Call) -> None:
        """End a call for which the host no longer waits. A run that was begun is killed now and reaped by `_reap`."""
        self._calls.remove(call)
        call.channel.close()
        if call.pid:
            os.kill(call.pid, signal.SIGKILL)
        else:
            call.close_files()

    def _tell(self, call: _Call, news: wire.News) -> None:
        with contextlib.suppress(wire.Broken):  # the host gave up: the poll brings the end of the stream next
            wire.send(call.channel, news)

    def _enforce(self) -> None:
        """Ask runs where they are, and kill them, when their time has come; their own timers may be gone with the language."""
        now = time.monotonic()
        for call in self._calls:
            if call.pid and not call.asked and call.deadline - wire.ASK_SECONDS <= now:
                call.asked = True
                # Of two signals that wait for it SIGKILL comes first: asked late, a run still gets its time to answer.
                call.deadline = max(call.deadline, now + wire.ASK_SECONDS)
                os.kill(call.pid, wire.ASK_SIGNAL)
            if call.pid and not call.timed_out and call.deadline <= now:
                call.timed_out = True
                os.kill(call.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Take note of all children that have ended, and tell the host of those that were runs.

        A child keeps its number until it is reaped. Its call or session is forgotten in the same step, so that no number is
        killed that has become another process's.
        """
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._standby is not None and self._standby.pid == pid:
                # Somebody killed it: the kernel perhaps, for want of memory.
                self._standby.close()
                self._standby = None
                self._no_standby_before = time.monotonic() + _RETRY_SECONDS
            for session, session_pid in list(self._sessions.items()):
                if session_pid == pid:
                    del self._sessions[session]
            for call in self._calls:
                if call.pid == pid:
                    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
                    self._tell(
                        call,
                        wire.Ended(
                            ended, code, call.timed_out, max(0.0, usage.ru_utime + usage.ru_stime - call.cpu_before)
                        ),
                    )
                    self._calls.remove(call)
                    call.channel.close()
                    break


@contextlib.contextmanager
def _sized(entry: Loaded, least: int) -> Iterator[None]:
    """Add to an entry's size what this process has grown by in here, at least `least` bytes: objects cannot be weighed one by one."""
    before = resident()
    yield
    entry.size += max(least, resident() - before)
