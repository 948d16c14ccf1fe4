"""Many blocks, large blocks, blocks that cannot be stored: bounded, recorded, replayed, never hidden."""

from __future__ import annotations

from typing import Any

import pytest
from material import Opener, prose, records

from byref import Engine, Policy, Session, StorageFailure, ToolOutput


def png(size: int) -> bytes:
    """Bytes that begin as a PNG does, exactly so many."""
    return b"\x89PNG\r\n\x1a\n".ljust(size, b"\x07")


def test_what_cannot_be_stored_is_recorded_even_without_headroom(session: Session) -> None:
    session.record_usage({"input_tokens": 139_000, "output_tokens": 0})
    output = [{"type": "text", "text": "word " * 6_000}, {"type": "hologram", "stuff": "abc " * 3_000}]
    result = session.process(output, tool="t", call_id="c")
    assert isinstance(result.content, list)
    assert result.step is not None
    assert result.content[1] == output[1]
    assert result.content[0] != output[0]
    assert session.process(output, tool="t", call_id="c").content == result.content


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_a_replay_has_the_same_artifacts_and_envelope(session: Session) -> None:
    output = [
        {"text": prose(1_200_000)},
        {"json": records(30_000)},
        {"image": {"format": "png", "source": {"bytes": png(5_000_000)}}},
    ]
    first = session.process(output, tool="t", call_id="c")
    again = session.process(output, tool="t", call_id="c")
    assert first.envelope is not None
    assert (again.content, again.envelope) == (first.content, first.envelope)
    assert [a.id for a in again.artifacts] == [a.id for a in first.artifacts]
    assert [v.name for v in again.variables] == [v.name for v in first.variables]


def test_headroom_holds_for_a_counter_that_knows_kinds(counted: Opener) -> None:
    for size in (200, 220, 250, 400):
        session = counted(window=100_000, tools=[])
        session.record_usage({"input_tokens": 69_900, "output_tokens": 0})
        result = session.process([{"id": j, "v": "x" * 10} for j in range(size)], tool="t")
        assert result.route == "truncate"
        assert result.tokens < result.original_tokens


def test_no_error_text_is_hidden_behind_a_placeholder(session: Session) -> None:
    output = ToolOutput([f"Traceback {i} " + "boom " * 700 for i in range(10)], is_error=True)
    result = session.process(output, tool="t")
    assert result.route == "truncate"
    assert result.tokens <= 2_700
    assert "Traceback 0" in result.text and "[text:" not in result.text


@pytest.mark.parametrize("knobs", [{"mode": "truncate"}, {"tools": ()}])
@pytest.mark.slow
def test_any_number_of_blocks_is_bounded(counted: Opener, knobs: Any) -> None:
    session = counted(**knobs)
    result = session.process([{"type": "text", "text": f"{i} " + prose(1_200)} for i in range(1_000)], tool="t")
    assert result.route == "truncate"
    assert result.tokens <= 7_000 + 2_700


@pytest.mark.slow
def test_any_number_of_blocks_is_bounded_while_the_database_is_away(
    local: Engine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = local.session("s", tenant=tenant, context_window=100_000)
    blocks = [{"type": "text", "text": f"{i} " + prose(1_200)} for i in range(900)]

    def away(*_: object) -> None:
        raise StorageFailure

    monkeypatch.setattr(type(local.database), "read", away)
    monkeypatch.setattr(type(local.database), "write", away)
    result = session.process([*blocks, {"type": "hologram", "of": "a"}], tool="t")
    assert result.reason == "storage_failure"
    assert result.tokens <= 2_700
    assert result.text.count("INCOMPLETE") == 1
    assert isinstance(result.content, list) and result.content[-1] == {"type": "hologram", "of": "a"}


@pytest.mark.postgresql("columns of JSON and text give back what was written: order of keys, NUL, lone surrogates")
def test_history_says_what_was_not_kept(counted: Opener) -> None:
    session = counted(max_artifact_bytes=1_000)
    session.process([{"text": "w " * 50_000}, {"json": records(3_000)}, {"text": "small"}], tool="t")
    assert session.history()[0].original == [None, None, {"text": "small"}]


def test_a_small_image_does_not_slip_below_the_floor(counted: Opener) -> None:
    session = counted(window=100_000)
    session.record_usage({"input_tokens": 69_000, "output_tokens": 0})
    result = session.process([{"image": {"format": "png", "source": {"bytes": png(300)}}}], tool="t")
    assert (result.route, result.reason) == ("inline", "not_smaller") or result.route == "placeholder"
    assert session.context_tokens() <= 70_000


def test_a_mapper_that_fails_at_one_block_leaves_all(local: Engine, tenant: str) -> None:
    def once(value: dict[str, int]) -> dict[str, int]:
        return {"mapped": 10 // value["a"]}

    policy = Policy(per_tool={"t": {"mapper": once}})
    session = local.session("s", tenant=tenant, policy=policy)
    blocks = [{"json": {"a": 5}}, {"json": {"a": 0}}]
    assert session.process(blocks, tool="t").content == blocks
    assert session.process([{"json": {"a": 5}}, {"json": {"a": 2}}], tool="t").text == '{"mapped":2}\n\n{"mapped":5}'
