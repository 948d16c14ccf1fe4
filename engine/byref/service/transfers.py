"""Bytes on their way in and out: of any size, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Generator
from contextlib import suppress
from urllib.parse import quote

from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from byref.adapters.common.shares import Shares
from byref.artifacts.lines import segments
from byref.artifacts.store import Artifact
from byref.service import records
from byref.service.placed import PlacedResponse
from byref.service.problems import Problem

MAX_DOWNLOADS = 200
"""Downloads at once of one process, which tenants share: each has some 3 MB in memory, and lasts as long as its client takes."""
KEPT_DOWNLOADS = 10
"""Downloads that each tenant may have when the others have taken all."""
LINE_CHARS = 10_000
"""Characters of a line that are returned; the rest is in the bytes."""
LINES_CHARS = 1 << 20
"""Characters of the lines of one reply, from which on it ends."""

_places = Shares(MAX_DOWNLOADS, several=True, kept=KEPT_DOWNLOADS)
_TYPE = re.compile(r"[\w!#$&^.+-]{1,100}/[\w!#$&^.+-]{1,100}(?:;\s*charset=[\w-]{1,40})?", re.ASCII)
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


async def download(artifact: Artifact, request: Request, tenant: str) -> Response:
    """Return the response with an artifact's bytes, or with the range that the request asks for; to HEAD, its headers alone.

    Strangers wrote the bytes: no browser is to show them, or to guess what they are.
    """
    size, tag = artifact.payload.size, f'"{artifact.digest.hex()}"'
    name = quote((artifact.name or artifact.id)[:200].encode(errors="replace"), safe="")
    headers = {
        "ETag": tag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    asked = request.headers
    if tag in [one.strip().removeprefix("W/") for one in asked.get("If-None-Match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = (
        artifact.content_type if _TYPE.fullmatch(artifact.content_type) else "application/octet-stream"
    )
    begin, end, status = 0, size, 200
    is_head = request.method == "HEAD"  # to which HTTP defines no ranges
    if (
        not is_head
        and "Range" in asked
        and asked.get("If-Range", tag) == tag
        and (span := _span(asked["Range"], size)) is not None
    ):
        (begin, end), status = span, 206
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    headers["Content-Length"] = str(end - begin)
    pieces = artifact.payload.span(begin, end)
    first = await run_in_threadpool(next, pieces, b"")  # what is damaged or gone fails here, before the response begins
    if is_head:
        return Response(None, status, headers)
    return _Download(first, pieces, status, headers, tenant)


class _Download(PlacedResponse):
    """A response with bytes, which are let go of as soon as its client has them or has left."""

    def __init__(
        self, first: bytes, pieces: Generator[bytes, None, None], status: int, headers: dict[str, str], tenant: str
    ) -> None:
        super().__init__(_joined(first, pieces), status, headers, _places, tenant, "downloads are under way")
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the bytes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with suppress(ValueError):  # it is being read: a request that is cancelled waits for no thread
                self._pieces.close()


async def _joined(first: bytes, pieces: Generator[bytes, None, None]) -> AsyncIterator[bytes]:
    yield first
    del first  # not to be in memory for as long as the rest takes
    async for piece in iterate_in_threadpool(pieces):
        yield piece


def _span(given: str, size: int) -> tuple[int, int] | None:
    """Return the range of a `Range` header, its end exclusive; None: all bytes are sent, as for several ranges."""
    found = _RANGE.fullmatch(given.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(int(last) + 1 if last else size, size)
        if last and int(last) < begin:
            return None
    if begin >= end:
        raise Problem(416, "range-not-satisfiable", f"there are {size:,} bytes", {"Content-Range": f"bytes */{size}"})
    return begin, end


def lines(artifact: Artifact, start: int, limit: int) -> records.LineRange:
    """Return at most `limit` lines from the line `start` on, each at most `LINE_CHARS` long."""
    total = artifact.payload.line_count
    if artifact.is_binary:
        raise Problem(422, "not-a-text", f"{artifact.id} is {artifact.content_type}, which has no lines")
    found: list[records.Line] = []
    size, next_line = 0, None
    part, is_cut = b"", False
    for number, data, ends in segments(artifact.payload.chunks(start), start) if start <= total else ():
        if len(found) == limit or size >= LINES_CHARS:
            next_line = number
            break
        room = 4 * LINE_CHARS - len(part)
        part, is_cut = part + data[:room], is_cut or len(data) > room
        if ends:
            text = part.decode("utf-8", "replace").removesuffix("\r")
            found.append(records.Line(number=number, text=text[:LINE_CHARS], is_cut=is_cut or len(text) > LINE_CHARS))
            size += len(found[-1].text)
            part, is_cut = b"", False
    return records.LineRange(lines=found, next=next_line, total=total)
