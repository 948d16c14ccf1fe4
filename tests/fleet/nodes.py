"""The processes of a fleet: each has an engine of its own, and answers what comes down its pipe, many requests at once.

A node knows nothing of a conversation but what is in the database and the bucket: it opens the session for each request.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from byref import AsyncEngine, CharCounter, Engine, Policy
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.conversation.result import Result, ToolReply
from byref.stores import ObjectStore
from byref_sandbox import Outcome

POLICY = Policy(max_result_tokens=1_000, plaintext="truncate", run_seconds=60)
TOOLS = ("code_interpreter", "artifact_jq", "artifact_grep", "artifact_read")
THREADS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One call of a method of a session, or of the engine where no session is named."""

    method: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    session: str | None = None
    tenant: str = "default"
    opened: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the session is opened with."""
    runs_code: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Raised:
    """What a request raised."""

    kind: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Storage:
    """Where a fleet's state is."""

    url: str
    bucket: str
    settings: Mapping[str, Any]

    def store(self) -> ObjectStore:
        """A client of the bucket, for this process."""
        return ObjectStore(self.bucket, prefix="fleet", **self.settings)


def serve(pipe: Connection, storage: Storage, *, is_async: bool) -> None:
    """Answer requests until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    (asyncio.run(_serve_async(pipe, storage)) if is_async else _serve(pipe, storage))


def _serve(pipe: Connection, storage: Storage) -> None:
    lock = threading.Lock()

    def answer(number: int, request: Request) -> None:
        try:
            if request.session is None:
                told = getattr(engine, request.method)(*request.arguments, **request.named)
            else:
                session = engine.session(
                    request.session, tenant=request.tenant, **({"tools": TOOLS, "policy": POLICY} | request.opened)
                )
                told = _act(session, request)
            told = plain(told)
        except Exception as error:
            told = Raised(type(error).__name__, str(error))
        with lock:
            pipe.send((number, told))

    with (
        Engine(storage.url, create=False, blobs=storage.store(), counter=CharCounter()) as engine,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        while (received := _received(pipe)) is not None:
            threads.submit(answer, *received)


async def _serve_async(pipe: Connection, storage: Storage) -> None:
    async def answer(number: int, request: Request) -> None:
        try:
            if request.session is None:
                told = await getattr(engine, request.method)(*request.arguments, **request.named)
            else:
                session = await engine.session(
                    request.session, tenant=request.tenant, **({"tools": TOOLS, "policy": POLICY} | request.opened)
                )
                told = _act(session, request)
                told = await told if asyncio.iscoroutine(told) else told
                if request.method == "value":
                    told = await session.value(told)
            told = plain(told)
        except Exception as error:
            told = Raised(type(error).__name__, str(error))
        pipe.send((number, told))

    tasks: set[asyncio.Task[None]] = set()
    storing = {"blobs": storage.store(), "counter": CharCounter()}
    async with AsyncEngine(storage.url, create=False, workers=THREADS, **storing) as engine:
        while (received := await asyncio.to_thread(_received, pipe)) is not None:
            task = asyncio.create_task(answer(*received))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)


def _received(pipe: Connection) -> tuple[int, Request] | None:
    try:
        received: tuple[int, Request] | None = pipe.recv()
    except EOFError:
        os._exit(1)  # whoever sent them is gone
    return received


def _act(session: Any, request: Request) -> Any:
    match request.method:
        case "value":
            found = session.variable(*request.arguments)
            return found if asyncio.iscoroutine(found) else found.value()
        case "process_stream":
            return session.process(_pieces(*request.arguments), **request.named)
        case "store_stream":
            return session.store_artifact(_pieces(*request.arguments), **request.named)
        case method:
            return getattr(session, method)(*request.arguments, **request.named)


def _pieces(text: str, size: int) -> Iterator[str]:
    yield from (text[start : start + size] for start in range(0, len(text), size))


def plain(value: Any) -> Any:
    """Whatever was answered, as plain data that can be sent and compared."""
    match value:
        case Artifact():
            return {"id": value.id, "digest": value.digest.hex(), "name": value.name, "size": value.size_bytes}
        case Variable():
            return {"name": value.name, "origin": value.origin, "revision": value.revision}
        case Result():
            fields = ("content", "route", "reason", "step", "artifacts", "tokens", "original_tokens")
            names = [variable.name for variable in value.variables]
            return {name: plain(getattr(value, name)) for name in fields} | {"variables": names}
        case ToolReply():
            return {"content": value.content, "is_error": value.is_error, "step": value.step, "tokens": value.tokens}
        case Outcome():
            return {"value": value.value, "error": plain(value.error), "stdout": value.stdout}
        case dict() | Mapping():
            return {key: plain(part) for key, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value


GRACE = timedelta(minutes=5)
"""Of the sweeps in between: what is being stored is left alone."""
