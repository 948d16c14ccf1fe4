"""The code interpreter: the session's variables in, a run in the jail, its result and new names out."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy import Connection, insert

from byref.accounting import ledger
from byref.artifacts import definitions as names_of
from byref.artifacts import store, tombstones, variables
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Part, Variable
from byref.conversation import clearing, tracing
from byref.conversation.failures import bind_again, cure, readable_failures
from byref.conversation.scope import Scope
from byref.db.payloads import PayloadLoad
from byref.db.tables import RunRow
from byref.describe.truncate import Ends
from byref.errors import ArtifactMissing, QuotaExceeded, ToolError
from byref.interpreter import persistence
from byref.interpreter.persistence import Inside, Kept
from byref.jsonscan import LazyJSON
from byref_sandbox import Bound, Data, Limits, Outcome
from byref_sandbox.code.analysis import Analysed
from byref_sandbox.code.inplace import Changed, changed_in_place
from byref_sandbox.code.sources import needed
from byref_sandbox.outcome import DELETED, STOPPED
from byref_sandbox.values.files import are_named as may_use_files

logger = logging.getLogger("byref")

MAX_VALUE_BYTES = 256 << 20
"""Of stored JSON, to be held as a value: Python's objects take up to ten times as much, and libjq's more."""
MAX_CODE_CHARS = 200_000
MAX_BOUND_NAMES = 10_000
"""Most variables that one run may name: what the sandbox takes."""
MAX_KEPT_NAMES = 64
"""Most names that one run leaves for the next."""
MAX_GIVEN_FILES = 100
"""Files of earlier code that a run may open, those that it names first."""
MAX_UNNAMED_FILE_BYTES = 16 << 20
"""Of files that code may open by a name that it computes, together."""
RESULT_NAME = "result"
WENT = "its data expired, or was deleted, while the code ran"
_ROWS, _VALUES = 200, 100
"""Names, and values that none names, which are forgotten at a time."""
_RECORD = insert(RunRow)
NAMED_IN_REFUSALS = 100
"""Variables that an error may name beside those of the code, what tools stored first: so many a misspelt name is compared with."""
_LEFT = Data("", lambda: b"null", kept=True)
"""In place of a variable of an earlier run that the code does not name."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One run, done but not committed."""

    code: str
    outcome: Outcome
    limits: Limits
    kept: tuple[Kept, ...]
    aliases: tuple[persistence.Aliases, ...]
    """Further names of what the run was given, by artifact."""
    result: Kept | None
    """The value, where it is too big to be read and becomes a variable of its own."""
    definitions: Mapping[str, tuple[str, str]]
    """New functions, classes and imports by name: what each is, and its source."""
    rebound: tuple[str, ...]
    """Names of stored data that the code assigned: for this run only."""
    changed: tuple[str, ...]
    """Names of stored data that the code changed in place, as its text says: for this run only, too."""
    lost: Mapping[str, str]
    """Names that are not there in the next run, each with the reason."""
    dropped: frozenset[str] = frozenset()
    """Names of earlier runs that go: deleted, or assigned what could not be kept."""
    callables: tuple[str, ...] = ()
    """Functions and classes of earlier runs, by name."""
    gone: str | None = None
    """What became of a name that the code used and that is not there any more; it is the error's hint, too."""
    language: str = "python"


class Committed(NamedTuple):
    """What became of the names of a run."""

    names: dict[str, str]
    """New ones with what they hold, a big result's last."""
    gone: dict[str, str]
    """Those whose data was there no more, each with the reason."""
    fresh: frozenset[str] = frozenset()
    """Those that were not bound before."""


def data_of(
    artifact: Artifact,
    path: tuple[str, ...] = (),
    *,
    frame: bool = False,
    for_jq: bool = False,
    as_stored: bool = False,
) -> Data:
    """Return stored data as the sandbox takes it: read only if no warm zygote holds it.

    `as_stored`: a text that holds JSON is that text.
    """
    is_json = artifact.kind == "json" or (for_jq and artifact.is_json)
    if as_stored and artifact.is_string:
        is_json = False
    is_text = artifact.kind in ("text", "json")
    content_type = "application/json" if is_json else "text/plain" if is_text else artifact.content_type
    return Data(artifact.digest.hex(), PayloadLoad(artifact.payload), content_type, path, frame)


