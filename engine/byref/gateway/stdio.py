"""A server as a child process: messages by its standard input and output, all of it bounded, its whole tree stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest

from byref.gateway.channel import Broken, Channel, streams
from byref.gateway.config import ServerConfig
from byref.gateway.messages import MAX_MESSAGE_BYTES, Allowance, Lease, Oversized, Pieces, failed, read, sendable
from byref.gateway.relay import Relay

MAX_STRAY_LINES = 10_000
"""Lines that are no messages, one after the other: more is no server of this protocol."""
_LEASED = 1 << 20
"""Bytes of a line that are leased at once."""
EXIT_SECONDS = 2.0
"""To end by itself after its input closed, and again after SIGTERM."""
SHELL = "/bin/sh"
_GUARD = """
read -r word
for signal in TERM KILL; do
    for second in 1 2; do
        kill -s 0 -- "-$1" || exit 0
        sleep 1
    done
    kill -s "$signal" -- "-$1"
done
"""
"""Ends a process group: two seconds to end by itself, two more after SIGTERM."""


@asynccontextmanager
async def child_process(config: ServerConfig, relay: Relay, allowance: Allowance) -> AsyncIterator[Channel]:
    """Start a server and yield the channel to it; at the end it and all its children are stopped.

    Raises:
        Broken: it cannot be started, or it wrote what nobody can read.
    """
    try:
        process = await anyio.open_process(config.command, env=config.env, cwd=config.cwd, start_new_session=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Broken(f"the command {config.command[0]!r} could not be started: {reason}") from error
    # No await until the task group is entered: a cancellation in between would leave the process running. To open the
    # streams is none.
    async with streams() as (received_in, received, sent, sent_out):
        with guarded(process.pid):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_read, process, received_in, relay, allowance)
                tasks.start_soon(_write, process, sent_out, received_in)
                tasks.start_soon(_relay_errors, process, relay)
                try:
                    yield Channel(received, sent, lambda: _ending(process))
                finally:
                    with anyio.CancelScope(shield=True):
                        received.close()
                        sent.close()
                        await _stop(process)
                    tasks.cancel_scope.cancel()


async def _read(process: Process, into: MemoryObjectSendStream[Any], relay: Relay, allowance: Allowance) -> None:
    assert process.stdout is not None
    strays = 0
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError), into:
        try:
            async for line in _lines(process.stdout, Lease(allowance)):
                message = await read(line, allowance)
                if message is None:
                    if line.strip():
                        strays += 1
                        relay.line(line, "stdout")
                    if strays > MAX_STRAY_LINES:
                        raise Broken(f"it wrote {strays:,} lines that are no messages")
                    continue
                strays = 0
                await into.send(SessionMessage(message))
        except Broken as broken:
            await into.send(broken)
        except Oversized as error:  # and nobody knows whose answer it was
            await into.send(Broken(str(error)))
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for _ in process.stdout:  # a server that cannot write cannot end by itself
            pass


async def _lines(stream: ByteReceiveStream, lease: Lease) -> AsyncIterator[bytes]:
    """The lines of a stream, each put together once, however many pieces it comes in; a long one is leased."""
    pieces = Pieces()
    async for chunk in stream:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            if pieces.size:
                pieces.add(piece)
                piece = await pieces.joined()
            if piece:
                yield piece
            lease.release()
        pieces.add(rest)
        if pieces.size > lease.size + _LEASED:
            await lease.grow(_LEASED)
        if pieces.size > MAX_MESSAGE_BYTES:
            raise Broken(f"it wrote a message of more than {MAX_MESSAGE_BYTES >> 20} MB")


async def _write(process: Process, out: MemoryObjectReceiveStream[Any], received: MemoryObjectSendStream[Any]) -> None:
    assert process.stdin is not None
    try:
        async with out:
            async for item in out:
                try:
                    data = await sendable(item.message)
                except Exception as error:  # noqa: BLE001  one message's failure is its own
                    if isinstance(item.message, JSONRPCRequest):
                        reason = f"the request cannot be sent: {type(error).__name__}"
                        await received.send(SessionMessage(failed(item.message.id, reason)))
                    continue
                await process.stdin.send(data + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        received.close()  # who waits for an answer is to know


async def _relay_errors(process: Process, relay: Relay) -> None:
    assert process.stderr is not None
    try:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in process.stderr:
                relay.chunk(chunk)
    finally:
        relay.end()


async def _stop(process: Process) -> None:
    """Close its input, give it time to end, then end its process group."""
    if process.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
    if not await _gone(process, EXIT_SECONDS):
        _signal(process, signal.SIGTERM)
        await _gone(process, EXIT_SECONDS)
    _signal(process, signal.SIGKILL)  # children that outlived it, too
    # Its pipes as well: one that nobody reads to its end would be closed after the loop is.
    with anyio.move_on_after(EXIT_SECONDS), suppress(OSError, anyio.BrokenResourceError):
        await process.aclose()


async def _ending(process: Process) -> str:
    """How it ended, if it did."""
    if not await _gone(process, 0.5):
        return "it closed its output"
    code = process.returncode or 0
    return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it exited with code {code}"


async def _gone(process: Process, seconds: float) -> bool:
    # Not `wait`, which waits for the pipes as well: a child of its may hold them.
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    # Its process id is its group's: it leads a session of its own.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@contextmanager
def guarded(group: int) -> Iterator[None]:
    """See to it that a process group ends some seconds after this process was killed, and could not end it.

    A server that ignores the end of its input would live for ever. `PR_SET_PDEATHSIG` would end it at once, and it alone: not
    what it started, and it could not leave in order. So a shell waits beside it for the end of a pipe that only the gateway
    holds. Where there is no shell nothing is done.
    """
    try:
        guard = subprocess.Popen(
            [SHELL, "-c", _GUARD, "byref-guard", str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        yield
        return
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
        assert guard.stdin is not None
        with suppress(OSError):
            guard.stdin.close()
