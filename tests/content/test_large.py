"""Long outputs take shortcuts: their texts and stored data are the same as without them."""

from __future__ import annotations

import threading
from contextlib import closing

import msgspec
import pytest

from byref import Engine, Policy
from byref.accounting.tokens import CharCounter, SampledCounter
from byref.content.blocks import Written, to_block
from byref.describe.truncate import head_of
from byref.jsonscan import chunks
from byref.stores import frames

ROWS = [{"id": n, "name": f"user {n}", "score": n * 0.618033988749895 % 1} for n in range(40_000)]


NAMED = {
    "ASCII": ROWS,
    "Latin": [row | {"name": "Zoë"} for row in ROWS],
    "now and then": [row | {"name": "Zoë" if row["id"] % 997 == 5 else "Zoe"} for row in ROWS],
    "Chinese": [row | {"name": "用户", "更多": "也是一样"} for row in ROWS],
    "emoji": [row | {"name": "🙂" * (row["id"] % 7)} for row in ROWS],
    "only emoji": ["🙂" * 5_000] * 100,
}


@pytest.mark.parametrize("rows", NAMED.values(), ids=NAMED)
def test_the_text_of_long_json_is_made_only_where_it_is_asked_for(rows: list[object]) -> None:
    block = to_block(rows)
    assert type(block) is Written and block.size > chunks.BIG
    assert block.tokens(SampledCounter().count, "json") and block.head(200)
    assert "text" not in vars(block)
    assert block.text == block.data.decode().replace("\n", "") and len(block.text.encode()) == block.size
    assert block.line_count == len(rows) + 2
    for kept in (0, 1, 13, 200, 2_000, len(block.text) - 1, len(block.text), len(block.text) + 1):
        assert block.head(kept) == head_of(block.text, kept)


ODD_ROWS = {
    "numbers": list(range(400_000)),
    "long and short": [["x" * 20_000, list(range(5_000))]] * 60,
    "two languages": ["a name in English " * 3] * 20_000 + ["也是一样的名字" * 4] * 20_000,
}


@pytest.mark.parametrize("rows", (NAMED | ODD_ROWS).values(), ids=NAMED | ODD_ROWS)
def test_the_tokens_of_long_json_are_estimated_as_those_of_its_text(rows: list[object]) -> None:
    block, count = to_block(rows), SampledCounter().count
    assert type(block) is Written
    assert block.tokens(count, "json") == pytest.approx(count(block.text, "json"), rel=0.08)
    assert block.tokens(CharCounter().count, "json") == pytest.approx(CharCounter().count(block.text, "json"), rel=1e-4)


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xed\xa0\x80", "é".encode()[:1], "é".encode()[1:], b"\x80" * 1_000_000], ids=range(5)
)
@pytest.mark.parametrize("place", [0, 16_383, 16_384, 2_000_000], ids=str)
def test_what_is_not_utf8_is_noted_although_no_text_is_made(bad: bytes, place: int) -> None:
    raw = msgspec.Raw(b'"' + b"a" * place + bad + b"b" * (2_000_000 - place) + b'"')
    block = to_block([raw, raw])
    assert block.text == "[output of type list could not be read: UnicodeDecodeError]"


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