def see_that_it_can_be_held(scope: Scope, artifact: Artifact) -> None:
    """Raise ToolError for JSON that is too large to be held as a value."""
    if artifact.payload.size > MAX_VALUE_BYTES:
        ways = [name for name in ("artifact_grep", "artifact_read") if name in scope.tools]
        how = f" Find and read what you need with {' and '.join(ways)}, or" if ways else " Please"
        raise ToolError(
            f"artifact {artifact.id} has {artifact.payload.size:,} bytes of JSON; a value of at most "
            f"{MAX_VALUE_BYTES >> 20} MB can be held at once.{how} ask its tool for less."
        )


class _Needed(NamedTuple):
    """What a run needs of the session."""

    known: names_of.Names
    sources: Mapping[str, Analysed]
    found: Mapping[str, Variable]
    artifacts: Mapping[str, Artifact]
    others: dict[str, bool]
    """Variables that the code does not name, and whether code bound them."""
    inside: Inside
    """Of the artifacts of those it does."""
    files: Mapping[str, Artifact]
    """What earlier code wrote, if this code may read files."""


def execute(scope: Scope, code: str, *, inline_tokens: int) -> Execution:
    """Run code over the variables it names and stage what it leaves; a value over `inline_tokens` becomes a variable."""
    sandbox = scope.sandbox
    if sandbox is None:
        raise ToolError("code_interpreter is not available here")
    if len(code) > MAX_CODE_CHARS:
        raise ToolError(f"the code has {len(code):,} characters; at most {MAX_CODE_CHARS:,} are run at once")
    program = Analysed(code)  # parsed once, here and in the interpreter

    def look_up(connection: Connection) -> _Needed:
        known = names_of.definitions(connection, scope.row)
        sources = needed(program, known.sources)
        texts = (program, *sources.values())
        names = frozenset().union(*(text.uses.names for text in texts)) - sources.keys()
        for name in sorted(known.damaged & names - program.uses.assigned):
            raise ToolError(bind_again(name))
        found = variables.find(connection, scope.source, scope.row, names)
        exact = names_of.exact(connection, scope.row, {variable.name for variable in found.values()})
        artifacts = _artifacts(connection, scope, program, names - found.keys())
        most = variables.of_tools_first(connection, scope.row, NAMED_IN_REFUSALS)
        others = {name: is_left for name, is_left in most.items() if name not in names}
        holding = {one.artifact.row_id for one in found.values() if one.artifact.kind == "json"}
        inside = variables.inside(connection, holding)
        return _Needed(
            replace(known, exact=exact), sources, found, artifacts, others, inside, _files(connection, scope, texts)
        )

    known, sources, found, artifacts, others, inside, files = scope.read(look_up)
    for artifact in (*(variable.artifact for variable in found.values()), *artifacts.values(), *files.values()):
        artifact.use()
    bound = {name.removeprefix("$"): variable for name, variable in found.items()}  # `df("$users")`
    if len(bound) > MAX_BOUND_NAMES:
        raise ToolError(
            f"the code names {len(bound):,} variables; at most {MAX_BOUND_NAMES:,} can be bound. "
            "Name them in several calls."
        )
    for artifact in (*(variable.artifact for variable in bound.values()), *artifacts.values()):
        if artifact.kind == "json":
            see_that_it_can_be_held(scope, artifact)
    limits = limits_of(scope)
    data: dict[str, object] = {name: data_of(artifact, as_stored=True) for name, artifact in artifacts.items()}
    data |= {name: data_of_variable(scope, known, variable, inside) for name, variable in bound.items()}
    data = persistence.each_its_own(data, bound)
    room = max(0, MAX_BOUND_NAMES - len(data))  # in errors only: the code names none of them
    named = {name: _LEFT if is_left else None for name, is_left in list(others.items())[:room]}
    # Only where there are files: an interpreter of a host's own may not know them.
    run = partial(sandbox.run, files={name: data_of(one) for name, one in files.items()}) if files else sandbox.run

    def attempt() -> Outcome:
        return run(program, data | named, session=f"{scope.tenant}\0{scope.name}", limits=limits, sources=sources)

    damaged: dict[str, str] = {}
    with readable_failures(scope):
        while True:
            try:
                outcome = tracing.run(scope, "python", code, attempt)
                break
            except ArtifactMissing as error:
                # Nothing has run. Names that the code binds anew it may well do without.
                its = {name for name, one in bound.items() if one.artifact.payload.blob_id == error.blob_id}
                lost = (its | {error.name or ""}) & data.keys() & program.uses.assigned
                if not lost:
                    raise
                damaged |= dict.fromkeys(lost, cure(scope, error))
                data = {name: value for name, value in data.items() if name not in lost}
    changed = changed_in_place(program, sources.values(), data.keys())
    return staged(
        scope,
        known,
        program,
        outcome,
        limits,
        bound,
        inline_tokens=inline_tokens,
        inside=inside,
        changed=changed,
        damaged=damaged,
    )


