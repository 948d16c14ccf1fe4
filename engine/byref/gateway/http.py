"""A server at an address, over streamable HTTP or SSE.

The SDK's own transports limit events to 1 MiB, which big results exceed, read messages on the event loop, and do not report the
HTTP status. The transports here have the same bound for a message as those of processes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, ServerMessageMetadata, SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from byref.errors import one_line
from byref.gateway.bodies import ENCODINGS, body, events
from byref.gateway.channel import Broken, Channel, streams
from byref.gateway.config import ServerConfig
from byref.gateway.containment import is_failure
from byref.gateway.messages import Allowance, Lease, Oversized, read, sendable

CONNECT_SECONDS = 30.0
RECONNECTS = 3
"""Attempts to continue a stream of events that ended before the answer came."""
RECONNECT_SECONDS = 1.0
"""Pause before a stream is opened again if the server names none; doubled after each stream that ended soon and without an
event id."""
STEADY_SECONDS = 10.0
"""A stream that lasted so long did not end soon: many proxies end streams that are silent."""
HTTP_STATUS = "httpStatus"
"""Key in an error's data that marks the error as the transport's, not the server's."""
NOT_SENT = "notSent"
"""Key in an error's data that says that the server never got the request."""
_MAX_PAUSE = 30.0
_MAX_SESSION_CHARS = 1_000
_MAX_ADDRESS_BYTES = 10_000
"""Length of the address that an SSE stream names for messages to the server."""
_MAX_ERROR_BYTES = 1 << 20
"""Length of the body of an answer whose HTTP status is 300 or more."""
_SESSION = "mcp-session-id"

logger = logging.getLogger("byref")


@asynccontextmanager
async def http_server(config: ServerConfig, allowance: Allowance) -> AsyncIterator[Channel]:
    """Yield the channel to a server; if the server made a session, it is deleted at the end."""
    async with bounded_client(config.headers) as client, streams() as (received_in, received, sent, sent_out):
        async with anyio.create_task_group() as tasks:
            link = _Link(config.url, client, received_in, tasks, allowance)
            tasks.start_soon(link.send_all, sent_out)
            try:
                yield Channel(received, sent, link.ending)
            finally:
                tasks.cancel_scope.cancel()
        await link.delete()


@asynccontextmanager
async def sse_server(config: ServerConfig, allowance: Allowance) -> AsyncIterator[Channel]:
    """Yield the channel to a server of the 2024 protocol: one event stream brings its messages and names the address for ours.

    Raises:
        Broken: the stream names no address, or one on another host.
        HTTPError: there is no stream.
    """
    async with bounded_client(config.headers) as client, streams() as (received_in, received, sent, sent_out):
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        async with client.stream("GET", config.url, headers=headers) as response, anyio.create_task_group() as tasks:
            response.raise_for_status()
            if not _is_stream(response):
                raise Broken("it answered with no stream of events")
            link = _Stream(config.url, client, received_in, tasks, allowance)
            tasks.start_soon(link.listen, response)
            with anyio.move_on_after(CONNECT_SECONDS):
                await link.has_address.wait()
            if link.address is None:
                raise Broken(await link.ending() if link.has_address.is_set() else "it named no address to send to")
            tasks.start_soon(link.send_all, sent_out)
            try:
                yield Channel(received, sent, link.ending)
            finally:
                tasks.cancel_scope.cancel()


def bounded_client(headers: Any) -> httpx2.AsyncClient:
    """Return a client for encodings that `bodies` can bound; it follows no redirect, as configured headers may hold keys."""
    return httpx2.AsyncClient(
        headers={"accept-encoding": ENCODINGS, **dict(headers)},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        follow_redirects=False,
    )


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


