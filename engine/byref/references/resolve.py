"""Resolution of references in tool arguments: names of stored data are replaced by the data before the tool runs.

There is one pass, so substituted data is never searched for references. A string is a reference only as a whole, and only if
its name is bound; so `"$HOME"` or a query language's `"$amount"` pass unchanged. `{"$var": …}` is always a reference. A name means
the same everywhere (`targets.lookup`). Only if the whole name is unknown, the part before its first dot or bracket is looked
up, and the rest is a path.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, select

from byref.accounting import ledger
from byref.conversation.scope import Scope
from byref.db.tables import LedgerRow
from byref.errors import StorageFailure, ToolError
from byref.references.arguments import as_object
from byref.references.substitution import Place, Substituter, Substitution
from byref_sandbox.jsontext import NotJSON, collector_paused

NOTED = 50
"""Maximum references that the ledger names; further ones are only counted."""
_NOTED_CHARS = 200

logger = logging.getLogger("byref")


def resolve(
    scope: Scope,
    arguments: Mapping[str, Any] | str,
    schema: Mapping[str, Any] | None = None,
    *,
    tool: str | None = None,
    call_id: str | None = None,
) -> dict[str, Any]:
    """Return the arguments with every reference replaced by its data, and record the replacements in the ledger.

    `schema`, the target tool's JSON Schema, is checked afterwards. `tool` is the target tool's name, for its policy and the
    ledger.

    Raises:
        ToolError: the model named something that does not exist, or the arguments do not fit the schema.
        ConfigurationError: the schema is invalid.
        StorageFailure: the ledger could not be written and the policy says `on_storage_failure="raise"`.
    """
    given = as_object(arguments)
    if tool is not None:
        scope = replace(scope, policy=scope.policy.for_tool(tool))
    references = Substituter(scope, enabled=tool is None or scope.policy.tool(tool).references)
    try:
        with collector_paused():
            resolved: object = references.substituted(given)
            if not isinstance(resolved, dict):
                raise ToolError(f"the arguments must be one JSON object, not {type(resolved).__name__}")
            if schema is not None:
                from byref.references.fitting import fitted  # imported late because jsonschema takes long to import

                resolved = fitted(resolved, schema, references)
    except (NotJSON, RecursionError) as error:
        logger.info("byref could not hold data that was referred to: %s", error)
        raise ToolError(
            "what was referred to is nested too deeply to be handed over; name a part of it, with a path"
        ) from None
    if references.done:
        _note(scope, arguments, references.done.values(), tool, call_id)
    return resolved


def _note(
    scope: Scope, arguments: object, done: Collection[Substitution], tool: str | None, call_id: str | None
) -> None:
    """Append the replacements to the ledger, once for a call: a repeated call with the same result is not recorded again."""
    noted = [_noted(one) for one in list(done)[:NOTED]]
    columns = {
        "call_id": call_id[: ledger.CALL_ID_CHARS] if call_id else None,
        "call_digest": ledger.digest(call_id) if call_id else None,
        "arguments": ledger.cut_arguments(arguments),
        "tokens": 0,
        "detail": {"tool": tool, "references": noted, "count": len(done), "bytes": sum(one.size for one in done)},
    }

    def work(connection: Connection) -> None:
        turn = ledger.take_step(connection, scope.row)
        if call_id and _is_noted(connection, scope.row, columns):
            raise ledger.Recorded
        scope.append(connection, turn, "resolution", columns)

    try:
        scope.write(work)
    except ledger.Recorded:
        return
    except StorageFailure:
        if scope.policy.on_storage_failure == "raise":
            raise
        logger.exception("byref could not note the references in the arguments of %r; the call goes on", tool)


def _noted(one: Substitution) -> dict[str, Any]:
    written = one.reference if isinstance(one.reference, str) else ledger.dump(one.reference)
    return {
        "reference": written[:_NOTED_CHARS],
        "artifact": one.artifact.id,
        "at": _dotted(one.at)[:_NOTED_CHARS],
        "bytes": one.size,
    }


def _dotted(at: Place) -> str:
    return ".".join(map(str, at))


def _is_noted(connection: Connection, session_row: int, columns: Mapping[str, Any]) -> bool:
    """Tell whether this turn already recorded the same resolution. Only this turn counts: providers reuse call ids in later ones."""
    same = (
        select(LedgerRow.id)
        .where(
            LedgerRow.session_id == bindparam("of_session"),
            LedgerRow.kind == "resolution",
            LedgerRow.call_digest == columns["call_digest"],
            LedgerRow.arguments == columns["arguments"],
            LedgerRow.detail == ledger.dump(columns["detail"]),
            *ledger.IN_TURN,
        )
        .limit(1)
    )
    return connection.execute(same, {"of_session": session_row}).scalar() is not None
