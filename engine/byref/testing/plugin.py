"""Fixtures for pytest: an engine on a database of its own, and a provider that plays a script.

pytest loads them wherever byref is installed. An app overrides `byref_url` to test on another database, and `byref_engine` to make the
engine as it does itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:  # what is not used is not imported: these fixtures are in every run of pytest
    from byref.engine import Engine
    from byref.session import Session
    from byref.testing.providers import ScriptedProvider, Turn
    from byref_sandbox import Sandbox


class Providing(Protocol):
    """Starts providers."""

    def __call__(self, *turns: Turn) -> ScriptedProvider:
        """Return a provider that plays the turns; it ends with the test, which fails if turns are left."""


@pytest.fixture(scope="session")
def byref_sandbox() -> Iterator[Sandbox]:
    """One sandbox for all tests: to start one takes a second. Sessions in it are kept apart."""
    from byref_sandbox import Sandbox

    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def byref_url(tmp_path: Path) -> str:
    """The database: a file of SQLite that goes with the test."""
    return f"sqlite:///{tmp_path / 'byref.db'}"


@pytest.fixture
def byref_engine(byref_url: str, byref_sandbox: Sandbox) -> Iterator[Engine]:
    """An engine with an empty database of its own."""
    from byref.engine import Engine

    with Engine(byref_url, interpreter=byref_sandbox) as engine:
        yield engine


@pytest.fixture
def byref_session(byref_engine: Engine) -> Session:
    """A session named `test`, of a model with a window of 200,000 tokens."""
    return byref_engine.session("test", context_window=200_000)


@pytest.fixture
def byref_provider() -> Iterator[Providing]:
    """Starts a provider: `byref_provider({"name": "list_orders", "input": {}}, "Done.").url` is the `base_url` of the real SDK."""
    from byref.testing.providers import ScriptedProvider

    with ExitStack() as stack:
        yield lambda *turns: stack.enter_context(ScriptedProvider(*turns))
