"""A service on each database in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from engines import BACKENDS, _url
from service_kit import House

from byref import AsyncEngine
from byref_sandbox import Sandbox


@pytest.fixture(scope="session", params=BACKENDS)
def house(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[House]:
    with asyncio.Runner() as runner:
        engine = AsyncEngine(_url(request), interpreter=sandbox)
        runner.run(engine.open())
        yield House(engine, runner.get_loop())
        runner.run(engine.close())


@pytest.fixture(scope="session")
def local_house(sandbox: Sandbox) -> Iterator[House]:
    """A service in memory, for what does not depend on the database."""
    with asyncio.Runner() as runner:
        engine = AsyncEngine("sqlite:///:memory:", interpreter=sandbox)
        runner.run(engine.open())
        yield House(engine, runner.get_loop())
        runner.run(engine.close())
