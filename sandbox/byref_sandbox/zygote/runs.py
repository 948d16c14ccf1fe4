"""From a fork to a run: the request is read, its data is found or decoded, its body is made; then `run.worker` takes over.

All of this happens in the run's own process and before the jail. The request comes from the host, the payloads from tools: they
are decoded by the same bounded readers as in a session's zygote, and what goes wrong ends this process alone. What another run wrote
(`EXACT`) is only carried along here: it is read inside the jail.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

import msgspec

from byref_sandbox import wire
from byref_sandbox.jail.jail import Jail
from byref_sandbox.jail.libc import name_process
from byref_sandbox.language import clock
from byref_sandbox.outcome import Failure
from byref_sandbox.run import bodies, chance, jqbody, sqlbody, tablesbody, worker
from byref_sandbox.run.calls import Calls
from byref_sandbox.state.known import Known
from byref_sandbox.values.bindings import Bindings, OnlyTable
from byref_sandbox.values.data import EXACT
from byref_sandbox.values.loaded import Budget, Loaded, Store, wanted_of
from byref_sandbox.zygote import heap

_REQUESTS: Final = msgspec.msgpack.Decoder(wire.Request)
_TERMS: Final = wire.Terms(1.0, 1.0, 1 << 20, 1_000, 1 << 20, 100)
_ANYTHING: Final = "rehearsed = 1 + 1\nrehearsed"
_OVER_TABLES: Final = """
table = pd.DataFrame({"g": ["a", "b", "a"], "n": [1.5, 2.5, 3.5]})
table.groupby("g")["n"].sum().round(2).to_dict()
"""
_TIMES: Final = 12
"""Python adapts a function to what it does after eight calls."""


def _request(source: str) -> wire.Request:
    return wire.Request("code", source, _TERMS, keeps=True)


def read_request(body: int) -> wire.Request:
    """Read the request in a memfd; raise DecodeError of anything that is no request, deep nesting and bad UTF-8 included."""
    try:
        return _REQUESTS.decode(wire.read_memory_file(body))
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None


class Runs:
    """What the runs of one zygote have in common. `store` holds the session's decoded data; the root has none."""

    def __init__(self, jail: Jail, language: Any, store: Store | None, known: Known) -> None:
        self._jail = jail
        self._language = language
        self.known = known
        """What a stream names: made once, before the processes are forked that read one."""
        self._store = store
        self._is_seeded = False
        """Whether this process has random numbers of its own already."""

    def practise(self) -> None:
        """In the root: do what runs do until Python has adapted its code to it (PEP 659).

        Otherwise each fork would have to, which takes time, and writes to pages that it shares.
        """
        depth = sys.getrecursionlimit()
        for _ in range(_TIMES):
            for source in (_ANYTHING, _OVER_TABLES):
                for frame in self._prepare(_request(source), {}, None)(worker.Captured(_TERMS.stdout_bytes)):
                    wire.pack(frame)
        sys.setrecursionlimit(depth)

    def rehearsals(self) -> Iterator[None]:
        """In a standby: do what runs do, and, where this session has big tables, what runs over tables do, step by step.

        All that is left of it are memory pages of the process's own, so a run that comes in between need not wait for the rest.
        """
        _be_no_zygote("byref:standby")
        chance.seed(None)
        self._is_seeded = True
        yield
        self._rehearse(_ANYTHING)
        if self._store is not None and self._store.has_big_tables:
            yield
            self._rehearse(_OVER_TABLES)

    def _rehearse(self, source: str) -> None:
        reader, reply = os.pipe()
        body = wire.memory_file([msgspec.msgpack.encode(_request(source))])
        self._execute(worker.rehearse, os.getppid(), reply, body, {})
        for descriptor in (reader, reply, body):
            os.close(descriptor)

    def run(self, parent: int, reply: int, body: int, files: Mapping[int, int]) -> NoReturn:
        """In a process of its own: do one run, from its request to its end. `files` are memfds of payloads, by index."""
        try:
            _be_no_zygote("byref:run")
            self._execute(worker.execute, parent, reply, body, files)
        finally:
            os._exit(1)

    def _execute(
        self, execute: Callable[..., None], parent: int, reply: int, body: int, files: Mapping[int, int]
    ) -> None:
        heap.use_for_run()
        try:
            request = read_request(body)
        except msgspec.DecodeError as error:
            worker.refuse(reply, Failure("ValueError", f"the request could not be read: {error}"))
        if request.seed is not None or not self._is_seeded:
            chance.seed(request.seed)
        terms = request.terms
        if request.mode == "jq":
            terms = jqbody.with_data(terms, sum(os.fstat(file).st_size for file in files.values()))
        payloads = dict(files)
        calls = payloads.pop(wire.CALLS, None)
        pauses = worker.Pauses(terms.wait_seconds)
        line = None if calls is None else Calls(calls, terms.result_bytes, pauses)
        prepare = functools.partial(self._prepare, request, payloads, line)
        jail = self._jail.less(request.without)
        end = None if line is None else line.descriptor
        execute(terms, prepare, jail, reply=reply, line=end, parent=parent, pauses=pauses)

    def _prepare(self, request: wire.Request, files: Mapping[int, int], line: Calls | None) -> worker.Body:
        if request.mode == "jq":
            payload, path = request.payloads[0], json.loads(request.variables[0].path)
            source = files[0] if files else payload.inline or b""
            if payload.content_type == EXACT:
                return jqbody.exact_body(
                    request, source if isinstance(source, bytes) else wire.read_memory_file(source)
                )
            return jqbody.jq_body(request, jqbody.value_text(source, payload.content_type, path))
        if request.mode == "template":
            # Not imported above, since Jinja may be missing. Where it is there, `warm` has loaded this.
            from byref_sandbox.run import templatebody

            return templatebody.template_body(request)
        if request.mode == "tables":
            payload = request.payloads[0]
            return tablesbody.tables_body(request, wire.read_memory_file(files[0]) if files else payload.inline or b"")
        loaded = self._loaded(request, files)
        if request.mode == "sql":
            return sqlbody.sql_body(request, loaded)
        bindings = _bind(request, loaded)
        if request.mode == "pick":
            return jqbody.pick_body(request, bindings.values["input"])
        if request.mode == "raw":
            return bodies.raw_body(request, bindings)
        if request.began_at is not None:
            clock.set_clock(request.began_at)
        blobs = request.state.blobs if request.state is not None else {}

        def blob_of(digest: bytes) -> bytes:
            if digest not in blobs:
                raise LookupError(request.state.missing.get(digest, "it is no longer there") if request.state else "")
            found = loaded[blobs[digest]].value
            assert isinstance(found, bytes)
            return found

        return bodies.language_body(self._language, self.known, request, bindings, blob_of, line)

    def _loaded(self, request: wire.Request, files: Mapping[int, int]) -> dict[int, Loaded]:
        """Return the request's payloads, by index."""
        loaded: dict[int, Loaded] = {}
        budget = Budget()  # without a bound: this process is the run's, whose deadline has begun
        for index, (payload, wanted) in enumerate(zip(request.payloads, wanted_of(request), strict=True)):
            if payload.inline is None and index not in files:
                assert self._store is not None
                loaded[index] = self._store.entry(payload.entry)
                continue
            raw = wire.map_memory_file(files[index]) if payload.inline is None else payload.inline
            loaded[index] = Loaded()
            loaded[index].load(payload.content_type, raw, wanted, budget)
            loaded[index].build(wanted, budget)
        return loaded