def staged(
    scope: Scope,
    known: names_of.Names,
    code: str,
    outcome: Outcome,
    limits: Limits,
    bound: Mapping[str, Variable],
    *,
    inline_tokens: int,
    language: str = "python",
    inside: Inside = MappingProxyType({}),
    changed: Mapping[Changed, int] = MappingProxyType({}),
    damaged: Mapping[str, str] = MappingProxyType({}),
) -> Execution:
    """Stage what a run left, as far as it may be kept.

    `bound` are the variables that the run was given, `inside` is what it was told of the artifacts of these, `changed` what
    the code changes in place of all data that it was given, with the line; `damaged` are names that it was not given, each
    with what to do about it.
    """
    outcome, gone = _with_what_is_gone(scope, outcome, damaged)
    left = outcome.bound.keys() | outcome.same.keys() | outcome.defined.keys() | outcome.unkept.keys()
    given, bound = bound, dict(bound)
    if assigned := left - bound.keys():
        bound |= scope.read(lambda connection: variables.find(connection, scope.source, scope.row, assigned))
    stored = {name for name, variable in bound.items() if variable.origin != "run"}
    deleted = {name for name, reason in outcome.unkept.items() if reason == DELETED}
    rebound = tuple(sorted(stored & left - outcome.unkept.keys()))
    lost = {name: reason for name, reason in outcome.unkept.items() if name not in deleted} | {
        name: "no name to keep" for name in left - stored if not variables.is_bindable(name)
    }
    new = [name for name in (*outcome.bound, *outcome.same) if name not in stored and name not in lost]
    lost |= dict.fromkeys(new[MAX_KEPT_NAMES:], f"more than {MAX_KEPT_NAMES} names")
    new = new[:MAX_KEPT_NAMES]
    kept: list[Kept] = []
    for values in persistence.apart({name: outcome.bound[name] for name in new if name in outcome.bound}):
        try:
            kept.append(persistence.stage(scope, values))
        except QuotaExceeded as error:
            lost |= dict.fromkeys(values, str(error))
    aliases = persistence.aliases({name: outcome.same[name] for name in new if name in outcome.same}, given, inside)
    definitions = {
        name: (made.what, made.source)
        for name, made in outcome.defined.items()
        if name not in stored and name not in lost and known.sources.get(name) != made.source
    }
    room = max(0, names_of.MAX_DEFINITIONS - len(known.sources))
    for name in [name for name in definitions if name not in known.sources][room:]:
        del definitions[name]
        lost[name] = f"more than {names_of.MAX_DEFINITIONS} definitions"
    room = names_of.MAX_DEFINITION_CHARS - sum(map(len, known.sources.values()))
    for name, (_, source) in list(definitions.items()):
        room -= len(source) - len(known.sources.get(name, ""))
        if room < 0:
            room += len(source) - len(known.sources.get(name, ""))
            del definitions[name]
            lost[name] = f"definitions of more than {names_of.MAX_DEFINITION_CHARS:,} characters"
    result = None
    if (value := _big_value(scope, outcome, inline_tokens)) is not None:
        with suppress(QuotaExceeded):  # then it is shown cut, as what is printed
            result = persistence.stage(scope, {RESULT_NAME: value})
    return Execution(
        code,
        outcome,
        limits,
        tuple(kept),
        aliases,
        result,
        definitions,
        rebound,
        _changed(changed, given, outcome, left),
        lost,
        dropped=frozenset(deleted.union(name for name, why in lost.items() if why != STOPPED) - stored),
        callables=tuple(name for name, source in known.sources.items() if not source.startswith(("import ", "from "))),
        gone=gone,
        language=language,
    )


def _changed(
    changed: Mapping[Changed, int], given: Mapping[str, Variable], outcome: Outcome, left: Collection[str]
) -> tuple[str, ...]:
    """Return the names whose change is lost: what runs left is kept again, but for a table that `df` made of it."""
    line = outcome.error.line if outcome.error is not None else None
    names = set()
    for one, at in changed.items():
        variable = given.get(one.name)
        is_kept = variable is not None and variable.origin == "run" and not (one.is_table and variable.kind == "value")
        if not is_kept and one.name not in left and (line is None or at <= line):
            names.add(one.name)
    return tuple(sorted(names))


