"""The verb `mcp`: serves the models of other programs."""

from __future__ import annotations

import secrets
from argparse import Namespace
from datetime import timedelta

from byref.adapters import mcp as adapter
from byref.adapters.common.extras import missing
from byref.cli import opening
from byref.cli.parser import Default
from byref.gateway.config import MAX_RESULT_BYTES
from byref.policy import Policy

try:
    from byref.cli import serving
except ImportError as error:
    raise missing("byref mcp", "mcp", "mcp") from error

POLICY = Policy(
    headroom_percentage=1.0,
    max_threshold_bytes=MAX_RESULT_BYTES,
    ledger_ttl=timedelta(days=30),
    tools=(*Policy().tools, "list_artifacts", "store_artifact"),
)
"""A server never learns how full the context of its client's model is, and nobody deletes its sessions."""
ANSWER_SECONDS = 2.0
"""Seconds for calls in progress to be answered after the client has closed its end or a signal came."""
LEAVE_SECONDS = 1.0
"""Seconds to leave after that."""
IDLE_SECONDS = 24 * 3600.0
"""A client's session (`Mcp-Session-Id`) is forgotten so long after its last request."""
MAX_BODY_BYTES = 4 << 20


def mcp(options: Namespace) -> int:
    """Serve the Model Context Protocol until the client leaves or a signal comes."""
    place = serving.place_of(options)
    session = None if isinstance(options.session, Default) else options.session
    if place is None and session is None:
        session = f"mcp-{secrets.token_hex(8)}"
    with opening.engine_to_write(options, POLICY) as engine:
        server = adapter.server(
            engine,
            tenant=adapter.tenant_of_token if place is not None and place.tenants else options.tenant,
            session=session,
            model=options.model,
            links=not options.no_links,
        )
        serving.serve(
            server,
            place,
            leave_seconds=LEAVE_SECONDS,
            idle_seconds=IDLE_SECONDS,
            max_body_bytes=MAX_BODY_BYTES,
            answer_seconds=ANSWER_SECONDS,
        )
    return 0
