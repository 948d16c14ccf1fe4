"""Fixtures: engines on every database, kept for the whole run. Each test has a tenant of its own, so none sees another's rows."""

from __future__ import annotations

import secrets
import shutil
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from material import Opener

from byref import CharCounter, Engine, Policy, Session
from byref.artifacts import learning
from byref_sandbox import Sandbox

BACKENDS = ("sqlite", "postgresql")


OWN = ("database_url", "shared_url", "empty_url")
"""Fixtures of conftest.py that give a database to one test."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On PostgreSQL a quick run takes those tests of shared engines that are marked: `postgresql(reason)`.

    The others look at what byref makes of an output, which is done before the database is asked. Tests with a database of
    their own are about it and are taken on both, but for those marked `quick_on(database, reason)`, and in memory those that are
    marked for it. Of a table of cases that each have an engine or a sandbox it takes some, and each on one of the kinds, of a
    large product of parameters each once, and of long cases a few: see `_shorten`, `_in_turn`, `_each_once` and `_few`.
    """
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        own = next((item.callspec.params[name] for name in OWN if name in item.callspec.params), None)
        quick = item.get_closest_marker("quick_on")
        if quick is not None and len(quick.args) != 2:
            raise pytest.UsageError(f"{item.nodeid}: expected quick_on(database, why that one)")
        if own is not None and (own == "memory" if quick is None else own != quick.args[0]):
            item.add_marker(pytest.mark.slow)
        shared = [name for name in ("engine", "exact") if item.callspec.params.get(name) == "postgresql"]
        if not any(item._fixtureinfo.name2fixturedefs[name][-1].func.__module__ == __name__ for name in shared):
            continue
        mark = item.get_closest_marker("postgresql")
        if mark is None:
            item.add_marker(pytest.mark.slow)
        elif len(mark.args) != 1:
            raise pytest.UsageError(f"{item.nodeid}: expected postgresql(what the database decides there)")
    _each_once(items)
    _shorten(items)
    _in_turn(items)
    _few(items)


MOST = 4
"""Cases that a quick run takes of a table, on each database, store and whatever else is a fixture."""


def _shorten(items: list[pytest.Item]) -> None:
    """Leave to a whole run all but some, evenly spread, of the cases of a table that each have an engine or a sandbox.

    However many are added, a quick run takes no longer. Where each case stands for a wall of its own: `every_case(reason)`.
    """
    tables: dict[tuple[Any, ...], list[pytest.Function]] = {}
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec") or item.get_closest_marker("slow"):
            continue
        fixtures = item._fixtureinfo.name2fixturedefs
        mark = item.get_closest_marker("every_case")
        if mark is not None and len(mark.args) != 1:
            raise pytest.UsageError(f"{item.nodeid}: expected every_case(why each has to be taken)")
        if mark is None and not fixtures.keys().isdisjoint(("sandbox", "postgres_server", "race")):
            of_fixtures = [
                (name, repr(value))
                for name, value in item.callspec.params.items()
                if fixtures[name][-1].func.__module__ != "_pytest.python"  # which makes one of each plain argument
            ]
            tables.setdefault((item.nodeid.split("[")[0], *sorted(of_fixtures)), []).append(item)
    for cases in tables.values():
        for place, item in enumerate(cases):
            if len(cases) > MOST and place * MOST % len(cases) >= MOST:
                item.add_marker(pytest.mark.slow)


LARGE = 24
"""Cases that a product of parameters may have in a quick run."""


def _each_once(items: list[pytest.Item]) -> None:
    """Leave to a whole run the products of several `parametrize`: each value of the longest is taken with one of each other."""
    tables: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            tables.setdefault(item.nodeid.split("[")[0], []).append(item)
    for cases in tables.values():
        if len(cases) <= LARGE or cases[0].get_closest_marker("every_case") is not None:
            continue
        places = []
        for mark in cases[0].iter_markers("parametrize"):
            names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
            seen: dict[tuple[int, ...], int] = {}
            keys = (tuple(id(case.callspec.params.get(name)) for name in names) for case in cases)
            places.append([seen.setdefault(key, len(seen)) for key in keys])
        if len(places) < 2:
            continue
        counts = [max(each) + 1 for each in places]
        longest = places[counts.index(max(counts))]
        for number, case in enumerate(cases):
            if any(each[number] != longest[number] % count for each, count in zip(places, counts, strict=True)):
                case.add_marker(pytest.mark.slow)


