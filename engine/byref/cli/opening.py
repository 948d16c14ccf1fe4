"""Opens the database, the session or the file that the options name."""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from byref.cli import output
from byref.cli.failures import Failed
from byref.cli.parser import DEFAULT_DB
from byref.conversation import lifecycle
from byref.db.connections import is_memory, parsed, sqlite_path
from byref.db.failures import options_of
from byref.engine import Engine
from byref.errors import ConfigurationError
from byref.policy import Policy
from byref.session import Session
from byref.stores import BlobStore, store_at
from byref.stores.objects import shown_place
from byref.stores.paths import open_to_read
from byref_sandbox import Sandbox

POLICY = Policy(on_storage_failure="raise")
"""Storage failures are raised: the person at the shell must know of them, and there is no turn of an agent to keep going."""

NAMED = 5
"""Tenants that the error for a missing session lists."""


_ADDRESS = re.compile(
    r"://|^sqlite:|:.*@|\b(host|hostaddr|user|password|passfile|dbname|service|ssl\w+)\s*=", re.I | re.S
)
"""Matches what is surely not a path, though it may be an invalid URL. It may contain a password, so it is never quoted in an error
or used as the name of a new file."""


def database_url(options: Namespace) -> str:
    """Return the database's URL; a path becomes a URL of SQLite."""
    given: str = options.db
    return given.strip() if _ADDRESS.search(given) else f"sqlite:///{given}"


@contextmanager
def engine_to_write(options: Namespace, policy: Policy = POLICY) -> Iterator[Engine]:
    """Yield an engine; it makes the SQLite file if there is none."""
    arguments = engine_arguments(options, policy)
    with output.working("opening the database"):
        engine = Engine(**arguments)
    if is_memory(parsed(arguments["url"])):
        output.note("the database is in memory: nothing is kept when this command ends")
    with engine:
        yield engine


def engine_arguments(options: Namespace, policy: Policy = POLICY) -> dict[str, Any]:
    """Return the arguments of the engine that the options describe."""
    return {
        "url": database_url(options),
        "policy": policy,
        "blobs": blobs(options),
        "jail": options.jail,
        "schema": options.schema,
        "durability": options.durability,
        "modules": [name.strip() for name in options.modules.split(",") if name.strip()],
    }


@contextmanager
def engine_to_read(options: Namespace) -> Iterator[Engine]:
    """Yield an engine on an existing database; its sandbox is never started, because nothing is run."""
    with Engine(**arguments_to_read(options), interpreter=Sandbox()) as engine:
        yield engine


def arguments_to_read(options: Namespace) -> dict[str, Any]:
    """Return the arguments of an engine on the existing database that the options name."""
    url = database_url(options)
    if (missing := missing_file(url)) is not None:
        raise Failed(f"there is no database {str(missing)!r}: name one with --db or BYREF_DB")
    return {
        "url": url,
        "create": False,
        "policy": POLICY,
        "blobs": blobs_to_read(options),
        "schema": options.schema,
    }


def blobs(options: Namespace) -> BlobStore | None:
    """Return the object store that the options name, and make its folder if needed; None: bytes are in the database."""
    return None if options.blobs is None else store_at(options.blobs)


def blobs_to_read(options: Namespace) -> BlobStore | None:
    """Return the object store that the options name; reading does not make its folder."""
    if options.blobs is not None and "://" not in options.blobs and not Path(options.blobs).expanduser().is_dir():
        raise Failed(
            f"there is no folder {shown_place(options.blobs)!r} of objects: name one with --blobs or BYREF_BLOBS"
        )
    return blobs(options)


def missing_file(url: str) -> Path | None:
    """Return the path of the SQLite file that a URL names, if the file does not exist."""
    try:
        path = sqlite_path(parsed(url))
    except ConfigurationError:  # opening the URL reports this
        return None
    return path if path is not None and not path.exists() else None


