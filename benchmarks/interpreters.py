"""Other interpreters for a model's code, through their own classes with their own defaults."""

from __future__ import annotations

from typing import Any


class Smolagents:
    """LocalPythonExecutor of smolagents: walks the syntax tree in this process; nothing isolates it."""

    isolation = "none: evaluated in the host's own process"

    def __init__(self) -> None:
        from smolagents.local_python_executor import LocalPythonExecutor

        self._executor = LocalPythonExecutor(additional_authorized_imports=["pandas"])
        self._executor.send_tools({})

    def bind(self, **values: Any) -> None:
        """Give it variables: they are the host's own objects."""
        self._executor.send_variables(values)

    def run(self, code: str) -> Any:
        """The value of the last expression."""
        return self._executor(code).output

    def close(self) -> None:
        """It holds nothing but memory."""


class Monty:
    """pydantic-monty: a Python of its own, written in Rust, in a worker process; without pandas, or any C extension."""

    isolation = "an interpreter that can do nothing else, in a worker process without a jail"

    def __init__(self) -> None:
        from pydantic_monty import Monty

        self._pool = Monty()
        self._pool.__enter__()
        self._checkout = self._pool.checkout()
        self._session = self._checkout.__enter__()

    def bind(self, **values: Any) -> None:
        """Send it variables: they are copied into the worker."""
        self._session.feed_run("None", inputs=values)

    def run(self, code: str) -> Any:
        """The value of the last expression."""
        return self._session.feed_run(code)

    def close(self) -> None:
        """End the worker."""
        self._checkout.__exit__(None, None, None)
        self._pool.__exit__(None, None, None)


PEERS = {"smolagents": Smolagents, "pydantic-monty": Monty}
