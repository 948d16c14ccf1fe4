"""A server as a child process that speaks over standard input and output; input is bounded, and its process tree is stopped."""

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
"""Lines in a row that are not messages; a process that writes more does not speak this protocol."""
_LEASED = 1 << 20
"""Bytes by which the lease for a long line grows."""
EXIT_SECONDS = 2.0
"""Seconds for a server to exit after its input was closed, and again after SIGTERM."""
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
"""Ends a process group: two seconds to exit, SIGTERM, two more seconds, SIGKILL."""


@asynccontextmanager
async def child_process(config: ServerConfig, relay: Relay, allowance: Allowance) -> AsyncIterator[Channel]:
    """Start a server and yield the channel to it; at the end the server and its children are stopped.

    Raises:
        Broken: the server cannot be started, or it wrote something that cannot be read.
    """
    try:
        process = await anyio.open_process(config.command, env=config.env, cwd=config.cwd, start_new_session=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Broken(f"the command {config.command[0]!r} could not be started: {reason}") from error
    # No await before the task group is entered: a cancellation there would leave the process running. Opening the streams does not
    # yield to the event loop.
    async with streams() as (received_in, received, sent, sent_out):
        with guarded(process.pid):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_read, process, received_in, relay, allowance)
                tasks.start_soon(_write, process, sent_out, received_in)
                tasks.start_soon(_relay_errors, process, relay)
                try:
                    yield Channel(received, sent, lambda: _ending(process))
                finally:
                    # Shielded: also a cancelled gateway stops its servers.
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
                    # Some servers print a greeting; one that prints without end is not an MCP server.
                    if strays > MAX_STRAY_LINES:
                        raise Broken(f"it wrote {strays:,} lines that are no messages")
                    continue
                strays = 0
                await into.send(SessionMessage(message))
                del message  # else it would be held until the next one comes
        except Broken as broken:
            await into.send(broken)
        except Oversized as error:  # the id is unknown, so no request can be failed
            await into.send(Broken(str(error)))
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for _ in process.stdout:  # keep its pipe empty: a server blocked on writing cannot exit
            pass


async def _lines(stream: ByteReceiveStream, lease: Lease) -> AsyncIterator[bytes]:
    """Yield a stream's lines; however many pieces a line comes in, it is joined only once, and a long line is leased."""
    pieces = Pieces()
    async for chunk in stream:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            if pieces.size:
                pieces.add(piece)
                piece = await pieces.joined()
            if piece:
                yield piece
            lease.release()  # the caller has read the line; `read` leases the memory of its objects itself
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
                except Exception as error:  # noqa: BLE001  one bad message must not end the connection
                    if isinstance(item.message, JSONRPCRequest):
                        reason = f"the request cannot be sent: {type(error).__name__}"
                        await received.send(SessionMessage(failed(item.message.id, reason)))
                    continue
                await process.stdin.send(data + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        received.close()  # requests that wait for an answer must fail


async def _relay_errors(process: Process, relay: Relay) -> None:
    assert process.stderr is not None
    try:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in process.stderr:
                relay.chunk(chunk)
    finally:
        relay.end()


async def _stop(process: Process) -> None:
    """Close the server's input, give it time to exit, then kill its process group."""
    if process.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
    if not await _gone(process, EXIT_SECONDS):
        _signal(process, signal.SIGTERM)
        await _gone(process, EXIT_SECONDS)
    _signal(process, signal.SIGKILL)  # also kills children that outlived the server
    # A pipe that nobody reads to its end would only be closed after the event loop is, so it is closed here.
    with anyio.move_on_after(EXIT_SECONDS), suppress(OSError, anyio.BrokenResourceError):
        await process.aclose()


async def _ending(process: Process) -> str:
    """Return how the server ended, if it did."""
    if not await _gone(process, 0.5):
        return "it closed its output"
    code = process.returncode or 0
    return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it exited with code {code}"


async def _gone(process: Process, seconds: float) -> bool:
    # Not `wait`, which also waits for the pipes: a child of the server may hold them open.
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    # The process leads a session of its own, so its process id is also its group's.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@contextmanager
def guarded(group: int) -> Iterator[None]:
    """Have a process group ended some seconds after this process was killed, when it cannot end the group itself.

    A server that ignores the end of its input would run for ever. `PR_SET_PDEATHSIG` would kill the server at once, without an
    orderly exit, and spare its children. So a shell beside the server waits for the end of a pipe that only the gateway holds.
    Without a shell on the machine nothing is done.
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
