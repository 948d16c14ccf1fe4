"""Check the interpreter that an engine is given."""

from __future__ import annotations

from byref.errors import ConfigurationError
from byref_sandbox import Interpreter

__all__ = ["Interpreter", "check_interpreter", "modules_of"]


def modules_of(interpreter: Interpreter | None) -> tuple[str, ...]:
    """Return the names of further modules that code may import; an interpreter of the host's own may tell none."""
    return tuple(getattr(interpreter, "modules", ()))


def check_interpreter(interpreter: object) -> None:
    """Raise ConfigurationError if a value is no interpreter."""
    if isinstance(interpreter, type) or not isinstance(interpreter, Interpreter):
        kind = interpreter.__name__ if isinstance(interpreter, type) else type(interpreter).__name__
        article = "the class" if isinstance(interpreter, type) else "a value of type"
        raise ConfigurationError(
            f"the interpreter must be a byref_sandbox.Sandbox or another byref.Interpreter, not {article} {kind!r}"
        )
