"""What a reply costs the database: few statements and few transactions; and the tokens of a text are counted once."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlcheck import statements_of

from byref import CharCounter, Engine, Session
from byref_sandbox import Sandbox

CALLS = {
    # call, statements, of them BEGINs where the driver shows them (SQLite)
    "artifact_read": ({"start_line": 20_000, "end_line": 20_010}, 4, 1),
    "artifact_grep": ({"pattern": "line 2[0-9] "}, 5, 1),
    "artifact_jq": ({"expression": ".[3]"}, 5, 1),
    "code_interpreter": ({"code": "1 + 1"}, 4, 2),
}
"""By tool: its arguments, and how many statements and transactions the reply may take."""


@pytest.mark.postgresql("how many statements are sent, and that one alone begins no transaction")
@pytest.mark.parametrize("tool", CALLS)
def test_a_reply_takes_few_statements(engine: Engine, session: Session, tool: str) -> None:
    log = session.store_artifact("".join(f"line {number} of a log\n" for number in range(60_000)))  # in two frames
    rows = session.store_artifact([{"id": number} for number in range(100)])
    arguments, most, begun = CALLS[tool]
    if tool != "code_interpreter":
        arguments = arguments | {"artifact_id": (rows if tool == "artifact_jq" else log).id}
    assert not session.call(tool, arguments).is_error
    with statements_of(engine) as statements:
        assert not session.call(tool, arguments).is_error
    begins = [statement for statement in statements if statement.startswith("BEGIN")]
    assert len(statements) - len(begins) <= most, statements
    assert len(begins) <= begun, statements


def test_a_text_is_counted_once(sandbox: Sandbox) -> None:
    counted = Counter[tuple[str, str]]()

    class Noting(CharCounter):
        def count(self, text: str, kind: str = "text") -> int:
            counted[text, kind] += 1
            return super().count(text, kind)  # type: ignore[arg-type]

    with Engine("sqlite:///:memory:", interpreter=sandbox, counter=Noting()) as engine:
        session = engine.session("chat")
        kept = session.store_artifact("a line\n" * 9_000)
        for tool, arguments in {
            "artifact_read": {"artifact_id": kept.id},
            "artifact_grep": {"artifact_id": kept.id, "pattern": "line"},
            "code_interpreter": {"code": "'x' * 500"},
        }.items():
            counted.clear()
            reply = session.call(tool, arguments)
            assert not reply.is_error and isinstance(reply.content, str)
            assert counted[reply.content, "text"] == 1
            assert set(counted.values()) == {1}
            assert reply.tokens == session.ledger()[-1].tokens == CharCounter().count(reply.content)
