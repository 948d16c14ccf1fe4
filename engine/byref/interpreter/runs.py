"""A run of code: its inputs are looked up, it runs in the sandbox, and its values are staged and committed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

from sqlalchemy import Connection, insert

from byref.artifacts import tombstones
from byref.conversation import tracing
from byref.conversation.failures import cure, readable_failures
from byref.conversation.scope import Scope
from byref.db.tables import RunRow
from byref.describe.truncate import Ends
from byref.errors import ArtifactMissing, ToolError
from byref.interpreter import effects, files, inputs, persistence, plots
from byref.interpreter.files import Files
from byref.interpreter.inputs import Inputs
from byref.interpreter.persistence import Committed, Left
from byref.interpreter.plots import Plots
from byref.jsonscan import LazyJSON
from byref_sandbox import Limits, Outcome, Runner
from byref_sandbox.code.analysis import Analysed
from byref_sandbox.code.inplace import Changed, changed_in_place
from byref_sandbox.functions import Callee
from byref_sandbox.outcome import CHANGED, FOREIGN_STATE, SUSPENDED

MAX_CODE_CHARS = 200_000
RECORDED_CHARS = 10_000
MOST_LOOKS = 5
"""How often names are looked up again whose data other runs have replaced before it was read."""
"""Maximum characters of a value, and of the printed text, in the record of a run."""
_RECORD = insert(RunRow)


@dataclass(frozen=True, slots=True)
class Execution:
    """One finished run that is not committed yet."""

    code: str
    language: str
    outcome: Outcome
    limits: Limits
    left: Left
    plots: Plots = field(default_factory=Plots)
    files: Files = field(default_factory=Files)
    changed: tuple[str, ...] = ()
    """Names of stored data that the code changed in place, as its text says: for this run only."""
    callables: tuple[str, ...] = ()
    """Functions and classes of earlier runs, by name."""
    calls: Mapping[str, str] = field(default_factory=dict)
    """As in `Inputs`, of the numbered names that the code uses."""
    before: tuple[str, ...] | None = None
    """Names that earlier runs had left; None: they were not looked up."""
    used: tuple[str, ...] = ()
    """Names of stored data that the code was given."""
    is_damaged: bool = False
    """The record of what earlier runs had left cannot be read."""
    gone: str | None = None
    """A text about a name that the code used and that no longer exists; the error's hint says the same."""

    @property
    def names_nothing(self) -> bool:
        """Whether the reply can be written before the commit: no name in it depends on what is committed."""
        return self.left.is_empty and not self.plots.staged and not self.files.staged


def run(scope: Scope, code: str, *, inline_tokens: int, functions: Callee | None = None) -> Execution:
    """Run code over the variables it names and stage what it leaves; a value over `inline_tokens` becomes a variable.

    `functions` answers the code's calls. Of code that is suspended nothing is staged.

    Raises:
        ToolError: the code cannot be run, is too long, or names what is too large or damaged.
    """
    if scope.sandbox is None:
        raise ToolError("code_interpreter is not available here")
    if len(code) > MAX_CODE_CHARS:
        raise ToolError(f"the code has {len(code):,} characters; at most {MAX_CODE_CHARS:,} are run at once")
    program = Analysed(code)  # parsed once, here and in the interpreter
    with readable_failures(scope):
        given = inputs.look_up(scope, program)
    limits = scope.limits
    outcome, given, damaged = _run(scope, program, given, limits, functions)
    if outcome.error is not None and outcome.error.kind == SUSPENDED:
        return Execution(program, "python", outcome, limits, Left())
    changed = changed_in_place(program, given.texts, {*given.data, *given.variables})
    return stage(scope, program, given, outcome, limits, inline_tokens=inline_tokens, changed=changed, damaged=damaged)


