"""The processes that runs are forked from: a root with everything imported, and one per warm session with its data.

Single-threaded, so that a fork is safe; one loop over order socket, call sockets, children and deadlines. The root forks
session zygotes and throwaway runs; a session zygote keeps the session's data decoded and forks the session's runs,
which share it copy-on-write.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import msgspec

from byref_sandbox import bodies, data, jqworker, sqlbody, sqltables, standby, wire, worker
from byref_sandbox.bindings import Bindings, OnlyTable
from byref_sandbox.jail import Jail, address_space, close_descriptors, die_with, resident
from byref_sandbox.libc import give_back_memory
from byref_sandbox.loaded import Loaded, Store, Wanted, wanted_of

MAX_CALLS: Final = 256
_BIG_BYTES: Final = 1 << 20
_ORDERS: Final = msgspec.msgpack.Decoder(wire.Order)
_GIVES: Final = msgspec.msgpack.Decoder(wire.Give)
_REQUESTS: Final = msgspec.msgpack.Decoder(wire.Request)


@dataclass(slots=True, eq=False)
class _Call:
    """One run, from its order to its end."""

    channel: socket.socket
    reply: int
    body: int
    """The request's memfd; the root leaves it to the run to read."""
    wall_seconds: float
    request: wire.Request | None
    wanted: list[Wanted] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)
    """Payloads the host still has to give, by index."""
    files: dict[int, int] = field(default_factory=dict)
    """Payloads for this run alone: their memfds, by index."""
    pid: int = 0
    cpu_before: float = 0.0
    """Processor time of its process that was not the run's."""
    deadline: float = 0.0
    timed_out: bool = False

    def close_files(self) -> None:
        """Lets go of what only the run itself needs."""
        for descriptor in (self.reply, self.body, *self.files.values()):
            os.close(descriptor)
        self.files.clear()


