"""The channel to a server, by what its configuration says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.client.sse import sse_client

from byref.gateway.channel import Channel
from byref.gateway.config import Kind, ServerConfig
from byref.gateway.http import CONNECT_SECONDS, bounded_client, http_server
from byref.gateway.relay import Relay
from byref.gateway.stdio import child_process

SILENCE_SECONDS = 365 * 86_400.0
"""A server may have nothing to say: this is no limit."""


@asynccontextmanager
async def connected(config: ServerConfig, kind: Kind, relay: Relay) -> AsyncIterator[Channel]:
    """Yield the channel to a server.

    Raises:
        Broken: it could not be started.
        Exception: what the network said; `http.failure` puts it into words.
    """
    match kind:
        case "stdio":
            async with child_process(config, relay) as channel:
                yield channel
        case "sse":
            async with sse_client(
                config.url,
                headers=dict(config.headers),
                timeout=CONNECT_SECONDS,
                sse_read_timeout=SILENCE_SECONDS,
                httpx_client_factory=bounded_client,
            ) as (received, sent):
                yield Channel(received, sent, _ended)
        case _:
            async with http_server(config) as channel:
                yield channel


async def _ended() -> str:
    return "the connection ended"