def _run(
    scope: Scope, code: Analysed, given: Inputs, limits: Limits, functions: Callee | None
) -> tuple[Outcome, Inputs, Mapping[str, str]]:
    """Run the code; return the outcome, what it was given in the end, and the names it was not given because they are damaged."""
    assert scope.sandbox is not None
    session = f"{scope.tenant}\0{scope.name}"
    # An interpreter of the host's own may send the code, and not every encoder accepts subclasses of str.
    is_sent = not isinstance(scope.sandbox, Runner)
    text = str(code) if is_sent else code
    given = inputs.without_analysis(given) if is_sent else given
    call = partial(scope.sandbox.run, text, session=session, limits=limits)
    damaged: dict[str, str] = {}
    looks = MOST_LOOKS
    with readable_failures(scope):
        while True:
            # Passed only where there are such, because a host's own interpreter may lack these parameters.
            options = {"files": given.files, "state": given.state, "functions": functions}
            attempt = partial(call, {**given.data, **given.others}, **{k: one for k, one in options.items() if one})
            try:
                outcome = tracing.run(scope, "python", code, attempt)
            except ArtifactMissing as error:
                # Nothing has run yet, so a retry is safe. What another run has bound anew meanwhile is there under another row.
                again = inputs.look_up(scope, code) if looks else given
                if inputs.have_same_data(given, again):
                    given = _without(scope, code, given, error, damaged)
                else:
                    looks, given = looks - 1, inputs.without_analysis(again) if is_sent else again
                continue
            if outcome.error is None or outcome.error.kind != FOREIGN_STATE or given.state is None:
                return outcome, given, damaged
            if given.state.is_foreign:
                return outcome, given, damaged
            given = inputs.as_data(scope, given)


def _without(scope: Scope, code: Analysed, given: Inputs, error: ArtifactMissing, damaged: dict[str, str]) -> Inputs:
    """Return the inputs without what is damaged, where the run can do without; else raise the error."""
    if error.name is not None and error.name.startswith(".") and given.state is not None:
        return inputs.without_blob(scope, given, bytes.fromhex(error.name[1:]), tombstones.GONE)
    # The code may not need the data of names that it assigns itself.
    its = {name for name, one in given.variables.items() if one.artifact.payload.blob_id == error.blob_id}
    lost = (its | {error.name or ""}) & given.data.keys() & (code.uses.assigned | given.unnamed)
    if not lost:
        raise error
    damaged |= dict.fromkeys(lost, cure(scope, error))
    others = {name: inputs.name_only(is_left=given.variables[name].origin == "run") for name in lost & given.unnamed}
    data = {name: value for name, value in given.data.items() if name not in lost}
    return replace(given, data=data, others={**given.others, **others})


def stage(
    scope: Scope,
    code: str,
    given: Inputs,
    outcome: Outcome,
    limits: Limits,
    *,
    inline_tokens: int,
    language: str = "python",
    changed: Mapping[Changed, int] = MappingProxyType({}),
    damaged: Mapping[str, str] = MappingProxyType({}),
) -> Execution:
    """Stage what a run left, as far as it may be kept.

    `changed` is what the code changes in place of all data that it was given, with the line; `damaged` are names that it
    was not given, each with what to do about it.
    """
    outcome, gone = _with_what_is_gone(scope, given, outcome, damaged)
    entries = given.kept.record.entries
    of_runs = {name for name, variable in given.variables.items() if variable.origin == "run"}
    return Execution(
        code,
        language,
        outcome,
        limits,
        persistence.stage(scope, given, outcome, inline_tokens=inline_tokens),
        plots.stage(scope, outcome),
        files.stage(scope, outcome, given.last_file),
        changed=_changed(changed, given, outcome),
        gone=gone,
        callables=tuple(name for name, one in entries.items() if one.what in ("function", "class")),
        calls=given.calls,
        before=tuple(of_runs | entries.keys()) if language == "python" else None,
        used=tuple(given.variables.keys() - of_runs - given.unnamed),
        is_damaged=given.kept.is_damaged,
    )


