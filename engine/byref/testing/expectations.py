"""What a conversation is expected to have become; a failure says why it became something else."""

from __future__ import annotations

from collections.abc import Sequence

from byref.accounting.ledger import Entry
from byref.session import Session


def assert_routes(session: Session, **expected: str | Sequence[str]) -> None:
    """Assert which routes the outputs of tools took: `assert_routes(session, list_orders="variables", ping=["inline", "inline"])`.

    A text is the route of each output of the tool, of which there must be one; a sequence, those of all, in order. Other tools do not
    matter.

    Raises:
        AssertionError: a tool's outputs took other routes, or there are none; the text has what decided.
    """
    outputs = [entry for entry in session.ledger() if entry.kind == "output"]
    faults: list[str] = []
    for tool, routes in expected.items():
        found = [entry for entry in outputs if entry.tool == tool]
        took = [entry.route for entry in found]
        if took and (set(took) == {routes} if isinstance(routes, str) else took == list(routes)):
            continue
        faults.append(f"{tool}: expected {routes!r}, took {took}" if found else f"{tool}: there is no output of it")
        faults += [f"  {session.explain(entry.step)}" for entry in found]
    if faults:
        tools = sorted({str(entry.tool) for entry in outputs})
        raise AssertionError("\n".join([*faults, f"(outputs came from {', '.join(tools) or 'no tool'})"]))


def assert_tokens(session: Session, at_most: int) -> None:
    """Assert that the outputs and replies of a session added at most so many tokens to the context.

    Raises:
        AssertionError: they added more; the text has the largest, first the one that added most.
    """
    read = [entry for entry in session.ledger() if entry.kind in ("output", "reply")]
    total = sum(entry.tokens for entry in read)
    if total > at_most:
        read.sort(key=lambda entry: -entry.tokens)
        largest = "\n".join(f"  {_named(entry)}: {entry.tokens:,} tokens, {entry.route}" for entry in read[:5])
        raise AssertionError(
            f"{total:,} tokens were added to the context, {at_most:,} were expected at most; the largest:\n{largest}"
        )


def _named(entry: Entry) -> str:
    return f"step {entry.step}, {entry.tool}"
