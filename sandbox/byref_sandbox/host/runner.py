"""Whatever runs code: requests are made and replies are read here, and each runner has its own way from one to the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from byref_sandbox import wire
from byref_sandbox.code import plainjq, sqltext
from byref_sandbox.host.exchange import Answer
from byref_sandbox.host.reading import jq_outcome_of, outcome_of, rendered_of
from byref_sandbox.host.request import code_request, jq_request, sql_request, template_request
from byref_sandbox.outcome import Failure, JqOutcome, Limits, Outcome, Rendered
from byref_sandbox.values.data import Data, Load

MAX_SOURCE_CHARS: Final = 200_000


class Runner(ABC):
    """Runs Python, jq, SQL and templates over data; `answer` does it, in this machine's processes or elsewhere."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()

    @abstractmethod
    def answer(self, request: wire.Request, loads: Sequence[Load], session: str | None) -> Answer:
        """Runs one request to its end; `loads` gives its payloads, by index, if they are not warm in `session`.

        What the code does wrong is told in the answer. Raises SandboxUnavailable, and what a load raises.
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
        """Runs `code` over `variables`: plain data, DataFrames, or `Data`; only those it names are bound.

        In the code `users` (or `$users`) is the value and `df("users")` its DataFrame. With `session`, `Data` stays
        decoded in a warm process, so that the next call starts in milliseconds. `sources` are the definitions of earlier
        runs (`outcome.defined`): those the code names are run again before it. `files` are what earlier runs wrote
        (`outcome.files`), by name: the code opens them as it would elsewhere. Whatever the code does is told in the
        outcome's `error`. Raises SandboxUnavailable, TypeError or ValueError for what cannot be bound, and whatever
        `Data.load` raises.
        """
        limits = limits or self.limits
        if len(code) > MAX_SOURCE_CHARS:
            return Outcome(error=Failure("SyntaxError", f"the code is longer than {MAX_SOURCE_CHARS:,} characters"))
        request, loads = code_request("code", code, variables or {}, limits, sources=sources, files=files)
        return outcome_of(self.answer(request, loads, session), limits, request.variables)

    def jq(
        self,
        program: str,
        value: object,
        *,
        limits: Limits | None = None,
        max_outputs: int = 10_000,
        max_bytes: int = 16 << 20,
    ) -> JqOutcome:
        """Runs a jq program over one JSON value, `Data` or plain, and gives at most `max_outputs` outputs of `max_bytes`.

        jq computes with 64-bit floats: integers beyond 2**53 come out rounded, and those beyond 1.8e308, infinities and NaN
        as the outcome's `not_finite` says. There is no environment, no file and no
        module. Raises as `run` does.
        """
        limits = limits or self.limits
        if len(program) > MAX_SOURCE_CHARS:
            return JqOutcome(error=Failure("JqError", f"the program is longer than {MAX_SOURCE_CHARS:,} characters"))
        request, loads = jq_request("jq", program, value, limits, max_outputs, max_bytes)
        return jq_outcome_of(self.answer(request, loads, None), limits, max_outputs=max_outputs, max_bytes=max_bytes)

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
        """Answers a jq program that only picks out of the value that the session's warm process keeps decoded, as for `run`.

        Integers are exact. None where jq itself has to answer: the program is more than a pick, the data is not as it
        expects, or it is too much to be kept decoded. Raises as `run` does.
        """
        limits = limits or self.limits
        if not plainjq.is_plain(program):
            return None
        request, loads = jq_request("pick", program, value, limits, max_outputs, max_bytes)
        answer = self.answer(request, loads, session)
        outcome = jq_outcome_of(answer, limits, max_outputs=max_outputs, max_bytes=max_bytes)
        is_unanswered = outcome.error is not None and outcome.error.kind == plainjq.NOT_PLAIN
        return None if answer.refused is not None or is_unanswered else outcome

    def render(
        self, template: str, value: object, *, limits: Limits | None = None, max_bytes: int = 16 << 20
    ) -> Rendered:
        """Renders a Jinja template over one plain value as text of at most `max_bytes`, as `templates.render` does.

        Dates, Decimals and other types of Python's own are there what they are here. Raises as `run` does, TypeError for
        what holds something else.
        """
        limits = limits or self.limits
        if len(template) > MAX_SOURCE_CHARS:
            return Rendered(
                error=Failure("OutputLimit", f"the template is longer than {MAX_SOURCE_CHARS:,} characters")
            )
        request, loads = template_request(template, value, limits, max_bytes)
        return rendered_of(self.answer(request, loads, None), limits, request.max_output_bytes)

    def sql(
        self,
        query: str,
        variables: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        limits: Limits | None = None,
        keep: str = "",
    ) -> Outcome:
        """Runs one SQL query (DuckDB) over variables, as `run` takes them; those it names as tables are bound.

        `orders`, `"orders"` and `$orders` are the table of a variable, `$orders.items` that of the records at a path inside
        it. The result is a DataFrame, bound under the name `keep` too, if that is given. Only queries are run. Raises as
        `run` does; RuntimeError without DuckDB (`sqltext.is_available`).
        """
        limits = limits or self.limits
        if not sqltext.is_available():
            raise RuntimeError("DuckDB 2 or later is not installed: pip install 'byref[sql]'")
        if len(query) > MAX_SOURCE_CHARS:
            return Outcome(error=Failure("SqlError", f"the query is longer than {MAX_SOURCE_CHARS:,} characters"))
        if keep and not keep.isidentifier():
            raise ValueError(f"keep={keep!r} is no Python identifier")
        request, loads = sql_request(query, variables or {}, limits, keep)
        return outcome_of(self.answer(request, loads, session), limits)