def failure(error: BaseException) -> str:
    """Say briefly why a server could not be reached; never quote headers or the query of its address."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered HTTP {error.response.status_code}"
    if isinstance(error, httpx2.HTTPError):
        return f"{type(error).__name__}: {one_line(error, 200)}".removesuffix(": ")
    if isinstance(error, Broken | Oversized):
        return one_line(error)
    # Other libraries' messages may contain the address, and the address may contain a key.
    return f"{type(error).__name__}{f': {error.strerror}' if isinstance(error, OSError) and error.strerror else ''}"


class _Connection:
    """The common part of both transports: where received messages go, and why no more come."""

    def __init__(
        self,
        url: str,
        client: httpx2.AsyncClient,
        received: MemoryObjectSendStream[Any],
        tasks: TaskGroup,
        allowance: Allowance,
    ) -> None:
        self._url = url
        self._client = client
        self._received = received
        self._tasks = tasks
        self._allowance = allowance
        self._reason = "the connection ended"

    async def ending(self) -> str:
        return self._reason

    async def _fail(self, id: RequestId, code: int, reason: str, data: Any = None) -> None:
        await self._put(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=reason, data=data)))

    async def _put(self, message: Any, related: RequestId | None = None) -> None:
        metadata = None if related is None else ServerMessageMetadata(related_request_id=related)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._received.send(SessionMessage(message, metadata))

    async def _broken(self, reason: str) -> None:
        self._reason = reason
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._received.send(Broken(reason))


class _Stream(_Connection):
    """An SSE connection, where one stream brings all answers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.address: str | None = None
        self.has_address = anyio.Event()
        """Also set once it is known that no address will come."""

    async def listen(self, response: httpx2.Response) -> None:
        try:
            async for event in events(response, self._allowance):
                if event.name == "endpoint":
                    self._take_address((await event.data.joined())[:_MAX_ADDRESS_BYTES].decode("utf-8", "replace"))
                elif event.name in ("", "message") and event.data.size:
                    message = await read(await event.data.joined(), self._allowance)
                    event.lease.release()
                    if message is not None:
                        await self._put(message)
                    del message  # else it would be held until the next one comes
        except BaseException as error:
            if not is_failure(error):
                raise
            self._reason = failure(error)
        self.has_address.set()
        await self._broken(self._reason)

    def _take_address(self, named: str) -> None:
        address = urljoin(self._url, named)
        here, there = urlsplit(self._url), urlsplit(address)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise Broken("it named an address of another server to send to")
        self.address = address
        self.has_address.set()

    async def send_all(self, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in out:
            self._tasks.start_soon(self._send, item.message)

    async def _send(self, message: Any) -> None:
        assert self.address is not None
        try:
            headers = {"content-type": "application/json"}
            async with self._client.stream(
                "POST", self.address, content=await sendable(message), headers=headers
            ) as response:
                response.raise_for_status()
        except BaseException as error:
            if not is_failure(error):
                raise
            if isinstance(message, JSONRPCRequest):
                await self._fail(message.id, INTERNAL_ERROR, f"the request could not be sent: {failure(error)}")


class _Link(_Connection):
    """A streamable HTTP connection: the headers that every request carries, and the requests in progress."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._session: str | None = None
        self._version: str | None = None
        self._posts: dict[RequestId, anyio.CancelScope] = {}

    async def send_all(self, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in out:
            message, headers = item.message, {}
            if isinstance(item.metadata, ClientMessageMetadata) and item.metadata.headers:
                headers = dict(item.metadata.headers)
                self._version = headers.get(MCP_PROTOCOL_VERSION_HEADER, self._version)
            if isinstance(message, JSONRPCRequest):
                scope = self._posts[message.id] = anyio.CancelScope()
                self._tasks.start_soon(self._request, message, headers, scope)
            elif not self._aborted(message):
                await self._notify(message)
                if isinstance(message, JSONRPCNotification) and message.method == "notifications/initialized":
                    self._tasks.start_soon(self._listen)

    def _aborted(self, message: Any) -> bool:
        """Cancel a request by ending its stream, as is done since 2026; return True if the message needs no sending."""
        if self._version not in MODERN_PROTOCOL_VERSIONS or not isinstance(message, JSONRPCNotification):
            return False
        scope = self._posts.get((message.params or {}).get("requestId", ""))
        if message.method == "notifications/cancelled" and scope is not None:
            scope.cancel()
        return True  # since 2026 there are no other notifications to a server

    def _headers(self) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self._session is not None:
            headers[_SESSION] = self._session
        if self._version is not None:
            headers[MCP_PROTOCOL_VERSION_HEADER] = self._version
        return headers

    async def _notify(self, message: Any) -> None:
        try:
            async with self._client.stream("POST", self._url, content=await sendable(message), headers=self._headers()):
                pass  # a notification has no answer
        except httpx2.HTTPError as error:
            await self._broken(failure(error))
        except (ValueError, RecursionError):
            logger.exception("a notification could not be sent")

    async def _request(self, message: JSONRPCRequest, headers: dict[str, str], scope: anyio.CancelScope) -> None:
        try:
            with scope:
                content = await sendable(message)
                async with self._client.stream(
                    "POST", self._url, content=content, headers={**self._headers(), **headers}
                ) as response:
                    await self._answer(message, response)
        # The server cannot be reached at all, so the whole connection is given up; the other errors concern one request.
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            await self._fail(message.id, CONNECTION_CLOSED, failure(error), {NOT_SENT: True})
            await self._broken(failure(error))
        except (Oversized, httpx2.DecodingError) as error:
            await self._fail(message.id, INTERNAL_ERROR, str(error))
        except httpx2.HTTPError as error:
            await self._fail(message.id, CONNECTION_CLOSED, failure(error))
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.exception("a request to the server %r failed", self._allowance.server)
            await self._fail(message.id, INTERNAL_ERROR, f"the request failed: {failure(error)}")
        finally:
            if self._posts.get(message.id) is scope:
                del self._posts[message.id]

    async def _answer(self, message: JSONRPCRequest, response: httpx2.Response) -> None:
        if response.status_code >= 300:
            await self._refused(message, response)
            return
        if message.method == "initialize":
            named = response.headers.get(_SESSION)
            self._session = named if named is None or len(named) <= _MAX_SESSION_CHARS else None
        kind = response.headers.get("content-type", "").lower()
        if _is_stream(response):
            await self._follow(message.id, response)
        elif kind.startswith("application/json"):
            data, lease = await body(response, self._allowance)
            await self._deliver(data, message.id, lease)
        else:
            what = f"HTTP {response.status_code} with content of type {kind[:100]!r} instead of an answer"
            await self._fail(message.id, INTERNAL_ERROR, what)

    async def _refused(self, message: JSONRPCRequest, response: httpx2.Response) -> None:
        reason = f"HTTP {response.status_code}"
        if response.status_code == 404 and self._session is not None:
            reason = "its session is over (HTTP 404)"
            await self._fail(message.id, CONNECTION_CLOSED, reason, {HTTP_STATUS: 404})
            await self._broken(reason)
            return
        with suppress(httpx2.StreamError, httpx2.ReadError, httpx2.DecodingError, Oversized):
            data, _ = await body(response, self._allowance, _MAX_ERROR_BYTES)
            parsed = await read(data, self._allowance)
            if isinstance(parsed, JSONRPCError) and response.headers.get("content-type", "").startswith(
                "application/json"
            ):
                await self._put(JSONRPCError(jsonrpc="2.0", id=message.id, error=parsed.error))
                return
        self._reason = f"it answered {reason}"
        await self._fail(
            message.id, INTERNAL_ERROR, f"the server answered {reason}", {HTTP_STATUS: response.status_code}
        )

    async def _follow(self, id: RequestId, response: httpx2.Response) -> None:
        """Deliver events until the answer has come; a stream that ends before is continued after its last event id."""
        last, pause, is_over = await self._events(response, id)
        for _ in range(RECONNECTS):
            if is_over or last is None:
                break
            await anyio.sleep(min(pause, _MAX_PAUSE))
            headers = {**self._headers(), "last-event-id": last}
            async with self._client.stream("GET", self._url, headers=headers) as again:
                if again.status_code >= 400:
                    break
                found, pause, is_over = await self._events(again, id)
                last = found or last
        if not is_over:
            await self._fail(id, CONNECTION_CLOSED, "the stream ended without an answer")

    async def _listen(self) -> None:
        """Keep a stream open for the server's own messages, if it has one; reopen it ever more slowly if it keeps ending."""
        last, has_one, short = None, False, 0
        while True:
            began, found, pause = time.monotonic(), None, RECONNECT_SECONDS
            try:
                headers = {**self._headers(), **({"last-event-id": last} if last else {})}
                async with self._client.stream("GET", self._url, headers=headers) as response:
                    is_one = response.status_code < 300 and _is_stream(response)
                    if not is_one and not (has_one and response.status_code >= 500):
                        return
                    if is_one:
                        has_one = True
                        found, pause, _ = await self._events(response, None)
                        last = found or last
            except BaseException as error:
                if not is_failure(error):
                    raise
            short = 0 if found or time.monotonic() - began > STEADY_SECONDS else short + 1
            slowly = RECONNECT_SECONDS * 2 ** min(short, 5) if short else 0.0
            await anyio.sleep(min(max(pause, slowly), _MAX_PAUSE))

    async def _events(self, response: httpx2.Response, id: RequestId | None) -> tuple[str | None, float, bool]:
        """Deliver a stream's messages; return the last event's id, the pause asked for, and whether the answer came."""
        last, pause = None, RECONNECT_SECONDS
        try:
            async for event in events(response, self._allowance):
                last = event.id or last
                pause = pause if event.retry is None else event.retry
                if event.name not in ("", "message") or not event.data.size:
                    continue
                if await self._deliver(await event.data.joined(), id, event.lease):
                    return last, pause, True
        # Without an event's id the stream cannot be continued, so the caller must see the error.
        except httpx2.ReadError:
            if last is None:
                raise
        return last, pause, False

    async def _deliver(self, data: bytes, id: RequestId | None, lease: Lease) -> bool:
        """Hand on a message and release its lease; return True if it answers the request `id`."""
        message = await read(data, self._allowance)
        lease.release()
        if message is None:
            if id is not None:
                await self._fail(id, INTERNAL_ERROR, "the server's answer is no message of this protocol")
            return id is not None
        if id is None or not isinstance(message, JSONRPCResponse | JSONRPCError):
            await self._put(message, related=id)
            return False
        # Some servers write the id as text, or none to an error. Any other is that of another answer, which nobody may get.
        if message.id is not None and str(message.id) != str(id):
            await self._fail(id, INTERNAL_ERROR, "the server's answer has the id of another request")
            return True
        message.id = id
        await self._put(message)
        return True

    async def delete(self) -> None:
        """Tell the server that the session has ended."""
        if self._session is None:
            return
        with anyio.move_on_after(2, shield=True), suppress(httpx2.HTTPError):
            async with self._client.stream("DELETE", self._url, headers=self._headers()):
                pass
