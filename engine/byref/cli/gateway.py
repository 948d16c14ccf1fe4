"""The verb that stands between an MCP client and its servers: gateway."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from byref.adapters.common.extras import missing
from byref.cli import opening
from byref.cli.failures import Failed, WrongUsage
from byref.cli.parser import DEFAULT_DB, Default
from byref.errors import ConfigurationError
from byref.stores.paths import check_own, make_folders

try:
    from byref.adapters import mcp as adapter
    from byref.cli import serving
    from byref.gateway.config import GatewayConfig, command_config, read_config
    from byref.gateway.server import Gateway
except ImportError as error:
    raise missing("byref gateway", "mcp", "mcp") from error

LEAVE_SECONDS = 10.0
"""Servers get some seconds to end by themselves, then they are ended; after these so is the gateway."""
IDLE_SECONDS = 1_800.0
"""After its last request an HTTP client's connection, and with it its servers, are ended."""
SWITCH_SECONDS = 0.001
"""After which a thread lets others have their turn, Python's default is 5 ms: the loop has to wait for many of them."""
COLLECTED = (10_000, 10, 100)
"""Objects after which the youngest are looked through for cycles, and how often until the older ones are. To go through all of
the gateway's takes 0.13 s in which nothing else runs; by Python's default of (700, 10, 10) a server has that done at will."""
MAX_BODY_BYTES = 64 << 20
"""Of a request over HTTP: arguments of tools of others may be files."""


def gateway(options: Namespace) -> int:
    """Stand in front of the servers until the client leaves, or until a signal."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECTED)
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
    return read_config(options.config) if options.config else command_config(options.command)


def _database(options: Namespace) -> str:
    """The database that was named; else a file of the user's own, as clients start commands in any folder."""
    given: str = options.db
    if given is not DEFAULT_DB:
        return given
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    for folder in (Path(home).expanduser() / "byref", Path(tempfile.gettempdir()) / f"byref-{os.getuid()}"):
        try:
            make_folders(folder)
        except OSError:
            if not folder.is_symlink():  # else it leads nowhere, which is told
                continue
        try:
            check_own(folder)
        except ConfigurationError as error:
            raise Failed(f"{error}; or name a database with --db or BYREF_DB") from error
        if os.access(folder, os.W_OK):
            return f"sqlite:///{folder / 'gateway.db'}"
    raise Failed("there is no folder for the database: name one with --db or BYREF_DB")
