"""The protocol between a host and whatever runs model-written code: a local sandbox, the workers of a cluster, a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from byref_sandbox.functions import Callee
from byref_sandbox.outcome import JqOutcome, Limits, Outcome, Rendered
from byref_sandbox.values.data import Data, State


@runtime_checkable
class Interpreter(Protocol):
    """Runs model-written Python, jq and SQL, and templates, over data.

    `byref_sandbox.Sandbox` is one, `byref.adapters.dask.DaskInterpreter` another; their base, `byref_sandbox.Runner`, makes
    one of anything that answers requests.

    Arguments that methods share: `session` names the processes and data that stay warm between calls; None keeps nothing
    warm. Runs of one session may see each other's data, runs of two sessions never do. `limits` bound one run; None means
    the interpreter's own. Data is a JSON value, a DataFrame, or a `Data`, whose `load` is called only if the run needs it,
    and before the method returns. A method changes none of its arguments and keeps none of them, except data with a
    `Data.key` in a warm session.

    Errors: a mistake in the code, the program or the query, and a limit that it exceeds, is the outcome's `error`. Methods
    raise `byref_sandbox.SandboxUnavailable` if nothing can be run at all, TypeError or ValueError if a value cannot be
    bound, and whatever `Data.load` raises.

    Threads: methods may be called from any thread, several at once, and in a forked copy of the process. Each returns in
    bounded time: that of its limits and a few seconds more, besides waiting for its turn and for `Data.load`.

    Ownership: whoever made an interpreter closes it. An engine does not close an interpreter that it was given.
    """

    def run(
        self,
        code: str,
        variables: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        limits: Limits | None = None,
        state: State | None = None,
        files: Mapping[str, bytes | Data] | None = None,
        functions: Callee | None = None,
    ) -> Outcome:
        """Run Python over variables, of which those that the code names are bound.

        In the code `users` (or `$users`) is the value and `df("users")` its DataFrame. `state` is what earlier runs of the
        session have left (`Outcome.contents` and `Outcome.blobs`): its names are bound as well, and are what they were. `files`
        are what earlier runs wrote (`Outcome.files`), by name: the code opens them as it would elsewhere. `functions`
        answers the code's calls of functions of the host. These arguments are left out where there is none. Names that the code binds at its top level are in the outcome.
        """

    def jq(
        self,
        program: str,
        value: object,
        *,
        limits: Limits | None = None,
        max_outputs: int = 10_000,
        max_bytes: int = 16 << 20,
    ) -> JqOutcome:
        """Run a jq program over one JSON value and return at most `max_outputs` outputs of `max_bytes` together.

        jq computes with 64-bit floats: integers beyond 2**53 come out rounded, and those beyond 1.8e308, infinities and NaN
        as `JqOutcome.not_finite` says. A value of content type `EXACT` is the JSON that its name has (`Bound.data`), however big
        it is; the program `.` gives that with a line for each record. There is no environment, no file and no module.
        """

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
        """Answer a plain jq program (`plainjq` has the grammar) over the value, from data that the session keeps decoded; integers are exact.

        None where `jq` has to answer: the program is more than a pick, the data is not as it expects, or it is too much to
        be kept decoded. An interpreter that keeps nothing decoded always returns None.
        """

    def render(
        self, template: str, value: object, *, limits: Limits | None = None, max_bytes: int = 16 << 20
    ) -> Rendered:
        """Render a Jinja template over one plain value as text of at most `max_bytes`.

        Dates, Decimals and other types of Python's own are there what they are here; TypeError for what holds something
        else.
        """

    def sql(
        self,
        query: str,
        variables: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        limits: Limits | None = None,
        keep: str = "",
    ) -> Outcome:
        """Run one SQL query (DuckDB) over variables, of which those that it names as tables are bound.

        `orders`, `"orders"` and `$orders` are the table of a variable, `$orders.items` that of the records at a path inside
        it. The result is a DataFrame, bound under the name `keep` too, if that is given. Only queries are run. RuntimeError
        without DuckDB.
        """

    def close(self) -> None:
        """End what was started: processes, connections. Runs that are going on end with an error; a second call does nothing."""