def _be_no_zygote(name: str) -> None:
    """Undo in a fork what its zygote set up for its loop: a signal would write to a pipe that is no longer there."""
    name_process(name)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _bind(request: wire.Request, loaded: dict[int, Loaded]) -> Bindings:
    bindings = Bindings()
    bindings.not_loaded = frozenset(request.not_loaded)
    for file in request.files:
        content = loaded[file.payload].at(b"[]")
        assert isinstance(content, bytes)
        bindings.files[file.name] = content
    bindings.hidden = {variable.name for variable in request.variables if variable.is_hidden}
    for variable in request.variables:
        entry = loaded[variable.payload]
        frame = entry.frames.get(variable.path)
        made = entry.constructed.get(variable.path) if variable.is_constructed else None
        if frame is not None:
            bindings.frames[variable.name] = frame
        if variable.frame and frame is not None:
            bindings.values[variable.name] = frame
        elif made is not None and not variable.is_value and not (variable.is_table and frame is None):
            bindings.values[variable.name] = made  # (without its frame, `df` would take it for that)
        elif variable.is_value or variable.is_constructed or frame is None:
            bindings.values[variable.name] = value = entry.at(variable.path)
            if made is not None:
                bindings.constructed.append((value, made))
            if variable.frame:
                bindings.as_frames.add(variable.name)
        else:
            bindings.values[variable.name] = OnlyTable(variable.name)
    return bindings
