"""artifact_sql: runs model-written SQL over the session's tables."""

from __future__ import annotations

import keyword
from dataclasses import replace
from typing import Annotated

from msgspec import Meta
from sqlalchemy import Connection

from byref.artifacts import listing, variables
from byref.artifacts import names as kept_names
from byref.artifacts.names import Kept, exact
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.conversation import tracing
from byref.conversation.failures import readable_failures
from byref.conversation.scope import Scope
from byref.errors import ArtifactMissing, ToolError
from byref.interpreter import runs
from byref.interpreter.inputs import Inputs, check_size, data_of, data_of_variable, have_same_data
from byref.references.coercion import as_code, as_key
from byref.references.targets import Target, lookup
from byref.tools.code import INLINE_SHARE, answer
from byref.tools.record import Answer, Arguments, Tool
from byref_sandbox import Data, Outcome
from byref_sandbox.code import sqltext

_COMPARED = 1_000
"""Number of the newest names among which a name that differs only in case is searched for."""


class SqlArguments(Arguments, frozen=True):
    """Arguments of artifact_sql."""

    query: Annotated[str, Meta(description="One SELECT (DuckDB SQL), e.g. SELECT k, sum(v) FROM $rows GROUP BY k.")]
    save_as: Annotated[str | None, Meta(description="Variable name to keep the result under.")] = None


def _run(scope: Scope, arguments: SqlArguments) -> Answer:
    query, keep = arguments.query, arguments.save_as or ""
    sandbox = scope.sandbox
    if sandbox is None or not sqltext.is_available():
        raise ToolError("artifact_sql is not available here: it needs DuckDB, pip install 'byref[sql]', and a sandbox")
    if len(query) > runs.MAX_CODE_CHARS:
        raise ToolError(f"the query has {len(query):,} characters; at most {runs.MAX_CODE_CHARS:,} are taken")
    names = list(dict.fromkeys(reference.name for reference in sqltext.references(query)))
    given, limits = _look_up(scope, names, keep), scope.limits

    def attempt() -> Outcome:
        return sandbox.sql(query, given.data, session=f"{scope.tenant}\0{scope.name}", limits=limits, keep=keep)

    with readable_failures(scope):
        for looks in range(runs.MOST_LOOKS + 1):
            try:
                outcome = tracing.run(scope, "sql", query, attempt)
                break
            except ArtifactMissing:  # what another run has bound anew meanwhile is there under another row
                again = _look_up(scope, names, keep)
                if looks == runs.MOST_LOOKS or have_same_data(given, again):
                    raise
                given = again
    inline_tokens = int(scope.policy.reply_tokens * INLINE_SHARE)
    done = runs.stage(scope, query, given, outcome, limits, inline_tokens=inline_tokens, language="sql")
    return answer(scope, done if done.gone is not None else replace(done, gone=_for_code_alone(scope, outcome)))


def _look_up(scope: Scope, names: list[str], keep: str) -> Inputs:
    """Return the tables of a query that names these."""

    def look_up(connection: Connection) -> tuple[Kept, dict[str, Variable]]:
        found = _variables(connection, scope, names, keep)
        return Kept(exact=exact(connection, scope.row, {variable.name for variable in found.values()})), found

    kept, found = scope.read(look_up)
    _check_name(keep, found.pop(keep, None) if keep not in names else found.get(keep))
    data: dict[str, object] = {name: data_of_variable(scope, kept, variable) for name, variable in found.items()}
    for variable in found.values():
        _check_size(scope, variable.artifact)
        variable.artifact.use()
    for name, target in _artifacts(scope, [name for name in names if name not in found]).items():
        data[name] = _data(scope, target, name)
    return Inputs(kept, found, data)


def _for_code_alone(scope: Scope, outcome: Outcome) -> str | None:
    """Say what the name is that a query did not find, if code has it and its value is no data."""
    missing = runs.missing_name(outcome)
    if missing is None:
        return None
    entry = scope.read(lambda connection: kept_names.kept(connection, scope.row)).record.entries.get(missing)
    if entry is None or not entry.what:
        return None
    return f"{missing} is no data but a value for code alone ({entry.what}): keep a DataFrame of it"


def _variables(connection: Connection, scope: Scope, names: list[str], keep: str) -> dict[str, Variable]:
    """Return the variables with these names. SQL ignores case, so a name that does not exist may be one in another case."""
    wanted = [*names, keep] if keep else names
    found = variables.find(connection, scope.source, scope.row, wanted)
    if all(name in found for name in names):
        return found
    newest, _ = variables.newest(connection, scope.row, _COMPARED)
    by_case = {one.name.lower(): one.name for one in newest}
    spelled = {name: by_case[name.lower()] for name in names if name not in found and name.lower() in by_case}
    others = variables.find(connection, scope.source, scope.row, spelled.values())
    return found | {name: others[other] for name, other in spelled.items() if other in others}


def _artifacts(scope: Scope, names: list[str]) -> dict[str, Target]:
    """Return the artifacts with these names, as SQL sees them: a name that does not exist may be one in another case."""
    found = lookup(scope, names)
    missing = [name for name in names if name not in found]
    if not missing:
        return found
    newest, _ = scope.read(lambda connection: listing.newest_unbound(connection, scope.row, _COMPARED))
    by_case = {one.name.lower(): one.id for one in reversed(newest) if one.name}
    spelled = {name: by_case[name.lower()] for name in missing if name.lower() in by_case}
    others = lookup(scope, spelled.values())
    return found | {name: others[other] for name, other in spelled.items() if other in others}


def _check_name(keep: str, variable: Variable | None) -> None:
    if keep and (
        not keep.isidentifier()
        or keyword.iskeyword(keep)
        or keep in variables.SANDBOX_NAMES
        or not variables.is_bindable(keep)
    ):
        raise ToolError(f"save_as={keep[:100]!r}: expected a Python name that is not in use for something else")
    if variable is not None and variable.origin != "run":
        raise ToolError(f"save_as={keep!r}: that is stored data, which never changes; choose another name")


def _check_size(scope: Scope, artifact: Artifact) -> None:
    """Raise ToolError for a text whose tables are too large to be read."""
    if artifact.reading is not None:
        check_size(scope, artifact)


def _data(scope: Scope, target: Target, name: str) -> Data:
    if target.artifact.is_binary and not target.artifact.is_exact:
        raise ToolError(f"{name} is {target.artifact.content_type}, binary: it is no table")
    _check_size(scope, target.artifact)
    return data_of(target.artifact, target.path)


ARTIFACT_SQL = Tool(
    "artifact_sql",
    "Query this conversation's variables as tables with SQL (DuckDB): FROM $users; $page.rows for the records inside an "
    "object; joins, CTEs, window functions, nested fields (items[1].sku, unnest). A big result becomes a variable.",
    SqlArguments,
    _run,
    example={"query": "SELECT city, count(*) AS n FROM $users GROUP BY city ORDER BY n DESC"},
    spellings={
        **dict.fromkeys(
            ("sql", "statement", "sql_query", "select", "code", "expression", "q", "input", "source", "text"), "query"
        ),
        **dict.fromkeys(
            ("as", "into", "result_name", "output_name", "variable_name", "name", "variable", "save_to", "store_as"),
            "save_as",
        ),
    },
    coerce={"query": as_code, "save_as": as_key},
    needs_sandbox=True,
    is_installed=lambda: sqltext.is_available(),  # looked up when a session is opened, not when this module is imported
    cure="it needs DuckDB: pip install 'byref[sql]'",
)