def commit(connection: Connection, scope: Scope, execution: Execution, step: int, *, replied: bool) -> Committed:
    """Bind and publish what a run left, and record it.

    `step` is that of the reply, or, where the host ran the code (`replied` False), the last one before it.
    QuotaExceeded: others stored so much meanwhile that there is no room for it.
    """
    reply_step = step if replied else None
    made = persistence.commit(connection, scope, execution.left, step, reply_step)
    done = effects.effects(
        execution.left, made, before=execution.before, used=execution.used, for_this_run=execution.changed
    )
    outcome, limits = execution.outcome, execution.limits
    record(connection, scope, execution.language, execution.code, outcome, limits, reply_step, done)
    named = plots.commit(connection, scope, execution.plots, reply_step)
    files_over = files.commit(connection, scope, execution.files, reply_step)
    return replace(made, plots=named, files_over=files_over)


def record(
    connection: Connection,
    scope: Scope,
    language: str,
    code: str,
    outcome: Outcome,
    limits: Limits,
    step: int | None,
    done: bytes | None = None,
) -> None:
    """Keep one run: its code, result, output, error, cost, limits and its `effects`, each bounded."""
    error, text = outcome.error, text_of(outcome)
    connection.execute(
        _RECORD,
        {
            "tenant": scope.tenant,
            "session_id": scope.row,
            "step": step,
            "language": language,
            "code": str(code),
            "result": (text if isinstance(text, str) else text.head)[:RECORDED_CHARS] or None,
            "stdout": outcome.stdout[:RECORDED_CHARS],
            "error": None if error is None else json.dumps([error.kind, error.message, error.line, error.hint]),
            "wall_ms": outcome.usage.wall_ms,
            "cpu_ms": outcome.usage.cpu_ms,
            "peak_bytes": outcome.usage.peak_bytes,
            "limits": json.dumps({name: getattr(limits, name) for name in Limits.__dataclass_fields__}),
            "names": None if done is None else done.decode(),
            "created_at": datetime.now(UTC),
        },
    )


def text_of(outcome: Outcome) -> str | Ends:
    """Return the value as a model reads it best; of a long one only the ends are made."""
    value = LazyJSON(outcome.json)
    if outcome.shown is not None or outcome.kind == "none" or value.is_short:
        return outcome.text
    return value.text


def missing_name(outcome: Outcome) -> str | None:
    """Return the name that code used and that is not there."""
    error = outcome.error
    if error is None or error.kind != "NameError":
        return None
    found = re.search(r"(?:name|variable) '(\w+)'", error.message)
    return found[1] if found else None


def _changed(changed: Mapping[Changed, int], given: Inputs, outcome: Outcome) -> tuple[str, ...]:
    """Names of data that was changed and will not be kept: stored output, and tables that `df` made of what runs left."""
    left: Collection[str] = persistence.names_of(outcome)
    line = outcome.error.line if outcome.error is not None else None
    names = {name for name, what in outcome.named.items() if what == CHANGED and name in given.unnamed}
    for one, at in changed.items():
        variable = given.variables.get(one.name)
        is_kept = variable is not None and variable.origin == "run" and not (one.is_table and variable.kind == "value")
        if not is_kept and one.name not in left and (line is None or at <= line):
            names.add(one.name)
    return tuple(sorted(names))


def _with_what_is_gone(
    scope: Scope, given: Inputs, outcome: Outcome, damaged: Mapping[str, str]
) -> tuple[Outcome, str | None]:
    """Say in the error's hint, and beside it, what became of a missing name whose data has expired, or is damaged."""
    missing = missing_name(outcome)
    if missing is None or outcome.error is None:
        return outcome, None
    note = damaged.get(missing)
    if why := given.kept.record.lost.get(missing):
        note = f"{missing!r} was not kept: {why}"
    if note is None:
        found = scope.read(lambda connection: tombstones.find(connection, scope.row, [missing])).get(missing)
        if found is None:
            return outcome, None
        note = found.message(missing)
    return replace(outcome, error=replace(outcome.error, hint=note)), note
