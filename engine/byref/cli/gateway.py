"""The verb `gateway`: a proxy between an MCP client and its servers."""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from byref.adapters.common.extras import missing
from byref.cli import opening
from byref.cli.failures import Failed, WrongUsage
from byref.cli.parser import DEFAULT_DB, Default
from byref.errors import ConfigurationError
from byref.stores.paths import check_own, make_folders

try:
    from byref.adapters import mcp as adapter
    from byref.cli import connections, serving
    from byref.gateway.config import GatewayConfig, command_config, read_config
    from byref.gateway.server import Gateway
except ImportError as error:
    raise missing("byref gateway", "mcp", "mcp") from error

LEAVE_SECONDS = 10.0
"""Seconds to leave: servers exit by themselves or are killed; what is left then is ended with the gateway's process."""
IDLE_SECONDS = 1_800.0
"""An HTTP client's connection, and with it its servers, ends so long after its last request."""
SWITCH_SECONDS = 0.001
"""Seconds after which a thread must let others run (Python's default is 5 ms): the event loop often waits for several threads."""
MAX_BODY_BYTES = 64 << 20
"""Body of a request over HTTP: arguments of other servers' tools may contain files."""


def gateway(options: Namespace) -> int:
    """Serve until the client leaves or a signal comes."""
    sys.setswitchinterval(SWITCH_SECONDS)
    connections.collect_seldom()
    config = _config(options)
    place = serving.place_of(options)
    options.db = _database(options)
    with opening.engine_to_write(options, config.policy) as engine:
        door = Gateway(
            engine,
            config,
            tenant=adapter.tenant_of_token if place is not None and place.tenants else options.tenant,
            has_several_tenants=place is not None and place.is_of_several,
            session=None if isinstance(options.session, Default) else options.session,
            model=options.model,
            context_window=options.context_window,
        )
        serving.serve(
            door.server,
            place,
            leave_seconds=LEAVE_SECONDS,
            idle_seconds=IDLE_SECONDS,
            max_body_bytes=MAX_BODY_BYTES,
        )
    return 0


def _config(options: Namespace) -> GatewayConfig:
    if bool(options.config) == bool(options.command):
        raise WrongUsage("expected --config FILE, or -- and the command of one server")
    config = read_config(options.config) if options.config else command_config(options.command)
    return replace(config, links=False) if options.no_links else config


def _database(options: Namespace) -> str:
    """Return the database that was named, or else a file in the user's state folder: clients start commands in any folder."""
    given: str = options.db
    if given is not DEFAULT_DB:
        return given
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    for folder in (Path(home).expanduser() / "byref", Path(tempfile.gettempdir()) / f"byref-{os.getuid()}"):
        try:
            make_folders(folder)
        except OSError:
            if not folder.is_symlink():  # a link that leads nowhere is reported below
                continue
        try:
            check_own(folder)
        except ConfigurationError as error:
            raise Failed(f"{error}; or name a database with --db or BYREF_DB") from error
        if os.access(folder, os.W_OK):
            return f"sqlite:///{folder / 'gateway.db'}"
    raise Failed("there is no folder for the database: name one with --db or BYREF_DB")
