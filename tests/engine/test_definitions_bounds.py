"""Definitions are read on the host by each run that names them: what a session may keep of them is bounded."""

from __future__ import annotations

from byref import Session
from byref.names import MAX_DEFINITION_CHARS

BODY = "\n    x = 'aaaaaaaa'" * 2_500


def _define(session: Session, *names: str) -> str:
    code = "\n".join(f"def {name}():{BODY}\n    return '{name}'" for name in names)
    return str(session.call("code_interpreter", {"code": code}).content)


def test_all_definitions_together_are_bounded(chat: Session) -> None:
    per_call = 3
    calls = MAX_DEFINITION_CHARS // (per_call * len(BODY)) + 1
    replies = [_define(chat, *(f"f{call}_{number}" for number in range(per_call))) for call in range(calls)]
    assert not any("not kept" in reply for reply in replies[:-1])
    assert f"definitions of more than {MAX_DEFINITION_CHARS:,} characters" in replies[-1]
    assert chat.run("f0_0()").value == "f0_0"
    assert "not kept" not in _define(chat, "f0_0")  # in place of what is there
    assert "small (function)" in chat.call("code_interpreter", {"code": "small = lambda: 1"}).content
    chat.reset()
    assert "not kept" not in _define(chat, "f0_0", "f0_1", "f0_2")
