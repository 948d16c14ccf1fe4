"""Opening what the options name: the database, the session, the file."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from byref import Engine, Policy, Session, lifecycle
from byref.cli import output
from byref.cli.failures import Failed
from byref.db.connections import sqlite_path
from byref.stores import BlobStore, store_at
from byref_sandbox import Sandbox

POLICY = Policy(on_storage_failure="raise")
"""A turn need not survive a database that is down: whoever typed the command is to know."""


def database_url(options: Namespace) -> str:
    """Return the database's URL; a path is one of SQLite."""
    given: str = options.db
    return given if "://" in given or given.startswith("sqlite:") else f"sqlite:///{given}"


@contextmanager
def engine_to_write(options: Namespace, policy: Policy = POLICY) -> Iterator[Engine]:
    """An engine that makes a SQLite file where there is none."""
    with (
        output.working("opening the database"),
        Engine(
            database_url(options), policy=policy, blobs=blobs(options), jail=options.jail, schema=options.schema
        ) as engine,
    ):
        opened = engine
        yield opened


@contextmanager
def engine_to_read(options: Namespace) -> Iterator[Engine]:
    """An engine on a database that is there; its sandbox is never started, for nothing is run."""
    url = database_url(options)
    if (missing := missing_file(url)) is not None:
        raise Failed(f"there is no database {str(missing)!r}: name one with --db or BYREF_DB")
    with Engine(
        url, create=False, policy=POLICY, blobs=blobs_to_read(options), schema=options.schema, interpreter=Sandbox()
    ) as engine:
        yield engine


def blobs(options: Namespace) -> BlobStore | None:
    """Return the store of objects that the options name, made if need be; None: bytes are in the database."""
    return None if options.blobs is None else store_at(options.blobs)


def blobs_to_read(options: Namespace) -> BlobStore | None:
    """Return the store of objects that the options name; looking does not make a folder."""
    if options.blobs is not None and "://" not in options.blobs and not Path(options.blobs).expanduser().is_dir():
        raise Failed(f"there is no folder {options.blobs!r} of objects: name one with --blobs or BYREF_BLOBS")
    return blobs(options)


def missing_file(url: str) -> Path | None:
    """Return the path of the SQLite file that a URL names, if it is not there."""
    try:
        path = sqlite_path(make_url(url))
    except ArgumentError:
        return None
    return path if path is not None and not path.exists() else None


def session_to_write(engine: Engine, options: Namespace) -> Session:
    """The session that the options name, made if need be."""
    return engine.session(
        options.session, tenant=options.tenant, model=options.model, context_window=options.context_window
    )


def session_to_read(engine: Engine, options: Namespace) -> Session:
    """The session that the options name; looking does not make one."""
    name, tenant = lifecycle.check_id("--session", options.session), lifecycle.check_id("--tenant", options.tenant)
    if engine.database.read(lambda connection: lifecycle.find_session(connection, tenant, name)) is None:
        raise Failed(f"there is no session {name!r} of tenant {tenant!r}; `byref sessions` lists those there are")
    return engine.session(name, tenant=tenant)


@contextmanager
def input_file(name: str, limit: int) -> Iterator[BinaryIO]:
    """A file, or standard input for `-`; a file of more than `limit` bytes is refused."""
    with ExitStack() as stack:
        try:
            if name == "-":
                if sys.stdin.isatty():
                    output.note("reading standard input; Ctrl-D ends it")
                file: BinaryIO = sys.stdin.buffer
            else:
                path = Path(name)
                if path.is_file() and path.stat().st_size > limit:
                    raise Failed(f"{name!r} is larger than {limit:,} bytes, the most that is taken in at once")
                file = stack.enter_context(path.open("rb"))
        except OSError as error:
            raise Failed(f"cannot read {name!r}: {error.strerror or error}") from error
        except ValueError as error:  # a NUL in the name
            raise Failed(f"cannot read {name!r}: {error}") from error
        yield file


def read_input(limit: int) -> bytes:
    """Return the bytes of standard input, at most `limit` of them."""
    with input_file("-", limit) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Failed(f"standard input is more than {limit:,} bytes, the most that is taken in at once")
    return content
