"""Long outputs take shortcuts: their texts and stored data are the same as without them."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from byref import Engine, Policy
from byref.accounting.tokens import SampledCounter
from byref.content.blocks import Written, to_block
from byref.describe.truncate import head_of
from byref.jsonscan import chunks
from byref.stores import frames

ROWS = [{"id": n, "name": f"user {n}", "score": n * 0.618033988749895 % 1} for n in range(40_000)]


def test_the_text_of_long_json_is_made_only_where_it_is_asked_for() -> None:
    block = to_block(ROWS)
    assert type(block) is Written and block.size > chunks.BIG
    assert block.tokens(SampledCounter().count, "json") and block.head(200)
    assert "text" not in vars(block)
    assert block.text == block.data.decode().replace("\n", "") and len(block.text) == block.size
    assert block.head(200) == head_of(block.text, 200)
    assert block.line_count == len(ROWS) + 2


@pytest.mark.parametrize("rows", [ROWS, list(range(400_000)), [["x" * 20_000, list(range(5_000))]] * 60])
def test_the_tokens_of_long_json_are_estimated_as_those_of_its_text(rows: list[object]) -> None:
    block, count = to_block(rows), SampledCounter().count
    assert type(block) is Written
    assert block.tokens(count, "json") == pytest.approx(count(block.text, "json"), rel=0.08)


def test_long_json_that_is_not_ascii_has_its_text_at_once() -> None:
    block = to_block([{"name": "Zoë"}] * 100_000)
    assert type(block) is not Written and block.size == len(block.text.encode())


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, frames.FRAME_BYTES, 3 * frames.FRAME_BYTES + 5, 30 * frames.FRAME_BYTES])
def test_frames_that_are_compressed_ahead_are_those_of_a_cut(size: int) -> None:
    data = b"".join(b"line %d of many\n" % n for n in range(size // 14 + 1))[:size]
    with closing(frames.compressing(data)) as ahead:
        assert list(ahead) == list(frames.cut([data]))


def test_frames_that_nobody_asks_for_leave_no_thread() -> None:
    before = threading.active_count()
    ahead = frames.compressing(bytes(20 * frames.FRAME_BYTES))
    assert threading.active_count() > before
    ahead.close()
    assert threading.active_count() == before and list(ahead) == []


def test_an_output_that_is_not_stored_leaves_no_thread() -> None:
    rows = ROWS * 2
    with Engine("sqlite://", jail="language-only") as engine:
        session = engine.session("long", policy=Policy(max_artifact_bytes=len(to_block(rows).data)))
        before = threading.active_count()
        assert session.process(rows, tool="list").route == "variables"
        session = engine.session("full", policy=Policy(max_session_bytes=1_000))
        assert session.process(rows[1:], tool="list").route == "truncate"
        assert threading.active_count() == before


@pytest.mark.parametrize("word", [b"NaN", rb"\u", b"a.c", "é".encode()])
def test_a_word_is_found_in_long_data_as_in_short(word: bytes) -> None:
    long = b"abc" * 60_000
    assert not chunks.holds(long, word) and not chunks.holds(b"abc", word)
    assert chunks.holds(long + word + long, word) and chunks.holds(word + b"abc", word)
