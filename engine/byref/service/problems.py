"""Errors as problem details (RFC 9457), in the library's own words."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from byref.errors import (
    ArtifactMissing,
    ByrefError,
    ConfigurationError,
    InvalidId,
    QuotaExceeded,
    SchemaMismatch,
    SessionGone,
    StorageFailure,
    ToolError,
    TransactionConflict,
    UnknownSession,
    visible,
)
from byref_sandbox import SandboxUnavailable

logger = logging.getLogger("byref")

MEDIA_TYPE = "application/problem+json"
RETRY = {"Retry-After": "1"}
_STATUS: Mapping[type[Exception], int] = {
    UnknownSession: 404,
    SessionGone: 410,
    ArtifactMissing: 410,
    QuotaExceeded: 413,
    InvalidId: 422,
    ConfigurationError: 422,
    ToolError: 422,
    TransactionConflict: 409,
    StorageFailure: 503,
    SchemaMismatch: 503,
    SandboxUnavailable: 503,
    ByrefError: 500,
}
"""The status of each error; those of a class come before those of its bases."""


class ProblemDetails(msgspec.Struct, frozen=True):
    """What went wrong."""

    type: str
    """Which problem it is, for programs: `urn:byref:unknown-session`."""
    title: str
    status: int
    detail: str
    """What was wrong with this request, and what to do."""


class Problem(Exception):
    """A request that the service refuses, or cannot answer."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.details = ProblemDetails(f"urn:byref:{kind}", kind.replace("-", " ").capitalize(), status, visible(detail))
        self.headers = dict(headers or {})

    @property
    def response(self) -> Response:
        """The answer to the request."""
        body = msgspec.json.encode(self.details)
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **self.headers}
        return Response(body, self.details.status, headers, MEDIA_TYPE)


def problem(error: Exception) -> Problem:
    """Return the problem that an error is. One that is no error of byref's is logged, and says nothing of the inside."""
    if isinstance(error, Problem):
        return error
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), None)
    if status is None:
        logger.error("byref's HTTP service failed", exc_info=error)
        return Problem(500, "internal-error", "the service failed; its log says why")
    if status >= 500:
        logger.warning("byref's HTTP service: %s", error)
    # Storage and schema errors name the server's database, which is nobody's business out there.
    detail = "the storage is away: try again later" if status == 503 else str(error)
    return Problem(status, _kind(type(error)), detail, RETRY if status in (409, 503) else None)


def not_found(what: str) -> Problem:
    """Return the problem of a thing that is not there."""
    return Problem(404, "not-found", what)


def _kind(error: type[Any]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__).lower()