class Zygote:
    """The loop of one zygote; `store` is None in the root, whose runs leave nothing behind."""

    def __init__(self, orders: socket.socket, jail: Jail, language: Any, store: Store | None = None) -> None:
        self._orders = orders
        self._jail = jail
        self._language = language
        self._store = store
        self._calls: list[_Call] = []
        self._sessions: dict[int, int] = {}
        self._standby: standby.Standby | None = None
        self._wake, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)

    def serve(self) -> NoReturn:
        """Until the host closes the order socket, or dies."""
        while True:
            poll = select.poll()
            poll.register(self._orders, select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            calls = {call.channel.fileno(): call for call in self._calls}
            for descriptor in calls:
                poll.register(descriptor, select.POLLIN)
            ready = poll.poll(self._patience() if self._standby else 0)
            if not ready and self._standby is None:
                self._make_standby()
            for descriptor, _events in ready:
                if descriptor == self._orders.fileno():
                    self._take_order()
                elif descriptor == self._wake:
                    os.read(self._wake, 4096)
                elif calls[descriptor] in self._calls:
                    self._hear(calls[descriptor])
            self._reap()
            self._enforce()

    def _patience(self) -> int | None:
        """Milliseconds until the next deadline."""
        deadlines = [call.deadline for call in self._calls if call.pid and not call.timed_out]
        return max(0, int((min(deadlines) - time.monotonic()) * 1000) + 1) if deadlines else None

    def _take_order(self) -> None:
        try:
            order, descriptors = wire.receive(self._orders, _ORDERS, wire.MAX_ORDER_DESCRIPTORS)
        except wire.Broken:
            self._quit()
        if isinstance(order, wire.Run):
            self._begin(order, *descriptors)
        elif isinstance(order, wire.Fork):
            self._fork_session(order, *descriptors)
        else:
            if (pid := self._sessions.get(order.session)) is not None:
                os.kill(pid, signal.SIGKILL)
            os.close(*descriptors)

    def _quit(self) -> NoReturn:
        # Their parent-death signal would do it as well, a moment later.
        self._dismiss_standby()
        for pid in (*self._sessions.values(), *(call.pid for call in self._calls if call.pid)):
            os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _begin(self, order: wire.Run, channel: int, reply: int, body: int) -> None:
        request = None if self._store is None else _read_request(body)
        call = _Call(socket.socket(fileno=channel), reply, body, order.wall_seconds, request)
        self._calls.append(call)
        if len(self._calls) > MAX_CALLS:
            self._refuse(call, "Busy", f"more than {MAX_CALLS} runs at once")
            return
        if order.plots:
            self._learn_plots()
        call.waiting = set(order.given)
        if self._store is not None and request is not None:
            call.wanted = wanted_of(request)
            call.waiting = {
                index
                for index in order.given
                if self._store.entry(request.payloads[index].entry).lacks(call.wanted[index])
            }
        if call.waiting:
            self._tell(call, wire.Missing(sorted(call.waiting)))
        else:
            self._start(call)

    def _hear(self, call: _Call) -> None:
        """A payload that was missing, or the end of the call: the host no longer wants the run."""
        try:
            give, (descriptor,) = wire.receive(call.channel, _GIVES, 1)
        except (wire.Broken, ValueError):
            self._drop(call)
            return
        call.waiting.discard(give.payload)
        if self._store is None or call.request is None:
            call.files[give.payload] = descriptor
        elif not self._load(call, self._store, call.request, give.payload, descriptor):
            return
        if not call.waiting:
            self._start(call)

    def _load(self, call: _Call, store: Store, request: wire.Request, index: int, descriptor: int) -> bool:
        """Decodes a payload into the store and says whether that worked."""
        payload = request.payloads[index]
        entry = store.entry(payload.entry)
        self._dismiss_standby()
        try:
            raw = wire.read_memory_file(descriptor)
            with _sized(entry, len(raw)):
                entry.load(payload.content_type, raw, call.wanted[index])
                size = len(raw)
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
        finally:
            os.close(descriptor)
        store.trim({each.entry for each in request.payloads})
        return True

    def _start(self, call: _Call) -> None:
        """Forks the run; its clock begins."""
        if self._store is not None and call.request is not None:
            self._build_frames(call, call.request, self._store)
        size = sum(os.fstat(descriptor).st_size for descriptor in call.files.values())
        # Told first: a run whose beginning the host does not know of might be repeated.
        self._tell(call, wire.Started(self._store.held_bytes if self._store is not None else 0))
        if not self._hand_over(call):
            gc.freeze()
            parent = os.getpid()
            try:
                call.pid = os.fork()
            except OSError as error:
                self._refuse(call, "Crash", f"no process could be started: {error}")
                return
            if call.pid == 0:
                self._fork_run(call, parent)
        seconds = call.wall_seconds + wire.KILL_GRACE_SECONDS + size / wire.LOAD_BYTES_PER_SECOND
        call.deadline = time.monotonic() + seconds
        call.close_files()

    def _hand_over(self, call: _Call) -> bool:
        """Gives the run to the standby, if there is one that can take it."""
        ahead, self._standby = self._standby, None
        if ahead is None:
            return False
        if len(call.files) > standby.MAX_FILES:
            self._standby = ahead
            return False
        call.cpu_before = ahead.cpu_seconds()
        if not ahead.take(call.reply, call.body, call.files):
            return False
        call.pid = ahead.pid
        return True

    def _make_standby(self) -> None:
        gc.freeze()
        parent = os.getpid()
        work = functools.partial(self._run, parent)
        with contextlib.suppress(OSError):  # runs are forked then
            self._standby = standby.fork(self._jail.descriptors, self._rehearse, work)

    def _dismiss_standby(self) -> None:
        """What it holds is no longer what a run is to find."""
        if self._standby is not None:
            self._standby.discard()
            self._standby = None

    def _rehearse(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        bodies.rehearse(self._language)

    def _fork_run(self, call: _Call, parent: int) -> NoReturn:
        """In the new process: nothing of the zygote's own stays in reach."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with(parent)
            close_descriptors((call.reply, call.body, *call.files.values(), *self._jail.descriptors))
            self._run(parent, call.reply, call.body, call.files)
        finally:
            os._exit(1)

    def _run(self, parent: int, reply: int, body: int, files: dict[int, int]) -> NoReturn:
        request = _read_request(body)
        jail = self._jail.less(request.without)
        prepare = functools.partial(self._prepare, request, files)
        terms = request.terms
        if request.mode == "jq":
            terms = jqworker.with_data(terms, sum(os.fstat(file).st_size for file in files.values()))
        worker.execute(terms, prepare, jail, reply=reply, parent=parent)

    def _prepare(self, request: wire.Request, files: dict[int, int]) -> worker.Body:
        if request.mode == "jq":
            payload, path = request.payloads[0], json.loads(request.variables[0].path)
            source = files[0] if files else payload.inline or b""
            return jqworker.jq_body(request, jqworker.value_text(source, payload.content_type, path))
        loaded = self._loaded(request, files)
        if request.mode == "sql":
            return sqlbody.sql_body(request, loaded)
        bindings = _bind(request, loaded)
        if request.mode == "pick":
            return jqworker.pick_body(request, bindings.values["input"])
        if request.mode == "raw":
            return bodies.raw_body(request, bindings)
        return bodies.language_body(self._language, request, bindings)

    def _loaded(self, request: wire.Request, files: dict[int, int]) -> dict[int, Loaded]:
        """The request's payloads, by index."""
        loaded: dict[int, Loaded] = {}
        for index, (payload, wanted) in enumerate(zip(request.payloads, wanted_of(request), strict=True)):
            if payload.inline is None and index not in files:
                assert self._store is not None
                loaded[index] = self._store.entry(payload.entry)
                continue
            raw = wire.read_memory_file(files[index]) if payload.inline is None else payload.inline
            loaded[index] = Loaded()
            loaded[index].load(payload.content_type, raw, wanted)
            loaded[index].build(wanted)
        return loaded

    def _build_frames(self, call: _Call, request: wire.Request, store: Store) -> None:
        """DataFrames of values that are there already are built here, once, and shared by the session's runs."""
        for payload, wanted in zip(request.payloads, call.wanted, strict=True):
            if payload.inline is None and wanted.frames:
                entry = store.entry(payload.entry)
                with _sized(entry, 0):
                    entry.build(wanted)
                    if request.mode == "sql":
                        for path in wanted.frames & entry.frames.keys() - entry.tables.keys():
                            entry.tables[path] = sqltables.arrow_of(entry.frames[path])

    def _learn_plots(self) -> None:
        with contextlib.suppress(Exception):  # a broken installation is none: the code is told that there are no plots
            self._language.learn_plots()

    def _fork_session(self, order: wire.Fork, channel: int) -> None:
        if order.plots:
            self._learn_plots()
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
            close_descriptors((channel, *self._jail.descriptors))
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (address_space() + 2 * order.memory_bytes, hard))
            store = Store(order.memory_bytes)
            Zygote(socket.socket(fileno=channel), self._jail, self._language, store).serve()
        finally:
            os._exit(1)

    def _refuse(self, call: _Call, kind: str, message: str) -> None:
        self._tell(call, wire.Refused(kind, message))
        self._drop(call)

    def _drop(self, call: _Call) -> None:
        """The host no longer waits for the run: what still runs is killed, and reaped in its time."""
        self._calls.remove(call)
        call.channel.close()
        if call.pid:
            os.kill(call.pid, signal.SIGKILL)
        else:
            call.close_files()

    def _tell(self, call: _Call, news: wire.News) -> None:
        with contextlib.suppress(wire.Broken):  # the host gave up: the end of the stream comes next
            wire.send(call.channel, news)

    def _enforce(self) -> None:
        now = time.monotonic()
        for call in self._calls:
            if call.pid and not call.timed_out and call.deadline <= now:
                call.timed_out = True
                os.kill(call.pid, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._standby is not None and self._standby.pid == pid:
                self._standby = None
            for session, session_pid in list(self._sessions.items()):
                if session_pid == pid:
                    del self._sessions[session]
            for call in self._calls:
                if call.pid == pid:
                    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
                    self._tell(call, wire.Ended(ended, code, call.timed_out, max(0.0, usage.ru_utime + usage.ru_stime - call.cpu_before)))
                    self._calls.remove(call)
                    call.channel.close()
                    break


@contextlib.contextmanager
def _sized(entry: Loaded, least: int) -> Iterator[None]:
    """Notes what an entry grew by in here, as far as it can be told."""
    before = resident()
    yield
    entry.size += max(least, resident() - before)


def _read_request(body: int) -> wire.Request:
    return _REQUESTS.decode(wire.read_memory_file(body))


def _bind(request: wire.Request, loaded: dict[int, Loaded]) -> Bindings:
    bindings = Bindings()
    for variable in request.variables:
        entry = loaded[variable.payload]
        frame = entry.frames.get(variable.path)
        if frame is not None:
            bindings.frames[variable.name] = frame
        if variable.frame and frame is not None:
            bindings.values[variable.name] = frame
        elif variable.is_value or frame is None:
            bindings.values[variable.name] = entry.at(variable.path)
        else:
            bindings.values[variable.name] = OnlyTable(variable.name)
    return bindings
