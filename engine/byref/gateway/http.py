"""A server at an address, by streamable HTTP.

The SDK's own transport takes events of at most 1 MiB, which is just where results get interesting, and says nothing of the
HTTP status; this one is bounded by the size of a message, as that of processes is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
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

from byref.gateway.channel import MAX_MESSAGE_BYTES, Broken, Channel, decoded, encoded
from byref.gateway.config import ServerConfig
from byref.plain import one_line

CONNECT_SECONDS = 30.0
RECONNECTS = 3
"""Of one stream of events, one after the other without an event."""
RECONNECT_SECONDS = 1.0
HTTP_STATUS = "httpStatus"
"""In the data of an error that is the transport's, not the server's."""
_MAX_PAUSE = 30.0
_SESSION = "mcp-session-id"


@asynccontextmanager
async def http_server(config: ServerConfig) -> AsyncIterator[Channel]:
    """Yield the channel to a server; its session, if it made one, is deleted at the end."""
    received_in, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, sent_out = anyio.create_memory_object_stream[SessionMessage](0)
    async with bounded_client(config.headers) as client, received_in, received, sent, sent_out:
        async with anyio.create_task_group() as tasks:
            link = _Link(config.url, client, received_in, tasks)
            tasks.start_soon(link.send_all, sent_out)
            try:
                yield Channel(received, sent, link.ending)
            finally:
                tasks.cancel_scope.cancel()
        await link.delete()


def bounded_client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
    """Return a client whose replies are bounded; with the configured headers it follows no redirect to elsewhere."""
    return _Client(
        headers=dict(headers or {}),
        timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=None),
        auth=auth,
        follow_redirects=False,
    )


def failure(error: BaseException) -> str:
    """Return in a few words why a server could not be reached; never with headers or the query of its address."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered HTTP {error.response.status_code}"
    if isinstance(error, httpx2.HTTPError):
        return f"{type(error).__name__}: {one_line(error, 200)}".removesuffix(": ")
    if isinstance(error, Broken):
        return one_line(error)
    # Whatever else a library says may have the address in it, and that a key.
    return f"{type(error).__name__}{f': {error.strerror}' if isinstance(error, OSError) and error.strerror else ''}"


