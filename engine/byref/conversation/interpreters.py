"""What the engine asks of whatever runs model-written code: a sandbox of this machine, or a cluster's workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from byref.errors import ConfigurationError
from byref_sandbox import Data, JqOutcome, Limits, Outcome, Rendered


@runtime_checkable
class Interpreter(Protocol):
    """Runs model-written Python, jq and SQL, and templates, over data; safe from any thread and after a fork, with an end in bounded time.

    `byref_sandbox.Sandbox` is one, `byref.adapters.dask.DaskInterpreter` another; their base, `byref_sandbox.Runner`, makes
    one of anything that answers requests. `Data` is read by its `load`, and only if it is needed. What the code does wrong is
    in the outcome; that it cannot be run at all is a `byref_sandbox.SandboxUnavailable`. `session` names what is kept warm:
    runs of one session may see each other's data, of two never.
    """

    def run(
        self,
        code: str,
        variables: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        limits: Limits | None = None,
        sources: Mapping[str, str] | None = None,
        files: Mapping[str, bytes | Data] | None = None,
    ) -> Outcome:
        """Run code over those variables that it names; `sources` are definitions of earlier runs, `files` what they wrote."""

    def jq(
        self,
        program: str,
        value: object,
        *,
        limits: Limits | None = None,
        max_outputs: int = 10_000,
        max_bytes: int = 16 << 20,
    ) -> JqOutcome:
        """Run a jq program over one value."""

    def pick(
        self,
        program: str,
        value: Data,
        *,
        session: str,
        limits: Limits | None = None,
        max_outputs: int = 10_000,
        max_bytes: int = 16 << 20,
    ) -> JqOutcome | None:
        """Answer a jq program that only picks, over decoded data and exactly; None: `jq` has to answer."""

    def render(
        self, template: str, value: object, *, limits: Limits | None = None, max_bytes: int = 16 << 20
    ) -> Rendered:
        """Render a Jinja template over one value."""

    def sql(
        self,
        query: str,
        variables: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        limits: Limits | None = None,
        keep: str = "",
    ) -> Outcome:
        """Run one SQL query over those variables that it names as tables; `keep` names the result."""

    def close(self) -> None:
        """End what was started; whoever made the interpreter calls it."""


def check_interpreter(interpreter: object) -> None:
    """Raise ConfigurationError for what can run no code."""
    if isinstance(interpreter, type) or not isinstance(interpreter, Interpreter):
        kind = interpreter.__name__ if isinstance(interpreter, type) else type(interpreter).__name__
        article = "the class" if isinstance(interpreter, type) else "a value of type"
        raise ConfigurationError(
            f"the interpreter must be a byref_sandbox.Sandbox or another byref.Interpreter, not {article} {kind!r}"
        )