def session_to_write(engine: Engine, options: Namespace) -> Session:
    """Return the session that the options name; make it if there is none."""
    return engine.session(
        options.session, tenant=options.tenant, model=options.model, context_window=options.context_window
    )


def session_to_read(engine: Engine, options: Namespace) -> Session:
    """Return the session that the options name; reading does not make it."""
    name, tenant = lifecycle.check_id("--session", options.session), lifecycle.check_id("--tenant", options.tenant)
    if engine.database.read(lambda connection: lifecycle.find_session(connection, tenant, name)) is None:
        raise no_session(engine, options)
    return engine.session(name, tenant=tenant)


def no_session(engine: Engine, options: Namespace) -> Failed:
    """Return the error for a missing session; it names tenants that have one of this name, or the command that lists all."""
    owners = engine.database.read(lambda connection: lifecycle.tenants_with(connection, options.session))
    missing = f"there is no session {options.session!r} of tenant {options.tenant!r}"
    if len(owners) == 1:
        return Failed(f"{missing}, but of another: --tenant {shlex.quote(owners[0])}")
    if owners:
        others = f" and {len(owners) - NAMED:,} more" if len(owners) > NAMED else ""
        named = ", ".join(shlex.quote(owner) for owner in owners[:NAMED])
        return Failed(f"{missing}, but of others: give --tenant with one of {named}{others}")
    listing = command(options, "sessions", "--all-tenants")
    return Failed(f"{missing}; `{listing}` lists those there are, and --tenant says whose one is")


def command(options: Namespace, *words: str) -> str:
    """Return a command on the same database, quoted for a shell; options that the environment already sets are left out."""
    named: list[str] = []
    if options.db != (os.environ.get("BYREF_DB") or DEFAULT_DB):
        named.append(_database_option(options.db))
    if options.schema is not None:
        named.append(f"--schema {shlex.quote(options.schema)}")
    if options.blobs is not None and options.blobs != os.environ.get("BYREF_BLOBS"):
        named.append(f"--blobs {shlex.quote(shown_place(options.blobs))}")
    return " ".join(["byref", *map(shlex.quote, words), *named])


def _database_option(given: str) -> str:
    try:
        return options_of(parsed(given)) if _ADDRESS.search(given) else f"--db {shlex.quote(given)}"
    except ConfigurationError:
        return "--db URL"  # a URL that does not parse may have a password anywhere  # an invalid URL may have a password anywhere


def confirmed(options: Namespace, loss: str) -> None:
    """Ask for confirmation before a deletion: at the terminal, unless --yes was given.

    Raises:
        Failed: the answer is no, or there is no terminal.
    """
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise Failed(f"{loss}. There is no terminal to ask at: say so with --yes. Nothing was done")
    sys.stderr.write(f"{output.visible(loss[:1].upper() + loss[1:])}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failed("nothing was done")


@contextmanager
def input_file(name: str, limit: int) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`; a file of more than `limit` bytes is refused."""
    with ExitStack() as stack:
        try:
            if name == "-":
                if sys.stdin.isatty():
                    output.note("reading standard input; Ctrl-D ends it")
                file: BinaryIO = sys.stdin.buffer
            else:
                file = stack.enter_context(open_to_read(name))
                if os.fstat(file.fileno()).st_size > limit:
                    raise Failed(f"{name!r} is larger than {limit:,} bytes, the most that is read at once")
        except OSError as error:
            raise Failed(f"cannot read {name!r}: {error.strerror or error}") from error
        except ValueError as error:  # the name has a NUL
            raise Failed(f"cannot read {name!r}: {error}") from error
        try:
            yield file
        except BrokenPipeError:
            raise
        except OSError as error:  # reading failed: databases and output raise other errors
            raise Failed(f"cannot read {name!r}: {error.strerror or error}") from error


def read_input(limit: int) -> bytes:
    """Return the bytes of standard input, at most `limit`."""
    with input_file("-", limit) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Failed(f"standard input is more than {limit:,} bytes, the most that is read at once")
    return content
