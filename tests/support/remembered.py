"""A session of runs in a sandbox: what each leaves is given to the next, as an engine does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byref_sandbox import Outcome, Sandbox, Snapshot, State


class Session:
    """Runs of code with the session's state between them."""

    def __init__(self, sandbox: Sandbox, name: str | None = None, **options: Any) -> None:
        self.sandbox, self.name, self.options = sandbox, name, options
        self.contents: bytes | None = None
        self.blobs: dict[bytes, bytes] = {}
        self.shown: dict[str, bytes] = {}
        self.last = b""

    def copy(self) -> Session:
        """Another one that goes on from here."""
        made = Session(self.sandbox, self.name, **self.options)
        made.contents, made.blobs, made.shown = self.contents, dict(self.blobs), dict(self.shown)
        made.last = self.last
        return made

    @property
    def state(self) -> State | None:
        if self.contents is None and not self.last:
            return None
        snapshots = () if self.contents is None else (Snapshot(self.contents),)
        return State(snapshots, self.blobs, shown=self.shown, last=self.last)

    def run(self, code: str, variables: Mapping[str, object] | None = None) -> Outcome:
        outcome = self.sandbox.run(code, variables, session=self.name, state=self.state, **self.options)
        if outcome.contents is not None:
            self.contents, self.blobs = outcome.contents, {**self.blobs, **outcome.blobs}
            self.shown |= {name: one.digest for name, one in outcome.bound.items()}
        self.last = self.last if outcome.last is None else outcome.last
        return outcome

    def value(self, code: str, variables: Mapping[str, object] | None = None) -> object:
        outcome = self.run(code, variables)
        assert outcome.error is None, outcome.error
        return outcome.value
