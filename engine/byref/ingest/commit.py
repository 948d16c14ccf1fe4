"""Commit: the bytes are written to the store, and one short transaction, under the lock of the session's row, does the rest.

The transaction numbers the step, checks that the plan still holds, publishes the bytes, binds names, renders the text with those
names, and appends to the ledger. If the plan does not hold, it is rolled back completely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from byref.accounting import ledger
from byref.artifacts import at_once, quotas, variables
from byref.artifacts.quotas import Came, Excess
from byref.artifacts.store import Artifact
from byref.artifacts.variables import Variable
from byref.content import formats
from byref.conversation import room
from byref.conversation.result import Result
from byref.ingest.envelope import Reference, Rendered, TruncatedBuilder
from byref.ingest.outlook import UNKNOWN, Outlook
from byref.ingest.plan import (
    Plan,
    PlannedArtifact,
    Replan,
    has_headroom,
    headroom,
    is_too_large,
    keep_beside,
    new_id,
    whole_plan,
)
from byref.ingest.prepare import Prepared
from byref.ingest.stage import Stage, sizes
from byref.policy import gates
from byref.policy.routes import Route


class AnsweredBefore(Exception):
    """Since the outlook, another commit recorded the same output under the same call id."""

    def __init__(self, entry: ledger.Entry) -> None:
        super().__init__(entry.step)
        self.entry = entry


def commit(prepared: Prepared, plan: Plan, outlook: Outlook, stage: Stage) -> Result:
    """Store an output as planned and return the result that the model reads.

    Raises:
        Replan: the plan does not hold. Only staged bytes were written, which nobody sees.
        AnsweredBefore: another process was faster with the same call.
        StorageFailure: the database or the object store failed.
    """
    stage.bring(plan.artifacts, outlook)
    if not plan.replacements and prepared.ingested is not None:
        prepared.ingested.read_back()
    return prepared.scope.write(lambda connection: _Transaction(connection, prepared, plan, outlook, stage).run())


@dataclass
class Composed:
    """The content that the model reads for an output's blocks, some of which are replaced."""

    content: str | list[Any]
    tokens: int
    places: list[int]
    """The position of each replacement in `content`; empty if that is not a list of several blocks."""


def compose(prepared: Prepared, plan: Plan, rendered: Sequence[Rendered]) -> Composed:
    """Put each rendered replacement in the place of its first block; its other blocks are left out."""
    if not plan.replacements:
        return Composed(prepared.content, prepared.tokens, [])
    texts = {id(each.blocks[0]): shown.content for each, shown in zip(plan.replacements, rendered, strict=True)}
    rest = plan.rest(prepared)
    passing = {id(block) for block in rest}
    shown = [block for block in prepared.blocks if id(block) in texts or id(block) in passing]
    tokens = sum(text.tokens for text in rendered) + sum(block.tokens for block in rest)
    if len(shown) == 1:
        return Composed(rendered[0].content, tokens, [])
    places = {id(block): at for at, block in enumerate(shown)}
    content = [
        formats.write_text(texts[id(block)], like=block.piece) if id(block) in texts else block.piece.content
        for block in shown
    ]
    return Composed(content, tokens, [places[id(each.blocks[0])] for each in plan.replacements])