def _in_turn(items: list[pytest.Item]) -> None:
    """Leave to a whole run the product of cases and kinds of database: the first case is taken on each, the others in turn."""
    tables: dict[str, dict[str, list[pytest.Function]]] = {}
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec") or item.get_closest_marker("slow"):
            continue
        kinds = [each for each in item.callspec.id.split("-") if each in BACKENDS]
        if len(kinds) == 1 and item.get_closest_marker("every_case") is None:
            case = "-".join(each for each in item.callspec.id.split("-") if each not in BACKENDS)
            tables.setdefault(item.nodeid.split("[")[0], {}).setdefault(case, []).append(item)
    for cases in tables.values():
        on_both = [those for those in cases.values() if len(those) == len(BACKENDS)]
        for place, those in enumerate(on_both[1:]):
            those[place % len(BACKENDS)].add_marker(pytest.mark.slow)


def _few(items: list[pytest.Item]) -> None:
    """Leave to a whole run all but some of the cases of a test that is marked `quick_cases(number)`: each takes long.

    Which ones depends on the test's name, so that each kind of database has its share of such tests.
    """
    tables: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("quick_cases")
        if mark is not None and not item.get_closest_marker("slow"):
            tables.setdefault((item.nodeid.split("[")[0], *mark.args), []).append(item)
    for (name, number), cases in tables.items():
        first = zlib.crc32(name.encode()) % len(cases)
        taken = {(first + place * len(cases) // number) % len(cases) for place in range(number)}
        for place, case in enumerate(cases):
            if place not in taken:
                case.add_marker(pytest.mark.slow)


def _url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        folder = request.getfixturevalue("tmp_path_factory").mktemp("engine")
        return f"sqlite:///{shutil.copy(request.getfixturevalue('migrated_sqlite'), folder / 'byref.db')}"
    url: str = request.getfixturevalue("make_postgres")(request.getfixturevalue("migrated_postgres"))
    return url


@pytest.fixture(scope="session", params=BACKENDS)
def engine(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Engine]:
    """An engine as users make it, on each database in turn."""
    with Engine(_url(request), interpreter=sandbox) as made:
        yield made


@pytest.fixture(scope="session", params=BACKENDS)
def exact(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Engine]:
    """An engine that counts four characters a token in text and two in JSON, for sums that a test can do in its head."""
    with Engine(_url(request), interpreter=sandbox, counter=CharCounter()) as made:
        yield made


@pytest.fixture(scope="session")
def local(sandbox: Sandbox) -> Iterator[Engine]:
    """An engine in memory: what most tests have that do not look at the database."""
    with Engine("sqlite:///:memory:", interpreter=sandbox) as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def learns_when_asked() -> Iterator[None]:
    """What tools return is learned when a test asks for it: tests that count statements see none of another thread's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning.Learning, "_start", lambda _: None)
        yield


@pytest.fixture
def tenant() -> str:
    """A tenant of this test's own."""
    return secrets.token_hex(8)


@pytest.fixture
def session(engine: Engine, tenant: str) -> Session:
    """A conversation with a window of 200,000 tokens."""
    return engine.session("chat", tenant=tenant, context_window=200_000)


@pytest.fixture
def chat(local: Engine, tenant: str) -> Session:
    """A conversation in memory with a window of 200,000 tokens."""
    return local.session("chat", tenant=tenant, context_window=200_000)


@pytest.fixture
def counted(exact: Engine, tenant: str) -> Opener:
    """Opens a conversation whose tokens are characters divided; keywords are knobs, `window` the model's."""

    def open_session(window: int = 200_000, tools: list[str] | None = None, **knobs: Any) -> Session:
        name = secrets.token_hex(4)
        return exact.session(name, tenant=tenant, context_window=window, policy=Policy(**knobs), tools=tools)

    return open_session
