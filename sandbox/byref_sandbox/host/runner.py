"""The base of interpreters that exchange requests for answers. It makes the request and reads the answer; a subclass transports
them.
"""

from __future__ import annotations

import difflib
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from byref_sandbox import wire
from byref_sandbox.code import plainjq, sqltext
from byref_sandbox.code.analysis import MAX_SOURCE_CHARS
from byref_sandbox.functions import Callee, Stub
from byref_sandbox.host.exchange import Answer
from byref_sandbox.host.interpreter import Interpreter
from byref_sandbox.host.reading import jq_outcome_of, outcome_of, rendered_of, tables_of
from byref_sandbox.host.request import code_request, jq_request, sql_request, tables_request, template_request
from byref_sandbox.outcome import Failure, JqOutcome, LeftOut, Limits, Outcome, Rendered, Tables
from byref_sandbox.values.data import Data, Load, State

_UNDEFINED: Final = re.compile(r"name '(\w{1,200})' is not defined")
_DOCUMENT_SHARE: Final = 4
"""The part of a run's memory that a document may have as bytes: its parser needs the rest."""


def _checked(modules: Iterable[str]) -> tuple[str, ...]:
    if modules == () or modules == []:
        return ()
    from byref_sandbox.code.checking import check_all

    return check_all(modules)


def _with_functions(outcome: Outcome, stubs: Sequence[Stub]) -> Outcome:
    error = outcome.error
    missed = _UNDEFINED.match(error.message) if error is not None and error.kind == "NameError" else None
    close = difflib.get_close_matches(missed[1], [stub.name for stub in stubs], n=3) if missed else []
    if error is None or not close:
        return outcome
    hint = f"did you mean {' or '.join(map(repr, close))}? {error.hint or ''}"
    return replace(outcome, error=replace(error, hint=hint.strip()))


class Runner(Interpreter):
    """Runs Python, jq, SQL and templates over data; the method `answer` runs a request, in processes of this machine or
    elsewhere.

    `Interpreter` says what the methods accept, return and raise.
    """

    def __init__(self, limits: Limits | None = None, modules: Iterable[str] = ()) -> None:
        """Raise ValueError, which says what it reaches, of a module that code may not have."""
        self.limits = limits or Limits()
        self.modules = _checked(modules)
        """Further modules that code may import."""

    @abstractmethod
    def answer(
        self, request: wire.Request, loads: Sequence[Load], session: str | None, callee: Callee | None = None
    ) -> Answer:
        """Run one request to its end; `loads` return its payloads, by index, if they are not warm in `session`.
        `callee` answers the calls of a request that has functions.

        Mistakes of the code are in the answer. The method may be called from any thread, several times at once. It raises
        SandboxUnavailable, and whatever a load raises.
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
        limits = limits or self.limits
        if len(code) > MAX_SOURCE_CHARS:
            return Outcome(error=Failure("SyntaxError", f"the code is longer than {MAX_SOURCE_CHARS:,} characters"))
        request, loads = code_request(
            "code",
            code,
            variables or {},
            limits,
            state=state,
            files=files,
            allowed=self.modules,
            stubs=() if functions is None else functions.stubs,
        )
        callee: dict[str, Callee] = {}
        if request.functions and functions is not None:
            callee = {"callee": functions}
            if (begins := functions.beginning) is not None:
                request = msgspec.structs.replace(request, began_at=begins.seconds, seed=begins.seed)
        outcome = outcome_of(self.answer(request, loads, session, **callee), limits, request.variables)
        # Code that names no function is run without them, and may have meant one.
        return outcome if functions is None or callee else _with_functions(outcome, functions.stubs)

    def jq(
        self,
        program: str,
        value: object,
        *,
        limits: Limits | None = None,
        max_outputs: int = 10_000,
        max_bytes: int = 16 << 20,
    ) -> JqOutcome:
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
        limits = limits or self.limits
        if len(template) > MAX_SOURCE_CHARS:
            return Rendered(
                error=Failure("OutputLimit", f"the template is longer than {MAX_SOURCE_CHARS:,} characters")
            )
        request, loads = template_request(template, value, limits, max_bytes)
        return rendered_of(self.answer(request, loads, None), limits, request.max_output_bytes)

    def tables(
        self,
        document: bytes,
        *,
        content_type: str | None = None,
        name: str | None = None,
        limits: Limits | None = None,
        max_bytes: int = 64 << 20,
    ) -> Tables:
        """Read the tables of a document: Excel, Parquet, Arrow, SQLite, HTML, XML, YAML, and gzip or zip of these.

        Its content decides what it is; `content_type` and `name` are hints, which YAML may need. `max_bytes` bounds the records and
        texts of the answer together. A part that cannot be read whole is left out, with the reason; a limit is `Tables.error`. The
        parsers run as code does, in a jailed process. `byref_sandbox.looks_like` tells in microseconds whether it is worth asking.
        It is no part of `Interpreter`: an interpreter of a host's own may lack it. Raises ValueError, SandboxUnavailable.
        """
        limits = limits or self.limits
        if len(document) > limits.memory_bytes // _DOCUMENT_SHARE:
            most = limits.memory_bytes // _DOCUMENT_SHARE
            return Tables(left_out=(LeftOut("", f"it has {len(document):,} bytes; at most {most:,} are read"),))
        request, loads = tables_request(document, content_type, name, limits, max_bytes)
        return tables_of(self.answer(request, loads, None), limits, request.max_output_bytes)

    def sql(
        self,
        query: str,
        variables: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        limits: Limits | None = None,
        keep: str = "",
    ) -> Outcome:
        limits = limits or self.limits
        if not sqltext.is_available():
            raise RuntimeError("DuckDB 2 or later is not installed: pip install 'byref[sql]'")
        if len(query) > MAX_SOURCE_CHARS:
            return Outcome(error=Failure("SqlError", f"the query is longer than {MAX_SOURCE_CHARS:,} characters"))
        if keep and not keep.isidentifier():
            raise ValueError(f"keep={keep!r} is no Python identifier")
        request, loads = sql_request(query, variables or {}, limits, keep)
        return outcome_of(self.answer(request, loads, session), limits)