def _artifacts(connection: Connection, scope: Scope, code: Analysed, names: Collection[str]) -> dict[str, Artifact]:
    """Artifacts that code names by id, or by a name that it does not itself assign."""
    found = store.by_ids(connection, scope.source, scope.row, names)
    others = [n for n in names if n not in found and n not in variables.SANDBOX_NAMES and variables.is_name(n)]
    named = store.by_names(connection, scope.source, scope.row, others)
    return found | {name: artifact for name, artifact in named.items() if name not in code.uses.assigned}


def _files(connection: Connection, scope: Scope, texts: Collection[Analysed]) -> dict[str, Artifact]:
    if not may_use_files(texts):
        return {}
    return store.files_of_runs(
        connection,
        scope.source,
        scope.row,
        "\n".join(text.plain for text in texts),
        most=MAX_GIVEN_FILES,
        max_bytes=MAX_UNNAMED_FILE_BYTES,
    )


def _is_text(key: str) -> bool:
    """Tell whether a key is UTF-8: a lone surrogate is named in no code, and no message takes it."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def data_of_variable(
    scope: Scope, known: names_of.Names, variable: Variable, inside: Inside = MappingProxyType({})
) -> Data:
    """Return a variable's data as the sandbox takes it: with its types, where a run left it."""
    exact = known.exact.get(variable.name)
    if exact is not None and exact[1] == variable.artifact.row_id:
        return replace(names_of.data_of(scope.ask, exact[0], exact[2]), kept=True)
    data, depth = data_of(variable.artifact, variable.path, frame=variable.kind == "dataframe"), len(variable.path)
    paths = inside.get(variable.artifact.row_id, ())
    parts = tuple(path[depth:] for path in paths if path[:depth] == variable.path and all(map(_is_text, path)))
    return replace(data, parts=parts, kept=variable.origin == "run")


def _big_value(scope: Scope, outcome: Outcome, inline_tokens: int) -> Bound | None:
    """The last expression's value, if it is data and too big to be read."""
    if outcome.kind not in ("json", "dataframe", "series"):
        return None
    kind = "dataframe" if outcome.kind == "dataframe" else "json"
    if outcome.is_partial and outcome.json == b"null":
        return Bound(kind, b"", "", outcome.exact, outcome.shape) if outcome.exact else None
    if not outcome.exact and LazyJSON(outcome.json).tokens(scope.count) <= inline_tokens:
        return None
    return Bound(kind, outcome.json, "", outcome.exact, outcome.shape)


def text_of(outcome: Outcome) -> str | Ends:
    """Return the value as a model reads it best; of a long one only the ends are made."""
    value = LazyJSON(outcome.json)
    if outcome.shown is not None or outcome.kind == "none" or value.is_short:
        return outcome.text
    return value.text


def commit(connection: Connection, scope: Scope, execution: Execution, step: int, *, replied: bool) -> Committed:
    """Bind what a run left and record it.

    `step` is that of the reply, or, where the host ran the code (`replied` False), the last one before it.
    QuotaExceeded: others stored so much meanwhile that there is no room for it.
    """
    names: dict[str, str] = {}
    gone: dict[str, str] = {}
    reply_step = step if replied else None
    variables.drop(connection, session_row=scope.row, names=execution.dropped)
    names_of.forget(connection, scope.row, execution.dropped)
    staged: tuple[persistence.Aliases | Kept, ...] = (*execution.aliases, *execution.kept)
    taken = variables.taken(connection, scope.row, [part.wanted for one in staged for part in one.parts])
    for alias in execution.aliases:
        again = persistence.insert_again(connection, scope, alias.artifact, reply_step)
        if again is not None:
            names |= _bind(connection, scope, again, alias.parts, taken, step)
        else:  # as if it had been so before the code ran
            for part in alias.parts:
                gone[part.wanted] = WENT
                variables.unbind(connection, session_row=scope.row, name=part.wanted)
            names_of.forget(connection, scope.row, [part.wanted for part in alias.parts])
    for kept in execution.kept:
        row = persistence.insert(connection, scope, kept, reply_step)
        names |= _bind(connection, scope, row, kept.parts, taken, step)
        persistence.keep_exact(connection, scope, kept, row, {name: name for name in kept.exact if name in names}, step)
    for name, (what, source) in execution.definitions.items():
        if variables.unbind(connection, session_row=scope.row, name=name):
            names_of.keep(
                connection,
                tenant=scope.tenant,
                session_row=scope.row,
                name=name,
                data=source.encode(),
                artifact_row=None,
                step=step,
            )
            if what != "import":
                names[name] = what
    if execution.result is not None:
        row = persistence.insert(connection, scope, execution.result, reply_step)
        [part] = execution.result.parts
        [name] = variables.free(connection, scope.row, [part.wanted], execution.definitions)
        names_of.forget(connection, scope.row, [name])
        persistence.bind(connection, scope, row, [(name, part)], step)
        persistence.keep_exact(connection, scope, execution.result, row, {part.wanted: name}, step)
        names[name] = part.shape
    record(connection, scope, execution.language, execution.code, execution.outcome, execution.limits, reply_step)
    return Committed(names, gone, frozenset(names) - frozenset(taken))


