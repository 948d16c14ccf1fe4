"""Responses that last as long as their clients like: each has a place, of which its tenant has a share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from byref.adapters.common.shares import Shares
from byref.service.problems import RETRY, Problem


class PlacedResponse(StreamingResponse):
    """A response in pieces, which has a place of its tenant's until its end; a Problem if the tenant has none left."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        status: int,
        headers: Mapping[str, str],
        places: Shares,
        tenant: str,
        what: str,
    ) -> None:
        if not places.take(tenant):
            raise Problem(503, "too-many-streams", f"too many {what} ({places.limits})", RETRY)
        super().__init__(pieces, status, headers)
        self._places, self._tenant = places, tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.give_back(self._tenant)
