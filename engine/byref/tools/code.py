"""code_interpreter: runs model-written Python over the session's variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from msgspec import Meta
from sqlalchemy import Connection

from byref.artifacts import variables
from byref.artifacts.variables import Variable
from byref.calling.running import Calls
from byref.conversation.result import Pending
from byref.conversation.scope import Scope
from byref.functions import Function
from byref.interpreter import inputs, persistence, reply, runs
from byref.interpreter.persistence import Committed
from byref.interpreter.runs import Execution
from byref.policy import Policy
from byref.references.coercion import as_code
from byref.tools.record import Answer, Arguments, Tool
from byref_sandbox.outcome import CRASH
from byref_sandbox.values.plots import is_available as can_plot

INLINE_SHARE = 0.5
"""Share of `reply_tokens`: a value larger than that becomes a variable instead of being shown."""
MAX_SHOWN = 5
SHOWN_CHARS = 200
REPEATS = 3
"""How often code that calls functions runs again after its process was killed, unless more of its calls are answered each time."""
MOST_REPEATS = 12
"""How often at most: code that kills itself after each call does so no more often."""
STUB_CHARS = 6_000
"""Characters of the functions in the description: about 1,500 tokens."""
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
    inline_tokens = int(scope.policy.reply_tokens * INLINE_SHARE)
    if not scope.functions:
        return answer(scope, runs.run(scope, arguments.code, inline_tokens=inline_tokens))
    calls = Calls(scope)
    try:
        execution = runs.run(scope, arguments.code, inline_tokens=inline_tokens, functions=calls)
        in_vain = 0
        for _ in range(MOST_REPEATS):
            start, error = calls.again, execution.outcome.error
            if start is None or error is None or error.kind != CRASH:
                break
            # The sandbox was killed. The journal has what the calls returned, so the code may run again from its beginning.
            calls.settle()
            in_vain = 0 if calls.new_results else in_vain + 1
            if in_vain > REPEATS:
                break
            calls.close()
            calls = Calls(scope, start)
            execution = runs.run(scope, arguments.code, inline_tokens=inline_tokens, functions=calls)
        if calls.pending:
            return Answer(_waits_for(calls.pending), calls=calls)
        calls.conclude()
        return answer(scope, execution, calls)
    except BaseException:
        calls.close()
        raise


def _waits_for(pending: Sequence[Pending]) -> str:
    """Return the line that the model reads while code waits for somebody's approval."""
    words = ", ".join(f"{one.function}({_short(one.arguments)})" for one in pending[:MAX_SHOWN])
    more = f" and {len(pending) - MAX_SHOWN} more" if len(pending) > MAX_SHOWN else ""
    return f"The code waits for approval of {words}{more}; its result comes once that is decided."


def _short(arguments: Mapping[str, object] | str) -> str:
    if isinstance(arguments, str):
        return f"{arguments[:SHOWN_CHARS]}…"
    text = ", ".join(f"{name}={value!r:.60}" for name, value in arguments.items())
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


def answer(scope: Scope, execution: Execution, calls: Calls | None = None) -> Answer:
    """Return the answer of a run. Together with the reply's step, the names that the run left are bound and the run is
    recorded. `calls` are those of functions that the code has made.
    """
    error = execution.outcome.error
    known: list[Variable] = []
    if error is not None and error.kind == "NameError":
        known = scope.read(lambda connection: _known(connection, scope))
    names_nothing = execution.names_nothing and calls is None
    text = reply.reply(execution, Committed(), scope, known) if names_nothing else None

    def commit(connection: Connection, step: int) -> str:
        made = runs.commit(connection, scope, execution, step, replied=True)
        if text is not None:
            return text
        return reply.reply(execution, made, scope, known) + ("" if calls is None else _told(calls))

    return Answer(text, is_error=error is not None, commit=commit, images=execution.plots.shown, calls=calls)


def _told(calls: Calls) -> str:
    """Return what the reply says of calls: which results have names, and whether the code took another way than before."""
    told = ""
    if names := [*calls.tally.kept]:
        more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
        told += f"\nkept: {', '.join(names[:MAX_SHOWN])}{more}"
    for name, wrong in [*calls.tally.departed.items()][:MAX_SHOWN]:
        told += f"\n{name}() returned something else than before: {wrong[:SHOWN_CHARS]}"
    if calls.unclaimed:
        told += f"\nThe code was interrupted and ran again; {calls.unclaimed} of the calls made before were not asked for again."
    return told


def _known(connection: Connection, scope: Scope) -> list[Variable]:
    """Return the latest variables. The shape of an output that passed whole names its call, since no envelope names the variable."""
    known = variables.latest(connection, scope.source, scope.row)
    calls = inputs.calls_of(connection, scope, known)
    return [replace(one, shape=f"{one.shape}, from {calls[one.name]}") if one.name in calls else one for one in known]


def _describe_more(policy: Policy, modules: Sequence[str], functions: Sequence[Function]) -> str:
    text = ""
    if modules:
        text += f" There are also: {', '.join(modules[:MAX_MODULES])}{', …' if len(modules) > MAX_MODULES else ''}."
    if policy.keep_tokens is not None:
        text += (
            f" Outputs from {policy.keep_tokens} tokens on that you read whole are variables too: get_orders, then get_orders_2 "
            'for the next of that tool; "$get_orders" hands one to another tool.'
        )
    return text + _stubs(functions)


def _stubs(functions: Sequence[Function]) -> str:
    """Return the functions that code may call, as many as the budget allows."""
    if not functions:
        return ""
    lines: list[str] = []
    room = STUB_CHARS
    for function in functions:
        room -= len(function.summary) + 1
        if room < 0 and lines:
            break
        lines.append(function.summary)
    text = (
        " Functions of this application are there, too: call them in code, many in one program, without printing what they return; "
        "`await asyncio.gather(…)` of calls runs them at once.\n" + "\n".join(lines)
    )
    if len(lines) < len(functions):
        text += f"\n… and {len(functions) - len(lines)} more: functions('words') finds them"
    return f"{text}\nhelp(name) shows one whole."


_PLOTS = " matplotlib draws: figures come back." if can_plot() else ""

CODE_INTERPRETER = Tool(
    "code_interpreter",
    "Run Python over the full data of this conversation's variables (by name, as plain Python objects; df(name) gives a "
    "DataFrame) and artifacts (by id, as str or bytes). There are pandas as pd, numpy as np, "
    f"standard modules and the files that code wrote; no network.{_PLOTS}",
    CodeArguments,
    _run,
    example={"code": "len(users)"},
    spellings=dict.fromkeys(("python", "python_code", "source", "source_code", "script", "program", "input"), "code"),
    coerce={"code": as_code},
    needs_sandbox=True,
    describe_more=_describe_more,
)