class _Link:
    """One connection: what every request carries, and the replies on their way."""

    def __init__(
        self, url: str, client: httpx2.AsyncClient, received: MemoryObjectSendStream[Any], tasks: TaskGroup
    ) -> None:
        self._url = url
        self._client = client
        self._received = received
        self._tasks = tasks
        self._session: str | None = None
        self._version: str | None = None
        self._reason = "the connection ended"
        self._posts: dict[RequestId, anyio.CancelScope] = {}

    async def ending(self) -> str:
        return self._reason

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
        """End a request's stream, which since 2026 is how it is cancelled."""
        if self._version not in MODERN_PROTOCOL_VERSIONS or not isinstance(message, JSONRPCNotification):
            return False
        scope = self._posts.get((message.params or {}).get("requestId", ""))
        if message.method == "notifications/cancelled" and scope is not None:
            scope.cancel()
        return True  # there are no other notifications to a server then

    def _headers(self) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self._session is not None:
            headers[_SESSION] = self._session
        if self._version is not None:
            headers[MCP_PROTOCOL_VERSION_HEADER] = self._version
        return headers

    async def _notify(self, message: Any) -> None:
        try:
            await self._client.post(self._url, content=encoded(message), headers=self._headers())
        except httpx2.HTTPError as error:
            await self._broken(failure(error))

    async def _request(self, message: JSONRPCRequest, headers: dict[str, str], scope: anyio.CancelScope) -> None:
        try:
            with scope:
                content = encoded(message)
                async with self._client.stream(
                    "POST", self._url, content=content, headers={**self._headers(), **headers}
                ) as response:
                    await self._answer(message, response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            await self._broken(failure(error))
        except (httpx2.HTTPError, httpx2.SSEError) as error:
            await self._fail(message.id, CONNECTION_CLOSED, failure(error))
        finally:
            if self._posts.get(message.id) is scope:
                del self._posts[message.id]

    async def _answer(self, message: JSONRPCRequest, response: httpx2.Response) -> None:
        if response.status_code >= 400:
            await self._refused(message, response)
            return
        if message.method == "initialize":
            self._session = response.headers.get(_SESSION)
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith("text/event-stream"):
            await self._follow(message.id, response)
        elif kind.startswith("application/json"):
            await self._deliver(await response.aread(), message.id)
        else:
            what = f"HTTP {response.status_code} with content of type {kind[:100]!r} instead of an answer"
            await self._fail(message.id, INTERNAL_ERROR, what)

    async def _refused(self, message: JSONRPCRequest, response: httpx2.Response) -> None:
        reason = f"HTTP {response.status_code}"
        if response.status_code == 404 and self._session is not None:
            await self._broken("its session is over (HTTP 404)")
            return
        with suppress(httpx2.StreamError):
            parsed = decoded(await response.aread())
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
        """Take events until the answer came; where the stream ends before it is taken up again, if the server lets us."""
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
        """Keep a stream open for what the server says by itself, where it has one."""
        last, failed, pause = None, 0, RECONNECT_SECONDS
        while failed < RECONNECTS:
            try:
                headers = {**self._headers(), **({"last-event-id": last} if last else {})}
                async with self._client.stream("GET", self._url, headers=headers) as response:
                    if response.status_code >= 400 or "event-stream" not in response.headers.get("content-type", ""):
                        return
                    found, pause, _ = await self._events(response, None)
                    last, failed = found or last, 0 if found else failed + 1
            except (httpx2.HTTPError, httpx2.SSEError):
                failed += 1
            await anyio.sleep(min(pause, _MAX_PAUSE))

    async def _events(self, response: httpx2.Response, id: RequestId | None) -> tuple[str | None, float, bool]:
        """Deliver a stream's messages; return the last event's id, the pause asked for, and whether the answer came."""
        last, pause = None, RECONNECT_SECONDS
        try:
            async for event in httpx2.EventSource(response, max_event_size=MAX_MESSAGE_BYTES):
                last = event.id or last
                pause = pause if event.retry is None else event.retry / 1000
                if event.event == "message" and event.data and await self._deliver(event.data, id):
                    return last, pause, True
        except httpx2.ReadError:
            if last is None:
                raise
        return last, pause, False

    async def _deliver(self, data: str | bytes, id: RequestId | None) -> bool:
        """Hand a message on; True if it answers the request."""
        message = decoded(data)
        if message is None:
            if id is not None:
                await self._fail(id, INTERNAL_ERROR, "the server's answer is no message of this protocol")
            return id is not None
        if id is None or not isinstance(message, JSONRPCResponse | JSONRPCError):
            await self._put(message)
            return False
        message.id = id
        await self._put(message)
        return True

    async def _fail(self, id: RequestId, code: int, reason: str, data: Any = None) -> None:
        await self._put(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=reason, data=data)))

    async def _put(self, message: Any) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._received.send(SessionMessage(message))

    async def _broken(self, reason: str) -> None:
        self._reason = reason
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._received.send(Broken(reason))

    async def delete(self) -> None:
        """Tell the server that the session is over."""
        if self._session is None:
            return
        with anyio.move_on_after(2, shield=True), suppress(httpx2.HTTPError):
            await self._client.delete(self._url, headers=self._headers())


class _Client(httpx2.AsyncClient):
    """Takes replies, and events of a stream one by one, of at most `MAX_MESSAGE_BYTES`."""

    def sse(self, *arguments: Any, **settings: Any) -> Any:
        return super().sse(*arguments, **{"max_event_size": MAX_MESSAGE_BYTES, **settings})

    async def send(self, request: httpx2.Request, *, stream: bool = False, **settings: Any) -> httpx2.Response:
        response = await super().send(request, stream=True, **settings)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Counted(response.stream)
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                raise httpx2.ReadError(f"a reply of more than {MAX_MESSAGE_BYTES >> 20} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
