"""Attack the second wall alone: plain CPython, real builtins, inside the jail, as if the language had fallen."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from byref_sandbox.functions import Callee
from byref_sandbox.host.pool import Sandbox
from byref_sandbox.host.reading import outcome_of
from byref_sandbox.host.request import code_request
from byref_sandbox.outcome import Limits, Outcome

_lock: Final = threading.Lock()
_sandboxes: Final[list[Sandbox]] = []


def run_in_jail(
    source: str,
    limits: Limits | None = None,
    *,
    variables: Mapping[str, object] | None = None,
    without: tuple[str, ...] = (),
    session: str | None = None,
    sandbox: Sandbox | None = None,
    functions: Callee | None = None,
) -> Outcome:
    """Run `source` as plain CPython in a jailed process; its variable `result`, if it sets one, is the value.

    With `session`, `Data` among the variables stays decoded in that session's process, as in `Sandbox.run`. `without` names layers
    of the jail to leave out of this run, so that one can be tried without another. Without `sandbox`, all calls share one.
    With `functions`, a `source` that names one of them has the descriptor on which they are called, too.
    """
    limits = limits or Limits()
    sandbox = sandbox or _shared()
    request, loads = code_request(
        "raw", source, variables or {}, limits, without, stubs=() if functions is None else functions.stubs
    )
    return outcome_of(sandbox.answer(request, loads, session, functions if request.functions else None), limits)


def _shared() -> Sandbox:
    with _lock:
        if not _sandboxes:
            _sandboxes.append(Sandbox())
        return _sandboxes[0]