def _bind(
    connection: Connection, scope: Scope, row: int, parts: Sequence[Part], taken: Collection[str], step: int
) -> dict[str, str]:
    """Bind names to parts of an artifact, but those that stand for what tools stored; return them with their shapes."""
    names, fresh = {}, []
    for part in parts:
        if part.wanted not in taken:
            fresh.append((part.wanted, part))
        elif not variables.rebind(
            connection, session_row=scope.row, name=part.wanted, artifact_row=row, part=part, step=step
        ):
            continue
        names[part.wanted] = part.shape
    names_of.forget(connection, scope.row, [part.wanted for part in parts])
    persistence.bind(connection, scope, row, fresh, step)
    return names


def reset(scope: Scope) -> None:
    """Forget the names that code bound in the session, and the values that nothing names any more.

    In steps between which others write, but for a host's transaction: what another call binds meanwhile stays.
    """
    within = scope.host is not None
    upto: tuple[int, int] | None = None

    def step(connection: Connection) -> tuple[tuple[int, int], bool]:
        ledger.lock(connection, scope.row)
        until = float("inf") if within else time.monotonic() + clearing.STEP_SECONDS
        last = upto or names_of.last(connection, scope.row)
        while names_of.reset(connection, scope.row, last, _ROWS):
            if time.monotonic() > until:
                return last, True
        while persistence.discard_unnamed(connection, scope.row, _VALUES):
            if time.monotonic() > until:
                return last, True
        return last, False

    is_more = True
    while is_more:
        upto, is_more = scope.write(step)
        if is_more:
            time.sleep(clearing.PAUSE_SECONDS)


def record(
    connection: Connection, scope: Scope, language: str, code: str, outcome: Outcome, limits: Limits, step: int | None
) -> None:
    """Keep one run: its code, result, output, error, cost and limits, each bounded."""
    error, text = outcome.error, text_of(outcome)
    connection.execute(
        _RECORD,
        {
            "tenant": scope.tenant,
            "session_id": scope.row,
            "step": step,
            "language": language,
            "code": str(code),
            "result": (text if isinstance(text, str) else text.head)[:10_000] or None,
            "stdout": outcome.stdout[:10_000],
            "error": None if error is None else json.dumps([error.kind, error.message, error.line, error.hint]),
            "wall_ms": outcome.usage.wall_ms,
            "cpu_ms": outcome.usage.cpu_ms,
            "peak_bytes": outcome.usage.peak_bytes,
            "limits": json.dumps({name: getattr(limits, name) for name in Limits.__dataclass_fields__}),
            "created_at": datetime.now(UTC),
        },
    )


def limits_of(scope: Scope) -> Limits:
    """Return the policy's limits of a run."""
    policy = scope.policy
    return Limits(
        wall_seconds=policy.run_seconds,
        cpu_seconds=policy.run_cpu_seconds,
        memory_bytes=policy.run_memory_bytes,
        stdout_bytes=policy.run_output_bytes,
        result_bytes=policy.run_result_bytes,
        recursion_depth=policy.run_recursion_depth,
    )


def missing_name(outcome: Outcome) -> str | None:
    """Return the name that code used and that is not there."""
    error = outcome.error
    found = (
        re.search(r"(?:name|variable) '(\w+)'", error.message)
        if error is not None and error.kind == "NameError"
        else None
    )
    return found[1] if found else None


def _with_what_is_gone(scope: Scope, outcome: Outcome, damaged: Mapping[str, str]) -> tuple[Outcome, str | None]:
    """Say in the error's hint, and beside it, what became of a missing name whose data has expired, or is damaged."""
    missing = missing_name(outcome)
    if missing is None or outcome.error is None:
        return outcome, None
    told = damaged.get(missing)
    if told is None:
        found = scope.read(lambda connection: tombstones.find(connection, scope.row, [missing])).get(missing)
        if found is None:
            return outcome, None
        told = found.told(missing)
    return replace(outcome, error=replace(outcome.error, hint=told)), told
