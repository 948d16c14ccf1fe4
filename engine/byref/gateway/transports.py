"""The channel to a server, by what its configuration says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from byref.gateway.channel import Channel
from byref.gateway.config import Kind, ServerConfig
from byref.gateway.http import http_server, sse_server
from byref.gateway.messages import Allowance
from byref.gateway.relay import Relay
from byref.gateway.stdio import child_process


@asynccontextmanager
async def connected(config: ServerConfig, kind: Kind, relay: Relay, allowance: Allowance) -> AsyncIterator[Channel]:
    """Yield the channel to a server.

    Raises:
        Broken: it could not be started.
        Exception: what the network said; `http.failure` puts it into words.
    """
    match kind:
        case "stdio":
            async with child_process(config, relay, allowance) as channel:
                yield channel
        case "sse":
            async with sse_server(config, allowance) as channel:
                yield channel
        case _:
            async with http_server(config, allowance) as channel:
                yield channel