class _Transaction:
    """The work of one transaction. The database may run it again, so each run gets its own object, with no state left over."""

    def __init__(self, connection: Connection, prepared: Prepared, plan: Plan, outlook: Outlook, stage: Stage) -> None:
        self._connection = connection
        self._prepared = prepared
        self._scope = prepared.scope
        self._plan = plan
        self._outlook = outlook
        self._stage = stage
        self._variables: list[Variable] = []
        self._is_appended = False
        """Whether the output's step was appended together with what is stored."""
        self._bound: set[str] | None = None
        """Those of the names near the wanted ones that are bound, if they were looked up with the quota."""

    def run(self) -> Result:
        """Lock the session, check the plan and write; return the result."""
        connection, scope, plan = self._connection, self._scope, self._plan
        # If the tokens are known before the lock, taking the step reserves them too, which saves a statement.
        is_certain = not plan.replacements
        prepared, call = self._prepared, self._prepared.call_digest
        output = (call, prepared.digest) if call is not None and self._outlook is UNKNOWN else None
        self._turn = ledger.take_step(connection, scope.row, prepared.tokens if is_certain else 0, output=output)
        self._check()
        plan = self._plan  # `_check` may have replaced it
        rendered: list[Rendered] = []
        apart: list[list[Artifact]] = []
        for each in plan.replacements:
            bound = len(self._variables)
            artifacts = self._publish(each.artifacts)
            names = [variable.name for variable in self._variables[bound:]]
            # The text contains the names that the bytes got, and whether it is smaller than the output is known only with them.
            # So publishing, naming and rendering are all in the transaction, and a refusal here rolls them back.
            kept = [Reference(artifact.id, artifact.location) for artifact in artifacts]
            # Rendering takes milliseconds. If a host's event loop runs this transaction, another thread renders, not the loop.
            text = scope.compute(lambda: each.builder.render(names, self._turn.step, kept))  # noqa: B023  run at once
            if each.is_no_smaller(text):
                raise Replan("not_smaller", each)
            rendered.append(text)
            apart.append(artifacts)
        composed = compose(self._prepared, plan, rendered)
        beside = self._publish(plan.beside, composed if is_certain else None)
        if not self._is_appended:
            names = [variable.name for variable in self._variables]
            columns = self._columns(composed, apart, beside, names)
            scope.append(connection, self._turn, "output", columns, 0 if is_certain else composed.tokens)
        return self._prepared.result(
            plan.route,
            plan.reason,
            composed.content,
            composed.tokens,
            step=self._turn.step,
            envelope=rendered[0].envelope if rendered else None,
            artifacts=[*(artifact for artifacts in apart for artifact in artifacts), *beside],
            variables=self._variables,
        )

    def _check(self) -> None:
        """Check that the plan holds. The lock is held now, so nobody else writes to the session.

        The outlook's view of the ledger is still true if nobody took a step since.
        """
        connection, prepared, plan, turn = self._connection, self._prepared, self._plan, self._turn
        # Each look-up below costs a statement under the lock. It is made only if a step since the outlook can have changed it.
        has_moved = self._outlook.same is not None or turn.step != self._outlook.step
        if self._outlook is UNKNOWN:
            before = None if turn.same is None else ledger.entry(connection, self._scope.row, turn.same)
        elif prepared.call_digest is not None and has_moved:
            before = ledger.given_before(connection, self._scope.row, "output", prepared.call_digest, prepared.digest)
        else:
            before = None
        if before is not None:
            if prepared.is_of(before):
                raise AnsweredBefore(before)
            ledger.forget_call(connection, self._scope.row, before.step)
        if plan.needs_headroom and not has_headroom(prepared, sum(block.tokens for block in plan.rest(prepared)), turn):
            raise Replan("headroom")
        if plan.reason == "headroom" and has_headroom(prepared, prepared.tokens, turn):
            # The plan refused the output by a look without the lock. A report of usage or a compaction has made room since.
            fitting = whole_plan(prepared) if prepared.ingested is None else None
            if fitting is not None and fitting.route is Route.INLINE:
                kept = keep_beside(prepared, fitting).beside
                self._plan = plan = replace(fitting, beside=[one for one in kept if self._stage.has(one.block)])
            elif not plan.reconsidered:  # once only: two plans could refuse each other for ever
                raise Replan("room")
        # A notice may refer to an earlier step only while the context still holds that step's text.
        if plan.seen is not None and has_moved:
            given = ledger.given(connection, self._scope.row, prepared.digest)
            if given.seen != plan.seen:
                raise Replan("forgotten")
        if plan.artifacts and not self._is_one_statement(plan.artifacts):
            self._see_room(plan.artifacts)

    def _is_one_statement(self, artifacts: Sequence[PlannedArtifact]) -> bool:
        """Tell whether all that is stored is one payload with one name, which PostgreSQL takes with the look at quota and name."""
        if len(artifacts) != 1 or len(artifacts[0].parts) != 1:
            return False
        buffered = self._stage.buffered(artifacts[0])
        return buffered is not None and at_once.can_publish(self._connection, buffered)

    def _see_room(self, artifacts: Sequence[PlannedArtifact]) -> None:
        """Raise Replan if a quota has no room for artifacts, before they are inserted."""
        connection, scope, turn = self._connection, self._scope, self._turn
        near = variables.near(scope.row, self._wanted(artifacts))
        bounded = scope.policy.max_session_bytes is not None
        looked = quotas.came_and_named(connection, scope.row, turn.bytes, near) if bounded else None
        came, self._bound = looked or (None, None)
        self._refuse(room.excess_within(connection, scope, sizes(artifacts), turn.bytes, came))

    def _refuse(self, excess: Excess | None) -> None:
        if excess is not None:
            raise Replan("quota", excess=excess)

    def _wanted(self, several: Sequence[PlannedArtifact]) -> list[str]:
        """Return the names for all parts. Where code calls a function of such a name, the name stays the function's."""
        called = {function.name for function in self._scope.functions} | self._scope.elsewhere
        wanted = (part.wanted for planned in several for part in planned.parts)
        return [f"{name}_result" if name in called else name for name in wanted]

    def _publish(self, several: Sequence[PlannedArtifact], whole: Composed | None = None) -> list[Artifact]:
        """Make artifacts of the staged bytes and bind their variables; `whole` is the content of an output that passes whole."""
        artifacts: list[Artifact] = []
        for planned in several:
            artifact, names = self._publish_at_once(planned, whole) or self._publish_in_steps(planned)
            named = list(zip(names, planned.parts, strict=True))
            self._variables += variables.bound(artifact, named, self._turn.step)
            artifacts.append(artifact)
        return artifacts

    def _publish_at_once(self, planned: PlannedArtifact, whole: Composed | None) -> tuple[Artifact, list[str]] | None:
        """Publish an artifact with one name by one statement; None, and nothing is inserted, if that does not suffice.

        If it is all that is stored of an output that passes whole, the statement appends the output's step, too.
        """
        connection, scope, turn, buffered = self._connection, self._scope, self._turn, self._stage.buffered(planned)
        if buffered is None or len(planned.parts) != 1 or not at_once.can_publish(connection, buffered):
            return None
        [part], [wanted] = planned.parts, self._wanted([planned])
        of: Any = {"step": turn.step, "origin": "output", "public_id": new_id(scope)}
        is_alone = self._is_one_statement(self._plan.artifacts)
        if is_alone and whole is not None:
            of["output"] = lambda name: self._columns(whole, [], [], [name])
        found = scope.publish_at_once(connection, buffered, planned.about, part, wanted, kept=turn.bytes, **of)
        if found is None:
            if is_alone:
                self._see_room([planned])
            return None
        inserted, name = found
        self._is_appended = "output" in of and inserted.is_next
        self._bound = None  # the names near the wanted ones are others now
        if is_alone:
            came = Came(inserted.came.bytes + len(buffered.content.data), inserted.came.rows + 1)
            self._refuse(room.excess_within(connection, scope, {}, turn.bytes, came))
        return inserted.artifact, [name]

    def _publish_in_steps(self, planned: PlannedArtifact) -> tuple[Artifact, list[str]]:
        connection, scope, step = self._connection, self._scope, self._turn.step
        mine = [variable.name for variable in self._variables]
        names = variables.free(connection, scope.row, self._wanted([planned]), mine, known=self._bound)
        blob, of = self._stage.publish(connection, planned), dict[str, Any](step=step, origin="output")
        artifact = scope.publish(connection, blob, planned.about, public_id=new_id(scope), **of)
        variables.bind(
            connection,
            tenant=scope.tenant,
            session_row=scope.row,
            artifact_row=artifact.row_id,
            named=list(zip(names, planned.parts, strict=True)),
            **of,
        )
        return artifact, names

    def _columns(
        self,
        composed: Composed,
        apart: Sequence[Sequence[Artifact]],
        beside: Sequence[Artifact],
        names: Sequence[str],
    ) -> dict[str, Any]:
        """The columns of the output's row in the ledger; `apart` are the artifacts of each replacement, `names` all new ones."""
        prepared, plan = self._prepared, self._plan
        replaced_rows = [[artifact.row_id for artifact in artifacts] for artifacts in apart]
        beside_rows = [artifact.row_id for artifact in beside]
        rows = [row for some in replaced_rows for row in some]
        replacements = (
            [[at, *some] for at, some in zip(composed.places, replaced_rows, strict=True)] if composed.places else []
        )
        own = rows or beside_rows  # an output that passes whole has only the artifacts kept beside it
        more: dict[str, Any] = {
            "blocks": len(prepared.blocks) if isinstance(composed.content, list) else None,
            "stands": replacements,  # stored under this name; `replay` reads it
            "artifacts": own if len(own) > 1 and not replacements else None,
            "beside": beside_rows if rows else None,
            "variables": names,
            "instructions": prepared.instructions,
            "mapper": prepared.mapped,
        }
        return {
            "tool": prepared.tool,
            "call_id": prepared.call_id,
            "call_digest": prepared.call_digest,
            "content_digest": prepared.digest,
            "arguments": prepared.arguments,
            "route": plan.route.value,
            "reason": plan.reason,
            "content": formats.to_json(composed.content) if isinstance(composed.content, list) else composed.content,
            "tokens": composed.tokens,
            "original_tokens": prepared.tokens,
            "original_bytes": prepared.size,
            "artifact_id": own[0] if own else None,
            "is_error": prepared.is_error,
            "detail": self._numbers() | {key: value for key, value in more.items() if value},
        }

    def _numbers(self) -> dict[str, Any]:
        """Return the numbers behind the decision, for `explain`."""
        scope, plan, verdict, turn = self._scope, self._plan, self._prepared.verdict, self._turn
        compared: Any = verdict
        if plan.reason == "headroom":
            compared = headroom(self._prepared, self._prepared.tokens, turn)
        numbers: dict[str, Any] = {
            "value": compared.value,
            "limit": compared.limit,
            "unit": compared.unit,
            "context": turn.context,
            "calibration": round(turn.calibration, 4),
            "headroom_limit": gates.headroom_limit(scope.policy, scope.window),
            "byte_threshold": gates.byte_threshold(scope.policy, scope.window),
            "window": scope.window,
        }
        if plan.reason != verdict.reason:
            numbers["per_output"] = verdict.reason
        if plan.excess is not None and plan.reason == plan.excess.reason:
            numbers |= {"value": plan.excess.value, "limit": plan.excess.limit, "unit": "bytes"}
        elif plan.excess is not None:
            numbers["unkept"] = plan.excess.reason
        elif any(is_too_large(self._prepared, block) for block in self._prepared.kept):
            numbers["unkept"] = "max_artifact_bytes"
        if plan.seen is not None:
            numbers["seen"] = plan.seen
        cut = [each.builder for each in plan.replacements if isinstance(each.builder, TruncatedBuilder)]
        if cut:
            numbers["omitted_bytes"] = sum(builder.omitted_bytes for builder in cut)
        notes = [block.note for block in self._prepared.blocks if block.note]
        if notes and plan.route is not Route.VARIABLES:
            numbers["plaintext"] = notes[0]
        return numbers
