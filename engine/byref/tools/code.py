"""code_interpreter: runs model-written Python over the session's variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from msgspec import Meta
from sqlalchemy import Connection

from byref.artifacts import variables
from byref.artifacts.variables import Variable
from byref.conversation.scope import Scope
from byref.interpreter import inputs, persistence, reply, runs
from byref.interpreter.persistence import Committed
from byref.interpreter.runs import Execution
from byref.policy import Policy
from byref.references.coercion import as_code
from byref.tools.record import Answer, Arguments, Tool
from byref_sandbox.values.plots import is_available as can_plot

INLINE_SHARE = 0.5
"""Share of `reply_tokens`: a value larger than that becomes a variable instead of being shown."""
MAX_MODULES = 30
"""Further modules that the description names."""


class CodeArguments(Arguments, frozen=True):
    """Arguments of code_interpreter."""

    code: Annotated[
        str, Meta(description="Python source. The last expression's value is the result; print is captured too.")
    ]
    reset: Annotated[bool, Meta(description="Forget the names of earlier code first.")] = False


def _run(scope: Scope, arguments: CodeArguments) -> Answer:
    if arguments.reset:
        persistence.reset(scope)
    return answer(scope, runs.run(scope, arguments.code, inline_tokens=int(scope.policy.reply_tokens * INLINE_SHARE)))


def answer(scope: Scope, execution: Execution) -> Answer:
    """Return the answer of a run. Together with the reply's step, the names that the run left are bound and the run is
    recorded.
    """
    error = execution.outcome.error
    known: list[Variable] = []
    if error is not None and error.kind == "NameError":
        known = scope.read(lambda connection: _known(connection, scope))
    text = reply.reply(execution, Committed(), scope, known) if execution.names_nothing else None

    def commit(connection: Connection, step: int) -> str:
        made = runs.commit(connection, scope, execution, step, replied=True)
        return reply.reply(execution, made, scope, known) if text is None else text

    return Answer(text, is_error=error is not None, commit=commit, images=execution.plots.shown)


def _known(connection: Connection, scope: Scope) -> list[Variable]:
    """Return the latest variables. The shape of an output that passed whole names its call, since no envelope names the variable."""
    known = variables.latest(connection, scope.source, scope.row)
    calls = inputs.calls_of(connection, scope, known)
    return [replace(one, shape=f"{one.shape}, from {calls[one.name]}") if one.name in calls else one for one in known]


def _describe_more(policy: Policy, modules: Sequence[str]) -> str:
    text = ""
    if modules:
        text += f" There are also: {', '.join(modules[:MAX_MODULES])}{', …' if len(modules) > MAX_MODULES else ''}."
    if policy.keep_tokens is not None:
        text += (
            f" Outputs from {policy.keep_tokens} tokens on that you read whole are variables too: get_orders, then get_orders_2 "
            'for the next of that tool; "$get_orders" hands one to another tool.'
        )
    return text


_PLOTS = " matplotlib draws: figures come back." if can_plot() else ""

CODE_INTERPRETER = Tool(
    "code_interpreter",
    "Run Python over the full data of this conversation's variables (by name, as plain Python objects; df(name) gives a "
    "DataFrame) and artifacts (by id, as str or bytes). pandas as pd, numpy as np and common standard modules are there; "
    f"files and network are not.{_PLOTS}",
    CodeArguments,
    _run,
    example={"code": "len(users)"},
    spellings=dict.fromkeys(("python", "python_code", "source", "source_code", "script", "program", "input"), "code"),
    coerce={"code": as_code},
    needs_sandbox=True,
    describe_more=_describe_more,
)
