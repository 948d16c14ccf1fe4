"""The errors of an adapter whose framework is not installed, or which is given something other than an engine."""

from __future__ import annotations

from byref.engine import Engine
from byref.errors import ConfigurationError


def missing(module: str, package: str, extra: str) -> ConfigurationError:
    """Return the error for a host that imports `module` without `package`, which `byref[extra]` installs."""
    return ConfigurationError(f"{module} needs {package}: pip install 'byref[{extra}]'")


def check_engine(engine: object) -> Engine:
    """Return `engine` if it is one, or raise `ConfigurationError` that says what is expected."""
    if isinstance(engine, Engine):
        return engine
    hint = ""
    if isinstance(engine, str):
        hint = ": write byref.Engine(url)"  # the URL may hold a password
    elif type(engine).__name__ == "AsyncEngine":
        hint = ": adapters run a synchronous engine's methods on threads, in asynchronous code too"
    kind = engine.__name__ if isinstance(engine, type) else type(engine).__name__
    article = "the class" if isinstance(engine, type) else "a value of type"
    raise ConfigurationError(f"the engine must be a byref.Engine, not {article} {kind!r}{hint}")
